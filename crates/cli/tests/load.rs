//! Nothing is lost under load, a kill or a full disk; what could not be recorded is known with its size.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::*;
use record::entry::Image;

const EXECS: u64 = 20_000;

/// The largest process number, lowered so that numbers come again within the run; restored at the end.
struct LowPidMax(Vec<u8>);

impl LowPidMax {
    const FILE: &str = "/proc/sys/kernel/pid_max";

    fn set(max: u32) -> LowPidMax {
        let before = fs::read(Self::FILE).unwrap();
        fs::write(Self::FILE, max.to_string()).unwrap();
        LowPidMax(before)
    }
}

impl Drop for LowPidMax {
    fn drop(&mut self) {
        let _ = fs::write(Self::FILE, &self.0);
    }
}

fn nothing() -> [PathBuf; 2] {
    [program("dynamic", "cc", "nothing.c", &[]), program("static", "cc", "nothing.c", &["-static"])]
}

/// A storm of short programs, half of them static, counted by the kernel's own tracing.
fn storm(node: &Node, total: u64) -> Command {
    let mut command = node.command(simple("count_execs"));
    command.env_remove("LD_PRELOAD");
    command.arg(node.dir.path().join("counted")).arg("--").arg("/usr/bin/env");
    command.arg(format!("LD_PRELOAD={}", guest().display()));
    command.arg(simple("storm")).args([&total.to_string(), "4"]).args(nothing());
    command
}

