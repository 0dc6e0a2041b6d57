//! The memory a guest shares with the agent: the program may write anything into it, at any time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use record::wire::late;

fuzz_target!(|bytes: &[u8]| {
    let _ = record::guest::decode_late(bytes);
    // Behind a good header, where most of the code is.
    let mut region = vec![0; late::LIST];
    region[..4].copy_from_slice(&late::MAGIC.to_le_bytes());
    region[4..8].copy_from_slice(&late::DONE.to_le_bytes());
    region[8..12].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    region.extend_from_slice(bytes);
    if let Ok(late) = record::guest::decode_late(&region) {
        assert!(late.is_some(), "a finished list is a list");
    }
});
