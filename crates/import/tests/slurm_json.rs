//! `sacct --json`, of every version.
#![recursion_limit = "256"]

use std::io::BufReader;

use import::slurm::json::read;
use import::{At, Collected, Error, Outcome, Reason};
use proptest::prelude::*;
use record::accounting::{
    Accounting, Canceller, Exit, MemoryPer, RequestedMemory, State, TimeLimit, Tres, gpus,
};
use serde_json::{Value, json};

const SECOND: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

fn collect(text: &[u8]) -> (Collected, Result<(), Error>) {
    let mut found = Collected::default();
    let result = read(BufReader::with_capacity(7, text), "jobs.json", false, &mut found);
    (found, result)
}

fn collected(jobs: Value) -> Collected {
    let (found, result) =
        collect(json!({"meta": {"plugin": {}}, "jobs": jobs, "errors": []}).to_string().as_bytes());
    result.unwrap();
    found
}

fn one(job: Value) -> Accounting {
    let mut found = collected(json!([job]));
    assert_eq!(found.problems, []);
    found.jobs.remove(0)
}

fn set(number: u64) -> Value {
    json!({"set": true, "infinite": false, "number": number})
}

fn unset() -> Value {
    json!({"set": false, "infinite": false, "number": 0})
}

/// As v0.0.43 writes it.
fn new() -> Value {
    json!({
        "account": "physics", "cluster": "deep", "job_id": 74, "name": "md", "user": "ann", "group": "staff",
        "partition": "gpu", "qos": "high", "nodes": "n[01-02]", "allocation_nodes": 2, "restart_cnt": 1,
        "array": {"job_id": 70, "task_id": set(4), "task": ""}, "het": {"job_id": 0, "job_offset": unset()},
        "association": {"account": "physics", "cluster": "deep", "user": "ann"},
        "comment": {"administrator": "c2", "job": "c1", "system": ""},
        "reservation": {"id": 0, "name": "res1"}, "wckey": {"wckey": "k", "flags": []},
        "time": {
            "submission": 1709200800, "eligible": 1709200801, "start": 1709204400, "end": 1709208000, "elapsed": 3600,
            "suspended": 0, "limit": set(120), "total": {"seconds": 83, "microseconds": 456000},
            "user": {"seconds": 59, "microseconds": 0}, "system": {"seconds": 24, "microseconds": 456000}
        },
        "state": {"current": ["CANCELLED"], "reason": "None"}, "kill_request_user": "root",
        "exit_code": {"status": ["SIGNALED"], "return_code": set(0), "signal": {"id": set(9), "name": "KILL"}},
        "derived_exit_code": {"status": ["SUCCESS"], "return_code": set(0), "signal": {"id": unset(), "name": ""}},
        "required": {"CPUs": 8, "memory_per_cpu": unset(), "memory_per_node": set(32768)},
        "tres": {
            "allocated": [
                {"type": "cpu", "name": "", "id": 1, "count": 16}, {"type": "mem", "name": "", "id": 2, "count": 65536},
                {"type": "energy", "name": "", "id": 3, "count": -2}, {"type": "gres", "name": "gpu:a100", "count": 4}
            ],
            "requested": [{"type": "gres", "name": "gpu", "id": 1001, "count": 4}]
        },
        "priority": set(500), "flags": ["STARTED_ON_BACKFILL"], "submit_line": "sbatch job.sh", "sluid": "sEKN",
        "working_directory": "/home/ann", "stdout": "/home/ann/%j", "stdout_expanded": "/home/ann/74",
        "container": "", "constraints": "a100", "licenses": "", "extra": "x=1",
        "steps": [{
            "step": {"id": "74.batch", "name": "batch"}, "state": ["OUT_OF_MEMORY"], "nodes": {"count": 1, "range": "n01"},
            "tasks": {"count": 1}, "exit_code": {"status": ["ERROR"], "return_code": set(1)},
            "time": {
                "start": set(1709204400), "end": set(1709208000), "elapsed": 3600,
                "total": {"seconds": 0, "microseconds": 0},
                "user": {"seconds": 1, "microseconds": 5}, "system": {"seconds": 0, "microseconds": 0}
            },
            "statistics": {"energy": {"consumed": set(1500)}},
            "tres": {
                "requested": {
                    "max": [{"type": "mem", "name": "", "count": 1610612736, "node": "n01", "task": 3}],
                    "average": [{"type": "mem", "name": "", "count": 1048576}],
                    "total": [{"type": "cpu", "name": "", "count": 1500}, {"type": "fs", "name": "disk", "count": 7}]
                },
                "consumed": {"max": [{"type": "fs", "name": "disk", "count": 3072}]},
                "allocated": [{"type": "cpu", "name": "", "count": 8}]
            }
        }]
    })
}

