//! The process connector: fork, exec, exit and change of user of every process, as it happens.
//!
//! An exec is urgent, because what `/proc` says of a short program is soon gone; all else can wait some milliseconds. So
//! there are two sockets, one with the execs and one with the rest, and only the first must wake the agent at once.
//! Together they have every event, and are joined again in the order of time.
//!
//! The kernel numbers the events of each CPU; a break in the numbers is a loss of known size. Filtering
//! events in the kernel (6.5 and later) would break the numbers too, so all of them are taken.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::netlink;

use super::Drained;
use super::netlink::{HEADER, Socket, message, messages, u32_at, u64_at};
use super::numbers::Numbers;
use crate::clock::monotonic_ns;

const CN_IDX_PROC: u32 = 1;
const CN_VAL_PROC: u32 = 1;
const PROC_CN_MCAST_LISTEN: u32 = 1;
const NLMSG_DONE: u16 = 3;
const PROC_EVENT_EXEC: u32 = 2;
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
    Uid { time: u64, tgid: u32, real: u32, effective: u32 },
    /// A process began a session of its own.
    Session { tgid: u32 },
}

/// An event with its time and its place in the numbering of its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbered {
    pub time: u64,
    pub cpu: u32,
    pub number: u32,
    /// `None` for an event of no interest.
    pub event: Option<Event>,
}

/// The subscription to the kernel's process events.
pub struct Connector {
    execs: Socket,
    others: Socket,
    /// Taken from the sockets, later than what may be given.
    held: Vec<Numbered>,
    numbers: Numbers,
}

impl Connector {
    /// Subscribes; needs the right to administer the network. Events from now on are given; whoever needs to know what happened
    /// before looks into `/proc` afterwards.
    pub fn open() -> io::Result<Connector> {
        let what = (HEADER + CN_HEADER) as u32;
        let socket = |is_execs| {
            let socket = Socket::open(Some(netlink::CONNECTOR), CN_IDX_PROC)?;
            socket.keep(what, PROC_EVENT_EXEC, is_execs)?;
            io::Result::Ok(socket)
        };
        let (execs, others) = (socket(true)?, socket(false)?);
        subscribe(&others)?;
        let mut connector = Connector { execs, others, held: Vec::new(), numbers: Numbers::default() };
        // While a socket subscribes the kernel may leave out events for it: its filter is there before it is filled in.
        connector.drain(usize::MAX, |_| {})?;
        connector.held.drain(..).for_each(|Numbered { cpu, number, .. }| connector.numbers.note(cpu, number));
        connector.numbers.begin();
        Ok(connector)
    }

    /// Readable when a program was executed: what is known of it should be read at once.
    pub fn urgent(&self) -> BorrowedFd<'_> {
        self.execs.as_fd()
    }

    /// Readable when anything else happened.
    pub fn calm(&self) -> BorrowedFd<'_> {
        self.others.as_fd()
    }

    /// Events the kernel numbered and did not deliver.
    pub fn lost(&self) -> u64 {
        self.numbers.lost
    }

    /// Takes the events that are there, up to `max` of each socket, and gives them in the order of time.
    ///
    /// A process's exec is delivered before it can fork or end. So what is not later than the moment at which the execs
    /// were looked for has all its past in the two queues, and is given; the rest waits for the next call.
    pub fn drain(&mut self, max: usize, mut take: impl FnMut(Event)) -> io::Result<Drained> {
        let mut until = monotonic_ns();
        let mut drained = Drained::default();
        for socket in [&mut self.execs, &mut self.others] {
            let (end, more) = receive(socket, max, &mut self.held)?;
            until = until.min(end);
            drained.messages += more.messages;
            drained.overrun |= more.overrun;
        }
        for Numbered { cpu, number, event, .. } in due(&mut self.held, until) {
            self.numbers.note(cpu, number);
            event.into_iter().for_each(&mut take);
        }
        self.numbers.count();
        drained.until = until;
        Ok(drained)
    }
}

/// Takes what is not later than `until`, in the order of time.
fn due(held: &mut Vec<Numbered>, until: u64) -> impl Iterator<Item = Numbered> {
    held.sort_by_key(|numbered| numbered.time);
    let count = held.partition_point(|numbered| numbered.time <= until);
    held.drain(..count)
}

/// Switches the events on, for all who listen.
fn subscribe(socket: &Socket) -> io::Result<()> {
    let mut request = Vec::new();
    for word in [CN_IDX_PROC, CN_VAL_PROC, 0, 0] {
        request.extend(word.to_ne_bytes());
    }
    request.extend(4u16.to_ne_bytes());
    request.extend(0u16.to_ne_bytes());
    request.extend(PROC_CN_MCAST_LISTEN.to_ne_bytes());
    socket.send(&message(NLMSG_DONE, 0, &request))
}

/// Takes up to `max` datagrams; says up to which time it has all of them.
fn receive(socket: &mut Socket, max: usize, into: &mut Vec<Numbered>) -> io::Result<(u64, Drained)> {
    let mut drained = Drained::default();
    while drained.messages < max {
        let datagram = match socket.receive() {
            Ok(Some(datagram)) => datagram,
            Ok(None) => return Ok((u64::MAX, drained)),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
                drained.overrun = true;
                continue;
            }
            Err(error) => return Err(error),
        };
        drained.messages += 1;
        into.extend(messages(datagram).filter_map(|(_, payload)| parse(payload)));
    }
    Ok((into.last().map_or(u64::MAX, |numbered| numbered.time), drained))
}

