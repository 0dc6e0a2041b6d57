//! `sacct --json`, of a version that does not exist yet.
#![no_main]

use import::Collected;
use import::slurm::json::read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let _ = read(text, "fuzz", text.len() % 2 == 0, &mut Collected::default());
});
