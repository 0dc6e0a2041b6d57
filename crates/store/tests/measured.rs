//! What was measured: series, resources, and the rows of jobs.

#[allow(dead_code, reason = "only what batches are made of is used here")]
mod common;

use common::{HOST, SECOND, batch, stream};
use record::batch::Batch;
use record::entry::Entry;
use record::metric::{self, id};
use record::reading::{CardReading, CommandReading, Hardware, JobReading, Reading, Reserved, Values};
use serde_json::{Value, json};
use store::{Filter, Forget, Limits, Per, Reader, Site, Store, Writer, prepare};

/// In 2100: a writer that is opened takes the time of now, which must not be later.
const START: u64 = 4_102_473_600 * SECOND;

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

/// Stores entries when the last of them was made.
fn put(writer: &mut Writer, first: u64, entries: &[Entry]) {
    let bytes = batch(stream(1), first, entries, &[]);
    let prepared = prepare(&Batch::from_bytes(&bytes).unwrap(), &writer.catalogue()).unwrap();
    let Some(Entry::Reading(last)) = entries.last() else { panic!("no reading") };
    writer.apply(vec![prepared], last.time as i64).unwrap();
}

/// Nanoseconds since 1970, so many seconds after the start.
fn at(second: u64) -> i64 {
    (START + second * SECOND) as i64
}

/// Makes all rows that are due at a second; says how many.
fn summarise(writer: &mut Writer, reader: &Reader, second: u64) -> usize {
    let mut made = 0;
    loop {
        let due = writer.due(at(second));
        if due.is_empty() {
            return made;
        }
        made += due.len();
        let rows = reader.summarise(&due, at(second)).unwrap();
        writer.keep_rows(due, &rows, 0).unwrap();
    }
}

/// A site that differs from what is shipped.
const SITE: &str = "renew_seconds = 60\n
[threshold.cpu]
of = \"reserved_cpus\"
low = 0.3
high = 0.7
[threshold.memory]
of = \"reserved_memory\"
low = 0.25
high = 0.9
[threshold.threads]
high = 10
";

