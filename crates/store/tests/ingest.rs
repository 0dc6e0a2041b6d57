//! Batches in, rows out: each entry once, all of a batch or nothing.

mod common;

use common::{batch, entry, file, image, library, list, raw, stream};
use duckdb::Connection;
use record::batch::Batch;
use record::entry::{Entry, Image, Place};
use store::{
    Applied, Catalogue, Filter, Forget, Limits, PrepareError, Prepared, Store, StoreError, Writer, prepare,
};

struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench { dir: tempfile::tempdir().unwrap() }
    }

    fn writer(&self) -> Writer {
        Store::open(self.dir.path(), &Limits::default()).unwrap().writer().unwrap()
    }

    /// What a table holds, as text, once everyone else has closed the database.
    fn ask(&self, sql: &str) -> Vec<String> {
        let connection = Connection::open(self.dir.path().join(store::FILE)).unwrap();
        let mut query = connection.prepare(sql).unwrap();
        let rows = query.query_map([], |row| row.get::<_, Option<String>>(0)).unwrap();
        rows.map(|row| row.unwrap().unwrap_or("NULL".into())).collect()
    }
}

fn prepared(bytes: &[u8]) -> Prepared {
    prepare(&Batch::from_bytes(bytes).unwrap(), &Catalogue::default()).unwrap()
}

fn images(pids: std::ops::Range<u32>) -> Vec<Entry> {
    pids.map(|pid| entry(image(pid, "/bin/x"))).collect()
}

fn applied(stored: u64, duplicate: u64) -> Applied {
    Applied { stored, duplicate, unknown: 0 }
}

#[test]
fn what_comes_twice_late_or_overlapping_is_stored_once() {
    let bench = Bench::new();
    let part = |first: u64, last: u64| {
        prepared(&batch(stream(1), first, &images(first as u32..last as u32 + 1), &[]))
    };
    let mut writer = bench.writer();
    for (first, last, expected) in [
        (1, 3, applied(3, 0)),
        (1, 3, applied(0, 3)),
        (7, 9, applied(3, 0)),
        (3, 7, applied(3, 2)),
        (1, 10, applied(1, 9)),
    ] {
        assert_eq!(writer.apply(vec![part(first, last)], 1).unwrap(), [expected], "{first} to {last}");
    }
    // In one transaction, too.
    let both = writer.apply(vec![part(11, 12), part(12, 13), part(11, 12)], 1).unwrap();
    assert_eq!(both, [applied(2, 0), applied(1, 1), applied(0, 2)]);
    let other = prepared(&batch(stream(2), 1, &images(1..3), &[]));
    assert_eq!(writer.apply(vec![other], 1).unwrap(), [applied(2, 0)], "another stream has its own numbers");
    drop(writer);

    let mut writer = bench.writer();
    assert_eq!(writer.received(&stream(1)), [(1, 13)], "it is known after a restart");
    assert_eq!(writer.apply(vec![part(5, 14)], 1).unwrap(), [applied(1, 9)]);
    drop(writer);
    let counts = "SELECT stream || ': ' || count(*) || ' ' || count(DISTINCT number) FROM process GROUP BY stream ORDER BY 1";
    assert_eq!(bench.ask(counts), ["1: 14 14", "2: 2 2"]);
}

#[test]
fn nothing_of_a_transaction_that_fails_is_kept() {
    let bench = Bench::new();
    let store = Store::open(bench.dir.path(), &Limits::default()).unwrap();
    // There should be one writer only: a second one gives the same number to another stream.
    let (mut first, mut second) = (store.writer().unwrap(), store.writer().unwrap());
    let part = |n| prepared(&batch(stream(n), 1, &images(1..4), &[]));
    first.apply(vec![part(1)], 1).unwrap();
    assert!(second.apply(vec![part(2), part(3)], 1).is_err());
    assert_eq!(second.received(&stream(2)), []);
    assert_eq!(first.apply(vec![part(4)], 1).unwrap(), [applied(3, 0)], "the store goes on");
    drop((first, second, store));
    assert_eq!(bench.ask("SELECT count(*)::VARCHAR FROM process"), ["6"]);
    assert_eq!(bench.ask("SELECT count(*)::VARCHAR FROM received"), ["2"]);
}

