//! `jobglass top`: as a table for scripts, and live in a real terminal.

mod common;
#[path = "common/server.rs"]
#[allow(dead_code, reason = "only the server is used here")]
mod server;

use std::fs;
use std::ops::Range;
use std::process::Command;

use common::*;
use record::batch::{Batch, MEDIA_TYPE, Stream};
use record::entry::Entry;
use record::metric::id;
use record::reading::{CommandReading, JobReading, Reading, Reserved, Values};
use server::Server;

const S: u64 = 1_000_000_000;

/// A server that has just been told of forty jobs.
fn with_jobs(dir: &tempfile::TempDir) -> Server {
    let server = Server::start(dir.path().to_owned(), None);
    server.wait_ready();
    tell(&server, "n1", 0..40);
    server
}

/// So many seconds of CPU time of processes of one name.
fn seconds(n: u64) -> Values {
    let mut values = Values::default();
    values.put(id::CPU_USER, Some(n * S));
    values.put(id::CPU_SYSTEM, Some(0));
    values
}

/// Tells of jobs on a host: job `1000 + n` uses `n` cores of 64.
fn tell(server: &Server, host: &str, numbers: Range<u64>) {
    let now = jiff::Timestamp::now().as_nanosecond() as u64;
    let start = now - 600 * S;
    let job = |n: u64, time: u64| {
        let mut values = Values::default();
        values.put(id::CPU, Some((time - start) * n));
        values.put(id::MEMORY, Some(40u64.saturating_sub(n) << 30));
        // Of the others it is not known.
        for id in [id::READ_BYTES, id::WRITE_BYTES] {
            values.put(id, Some((time - start) / S * n).filter(|_| n < 20));
        }
        let user = if n.is_multiple_of(2) { "alice" } else { "bob" };
        JobReading {
            job: Some(format!("{}", 1000 + n)),
            node: Some(format!("n{n}")),
            user: Some(user.into()),
            start,
            every: 60 * S,
            commands: vec![CommandReading { command: b"solver".as_slice().into(), values: seconds(n) }],
            values,
            reserved: Some(Reserved { cpus: Some(64), memory: Some(40 << 30), gpus: None }),
            ..JobReading::default()
        }
    };
    let reading = |time: u64| {
        let jobs = numbers.clone().map(|n| job(n, time)).collect();
        minicbor::to_vec(Entry::Reading(Box::new(Reading {
            time,
            host: host.into(),
            node: Values::default(),
            jobs,
            ..Reading::default()
        })))
    };
    let entries = [reading(now - 65 * S).unwrap(), reading(now - 5 * S).unwrap()];
    let stream = Stream([host.as_bytes()[1]; 16]);
    let batch = Batch::new(host, stream, 1, entries.iter().map(Vec::as_slice).collect(), Vec::new());
    let token = String::from_utf8(fs::read(server.data.join("ingest.token")).unwrap()).unwrap();
    let request = ureq::post(format!("{}/api/v1/ingest", server.url()));
    let request = request.header("authorization", format!("Bearer {}", token.trim()));
    request.header("content-type", MEDIA_TYPE).send(&batch.to_bytes()[..]).unwrap();
}

#[test]
fn jobs_have_names_partitions_and_programs() {
    let dir = tempfile::tempdir().unwrap();
    let server = with_jobs(&dir);
    let log = dir.path().join("sacct.txt");
    let begin = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(11);
    let begin = begin.strftime("%FT%T");
    let header = "JobID|User|Partition|JobName|Submit|Start|End|State|NNodes|NCPUS\n";
    let job =
        format!("1039|bob|long|a_name_of_a_job_that_says_all_of_it|{begin}|{begin}|Unknown|RUNNING|1|64\n");
    fs::write(&log, format!("{header}{job}")).unwrap();
    must(&mut server.ask(&["import", "slurm", "--time-zone", "UTC", "--file", log.to_str().unwrap()]));
    let rows = parse(&server.ask(&["top", "--json"]).output().unwrap());
    let of = |job: &str| {
        let row = rows.iter().find(|row| row["job"] == job).unwrap();
        (row["name"].clone(), row["partition"].clone(), row["program"].clone())
    };
    assert_eq!(of("1039"), ("a_name_of_a_job_that_says_all_of_it".into(), "long".into(), "solver".into()));
    assert_eq!(of("1038"), (Row::Null, Row::Null, "solver".into()), "no batch system has told of it");
    let table = must(&mut server.ask(&["top", "--once"]));
    let line = |at: usize| table.lines().nth(at).unwrap();
    assert!(line(0).ends_with("PROGRAM NAME") && line(0).contains("PARTITION"), "{table}");
    assert!(
        line(1).contains(" long ") && line(1).ends_with("solver  a_name_of_a_job_that_says_all_of_it"),
        "{table}"
    );
    assert!(line(2).ends_with("solver  -"), "{table}");
}

#[test]
fn once_for_scripts() {
    let dir = tempfile::tempdir().unwrap();
    let server = with_jobs(&dir);
    // Without a terminal it is a table, whether or not that is asked for.
    for arguments in [&["top"][..], &["top", "--once"]] {
        let text = must(&mut server.ask(arguments));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 41, "{text}");
        assert!(lines[0].starts_with("JOB ") && lines[0].contains("MEMORY"), "{text}");
        assert!(lines[1].starts_with("1039 ") && lines[1].contains("39.0/64"), "{text}");
        assert!(!text.contains('\x1b'), "no control characters: {text}");
    }
    let rows =
        parse(&server.ask(&["top", "--json", "--sort", "memory", "--user", "alice"]).output().unwrap());
    assert_eq!((rows.len(), &rows[0]["job"], &rows[0]["user"]), (20, &"1000".into(), &"alice".into()));
    let of = |job: &str| rows.iter().find(|row| row["job"] == job).unwrap();
    assert_eq!((&of("1010")["read"], &of("1030")["read"]), (&10.0.into(), &Row::Null));
    assert_eq!(of("1010")["cpu_used"].as_f64().map(f64::round), Some(10.0));
    let none = server.ask(&["top", "--once", "--user", "nobody"]).output().unwrap();
    assert_eq!(none.status.code(), Some(1));
}

