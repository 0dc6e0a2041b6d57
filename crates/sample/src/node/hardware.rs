//! What the node is made of. It is read once: nothing of it changes before the next boot, unless processors or memory
//! are switched off.

use std::collections::HashSet;
use std::path::PathBuf;

use super::cpulist::{CpuList, parse_cpulist};
use super::memory::parse_meminfo;
use super::peak::{Machine, Peak, peak};
use super::processor::{Processor, parse_cpuinfo};
use crate::read::{Reader, kib, lines, number, words};

/// No kernel is built for more processors; of a list that claims more the rest is not looked at.
const PROCESSORS_MAX: usize = 8192;

/// Everything that is known. What is absent could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hardware {
    pub topology: Topology,
    pub processor: Processor,
    /// Without boost.
    pub base_hz: Option<u64>,
    /// With boost, where the driver knows of it.
    pub max_hz: Option<u64>,
    /// In bytes, without what the firmware and the kernel's image take.
    pub memory: Option<u64>,
    pub numa: Vec<NumaNode>,
    /// Those that the first processor uses.
    pub caches: Vec<Cache>,
    /// In double precision.
    pub peak: Peak,
}

/// How many, of those that are online.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Topology {
    pub sockets: Option<u64>,
    pub cores: Option<u64>,
    pub threads: Option<u64>,
}

/// Memory, and the processors that are near to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumaNode {
    pub node: u64,
    pub memory: Option<u64>,
    /// Empty where there is memory only.
    pub cpus: Option<CpuList>,
}

/// One cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    pub level: u64,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: Option<Vec<u8>>,
    /// Unknown on some ARM machines.
    pub bytes: Option<u64>,
    /// How many threads have it in common.
    pub shared_by: Option<u64>,
}

impl Hardware {
    /// Reads below these directories, usually `/proc` and `/sys`.
    pub fn read(proc: impl Into<PathBuf>, sys: impl Into<PathBuf>) -> Hardware {
        let (mut proc, mut sys) = (Reader::new(proc), Reader::new(sys));
        let online = sys.once(b"devices/system/cpu/online").ok().and_then(parse_cpulist);
        let first = online.as_ref().and_then(|online| online.iter().next()).unwrap_or(0);
        let topology = online.map(|online| Topology::read(&online, &mut sys)).unwrap_or_default();
        // The first piece has the first processor; the others cost an interrupt each for their frequency.
        let processor = proc.once(b"cpuinfo").map(parse_cpuinfo).unwrap_or_default();
        let (base_hz, max_hz) = (base_hz(first, &mut sys), max_hz(first, &mut sys));
        let machine = Machine {
            processor: &processor,
            cores: topology.cores,
            base_hz,
            max_hz,
            sve_bytes: proc.number(b"sys/abi/sve_default_vector_length"),
        };
        Hardware {
            topology,
            base_hz,
            max_hz,
            memory: proc.once(b"meminfo").ok().and_then(|text| parse_meminfo(text).total),
            numa: read_numa(&mut sys),
            caches: read_caches(first, &mut sys),
            peak: peak(machine),
            processor,
        }
    }
}

impl Topology {
    fn read(online: &CpuList, sys: &mut Reader) -> Topology {
        let mut count = |name: &str, is_valid: fn(&[u8]) -> bool| {
            let mut distinct = HashSet::new();
            for cpu in online.iter().take(PROCESSORS_MAX) {
                let text = sys.text(format!("devices/system/cpu/cpu{cpu}/topology/{name}").as_bytes());
                distinct.insert(text.filter(|text| is_valid(text))?);
            }
            (!distinct.is_empty()).then_some(distinct.len() as u64)
        };
        Topology {
            // Machines that describe themselves poorly have -1.
            sockets: count("physical_package_id", |text| number(text).is_some()),
            // A core is the threads that share it. Its number would do only together with those of package, die
            // and cluster, as far as a kernel has them.
            cores: count("thread_siblings_list", |text| parse_cpulist(text).is_some()),
            threads: Some(online.count()),
        }
    }
}

