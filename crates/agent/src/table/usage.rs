//! What an image used: the difference between its process's accounting at its end and at its beginning.

use record::entry::Used;
use record::guest::Start;
use sample::Proc;

use crate::kernel::TaskStats;

/// A program has touched less than this when its constructors run.
const START_PEAK_KIB: u64 = 32 * 1024;

/// More nanoseconds or bytes than this no process has used, and sums of what is less can be stored.
const MOST: u64 = 1 << 58;

/// The accounting of threads that have ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    pub cpu_ns: u64,
    pub user_us: u64,
    pub system_us: u64,
    pub peak_kib: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub read_chars: u64,
    pub write_chars: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub switches: u64,
    pub involuntary_switches: u64,
    /// The accounting of some thread was lost.
    pub missing: bool,
    /// Some thread's accounting is there.
    pub any: bool,
    pub exe: Option<(u64, u64)>,
}

impl Sum {
    pub fn add(&mut self, stats: &TaskStats) {
        self.cpu_ns += stats.cpu_ns;
        self.user_us += stats.user_us;
        self.system_us += stats.system_us;
        self.peak_kib = self.peak_kib.max(stats.peak_kib);
        self.read_bytes += stats.read_bytes;
        self.write_bytes += stats.write_bytes;
        self.read_chars += stats.read_chars;
        self.write_chars += stats.write_chars;
        self.minor_faults += stats.minor_faults;
        self.major_faults += stats.major_faults;
        self.switches += stats.switches;
        self.involuntary_switches += stats.involuntary_switches;
        self.exe = stats.exe.or(self.exe);
        self.any = true;
    }

    pub fn join(&mut self, other: &Sum) {
        self.cpu_ns += other.cpu_ns;
        self.user_us += other.user_us;
        self.system_us += other.system_us;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        self.read_chars += other.read_chars;
        self.write_chars += other.write_chars;
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
        self.switches += other.switches;
        self.involuntary_switches += other.involuntary_switches;
        self.missing |= other.missing;
        self.any |= other.any;
    }
}

/// What a process had used at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Base {
    pub user_ns: u64,
    pub system_ns: u64,
    /// Unknown where only CPU time could be read.
    pub io: Option<(u64, u64)>,
    /// The first image of a process: nothing was used before.
    pub is_origin: bool,
}

impl Base {
    /// The numbers are whatever a process has sent: what nobody can have used says nothing.
    pub fn from_guest(start: &Start) -> Option<Base> {
        let usage = start.usage?;
        let io = (usage.blocks_in.saturating_mul(512), usage.blocks_out.saturating_mul(512));
        let (user_ns, system_ns) = (usage.user_us.saturating_mul(1000), usage.system_us.saturating_mul(1000));
        let is_possible = [io.0, io.1, user_ns, system_ns].iter().all(|number| *number <= MOST);
        is_possible.then_some(Base { user_ns, system_ns, io: Some(io), is_origin: false })
    }

    fn io(&self) -> Option<(u64, u64)> {
        self.io.or(Some((0, 0)))
    }
}

/// The peak of the images before this one, if this one cannot have reached it itself before `main`.
pub fn earlier_peak(start: &Start) -> Option<u64> {
    Some(start.usage?.peak_kib).filter(|peak| (START_PEAK_KIB + 1..=MOST / 1024).contains(peak))
}

/// What a process has used until now, as `/proc` says.
pub fn base_from_proc(proc: &Proc, pid: u32) -> Option<Base> {
    let stat = proc.stat(pid)?;
    let (user_ns, system_ns) = split(proc.cpu_ns(pid)?, stat.user_ticks, stat.system_ticks);
    Some(Base { user_ns, system_ns, io: None, is_origin: false })
}

/// Splits the precise CPU time in the proportion of the sampled ones, as the kernel does for `getrusage`.
pub fn split(cpu_ns: u64, user: u64, system: u64) -> (u64, u64) {
    if system == 0 {
        return (cpu_ns, 0);
    }
    let system_ns = (u128::from(cpu_ns) * u128::from(system) / u128::from(user + system)) as u64;
    (cpu_ns - system_ns, system_ns)
}

/// What the last image of a process used: everything, less what was used before it.
pub fn at_exit(total: &Sum, own_peak_kib: u64, base: Option<Base>) -> Used {
    if total.missing || !total.any {
        return Used { max_rss_bytes: peak_bytes(own_peak_kib), ..Used::default() };
    }
    let (user, system) = split(total.cpu_ns, total.user_us, total.system_us);
    let io = base.and_then(|base| base.io());
    Used {
        user_ns: base.map(|base| user.saturating_sub(base.user_ns)),
        system_ns: base.map(|base| system.saturating_sub(base.system_ns)),
        max_rss_bytes: peak_bytes(own_peak_kib),
        read_bytes: io.map(|(read, _)| total.read_bytes.saturating_sub(read)),
        write_bytes: io.map(|(_, write)| total.write_bytes.saturating_sub(write)),
    }
}

/// What an image used that another one followed.
pub fn until_exec(base: Option<Base>, end: Option<Base>, peak_kib: u64) -> Used {
    let both = base.zip(end);
    let io = both.and_then(|(base, end)| Some((base.io()?, end.io?)));
    Used {
        user_ns: both.map(|(base, end)| end.user_ns.saturating_sub(base.user_ns)),
        system_ns: both.map(|(base, end)| end.system_ns.saturating_sub(base.system_ns)),
        max_rss_bytes: peak_bytes(peak_kib),
        read_bytes: io.map(|(base, end)| end.0.saturating_sub(base.0)),
        write_bytes: io.map(|(base, end)| end.1.saturating_sub(base.1)),
    }
}

/// No program has a peak of zero: then it is not known.
fn peak_bytes(kib: u64) -> Option<u64> {
    (kib > 0).then_some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precise_time_is_split_as_the_kernel_does() {
        for (cpu, user, system, expected) in [
            (1000, 0, 0, (1000, 0)),
            (1000, 5, 0, (1000, 0)),
            (1000, 0, 5, (0, 1000)),
            (1000, 3, 1, (750, 250)),
            (u64::MAX, 1, 1, (u64::MAX - u64::MAX / 2, u64::MAX / 2)),
        ] {
            assert_eq!(split(cpu, user, system), expected);
        }
    }

    #[test]
    fn without_a_beginning_or_accounting_the_use_is_unknown() {
        let sum = Sum { cpu_ns: 10, any: true, peak_kib: 4, ..Sum::default() };
        assert_eq!(at_exit(&sum, 4, None).user_ns, None);
        assert_eq!(at_exit(&sum, 4, None).max_rss_bytes, Some(4096));
        assert_eq!(at_exit(&Sum { missing: true, ..sum }, 0, Some(Base::default())), Used::default());
        assert_eq!(at_exit(&Sum::default(), 0, Some(Base::default())), Used::default());
        assert_eq!(at_exit(&sum, 4, Some(Base::default())).user_ns, Some(10));
    }
}
