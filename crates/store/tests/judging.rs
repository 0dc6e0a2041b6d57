//! Tags are decided for jobs when they are told, when more is known of them, and over the whole collection; what was decided is what the
//! criteria say, whoever asks.

#[allow(dead_code, reason = "other tests use the rest of it")]
mod common;

use common::{SECOND, batch, entry, image, library, list, stream};
use record::accounting::{Accounting, State, TimeLimit};
use record::batch::Batch;
use record::site::{Gpus, Node, Partition, SiteData};
use store::jobs::{FIXED, Page, Period, Tagged, Wanted, Which, column};
use store::query::tags::{Explain, TagsBy};
use store::tags::{Assignment, Kind, PIECE, Software};
use store::{Accounts, Filter, Limits, Site, Store, Writer};

const DAY: u64 = 86_400 * SECOND;
const START: u64 = 1_800_000_000 * SECOND;

fn open(dir: &tempfile::TempDir, site: &str) -> Store {
    let store = Store::open(dir.path(), &Limits::default()).unwrap();
    store.with_site(Site::parse(site).unwrap_or_else(|error| panic!("{error}")))
}

fn job(number: u64, partition: &str, submit: u64) -> Accounting {
    Accounting {
        cluster: Some("tiny".into()),
        job: Some(number.to_string()),
        shown: number.to_string(),
        user: Some(if number.is_multiple_of(2) { "alice" } else { "bob" }.into()),
        partition: Some(partition.into()),
        node_list: Some("n[1-2]".into()),
        submit: Some(submit),
        start: Some(submit),
        end: Some(submit + 3600 * SECOND),
        elapsed: Some(3600 * SECOND),
        time_limit: Some(TimeLimit::Nanos(24 * 3600 * SECOND)),
        state: Some(State::Completed),
        nodes: Some(2),
        cpus: Some(8),
        ..Accounting::default()
    }
}

fn tell(writer: &mut Writer, jobs: &[Accounting]) {
    writer.account(&Accounts::of(jobs).unwrap()).unwrap();
    while !writer.judge_due(PIECE).unwrap().is_last {}
}

fn tell_site(writer: &mut Writer) {
    let partition = |name: &str| Partition { name: name.into(), ..Partition::default() };
    let node = |name: &str, gpus: &[u64]| Node {
        name: name.into(),
        cores: Some(64),
        gpus: gpus.iter().map(|count| Gpus { model: None, count: *count }).collect(),
        partitions: vec!["gpu".into()],
        ..Node::default()
    };
    let site = SiteData {
        cluster: Some("tiny".into()),
        partitions: vec![partition("gpu"), partition("work"), partition("o'neil the 3rd")],
        nodes: vec![node("n1", &[4]), node("n2", &[])],
        ..SiteData::default()
    };
    writer.keep_site(&site, 1).unwrap();
}

/// A tag that nobody has set by hand.
fn rule(bit: u32) -> Wanted {
    Wanted { tag: 0, bit: Some(bit), has_rule: true, is_apart: false, is_removed: false }
}

fn which(tag: u32) -> Which {
    Which { tagged: Tagged { all: vec![rule(tag)], ..Tagged::default() }, ..Which::default() }
}

/// The numbers of jobs, in order.
fn found(store: &Store, which: &Which) -> Vec<String> {
    let columns = vec![column("job").unwrap().clone()];
    let page =
        Page { columns, sort: column("job").unwrap().clone(), is_ascending: true, limit: None, after: None };
    let reader = store.reader().unwrap();
    let rows = reader.jobs(which, &page).unwrap().rows();
    assert_eq!(reader.count_jobs(which).unwrap(), rows.len() as u64);
    rows.iter().map(|row| row["job"].as_str().unwrap().to_owned()).collect()
}

fn having(store: &Store, tag: &str) -> Vec<String> {
    let declared = store.reader().unwrap().tags();
    let known = declared.named(tag).unwrap_or_else(|| panic!("no tag {tag}"));
    found(store, &which(known.rule().unwrap().bit))
}

