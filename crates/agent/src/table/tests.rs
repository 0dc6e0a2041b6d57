//! The kernel's traps as sequences of events, on a `/proc` that is made for each.

use std::fs;
use std::sync::Arc;

use record::entry::{EndedBy, JobFrom, WithoutGuest};
use record::guest::{Message, Start, Usage};
use sample::Proc;
use tempfile::TempDir;

use super::{Finished, FromGuest, Surroundings, Table};
use crate::clock::Clock;
use crate::clock::tests::Hands;
use crate::files::{Files, HashLimits};
use crate::kernel::{Event, TaskStats};

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
            proc: reader,
            clock,
            host: "h".into(),
            cluster: None,
            files,
            counters: Arc::default(),
            rules: Arc::new(rules),
            has_kernel: true,
            memories_max: 10,
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
        let message = Message::Start(Box::new(start));
        self.table.guest(time, FromGuest { pid, uid: 7, message, memory: None });
    }

    /// Everything that has ended, as (pid, exec, end, status, program).
    fn ended(&mut self) -> Vec<Finished> {
        self.table.finish_all()
    }
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
    assert!(world.table.tick(6).is_empty());
    world.events(&[fork(1, 1, 10), exec(4, 10)]);
    world.table.tick(7);
    world.events(&[exit(8, 10, 10, 0)]);
    assert_eq!(world.ended()[0].image.exe.as_ref().unwrap().to_string(), "/a");
    world.guest(99, 5, "/b", 0);
    world.table.tick(5 + 2 * SECOND);
    assert_eq!(world.table.around.counters.guest_messages_unmatched.get(), 1);
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
    world.events(&[Event::Uid { tgid: 10, real: 0, effective: 0 }, exec(4, 10)]);
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
fn a_guest_that_should_speak_is_waited_for() {
    let mut world = World::new();
    world.events(&[fork(1, 1, 10), exec(2, 10)]);
    world.guest(10, 3, "/bin/sh", 0);
    // Its child was not heard, and a stranger has no guest to wait for.
    world.events(&[fork(4, 10, 11), exec(5, 11), exit(6, 11, 11, 0)]);
    world.events(&[fork(4, 1, 20), exec(5, 20), exit(6, 20, 20, 0)]);
    let pids = |finished: Vec<Finished>| finished.iter().map(|one| one.image.key.pid).collect::<Vec<_>>();
    assert_eq!(pids(world.table.tick(SECOND / 2 + 6)), [20]);
    world.guest(11, 5, "/bin/true", 0);
    let heard = world.table.tick(SECOND);
    assert!(heard.is_empty() || heard[0].image.source & record::entry::source::GUEST != 0);
    world.events(&[fork(4, 10, 12), exec(5, 12), exit(6, 12, 12, 0)]);
    assert!(!pids(world.table.tick(SECOND)).contains(&12));
    assert!(pids(world.table.tick(3 * SECOND / 2 + 6)).contains(&12));
}

#[test]
fn a_process_that_is_in_no_step_yet_is_looked_at_again() {
    let mut world = World::new();
    world.in_group(10, "/slurm_n1/uid_7/job_5");
    let user = Event::Uid { tgid: 10, real: 7, effective: 7 };
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
