//! Readings against the truth, without a batch system: a terminal's session is the job.

mod common;
#[path = "common/jobs.rs"]
mod jobs;

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use common::*;
use jobs::Job;

const MB: f64 = 1024.0 * 1024.0;
const OFTEN: &str = "[sampling]\nevery_seconds = 1.0\n";

/// `consume` in a session of its own. It stays until its end is opened.
struct Consume {
    child: Killed,
    end: Gate,
}

impl Consume {
    fn start(node: &Node, arguments: &[&str]) -> Consume {
        let program = program("consume", "cc", "consume.c", &["-pthread"]);
        let end = Gate::new(&node.dir.path().join("end"));
        let mut command = Command::new("setsid");
        command.arg("--wait").arg(program).args(arguments).stdin(Stdio::null());
        command.arg(format!("file={}", node.dir.path().join("written").display()));
        command.arg(format!("at_end={}", end.path().display()));
        Consume { child: Killed(command.spawn().unwrap()), end }
    }

    /// Lets it end, when it has used all it should.
    fn end(mut self) {
        self.end.open();
        assert!(self.child.wait().unwrap().success());
    }

    /// Waits until the agent has read this much CPU time of it, in seconds.
    fn wait_for_cpu(&self, node: &Node, seconds: f64) {
        node.wait_for_rows("reading", "a reading of its CPU time", |rows| {
            readings_of(rows).last().is_some_and(|reading| value(reading, "cpu") >= seconds * 1e9)
        });
    }
}

/// The readings of the session in which `consume` runs, in the order of their times.
fn readings(node: &Node) -> Vec<Row> {
    readings_of(&node.rows("reading"))
}

fn readings_of(rows: &[Row]) -> Vec<Row> {
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
    let is_last = |reading: &Row| reading["end"].is_string();
    let rows = node
        .wait_for_rows("reading", "the last reading", |rows| readings_of(rows).last().is_some_and(is_last));
    readings_of(&rows).pop().unwrap()
}

#[test]
fn known_amounts() {
    if !is_root("known_amounts") {
        return;
    }
    let node = Node::configured(OFTEN);
    let began = std::time::Instant::now();
    let consume = Consume::start(&node, &["cores=3", "cpu=2", "memory=200", "write=60", "children=6"]);
    consume.wait_for_cpu(&node, 5.9);
    consume.end();
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
    // On a busy machine a reading may be late, and is then left out.
    let most = began.elapsed().as_secs_f64() + 3.0;
    assert!((3.0..=most).contains(&(all.len() as f64)), "{} readings", all.len());
}

#[test]
fn a_killed_agent_costs_no_total() {
    if !is_root("a_killed_agent_costs_no_total") {
        return;
    }
    let mut node = Node::configured(OFTEN);
    // The children have written and ended before the agent is killed; the parent goes on without one, and with the next.
    let before_cpu = Gate::new(&node.dir.path().join("before_cpu"));
    let argument = format!("before_cpu={}", before_cpu.path().display());
    let consume = Consume::start(&node, &["write=40", "children=4", "cpu=4", &argument]);
    node.wait_for_rows("reading", "a reading of what was written", |rows| {
        readings_of(rows).last().is_some_and(|reading| value(reading, "write_bytes") >= 40.0 * MB)
    });
    node.kill_agent();
    before_cpu.open();
    let used = || {
        sample::Proc::default().stat(consume.child.id()).map_or(0, |stat| stat.user_ticks + stat.system_ticks)
    };
    wait_until("half of its work to be done without an agent", || used() >= 200);
    node.start_agent();
    consume.end();
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
    let consume = Consume::start(&node, &["memory=50", "cpu=1"]);
    consume.wait_for_cpu(&node, 0.9);
    node.kill_agent();
    consume.end();
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
    let consume = Consume::start(&node, &["cpu=1", "memory=50"]);
    consume.wait_for_cpu(&node, 0.9);
    consume.end();
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
    let consume = Consume::start(&node, &["cpu=2", "memory=10"]);
    consume.wait_for_cpu(&node, 0.9);
    let rest = spool.join("rest");
    let _ = fs::write(&rest, vec![1; 1 << 20]);
    // It is there and whole, at every moment, while the agent tries to write another, which changes the directory.
    let changed = || fs::metadata(&spool).unwrap().modified().unwrap();
    let mut tries = BTreeSet::from([changed()]);
    wait_until("five tries of the agent to keep what it knows", || {
        let kept = spool.join("measured");
        assert!(!kept.exists() || !agent::sampling::kept::read(&spool, &Default::default()).is_empty());
        tries.insert(changed());
        tries.len() > 5
    });
    assert!(node.agent.as_mut().unwrap().try_wait().unwrap().is_none(), "the agent lives: {}", node.log());
    node.kill_agent();
    fs::remove_file(&rest).unwrap();
    node.start_agent();
    consume.end();
    let last = wait_for_last(&node);
    check("CPU time", value(&last, "cpu") / 1e9, 2.0, 0.15);
}