/// For each tag: those that have it are those for which its criterion holds, and in an exclusive group no criterion before it.
fn check_all(store: &Store) -> usize {
    let declared = store.reader().unwrap().tags();
    let holds = |known: &store::tags::Known| {
        let condition = known.tag.criterion.clone().unwrap();
        found(store, &Which { conditions: vec![condition], ..Which::default() })
    };
    let mut jobs = 0;
    for (known, rule) in declared.judged() {
        let mut by_condition = holds(known);
        let overruled: Vec<String> = declared.before(known).flat_map(holds).collect();
        by_condition.retain(|job| !overruled.contains(job));
        let by_bit = found(store, &which(rule.bit));
        assert_eq!(by_bit, by_condition, "{}", known.tag.declared.name);
        jobs += by_bit.len();
    }
    jobs
}

/// Programs of jobs 17 and 18.
fn run_programs(writer: &mut Writer) {
    let at_start =
        list(1, vec![library("/opt/bin/gmx_mpi", None), library("/opt/mkl/libmkl_core.so.2", None)]);
    let later = list(2, vec![library("/usr/lib/libopen-rte.so.40", None)]);
    let mut first = image(1, "/opt/bin/gmx_mpi");
    (first.objects, first.late_objects) = (Some(1), Some(2));
    let mut second = image(2, "/usr/bin/python3.11");
    second.place.job = Some("18".into());
    let bytes = batch(stream(1), 1, &[entry(first), entry(second)], &[at_start, later]);
    let prepared = store::prepare(&Batch::from_bytes(&bytes).unwrap(), &writer.catalogue()).unwrap();
    writer.apply(vec![prepared], 1).unwrap();
}

#[test]
fn what_is_decided_is_what_the_criteria_say() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "[[partition]]\nname = 'work'\nis_test = true\n");
    let mut writer = store.writer().unwrap();
    tell_site(&mut writer);
    run_programs(&mut writer);
    let failed =
        Accounting { state: Some(State::Failed), nodes: Some(1), cpus: Some(1), ..job(19, "work", START) };
    let waiting =
        Accounting { start: None, end: None, elapsed: None, node_list: None, ..job(20, "work", START) };
    tell(&mut writer, &[job(17, "gpu", START), job(18, "gpu", START), failed, waiting]);
    assert_eq!(having(&store, "job_status COMPLETED"), ["17", "18"]);
    assert_eq!(having(&store, "job_partition GPU"), ["17", "18"]);
    assert_eq!(having(&store, "job_partition except test"), ["17", "18"]);
    assert_eq!(having(&store, "job_sw GROMACS"), ["17"]);
    assert_eq!(having(&store, "job_MPI OpenMPI"), ["17"]);
    assert_eq!(having(&store, "job_sw PYTHON"), ["18"]);
    assert_eq!(having(&store, "job_nnodes SINGLE"), ["19"]);
    // One that waits is not judged, though its criterion may hold.
    let partition = store.reader().unwrap().tags().named("job_partition work").unwrap().rule().unwrap();
    assert_eq!(found(&store, &which(partition.bit)), ["19"]);
    let begun = Accounting {
        start: Some(START),
        node_list: Some("n1".into()),
        state: Some(State::Running),
        ..job(20, "work", START)
    };
    let begun = Accounting { end: None, elapsed: None, ..begun };
    tell(&mut writer, &[begun]);
    assert!(check_all(&store) > 20);
    // A partition whose name cannot be that of a tag is told of.
    let refused = &store.reader().unwrap().tags().refused;
    assert!(refused.iter().any(|word| word.contains("o'neil the 3rd")), "{refused:?}");
}

#[test]
fn a_tag_that_no_longer_holds_is_withdrawn() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "");
    let mut writer = store.writer().unwrap();
    let running = Accounting { end: None, elapsed: None, state: Some(State::Running), ..job(1, "a", START) };
    tell(&mut writer, &[running]);
    assert_eq!(having(&store, "job_nnodes FEW"), ["1"]);
    assert_eq!(having(&store, "job_status TIMEOUT"), [] as [&str; 0]);
    tell(&mut writer, &[Accounting { nodes: Some(1), state: Some(State::Timeout), ..job(1, "a", START) }]);
    assert_eq!(having(&store, "job_nnodes FEW"), [] as [&str; 0]);
    assert_eq!(having(&store, "job_status TIMEOUT"), ["1"]);
    assert!(check_all(&store) >= 3);
}

