//! What was measured, once it is old: coarse, in order, deleted; and what is still known of it then.

#[allow(dead_code, reason = "only what batches are made of is used here")]
mod common;

use common::{SECOND, stream};
use record::batch::Batch;
use record::entry::Entry;
use record::metric::{self, id};
use record::reading::{CardReading, CommandReading, JobReading, Reading, Values};
use serde_json::{Value, json};
use store::{Coarsen, Filter, Forget, Limits, Reader, Step, Store, Writer, prepare};

/// A midnight.
const START: u64 = 20_000 * 86_400 * SECOND;
const DAY: u64 = 86_400 * SECOND;
const STEP: u64 = 600 * SECOND;

/// A reading of a job: `second` after its start, CPU seconds and bytes of memory.
#[derive(Clone, Copy)]
struct At {
    second: u64,
    cpu: u64,
    memory: u64,
}

fn reading(job: &str, host: &str, user: &str, at: At, end: Option<u64>) -> Entry {
    let mut values = Values::default();
    values.put(id::CPU, Some(at.cpu * SECOND));
    values.put(id::MEMORY, Some(at.memory));
    let mut own = Values::default();
    own.put(id::MEMORY, Some(at.memory));
    let mut of_card = Values::default();
    of_card.put(id::CARD_UTILISATION, Some(70));
    let of_job = JobReading {
        cluster: Some("tiny".into()),
        job: Some(job.into()),
        node: Some(host.into()),
        user: Some(user.into()),
        start: START,
        end: end.map(|end| START + end * SECOND),
        every: 60 * SECOND,
        values,
        commands: vec![CommandReading { command: b"solver".as_slice().into(), values: own }],
        cards: vec![CardReading { card: format!("GPU-{job}"), values: of_card, ..CardReading::default() }],
        ..JobReading::default()
    };
    let mut of_node = Values::default();
    of_node.put(id::NODE_LOAD, Some(150));
    let time = START + at.second * SECOND;
    Entry::Reading(Box::new(Reading {
        time,
        host: host.into(),
        node: of_node,
        jobs: vec![of_job],
        ..Reading::default()
    }))
}

/// A job of half an hour: one core, for one minute three; 1000 bytes, in one reading 5000, at the end none.
fn course(job: &str, host: &str, user: &str) -> Vec<Entry> {
    let mut cpu = 0;
    let mut entries = Vec::new();
    for minute in 1..30 {
        cpu += if minute == 14 { 180 } else { 60 };
        let memory = if minute == 17 { 5000 } else { 1000 };
        entries.push(reading(job, host, user, At { second: 60 * minute, cpu, memory }, None));
    }
    let last = At { second: 1801, cpu: cpu + 60, memory: 0 };
    entries.push(reading(job, host, user, last, Some(1800)));
    entries
}

struct Opened {
    reader: Reader,
    writer: Writer,
    _store: Store,
}

fn open(dir: &tempfile::TempDir) -> Opened {
    let store = Store::open(dir.path(), &Limits::default()).unwrap();
    Opened { reader: store.reader().unwrap(), writer: store.writer().unwrap(), _store: store }
}

fn put(writer: &mut Writer, of: u8, first: u64, entries: &[Entry]) {
    let host = entries.iter().find_map(|entry| match entry {
        Entry::Reading(reading) => Some(reading.host.clone()),
        _ => None,
    });
    let encoded: Vec<Vec<u8>> = entries.iter().map(|entry| minicbor::to_vec(entry).unwrap()).collect();
    let slices = encoded.iter().map(Vec::as_slice).collect();
    let bytes = Batch::new(&host.unwrap(), stream(of), first, slices, Vec::new()).to_bytes();
    let prepared = prepare(&Batch::from_bytes(&bytes).unwrap(), &writer.catalogue()).unwrap();
    writer.apply(vec![prepared], 0).unwrap();
}

/// Makes all rows that are due.
fn summarise(writer: &mut Writer, reader: &Reader, now_ns: i64) {
    loop {
        let due = writer.due(now_ns);
        if due.is_empty() {
            return;
        }
        let rows = reader.summarise(&due, now_ns).unwrap();
        writer.keep_rows(due, &rows, 0).unwrap();
    }
}

const ALL: Coarsen = Coarsen { before_ns: (START + 2 * DAY) as i64, step_ns: STEP as i64, rows: 1 };

