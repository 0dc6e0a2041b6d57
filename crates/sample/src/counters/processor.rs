//! Which processor the machine has, and what it shows of its counters.

use std::path::PathBuf;

use crate::read::{Reader, lines, list, number};

/// Who made a processor, as its counters go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vendor {
    Intel,
    Amd,
    /// Any that speaks ARM; the implementer is in [`Processor::family`], the part in [`Processor::model`].
    Arm,
}

/// A kind of processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Processor {
    pub vendor: Vendor,
    pub family: u32,
    pub model: u32,
}

/// Where the kernel tells about the machine.
#[derive(Debug, Clone)]
pub struct Machine {
    pub proc: PathBuf,
    pub sys: PathBuf,
}

impl Default for Machine {
    fn default() -> Self {
        Machine { proc: "/proc".into(), sys: "/sys".into() }
    }
}

impl Machine {
    /// The kind of the first processor; nodes of a cluster have one kind.
    pub fn processor(&self) -> Option<Processor> {
        parse_cpuinfo(Reader::new(&self.proc).all(b"cpuinfo").ok()?)
    }

    /// Processors that are switched on.
    pub fn online(&self) -> Option<Vec<u32>> {
        list(Reader::new(&self.sys).once(b"devices/system/cpu/online").ok()?)
    }

    /// Who may count: -1 is everybody, 2 and more only root.
    pub fn paranoid(&self) -> Option<i64> {
        let mut reader = Reader::new(&self.proc);
        std::str::from_utf8(reader.once(b"sys/kernel/perf_event_paranoid").ok()?).ok()?.trim().parse().ok()
    }

    /// Whether the kernel found counters in the processor. `None` if that cannot be read.
    pub fn has_counters(&self) -> Option<bool> {
        let mut found = false;
        let names = Reader::new(&self.sys).names(b"bus/event_source/devices", |name| {
            found |= name == b"cpu" || name.starts_with(b"cpu_") || name.starts_with(b"armv");
        });
        names.ok().map(|()| found)
    }
}

/// `name : value` lines; those of the first processor are used.
pub fn parse_cpuinfo(text: &[u8]) -> Option<Processor> {
    let value = |wanted: &[u8]| {
        lines(text).find_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = line.split_at(colon);
            (name.trim_ascii() == wanted).then(|| value.get(1..).unwrap_or_default().trim_ascii())
        })
    };
    let small = |wanted: &[u8]| u32::try_from(number(value(wanted)?)?).ok();
    let hexadecimal = |wanted: &[u8]| {
        let text = std::str::from_utf8(value(wanted)?.strip_prefix(b"0x")?).ok()?;
        u32::from_str_radix(text, 16).ok()
    };
    let vendor = match value(b"vendor_id") {
        Some(b"GenuineIntel") => Vendor::Intel,
        // Hygon's are Zen 1 with families of their own, and in no table.
        Some(b"AuthenticAMD") => Vendor::Amd,
        Some(_) => return None,
        None => {
            let (family, model) = (hexadecimal(b"CPU implementer")?, hexadecimal(b"CPU part")?);
            return Some(Processor { vendor: Vendor::Arm, family, model });
        }
    };
    Some(Processor { vendor, family: small(b"cpu family")?, model: small(b"model")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    #[test]
    fn kinds_of_processors() {
        let some = |vendor, family, model| Some(Processor { vendor, family, model });
        for (text, expected) in [
            (
                "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Intel(R) Xeon(R) Processor\n",
                some(Vendor::Intel, 6, 207),
            ),
            ("vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n", some(Vendor::Amd, 25, 17)),
            (
                "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU architecture: 8\n\
                 CPU variant\t: 0x1\nCPU part\t: 0xd40\nCPU revision\t: 1\n",
                some(Vendor::Arm, 0x41, 0xd40),
            ),
            ("vendor_id\t: HygonGenuine\ncpu family\t: 24\nmodel\t\t: 0\n", None),
            ("vendor_id\t: GenuineIntel\nmodel\t\t: 207\n", None),
            ("vendor_id       : IBM/S390\n", None),
            ("", None),
        ] {
            assert_eq!(parse_cpuinfo(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn what_a_machine_tells() {
        let tree = tempfile::tempdir().unwrap();
        let machine = Machine { proc: tree.path().join("proc"), sys: tree.path().join("sys") };
        assert_eq!((machine.processor(), machine.online()), (None, None));
        assert_eq!((machine.paranoid(), machine.has_counters()), (None, None));
        let write = |path: &str, content: &str| {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        write("proc/sys/kernel/perf_event_paranoid", "-1\n");
        write("sys/devices/system/cpu/online", "0-1,4\n");
        write("sys/bus/event_source/devices/arm_spe_0/type", "9\n");
        assert_eq!((machine.paranoid(), machine.online()), (Some(-1), Some(vec![0, 1, 4])));
        assert_eq!(machine.has_counters(), Some(false));
        write("sys/bus/event_source/devices/armv8_pmuv3_0/type", "8\n");
        assert_eq!(machine.has_counters(), Some(true));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_cpuinfo(&bytes);
        }
    }
}