/// A terminal of its own.
struct Terminal {
    name: String,
}

impl Terminal {
    fn start(width: u32, height: u32) -> Terminal {
        let name = format!("jg{}-{width}", std::process::id());
        let terminal = Terminal { name };
        let (width, height) = (width.to_string(), height.to_string());
        terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &width,
            "-y",
            &height,
            "env",
            "PS1=$ ",
            "sh",
        ]);
        terminal.tmux(&["set-option", "-g", "window-size", "manual"]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        must(Command::new("tmux").args(["-L", &self.name]).args(arguments))
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    #[track_caller]
    fn wait_for(&self, what: &str, is_there: impl Fn(&str) -> bool) {
        let mut screen = String::new();
        let is_shown = eventually(|| {
            screen = self.screen();
            is_there(&screen)
        });
        assert!(is_shown, "waited for {what}:\n{screen}");
    }

    /// The process that runs in its shell.
    fn program(&self) -> String {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        must(Command::new("ps").args(["-o", "pid=", "--ppid", shell.trim()])).trim().to_owned()
    }

    /// That the shell has its terminal back as it was.
    #[track_caller]
    fn is_given_back(&self) {
        self.wait_for("the end", |screen| screen.contains("ended with"));
        assert_eq!(self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]).trim(), "0 1");
        self.press(&[
            "clear; stty -a | tr ' ' '\\n' | grep -x -e echo -e icanon -e isig | sort | xargs",
            "Enter",
        ]);
        self.wait_for("a terminal that is as it was", |screen| screen.contains("echo icanon isig"));
        self.press(&["clear", "Enter"]);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.name, "kill-server"]).output();
    }
}

/// The jobs on a screen, in their order.
fn jobs(screen: &str) -> Vec<&str> {
    let words = screen.lines().filter_map(|line| line.split_whitespace().next());
    words.filter(|word| word.starts_with("10") && word.len() == 4).collect()
}

#[test]
fn live_in_a_terminal() {
    if Command::new("tmux").arg("-V").output().is_err() {
        skip("live_in_a_terminal", "tmux is not installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = with_jobs(&dir);
    let terminal = Terminal::start(110, 20);
    let (url, token) = (server.url(), server.data.join("admin.token"));
    let top = format!(
        "clear; {} top --interval 1 --server {url} --token-file {}; echo ended with $?",
        jobglass().display(),
        token.display()
    );
    let start = || terminal.press(&[&top, "Enter"]);
    let starts_with = |jobs_: &'static [&'static str]| move |screen: &str| jobs(screen).starts_with(jobs_);
    start();
    terminal.wait_for("jobs by CPU", starts_with(&["1039", "1038"]));
    assert_eq!(jobs(&terminal.screen()).len(), 17, "as many as there is room for");
    for (keys, first) in [
        (&["m"][..], &["1000", "1001"][..]),
        (&["i"], &["1019", "1018"]),
        (&["u"], &["1000", "1002"]),
        (&["c"], &["1039", "1038"]),
        (&["Down", "Down"], &["1037", "1036"]),
        (&["Home"], &["1039", "1038"]),
        (&["/", "1", "0", "0", "Enter"], &["1009", "1008"]),
        (&["Escape"], &["1039"]),
        (&["U", "b", "o", "b", "Enter"], &["1039", "1037"]),
        (&["Escape"], &["1039", "1038"]),
    ] {
        terminal.press(keys);
        terminal.wait_for(&format!("{keys:?}"), |screen| jobs(screen).starts_with(first));
    }
    // However small it gets.
    for (width, height, room, first) in [
        ("40", "10", 7, "40 jobs, 780 of"),
        ("12", "4", 1, "40 jobs, 78…"),
        ("3", "2", 0, "40…"),
        ("110", "20", 17, "40 jobs, 780 of"),
    ] {
        terminal.tmux(&["resize-window", "-x", width, "-y", height]);
        terminal.wait_for(&format!("{width} x {height}"), |screen| {
            screen.starts_with(first) && jobs(screen).len() == room
        });
    }
    terminal.wait_for("jobs by CPU", starts_with(&["1039", "1038"]));
    terminal.press(&["q"]);
    terminal.is_given_back();
    start();
    terminal.wait_for("jobs by CPU", starts_with(&["1039"]));
    terminal.press(&["C-c"]);
    terminal.is_given_back();
    start();
    terminal.wait_for("jobs by CPU", starts_with(&["1039"]));
    must(Command::new("kill").args(["-TERM", &terminal.program()]));
    terminal.is_given_back();
    start();
    terminal.wait_for("jobs by CPU", starts_with(&["1039"]));
    // Another job begins, and is seen without a key.
    tell(&server, "n2", 40..41);
    terminal.wait_for("a new job", starts_with(&["1040", "1039"]));
    // The server goes, and what was known last stays.
    drop(server);
    terminal.wait_for("a word about the server", |screen| screen.contains("cannot ask"));
    assert!(jobs(&terminal.screen()).starts_with(&["1040"]));
    // The terminal goes, as with a connection that breaks.
    let top = format!("/proc/{}", terminal.program());
    drop(terminal);
    wait_until("the end of the view", || !fs::exists(&top).unwrap());
}
