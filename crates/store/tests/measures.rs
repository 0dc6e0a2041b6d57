//! What other systems measured: kept, bound to jobs by their nodes and time, and given back as it was.

use record::accounting::{Accounting, Other, Placed, State, TimeLimit, Tres};
use record::measure::{Job, Measures, Name, Point, Series, Told};
use serde_json::{Value, json};
use store::jobs::{FIXED, Page, Which};
use store::{Accounts, Filter, Limits, Store, Writer};

const SECOND: u64 = 1_000_000_000;
/// When the jobs ran: long ago, so that nothing is due again.
const NOW: i64 = 2_000_000_000_000_000_000;

fn open(dir: &tempfile::TempDir) -> (Store, Writer) {
    let store = Store::open(dir.path(), &Limits::default()).unwrap();
    let writer = store.writer().unwrap();
    (store, writer)
}

fn job(number: &str, nodes: &str, from: u64, to: u64) -> Accounting {
    Accounting {
        cluster: Some("tiny".into()),
        job: Some(number.into()),
        shown: number.into(),
        submit: Some((from - 1) * SECOND),
        start: Some(from * SECOND),
        end: Some(to * SECOND),
        state: Some(State::Completed),
        node_list: Some(nodes.into()),
        ..Accounting::default()
    }
}

/// A value at each of these seconds.
fn series(host: &str, metric: Name, values: &[(u64, f64)]) -> Series {
    let points =
        values.iter().map(|(second, value)| Point { time: second * SECOND, value: *value }).collect();
    Series { host: host.into(), metric, every: 10 * SECOND, points, ..Series::default() }
}

/// What the server does every second, some seconds later.
fn bind(store: &Store, writer: &mut Writer) {
    let reader = store.reader().unwrap();
    let arrived = writer.arrived();
    writer.late(&reader.late_jobs(&arrived).unwrap(), NOW).unwrap();
    let due = writer.due_measures(NOW + 10 * SECOND as i64);
    let bound = reader.bind(&due).unwrap();
    writer.keep_bound(&bound, NOW).unwrap();
}

fn ours(name: &str) -> Name {
    Name::Ours(name.into())
}

#[test]
fn values_of_nodes_are_those_of_the_jobs_that_were_there_then() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    let load = || ours("node_load");
    let measures = Measures {
        series: vec![
            series("n1", load(), &[(100, 9900.0), (110, 100.0), (120, 200.0), (130, 300.0), (140, 7700.0)]),
            series("n2", load(), &[(110, 500.0), (120, 500.0), (130, 500.0)]),
            series("n3", load(), &[(120, 9900.0)]),
            series("n1", Name::Own("fans".into()), &[(120, 3.5)]),
        ],
        told: vec![],
    };
    assert_eq!(writer.measure(&measures, NOW).unwrap().values, 10);
    writer
        .account(
            &Accounts::of(&[
                job("1", "n[1-2]", 100, 130),
                job("2", "n9", 100, 130),
                job("3", "n1", 900, 990),
            ])
            .unwrap(),
        )
        .unwrap();
    bind(&store, &mut writer);
    let reader = store.reader().unwrap();
    let find = |text: &str| {
        let columns = reader.job_columns().unwrap();
        let condition = condition::Condition::parse(text, &columns.catalogue).unwrap();
        let which = Which { conditions: vec![condition], ..Which::default() };
        let page = Page {
            columns: vec![columns.named("job").unwrap().clone()],
            sort: FIXED.named("job").unwrap().clone(),
            is_ascending: true,
            limit: None,
            after: None,
        };
        let rows = reader.jobs(&which, &page).unwrap().rows();
        assert_eq!(reader.count_jobs(&which).unwrap(), rows.len() as u64);
        rows.iter().map(|row| row["job"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    // Hundredths in the table; half of the time at most 3.
    for (text, expected) in [
        ("node_load_avg = 3.5", "1"),
        ("node_load_min = 1 and node_load_max = 5", "1"),
        ("node_load_median = 3", "1"),
        ("node_load_node_min = 2 and node_load_node_max = 5", "1"),
        ("node_load_avg is unknown", "2 3"),
        ("fans_max > 3", "1"),
    ] {
        assert_eq!(find(text), expected, "{text}");
    }
    let filter = Filter { job: Some("1".into()), ..Filter::default() };
    let rows = reader.measure_series(&filter, "node_load").unwrap();
    assert_eq!(rows.len(), 6);
    let found = reader.job(&filter, NOW).unwrap().unwrap();
    assert_eq!(found["account"]["node_list"], "n[1-2]");
    assert_eq!(found["measures"].as_array().unwrap().len(), 2);
    assert_eq!(found["measures"][1]["avg"], json!(3.5));
}

/// How many jobs a condition finds.
fn count(store: &Store, text: &str) -> u64 {
    let reader = store.reader().unwrap();
    let condition = condition::Condition::parse(text, &reader.job_columns().unwrap().catalogue).unwrap();
    reader.count_jobs(&Which { conditions: vec![condition], ..Which::default() }).unwrap()
}

fn load(host: &str, values: &[(u64, f64)]) -> Measures {
    Measures { series: vec![series(host, ours("node_load"), values)], told: vec![] }
}

/// A file of last week's values, or a relay that was away: the jobs have long ended, and nobody tells of them again.
#[test]
fn values_that_come_after_the_accounting_record_reach_its_columns() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    let jobs = [job("1", "n[1-2]", 100, 130), job("2", "n3", 100, 130), job("3", "n1", 900, 990)];
    writer.account(&Accounts::of(&jobs).unwrap()).unwrap();
    bind(&store, &mut writer);
    writer.measure(&load("n1", &[(110, 100.0), (120, 200.0)]), NOW).unwrap();
    bind(&store, &mut writer);
    assert_eq!(count(&store, "node_load_avg = 1.5"), 1);
    assert_eq!(count(&store, "node_load_avg is unknown"), 2, "other nodes, other times");
    // More of the same job, from its other node.
    writer.measure(&load("n2", &[(110, 500.0), (120, 600.0)]), NOW).unwrap();
    bind(&store, &mut writer);
    assert_eq!(count(&store, "node_load_avg = 3.5"), 1);
    // Before all that there was.
    writer.account(&Accounts::of(&[job("0", "n1", 10, 30)]).unwrap()).unwrap();
    writer.measure(&load("n1", &[(20, 700.0)]), NOW).unwrap();
    bind(&store, &mut writer);
    assert_eq!(count(&store, "node_load_avg = 7"), 1);
}

/// The first values of a centre, or of a node, come while its jobs run.
#[test]
fn values_that_begin_while_a_job_runs_reach_its_columns() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    let running = Accounting { end: None, state: Some(State::Running), ..job("1", "n1", 100, 130) };
    writer.account(&Accounts::of(&[running]).unwrap()).unwrap();
    bind(&store, &mut writer);
    writer.measure(&load("n1", &[(110, 100.0)]), NOW).unwrap();
    bind(&store, &mut writer);
    assert_eq!(count(&store, "node_load_avg = 1"), 1);
}