/// Parses a `cn_msg` with a `proc_event`; events of no interest have a number only. `None` if it is neither.
pub fn parse(payload: &[u8]) -> Option<Numbered> {
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
        PROC_EVENT_EXEC => Some(Event::Exec { time, tgid: data(1)? }),
        0x4 => Some(Event::Uid { time, tgid: data(1)?, real: data(2)?, effective: data(3)? }),
        0x80 => Some(Event::Session { tgid: data(1)? }),
        0x8000_0000 => Some(Event::Exit { time, pid: data(0)?, tgid: data(1)?, status: data(2)? }),
        _ => None,
    };
    Some(Numbered { time, cpu, number, event })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicBool, Ordering};

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
        let numbered = |event| Some(Numbered { time: 77, cpu: 3, number: 9, event });
        for (what, data, expected) in [
            (
                1,
                &[1, 2, 30, 31][..],
                Some(Event::Fork { time: 77, parent_tgid: 2, child: 30, child_tgid: 31 }),
            ),
            (2, &[5, 6], Some(Event::Exec { time: 77, tgid: 6 })),
            (4, &[5, 6, 7, 8], Some(Event::Uid { time: 77, tgid: 6, real: 7, effective: 8 })),
            (0x8000_0000, &[5, 6, 256, 17], Some(Event::Exit { time: 77, pid: 5, tgid: 6, status: 256 })),
            (0x80, &[5, 6], Some(Event::Session { tgid: 6 })),
            (0x200, &[5, 6], None),
        ] {
            assert_eq!(parse(&event(what, 3, 9, data)), numbered(expected));
        }
        assert_eq!(parse(&event(0, 3, 9, &[0])), numbered(None));
        assert_eq!(parse(&event(0, u32::MAX, 9, &[0])), None);
        assert_eq!(parse(&event(2, 3, 9, &[5])), None);
    }

    #[test]
    fn two_queues_are_joined_in_the_order_of_time() {
        let at = |time, number| Numbered { time, cpu: 0, number, event: None };
        // Execs first, as they are read, then the rest; what is later than 6 has perhaps a past that is not here yet.
        let mut held = vec![at(2, 11), at(5, 13), at(8, 15), at(1, 10), at(4, 12), at(7, 14)];
        let numbers = |held: &mut Vec<Numbered>, until| -> Vec<u32> {
            due(held, until).map(|numbered| numbered.number).collect()
        };
        assert_eq!(numbers(&mut held, 6), [10, 11, 12, 13]);
        assert_eq!(numbers(&mut held, 6), [0; 0]);
        held.push(at(6, 20));
        assert_eq!(numbers(&mut held, u64::MAX), [20, 14, 15]);
    }

    const NO_RIGHT: &str = "no right to hear the kernel's process events";

    /// A program's end is in the calm queue before its exec has been asked for: the exec is given first all the same.
    #[test]
    fn an_exec_is_given_before_the_end_it_led_to() {
        let Ok(mut connector) = Connector::open() else {
            return testkit::skip("an_exec_is_given_before_the_end_it_led_to", NO_RIGHT);
        };
        let children: Vec<u32> = (0..20)
            .map(|_| {
                let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
                child.wait().unwrap();
                child.id()
            })
            .collect();
        let mut seen: HashMap<u32, Vec<&str>> = HashMap::new();
        let take = |event| match event {
            Event::Fork { child, .. } => seen.entry(child).or_default().push("fork"),
            Event::Exec { tgid, .. } => seen.entry(tgid).or_default().push("exec"),
            Event::Exit { pid, .. } => seen.entry(pid).or_default().push("exit"),
            _ => {}
        };
        connector.drain(usize::MAX, take).unwrap();
        for child in children {
            assert_eq!(seen[&child], ["fork", "exec", "exit"]);
        }
        assert_eq!(connector.lost(), 0);
    }

    /// While a socket subscribes the kernel may leave out an event for it, which is not a loss: nothing was promised yet.
    #[test]
    fn whoever_subscribes_in_a_storm_has_lost_nothing() {
        let Ok(_other) = Connector::open() else {
            return testkit::skip("whoever_subscribes_in_a_storm_has_lost_nothing", NO_RIGHT);
        };
        let is_over = AtomicBool::new(false);
        let run = || {
            while !is_over.load(Ordering::Relaxed) {
                let _ = std::process::Command::new("/bin/true").status();
            }
        };
        let open = || {
            let mut connector = Connector::open().unwrap();
            for _ in 0..4 {
                let _ = std::process::Command::new("/bin/true").status();
                connector.drain(usize::MAX, |_| {}).unwrap();
            }
            connector.lost()
        };
        let lost: Vec<u64> = std::thread::scope(|scope| {
            scope.spawn(run);
            scope.spawn(run);
            let lost = (0..200).map(|_| open()).filter(|lost| *lost > 0).collect();
            is_over.store(true, Ordering::Relaxed);
            lost
        });
        assert_eq!(lost, [0u64; 0]);
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