fn open(dir: &tempfile::TempDir) -> (Store, Writer, Reader) {
    let store = Store::open(dir.path(), &Limits::default()).unwrap().with_site(Site::parse(SITE).unwrap());
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
    let found = reader.resources(&job(), at(40)).unwrap();
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
    assert_eq!(reader.job(&job(), at(40)).unwrap().unwrap()["resources"]["readings"], json!(6));
    assert_eq!(
        reader.resources(&Filter { job: Some("18".into()), ..Filter::default() }, at(40)).unwrap(),
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
    assert!(series("node_load").iter().all(|(_, load)| *load == 1.5) && series("card_power").is_empty());
    summarise(&mut writer, &reader, 40);
    let row = reader.job_row("17").unwrap().unwrap();
    assert_eq!((&row["node_ib_sent_avg"], row.get("node_load_last")), (&json!(50.0), None));
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
        for name in ["start", "end", "end_ns", "last_reading"] {
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

/// Of many jobs at once as of one: by the clock as it is set at the last, with the nodes' own metrics, whether it runs or not.
#[test]
fn a_row_says_what_the_answer_says() {
    for (count, set_by) in [(3, 0), (3, 3600), (3, -15), (2, 0), (2, 3600)] {
        let dir = tempfile::tempdir().unwrap();
        let (_store, mut writer, reader) = open(&dir);
        let own = by_another_clock(&entries()[..count], 1, set_by * SECOND.cast_signed());
        put(&mut writer, 1, &own);
        // Another job on the same node, which began an hour before.
        put(&mut writer, 9, &[short("18", "bob", 0, 9, |job| job.start -= 3600 * SECOND)]);
        summarise(&mut writer, &reader, 7300);
        let row = reader.job_row("17").unwrap().unwrap();
        let found = reader.resources(&job(), at(7300)).unwrap();
        for name in ["start_ns", "end_ns", "coverage", "readings"] {
            assert_eq!(row[name].as_f64(), found[name].as_f64(), "{name} of {count} {set_by}");
        }
        assert_eq!(row["state"], found["state"]);
        let metrics = found["metrics"].as_object().unwrap();
        assert!(metrics.contains_key("cpu") && metrics.contains_key("node_ib_sent"));
        for (metric, value) in metrics {
            for name in
                ["min", "max", "avg", "median", "node_min", "node_max", "below", "above", "total", "last"]
            {
                let of_row = row.get(&format!("{metric}_{name}")).and_then(Value::as_f64);
                assert_eq!(of_row, value[name].as_f64(), "{metric}_{name} of {count} {set_by}");
            }
        }
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
    assert_eq!((summarise(&mut writer, &reader, 20), row(&reader)), (0, None));
    put(&mut writer, 3, &entries[2..3]);
    assert_eq!(summarise(&mut writer, &reader, 31), 1);
    assert_eq!(row(&reader), Some((3.0, 1.0, 30.0)));
    // The other node was cut off, and the server is killed before the row is made anew.
    put(&mut writer, 4, &entries[3..]);
    drop((writer, reader, store));
    let (_store, mut writer, reader) = open(&dir);
    assert_eq!(row(&reader), Some((3.0, 1.0, 30.0)));
    assert_eq!(summarise(&mut writer, &reader, 40), 1);
    assert_eq!(row(&reader), Some((6.0, 2.0, 120.0)));
    assert_eq!(summarise(&mut writer, &reader, 4000), 0);
}

/// What began before is in the row only.
#[test]
fn a_node_that_joins_late_does_not_take_the_place_of_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, mut writer, reader) = open(&dir);
    put(&mut writer, 1, &entries()[..3]);
    summarise(&mut writer, &reader, 31);
    let mut late = reading("n2", 90, 30, 100, Some(89));
    if let Entry::Reading(reading) = &mut late {
        reading.jobs[0].start = START + 59 * SECOND;
    }
    put(&mut writer, 4, &[late]);
    summarise(&mut writer, &reader, 90);
    assert_eq!(row(&reader), Some((4.0, 1.0, 60.0)));
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
    summarise(&mut writer, &reader, 40);
    assert_eq!(row(&reader), Some((6.0, 2.0, 120.0)));
}

#[test]
fn a_job_that_runs_has_a_row_that_is_not_the_last_word() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, mut writer, mut reader) = open(&dir);
    // At a second: what is heard, whether the server is started again, how many rows are made, what the row says.
    let heard = |second, end| reading("n1", second, second, 100, end);
    for (number, (second, entry, is_restart, made, expected)) in [
        (10, Some(heard(10, None)), false, 0, None),
        (69, None, false, 0, None),
        (70, None, false, 1, Some(("running", true, 1.0))),
        (130, Some(heard(130, None)), true, 1, Some(("running", true, 2.0))),
        (150, Some(heard(150, None)), false, 0, Some(("running", true, 2.0))),
        (190, None, false, 1, Some(("running", true, 3.0))),
        // Nothing is heard of it any more. It may run or not.
        (700, None, true, 0, Some(("running", true, 3.0))),
        (800, None, false, 1, Some(("unheard", true, 3.0))),
        (9000, None, false, 0, Some(("unheard", true, 3.0))),
        // The node had been cut off.
        (9060, Some(heard(9060, None)), false, 0, Some(("unheard", true, 3.0))),
        (9151, None, false, 1, Some(("running", true, 4.0))),
        (9200, Some(heard(9200, Some(9199))), false, 1, Some(("ended", false, 5.0))),
        (99_000, None, false, 0, Some(("ended", false, 5.0))),
    ]
    .into_iter()
    .enumerate()
    {
        if let Some(entry) = entry {
            put(&mut writer, number as u64 + 1, &[entry]);
        }
        if is_restart {
            drop((writer, reader, store));
            (store, writer, reader) = open(&dir);
        }
        assert_eq!(summarise(&mut writer, &reader, second), made, "at {second}");
        let row = reader.job_row("17").unwrap();
        let said = row.as_ref().map(|row| {
            let is_provisional = row["provisional"] == Value::Bool(true);
            assert_eq!(row["end_ns"].is_null(), is_provisional);
            (row["state"].as_str().unwrap(), is_provisional, row["readings"].as_f64().unwrap())
        });
        assert_eq!(said, expected, "at {second}");
    }
    let found = reader.resources(&job(), at(99_000)).unwrap();
    assert_eq!((&found["state"], &found["provisional"]), (&json!("ended"), &json!(false)));
}

