//! A job of which its batch system and a monitoring system tell is one job, whoever tells of it first, and has all that either said.

use record::accounting::{Accounting, Exit, Other, Placed, State, TimeLimit, Tres, Usage};
use record::measure::{Exported, Job, Measures, Name, Point, Series, Told};
use serde_json::{Value, json};
use store::jobs::Which;
use store::notes::About;
use store::query::notes::Notes;
use store::query::tags::Explain;
use store::tags::{Assignment, PIECE};
use store::{Accounted, Accounts, Filter, Limits, Store, Writer};

const SECOND: u64 = 1_000_000_000;
/// When the jobs ran: long ago, so that nothing is due again.
const NOW: i64 = 2_000_000_000_000_000_000;
const SUBMIT: u64 = 1_700_000_000;
const START: u64 = SUBMIT + 100;
const ITERATIVE: &str = "job_behavior ITERATIVE";

/// As Slurm tells of it.
fn batch() -> Accounting {
    Accounting {
        cluster: Some("tiny".into()),
        job: Some("17".into()),
        shown: "12_3".into(),
        array_job: Some(12),
        array_task: Some(3),
        user: Some("alice".into()),
        uid: Some(1000),
        account: Some("physics".into()),
        qos: Some("normal".into()),
        submit: Some(SUBMIT * SECOND),
        eligible: Some((SUBMIT + 1) * SECOND),
        start: Some(START * SECOND),
        end: Some((START + 60) * SECOND),
        elapsed: Some(60 * SECOND),
        state: Some(State::Failed),
        exit: Some(Exit { code: Some(3), signal: Some(0) }),
        restarts: Some(1),
        nodes: Some(1),
        cpus: Some(4),
        tasks: Some(2),
        allocated: vec![Tres { kind: "cpu".into(), name: None, count: 4 }],
        node_list: Some("n1".into()),
        flags: vec!["SchedMain".into()],
        used: Usage { total_cpu: Some(7), max_rss: Some(5), ..Usage::default() },
        placed: vec![Placed { host: "n1".into(), memory: Some(1 << 30), ..Placed::default() }],
        ..Accounting::default()
    }
}

/// As ClusterCockpit tells of it.
fn monitoring(submit: Option<u64>) -> Accounting {
    let other =
        |name: &str, value: Value| Other { name: format!("clustercockpit.{name}"), value: value.to_string() };
    Accounting {
        cluster: Some("tiny".into()),
        job: Some("17".into()),
        shown: "17".into(),
        user: Some("alice".into()),
        account: Some("no project".into()),
        partition: Some("gpu".into()),
        name: Some(b"heat".as_slice().into()),
        submit: submit.map(|submit| submit * SECOND),
        start: Some((START + 40) * SECOND),
        end: Some((START + 70) * SECOND),
        elapsed: Some(30 * SECOND),
        time_limit: Some(TimeLimit::Nanos(3600 * SECOND)),
        state: Some(State::Completed),
        nodes: Some(1),
        cpus: Some(8),
        allocated: vec![Tres { kind: "gres".into(), name: Some("gpu".into()), count: 2 }],
        node_list: Some("n1".into()),
        placed: vec![Placed {
            host: "n1".into(),
            cpus: Some("0-7".into()),
            gpus: vec!["00:1".into()],
            memory: None,
        }],
        from_monitoring: true,
        others: vec![other("smt", json!(1)), other("subCluster", json!("s"))],
        ..Accounting::default()
    }
}

/// All of both; where both say something, the batch system is right.
fn both() -> Accounting {
    let theirs = monitoring(None);
    Accounting {
        partition: theirs.partition,
        name: theirs.name,
        time_limit: theirs.time_limit,
        others: theirs.others,
        placed: vec![Placed { memory: Some(1 << 30), ..theirs.placed[0].clone() }],
        ..batch()
    }
}

struct Machine {
    _dir: tempfile::TempDir,
    store: Store,
    writer: Writer,
}

