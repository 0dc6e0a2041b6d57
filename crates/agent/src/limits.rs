//! Keeps the agent out of the way of the jobs: priority, processors, descriptors.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::CpuSet;

use crate::files::ROOTS_MAX;

/// Descriptors that the agent needs besides those of guests.
pub const OWN_DESCRIPTORS: u64 = 256 + ROOTS_MAX as u64;

/// Gives the calling thread the lowest priority.
pub fn lowest_priority() {
    let _ = rustix::process::nice(19);
}

/// Gives the calling thread, and those it starts, this priority.
pub fn set_nice(nice: i32) {
    let _ = rustix::process::nice(nice);
}

/// Asks for short turns on a processor, for the calling thread, and so for its turn at once.
///
/// What is looked at of a program that has just begun is soon gone, and takes a tenth of a millisecond. With the usual
/// slice a thread that shares a processor with the program gets its turn when the program's own is over, which is later
/// and falls on whatever the program does then. Kernels before 6.12 ignore it.
pub fn take_short_turns() {
    const SLICE_NS: u64 = 100_000;
    // The call sets the priority as well: it stays what the unit or the configuration made it.
    let Ok(nice) = rustix::process::getpriority_process(None) else { return };
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: SLICE_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads `size` bytes of a structure that lives until the call returns.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// Keeps the heap close to what is held; to be called before there are other threads.
///
/// One heap for all threads: with one for each, what one thread allocates and another frees stays with the heap of the first, and a text that
/// grows moves to the heap where its first bytes happened to lie. Large buffers never come from the heap: the allocator would begin to take
/// them from there once the first has been freed, and what is kept then fills parts of the holes that they leave. While a user ran 1,000
/// programs with 250 kB of variables each, the agent took up to 106 MiB without these, and takes 60 to 69 with them.
pub fn keep_heap_compact() {
    const LARGE: i32 = 128 * 1024;
    // SAFETY: sets numbers of the allocator's, before other threads exist.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

/// Every guest's shared memory is a descriptor: takes as many as the system gives.
pub fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Reads a list such as `0-3,8`.
pub fn parse_cpus(list: &str) -> Option<BTreeSet<usize>> {
    let mut cpus = BTreeSet::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last < first || last >= CpuSet::MAX_CPU {
            return None;
        }
        cpus.extend(first..=last);
    }
    (!cpus.is_empty()).then_some(cpus)
}

/// The processors that Slurm keeps for system daemons (`CoreSpecCount`, `CpuSpecList`): slurmd puts itself on
/// them through a group named `system` below its own.
pub fn slurm_system_cpus(cgroup_root: &Path) -> Option<BTreeSet<usize>> {
    let places = ["cpuset", ""].into_iter().flat_map(|controller| {
        let root = cgroup_root.join(controller);
        let entries = fs::read_dir(&root).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("slurm"))
            .map(|entry| entry.path().join("system/cpuset.cpus"))
            .collect::<Vec<_>>()
    });
    places.filter_map(|path| parse_cpus(&String::from_utf8(fs::read(path).ok()?).ok()?)).next()
}

/// Confines all threads of this process, and those they start, to these processors.
pub fn confine(cpus: &BTreeSet<usize>) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for thread in threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        rustix::thread::sched_setaffinity(Pid::from_raw(thread), &set)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        let set = |cpus: &[usize]| Some(cpus.iter().copied().collect());
        for (list, expected) in [
            ("0-2,5\n", set(&[0, 1, 2, 5])),
            ("3", set(&[3])),
            ("", None),
            ("\n", None),
            ("2-1", None),
            ("0-99999999", None),
            ("x", None),
        ] {
            assert_eq!(parse_cpus(list), expected, "{list:?}");
        }
    }

    #[test]
    fn short_turns_leave_the_priority_alone() {
        // In Linux a priority is a thread's.
        let nice = std::thread::spawn(|| {
            set_nice(3);
            take_short_turns();
            rustix::process::getpriority_process(None)
        });
        let before = rustix::process::getpriority_process(None).unwrap();
        assert_eq!(nice.join().unwrap(), Ok((before + 3).min(19)));
    }

    #[test]
    fn slurm_says_which_processors_are_the_systems() {
        let tree = tempfile::tempdir().unwrap();
        assert_eq!(slurm_system_cpus(tree.path()), None);
        fs::create_dir_all(tree.path().join("cpuset/slurm_n1/system")).unwrap();
        fs::write(tree.path().join("cpuset/slurm_n1/system/cpuset.cpus"), "0-1\n").unwrap();
        assert_eq!(slurm_system_cpus(tree.path()), Some([0, 1].into()));
    }
}