/// `execs=N forks=N overrun=N`
fn counted(node: &Node, name: &str) -> u64 {
    let text = String::from_utf8(fs::read(node.dir.path().join("counted")).unwrap()).unwrap();
    let field = text.split_whitespace().find_map(|field| field.strip_prefix(&format!("{name}=")));
    field.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

fn is_ours(row: &Row) -> bool {
    let ours = |name: &str| row["exe"].as_str().is_some_and(|exe| exe.ends_with(name));
    row["forked_from"].is_null() && (ours("/programs/dynamic") || ours("/programs/static"))
}

#[test]
fn a_storm_is_recorded_completely() {
    if !is_root("a_storm_is_recorded_completely") {
        return;
    }
    let mut node = Node::start();
    let low = LowPidMax::set(4000);
    let mut child = storm(&node, EXECS).stdout(Stdio::null()).spawn().unwrap();
    let storm_pid = child.id();
    assert!(child.wait().unwrap().success());
    drop(low);
    node.catch_up();
    let resident = resident_kib(node.agent_pid());
    node.stop_agent();
    let rows = node.rows("image");
    let health = node.rows("health").pop().unwrap();
    assert_eq!(counted(&node, "overrun"), 0, "the independent count is whole");
    // The tree of the counter's child: `env`, `storm` and what it started, with or without a path.
    let pids: Vec<u64> = children(&rows, u64::from(storm_pid));
    let is_child = |row: &&Row| {
        let is_among = |pid: &Row| pid.as_u64().is_some_and(|pid| pids.contains(&pid));
        is_among(&row["pid"]) || is_among(&row["ppid"])
    };
    let executed: Vec<&Row> =
        rows.iter().filter(|row| row["forked_from"].is_null()).filter(is_child).collect();
    let (recorded, independent) = (sum_of_counts(executed.iter().copied()), counted(&node, "execs"));
    let dynamic =
        executed.iter().filter(|row| row["exe"].as_str().is_some_and(|exe| exe.ends_with("/dynamic")));
    let dynamic: Vec<_> = dynamic.copied().collect();
    let silent = sum_of_counts(dynamic.iter().filter(|row| !has_source(row, "guest")).copied());
    let nameless = sum_of_counts(executed.iter().filter(|row| row["exe"].is_null()).copied());
    eprintln!(
        "execs: {independent} by tracefs, {recorded} recorded; guest missing in {silent} of {}; \
         without a path {nameless} of {} static programs ({:.2} %); agent {resident} KiB resident",
        sum_of_counts(dynamic.iter().copied()),
        EXECS / 2,
        nameless as f64 * 100.0 / (EXECS / 2) as f64,
    );
    assert_eq!(recorded, independent);
    assert!(silent <= EXECS / 1000, "guest details missing in {silent}");
    assert!(resident <= 40 * 1024, "{resident} KiB");
    let gaps = node.rows("gap");
    let in_gaps: u64 = gaps.iter().map(|gap| gap["events"].as_u64().unwrap_or(0)).sum();
    assert_eq!(health["counters"]["events_lost"], in_gaps, "events the kernel lost are in gaps: {gaps:?}");
    let lost = health["counters"]["guest_lost"].as_u64().unwrap();
    assert!(lost >= silent, "what is missing is counted: {lost} of {silent}");
}

/// What the counter started: `env`, which becomes the storm.
fn children(rows: &[Row], counter: u64) -> Vec<u64> {
    let is_child = |row: &&Row| row["ppid"].as_u64() == Some(counter);
    rows.iter().filter(is_child).map(|row| row["pid"].as_u64().unwrap()).collect()
}

fn resident_kib(pid: u32) -> u64 {
    let status = String::from_utf8(fs::read(format!("/proc/{pid}/status")).unwrap()).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_killed_agent_loses_nothing_that_was_spooled() {
    if !is_root("a_killed_agent_loses_nothing_that_was_spooled") {
        return;
    }
    let mut node = Node::start();
    let mut sleeper = Killed(node.command(&*SURVIVE).arg("hang").spawn().unwrap());
    let (mut spooled, mut executed, mut forks) = (0, 0, 0);
    for round in 0..10u64 {
        let forks_before = forks_since_boot();
        let mut storm = node.command(simple("storm"));
        let mut storm =
            Killed(storm.args(["400", "2"]).args(nothing()).stdout(Stdio::null()).spawn().unwrap());
        // At another moment each time: at once, or when so many more of the storm are in the spool. Half of it has a name for sure.
        let due = spooled + round * 18;
        wait_until("the moment to kill the agent", || count_ours(&node) >= due);
        node.kill_agent();
        assert!(storm.wait().unwrap().success());
        executed += 400;
        let now = count_ours(&node);
        assert!(now >= spooled, "round {round}: {spooled} were spooled, {now} are there");
        spooled = now;
        node.start_agent();
        forks += forks_since_boot() - forks_before;
    }
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    node.catch_up();
    node.stop_agent();
    let rows = node.rows("image");
    let recorded = sum_of_counts(rows.iter().filter(|row| is_ours(row)));
    assert!(recorded >= spooled);
    let mut keys: Vec<String> =
        rows.iter().map(|row| format!("{} {} {}", row["pid"], row["process_start"], row["exec"])).collect();
    let all = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), all, "an image was recorded twice");
    let gaps = node.rows("gap");
    let killed: Vec<_> = gaps.iter().filter(|gap| gap["reason"] == "agent_killed").collect();
    assert_eq!(killed.len(), 10, "{gaps:?}");
    let sum = |name: &str| killed.iter().map(|gap| gap[name].as_u64().unwrap()).sum::<u64>();
    let missed = sum("forks") + sum("images");
    eprintln!("{executed} executed, {recorded} recorded, {missed} in ten gaps");
    assert!(recorded + missed >= executed, "{executed} executed, {recorded} recorded, {missed} in gaps");
    // A gap has a size, not a guess: no more than the whole machine forked in these rounds.
    assert!(sum("forks") <= forks, "{forks} forks, {gaps:?}");
    assert!(sum("images") <= executed, "{executed} executed, {gaps:?}");
    let slept: Vec<_> =
        rows.iter().filter(|row| row["pid"] == sleeper.id() && row["argv"][1] == "hang").collect();
    assert_eq!(slept.len(), 1, "a program that outlived ten agents has one record");
    assert_eq!(end(slept[0]), "signal 9");
}

