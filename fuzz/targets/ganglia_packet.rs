//! Packets of gmond and gmetric, one after another: the first byte of each says how long it is.
#![no_main]

use import::ganglia::Packets;
use import::monitor::Taken;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut packets = Packets::new(8);
    let mut rest = bytes;
    while let Some((length, bytes)) = rest.split_first() {
        let (packet, after) = bytes.split_at(bytes.len().min(usize::from(*length)));
        packets.packet(packet, "sender", 1_794_844_508_000_000_000, &mut Taken::default());
        assert!(packets.known() <= 8);
        rest = after;
    }
});
