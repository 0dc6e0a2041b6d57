//! Jobs as their batch system accounts for them: each once, whatever is told, in whatever order and however often.

use duckdb::Connection;
use record::accounting::{
    Accounting, Exit, MemoryPer, Other, Placed, RequestedMemory, State, Step, TimeLimit, Tres, Usage,
};
use record::bytes::Bytes;
use record::measure::{Job, Measures, Point, Series, Told};
use store::jobs::{JobsBy, Page, Which, column};
use store::{Accounted, Accounts, Filter, Forget, Limits, Store, Writer};

const SECOND: u64 = 1_000_000_000;

fn open(dir: &tempfile::TempDir) -> (Store, Writer) {
    let store = Store::open(dir.path(), &Limits::default()).unwrap();
    let writer = store.writer().unwrap();
    (store, writer)
}

/// A job that was submitted at a second; it runs unless it has ended.
fn job(number: &str, submit: u64, end: Option<u64>) -> Accounting {
    let step = |step: &str| Step { step: step.into(), ..Step::default() };
    Accounting {
        cluster: Some("tiny".into()),
        job: Some(number.into()),
        shown: number.into(),
        user: Some(if number.starts_with('9') { "bob" } else { "alice" }.into()),
        submit: Some(submit * SECOND),
        start: Some((submit + 1) * SECOND),
        end: end.map(|end| end * SECOND),
        state: Some(if end.is_some() { State::Failed } else { State::Running }),
        exit: end.map(|_| Exit { code: Some(3), signal: Some(9) }),
        time_limit: Some(TimeLimit::Unlimited),
        cpus: Some(4),
        allocated: vec![
            Tres { kind: "mem".into(), name: None, count: 1 << 30 },
            Tres { kind: "gres".into(), name: Some("gpu:a100".into()), count: 2 },
        ],
        used: Usage { total_cpu: Some(7), ..Usage::default() },
        steps: if end.is_some() { vec![step("batch"), step("0")] } else { vec![step("batch")] },
        ..Accounting::default()
    }
}

fn account(writer: &mut Writer, jobs: &[Accounting]) -> Accounted {
    writer.account(&Accounts::of(jobs).unwrap()).unwrap()
}

fn accounted(new: u64, replaced: u64, older: u64) -> Accounted {
    Accounted { new, replaced, older }
}

/// Asks the closed database.
fn number(dir: &tempfile::TempDir, sql: &str) -> u64 {
    let connection = Connection::open(dir.path().join(store::FILE)).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn each_job_is_there_once() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    let runs = [job("1", 10, None), job("2", 20, None), job("91", 30, None)];
    assert_eq!(account(&mut writer, &runs), accounted(3, 0, 0));
    assert_eq!(account(&mut writer, &runs), accounted(0, 3, 0));
    assert_eq!(account(&mut writer, &[job("1", 10, Some(50))]), accounted(0, 1, 0));
    // An older text, and one in which a job is told twice.
    assert_eq!(account(&mut writer, &runs), accounted(0, 2, 1));
    let twice = [job("2", 20, None), job("2", 20, Some(60))];
    assert_eq!(account(&mut writer, &twice), accounted(0, 1, 1));
    // Queued again: the number is the same, the job is not. One is told beside one that is known.
    assert_eq!(account(&mut writer, &[job("2", 70, None)]), accounted(1, 0, 0));
    assert_eq!(account(&mut writer, &[job("3", 70, None), job("2", 70, None)]), accounted(1, 1, 0));
    assert_eq!(account(&mut writer, &[]), accounted(0, 0, 0));
    drop((writer, store));
    assert_eq!(number(&dir, "SELECT count(*) FROM accounting"), 5);
    // Whether something was said of a job is never unknown.
    let said = "SELECT count(*) FROM accounting WHERE said0 = 0 AND said1 = 0 AND said2 = 0 AND said3 = 0";
    assert_eq!(number(&dir, said), 5);
    assert_eq!(number(&dir, "SELECT count(*) FROM accounting WHERE state = 'FAILED' AND signal = 9"), 2);
    assert_eq!(number(&dir, "SELECT count(*) FROM accounting_step"), 7);
    let whole = "SELECT count(*) FROM accounting WHERE gpus = 2 AND memory = 1073741824 AND cores = 4 AND is_unlimited \
                 AND allocated = 'mem=1073741824,gres/gpu:a100=2' AND total_cpu_ns = 7 AND name IS NULL";
    assert_eq!(number(&dir, whole), 5);
}