#[test]
fn lists_files_modules_and_environments_are_stored_once() {
    let bench = Bench::new();
    let mut writer = bench.writer();
    let with_list = |pid, id| entry(Image { objects: Some(id), exe_file: Some(5), ..image(pid, "/bin/x") });
    let objects = vec![library("/bin/x", Some(5)), library("/lib/libblas.so.3", None)];
    // Two agents have different numbers for the same things.
    let context = [file(5, "/bin/x", None), list(77, objects.clone())];
    let one = prepared(&batch(stream(1), 1, &[with_list(1, 77), with_list(2, 77)], &context));
    let again = [file(5, "/bin/x", Some(b"\x01\x02")), list(78, objects)];
    let two = prepared(&batch(stream(2), 1, &[with_list(1, 78)], &again));
    writer.apply(vec![one, two], 1).unwrap();
    drop(writer);
    // A restart does not store them again either.
    let mut writer = bench.writer();
    let context = [file(5, "/bin/x", None), list(1, vec![library("/lib/libblas.so.3", None)])];
    writer.apply(vec![prepared(&batch(stream(1), 3, &[with_list(3, 1)], &context))], 1).unwrap();
    drop(writer);
    for (sql, expected) in [
        ("SELECT name FROM object ORDER BY 1", &["libblas.so.3", "x"][..]),
        ("SELECT count(*)::VARCHAR FROM object_list", &["3"]),
        ("SELECT hash FROM file", &["0102"]),
        ("SELECT module FROM module_list", &["gcc/12"]),
        ("SELECT DISTINCT variables FROM environment", &["[\"OMP_NUM_THREADS=4\"]"]),
        ("SELECT count(DISTINCT objects)::VARCHAR FROM process", &["2"]),
        ("SELECT DISTINCT argv FROM process", &["[\"/bin/x\",\"\\\\xff\"]"]),
        ("SELECT count(*)::VARCHAR FROM process JOIN file ON exe_file = file.id", &["4"]),
    ] {
        assert_eq!(bench.ask(sql), expected, "{sql}");
    }
}

/// Agents bring the same lists and files with every batch; what is stored is not decoded again.
#[test]
fn what_is_stored_is_recognised_by_its_bytes() {
    let bench = Bench::new();
    let mut writer = bench.writer();
    let catalogue = writer.catalogue();
    let with_list = |pid| entry(Image { objects: Some(7), exe_file: Some(5), ..image(pid, "/bin/x") });
    let part = |n, context: &[Entry]| {
        let bytes = batch(stream(n), 1, &[with_list(1)], context);
        prepare(&Batch::from_bytes(&bytes).unwrap(), &catalogue).unwrap()
    };
    let same_list = || list(7, vec![library("/lib/libblas.so.3", Some(5))]);
    let context = [same_list(), file(5, "/bin/x", None)];
    let first = part(1, &context);
    let (list, exe_file) = (first.rows[0].objects, first.rows[0].exe_file);
    assert!(list.is_some() && exe_file.is_some());
    assert!(!part(1, &context).shared.lists.is_empty(), "not stored yet");
    writer.apply(vec![first], 1).unwrap();

    let second = part(2, &context);
    assert_eq!((second.rows[0].objects, second.rows[0].exe_file), (list, exe_file));
    let shared = &second.shared;
    assert_eq!((shared.lists.len(), shared.files.len(), shared.objects.len()), (0, 0, 0));
    assert_eq!((shared.environments.len(), shared.modules.len()), (0, 0));
    writer.apply(vec![second], 1).unwrap();

    // The same bytes of a list, but number 5 is another file for this agent.
    let third = part(3, &[same_list(), file(5, "/bin/y", None)]);
    assert_ne!(third.rows[0].objects, list);
    writer.apply(vec![third], 1).unwrap();
    // The file is known, its hash is new.
    writer.apply(vec![part(4, &[same_list(), file(5, "/bin/x", Some(b"\x01"))])], 1).unwrap();
    drop(writer);
    let files = "SELECT file.path || ' ' || coalesce(hash, '') FROM process \
                 JOIN object_list ON list = objects JOIN object ON object.id = object JOIN file ON file.id = file \
                 ORDER BY stream";
    assert_eq!(bench.ask(files), ["/bin/x 01", "/bin/x 01", "/bin/y ", "/bin/x 01"]);
}

