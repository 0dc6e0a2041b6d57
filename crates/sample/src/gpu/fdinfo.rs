//! What a process uses of a card, from the kernel's files about its open descriptors.
//!
//! A driver writes lines such as `drm-engine-render: 123 ns` into `/proc/PID/fdinfo/N` of each descriptor of
//! `/dev/dri` or `/dev/accel`; the kernel's `drm-usage-stats` describes them. Descriptors that were duplicated are
//! one client and have one number. A descriptor that was inherited counts with each process that has it.

use std::collections::HashSet;
use std::path::Path;

use super::{Cycles, files};
use crate::read::{self, Reader, lines, words};

/// Enough for any program that computes; who opens more is not looked at further.
const DESCRIPTORS_MAX: usize = 4096;

/// Where the device files of cards are.
const PLACES: [&[u8]; 2] = [b"/dev/dri/", b"/dev/accel/"];

/// What one client, or all of one process, use of a card.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    pub driver: String,
    /// On the PCI bus; a card in a system on a chip has none.
    pub address: Option<String>,
    pub client: Option<u64>,
    /// In bytes, of the card's own memory.
    pub memory: Option<u64>,
    /// All engines together.
    pub engine_ns: Option<u64>,
    pub cycles: Option<Cycles>,
}

/// Reads below `/proc`.
pub(super) struct Fdinfo {
    reader: Reader,
}

impl Fdinfo {
    pub(super) fn new(proc: &Path) -> Fdinfo {
        Fdinfo { reader: Reader::new(proc) }
    }

    /// What a process uses of each card whose driver is wanted.
    pub(super) fn process(&mut self, pid: u32, is_wanted: impl Fn(&str) -> bool) -> Vec<Usage> {
        let mut cards: Vec<Usage> = Vec::new();
        let mut seen = HashSet::new();
        for descriptor in self.descriptors(pid) {
            let path = format!("{pid}/fdinfo/{descriptor}");
            let Some(usage) = self.reader.once(path.as_bytes()).ok().and_then(parse) else { continue };
            let is_twice = usage
                .client
                .is_some_and(|client| !seen.insert((usage.address.clone(), usage.driver.clone(), client)));
            if is_twice || !is_wanted(&usage.driver) {
                continue;
            }
            let is_same = |card: &&mut Usage| card.address == usage.address && card.driver == usage.driver;
            match cards.iter_mut().find(is_same) {
                Some(card) => card.add(&usage),
                None => cards.push(usage),
            }
        }
        cards
    }

    /// The descriptors that lead to a card. Of most processes none does.
    fn descriptors(&mut self, pid: u32) -> Vec<u64> {
        let mut numbers = Vec::new();
        let take = |name: &[u8]| {
            if numbers.len() < DESCRIPTORS_MAX {
                numbers.extend(read::number(name));
            }
        };
        // A process that has gone has no descriptors.
        let _ = self.reader.names(format!("{pid}/fd").as_bytes(), take);
        numbers.retain(|number| {
            let target = self.reader.link(format!("{pid}/fd/{number}").as_bytes()).unwrap_or_default();
            PLACES.iter().any(|place| target.starts_with(place))
        });
        numbers.sort_unstable();
        numbers
    }
}

impl Usage {
    /// A sum with an unknown part is unknown.
    fn add(&mut self, other: &Usage) {
        let sum = |one: Option<u64>, other: Option<u64>| one?.checked_add(other?);
        self.memory = sum(self.memory, other.memory);
        self.engine_ns = sum(self.engine_ns, other.engine_ns);
        self.cycles = self.cycles.zip(other.cycles).and_then(|(one, other)| one.add(other));
    }
}

impl Cycles {
    /// Engines have one clock, so there is one total.
    fn add(self, other: Cycles) -> Option<Cycles> {
        Some(Cycles { busy: self.busy.checked_add(other.busy)?, total: self.total.max(other.total) })
    }
}

/// One file of `/proc/PID/fdinfo`. None if it is not about a card.
pub fn parse(text: &[u8]) -> Option<Usage> {
    let mut driver = None;
    let mut usage = Usage::default();
    let mut engines = Sum::default();
    let (mut busy, mut total) = (Sum::default(), None);
    let mut memory = Regions::default();
    for line in lines(text) {
        let Some((key, value)) = pair(line) else { continue };
        match key {
            b"drm-driver" => driver = Some(String::from_utf8_lossy(value).into_owned()),
            b"drm-pdev" => usage.address = std::str::from_utf8(value).ok().and_then(files::pci_address),
            b"drm-client-id" => usage.client = read::number(value),
            _ if key.starts_with(b"drm-engine-capacity-") => {}
            _ if key.starts_with(b"drm-engine-") => engines.add(nanoseconds(value)),
            _ if key.starts_with(b"drm-cycles-") => busy.add(read::number(value)),
            _ if key.starts_with(b"drm-total-cycles-") => total = total.max(read::number(value)),
            _ => memory.take(key, value),
        }
    }
    usage.driver = driver.filter(|driver| !driver.is_empty())?;
    usage.engine_ns = engines.value();
    usage.cycles = busy.value().zip(total).map(|(busy, total)| Cycles { busy, total });
    usage.memory = memory.own();
    Some(usage)
}