fn coarsen(writer: &mut Writer) -> u64 {
    let mut rows = 0;
    loop {
        let step = writer.coarsen(ALL, 0).unwrap();
        rows += step.rows;
        if step.is_last {
            return rows;
        }
    }
}

fn of(job: &str) -> Filter {
    Filter { job: Some(job.into()), ..Filter::default() }
}

fn series(reader: &Reader, name: &str) -> Vec<(f64, f64, f64)> {
    let rows = reader.series(&of("17"), metric::by_name(name).unwrap(), 0).unwrap();
    let number = |value: &Value| value.as_f64().unwrap_or(-1.0);
    rows.iter().map(|row| (number(&row["value"]), number(&row["min"]), number(&row["max"]))).collect()
}

fn near(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-6 * a.abs().max(b.abs()),
        _ => a == b,
    }
}

/// Without the job's row, only what the series says.
#[test]
fn coarse_series_keep_sums_averages_and_peaks() {
    let dir = tempfile::tempdir().unwrap();
    let Opened { reader, mut writer, _store } = open(&dir);
    put(&mut writer, 1, 1, &course("17", "n1", "alice"));
    let before = reader.resources(&of("17"), 0).unwrap();
    assert_eq!((coarsen(&mut writer), coarsen(&mut writer)), (120, 0));
    writer.forget_jobs(i64::MAX).unwrap();
    let after = reader.resources(&of("17"), 0).unwrap();
    for path in [
        "/start_ns",
        "/end_ns",
        "/elapsed_s",
        "/readings",
        "/coverage",
        "/node_count",
        "/metrics/cpu/total",
        "/metrics/cpu/avg",
        "/metrics/memory/min",
        "/metrics/memory/max",
        "/metrics/memory/avg",
        "/metrics/memory/last",
        "/nodes/0/readings",
        "/nodes/0/coverage",
    ] {
        let (a, b) = (before.pointer(path).unwrap(), after.pointer(path).unwrap());
        assert!(near(a, b), "{path}: {a}, then {b}");
    }
    assert_eq!(after["metrics"]["read_bytes"], Value::Null, "never read, not zero");
    // A peak of a rate is only in the row of the job.
    assert_eq!((before["metrics"]["cpu"]["max"].as_f64(), series(&reader, "cpu").len()), (Some(3.0), 4));
    let memory = series(&reader, "memory");
    assert_eq!(memory[1], (1400.0, 1000.0, 5000.0));
    assert_eq!((memory[0], memory[2], memory.len()), ((1000.0, 1000.0, 1000.0), (1000.0, 1000.0, 1000.0), 3));
}

/// A job that runs on while its beginning is made coarse.
#[test]
fn a_series_goes_on_from_coarse_to_fine() {
    let dir = tempfile::tempdir().unwrap();
    let Opened { reader, mut writer, _store } = open(&dir);
    let second = |at: u64| reading("17", "n1", "alice", At { second: at, cpu: at, memory: 7 }, None);
    let entries: Vec<Entry> = (1..=2 * 1440).map(|minute| second(60 * minute)).collect();
    put(&mut writer, 1, 1, &entries);
    let what = Coarsen { before_ns: (START + DAY + DAY / 2) as i64, ..ALL };
    while !writer.coarsen(what, 0).unwrap().is_last {}
    let cpu = series(&reader, "cpu");
    assert_eq!(cpu.len(), 144 + 1441, "only whole days are made coarse");
    assert!(cpu.iter().all(|(rate, ..)| (rate - 1.0).abs() < 1e-9), "{cpu:?}");
    let now = (START + 2 * DAY) as i64;
    let found = reader.resources(&of("17"), now).unwrap();
    assert_eq!(
        (&found["readings"], &found["coverage"], &found["metrics"]["cpu"]["total"]),
        (&json!(2880), &json!(1.0), &json!(2 * DAY))
    );
    let memory = &found["metrics"]["memory"];
    assert_eq!((&memory["avg"], &memory["median"]), (&json!(7.0), &json!(7.0)));
}

fn row(reader: &Reader) -> (f64, f64, f64, f64) {
    let row = reader.job_row("17").unwrap().unwrap();
    let number = |name: &str| row[name].as_f64().unwrap();
    (number("readings"), number("nodes"), number("cpu_max"), number("cpu_total") / SECOND as f64)
}

