//! Programs that are reported while they run: once each, whatever comes first.

#[allow(dead_code, reason = "no file is looked at here")]
mod common;

use common::{HOST, SECOND, batch, entry, image, library, list, stream};
use proptest::prelude::*;
use record::batch::Batch;
use record::entry::{EndedBy, Entry, Gap, GapReason, Health, Image, ImageKey, RankUse, Used};
use serde_json::{Map, Value, json};
use store::sight::Sight;
use store::{Filter, Forget, GroupBy, Limits, Reader, Rules, Store, Writer, prepare};

type Row = Map<String, Value>;

/// A program as it is reported while it runs.
fn report(pid: u32, exe: &str) -> Image {
    let start = image(pid, exe).start;
    Image {
        end: None,
        ended_by: EndedBy::Unknown,
        exit_code: None,
        used: Used::default(),
        running_at: Some(start + 60 * SECOND),
        ..image(pid, exe)
    }
}

/// The same when it has ended.
fn end(pid: u32, exe: &str) -> Image {
    Image { reported: true, ..image(pid, exe) }
}

fn rank(rank: u32, pid: u32) -> RankUse {
    let start = image(pid, "").start;
    let key = Some(ImageKey { pid, process_start: start, exec: 1 });
    RankUse { rank, pid, start, end: None, used: Used::default(), count: 1, key }
}

/// A row of these ranks.
fn folded(of: Image, ranks: &[(u32, u32)]) -> Image {
    let ranks: Vec<RankUse> = ranks.iter().map(|(number, pid)| rank(*number, *pid)).collect();
    Image { count: ranks.len() as u64, ranks, ..of }
}

/// What an agent writes, in the order in which it does.
fn history() -> Vec<Entry> {
    vec![
        entry(report(10, "/bin/a")),
        entry(folded(report(20, "/bin/mpi"), &[(0, 20), (1, 21), (2, 22)])),
        entry(Image { signal: Some(11), ..folded(end(21, "/bin/mpi"), &[(1, 21)]) }),
        // It has loaded more.
        entry(Image { late_objects: Some(3), ..report(10, "/bin/a") }),
        entry(report(30, "/bin/c")),
        entry(image(40, "/bin/short")),
        entry(end(10, "/bin/a")),
        entry(folded(end(20, "/bin/mpi"), &[(0, 20), (2, 22)])),
    ]
}

struct Bench {
    dir: tempfile::TempDir,
    store: Store,
    writer: Writer,
}