/// `key: value`.
fn pair(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (key, value) = line.split_at_checked(colon)?;
    Some((key.trim_ascii(), value.get(1..)?.trim_ascii()))
}

/// `123 ns`.
fn nanoseconds(value: &[u8]) -> Option<u64> {
    let mut words = words(value);
    let number = read::number(words.next()?)?;
    (words.next() == Some(b"ns")).then_some(number)
}

/// `12`, `12 KiB` or `12 MiB`, in bytes.
fn bytes(value: &[u8]) -> Option<u64> {
    let mut words = words(value);
    let number = read::number(words.next()?)?;
    let unit = match words.next() {
        None => 1,
        Some(b"KiB") => 1 << 10,
        Some(b"MiB") => 1 << 20,
        Some(b"GiB") => 1 << 30,
        Some(_) => return None,
    };
    number.checked_mul(unit)
}

/// A sum of values, unknown if there is none or one of them is unknown.
#[derive(Default)]
struct Sum {
    is_any: bool,
    is_unknown: bool,
    value: u64,
}

impl Sum {
    fn add(&mut self, value: Option<u64>) {
        self.is_any = true;
        match value.and_then(|value| self.value.checked_add(value)) {
            Some(sum) => self.value = sum,
            None => self.is_unknown = true,
        }
    }

    fn value(&self) -> Option<u64> {
        (self.is_any && !self.is_unknown).then_some(self.value)
    }
}

/// Memory by what is told of it. Older drivers have one number for each region, newer ones several.
#[derive(Default)]
struct Regions {
    resident: Sum,
    plain: Sum,
    total: Sum,
}

impl Regions {
    fn take(&mut self, key: &[u8], value: &[u8]) {
        let kinds = [
            (&b"drm-resident-"[..], &mut self.resident),
            (b"drm-memory-", &mut self.plain),
            (b"drm-total-", &mut self.total),
        ];
        for (prefix, sum) in kinds {
            if key.strip_prefix(prefix).is_some_and(is_own_memory) {
                sum.add(bytes(value));
            }
        }
    }

    /// What lies in the card's memory now, or else what was asked for.
    fn own(&self) -> Option<u64> {
        self.resident.value().or_else(|| self.plain.value()).or_else(|| self.total.value())
    }
}

