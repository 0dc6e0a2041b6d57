//! The memory a guest shares with the agent: the program may write anything into it, at any time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use record::wire::late;

fuzz_target!(|bytes: &[u8]| {
    let _ = record::guest::decode_late(bytes);
    // Behind a good header, where most of the code is.
    let mut memory = vec![0; late::LIST];
    memory[..4].copy_from_slice(&late::DONE.to_le_bytes());
    memory[4..8].copy_from_slice(&((late::LIST + bytes.len()) as u32).to_le_bytes());
    memory.extend_from_slice(bytes);
    if memory.len() <= late::BYTES {
        assert!(record::guest::decode_late(&memory).is_some(), "a finished list is read");
    }
});
