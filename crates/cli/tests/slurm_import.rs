//! `jobglass import slurm` where it asks Slurm itself: a stand-in of `sacct` that misbehaves, and a real cluster.

#[path = "common/cluster.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod cluster;
mod common;
#[path = "common/server.rs"]
#[allow(dead_code, reason = "only the server is used here")]
mod server;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use cluster::Cluster;
use common::{Gate, Row, is_root, look_until, must, new_dir, parse, wait_until};
use jiff::Timestamp;
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
if [[ -p gate ]] && (($(wc -l <asked) > 1)); then cat gate; fi
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
    let mut gate = Gate::new(&stand.dir.path().join("bin/gate"));
    let mut first = stand.import(&times).stderr(Stdio::null()).spawn().unwrap();
    // It hangs in the second window.
    gate.wait_for_program();
    first.kill().unwrap();
    first.wait().unwrap();
    let done = stand.asked().len() - 1;
    fs::remove_file(gate.path()).unwrap();
    gate.open();
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
    wait_until("the job that runs", || state(&stand, "1") == "RUNNING");
    let second = stand.import(&arguments).output().unwrap();
    assert!(
        second.status.code() == Some(2) && said(&second).contains("another jobglass import"),
        "{}",
        said(&second)
    );
    stand.put("fail", "2");
    wait_until("it works again", || follower.said().contains("it works again"));
    assert_eq!(follower.said().matches("Connection refused").count(), 1, "{}", follower.said());
    stand.server.kill();
    stand.put("jobs", &(line("1", "COMPLETED", "2026-01-01T11:00:00") + &line("2", "PENDING", "Unknown")));
    wait_until("word of the server", || follower.said().contains("is jobglass-server running there?"));
    stand.server.start_again();
    stand.server.wait_ready();
    wait_until("both jobs", || state(&stand, "1") == "COMPLETED" && state(&stand, "2") == "PENDING");
    let text = follower.stop();
    assert!(text.contains("stopped; all that waited or ran up to"), "{text}");
    let last = stand.asked().len();
    let again = Follower::start(stand.import(&arguments), log);
    wait_until("another query", || stand.asked().len() > last);
    again.kill();
    // The first one looks back a day, each of the next five minutes, one after a restart an hour.
    let length = |at: usize| {
        let (from, to) = &stand.asked()[at];
        let time = |text: &str| format!("{text}Z").parse::<Timestamp>().unwrap().as_second();
        (time(to) - time(from) - 30 * 86_400) / 60
    };
    assert_eq!((length(0), length(1)), (24 * 60, 5));
    assert!((60..70).contains(&length(last)), "{:?}", stand.asked()[last]);
}

/// As fast as Slurm takes them, by one user: those that end well, fail, are killed; arrays, steps, components; and those that are
/// cancelled, queued again or too slow, whose numbers are printed.
const SUBMIT: &str = r#"
cd "$HOME"
batch() { sbatch --parsable --output=/dev/null "$@"; }
echo timeout $(batch --time=1 --wrap 'sleep infinity')
echo timeout $(batch --time=1 --wrap 'sleep infinity')
echo requeue $(batch --requeue --wrap 'cat gate')
for i in 1 2 3; do echo cancel $(batch --wrap 'sleep infinity'); done
for i in 1 2 3; do echo cancel $(batch --begin=now+1hour --wrap 'true'); done
for i in $(seq 55); do
    batch --job-name="job|$i" --wrap "sleep 0.$((i % 10))" >&2
    batch --wrap "exit $((i % 7))" >&2
    batch --wrap 'kill -9 $$' >&2
done
batch --array=1-30%6 --wrap 'exit $((SLURM_ARRAY_TASK_ID % 3))' >&2
for i in $(seq 10); do batch --ntasks=2 --wrap 'srun -n2 true; srun -n1 false; srun -n1 sleep 0.5; exit 0' >&2; done
batch --ntasks=1 : --ntasks=2 --wrap 'srun --het-group=0,1 true' >&2
echo waits $(batch --nodes=4 --exclusive --begin=now+2hours --wrap true)
"#;

