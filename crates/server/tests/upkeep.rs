//! What an administrator does: backups, restoring, deleting, while the server runs and while it does not.

mod common;

use std::fs;
use std::path::Path;

use common::{Server, batch, gap, run};
use jiff::Timestamp;
use record::entry::{Entry, Health};
use record::metric::id;
use record::reading::{JobReading, Reading, Values};
use serde_json::Value;
use testkit::wait_until;

fn health(time: Timestamp) -> Entry {
    let time = time.as_nanosecond() as u64;
    Entry::Health(Health { host: "n1".into(), time, started: time, ..Health::default() })
}

fn process(user: &str, pid: u32, start: Timestamp) -> Entry {
    let start = start.as_nanosecond() as u64;
    common::image(user, pid, start)
}

fn processes(server: &Server) -> Vec<String> {
    let (_, text) = server.get("/api/v1/processes", Some(&server.token("admin"))).unwrap();
    let answer: Value = serde_json::from_str(&text).unwrap();
    answer["rows"].as_array().unwrap().iter().map(|row| row["user"].as_str().unwrap().to_owned()).collect()
}

fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

#[test]
fn a_backup_made_while_batches_come_can_be_restored() {
    let server = Server::start(&[]);
    let token = server.token("ingest");
    let now = Timestamp::now();
    let send = |first: u64| {
        let entries: Vec<Entry> = (0..50).map(|n| process("alice", first as u32 + n, now)).collect();
        assert_eq!(server.post(&batch("n1", first, &entries), &token, &[]).0, 200);
    };
    send(1);
    let target = server.dir.path().join("backup");
    let data = server.data();
    let output = std::thread::scope(|scope| {
        let backup = scope.spawn(|| run(&["backup", target.to_str().unwrap()], &data));
        (1..10).for_each(|n| send(1 + 50 * n));
        backup.join().unwrap()
    });
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(server.counter("entries_stored"), 500);
    let again = run(&["backup", target.to_str().unwrap()], &data);
    assert_eq!(again.status.code(), Some(2));
    assert!(said(&again).contains("exists"), "{}", said(&again));

    // The same data, tokens included, in another place; and batches that came after it are stored once.
    let dir = tempfile::tempdir().unwrap();
    let restored = run(&["restore", target.to_str().unwrap()], &dir.path().join("data"));
    assert!(restored.status.success(), "{}", said(&restored));
    for (data, from, reason) in [
        (dir.path().join("data"), target.as_path(), "not empty"),
        (dir.path().join("other"), dir.path(), "not a backup"),
    ] {
        let refused = run(&["restore", from.to_str().unwrap()], &data);
        assert!(said(&refused).contains(reason), "{}", said(&refused));
        assert_eq!(refused.status.code(), Some(2));
    }
    fs::copy(server.data().join("admin.token"), dir.path().join("data/admin.token")).unwrap();
    let second = Server::start_in(dir, &[]);
    let stored = processes(&second).len();
    assert!(stored >= 50 && stored.is_multiple_of(50), "whole batches: {stored}");
    for n in 0..10 {
        let entries: Vec<Entry> = (0..50).map(|pid| process("alice", 50 * n + 1 + pid, now)).collect();
        assert_eq!(second.post(&batch("n1", u64::from(50 * n) + 1, &entries), &token, &[]).0, 200);
    }
    assert_eq!(processes(&second).len(), 500);
    // A server that does not run has backups, too.
    let data = second.data();
    drop(server);
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    drop_server(second, |data_dir| {
        let output = run(&["backup", kept.to_str().unwrap()], data_dir);
        assert!(output.status.success(), "{}", said(&output));
    });
    assert!(kept.join(store::FILE).exists() && !data.join("backup.unfinished").exists());
}

/// Stops a server, and does something with its data before they go.
fn drop_server(mut server: Server, then: impl FnOnce(&Path)) {
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    then(&server.data());
}

#[test]
fn a_user_is_forgotten_while_the_server_runs_and_while_it_does_not() {
    let server = Server::start(&[]);
    let token = server.token("ingest");
    let now = Timestamp::now();
    let entries = [process("alice", 1, now), process("bob", 2, now), process("carol", 3, now)];
    let body = batch("n1", 1, &entries);
    assert_eq!(server.post(&body, &token, &[]).0, 200);
    let output = run(&["forget", "--user", "alice"], &server.data());
    assert!(said(&output).contains("deleted 1 rows of processes"), "{}", said(&output));
    assert_eq!(processes(&server), ["bob", "carol"]);
    let (_, answer) = server.post(&body, &token, &[]);
    assert_eq!(answer["duplicate"], 3, "it does not come back");
    assert_eq!(processes(&server), ["bob", "carol"]);
    assert_eq!(run(&["forget"], &server.data()).status.code(), Some(2), "of whom?");
    let none = run(&["forget", "--user", "alice"], Path::new("/nonexistent"));
    assert!(said(&none).contains("has no store"), "{}", said(&none));
    drop_server(server, |data| {
        let output = run(&["forget", "--before", "2100-01-01T00:00:00Z"], data);
        assert!(said(&output).contains("deleted 2 rows of processes"), "{}", said(&output));
    });
}

