//! What collectd writes as text: posts, files, types and users.
#![no_main]

use import::collectd::csv::{self, Place};
use import::collectd::http;
use import::collectd::{Stored, Types, Users};
use import::monitor::Taken;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut types = Types::shipped();
    let _ = types.add(bytes, "types.db");
    let _ = Users::parse(bytes, "users");
    for stored in [Stored::Counts, Stored::Rates] {
        let _ = http::read(bytes, stored, &mut Taken::default());
        let place = Place::parse("h/interface-eth0/if_octets").unwrap();
        let rows = [b"epoch,rx,tx\n", bytes].concat();
        csv::read(&rows[..], &place, &types, stored, &mut Taken::default()).unwrap();
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Place::parse(text);
    }
});
