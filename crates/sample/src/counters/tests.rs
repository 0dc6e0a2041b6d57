//! Events of the kernel, which every machine has, and those of the processor where there are any.

use std::path::Path;
use std::time::Instant;

use super::*;

/// Makes page faults, one for each page.
fn touch(pages: usize) {
    rustix::thread::disable_transparent_huge_pages(true).unwrap();
    let mut memory = vec![0u8; pages * 4096];
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    std::hint::black_box(memory);
}

fn may_count(counters: &Counters) -> bool {
    let allowed = !counters
        .lacks()
        .any(|(_, reason)| matches!(reason, Reason::NotAllowed { .. } | Reason::NotInKernel));
    if !allowed {
        testkit::skip("counters of processors", counters.why_not().join("; "));
    }
    allowed
}

#[test]
fn events_of_the_kernel_are_counted_on_each_processor() {
    let machine = Machine::default();
    let cpus = machine.online().unwrap();
    let mut counters = Counters::open(&machine, Scope::Machine, &cpus, SOFTWARE);
    if !may_count(&counters) {
        return;
    }
    assert_eq!((counters.files(), counters.why_not()), (3 * cpus.len(), vec![]));
    let start = Instant::now();
    counters.read();
    touch(5000);
    let readings = counters.read();
    let elapsed = start.elapsed().as_nanos() as u64;
    assert_eq!(readings.iter().map(|on| on.cpu).collect::<Vec<_>>(), cpus);
    let faults = total(&readings, Event::PageFaults).unwrap();
    assert!((5000..1_000_000).contains(&faults.value.unwrap()), "{faults:?}");
    assert!(faults.share().unwrap() > 0.99, "{faults:?}");
    let clock = total(&readings, Event::TaskClock).unwrap();
    let most = elapsed * cpus.len() as u64 + 1_000_000;
    assert!((1..most).contains(&clock.wanted_ns), "{clock:?} {elapsed}");
    assert_eq!(total(&readings, Event::Cycles), None);
}

/// A reading has what was added, not the sum since the opening.
#[test]
fn readings_are_differences() {
    let machine = Machine::default();
    let cpus = machine.online().unwrap();
    let mut counters = Counters::open(&machine, Scope::Machine, &cpus, SOFTWARE);
    if !may_count(&counters) {
        return;
    }
    touch(5000);
    let start = Instant::now();
    let first = total(&counters.read(), Event::TaskClock).unwrap();
    let second = total(&counters.read(), Event::TaskClock).unwrap();
    let most = start.elapsed().as_nanos() as u64 * cpus.len() as u64;
    assert!(second.wanted_ns <= most && first.wanted_ns > 0, "{first:?} {second:?} {most}");
    assert!(second.value.unwrap() <= most + 1_000_000, "{second:?} {most}");
}

/// A processor that is not there makes the sum unknown, not smaller.
#[test]
fn what_is_open_on_some_processors_only_has_no_sum() {
    let mut counters = Counters::open(&Machine::default(), Scope::Machine, &[0, 70_000], SOFTWARE);
    if !may_count(&counters) {
        return;
    }
    let readings = counters.read();
    assert_eq!(readings.iter().map(|on| on.cpu).collect::<Vec<_>>(), [0, 70_000]);
    assert!(total(&readings[..1], Event::TaskClock).unwrap().value.is_some());
    assert_eq!(total(&readings, Event::TaskClock).unwrap().value, None);
}

#[test]
fn what_is_closed_leaves_no_file() {
    let machine = Machine::default();
    let count = || {
        let links = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        links.filter(|link| link == Path::new("anon_inode:[perf_event]")).count()
    };
    // Other tests of this process count at the same time, on the same processors and no more than these.
    let counters: Vec<Counters> =
        (0..50).map(|_| Counters::open(&machine, Scope::Machine, &[0], SOFTWARE)).collect();
    if !counters.first().is_some_and(may_count) {
        return;
    }
    assert!(count() >= 150);
    drop(counters);
    testkit::wait_until("the descriptors to be closed", || count() < 50);
}

