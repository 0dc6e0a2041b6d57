//! Counters of the processor: instructions, cycles, misses, floating point.
//!
//! They are counted per processor, for everything that runs on it or for one control group, and read as what was added since
//! the reading before. A set of events ([`events`]) is opened as one group of the kernel's, which is counted together or not
//! at all. Where there are more sets than the processor can count at once, the kernel takes turns; values are then scaled by
//! the time they were counted, and say for which share of the time that was. An event that is not there, not allowed or never
//! got its turn is unknown; [`Counters::why_not`] says why in words.
//!
//! Each event takes one open file per processor. For control groups each change from one task to another costs the kernel
//! more; where jobs have processors to themselves, the counters of these processors tell the same for less.

pub mod events;
mod open;
pub mod processor;
pub mod sums;
mod why;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, read};

pub use events::{Counter, Event, Precision, SOFTWARE, Set, Width};
pub use processor::{Machine, Processor, Vendor};
pub use why::Reason;

use open::Place;
use sums::Sums;

/// A share below this is worth a word: the kernel's own bookkeeping already takes some of the time.
const WHOLE: f64 = 0.95;

/// Whose events are counted.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// Everything that runs.
    Machine,
    /// Those in the control group with this directory, and below. In the first version that of the controller `perf_event`,
    /// see [`crate::Cgroups::directory`].
    Group(&'a Path),
}

/// What was counted on a processor since the reading before.
#[derive(Debug, Clone, PartialEq)]
pub struct OnCpu {
    pub cpu: u32,
    pub counts: Vec<Count>,
}

/// What was counted of an event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Count {
    pub event: Event,
    /// As if it had been counted all the time.
    pub value: Option<u64>,
    /// How long it was wanted. In a control group only the time in which one of its tasks ran.
    pub wanted_ns: u64,
    /// How long it was counted.
    pub counted_ns: u64,
}

/// Events that are open.
#[derive(Default)]
pub struct Counters {
    sets: Vec<OpenSet>,
    /// What could not be opened.
    refused: Vec<(Event, Reason)>,
    /// Events that are open on other processors only: unknown on these, so that sums over all are.
    absent: Vec<(u32, Event)>,
    /// What was not counted, or not all the time, at the last reading.
    starved: Vec<(Event, Reason)>,
    buffer: Vec<u8>,
}

/// Events on one processor that are counted together; the first is the leader.
struct OpenSet {
    cpu: u32,
    counters: Vec<Counter>,
    /// In the order of `counters`.
    files: Vec<OwnedFd>,
    before: Sums,
}

impl Count {
    /// For which share of the time it was counted. Unknown where no time passed.
    pub fn share(&self) -> Option<f64> {
        self.sums().share()
    }

    fn sums(&self) -> Sums {
        Sums { enabled_ns: self.wanted_ns, running_ns: self.counted_ns, values: Vec::new() }
    }
}

impl Counters {
    /// Opens all that this machine can count, for everything that runs on it.
    pub fn of_machine(machine: &Machine) -> Counters {
        let cpus = machine.online().unwrap_or_default();
        Counters::open(machine, Scope::Machine, &cpus, events::sets(machine.processor()))
    }

