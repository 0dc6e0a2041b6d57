//! Questions and their answers.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::{HOST, SECOND, batch, entry, file, image, library, list, stream};
use record::batch::Batch;
use record::entry::{Entry, Image, ImageKey, Place, Used};
use serde_json::{Map, Value, json};
use store::{Catalogue, Filter, GroupBy, Limits, Reader, Rule, Rules, Store, prepare};

type Row = Map<String, Value>;

/// When `image(pid, …)` begins.
fn began(pid: u32) -> i64 {
    (1_800_000_000 + i64::from(pid)) * SECOND as i64
}

fn child(pid: u32, parent: u32, exe: &str) -> Image {
    Image { ppid: Some(parent), ..image(pid, exe) }
}

/// A job of a shell, a forked copy of it, a program that executes another, and an MPI program; another user's job; a
/// program in a login session.
fn entries() -> Vec<Entry> {
    let shell = Image { objects: Some(1), exe_file: Some(5), ..image(10, "/bin/sh") };
    let key = shell.key;
    let copy_key = ImageKey { pid: 11, process_start: key.process_start + SECOND, exec: 0 };
    let copy = Image {
        key: copy_key,
        forked_from: Some(key),
        objects: None,
        used: Used { user_ns: Some(SECOND), ..Used::default() },
        ..child(11, 10, "/bin/sh")
    };
    let first = Image { objects: Some(1), ..child(12, 10, "/usr/bin/env") };
    let second = Image {
        key: ImageKey { exec: 2, ..first.key },
        start: first.start + SECOND,
        objects: Some(2),
        late_objects: Some(3),
        used: Used::default(),
        ..child(12, 10, "/home/alice/mpi")
    };
    let other_place = Place { job: Some("18".into()), node: Some("cn7".into()), ..Place::default() };
    let other = Image {
        user: Some("bob".into()),
        place: other_place,
        count: 40,
        objects: Some(1),
        ..image(30, "/bin/sh")
    };
    let session = Place { session: Some("session-3@n1".into()), ..Place::default() };
    let login =
        Image { place: session, user: Some("bob".into()), objects: Some(2), ..image(40, "/usr/bin/vi") };
    [shell, copy, first, second, other, login].into_iter().map(entry).collect()
}

fn reader(dir: &tempfile::TempDir) -> (Store, Reader) {
    let store = Store::open(dir.path(), &Limits::default()).unwrap();
    let context = [
        file(5, "/bin/sh", Some(b"\xca\xfe")),
        file(6, "/lib/libc.so.6", Some(b"\xbe\xef")),
        list(1, vec![library("/bin/sh", Some(5)), library("/lib/libc.so.6", Some(6))]),
        list(
            2,
            vec![
                library("/home/alice/mpi", None),
                library("/opt/libmpi.so.40", None),
                library("/lib/libc.so.6", Some(6)),
            ],
        ),
        list(3, vec![library("/opt/blas/libblas.so.3", None)]),
    ];
    let bytes = batch(stream(1), 1, &entries(), &context);
    let prepared = prepare(&Batch::from_bytes(&bytes).unwrap(), &Catalogue::default()).unwrap();
    store.writer().unwrap().apply(vec![prepared], 1).unwrap();
    let reader = store.reader().unwrap();
    (store, reader)
}

fn column(rows: &[Row], name: &str) -> Vec<Value> {
    rows.iter().map(|row| row[name].clone()).collect()
}

#[test]
fn processes_by_any_of_their_properties() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, reader) = reader(&dir);
    let filter = Filter::default;
    let text = |value: &str| Some(value.to_owned());
    for (filter, expected) in [
        (filter(), &[10, 11, 12, 12, 30, 40][..]),
        (Filter { job: text("17"), ..filter() }, &[10, 11, 12, 12]),
        (Filter { job: text("session-3@n1"), ..filter() }, &[40]),
        (Filter { user: text("bob"), ..filter() }, &[30, 40]),
        (Filter { exe: text("sh"), ..filter() }, &[10, 11, 30]),
        (Filter { exe: text("/home/*"), ..filter() }, &[12]),
        (Filter { exe: text("*"), user: text("alice"), ..filter() }, &[10, 11, 12, 12]),
        (Filter { host: text("cn7"), ..filter() }, &[30]),
        (Filter { host: text(HOST), limit: Some(2), ..filter() }, &[10, 11]),
        (Filter { pid: Some(12), ..filter() }, &[12, 12]),
        (Filter { since_ns: Some(began(31)), ..filter() }, &[30, 40]),
        (Filter { since_ns: Some(began(31) + 1), ..filter() }, &[40]),
        (Filter { until_ns: Some(began(11)), ..filter() }, &[10]),
        (Filter { user: text("x' OR '1'='1"), ..filter() }, &[]),
    ] {
        let rows = reader.processes(&filter).unwrap().rows();
        assert_eq!(column(&rows, "pid"), expected, "{filter:?}");
    }
}

