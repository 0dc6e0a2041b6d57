//! Counting in real processes: in a control group, with too few files, and as a user who may not.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jobglass_sample::cgroup::{Cgroups, Controller, Groups};
use jobglass_sample::counters::{Counters, Event, Machine, SOFTWARE, Scope, total};

const PAGES: u64 = 20_000;

/// Runs one of the ignored tests below as a process of its own.
fn child(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn skip(why: &str) {
    testkit::skip("counters of a control group", why);
}

/// The group and the process in it, both removed at the end, however the test ends.
struct Group {
    directory: PathBuf,
    child: Child,
}

impl Group {
    fn new() -> Result<Group, std::io::Error> {
        let own = Groups::parse(&fs::read("/proc/self/cgroup")?);
        let above = Cgroups::default().directory(&own, Controller::PerfEvent);
        let above = above.ok_or_else(|| std::io::Error::other("no control group that counts"))?;
        let directory = above.join(format!("jobglass-test-counters-{}", std::process::id()));
        fs::create_dir(&directory)?;
        let group = Group { directory, child: child("uses_a_processor").spawn()? };
        fs::write(group.directory.join("cgroup.procs"), group.child.id().to_string())?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        testkit::eventually(|| fs::remove_dir(&self.directory).is_ok() || !self.directory.exists());
    }
}

#[test]
#[ignore = "is the process of another test"]
fn uses_a_processor() {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
    let mut memory = vec![0u8; PAGES as usize * 4096];
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        std::hint::black_box(&memory);
    }
    // Not by print!, which the harness keeps to itself.
    fs::write("/dev/stdout", "\nused\n").unwrap();
    let _ = std::io::stdin().lock().read_line(&mut line);
}

#[test]
fn a_control_group_is_counted_and_nothing_beside_it() {
    let mut group = match Group::new() {
        Ok(group) => group,
        Err(error) => return skip(&format!("cannot make a control group: {error}")),
    };
    let machine = Machine::default();
    let cpus = machine.online().unwrap();
    let mut counters = Counters::open(&machine, Scope::Group(&group.directory), &cpus, SOFTWARE);
    if counters.is_empty() {
        return skip(&counters.why_not().join("; "));
    }
    // Beside the group: what this test itself does must not be seen.
    let mut beside = vec![0u8; 4 * PAGES as usize * 4096];
    beside.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    std::hint::black_box(beside);
    let before = counters.read();
    assert!(total(&before, Event::PageFaults).unwrap().value.unwrap() < PAGES);

    let ns = |text: &[u8]| -> u64 {
        std::str::from_utf8(text).unwrap().split(' ').next().unwrap().parse().unwrap()
    };
    let tasks = |id: u32| -> u64 {
        let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap();
        tasks.map(|task| ns(&fs::read(task.unwrap().path().join("schedstat")).unwrap())).sum()
    };
    let start_ns = tasks(group.child.id());
    group.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let output = BufReader::new(group.child.stdout.as_mut().unwrap());
    assert!(output.lines().any(|line| line.unwrap() == "used"));
    let readings = counters.read();
    let used = tasks(group.child.id()) - start_ns;

    let faults = total(&readings, Event::PageFaults).unwrap();
    // A huge page is one fault; without them there is one per page.
    assert!((PAGES / 512..3 * PAGES).contains(&faults.value.unwrap()), "{faults:?}");
    let clock = total(&readings, Event::TaskClock).unwrap();
    assert!(clock.value.unwrap().abs_diff(used) < used / 4 + 20_000_000, "{clock:?} {used}");
    // Wanted only while the group had a processor.
    assert!(clock.wanted_ns.abs_diff(used) < used / 4 + 20_000_000, "{clock:?} {used}");
}

fn check(command: &mut Command) {
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn too_few_files_are_the_reason() {
    check(&mut child("has_few_files"));
}

#[test]
#[ignore = "is the process of another test"]
fn has_few_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let open = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    // Room for the first processor's events and a part of the second's.
    let limit = Rlimit { current: Some(open + 6), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let cpus: Vec<u32> = std::iter::repeat_n(0, 8).collect();
    let mut counters = Counters::open(&Machine::default(), Scope::Machine, &cpus, SOFTWARE);
    let why = counters.why_not();
    if why.iter().any(|line| line.contains("not allowed")) {
        return skip(&why.join("; "));
    }
    assert!(why.iter().any(|line| line.contains("too many open files")), "{why:?}");
    assert!((1..=12).contains(&counters.files()), "{}", counters.files());
    let readings = counters.read();
    let known = |event| total(&readings, event).is_some_and(|count| count.value.is_some());
    assert!(!known(Event::TaskClock) && !known(Event::PageFaults) && !known(Event::ContextSwitches));
}

#[test]
fn who_may_not_count_is_told_the_setting() {
    if !rustix::process::geteuid().is_root() {
        return skip("not root");
    }
    let machine = Machine::default();
    if machine.paranoid().is_none_or(|level| level < 1) {
        return skip("everybody may count here");
    }
    // Nobody may not be able to execute what lies in a private directory.
    let own = std::env::current_exe().unwrap();
    let copy =
        tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir_in("/tmp").unwrap();
    let program = copy.path().join("test");
    fs::copy(own, &program).unwrap();
    let mut command = Command::new(&program);
    command.args(["--exact", "may_not_count", "--ignored", "--nocapture"]).stdout(Stdio::piped());
    check(command.uid(65_534).gid(65_534).current_dir("/"));
}

#[test]
#[ignore = "is the process of another test"]
fn may_not_count() {
    let machine = Machine::default();
    let counters = Counters::open(&machine, Scope::Machine, &[0], SOFTWARE);
    let words = format!("not allowed: kernel.perf_event_paranoid is {}", machine.paranoid().unwrap());
    assert!(counters.is_empty() && counters.why_not().len() == 1);
    assert!(counters.why_not()[0].contains(&words), "{:?}", counters.why_not());
}
