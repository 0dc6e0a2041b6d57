//! Sessions of people who logged in: listed beside jobs or instead of them, judged, spoken of, hidden from others, and deleted as jobs are.

#[allow(dead_code, reason = "only what batches are made of is used here")]
mod common;

use common::{HOST, SECOND, batch, entry, image, stream};
use condition::Condition;
use record::accounting::{Accounting, State};
use record::batch::Batch;
use record::entry::{Entry, Place};
use record::measure::{Measures, Name, Point, Series};
use record::metric::id;
use record::reading::{Hardware, JobReading, Reading, Reserved, Values};
use serde_json::{Map, Value, json};
use store::jobs::{FIXED, JobsBy, Page, Period, Tagged, Wanted, Which, column};
use store::notes::{About, Contact};
use store::query::notes::{Cases, Notes};
use store::query::tags::Explain;
use store::sight::Sight;
use store::tags::{Assignment, PIECE};
use store::{Accounts, Filter, Forget, Kind, Kinds, Limits, Site, Store, Writer, prepare};

/// In 2100: a writer that is opened takes the time of now, which must not be later.
const START: u64 = 4_102_473_600 * SECOND;
const ALICES: &str = "session-3.0badcafe@n1";
const BOBS: &str = "sid-4711-1f00.0badcafe@n1";

fn at(second: u64) -> u64 {
    START + second * SECOND
}

/// A session as an agent reads it at a second; it began at zero.
fn session(name: &str, user: &str, uid: u32, end: Option<u64>) -> JobReading {
    let mut values = Values::default();
    values.put(id::CPU, Some(9 * SECOND));
    values.put(id::MEMORY_PEAK, Some(1 << 20));
    values.put(id::JOB_LOAD, Some(1));
    values.put(id::THREADS, Some(1));
    JobReading {
        session: Some(name.into()),
        uid: Some(uid),
        user: Some(user.into()),
        start: at(0),
        end: end.map(at),
        every: 10 * SECOND,
        values,
        ..JobReading::default()
    }
}

fn read(second: u64, jobs: Vec<JobReading>) -> Entry {
    Entry::Reading(Box::new(Reading { time: at(second), host: HOST.into(), jobs, ..Reading::default() }))
}

/// What the agent of the node found it to be made of: two cores with two hardware threads each.
fn hardware(second: u64) -> Entry {
    let hardware = Hardware {
        cores: Some(2),
        threads: Some(4),
        memory: Some(64 << 30),
        cards: vec!["H100".into(), "H100".into()],
        ..Hardware::default()
    };
    let hardware = Some(Box::new(hardware));
    Entry::Reading(Box::new(Reading { time: at(second), host: HOST.into(), hardware, ..Reading::default() }))
}

fn job(number: &str, user: &str, project: &str) -> Accounting {
    Accounting {
        cluster: Some("tiny".into()),
        job: Some(number.into()),
        shown: number.into(),
        user: Some(user.into()),
        account: Some(project.into()),
        submit: Some(at(1)),
        start: Some(at(1)),
        end: Some(at(31)),
        state: Some(State::Completed),
        nodes: Some(1),
        node_list: Some("n1".into()),
        ..Accounting::default()
    }
}

struct Machine {
    dir: tempfile::TempDir,
    site: &'static str,
    store: Store,
    writer: Writer,
    next: u64,
}

fn open(dir: &tempfile::TempDir, site: &str) -> (Store, Writer) {
    let site = Site::parse(&format!("renew_seconds = 60\n{site}")).unwrap();
    let store = Store::open(dir.path(), &Limits::default()).unwrap().with_site(site);
    let writer = store.writer().unwrap();
    (store, writer)
}

impl Machine {
    fn new(site: &'static str) -> Machine {
        let dir = tempfile::tempdir().unwrap();
        let (store, writer) = open(&dir, site);
        Machine { dir, site, store, writer, next: 1 }
    }

    /// As a server that is killed and started again.
    fn again(self) -> Machine {
        let Machine { dir, site, store, writer, next } = self;
        drop((store, writer));
        let (store, writer) = open(&dir, site);
        Machine { dir, site, store, writer, next }
    }