#[test]
fn a_process_has_all_its_fields() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, reader) = reader(&dir);
    let rows = reader.processes(&Filter { pid: Some(12), ..Filter::default() }).unwrap().rows();
    let (first, second) = (&rows[0], &rows[1]);
    assert_eq!(first["objects"][1]["path"], "/lib/libc.so.6");
    assert_eq!(first["objects"][1]["hash"], "beef");
    assert_eq!(first["modules"], json!(["gcc/12"]));
    assert_eq!(first["env"], json!({"OMP_NUM_THREADS": "4"}));
    assert_eq!(first["argv"], json!(["/usr/bin/env", "\\xff"]));
    assert_eq!((&first["user_cpu_s"], &first["system_cpu_s"]), (&json!(5.0), &Value::Null));
    assert_eq!(first["source"], json!(["guest", "kernel"]));
    assert_eq!(first["start"], "2027-01-15T08:00:12.000000Z");
    assert_eq!(second["late_objects"][0]["path"], "/opt/blas/libblas.so.3");
    let copy = reader.processes(&Filter { pid: Some(11), ..Filter::default() }).unwrap().rows().remove(0);
    assert_eq!(copy["forked_from"]["pid"], 10);
    assert_eq!(copy["objects"], Value::Null);
}

#[test]
fn a_job_is_a_tree() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, reader) = reader(&dir);
    let job = |id: &str| reader.job(&Filter { job: Some(id.into()), ..Filter::default() }, 0).unwrap();
    let found = job("17").unwrap();
    let parents: Vec<&Value> =
        found["processes"].as_array().unwrap().iter().map(|row| &row["parent"]).collect();
    assert_eq!(parents, [&Value::Null, &json!(0), &json!(0), &json!(2)]);
    assert_eq!(found["users"], json!(["alice"]));
    assert_eq!((&found["first_seen"], &found["rows"]), (&json!("2027-01-15T08:00:10.000000Z"), &json!(4)));
    let names: Vec<&Value> =
        found["libraries"].as_array().unwrap().iter().map(|row| &row["library"]).collect();
    assert_eq!(names, ["/lib/libc.so.6", "/opt/blas/libblas.so.3", "/opt/libmpi.so.40"]);
    assert_eq!(found["modules"][0]["module"], "gcc/12");
    // The same as asked for by themselves.
    let filter = Filter { job: Some("17".into()), ..Filter::default() };
    assert_eq!(found["libraries"], json!(reader.libraries(&filter).unwrap()));
    assert_eq!(found["modules"], json!(reader.modules(&filter).unwrap()));
    assert_eq!(job("19"), None);
    assert_eq!(job("session-3@n1").unwrap()["users"], json!(["bob"]));
}

#[test]
fn programs_libraries_and_modules() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, reader) = reader(&dir);
    let programs = reader.programs(&Filter::default()).unwrap();
    assert_eq!(column(&programs, "exe"), ["/bin/sh", "/home/alice/mpi", "/usr/bin/env", "/usr/bin/vi"]);
    assert_eq!(column(&programs, "runs"), [41, 1, 1, 1], "a forked copy is no run");
    assert_eq!(column(&programs, "users"), [2, 1, 1, 1]);
    assert_eq!(column(&programs, "jobs"), [2, 1, 1, 1], "a session is a job");
    assert_eq!(programs[1]["cpu_hours"], Value::Null, "unknown is not zero");
    assert_eq!(programs[1]["without_cpu"], 1);
    assert_eq!(programs[0]["cpu_hours"], json!(11.0 / 3600.0), "with what the forked copy used");
    let libraries = reader.libraries(&Filter { user: Some("alice".into()), ..Filter::default() }).unwrap();
    let expected = ["/lib/libc.so.6", "/opt/blas/libblas.so.3", "/opt/libmpi.so.40"];
    assert_eq!(column(&libraries, "library"), expected);
    assert_eq!(column(&libraries, "runs"), [3, 1, 1]);
    let modules = reader.modules(&Filter::default()).unwrap();
    assert_eq!((&modules[0]["module"], &modules[0]["jobs"]), (&json!("gcc/12"), &json!(3)));
}

#[test]
fn who_uses_a_library() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, reader) = reader(&dir);
    let uses = |pattern: &str, by| reader.uses(pattern, by, &Filter::default()).unwrap();
    for (pattern, expected) in [
        ("libmpi*", &["session-3@n1", "17"][..]),
        ("libblas.so.3", &["17"]),
        ("/opt/*", &["session-3@n1", "17"]),
        ("beef", &["session-3@n1", "18", "17", "17", "17"]),
        ("sh", &[]),
        ("nothing", &[]),
    ] {
        let rows = uses(pattern, GroupBy::Job);
        assert_eq!(column(&rows, "job"), expected, "{pattern}");
    }
    assert_eq!(column(&uses("libmpi*", GroupBy::User), "user"), ["bob", "alice"]);
    assert_eq!(column(&uses("libblas*", GroupBy::Program), "exe"), ["/home/alice/mpi"]);
    assert_eq!(column(&uses("/opt/*", GroupBy::Library), "library").len(), 2);
    let filter = Filter { user: Some("bob".into()), ..Filter::default() };
    assert_eq!(reader.uses("libmpi*", GroupBy::Job, &filter).unwrap().len(), 1);
}

