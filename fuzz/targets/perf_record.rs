//! Records in perf's rings, as the kernel writes them about hostile processes: names are any bytes.
#![no_main]

use agent::kernel::mappings::{Record, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|record: &[u8]| {
    if let Some(Record::Mapped { mapping, .. }) = parse(record) {
        assert!(mapping.start <= mapping.end && mapping.inode != 0);
        assert!(mapping.path.starts_with(b"/") && !mapping.path.contains(&0));
    }
});
