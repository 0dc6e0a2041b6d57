//! A job or session from its first reading to its last: its counters only grow, whatever their sources do.

use std::collections::HashMap;

use record::metric::{Kind, by_id, id};
use record::reading::{JobReading, Reserved, Values};
use sample::cgroup::{Groups, Limit, Usage};

use super::cards::{Share, put_sums};
use super::collect::Own;
use super::kept::Kept;
use super::live::{Live, tick_ns};
use crate::clock::Clock;
use crate::table::{Account, Ended, Subject};

/// Commands of a job that are told apart in a reading.
const COMMANDS_MAX: usize = 32;

/// A counter of the kernel's that may begin again, when a control group is made anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Growing {
    before: u64,
    last: Option<u64>,
}

impl Growing {
    /// The sum with what it had before it began again; the last one known if it cannot be read now.
    fn total(&mut self, read: Option<u64>) -> Option<u64> {
        if let Some(now) = read {
            let last = self.last.unwrap_or(0);
            if now < last {
                self.before = self.before.saturating_add(last);
            }
            self.last = Some(now);
        }
        self.last.map(|last| self.before.saturating_add(last))
    }
}

/// A job or session that is read again and again.
#[derive(Debug, Default)]
pub struct Tracked {
    /// Its control groups, once one of its processes has told them.
    pub groups: Option<Groups>,
    cpu: Growing,
    cpu_user: Growing,
    cpu_system: Growing,
    throttled: Growing,
    read_bytes: Growing,
    write_bytes: Growing,
    oom_kills: Growing,
    pressures: [Growing; 3],
    /// As control groups count it.
    peak: Option<u64>,
    peak_of_processes: Option<u64>,
    limit: Option<u64>,
    processors: Option<u32>,
    /// Counters of the reading before.
    counters: Values,
    /// What each GPU's own counter said last, and what was added to it since the job began.
    card_energies: HashMap<String, u64>,
    energy: Option<u64>,
    /// What the control group said last, also between readings.
    usage: Usage,
    /// Its last reading was sent.
    pub is_over: bool,
    /// From this time of day on it is read by all sensors again, if only some are read more often.
    pub full_at: u64,
    /// For the agent that comes after this one.
    pub kept: Option<Kept>,
}

impl Tracked {
    /// Goes on where an earlier agent stopped.
    pub fn from_kept(kept: &Kept) -> Tracked {
        let values = &kept.reading.values;
        let reserved = kept.reading.reserved.unwrap_or_default();
        Tracked {
            counters: values.clone(),
            peak_of_processes: values.get(id::MEMORY_PEAK),
            energy: values.get(id::GPU_ENERGY),
            limit: reserved.memory,
            processors: reserved.cpus,
            kept: Some(kept.clone()),
            ..Tracked::default()
        }
    }

    /// Takes in what the control group says; to be called as often as it is read.
    pub fn hear(&mut self, usage: Usage) {
        if usage.is_gone {
            return;
        }
        self.cpu.total(usage.cpu.total_ns);
        self.cpu_user.total(usage.cpu.user_ns);
        self.cpu_system.total(usage.cpu.system_ns);
        self.throttled.total(usage.cpu.throttled_ns);
        self.read_bytes.total(usage.io.read_bytes);
        self.write_bytes.total(usage.io.written_bytes);
        self.oom_kills.total(usage.memory.oom_kills);
        let pressure = &usage.pressure;
        for (growing, stall) in self.pressures.iter_mut().zip([pressure.cpu, pressure.memory, pressure.io]) {
            growing.total(stall.some_us.and_then(|us| us.checked_mul(1000)));
        }
        self.peak = self.peak.max(usage.memory.peak);
        self.limit = match usage.memory.limit {
            Some(Limit::Bytes(bytes)) => Some(bytes),
            _ => self.limit,
        };
        self.processors = usage.processors.or(self.processors);
        self.usage = usage;
    }

