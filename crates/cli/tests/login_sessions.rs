//! Sessions on a machine without a batch system, with a real agent and server: a login is a job.

mod common;
#[path = "common/server.rs"]
#[allow(dead_code, reason = "only the server is used here")]
mod server;
#[path = "common/watched.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod watched;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::*;
use watched::Watched;

/// Young sessions are read every second; the node itself every two.
const OFTEN: &str = "every_seconds = 2.0\nfirst_seconds = 600.0\nfirst_every_seconds = 1.0\n";

/// In a session of its own.
fn session(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(program).args(arguments).stdin(Stdio::null());
    command
}

/// The same program under a name and path of its own: agents see the whole machine.
fn own(watched: &Watched, program: &Path) -> PathBuf {
    let own = watched.dir.path().join(format!("own-{}", std::process::id()));
    fs::copy(program, &own).unwrap();
    own
}

/// The name of the session in which a program ran, once the server has it.
fn session_of(watched: &Watched, program: &Path) -> String {
    let mut name = None;
    wait_until(format!("the session of {program:?}"), || {
        let rows = watched.ask(&["processes", "--exe", program.to_str().unwrap(), "--json"]);
        name = rows.first().and_then(|row| row["session"].as_str().map(str::to_owned));
        name.is_some()
    });
    name.unwrap()
}

impl Watched {
    /// The session in the list of jobs, once it has ended.
    fn ended_session(&self, name: &str) -> Row {
        let mut found = Row::Null;
        wait_until(format!("session {name} in the list of jobs"), || {
            let rows = self.ask(&["jobs", "--kind", "session", "--job", name, "--json"]);
            found = rows.into_iter().next().unwrap_or(Row::Null);
            found["end"].is_string()
        });
        found
    }

    fn said(&self, arguments: &[&str]) -> String {
        let output = self.server.ask(arguments).output().unwrap();
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        format!("{:?} {}", output.status.code(), String::from_utf8_lossy(&text))
    }
}

#[test]
fn a_session_is_a_job_where_there_is_no_batch_system() {
    if !is_root("a_session_is_a_job_where_there_is_no_batch_system") {
        return;
    }
    let watched = Watched::start(OFTEN);
    let consume = own(&watched, &program("consume", "cc", "consume.c", &["-pthread"]));
    let command = format!("{:?}", consume.file_name().unwrap());
    let end = Gate::new(&watched.node.dir.path().join("end"));
    let at_end = format!("at_end={}", end.path().display());
    let mut child = Killed(session(&consume, &["cpu=1", "memory=20", &at_end]).spawn().unwrap());
    let is_read_often = |rows: &[Row]| {
        let jobs = rows.iter().flat_map(|row| row["jobs"].as_array().unwrap());
        let has_consume = |job: &&Row| job["commands"].to_string().contains(&command);
        jobs.filter(has_consume).count() >= 6
    };
    watched.node.wait_for_rows("reading", "six readings of the session", is_read_often);
    end.open();
    assert!(child.wait().unwrap().success());
    let name = session_of(&watched, &consume);
    let row = watched.ended_session(&name);
    assert_eq!(
        (&row["kind"], &row["job_id"], &row["nodes"]),
        (&"session".into(), &name.clone().into(), &1.into())
    );
    // What the agent says of the machine is all the session's.
    let mut row = row;
    wait_until("what the session has", || {
        row = watched.ended_session(&name);
        row["cores"].is_number()
    });
    let hardware = watched.ask(&["nodes", "--hardware", "--json"]);
    let of_node = |what: &str| &hardware[0]["hardware"][what];
    assert_eq!((&row["cores"], &row["memory"]), (of_node("threads"), of_node("memory")), "{hardware:?}");
    // The finer samples of a young session are there.
    let fine = watched.spans(&name, "cpu").iter().filter(|(_, length)| *length < 1.9).count();
    assert!(fine >= 4, "{fine} samples a second after another");

    // It is found without being asked for by its kind, and is no batch job.
    assert!(watched.ask(&["jobs", "--json"]).iter().any(|row| row["job"] == *name));
    assert!(!watched.ask(&["jobs", "--kind", "job", "--json"]).iter().any(|row| row["job"] == *name));
    let said = watched.said(&["jobs", "--kind", "sesion"]);
    assert!(said.starts_with("Some(2)") && said.contains("'session'"), "{said}");

    // People speak of it as of a job.
    for arguments in [
        &["notes", "add", "--job", &name, "a mesh of two million cells"][..],
        &["cases", "open", "--job", &name, "holds the machine"],
        &["tags", "set", &name, "job_behavior ITERATIVE"],
    ] {
        let said = watched.said(arguments);
        assert!(said.starts_with("Some(0)"), "{arguments:?}: {said}");
    }
    assert!(watched.said(&["notes", "list"]).contains("two million cells"));
    let iterative = watched.ask(&["jobs", "--all", "job_behavior ITERATIVE", "--json"]);
    assert_eq!((iterative.len(), &iterative[0]["job"]), (1, &name.clone().into()));
    let saved =
        watched.said(&["jobs", "--kind", "session", "--all", "job_behavior ITERATIVE", "--save", "own"]);
    assert!(saved.starts_with("Some(0)"), "{saved}");
    assert_eq!(watched.ask(&["jobs", "--search", "own", "--json"]).len(), 1);
    let explained = watched.said(&["tags", "explain", &name, "--why-not"]);
    assert!(explained.contains("about batch jobs only"), "{explained}");
    assert!(!explained.contains("--mem"), "{explained}");
}

/// It is over before it is read for the first time, and is a job all the same.
#[test]
fn a_session_of_a_moment_is_listed() {
    if !is_root("a_session_of_a_moment_is_listed") {
        return;
    }
    let watched = Watched::start("every_seconds = 10.0\nfirst_every_seconds = 10.0\n");
    let program = own(&watched, Path::new("/bin/cat"));
    for _ in 0..3 {
        watched.node.run_until_seen(&mut session(&program, &[]));
    }
    let mut rows = Vec::new();
    wait_until("three sessions", || {
        let processes = watched.ask(&["processes", "--exe", program.to_str().unwrap(), "--json"]);
        let of: Vec<Row> = processes.iter().map(|row| row["session"].clone()).collect();
        rows = watched.ask(&["jobs", "--kind", "session", "--json"]);
        rows.retain(|row| of.contains(&row["job"]) && row["end"].is_string());
        rows.len() == 3
    });
    assert!(rows.iter().all(|row| row["elapsed_s"].is_number()), "{rows:?}");
}
