//! The XML of gmond and gmetad.
#![no_main]

use import::ganglia::xml::read;
use import::monitor::Taken;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let _ = read(text, &mut Taken::default());
    let inside = [b"<GANGLIA_XML><CLUSTER NAME='c' LOCALTIME='1794844508'><HOST NAME='h'>", text].concat();
    let _ = read(&inside[..], &mut Taken::default());
});