#[test]
fn a_job_with_everything() {
    let job = one(new());
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let names = [&job.cluster, &job.job, &job.account, &job.user, &job.group, &job.partition, &job.qos];
    assert_eq!(names.map(text).join(" "), "deep 74 physics ann staff gpu high");
    let names = [&job.reservation, &job.wckey, &job.node_list, &job.constraints, &job.sluid];
    assert_eq!(names.map(text).join(" "), "res1 k n[01-02] a100 sEKN");
    let written = [
        &job.name,
        &job.comment,
        &job.admin_comment,
        &job.extra,
        &job.submit_line,
        &job.work_dir,
        &job.stdout,
    ];
    let expected = "md c1 c2 x=1 sbatch job.sh /home/ann /home/ann/74";
    assert_eq!(written.map(|text| text.as_ref().unwrap().to_string()).join(" "), expected);
    assert_eq!(
        (&job.system_comment, &job.container, &job.licenses, &job.reason),
        (&None, &None, &None, &None)
    );
    assert_eq!((&*job.shown, job.array_job, job.array_task, job.het_job), ("70_4", Some(70), Some(4), None));
    let day = 1_709_200_800 * SECOND;
    assert_eq!((job.submit, job.eligible), (Some(day), Some(day + SECOND)));
    assert_eq!((job.start, job.end), (Some(day + 3600 * SECOND), Some(day + 7200 * SECOND)));
    assert_eq!((job.elapsed, job.time_limit), (Some(3600 * SECOND), Some(TimeLimit::Nanos(7200 * SECOND))));
    assert_eq!((job.state, job.cancelled_by), (Some(State::Cancelled), Some(Canceller::User("root".into()))));
    assert_eq!(job.exit, Some(Exit { code: Some(0), signal: Some(9) }));
    assert_eq!(job.derived_exit, Some(Exit { code: Some(0), signal: Some(0) }));
    let per_node = RequestedMemory { bytes: 32768 * MIB, per: MemoryPer::Node };
    assert_eq!((job.requested_memory, job.requested_cpus), (Some(per_node), Some(8)));
    assert_eq!((job.nodes, job.cpus, job.restarts, job.priority), (Some(2), Some(16), Some(1), Some(500)));
    assert_eq!((gpus(&job.allocated), gpus(&job.requested), job.allocated.len()), (Some(4), Some(4), 3));
    assert_eq!(job.allocated[1], Tres { kind: "mem".into(), name: None, count: 65536 * MIB });
    assert_eq!(
        (job.flags.join(" ").as_str(), job.used.total_cpu),
        ("STARTED_ON_BACKFILL", Some(83_456_000_000))
    );
}

#[test]
fn steps_are_the_jobs() {
    let job = one(new());
    let [step] = &job.steps[..] else { panic!("{job:?}") };
    assert_eq!(
        (&*step.step, step.state, step.tasks, step.nodes),
        ("batch", Some(State::OutOfMemory), Some(1), Some(1))
    );
    assert_eq!((step.start, step.exit), (job.start, Some(Exit { code: Some(1), signal: Some(0) })));
    let used = &step.used;
    assert_eq!(
        (used.max_rss, used.max_rss_node.as_deref(), used.max_rss_task),
        (Some(1536 * MIB), Some("n01"), Some(3))
    );
    assert_eq!((used.average_rss, used.energy, step.cpus), (Some(MIB), Some(1500), Some(8)));
    // Slurm 25.05 says that the sum of both is zero.
    assert_eq!(used.total_cpu, Some(1_000_005_000));
    assert_eq!((used.in_total[0].count, used.out_max[0].count), (1500 * 1_000_000, 3072));
}

