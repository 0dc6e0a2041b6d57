//! The jobs that run now: right, and fast where there are many.

#[allow(dead_code, reason = "only what batches are made of is used here")]
mod common;

use std::time::{Duration, Instant};

use common::{HOST, SECOND, batch, stream};
use record::accounting::{Accounting, State};
use record::batch::Batch;
use record::entry::Entry;
use record::metric::id;
use record::reading::{CommandReading, JobReading, Reading, Reserved, Values};
use serde_json::{Map, Value, json};
use store::sight::Sight;
use store::{Accounts, Limits, Reader, Store, Writer, prepare};

const START: u64 = 1_800_000_000 * SECOND;

fn open(dir: &tempfile::TempDir) -> (Store, Writer, Reader) {
    let store = Store::open(dir.path(), &Limits::default()).unwrap();
    let (writer, reader) = (store.writer().unwrap(), store.reader().unwrap());
    (store, writer, reader)
}

fn put(writer: &mut Writer, first: u64, entries: &[Entry]) {
    let bytes = batch(stream(1), first, entries, &[]);
    let prepared = prepare(&Batch::from_bytes(&bytes).unwrap(), &writer.catalogue()).unwrap();
    writer.apply(vec![prepared], 0).unwrap();
}

/// A job on a node, with these values.
fn job(job: &str, node: &str, values: &[(u16, u64)]) -> JobReading {
    let mut known = Values::default();
    values.iter().for_each(|(id, value)| known.put(*id, Some(*value)));
    JobReading {
        cluster: Some("tiny".into()),
        job: Some(job.into()),
        node: Some(node.into()),
        uid: Some(1000),
        user: Some("alice".into()),
        start: START,
        every: 60 * SECOND,
        values: known,
        reserved: Some(Reserved { cpus: Some(4), memory: Some(1000), gpus: None }),
        ..JobReading::default()
    }
}

fn reading(second: u64, jobs: Vec<JobReading>) -> Entry {
    let time = START + second * SECOND;
    Entry::Reading(Box::new(Reading { time, host: HOST.into(), jobs, ..Reading::default() }))
}

fn top(reader: &Reader, second: u64) -> Vec<Map<String, Value>> {
    reader.top((START + second * SECOND) as i64).unwrap()
}

#[test]
fn the_jobs_that_run() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, mut writer, reader) = open(&dir);
    let cpu = |seconds: u64| (id::CPU, seconds * SECOND);
    let unnamed = |name: &str| JobReading { cluster: None, ..job(name, "n1", &[cpu(1)]) };
    let over = |name: &str| JobReading { end: Some(START + 100 * SECOND), ..job(name, "n1", &[cpu(1)]) };
    let session = JobReading { job: None, session: Some("s1".into()), ..job("", "n1", &[cpu(1)]) };
    let entries = [
        reading(60, vec![job("1", "n1", &[cpu(60), (id::MEMORY, 100)]), job("2", "n1", &[cpu(6)])]),
        reading(61, vec![job("1", "n2", &[cpu(61), (id::MEMORY, 50)]), session]),
        // Before the cluster is known; one of them is soon over.
        reading(62, vec![unnamed("1"), unnamed("3")]),
        reading(120, vec![job("1", "n1", &[cpu(240), (id::MEMORY, 200), (id::READ_BYTES, 9)])]),
        reading(121, vec![job("1", "n2", &[cpu(61), (id::MEMORY, 60)]), over("3")]),
        // Some sensors at a finer rate: what was not read now is as it was.
        reading(125, vec![job("1", "n1", &[cpu(250)])]),
    ];
    put(&mut writer, 1, &entries);
    let rows = top(&reader, 130);
    let names: Vec<&Value> = rows.iter().map(|row| &row["job"]).collect();
    assert_eq!(names, [&json!("1"), &json!("2")]);
    let row = &rows[0];
    for (name, expected) in [
        ("user", json!("alice")),
        ("cluster", json!("tiny")),
        ("nodes", json!(2)),
        ("elapsed_s", json!(130.0)),
        ("cpu_used", json!(2.0)),
        ("cpu_reserved", json!(8)),
        ("memory_used", json!(260)),
        ("memory_reserved", json!(2000)),
        // The other node has never said.
        ("read", Value::Null),
        ("written", Value::Null),
        ("gpu_used", Value::Null),
        ("age_s", json!(9.0)),
        ("nodes_late", json!(0)),
    ] {
        assert_eq!(row[name], expected, "{name}");
    }
    // The second job was read once, and not since.
    assert_eq!((&rows[1]["cpu_used"], &rows[1]["nodes_late"]), (&json!(0.1), &json!(0)));
    assert_eq!(top(&reader, 196)[1]["nodes_late"], json!(1));
    assert_eq!(top(&reader, 961).len(), 1, "it was not read for fifteen minutes");
    assert_eq!(top(&reader, 2000).len(), 0);
}

/// The processes of a name in a sample, and the CPU time in seconds that they have used.
fn command(name: &str, seconds: u64) -> CommandReading {
    let mut values = Values::default();
    values.put(id::CPU_USER, Some(seconds * SECOND));
    values.put(id::CPU_SYSTEM, Some(0));
    CommandReading { command: name.as_bytes().into(), values }
}

