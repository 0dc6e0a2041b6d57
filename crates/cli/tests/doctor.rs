//! `jobglass doctor` on a node without an agent, with one, and with one that is switched off.

use std::env;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tempfile::TempDir;
use testkit::{Killed, install, must, wait_until};

/// The command that is shipped, if `make test` says which.
fn command() -> PathBuf {
    env::var_os("JOBGLASS_BIN").map_or_else(|| env!("CARGO_BIN_EXE_jobglass").into(), PathBuf::from)
}

fn library() -> PathBuf {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/release/libjobglass.so");
    env::var_os("JOBGLASS_LIB").map_or_else(|| built.into(), PathBuf::from)
}

/// A directory with a configuration that keeps to itself.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { dir: TempDir::new().unwrap() };
        let path = |name: &str| place.path(name).display().to_string();
        let config = format!(
            "socket = \"{}\"\noff_file = \"{}\"\ncontainer_socket = \"\"\n[spool]\ndir = \"{}\"\n",
            path("agent.sock"),
            path("off"),
            path("spool")
        );
        fs::write(place.path("agent.toml"), config).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn agent(&self) -> Killed {
        self.agent_by(Command::new(command()), &[])
    }

    fn agent_by(&self, mut command: Command, more: &[&str]) -> Killed {
        let child = command
            .arg("agent")
            .arg("--config")
            .arg(self.path("agent.toml"))
            .args(more)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Killed(child)
    }

    /// An agent that listens and has said how it fares.
    fn ready_agent(&self) -> Killed {
        self.ready(self.agent())
    }

    /// The same, started with options.
    fn ready_agent_with(&self, more: &[&str]) -> Killed {
        self.ready(self.agent_by(Command::new(command()), more))
    }

    /// What the agent says of itself.
    fn status(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("agent.sock.status")).unwrap()).unwrap()
    }

    /// What doctor says as another user.
    fn checks_as(&self, uid: u32) -> Vec<Value> {
        let copy = self.path("jobglass");
        if !copy.exists() {
            install(&command(), &copy, "755");
            fs::set_permissions(self.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut setpriv = Command::new("setpriv");
        setpriv.args([format!("--reuid={uid}"), format!("--regid={uid}"), "--clear-groups".into()]).arg(copy);
        self.checks_by(setpriv).1
    }

    fn ready(&self, agent: Killed) -> Killed {
        let uid = fs::metadata("/proc/self").map(|meta| std::os::unix::fs::MetadataExt::uid(&meta)).unwrap();
        wait_until("the user's socket", || self.path(&format!("agent.sock.{uid}")).exists());
        // The first segment is there before the report in it.
        let mut read = Command::new(command());
        read.args(["spool", "read", "--kind", "health"]).arg(self.path("spool"));
        wait_until("the agent's first report", || read.output().unwrap().status.success());
        agent
    }

    fn doctor(&self, more: &[&str]) -> (i32, String) {
        self.doctor_by(Command::new(command()), more)
    }

    fn doctor_by(&self, mut command: Command, more: &[&str]) -> (i32, String) {
        let output = command
            .arg("doctor")
            .arg("--config")
            .arg(self.path("agent.toml"))
            .arg("--library")
            .arg(library())
            .args(more)
            .env_remove("LD_PRELOAD")
            .env_remove("JOBGLASS")
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    }

    /// The exit code, and one object per check.
    fn checks(&self) -> (i32, Vec<Value>) {
        self.checks_by(Command::new(command()))
    }

    fn checks_by(&self, command: Command) -> (i32, Vec<Value>) {
        let (code, text) = self.doctor_by(command, &["--json"]);
        (code, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }
}

fn find<'a>(checks: &'a [Value], name: &str) -> &'a Value {
    let found = checks.iter().find(|check| check["check"] == name);
    found.unwrap_or_else(|| panic!("no check `{name}` in {checks:#?}"))
}

fn assert_state(checks: &[Value], name: &str, state: &str) {
    let check = find(checks, name);
    assert_eq!(check["state"], state, "{check:#}");
}

#[test]
fn without_an_agent_it_says_how_to_start_one() {
    let place = Place::new();
    let (code, text) = place.doctor(&[]);
    assert_eq!(code, 1, "{text}");
    let socket = place.path("agent.sock");
    let expected = format!("jobglass agent --socket {}", socket.display());
    let mut lines = text.lines().skip_while(|line| !line.starts_with("FAIL  agent "));
    assert!(lines.next().is_some_and(|line| line.contains("no agent")), "{text}");
    assert!(lines.next().is_some_and(|advice| advice.contains(&expected)), "{text}");
    assert!(text.contains("skip  end-to-end"), "{text}");
    assert!(text.trim_end().ends_with("to look at."), "{text}");
}

#[test]
fn with_an_agent_a_test_program_arrives() {
    let place = Place::new();
    let _agent = place.ready_agent();
    let (code, checks) = place.checks();
    assert_eq!(code, 0, "{checks:#?}");
    for name in
        ["configuration", "guest", "agent", "agent-own-socket", "agent-rules", "end-to-end", "spool-writer"]
    {
        assert_state(&checks, name, "ok");
    }
    for check in &checks {
        let keys: Vec<&String> = check.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["check", "state", "finding", "advice"]);
    }
}