#[test]
fn versions_differ() {
    let job = |change: Value| {
        let mut job = json!({"job_id": 5});
        job.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        one(job)
    };
    for state in [json!("RUNNING"), json!(["RUNNING"])] {
        assert_eq!(job(json!({"state": {"current": state}})).state, Some(State::Running));
    }
    let completing = job(json!({"state": {"current": ["RUNNING", "COMPLETING"]}}));
    assert_eq!((completing.state, completing.also), (Some(State::Running), vec![State::Completing]));
    for (limit, expected) in [
        (json!(10), Some(TimeLimit::Nanos(600 * SECOND))),
        (set(10), Some(TimeLimit::Nanos(600 * SECOND))),
        (json!(10.0), Some(TimeLimit::Nanos(600 * SECOND))),
        (json!({"set": false, "infinite": true, "number": 0}), Some(TimeLimit::Unlimited)),
        (json!(4294967295u64), Some(TimeLimit::Unlimited)),
        (json!(4294967294u64), None),
        (unset(), None),
        (Value::Null, None),
    ] {
        assert_eq!(job(json!({"time": {"limit": limit}})).time_limit, expected, "{limit}");
    }
    for (required, expected) in [
        (json!({"memory": 500}), Some((500, MemoryPer::Node))),
        (json!({"memory": 9223372036854776308u64}), Some((500, MemoryPer::Cpu))),
        (json!({"memory": -9223372036854775308i64}), Some((500, MemoryPer::Cpu))),
        (json!({"memory_per_cpu": set(7), "memory_per_node": unset()}), Some((7, MemoryPer::Cpu))),
        (json!({"memory_per_cpu": unset(), "memory_per_node": unset()}), None),
        (json!({"memory": 0}), None),
    ] {
        let expected = expected.map(|(mib, per)| RequestedMemory { bytes: mib * MIB, per });
        assert_eq!(job(json!({"required": required})).requested_memory, expected, "{required}");
    }
    for (exit, expected) in [
        (json!({"status": "SUCCESS", "return_code": 0}), Some((Some(0), Some(0)))),
        (
            json!({"status": "SIGNALED", "return_code": 0, "signal": {"signal_id": 15}}),
            Some((Some(0), Some(15))),
        ),
        (json!({"status": "SIGNALED", "signal": {"signal_id": 125}}), Some((Some(0), Some(125)))),
        (json!({"status": ["PENDING"], "return_code": set(0)}), None),
        (json!({}), None),
    ] {
        let expected = expected.map(|(code, signal)| Exit { code, signal });
        assert_eq!(job(json!({"exit_code": exit})).exit, expected, "{exit}");
    }
    for (step, expected) in [
        (json!("5.0"), "0"),
        (json!("batch"), "batch"),
        (json!(3), "3"),
        (json!({"step_id": "extern"}), "extern"),
    ] {
        assert_eq!(job(json!({"steps": [{"step": {"id": step}}]})).steps[0].step, expected);
    }
    let early =
        json!({"time": {"eligible": 1709200800, "start": 1709200800, "end": 1709208000, "elapsed": 3600}});
    assert_eq!(job(early).start, Some(1709204400 * SECOND));
    let waiting =
        job(json!({"array": {"job_id": 5, "task_id": unset(), "task": "1-9%2"}, "time": {"start": 0}}));
    assert_eq!(
        (&*waiting.shown, waiting.array_waiting.as_deref(), waiting.start),
        ("5_[1-9%2]", Some("1-9%2"), None)
    );
    let het = job(json!({"het": {"job_id": 4, "job_offset": set(1)}, "nodes": "None assigned"}));
    assert_eq!((&*het.shown, het.job.as_deref(), het.node_list), ("4+1", Some("5"), None));
    assert_eq!(job(json!({"group": "100"})).gid, Some(100));
    let waits = job(json!({"time": {"start": 0}, "allocation_nodes": 2}));
    assert_eq!((waits.nodes, waits.requested_nodes), (None, Some(2)));
}

