//! A site's table, and readings of any name and value with the one that is shipped.
#![no_main]

use import::influx::{Precision, read};
use import::mapping::{Joiner, Mapper, Table};
use import::monitor::{System, Taken};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Table::default().add(text, "fuzz");
    }
    let mut taken = Taken::default();
    read(bytes, Precision::Seconds, 1_794_844_508_000_000_000, &mut taken);
    let mut mapper = Mapper::new(Table::shipped().unwrap(), 16);
    let mut joiner = Joiner::new(16);
    for mut reading in taken.readings {
        for system in [System::Influx, System::Ganglia, System::Collectd] {
            reading.path.system = system;
            for point in mapper.map(&reading) {
                let _ = joiner.take(point);
            }
        }
    }
    let _ = joiner.finish();
    assert!(mapper.series().0 <= 16);
});