#[test]
fn steps_are_shown_with_their_job() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    let mut told = job("1", 10, Some(50));
    told.steps[1] = Step {
        name: Some(b"solver".as_slice().into()),
        start: Some(20 * SECOND),
        elapsed: Some(10 * SECOND),
        state: Some(State::Failed),
        exit: Some(Exit { code: Some(3), signal: Some(0) }),
        cpus: Some(4),
        used: Usage { total_cpu: Some(30 * SECOND), max_rss: Some(1 << 20), ..Usage::default() },
        ..told.steps[1].clone()
    };
    account(&mut writer, &[told, job("2", 10, None)]);
    let steps = |number: &str| {
        let filter = Filter { job: Some(number.into()), ..Filter::default() };
        let found = store.reader().unwrap().job(&filter, 0).unwrap().unwrap();
        found["steps"].as_array().unwrap().clone()
    };
    let [first, second] = &steps("1")[..] else { panic!("{:?}", steps("1")) };
    assert_eq!([&first["step"], &first["name"], &first["state"]], ["0", "solver", "FAILED"]);
    assert_eq!((first["elapsed_s"].as_f64(), first["cpu_efficiency"].as_f64()), (Some(10.0), Some(75.0)));
    assert_eq!((first["exit_code"].as_u64(), first["max_rss"].as_u64()), (Some(3), Some(1 << 20)));
    assert_eq!((&second["step"], second["cpu_time_s"].is_null()), (&"batch".into(), true));
    assert_eq!(steps("2").len(), 1);
    // More processor time than fits when it is counted in hundredths of a nanosecond.
    let mut large = job("3", 100, Some(5500));
    let used = || Usage { total_cpu: Some(65_536 * 5000 * SECOND), ..Usage::default() };
    let large_step = Step {
        step: "0".into(),
        cpus: Some(65_536),
        elapsed: Some(5400 * SECOND),
        used: used(),
        ..Step::default()
    };
    large.steps = vec![large_step];
    (large.cpus, large.elapsed, large.used) = (Some(65_536), Some(5400 * SECOND), used());
    account(&mut writer, &[large]);
    let share = steps("3")[0]["cpu_efficiency"].as_f64().unwrap();
    assert!((share - 92.59).abs() < 0.01, "{share}");
    let columns = vec![column("cpu_efficiency").unwrap().clone()];
    let page = Page { sort: columns[0].clone(), columns, is_ascending: false, limit: Some(1), after: None };
    let rows = store.reader().unwrap().jobs(&Which::default(), &page).unwrap().rows();
    assert!((rows[0]["cpu_efficiency"].as_f64().unwrap() - 92.59).abs() < 0.01, "{rows:?}");
}

/// Of what is submitted at a time that nobody knows.
#[test]
fn a_job_without_a_submission_is_there_once_too() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, mut writer) = open(&dir);
    let unknown = Accounting { submit: None, ..job("1", 10, None) };
    assert_eq!(account(&mut writer, &[unknown.clone(), job("2", 20, None)]), accounted(2, 0, 0));
    assert_eq!(account(&mut writer, &[job("2", 20, None), unknown]), accounted(0, 2, 0));
}

#[test]
fn who_is_forgotten_is_gone_from_accounting_too() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    account(&mut writer, &[job("1", 10, None), job("91", 30, None)]);
    for number in ["1", "91"] {
        let submit = if number == "1" { 10 } else { 30 } * SECOND;
        let of =
            Job { cluster: Some("tiny".into()), number: number.into(), submit: Some(submit), start: None };
        let points = vec![Point { time: SECOND, value: 1.0 }];
        let series =
            Series { host: "n1".into(), job: Some(of.clone()), every: SECOND, points, ..Series::default() };
        let told = Told { job: of, avg: Some(1.0), ..Told::default() };
        writer.measure(&Measures { series: vec![series], told: vec![told] }, 0).unwrap();
    }
    writer.forget(&Forget::User("alice".into())).unwrap();
    drop((writer, store));
    assert_eq!(number(&dir, "SELECT count(*) FROM accounting WHERE \"user\" = 'bob'"), 1);
    assert_eq!(number(&dir, "SELECT count(*) FROM accounting"), 1);
    for table in ["accounting_step", "measure", "job_measure"] {
        assert_eq!(number(&dir, &format!("SELECT count(*) FROM {table}")), 1, "{table}");
    }
}