/// A job as 21.08 and 22.05 write it: its start is when it became eligible, whatever else is known, and whoever exits has success.
fn early(change: Value) -> Accounting {
    let mut job = json!({
        "job_id": 9, "user": "ann", "nodes": "n1", "required": {"CPUs": 8, "memory": 4096}, "steps": [],
        "state": {"current": "COMPLETED", "reason": "None"}, "exit_code": {"status": "SUCCESS", "return_code": 0},
        "derived_exit_code": {"status": "SUCCESS", "return_code": 0}, "array": {"job_id": 0, "task_id": null, "task": null},
        "time": {"submission": 1709200700, "eligible": 1709200800, "start": 1709200800, "end": 1709208000, "elapsed": 3600}
    });
    job.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    one(job)
}

#[test]
fn a_job_that_never_ran_has_no_start_in_early_json() {
    let time = |end: u64| json!({"submission": 1709200700, "eligible": 1709200800, "start": 1709200800, "end": end, "elapsed": 0});
    for (state, end) in [("PENDING", 0), ("CANCELLED", 1709208000)] {
        let job = early(
            json!({"state": {"current": state, "reason": "None"}, "nodes": "None assigned", "time": time(end)}),
        );
        assert_eq!((job.start, job.nodes), (None, None), "{state}");
        assert_eq!(job.end, (end > 0).then_some(end * SECOND), "{state}");
    }
    assert_eq!(early(json!({})).start, Some(1709204400 * SECOND));
}

#[test]
fn a_running_job_started_with_its_first_step_in_early_json() {
    let time = json!({"submission": 1709200700, "eligible": 1709200800, "start": 1709200800, "end": 0, "elapsed": 60});
    let step = |id: &str, start: u64| json!({"step": {"id": id}, "state": "RUNNING", "time": {"start": start, "end": 0}});
    let running = |steps: Value| {
        early(json!({"state": {"current": "RUNNING", "reason": "None"}, "time": time, "steps": steps})).start
    };
    let steps = json!([step("0", 1709204500), step("batch", 1709204401), step("extern", 1709204400)]);
    assert_eq!(running(steps), Some(1709204400 * SECOND));
    assert_eq!(running(json!([])), None);
    // Later versions know it.
    let later = one(
        json!({"job_id": 9, "state": {"current": ["RUNNING"]}, "time": time, "steps": [step("0", 1709204500)]}),
    );
    assert_eq!(later.start, Some(1709200800 * SECOND));
}

#[test]
fn the_success_of_a_failed_job_is_no_exit_code_in_early_json() {
    let ended = |state: &str| early(json!({"state": {"current": state, "reason": "None"}}));
    for state in ["FAILED", "NODE_FAIL", "BOOT_FAIL"] {
        assert_eq!(ended(state).exit, None, "{state}");
    }
    for state in ["COMPLETED", "TIMEOUT"] {
        let job = ended(state);
        assert_eq!(job.exit, Some(Exit { code: Some(0), signal: Some(0) }), "{state}");
        assert_eq!(job.derived_exit, None, "{state}");
    }
    let step = json!({"step": {"id": "batch"}, "state": "FAILED", "exit_code": {"status": "SUCCESS", "return_code": 0}});
    assert_eq!(early(json!({"steps": [step]})).steps[0].exit, None);
    // A prolog that fails leaves this behind, and later versions say what they mean.
    let later = one(
        json!({"job_id": 9, "state": {"current": ["FAILED"]}, "exit_code": {"status": ["SUCCESS"], "return_code": set(0)}}),
    );
    assert_eq!(later.exit, Some(Exit { code: Some(0), signal: Some(0) }));
}