fn account(job: &str, user: &str, name: &str, submit: u64, end: Option<u64>) -> Accounting {
    Accounting {
        cluster: Some("tiny".into()),
        job: Some(job.into()),
        shown: job.into(),
        user: Some(user.into()),
        name: Some(name.as_bytes().into()),
        partition: Some("cpu".into()),
        submit: Some(START - 1000 * SECOND + submit * SECOND),
        start: Some(START - 1000 * SECOND + submit * SECOND),
        end: end.map(|end| START - 1000 * SECOND + end * SECOND),
        state: Some(if end.is_some() { State::Completed } else { State::Running }),
        ..Accounting::default()
    }
}

#[test]
fn jobs_have_their_name_partition_and_the_program_that_uses_most_cpu() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer, reader) = open(&dir);
    let running = |name: &str, node: &str, commands: &[(&str, u64)]| JobReading {
        commands: commands.iter().map(|(name, seconds)| command(name, *seconds)).collect(),
        ..job(name, node, &[(id::CPU, 60 * SECOND)])
    };
    let entries = [
        reading(
            60,
            vec![
                running("1", "n1", &[("bash", 1), ("prepare", 50), ("solver", 4)]),
                running("2", "n3", &[("slurm_script", 3), ("sleep", 0)]),
                running("3", "n4", &[]),
            ],
        ),
        // What used most before and is idle now, or gone, is not named.
        reading(
            120,
            vec![
                running("1", "n1", &[("bash", 1), ("prepare", 50), ("solver", 30), ("new", 40)]),
                running("1", "n2", &[("bash", 1), ("solver", 20)]),
                running("2", "n3", &[("slurm_script", 3), ("sleep", 0)]),
            ],
        ),
    ];
    put(&mut writer, 1, &entries);
    // A number that was given before, and one that another user's job on another cluster has as well.
    let elsewhere = Accounting { cluster: Some("huge".into()), ..account("2", "bob", "bobs", 5, None) };
    let jobs = [
        account("1", "alice", "before", 0, Some(10)),
        account("1", "alice", "heat 3d", 900, None),
        elsewhere,
    ];
    writer.account(&Accounts::of(&jobs).unwrap()).unwrap();
    let rows = top(&reader, 130);
    for (row, name, partition, program) in [
        (&rows[0], json!("heat 3d"), json!("cpu"), json!("solver")),
        (&rows[1], Value::Null, Value::Null, json!("sleep")),
        (&rows[2], Value::Null, Value::Null, Value::Null),
    ] {
        assert_eq!(
            (&row["name"], &row["partition"], &row["program"]),
            (&name, &partition, &program),
            "{row:?}"
        );
    }
    let sight = |user: &str| Sight::Own { user: user.into(), projects: vec![], member_of: vec![] };
    let seen_by = |user: &str| top(&store.reader_with(&sight(user)).unwrap(), 130);
    assert_eq!(seen_by("alice"), rows);
    assert_eq!(seen_by("bob"), Vec::new());
}

/// CPU time that this process has used.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

const RUNS: u32 = 9;

/// The median of some runs.
fn median(mut run: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let began = Instant::now();
            run();
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn three_thousand_jobs_at_once() {
    const JOBS: u64 = 3000;
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer, reader) = open(&dir);
    // An hour of it; only the last quarter is looked at.
    for minute in 1..=60 {
        let of = |n: u64| {
            let busy = minute * 60 * (n % 4) * SECOND;
            job(
                &n.to_string(),
                &format!("n{n}"),
                &[(id::CPU, busy), (id::MEMORY, n), (id::READ_BYTES, minute * n)],
            )
        };
        put(&mut writer, minute, &[reading(minute * 60, (0..JOBS).map(of).collect())]);
    }
    let rows = top(&reader, 3601);
    assert_eq!(rows.len() as u64, JOBS);
    let of = |n: u64| rows.iter().find(|row| row["job"] == json!(n.to_string())).unwrap();
    assert_eq!((&of(7)["cpu_used"], &of(7)["memory_used"]), (&json!(3.0), &json!(7)));
    assert_eq!(of(120)["read"], json!(2.0));
    let before = cpu_time();
    let answered = median(|| assert_eq!(top(&reader, 3601).len() as u64, JOBS));
    // However busy the machine is. The database works with several threads.
    let used = (cpu_time() - before) / RUNS;
    let since = (START + 2701 * SECOND) as i64;
    let mut counted = 0;
    drop((writer, reader, store));
    let database = duckdb::Connection::open(dir.path().join(store::FILE)).unwrap();
    let sql = "SELECT count(*) FROM job_sample WHERE time_ns >= ? AND job IS NOT NULL";
    let floor = median(|| counted = database.query_row(sql, [since], |row| row.get::<_, u64>(0)).unwrap());
    let ratio = answered.as_secs_f64() / floor.as_secs_f64();
    eprintln!(
        "{JOBS} jobs, {counted} of {} rows: {answered:.1?}, counting them {floor:.1?}, {ratio:.0} times",
        60 * JOBS
    );
    assert_eq!(counted, 15 * JOBS);
    assert!(used < Duration::from_secs(1), "{used:?} of CPU time");
}
