//! A segment of the spool after whatever happened to the disk, and the entries in it.
#![no_main]

use agent::spool::{Item, Segment, closed_segment};
use libfuzzer_sys::fuzz_target;
use record::batch::Stream;
use record::entry::Entry;

fuzz_target!(|input: (&[u8], Vec<Vec<u8>>, usize, u8)| {
    let (bytes, payloads, at, flip) = input;
    walk(bytes);
    let clean = closed_segment(Stream([1; 16]), 1, &payloads, 0);
    let found = walk(&clean);
    assert_eq!(found, payloads, "what is written is read");
    let mut damaged = clean;
    let at = at % damaged.len();
    damaged[at] ^= flip;
    for payload in walk(&damaged) {
        assert!(payloads.contains(&payload), "an entry that was never written");
    }
});

/// Walks to the end, decodes what looks like an entry, and returns the payloads.
fn walk(bytes: &[u8]) -> Vec<Vec<u8>> {
    let entries = Segment::new(bytes).filter_map(|item| match item {
        Item::Entry(_, payload) => Some(payload),
        _ => None,
    });
    entries.inspect(|payload| drop(minicbor::decode::<Entry>(payload))).map(<[u8]>::to_vec).collect()
}
