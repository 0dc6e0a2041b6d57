//! A real group with a real process in it. Needs root and a machine with control groups of the first version.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jobglass_sample::cgroup::{Cgroups, Controller, Groups, Usage};
use jobglass_sample::process::Proc;

const MEMORY: usize = 50 << 20;
const CONTROLLERS: [Controller; 5] =
    [Controller::Cpu, Controller::Cpuacct, Controller::Memory, Controller::Blkio, Controller::Pids];

/// Directories and the process in them, both removed at the end, however the test ends.
struct Group {
    directories: Vec<PathBuf>,
    child: Child,
}

impl Group {
    /// Below the groups this test is in, so that whatever bounds it stays in force.
    fn new(name: &str) -> Result<Group, std::io::Error> {
        let own = Groups::parse(&fs::read("/proc/self/cgroup")?);
        let mut cgroups = Cgroups::default();
        let child = Command::new(std::env::current_exe()?)
            .args(["--exact", "the_child", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut group = Group { directories: Vec::new(), child };
        for controller in CONTROLLERS {
            if own.v1(controller).is_none() {
                return Err(std::io::Error::other(format!("no {controller:?} of the first version")));
            }
            let above = cgroups.directory(&own, controller);
            let directory = above.ok_or_else(|| std::io::Error::other("not mounted"))?.join(name);
            if !group.directories.contains(&directory) {
                fs::create_dir(&directory)?;
                group.directories.push(directory.clone());
                fs::write(directory.join("cgroup.procs"), group.child.id().to_string())?;
            }
        }
        Ok(group)
    }

    fn remove(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for directory in self.directories.drain(..) {
            // The kernel may take a moment to let go of a process that was waited for.
            testkit::eventually(|| fs::remove_dir(&directory).is_ok() || !directory.exists());
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Waits until it is in its group, uses memory and a processor, and waits for its end.
#[test]
#[ignore = "is the process of the other test"]
fn the_child() {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
    let memory = std::hint::black_box(vec![1u8; MEMORY]);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(400) {
        std::hint::black_box(&memory);
    }
    // Not by print!, which the harness keeps to itself.
    fs::write("/dev/stdout", "\nused\n").unwrap();
    let _ = std::io::stdin().lock().read_line(&mut line);
}

#[test]
fn a_group_is_read_as_its_process_used() {
    let mut group = match Group::new(&format!("jobglass-test-{}", std::process::id())) {
        Ok(group) => group,
        Err(error) => {
            let why = format!("cannot make control groups of the first version: {error}");
            return testkit::skip("control groups", why);
        }
    };
    let mut cgroups = Cgroups::default();
    let groups = Groups::parse(&fs::read(format!("/proc/{}/cgroup", group.child.id())).unwrap())
        .up_to(|part| part.starts_with(b"jobglass-test-"));
    let before = cgroups.read(&groups);
    group.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let output = BufReader::new(group.child.stdout.as_mut().unwrap());
    assert!(output.lines().any(|line| line.unwrap() == "used"));
    let after = cgroups.read(&groups);

    let stat = Proc::default().stat(group.child.id()).unwrap();
    let used = after.cpu.total_ns.unwrap() - before.cpu.total_ns.unwrap();
    let ticks = rustix::param::clock_ticks_per_second();
    let by_process = (stat.user_ticks + stat.system_ticks) * (1_000_000_000 / ticks);
    // Other processes may have had the processor; the process itself knows, to a tick per thread and what it began with.
    assert!(used.abs_diff(by_process) < 60_000_000, "{used} {by_process}");
    assert!(used > 20_000_000);

    let memory = after.memory;
    let (least, most) = (MEMORY as u64, MEMORY as u64 + (30 << 20));
    for (what, value) in [("anon", memory.anon), ("current", memory.current), ("peak", memory.peak)] {
        assert!((least..most).contains(&value.unwrap()), "{what} {value:?}");
    }
    assert!(memory.peak >= memory.current && memory.limit.is_some());
    assert_eq!(memory.oom_kills, Some(0));
    assert_eq!(after.tasks, Some(u64::from(stat.threads)));

    group.remove();
    assert_eq!(cgroups.read(&groups), Usage { is_gone: true, ..Usage::default() });
}

/// A kill in a group below is found, though the kernel counts it only there.
#[test]
fn a_kill_below_is_counted() {
    let mut group = match Group::new(&format!("jobglass-test-oom-{}", std::process::id())) {
        Ok(group) => group,
        Err(error) => {
            let why = format!("cannot make control groups of the first version: {error}");
            return testkit::skip("control groups", why);
        }
    };
    let groups = Groups::parse(&fs::read(format!("/proc/{}/cgroup", group.child.id())).unwrap())
        .up_to(|part| part.starts_with(b"jobglass-test-"));
    let mut cgroups = Cgroups::default();
    let below = cgroups.directory(&groups, Controller::Memory).unwrap().join("step_0");
    fs::create_dir(&below).unwrap();
    group.directories.insert(0, below.clone());
    fs::write(below.join("memory.limit_in_bytes"), (20 << 20).to_string()).unwrap();
    if fs::write(below.join("memory.memsw.limit_in_bytes"), (20 << 20).to_string()).is_err() {
        let _ = writeln!(std::io::stderr(), "swap is not bounded");
    }
    fs::write(below.join("cgroup.procs"), group.child.id().to_string()).unwrap();
    group.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let mut output = Vec::new();
    group.child.stdout.as_mut().unwrap().read_to_end(&mut output).unwrap();
    let status = group.child.wait().unwrap();
    assert!(!status.success(), "{status}");
    assert_eq!(cgroups.read(&groups).memory.oom_kills, Some(1));
}