/// Memory of the node that a card may reach (`gtt`, `cpu`, `system0`) is counted as the node's. `memory` is the only
/// region of a card without memory of its own.
fn is_own_memory(region: &[u8]) -> bool {
    let is_numbered =
        |name: &[u8]| region.strip_prefix(name).is_some_and(|rest| rest.iter().all(u8::is_ascii_digit));
    is_numbered(b"vram") || is_numbered(b"local") || region == b"memory"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    const I915: &str = "pos:\t0\nflags:\t0100002\nmnt_id:\t26\nino:\t585\ndrm-driver:\ti915\ndrm-client-id:\t7\n\
        drm-pdev:\t0000:4d:00.0\ndrm-total-system0:\t0\ndrm-shared-system0:\t0\ndrm-total-local0:\t2048 KiB\n\
        drm-shared-local0:\t0\ndrm-active-local0:\t0\ndrm-resident-local0:\t1024 KiB\ndrm-purgeable-local0:\t0\n\
        drm-engine-render:\t25662044495 ns\ndrm-engine-copy:\t5 ns\ndrm-engine-video:\t0 ns\n\
        drm-engine-capacity-video:\t2\ndrm-engine-video-enhance:\t0 ns\n";
    const XE: &str = "drm-driver:\txe\ndrm-client-id:\t3\ndrm-pdev:\t0000:03:00.0\ndrm-total-vram0:\t23992 KiB\n\
        drm-resident-vram0:\t23992 KiB\ndrm-resident-vram1:\t8 KiB\ndrm-resident-system:\t99 KiB\n\
        drm-cycles-rcs:\t28257900\ndrm-total-cycles-rcs:\t7655183225\ndrm-cycles-ccs:\t100\n\
        drm-total-cycles-ccs:\t7655183225\ndrm-engine-capacity-ccs:\t4\n";
    const AMDGPU: &str = "drm-driver:\tamdgpu\ndrm-client-id:\t12\ndrm-pdev:\t0000:c1:00.0\npasid:\t32770\n\
        drm-memory-vram:\t3 MiB\ndrm-memory-gtt: \t8 KiB\ndrm-memory-cpu: \t0 KiB\namd-memory-visible-vram:\t1 KiB\n\
        drm-engine-gfx:\t10 ns\ndrm-engine-compute:\t20 ns\n";
    const PANFROST: &str = "drm-driver:\tpanfrost\ndrm-client-id:\t1\ndrm-engine-fragment:\t100 ns\n\
        drm-cycles-fragment:\t55\ndrm-maxfreq-fragment:\t799 MHz\ndrm-total-memory:\t290 MiB\n\
        drm-resident-memory:\t290 MiB\n";

    fn usage(driver: &str, address: Option<&str>, client: u64) -> Usage {
        Usage {
            driver: driver.into(),
            address: address.map(Into::into),
            client: Some(client),
            ..Usage::default()
        }
    }

    #[test]
    fn drivers_are_understood() {
        let cycles = Some(Cycles { busy: 28_258_000, total: 7_655_183_225 });
        for (text, expected) in [
            (
                I915,
                Usage {
                    memory: Some(1 << 20),
                    engine_ns: Some(25_662_044_500),
                    ..usage("i915", Some("0000:4d:00.0"), 7)
                },
            ),
            (XE, Usage { memory: Some(24_000 << 10), cycles, ..usage("xe", Some("0000:03:00.0"), 3) }),
            (
                AMDGPU,
                Usage {
                    memory: Some(3 << 20),
                    engine_ns: Some(30),
                    ..usage("amdgpu", Some("0000:c1:00.0"), 12)
                },
            ),
            (PANFROST, Usage { memory: Some(290 << 20), engine_ns: Some(100), ..usage("panfrost", None, 1) }),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(expected));
        }
    }

    #[test]
    fn what_is_not_understood_is_unknown() {
        let with = |lines: &str| parse(format!("drm-driver: x\n{lines}").as_bytes()).unwrap();
        assert_eq!(parse(b"pos:\t0\nflags:\t02\n"), None);
        assert_eq!(parse(b"drm-driver:\t\n"), None);
        for lines in [
            "drm-engine-a: 1 ns\ndrm-engine-b: 2\n",
            "drm-engine-a: 1 ns\ndrm-engine-b: -2 ns\n",
            "drm-engine-a: 18446744073709551615 ns\ndrm-engine-b: 1 ns\n",
            "drm-engine-a: 1 us\n",
            "drm-engine-capacity-a: 2\n",
        ] {
            assert_eq!(with(lines).engine_ns, None, "{lines}");
        }
        for lines in [
            "drm-memory-vram: 1 TiB\n",
            "drm-memory-vram: 99999999999999999 KiB\n",
            "drm-memory-gtt: 1 KiB\ndrm-resident-system0: 1 KiB\n",
            "drm-resident-vramx: 1\n",
        ] {
            assert_eq!(with(lines).memory, None, "{lines}");
        }
        assert_eq!(with("drm-memory-vram: 7\n").memory, Some(7));
        assert_eq!(with("drm-cycles-a: 7\n").cycles, None);
        assert_eq!(with("drm-total-cycles-a: 7\n").cycles, None);
        assert_eq!(with("drm-pdev: fde60000.gpu\ndrm-client-id: x\n").address, None);
    }

    fn process(proc: &Path, pid: u32, descriptors: &[(u32, &str, &str)]) {
        let dir = proc.join(pid.to_string());
        fs::create_dir_all(dir.join("fd")).unwrap();
        fs::create_dir_all(dir.join("fdinfo")).unwrap();
        for (number, target, info) in descriptors {
            symlink(target, dir.join(format!("fd/{number}"))).unwrap();
            fs::write(dir.join(format!("fdinfo/{number}")), info).unwrap();
        }
    }

    #[test]
    fn a_client_counts_once_and_clients_add_up() {
        let tree = tempfile::tempdir().unwrap();
        let other = I915.replace("client-id:\t7", "client-id:\t8");
        let elsewhere = I915.replace("0000:4d", "0000:9a");
        process(
            tree.path(),
            5,
            &[
                (3, "/dev/dri/renderD128", I915),
                (4, "/dev/dri/renderD128", I915),
                (5, "/dev/dri/renderD128", &other),
                (6, "/dev/dri/card1", &elsewhere),
                (7, "/tmp/dri", I915),
                (8, "socket:[1234]", I915),
                (9, "/dev/dri/card2", XE),
                (10, "/dev/dri/card2", "pos: 0\n"),
            ],
        );
        process(tree.path(), 6, &[(0, "/dev/null", "pos: 0\n")]);
        let mut fdinfo = Fdinfo::new(tree.path());
        let found = fdinfo.process(5, |driver| driver == "i915");
        let found: Vec<_> = found
            .iter()
            .map(|card| (card.address.as_deref().unwrap(), card.memory, card.engine_ns))
            .collect();
        let expected = [
            ("0000:4d:00.0", Some(2 << 20), Some(51_324_089_000)),
            ("0000:9a:00.0", Some(1 << 20), Some(25_662_044_500)),
        ];
        assert_eq!(found, expected);
        assert_eq!(fdinfo.process(6, |_| true), []);
        assert_eq!(fdinfo.process(7, |_| true), []);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn any_lines_parse_without_a_panic(
            lines in proptest::collection::vec("(drm-(engine|cycles|total-cycles|memory|resident|total|pdev|client-id)(-vram)?)?:?[ \t]?[0-9]{0,22} ?(ns|KiB|MiB|GiB)?", 0..12),
        ) {
            let _ = parse(format!("drm-driver: x\n{}", lines.join("\n")).as_bytes());
        }
    }
}