#[test]
fn unknown_stays_unknown() {
    let bench = Bench::new();
    let mut writer = bench.writer();
    let bare = Image {
        end: None,
        exit_code: None,
        uid: None,
        user: None,
        exe: None,
        argv: None,
        modules: None,
        env: None,
        place: Place::default(),
        used: Default::default(),
        ..image(1, "")
    };
    writer.apply(vec![prepared(&batch(stream(1), 1, &[entry(bare)], &[]))], 1).unwrap();
    drop(writer);
    for column in [
        "job",
        "end_ns",
        "exit_code",
        "uid",
        "exe",
        "argv",
        "modules",
        "environment",
        "user_cpu_ns",
        "objects",
    ] {
        assert_eq!(bench.ask(&format!("SELECT {column}::VARCHAR FROM process")), ["NULL"], "{column}");
    }
}

/// An agent that is newer than the server knows kinds of entries that the server does not.
#[test]
fn an_entry_of_the_future_is_kept_as_it_is() {
    let bench = Bench::new();
    let mut writer = bench.writer();
    // A variant with number 9.
    let future = vec![0x82, 0x09, 0x81, 0x63, b'n', b'e', b'w'];
    let known = minicbor::to_vec(entry(image(1, "/bin/x"))).unwrap();
    let bytes = raw(stream(1), 1, &[known, future.clone()], &[future]);
    let reply = writer.apply(vec![prepared(&bytes)], 1).unwrap();
    assert_eq!(reply, [Applied { stored: 2, duplicate: 0, unknown: 1 }]);
    drop(writer);
    assert_eq!(bench.ask("SELECT number || hex(payload) FROM unknown_entry"), ["2820981636E6577"]);
}

#[test]
fn what_is_wrong_is_refused_with_its_number() {
    let good = || minicbor::to_vec(entry(image(1, "/bin/x"))).unwrap();
    let encode = |image: Image| minicbor::to_vec(entry(image)).unwrap();
    let refused = |entries: &[Vec<u8>], context: &[Vec<u8>]| {
        let bytes = raw(stream(1), 5, entries, context);
        prepare(&Batch::from_bytes(&bytes).unwrap(), &Catalogue::default()).unwrap_err()
    };
    let broken = [good(), b"\x82\x00\x81".to_vec()];
    assert!(matches!(refused(&broken, &[]), PrepareError::Entry { number: 6, .. }));
    assert!(matches!(refused(&[b"".to_vec()], &[]), PrepareError::Entry { number: 5, .. }));
    assert!(matches!(refused(&[good()], &[b"x".to_vec()]), PrepareError::Context(_)));
    let far = encode(Image { start: u64::MAX, ..image(1, "/bin/x") });
    assert!(matches!(refused(&[far], &[]), PrepareError::Range { number: 5, .. }));
    let none = encode(Image { count: 0, ..image(1, "/bin/x") });
    assert!(matches!(refused(&[none], &[]), PrepareError::Range { number: 5, .. }));
    let lost = encode(Image { objects: Some(1), ..image(1, "/bin/x") });
    assert_eq!(refused(&[lost], &[]), PrepareError::NoList { number: 5 });
    let other = encode(Image { host: "n2".into(), ..image(1, "/bin/x") });
    assert!(matches!(refused(&[other], &[]), PrepareError::Host { number: 5, .. }));
}

fn of_user(pid: u32, user: &str, uid: u32, list: u64) -> Entry {
    let env = Some(vec![format!("LD_LIBRARY_PATH=/home/{user}").into_bytes().into()]);
    let (user, uid) = (Some(user.into()), Some(uid));
    entry(Image { objects: Some(list), user, uid, env, ..image(pid, "/bin/x") })
}