impl Bench {
    fn new() -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &Limits::default()).unwrap();
        let writer = store.writer().unwrap();
        Bench { dir, store, writer }
    }

    /// Entries as one batch.
    fn tell(&mut self, first: u64, entries: &[Entry]) {
        self.tell_by(1, first, entries);
    }

    fn tell_by(&mut self, by: u8, first: u64, entries: &[Entry]) {
        let libraries = vec![library("/bin/x", None), library("/lib/libx.so", None)];
        let context = [list(2, libraries), list(3, vec![library("/lib/late.so", None)])];
        let bytes = batch(stream(by), first, entries, &context);
        let prepared = prepare(&Batch::from_bytes(&bytes).unwrap(), &self.writer.catalogue()).unwrap();
        self.writer.apply(vec![prepared], 1).unwrap();
    }

    /// The agent is heard now, or so many seconds before.
    fn hear(&mut self, by: u8, first: u64, seconds_ago: u64) {
        let time = now() - seconds_ago * SECOND;
        let health = Health { time, host: HOST.into(), ..Health::default() };
        self.tell_by(by, first, &[Entry::Health(health)]);
    }

    fn reader(&self) -> Reader {
        self.store.reader().unwrap()
    }

    fn rows(&self, filter: &Filter) -> Vec<Row> {
        self.reader().processes(filter).unwrap().rows()
    }

    /// Process number, how many, and how far.
    fn said(&self, filter: &Filter) -> Vec<(u64, u64, String)> {
        let said = |row: &Row| {
            let number = |name: &str| row[name].as_u64().unwrap();
            (number("pid"), number("count"), row["state"].as_str().unwrap().to_owned())
        };
        self.rows(filter).iter().map(said).collect()
    }
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// What is there when everything until an entry has come in order.
fn in_order(until: usize) -> Vec<Row> {
    let mut bench = Bench::new();
    for (entry, number) in history()[..until].iter().zip(1..) {
        bench.tell(number, std::slice::from_ref(entry));
    }
    bench.rows(&Filter::default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Batches come late, twice and overlapping, and the server is stopped in between.
    #[test]
    fn any_order_of_arrival_gives_the_same_rows(
        until in 1usize..=8,
        order in Just((0usize..8).collect::<Vec<_>>()).prop_shuffle(),
        again in proptest::collection::vec((0usize..8, 1usize..4), 0..6),
        restart: prop::sample::Index,
    ) {
        let history = history();
        let mut bench = Bench::new();
        let once = order.into_iter().map(|at| (at, 1));
        let batches: Vec<(usize, usize)> = again.iter().copied().chain(once).filter(|(at, _)| *at < until).collect();
        let restart = restart.index(batches.len());
        for (place, (at, count)) in batches.into_iter().enumerate() {
            if place == restart {
                drop(bench.writer);
                bench.writer = bench.store.writer().unwrap();
            }
            bench.tell(at as u64 + 1, &history[at..(at + count).min(until)]);
        }
        prop_assert_eq!(bench.rows(&Filter::default()), in_order(until));
        let _ = bench.dir;
    }
}

#[test]
fn a_program_is_there_once_while_it_runs_and_after_it_has_ended() {
    let mut bench = Bench::new();
    let history = history();
    bench.tell(1, &history[..3]);
    let running = |pid, count| (pid, count, "unheard".to_owned());
    let ended = |pid, count| (pid, count, "ended".to_owned());
    let all = Filter::default();
    assert_eq!(bench.said(&all), [running(10, 1), running(20, 2), ended(21, 1)]);
    let rows = bench.rows(&all);
    assert_eq!(
        (&rows[0]["end"], &rows[0]["ended_by"], &rows[0]["user_cpu_s"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!((&rows[0]["argv"][0], &rows[0]["modules"]), (&json!("/bin/a"), &json!(["gcc/12"])));
    let ranks: Vec<&Value> = rows[1]["ranks"].as_array().unwrap().iter().map(|rank| &rank["rank"]).collect();
    assert_eq!(ranks, [&json!(0), &json!(2)], "the second has crashed");
    bench.tell(4, &history[3..]);
    assert_eq!(bench.said(&all), [ended(10, 1), ended(20, 2), ended(21, 1), running(30, 1), ended(40, 1)]);
}

#[test]
fn a_program_runs_while_its_agent_is_heard() {
    let gap = |reason| Entry::Gap(Gap { from: 1, to: 2, reason, forks: None, events: None, images: None });
    let state = |bench: &Bench| bench.said(&Filter::default())[0].2.clone();
    let mut bench = Bench::new();
    bench.tell(1, &[entry(report(10, "/bin/a"))]);
    assert_eq!(state(&bench), "unheard");
    bench.hear(1, 2, 7200);
    assert_eq!(state(&bench), "unheard", "that was two hours ago");
    bench.hear(1, 3, 30);
    assert_eq!(state(&bench), "running");
    bench.tell(4, &[gap(GapReason::EventsLost), gap(GapReason::SpoolFull)]);
    assert_eq!(state(&bench), "running", "the agent has looked what still runs");
    bench.tell(6, &[gap(GapReason::AgentKilled)]);
    assert_eq!(state(&bench), "unheard", "the agent was away and has not said that it still runs");
    bench.tell(7, &[entry(report(10, "/bin/a"))]);
    assert_eq!(state(&bench), "running");
    // The node was set up anew, and its spool is gone.
    bench.hear(2, 1, 0);
    assert_eq!(state(&bench), "unheard");
    bench.tell_by(2, 2, &[entry(end(10, "/bin/a"))]);
    assert_eq!(bench.said(&Filter::default()), [(10, 1, "ended".to_owned())]);
}

#[test]
fn filters_find_what_runs() {
    let mut bench = Bench::new();
    bench.tell(1, &[entry(report(10, "/bin/a")), entry(image(11, "/bin/b"))]);
    let failed = Image { exit_code: Some(3), ..image(12, "/bin/c") };
    bench.tell(3, &[entry(failed), entry(report(13, "/bin/d"))]);
    let pids = |bench: &Bench, filter: Filter| -> Vec<u64> {
        bench.said(&filter).into_iter().map(|(pid, ..)| pid).collect()
    };
    let filter = Filter::default;
    let job = |name: &str| Some(name.to_owned());
    assert_eq!(pids(&bench, Filter { is_running: true, ..filter() }), [0u64; 0], "nobody is heard");
    bench.hear(1, 5, 0);
    for (filter, expected) in [
        (filter(), &[10, 11, 12, 13][..]),
        (Filter { is_running: true, ..filter() }, &[10, 13]),
        (Filter { is_failed: true, ..filter() }, &[12]),
        (Filter { exe: job("d"), ..filter() }, &[13]),
        (Filter { job: job("17"), ..filter() }, &[10, 11, 12, 13]),
        (Filter { job: job("17"), is_running: true, ..filter() }, &[10, 13]),
        (Filter { job: job("18"), ..filter() }, &[]),
        (Filter { user: job("bob"), ..filter() }, &[]),
        // What runs now began before, and is not over.
        (Filter { since_ns: Some(now() as i64 - 1), ..filter() }, &[10, 11, 12, 13]),
        (Filter { limit: Some(3), ..filter() }, &[10, 11, 12]),
    ] {
        assert_eq!(pids(&bench, filter.clone()), expected, "{filter:?}");
    }
    // Of long ago, only what runs is left.
    let mut long_ago = Bench::new();
    let old = |of: Image| Image {
        start: SECOND,
        end: of.end.map(|_| 2 * SECOND),
        running_at: of.running_at.map(|_| 2 * SECOND),
        ..of
    };
    long_ago.tell(1, &[entry(old(report(10, "/bin/a"))), entry(old(image(11, "/bin/b")))]);
    let since = Filter { since_ns: Some(now() as i64 - SECOND as i64), ..filter() };
    assert_eq!(pids(&long_ago, since.clone()), [0u64; 0]);
    long_ago.hear(1, 3, 0);
    assert_eq!(pids(&long_ago, since), [10]);
}

#[test]
fn a_job_of_which_nothing_has_ended_is_a_tree() {
    let mut bench = Bench::new();
    let child = Image { ppid: Some(10), ..report(11, "/bin/b") };
    bench.tell(1, &[entry(report(10, "/bin/sh")), entry(child)]);
    bench.hear(1, 3, 0);
    let reader = bench.reader();
    assert!(reader.knows_job("17").unwrap() && !reader.knows_job("18").unwrap());
    let filter = Filter { job: Some("17".into()), ..Filter::default() };
    let job = reader.job(&filter, 1).unwrap().unwrap();
    let processes = job["processes"].as_array().unwrap();
    assert_eq!((&processes[1]["parent"], &processes[1]["state"]), (&json!(0), &json!("running")));
    assert_eq!((&job["rows"], &job["last_seen"]), (&json!(2), &Value::Null));
}

#[test]
fn a_list_goes_on_over_what_has_ended_and_what_runs() {
    let mut bench = Bench::new();
    let entries: Vec<Entry> = (10..40)
        .map(|pid| entry(if pid % 3 == 0 { report(pid, "/bin/a") } else { image(pid, "/bin/b") }))
        .collect();
    bench.tell(1, &entries);
    bench.tell(31, &[entry(folded(report(50, "/bin/mpi"), &[(0, 50), (1, 51)]))]);
    let expected: Vec<u64> = (10..40).chain([50]).collect();
    for limit in [1, 2, 7, 30, 31, 100] {
        let (mut pids, mut after) = (Vec::new(), None);
        loop {
            let filter = Filter { limit: Some(limit), after, ..Filter::default() };
            let listed = bench.reader().processes(&filter).unwrap();
            let next = listed.next().map(|next| store::After::parse(next, 3).unwrap());
            pids.extend(listed.rows().iter().map(|row| row["pid"].as_u64().unwrap()));
            after = next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(pids, expected, "{limit}");
    }
}

/// Whatever is counted is the same before the end and after it.
#[test]
fn nothing_is_counted_twice() {
    let rules =
        Rules::parse("[[rule]]\nid = 'a'\nsays = ''\nadvice = ''\nvariable = 'OMP_NUM_THREADS'\n").unwrap();
    let rules: Vec<_> = rules.iter().cloned().collect();
    let filter = Filter::default();
    let counted = |bench: &Bench| -> Vec<(Value, Value)> {
        let reader = bench.reader();
        let mut rows = reader.programs(&filter).unwrap();
        rows.extend(reader.libraries(&filter).unwrap());
        rows.extend(reader.modules(&filter).unwrap());
        rows.extend(reader.uses("libx*", GroupBy::Job, &filter).unwrap());
        rows.extend(reader.uses("libx*", GroupBy::Library, &filter).unwrap());
        rows.extend(reader.check_environments(&rules, &filter).unwrap().0);
        rows.into_iter().map(|row| (row["runs"].clone(), row["jobs"].clone())).collect()
    };
    let with_list = |of: Image| Image { objects: Some(2), ..of };
    let ranks = [(0, 20), (1, 21), (2, 22)];
    let mut bench = Bench::new();
    bench.tell(1, &[entry(with_list(folded(report(20, "/bin/mpi"), &ranks)))]);
    let while_it_runs = counted(&bench);
    assert_eq!(while_it_runs, vec![(json!(3), json!(1)); 6]);
    bench.tell(2, &[entry(with_list(folded(end(21, "/bin/mpi"), &[(1, 21)])))]);
    assert_eq!(counted(&bench), while_it_runs);
    bench.tell(3, &[entry(with_list(folded(end(20, "/bin/mpi"), &[(0, 20), (2, 22)])))]);
    assert_eq!(counted(&bench), while_it_runs);
    let programs = bench.reader().programs(&filter).unwrap();
    assert_eq!(programs[0]["cpu_hours"], json!(10.0 / 3600.0), "what has run has used something");
}

#[test]
fn who_may_not_see_a_process_does_not_see_that_it_runs() {
    let mut bench = Bench::new();
    bench.tell(1, &[entry(report(10, "/bin/a"))]);
    bench.hear(1, 2, 0);
    let own = |user: &str| Sight::Own { user: user.into(), projects: vec![], member_of: vec![] };
    let support = Sight::Support { user: "sven".into(), member_of: vec![] };
    for (sight, expected) in [(own("alice"), 1), (own("bob"), 0), (support, 1)] {
        let reader = bench.store.reader_with(&sight).unwrap();
        let running = Filter { is_running: true, ..Filter::default() };
        let rows = reader.processes(&running).unwrap().rows();
        assert_eq!(rows.len(), expected, "{sight:?}");
        assert_eq!(reader.programs(&Filter::default()).unwrap().len(), expected, "{sight:?}");
        assert!(rows.iter().all(|row| row["env"] == json!({"OMP_NUM_THREADS": "4"})));
        assert_eq!(reader.knows_job("17").unwrap(), expected == 1, "{sight:?}");
    }
}

#[test]
fn what_is_forgotten_does_not_run() {
    let mut bench = Bench::new();
    let bobs = Image { user: Some("bob".into()), uid: Some(7), ..report(11, "/bin/b") };
    bench.tell(1, &[entry(report(10, "/bin/a")), entry(bobs)]);
    bench.writer.forget(&Forget::User("alice".into())).unwrap();
    assert_eq!(bench.said(&Filter::default()).iter().map(|row| row.0).collect::<Vec<_>>(), [11]);
    assert_eq!(bench.rows(&Filter::default())[0]["modules"], json!(["gcc/12"]), "that is still needed");
    bench.hear(1, 3, 0);
    let long_after = i64::MAX - 1;
    bench.writer.forget(&Forget::Before(now() as i64 - SECOND as i64 * 60)).unwrap();
    assert_eq!(bench.said(&Filter::default()).len(), 1, "its agent is heard");
    bench.writer.forget(&Forget::Before(long_after)).unwrap();
    assert!(bench.said(&Filter::default()).is_empty());
}
