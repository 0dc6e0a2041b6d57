//! Cleo's short log and its rows: commands of users are in both.
#![no_main]

use import::Collected;
use import::cleo::{log, rows};
use jiff::tz::TimeZone;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let _ = log::read(text, "fuzz", &TimeZone::UTC, None, &mut Collected::default());
    let _ = rows::read(text, "fuzz", &TimeZone::UTC, None, &mut Collected::default());
});