#[test]
fn all_any_and_none_of_some_tags() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "");
    let mut writer = store.writer().unwrap();
    let failed = Accounting { state: Some(State::Failed), ..job(3, "a", START) };
    let single = Accounting { nodes: Some(1), ..job(2, "b", START) };
    tell(&mut writer, &[job(1, "a", START), single, failed]);
    writer.account(&Accounts::of(&[job(4, "a", START)]).unwrap()).unwrap();
    let declared = store.reader().unwrap().tags();
    let bit = |name: &str| declared.named(name).unwrap().rule().unwrap().bit;
    let (completed, few, in_b) = (bit("job_status COMPLETED"), bit("job_nnodes FEW"), bit("job_partition b"));
    let failed = bit("job_status FAILED");
    for (all, any, none, expected) in [
        (vec![completed, few], vec![], vec![], vec!["1"]),
        (vec![], vec![vec![in_b, failed]], vec![], vec!["2", "3"]),
        (vec![], vec![vec![in_b, failed], vec![few]], vec![], vec!["3"]),
        (vec![completed], vec![], vec![few], vec!["2"]),
        // Whoever was not judged yet has none.
        (vec![], vec![], vec![completed], vec!["3", "4"]),
        (vec![], vec![vec![]], vec![], vec![]),
    ] {
        let rules = |bits: Vec<u32>| bits.into_iter().map(rule).collect::<Vec<_>>();
        let tagged = Tagged {
            all: rules(all),
            any: any.into_iter().map(rules).collect(),
            none: rules(none),
            ..Tagged::default()
        };
        assert_eq!(
            found(&store, &Which { tagged: tagged.clone(), ..Which::default() }),
            expected,
            "{tagged:?}"
        );
    }
}

/// Each job with its bits and rules, in the order of numbers.
fn decided(dir: &tempfile::TempDir) -> Vec<String> {
    let connection = duckdb::Connection::open(dir.path().join(store::FILE)).unwrap();
    let sql = "SELECT job || ' ' || concat_ws(' ', tags0, tags1, tags2, tags3, rules) FROM accounting ORDER BY job::BIGINT";
    let mut query = connection.prepare(sql).unwrap();
    query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Three days of jobs, judged by one set of rules and then by another one.
fn collection(dir: &tempfile::TempDir) -> Store {
    let store = open(dir, "");
    let mut writer = store.writer().unwrap();
    let jobs: Vec<Accounting> =
        (0..90).map(|at| job(at, ["a", "b"][at as usize % 2], START + at / 30 * DAY)).collect();
    tell(&mut writer, &jobs);
    tell(&mut writer, &[Accounting { submit: None, ..job(90, "a", START) }]);
    drop((writer, store));
    open(dir, OTHER)
}

const OTHER: &str = "[tags.\"job_nnodes FEW\".parameters]\nleast = '3'\n";

#[test]
fn a_run_that_was_killed_goes_on_and_ends_the_same() {
    let (killed, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = collection(&killed);
    let mut writer = store.writer().unwrap();
    let run = writer.begin_run(None, None).unwrap();
    assert_eq!((run.jobs, run.judged, run.rules), (91, 0, 3));
    let first = writer.judge_piece(30).unwrap();
    assert_eq!((first.jobs, first.is_last), (30, false));
    // Between two pieces each job is judged by one set of rules.
    let few = having(&store, "job_nnodes FEW");
    assert_eq!(few.len(), 61, "{few:?}");
    drop((writer, store));
    let half = decided(&killed);
    assert_eq!(half.iter().filter(|row| row.ends_with(" 3")).count(), 30);
    let store = open(&killed, OTHER);
    let mut writer = store.writer().unwrap();
    while !writer.judge_piece(30).unwrap().is_last {}
    let run = store.reader().unwrap().last_run().unwrap().unwrap();
    assert_eq!((run.judged, run.ended_ns.is_some()), (91, true));
    assert_eq!(writer.judge_piece(30).unwrap().jobs, 0);
    drop((writer, store));

    let store = collection(&whole);
    let mut writer = store.writer().unwrap();
    writer.begin_run(None, None).unwrap();
    while !writer.judge_piece(PIECE).unwrap().is_last {}
    assert_eq!(having(&store, "job_nnodes FEW"), [] as [&str; 0]);
    check_all(&store);
    drop((writer, store));
    assert_eq!(decided(&killed), decided(&whole));
}

#[test]
fn a_run_since_a_time_leaves_older_jobs_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = collection(&dir);
    let mut writer = store.writer().unwrap();
    let run = writer.begin_run(Some((START + DAY) as i64), None).unwrap();
    assert_eq!(run.jobs, 60);
    while !writer.judge_piece(10).unwrap().is_last {}
    assert_eq!(having(&store, "job_nnodes FEW").len(), 31);
}

#[test]
fn a_rule_that_is_changed_applies_to_new_jobs_and_to_others_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let store = collection(&dir);
    let mut writer = store.writer().unwrap();
    tell(&mut writer, &[job(1000, "a", START)]);
    let explain = |number: &str| {
        let filter = Filter { job: Some(number.into()), ..Filter::default() };
        let what = Explain { filter, why_not: true, tag: Some("job_nnodes FEW".into()) };
        let answer = store.reader().unwrap().explain_tags(&what).unwrap().unwrap();
        answer["tags"][0].clone()
    };
    let (old, new) = (explain("5"), explain("1000"));
    assert_eq!((&old["has"], &old["version"], &old["newest_version"]), (&true.into(), &1.into(), &2.into()));
    assert_eq!(old["criterion"], "nodes between 2 and 8");
    assert_eq!((&new["has"], &new["version"], &new["is_changed"]), (&false.into(), &2.into(), &false.into()));
    assert_eq!(new["criterion"], "nodes between 3 and 8");
    assert_eq!(new["steps"][0]["margin"], "1");
    assert_eq!(new["steps"][0]["decides"], true);
    writer.begin_run(None, None).unwrap();
    while !writer.judge_piece(PIECE).unwrap().is_last {}
    assert_eq!((&explain("5")["has"], &explain("5")["version"]), (&false.into(), &2.into()));
    // The same rules again are no new version.
    drop((writer, store));
    let store = open(&dir, OTHER);
    drop(store.writer().unwrap());
    assert_eq!(store.reader().unwrap().tags().set, 3);
}

