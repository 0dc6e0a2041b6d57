//! Files about GPUs: drivers write them, and some hold what a process chose.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sample::gpu::{amd, fdinfo, files};

fuzz_target!(|text: &[u8]| {
    let _ = fdinfo::parse(text);
    let _ = amd::parse_place(text);
    let _ = files::hex(text);
    let _ = files::degrees(text);
    let _ = files::clock_in_use(text);
    let _ = files::errors(text);
    let _ = files::property(text, "size_in_bytes");
    if let Ok(text) = std::str::from_utf8(text)
        && let Some(address) = files::pci_address(text)
    {
        assert_eq!(files::pci_address(&address), Some(address));
    }
});
