//! The kernel's traps as sequences of events, on a `/proc` that is made for each.

mod containers;
mod running;
mod without_kernel;

use std::fs;
use std::sync::Arc;

use record::entry::{EndedBy, JobFrom, WithoutGuest};
use record::guest::{Message, Object, Start, Usage};
use record::wire::{Writer, late};
use sample::Proc;
use sample::process::Mapping;
use tempfile::TempDir;

use super::accounts::ACCOUNTS_MAX;
use super::{Finished, FromGuest, Surroundings, Table};
use crate::clock::Clock;
use crate::clock::tests::Hands;
use crate::files::{Files, HashLimits};
use crate::kernel::{Event, Record, TaskStats};
use crate::owners::Owners;
use crate::peek::Peeks;
use crate::receive::Heard;
use crate::shares::Shares;

const SECOND: u64 = 1_000_000_000;

struct World {
    proc: TempDir,
    table: Table,
}

impl World {
    fn new() -> World {
        World::by(Clock::now())
    }

    fn by(clock: Clock) -> World {
        let proc = tempfile::tempdir().unwrap();
        let reader = Proc::new(proc.path());
        let limits = HashLimits { max_bytes: 1 << 20, bytes_per_second: 1 << 30 };
        let files = Files::start(reader.clone(), limits, Arc::default(), |_| {}).unwrap();
        let rules = record::rules::RuleSet::default().pack().unwrap();
        let table = Table::new(Surroundings {
            peeks: Peeks::new(reader.clone(), Arc::default(), files.waits().clone()),
            proc: reader,
            clock,
            host: "h".into(),
            cluster: None,
            files,
            counters: Arc::default(),
            rules: Arc::new(rules),
            has_kernel: true,
            memory: Shares::new(1 << 20),
            owners: Owners::default(),
        });
        World { proc, table }
    }

