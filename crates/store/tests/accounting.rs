//! Jobs as their batch system accounts for them: each once, whatever is told, in whatever order and however often.

use duckdb::Connection;
use record::accounting::{Accounting, Exit, State, Step, TimeLimit, Tres, Usage};
use store::{Accounted, Forget, Limits, Store, Writer};

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
    assert_eq!(writer.account(&runs).unwrap(), accounted(3, 0, 0));
    assert_eq!(writer.account(&runs).unwrap(), accounted(0, 3, 0));
    assert_eq!(writer.account(&[job("1", 10, Some(50))]).unwrap(), accounted(0, 1, 0));
    // An older text, and one in which a job is told twice.
    assert_eq!(writer.account(&runs).unwrap(), accounted(0, 2, 1));
    let twice = [job("2", 20, None), job("2", 20, Some(60))];
    assert_eq!(writer.account(&twice).unwrap(), accounted(0, 1, 1));
    // Queued again: the number is the same, the job is not.
    assert_eq!(writer.account(&[job("2", 70, None)]).unwrap(), accounted(1, 0, 0));
    assert_eq!(writer.account(&[]).unwrap(), accounted(0, 0, 0));
    drop((writer, store));
    assert_eq!(number(&dir, "SELECT count(*) FROM accounting"), 4);
    assert_eq!(number(&dir, "SELECT count(*) FROM accounting WHERE state = 'FAILED' AND signal = 9"), 2);
    assert_eq!(number(&dir, "SELECT count(*) FROM accounting_step"), 6);
    let whole = "SELECT count(*) FROM accounting WHERE gpus = 2 AND memory = 1073741824 AND cores = 4 AND is_unlimited \
                 AND allocated = 'mem=1073741824,gres/gpu:a100=2' AND total_cpu_ns = 7 AND name IS NULL";
    assert_eq!(number(&dir, whole), 4);
}

/// Of what is submitted at a time that nobody knows.
#[test]
fn a_job_without_a_submission_is_there_once_too() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, mut writer) = open(&dir);
    let unknown = Accounting { submit: None, ..job("1", 10, None) };
    assert_eq!(writer.account(&[unknown.clone(), job("2", 20, None)]).unwrap(), accounted(2, 0, 0));
    assert_eq!(writer.account(&[job("2", 20, None), unknown]).unwrap(), accounted(0, 2, 0));
}

#[test]
fn who_is_forgotten_is_gone_from_accounting_too() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut writer) = open(&dir);
    writer.account(&[job("1", 10, None), job("91", 30, None)]).unwrap();
    writer.forget(&Forget::User("alice".into())).unwrap();
    drop((writer, store));
    assert_eq!(number(&dir, "SELECT count(*) FROM accounting WHERE \"user\" = 'bob'"), 1);
    assert_eq!(number(&dir, "SELECT count(*) FROM accounting"), 1);
    assert_eq!(number(&dir, "SELECT count(*) FROM accounting_step"), 1);
}