#[test]
fn an_end_on_one_of_two_nodes_is_no_end() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, mut writer, reader) = open(&dir);
    put(&mut writer, 1, &entries()[..5]);
    assert_eq!(summarise(&mut writer, &reader, 32), 1);
    let found = reader.resources(&job(), at(32)).unwrap();
    let said = [&found["state"], &found["provisional"], &found["end"], &found["elapsed_s"]];
    assert_eq!(said, [&json!("running"), &json!(true), &Value::Null, &json!(32.0)]);
    assert_eq!(reader.job_row("17").unwrap().unwrap()["state"], "running");
    let found = reader.resources(&job(), at(2000)).unwrap();
    let said = [&found["state"], &found["provisional"], &found["end"], &found["elapsed_s"]];
    assert_eq!(said, [&json!("unheard"), &json!(true), &Value::Null, &json!(31.0)]);
}

#[test]
fn time_beyond_thresholds() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, mut writer, reader) = open(&dir);
    put(&mut writer, 1, &entries());
    summarise(&mut writer, &reader, 40);
    let found = reader.resources(&job(), at(40)).unwrap();
    let row = reader.job_row("17").unwrap().unwrap();
    for (metric, below, above) in [
        // One of four cores on one node, three of four on the other.
        ("cpu", json!(0.5), json!(0.5)),
        // 100 and 200 of 1000, then 300.
        ("memory", json!(0.5), json!(0.0)),
        // Never read; no threshold.
        ("threads", Value::Null, Value::Null),
        ("read_bytes", Value::Null, Value::Null),
    ] {
        assert_eq!(
            [&found["metrics"][metric]["below"], &found["metrics"][metric]["above"]],
            [&below, &above]
        );
        assert_eq!([&row[&format!("{metric}_below")], &row[&format!("{metric}_above")]], [&below, &above]);
    }
    let threshold = &found["metrics"]["cpu"]["threshold"];
    assert_eq!(*threshold, json!({"of": "reserved_cpus", "low": 0.3, "high": 0.7}));
    assert_eq!(found["nodes"][0]["metrics"]["cpu"]["below"], json!(1.0));
}

/// A job or session with one reading, its last.
fn short(name: &str, user: &str, start: u64, lasted: u64, change: impl FnOnce(&mut JobReading)) -> Entry {
    let Entry::Reading(mut reading) = reading("n1", start + lasted, lasted, 100, Some(start + lasted)) else {
        panic!("no reading");
    };
    let job = &mut reading.jobs[0];
    (job.job, job.user, job.start) = (Some(name.into()), Some(user.into()), START + start * SECOND);
    job.values.put(id::MEMORY_PEAK, Some(start + lasted));
    change(job);
    Entry::Reading(reading)
}