/// Slurm's database keeps the tasks of an array that have not begun as a mask, and JSON has it as it is.
#[test]
fn the_tasks_of_a_waiting_array_may_be_a_mask() {
    let waiting = |task: &str, most: u64| {
        json!({"job_id": 5, "state": {"current": ["PENDING"]},
            "array": {"job_id": 5, "task_id": unset(), "task": task, "limits": {"max": {"running": {"tasks": most}}}}})
    };
    for (task, most, expected, count) in [
        ("0xE", 0, "1-3", 3),
        ("0xE", 2, "1-3%2", 3),
        ("0x1", 0, "0", 1),
        ("0x11", 0, "0,4", 2),
        ("0x1F0000000000000001F1", 5, "0,4-8,72-76%5", 11),
        ("1-9", 4, "1-9%4", 9),
        ("1-9%2", 4, "1-9%2", 9),
    ] {
        let job = one(waiting(task, most));
        assert_eq!(
            (job.array_waiting.as_deref(), job.tasks_waiting()),
            (Some(expected), Some(count)),
            "{task}"
        );
        assert_eq!(job.shown, format!("5_[{expected}]"));
    }
    for bad in ["0x", "0x0", "0xFG", "0x-1", &format!("0x{}", "F".repeat(1_000_002))] {
        let found = collected(json!([waiting(bad, 0)]));
        assert_eq!(found.jobs[0].array_waiting, None, "{bad}");
        assert!(matches!(found.problems[..], [(_, Outcome::Doubted, Reason::Unreadable { .. })]));
    }
}

#[test]
fn one_bad_job_does_not_stop_the_rest() {
    let found = collected(json!([
        {"job_id": 1}, 7, {"name": "x"}, {"job_id": {"set": false}}, {"job_id": 2, "state": {"current": ["ODD"]}},
        {"job_id": 3, "time": {"start": 1709208000, "end": 1709204400}}, {"job_id": 4, "steps": [{}]}
    ]));
    let numbers: Vec<_> = found.jobs.iter().map(|job| &*job.shown).collect();
    assert_eq!(numbers, ["1", "2", "3", "4"]);
    let problems: Vec<_> = found.problems.iter().map(|(at, outcome, _)| (*at, *outcome)).collect();
    use Outcome::{Doubted, Rejected};
    let expected = [(2, Rejected), (3, Rejected), (4, Rejected), (5, Doubted), (6, Doubted), (7, Doubted)];
    assert_eq!(problems, expected.map(|(job, outcome)| (At::Job(job), outcome)));
    assert_eq!(found.problems[0].2, Reason::NoJob);
}

#[test]
fn files_that_are_broken() {
    for (text, jobs, expected) in [
        (&br#"{"jobs": [{"job_id": 1}, {"job_id": 2"#[..], 1, "jobs.json: EOF while parsing an object"),
        (br#"{"jobs": [{"job_id": 1}]} x"#, 1, "jobs.json: trailing characters"),
        (br#"{"meta": 1}"#, 0, "jobs.json: no `jobs` in it"),
        (br#"{"jobs": 5}"#, 0, "jobs.json: invalid type"),
        (b"[]", 0, "jobs.json: invalid type"),
        (b"", 0, "jobs.json: EOF"),
    ] {
        let (found, result) = collect(text);
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(found.jobs.len(), jobs, "{error}");
    }
    let (found, result) = collect(b"{\"jobs\": [{\"job_id\": 1, \"name\": \"a\xffb\"}]}");
    result.unwrap();
    assert_eq!(found.jobs[0].name.as_ref().unwrap().to_string(), "a\\xffb");
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), text in "[\\[\\]{}:,\"a-z0-9]{0,60}") {
        let _ = collect(&bytes);
        let _ = collect(format!("{{\"jobs\": [{text}]}}").as_bytes());
    }

    /// Whatever stands at any place of a job.
    #[test]
    fn any_value_is_read_without_a_panic(place in 0usize..200, with in 0usize..9) {
        let odd = [json!(null), json!(-1), json!(1e300), json!(u64::MAX), json!("x"), json!([]), json!({}), json!(true), json!([[1]])];
        let mut job = new();
        let mut left = place;
        replace(&mut job, &odd[with], &mut left);
        let (found, result) = collect(json!({"jobs": [job]}).to_string().as_bytes());
        prop_assert!(result.is_ok() && found.jobs.len() + found.problems.len() > 0);
    }
}

/// Puts a value at the `left`-th place.
fn replace(value: &mut Value, odd: &Value, left: &mut usize) {
    if *left == 0 {
        *value = odd.clone();
    }
    *left = left.wrapping_sub(1);
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| replace(value, odd, left)),
        Value::Object(map) => map.values_mut().for_each(|value| replace(value, odd, left)),
        _ => {}
    }
}
