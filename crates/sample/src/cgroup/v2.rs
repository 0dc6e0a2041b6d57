//! The second version: one directory per group, in which most files include the groups below.

use super::devices::{Counts, Stacks, Traffic, device};
use super::text::{count, limit, named, pressure, value};
use super::{Controller, Cpu, Io, Memory, Pressure, Stall, Usage, file};
use crate::read::{Reader, lines, number, words};

/// Fills in what the first version, where it `has` the controller, does not tell.
pub(super) fn read(
    reader: &mut Reader,
    stacks: &mut Stacks,
    directory: &[u8],
    has: impl Fn(Controller) -> bool,
    usage: &mut Usage,
) {
    let mut group = Group { reader, directory };
    if !has(Controller::Cpuacct) {
        usage.cpu = group.text("cpu.stat", |text| Some(parse_cpu(text))).unwrap_or_default();
    }
    if !has(Controller::Memory) {
        usage.memory = group.memory();
    }
    if !has(Controller::Blkio) {
        usage.io = group.io(stacks);
    }
    if !has(Controller::Pids) {
        usage.tasks = group.text("pids.current", value);
    }
    if !has(Controller::Cpuset) {
        usage.processors = group.text("cpuset.cpus.effective", count);
    }
    usage.pressure = Pressure {
        cpu: group.pressure("cpu.pressure"),
        memory: group.pressure("memory.pressure"),
        io: group.pressure("io.pressure"),
    };
}

struct Group<'a> {
    reader: &'a mut Reader,
    directory: &'a [u8],
}

impl Group<'_> {
    fn text<T>(&mut self, name: &str, parse: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        parse(self.reader.once(&file(self.directory, name)).ok()?)
    }

    fn memory(&mut self) -> Memory {
        let parts = self.text("memory.stat", |text| Some(parse_memory(text))).unwrap_or_default();
        let events = self.text("memory.events", |text| Some((named(text, b"oom_kill"), named(text, b"max"))));
        let (oom_kills, limit_hits) = events.unwrap_or_default();
        Memory {
            current: self.text("memory.current", value),
            peak: self.text("memory.peak", value),
            limit: self.text("memory.max", limit),
            swap: self.text("memory.swap.current", value),
            oom_kills,
            limit_hits,
            ..parts
        }
    }

    fn io(&mut self, stacks: &mut Stacks) -> Io {
        let Some((bytes, operations)) = self.text("io.stat", parse_io) else { return Io::default() };
        let (bytes, operations) = (stacks.total(&bytes), stacks.total(&operations));
        Io {
            read_bytes: bytes.map(|bytes| bytes.read),
            written_bytes: bytes.map(|bytes| bytes.written),
            reads: operations.map(|operations| operations.read),
            writes: operations.map(|operations| operations.written),
        }
    }

    fn pressure(&mut self, name: &str) -> Stall {
        self.text(name, |text| Some(pressure(text))).unwrap_or_default()
    }
}

/// `cpu.stat`; without the controller it has only the times.
pub fn parse_cpu(text: &[u8]) -> Cpu {
    let ns = |name: &[u8]| named(text, name)?.checked_mul(1000);
    Cpu {
        total_ns: ns(b"usage_usec"),
        user_ns: ns(b"user_usec"),
        system_ns: ns(b"system_usec"),
        periods: named(text, b"nr_periods"),
        throttled_periods: named(text, b"nr_throttled"),
        throttled_ns: ns(b"throttled_usec"),
    }
}

/// `memory.stat`.
pub fn parse_memory(text: &[u8]) -> Memory {
    Memory {
        anon: named(text, b"anon"),
        file: named(text, b"file"),
        mapped_file: named(text, b"file_mapped"),
        shmem: named(text, b"shmem"),
        kernel: named(text, b"kernel"),
        ..Memory::default()
    }
}

/// `io.stat`: `8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6` lines, as bytes and operations. A device without traffic
/// has only its number, on some kernels without the end of the line. A number that is not understood makes all unknown.
pub fn parse_io(text: &[u8]) -> Option<(Traffic, Traffic)> {
    let (mut bytes, mut operations) = (Vec::new(), Vec::new());
    for word in lines(text).flat_map(words) {
        if let Some(device) = device(word) {
            bytes.push((device, Counts::default()));
            operations.push((device, Counts::default()));
            continue;
        }
        let mut sides = word.splitn(2, |byte| *byte == b'=');
        let (name, value) = (sides.next()?, sides.next()?);
        let to = match name {
            b"rbytes" => &mut bytes.last_mut()?.1.read,
            b"wbytes" => &mut bytes.last_mut()?.1.written,
            b"rios" => &mut operations.last_mut()?.1.read,
            b"wios" => &mut operations.last_mut()?.1.written,
            _ => continue,
        };
        *to = number(value)?;
    }
    Some((bytes, operations))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn traffic_of_devices() {
        let counts = |read, written| Counts { read, written };
        let full = "rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6";
        for (what, text, expected) in [
            ("no traffic", String::new(), Some((vec![], vec![]))),
            (
                "two",
                format!("8:0 {full}\n259:1 {full} cost.usage=7\n"),
                Some((
                    vec![((8, 0), counts(1, 2)), ((259, 1), counts(1, 2))],
                    vec![((8, 0), counts(3, 4)), ((259, 1), counts(3, 4))],
                )),
            ),
            (
                "one without numbers and without an end of line",
                format!("7:0 8:0 {full}\n"),
                Some((
                    vec![((7, 0), counts(0, 0)), ((8, 0), counts(1, 2))],
                    vec![((7, 0), counts(0, 0)), ((8, 0), counts(3, 4))],
                )),
            ),
            ("garbage", "8:0 rbytes=x\n".into(), None),
            ("no device", "rbytes=1\n".into(), None),
        ] {
            assert_eq!(parse_io(text.as_bytes()), expected, "{what}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (parse_cpu(&bytes), parse_memory(&bytes), parse_io(&bytes));
        }
    }
}
