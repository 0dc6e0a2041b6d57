//! Programs that still run: visible while they run, and there once when they have ended, whatever becomes of the agent meanwhile.

mod common;
#[path = "common/server.rs"]
#[allow(dead_code, reason = "only the server is used here")]
mod server;

use std::process::{Child, Command, Stdio};

use common::{Killed, Node, Row, SURVIVE, is_root, new_dir, parse, wait_for, wait_until};
use server::Server;

/// A server, and an agent that reports whatever has run for a second.
struct Site {
    server: Server,
    node: Node,
    _dir: tempfile::TempDir,
}

impl Site {
    fn start() -> Site {
        let dir = new_dir();
        let server = Server::start(dir.path().to_owned(), None);
        server.wait_ready();
        let node = Node::configured(&format!(
            "running_after_seconds = 1.0\n[server]\nurl = \"{}\"\ntoken_file = \"{}\"\nflush_seconds = 0.2\n",
            server.url(),
            server.data.join("ingest.token").display(),
        ));
        Site { server, node, _dir: dir }
    }

    /// A program that runs until its standard input ends.
    fn program(&self, job: &str) -> Killed {
        let mut command = self.node.command(&*SURVIVE);
        command.arg("until_eof").env("SLURM_JOB_ID", job).env("OMP_NUM_THREADS", "4");
        Killed(command.stdin(Stdio::piped()).spawn().unwrap())
    }

    /// The rows of a process, and what more is asked of it.
    fn processes(&self, pid: u32, more: &[&str]) -> Vec<Row> {
        let pid = pid.to_string();
        let output =
            self.server.ask(&[&["processes", "--pid", &pid, "--json"], more].concat()).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
        parse(&output)
    }

    fn wait_for(&self, pid: u32, state: &str) -> Row {
        wait_for(format_args!("process {pid} to be {state}"), || {
            let mut rows = self.processes(pid, &[]);
            assert!(rows.len() <= 1, "{rows:#?}");
            rows.pop().filter(|row| row["state"] == state)
        })
    }

    fn text(&self, arguments: &[&str]) -> String {
        let output = self.server.ask(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Ends a program in good order.
fn end(mut program: Killed) {
    drop(program.stdin.take());
    let child: &mut Child = &mut program;
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_program_is_visible_while_it_runs_and_once_when_it_has_ended() {
    if !is_root("a_program_is_visible_while_it_runs_and_once_when_it_has_ended") {
        return;
    }
    let site = Site::start();
    let program = site.program("4711");
    let pid = program.id();
    let row = site.wait_for(pid, "running");
    assert!(row["end"].is_null() && row["ended_by"].is_null() && row["user_cpu_s"].is_null(), "{row:#}");
    assert_eq!((&row["argv"][1], &row["env"]["OMP_NUM_THREADS"]), (&"until_eof".into(), &"4".into()));
    let objects = row["objects"].as_array().unwrap();
    assert!(objects.iter().any(|object| object["path"].as_str().unwrap().contains("libc")), "{row:#}");
    assert_eq!(site.processes(pid, &["--running"]).len(), 1);
    assert!(site.processes(pid, &["--failed"]).is_empty());
    let job = row["job"].as_str().or(row["session"].as_str()).unwrap();
    let whole: Row = serde_json::from_str(&site.text(&["job", job, "--json"])).unwrap();
    let in_job = |pid: u32| {
        let rows = whole["processes"].as_array().unwrap().iter();
        rows.filter(|row| row["pid"] == pid).map(|row| row["state"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(in_job(pid), ["running"]);
    let tree = site.text(&["job", job]);
    let line = tree.lines().find(|line| line.contains(&format!(" {pid} "))).expect(&tree);
    assert!(line.contains("running") && line.contains("until_eof"), "{tree}");
    // In the spool it is not taken for one that has ended.
    let spooled = site.node.wait_for_images("the report", |rows| {
        rows.iter().any(|row| row["pid"] == pid && row["state"] == "running")
    });
    assert!(spooled.iter().all(|row| row["pid"] != pid || row["running_at"].is_string()));
    let table =
        Command::new(common::jobglass()).args(["spool", "read"]).arg(site.node.spool()).output().unwrap();
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let is_its = |line: &&str| line.contains(&format!(" {pid} ")) && line.contains("until_eof");
    let line = table.lines().find(is_its).expect(&table);
    assert!(line.contains("running"), "{line}");

    end(program);
    let row = site.wait_for(pid, "ended");
    assert_eq!((&row["exit_code"], &row["ended_by"]), (&0.into(), &"exit".into()));
    assert!(row["user_cpu_s"].is_number());
    assert!(site.processes(pid, &["--running"]).is_empty());
}

#[test]
fn a_program_does_not_run_for_ever_when_its_agent_was_killed() {
    if !is_root("a_program_does_not_run_for_ever_when_its_agent_was_killed") {
        return;
    }
    let mut site = Site::start();
    let (ends, goes_on) = (site.program("4711"), site.program("4711"));
    let (over, still) = (ends.id(), goes_on.id());
    for pid in [over, still] {
        site.wait_for(pid, "running");
    }
    site.node.kill_agent();
    end(ends);
    site.node.start_agent();
    let row = site.wait_for(over, "ended");
    assert_eq!((&row["ended_by"], &row["end"]), (&"unknown".into(), &Row::Null));
    assert_eq!(row["argv"][1], "until_eof", "what is known of it stays");
    // The next agent has met it, and knows it by its name.
    wait_until("the other to be reported again", || site.processes(still, &["--running"]).len() == 1);
    end(goes_on);
    let row = site.wait_for(still, "ended");
    assert_eq!(row["exit_code"], 0);
}