    /// The values now. What only grows does so: a process may be gone from `/proc` and not yet in the account.
    pub fn values(&mut self, ended: &Ended, live: &Live) -> Values {
        let mut values = Values::default();
        self.put_cpu(&mut values, ended, live);
        self.put_memory(&mut values, ended, live);
        let plus = |ended: u64, live: Option<u64>| live.map(|live| ended.saturating_add(live));
        let storage = |own: Option<u64>, group: &mut Growing| own.max(group.total(None));
        let read = plus(ended.read_bytes, live.read_bytes.get());
        let written = plus(ended.write_bytes, live.write_bytes.get());
        values.put(id::READ_BYTES, storage(read, &mut self.read_bytes));
        values.put(id::WRITE_BYTES, storage(written, &mut self.write_bytes));
        // What the kernel counts for a process includes network file systems; only a control group counts by device.
        values.put(id::DISK_READ, self.read_bytes.total(None));
        values.put(id::DISK_WRITE, self.write_bytes.total(None));
        values.put(id::READ_CHARS, plus(ended.read_chars, live.read_chars.get()));
        values.put(id::WRITE_CHARS, plus(ended.write_chars, live.write_chars.get()));
        values.put(id::PROCESSES, Some(live.processes));
        values.put(id::THREADS, Some(live.threads));
        values.put(id::JOB_LOAD, live.busy.get());
        values.put(id::MINOR_FAULTS, Some(ended.minor_faults + live.minor_faults));
        values.put(id::MAJOR_FAULTS, Some(ended.major_faults + live.major_faults));
        values.put(id::SWITCHES, plus(ended.switches, live.switches.get()));
        let involuntary = plus(ended.involuntary_switches, live.involuntary_switches.get());
        values.put(id::INVOLUNTARY_SWITCHES, involuntary);
        // A group that was removed with its process did not live to tell.
        let in_log = Some(ended.killed_for_memory).filter(|kills| *kills > 0);
        values.put(id::OOM_KILLS, self.oom_kills.total(None).max(in_log));
        for (id, growing) in
            [id::CPU_PRESSURE, id::MEMORY_PRESSURE, id::IO_PRESSURE].into_iter().zip(&mut self.pressures)
        {
            values.put(id, growing.total(None));
        }
        self.never_fall(&mut values);
        values
    }

    fn put_cpu(&mut self, values: &mut Values, ended: &Ended, live: &Live) {
        let tick = tick_ns();
        let user = ended.user_ns.saturating_add(live.user_ticks.saturating_mul(tick));
        let system = ended.system_ns.saturating_add(live.system_ticks.saturating_mul(tick));
        // The group counts to the nanosecond; accounting also has what happened after it was last read.
        let total = self.cpu.total(None).max(Some(user.saturating_add(system)));
        values.put(id::CPU, total);
        values.put(id::CPU_USER, self.cpu_user.total(None).max(Some(user)));
        values.put(id::CPU_SYSTEM, self.cpu_system.total(None).max(Some(system)));
        values.put(id::CPU_THROTTLED, self.throttled.total(None));
    }

    fn put_memory(&mut self, values: &mut Values, ended: &Ended, live: &Live) {
        let memory = &self.usage.memory;
        let shared = memory.shmem.unwrap_or(0);
        let own = if live.processes == 0 { Some(0) } else { live.memory() };
        let in_group = memory.anon.filter(|_| live.processes > 0);
        values.put(id::MEMORY, in_group.map(|anon| anon.saturating_add(shared)).or(own));
        values.put(id::MEMORY_CACHE, memory.file.map(|file| file.saturating_sub(shared)));
        values.put(id::MEMORY_SWAP, memory.swap.or(live.swap.get()));
        // Processes that were just forked share what each of them is charged with: their sum counts only where no group has counted.
        self.peak_of_processes = self.peak_of_processes.max(live.memory());
        let of_one = Some(ended.peak_bytes).filter(|peak| *peak > 0);
        values.put(id::MEMORY_PEAK, self.peak.or(self.peak_of_processes).max(of_one));
    }

    /// Energy is added from reading to reading: a card's own counter began long before the job.
    fn put_cards(&mut self, values: &mut Values, shares: &[Share]) {
        put_sums(values, shares);
        for share in shares {
            let Some(now) = share.energy else { continue };
            let before = self.card_energies.insert(share.reading.card.clone(), now);
            let grown = before.map_or(0, |before| now.saturating_sub(before));
            self.energy = Some(self.energy.unwrap_or(0).saturating_add(grown));
        }
        values.put(id::GPU_ENERGY, self.energy);
    }

    fn never_fall(&mut self, values: &mut Values) {
        let is_counter = |id| by_id(id).is_some_and(|metric| metric.kind == Kind::Counter);
        let fallen: Vec<(u16, u64)> = self
            .counters
            .iter()
            .filter(|(id, before)| is_counter(*id) && values.get(*id).is_none_or(|now| now < *before))
            .collect();
        fallen.into_iter().for_each(|(id, before)| values.put(id, Some(before)));
        self.counters = values.clone();
    }

    /// The reading of a job.
    pub fn reading(&mut self, account: &Account, own: Own, clock: &Clock) -> JobReading {
        let Subject { job, node, session } = account.subject.clone();
        let mut values = self.values(&account.ended, &own.live);
        self.put_cards(&mut values, &own.cards);
        let reading = JobReading {
            cluster: account.cluster.clone(),
            job,
            session,
            node,
            uid: account.uid,
            user: None,
            start: clock.wall(account.first_start),
            end: None,
            every: 0,
            values,
            commands: own.commands.readings(COMMANDS_MAX),
            reserved: self.reserved(&account.reserved),
            is_shared: own.is_shared,
            cards: own.cards.into_iter().map(|share| share.reading).collect(),
        };
        let kept = JobReading { commands: Vec::new(), cards: Vec::new(), ..reading.clone() };
        self.kept = Some(Kept { reading: kept, ended: account.ended });
        reading
    }

