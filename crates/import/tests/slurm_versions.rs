//! The same five jobs as `sacct` of seven versions of Slurm prints them, as text and as JSON: with steps, with what only `AllocTRES`
//! says, waiting as an array, cancelled before they ran, and running.
//!
//! The files are made up, after what the versions print (`tests/data/sacct`).

use std::io::BufReader;
use std::path::PathBuf;

use import::slurm::{json, text};
use import::{At, Collected, Error, Outcome, Reason};
use jiff::tz::TimeZone;
use record::accounting::{Accounting, Canceller, State, TimeLimit, gpus};

const VERSIONS: [&str; 7] = ["21.08", "22.05", "23.02", "23.11", "24.05", "24.11", "25.05"];
const SECOND: u64 = 1_000_000_000;
const GIB: u64 = 1 << 30;

fn data(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/sacct").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn read_json(name: &str) -> (Collected, Result<(), Error>) {
    let mut found = Collected::default();
    let result = json::read(BufReader::new(&data(name)[..]), name, true, &mut found);
    (found, result)
}

/// The jobs of every version and form, with the name of the file.
fn all() -> Vec<(String, Vec<Accounting>)> {
    let mut all = Vec::new();
    for version in VERSIONS {
        let name = format!("{version}.txt");
        let mut found = Collected::default();
        let options = text::Options { is_strict: true, ..text::Options::new(TimeZone::UTC) };
        text::read(BufReader::new(&data(&name)[..]), &name, &options, &mut found).unwrap();
        assert_eq!(found.problems, [], "{name}");
        all.push((name, found.jobs));
        let name = format!("{version}.json");
        let (found, result) = read_json(&name);
        result.unwrap();
        assert_eq!(found.problems, [], "{name}");
        all.push((name, found.jobs));
    }
    all
}

/// The job of a number in each of the files.
fn each(number: &str) -> Vec<(String, Accounting)> {
    let of = |(name, jobs): (String, Vec<Accounting>)| {
        let job = jobs.into_iter().find(|job| job.job.as_deref() == Some(number));
        (name.clone(), job.unwrap_or_else(|| panic!("{name} has no job {number}")))
    };
    all().into_iter().map(of).collect()
}

#[test]
fn every_version_tells_the_same_jobs() {
    for (name, jobs) in all() {
        let shown: Vec<_> =
            jobs.iter().map(|job| (&*job.shown, job.state.unwrap(), job.steps.len())).collect();
        let expected = [
            ("1001", State::Completed, 3),
            ("1002", State::Failed, 1),
            ("1003_[1-3]", State::Pending, 0),
            ("1004", State::Cancelled, 0),
            ("1003_0", State::Running, 2),
        ];
        assert_eq!(shown, expected, "{name}");
        for job in &jobs {
            assert_eq!((job.user.as_deref(), job.cluster.as_deref()), (Some("ann"), Some("synth")), "{name}");
            assert_eq!(job.submit, Some(1_714_557_600 * SECOND), "{name}");
        }
    }
}

#[test]
fn memory_and_tasks_come_from_the_steps() {
    for (name, job) in each("1001") {
        // The external step has a task on each node, and is not the user's.
        assert_eq!((job.used.max_rss, job.tasks), (Some(3 * GIB), Some(16)), "{name}");
    }
    for (name, job) in each("1002") {
        assert_eq!((job.used.max_rss, job.tasks), (Some(20 * GIB), Some(1)), "{name}");
    }
    for (name, job) in each("1005") {
        assert_eq!((job.used.max_rss, job.tasks), (None, Some(1)), "{name}: nobody measured it yet");
    }
    for (name, job) in each("1003") {
        assert_eq!((job.used.max_rss, job.tasks), (None, None), "{name}");
    }
}

#[test]
fn cores_and_nodes_come_from_what_was_allocated() {
    for (name, job) in each("1002") {
        assert_eq!((job.cpus, job.nodes, gpus(&job.allocated)), (Some(4), Some(1), Some(2)), "{name}");
        let step = &job.steps[0];
        assert_eq!((step.cpus, step.nodes), (Some(4), Some(1)), "{name}");
    }
    for (number, cpus, nodes) in [("1001", 16, 2), ("1005", 8, 2)] {
        for (name, job) in each(number) {
            assert_eq!((job.cpus, job.nodes), (Some(cpus), Some(nodes)), "{name}");
        }
    }
}

#[test]
fn a_job_that_waits_or_never_ran_has_no_cores_and_nodes() {
    for number in ["1003", "1004"] {
        for (name, job) in each(number) {
            assert_eq!((job.cpus, job.nodes, job.node_list.as_deref()), (None, None, None), "{name}");
            assert_eq!((job.start, &job.allocated[..]), (None, &[][..]), "{name}");
        }
    }
}