#[test]
fn says_where_the_kernel_does_not_report_mapped_files() {
    if !testkit::is_root("says_where_the_kernel_does_not_report_mapped_files") {
        return;
    }
    let without_right = || {
        let mut without = Command::new("setpriv");
        without.args(["--bounding-set", "-perfmon,-sys_admin"]).arg(command());
        without
    };
    let place = Place::new();
    let agent = place.ready(place.agent_by(without_right(), &[]));
    // Who may ask gets an answer, and learns that the agent does not.
    let (code, checks) = place.checks();
    assert_eq!(code, 0, "{checks:#?}");
    assert_state(&checks, "kernel-mappings", "ok");
    assert_state(&checks, "agent-sight", "warn");
    let finding = find(&checks, "agent-sight")["finding"].as_str().unwrap_or_default();
    assert!(finding.contains("no mapped files from the kernel"), "{finding}");
    let (code, checks) = place.checks_by(without_right());
    assert_eq!(code, 0, "{checks:#?}");
    assert_state(&checks, "kernel-mappings", "warn");
    drop(agent);
    let place = Place::new();
    let _agent = place.ready_agent();
    assert_state(&place.checks().1, "agent-sight", "ok");
}

#[test]
fn a_broken_table_of_rules_fails() {
    let place = Place::new();
    let _agent = place.ready_agent();
    fs::write(place.path("agent.sock.rules"), "no rules").unwrap();
    let (code, checks) = place.checks();
    assert_eq!(code, 1);
    assert_state(&checks, "agent-rules", "fail");
}

#[test]
fn switched_off_is_a_warning_and_no_failure() {
    let place = Place::new();
    fs::write(place.path("off"), "").unwrap();
    let _agent = place.agent();
    wait_until("the agent", || place.path("spool/0000000001.seg").exists());
    wait_until("the switch", || !place.path("agent.sock").exists());
    let (code, checks) = place.checks();
    assert_eq!(code, 0, "{checks:#?}");
    assert_state(&checks, "switch", "warn");
    assert_state(&checks, "agent", "skip");
    assert_state(&checks, "end-to-end", "skip");
}

#[test]
fn a_wrong_configuration_is_named_with_its_line() {
    let place = Place::new();
    fs::write(place.path("agent.toml"), "enabled = true\nclutser = \"x\"\n").unwrap();
    let (code, checks) = place.checks();
    assert_eq!(code, 1);
    assert_state(&checks, "configuration", "fail");
    let finding = find(&checks, "configuration")["finding"].as_str().unwrap_or_default();
    assert!(finding.contains("agent.toml:2: unknown field `clutser`"), "{finding}");
}

