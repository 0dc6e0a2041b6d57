//! Jobs that were measured and of which no batch system has told: they are listed, judged and spoken of as others are, and give way to what
//! a batch system tells later.

#[allow(dead_code, reason = "only what batches are made of is used here")]
mod common;

use common::{HOST, SECOND, batch, stream};
use record::accounting::{Accounting, State};
use record::batch::Batch;
use record::entry::Entry;
use record::metric::id;
use record::reading::{JobReading, Reading, Reserved, Values};
use serde_json::Value;
use store::jobs::{Page, Tagged, Wanted, Which, column};
use store::notes::About;
use store::query::notes::Notes;
use store::query::tags::Explain;
use store::sight::Sight;
use store::tags::{Assignment, PIECE};
use store::{Accounts, Filter, Limits, Nodes, Site, Store, Writer, prepare};

/// In 2100: a writer that is opened takes the time of now, which must not be later.
const START: u64 = 4_102_473_600 * SECOND;
const ITERATIVE: &str = "job_behavior ITERATIVE";
const SINGLE: &str = "job_nnodes SINGLE";

fn at(second: u64) -> u64 {
    START + second * SECOND
}

/// A job of Alice's on some nodes, read at a second.
fn reading(job: &str, nodes: &[&str], start: u64, second: u64, end: Option<u64>) -> Vec<Entry> {
    let one = |node: &&str| {
        let mut values = Values::default();
        values.put(id::CPU, Some((second - start) * SECOND));
        values.put(id::JOB_LOAD, Some(1));
        let job = JobReading {
            cluster: Some("tiny".into()),
            job: Some(job.into()),
            node: Some((*node).into()),
            user: Some("alice".into()),
            start: at(start),
            end: end.map(at),
            every: 10 * SECOND,
            values,
            reserved: Some(Reserved { cpus: Some(4), memory: Some(1 << 30), gpus: None }),
            ..JobReading::default()
        };
        let reading = Reading { time: at(second), host: HOST.into(), jobs: vec![job], ..Reading::default() };
        Entry::Reading(Box::new(reading))
    };
    nodes.iter().map(one).collect()
}

/// As a batch system tells of a job; Bob's are of another cluster.
fn account(user: &str, job: &str, submit: u64, start: u64, end: u64) -> Accounting {
    Accounting {
        cluster: (user != "bob").then(|| "tiny".into()),
        job: Some(job.into()),
        shown: job.into(),
        user: Some(user.into()),
        account: Some("physics".into()),
        submit: Some(at(submit)),
        start: Some(at(start)),
        end: Some(at(end)),
        state: Some(State::Completed),
        nodes: Some(1),
        node_list: Some("n1".into()),
        ..Accounting::default()
    }
}

struct Machine {
    _dir: tempfile::TempDir,
    store: Store,
    writer: Writer,
    next: u64,
}

impl Machine {
    fn new() -> Machine {
        let dir = tempfile::tempdir().unwrap();
        let site = Site::parse("renew_seconds = 60").unwrap();
        let store = Store::open(dir.path(), &Limits::default()).unwrap().with_site(site);
        let writer = store.writer().unwrap();
        Machine { _dir: dir, store, writer, next: 1 }
    }

    /// Takes readings in, makes the rows that are due then, and judges.
    fn measure(&mut self, entries: &[Entry], second: u64) {
        let bytes = batch(stream(1), self.next, entries, &[]);
        self.next += entries.len() as u64;
        let prepared = prepare(&Batch::from_bytes(&bytes).unwrap(), &self.writer.catalogue()).unwrap();
        let (now, reader) = (at(second) as i64, self.store.reader().unwrap());
        self.writer.apply(vec![prepared], now).unwrap();
        loop {
            let due = self.writer.due(now);
            if due.is_empty() {
                break;
            }
            let rows = reader.summarise(&due, now).unwrap();
            self.writer.keep_rows(due, &rows, 0).unwrap();
        }
        self.judge();
    }

    fn tell(&mut self, job: &str, submit: u64, start: u64, end: u64) {
        self.tell_of("alice", job, submit, start, end);
    }

    fn tell_of(&mut self, user: &str, job: &str, submit: u64, start: u64, end: u64) {
        self.writer.account(&Accounts::of(&[account(user, job, submit, start, end)]).unwrap()).unwrap();
        self.judge();
    }

    fn judge(&mut self) {
        while !self.writer.judge_due(PIECE).unwrap().is_last {}
    }

    /// Number, state and nodes of the jobs that are listed.
    fn listed(&self, which: &Which) -> Vec<[Value; 3]> {
        let columns = ["job", "state", "node_list"].map(|name| column(name).unwrap().clone()).into();
        let page = Page {
            columns,
            sort: column("start").unwrap().clone(),
            is_ascending: true,
            limit: None,
            after: None,
        };
        let reader = self.store.reader().unwrap();
        let rows = reader.jobs(which, &page).unwrap().rows();
        assert_eq!(reader.count_jobs(which).unwrap(), rows.len() as u64);
        rows.iter().map(|row| ["job", "state", "node_list"].map(|name| row[name].clone())).collect()
    }