/// What another source has said, and a text that a centre kept leaves out, stays known; what changes, changes.
#[test]
fn what_is_not_told_again_stays_known() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    let placed =
        Placed { host: "n2".into(), cpus: Some("0-3".into()), gpus: vec!["1".into()], memory: Some(5) };
    let seen = Accounting {
        comment: Some(Bytes(b"hello".to_vec())),
        reason: Some("Priority".into()),
        node_list: Some("n[1-3]".into()),
        placed: vec![placed],
        ..job("1", 10, None)
    };
    assert_eq!(account(&mut writer, &[seen.clone(), job("2", 20, None)]), accounted(2, 0, 0));
    let ended = Accounting { node_list: seen.node_list.clone(), ..job("1", 10, Some(50)) };
    assert_eq!(account(&mut writer, &[ended]), accounted(0, 1, 0));
    drop((writer, store));
    let kept = "SELECT count(*) FROM accounting WHERE job = '1' AND comment = 'hello' AND reason IS NULL AND state = 'FAILED'";
    assert_eq!(number(&dir, kept), 1);
    assert_eq!(
        number(&dir, "SELECT count(*) FROM accounting_node WHERE cpus = '0-3' AND gpus = '1' AND memory = 5"),
        1
    );
    assert_eq!(number(&dir, "SELECT count(*) FROM accounting_step"), 3);
    // A list is kept once, also by those who come later.
    assert_eq!(number(&dir, "SELECT count(*) FROM node_list WHERE list = 'n[1-3]'"), 3);
    let (store, mut writer) = open(&dir);
    account(&mut writer, &[seen]);
    drop((writer, store));
    assert_eq!(number(&dir, "SELECT count(*) FROM node_list WHERE host = 'n2'"), 1);
}

/// Whoever imports, what people wrote is without secrets when it is stored, and so is what is exported.
#[test]
fn secrets_in_what_people_wrote_are_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    let text = |text: &str| Some(Bytes(text.as_bytes().to_vec()));
    let mut told = Accounting {
        name: text("run --token=hunter2"),
        comment: text("password: hunter2"),
        admin_comment: text("his token is 'hunter2'"),
        system_comment: text("https://bob:hunter2@h.example/"),
        extra: text(r#"{"secret": "hunter2", "n": 5}"#),
        submit_line: text("sbatch --export=ALL,TOKEN=hunter2 job.sh --passes 3"),
        container: text("docker://bob:hunter2@h.example/img"),
        work_dir: text("/home/alice/token"),
        ..job("1", 10, Some(50))
    };
    told.steps[1].submit_line = text("srun bash -c 'mysql -phunter2 db < q.sql'");
    let script = "#!/bin/bash\n#SBATCH -p short\n# it's mine\nexport WANDB_API_KEY=hunter2\n\
                  curl -sSfu bob:hunter2 \\\n  https://h.example/x\npython x.py --token $TOKEN\n";
    let value = serde_json::json!({"jobScript": script, "password": "hunter2", "jobName": "x"}).to_string();
    told.others = vec![Other { name: "clustercockpit.metaData".into(), value }];
    account(&mut writer, &[told]);
    let exported = store.reader().unwrap().export(&Which::default(), None, 10).unwrap();
    drop((writer, store));

    let job = &exported[0].job;
    assert_eq!(job.submit_line, text("sbatch --export=ALL,TOKEN=*** job.sh --passes 3"));
    assert_eq!(job.work_dir, text("/home/alice/token"));
    let data: serde_json::Value = serde_json::from_str(&job.others[0].value).unwrap();
    let script = script.replace("bob:hunter2", "***").replace("hunter2", "***");
    assert_eq!(data, serde_json::json!({"jobScript": script, "password": "***", "jobName": "x"}));
    assert!(!format!("{exported:?}").contains("hunter2"), "{exported:?}");

    let step = r"SELECT count(*) FROM accounting_step WHERE submit_line LIKE '%mysql -p*** db < q.sql%'";
    assert_eq!(number(&dir, step), 1);
    for table in ["accounting", "accounting_step"] {
        let leaks = format!("SELECT count(*) FROM {table} WHERE {table}::TEXT LIKE '%hunter2%'");
        assert_eq!(number(&dir, &leaks), 0, "{table}");
    }
}

/// Two jobs: an array of which three tasks wait, and one that runs.
#[test]
fn an_array_that_waits_counts_as_its_tasks() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    let waits = |tasks: &str| Accounting {
        shown: format!("7_[{tasks}]"),
        array_job: Some(7),
        array_waiting: Some(tasks.into()),
        state: Some(State::Pending),
        start: None,
        cpus: None,
        allocated: Vec::new(),
        ..job("7", 10, None)
    };
    account(&mut writer, &[waits("1-3%2"), job("2", 20, None)]);
    let count = || store.reader().unwrap().count_jobs(&Which::default()).unwrap();
    assert_eq!(count(), 4);
    let groups = store.reader().unwrap().group_jobs(&Which::default(), JobsBy::State, None).unwrap();
    let jobs = |state: &str| {
        let group = groups.iter().find(|group| group["state"] == state).unwrap();
        (group["jobs"].as_u64().unwrap(), group["started"].as_u64().unwrap(), group["core_hours"].is_null())
    };
    assert_eq!(jobs("PENDING"), (3, 0, true));
    assert_eq!(jobs("RUNNING").0, 1);
    // One of them has begun, under another number.
    account(&mut writer, &[waits("2-3%2"), job("9", 10, None)]);
    assert_eq!(count(), 4);
    // The last one keeps the number.
    let last =
        Accounting { shown: "7_3".into(), array_job: Some(7), array_task: Some(3), ..job("7", 10, None) };
    account(&mut writer, &[last, job("8", 10, None)]);
    assert_eq!(count(), 4);
}