#[test]
fn why_a_job_has_a_tag_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "");
    let mut writer = store.writer().unwrap();
    run_programs(&mut writer);
    tell(&mut writer, &[job(17, "gpu", START)]);
    let explain = |tag: &str, why_not: bool| {
        let filter = Filter { job: Some("17".into()), ..Filter::default() };
        let what = Explain { filter, why_not, tag: Some(tag.into()) };
        store.reader().unwrap().explain_tags(&what).unwrap().unwrap()
    };
    let limit = explain("job_time_limit TOO LONG", false);
    assert_eq!(limit["is_provisional"], false);
    assert!(limit["judged"].as_str().is_some_and(|time| time.starts_with("20")), "{limit}");
    let limit = &limit["tags"][0];
    assert_eq!(limit["supposition"], "It ran for 1 h, with a limit of 1 d.");
    assert_eq!(limit["steps"][2]["text"], "elapsed < 10% * time_limit");
    assert_eq!(limit["steps"][2]["margin"], "1 h 24 min");
    assert_eq!(limit["steps"][2]["values"][1]["shown"], "1 d");
    let load = explain("avg_LA LOW", true)["tags"][0].clone();
    assert_eq!((&load["has"], &load["holds_now"]), (&false.into(), &serde_json::Value::Null));
    assert_eq!(load["steps"][0]["values"][0]["value"], serde_json::Value::Null);
    assert_eq!(explain("avg_LA LOW", false)["tags"], serde_json::json!([]));
    let software = explain("job_sw GROMACS", false)["tags"][0].clone();
    assert_eq!((&software["has"], &software["holds_now"]), (&true.into(), &true.into()));
    // What it has before what it has not, the most critical first; of a group the most important is marked.
    let filter = Filter { job: Some("17".into()), ..Filter::default() };
    let what = Explain { filter, why_not: true, tag: None };
    let all = store.reader().unwrap().explain_tags(&what).unwrap().unwrap();
    let all = all["tags"].as_array().unwrap();
    let has = all.iter().filter(|tag| tag["has"] == true).count();
    assert!(has > 3 && all[..has].iter().all(|tag| tag["has"] == true), "{all:?}");
    let worst = |group: &serde_json::Value| {
        let of_group = all[..has].iter().filter(|tag| tag["group"] == *group);
        of_group.map(|tag| tag["criticality"].as_u64().unwrap()).max().unwrap()
    };
    for pair in all[..has].windows(2) {
        let (one, other) = (&pair[0], &pair[1]);
        assert!(worst(&one["group"]) >= worst(&other["group"]), "{one} {other}");
        if one["group"] == other["group"] {
            assert!(one["priority"].as_u64() >= other["priority"].as_u64(), "{one} {other}");
        }
        assert_eq!(other["is_first_of_group"] == true, one["group"] != other["group"], "{one} {other}");
    }
}