#[test]
fn what_is_forgotten_is_gone_with_all_that_hung_on_it() {
    let library_of = |user: &str| library(&format!("/home/{user}/lib/libown.so"), Some(5));
    let context = |user: &str| {
        let own = file(5, &format!("/home/{user}/lib/libown.so"), Some(b"\x01"));
        [own, list(7, vec![library("/bin/x", None), library_of(user)])]
    };
    for (what, left) in [
        (Forget::User("alice".into()), "bob"),
        (Forget::User("1001".into()), "bob"),
        (Forget::Before(1_800_000_005_000_000_000), "bob"),
        (Forget::User("nobody".into()), "alice bob"),
    ] {
        let bench = Bench::new();
        let mut writer = bench.writer();
        let alice = prepared(&batch(stream(1), 1, &[of_user(1, "alice", 1001, 7)], &context("alice")));
        let bob = prepared(&batch(stream(2), 1, &[of_user(9, "bob", 1002, 7)], &context("bob")));
        writer.apply(vec![alice, bob], 1).unwrap();
        let late = prepared(&batch(stream(1), 2, &[of_user(2, "alice", 1001, 7)], &context("alice")));
        let forgotten = writer.forget(&what).unwrap();
        assert_eq!(forgotten.processes, 2 - left.split(' ').count() as u64, "{what:?}");
        assert!(!writer.is_current(&late), "something in it may be gone");
        assert!(matches!(writer.apply(vec![late], 1), Err(StoreError::Stale)));
        // It does not come back with the batch that brought it.
        let again = batch(stream(1), 1, &[of_user(1, "alice", 1001, 7)], &context("alice"));
        let again = prepare(&Batch::from_bytes(&again).unwrap(), &writer.catalogue()).unwrap();
        assert_eq!(writer.apply(vec![again], 1).unwrap(), [applied(0, 1)]);
        drop(writer);
        for sql in [
            "SELECT string_agg(\"user\", ' ' ORDER BY pid) FROM process",
            "SELECT string_agg(split_part(variables, '/', 3)[:-3], ' ' ORDER BY variables) FROM environment",
            "SELECT string_agg(split_part(path, '/', 3), ' ' ORDER BY path) FROM object WHERE path LIKE '/home/%'",
            "SELECT string_agg(split_part(path, '/', 3), ' ' ORDER BY path) FROM file",
        ] {
            assert_eq!(bench.ask(sql), [left], "{what:?}: {sql}");
        }
    }
}

#[test]
fn a_copy_holds_what_was_stored_when_it_was_made() {
    let bench = Bench::new();
    let store = Store::open(bench.dir.path(), &Limits::default()).unwrap();
    let mut writer = store.writer().unwrap();
    writer.apply(vec![prepared(&batch(stream(1), 1, &images(1..4), &[]))], 1).unwrap();
    let dir = bench.dir.path().join("copy");
    std::fs::create_dir(&dir).unwrap();
    store.copy_into(&dir).unwrap();
    writer.apply(vec![prepared(&batch(stream(1), 4, &images(4..6), &[]))], 1).unwrap();
    assert!(store.copy_into(bench.dir.path().parent().unwrap()).is_err(), "nothing is written elsewhere");
    drop((writer, store));
    let copy = Store::open(&dir, &Limits::default()).unwrap();
    let mut writer = copy.writer().unwrap();
    assert_eq!(writer.received(&stream(1)), [(1, 3)]);
    assert_eq!(copy.reader().unwrap().processes(&Filter::default()).unwrap().len(), 3);
    assert_eq!(
        writer.apply(vec![prepared(&batch(stream(1), 3, &images(3..5), &[]))], 1).unwrap(),
        [applied(1, 1)]
    );
}

/// Each batch adds a row to what is received; at the next start they are one again.
#[test]
fn what_was_received_is_written_briefly() {
    let bench = Bench::new();
    let mut writer = bench.writer();
    for n in 1..6 {
        writer.apply(vec![prepared(&batch(stream(1), 2 * n, &images(1..3), &[]))], 1).unwrap();
    }
    drop(writer);
    assert_eq!(bench.ask("SELECT count(*)::VARCHAR FROM received"), ["5"]);
    assert_eq!(bench.writer().received(&stream(1)), [(2, 11)]);
    assert_eq!(bench.ask("SELECT first || '-' || last FROM received"), ["2-11"]);
    assert_eq!(bench.writer().received(&stream(1)), [(2, 11)]);
}
