//! ELF notes in the memory of a process: whoever linked the library chose the bytes.
#![no_main]

use elf::notes::{BUILD_ID_MAX, Identity, Notes, SIGNATURE_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, &[u8])| {
    let (align, segment) = input;
    let mut identity = Identity::default();
    identity.absorb(segment, align);
    assert!(identity.build_id.is_none_or(|id| id.len() <= BUILD_ID_MAX));
    assert!(identity.signature.is_none_or(|id| id.len() == SIGNATURE_BYTES));
    // Every note takes at least its header: the walk ends.
    assert!(Notes::new(segment, align).count() <= segment.len() / 12);
});