/// On a machine without counters this is the reason; on one with them, they count.
#[test]
fn events_of_the_processor_are_counted_or_explained() {
    let machine = Machine::default();
    let mut counters = Counters::of_machine(&machine);
    touch(1000);
    let readings = counters.read();
    let instructions = total(&readings, Event::Instructions);
    match machine.has_counters() {
        Some(false) => {
            assert!(counters.is_empty() && instructions.is_none());
            let why = counters.why_not();
            assert_eq!(why.len(), 1, "{why:?}");
            let words = "the kernel found no counters in the processor";
            assert!(why[0].contains(words) || why[0].contains("not allowed"), "{why:?}");
            assert!(why[0].starts_with("cycles, instructions, "), "{why:?}");
        }
        _ if may_count(&counters) => assert!(instructions.unwrap().value.unwrap() > 0),
        _ => {}
    }
}

/// An event that is not there does not take those beside it along.
#[test]
fn a_set_is_opened_as_far_as_it_can_be() {
    const MIXED: &[Set] = &[&[
        Counter { event: Event::Loads, code: events::Code::Software(9999), per_count: 1 },
        Counter { event: Event::PageFaults, code: events::Code::Software(2), per_count: 3 },
        Counter { event: Event::Stores, code: events::Code::Software(9999), per_count: 1 },
        Counter { event: Event::TaskClock, code: events::Code::Software(1), per_count: 1 },
    ]];
    let machine = Machine { proc: "/proc".into(), sys: "/none".into() };
    let cpus = Machine::default().online().unwrap();
    let mut counters = Counters::open(&machine, Scope::Machine, &cpus, MIXED);
    if !may_count(&counters) {
        return;
    }
    let lacks: Vec<(Event, Reason)> = counters.lacks().collect();
    assert_eq!(lacks, [(Event::Loads, Reason::NoSuchEvent), (Event::Stores, Reason::NoSuchEvent)]);
    assert_eq!((counters.files(), counters.sets.len()), (2 * cpus.len(), cpus.len()));
    touch(1000);
    let readings = counters.read();
    let faults = total(&readings, Event::PageFaults).unwrap().value.unwrap();
    assert!(faults >= 3000 && faults.is_multiple_of(3), "{faults}");
}

#[test]
fn what_is_not_there_is_explained() {
    let machine = Machine::default();
    let group = Counters::open(&machine, Scope::Group(Path::new("/none/such")), &[0], SOFTWARE);
    assert!(group.is_empty());
    assert_eq!(
        group.why_not(),
        ["task clock, page faults, context switches: the control group cannot be opened"]
    );
    let cpu = Counters::open(&machine, Scope::Machine, &[70_000], SOFTWARE);
    assert!(cpu.is_empty() && cpu.why_not().len() == 1, "{:?}", cpu.why_not());
}

fn count(value: Option<u64>, wanted_ns: u64, counted_ns: u64) -> Count {
    Count { event: Event::Cycles, value, wanted_ns, counted_ns }
}

#[test]
fn a_sum_with_an_unknown_part_is_unknown() {
    let on = |cpu, counts: &[Count]| OnCpu { cpu, counts: counts.to_vec() };
    for (parts, expected) in [
        (vec![count(Some(1), 10, 10), count(Some(2), 10, 5)], count(Some(3), 20, 15)),
        (vec![count(Some(1), 10, 10), count(None, 10, 0)], count(None, 20, 10)),
        (vec![count(Some(u64::MAX), 10, 10), count(Some(1), 10, 10)], count(None, 20, 20)),
    ] {
        let readings: Vec<OnCpu> =
            parts.iter().enumerate().map(|(cpu, one)| on(cpu as u32, &[*one])).collect();
        assert_eq!(total(&readings, Event::Cycles), Some(expected));
    }
    assert_eq!(total(&[], Event::Cycles), None);
}

#[test]
fn turns_are_told() {
    for (count, expected) in [
        (count(Some(1), 100, 100), None),
        (count(Some(1), 100, 96), None),
        (count(Some(1), 100, 33), Some(Reason::Shared { percent: 33 })),
        (count(None, 100, 0), Some(Reason::NeverRan)),
        (count(Some(0), 0, 0), None),
    ] {
        assert_eq!(starved(&count).map(|(_, reason)| reason), expected, "{count:?}");
    }
}
