//! The first version: one directory per controller and group.

use super::devices::{Counts, Stacks, Traffic, device};
use super::text::{count, limit, named, value};
use super::{Controller, Cpu, Io, Memory, Usage, file};
use crate::read::{Reader, lines, number, words};

/// Groups below one that are walked through. A job has a handful of steps with a few tasks each; beyond this a sum over all
/// of them is unknown.
const GROUPS: usize = 1024;
const DEPTH: usize = 8;

const BYTES: &str = "blkio.throttle.io_service_bytes";
const OPERATIONS: &str = "blkio.throttle.io_serviced";

/// The group of one controller.
pub(super) struct Directory {
    pub controller: Controller,
    pub path: Vec<u8>,
    /// The top of its hierarchy.
    pub mount: Vec<u8>,
}

/// Fills in what the directories tell.
pub(super) fn read(reader: &mut Reader, stacks: &mut Stacks, directories: &[Directory], usage: &mut Usage) {
    for directory in directories {
        let mut group = Group { reader, path: &directory.path };
        match directory.controller {
            Controller::Cpuacct => group.times(&mut usage.cpu),
            Controller::Cpu => group.throttling(&mut usage.cpu),
            Controller::Memory => usage.memory = group.memory(),
            Controller::Blkio => usage.io = group.io(stacks, &directory.mount),
            Controller::Pids => usage.tasks = group.text("pids.current", value),
            Controller::Cpuset => usage.processors = group.processors(),
            Controller::Devices | Controller::Freezer | Controller::PerfEvent => {}
        }
    }
}

struct Group<'a> {
    reader: &'a mut Reader,
    path: &'a [u8],
}

impl Group<'_> {
    fn text<T>(&mut self, name: &str, parse: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        parse(self.reader.once(&file(self.path, name)).ok()?)
    }

    fn times(&mut self, cpu: &mut Cpu) {
        cpu.total_ns = self.text("cpuacct.usage", value);
        cpu.user_ns = self.text("cpuacct.usage_user", value);
        cpu.system_ns = self.text("cpuacct.usage_sys", value);
        if cpu.user_ns.is_none() || cpu.system_ns.is_none() {
            // Older kernels, that of RHEL 7 for one.
            let ticks = rustix::param::clock_ticks_per_second();
            let times = self.text("cpuacct.stat", |text| Some(parse_ticks(text, ticks)));
            (cpu.user_ns, cpu.system_ns) = times.unwrap_or_default();
        }
    }

    fn throttling(&mut self, cpu: &mut Cpu) {
        let parse = |text: &[u8]| {
            [&b"nr_periods"[..], b"nr_throttled", b"throttled_time"].map(|name| named(text, name))
        };
        let values = self.text("cpu.stat", |text| Some(parse(text)));
        [cpu.periods, cpu.throttled_periods, cpu.throttled_ns] = values.unwrap_or_default();
    }

    fn memory(&mut self) -> Memory {
        let parts = self.text("memory.stat", |text| Some(parse_memory(text))).unwrap_or_default();
        Memory {
            current: self.text("memory.usage_in_bytes", value),
            peak: self.text("memory.max_usage_in_bytes", value),
            limit: self.text("memory.limit_in_bytes", limit),
            kernel: self.text("memory.kmem.usage_in_bytes", value),
            limit_hits: self.text("memory.failcnt", value),
            oom_kills: self.oom_kills(),
            ..parts
        }
    }

    /// The kernel counts a kill only at the group whose process was killed.
    fn oom_kills(&mut self) -> Option<u64> {
        let mut sum = Some(0u64);
        self.walk("memory.oom_control", |text| {
            sum = sum.zip(named(text, b"oom_kill")).and_then(|(sum, more)| sum.checked_add(more));
        })?;
        sum
    }

    fn io(&mut self, stacks: &mut Stacks, mount: &[u8]) -> Io {
        let bytes = self.traffic(BYTES, mount).and_then(|devices| stacks.total(&devices));
        let operations = self.traffic(OPERATIONS, mount).and_then(|devices| stacks.total(&devices));
        Io {
            read_bytes: bytes.map(|bytes| bytes.read),
            written_bytes: bytes.map(|bytes| bytes.written),
            reads: operations.map(|operations| operations.read),
            writes: operations.map(|operations| operations.written),
        }
    }

    fn traffic(&mut self, name: &str, mount: &[u8]) -> Option<Traffic> {
        let recursive = format!("{name}_recursive");
        let Ok(text) = self.reader.once(&file(self.path, &recursive)) else {
            return self.traffic_of_each(name);
        };
        let devices = parse_blkio(text)?;
        // A list without a device is either a group without traffic, or a kernel that does not count: recent ones do so only
        // where a throttle is set (seen with 6.18). Whether it counts shows at the top, below which there is always traffic.
        let is_counted =
            !devices.is_empty() || !parse_blkio(self.reader.once(&file(mount, &recursive)).ok()?)?.is_empty();
        is_counted.then_some(devices)
    }

    /// Older kernels count, always, and only at the very group.
    fn traffic_of_each(&mut self, name: &str) -> Option<Traffic> {
        let mut sum = Some(Vec::new());
        self.walk(name, |text| {
            sum = sum.take().zip(parse_blkio(text)).and_then(|(sum, more)| merge(sum, more))
        })?;
        sum
    }

    /// Reads a file of the group and of all below it. `None` if the group's own cannot be read, or there are too many groups.
    /// A group below that vanishes meanwhile is as one that had vanished before.
    fn walk(&mut self, name: &str, mut take: impl FnMut(&[u8])) -> Option<()> {
        take(self.reader.once(&file(self.path, name)).ok()?);
        let mut pending = vec![(self.path.to_vec(), 0)];
        let mut groups = 0;
        while let Some((directory, depth)) = pending.pop() {
            let mut names = Vec::new();
            let _ = self
                .reader
                .directories(&directory, |name| names.push([&directory, &b"/"[..], name].concat()));
            for child in names {
                groups += 1;
                if groups > GROUPS || depth >= DEPTH {
                    return None;
                }
                if let Ok(text) = self.reader.once(&file(&child, name)) {
                    take(text);
                    pending.push((child, depth + 1));
                }
            }
        }
        Some(())
    }

    /// What was asked for need not be what there is; old kernels tell only the former.
    fn processors(&mut self) -> Option<u32> {
        self.text("cpuset.effective_cpus", count).or_else(|| self.text("cpuset.cpus", count))
    }
}