#[test]
fn what_a_new_rule_would_find() {
    let dir = tempfile::tempdir().unwrap();
    let store = collection(&dir);
    drop(store.writer().unwrap());
    let reader = store.reader().unwrap();
    let condition = condition::Condition::parse("partition = 'a' or gpu_max > 1", &FIXED.catalogue).unwrap();
    let bit = reader.tags().named("job_partition b").unwrap().rule().unwrap().bit;
    let found = reader.try_condition(&Which::default(), &condition, Some(rule(bit))).unwrap();
    assert_eq!((&found["jobs"], &found["unknown"], &found["users"]), (&46.into(), &45.into(), &1.into()));
    assert_eq!(found["core_hours"], 46.0 * 8.0);
    assert_eq!(found["difference"], serde_json::json!({"only_new": 46, "both": 0, "only_old": 45}));
    assert_eq!(found["examples"].as_array().unwrap().len(), 5);
    assert_eq!(found["most_partitions"][0]["name"], "a");
}

#[test]
fn tags_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let store = collection(&dir);
    drop(store.writer().unwrap());
    let reader = store.reader().unwrap();
    let rows = reader.tag_list(Period::default()).unwrap();
    let of = |name: &str| rows.iter().find(|row| row["tag"] == name).unwrap().clone();
    assert_eq!((&of("job_partition a")["jobs"], &of("job_partition a")["version"]), (&46.into(), &1.into()));
    assert_eq!(of("job_status FAILED")["jobs"], 0);
    assert_eq!(of("job_bug DEADLOCK")["jobs"], 0, "nobody has set it");
    let by_user = reader.count_tags(&Which::default(), TagsBy::named("user").unwrap()).unwrap();
    let row = by_user.iter().find(|row| row["tag"] == "job_partition a").unwrap();
    assert_eq!((&row["user"], &row["jobs"]), (&"alice".into(), &46.into()));
    let by_month = reader.count_tags(&Which::default(), TagsBy::named("month").unwrap()).unwrap();
    assert_eq!(by_month[0]["month"], "2027-01");
    assert!(TagsBy::named("moon").is_none());
}

#[test]
fn tags_are_listed_for_the_jobs_of_some_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = collection(&dir);
    let mut writer = store.writer().unwrap();
    // People have set a tag on a job of each of the first two days.
    let deadlock = store.tags().named("job_bug DEADLOCK").unwrap().tag.declared.id;
    for number in ["0", "30"] {
        let filter = Filter { job: Some(number.into()), ..Filter::default() };
        let id = store.reader().unwrap().owned(&filter).unwrap().unwrap().id;
        let assignment = Assignment {
            id,
            tag: deadlock,
            is_set: true,
            is_personal: false,
            by: "alice".into(),
            by_administrator: false,
            reason: None,
        };
        writer.assign(&assignment).unwrap();
    }
    let reader = store.reader().unwrap();
    let day = |number: u64| Some((START + number * DAY) as i64);
    for (since_ns, until_ns, jobs, deadlocks, decided) in [
        (None, None, 46, 2, 91),
        (day(0), day(1), 16, 1, 31),
        (day(1), None, 30, 1, 60),
        (day(2), day(3), 15, 0, 30),
        (day(9), None, 0, 0, 0),
    ] {
        let rows = reader.tag_list(Period { since_ns, until_ns }).unwrap();
        let of = |name: &str, field: &str| {
            rows.iter().find(|row| row["tag"] == name).unwrap()[field].as_u64().unwrap()
        };
        let found = [
            of("job_partition a", "jobs"),
            of("job_bug DEADLOCK", "jobs"),
            of("job_partition a", "judged_jobs"),
            // Of no jobs nothing could be decided.
            rows.iter().find(|row| row["tag"] == "job_partition a").unwrap()["decided_jobs"]
                .as_u64()
                .unwrap_or(0),
        ];
        assert_eq!(found, [jobs, deadlocks, decided, decided], "{since_ns:?} to {until_ns:?}");
    }
}

