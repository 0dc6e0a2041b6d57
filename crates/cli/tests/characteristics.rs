//! The characteristics of jobs as people see them: thresholds, what is provisional, short jobs together.

mod common;
#[path = "common/server.rs"]
#[allow(dead_code, reason = "only the server is used here")]
mod server;

use std::process::Output;

use common::{parse, wait_until};
use jiff::Timestamp;
use record::batch::{Batch, MEDIA_TYPE, Stream};
use record::entry::Entry;
use record::metric::id;
use record::reading::{JobReading, Reading, Reserved, Values};
use server::Server;

const SECOND: u64 = 1_000_000_000;

/// Alice's job of ten seconds on four cores, with one of them busy; it has ended unless it runs.
fn job(number: u64, now: u64, runs: bool) -> JobReading {
    let mut values = Values::default();
    values.put(id::CPU, Some(10 * SECOND));
    values.put(id::MEMORY_PEAK, Some(1 << 30));
    JobReading {
        job: Some(number.to_string()),
        user: Some("alice".into()),
        start: now - 10 * SECOND,
        end: (!runs).then_some(now),
        every: 5 * SECOND,
        values,
        reserved: Some(Reserved { cpus: Some(4), memory: Some(1 << 31), gpus: None }),
        ..JobReading::default()
    }
}

fn send(server: &Server, jobs: Vec<JobReading>, now: u64) {
    let reading = Reading { time: now, host: "n1".into(), jobs, ..Reading::default() };
    let entry = minicbor::to_vec(Entry::Reading(Box::new(reading))).unwrap();
    let batch = Batch::new("n1", Stream([3; 16]), 1, vec![&entry], Vec::new()).to_bytes();
    let token = std::fs::read(server.data.join("ingest.token")).unwrap();
    let token = String::from_utf8(token).unwrap();
    ureq::post(format!("{}/api/v1/ingest", server.url()))
        .header("authorization", format!("Bearer {}", token.trim()))
        .header("content-type", MEDIA_TYPE)
        .send(&batch[..])
        .unwrap();
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_thousand_short_jobs_are_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path().to_owned(), None);
    server.wait_ready();
    let ask = |arguments: &[&str]| server.ask(arguments).output().unwrap();
    let nothing = ask(&["short-jobs"]);
    assert_eq!(nothing.status.code(), Some(1), "{nothing:?} {}", server.log());

    let now = Timestamp::now().as_nanosecond() as u64;
    send(&server, (0..1001).map(|number| job(number, now, number == 1000)).collect(), now);
    wait_until("the rows of all jobs", || {
        parse(&ask(&["short-jobs", "--json"])).iter().any(|row| row["jobs"] == 1000)
    });
    let table = text(&ask(&["short-jobs", "--user", "alice", "--per", "hour", "--since", "1h"]));
    let rows: Vec<Vec<&str>> =
        table.lines().skip(1).map(|line| line.split_whitespace().skip(2).collect()).collect();
    // Hours together and in the median; core hours against CPU hours.
    assert_eq!(
        rows,
        [["alice", "1000", "2.78", "10.0", "s", "11.11", "2.78", "25", "%", "1024M"]],
        "{table}"
    );
    let csv = text(&ask(&["short-jobs", "--csv"]));
    assert!(csv.starts_with("from,to,cluster,user,jobs,") && csv.lines().count() == 2, "{csv}");
    assert_eq!(ask(&["short-jobs", "--user", "bob"]).status.code(), Some(1));
    assert_eq!(ask(&["short-jobs", "--per", "week"]).status.code(), Some(2));

    let running = parse(&ask(&["job", "1000", "--resources", "--json"])).remove(0);
    assert_eq!((&running["provisional"], &running["state"]), (&true.into(), &"running".into()));
    assert_eq!(
        (&running["metrics"]["cpu"]["below"], &running["metrics"]["cpu"]["above"]),
        (&0.0.into(), &0.0.into())
    );
    let shown = text(&ask(&["job", "1000", "--resources"]));
    assert!(shown.contains("provisional") && shown.contains("ever beyond the site's thresholds"), "{shown}");
    let ended = parse(&ask(&["job", "999", "--resources", "--json"])).remove(0);
    assert_eq!(
        (&ended["provisional"], &ended["metrics"]["memory_peak"]["last"]),
        (&false.into(), &(1 << 30).into())
    );
}

/// The list has jobs that were only measured, and a job that is accounted for once, with what was measured of it.
#[test]
fn a_job_is_in_the_list_once_whoever_tells_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path().to_owned(), None);
    server.wait_ready();
    let now = Timestamp::now().as_nanosecond() as u64;
    send(&server, vec![job(5, now, false), job(6, now, false)], now);
    let jobs = |arguments: &[&str]| {
        let fixed = [
            "jobs",
            "--json",
            "--fmt",
            "job,user,state,cores,project,cpu_util_avg,memory_util_max",
            "--sort",
            "job",
        ];
        parse(&server.ask(&[&fixed, arguments].concat()).output().unwrap())
    };
    wait_until("the rows of both jobs", || jobs(&[]).len() == 2);
    let measured = jobs(&[]);
    assert_eq!(measured[0]["cpu_util_avg"], 25.0, "{measured:?}");
    assert_eq!((&measured[0]["cores"], &measured[0]["user"]), (&4.into(), &"alice".into()));
    let at = |ns: u64| Timestamp::from_nanosecond(ns.into()).unwrap().strftime("%FT%T").to_string();
    let (start, end) = (at(now - 10 * SECOND), at(now));
    let text = format!(
        "JobID|User|Account|Submit|Start|End|Elapsed|State|NCPUS|NNodes|NodeList\n\
         5|alice|physics|{start}|{start}|{end}|00:00:10|COMPLETED|8|1|n1\n7|bob|physics|{start}|Unknown|Unknown|00:00:00|PENDING|1|1|None assigned\n"
    );
    let file = dir.path().join("sacct.txt");
    std::fs::write(&file, text).unwrap();
    for _ in 0..2 {
        let import = ["import", "slurm", "--time-zone", "UTC", "--file", file.to_str().unwrap()];
        let output = server.ask(&import).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let all = jobs(&[]);
        let numbers: Vec<_> = all.iter().map(|row| row["job"].as_str().unwrap()).collect();
        assert_eq!(numbers, ["5", "6", "7"]);
        // What was reserved is the batch system's word.
        assert_eq!((&all[0]["cores"], &all[0]["cpu_util_avg"]), (&8.into(), &12.5.into()), "{all:?}");
        assert_eq!((&all[0]["project"], &all[2]["state"]), (&"physics".into(), &"PENDING".into()));
        assert_eq!(jobs(&["--where", "cpu_util_avg < 20"]).len(), 1);
        assert_eq!(jobs(&["--where", "cpu_util_avg is unknown"]).len(), 1);
    }
}
