//! `jobglass import slurm` where it asks Slurm itself: a stand-in of `sacct` that misbehaves, and a real cluster.

#[path = "common/cluster.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod cluster;
mod common;
#[path = "common/server.rs"]
#[allow(dead_code, reason = "only the server is used here")]
mod server;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use common::{Row, must, new_dir, parse, wait_until};
use server::Server;
use tempfile::TempDir;

/// A server, and a `sacct` that is a script: it notes how it is called, and answers by `jobs`, `fail`, `slow` and `garbage`.
struct Stand {
    dir: TempDir,
    server: Server,
}

/// What it prints is in the file `jobs`: lines with `|` instead of the delimiter, and before that the time from which they are told.
const SACCT: &str = r#"#!/bin/bash
cd "${0%/*}"
if [[ $1 == --helpformat ]]; then
    echo "JobID JobIDRaw Cluster User Submit Start End State ExitCode NodeList JobName Elapsed Layout"
    exit
fi
for word; do
    case $word in
        --delimiter=*) delimiter=${word#*=} ;;
        --starttime=*) from=${word#*=} ;;
        --endtime=*) to=${word#*=} ;;
        --format=*) format=${word#*=} ;;
    esac
done
echo "$from $to $TZ" >>asked
if [[ -e garbage ]]; then echo "sacct: warning: who knows" >&2; fi
if [[ -e slow ]]; then sleep "$(<slow)"; fi
echo "${format//,/$delimiter}"
while read -r line; do
    echo "${line//|/$delimiter}"
done <jobs
if [[ -e fail ]]; then
    echo "sacct: error: Problem talking to the database: Connection refused" >&2
    (( $(<fail) > 1 )) && echo $(( $(<fail) - 1 )) >fail || rm fail
    exit 1
fi
"#;

/// By the order in which the stand-in is asked for its fields.
fn line(job: &str, state: &str, end: &str) -> String {
    format!(
        "{job}|{job}|{state}|0:0|a|alice|2026-01-01T09:00:00|2026-01-01T10:00:00|{end}|n1|01:00:00|job {job}\n"
    )
}

impl Stand {
    fn start(jobs: &str) -> Stand {
        let dir = new_dir();
        let bin = dir.path().join("bin");
        fs::create_dir(&bin).unwrap();
        fs::write(bin.join("sacct"), SACCT).unwrap();
        fs::set_permissions(bin.join("sacct"), fs::Permissions::from_mode(0o755)).unwrap();
        let server = Server::start(dir.path().to_owned(), None);
        server.wait_ready();
        let stand = Stand { dir, server };
        stand.put("jobs", jobs);
        stand
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.dir.path().join("bin").join(name), text).unwrap();
    }

    fn import(&self, arguments: &[&str]) -> Command {
        let path = format!("{}:/usr/bin:/bin", self.dir.path().join("bin").display());
        let mut command = importer(&self.server, &self.dir.path().join("state"), arguments);
        command.env("PATH", path).env("TZ", "America/New_York");
        command
    }

    /// From and to of all queries.
    fn asked(&self) -> Vec<(String, String)> {
        let text = fs::read(self.dir.path().join("bin/asked")).unwrap_or_default();
        let text = String::from_utf8(text).unwrap();
        let words = text.lines().map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        words
            .map(|words| {
                assert_eq!(words[2], "UTC");
                (words[0].clone(), words[1].clone())
            })
            .collect()
    }
}

