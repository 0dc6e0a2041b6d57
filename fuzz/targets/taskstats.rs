//! What the kernel's taskstats say: nested attributes with lengths of their own.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    agent::kernel::taskstats::parse(bytes, drop);
});
