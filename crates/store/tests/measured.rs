//! What was measured: series, resources, and the rows of jobs.

#[allow(dead_code, reason = "only what batches are made of is used here")]
mod common;

use common::{HOST, SECOND, batch, stream};
use record::batch::Batch;
use record::entry::Entry;
use record::metric::{self, id};
use record::reading::{CardReading, CommandReading, Hardware, JobReading, Reading, Reserved, Values};
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
    let mut of_card = Values::default();
    of_card.put(id::CARD_UTILISATION, Some(second));
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
        cards: vec![CardReading { card: format!("GPU-{node}"), values: of_card, ..CardReading::default() }],
        ..JobReading::default()
    };
    let mut of_node = Values::default();
    of_node.put(id::NODE_LOAD, Some(150));
    // It has run for long: only what is added while the job is there is the job's.
    of_node.put(id::NODE_IB_SENT, Some(1_000_000 + 50 * second));
    let hardware = Hardware { cores: Some(64), cards: vec!["H100".into(); 2], ..Hardware::default() };
    Entry::Reading(Box::new(Reading {
        time: START + second * SECOND,
        host: HOST.into(),
        node: of_node,
        jobs: vec![job],
        cards: Vec::new(),
        hardware: Some(Box::new(hardware)),
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
    let made = &nodes[0]["hardware"];
    assert_eq!(
        (&made["cores"], &made["cards"], &made["sockets"]),
        (&json!(64), &json!("H100; H100"), &Value::Null)
    );
}

#[test]
fn a_job_has_its_nodes_and_cards_while_it_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, mut writer, reader) = open(&dir);
    // The node is read when the job begins, too.
    let mut early = reading("n1", 0, 0, 0, None);
    let Entry::Reading(own) = &mut early else { unreachable!() };
    own.jobs.clear();
    put(&mut writer, 1, &[early]);
    put(&mut writer, 2, &entries());
    let found = reader.resources(&job(), 0).unwrap();
    let sent = &found["metrics"]["node_ib_sent"];
    assert_eq!(
        (&sent["avg"], &sent["total"], &sent["is_node_wide"]),
        (&json!(50.0), &json!(1500), &json!(true))
    );
    assert_eq!(found["metrics"]["node_energy"], Value::Null);
    let series = |name: &str| -> Vec<(String, f64)> {
        let rows = reader.series(&job(), metric::by_name(name).unwrap(), 0).unwrap();
        let key = |row: &serde_json::Map<String, Value>| row["card"].as_str().unwrap_or("").to_owned();
        rows.iter().map(|row| (key(row), row["value"].as_f64().unwrap())).collect()
    };
    let cards = series("card_utilisation");
    let of = |card: &str| {
        cards.iter().filter(|(name, _)| name == card).map(|(_, value)| *value).collect::<Vec<_>>()
    };
    assert_eq!((of("GPU-n1"), of("GPU-n2")), (vec![10.0, 20.0, 31.0], vec![10.0, 20.0, 31.0]));
    assert!(series("node_load").iter().all(|(_, load)| *load == 150.0) && series("card_power").is_empty());
    writer.summarise(10, 1).unwrap();
    let row = reader.job_row("17").unwrap().unwrap();
    assert_eq!((&row["node_ib_sent_avg"], &row["node_load_last"]), (&json!(50.0), &json!(150.0)));
    writer.forget(&Forget::User("alice".into())).unwrap();
    assert!(reader.series(&job(), metric::by_name("card_utilisation").unwrap(), 0).unwrap().is_empty());
}

/// The same readings, by a clock that was set after the first `before`, and the node's steady one.
fn by_another_clock(entries: &[Entry], before: usize, set_by: i64) -> Vec<Entry> {
    let mut entries = entries.to_vec();
    for (at, entry) in entries.iter_mut().enumerate() {
        let Entry::Reading(reading) = entry else { continue };
        reading.boot = Some(1);
        reading.since_boot = Some(reading.time - START + 5000 * SECOND);
        if at >= before {
            let set = |time: u64| time.saturating_add_signed(set_by);
            reading.time = set(reading.time);
            for job in &mut reading.jobs {
                job.start = set(job.start);
                job.end = job.end.map(set);
            }
        }
    }
    entries
}

#[test]
fn a_clock_that_is_set_changes_no_number() {
    let hour = 3600 * SECOND.cast_signed();
    let one_node = entries()[..3].to_vec();
    let measured = |entries: &[Entry]| {
        let dir = tempfile::tempdir().unwrap();
        let (_store, mut writer, reader) = open(&dir);
        put(&mut writer, 1, entries);
        let mut found = reader.resources(&job(), 0).unwrap();
        let start = found["start_ns"].take().as_i64().unwrap() - START.cast_signed();
        for name in ["start", "end", "end_ns"] {
            found[name].take();
            found["nodes"][0][name].take();
        }
        (start, found)
    };
    let (_, expected) = measured(&one_node);
    assert_eq!(expected["coverage"], json!(1.0));
    for (before, set_by, start) in [
        (9, 0, 0),
        (1, hour, hour),
        (2, hour, hour),
        (1, -hour, -hour),
        (2, -hour, -hour),
        // Backwards by less than the readings are apart, and by less than the job had run.
        (2, -5 * SECOND.cast_signed(), -5 * SECOND.cast_signed()),
        (2, -15 * SECOND.cast_signed(), -15 * SECOND.cast_signed()),
    ] {
        let found = measured(&by_another_clock(&one_node, before, set_by));
        assert_eq!(found, (start, expected.clone()), "{before} {set_by}");
    }
}

#[test]
fn a_machine_that_slept_has_a_gap_and_no_false_rate() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, mut writer, reader) = open(&dir);
    // Ten seconds of work, an hour of sleep, ten of work.
    let entries = [
        reading("n1", 10, 10, 100, None),
        reading("n1", 3620, 20, 100, None),
        reading("n1", 3630, 30, 100, Some(3630)),
    ];
    put(&mut writer, 1, &by_another_clock(&entries, 9, 0));
    let found = reader.resources(&job(), 0).unwrap();
    let cpu = &found["metrics"]["cpu"];
    assert!(cpu["max"].as_f64().unwrap() <= 1.0, "{cpu}");
    assert!(found["coverage"].as_f64().unwrap() < 0.02, "{}", found["coverage"]);
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
    // Another node's clock is a year ahead.
    let mut ahead = reading("n3", 31_536_000, 1, 0, None);
    if let Entry::Reading(reading) = &mut ahead {
        reading.jobs[0].job = Some("18".into());
    }
    put(&mut writer, 7, &[ahead]);
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