impl Machine {
    fn new() -> Machine {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &Limits::default()).unwrap();
        let writer = store.writer().unwrap();
        Machine { _dir: dir, store, writer }
    }

    fn tell(&mut self, job: &Accounting) -> Accounted {
        self.writer.account(&Accounts::of(std::slice::from_ref(job)).unwrap()).unwrap()
    }

    fn measure(&mut self, measures: &Measures) {
        self.writer.measure(measures, NOW).unwrap();
    }

    fn bind(&mut self) {
        let due = self.writer.due_measures(NOW);
        let bound = self.store.reader().unwrap().bind(&due).unwrap();
        self.writer.keep_bound(&bound, NOW).unwrap();
    }

    fn jobs(&self) -> Vec<Exported> {
        let mut all = self.store.reader().unwrap().export(&Which::default(), None, 100).unwrap();
        all.sort_by_key(|exported| exported.job.submit);
        all
    }

    fn filter(&self) -> Filter {
        Filter { job: Some("17".into()), ..Filter::default() }
    }

    fn id(&self) -> u64 {
        self.store.reader().unwrap().owned(&self.filter()).unwrap().unwrap().id
    }

    /// What is known of a metric of the job.
    fn metric(&self, name: &str) -> Value {
        let job = self.store.reader().unwrap().job(&self.filter(), NOW).unwrap().unwrap();
        job["measures"]
            .as_array()
            .unwrap()
            .iter()
            .find(|metric| metric["metric"] == name)
            .cloned()
            .unwrap_or_default()
    }
}

fn only(machine: &Machine) -> Accounting {
    let jobs = machine.jobs();
    assert_eq!(jobs.len(), 1, "{jobs:#?}");
    jobs.into_iter().next().unwrap().job
}

#[test]
fn a_job_of_two_sources_is_one_job_and_has_all_that_either_said() {
    let [slurm, known, unknown] = [batch(), monitoring(Some(SUBMIT)), monitoring(None)];
    for (name, order) in [
        ("the batch system first", [&slurm, &known]),
        ("the other first", [&known, &slurm]),
        ("the batch system first, and the other knows no submission", [&slurm, &unknown]),
        ("the other first, which knows no submission", [&unknown, &slurm]),
    ] {
        let mut machine = Machine::new();
        assert_eq!(machine.tell(order[0]), Accounted { new: 1, replaced: 0, older: 0 }, "{name}");
        assert_eq!(machine.tell(order[1]), Accounted { new: 0, replaced: 1, older: 0 }, "{name}");
        assert_eq!(only(&machine), both(), "{name}");
        // Told again, in whichever order, it changes nothing.
        for again in [order[0], order[1], order[1], order[0]] {
            assert_eq!(machine.tell(again), Accounted { new: 0, replaced: 1, older: 0 }, "{name}");
            assert_eq!(only(&machine), both(), "{name}");
        }
    }
}

#[test]
fn a_job_without_a_name_of_its_cluster_is_the_same_too() {
    let slurm = Accounting { cluster: None, ..batch() };
    for theirs in [monitoring(Some(SUBMIT)), monitoring(None)] {
        for order in [[&slurm, &theirs], [&theirs, &slurm]] {
            let mut machine = Machine::new();
            order.into_iter().chain(order).for_each(|told| assert_eq!(machine.tell(told).older, 0));
            assert_eq!(only(&machine), both());
        }
    }
}

#[test]
fn that_a_job_has_ended_is_known_from_either() {
    let runs = |job: Accounting| Accounting {
        state: Some(State::Running),
        end: None,
        elapsed: job.elapsed.map(|elapsed| elapsed / 2),
        exit: None,
        ..job
    };
    for submit in [Some(SUBMIT), None] {
        for order in [[runs(batch()), monitoring(submit)], [monitoring(submit), runs(batch())]] {
            let mut machine = Machine::new();
            order.iter().for_each(|told| assert_eq!(machine.tell(told).older, 0));
            let job = only(&machine);
            let theirs = monitoring(submit);
            assert_eq!((job.state, job.end, job.elapsed), (theirs.state, theirs.end, theirs.elapsed));
            assert_eq!((job.qos.as_deref(), job.partition.as_deref()), (Some("normal"), Some("gpu")));
        }
        for order in [[batch(), runs(monitoring(submit))], [runs(monitoring(submit)), batch()]] {
            let mut machine = Machine::new();
            order.iter().for_each(|told| assert_eq!(machine.tell(told).older, 0));
            assert_eq!(only(&machine), both());
        }
    }
}

