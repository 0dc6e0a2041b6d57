//! An ELF file on disk, as any user may have written it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = elf::image::read(bytes);
});
