//! The message a guest sends: any user's process may send any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use record::guest::Message;
use record::wire::{self, Sink, Writer, key, kind};

fuzz_target!(|bytes: &[u8]| {
    let _ = record::guest::decode(bytes);
    // As the list of objects of a good message, where most of the code is.
    let mut buf = vec![0; bytes.len() + 64];
    let mut out = Writer::new(&mut buf);
    out.open_map();
    for (key, value) in [(key::VERSION, wire::VERSION), (key::KIND, kind::START)] {
        out.uint(key);
        out.uint(value);
    }
    out.uint(key::OBJECTS);
    out.put(bytes);
    out.end();
    if let Ok(Message::Start(start)) = record::guest::decode(out.written()) {
        let paths: usize = start.objects.iter().map(|object| object.path.len()).sum();
        assert!(paths <= bytes.len(), "nothing is larger than what was sent");
    }
});
