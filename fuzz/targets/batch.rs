//! What an agent sends to the server, and the entries in it; a checksum must not keep the entries out of reach.
#![no_main]

use libfuzzer_sys::fuzz_target;
use record::batch::{Batch, Stream};
use record::entry::Entry;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(batch) = Batch::from_bytes(bytes) {
        assert!(batch.last().is_some());
    }
    // The same bytes as an entry in a batch that is well made.
    let made = Batch::new("h", Stream([0; 16]), 1, vec![bytes], vec![bytes]).to_bytes();
    let batch = Batch::from_bytes(&made).unwrap();
    for entry in batch.entries.iter().chain(&batch.context) {
        if let Ok(entry) = minicbor::decode::<Entry>(entry) {
            let _ = minicbor::to_vec(&entry).unwrap();
        }
    }
});