/// The set of rules of each job, in the order of numbers.
fn rules(dir: &tempfile::TempDir) -> Vec<u32> {
    let connection = duckdb::Connection::open(dir.path().join(store::FILE)).unwrap();
    let mut query = connection.prepare("SELECT rules FROM accounting ORDER BY job::BIGINT").unwrap();
    query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn run_tag(writer: &mut Writer, tag: u32) -> u64 {
    writer.begin_run(None, Some(tag)).unwrap();
    let mut jobs = 0;
    loop {
        let judged = writer.judge_piece(30).unwrap();
        jobs += judged.jobs;
        if judged.is_last {
            return jobs;
        }
    }
}

#[test]
fn a_run_of_one_tag_leaves_the_others_as_they_were_decided() {
    let dir = tempfile::tempdir().unwrap();
    let store = collection(&dir);
    let mut writer = store.writer().unwrap();
    let declared = store.tags();
    let before = having(&store, "job_nnodes FEW");
    assert!(!before.is_empty(), "decided by the rules of before");
    let partition = declared.named("job_partition a").unwrap();
    assert_eq!(run_tag(&mut writer, partition.tag.declared.id), 91);
    assert_eq!(having(&store, "job_nnodes FEW"), before, "its new rule was not asked for");
    let few = declared.named("job_nnodes FEW").unwrap().tag.declared.id;
    assert_eq!(run_tag(&mut writer, few), 91);
    assert_eq!(having(&store, "job_nnodes FEW"), [] as [&str; 0]);
    // All rules are those of now, so the sets are as well.
    drop((writer, store));
    assert_eq!(rules(&dir), vec![declared.set; 91]);
}

#[test]
fn a_tag_on_software_is_on_every_job_that_used_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "");
    let mut writer = store.writer().unwrap();
    let jobs: Vec<Accounting> = (1..=4).map(|number| job(number, "work", START + number * DAY)).collect();
    tell(&mut writer, &jobs);
    // Job 1 has the library, job 2 another one of the same build, job 3 a program whose content is known, of job 4 nothing is known.
    let hash = [7u8; 32];
    let program = |pid: u32, number: u64, exe: &str| {
        let mut made = image(pid, exe);
        made.place.job = Some(number.to_string());
        made.place.cluster = Some("tiny".into());
        (made.start, made.end) = (START + number * DAY, Some(START + number * DAY + SECOND));
        made
    };
    let (mut one, mut two, mut three) =
        (program(1, 1, "/bin/a"), program(2, 2, "/bin/b"), program(3, 3, "/bin/c"));
    one.objects = Some(1);
    two.objects = Some(2);
    two.late_objects = Some(4);
    three.exe_file = Some(9);
    three.objects = Some(3);
    let other_build = record::entry::Object { build_id: None, ..library("/lib/libm.so.6", None) };
    let context = [
        list(1, vec![library("/bin/a", None), library("/lib/libblas.so.3", None)]),
        list(2, vec![library("/bin/b", None), library("/lib/libfast.so", None)]),
        list(3, vec![other_build]),
        list(4, vec![library("/opt/python/lib/site-packages/numpy/core/_multiarray_umath.so", None)]),
        common::file(9, "/bin/c", Some(&hash)),
    ];
    let bytes = batch(stream(1), 1, &[entry(one), entry(two), entry(three)], &context);
    let prepared = store::prepare(&Batch::from_bytes(&bytes).unwrap(), &writer.catalogue()).unwrap();
    writer.apply(vec![prepared], 1).unwrap();

    writer.begin_run(None, None).unwrap();
    while !writer.judge_piece(PIECE).unwrap().is_last {}
    let tag = store.tags().named("job_bug DEADLOCK").unwrap().tag.declared.id;
    let by = |of: Kind, pattern: &str| Software { of, pattern: pattern.into() };
    let (build, content) = ("ab".repeat(20), "07".repeat(32));
    for (software, expected) in [
        (by(Kind::Loaded, "libblas.so.3"), vec!["1"]),
        (by(Kind::Loaded, "libblas*"), vec!["1"]),
        (by(Kind::Loaded, "/lib/*"), vec!["1", "2", "3"]),
        (by(Kind::Loaded, &build), vec!["1", "2"]),
        (by(Kind::Program, &content), vec!["3"]),
        (by(Kind::Program, "b"), vec!["2"]),
        (by(Kind::Loaded, "*/site-packages/numpy/*"), vec!["2"]),
        (by(Kind::Loaded, "o'neil"), vec![]),
    ] {
        assert!(writer.tag_software(tag, &software, true, "ada", Some("it hangs")).unwrap());
        assert!(!writer.tag_software(tag, &software, true, "ada", None).unwrap(), "it is on already");
        run_tag(&mut writer, tag);
        assert_eq!(having(&store, "job_bug DEADLOCK"), expected, "{software:?}");
        check_all(&store);
        // A job that comes later has it as well, and so it is lost again when the tag is taken off.
        assert!(writer.tag_software(tag, &software, false, "ada", None).unwrap());
        run_tag(&mut writer, tag);
        assert_eq!(having(&store, "job_bug DEADLOCK"), [] as [&str; 0], "{software:?}");
    }
    // What cannot be a criterion changes nothing, and the store can be opened again.
    let wrong = by(Kind::Loaded, &"x".repeat(1_000_000));
    assert!(writer.tag_software(tag, &wrong, true, "ada", None).is_err());
    let kept = store.reader().unwrap().software_tags().unwrap();
    assert_eq!(kept.len(), 8);
    assert!(
        kept.iter()
            .all(|row| row["until"].is_string() && row["by"] == "ada" && row["tag"] == "job_bug DEADLOCK")
    );
}

