//! What the kernel's process connector says.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = agent::kernel::connector::parse(bytes);
    // Behind the connector's own numbers, CN_IDX_PROC and CN_VAL_PROC.
    let mut event = [1u32.to_ne_bytes(), 1u32.to_ne_bytes()].concat();
    event.extend_from_slice(bytes);
    let _ = agent::kernel::connector::parse(&event);
});