#[test]
fn short_jobs_are_rolled_up() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, mut writer, reader) = open(&dir);
    let mut entries: Vec<Entry> =
        (0..1000).map(|n| short(&format!("a{n}"), "alice", n, 5 + n % 11, |_| {})).collect();
    entries.push(short("b1", "bob", 3600, 59, |job| job.reserved = None));
    entries.push(short("b2", "bob", 3600, 1, |job| job.values = Default::default()));
    // As long as that is not short, a session is no job, and one that runs has not been short.
    entries.push(short("b3", "bob", 0, 60, |_| {}));
    entries.push(short("b4", "bob", 0, 1, |job| (job.session, job.job) = (job.job.take(), None)));
    entries.push(short("b5", "bob", 0, 1, |job| job.end = None));
    put(&mut writer, 1, &entries);
    assert_eq!(summarise(&mut writer, &reader, 5000), 1005);
    let ask = |filter: Filter, per| reader.short_jobs(&filter, per).unwrap();
    let days = ask(Filter::default(), Per::Day);
    let of = |row: &serde_json::Map<String, Value>, names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| row[*name].clone()).collect()
    };
    let all: u64 = (0..1000).map(|n| 5 + n % 11).sum();
    assert_eq!(days.len(), 2);
    assert_eq!(
        of(&days[0], &["user", "jobs", "elapsed_s", "median_s", "reserved_core_s", "cpu_s", "memory_peak"]),
        [
            json!("alice"),
            json!(1000),
            json!(all as f64),
            json!(10.0),
            json!(4.0 * all as f64),
            json!(all as f64),
            json!(1013)
        ]
    );
    assert_eq!(
        of(&days[0], &["cpu_share", "without_cpu", "from"]),
        [json!(0.25), json!(0), json!("2100-01-01T00:00:00.000000Z")]
    );
    // Of one nothing is known of what was reserved, of the other nothing of what was used.
    assert_eq!(
        of(
            &days[1],
            &["user", "jobs", "reserved_core_s", "without_reserved", "cpu_s", "without_cpu", "cpu_share"]
        ),
        [json!("bob"), json!(2), json!(4.0), json!(1), json!(59.0), json!(1), Value::Null]
    );
    for (filter, per, expected) in [
        (Filter { user: Some("bob".into()), ..Filter::default() }, Per::Day, vec![2]),
        (Filter { cluster: Some("other".into()), ..Filter::default() }, Per::Day, vec![]),
        (Filter { until_ns: Some(at(10)), ..Filter::default() }, Per::Day, vec![10]),
        (Filter { since_ns: Some(at(3000)), ..Filter::default() }, Per::Hour, vec![2]),
        (Filter { limit: Some(1), ..Filter::default() }, Per::Hour, vec![1000]),
    ] {
        let found: Vec<u64> =
            ask(filter.clone(), per).iter().map(|row| row["jobs"].as_u64().unwrap()).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
}

#[test]
fn what_came_before_the_cluster_was_known_belongs_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, mut writer, reader) = open(&dir);
    let without = |mut entry: Entry| {
        if let Entry::Reading(reading) = &mut entry {
            reading.jobs[0].cluster = None;
        }
        entry
    };
    let [first, .., last] = &entries()[..3] else { panic!("three readings") };
    put(&mut writer, 1, &[without(first.clone())]);
    summarise(&mut writer, &reader, 80);
    assert_eq!(reader.job_row("17").unwrap().unwrap()["cluster"], Value::Null);
    put(&mut writer, 2, std::slice::from_ref(last));
    summarise(&mut writer, &reader, 90);
    let row = reader.job_row("17").unwrap().unwrap();
    assert_eq!((&row["cluster"], &row["readings"]), (&json!("tiny"), &json!(2.0)));
    assert_eq!(reader.short_jobs(&Filter::default(), Per::Day).unwrap()[0]["jobs"], json!(1));
}

#[test]
fn what_is_forgotten_is_gone_from_readings_too() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, mut writer, reader) = open(&dir);
    put(&mut writer, 1, &entries());
    // Someone is forgotten while the row is made.
    let due = writer.due(at(40));
    let rows = reader.summarise(&due, at(40)).unwrap();
    writer.forget(&Forget::User("alice".into())).unwrap();
    writer.keep_rows(due, &rows, 0).unwrap();
    assert_eq!(reader.job_row("17").unwrap(), None);
    summarise(&mut writer, &reader, 50);
    assert_eq!((reader.resources(&job(), at(50)).unwrap(), row(&reader)), (Value::Null, None));
}