#[test]
fn another_job_of_the_same_number_stays_another() {
    let late = |seconds: u64| Accounting { start: Some((START + seconds) * SECOND), ..monitoring(None) };
    for (theirs, expected) in [
        (late(60), 1),
        (late(61), 2),
        (Accounting { user: Some("bob".into()), ..late(0) }, 2),
        (Accounting { cluster: Some("other".into()), ..late(0) }, 2),
        (Accounting { job: Some("18".into()), ..late(0) }, 2),
        (Accounting { start: None, ..late(0) }, 2),
        // Of another time, and it says so.
        (Accounting { submit: Some((SUBMIT + 1) * SECOND), ..late(0) }, 2),
    ] {
        for order in [[&batch(), &theirs], [&theirs, &batch()]] {
            let mut machine = Machine::new();
            order.into_iter().for_each(|told| assert_eq!(machine.tell(told).older, 0));
            assert_eq!(machine.jobs().len(), expected, "{theirs:?}");
        }
    }
    // Queued again, it keeps its number: the nearest is it.
    let again =
        Accounting { submit: Some((SUBMIT + 30) * SECOND), start: Some((START + 50) * SECOND), ..batch() };
    let mut machine = Machine::new();
    machine.writer.account(&Accounts::of(&[batch(), again, late(40)]).unwrap()).unwrap();
    let smt: Vec<usize> = machine.jobs().iter().map(|exported| exported.job.others.len()).collect();
    assert_eq!(smt, [0, 2]);
}

#[test]
fn a_record_without_a_submission_gives_way_whoever_told_it() {
    let old = Accounting { submit: None, qos: None, wckey: Some("w".into()), ..batch() };
    for order in [[&old, &batch()], [&batch(), &old]] {
        let mut machine = Machine::new();
        order.into_iter().for_each(|told| assert_eq!(machine.tell(told).older, 0));
        assert_eq!(only(&machine), Accounting { wckey: Some("w".into()), ..batch() });
    }
}

#[test]
fn what_people_said_goes_with_a_record_that_gives_way() {
    let mut machine = Machine::new();
    machine.tell(&monitoring(None));
    let (before, tag) = (machine.id(), machine.store.tags().named(ITERATIVE).unwrap().tag.declared.id);
    let said = Assignment {
        id: before,
        tag,
        is_set: true,
        is_personal: false,
        by: "alice".into(),
        by_administrator: false,
        reason: None,
    };
    machine.writer.assign(&said).unwrap();
    machine.writer.add_note(&About::Job(before), "slow", "alice").unwrap();
    machine.tell(&batch());
    assert_ne!(machine.id(), before);
    // Who saw it before, and speaks of it after, speaks of the other.
    machine.writer.add_note(&About::Job(before), "still slow", "alice").unwrap();
    while !machine.writer.judge_due(PIECE).unwrap().is_last {}
    let reader = machine.store.reader().unwrap();
    let which = Notes { job: Some("17".into()), ..Notes::default() };
    assert_eq!(reader.notes(&which).unwrap().len(), 2);
    let what = Explain { filter: machine.filter(), ..Explain::default() };
    let explained = reader.explain_tags(&what).unwrap().unwrap();
    assert_eq!(explained["said"].as_array().unwrap().len(), 1);
    assert_eq!(machine.jobs().len(), 1);
}

/// A series of the job and what is told of it as a whole, as they come with its record.
fn measures() -> Measures {
    let start = (START + 40) * SECOND;
    let job = Job { cluster: Some("tiny".into()), number: "17".into(), submit: None, start: Some(start) };
    let points = (0..3).map(|at| Point { time: start + at * 10 * SECOND, value: at as f64 }).collect();
    let series = Series {
        cluster: Some("tiny".into()),
        host: "n1".into(),
        metric: Name::Own("mem_bw".into()),
        job: Some(job.clone()),
        every: 10 * SECOND,
        points,
        ..Series::default()
    };
    let told = Told { job, metric: Name::Own("acc_power".into()), avg: Some(0.5), ..Told::default() };
    Measures { series: vec![series], told: vec![told] }
}

#[test]
fn what_was_measured_goes_with_a_record_that_gives_way() {
    type Tell = fn(&mut Machine);
    let batch: Tell = |machine| assert_eq!(machine.tell(&batch()).older, 0);
    let record: Tell = |machine| assert_eq!(machine.tell(&monitoring(None)).older, 0);
    let values: Tell = |machine| machine.measure(&measures());
    let bind: Tell = |machine| machine.bind();
    for order in [
        &[record, values, bind, batch][..],
        &[record, values, batch],
        &[batch, record, values],
        &[batch, values, record],
        &[values, batch, record],
        &[batch, record, values, bind, record, values],
    ] {
        let mut machine = Machine::new();
        order.iter().for_each(|tell| tell(&mut machine));
        machine.bind();
        assert_eq!(
            (&machine.metric("mem_bw")["avg"], &machine.metric("mem_bw")["readings"]),
            (&json!(1.0), &json!(3))
        );
        assert_eq!(machine.metric("acc_power")["avg"], 0.5);
        let exported = &machine.jobs()[0];
        assert_eq!((exported.measures.series.len(), exported.measures.told.len()), (1, 1));
        assert_eq!(exported.measures.series[0].points, measures().series[0].points);
    }
}
