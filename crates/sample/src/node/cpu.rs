//! Time of all processors together, and what the scheduler counts: `/proc/stat`.

use crate::read::{lines, number, words};

/// `/proc/stat` without its lines per processor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cpu {
    pub ticks: Option<Ticks>,
    pub context_switches: Option<u64>,
    /// Processes and threads begun since boot.
    pub forks: Option<u64>,
    pub running: Option<u64>,
    /// Waiting for storage.
    pub blocked: Option<u64>,
    /// Seconds since 1970. It moves by a second when the clock is set.
    pub boot_time: Option<u64>,
}

/// Clock ticks since boot, summed over the processors. Kernels have added columns: those of a later one are unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ticks {
    /// Includes `guest`.
    pub user: Option<u64>,
    /// Includes `guest_nice`.
    pub nice: Option<u64>,
    pub system: Option<u64>,
    /// May go back a little when a processor is taken offline, and `iowait` at any time.
    pub idle: Option<u64>,
    pub iowait: Option<u64>,
    pub irq: Option<u64>,
    pub softirq: Option<u64>,
    pub steal: Option<u64>,
    pub guest: Option<u64>,
    pub guest_nice: Option<u64>,
}

/// The lines of `/proc/stat`.
pub fn parse_stat(text: &[u8]) -> Cpu {
    let mut cpu = Cpu::default();
    for line in lines(text) {
        let mut words = words(line);
        let Some(name) = words.next() else { continue };
        match name {
            b"cpu" => cpu.ticks = Some(ticks(words)),
            b"ctxt" => cpu.context_switches = words.next().and_then(number),
            b"btime" => cpu.boot_time = words.next().and_then(number),
            b"processes" => cpu.forks = words.next().and_then(number),
            b"procs_running" => cpu.running = words.next().and_then(number),
            b"procs_blocked" => cpu.blocked = words.next().and_then(number),
            _ => {}
        }
    }
    cpu
}

fn ticks<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Ticks {
    let mut next = || words.next().and_then(number);
    Ticks {
        user: next(),
        nice: next(),
        system: next(),
        idle: next(),
        iowait: next(),
        irq: next(),
        softirq: next(),
        steal: next(),
        guest: next(),
        guest_nice: next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns_of_a_later_kernel_are_unknown() {
        for (line, expected) in [
            ("cpu  1 2 3 4 5 6 7 8 9 10", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(Some)),
            ("cpu  1 2 3 4 5 6 7 8 9 10 11", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(Some)),
            ("cpu  1 2 3 4 5 6 7", known([1, 2, 3, 4, 5, 6, 7])),
            ("cpu  1 2 3 4", known([1, 2, 3, 4])),
            ("cpu", known([])),
        ] {
            assert_eq!(parse_stat(line.as_bytes()).ticks.map(columns), Some(expected), "{line}");
        }
        let odd = parse_stat(b"cpu 1 -2 3 4").ticks.unwrap();
        assert_eq!((odd.user, odd.nice, odd.system), (Some(1), None, Some(3)));
    }

    fn known<const N: usize>(values: [u64; N]) -> [Option<u64>; 10] {
        std::array::from_fn(|n| values.get(n).copied())
    }

    fn columns(ticks: Ticks) -> [Option<u64>; 10] {
        let Ticks { user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice } = ticks;
        [user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice]
    }

    #[test]
    fn lines_of_one_processor_are_not_the_sum() {
        assert_eq!(parse_stat(b"cpu0 1 2 3 4\nintr 5\n"), Cpu::default());
        let cpu = parse_stat(b"ctxt 1\nbtime 2\nprocesses 3\nprocs_running 4\nprocs_blocked 5\n");
        let expected = Cpu {
            ticks: None,
            context_switches: Some(1),
            boot_time: Some(2),
            forks: Some(3),
            running: Some(4),
            blocked: Some(5),
        };
        assert_eq!(cpu, expected);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_stat(&bytes);
            let _ = parse_stat(&[b"cpu ", bytes.as_slice()].concat());
        }
    }
}