/// Values are durable when they are taken, and so is that a job is to be looked at for them.
#[test]
fn late_values_reach_their_jobs_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    writer.account(&Accounts::of(&[job("1", "n1", 100, 130)]).unwrap()).unwrap();
    bind(&store, &mut writer);
    writer.measure(&load("n1", &[(110, 100.0), (120, 200.0)]), NOW).unwrap();
    drop((store, writer));
    let (store, mut writer) = open(&dir);
    bind(&store, &mut writer);
    assert_eq!(count(&store, "node_load_avg = 1.5"), 1);
}

/// A search costs something: what runs as it should finds nothing new, and a restart does not search all again.
#[test]
fn values_whose_jobs_are_bound_are_not_searched_again() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    writer.account(&Accounts::of(&[job("1", "n1", 100, 130)]).unwrap()).unwrap();
    writer.measure(&load("n1", &[(110, 100.0)]), NOW).unwrap();
    for _ in 0..2 {
        bind(&store, &mut writer);
    }
    assert!(writer.arrived().is_empty());
    drop((store, writer));
    let (_store, mut writer) = open(&dir);
    assert!(writer.arrived().is_empty(), "all was bound");
}

/// Retention has deleted what a job's row was made of: a value that is left makes none of less.
#[test]
fn a_job_is_not_bound_anew_to_what_is_left_of_its_values() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    let told = || Accounts::of(&[job("1", "n1", 100, 130)]).unwrap();
    writer.account(&told()).unwrap();
    writer.measure(&load("n1", &[(110, 100.0), (120, 200.0)]), NOW).unwrap();
    bind(&store, &mut writer);
    writer.forget_coarse(115 * SECOND as i64).unwrap();
    writer.measure(&load("n1", &[(125, 900.0)]), NOW).unwrap();
    writer.account(&told()).unwrap();
    bind(&store, &mut writer);
    assert_eq!(count(&store, "node_load_avg = 1.5"), 1);
}

