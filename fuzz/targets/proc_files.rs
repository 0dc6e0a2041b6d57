//! Files of `/proc/PID`: a process chooses its own name and the names of what it maps.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sample::process::{parse_maps, parse_stat, parse_status};

fuzz_target!(|text: &[u8]| {
    let _ = parse_stat(text);
    let _ = parse_status(text);
    let _ = parse_maps(text);
});
