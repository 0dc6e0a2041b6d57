//! What the ports of InfiniBand adapters carried: `/sys/class/infiniband`, which Omni-Path (`hfi1`) and RDMA over
//! Ethernet use as well.
//!
//! Old adapters count in 32 bits. By the standard such a counter stops at its end until it is reset, some drivers let
//! it begin again. Where the wide ones are apart, in `counters_ext` of old vendors' drivers, those are read. The values
//! are given as they are: one that stands still at 4 × (2³² - 1) bytes is such a counter.

use crate::read::{Reader, decimal, number, words};

/// One port of one adapter. Each value is asked of the adapter when it is read.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// Such as `mlx5_0`.
    pub device: Vec<u8>,
    pub port: u64,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Option<Vec<u8>>,
    pub state: Option<State>,
    /// Gigabits a second.
    pub rate_gbps: Option<f64>,
    pub received_bytes: Option<u64>,
    pub sent_bytes: Option<u64>,
    pub received_packets: Option<u64>,
    pub sent_packets: Option<u64>,
    pub receive_errors: Option<u64>,
    pub send_discards: Option<u64>,
    /// Ticks in which there was something to send and no room for it at the other end; the tick is the adapter's.
    pub send_wait: Option<u64>,
    pub link_downed: Option<u64>,
}

/// Of the link, as the standard numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Down,
    Init,
    Armed,
    Active,
    ActiveDefer,
}

/// What of a port does not change while it is there.
struct Known {
    /// `class/infiniband/mlx5_0/ports/1`.
    path: Vec<u8>,
    device: Vec<u8>,
    port: u64,
    link_layer: Option<Vec<u8>>,
    has_extended: bool,
}

/// Reads the ports again and again.
#[derive(Default)]
pub(super) struct Infiniband {
    known: Vec<Known>,
}

impl Infiniband {
    pub(super) fn look(&mut self, sys: &mut Reader) {
        self.known.clear();
        for device in sys.sorted(b"class/infiniband") {
            let ports = [b"class/infiniband/", device.as_slice(), b"/ports"].concat();
            for name in sys.sorted(&ports) {
                let Some(port) = number(&name) else { continue };
                let path = [ports.as_slice(), b"/", &name].concat();
                let link_layer = sys.text(&[path.as_slice(), b"/link_layer"].concat());
                let has_extended = sys.exists(&[path.as_slice(), b"/counters_ext/port_rcv_data_64"].concat());
                self.known.push(Known { path, device: device.clone(), port, link_layer, has_extended });
            }
        }
    }

    pub(super) fn read(&self, sys: &mut Reader) -> Vec<Port> {
        self.known.iter().map(|known| known.read(sys)).collect()
    }
}

impl Known {
    fn read(&self, sys: &mut Reader) -> Port {
        let state = self.file(sys, b"state").and_then(parse_state);
        let rate_gbps = self.file(sys, b"rate").and_then(parse_rate);
        Port {
            device: self.device.clone(),
            port: self.port,
            link_layer: self.link_layer.clone(),
            state,
            rate_gbps,
            // The standard counts data in words of four bytes.
            received_bytes: self.wide(sys, b"port_rcv_data").and_then(|words| words.checked_mul(4)),
            sent_bytes: self.wide(sys, b"port_xmit_data").and_then(|words| words.checked_mul(4)),
            received_packets: self.wide(sys, b"port_rcv_packets"),
            sent_packets: self.wide(sys, b"port_xmit_packets"),
            receive_errors: self.counter(sys, b"port_rcv_errors"),
            send_discards: self.counter(sys, b"port_xmit_discards"),
            send_wait: self.counter(sys, b"port_xmit_wait"),
            link_downed: self.counter(sys, b"link_downed"),
        }
    }

    fn wide(&self, sys: &mut Reader, name: &[u8]) -> Option<u64> {
        if !self.has_extended {
            return self.counter(sys, name);
        }
        sys.number(&[self.path.as_slice(), b"/counters_ext/", name, b"_64"].concat())
    }

    /// A driver without a counter gives `N/A (no PMA)`.
    fn counter(&self, sys: &mut Reader, name: &[u8]) -> Option<u64> {
        sys.number(&[self.path.as_slice(), b"/counters/", name].concat())
    }

    fn file<'a>(&self, sys: &'a mut Reader, name: &[u8]) -> Option<&'a [u8]> {
        sys.once(&[self.path.as_slice(), b"/", name].concat()).ok()
    }
}

/// `4: ACTIVE`.
pub fn parse_state(text: &[u8]) -> Option<State> {
    let mut parts = text.splitn(2, |byte| *byte == b':');
    match number(parts.next()?)? {
        1 => Some(State::Down),
        2 => Some(State::Init),
        3 => Some(State::Armed),
        4 => Some(State::Active),
        5 => Some(State::ActiveDefer),
        _ => None,
    }
}

/// `200 Gb/sec (4X HDR)`.
pub fn parse_rate(text: &[u8]) -> Option<f64> {
    let mut words = words(text);
    let rate = decimal(words.next()?)?;
    (words.next() == Some(b"Gb/sec")).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    #[test]
    fn states_and_rates() {
        for (text, expected) in [
            ("4: ACTIVE\n", Some(State::Active)),
            ("1: DOWN\n", Some(State::Down)),
            ("0: NOP\n", None),
            ("6: <unknown>\n", None),
            ("ACTIVE\n", None),
        ] {
            assert_eq!(parse_state(text.as_bytes()), expected, "{text}");
        }
        for (text, expected) in [
            ("200 Gb/sec (4X HDR)\n", Some(200.0)),
            ("2.5 Gb/sec (1X SDR)\n", Some(2.5)),
            ("100 Gb/sec (4X EDR)", Some(100.0)),
            ("100 Mb/sec", None),
            ("\n", None),
        ] {
            assert_eq!(parse_rate(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn wide_counters_are_preferred() {
        let tree = tempfile::tempdir().unwrap();
        let port = tree.path().join("class/infiniband/mlx4_0/ports/1");
        fs::create_dir_all(port.join("counters")).unwrap();
        fs::create_dir_all(port.join("counters_ext")).unwrap();
        for (name, content) in [
            ("counters/port_rcv_data", "4294967295\n"),
            ("counters/port_xmit_data", "4294967295\n"),
            ("counters/port_rcv_errors", "N/A (no PMA)\n"),
            ("counters_ext/port_rcv_data_64", "5000000000\n"),
            ("counters_ext/port_xmit_data_64", "18446744073709551615\n"),
        ] {
            fs::write(port.join(name), content).unwrap();
        }
        let mut sys = Reader::new(tree.path());
        let mut infiniband = Infiniband::default();
        let mut read = || {
            infiniband.look(&mut sys);
            infiniband.read(&mut sys).remove(0)
        };
        assert_eq!(read().received_bytes, Some(20_000_000_000));
        assert_eq!((read().sent_bytes, read().receive_errors), (None, None), "too large, and not there");
        fs::remove_dir_all(port.join("counters_ext")).unwrap();
        assert_eq!(read().received_bytes, Some(4 * u64::from(u32::MAX)));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse_state(&bytes);
            let _ = parse_rate(&bytes);
        }
    }
}