#[test]
fn a_library_that_is_none_fails() {
    let place = Place::new();
    let fake = place.path("libfake.so");
    fs::write(&fake, "no library").unwrap();
    let output = Command::new(command())
        .args(["doctor", "--json", "--library"])
        .arg(&fake)
        .arg("--config")
        .arg(place.path("agent.toml"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let checks: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_state(&checks, "guest", "fail");
}

/// A place of a server that counts who comes, and says nothing.
struct Silent {
    url: String,
    came: Arc<AtomicUsize>,
}

impl Silent {
    fn start() -> Silent {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (url, came) =
            (format!("http://{}", listener.local_addr().unwrap()), Arc::new(AtomicUsize::new(0)));
        let counted = came.clone();
        std::thread::spawn(move || {
            for _ in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Silent { url, came }
    }

    /// How many came since the last time.
    fn take(&self) -> usize {
        self.came.swap(0, Ordering::SeqCst)
    }
}

fn finding<'a>(checks: &'a [Value], name: &str) -> &'a str {
    find(checks, name)["finding"].as_str().unwrap()
}

#[test]
fn the_server_of_the_running_agent_is_checked_not_that_of_the_configuration() {
    let place = Place::new();
    let (used, named) = (Silent::start(), Silent::start());
    let config = fs::read(place.path("agent.toml")).unwrap();
    let config = format!("{}[server]\nurl = \"{}\"\n", String::from_utf8(config).unwrap(), named.url);
    fs::write(place.path("agent.toml"), config).unwrap();
    let agent = place.ready_agent_with(&["--server", &used.url]);
    let (_, checks) = place.checks();
    assert_state(&checks, "running", "ok");
    assert!(finding(&checks, "running").contains(&format!("sends to {}", used.url)), "{checks:#?}");
    assert!(finding(&checks, "running").ends_with("agent.toml and --server"), "{checks:#?}");
    assert!(finding(&checks, "server").starts_with(&used.url), "{checks:#?}");
    assert_eq!((used.take() > 0, named.take()), (true, 0));
    // What a killed agent has left behind is not believed.
    drop(agent);
    assert!(place.path("agent.sock.status").exists());
    let (_, checks) = place.checks();
    assert_state(&checks, "running", "skip");
    assert!(finding(&checks, "server").starts_with(&named.url), "{checks:#?}");
    assert_eq!((used.take(), named.take() > 0), (0, true));
}

#[test]
fn the_spool_says_what_runs_where_the_socket_of_the_configuration_has_changed() {
    let place = Place::new();
    let _agent = place.ready_agent();
    let config = String::from_utf8(fs::read(place.path("agent.toml")).unwrap()).unwrap();
    fs::write(place.path("agent.toml"), config.replace("agent.sock", "other.sock")).unwrap();
    let (_, checks) = place.checks();
    assert_state(&checks, "running", "warn");
    assert!(finding(&checks, "running").contains("socket is"), "{checks:#?}");
    assert_state(&checks, "agent", "ok");
    assert_state(&checks, "spool-writer", "ok");
}

#[test]
fn says_that_the_configuration_changed_after_the_agent_was_started() {
    let place = Place::new();
    let agent = place.ready_agent();
    assert_state(&place.checks().1, "running", "ok");
    let path = place.path("agent.toml");
    let mut config = String::from_utf8(fs::read(&path).unwrap()).unwrap();
    let mut change = |more: &str| {
        config += more;
        fs::write(&path, &config).unwrap();
    };
    change("max_mib = 512\n");
    let (code, checks) = place.checks();
    assert_state(&checks, "running", "warn");
    assert_eq!(code, 0, "{checks:#?}");
    let expected = format!("the agent was started before {} changed", path.display());
    assert_eq!(finding(&checks, "running"), expected);
    assert!(find(&checks, "running")["advice"].as_str().unwrap().contains("send SIGHUP"), "{checks:#?}");
    let read_again = || {
        let before = place.status();
        must(Command::new("kill").args(["-HUP", &agent.id().to_string()]));
        wait_until("the configuration to be read", || place.status() != before);
    };
    read_again();
    assert_state(&place.checks().1, "running", "ok");
    // This one holds after a restart only.
    let server = Silent::start();
    change(&format!("[server]\nurl = \"{}\"\n", server.url));
    read_again();
    let (_, checks) = place.checks();
    assert_state(&checks, "running", "warn");
    let difference = format!("its server.url is \"\", not \"{}\"", server.url);
    assert!(finding(&checks, "running").contains(&difference), "{checks:#?}");
    assert_state(&checks, "server", "skip");
    assert_eq!(server.take(), 0);
}

#[test]
fn every_user_learns_the_server_of_roots_agent() {
    if !testkit::is_root("every_user_learns_the_server_of_roots_agent") {
        return;
    }
    let (place, server) = (Place::new(), Silent::start());
    let _agent = place.ready_agent_with(&["--server", &server.url]);
    let checks = place.checks_as(65_534);
    assert_state(&checks, "running", "ok");
    assert!(finding(&checks, "server").starts_with(&server.url), "{checks:#?}");
    assert!(server.take() > 0);
}

/// Whoever could name a server to root's doctor would be sent the node's token.
#[test]
fn nobody_names_a_server_to_somebody_elses_doctor() {
    const HOSTILE: u32 = 12_345;
    if !testkit::is_root("nobody_names_a_server_to_somebody_elses_doctor") {
        return;
    }
    let (place, server) = (Place::new(), Silent::start());
    drop(place.ready_agent_with(&["--server", &server.url]));
    // A process of the hostile user, and a file that says it is the agent.
    let mut sleeper = Command::new("setpriv");
    sleeper.args([&format!("--reuid={HOSTILE}"), "--clear-groups", "cat"]).stdin(Stdio::piped());
    let sleeper = Killed(sleeper.spawn().unwrap());
    let comm = format!("/proc/{}/comm", sleeper.id());
    wait_until("a process of the user", || fs::read(&comm).is_ok_and(|name| name == b"cat\n"));
    let mut status = place.status();
    status["pid"] = sleeper.id().into();
    let stat = fs::read(format!("/proc/{}/stat", sleeper.id())).unwrap();
    let stat = String::from_utf8(stat).unwrap();
    status["start_ticks"] = stat.split(' ').nth(21).unwrap().parse::<u64>().unwrap().into();
    fs::remove_dir_all(place.path("spool")).unwrap();
    let path = place.path("agent.sock.status");
    fs::write(&path, status.to_string()).unwrap();
    chown(&path, Some(HOSTILE), None).unwrap();
    for checks in [place.checks().1, place.checks_as(65_534)] {
        assert_state(&checks, "running", "warn");
        assert!(finding(&checks, "running").contains("it belongs to user 12345"), "{checks:#?}");
        assert_state(&checks, "server", "skip");
    }
    // Root's own file about a process of somebody else.
    chown(&path, Some(0), None).unwrap();
    assert_state(&place.checks().1, "running", "skip");
    assert_eq!(server.take(), 0);
    // The user's own doctor believes the user's own file: it is good but for its owner.
    chown(&path, Some(HOSTILE), None).unwrap();
    assert_state(&place.checks_as(HOSTILE), "running", "ok");
    assert!(server.take() > 0);
}
