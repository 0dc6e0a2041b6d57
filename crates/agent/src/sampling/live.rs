//! What the processes of a job that run have used and hold, summed.

use std::collections::BTreeMap;

use record::metric::id;
use record::reading::{CommandReading, Values};
use sample::processes::Process;

use crate::table::Ended;

/// Nanoseconds of a clock tick.
pub fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// A sum of which every part must be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known(Option<u64>);

impl Default for Known {
    fn default() -> Self {
        Known(Some(0))
    }
}

impl Known {
    pub fn add(&mut self, part: Option<u64>) {
        self.0 = self.0.zip(part).map(|(sum, part)| sum.saturating_add(part));
    }

    pub fn get(self) -> Option<u64> {
        self.0
    }
}

/// Sums over processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Live {
    pub processes: u64,
    pub threads: u64,
    pub busy: Known,
    pub user_ticks: u64,
    pub system_ticks: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Memory that is no process's but one's.
    pub anonymous: Known,
    /// The largest of what each has mapped of shared memory: it is mostly the same.
    pub shared_memory: u64,
    pub swap: Known,
    pub read_bytes: Known,
    pub write_bytes: Known,
    pub read_chars: Known,
    pub write_chars: Known,
    pub switches: Known,
    pub involuntary_switches: Known,
}

impl Live {
    /// Adds a process. `ended` is what its threads did that have ended.
    pub fn add(&mut self, process: &Process, ended: &Ended) {
        let (times, status) = (&process.times, process.status.unwrap_or_default());
        self.processes += 1;
        self.threads += u64::from(times.threads);
        self.busy.add(process.busy);
        self.user_ticks += times.user_ticks;
        self.system_ticks += times.system_ticks;
        self.minor_faults += times.minor_faults;
        self.major_faults += times.major_faults;
        self.anonymous.add(process.memory.map(|memory| memory.resident.saturating_sub(memory.shared)));
        self.shared_memory = self.shared_memory.max(status.shared_memory.unwrap_or(0));
        self.swap.add(status.swap);
        self.read_bytes.add(process.io.map(|io| io.read_bytes + ended.read_bytes));
        self.write_bytes.add(process.io.map(|io| io.written_bytes + ended.write_bytes));
        self.read_chars.add(process.io.map(|io| io.read_chars + ended.read_chars));
        self.write_chars.add(process.io.map(|io| io.written_chars + ended.write_chars));
        self.switches.add(status.voluntary_switches);
        self.involuntary_switches.add(status.involuntary_switches);
    }

    /// Without a control group's word: private memory, and the shared memory once.
    pub fn memory(&self) -> Option<u64> {
        Some(self.anonymous.get()?.saturating_add(self.shared_memory))
    }
}

/// The processes of a job by their names. Counters are of those that run.
#[derive(Debug, Default)]
pub struct Commands(BTreeMap<Vec<u8>, Live>);

impl Commands {
    pub fn add(&mut self, process: &Process, ended: &Ended) {
        let name = process.times.name();
        match self.0.get_mut(name) {
            Some(live) => live.add(process, ended),
            None => {
                let mut live = Live::default();
                live.add(process, ended);
                self.0.insert(name.to_vec(), live);
            }
        }
    }

    /// The names and what they use, those with most CPU first, at most `max` of them.
    pub fn readings(self, max: usize) -> Vec<CommandReading> {
        let mut all: Vec<(Vec<u8>, Live)> = self.0.into_iter().collect();
        all.sort_by_key(|(_, live)| std::cmp::Reverse(live.user_ticks + live.system_ticks));
        all.truncate(max);
        all.into_iter()
            .map(|(name, live)| CommandReading { command: name.into(), values: live.values() })
            .collect()
    }
}

impl Live {
    fn values(&self) -> Values {
        let mut values = Values::default();
        let tick = tick_ns();
        values.put(id::CPU_USER, Some(self.user_ticks * tick));
        values.put(id::CPU_SYSTEM, Some(self.system_ticks * tick));
        values.put(id::MEMORY, self.memory());
        values.put(id::PROCESSES, Some(self.processes));
        values.put(id::THREADS, Some(self.threads));
        values.put(id::READ_BYTES, self.read_bytes.get());
        values.put(id::WRITE_BYTES, self.write_bytes.get());
        values
    }
}