    /// A process as `/proc` shows it.
    fn proc_entry(&self, pid: u32, start_ticks: u64) {
        let dir = self.proc.path().join(pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        let stat = format!("{pid} (x) S 1 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 {start_ticks} 0 0");
        fs::write(dir.join("stat"), stat).unwrap();
    }

    fn events(&mut self, events: &[Event]) {
        events.iter().for_each(|event| self.table.event(*event));
        self.table.settle();
    }

    fn stats(&mut self, pid: u32, cpu_ns: u64) {
        self.table.stats(TaskStats { pid, cpu_ns, peak_kib: 100, ..TaskStats::default() });
    }

    fn guest(&mut self, pid: u32, time: u64, exe: &str, used_us: u64) {
        let usage = Some(Usage { user_us: used_us, ..Usage::default() });
        let start = Start { time, exe: exe.as_bytes().into(), usage, ..Start::default() };
        self.hear(pid, 7, Message::Start(Box::new(start)));
    }

    fn hear(&mut self, pid: u32, uid: u32, message: Message) {
        let mut from = sent(pid, uid, message);
        from.received = from.time();
        self.table.guest(from);
    }

    fn counted(&self, name: &str) -> u64 {
        let counters = self.table.around.counters.snapshot();
        counters.iter().find(|(counter, _)| counter == name).expect(name).1
    }

    /// Everything that has ended, as (pid, exec, end, status, program).
    fn ended(&mut self) -> Vec<Finished> {
        self.table.finish_all()
    }
}

/// Nothing is left to be read.
fn all() -> Heard {
    Heard { accepted_until: u64::MAX, ..Heard::default() }
}

fn sent(pid: u32, uid: u32, message: Message) -> FromGuest {
    let whole = Shares::new(16);
    let (held, slot) = (whole.hold(uid, 1).unwrap(), whole.hold(uid, 1).unwrap());
    FromGuest { pid, uid, user: uid, message, memory: None, held, slot, received: 5 * SECOND }
}

fn fork(time: u64, parent: u32, child: u32) -> Event {
    Event::Fork { time, parent_tgid: parent, child, child_tgid: child }
}

fn thread(time: u64, tgid: u32, child: u32) -> Event {
    Event::Fork { time, parent_tgid: tgid, child, child_tgid: tgid }
}

fn exec(time: u64, tgid: u32) -> Event {
    Event::Exec { time, tgid }
}

fn exit(time: u64, pid: u32, tgid: u32, status: u32) -> Event {
    Event::Exit { time, pid, tgid, status }
}

fn said(finished: &Finished) -> (u32, u32, EndedBy, Option<u32>) {
    let image = &finished.image;
    (image.key.pid, image.key.exec, image.ended_by, image.exit_code.or(image.signal))
}

#[test]
fn a_leader_that_ends_first_does_not_end_the_process() {
    let mut world = World::new();
    world.events(&[fork(1, 1, 10), exec(2, 10), thread(3, 10, 11), exit(4, 10, 10, 0)]);
    assert!(world.ended().is_empty(), "its other thread runs");
    world.events(&[exit(5, 11, 10, 5 << 8)]);
    assert_eq!(world.ended().iter().map(said).collect::<Vec<_>>(), [(10, 1, EndedBy::Exit, Some(5))]);
}

#[test]
fn an_exec_from_a_thread_shows_the_leaders_end_first() {
    let mut world = World::new();
    world.events(&[
        fork(1, 1, 10),
        exec(2, 10),
        thread(3, 10, 11),
        exit(4, 10, 10, 9),
        exec(5, 10),
        exit(6, 10, 10, 0),
    ]);
    let ended = world.ended();
    let said: Vec<_> = ended.iter().map(said).collect();
    assert_eq!(said, [(10, 1, EndedBy::Exec, None), (10, 2, EndedBy::Exit, Some(0))]);
}

#[test]
fn a_number_that_comes_again_is_another_process() {
    let mut world = World::new();
    world.stats(10, 100);
    world.stats(10, 200);
    world.events(&[
        fork(1, 1, 10),
        exec(2, 10),
        exit(3, 10, 10, 0),
        fork(5, 1, 10),
        exec(6, 10),
        exit(7, 10, 10, 0),
    ]);
    world.guest(10, 6, "/second", 0);
    world.guest(10, 2, "/first", 0);
    let ended = world.ended();
    let said: Vec<_> =
        ended.iter().map(|f| (f.image.exe.as_ref().unwrap().to_string(), f.image.used.user_ns)).collect();
    assert_eq!(said, [("/first".into(), Some(100)), ("/second".into(), Some(200))]);
}

#[test]
fn each_image_is_charged_with_the_difference() {
    let mut world = World::new();
    world.stats(10, 500_000);
    world.events(&[fork(1, 1, 10), exec(2, 10)]);
    world.guest(10, 3, "/a", 0);
    world.events(&[exec(10, 10)]);
    world.guest(10, 11, "/b", 300);
    world.events(&[exit(20, 10, 10, 0)]);
    let used: Vec<_> = world.ended().iter().map(|f| f.image.used.user_ns).collect();
    assert_eq!(used, [Some(300_000), Some(200_000)]);
}

#[test]
fn lost_accounting_is_unknown() {
    let mut world = World::new();
    world.events(&[fork(1, 1, 10), exec(2, 10), exit(3, 10, 10, 0)]);
    assert_eq!(world.ended()[0].image.used.user_ns, None);
}

#[test]
fn a_forked_copy_is_an_image_only_if_it_executes_nothing() {
    let mut world = World::new();
    world.events(&[fork(1, 1, 10), exec(2, 10)]);
    world.guest(10, 3, "/a", 0);
    world.events(&[
        fork(4, 10, 20),
        exit(5, 20, 20, 7 << 8),
        fork(6, 10, 21),
        exec(7, 21),
        exit(8, 21, 21, 0),
    ]);
    let ended = world.ended();
    assert_eq!(
        ended.iter().map(said).collect::<Vec<_>>(),
        [(20, 0, EndedBy::Exit, Some(7)), (21, 1, EndedBy::Exit, Some(0))]
    );
    assert_eq!(ended[0].image.forked_from.unwrap().pid, 10);
    assert_eq!(ended[0].image.without_guest, Some(WithoutGuest::Forked));
    assert_eq!(ended[0].image.exe.as_ref().unwrap().to_string(), "/a", "a copy of its parent");
    assert_eq!(ended[1].image.forked_from, None);
}

#[test]
fn after_lost_events_what_runs_is_compared_with_what_is_known() {
    let mut world = World::new();
    let ticks = crate::clock::monotonic_ns() / 10_000_000;
    world.proc_entry(30, ticks);
    world.events(&[fork(1, 1, 10), exec(2, 10)]);
    world.table.resynchronise();
    assert_eq!(world.ended().iter().map(said).collect::<Vec<_>>(), [(10, 1, EndedBy::Unknown, None)]);
    world.events(&[exit(SECOND, 30, 30, 3 << 8)]);
    assert_eq!(world.ended().iter().map(said).collect::<Vec<_>>(), [(30, 1, EndedBy::Exit, Some(3))]);
}

#[test]
fn a_message_without_a_process_waits_and_is_counted() {
    let mut world = World::new();
    world.guest(10, 5, "/a", 0);
    assert!(world.table.tick(6, &all()).is_empty());
    world.events(&[fork(1, 1, 10), exec(4, 10)]);
    world.table.tick(7, &all());
    world.events(&[exit(8, 10, 10, 0)]);
    assert_eq!(world.ended()[0].image.exe.as_ref().unwrap().to_string(), "/a");
    world.guest(99, 15, "/b", 0);
    world.table.note_events_until(14);
    world.table.tick(20, &all());
    assert_eq!(world.counted("guest_messages_unmatched"), 0, "its exec may not have been told yet");
    world.table.note_events_until(15);
    world.table.tick(21, &all());
    assert_eq!(world.counted("guest_messages_unmatched"), 1);
    world.guest(99, 15, "/b", 0);
    assert_eq!(world.counted("guest_messages_unmatched"), 2, "its exec would be known");
    world.guest(99, 16, "/b", 0);
    world.ended();
    assert_eq!(world.counted("guest_messages_unmatched"), 3, "what waits at the end is counted");
}

impl World {
    fn in_group(&self, pid: u32, path: &str) {
        self.proc_entry(pid, 1);
        fs::write(self.proc.path().join(format!("{pid}/cgroup")), format!("4:memory:{path}\n")).unwrap();
    }
}

#[test]
fn a_job_has_an_account_of_what_has_ended() {
    let mut world = World::new();
    world.in_group(10, "/slurm_n1/uid_7/job_5/step_0");
    world.events(&[fork(1, 9, 10), exec(2, 10)]);
    assert!(world.table.take_begun() && !world.table.take_begun());
    let census = world.table.census(3);
    let subjects: Vec<_> =
        census.accounts.iter().map(|account| (&account.subject.job, account.last_end)).collect();
    assert_eq!(subjects, [(&Some("5".to_owned()), None)]);
    assert_eq!(census.live.get(&10).map(|alive| (alive.start, alive.account)), Some((1, 0)));
    // Children that end within a moment count as well, and the job is quiet only when its last process has ended.
    world.events(&[fork(4, 10, 11), fork(5, 10, 12)]);
    for (pid, time) in [(11, 6), (12, 7)] {
        world.stats(pid, 1000);
        world.events(&[exit(time, pid, pid, 0)]);
    }
    assert_eq!(world.table.take_quiet(), []);
    world.stats(10, 500);
    world.events(&[exit(8, 10, 10, 9)]);
    let quiet = world.table.take_quiet();
    assert_eq!((quiet.len(), quiet[0].node.as_deref()), (1, Some("n1")));
    assert_eq!(world.table.take_quiet(), []);
    let census = world.table.census(9);
    let account = &census.accounts[0];
    assert_eq!((account.last_end, account.first_start), (Some(8), 1));
    assert_eq!((account.ended.processes, account.ended.user_ns), (3, 2500));
    assert_eq!((account.ended.peak_bytes, account.ended.unaccounted), (100 * 1024, 0));
}

#[test]
fn of_the_killed_those_in_the_kernels_log_were_killed_for_memory() {
    let mut world = World::new();
    for pid in [10, 11, 12] {
        world.in_group(pid, "/slurm_n1/uid_7/job_5/step_0");
        world.events(&[fork(1, 9, pid), exec(2, pid)]);
    }
    world.table.event(exit(3, 10, 10, 0));
    assert!(!world.table.has_killed());
    world.table.event(exit(4, 11, 11, 9));
    world.table.event(exit(5, 12, 12, 9));
    assert!(world.table.has_killed());
    // A number in the log that is another's by now is no reason to call that one killed.
    world.table.note_killed_for_memory(&[10, 12, 77]);
    world.table.settle();
    assert!(!world.table.has_killed());
    assert_eq!(world.table.census(6).accounts[0].ended.killed_for_memory, 1);
}

#[test]
fn an_account_that_its_process_has_left_is_no_job() {
    let mut world = World::new();
    world.in_group(10, "/slurm_n1/uid_7/job_5/step_0");
    world.events(&[fork(1, 9, 10), exec(2, 10)]);
    assert_eq!(world.table.census(3).accounts.len(), 1);
    // Only root is moved from one job to another.
    world.in_group(10, "/slurm_n1/uid_7/job_6/step_0");
    world.events(&[Event::Uid { time: 3, tgid: 10, real: 0, effective: 0 }, exec(4, 10)]);
    let census = world.table.census(5);
    let jobs: Vec<_> = census.accounts.iter().map(|account| account.subject.job.as_deref()).collect();
    assert_eq!(jobs, [Some("6")]);
}

#[test]
fn a_job_that_is_quiet_for_an_hour_is_forgotten() {
    let mut world = World::new();
    world.in_group(10, "/slurm_n1/uid_7/job_5/step_0");
    world.events(&[fork(1, 9, 10), exec(2, 10)]);
    world.events(&[exit(8, 10, 10, 0)]);
    assert_eq!(world.table.census(3599 * SECOND).accounts.len(), 1);
    assert_eq!(world.table.census(3601 * SECOND).accounts.len(), 0);
}

#[test]
fn an_image_waits_until_all_is_read_that_its_user_had_sent() {
    let mut world = World::new();
    let become_user = Event::Uid { time: 3, tgid: 10, real: 7, effective: 7 };
    let end = SECOND;
    let late = end + SECOND;
    world.events(&[fork(1, 1, 10), exec(2, 10), become_user, exit(end, 10, 10, 0)]);
    let unread = |user: u32| Heard { accepted_until: late, unread: [user].into() };
    let mut count = |now: u64, heard: &Heard| world.table.tick(now, heard).len();
    assert_eq!(count(end + SECOND / 4, &all()), 0, "what else the kernel says may be on its way");
    assert_eq!(count(late, &Heard { accepted_until: end - 1, ..all() }), 0, "a socket may have it");
    assert_eq!(count(late, &unread(7)), 0, "the user's line may have it");
    assert_eq!(count(late, &unread(8)), 1, "what another user sends does not matter");
    assert!(!world.table.has_waited_since(0, late));
}

#[test]
fn an_image_does_not_wait_for_ever() {
    let mut world = World::new();
    world.events(&[fork(1, 1, 10), exec(2, 10), exit(3, 10, 10, 0)]);
    assert_eq!(world.table.tick(3 + 4 * SECOND, &Heard::default()).len(), 0);
    assert!(world.table.has_waited_since(0, 4 * SECOND));
    assert!(!world.table.has_waited_since(3, 4 * SECOND), "it ended before that");
    assert_eq!(world.table.tick(3 + 5 * SECOND, &Heard::default()).len(), 1);
}

#[test]
fn a_process_that_is_in_no_step_yet_is_looked_at_again() {
    let mut world = World::new();
    world.in_group(10, "/slurm_n1/uid_7/job_5");
    let user = Event::Uid { time: 2, tgid: 10, real: 7, effective: 7 };
    world.events(&[fork(1, 1, 10), exec(2, 10), user]);
    world.in_group(10, "/slurm_n1/uid_7/job_5/step_0");
    world.events(&[exec(3, 10), exit(4, 10, 10, 0)]);
    let last = world.ended().pop().unwrap().image;
    assert_eq!((last.place.job.as_deref(), last.place.step.as_deref()), (Some("5"), Some("0")));
}

const HOUR: u64 = 3600 * SECOND;

/// What is done to the clocks while a process runs.
const DONE: [(i64, u64); 5] =
    [(0, 0), (HOUR.cast_signed(), 0), (-HOUR.cast_signed(), 0), (0, HOUR), (-2 * HOUR.cast_signed(), HOUR)];

#[test]
fn a_process_keeps_its_key_and_its_durations_when_the_clock_is_set_or_the_machine_sleeps() {
    for (set_by, slept) in DONE {
        let (hands, clock) = Hands::new(100 * SECOND, 150 * SECOND, 500 * HOUR);
        let mut world = World::by(clock.clone());
        let began = hands.now();
        world.proc_entry(10, began.boottime / 10_000_000);
        world.events(&[fork(began.monotonic, 1, 10), exec(began.monotonic + 1, 10)]);
        hands.pass(10 * SECOND);
        clock.follow();
        hands.set(set_by);
        hands.suspend(slept);
        hands.pass(SECOND);
        clock.follow();
        // Events were lost: it is still the one in `/proc`.
        world.table.resynchronise();
        let census = world.table.census(hands.now().monotonic);
        let alive = census.live.get(&10).map(|alive| alive.start);
        assert!(alive.is_none_or(|start| clock.is_same_start(start, began.boottime / 10_000_000)));
        world.events(&[exec(hands.now().monotonic, 10)]);
        hands.pass(5 * SECOND);
        let end = hands.now();
        world.events(&[exit(end.monotonic, 10, 10, 0)]);
        let found: Vec<_> = world
            .ended()
            .iter()
            .map(|finished| {
                let image = &finished.image;
                (
                    image.key.process_start,
                    image.key.exec,
                    image.end.unwrap() - image.start,
                    image.end.unwrap(),
                )
            })
            .collect();
        let first = 11 * SECOND + slept - 1;
        assert_eq!(
            found,
            [(began.wall, 1, first, end.wall - 5 * SECOND), (began.wall, 2, 5 * SECOND, end.wall)],
            "{set_by} {slept}"
        );
    }
}

#[test]
fn another_process_with_the_pid_is_another_also_after_the_machine_slept() {
    for (set_by, slept) in DONE {
        let (hands, clock) = Hands::new(100 * SECOND, 150 * SECOND, 500 * HOUR);
        let mut world = World::by(clock.clone());
        world.events(&[fork(hands.now().monotonic, 1, 10), exec(hands.now().monotonic, 10)]);
        hands.set(set_by);
        hands.suspend(slept);
        hands.pass(SECOND);
        clock.follow();
        world.proc_entry(10, hands.now().boottime / 10_000_000);
        world.table.resynchronise();
        assert_eq!(
            world.ended().iter().map(said).collect::<Vec<_>>(),
            [(10, 1, EndedBy::Unknown, None)],
            "{set_by} {slept}"
        );
    }
}

#[test]
fn the_next_agent_knows_a_process_by_the_clock_it_was_met_with() {
    for (set_by, slept) in DONE {
        let (hands, clock) = Hands::new(100 * SECOND, 150 * SECOND, 500 * HOUR);
        let mut world = World::by(clock.clone());
        let began = hands.now();
        world.proc_entry(10, began.boottime / 10_000_000);
        world.events(&[fork(began.monotonic, 1, 10), exec(began.monotonic, 10)]);
        world.guest(10, began.monotonic + 1, "/a", 0);
        hands.pass(SECOND);
        hands.set(set_by);
        clock.follow();
        let left: Vec<_> =
            world.table.snapshot().into_iter().map(|finished| (finished.image, None)).collect();
        assert_eq!(left.len(), 1);
        // And once more while no agent runs.
        let told_by = clock.offset();
        hands.set(set_by);
        hands.suspend(slept);
        hands.pass(SECOND);
        let other = hands.clone();
        let next = Clock::with(move || other.now()).after(&clock.offsets());
        world.table.around.clock = next;
        world.table.forget();
        assert!(world.table.restore(left.clone(), told_by).is_empty(), "{set_by} {slept}");
        let end = hands.now();
        world.events(&[exit(end.monotonic, 10, 10, 0)]);
        let ended = world.ended();
        assert_eq!((ended.len(), ended[0].image.key), (1, left[0].0.key));
        assert_eq!(ended[0].image.end, Some(end.wall));
    }
}

const SLUID: &str = "/system.slice/n1_slurmstepd.scope/sEKNKTV3WPV500/step_0";

impl World {
    /// A process as `/proc` shows it, below a parent, in a control group of the second version.
    fn process(&self, pid: u32, parent: u32, group: &str, environ: Option<&str>) {
        let dir = self.proc.path().join(pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        let stat = format!("{pid} (x) S {parent} 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0");
        fs::write(dir.join("stat"), stat).unwrap();
        fs::write(dir.join("cgroup"), format!("0::{group}\n")).unwrap();
        if let Some(environ) = environ {
            fs::write(dir.join("environ"), environ.replace(' ', "\0")).unwrap();
        }
    }

    /// A step daemon, which belongs to this user.
    fn stepd(&self, pid: u32, uid: u32, group: &str, title: &str) {
        self.process(pid, 1, group, None);
        let dir = self.proc.path().join(pid.to_string());
        let program = self.proc.path().join("slurmstepd");
        fs::write(&program, "").unwrap();
        std::os::unix::fs::symlink(program, dir.join("exe")).unwrap();
        fs::write(dir.join("cmdline"), format!("slurmstepd: [{title}]\0")).unwrap();
        fs::write(dir.join("status"), format!("Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")).unwrap();
    }

    /// The job of a process that runs, and who says so.
    fn job_of(&self, pid: u32) -> Option<(&str, JobFrom)> {
        let job = self.table.live.get(&pid)?.context.job.as_ref()?;
        assert_eq!((job.node.as_deref(), job.step.as_deref()), (Some("n1"), Some("0")));
        Some((&job.id, job.from))
    }

    fn disputed(&self) -> u64 {
        self.table.around.counters.job_names_disputed.get()
    }
}

#[test]
fn a_group_with_slurms_own_number_is_named_by_roots_step_daemon() {
    for (uid, title, claim, expected, disputed) in [
        (0, "12.0", Some("SLURM_JOB_ID=12"), ("12", JobFrom::Cgroup), 0),
        // Whatever the processes say.
        (0, "12.0", Some("SLURM_JOB_ID=99 SLURM_JOB_SLUID=sEKNKTV3WPV500"), ("12", JobFrom::Cgroup), 0),
        (0, "12.0", None, ("12", JobFrom::Cgroup), 0),
        // A program of a user's that calls itself so says nothing.
        (7, "66.0", None, ("sEKNKTV3WPV500", JobFrom::Cgroup), 0),
        (7, "66.0", Some("SLURM_JOB_ID=12"), ("12", JobFrom::Environment), 0),
        // Of another job, and no job's id.
        (
            7,
            "66.0",
            Some("SLURM_JOB_ID=99 SLURM_JOB_SLUID=sEKNKTV3WPV501"),
            ("sEKNKTV3WPV500", JobFrom::Cgroup),
            0,
        ),
        (7, "66.0", Some("SLURM_JOB_ID=../99"), ("sEKNKTV3WPV500", JobFrom::Cgroup), 0),
    ] {
        let mut world = World::new();
        world.stepd(20, uid, &format!("{SLUID}/slurm"), title);
        world.process(21, 20, &format!("{SLUID}/user/task_0"), claim);
        // Nothing can be read of the third but its group; its parent is gone.
        world.process(22, 1, &format!("{SLUID}/user/task_1"), None);
        world.events(&[fork(2, 20, 21), exec(3, 21), fork(4, 9, 22), exec(5, 22)]);
        assert_eq!(world.job_of(21), Some(expected), "{uid} {title} {claim:?}");
        assert_eq!(
            (world.job_of(22), world.disputed()),
            (Some(expected), disputed),
            "{uid} {title} {claim:?}"
        );
    }
}

#[test]
fn of_two_claims_the_first_is_believed_and_the_step_daemons_word_renames_the_job() {
    let mut world = World::new();
    world.process(21, 1, &format!("{SLUID}/user/task_0"), Some("SLURM_JOB_ID=12"));
    world.process(22, 1, &format!("{SLUID}/user/task_1"), Some("SLURM_JOB_ID=99"));
    world.events(&[fork(2, 9, 21), exec(3, 21), fork(4, 9, 22), exec(5, 22)]);
    assert_eq!(world.job_of(22), Some(("12", JobFrom::Environment)));
    assert!(world.disputed() > 0);
    world.events(&[exit(6, 22, 22, 0)]);
    world.stepd(20, 0, &format!("{SLUID}/slurm"), "13.0");
    world.events(&[fork(7, 9, 20), exec(8, 20)]);
    assert_eq!(world.job_of(21), Some(("13", JobFrom::Cgroup)));
    let census = world.table.census(9);
    let accounts: Vec<_> = census
        .accounts
        .iter()
        .map(|account| (account.subject.job.as_deref(), account.ended.processes))
        .collect();
    assert_eq!(accounts, [(Some("13"), 1)]);
    // One that was in another job's group cannot take this name.
    let other = SLUID.replace("500", "501");
    world.process(30, 1, &other, Some("SLURM_JOB_ID=13"));
    world.events(&[fork(10, 9, 30), exec(11, 30)]);
    assert_eq!(world.job_of(30), Some(("sEKNKTV3WPV501", JobFrom::Cgroup)));
}

#[test]
fn what_a_job_asked_for_as_all_there_is_only_its_control_group_knows() {
    const MB: u64 = 1 << 20;
    for (environ, expected) in [
        ("SLURM_MEM_PER_NODE=100 SLURM_CPUS_ON_NODE=4", Some(100 * MB)),
        ("SLURM_MEM_PER_CPU=100 SLURM_CPUS_ON_NODE=4", Some(400 * MB)),
        // `--mem=0`: unknown here, and not zero.
        ("SLURM_MEM_PER_NODE=0 SLURM_CPUS_ON_NODE=4", None),
        ("SLURM_MEM_PER_CPU=0 SLURM_CPUS_ON_NODE=4", None),
        ("SLURM_MEM_PER_NODE=0 SLURM_MEM_PER_CPU=100 SLURM_CPUS_ON_NODE=4", Some(400 * MB)),
        ("SLURM_MEM_PER_NODE=18446744073709551615 SLURM_CPUS_ON_NODE=4", None),
        ("SLURM_MEM_PER_NODE=-1 SLURM_CPUS_ON_NODE=4", None),
    ] {
        let mut world = World::new();
        world.process(10, 1, "/system.slice/slurmstepd.scope/job_5/step_0", Some(environ));
        world.events(&[fork(1, 9, 10), exec(2, 10)]);
        let census = world.table.census(3);
        let reserved: Vec<_> =
            census.accounts.iter().map(|account| (account.reserved.memory, account.reserved.cpus)).collect();
        assert_eq!(reserved, [(expected, Some(4))], "{environ}");
    }
}

/// A reading with a number that no store can hold is refused as a whole, and with it what is measured of everybody else.
#[test]
fn more_memory_than_any_machine_has_was_not_asked_for() {
    for environ in [
        "SLURM_MEM_PER_NODE=17592186044415",
        "SLURM_MEM_PER_CPU=17592186044415 SLURM_CPUS_ON_NODE=1",
        "SLURM_MEM_PER_CPU=8796093022207 SLURM_CPUS_ON_NODE=2",
    ] {
        let mut world = World::new();
        world.process(10, 1, "/system.slice/slurmstepd.scope/job_5/step_0", Some(environ));
        world.events(&[fork(1, 9, 10), exec(2, 10)]);
        assert_eq!(world.table.census(3).accounts[0].reserved.memory, None, "{environ}");
    }
}

/// A record with a number that no store can hold is refused.
#[test]
fn what_a_program_claims_to_have_used_can_be_stored() {
    let largest = Usage {
        user_us: u64::MAX,
        system_us: u64::MAX,
        blocks_in: u64::MAX,
        blocks_out: u64::MAX,
        peak_kib: u64::MAX,
    };
    for usage in [largest, Usage { user_us: 1 << 54, ..Usage::default() }] {
        let mut world = World::new();
        world.events(&[fork(1, 1, 10), exec(2, 10)]);
        world.guest(10, 3, "/a", 0);
        world.events(&[exec(10, 10)]);
        let start = Start { time: 11, exe: b"/b"[..].into(), usage: Some(usage), ..Start::default() };
        world.hear(10, 7, Message::Start(Box::new(start)));
        world.stats(10, 500);
        world.events(&[exit(20, 10, 10, 0)]);
        for finished in world.ended() {
            let used = finished.image.used;
            let numbers =
                [used.user_ns, used.system_ns, used.max_rss_bytes, used.read_bytes, used.write_bytes];
            let fits = |number: &u64| i64::try_from(*number).is_ok();
            assert!(numbers.iter().flatten().all(fits), "{:?}: {used:?}", finished.image.exe);
        }
    }
}

/// Whatever a process sends after its first message changes nothing.
#[test]
fn an_image_speaks_once() {
    let mut world = World::new();
    world.events(&[fork(1, 1, 10), exec(2, 10)]);
    world.guest(10, 3, "/a", 0);
    world.guest(10, 4, "/b", 0);
    world.events(&[exit(20, 10, 10, 0)]);
    world.guest(10, 5, "/c", 0);
    assert_eq!(world.counted("guest_messages_repeated"), 2);
    assert_eq!(world.ended()[0].image.exe.as_ref().unwrap().to_string(), "/a");
}

/// A connection that is inherited by a program of root's must not speak for it.
#[test]
fn a_message_of_another_user_is_a_forgery() {
    let user = |time, real, effective| Event::Uid { time, tgid: 10, real, effective };
    for (events, is_accepted) in [
        (vec![user(1, 7, 7), exec(2, 10)], true),
        (vec![user(1, 8, 8), exec(2, 10)], false),
        (vec![user(1, 7, 7), exec(2, 10), user(4, 0, 0)], true),
        (vec![user(1, 7, 0), exec(2, 10)], false),
        (vec![user(1, 7, 0), exec(2, 10), user(4, 0, 0)], false),
        (vec![user(1, 7, 7), exec(2, 10), exit(4, 10, 10, 0)], true),
        (vec![user(1, 7, 0), exec(2, 10), exit(4, 10, 10, 0)], false),
    ] {
        let mut world = World::new();
        world.events(&[fork(1, 1, 10)]);
        world.events(&events);
        world.guest(10, 3, "/made/up", 0);
        let forged = world.counted("guest_messages_forged");
        world.events(&[exit(20, 10, 10, 0)]);
        let ended = world.ended();
        let exe = ended[0].image.exe.as_ref().map(ToString::to_string);
        assert_eq!(exe.as_deref() == Some("/made/up"), is_accepted, "{events:?}");
        assert_eq!(forged, u64::from(!is_accepted), "{events:?}");
    }
}

#[test]
fn a_message_from_the_future_or_the_past_belongs_to_nobody() {
    let mut world = World::new();
    world.events(&[fork(SECOND, 1, 10), exec(2 * SECOND, 10)]);
    world.table.note_events_until(4 * SECOND);
    let at = |time| Message::Start(Box::new(Start { time, exe: b"/forged"[..].into(), ..Start::default() }));
    for time in [0, SECOND, u64::MAX] {
        world.table.guest(sent(11, 7, at(time)));
    }
    assert_eq!(world.counted("guest_messages_unmatched"), 3, "none of them waits");
    assert!(world.table.unmatched.is_empty());
    world.table.guest(sent(10, 7, at(9 * SECOND)));
    assert_eq!(world.counted("guest_messages_unmatched"), 4, "its process is there, but not its time");
}

/// A program cannot hide itself; a site's rules can.
#[test]
fn only_the_agents_rules_suppress() {
    let mut world = World::new();
    world.events(&[fork(1, 1, 10), exec(2, 10)]);
    world.hear(10, 7, Message::Suppressed { time: 3, reason: 1 });
    world.events(&[exit(20, 10, 10, 0)]);
    assert_eq!(world.ended().len(), 1);
    assert_eq!((world.counted("guest_suppression_refused"), world.counted("suppressed_by_rule")), (1, 0));
    let mut rules = record::rules::RuleSet::default();
    rules.set(record::rules::Section::SkipUid, vec!["7".into()]);
    world.table.set_rules(Arc::new(rules.pack().unwrap()));
    world.events(&[fork(21, 1, 11), Event::Uid { time: 21, tgid: 11, real: 7, effective: 7 }, exec(22, 11)]);
    world.hear(11, 7, Message::Suppressed { time: 23, reason: 2 });
    world.events(&[exit(30, 11, 11, 0)]);
    assert!(world.ended().is_empty());
    assert_eq!(world.counted("suppressed_by_rule"), 1);
}

/// The agent's memory is not the users'.
#[test]
fn what_does_not_fit_is_counted_and_others_lose_nothing() {
    let mut world = World::new();
    let of = |pid, uid| Event::Uid { time: 1, tgid: pid, real: uid, effective: uid };
    let heavy = |time| {
        let argv = vec![record::bytes::Bytes(vec![b'x'; 1000]); 100];
        Message::Start(Box::new(Start { time, exe: b"/heavy"[..].into(), argv, ..Start::default() }))
    };
    world.events(&[fork(1, 1, 90), of(90, 7), fork(1, 1, 91), of(91, 8)]);
    for pid in 100..1100 {
        fs::create_dir_all(world.proc.path().join(pid.to_string())).unwrap();
        fs::write(world.proc.path().join(format!("{pid}/status")), "Uid:\t7\t7\t7\t7\n").unwrap();
        world.events(&[fork(1, 90, pid), exec(2, pid)]);
        world.hear(pid, 7, heavy(3));
    }
    assert!(world.table.around.memory.used() <= 1 << 20);
    let (dropped, stripped) =
        (world.counted("processes_dropped_memory"), world.counted("images_without_content"));
    assert!(dropped > 0 && stripped > 0, "{dropped} processes, {stripped} without content");
    // Their neighbor has arguments.
    world.events(&[fork(1, 91, 10), exec(2, 10)]);
    world.hear(10, 8, heavy(3));
    world.events(&[exit(20, 10, 10, 0)]);
    let ended = world.ended();
    let argv = ended.iter().find(|finished| finished.image.uid == Some(8)).unwrap().image.argv.as_ref();
    assert_eq!(argv.map(Vec::len), Some(100));
    let pids: Vec<u32> = world.table.live.keys().copied().collect();
    pids.into_iter().for_each(|pid| world.events(&[exit(30, pid, pid, 0)]));
    drop(ended);
    drop(world.ended());
    assert_eq!(world.table.around.memory.used(), 0, "all of it is given back");
}

/// A user whose share of memory is used up may go on to execute programs: what they map is forgotten with them.
#[test]
fn what_processes_map_that_are_not_followed_is_forgotten() {
    let mut world = World::new();
    let of = |pid, uid| Event::Uid { time: 1, tgid: pid, real: uid, effective: uid };
    world.events(&[fork(1, 1, 90), of(90, 7)]);
    let all_of_it: Vec<_> = std::iter::from_fn(|| world.table.around.memory.hold(7, 100)).collect();
    for pid in 100..600 {
        fs::create_dir_all(world.proc.path().join(pid.to_string())).unwrap();
        fs::write(world.proc.path().join(format!("{pid}/status")), "Uid:\t7\t7\t7\t7\n").unwrap();
        world.table.mapped(Record::Exec { time: 2, pid });
        world.table.mapped(mapped(pid, 2, 0x1000, 11, &format!("/program/{pid}")));
        world.events(&[fork(1, 90, pid), exec(3, pid)]);
        assert_eq!(world.table.spaces.bytes(), 0, "others' programs have what is left");
        world.table.mapped(Record::Exec { time: 4, pid });
        world.events(&[exit(5, pid, pid, 0)]);
    }
    assert!(world.counted("processes_dropped_memory") >= 500);
    assert_eq!(world.table.spaces.count(), 0);
    drop(all_of_it);
    // Nor is it kept of a process that has become theirs.
    world.events(&[fork(6, 1, 700)]);
    world.table.mapped(Record::Exec { time: 7, pid: 700 });
    world.events(&[exec(8, 700)]);
    let _all_of_it: Vec<_> = std::iter::from_fn(|| world.table.around.memory.hold(7, 100)).collect();
    world.events(&[Event::Uid { time: 9, tgid: 700, real: 7, effective: 7 }]);
    assert_eq!((world.table.live.contains_key(&700), world.table.spaces.count()), (false, 0));
}

/// Whoever begins sessions without end takes no memory from anybody, and nothing that is known of others is lost.
#[test]
fn sessions_that_have_ended_take_bounded_memory() {
    let mut world = World::new();
    let of = |pid, uid| Event::Uid { time: 1, tgid: pid, real: uid, effective: uid };
    let session = |world: &World, pid: u32, uid: u32| {
        let dir = world.proc.path().join(pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        let stat = format!("{pid} (x) S 1 1 {pid} 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 {pid} 0 0");
        fs::write(dir.join("stat"), stat).unwrap();
        fs::write(dir.join("status"), format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")).unwrap();
    };
    for pid in [10, 11] {
        session(&world, pid, 8);
        world.events(&[fork(1, 1, pid), of(pid, 8), exec(2, pid)]);
    }
    world.stats(10, 1000);
    world.events(&[exit(3, 10, 10, 0)]);
    for n in 0..2 * ACCOUNTS_MAX as u64 {
        let (pid, time) = (100 + n as u32, 10 + 10 * n);
        session(&world, pid, 7);
        world.events(&[fork(time, 1, pid), of(pid, 7), exec(time + 1, pid), exit(time + 2, pid, pid, 0)]);
        fs::remove_dir_all(world.proc.path().join(pid.to_string())).unwrap();
        drop(world.ended());
    }
    let accounts = world.table.census(SECOND).accounts;
    assert!(accounts.len() <= ACCOUNTS_MAX, "{} accounts", accounts.len());
    let of_others: Vec<_> = accounts.iter().filter(|account| account.uid == Some(8)).collect();
    assert_eq!(of_others.len(), 2, "one that has ended, and one that runs");
    assert!(of_others.iter().any(|account| account.ended.user_ns == 1000));
}

/// A process that executes for ever takes no more memory than one that does once.
#[test]
fn a_chain_of_execs_takes_bounded_memory() {
    let mut world = World::new();
    world.events(&[fork(1, 1, 10)]);
    for time in 2..5000 {
        world.stats(10, 100);
        world.events(&[exec(time, 10)]);
        drop(world.ended());
    }
    let process = &world.table.live[&10];
    assert!(process.earlier.len() < 8, "{} sums", process.earlier.len());
    assert!(world.table.around.memory.used() < 16 * 1024);
}

#[test]
fn subordinate_users_take_no_places_and_old_users_make_room() {
    let mut world = World::new();
    for uid in 1000..1000 + super::USERS_MAX as u32 + 10 {
        world.table.note_user(uid, 1);
    }
    assert_eq!(world.table.user_count(), super::USERS_MAX as u64);
    assert_eq!(world.table.take_gone_users().len(), 10);
}

fn mapped(pid: u32, time: u64, start: u64, inode: u64, path: &str) -> Record {
    let mapping = Mapping::named((start, start + 0x1000), (1, inode), path.as_bytes());
    Record::Mapped { time, pid, mapping }
}

/// The memory in which a guest names objects that were loaded later.
fn late_memory(objects: &[(Option<u64>, &str)]) -> std::os::fd::OwnedFd {
    let mut list = vec![0; 1024];
    let mut out = Writer::new(&mut list);
    out.open_array();
    for (address, path) in objects {
        out.array(2);
        out.optional_uint(*address);
        out.bytes(path.as_bytes());
    }
    out.end();
    let mut bytes = vec![0; late::LIST];
    bytes[..4].copy_from_slice(&late::DONE.to_le_bytes());
    bytes[4..8].copy_from_slice(&((late::LIST + out.written().len()) as u32).to_le_bytes());
    bytes.extend_from_slice(out.written());
    let memory = rustix::fs::memfd_create("late", rustix::fs::MemfdFlags::empty()).unwrap();
    rustix::io::pwrite(&memory, &bytes, 0).unwrap();
    memory
}

#[test]
fn what_a_message_claims_is_not_what_the_kernel_reported() {
    let told = |address, path: &str| Object { address, path: path.as_bytes().into(), ..Object::default() };
    for is_gone in [false, true] {
        let mut world = World::new();
        world.table.mapped(Record::Exec { time: 2, pid: 10 });
        world.table.mapped(mapped(10, 2, 0x1000, 11, "/bin/true"));
        world.table.mapped(mapped(10, 9, 0x5000, 13, "/lib/late.so"));
        world.events(&[fork(1, 1, 10), exec(3, 10)]);
        let exit = exit(10, 10, 10, 0);
        if is_gone {
            world.events(&[exit]);
        }
        let objects = vec![told(Some(0x1000), "/etc/shadow"), told(Some(0x9000), "/dev/kvm")];
        let start =
            Start { time: 4, exe: b"/etc/shadow"[..].into(), objects, objects_cut: 3, ..Start::default() };
        let memory = late_memory(&[(Some(0x5000), "/etc/shadow"), (None, "/proc/kmsg")]);
        let message = Message::Start(Box::new(start));
        let memory = Some((memory, Shares::new(4).hold(7, 1).unwrap()));
        world.table.guest(FromGuest { memory, ..sent(10, 7, message) });
        if !is_gone {
            world.events(&[exit]);
        }
        let ended = world.ended();
        let [Finished { image, lists, .. }] = &ended[..] else { panic!("{ended:?}") };
        assert_eq!(image.exe.as_ref().unwrap().to_string(), "/bin/true", "the kernel knows the program");
        assert_eq!(image.objects_cut, 0, "the kernel's list is whole");
        let named = |at: usize| -> Vec<(String, bool)> {
            lists[at].objects.iter().map(|object| (object.path.to_string(), object.claimed)).collect()
        };
        assert_eq!(named(0), [("/bin/true".to_owned(), false), ("/dev/kvm".to_owned(), true)]);
        assert_eq!(named(1), [("/lib/late.so".to_owned(), false), ("/proc/kmsg".to_owned(), true)]);
    }
}

/// A program that no guest speaks for, and that is gone at once, has what the kernel reported.
#[test]
fn a_program_without_a_guest_has_the_kernels_objects() {
    let mut world = World::new();
    world.table.mapped(Record::Exec { time: 2, pid: 10 });
    world.table.mapped(mapped(10, 2, 0x1000, 11, "/bin/a"));
    world.table.mapped(Record::Exec { time: 5, pid: 10 });
    world.table.mapped(mapped(10, 5, 0x1000, 12, "/bin/b"));
    world.events(&[fork(1, 1, 10), exec(3, 10), exec(6, 10), exit(7, 10, 10, 9)]);
    let ended = world.ended();
    let seen: Vec<_> = ended
        .iter()
        .map(|Finished { image, lists, .. }| {
            (image.exe.as_ref().unwrap().to_string(), lists[0].objects[0].path.to_string())
        })
        .collect();
    assert_eq!(seen, [("/bin/a".into(), "/bin/a".into()), ("/bin/b".into(), "/bin/b".into())]);
}
