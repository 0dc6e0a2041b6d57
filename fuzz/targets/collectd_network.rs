//! Packets of collectd, at every level of security.
#![no_main]

use import::collectd::{Network, Security, Types, Users};
use import::monitor::Taken;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for security in [Security::None, Security::Sign, Security::Encrypt] {
        for users in ["", "a: b"] {
            let users = Users::parse(users.as_bytes(), "users").unwrap();
            let network = Network { security, users, types: Types::shipped() };
            let mut taken = Taken::default();
            network.packet(bytes, &mut taken);
            // Nobody guesses a signature.
            assert!(security == Security::None || taken.readings.is_empty());
        }
    }
});