/// Ten seconds are promised; a machine that does other work may take three times as long.
const IN_TIME: f64 = 30.0;

/// What both say of a job: shown name, submission, state, start, end, exit code, signal, nodes.
type Course = [String; 8];

/// By Slurm's own words, in UTC.
fn by_sacct(cluster: &Cluster) -> Vec<Course> {
    let mut sacct = cluster.with_slurm(Command::new("sacct"));
    sacct.args(["-a", "-D", "-X", "-P", "-n", "-S", "now-1hour", "-E", "now+1day"]).env("TZ", "UTC");
    let text = must(sacct.args(["-o", "JobID,Submit,State,Start,End,ExitCode,NodeList"]));
    let unknown = |text: &str| matches!(text, "Unknown" | "None" | "None assigned");
    let course = |line: &str| {
        let words: Vec<&str> = line.split('|').map(|word| if unknown(word) { "" } else { word }).collect();
        let (code, signal) = words[5].split_once(':').unwrap();
        let state = words[2].split(' ').next().unwrap();
        [words[0], words[1], state, words[3], words[4], code, signal, words[6]].map(str::to_owned)
    };
    let mut all: Vec<Course> = text.lines().map(course).collect();
    all.sort();
    all
}

/// By the server.
fn by_server(server: &Server) -> Vec<Course> {
    let text = |value: &Row| match value {
        Row::String(text) => text.trim_end_matches(".000000Z").to_owned(),
        Row::Null => String::new(),
        other => other.to_string().trim_end_matches(".0").to_owned(),
    };
    let names = ["job_id", "submit", "state", "start", "end", "exit_code", "signal", "node_list"];
    let mut all: Vec<Course> = jobs(server).iter().map(|row| names.map(|name| text(&row[name]))).collect();
    all.sort();
    all
}

/// When each job was first seen as it ended.
#[derive(Default)]
struct Watch(BTreeMap<Course, f64>);

impl Watch {
    fn look(&mut self, server: &Server) {
        let found = by_server(server);
        let now = Timestamp::now().as_nanosecond() as f64 / 1e9;
        for course in found.iter().filter(|course| !course[4].is_empty()) {
            self.0.entry(course.clone()).or_insert(now);
        }
    }

    /// The longest time from an end to its being known, and whose it was.
    fn latest(&self, expected: &[Course]) -> (f64, String) {
        let lag = |course: &Course| {
            let end: Timestamp = format!("{}Z", course[4]).parse().unwrap();
            self.0[course] - end.as_second() as f64
        };
        let ended = expected.iter().filter(|course| !course[4].is_empty());
        let latest = ended.map(|course| (lag(course), course[0].clone()));
        latest.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
    }
}

/// The jobs of [`SUBMIT`] that something is done to, by what that is.
fn submit(cluster: &Cluster) -> BTreeMap<String, Vec<String>> {
    let script = cluster.dir.join("home/jgalice/submit.sh");
    fs::write(&script, SUBMIT).unwrap();
    let began = std::time::Instant::now();
    let text = cluster.as_user("jgalice", &["bash", script.to_str().unwrap()]);
    eprintln!("submitted in {:.1} s", began.elapsed().as_secs_f64());
    let mut jobs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (what, job) in text.lines().filter_map(|line| line.split_once(' ')) {
        jobs.entry(what.to_owned()).or_default().push(job.to_owned());
    }
    jobs
}

fn state_of<'a>(courses: &'a [Course], job: &str) -> Vec<&'a str> {
    courses.iter().filter(|course| course[0] == job).map(|course| course[2].as_str()).collect()
}

fn differences<'a>(a: &'a [Course], b: &[Course]) -> Vec<&'a Course> {
    a.iter().filter(|course| !b.contains(course)).take(5).collect()
}

