//! The process connector: fork, exec, exit and change of user of every process, as it happens.
//!
//! The kernel numbers the events of each CPU; a break in the numbers is a loss of known size. Filtering
//! events in the kernel (6.5 and later) would break the numbers too, so all of them are taken.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::netlink;

use super::Drained;
use super::netlink::{Socket, message, messages, u32_at, u64_at};

const CN_IDX_PROC: u32 = 1;
const CN_VAL_PROC: u32 = 1;
const PROC_CN_MCAST_LISTEN: u32 = 1;
const NLMSG_DONE: u16 = 3;
/// Length of `struct cn_msg`.
const CN_HEADER: usize = 20;
/// What, CPU and time before an event's own data.
const EVENT_HEADER: usize = 16;

/// What happened to a process. Times are `CLOCK_MONOTONIC` nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A thread, or a process if `child == child_tgid`, began.
    Fork { time: u64, parent_tgid: u32, child: u32, child_tgid: u32 },
    /// A process executes a program.
    Exec { time: u64, tgid: u32 },
    /// A thread ended with this wait status.
    Exit { time: u64, pid: u32, tgid: u32, status: u32 },
    /// A process changed its real and effective user.
    Uid { tgid: u32, real: u32, effective: u32 },
    /// A process began a session of its own.
    Session { tgid: u32 },
}

/// Where an event stood in the numbering of its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    pub cpu: u32,
    pub number: u32,
}

/// The subscription to the kernel's process events.
pub struct Connector {
    socket: Socket,
    numbers: HashMap<u32, u32>,
    /// Events the kernel numbered and did not deliver.
    pub lost: u64,
}

impl AsFd for Connector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Connector {
    /// Subscribes; needs the right to administer the network.
    pub fn open() -> io::Result<Connector> {
        let socket = Socket::open(Some(netlink::CONNECTOR), CN_IDX_PROC)?;
        let mut request = Vec::new();
        for word in [CN_IDX_PROC, CN_VAL_PROC, 0, 0] {
            request.extend(word.to_ne_bytes());
        }
        request.extend(4u16.to_ne_bytes());
        request.extend(0u16.to_ne_bytes());
        request.extend(PROC_CN_MCAST_LISTEN.to_ne_bytes());
        socket.send(&message(NLMSG_DONE, 0, &request))?;
        Ok(Connector { socket, numbers: HashMap::new(), lost: 0 })
    }

    /// Takes all events that are there, up to `max`, and gives each to `take`.
    pub fn drain(&mut self, max: usize, mut take: impl FnMut(Event)) -> io::Result<Drained> {
        let mut drained = Drained::default();
        while drained.messages < max {
            let datagram = match self.socket.receive() {
                Ok(Some(datagram)) => datagram,
                Ok(None) => break,
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
                    drained.overrun = true;
                    continue;
                }
                Err(error) => return Err(error),
            };
            drained.messages += 1;
            for (_, payload) in messages(datagram) {
                let Some((sequence, event)) = parse(payload) else { continue };
                if let Some(before) = self.numbers.insert(sequence.cpu, sequence.number) {
                    self.lost += u64::from(sequence.number.wrapping_sub(before).wrapping_sub(1));
                }
                event.into_iter().for_each(&mut take);
            }
        }
        Ok(drained)
    }
}

/// Parses a `cn_msg` with a `proc_event`; events of no interest have a number only. `None` if it is neither.
pub fn parse(payload: &[u8]) -> Option<(Sequence, Option<Event>)> {
    if u32_at(payload, 0)? != CN_IDX_PROC || u32_at(payload, 4)? != CN_VAL_PROC {
        return None;
    }
    let number = u32_at(payload, 8)?;
    let event = payload.get(CN_HEADER..)?;
    let (what, cpu, time) = (u32_at(event, 0)?, u32_at(event, 4)?, u64_at(event, 8)?);
    if what == 0 && cpu == u32::MAX {
        // The answer to somebody's subscription; from 6.6 on it is numbered like an event, before it is not.
        return None;
    }
    let data = |index: usize| u32_at(event, EVENT_HEADER + 4 * index);
    let event = match what {
        0x1 => Some(Event::Fork { time, parent_tgid: data(1)?, child: data(2)?, child_tgid: data(3)? }),
        0x2 => Some(Event::Exec { time, tgid: data(1)? }),
        0x4 => Some(Event::Uid { tgid: data(1)?, real: data(2)?, effective: data(3)? }),
        0x80 => Some(Event::Session { tgid: data(1)? }),
        0x8000_0000 => Some(Event::Exit { time, pid: data(0)?, tgid: data(1)?, status: data(2)? }),
        _ => None,
    };
    Some((Sequence { cpu, number }, event))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(what: u32, cpu: u32, number: u32, data: &[u32]) -> Vec<u8> {
        let mut out = Vec::new();
        for word in [1, 1, number, 0, 40, what, cpu] {
            out.extend(u32::to_ne_bytes(word));
        }
        out.extend(77u64.to_ne_bytes());
        data.iter().for_each(|word| out.extend(word.to_ne_bytes()));
        out
    }

    #[test]
    fn each_kind_is_read() {
        let sequence = Sequence { cpu: 3, number: 9 };
        for (what, data, expected) in [
            (
                1,
                &[1, 2, 30, 31][..],
                Some(Event::Fork { time: 77, parent_tgid: 2, child: 30, child_tgid: 31 }),
            ),
            (2, &[5, 6], Some(Event::Exec { time: 77, tgid: 6 })),
            (4, &[5, 6, 7, 8], Some(Event::Uid { tgid: 6, real: 7, effective: 8 })),
            (0x8000_0000, &[5, 6, 256, 17], Some(Event::Exit { time: 77, pid: 5, tgid: 6, status: 256 })),
            (0x80, &[5, 6], Some(Event::Session { tgid: 6 })),
            (0x200, &[5, 6], None),
        ] {
            assert_eq!(parse(&event(what, 3, 9, data)), Some((sequence, expected)));
        }
        assert_eq!(parse(&event(0, 3, 9, &[0])), Some((sequence, None)));
        assert_eq!(parse(&event(0, u32::MAX, 9, &[0])), None);
        assert_eq!(parse(&event(2, 3, 9, &[5])), None);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            for (_, payload) in messages(&bytes) {
                let _ = parse(payload);
            }
            let _ = parse(&bytes);
        }
    }
}
