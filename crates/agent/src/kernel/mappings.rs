//! Which files each process has mapped to execute, as the kernel reports them.
//!
//! `/proc/PID/maps` has the same facts, but only while the process lives, and most programs are over before anyone
//! can look. Perf records stay in a ring per processor until they are read, whatever became of the process. The rings
//! wake the agent only when half full; otherwise they are read on its turns.
//!
//! The size of the rings: without `CAP_IPC_LOCK` the kernel lets a user (here root) lock `kernel.perf_event_mlock_kb` per
//! processor, 516 KiB by default, which is one ring of 512 KiB and its control page. On nodes with many processors
//! they are smaller ([`ALL_RINGS`]). What is refused is asked for again at half the size.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use rustix::fs::makedev;
use sample::node::cpulist::parse_cpulist;
use sample::process::Mapping;

use super::netlink::{u32_at, u64_at};
use super::perf_ring::{HEADER, Ring};
use crate::clock::monotonic_ns;

/// What all rings may take together.
const ALL_RINGS: usize = 16 * 1024 * 1024;
const RING_MAX: usize = 512 * 1024;
const RING_MIN: usize = 32 * 1024;

/// No kernel has more processors.
const CPUS_MAX: usize = 8192;

const RECORD_LOST: u32 = 2;
const RECORD_COMM: u32 = 3;
const RECORD_MMAP2: u32 = 10;
const MISC_COMM_EXEC: u16 = 1 << 13;
/// The time behind each record.
const TRAILER: usize = 8;

/// What a record says. Times are `CLOCK_MONOTONIC` nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A process has a new, empty address space, to execute a program.
    Exec { time: u64, pid: u32 },
    /// A process has mapped a file to execute it.
    Mapped { time: u64, pid: u32, mapping: Mapping },
    /// The kernel had no room for so many records.
    Lost { time: u64, records: u64 },
}

/// The rings of all processors.
pub struct Mappings {
    rings: Vec<Ring>,
    /// Readable when a ring is half full.
    wake: OwnedFd,
    cpus: Vec<u32>,
    record: Vec<u8>,
}

