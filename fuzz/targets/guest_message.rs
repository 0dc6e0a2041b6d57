//! The message a guest sends: any user's process may send any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = record::guest::decode(bytes);
});