struct Unmounted(std::path::PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Neither has a control group or a step daemon that announces it.
#[test]
fn young_sessions_and_jobs_that_only_the_environment_names_are_read_often() {
    if !is_root("young_sessions_and_jobs_that_only_the_environment_names_are_read_often") {
        return;
    }
    let node = Node::configured(
        "[sampling]\nevery_seconds = 3600.0\nfirst_seconds = 600.0\nfirst_every_seconds = 1.0\n",
    );
    let consume = Consume::start(&node, &["memory=1"]);
    // Of one its own preload library tells, of the other only `/proc`.
    let mut with_library = node.command("sleep");
    let mut without = Command::new("sleep");
    let children = [(&mut with_library, "4711"), (&mut without, "4712")]
        .map(|(command, id)| Killed(command.arg("infinity").env("SLURM_JOB_ID", id).spawn().unwrap()));
    let of_job = |rows: &[Row], id: &str| -> Vec<Row> {
        let jobs = rows.iter().flat_map(|row| row["jobs"].as_array().unwrap().clone());
        jobs.filter(|job| job["job"] == id).collect()
    };
    let rows = node.wait_for_rows("reading", "five readings of the session and of each job", |rows| {
        let jobs = ["4711", "4712"].map(|id| of_job(rows, id).len());
        jobs.into_iter().chain([readings_of(rows).len()]).all(|readings| readings >= 5)
    });
    for reading in readings_of(&rows).iter().chain(&of_job(&rows, "4711")).chain(&of_job(&rows, "4712")) {
        assert_eq!(reading["every_seconds"], 1.0, "{reading:#}");
    }
    drop(children);
    consume.end();
}

/// When a job was read, in seconds since 1970.
fn times(rows: &[Row], job: &Job) -> Vec<f64> {
    let has_job = |row: &&Row| row["jobs"].as_array().unwrap().iter().any(|one| one["job"] == job.id);
    let time = |row: &Row| row["time"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    rows.iter().filter(has_job).map(|row| time(row).as_nanosecond() as f64 / 1e9).collect()
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
    // Each job is read when it begins, and with all others; the fine ones far more often.
    let rows = node.wait_for_rows("reading", "a dozen readings of each job that asks for it", |rows| {
        [&often, &finest].iter().all(|job| times(rows, job).len() >= 12)
    });
    for job in [&often, &finest] {
        let mut spans: Vec<f64> = times(&rows, job).windows(2).map(|pair| pair[1] - pair[0]).collect();
        spans.sort_by(f64::total_cmp);
        eprintln!("job {}: {spans:.2?}", job.id);
        // Its own readings are a second apart; it is also read at its beginning and with all others. A busy machine may be late.
        assert!(spans[spans.len() / 2] > 0.9, "{spans:?}");
    }
    let since = times(&rows, &often)[2];
    for job in [&usual, &wrong] {
        let read = times(&rows, job);
        let span = read.last().map_or(0.0, |last| last - since);
        let most = 1.0 + span / 20.0;
        let read = read.iter().filter(|time| **time > since).count() as f64;
        assert!(read <= most.ceil(), "job {}: {read} readings in {span} s", job.id);
    }
}
