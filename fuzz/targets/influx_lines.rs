//! Line protocol of anybody.
#![no_main]

use import::influx::{Precision, read};
use import::monitor::Taken;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    for precision in [Precision::Seconds, Precision::Nanoseconds] {
        read(body, precision, 1_794_844_508_000_000_000, &mut Taken::default());
    }
});