/// They would be more rows than all others, or times that no number holds.
#[test]
fn a_damaged_time_does_not_make_groups_without_end() {
    const FAR: u64 = i64::MAX as u64;
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    let damaged = [
        Accounting { end: Some(FAR), ..job("1", 10, None) },
        Accounting { elapsed: Some(FAR), end: None, ..job("2", 20, None) },
        Accounting { start: Some(FAR), ..job("3", 30, None) },
        Accounting { start: Some(FAR - 5), end: Some(FAR), elapsed: Some(FAR), ..job("4", 40, None) },
    ];
    let placed = |job: Accounting| Accounting { node_list: Some("n1".into()), ..job };
    account(&mut writer, &damaged.map(placed));
    let whole = Accounting { elapsed: Some(7200 * SECOND), ..job("5", 3599, Some(10_800)) };
    account(&mut writer, &[placed(whole)]);
    let sum = |by: JobsBy, name: &str| -> (usize, f64) {
        let groups = store.reader().unwrap().group_jobs(&Which::default(), by, None).unwrap();
        (groups.len(), groups.iter().filter_map(|group| group[name].as_f64()).sum())
    };
    for (by, most) in [
        (JobsBy::Hour, 25),
        (JobsBy::Weekday, 8),
        (JobsBy::Day, 10),
        (JobsBy::Week, 10_000),
        (JobsBy::Month, 2_000),
    ] {
        let (groups, started) = sum(by, "started");
        assert!(groups <= most, "{by:?}: {groups}");
        assert_eq!(started, 3.0, "{by:?}");
    }
    // A job that is not damaged is still divided.
    let hours = store.reader().unwrap().group_jobs(&Which::default(), JobsBy::Hour, None).unwrap();
    let second = hours.iter().find(|group| group["hour"] == "02").unwrap();
    assert_eq!((second["jobs"].as_u64(), second["core_hours"].as_f64()), (Some(1), Some(4.0)));
}

#[test]
fn what_was_requested_has_columns_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    let list = |of: &[(&str, Option<&str>, u64)]| -> Vec<Tres> {
        let tres = |(kind, name, count): &(&str, Option<&str>, u64)| Tres {
            kind: (*kind).into(),
            name: name.map(Into::into),
            count: *count,
        };
        of.iter().map(tres).collect()
    };
    let waits = Accounting {
        state: Some(State::Pending),
        start: None,
        cpus: None,
        allocated: Vec::new(),
        requested_cpus: Some(8),
        requested_nodes: Some(2),
        requested_memory: Some(RequestedMemory { bytes: 1 << 30, per: MemoryPer::Cpu }),
        requested: list(&[("cpu", None, 8), ("gres", Some("gpu"), 4)]),
        ..job("1", 10, None)
    };
    account(&mut writer, std::slice::from_ref(&waits));
    let columns = [
        "requested_cores",
        "requested_nodes",
        "requested_gpus",
        "requested_memory",
        "cores",
        "nodes",
        "gpus",
    ];
    let columns: Vec<_> = columns.iter().map(|name| column(name).unwrap().clone()).collect();
    let page = Page { sort: columns[0].clone(), columns, is_ascending: false, limit: Some(1), after: None };
    let rows = || store.reader().unwrap().jobs(&Which::default(), &page).unwrap().rows();
    let number = |name: &str| rows()[0][name].as_u64();
    assert_eq!(
        ["requested_cores", "requested_nodes", "requested_gpus"].map(number),
        [Some(8), Some(2), Some(4)]
    );
    assert_eq!(number("requested_memory"), Some(8 << 30));
    assert_eq!(["cores", "nodes", "gpus"].map(number), [None, None, None]);
    // It stays known when a text that says less comes later, and comes back as it was told.
    account(&mut writer, &[job("1", 10, Some(50))]);
    assert_eq!(
        (number("requested_nodes"), number("requested_gpus"), number("cores")),
        (Some(2), Some(4), Some(4))
    );
    let exported = store.reader().unwrap().export(&Which::default(), None, 10).unwrap().remove(0).job;
    assert_eq!((exported.requested_memory, exported.requested_nodes), (waits.requested_memory, Some(2)));
}