fn importer(server: &Server, state: &Path, arguments: &[&str]) -> Command {
    let mut command = server.ask(&["import", "slurm"]);
    command.args(arguments).arg("--state").arg(state).stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn jobs(server: &Server) -> Vec<Row> {
    parse(&server.ask(&["jobs", "--json", "--all-time", "--limit", "0"]).output().unwrap())
}

/// An importer that runs on, and its log.
struct Follower {
    child: Child,
    log: PathBuf,
}

impl Follower {
    fn start(mut command: Command, log: PathBuf) -> Follower {
        let file = fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        Follower { child: command.stderr(file).spawn().unwrap(), log }
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// As a service manager ends it.
    fn stop(mut self) -> String {
        must(Command::new("kill").arg(self.child.id().to_string()));
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{}", self.said());
        self.said()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn history_is_asked_for_in_windows_and_in_utc() {
    let stand =
        Stand::start(&(line("1", "COMPLETED", "2026-01-01T11:00:00") + &line("2", "RUNNING", "Unknown")));
    stand.put("garbage", "");
    let times = ["--from", "2026-01-01T00:00:00Z", "--to", "2026-01-03T12:00:00Z"];
    let output = stand.import(&times).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let at = |day: &str| format!("2026-01-{day}:00:00");
    let expected = [("01T00", "02T00"), ("02T00", "03T00"), ("03T00", "03T12")];
    assert_eq!(stand.asked(), expected.map(|(from, to)| (at(from), at(to))));
    assert_eq!(said(&output).matches("who knows").count(), 1, "{}", said(&output));
    assert!(said(&output).contains("2 new, 0 known before"), "{}", said(&output));
    let mut rows = jobs(&stand.server);
    rows.sort_by_key(|row| row["job"].as_str().unwrap().to_owned());
    let seen: Vec<_> =
        rows.iter().map(|row| [&row["job"], &row["state"], &row["start"], &row["end"]]).collect();
    let (start, end) = ("2026-01-01T10:00:00.000000Z", "2026-01-01T11:00:00.000000Z");
    assert_eq!(seen[0].map(|value| value.as_str()), [Some("1"), Some("COMPLETED"), Some(start), Some(end)]);
    assert_eq!(seen[1].map(|value| value.as_str()), [Some("2"), Some("RUNNING"), Some(start), None]);
    assert!(!stand.dir.path().join("state").exists(), "what is done is not noted any more");
}

/// A window that fails is asked for again, shorter; windows grow again when that works.
#[test]
fn a_sacct_that_fails_is_asked_again() {
    let stand = Stand::start(&line("1", "COMPLETED", "2026-01-01T11:00:00"));
    stand.put("fail", "2");
    let output =
        stand.import(&["--from", "2026-01-01T00:00:00Z", "--to", "2026-01-03T00:00:00Z"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let wanted = "sacct failed, exit status: 1: sacct: error: Problem talking to the database: Connection refused; trying again";
    assert_eq!(said(&output).matches(wanted).count(), 2, "{}", said(&output));
    let lengths: Vec<String> =
        stand.asked().into_iter().map(|(from, to)| format!("{} {}", &from[8..13], &to[8..13])).collect();
    assert_eq!(
        lengths,
        ["01T00 02T00", "01T00 01T12", "01T00 01T06", "01T06 01T18", "01T18 02T18", "02T18 03T00"]
    );
    assert_eq!(jobs(&stand.server).len(), 1);
}

#[test]
fn a_sacct_that_never_answers_ends_it_and_the_same_command_goes_on() {
    let stand = Stand::start(&line("1", "COMPLETED", "2026-01-01T11:00:00"));
    let times = ["--from", "2026-01-01T00:00:00Z", "--to", "2026-01-05T00:00:00Z"];
    stand.put("slow", "1");
    let mut first = stand.import(&times).stderr(Stdio::null()).spawn().unwrap();
    wait_until(30, "the second window", || stand.asked().len() == 2);
    first.kill().unwrap();
    first.wait().unwrap();
    let done = stand.asked().len() - 1;
    stand.put("slow", "0");
    stand.put("fail", "100");
    let output = stand.import(&times).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("the same command goes on there"), "{}", said(&output));
    fs::remove_file(stand.dir.path().join("bin/fail")).unwrap();
    let other = stand.import(&["--from", "2026-01-02T00:00:00Z"]).output().unwrap();
    assert_eq!(other.status.code(), Some(2));
    assert!(said(&other).contains("is of another import"), "{}", said(&other));
    let before = stand.asked().len();
    let output = stand.import(&times).output().unwrap();
    assert!(output.status.success() && said(&output).contains("going on at 2026-01-0"), "{}", said(&output));
    assert_eq!(stand.asked()[before].0, format!("2026-01-0{}T00:00:00", done + 1), "{:?}", stand.asked());
    assert_eq!(stand.asked().last().unwrap().1, "2026-01-05T00:00:00");
    assert_eq!(jobs(&stand.server).len(), 1);
}

#[test]
fn what_cannot_be_asked_is_said() {
    let stand = Stand::start("");
    for (arguments, expected) in [
        (&["--from", "soon"][..], "is not a time"),
        (&["--from", "2026-01-02", "--to", "2026-01-01"], "nothing is between"),
        (&["--from", "1d", "--follow"], "cannot be used with"),
        (&["--follow", "--every", "0s"], "write for example 5s"),
        (&["--to", "now"], "--from <TIME>"),
        (&[], "required arguments were not provided"),
    ] {
        let output = stand.import(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(said(&output).contains(expected), "{arguments:?}: {}", said(&output));
    }
    let mut none = stand.import(&["--from", "1d"]);
    let output = none.env("PATH", "/none").output().unwrap();
    assert!(said(&output).contains("cannot run sacct: is it installed"), "{}", said(&output));
    let mut wrong = stand.import(&["--follow"]);
    let output = wrong.env("JOBGLASS_TOKEN_FILE", stand.server.data.join("ingest.token")).output().unwrap();
    assert!(output.status.code() == Some(2) && said(&output).contains("403"), "{}", said(&output));
}

/// Only what has changed is sent, a job that ends late is found, and a server or a `sacct` that is away costs nothing.
#[test]
fn a_follower_goes_on_whatever_is_away() {
    let mut stand = Stand::start(&line("1", "RUNNING", "Unknown"));
    let log = stand.dir.path().join("log");
    let arguments = ["--follow", "--every", "1s"];
    let follower = Follower::start(stand.import(&arguments), log.clone());
    let state = |stand: &Stand, job: &str| {
        let rows = jobs(&stand.server);
        let row = rows.iter().find(|row| row["job"] == job);
        row.map_or(String::new(), |row| row["state"].as_str().unwrap().to_owned())
    };
    wait_until(20, "the job that runs", || state(&stand, "1") == "RUNNING");
    let second = stand.import(&arguments).output().unwrap();
    assert!(
        second.status.code() == Some(2) && said(&second).contains("another jobglass import"),
        "{}",
        said(&second)
    );
    stand.put("fail", "2");
    wait_until(30, "it works again", || follower.said().contains("it works again"));
    assert_eq!(follower.said().matches("Connection refused").count(), 1, "{}", follower.said());
    stand.server.kill();
    stand.put("jobs", &(line("1", "COMPLETED", "2026-01-01T11:00:00") + &line("2", "PENDING", "Unknown")));
    wait_until(20, "word of the server", || follower.said().contains("is jobglass-server running there?"));
    stand.server.start_again();
    stand.server.wait_ready();
    wait_until(60, "both jobs", || state(&stand, "1") == "COMPLETED" && state(&stand, "2") == "PENDING");
    let text = follower.stop();
    assert!(text.contains("stopped; all that waited or ran up to"), "{text}");
    let last = stand.asked().len();
    let again = Follower::start(stand.import(&arguments), log);
    wait_until(20, "another query", || stand.asked().len() > last);
    again.kill();
    // The first one looks back a day, each of the next five minutes, one after a restart an hour.
    let length = |at: usize| {
        let (from, to) = &stand.asked()[at];
        let time = |text: &str| format!("{text}Z").parse::<jiff::Timestamp>().unwrap().as_second();
        (time(to) - time(from) - 30 * 86_400) / 60
    };
    assert_eq!((length(0), length(1)), (24 * 60, 5));
    assert!((60..70).contains(&length(last)), "{:?}", stand.asked()[last]);
}
