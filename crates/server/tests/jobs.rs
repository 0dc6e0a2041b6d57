//! What a site says of itself, and what becomes of the readings of jobs under it.

mod common;

use std::fs;

use common::{Server, batch, run};
use jiff::Timestamp;
use record::entry::Entry;
use record::metric::id;
use record::reading::{JobReading, Reading, Reserved, Values};
use serde_json::{Value, json};
use testkit::wait_until;

const SECOND: u64 = 1_000_000_000;

/// A job of alice's on this node that began 20 seconds ago, and what it has used.
fn reading(job: &str, now: u64, end: Option<u64>) -> Entry {
    let mut values = Values::default();
    values.put(id::CPU, Some(2 * SECOND));
    let job = JobReading {
        job: Some(job.into()),
        user: Some("alice".into()),
        start: now - 20 * SECOND,
        end,
        every: 10 * SECOND,
        values,
        reserved: Some(Reserved { cpus: Some(2), memory: None, gpus: None }),
        ..JobReading::default()
    };
    Entry::Reading(Box::new(Reading { time: now, host: "n1".into(), jobs: vec![job], ..Reading::default() }))
}

fn ask(server: &Server, path: &str) -> Value {
    let (status, text) = server.get(path, Some(&server.token("admin"))).unwrap();
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_site_has_its_own_thresholds_and_short_jobs() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("data")).unwrap();
    let own = "short_job_seconds = 21\n[threshold.cpu]\nof = \"reserved_cpus\"\nlow = 0.06\n";
    fs::write(dir.path().join("data/site.toml"), own).unwrap();
    let server = Server::start_in(dir, &[]);
    let now = Timestamp::now().as_nanosecond() as u64;
    let entries = [reading("1", now, None), reading("2", now, Some(now)), reading("3", now, Some(now))];
    assert_eq!(server.post(&batch("n1", 1, &entries), &server.token("ingest"), &[]).0, 200);
    let resources = &ask(&server, "/api/v1/jobs/1")["resources"];
    assert_eq!([&resources["provisional"], &resources["state"]], [&json!(true), &json!("running")]);
    // A tenth of a core on average, of two.
    let cpu = &resources["metrics"]["cpu"];
    assert_eq!([&cpu["below"], &cpu["above"]], [&json!(1.0), &Value::Null]);
    assert_eq!(ask(&server, "/api/v1/jobs/2")["resources"]["provisional"], json!(false));
    let mut row = Value::Null;
    wait_until("both short jobs", || {
        row = ask(&server, "/api/v1/short-jobs?per=hour&user=alice")["rows"][0].clone();
        row["jobs"] == json!(2)
    });
    assert_eq!([&row["jobs"], &row["user"], &row["cpu_share"]], [&json!(2), &json!("alice"), &json!(0.05)]);
    assert_eq!([&row["elapsed_s"], &row["shorter_than_s"]], [&json!(40.0), &json!(21.0)]);
    let (status, text) = server.get("/api/v1/short-jobs?per=week", Some(&server.token("admin"))).unwrap();
    assert!(status == 400 && text.contains("week"), "{text}");
    assert!(!server.stop().contains("ERROR"));
}

#[test]
fn a_site_that_cannot_be_understood_is_said_with_file_line_and_text() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("own.toml");
    for (text, line, said) in [
        ("short_job_seconds = 60\n[threshold.cpuu]\nlow = 1\n", "line 2", "[threshold.cpuu]"),
        ("[threshold.cpu]\nlow = \"a\"\n", "line 2", "low = \"a\""),
    ] {
        fs::write(&file, text).unwrap();
        let output = run(&["--site", file.to_str().unwrap()], &dir.path().join("data"));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        for part in [file.to_str().unwrap(), line, said] {
            assert!(error.contains(part), "no {part:?} in {error}");
        }
    }
    let output = run(&["--site", "/nowhere.toml"], &dir.path().join("data"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot read /nowhere.toml"));
    assert!(!dir.path().join("data").exists());
}
