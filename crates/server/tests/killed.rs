//! A server that is killed while it judges the whole collection goes on where it was, and nobody sees half of a rule's work on a job.

mod common;

use std::fs;
use std::time::Duration;

use common::Server;
use record::accounting::{Accounting, State};
use serde_json::Value;
use testkit::wait_until;

const DAY: u64 = 86_400 * 1_000_000_000;
const START: u64 = 20_000 * DAY;
/// More than are judged in one piece.
const JOBS: u64 = 240_000;
const AT_ONCE: u64 = 10_000;

/// Two tags that are always set together.
fn site(cores: u32) -> String {
    let tag = |id: u32, name: &str| {
        format!(
            "[[tag]]\nid = {id}\nname = '{name}'\ngroup = 'site'\ncriterion = 'cores >= {cores}'\ndescription = 'Many cores.'\n"
        )
    };
    tag(1001, "site ONE") + &tag(1002, "site OTHER")
}

fn job(number: u64) -> Accounting {
    let submit = START + number * (DAY * 12 / JOBS);
    Accounting {
        job: Some(number.to_string()),
        shown: number.to_string(),
        user: Some("anna".into()),
        submit: Some(submit),
        start: Some(submit),
        end: Some(submit + number),
        elapsed: Some(number),
        state: Some(if number.is_multiple_of(3) { State::Failed } else { State::Completed }),
        nodes: Some(1),
        cpus: Some(number % 8),
        node_list: Some("n1".into()),
        ..Accounting::default()
    }
}

fn get(server: &Server, path: &str) -> Value {
    let (status, text) = server.get(path, Some(&server.token("admin"))).unwrap();
    assert_eq!(status, 200, "{path}: {text}");
    serde_json::from_str(&text).unwrap()
}

fn post(server: &Server, path: &str, body: &[u8]) {
    let agent =
        ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(120))).build().new_agent();
    let request = agent.post(format!("http://{}/api/v1/{path}", server.address));
    let request = request.header("authorization", format!("Bearer {}", server.token("admin")));
    assert_eq!(request.header("content-type", "application/cbor").send(body).unwrap().status(), 200);
}

/// A server with jobs that were judged by the first rules, and that now has others.
fn with_new_rules() -> Server {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("data")).unwrap();
    fs::write(dir.path().join("data/site.toml"), site(100)).unwrap();
    let server = Server::start_in(dir, &[]);
    for first in (0..JOBS).step_by(AT_ONCE as usize) {
        let jobs: Vec<Accounting> = (first..first + AT_ONCE).map(job).collect();
        post(&server, "accounting", &minicbor::to_vec(&jobs).unwrap());
    }
    let judged = || get(&server, "/api/v1/tags")["rows"][0]["judged_jobs"].as_u64();
    wait_until("all jobs to be judged", || judged() == Some(JOBS));
    fs::write(server.data().join("site.toml"), site(4)).unwrap();
    let version = || {
        let rows = get(&server, "/api/v1/tags")["rows"].clone();
        rows.as_array()
            .unwrap()
            .iter()
            .find(|row| row["tag"] == "site OTHER")
            .map(|row| row["version"].clone())
    };
    wait_until("the new rules", || version() == Some(2.into()));
    server
}

fn count(server: &Server, query: &str) -> u64 {
    get(server, &format!("/api/v1/jobs?count=true&{query}"))["count"].as_u64().unwrap()
}

/// The two are set together or not at all.
fn check_whole(server: &Server) {
    for query in ["all=site%20ONE&none=site%20OTHER", "all=site%20OTHER&none=site%20ONE"] {
        assert_eq!(count(server, query), 0, "half of the rules on a job");
    }
}

/// How far the run is.
fn run(server: &Server) -> Value {
    get(server, "/api/v1/tags/run")["run"].clone()
}

fn finish(server: &Server) -> Value {
    wait_until("the end of the run", || {
        check_whole(server);
        !run(server)["ended"].is_null()
    });
    let rows = get(server, "/api/v1/tags")["rows"].clone();
    let counted =
        |row: &Value| Value::from(vec![row["tag"].clone(), row["jobs"].clone(), row["version"].clone()]);
    rows.as_array().unwrap().iter().map(counted).collect()
}

#[test]
fn a_run_goes_on_after_a_kill_and_ends_the_same() {
    let whole = with_new_rules();
    post(&whole, "tags/run", b"");
    let expected = finish(&whole);
    assert_eq!(count(&whole, "all=site%20ONE"), JOBS / 2);
    drop(whole);

    let mut server = with_new_rules();
    post(&server, "tags/run", b"");
    // At once, and when some more was done.
    for round in 0..3 {
        let before = run(&server)["judged"].clone();
        let has_moved = |run: &Value| run["judged"] != before || !run["ended"].is_null();
        wait_until("the run to go on", || round == 0 || has_moved(&run(&server)));
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        let dir = std::mem::replace(&mut server.dir, tempfile::tempdir().unwrap());
        server = Server::start_in(dir, &[]);
        check_whole(&server);
    }
    assert_eq!(finish(&server), expected);
}