#[test]
fn a_row_survives_what_it_was_made_of() {
    let dir = tempfile::tempdir().unwrap();
    let Opened { reader, mut writer, _store } = open(&dir);
    put(&mut writer, 1, 1, &course("17", "n1", "alice"));
    // The row is made before the readings are put together, though nobody asked for it.
    coarsen(&mut writer);
    let made = (30.0, 1.0, 3.0, 1920.0);
    assert_eq!(row(&reader), made);
    let shown = reader.resources(&of("17"), 0).unwrap();
    assert_eq!(
        (&shown["metrics"]["cpu"]["max"], &shown["metrics"]["cpu"]["total"]),
        (&json!(3.0), &json!(1920 * SECOND))
    );
    assert_eq!(shown["metrics"]["cpu"]["profile"].as_array().unwrap().len(), 40);
    // Another node, without a peak, was cut off all the time: both are in the row, and so is the peak.
    let late = [
        reading("17", "n2", "alice", At { second: 60, cpu: 60, memory: 10 }, None),
        reading("17", "n2", "alice", At { second: 1801, cpu: 1800, memory: 0 }, Some(1800)),
    ];
    put(&mut writer, 2, 1, &late);
    summarise(&mut writer, &reader, 1);
    let both = (32.0, 2.0, 3.0, 3720.0);
    assert_eq!(row(&reader), both);
    // Everything is deleted, and a third node comes.
    coarsen(&mut writer);
    assert!(writer.forget_coarse((START + DAY) as i64).unwrap() > 0);
    let shown = reader.resources(&of("17"), 0).unwrap();
    assert_eq!(
        (&shown["readings"], &shown["node_count"], &shown["nodes"]),
        (&json!(32), &json!(2), &json!([]))
    );
    assert_eq!(shown["metrics"]["cpu"]["total"], json!(3720 * SECOND));
    put(&mut writer, 3, 1, &course("17", "n3", "alice"));
    put(&mut writer, 4, 1, &course("17", "n4", "alice"));
    summarise(&mut writer, &reader, 2);
    assert_eq!(row(&reader), both);
    assert_eq!(reader.resources(&of("17"), 0).unwrap()["readings"], json!(32));
}

/// Its row keeps what it knew, and says how far the job is.
#[test]
fn a_job_that_runs_keeps_its_row_while_its_beginning_goes() {
    let dir = tempfile::tempdir().unwrap();
    let Opened { reader, mut writer, _store } = open(&dir);
    let at = |second: u64| (START + second * SECOND) as i64;
    let state = || reader.job_row("17").unwrap().unwrap()["state"].clone();
    put(&mut writer, 1, 1, &course("17", "n1", "alice")[..29]);
    summarise(&mut writer, &reader, at(1740));
    assert_eq!((row(&reader), state()), ((29.0, 1.0, 3.0, 1860.0), json!("running")));
    coarsen(&mut writer);
    let later = 2 * 86_400 + 60;
    let heard = |second, cpu, end| reading("17", "n1", "alice", At { second, cpu, memory: 10 }, end);
    put(&mut writer, 1, 30, &[heard(later, 2000, None)]);
    summarise(&mut writer, &reader, at(later));
    let made = (30.0, 1.0, 3.0, 2000.0);
    assert_eq!((row(&reader), state()), (made, json!("running")));
    // Silence is news, though nothing has come.
    summarise(&mut writer, &reader, at(later + 10_000));
    assert_eq!((row(&reader), state()), (made, json!("unheard")));
    writer.forget_coarse((START + DAY) as i64).unwrap();
    put(&mut writer, 1, 31, &[heard(later + 20_001, 2100, Some(later + 20_000))]);
    let shown = reader.resources(&of("17"), at(later + 20_002)).unwrap();
    assert_eq!((&shown["state"], &shown["readings"]), (&json!("ended"), &json!(30)));
    summarise(&mut writer, &reader, at(later + 20_002));
    assert_eq!((row(&reader), state()), (made, json!("ended")));
    let found = reader.job_row("17").unwrap().unwrap();
    assert_eq!(found["end_ns"].as_f64(), Some(at(later + 20_000) as f64));
}