#[test]
fn what_was_requested_is_known_of_every_job() {
    for (number, cpus, nodes, gpu, memory) in [
        ("1001", 16, 2, None, 16),
        ("1002", 4, 1, Some(2), 32),
        ("1003", 8, 2, Some(2), 16),
        ("1004", 4, 1, None, 8),
        ("1005", 8, 2, Some(2), 16),
    ] {
        for (name, job) in each(number) {
            assert_eq!(
                (job.requested_cpus, job.requested_nodes),
                (Some(cpus), Some(nodes)),
                "{name} {number}"
            );
            assert_eq!(gpus(&job.requested), gpu, "{name} {number}");
            assert_eq!(job.memory_requested(), Some(memory * GIB), "{name} {number}");
        }
    }
}

#[test]
fn an_array_that_waits_stands_for_its_tasks() {
    for (name, job) in each("1003") {
        assert_eq!((job.array_waiting.as_deref(), job.tasks_waiting()), (Some("1-3"), Some(3)), "{name}");
    }
    for (name, job) in each("1005") {
        assert_eq!(
            (job.array_job, job.array_task, job.tasks_waiting()),
            (Some(1003), Some(0), None),
            "{name}"
        );
    }
}

/// `sacct -P --format=ALL`, with steps that were measured and jobs that ended in every way.
#[test]
fn all_columns_and_states_of_sacct_are_understood() {
    let mut found = Collected::default();
    let strict =
        text::Options { is_strict: true, rejects_unknown_fields: true, ..text::Options::new(TimeZone::UTC) };
    text::read(BufReader::new(&data("all-24.11.txt")[..]), "all", &strict, &mut found).unwrap();
    assert_eq!(found.problems, []);
    let states: Vec<State> = found.jobs.iter().map(|job| job.state.unwrap()).collect();
    use State::*;
    let ways = [NodeFail, Preempted, Deadline, BootFail, Revoked, Timeout, Requeued, Resizing, Suspended];
    assert_eq!(states, [vec![OutOfMemory, Pending, Cancelled], ways.to_vec()].concat());
    let [ran, waits, gone, ..] = &found.jobs[..] else { panic!("{:?}", found.jobs) };
    assert_eq!((ran.cpus, ran.nodes, ran.tasks, gpus(&ran.allocated)), (Some(8), Some(1), Some(1), Some(2)));
    assert_eq!((ran.used.max_rss, ran.exit.unwrap().signal), (Some(12_345_678 << 10), Some(125)));
    assert_eq!(ran.time_limit, Some(TimeLimit::Nanos(86_400 * SECOND)));
    assert_eq!((waits.tasks_waiting(), waits.time_limit), (Some(42), Some(TimeLimit::Unlimited)));
    assert_eq!((gone.start, &gone.cancelled_by), (None, &Some(Canceller::Uid(0))));
    assert_eq!(gone.time_limit, Some(TimeLimit::OfPartition));
    for job in &found.jobs {
        assert_eq!(
            (job.cpus.is_some(), job.start.is_some()),
            (job.node_list.is_some(), job.node_list.is_some()),
            "{job:?}"
        );
        assert!(job.requested_cpus.is_some() && job.memory_requested().is_some(), "{job:?}");
    }
}

#[test]
fn what_squeue_prints_is_rejected() {
    for name in [
        "squeue-21.08.json",
        "squeue-23.02.json",
        "squeue-24.05.json",
        "squeue-25.05.json",
        "squeue-empty-24.05.json",
    ] {
        let (found, result) = read_json(name);
        assert_eq!(found.jobs, [], "{name}");
        let error = result.unwrap_err().to_string();
        let expected =
            format!("{name}: this is from the controller (squeue --json, scontrol show job --json)");
        assert!(error.starts_with(&expected) && error.contains("sacct --json"), "{error}");
    }
}

#[test]
fn other_json_of_slurm_is_called_by_its_name() {
    for (text, expected) in [
        (
            r#"{"nodes": [], "last_update": 5}"#,
            "x: this lists nodes, and no jobs: import what sacct --json prints",
        ),
        (r#"{"sinfo": []}"#, "x: this lists sinfo, and no jobs: "),
        (r#"{"associations": [{"account": "a"}], "meta": {}}"#, "x: this lists associations, and no jobs: "),
        (r#"{"meta": {}}"#, "x: no `jobs` in it"),
        (r#"[{"job_id": 1}]"#, "x: invalid type"),
    ] {
        let error =
            json::read(text.as_bytes(), "x", true, &mut Collected::default()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn errors_in_the_json_are_reported() {
    let (found, result) = read_json("errors-24.05.json");
    result.unwrap();
    assert_eq!(found.jobs.len(), 1);
    let [(at, outcome, reason)] = &found.problems[..] else { panic!("{:?}", found.problems) };
    assert_eq!((*at, *outcome), (At::Error(1), Outcome::Reported));
    assert_eq!(
        *reason,
        Reason::Said("Unable to query all clusters: Connection refused (1007, slurmdb_jobs_get)".into())
    );
    let mut found = Collected::default();
    let error = json::read(&br#"{"errors": ["slurmdbd is away"]}"#[..], "x", true, &mut found).unwrap_err();
    assert!(matches!(error, Error::NoJobs { .. }), "{error}");
    assert_eq!(found.problems[0].2, Reason::Said("slurmdbd is away".into()));
}
