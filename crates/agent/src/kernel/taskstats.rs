//! Taskstats: what each thread had used when it ended.
//!
//! Measured traps: `ac_utime` counts clock ticks (0 for short programs), so the precise
//! `cpu_run_virtual_total` is split in its proportion, as the kernel does for `getrusage`; the peak of
//! resident memory is filled per thread only, so the sums per process are made here from the threads'
//! messages and the kernel's own sum is ignored.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::netlink;

use super::Drained;
use super::netlink::{Socket, attribute, attributes, message, messages, u16_at, u32_at, u64_at};

const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const TASKSTATS_CMD_GET: u8 = 1;
const TASKSTATS_CMD_ATTR_REGISTER_CPUMASK: u16 = 3;
const TASKSTATS_TYPE_STATS: u16 = 3;
const TASKSTATS_TYPE_AGGR_PID: u16 = 4;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;
const GENL_HEADER: usize = 4;

/// What one thread had used when it ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskStats {
    pub pid: u32,
    /// CPU time, precise.
    pub cpu_ns: u64,
    /// CPU time in clock ticks' microseconds, for the proportion only.
    pub user_us: u64,
    pub system_us: u64,
    pub peak_kib: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    /// Through system calls, wherever the data lay.
    pub read_chars: u64,
    pub write_chars: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub switches: u64,
    pub involuntary_switches: u64,
    /// The executable's device and inode; kernels from 5.18 on say them.
    pub exe: Option<(u64, u64)>,
}

/// The subscription to exit accounting on all CPUs.
pub struct Taskstats {
    socket: Socket,
    family: u16,
}

impl AsFd for Taskstats {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Taskstats {
    /// Subscribes for the CPUs in `mask`, such as `0-63`; needs the right to administer the network.
    pub fn open(mask: &str) -> io::Result<Taskstats> {
        let mut socket = Socket::open(Some(netlink::GENERIC), 0)?;
        let name = attribute(CTRL_ATTR_FAMILY_NAME, b"TASKSTATS\0");
        socket.send(&request(GENL_ID_CTRL, 0, CTRL_CMD_GETFAMILY, &name))?;
        let family = wait_for(&mut socket, |kind, payload| {
            (kind == GENL_ID_CTRL).then(|| {
                attributes(payload.get(GENL_HEADER..).unwrap_or(&[]))
                    .find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID)
                    .and_then(|(_, id)| u16_at(id, 0))
            })?
        })?;
        let mut cpus = mask.as_bytes().to_vec();
        cpus.push(0);
        let register = attribute(TASKSTATS_CMD_ATTR_REGISTER_CPUMASK, &cpus);
        socket.send(&request(family, NLM_F_ACK, TASKSTATS_CMD_GET, &register))?;
        wait_for(&mut socket, |kind, _| (kind == NLMSG_ERROR).then_some(()))?;
        Ok(Taskstats { socket, family })
    }

    /// Takes all messages that are there.
    pub fn drain(&mut self, mut take: impl FnMut(TaskStats)) -> io::Result<Drained> {
        let mut drained = Drained::default();
        loop {
            let datagram = match self.socket.receive() {
                Ok(Some(datagram)) => datagram,
                Ok(None) => return Ok(drained),
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
                    drained.overrun = true;
                    continue;
                }
                Err(error) => return Err(error),
            };
            drained.messages += 1;
            for (kind, payload) in messages(datagram) {
                if kind == self.family {
                    parse(payload, &mut take);
                }
            }
        }
    }
}

fn request(family: u16, flags: u16, command: u8, attributes: &[u8]) -> Vec<u8> {
    let mut payload = vec![command, 1, 0, 0];
    payload.extend(attributes);
    message(family, NLM_F_REQUEST | flags, &payload)
}

/// Waits for the kernel's answer, which comes before `send` returns; an error message is an error.
fn wait_for<T>(socket: &mut Socket, mut wanted: impl FnMut(u16, &[u8]) -> Option<T>) -> io::Result<T> {
    while let Some(datagram) = socket.receive()? {
        for (kind, payload) in messages(datagram) {
            if kind == NLMSG_ERROR
                && let Some(error) = u32_at(payload, 0).map(|code| code as i32).filter(|code| *code != 0)
            {
                return Err(io::Error::from_raw_os_error(-error));
            }
            if let Some(found) = wanted(kind, payload) {
                return Ok(found);
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, "the kernel does not answer for taskstats"))
}

/// Parses a taskstats message: one or two nested attributes, of which the thread's own is taken.
pub fn parse(payload: &[u8], mut take: impl FnMut(TaskStats)) {
    for (kind, nested) in attributes(payload.get(GENL_HEADER..).unwrap_or(&[])) {
        if kind != TASKSTATS_TYPE_AGGR_PID {
            continue;
        }
        for (kind, stats) in attributes(nested) {
            if kind == TASKSTATS_TYPE_STATS {
                parse_stats(stats).into_iter().for_each(&mut take);
            }
        }
    }
}

/// Offsets in `struct taskstats`; it only ever grows at its end.
mod at {
    pub const VERSION: usize = 0;
    pub const CPU_RUN_VIRTUAL_TOTAL: usize = 72;
    pub const AC_PID: usize = 128;
    pub const AC_UTIME: usize = 152;
    pub const AC_STIME: usize = 160;
    pub const AC_MINFLT: usize = 168;
    pub const AC_MAJFLT: usize = 176;
    pub const HIWATER_RSS: usize = 200;
    pub const READ_CHAR: usize = 216;
    pub const WRITE_CHAR: usize = 224;
    pub const READ_BYTES: usize = 248;
    pub const WRITE_BYTES: usize = 256;
    pub const NVCSW: usize = 272;
    pub const NIVCSW: usize = 280;
    pub const AC_EXE_DEV: usize = 384;
    pub const AC_EXE_INODE: usize = 392;
}

/// The version that brought the executable's device and inode.
const VERSION_WITH_EXE: u16 = 12;

fn parse_stats(stats: &[u8]) -> Option<TaskStats> {
    let version = u16_at(stats, at::VERSION)?;
    let word = |at| u64_at(stats, at);
    let exe = if version >= VERSION_WITH_EXE {
        word(at::AC_EXE_DEV).zip(word(at::AC_EXE_INODE)).filter(|(_, inode)| *inode != 0)
    } else {
        None
    };
    Some(TaskStats {
        pid: u32_at(stats, at::AC_PID)?,
        cpu_ns: word(at::CPU_RUN_VIRTUAL_TOTAL)?,
        user_us: word(at::AC_UTIME)?,
        system_us: word(at::AC_STIME)?,
        peak_kib: word(at::HIWATER_RSS)?,
        read_bytes: word(at::READ_BYTES)?,
        write_bytes: word(at::WRITE_BYTES)?,
        read_chars: word(at::READ_CHAR)?,
        write_chars: word(at::WRITE_CHAR)?,
        minor_faults: word(at::AC_MINFLT)?,
        major_faults: word(at::AC_MAJFLT)?,
        switches: word(at::NVCSW)?,
        involuntary_switches: word(at::NIVCSW)?,
        exe,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            parse(&bytes, |_| {});
            let _ = parse_stats(&bytes);
        }
    }
}
