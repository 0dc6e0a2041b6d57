//! Readings against the truth, without a batch system: a terminal's session is the job.

mod common;
#[path = "common/jobs.rs"]
mod jobs;

use std::process::{Child, Command, Stdio};

use common::*;
use jobs::Job;

const MB: f64 = 1024.0 * 1024.0;
const OFTEN: &str = "[sampling]\nevery_seconds = 1.0\n";

/// Starts `consume` in a session of its own.
fn consume(node: &Node, arguments: &[&str]) -> Child {
    let consume = program("consume", "cc", "consume.c", &["-pthread"]);
    let file = format!("file={}", node.dir.path().join("written").display());
    Command::new("setsid")
        .arg("--wait")
        .arg(consume)
        .args(arguments)
        .arg(file)
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

/// The readings of the session in which `consume` runs, in the order of their times.
fn readings(node: &Node) -> Vec<Row> {
    let rows = node.rows("reading");
    let jobs: Vec<Row> = rows.iter().flat_map(|row| row["jobs"].as_array().unwrap().clone()).collect();
    let has_consume =
        |job: &&Row| job["commands"].as_array().unwrap().iter().any(|one| one["command"] == "consume");
    let Some(session) = jobs.iter().find(has_consume).map(|job| job["session"].clone()) else {
        return Vec::new();
    };
    jobs.into_iter().filter(|job| job["session"] == session).collect()
}

fn value(reading: &Row, metric: &str) -> f64 {
    reading["values"][metric].as_f64().unwrap_or_else(|| panic!("no {metric} in {reading:#}"))
}

/// That a value differs from the truth by a share of it at most.
#[track_caller]
fn check(what: &str, value: f64, truth: f64, tolerance: f64) {
    eprintln!("{what}: {value:.3}, in truth {truth:.3}");
    assert!((value - truth).abs() <= tolerance, "{what} is {value}, in truth {truth}");
}

fn wait_for_last(node: &Node) -> Row {
    let last = || readings(node).last().cloned();
    wait_until(10, "the last reading", || last().is_some_and(|reading| reading["end"].is_string()));
    last().unwrap()
}

#[test]
fn known_amounts() {
    if !is_root("known_amounts") {
        return;
    }
    let node = Node::configured(OFTEN);
    let began = std::time::Instant::now();
    let arguments = ["cores=3", "cpu=2", "memory=200", "write=60", "children=6", "sleep=2"];
    let mut child = consume(&node, &arguments);
    assert!(child.wait().unwrap().success());
    let lasted = began.elapsed().as_secs_f64();
    let last = wait_for_last(&node);
    check("CPU time", value(&last, "cpu") / 1e9, 6.0, 0.02 * 6.0 + 0.1);
    check("written to the disk", value(&last, "write_bytes") / MB, 60.0, 0.02 * 60.0);
    check("written by calls", value(&last, "write_chars") / MB, 60.0, 0.02 * 60.0);
    let all = readings(&node);
    let memory = all.iter().map(|reading| value(reading, "memory")).fold(0.0, f64::max);
    check("memory", memory / MB, 200.0, 1.0);
    let threads = all.iter().map(|reading| value(reading, "threads")).fold(0.0, f64::max);
    check("threads", threads, 3.0, 0.0);
    let busy = all.iter().map(|reading| value(reading, "job_load")).fold(0.0, f64::max);
    check("busy threads", busy, 3.0, 0.0);
    // What only grows does so.
    for counter in ["cpu", "write_bytes", "write_chars", "minor_faults"] {
        assert!(all.is_sorted_by(|a, b| value(a, counter) <= value(b, counter)), "{counter}: {all:#?}");
    }
    check("readings", all.len() as f64, lasted + 1.0, 2.0);
}

#[test]
fn a_killed_agent_costs_no_total() {
    if !is_root("a_killed_agent_costs_no_total") {
        return;
    }
    let mut node = Node::configured(OFTEN);
    // The children have written and ended before the agent is killed; the parent goes on without one, and with the next.
    let mut child = consume(&node, &["write=40", "children=4", "cpu=4", "sleep=3"]);
    wait_until(20, "a reading of what was written", || {
        readings(&node).last().is_some_and(|reading| value(reading, "write_bytes") >= 40.0 * MB)
    });
    node.kill_agent();
    sleep_ms(2000);
    node.start_agent();
    assert!(child.wait().unwrap().success());
    let last = wait_for_last(&node);
    check("written to the disk", value(&last, "write_bytes") / MB, 40.0, 0.8);
    check("CPU time", value(&last, "cpu") / 1e9, 4.0, 0.2);
}

#[test]
fn what_ended_while_no_agent_ran_has_an_end_and_its_last_values() {
    if !is_root("what_ended_while_no_agent_ran_has_an_end_and_its_last_values") {
        return;
    }
    let mut node = Node::configured(OFTEN);
    let mut child = consume(&node, &["memory=50", "cpu=1", "sleep=3"]);
    wait_until(20, "a reading of it", || {
        readings(&node).last().is_some_and(|reading| value(reading, "cpu") >= 0.9e9)
    });
    node.kill_agent();
    assert!(child.wait().unwrap().success());
    sleep_ms(1500);
    node.start_agent();
    let last = wait_for_last(&node);
    let all = readings(&node);
    let before = &all[all.len() - 2];
    assert!(before["end"].is_null(), "{before:#}");
    assert_eq!(value(&last, "cpu"), value(before, "cpu"));
    assert_eq!(value(&last, "memory_peak"), value(before, "memory_peak"));
    assert_eq!(value(&last, "processes"), 0.0);
}

/// The agent's `CLOCK_BOOTTIME` is an hour ahead, and so are the start times it sees in `/proc`: a machine that was suspended for
/// an hour before. The kernel's events do not know of it.
#[test]
fn on_a_machine_that_was_suspended_processes_are_found() {
    if !is_root("on_a_machine_that_was_suspended_processes_are_found") {
        return;
    }
    let mut node = Node::configured(OFTEN);
    node.stop_agent();
    node.launcher = ["unshare", "--time", "--boottime", "3600"].map(str::to_owned).into();
    node.start_agent();
    let mut child = consume(&node, &["cpu=1", "memory=50", "sleep=3"]);
    assert!(child.wait().unwrap().success());
    let last = wait_for_last(&node);
    check("CPU time", value(&last, "cpu") / 1e9, 1.0, 0.12);
    // What runs was found in `/proc`, not only in its accounting.
    let memory = readings(&node).iter().map(|reading| value(reading, "memory")).fold(0.0, f64::max);
    check("memory", memory / MB, 50.0, 1.0);
}

#[test]
fn a_full_disk_leaves_what_is_kept_whole() {
    if !is_root("a_full_disk_leaves_what_is_kept_whole") {
        return;
    }
    let mut node = Node::configured(OFTEN);
    node.stop_agent();
    let spool = node.spool();
    must(Command::new("mount").args(["-t", "tmpfs", "-o", "size=512k", "jobglass-test"]).arg(&spool));
    let _unmounted = Unmounted(spool.clone());
    node.start_agent();
    let mut child = consume(&node, &["cpu=2", "memory=10", "sleep=8"]);
    wait_until(20, "a reading of it", || {
        readings(&node).last().is_some_and(|reading| value(reading, "cpu") >= 0.9e9)
    });
    let rest = spool.join("rest");
    let _ = std::fs::write(&rest, vec![1; 1 << 20]);
    for _ in 0..30 {
        sleep_ms(100);
        let kept = spool.join("measured");
        // It is there and whole, at every moment.
        assert!(!kept.exists() || !agent::sampling::kept::read(&spool).is_empty());
    }
    assert!(node.agent.as_mut().unwrap().try_wait().unwrap().is_none(), "the agent lives: {}", node.log());
    node.kill_agent();
    std::fs::remove_file(&rest).unwrap();
    node.start_agent();
    assert!(child.wait().unwrap().success());
    let last = wait_for_last(&node);
    check("CPU time", value(&last, "cpu") / 1e9, 2.0, 0.15);
}

struct Unmounted(std::path::PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// When a job was read, in seconds since 1970.
fn times(node: &Node, job: &str) -> Vec<f64> {
    let has_job = |row: &&Row| row["jobs"].as_array().unwrap().iter().any(|one| one["job"] == job);
    let time = |row: &Row| row["time"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    node.rows("reading").iter().filter(has_job).map(|row| time(row).as_nanosecond() as f64 / 1e9).collect()
}

#[test]
fn a_job_is_read_as_often_as_its_environment_asks() {
    let test = "a_job_is_read_as_often_as_its_environment_asks";
    if !is_root(test) || !jobs::can_make(test) {
        return;
    }
    let node = Node::configured(
        "[sampling]\nevery_seconds = 20.0\nfirst_seconds = 0.0\nleast_every_seconds = 1.0\n",
    );
    let often = Job::start(&node, "900001", &[("JOBGLASS_RATE", "1s")]);
    // Nobody gets a finer rate than the site allows.
    let finest = Job::start(&node, "900002", &[("JOBGLASS_RATE", "10ms")]);
    let usual = Job::start(&node, "900003", &[]);
    let wrong = Job::start(&node, "900004", &[("JOBGLASS_RATE", "often")]);
    wait_until(30, "the first readings", || times(&node, &often.id).len() >= 2);
    let before: Vec<usize> = [&often, &finest, &usual, &wrong].map(|job| times(&node, &job.id).len()).into();
    sleep_ms(8000);
    let read: Vec<usize> = [&often, &finest, &usual, &wrong]
        .iter()
        .zip(before)
        .map(|(job, before)| times(&node, &job.id).len() - before)
        .collect();
    eprintln!("readings in 8 s: {read:?}");
    // On a busy machine a reading may be late, and is then left out.
    for read in &read[..2] {
        assert!((4..=9).contains(read), "{read}");
    }
    // At most the one reading of all jobs falls into the time.
    for read in &read[2..] {
        assert!(*read <= 1, "{read}");
    }
}
