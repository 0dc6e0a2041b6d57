//! Energy that the processors count themselves (RAPL): `/sys/class/powercap`.
//!
//! AMD's processors are there as well, under the name of Intel's. Since 2020 only root may read the values.

use crate::read::Reader;

/// One zone. What is absent could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// `0` of a package, `0:1` of a part of it.
    pub id: Vec<u8>,
    /// `package-0`, `core`, `uncore`, `dram`, `psys`.
    pub name: Option<Vec<u8>>,
    /// Since boot, or since it was last `max_energy_uj`: it then begins at 0 again, within minutes under full load on
    /// some processors.
    pub energy_uj: Option<u64>,
    pub max_energy_uj: Option<u64>,
}

impl Zone {
    /// Whether it belongs in the sum over a node. Packages do, and memory, which lies below its package in the tree but
    /// is not in its count. Cores are in it; `psys` is the whole board on some machines and nothing on others.
    pub fn is_summed(&self) -> bool {
        self.name.as_deref().is_some_and(|name| name.starts_with(b"package") || name == b"dram")
    }
}

/// Reads the zones again and again.
#[derive(Default)]
pub(super) struct Energy {
    /// Each with the path of its counter and without a value.
    known: Vec<(Vec<u8>, Zone)>,
}

impl Energy {
    pub(super) fn look(&mut self, sys: &mut Reader) {
        self.known.clear();
        for dir in sys.sorted(b"class/powercap") {
            // `intel-rapl-mmio:0` counts the same by another way.
            let Some(id) = dir.strip_prefix(b"intel-rapl:") else { continue };
            let path = |file: &[u8]| [b"class/powercap/", dir.as_slice(), b"/", file].concat();
            let name = sys.text(&path(b"name"));
            let max_energy_uj = sys.number(&path(b"max_energy_range_uj"));
            let zone = Zone { id: id.to_vec(), name, energy_uj: None, max_energy_uj };
            self.known.push((path(b"energy_uj"), zone));
        }
    }

    pub(super) fn read(&self, sys: &mut Reader) -> Vec<Zone> {
        let zone = |(path, zone): &(Vec<u8>, Zone)| Zone { energy_uj: sys.number(path), ..zone.clone() };
        self.known.iter().map(zone).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_twice_is_not_summed() {
        for (name, expected) in [
            (Some("package-0"), true),
            (Some("package-1-die-0"), true),
            (Some("dram"), true),
            (Some("core"), false),
            (Some("uncore"), false),
            (Some("psys"), false),
            (None, false),
        ] {
            let name = name.map(|name| name.as_bytes().to_vec());
            let zone = Zone { id: b"0".to_vec(), name, energy_uj: None, max_energy_uj: None };
            assert_eq!(zone.is_summed(), expected, "{zone:?}");
        }
    }
}
