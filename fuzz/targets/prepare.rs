//! What the server makes of a batch: entries and what they refer to, in any mixture of broken and whole.
#![no_main]

use intake::{Catalogue, prepare};
use libfuzzer_sys::fuzz_target;
use record::batch::{Batch, Stream};

fuzz_target!(|bytes: &[u8]| {
    // Pieces with their lengths before them: first those among the entries, then those beside them.
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while let Some((length, more)) = rest.split_first_chunk::<2>() {
        let (piece, more) = more.split_at(usize::from(u16::from_le_bytes(*length)).min(more.len()));
        pieces.push(piece);
        rest = more;
    }
    let context = pieces.split_off(pieces.len() / 2);
    let made = Batch::new("h", Stream([0; 16]), 1, pieces, context).to_bytes();
    let Ok(batch) = Batch::from_bytes(&made) else { return };
    let catalogue = Catalogue::default();
    let Ok(first) = prepare(&batch, &catalogue) else { return };
    let told = first.rows.len() + first.gaps.len() + first.healths.len() + first.unknown.len();
    assert!(told <= batch.entries.len());
    // What is known already changes what a batch brings, not what its rows say.
    let (rows, payloads) = (first.rows, first.shared.payloads);
    catalogue.change(|stored| payloads.into_iter().for_each(|(key, item)| stored.payloads.insert(key, item)));
    let again = prepare(&batch, &catalogue).expect("it was good before");
    assert_eq!(rows.len(), again.rows.len());
    for (one, other) in rows.iter().zip(&again.rows) {
        assert_eq!(
            (one.objects, one.late_objects, one.exe_file),
            (other.objects, other.late_objects, other.exe_file)
        );
    }
});