#[track_caller]
fn same(found: &[Course], expected: &[Course]) {
    assert!(
        found == expected,
        "not in Slurm: {:#?}\nnot on the server: {:#?}",
        differences(found, expected),
        differences(expected, found)
    );
}

/// Every job once, with its right state and times, whatever happens to the importer.
#[test]
fn real_jobs_as_they_come() {
    if !is_root("real_jobs_as_they_come") {
        return;
    }
    let dir = new_dir();
    fs::create_dir(dir.path().join("data")).unwrap();
    fs::write(dir.path().join("data/site.toml"), SITE).unwrap();
    let server = Server::start(dir.path().to_owned(), None);
    let cluster = Cluster::start_in(dir.path(), &[]);
    server.wait_ready();
    let state = dir.path().join("import.state");
    let follow = || {
        let command = importer(&server, &state, &["--follow"]);
        Follower::start(cluster.with_slurm(command), dir.path().join("import.log"))
    };
    let (mut watch, is_done) = (Watch::default(), AtomicBool::new(false));
    let (special, expected, text) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut watch = Watch::default();
            look_until(&is_done, || watch.look(&server));
            watch
        });
        let _end = AtEnd(&is_done);
        let follower = follow();
        let gate = Gate::new(&cluster.dir.join("home/jgalice/gate"));
        let special = submit(&cluster);
        wait_until("the first jobs", || by_server(&server).len() > 20);
        follower.kill();
        let follower = follow();
        change(&server, &cluster, &special, gate);
        let waiting = special["waits"][0].as_str();
        wait_until("the end of all jobs", || {
            let all = by_sacct(&cluster);
            let mut open = all.iter().filter(|course| course[4].is_empty());
            open.next().is_some_and(|course| course[0] == waiting) && open.next().is_none()
        });
        let expected = by_sacct(&cluster);
        wait_until("the server to know", || by_server(&server) == expected);
        is_done.store(true, Ordering::Relaxed);
        watch = looking.join().unwrap();
        (special, expected, follower.stop())
    });
    check(&by_server(&server), &expected, &special);
    let (latest, job) = watch.latest(&expected);
    eprintln!("{} jobs; the end of job {job} was known last, {latest:.1} s after it", expected.len());
    assert!(latest <= IN_TIME, "{latest} s, job {job}; {text}");
    machine(&server);
    past(&cluster, &expected);
}

/// What the site says over Slurm.
const SITE: &str =
    "[[partition]]\nname = \"gpu\"\nhas_gpus = true\n[[nodes]]\nnames = \"n[1-2]\"\ncores = 64\n";

/// What the follower told of partitions, nodes and users.
fn machine(server: &Server) {
    let ask = |what: &str| parse(&server.ask(&["site", what, "--json"]).output().unwrap());
    let column = |rows: &[Row], name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    let partitions = ask("partitions");
    assert_eq!(column(&partitions, "partition"), ["gpu", "hdd", "regular", "test"]);
    assert_eq!(column(&partitions, "has_gpus"), [Row::from(true), Row::Null, Row::Null, Row::Null]);
    assert_eq!(column(&partitions, "is_default"), [false, false, true, false]);
    let nodes = ask("nodes");
    assert_eq!(column(&nodes, "node"), ["n1", "n2", "n3", "n4"]);
    assert_eq!(column(&nodes, "cores"), [64, 64, 4, 4]);
    assert!(nodes.iter().all(|node| node["cluster"] == "testbed" && node["memory"] == 2000u64 << 20));
    let users = ask("users");
    let alice = users.iter().find(|row| row["user"] == "jgalice").unwrap();
    assert_eq!((&alice["project"], &alice["is_default"]), (&Row::from("physics"), &Row::from(true)));
}

