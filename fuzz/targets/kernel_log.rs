//! A record of the kernel's log: names of processes are the users'.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(pid) = agent::kernel::log::victim(bytes) {
        let text = pid.to_string();
        assert!(bytes.windows(text.len()).any(|part| part == text.as_bytes()), "{pid} is not in {bytes:?}");
    }
});