/// How many programs of the storm are in the spool.
fn count_ours(node: &Node) -> u64 {
    let is_ours = |image: &Image| {
        let ours = |name: &str| image.exe.as_ref().is_some_and(|exe| exe.ends_with(name.as_bytes()));
        image.forked_from.is_none() && (ours("/programs/dynamic") || ours("/programs/static"))
    };
    node.images().iter().filter(|image| is_ours(image)).map(|image| image.count).sum()
}

/// All forks of the machine.
fn forks_since_boot() -> u64 {
    sample::Proc::default().forks_since_boot().unwrap()
}

struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(at: &Path, size: &str) -> Mounted {
        fs::create_dir_all(at).unwrap();
        must(Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(at));
        Mounted(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_counted_and_recovered_from() {
    if !is_root("a_full_disk_is_counted_and_recovered_from") {
        return;
    }
    let mut node = Node::start();
    node.stop_agent();
    let _small = Mounted::tmpfs(&node.spool(), "512k");
    node.start_agent();
    let fill = node.spool().join("fill");
    // Programs that tell their names, however short they are.
    let [dynamic, _] = nothing();
    let run = |node: &Node, n: &str| must(node.command(simple("storm")).args([n, "2"]).arg(&dynamic));
    run(&node, "20");
    wait_until("the first programs", || count_ours(&node) >= 20);
    let _ = fs::write(&fill, vec![1; 1 << 20]);
    run(&node, "500");
    wait_until("the agent to drop records", || node.log().contains("records are dropped"));
    assert!(node.agent.as_mut().unwrap().try_wait().unwrap().is_none(), "the agent lives: {}", node.log());
    fs::remove_file(&fill).unwrap();
    run(&node, "20");
    wait_until("the last programs", || count_ours(&node) >= 40);
    node.stop_agent();
    let recorded = count_ours(&node);
    let health = node.rows("health").pop().unwrap();
    let dropped = health["counters"]["images_dropped_spool"].as_u64().unwrap();
    let gaps = node.rows("gap");
    let gap: u64 = gaps
        .iter()
        .filter(|gap| gap["reason"] == "spool_full")
        .map(|gap| gap["images"].as_u64().unwrap())
        .sum();
    eprintln!("{recorded} recorded, {dropped} dropped and counted");
    assert!(dropped > 0 && gap == dropped, "{dropped} dropped, {gap} in gaps");
    assert!(recorded >= 40 && recorded + dropped >= 540, "{recorded} recorded, {dropped} dropped");
}

/// One user floods the common and their own queue as fast as they can; another user's programs are all heard.
#[test]
fn one_users_flood_costs_nobody_else_a_record() {
    if !is_root("one_users_flood_costs_nobody_else_a_record") {
        return;
    }
    let mut node = Node::start();
    // Both users have been seen on the node before.
    for uid in [65533, 65534] {
        must(node.command("/bin/true").uid(uid).gid(uid));
    }
    wait_until("the users' sockets", || Path::new(&format!("{}.65534", node.socket)).exists());
    let mut flood = Command::new(simple("flood"));
    flood.args([&node.socket, "4"]).uid(65533).gid(65533).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut flood = Killed(flood.spawn().unwrap());
    let mut said = BufReader::new(flood.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "flooding");
    let [dynamic, _] = nothing();
    must(node.command(simple("storm")).args(["300", "1"]).arg(dynamic).uid(65534).gid(65534));
    drop(flood.stdin.take());
    let flooded = said.next().unwrap().unwrap();
    node.catch_up();
    node.stop_agent();
    let rows = node.rows("image");
    let victims: Vec<_> = rows.iter().filter(|row| is_ours(row) && row["uid"] == 65534).collect();
    let heard = sum_of_counts(victims.iter().filter(|row| has_source(row, "guest")).copied());
    eprintln!("flood: {flooded}; heard {heard} of 300");
    let health = node.rows("health").pop().unwrap();
    assert_eq!((sum_of_counts(victims.iter().copied()), heard), (300, 300), "{health}");
}