    fn having(&self, tag: &str) -> Vec<Value> {
        let declared = self.store.tags().seen_by(&Sight::All);
        let all = vec![Wanted::of(&declared, declared.named(tag).unwrap())];
        let which = Which { tagged: Tagged { all, ..Tagged::default() }, ..Which::default() };
        self.listed(&which).into_iter().map(|[job, ..]| job).collect()
    }

    fn explained(&self, job: &str) -> Value {
        let filter = Filter { job: Some(job.into()), ..Filter::default() };
        let what = Explain { filter, ..Explain::default() };
        self.store.reader().unwrap().explain_tags(&what).unwrap().unwrap()
    }

    fn id(&self, job: &str) -> u64 {
        let filter = Filter { job: Some(job.into()), ..Filter::default() };
        self.store.reader().unwrap().owned(&filter).unwrap().unwrap().id
    }
}

fn row(job: &str, state: Option<&str>, nodes: &str) -> [Value; 3] {
    [job.into(), state.map_or(Value::Null, Value::from), nodes.into()]
}

#[test]
fn what_was_only_measured_is_a_job_like_others() {
    let mut machine = Machine::new();
    for second in [10, 80] {
        let (one, two) =
            (reading("17", &["n1"], 0, second, None), reading("18", &["n1", "n2"], 5, second, None));
        machine.measure(&[one, two].concat(), second);
    }
    assert_eq!(
        machine.listed(&Which::default()),
        [row("17", Some("RUNNING"), "n1"), row("18", Some("RUNNING"), "n[1-2]")]
    );
    let on = |node: &str| Which { node: Some(Nodes::parse(node).unwrap()), ..Which::default() };
    assert_eq!((machine.listed(&on("n2")).len(), machine.listed(&on("n1")).len()), (1, 2));
    assert_eq!(machine.having(SINGLE), ["17"]);
    assert_eq!(machine.explained("17")["is_provisional"], true);
    assert_eq!(machine.having("avg_LA SINGLE CORE"), ["17", "18"]);
    let id = machine.id("17");
    machine.measure(&reading("17", &["n1"], 0, 91, Some(90)), 150);
    // Ended; how, nobody knows.
    assert_eq!(machine.listed(&Which::default())[0], row("17", None, "n1"));
    assert_eq!(machine.explained("17")["is_provisional"], false);
    assert_eq!((machine.id("17"), machine.having("job_status COMPLETED").len()), (id, 0));
    // Seen by whose it is, and by nobody else.
    for (user, jobs) in [("alice", 2), ("eve", 0)] {
        let sight = Sight::Own { user: user.into(), projects: vec![], member_of: vec![] };
        let reader = machine.store.reader_with(&sight).unwrap();
        assert_eq!(reader.count_jobs(&Which::default()).unwrap(), jobs, "{user}");
    }
    // A run over the collection judges it as well.
    machine.writer.begin_run(None, None).unwrap();
    while !machine.writer.judge_piece(PIECE).unwrap().is_last {}
    assert_eq!(machine.having(SINGLE), ["17"]);
}

#[test]
fn it_gives_way_to_what_the_batch_system_tells() {
    let mut machine = Machine::new();
    machine.measure(
        &[reading("17", &["n1"], 0, 31, Some(30)), reading("18", &["n1"], 0, 31, Some(30))].concat(),
        100,
    );
    let tag = machine.store.tags().named(ITERATIVE).unwrap().tag.declared.id;
    for job in ["17", "18"] {
        let id = machine.id(job);
        let said = Assignment {
            id,
            tag,
            is_set: true,
            is_personal: false,
            by: "alice".into(),
            by_administrator: false,
            reason: None,
        };
        machine.writer.assign(&said).unwrap();
        machine.writer.add_note(&About::Job(id), "slow", "alice").unwrap();
    }
    machine.tell("17", 1, 1, 31);
    assert_eq!(
        machine.listed(&Which::default()),
        [row("18", None, "n1"), row("17", Some("COMPLETED"), "n1")]
    );
    assert_eq!((machine.having(ITERATIVE).len(), machine.having("job_status COMPLETED").len()), (2, 1));
    let which = Notes { job: Some("17".into()), ..Notes::default() };
    assert_eq!(machine.store.reader().unwrap().notes(&which).unwrap().len(), 1);
    assert_eq!(machine.explained("17")["said"].as_array().unwrap().len(), 1);
    // Measured again, it is still the batch system's.
    machine.measure(&reading("17", &["n1"], 0, 32, Some(32)), 200);
    assert_eq!(machine.listed(&Which::default()).len(), 2);
    // What was told before it was measured never has another account.
    machine.tell("19", 300, 301, 330);
    machine.measure(&reading("19", &["n1"], 301, 331, Some(330)), 400);
    assert_eq!(machine.listed(&Which::default()).len(), 3);
}