/// `cpuacct.stat`: user and system in ticks, here in nanoseconds.
pub fn parse_ticks(text: &[u8], per_second: u64) -> (Option<u64>, Option<u64>) {
    let tick = 1_000_000_000u64.checked_div(per_second);
    let ns = |name: &[u8]| named(text, name)?.checked_mul(tick?);
    (ns(b"user"), ns(b"system"))
}

/// `memory.stat`; those with `total_` include the groups below.
pub fn parse_memory(text: &[u8]) -> Memory {
    Memory {
        swap: named(text, b"total_swap"),
        anon: named(text, b"total_rss"),
        file: named(text, b"total_cache"),
        mapped_file: named(text, b"total_mapped_file"),
        shmem: named(text, b"total_shmem"),
        ..Memory::default()
    }
}

/// `8:0 Read 123` lines, of which `Read` and `Write` are used; the rest is the same in other parts.
pub fn parse_blkio(text: &[u8]) -> Option<Traffic> {
    let mut devices: Traffic = Vec::new();
    for line in lines(text) {
        let mut fields = words(line);
        let (Some(device), Some(what)) = (fields.next().and_then(device), fields.next()) else { continue };
        let value = number(fields.next()?)?;
        let counts = match what {
            b"Read" => Counts { read: value, written: 0 },
            b"Write" => Counts { read: 0, written: value },
            _ => continue,
        };
        devices = merge(devices, vec![(device, counts)])?;
    }
    Some(devices)
}

fn merge(mut sum: Traffic, more: Traffic) -> Option<Traffic> {
    for (device, counts) in more {
        match sum.iter_mut().find(|(known, _)| *known == device) {
            Some((_, known)) => *known = known.plus(counts)?,
            None => sum.push((device, counts)),
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn traffic_of_devices() {
        let counts = |read, written| Counts { read, written };
        for (text, expected) in [
            ("Total 0\n", Some(vec![])),
            (
                "8:0 Read 1\n8:0 Write 2\n8:0 Sync 3\n8:0 Async 0\n8:0 Discard 4\n8:0 Total 3\n253:1 Read 5\n253:1 Write 0\nTotal 8\n",
                Some(vec![((8, 0), counts(1, 2)), ((253, 1), counts(5, 0))]),
            ),
            ("8:0 Read x\n", None),
            ("8:0 Read\n", None),
        ] {
            assert_eq!(parse_blkio(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn ticks_are_nanoseconds() {
        assert_eq!(parse_ticks(b"user 3\nsystem 250\n", 100), (Some(30_000_000), Some(2_500_000_000)));
        assert_eq!(parse_ticks(b"user 3\n", 100), (Some(30_000_000), None));
        assert_eq!(parse_ticks(b"user 3\n", 0), (None, None));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), hz in 0u64..) {
            let _ = (parse_ticks(&bytes, hz), parse_memory(&bytes), parse_blkio(&bytes));
        }
    }
}