/// Without the reserve that keeps DuckDB from it: whatever was acknowledged is there afterwards, and nothing else is needed than
/// room and, at most, another start.
#[test]
fn a_disk_that_fills_up_under_the_database() {
    if !testkit::is_root("a_disk_that_fills_up_under_the_database") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::mount(dir.path());
    let mut server =
        Server::start_in(dir, &["--least-free", "0", "--host-rate", "100000", "--host-burst", "100000"]);
    let token = server.token("ingest");
    let now = Timestamp::now();
    let (mut acknowledged, mut refused, mut next) = (0, 0, 1u64);
    let body = |first: u64| {
        // Names that do not compress.
        let name = |n: u64| {
            format!("{:x}", (first + n).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_pow(3)).repeat(30)
        };
        let entries: Vec<Entry> = (0..200).map(|n| process(&name(n), n as u32 + 1, now)).collect();
        batch("n1", first, &entries)
    };
    while refused < 5 && next < 200_000 {
        match server.try_post(&body(next), &token) {
            Some(200) => (acknowledged, next) = (acknowledged + 200, next + 200),
            _ => refused += 1,
        }
    }
    assert!(refused > 0 && acknowledged > 0, "the disk did not fill up: {acknowledged}");
    disk.make_room();
    let ended = server.child.try_wait().unwrap();
    eprintln!("{acknowledged} acknowledged; the server has ended: {ended:?}");
    eprintln!("{}", server.log().lines().rev().take(6).collect::<Vec<_>>().join("\n"));
    if let Some(status) = ended {
        assert_eq!(status.code(), Some(3), "it ends by itself: {}", server.log());
        let dir = std::mem::replace(&mut server.dir, tempfile::tempdir().unwrap());
        server = Server::start_in(dir, &["--least-free", "0"]);
    }
    wait_until("the server to take more", || server.try_post(&body(next), &token) == Some(200));
    let (_, text) = server.get("/api/v1/programs", Some(&server.token("admin"))).unwrap();
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["rows"][0]["runs"], acknowledged + 200);
}

/// A small file system over a directory.
struct Disk(std::path::PathBuf);

impl Disk {
    fn mount(dir: &Path) -> Disk {
        let mount = |options: &str| {
            let mut mount = std::process::Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", options, "jobglass-test"]).arg(dir).status().unwrap()
        };
        assert!(mount("size=24m").success());
        Disk(dir.to_owned())
    }

    fn make_room(&self) {
        let mut mount = std::process::Command::new("mount");
        assert!(mount.args(["-o", "remount,size=512m"]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn what_is_too_old_is_deleted_at_the_next_start() {
    let mut server = Server::start(&[]);
    let now = Timestamp::now();
    let old = now - jiff::SignedDuration::from_hours(24 * 40);
    let entries = [process("old", 1, old), process("new", 2, now), health(old), gap()];
    assert_eq!(server.post(&batch("n1", 1, &entries), &server.token("ingest"), &[]).0, 200);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let dir = std::mem::replace(&mut server.dir, tempfile::tempdir().unwrap());
    let server = Server::start_in(dir, &["--keep-days", "30"]);
    wait_until("only the new process to be left", || processes(&server) == ["new"]);
    assert!(server.stop().contains("deleted what was too old"));
}

/// A reading of job 17: one core, a minute after the other.
fn reading(start: Timestamp, minute: u64) -> Entry {
    let start = start.as_nanosecond() as u64;
    let mut values = Values::default();
    values.put(id::CPU, Some(minute * 60_000_000_000));
    let job =
        JobReading { job: Some("17".into()), start, every: 60_000_000_000, values, ..JobReading::default() };
    let time = start + minute * 60_000_000_000;
    Entry::Reading(Box::new(Reading { time, host: "n1".into(), jobs: vec![job], ..Reading::default() }))
}

#[test]
fn old_readings_are_made_coarse_and_newer_ones_put_into_order() {
    let mut server = Server::start(&[]);
    let day = 24 * 3600;
    let midnight = Timestamp::from_second(Timestamp::now().as_second() / day * day).unwrap();
    let days_ago = |days: i64| midnight - jiff::SignedDuration::from_hours(24 * days);
    for (days, first) in [(9, 1), (4, 61)] {
        let entries: Vec<Entry> = (0..60).map(|minute| reading(days_ago(days), minute)).collect();
        assert_eq!(server.post(&batch("n1", first, &entries), &server.token("ingest"), &[]).0, 200);
    }
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let dir = std::mem::replace(&mut server.dir, tempfile::tempdir().unwrap());
    let server = Server::start_in(dir, &["--keep-samples", "6d", "--coarse-step", "20m"]);
    wait_until("the readings to be sorted", || server.counter("readings_sorted") >= 60);
    assert_eq!((server.counter("readings_coarsened"), server.counter("upkeep_failed")), (60, 0));
    let (_, text) = server.get("/api/v1/jobs/17/series/cpu", Some(&server.token("admin"))).unwrap();
    let answer: Value = serde_json::from_str(&text).unwrap();
    // Three bins, whose first begins at zero; then each minute, the first of which has lost its past.
    assert_eq!(answer["rows"].as_array().unwrap().len(), 3 + 59, "{text}");
}

#[test]
fn what_is_no_time_is_refused_with_a_reason() {
    for (option, value, reason) in [
        ("--keep-samples", "5x", "no length of time"),
        ("--keep-samples", "12h", "at least 1d"),
        ("--coarse-step", "forever", "no length of time"),
        ("--coarse-step", "2d", "at most 1d"),
        ("--keep-jobs", "0d", "no length of time"),
        ("--keep-coarse", "", "no length of time"),
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_jobglass-server"));
        let output = command.args(["--data", "/nonexistent/of/jobglass", option, value]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{option} {value}");
        assert!(said(&output).contains(reason), "{option} {value}: {}", said(&output));
    }
}