/// Somebody has read what is about to be made coarse, or is about to read it.
#[test]
fn readings_wait_for_a_row_that_is_being_made() {
    let dir = tempfile::tempdir().unwrap();
    let Opened { reader, mut writer, _store } = open(&dir);
    put(&mut writer, 1, 1, &course("17", "n1", "alice"));
    let due = writer.due(0);
    assert_eq!(writer.coarsen(ALL, 0).unwrap(), Step { rows: 0, is_last: false });
    let rows = reader.summarise(&due, 0).unwrap();
    writer.keep_rows(due, &rows, 0).unwrap();
    assert_eq!((coarsen(&mut writer), row(&reader)), (120, (30.0, 1.0, 3.0, 1920.0)));
}

/// Deleting by the administrator or by `--keep-days` takes readings, too.
#[test]
fn a_row_survives_a_deletion_of_everything_old() {
    let dir = tempfile::tempdir().unwrap();
    let Opened { reader, mut writer, _store } = open(&dir);
    put(&mut writer, 1, 1, &course("17", "n1", "alice"));
    summarise(&mut writer, &reader, 1);
    let made = row(&reader);
    writer.forget(&Forget::Before((START + DAY) as i64)).unwrap();
    let late = course("17", "n2", "alice");
    put(&mut writer, 2, 1, &late);
    put(&mut writer, 3, 1, &course("17", "n3", "alice"));
    summarise(&mut writer, &reader, 2);
    assert_eq!(row(&reader), made);
    writer.forget_jobs((START + DAY) as i64).unwrap();
    assert_eq!(reader.job_row("17").unwrap(), None);
}

#[test]
fn who_is_forgotten_is_gone_from_coarse_readings_too() {
    let dir = tempfile::tempdir().unwrap();
    let Opened { reader, mut writer, _store } = open(&dir);
    put(&mut writer, 1, 1, &course("17", "n1", "alice"));
    put(&mut writer, 1, 31, &course("18", "n1", "bob"));
    coarsen(&mut writer);
    writer.forget(&Forget::User("alice".into())).unwrap();
    assert_eq!(reader.resources(&of("17"), 0).unwrap(), Value::Null);
    assert_eq!(reader.resources(&of("18"), 0).unwrap()["readings"], json!(30));
    drop((reader, writer, _store));
    // Of the commands nothing is left; a card goes on, without her job.
    let rows = |table: &str, condition: &str| -> u64 {
        let connection = duckdb::Connection::open(dir.path().join(store::FILE)).unwrap();
        let sql = format!("SELECT count(*) FROM {table} WHERE {condition}");
        connection.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!((rows("command_coarse", "job = '17'"), rows("card_coarse", "job = '17'")), (0, 0));
    assert!(rows("command_coarse", "job = '18'") > 0 && rows("card_coarse", "job = '18'") > 0);
    assert!(rows("card_coarse", "card = 'GPU-17' AND job IS NULL") > 0);
    let Opened { reader, mut writer, _store } = open(&dir);
    writer.forget(&Forget::Before((START + DAY) as i64)).unwrap();
    assert!(reader.series(&of("18"), metric::by_name("cpu").unwrap(), 0).unwrap().is_empty());
}

/// The server is killed after each step, and goes on.
#[test]
fn steps_survive_restarts_and_the_sum_stays() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = open(&dir);
    let hosts = ["n1", "n2", "n3", "n4"];
    for (host, of) in hosts.into_iter().zip(1..) {
        put(&mut opened.writer, of, 1, &course("17", host, "alice"));
    }
    let answer = |reader: &Reader| {
        let found = reader.resources(&of("17"), 0).unwrap();
        (
            found["readings"].clone(),
            found["metrics"]["cpu"]["total"].clone(),
            found["metrics"]["cpu"]["max"].clone(),
        )
    };
    let expected = (json!(120), json!(4 * 1920 * SECOND), json!(3.0));
    for compacts in [true, false] {
        let mut steps = 0;
        loop {
            assert_eq!(answer(&opened.reader), expected);
            let step = if compacts {
                opened.writer.compact(ALL.before_ns, 1)
            } else {
                opened.writer.coarsen(ALL, 0)
            };
            if step.unwrap().is_last {
                break;
            }
            steps += 1;
            drop(opened);
            opened = open(&dir);
        }
        assert_eq!(steps, hosts.len());
    }
}