impl Mappings {
    /// Opens a ring on each processor; needs `CAP_PERFMON` or root. A processor that is not there any more is left out.
    pub fn open() -> io::Result<Mappings> {
        let cpus = online();
        let wake = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut size = ring_size(cpus.len());
        let mut rings = Vec::new();
        for cpu in &cpus {
            let ring = loop {
                match Ring::open(*cpu, size) {
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied && size > RING_MIN => {
                        size /= 2
                    }
                    other => break other,
                }
            };
            match ring {
                Ok(ring) => {
                    let data = epoll::EventData::new_u64(0);
                    // The kernel forgets that a ring was half full when it is asked: nothing has to be taken from here.
                    epoll::add(&wake, &ring, data, epoll::EventFlags::IN)?;
                    rings.push(ring);
                }
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Mappings { rings, wake, cpus, record: Vec::new() })
    }

    /// Whether other processors run now than when the rings were opened.
    pub fn is_outdated(&self) -> bool {
        self.cpus != online()
    }

    /// Readable when the rings should be read at once.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Gives up to `max` records in the order of time.
    ///
    /// A process that moves to another processor leaves records in two rings. Whatever it wrote before now is in one
    /// of them, so records up to now are in order; later ones stay where they are until the next call.
    pub fn drain(&mut self, max: usize, mut take: impl FnMut(Record)) {
        let until = monotonic_ns();
        let heads: Vec<u64> = self.rings.iter().map(Ring::head).collect();
        let mut next: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let record = &mut self.record;
        for (at, (ring, head)) in self.rings.iter().zip(&heads).enumerate() {
            next.extend(first(ring, *head, record).map(|time| Reverse((time, at))));
        }
        for _ in 0..max {
            let Some(Reverse((time, at))) = next.pop().filter(|Reverse((time, _))| *time <= until) else {
                return;
            };
            let (Some(ring), Some(head)) = (self.rings.get(at), heads.get(at)) else { return };
            let tail = ring.tail();
            let Some(bytes) = ring.read(tail, *head, record) else { continue };
            let len = bytes.len() as u64;
            parse(bytes).into_iter().for_each(&mut take);
            ring.release(tail.wrapping_add(len));
            // Time goes on within a ring; the kernel's fast clock may step back by a hair.
            next.extend(first(ring, *head, record).map(|then| Reverse((then.max(time), at))));
        }
    }
}

/// The time of a ring's next record. What cannot be a record makes the rest unreadable, and is passed over.
fn first(ring: &Ring, head: u64, record: &mut Vec<u8>) -> Option<u64> {
    let tail = ring.tail();
    let Some(bytes) = ring.read(tail, head, record) else {
        if tail != head {
            ring.release(head);
        }
        return None;
    };
    // One without a time is of no interest, and is taken at once.
    Some(time_of(bytes).unwrap_or(0))
}

/// The processors that run.
fn online() -> Vec<u32> {
    let list = std::fs::read("/sys/devices/system/cpu/online").ok();
    let list = list.and_then(|text| parse_cpulist(&text)).unwrap_or_default();
    list.iter().take(CPUS_MAX).collect()
}

fn ring_size(cpus: usize) -> usize {
    let share = ALL_RINGS / cpus.max(1);
    let size = share.clamp(RING_MIN, RING_MAX);
    // Down to a power of two.
    if size.is_power_of_two() { size } else { size.next_power_of_two() / 2 }
}

fn time_of(record: &[u8]) -> Option<u64> {
    u64_at(record, record.len().checked_sub(TRAILER)?)
}

/// Parses a record; `None` if it is of no interest, or is not one.
pub fn parse(record: &[u8]) -> Option<Record> {
    let kind = u32_at(record, 0)?;
    let misc = u16::from_ne_bytes(record.get(4..6)?.try_into().ok()?);
    let body = record.get(HEADER..record.len().checked_sub(TRAILER)?)?;
    let time = time_of(record)?;
    match kind {
        RECORD_LOST => Some(Record::Lost { time, records: u64_at(body, 8)? }),
        RECORD_COMM if misc & MISC_COMM_EXEC != 0 => Some(Record::Exec { time, pid: u32_at(body, 0)? }),
        RECORD_MMAP2 => {
            let mapping = mapping(body)?;
            Some(Record::Mapped { time, pid: u32_at(body, 0)?, mapping })
        }
        _ => None,
    }
}

/// The file in `pid, tid, addr, len, pgoff, maj, min, ino, generation, prot, flags, name`.
fn mapping(body: &[u8]) -> Option<Mapping> {
    let (start, len) = (u64_at(body, 8)?, u64_at(body, 16)?);
    let dev = makedev(u32_at(body, 32)?, u32_at(body, 36)?);
    let inode = u64_at(body, 40)?;
    let name = body.get(64..)?;
    let name = name.split(|b| *b == 0).next()?;
    // Memory without a file is `//anon` or `[vdso]`; what has no path is `//toolong`.
    let is_file = name.starts_with(b"/") && !name.starts_with(b"//") && inode != 0;
    is_file.then(|| Mapping::named((start, start.saturating_add(len)), (dev, inode), name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let len = (HEADER + body.len() + TRAILER) as u16;
        let mut out = kind.to_ne_bytes().to_vec();
        out.extend(misc.to_ne_bytes());
        out.extend(len.to_ne_bytes());
        out.extend(body);
        out.extend(77u64.to_ne_bytes());
        out
    }

    fn mmap2(inode: u64, name: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        [5u32, 6].iter().for_each(|word| body.extend(word.to_ne_bytes()));
        [0x1000u64, 0x200, 0].iter().for_each(|word| body.extend(word.to_ne_bytes()));
        [8u32, 1].iter().for_each(|word| body.extend(word.to_ne_bytes()));
        [inode, 3].iter().for_each(|word| body.extend(word.to_ne_bytes()));
        [5u32, 2].iter().for_each(|word| body.extend(word.to_ne_bytes()));
        body.extend(name);
        body.resize(body.len().next_multiple_of(8) + 8, 0);
        record(RECORD_MMAP2, 2, &body)
    }

    #[test]
    fn records_are_read_and_memory_without_a_file_is_not() {
        let mapping = |path: &[u8], deleted| Mapping {
            start: 0x1000,
            end: 0x1200,
            dev: makedev(8, 1),
            inode: 9,
            path: path.to_vec(),
            deleted,
        };
        let mapped = |mapping| Some(Record::Mapped { time: 77, pid: 5, mapping });
        assert_eq!(parse(&mmap2(9, b"/lib/a\nb.so")), mapped(mapping(b"/lib/a\nb.so", false)));
        assert_eq!(parse(&mmap2(9, b"/lib/a (deleted)")), mapped(mapping(b"/lib/a", true)));
        for name in [&b"//anon"[..], b"[vdso]", b"//toolong", b""] {
            assert_eq!(parse(&mmap2(9, name)), None);
        }
        assert_eq!(parse(&mmap2(0, b"/lib/a")), None);
        let comm = [5u32.to_ne_bytes(), 6u32.to_ne_bytes(), *b"true", [0; 4]].concat();
        assert_eq!(
            parse(&record(RECORD_COMM, MISC_COMM_EXEC, &comm)),
            Some(Record::Exec { time: 77, pid: 5 })
        );
        assert_eq!(parse(&record(RECORD_COMM, 0, &comm)), None, "a thread that names itself");
        let lost = [1u64.to_ne_bytes(), 12u64.to_ne_bytes()].concat();
        assert_eq!(parse(&record(RECORD_LOST, 0, &lost)), Some(Record::Lost { time: 77, records: 12 }));
    }

    #[test]
    fn rings_of_large_nodes_are_small() {
        assert_eq!(ring_size(1), RING_MAX);
        assert_eq!(ring_size(32), RING_MAX);
        assert_eq!(ring_size(256), 64 * 1024);
        assert_eq!(ring_size(384), 32 * 1024);
        assert_eq!(ring_size(100_000), RING_MIN);
    }

    /// With the files of a program that is gone, in order and with its exec before them.
    #[test]
    fn the_kernel_reports_what_a_short_program_mapped() {
        let Ok(mut mappings) = Mappings::open() else {
            return testkit::skip("the_kernel_reports_what_a_short_program_mapped", "needs CAP_PERFMON");
        };
        for _ in 0..20 {
            let mut child = Command::new("/bin/true").spawn().unwrap();
            let pid = child.id();
            child.wait().unwrap();
            let mut records = Vec::new();
            mappings.drain(usize::MAX, |record| records.push(record));
            let mut seen: Option<Vec<Mapping>> = None;
            for record in records {
                match record {
                    Record::Exec { pid: of, .. } if of == pid => seen = Some(Vec::new()),
                    Record::Mapped { pid: of, mapping, .. } if of == pid => {
                        seen.iter_mut().for_each(|seen| seen.push(mapping.clone()));
                    }
                    _ => {}
                }
            }
            let seen = seen.expect("an exec");
            let program = std::fs::canonicalize("/bin/true").unwrap();
            let first = seen.first().expect("a mapping");
            assert_eq!(first.path, program.as_os_str().as_encoded_bytes(), "the program comes first");
            let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&program).unwrap());
            assert_eq!(first.inode, inode);
            assert!(seen.iter().any(|mapping| mapping.path.ends_with(b"/libc.so.6")), "{seen:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
        }
    }
}
