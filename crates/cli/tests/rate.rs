//! `jobglass rate`: a real server and a real agent, and a job whose rate changes while it runs.

mod common;
#[path = "common/jobs.rs"]
mod jobs;
#[path = "common/server.rs"]
#[allow(dead_code, reason = "only the server is used here")]
mod server;
#[path = "common/watched.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod watched;

use common::*;
use jobs::Job;
use server::Server;
use watched::Watched;

/// How often jobs are read. So seldom that most of the time there is nothing to send: what the server wishes must be asked for.
const USUAL: f64 = 15.0;

fn start() -> Watched {
    Watched::start(&format!("every_seconds = {USUAL:.1}\nfirst_seconds = 0.0\n"))
}

/// A job that the server knows.
fn started(watched: &Watched, id: &str) -> Job {
    let job = Job::start(&watched.node, id, &[]);
    wait_until("the job to be known", || !watched.resources(id).is_null());
    job
}

impl Watched {
    fn code(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.server.ask(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// How many readings of a metric since a time came about a second after the one before. What is counted by arrival
    /// would count older ones, too: they take some seconds to the server.
    fn fine_since(&self, job: &str, metric: &str, since: f64) -> usize {
        let spans = self.spans(job, metric);
        spans.iter().filter(|(to, length)| *to > since && *length < 1.5).count()
    }

    /// How many seconds passed until the job was read every second.
    fn wait_for_fine(&self, job: &str, metric: &str) -> f64 {
        let since = now();
        wait_until("finer readings", || self.fine_since(job, metric, since) >= 3);
        now() - since
    }

    /// Waits until a job is read as usual again: two readings are far apart.
    fn wait_for_usual(&self, job: &str, metric: &str) {
        let since = now();
        wait_until("readings as usual", || {
            self.spans(job, metric).iter().any(|(to, length)| *to > since && *length > USUAL / 2.0)
        });
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    jiff::Timestamp::now().as_nanosecond() as f64 / 1e9
}

#[test]
fn a_running_job_is_read_more_often_for_a_while() {
    let test = "a_running_job_is_read_more_often_for_a_while";
    if !is_root(test) || !jobs::can_make(test) {
        return;
    }
    let watched = start();
    let job = started(&watched, "910001");
    assert_eq!(watched.code(&["rate", &job.id]).0, Some(1), "it has none of its own yet");

    let set = watched.ask(&["rate", &job.id, "1s", "--for", "30s", "--json"]);
    assert_eq!(
        (&set[0]["every_s"], &set[0]["sensors"], &set[0]["set_by"]),
        (&1.0.into(), &Row::Null, &"admin".into())
    );
    assert!(set[0]["who"].as_str().is_some_and(|who| who.contains('@')), "{set:?}");
    assert_eq!(watched.ask(&["rate", &job.id, "--json"]), set);
    let waited = watched.wait_for_fine(&job.id, "cpu");
    eprintln!("three readings a second apart, and known to the server, {waited:.1} s after the rate was set");

    // It goes back by itself.
    wait_until("the end of its own rate", || watched.code(&["rate", &job.id]).0 == Some(1));
    watched.wait_for_usual(&job.id, "cpu");
}

#[test]
fn single_sensors_through_a_restart_of_the_server_until_it_is_switched_off() {
    let test = "single_sensors_through_a_restart_of_the_server_until_it_is_switched_off";
    if !is_root(test) || !jobs::can_make(test) {
        return;
    }
    let mut watched = start();
    let job = started(&watched, "910002");
    let before = now();
    let comment = "a note; jobglass:rate=1s,sensors=memory+ib;and more";
    let set = watched.ask(&["rate", &job.id, "--comment", comment, "--json"]);
    assert_eq!(set[0]["sensors"], serde_json::json!(["memory", "ib"]));
    watched.server.kill();
    watched.server.start_again();
    watched.server.wait_ready();
    assert_eq!(watched.ask(&["rate", &job.id, "--json"]), set);
    watched.wait_for_fine(&job.id, "memory");
    let cpu = watched.fine_since(&job.id, "cpu", before);
    assert!(cpu <= 1, "only memory was asked for: {:?}", watched.spans(&job.id, "cpu"));

    watched.ask(&["rate", &job.id, "off"]);
    assert_eq!(watched.code(&["rate", &job.id]).0, Some(1));
    watched.wait_for_usual(&job.id, "memory");
}

#[test]
fn what_is_asked_for_wrongly_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path().to_owned(), None);
    server.wait_ready();
    for (arguments, code, words) in [
        (&["rate", "1", "--comment", ""][..], 0, ""),
        (&["rate", "1", "--comment", "nothing for us"], 0, ""),
        (&["rate", "1", "--comment", "jobglass:rate=soon"], 2, "`soon` is no rate"),
        (&["rate", "1", "--comment", "jobglass:speed=1"], 2, "jobglass:rate=5s"),
        (
            &["rate", "1", "5s", "--sensors", "cpu,smell"],
            2,
            "there are: cpu, memory, io, network, ib, gpu, energy, counters",
        ),
        (&["rate", "1", "5s", "--for", "31d"], 2, "`31d` is no time"),
        (&["rate", "../nodes", "5s"], 2, "no name of a batch job"),
        (&["rate", "1"], 1, "no rate of its own"),
        (&["rate", "1", "off"], 0, "had no rate"),
        (&["rate", "1", "5s"], 0, "nothing is known of job 1"),
        (&["rate", "1", "off"], 0, "as usual again"),
    ] {
        let output = server.ask(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert_eq!(said.is_empty(), words.is_empty(), "{arguments:?}: {said}");
    }
}