    /// What the environment says, and the control group where it does not.
    fn reserved(&self, told: &Reserved) -> Option<Reserved> {
        let reserved = Reserved {
            cpus: told.cpus.or(self.processors),
            memory: told.memory.or(self.limit),
            gpus: told.gpus,
        };
        (reserved != Reserved::default()).then_some(reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_begins_again_goes_on() {
        let mut growing = Growing::default();
        let totals: Vec<_> =
            [None, Some(5), Some(9), None, Some(2), Some(4), Some(1)].map(|read| growing.total(read)).into();
        let expected = [None, Some(5), Some(9), Some(9), Some(11), Some(13), Some(14)];
        assert_eq!(totals, expected);
    }

    fn usage(cpu: u64, peak: u64) -> Usage {
        let mut usage = Usage::default();
        usage.cpu.total_ns = Some(cpu);
        usage.memory.peak = Some(peak);
        usage
    }

    #[test]
    fn what_ended_counts_and_nothing_falls() {
        let mut tracked = Tracked::default();
        let mut live = Live { processes: 1, user_ticks: 100, ..Live::default() };
        let ended = Ended::default();
        let first = tracked.values(&ended, &live);
        assert_eq!(first.get(id::CPU), Some(100 * tick_ns()));
        // It has ended, and its accounting is still on the way.
        live = Live::default();
        assert_eq!(tracked.values(&ended, &live).get(id::CPU), Some(100 * tick_ns()));
        let ended = Ended { user_ns: 120 * tick_ns(), peak_bytes: 7000, ..Ended::default() };
        let last = tracked.values(&ended, &live);
        assert_eq!((last.get(id::CPU), last.get(id::MEMORY_PEAK)), (Some(120 * tick_ns()), Some(7000)));
    }

    #[test]
    fn the_group_knows_more_than_the_processes() {
        let mut tracked = Tracked::default();
        tracked.hear(usage(5_000_000_000, 1 << 30));
        tracked.hear(Usage { is_gone: true, ..Usage::default() });
        let values = tracked.values(&Ended { peak_bytes: 4096, ..Ended::default() }, &Live::default());
        assert_eq!((values.get(id::CPU), values.get(id::MEMORY_PEAK)), (Some(5_000_000_000), Some(1 << 30)));
        assert_eq!(values.get(id::MEMORY), Some(0));
        let in_log = Ended { killed_for_memory: 2, ..Ended::default() };
        assert_eq!(tracked.values(&in_log, &Live::default()).get(id::OOM_KILLS), Some(2));
        let mut tracked = Tracked::default();
        let values = tracked.values(&Ended::default(), &Live::default());
        // Nobody has said anything about them.
        assert_eq!((values.get(id::OOM_KILLS), values.get(id::IO_PRESSURE)), (None, None));
    }

    #[test]
    fn what_forked_processes_share_is_counted_once() {
        let mut forked = Live { processes: 2, ..Live::default() };
        forked.anonymous.add(Some(600));
        let values = |tracked: &mut Tracked, ended: u64| {
            tracked.values(&Ended { peak_bytes: ended, ..Ended::default() }, &forked).get(id::MEMORY_PEAK)
        };
        let mut tracked = Tracked::default();
        assert_eq!(values(&mut tracked, 300), Some(600));
        tracked.hear(usage(1, 310));
        assert_eq!(values(&mut tracked, 300), Some(310));
        // One process alone had more than the group told when it was last read.
        assert_eq!(values(&mut tracked, 320), Some(320));
    }

    #[test]
    fn memory_that_was_not_asked_for_is_what_the_group_may_have() {
        let limited = |limit| {
            let mut usage = usage(1, 1);
            usage.memory.limit = limit;
            usage
        };
        for (told, limit, expected) in [
            (Some(100), Some(Limit::Bytes(800)), Some(100)),
            // `--mem=0` says nothing, and the group has a number or none.
            (None, Some(Limit::Bytes(800)), Some(800)),
            (None, Some(Limit::Unlimited), None),
            (None, None, None),
        ] {
            let mut tracked = Tracked::default();
            tracked.hear(limited(limit));
            let reserved = tracked.reserved(&Reserved { memory: told, ..Reserved::default() });
            assert_eq!(reserved.and_then(|reserved| reserved.memory), expected, "{told:?} {limit:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        let mut live = Live::default();
        live.read_bytes.add(None);
        live.read_bytes.add(Some(1));
        let values = Tracked::default().values(&Ended::default(), &live);
        assert_eq!((values.get(id::READ_BYTES), values.get(id::WRITE_BYTES)), (None, Some(0)));
    }
}
