//! What network interfaces carried: `/proc/net/dev`, of the network namespace of the agent.

use std::collections::HashMap;

use crate::read::{Reader, lines, number, words};

/// One interface since it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub name: Vec<u8>,
    /// A device stands behind it. Bridges, bonds and VLANs carry again what such a one carries. IP over InfiniBand is
    /// physical, and counted at the port of the adapter as well.
    pub is_physical: bool,
    pub received: Traffic,
    pub sent: Traffic,
}

/// One direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    pub bytes: u64,
    pub packets: u64,
    pub errors: u64,
    pub drops: u64,
}

/// Reads the interfaces again and again.
#[derive(Default)]
pub(super) struct Network {
    physical: HashMap<Vec<u8>, bool>,
}

impl Network {
    /// What was learnt of names is learnt anew.
    pub(super) fn forget(&mut self) {
        self.physical.clear();
    }

    pub(super) fn read(&mut self, proc: &mut Reader, sys: &mut Reader) -> Vec<Interface> {
        let mut interfaces = proc.all(b"net/dev").map(parse_dev).unwrap_or_default();
        for interface in &mut interfaces {
            interface.is_physical = self.is_physical(&interface.name, sys);
        }
        interfaces
    }

    fn is_physical(&mut self, name: &[u8], sys: &mut Reader) -> bool {
        if let Some(is_physical) = self.physical.get(name) {
            return *is_physical;
        }
        let is_physical = !name.contains(&b'/') && sys.exists(&[b"class/net/", name, b"/device"].concat());
        self.physical.insert(name.to_vec(), is_physical);
        is_physical
    }
}

/// `eth0: 1 2 …`, eight numbers received and eight sent; old kernels have no space after the colon. Lines that are
/// not understood, such as the two of the heading, are left out.
pub fn parse_dev(text: &[u8]) -> Vec<Interface> {
    lines(text).filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Interface> {
    // Old kernels allow a colon in a name; there is none in the numbers.
    let (name, numbers) = line.split_at_checked(line.iter().rposition(|byte| *byte == b':')?)?;
    let name = name.trim_ascii();
    let mut numbers = words(numbers.get(1..)?).map(number);
    let received = traffic(&mut numbers)?;
    // Fifo, frame, compressed and multicast.
    let sent = traffic(&mut numbers.skip(4))?;
    (!name.is_empty()).then(|| Interface { name: name.to_vec(), is_physical: false, received, sent })
}

fn traffic(numbers: &mut impl Iterator<Item = Option<u64>>) -> Option<Traffic> {
    let mut next = || numbers.next()?;
    Some(Traffic { bytes: next()?, packets: next()?, errors: next()?, drops: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    fn interface(name: &[u8], is_physical: bool) -> Interface {
        Interface {
            name: name.to_vec(),
            is_physical,
            received: Traffic { bytes: 1, packets: 2, errors: 3, drops: 4 },
            sent: Traffic { bytes: 9, packets: 10, errors: 11, drops: 12 },
        }
    }

    #[test]
    fn names_of_all_kinds() {
        let numbers = b" 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        for (line, expected) in [
            (&b"  eth0:"[..], Some(&b"eth0"[..])),
            (b"enp65s0f1np1:", Some(b"enp65s0f1np1")),
            (b"eth0:1:", Some(b"eth0:1")),
            (b"bad\xff\xc3:", Some(b"bad\xff\xc3")),
            (b"../../x:", Some(b"../../x")),
            (b":", None),
            (b"eth0", None),
            (b"eth0: x", None),
        ] {
            let text = [line, numbers].concat();
            let expected: Vec<Interface> = expected.map(|name| interface(name, false)).into_iter().collect();
            assert_eq!(parse_dev(&text), expected, "{line:?}");
        }
        assert_eq!(parse_dev(b"eth0:1 2 3 4 5 6 7 8 9 10 11 12"), [interface(b"eth0", false)]);
        assert_eq!(parse_dev(b"eth0: 1 2 3 4 5 6 7 8 9 10 11"), []);
    }

    #[test]
    fn an_interface_that_comes_is_asked_for_at_once() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("net")).unwrap();
        fs::create_dir_all(tree.path().join("class/net/eth0/device")).unwrap();
        fs::create_dir_all(tree.path().join("class/net/ib0")).unwrap();
        let mut network = Network::default();
        let mut read = |names: &[&str], is_again: bool| {
            let numbers = ": 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
            let text: String = names.iter().map(|name| format!("{name}{numbers}")).collect();
            fs::write(tree.path().join("net/dev"), text).unwrap();
            if is_again {
                network.forget();
            }
            network.read(&mut Reader::new(tree.path()), &mut Reader::new(tree.path()))
        };
        assert_eq!(read(&["eth0"], false), [interface(b"eth0", true)]);
        assert_eq!(read(&["eth0", "ib0"], false), [interface(b"eth0", true), interface(b"ib0", false)]);
        fs::create_dir(tree.path().join("class/net/ib0/device")).unwrap();
        assert_eq!(read(&["ib0"], false), [interface(b"ib0", false)], "remembered");
        assert_eq!(read(&["ib0"], true), [interface(b"ib0", true)]);
        assert_eq!(read(&["ib0/../eth0"], true), [interface(b"ib0/../eth0", false)]);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_dev(&bytes);
            let _ = parse_dev(&[b"eth0: 1 2 3 ", bytes.as_slice()].concat());
        }
    }
}
