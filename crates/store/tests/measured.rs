//! What was measured: series, resources, and the rows of jobs.

#[allow(dead_code, reason = "only what batches are made of is used here")]
mod common;

use common::{HOST, SECOND, batch, stream};
use record::batch::Batch;
use record::entry::Entry;
use record::metric::{self, id};
use record::reading::{CommandReading, JobReading, Reading, Reserved, Values};
use serde_json::{Value, json};
use store::{Filter, Forget, Limits, Reader, Store, Writer, prepare};

const START: u64 = 1_800_000_000 * SECOND;

/// A reading of job 17 on a node, `second` after its start: CPU seconds and bytes of memory.
fn reading(node: &str, second: u64, cpu: u64, memory: u64, end: Option<u64>) -> Entry {
    let mut values = Values::default();
    values.put(id::CPU, Some(cpu * SECOND));
    values.put(id::MEMORY, Some(memory));
    let mut own = Values::default();
    own.put(id::PROCESSES, Some(1));
    let job = JobReading {
        cluster: Some("tiny".into()),
        job: Some("17".into()),
        node: Some(node.into()),
        uid: Some(1000),
        user: Some("alice".into()),
        start: START,
        end: end.map(|end| START + end * SECOND),
        every: 10 * SECOND,
        values,
        commands: vec![CommandReading { command: b"solver".as_slice().into(), values: own }],
        reserved: Some(Reserved { cpus: Some(4), memory: Some(1000), gpus: None }),
        ..JobReading::default()
    };
    let mut of_node = Values::default();
    of_node.put(id::NODE_LOAD, Some(150));
    let time = START + second * SECOND;
    Entry::Reading(Box::new(Reading {
        time,
        host: HOST.into(),
        node: of_node,
        jobs: vec![job],
        ..Reading::default()
    }))
}

/// Two nodes, the second of which is busier.
fn entries() -> Vec<Entry> {
    vec![
        reading("n1", 10, 10, 100, None),
        reading("n1", 20, 20, 200, None),
        reading("n1", 31, 30, 0, Some(30)),
        reading("n2", 10, 30, 300, None),
        reading("n2", 20, 60, 300, None),
        reading("n2", 31, 90, 0, Some(30)),
    ]
}

fn put(writer: &mut Writer, first: u64, entries: &[Entry]) {
    let bytes = batch(stream(1), first, entries, &[]);
    let prepared = prepare(&Batch::from_bytes(&bytes).unwrap(), &writer.catalogue()).unwrap();
    writer.apply(vec![prepared], 0).unwrap();
}

fn open(dir: &tempfile::TempDir) -> (Store, Writer, Reader) {
    let store = Store::open(dir.path(), &Limits::default()).unwrap();
    let (writer, reader) = (store.writer().unwrap(), store.reader().unwrap());
    (store, writer, reader)
}

fn job() -> Filter {
    Filter { job: Some("17".into()), ..Filter::default() }
}

#[test]
fn a_job_is_what_its_readings_say() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, mut writer, reader) = open(&dir);
    put(&mut writer, 1, &entries());
    let found = reader.resources(&job(), 0).unwrap();
    let cpu = &found["metrics"]["cpu"];
    let of = |name: &str| cpu[name].as_f64().unwrap();
    assert_eq!((of("min"), of("max"), of("avg"), of("node_min"), of("node_max")), (1.0, 3.0, 2.0, 1.0, 3.0));
    assert_eq!(cpu["total"], json!(120 * SECOND));
    assert_eq!(found["reserved"], json!({"cpus": 8, "memory": 2000, "gpus": null}));
    assert_eq!(
        (&found["coverage"], &found["elapsed_s"], &found["readings"]),
        (&json!(1.0), &json!(30.0), &json!(6))
    );
    // Never read, not zero.
    assert_eq!(found["metrics"]["read_bytes"], Value::Null);
    assert_eq!(found["nodes"].as_array().unwrap().len(), 2);
    let memory = reader
        .series(&Filter { host: Some("n2".into()), ..job() }, metric::by_name("memory").unwrap(), 0)
        .unwrap();
    let values: Vec<f64> = memory.iter().map(|row| row["value"].as_f64().unwrap()).collect();
    assert_eq!(values, [300.0, 300.0]);
    // The answer about the job has it, though no program of it has ended yet.
    assert_eq!(reader.job(&job(), 0).unwrap().unwrap()["resources"]["readings"], json!(6));
    assert_eq!(
        reader.resources(&Filter { job: Some("18".into()), ..Filter::default() }, 0).unwrap(),
        Value::Null
    );
    let nodes = reader.nodes(None, (START + 40 * SECOND) as i64).unwrap();
    assert_eq!((nodes.len(), &nodes[0]["load"]), (1, &json!(1.5)));
}

/// The row of job 17: readings, average and total of CPU.
fn row(reader: &Reader) -> Option<(f64, f64, f64)> {
    let row = reader.job_row("17").unwrap()?;
    let number = |name: &str| row[name].as_f64().unwrap();
    assert_eq!((number("reserved_cpus") % 4.0, &row["read_bytes_avg"]), (0.0, &Value::Null));
    Some((number("readings"), number("cpu_avg"), number("cpu_total") / SECOND as f64))
}

#[test]
fn a_job_that_has_ended_has_a_row_and_late_readings_change_it() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer, reader) = open(&dir);
    let entries = entries();
    put(&mut writer, 1, &entries[..2]);
    assert_eq!((writer.summarise(10, 1).unwrap(), row(&reader)), (0, None));
    put(&mut writer, 3, &entries[2..3]);
    assert_eq!(writer.summarise(10, 2).unwrap(), 0);
    assert_eq!(row(&reader), Some((3.0, 1.0, 30.0)));
    // The other node was cut off, and the server is killed before the row is made anew.
    put(&mut writer, 4, &entries[3..]);
    drop((writer, reader, store));
    let (_store, mut writer, reader) = open(&dir);
    assert_eq!(row(&reader), Some((3.0, 1.0, 30.0)));
    writer.summarise(10, 3).unwrap();
    assert_eq!(row(&reader), Some((6.0, 2.0, 120.0)));
}

#[test]
fn a_server_that_was_killed_makes_the_row_later() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer, reader) = open(&dir);
    put(&mut writer, 1, &entries());
    drop((writer, reader, store));
    let (_store, mut writer, reader) = open(&dir);
    assert_eq!(row(&reader), None);
    writer.summarise(10, 1).unwrap();
    assert_eq!(row(&reader), Some((6.0, 2.0, 120.0)));
}

#[test]
fn what_is_forgotten_is_gone_from_readings_too() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, mut writer, reader) = open(&dir);
    put(&mut writer, 1, &entries());
    writer.summarise(10, 1).unwrap();
    writer.forget(&Forget::User("alice".into())).unwrap();
    assert_eq!((reader.resources(&job(), 0).unwrap(), row(&reader)), (Value::Null, None));
}
