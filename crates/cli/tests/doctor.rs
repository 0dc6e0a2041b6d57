//! `jobglass doctor` on a node without an agent, with one, and with one that is switched off.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use testkit::{Killed, wait_until};

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
        let child = Command::new(command())
            .arg("agent")
            .arg("--config")
            .arg(self.path("agent.toml"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Killed(child)
    }

    /// An agent that listens and has said how it fares.
    fn ready_agent(&self) -> Killed {
        let agent = self.agent();
        let uid = fs::metadata("/proc/self").map(|meta| std::os::unix::fs::MetadataExt::uid(&meta)).unwrap();
        wait_until("the user's socket", || self.path(&format!("agent.sock.{uid}")).exists());
        let has_segment = || self.path("spool/0000000001.seg").exists();
        wait_until("the first segment", has_segment);
        agent
    }

    fn doctor(&self, more: &[&str]) -> (i32, String) {
        let output = Command::new(command())
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
        let (code, text) = self.doctor(&["--json"]);
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