/// A plan that was made for an empty table gives wrong names for a full one: no plan outlives its question.
#[test]
fn the_same_question_before_and_after() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &Limits::default()).unwrap();
    let (mut writer, reader) = (store.writer().unwrap(), store.reader().unwrap());
    let ask = || reader.programs(&Filter { limit: Some(3), ..Filter::default() }).unwrap();
    assert!(ask().is_empty());
    let names = ["/usr/bin/openssl", "/work/a/longer/path/than/that"];
    let images: Vec<Entry> = names.iter().zip(1..).map(|(name, pid)| entry(image(pid, name))).collect();
    let bytes = batch(stream(1), 1, &images, &[]);
    writer
        .apply(vec![prepare(&Batch::from_bytes(&bytes).unwrap(), &Catalogue::default()).unwrap()], 1)
        .unwrap();
    assert_eq!(column(&ask(), "exe"), names);
}

#[test]
fn harmful_and_missing_variables_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &Limits::default()).unwrap();
    let with = |pid: u32, env: Option<&[&str]>, list: u64| {
        let env = env.map(|env| env.iter().map(|text| text.as_bytes().into()).collect());
        entry(Image { env, objects: Some(list), ..image(pid, "/bin/x") })
    };
    let entries = [
        with(1, Some(&["LD_LIBRARY_PATH=/home/alice/lib"]), 1),
        with(2, Some(&["LD_LIBRARY_PATH=/home/alice/lib"]), 1),
        with(3, Some(&["SLURM_CPUS_ON_NODE=64"]), 1),
        with(4, Some(&["SLURM_CPUS_ON_NODE=64"]), 2),
        with(5, Some(&[]), 2),
        with(6, None, 2),
    ];
    let context = [
        list(1, vec![library("/bin/x", None)]),
        list(2, vec![library("/bin/x", None), library("/lib/libgomp.so.1", None)]),
    ];
    let bytes = batch(stream(1), 1, &entries, &context);
    let prepared = prepare(&Batch::from_bytes(&bytes).unwrap(), &Catalogue::default()).unwrap();
    store.writer().unwrap().apply(vec![prepared], 1).unwrap();
    let rules: Vec<Rule> = Rules::shipped().unwrap().iter().cloned().collect();
    let check = |filter: &Filter| store.reader().unwrap().check_environments(&rules, filter).unwrap();
    let (rows, unknown) = check(&Filter::default());
    assert_eq!(column(&rows, "rule"), ["library-path-home", "threads-unset"]);
    assert_eq!(column(&rows, "runs"), [2, 1], "only the program with OpenMP");
    assert_eq!(rows[0]["example"], "LD_LIBRARY_PATH=/home/alice/lib");
    assert_eq!(unknown, 1, "unknown is not good");
    let (rows, unknown) = check(&Filter { user: Some("bob".into()), ..Filter::default() });
    assert_eq!((rows.len(), unknown), (0, 0));
}

#[test]
fn a_question_can_be_ended_while_it_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path(), &Limits::default()).unwrap());
    let connection = duckdb::Connection::open(dir.path().join(store::FILE)).unwrap();
    connection
        .execute_batch(
            "INSERT INTO accounting BY NAME SELECT range AS id, range::VARCHAR AS job, range::VARCHAR AS shown, \
               'user' || range % 1000 AS \"user\", range * 1000000000 AS start_ns, range * 1000000000 AS submit_ns, 60 AS elapsed_ns, \
               2 AS cores FROM range(3000000)",
        )
        .unwrap();
    drop(connection);
    let store = Store::open(dir.path(), &Limits::default()).unwrap();
    let reader = store.reader().unwrap();
    let ask = || reader.group_jobs(&store::jobs::Which::default(), store::jobs::JobsBy::User, None);
    assert_eq!(ask().unwrap().len(), 1000);
    let stop = reader.stop();
    let is_answered = AtomicBool::new(false);
    let answer = std::thread::scope(|scope| {
        // Again and again, until one of these comes while the question is being answered.
        scope.spawn(|| {
            testkit::wait_until("the question to end", || {
                stop.stop();
                is_answered.load(Ordering::Relaxed)
            });
        });
        let answer = ask();
        is_answered.store(true, Ordering::Relaxed);
        answer
    });
    assert!(answer.is_err_and(|error| error.to_string().contains("INTERRUPT")));
    // The next question is answered.
    assert_eq!(ask().unwrap().len(), 1000);
}