#[test]
fn a_job_has_one_tag_of_an_exclusive_group() {
    let dir = tempfile::tempdir().unwrap();
    // A job with one node is in both, and a site's own group is exclusive if it says so.
    let site = "[tags]\nexclusive = ['own']\n[tags.\"job_nnodes FEW\".parameters]\nleast = '1'\n
        [[tag]]\nid = 1001\nname = 'site BOTH'\ngroup = 'own'\npriority = 1\ncriterion = 'nodes >= 1'\ndescription = 'Any node.'\n
        [[tag]]\nid = 1002\nname = 'site FIRST'\ngroup = 'own'\npriority = 2\ncriterion = 'nodes = 1'\ndescription = 'One node.'\n";
    let store = open(&dir, site);
    let mut writer = store.writer().unwrap();
    let single = Accounting { nodes: Some(1), ..job(1, "a", START) };
    tell(&mut writer, &[single, job(2, "a", START)]);
    let has = |tags: &[(&str, &[&str])]| {
        tags.iter().for_each(|(tag, jobs)| assert_eq!(having(&store, tag), *jobs, "{tag}"));
    };
    let expected: [(&str, &[&str]); 4] = [
        ("job_nnodes SINGLE", &[]),
        ("job_nnodes FEW", &["1", "2"]),
        ("site FIRST", &["1"]),
        ("site BOTH", &["2"]),
    ];
    has(&expected);
    let filter = Filter { job: Some("1".into()), ..Filter::default() };
    let what = Explain { filter, why_not: true, tag: Some("job_nnodes SINGLE".into()) };
    let answer = store.reader().unwrap().explain_tags(&what).unwrap().unwrap();
    let tag = &answer["tags"][0];
    assert_eq!(
        (&tag["has"], &tag["holds_now"], &tag["overruled_by"]),
        (&false.into(), &true.into(), &"job_nnodes FEW".into())
    );
    // A run of one tag of a group decides the whole group.
    for name in ["job_nnodes SINGLE", "site BOTH"] {
        run_tag(&mut writer, store.tags().named(name).unwrap().tag.declared.id);
        has(&expected);
    }
    check_all(&store);
}

#[test]
fn the_list_says_of_how_many_jobs_a_rule_could_decide() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "");
    let mut writer = store.writer().unwrap();
    run_programs(&mut writer);
    let waiting = Accounting { start: None, end: None, elapsed: None, ..job(3, "a", START) };
    let unlimited = Accounting { time_limit: None, ..job(4, "a", START) };
    tell(&mut writer, &[job(17, "a", START), job(18, "a", START), waiting, unlimited]);
    let rows = store.reader().unwrap().tag_list(Period::default()).unwrap();
    let of = |tag: &str| {
        let row = rows.iter().find(|row| row["tag"] == tag).unwrap();
        (row["jobs"].as_u64(), row["decided_jobs"].as_u64(), row["undecided_jobs"].as_u64())
    };
    // None of those that were decided, and none because nothing was measured.
    assert_eq!(of("job_nnodes MANY"), (Some(0), Some(3), Some(0)));
    assert_eq!(of("avg_LA LOW"), (Some(0), Some(0), Some(3)));
    assert_eq!(of("job_sw GROMACS"), (Some(1), Some(2), Some(1)));
    assert_eq!(of("job_time_limit TOO LONG"), (Some(2), Some(2), Some(1)));
    assert_eq!(of("job_bug DEADLOCK"), (Some(0), None, None));
}