/// Ours are kept in whole numbers of a small unit, which is not for people.
#[test]
fn a_load_is_shown_as_a_load_and_each_metric_in_its_unit() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    for (metric, kept, shown, unit) in [
        ("node_load", 5.0, 0.05, ""),
        ("node_temperature", 41_500.0, 41.5, "°C"),
        ("node_memory_total", 2048.0, 2048.0, "bytes"),
        ("node_cpu_user", 1.5, 1.5, "cores"),
        ("node_net_received", 7.5, 7.5, "bytes/s"),
        ("node_energy", 250e6, 250.0, "W"),
    ] {
        let number = metric.to_owned();
        writer.account(&Accounts::of(&[job(&number, metric, 100, 130)]).unwrap()).unwrap();
        let series = vec![series(metric, ours(metric), &[(110, kept), (120, kept)])];
        writer.measure(&Measures { series, told: vec![] }, NOW).unwrap();
        bind(&store, &mut writer);
        let reader = store.reader().unwrap();
        let filter = Filter { job: Some(number), ..Filter::default() };
        for row in reader.measure_series(&filter, metric).unwrap() {
            assert_eq!((&row["value"], &row["unit"]), (&json!(shown), &json!(unit)), "{metric}");
        }
        let found = reader.job(&filter, NOW).unwrap().unwrap();
        let of = &found["measures"][0];
        for characteristic in ["min", "max", "avg", "median", "node_min", "node_max"] {
            assert_eq!(of[characteristic], json!(shown), "{metric} {characteristic}");
        }
        assert_eq!(of["unit"], json!(unit), "{metric}");
    }
}

#[test]
fn a_job_comes_back_as_it_was_told() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    let told = Accounting {
        user: Some("alice".into()),
        account: Some("physics".into()),
        time_limit: Some(TimeLimit::Nanos(7 * SECOND)),
        allocated: vec![Tres { kind: "gres".into(), name: Some("gpu:a100".into()), count: 2 }],
        placed: vec![Placed {
            host: "n1".into(),
            cpus: Some("0-3".into()),
            gpus: vec!["0".into(), "1".into()],
            memory: None,
        }],
        others: vec![Other { name: "x.y".into(), value: json!({"a": [1, 2.5, "b"]}).to_string() }],
        ..job("7", "n[1-2]", 100, 130)
    };
    let of = Job { cluster: Some("tiny".into()), number: "7".into(), submit: told.submit, start: None };
    let own = Series {
        job: Some(of.clone()),
        unit: Some("GB/s".into()),
        part: Some("socket 0".into()),
        ..series("n1", Name::Own("mem_bw".into()), &[(100, 0.1), (120, 0.3)])
    };
    let whole = Told { job: of, metric: Name::Own("mem_bw".into()), avg: Some(0.2), ..Told::default() };
    let measures = Measures { series: vec![own], told: vec![whole] };
    for _ in 0..2 {
        writer.account(&Accounts::of(std::slice::from_ref(&told)).unwrap()).unwrap();
        writer.measure(&measures, NOW).unwrap();
        bind(&store, &mut writer);
    }
    let exported = store.reader().unwrap().export(&Which::default(), None, 10).unwrap();
    assert_eq!(exported.len(), 1);
    assert_eq!(exported[0].job, told);
    assert_eq!(exported[0].measures, measures);
    // Also those that are chosen by what others measured.
    let columns = store.reader().unwrap().job_columns().unwrap();
    let condition = condition::Condition::parse("mem_bw_avg < 1", &columns.catalogue).unwrap();
    let chosen = Which { conditions: vec![condition], ..Which::default() };
    assert_eq!(store.reader().unwrap().export(&chosen, None, 10).unwrap(), exported);
    assert!(store.reader().unwrap().export(&Which::default(), Some(exported[0].id), 10).unwrap().is_empty());
}

/// Four processors: one in user code, half of one in the kernel, the rest idle.
fn node_values(host: &str) -> Vec<Series> {
    let of =
        |metric: &str, value: f64| series(host, ours(metric), &[(110, value), (120, value), (200, value)]);
    vec![
        of("node_load", 150.0),
        of("node_cpu_user", 1.0),
        of("node_cpu_system", 0.5),
        of("node_cpu_idle", 2.5),
    ]
}

/// The job's load, and its user and idle time as shares of its processors; whether it shared a node.
fn attributed(store: &Store, number: &str) -> Value {
    let names = ["shared_node", "load_avg", "cpu_user_util_avg", "cpu_idle_util_avg"];
    let condition = condition::Condition::parse(&format!("job = '{number}'"), &FIXED.catalogue).unwrap();
    let page = Page {
        columns: names.map(|name| FIXED.named(name).unwrap().clone()).to_vec(),
        sort: FIXED.named("job").unwrap().clone(),
        is_ascending: true,
        limit: None,
        after: None,
    };
    let which = Which { conditions: vec![condition], ..Which::default() };
    let rows = store.reader().unwrap().jobs(&which, &page).unwrap().rows();
    names.iter().map(|name| rows[0][*name].clone()).collect()
}