/// Lets the thread that looks end, also when the test fails.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Has some jobs time out, begin again and be cancelled.
fn change(server: &Server, cluster: &Cluster, special: &BTreeMap<String, Vec<String>>, gate: Gate) {
    let scontrol = |arguments: &[&str]| must(cluster.with_slurm(Command::new("scontrol")).args(arguments));
    for job in &special["timeout"] {
        wait_until("the job that is too slow", || cluster.is_running(job));
        scontrol(&["update", &format!("JobId={job}"), "EndTime=now+5"]);
    }
    let again = &special["requeue"][0];
    wait_until("the job that is queued again", || cluster.is_running(again));
    scontrol(&["requeue", again]);
    for job in special["cancel"].iter().take(3) {
        wait_until("the job that is cancelled", || cluster.is_running(job));
    }
    placed(server, cluster, &special["cancel"][0]);
    for job in &special["cancel"] {
        cluster.as_user("jgalice", &["scancel", job]);
    }
    // Slurm lets a job wait for two minutes before it begins again.
    let pending = || scontrol(&["show", "job", again]).contains("JobState=PENDING");
    wait_until("the job to wait again", pending);
    scontrol(&["update", &format!("JobId={again}"), "StartTime=now"]);
    gate.open();
}

/// What the server says of all jobs is what Slurm says, and what was meant to happen did.
fn check(found: &[Course], expected: &[Course], special: &BTreeMap<String, Vec<String>>) {
    same(found, expected);
    assert!(found.len() >= 200, "{} jobs", found.len());
    for (what, states) in [
        ("waits", &["PENDING"][..]),
        ("requeue", &["REQUEUED", "COMPLETED"]),
        ("cancel", &["CANCELLED"]),
        ("timeout", &["TIMEOUT"]),
    ] {
        for job in &special[what] {
            assert_eq!(state_of(found, job), states, "{what}");
        }
    }
    assert!(found.iter().any(|course| course[2] == "FAILED" && course[6] == "9"), "{found:#?}");
    assert_eq!(found.iter().filter(|course| course[0].contains('+')).count(), 2);
    assert_eq!(found.iter().filter(|course| course[0].contains('_')).count(), 30);
}

/// Slurm tells which processors a job has while it runs.
fn placed(server: &Server, cluster: &Cluster, job: &str) {
    let mut found = Row::Null;
    wait_until("the places of a job", || {
        let ask = [
            "jobs",
            "--json",
            "--all-time",
            "--where",
            &format!("job = \"{job}\""),
            "--fmt",
            "cpu_ids,node_list",
        ];
        found = parse(&server.ask(&ask).output().unwrap()).pop().unwrap_or(Row::Null);
        !found["cpu_ids"].is_null()
    });
    let shown = cluster.as_user("jgalice", &["scontrol", "show", "job", "-d", job]);
    let ids = shown.split_whitespace().find_map(|word| word.strip_prefix("CPU_IDs=")).unwrap();
    let node = found["node_list"].as_str().unwrap();
    assert_eq!(found["cpu_ids"].as_str().unwrap(), format!("{node}:{ids}"));
    eprintln!("job {job} has {}", found["cpu_ids"]);
}

/// The same by the history, in windows of a minute, and although it is killed.
fn past(cluster: &Cluster, expected: &[Course]) {
    let dir = new_dir();
    let server = Server::start(dir.path().to_owned(), None);
    server.wait_ready();
    let state = dir.path().join("import.state");
    let import = || cluster.with_slurm(importer(&server, &state, &["--from", "30m", "--window", "1m"]));
    let first = Follower::start(import(), dir.path().join("import.log"));
    wait_until("some windows", || {
        let text = String::from_utf8(fs::read(&state).unwrap_or_default()).unwrap();
        text.contains("done")
    });
    first.kill();
    assert!(state.exists(), "it was not stopped in the middle");
    let output = import().output().unwrap();
    assert!(said(&output).contains("going on at"), "{}", said(&output));
    assert!(output.status.success(), "{}", said(&output));
    same(&by_server(&server), expected);
}