    /// Opens sets of events on some processors. What cannot be opened is left out, and [`Counters::why_not`] says why.
    pub fn open(machine: &Machine, scope: Scope, cpus: &[u32], sets: &[Set]) -> Counters {
        let mut counters = Counters::default();
        let group = match scope {
            Scope::Machine => None,
            Scope::Group(path) => {
                match openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
                    Ok(group) => Some(group),
                    Err(_) => {
                        counters.refused.extend(
                            sets.iter().copied().flatten().map(|one| (one.event, Reason::NoSuchGroup)),
                        );
                        return counters;
                    }
                }
            }
        };
        let group = group.as_ref().map(|group| group.as_fd());
        let (paranoid, has_counters) = (machine.paranoid(), machine.has_counters());
        for cpu in cpus {
            for set in sets {
                counters.open_set(*cpu, group, set, |error, event| {
                    Reason::of(error, paranoid, has_counters, event)
                });
            }
        }
        let sets = &counters.sets;
        let is_open =
            |event: Event| sets.iter().flat_map(|set| &set.counters).any(|counter| counter.event == event);
        counters.absent.retain(|(_, event)| is_open(*event));
        counters
    }

    /// Opens a set; an event for which there is no room beside the others begins one of its own.
    fn open_set(
        &mut self,
        cpu: u32,
        group: Option<BorrowedFd>,
        set: &[Counter],
        reason: impl Fn(Errno, Event) -> Reason,
    ) {
        let first = self.sets.len();
        for counter in set {
            if self.refused.iter().any(|(event, reason)| *event == counter.event && reason.is_everywhere()) {
                self.absent.push((cpu, counter.event));
                continue;
            }
            let leader = self.sets.get_mut(first..).and_then(<[OpenSet]>::last_mut);
            let beside = leader.map(|leader| leader.add(*counter, group));
            if beside.is_some_and(|beside| beside.is_ok()) {
                continue;
            }
            match OpenSet::open(*counter, cpu, group) {
                Ok(set) => self.sets.push(set),
                Err(error) => {
                    self.refused.push((counter.event, reason(error, counter.event)));
                    self.absent.push((cpu, counter.event));
                }
            }
        }
        for set in self.sets.get(first..).unwrap_or_default() {
            // What does not start is never counted, which shows when it is read.
            let _ = set.leader().map(open::start);
        }
    }

    /// What was counted since the reading before this one, or since the opening.
    pub fn read(&mut self) -> Vec<OnCpu> {
        let mut all: Vec<OnCpu> = Vec::new();
        self.starved.clear();
        for set in &mut self.sets {
            let counts = set.read(&mut self.buffer);
            self.starved.extend(counts.iter().filter_map(starved));
            put(&mut all, set.cpu, counts);
        }
        for (cpu, event) in &self.absent {
            put(&mut all, *cpu, vec![Count { event: *event, value: None, wanted_ns: 0, counted_ns: 0 }]);
        }
        all
    }

    /// Whether nothing could be opened.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Open files.
    pub fn files(&self) -> usize {
        self.sets.iter().map(|set| set.files.len()).sum()
    }

    /// What is not counted, or was not all the time at the last reading.
    pub fn lacks(&self) -> impl Iterator<Item = (Event, Reason)> {
        self.refused.iter().chain(&self.starved).copied()
    }

    /// The same in words, a line for each reason.
    pub fn why_not(&self) -> Vec<String> {
        let lacks: Vec<(Event, Reason)> = self.lacks().collect();
        why::in_words(&lacks)
    }
}

fn put(all: &mut Vec<OnCpu>, cpu: u32, counts: Vec<Count>) {
    match all.iter_mut().rfind(|known| known.cpu == cpu) {
        Some(known) => known.counts.extend(counts),
        None => all.push(OnCpu { cpu, counts }),
    }
}

/// The sum of an event over processors. A sum with an unknown part is unknown.
pub fn total(readings: &[OnCpu], event: Event) -> Option<Count> {
    let mut counts = readings.iter().flat_map(|on| &on.counts).filter(|count| count.event == event);
    let first = *counts.next()?;
    Some(counts.fold(first, |sum, more| Count {
        event,
        value: sum.value.zip(more.value).and_then(|(sum, more)| sum.checked_add(more)),
        wanted_ns: sum.wanted_ns.saturating_add(more.wanted_ns),
        counted_ns: sum.counted_ns.saturating_add(more.counted_ns),
    }))
}

fn starved(count: &Count) -> Option<(Event, Reason)> {
    let share = count.share()?;
    let reason = match share {
        _ if count.counted_ns == 0 => Reason::NeverRan,
        _ if share < WHOLE => Reason::Shared { percent: (share * 100.0) as u8 },
        _ => return None,
    };
    Some((count.event, reason))
}

impl OpenSet {
    fn open(counter: Counter, cpu: u32, group: Option<BorrowedFd>) -> Result<OpenSet, Errno> {
        let file = open::open(counter.code, Place { cpu, group, leader: None })?;
        let before = Sums { values: vec![0], ..Sums::default() };
        Ok(OpenSet { cpu, counters: vec![counter], files: vec![file], before })
    }

    fn add(&mut self, counter: Counter, group: Option<BorrowedFd>) -> Result<(), Errno> {
        let place = Place { cpu: self.cpu, group, leader: self.leader() };
        let file = open::open(counter.code, place)?;
        self.counters.push(counter);
        self.files.push(file);
        self.before.values.push(0);
        Ok(())
    }

    fn leader(&self) -> Option<BorrowedFd<'_>> {
        self.files.first().map(|file| file.as_fd())
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> Vec<Count> {
        let added = self.added(buffer);
        let count = |(at, counter): (usize, &Counter)| {
            let value = added.as_ref().and_then(|added| {
                added.scaled(*added.values.get(at)?)?.checked_mul(u64::from(counter.per_count))
            });
            let (wanted_ns, counted_ns) =
                added.as_ref().map_or((0, 0), |added| (added.enabled_ns, added.running_ns));
            Count { event: counter.event, value, wanted_ns, counted_ns }
        };
        self.counters.iter().enumerate().map(count).collect()
    }

    fn added(&mut self, buffer: &mut Vec<u8>) -> Option<Sums> {
        // A byte more than the kernel has to give shows that it gave all.
        buffer.resize(8 * (sums::HEAD + self.files.len()) + 1, 0);
        let len = read(self.leader()?, &mut *buffer).ok()?;
        let now = sums::parse(buffer.get(..len)?)?;
        let added = now.since(&self.before);
        self.before = now;
        added
    }
}

#[cfg(test)]
mod tests;