#[test]
fn node_values_are_a_jobs_only_where_it_had_its_nodes_to_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    let series = (1..=5).flat_map(|node| node_values(&format!("n{node}"))).collect();
    writer.measure(&Measures { series, told: vec![] }, NOW).unwrap();
    let two = |job: Accounting| Accounting { cpus: Some(2), nodes: Some(1), ..job };
    let jobs = [
        two(job("1", "n1", 100, 200)),
        two(job("2", "n2", 100, 200)),
        two(job("3", "n2", 150, 300)),
        Accounting { is_shared: Some(true), ..two(job("4", "n3", 100, 200)) },
        Accounting { is_shared: Some(false), ..two(job("5", "n4", 100, 200)) },
        Accounting { cpus: None, ..two(job("6", "n5", 100, 200)) },
    ];
    writer.account(&Accounts::of(&jobs).unwrap()).unwrap();
    bind(&store, &mut writer);
    let unknown = Value::Null;
    for (number, expected) in [
        // One and a half of its two processors worked, one of them in user code.
        ("1", json!([false, 1.5, 50.0, 25.0])),
        ("2", json!([true, unknown, unknown, unknown])),
        ("4", json!([true, unknown, unknown, unknown])),
        // Allocated the whole node, it has all four.
        ("5", json!([false, 1.5, 25.0, 62.5])),
        ("6", json!([false, 1.5, unknown, unknown])),
    ] {
        assert_eq!(attributed(&store, number), expected, "job {number}");
    }
    // A job that ran beside it is reported later.
    writer.account(&Accounts::of(&[job("7", "n1", 50, 120)]).unwrap()).unwrap();
    bind(&store, &mut writer);
    assert_eq!(attributed(&store, "1"), json!([true, unknown, unknown, unknown]));
}

/// What is said of a job is of whole nodes where they were measured; parts of nodes are shown beside that.
#[test]
fn whole_nodes_count_and_other_scopes_are_kept_apart() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    let told = job("7", "n[1-2]", 100, 130);
    let of = Job { cluster: Some("tiny".into()), number: "7".into(), submit: told.submit, start: None };
    let part = |metric: &str, part: Option<&str>, value: f64| Series {
        job: Some(of.clone()),
        part: part.map(str::to_owned),
        ..series("n1", Name::Own(metric.into()), &[(110, value), (120, value)])
    };
    let mut all = vec![part("flops_any", None, 45.012)];
    all.extend((0..72).map(|core| part("flops_any", Some(&format!("core {core}")), 0.5)));
    all.extend((0..2).map(|core| part("odd", Some(&format!("core {core}")), 2.0)));
    all.push(part("mem_bw", Some("socket 0"), 30.0));
    let told_of = |metric: &str| Told {
        job: of.clone(),
        metric: Name::Own(metric.into()),
        avg: Some(9.0),
        ..Told::default()
    };
    let measures = Measures { series: all, told: vec![told_of("odd"), told_of("flops_any")] };
    writer.account(&Accounts::of(&[told]).unwrap()).unwrap();
    writer.measure(&measures, NOW).unwrap();
    bind(&store, &mut writer);
    let reader = store.reader().unwrap();
    let columns = reader.job_columns().unwrap();
    for (text, expected) in [
        ("flops_any_avg = 45.012 and flops_any_min = 45.012", 1),
        // Nobody says what these mean for a node.
        ("mem_bw_max is unknown", 1),
        ("odd_max is unknown and odd_avg = 9", 1),
    ] {
        let condition = condition::Condition::parse(text, &columns.catalogue).unwrap();
        let which = Which { conditions: vec![condition], ..Which::default() };
        assert_eq!(reader.count_jobs(&which).unwrap(), expected, "{text}");
    }
    let filter = Filter { job: Some("7".into()), ..Filter::default() };
    let found = reader.job(&filter, NOW).unwrap().unwrap();
    let shown: Vec<_> = found["measures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (
                row["metric"].clone(),
                row["scope"].clone(),
                row["avg"].clone(),
                row["readings"].clone(),
                row["from"].clone(),
            )
        })
        .collect();
    let row = |metric: &str, scope: Value, avg: f64, readings: Value, from: &str| {
        (json!(metric), scope, json!(avg), readings, json!(from))
    };
    assert_eq!(
        shown,
        [
            row("flops_any", json!(null), 45.012, json!(2), "values"),
            row("flops_any", json!("core"), 0.5, json!(144), "values"),
            row("mem_bw", json!("socket"), 30.0, json!(2), "values"),
            row("odd", json!("core"), 2.0, json!(4), "values"),
            row("odd", json!(null), 9.0, json!(null), "told"),
        ]
    );
}