    /// Takes in what agents send, and a minute later makes the rows also of those that run.
    fn take(&mut self, entries: &[Entry], second: u64) {
        self.send(entries, second);
        self.make_rows(second + 61);
    }

    fn send(&mut self, entries: &[Entry], second: u64) {
        let bytes = batch(stream(1), self.next, entries, &[]);
        self.next += entries.len() as u64;
        let prepared = prepare(&Batch::from_bytes(&bytes).unwrap(), &self.writer.catalogue()).unwrap();
        self.writer.apply(vec![prepared], at(second) as i64).unwrap();
    }

    fn make_rows(&mut self, second: u64) {
        let (now, reader) = (at(second) as i64, self.store.reader().unwrap());
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

    fn tell(&mut self, jobs: &[Accounting]) {
        self.writer.account(&Accounts::of(jobs).unwrap()).unwrap();
        self.judge();
    }

    /// Another monitoring system measures the load of the node, which comes to the jobs that were there.
    fn measure_load(&mut self, seconds: &[u64]) {
        let point = |second: &u64| Point { time: at(*second), value: 50.0 };
        let series = Series {
            host: HOST.into(),
            metric: Name::Ours("node_load".into()),
            every: 10 * SECOND,
            points: seconds.iter().map(point).collect(),
            ..Series::default()
        };
        let (now, reader) = (at(1_000) as i64, self.store.reader().unwrap());
        self.writer.measure(&Measures { series: vec![series], told: Vec::new() }, now).unwrap();
        let arrived = self.writer.arrived();
        self.writer.late(&reader.late_jobs(&arrived).unwrap(), now).unwrap();
        let due = self.writer.due_measures(now + 10 * SECOND as i64);
        self.writer.keep_bound(&reader.bind(&due).unwrap(), now).unwrap();
    }

    fn judge(&mut self) {
        while !self.writer.judge_due(PIECE).unwrap().is_last {}
    }

    fn rows(&self, which: &Which, sight: &Sight, columns: &[&str]) -> Vec<Map<String, Value>> {
        let columns = columns.iter().map(|name| column(name).unwrap().clone()).collect();
        let sort = column("job").unwrap().clone();
        let page = Page { columns, sort, is_ascending: true, limit: None, after: None };
        let reader = self.store.reader_with(sight).unwrap();
        let rows = reader.jobs(which, &page).unwrap().rows();
        assert_eq!(reader.count_jobs(which).unwrap(), rows.len() as u64, "{which:?}");
        rows
    }

    /// The names of those that are found, in their order.
    fn listed(&self, which: &Which) -> Vec<String> {
        let rows = self.rows(which, &Sight::All, &["job"]);
        rows.iter().map(|row| row["job"].as_str().unwrap().to_owned()).collect()
    }

    fn of(&self, name: &str, what: &str) -> Value {
        let rows = self.rows(&of_kind(Kinds::All), &Sight::All, &["job", what]);
        rows.iter().find(|row| row["job"] == name).unwrap_or_else(|| panic!("no {name}"))[what].clone()
    }

    fn having(&self, tag: &str) -> Vec<String> {
        let declared = self.store.tags().seen_by(&Sight::All);
        let all = vec![Wanted::of(&declared, declared.named(tag).unwrap())];
        self.listed(&Which { tagged: Tagged { all, ..Tagged::default() }, ..Which::default() })
    }

    fn explained(&self, name: &str) -> Value {
        let filter = Filter { job: Some(name.into()), ..Filter::default() };
        let what = Explain { filter, why_not: true, ..Explain::default() };
        self.store.reader().unwrap().explain_tags(&what).unwrap().unwrap()
    }

    fn id(&self, name: &str) -> Option<u64> {
        let filter = Filter { job: Some(name.into()), ..Filter::default() };
        Some(self.store.reader().unwrap().owned(&filter).unwrap()?.id)
    }
}

fn of_kind(kinds: Kinds) -> Which {
    Which { kinds, ..Which::default() }
}

fn for_which(condition: &str) -> Which {
    let condition = Condition::parse(condition, &FIXED.catalogue).unwrap_or_else(|error| panic!("{error}"));
    Which { conditions: vec![condition], ..Which::default() }
}

#[test]
fn sessions_of_people_are_listed_and_services_are_not() {
    let mut machine = Machine::new("");
    let all = vec![
        session(ALICES, "alice", 1000, None),
        session(BOBS, "bob", 1001, Some(9)),
        session("sid-1-9.0badcafe@n1", "root", 0, Some(9)),
        // A daemon where there is no systemd, and services where there is.
        session("sid-77-1.0badcafe@n1", "www-data", 33, Some(9)),
        session("cron.0badcafe@n1", "root", 0, Some(9)),
        session("user@1000.0badcafe@n1", "alice", 1000, Some(9)),
        session("docker-0123.0badcafe@n1", "root", 0, Some(9)),
    ];
    machine.take(&[read(10, all)], 100);
    assert_eq!(machine.listed(&Which::default()), [ALICES, "sid-1-9.0badcafe@n1", BOBS]);
    let rows = machine.rows(&for_which("user = 'alice'"), &Sight::All, &["kind", "job_id", "state", "end"]);
    assert_eq!(rows[0]["kind"], "session");
    assert_eq!(
        (&rows[0]["job_id"], &rows[0]["state"], &rows[0]["end"]),
        (&json!(ALICES), &json!("RUNNING"), &Value::Null)
    );
    // It has ended: how, nobody knows.
    machine.take(&[read(81, vec![session(ALICES, "alice", 1000, Some(80))])], 200);
    assert_eq!((machine.of(ALICES, "state"), machine.of(ALICES, "elapsed_s")), (Value::Null, json!(80.0)));
    assert_eq!(machine.listed(&Which::default()).len(), 3);
}

#[test]
fn jobs_are_meant_where_a_batch_system_has_told_of_any() {
    let mut machine = Machine::new("");
    machine.take(
        &[read(10, vec![session(ALICES, "alice", 1000, None), session(BOBS, "bob", 1001, Some(9))])],
        100,
    );
    let (jobs, sessions) = (of_kind(Kinds::Only(Kind::Job)), of_kind(Kinds::Only(Kind::Session)));
    assert_eq!(machine.listed(&Which::default()), [ALICES, BOBS], "there is nothing else");
    assert_eq!(machine.listed(&jobs), [""; 0]);
    machine.tell(&[job("17", "alice", "physics")]);
    for is_again in [false, true] {
        assert_eq!(machine.listed(&Which::default()), ["17"], "{is_again}");
        assert_eq!(machine.listed(&jobs), ["17"], "{is_again}");
        assert_eq!(machine.listed(&sessions), [ALICES, BOBS], "{is_again}");
        assert_eq!(machine.listed(&of_kind(Kinds::All)), ["17", ALICES, BOBS], "{is_again}");
        // Who names the kind means what they say.
        assert_eq!(machine.listed(&for_which("kind = 'session' and user = 'alice'")), [ALICES]);
        assert_eq!(machine.listed(&for_which("user = 'alice'")), ["17"]);
        let groups =
            machine.store.reader().unwrap().group_jobs(&Which::default(), JobsBy::Kind, None).unwrap();
        let mut groups: Vec<_> =
            groups.iter().map(|row| (row["kind"].clone(), row["jobs"].clone())).collect();
        groups.sort_by_key(|(kind, _)| kind.to_string());
        assert_eq!(groups, [(json!("job"), json!(1)), (json!("session"), json!(2))]);
        machine = machine.again();
    }
    // What a batch system tells never takes the place of a session.
    machine.tell(&[Accounting { cluster: None, ..job(BOBS, "bob", "physics") }]);
    assert_eq!(machine.listed(&sessions), [ALICES, BOBS]);
}

/// A kind that is not there is told with the one that may be meant.
#[test]
fn a_kind_that_there_is_not_is_an_error() {
    let error = Condition::asked("kind = 'sesion'", &FIXED.catalogue).unwrap_err().to_string();
    assert!(error.contains("session"), "{error}");
    assert!(Condition::asked("kind = 'session'", &FIXED.catalogue).is_ok());
}

#[test]
fn a_session_has_the_whole_machine() {
    let has = |machine: &Machine| ["cores", "memory", "gpus"].map(|what| machine.of(ALICES, what));
    // What its programs say of themselves does not count.
    let says = Reserved { cpus: Some(1), memory: Some(5), gpus: None };
    let running = || JobReading { reserved: Some(says), ..session(ALICES, "alice", 1000, None) };
    let measured = [json!(4), json!(64u64 << 30), json!(2)];
    let mut machine = Machine::new("");
    machine.take(&[read(10, vec![running()])], 100);
    assert_eq!(has(&machine), [Value::Null, Value::Null, Value::Null], "nobody has said what it is");
    // Said later, it is known; and it stays when the row is made anew.
    machine.take(&[hardware(20)], 110);
    assert_eq!(has(&machine), measured);
    machine.take(&[read(81, vec![session(ALICES, "alice", 1000, Some(80))])], 200);
    assert_eq!(has(&machine), measured);
    assert_eq!(machine.of(ALICES, "requested_cores"), Value::Null);
    let filter = Filter { job: Some(ALICES.into()), ..Filter::default() };
    let found = machine.store.reader().unwrap().job(&filter, at(300) as i64).unwrap().unwrap();
    assert_eq!(
        found["resources"]["reserved"],
        json!({"cpus": 4, "memory": 64u64 << 30, "gpus": 2, "from": "machine"})
    );
    // What the site says counts more.
    for (site, is_measured, expected) in [
        ("[[nodes]]\nnames = 'n*'\ncores = 8\n", false, [json!(8), Value::Null, Value::Null]),
        (
            "[[nodes]]\nnames = 'n*'\ncores = 8\nmemory = 1e9\ngpus = 0\n",
            true,
            [json!(16), json!(1_000_000_000), json!(0)],
        ),
        ("[[nodes]]\nnames = 'n*'\ncores = 8\n", true, [json!(16), measured[1].clone(), measured[2].clone()]),
    ] {
        let mut machine = Machine::new(site);
        let known = is_measured.then(|| hardware(5));
        machine.take(&known.into_iter().chain([read(10, vec![running()])]).collect::<Vec<_>>(), 100);
        assert_eq!(has(&machine), expected, "{site} {is_measured}");
    }
}

#[test]
fn what_was_requested_decides_nothing_about_a_session() {
    let mut machine = Machine::new("");
    machine.take(&[hardware(5), read(10, vec![session(ALICES, "alice", 1000, None)])], 100);
    machine.take(&[read(81, vec![session(ALICES, "alice", 1000, Some(80))])], 200);
    let explained = machine.explained(ALICES);
    assert_eq!(explained["kind"], "session");
    let tags = explained["tags"].as_array().unwrap();
    let of = |name: &str| tags.iter().find(|tag| tag["tag"] == name).unwrap_or_else(|| panic!("no {name}"));
    for name in [
        // It had 64 GiB and used a megabyte.
        "job_memory UNUSED",
        "job_threads TOO FEW",
        "job_time_limit CUSTOM",
        "job_time_limit TOO LONG",
        "job_cores_requested FEW",
        "job_cores_requested SINGLE",
        "job_duration SHORT",
        "job_status COMPLETED",
        "job_status FAILED",
        "job_status TIMEOUT",
        "job_partition EXCEPT TEST",
        "job_priority HIGH",
        "job_disks UNUSED",
    ] {
        assert_eq!((&of(name)["has"], &of(name)["holds_now"]), (&json!(false), &Value::Null), "{name}");
    }
    assert_eq!(of("job_memory UNUSED")["steps"][0]["text"], "about batch jobs only");
    assert!(!tags.iter().filter(|tag| tag["has"] == true).any(|tag| tag.to_string().contains("--mem")));
    // What it did of its own is judged by all it had.
    assert_eq!(of("job_nnodes SINGLE")["has"], true);
    assert_eq!(machine.having("avg_LA SINGLE CORE"), [ALICES]);
    let util = machine.of(ALICES, "cpu_util_avg").as_f64().unwrap();
    assert!((0.0..30.0).contains(&util), "{util}");
    // The shares of what could be decided say so, too.
    let listed = machine.store.reader().unwrap().tag_list(Period::default()).unwrap();
    let decided = |name: &str| listed.iter().find(|row| row["tag"] == name).unwrap()["decided_jobs"].clone();
    assert_eq!((decided("job_memory UNUSED"), decided("job_nnodes SINGLE")), (json!(0), json!(1)));
}

/// It has all processors of the node, and that does not keep others from it.
#[test]
fn values_of_a_node_count_for_a_session_that_was_alone_on_it() {
    let mut machine = Machine::new("");
    let alone = session(ALICES, "alice", 1000, Some(9));
    let beside = JobReading { is_shared: true, ..session(BOBS, "bob", 1001, Some(9)) };
    machine.take(&[hardware(5), read(10, vec![alone, beside])], 100);
    assert_eq!(
        (machine.of(ALICES, "shared_node"), machine.of(BOBS, "shared_node")),
        (json!(false), json!(true))
    );
}

/// Whoever looks after a job does not share its node: what others measured there stays the job's.
#[test]
fn a_session_beside_a_batch_job_does_not_share_its_node() {
    let mut machine = Machine::new("");
    let told = Accounting { cluster: None, ..job("17", "alice", "physics") };
    machine.tell(&[told]);
    machine.take(&[read(10, vec![session(ALICES, "alice", 1000, Some(9))])], 100);
    machine.measure_load(&[20, 30]);
    assert_eq!((machine.of("17", "shared_node"), machine.of("17", "load_avg")), (json!(false), json!(0.5)));
}

#[test]
fn a_session_is_seen_by_its_user_and_those_who_see_all() {
    let mut machine = Machine::new("");
    machine.tell(&[job("17", "alice", "physics"), job("18", "bob", "physics")]);
    machine.take(
        &[read(10, vec![session(ALICES, "alice", 1000, None), session(BOBS, "bob", 1001, Some(9))])],
        100,
    );
    for name in [ALICES, BOBS] {
        machine.writer.add_note(&About::Job(machine.id(name).unwrap()), "slow", "ada").unwrap();
    }
    let own = |user: &str, projects: &[&str]| {
        let projects: Vec<String> = projects.iter().map(|name| (*name).to_owned()).collect();
        Sight::Own { user: user.into(), member_of: projects.clone(), projects }
    };
    for (sight, expected) in [
        (own("alice", &[]), vec![ALICES]),
        // A session is of no project.
        (own("alice", &["physics"]), vec![ALICES]),
        (own("bob", &["physics"]), vec![BOBS]),
        (own("eve", &["physics"]), vec![]),
        (Sight::Support { user: "sven".into(), member_of: vec![] }, vec![ALICES, BOBS]),
        (Sight::Administrator { user: "ada".into() }, vec![ALICES, BOBS]),
    ] {
        for which in [of_kind(Kinds::Only(Kind::Session)), for_which("kind = 'session'")] {
            let rows = machine.rows(&which, &sight, &["job", "cpu_avg"]);
            let names: Vec<&str> = rows.iter().map(|row| row["job"].as_str().unwrap()).collect();
            assert_eq!(names, expected, "{sight:?}");
        }
        let reader = machine.store.reader_with(&sight).unwrap();
        let groups = reader.group_jobs(&of_kind(Kinds::Only(Kind::Session)), JobsBy::User, None).unwrap();
        assert_eq!(groups.len(), expected.len(), "{sight:?}");
        assert_eq!(reader.notes(&Notes::default()).unwrap().len(), expected.len(), "{sight:?}");
        for name in [ALICES, BOBS] {
            let filter = Filter { job: Some(name.into()), ..Filter::default() };
            let is_seen = expected.contains(&name);
            assert_eq!(reader.owned(&filter).unwrap().is_some(), is_seen, "{sight:?} {name}");
            let what = Explain { filter, ..Explain::default() };
            assert_eq!(reader.explain_tags(&what).unwrap().is_some(), is_seen, "{sight:?} {name}");
        }
    }
}

#[test]
fn people_speak_of_sessions_as_of_jobs() {
    let mut machine = Machine::new("");
    machine.take(&[read(10, vec![session(ALICES, "alice", 1000, None)])], 100);
    let id = machine.id(ALICES).unwrap();
    let iterative = machine.store.tags().named("job_behavior ITERATIVE").unwrap().tag.declared.id;
    let said = Assignment {
        id,
        tag: iterative,
        is_set: true,
        is_personal: false,
        by: "alice".into(),
        by_administrator: false,
        reason: None,
    };
    machine.writer.assign(&said).unwrap();
    machine.writer.add_note(&About::Job(id), "slow", "alice").unwrap();
    let about = Contact { user: "alice".into(), job: Some(id), reason: "holds the GPUs".into() };
    machine.writer.open_case(&about, "sven").unwrap();
    // Its row is made anew, and its user is told by another name: it stays the same session.
    machine.take(&[read(81, vec![session(ALICES, "alicia", 1000, Some(80))])], 200);
    assert_eq!(machine.id(ALICES), Some(id));
    assert_eq!(machine.having("job_behavior ITERATIVE"), [ALICES]);
    let reader = machine.store.reader().unwrap();
    let which = Notes { job: Some(ALICES.into()), ..Notes::default() };
    assert_eq!(reader.notes(&which).unwrap().len(), 1);
    let cases = reader.cases(&Cases::default()).unwrap();
    assert_eq!((cases.len(), &cases[0]["job"]), (1, &json!(ALICES)));
}

/// By what its programs loaded and ran; whoever calls their own job as it is called has no part in it.
#[test]
fn rules_about_software_know_the_programs_of_a_session() {
    let mut machine = Machine::new("");
    let program = |pid: u32, exe: &str, place: Place| {
        let mut image = image(pid, exe);
        (image.start, image.end) = (at(2), Some(at(5)));
        (image.user, image.uid) = (Some("alice".into()), Some(1000));
        image.place = place;
        entry(image)
    };
    let of_session = Place { session: Some(ALICES.into()), ..Place::default() };
    let claimed = Place { job: Some(ALICES.into()), ..Place::default() };
    let entries = [
        program(1, "/opt/bin/gmx_mpi", of_session),
        program(2, "/opt/bin/vasp_std", claimed),
        read(10, vec![session(ALICES, "alice", 1000, Some(9))]),
    ];
    machine.take(&entries, 100);
    assert_eq!(machine.having("job_sw GROMACS"), [ALICES]);
    assert_eq!(machine.having("job_sw VASP"), [""; 0]);
    assert_eq!(machine.listed(&for_which("runs('gmx*')")), [ALICES]);
    assert_eq!(machine.listed(&for_which("runs('vasp*')")), [""; 0]);
    assert_eq!(machine.listed(&for_which("not runs('vasp*')")), [ALICES]);
    // The programs themselves are shown as they were.
    let filter = Filter { exe: Some("gmx_mpi".into()), ..Filter::default() };
    let processes = machine.store.reader().unwrap().processes(&filter).unwrap().rows();
    assert_eq!((&processes[0]["job"], &processes[0]["session"]), (&Value::Null, &json!(ALICES)));
    let groups =
        machine.store.reader().unwrap().group_jobs(&Which::default(), JobsBy::Program, None).unwrap();
    assert_eq!((groups.len(), &groups[0]["program"]), (1, &json!("gmx_mpi")));
}

/// A job that somebody calls as a session is called has a row of its own, and what was measured of it is not the session's.
#[test]
fn a_job_with_the_name_of_a_session_is_another() {
    let mut machine = Machine::new("");
    let mut values = Values::default();
    values.put(id::MEMORY_PEAK, Some(7));
    let claimed = JobReading {
        job: Some(ALICES.into()),
        session: None,
        user: Some("eve".into()),
        uid: Some(1002),
        start: at(1),
        values,
        ..session(ALICES, "eve", 1002, Some(9))
    };
    let entries = [read(10, vec![session(ALICES, "alice", 1000, Some(9)), claimed])];
    machine.take(&entries, 100);
    let rows = machine.rows(&of_kind(Kinds::All), &Sight::All, &["kind", "user", "memory_peak_last"]);
    let mut found: Vec<_> = rows
        .iter()
        .map(|row| (row["kind"].clone(), row["user"].clone(), row["memory_peak_last"].clone()))
        .collect();
    found.sort_by_key(|(kind, ..)| kind.to_string());
    assert_eq!(
        found,
        [(json!("job"), json!("eve"), json!(7)), (json!("session"), json!("alice"), json!(1 << 20))]
    );
    // Who speaks of it by its name speaks of the session.
    assert_eq!(machine.explained(ALICES)["user"], "alice");
    // Each is made anew without the other.
    machine.take(&[read(20, vec![session(ALICES, "alice", 1000, Some(19))])], 200);
    assert_eq!(machine.rows(&of_kind(Kinds::All), &Sight::All, &["kind"]).len(), 2);
    assert_eq!(
        machine.store.reader().unwrap().short_jobs(&Filter::default(), store::Per::Day).unwrap()[0]["jobs"],
        1
    );
}

#[test]
fn a_session_that_runs_is_not_forgotten_when_the_server_is_started_again() {
    let mut machine = Machine::new("");
    machine.send(&[read(10, vec![session(ALICES, "alice", 1000, None)])], 10);
    assert_eq!(machine.listed(&Which::default()), [""; 0], "its row is made a minute later");
    machine = machine.again();
    machine.make_rows(100);
    assert_eq!(machine.listed(&Which::default()), [ALICES]);
    machine = machine.again();
    // Nothing was heard of it for so long that nobody knows.
    machine.make_rows(10_000);
    assert_eq!(machine.of(ALICES, "state"), Value::Null);
}

#[test]
fn sessions_are_deleted_as_jobs_are() {
    let mut machine = Machine::new("");
    let both = vec![session(ALICES, "alice", 1000, Some(80)), session(BOBS, "bob", 1001, Some(80))];
    machine.take(&[read(81, both), read(90, vec![session("sid-5-1.0badcafe@n1", "carl", 1002, None)])], 200);
    machine.writer.add_note(&About::Job(machine.id(BOBS).unwrap()), "slow", "ada").unwrap();
    machine.writer.forget(&Forget::User("alice".into())).unwrap();
    assert_eq!(machine.listed(&Which::default()), [BOBS, "sid-5-1.0badcafe@n1"]);
    machine.writer.forget_jobs(at(70) as i64).unwrap();
    assert_eq!(machine.listed(&Which::default()).len(), 2);
    machine.writer.forget_jobs(at(85) as i64).unwrap();
    assert_eq!(machine.listed(&Which::default()), ["sid-5-1.0badcafe@n1"], "it has no end yet");
    assert_eq!(machine.store.reader().unwrap().notes(&Notes::default()).unwrap().len(), 0);
    // One that never ended, as far as anybody heard, goes with what was measured of it.
    machine.writer.forget_jobs(at(1_000_000) as i64).unwrap();
    assert_eq!(machine.listed(&Which::default()), [""; 0]);
}

/// A run over the whole collection judges them, too.
#[test]
fn a_run_goes_through_sessions() {
    let mut machine = Machine::new("");
    machine.tell(&[job("17", "alice", "physics")]);
    machine.take(&[read(10, vec![session(ALICES, "alice", 1000, Some(9))])], 100);
    let run = machine.writer.begin_run(None, None).unwrap();
    let mut judged = 0;
    loop {
        let piece = machine.writer.judge_piece(PIECE).unwrap();
        judged += piece.jobs;
        if piece.is_last {
            break;
        }
    }
    assert_eq!((run.jobs, judged), (2, 2));
    assert_eq!(machine.explained(ALICES)["is_judged"], true);
}