/// What was said of its own account and what its owner wished are about one job: the last word counts.
#[test]
fn of_words_about_both_accounts_the_last_counts() {
    let mut machine = Machine::new();
    machine.measure(&reading("17", &["n1"], 0, 31, Some(30)), 100);
    let (id, tag) = (machine.id("17"), machine.store.tags().named(ITERATIVE).unwrap().tag.declared.id);
    let said = Assignment {
        id,
        tag,
        is_set: false,
        is_personal: false,
        by: "alice".into(),
        by_administrator: false,
        reason: None,
    };
    machine.writer.assign(&said).unwrap();
    let wish = format!("tag:{ITERATIVE}");
    let told = Accounting { comment: Some(wish.as_bytes().into()), ..account("alice", "17", 0, 0, 30) };
    machine.writer.account(&Accounts::of(&[told]).unwrap()).unwrap();
    assert_eq!(machine.having(ITERATIVE), ["17"]);
    let words = machine.explained("17")["said"].clone();
    let words: Vec<_> = words.as_array().unwrap().iter().map(|word| word["until"].is_null()).collect();
    assert_eq!(words, [false, true], "the first is kept, and counts no more");
}

#[test]
fn a_number_that_is_given_again_is_another_job() {
    let mut machine = Machine::new();
    machine.measure(&reading("17", &["n1"], 0, 31, Some(30)), 100);
    let id = machine.id("17");
    machine.writer.add_note(&About::Job(id), "of the first", "alice").unwrap();
    // Long after it, and at its time by somebody else: another cluster's, whose name nobody knew.
    machine.tell("17", 100_000, 100_001, 100_030);
    machine.tell_of("bob", "17", 1, 1, 31);
    assert_eq!(
        machine.listed(&Which::default()),
        [row("17", None, "n1"), row("17", Some("COMPLETED"), "n1"), row("17", Some("COMPLETED"), "n1")]
    );
    let notes = |machine: &Machine| machine.store.reader().unwrap().notes(&Notes::default()).unwrap();
    assert_eq!((notes(&machine).len(), &notes(&machine)[0]["user"]), (1, &"alice".into()));
    // Now it is told itself; who saw it before and speaks of it now speaks of the same job.
    machine.tell("17", 0, 0, 30);
    assert_eq!(machine.listed(&Which::default()), vec![row("17", Some("COMPLETED"), "n1"); 3]);
    machine.writer.add_note(&About::Job(id), "of the first, too", "alice").unwrap();
    let told: Vec<Value> = notes(&machine).iter().map(|note| note["user"].clone()).collect();
    assert_eq!(told, ["alice", "alice"]);
}

/// Two clusters give the same number, and both are told at once.
#[test]
fn each_cluster_has_its_own() {
    let mut machine = Machine::new();
    let mut entries = reading("17", &["n1"], 0, 31, Some(30));
    let mut other = reading("17", &["n9"], 0, 31, Some(30));
    for entry in &mut other {
        let Entry::Reading(reading) = entry else { panic!() };
        reading.jobs[0].cluster = Some("other".into());
    }
    entries.extend(other);
    machine.measure(&entries, 100);
    assert_eq!(machine.listed(&Which::default()).len(), 2);
    let told =
        |cluster: &str| Accounting { cluster: Some(cluster.into()), ..account("alice", "17", 0, 0, 30) };
    machine.writer.account(&Accounts::of(&[told("tiny"), told("other")]).unwrap()).unwrap();
    assert_eq!(machine.listed(&Which::default()), vec![row("17", Some("COMPLETED"), "n1"); 2]);
}

/// Those that are without a time of submission are judged in pieces, too, and from a time on.
#[test]
fn a_run_goes_through_them_in_pieces() {
    let mut machine = Machine::new();
    let day = 86_400;
    for number in 0..6 {
        let (job, start) = ((number + 20).to_string(), number * day);
        machine.measure(&reading(&job, &["n1"], start, start + 31, Some(start + 30)), start + 100);
    }
    let pieces = |machine: &mut Machine, since: Option<u64>| {
        let run = machine.writer.begin_run(since.map(|second| at(second) as i64), None).unwrap();
        let mut judged = Vec::new();
        loop {
            let piece = machine.writer.judge_piece(2).unwrap();
            judged.push(piece.jobs);
            if piece.is_last {
                return (run.jobs, judged);
            }
        }
    };
    // First those with a time, of which there are none.
    assert_eq!(pieces(&mut machine, None), (6, vec![0, 2, 2, 2]));
    assert_eq!(pieces(&mut machine, Some(4 * day)), (2, vec![0, 2]));
}

/// One that never ended, as far as anybody heard, is deleted with what was measured of it, and so is what was said of it.
#[test]
fn what_is_too_old_goes_with_all_that_was_said_of_it() {
    let mut machine = Machine::new();
    for second in [10, 80] {
        machine.measure(&reading("17", &["n1"], 0, second, None), second);
    }
    let id = machine.id("17");
    machine.writer.add_note(&About::Job(id), "slow", "alice").unwrap();
    machine.writer.forget_jobs(at(70) as i64).unwrap();
    assert_eq!(machine.listed(&Which::default()).len(), 1);
    machine.writer.forget_jobs(at(1_000_000) as i64).unwrap();
    assert_eq!(machine.listed(&Which::default()).len(), 0);
    assert_eq!(machine.store.reader().unwrap().notes(&Notes::default()).unwrap().len(), 0);
}