/// Of Intel's driver in kHz, else of the firmware's tables in MHz, which give 0 where they do not know.
fn base_hz(cpu: u32, sys: &mut Reader) -> Option<u64> {
    let khz = sys.number(format!("devices/system/cpu/cpu{cpu}/cpufreq/base_frequency").as_bytes());
    let mhz = sys.number(format!("devices/system/cpu/cpu{cpu}/acpi_cppc/nominal_freq").as_bytes());
    let hz = khz.and_then(|khz| khz.checked_mul(1000)).or(mhz.and_then(|mhz| mhz.checked_mul(1_000_000)));
    hz.filter(|hz| *hz > 0)
}

fn max_hz(cpu: u32, sys: &mut Reader) -> Option<u64> {
    let khz = sys.number(format!("devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq").as_bytes());
    khz?.checked_mul(1000).filter(|hz| *hz > 0)
}

fn read_numa(sys: &mut Reader) -> Vec<NumaNode> {
    let mut nodes = Vec::new();
    for name in sys.sorted(b"devices/system/node") {
        let Some(node) = name.strip_prefix(b"node").and_then(number) else { continue };
        let path = |file: &[u8]| [b"devices/system/node/", name.as_slice(), b"/", file].concat();
        let memory = sys.once(&path(b"meminfo")).ok().and_then(parse_node_meminfo);
        let cpus = sys.once(&path(b"cpulist")).ok().and_then(parse_cpulist);
        nodes.push(NumaNode { node, memory, cpus });
    }
    nodes
}

fn read_caches(cpu: u32, sys: &mut Reader) -> Vec<Cache> {
    let dir = format!("devices/system/cpu/cpu{cpu}/cache").into_bytes();
    let mut caches = Vec::new();
    for name in sys.sorted(&dir) {
        let path = |file: &[u8]| [dir.as_slice(), b"/", &name, b"/", file].concat();
        let Some(level) = sys.number(&path(b"level")) else { continue };
        let kind = sys.text(&path(b"type"));
        let bytes = sys.once(&path(b"size")).ok().and_then(parse_size);
        let shared_by = sys.once(&path(b"shared_cpu_list")).ok().and_then(parse_cpulist);
        let shared_by = shared_by.map(|cpus| cpus.count()).filter(|count| *count > 0);
        caches.push(Cache { level, kind, bytes, shared_by });
    }
    caches
}

/// The total in lines `Node 0 MemTotal:       98304 kB`.
pub fn parse_node_meminfo(text: &[u8]) -> Option<u64> {
    lines(text).find_map(|line| {
        let mut words = words(line);
        (words.nth(2)? == b"MemTotal:").then_some(())?;
        let value = words.collect::<Vec<_>>().join(&b' ');
        kib(&value)
    })
}

/// `49152K` in bytes.
pub fn parse_size(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    let (digits, unit) = match text.split_last()? {
        (b'K', digits) => (digits, 1 << 10),
        (b'M', digits) => (digits, 1 << 20),
        _ => (text, 1),
    };
    number(digits)?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("32K\n", Some(32768)),
            ("48M\n", Some(48 << 20)),
            ("512", Some(512)),
            ("K", None),
            ("", None),
            ("1G", None),
            ("18446744073709551615K", None),
        ] {
            assert_eq!(parse_size(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn memory_of_a_node() {
        for (text, expected) in [
            ("\nNode 0 MemTotal:       98304 kB\nNode 0 MemFree: 1 kB\n", Some(98304 * 1024)),
            ("Node 0 MemFree: 1 kB\nNode 0 MemTotal: 2 kB\n", Some(2048)),
            ("MemTotal: 2 kB\n", None),
            ("Node 0 MemTotal: x kB\n", None),
            ("", None),
        ] {
            assert_eq!(parse_node_meminfo(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_size(&bytes);
            let _ = parse_node_meminfo(&bytes);
            let _ = parse_node_meminfo(&[b"Node 0 MemTotal: ", bytes.as_slice()].concat());
        }
    }
}
