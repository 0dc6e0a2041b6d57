//! Archives and databases in ClusterCockpit's form, good and broken, made here.

use std::io::Write;
use std::path::{Path, PathBuf};

use import::Problem;
use import::clustercockpit::archive::Options;
use import::clustercockpit::scope::Aggregations;
use import::clustercockpit::write::{self, Writer};
use import::clustercockpit::{Collected, Error, Known, Takes, archive, data, database, meta};
use proptest::prelude::*;
use record::accounting::{Accounting, Exit, Placed, State, TimeLimit, gpus};
use record::measure::{Measures, Name, Point, Series, Told};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000;

/// A job with all that a newer version tells.
fn good() -> Value {
    json!({
        "jobId": 4007, "user": "u", "project": "p", "cluster": "c", "subCluster": "s", "partition": "q",
        "arrayJobId": 4000, "numNodes": 2, "numHwthreads": 5, "numAcc": 1, "smt": 1, "shared": "none",
        "monitoringStatus": 3, "walltime": 3600, "jobState": "failed", "submitTime": START - 60,
        "startTime": START, "duration": 150, "requestedMemory": 16, "energy": 1.25,
        "resources": [
            {"hostname": "n2", "hwthreads": [0, 1, 2, 7], "accelerators": ["00000000:E1:00.0"]},
            {"hostname": "n1", "hwthreads": [3], "configuration": "fast"},
        ],
        "metaData": {"jobName": "näme", "jobScript": "#!/bin/sh"},
        "tags": [{"type": "app", "name": "x", "scope": "global"}],
        "footprint": {"cpu_load_avg": 1.5, "mem_used_max": 7, "odd": 1},
        "statistics": {"cpu_load": {"unit": {"base": "load"}, "avg": 2, "min": 1, "max": 3}},
        "of tomorrow": [null, {"a": 1}],
    })
}

fn series() -> Value {
    let odd = json!({"unit": "MB", "timestep": 30, "series": [
        {"hostname": "n1", "id": "3", "data": [0.1, null, null]},
        {"hostname": "n1", "id": 4, "data": []},
        {"hostname": "n2", "id": "5", "statistics": {"avg": 1, "min": 1, "max": 1}, "data": [null, 1, null, 2]},
    ], "statisticsSeries": {"mean": [1, 2]}});
    let gpu = json!({"unit": {"prefix": "G", "base": "B/s"}, "timestep": 60, "series": [
        {"hostname": "n2", "id": "00000000:E1:00.0", "data": [null, -1e-3, null]},
    ]});
    let socket = json!({"timestep": 60, "series": [{"hostname": "n2", "data": [1]}]});
    json!({
        "cpu_load": {"node": {"unit": {"base": "load"}, "timestep": 60, "series": [
            {"hostname": "n2", "data": [1, 2.5, null]}, {"hostname": "n1", "data": [null, null, null]},
        ]}},
        "odd": {"hwthread": odd, "accelerator": gpu, "socket": socket, "core": {"timestep": 7, "series": null},
            "tomorrow": {"timestep": 60, "series": [{"hostname": "n1", "id": "a b", "data": [4]}]}},
    })
}

/// An archive with one job, from the bytes of its files.
struct Archive(TempDir);

impl Archive {
    fn new(meta: impl AsRef<[u8]>, files: &[(&str, &[u8])]) -> Archive {
        let archive = Archive(tempfile::tempdir().unwrap());
        std::fs::write(archive.0.path().join("version.txt"), "3\n").unwrap();
        archive.add("c/4/007/1700000000", meta, files);
        archive
    }

    fn add(&self, job: &str, meta: impl AsRef<[u8]>, files: &[(&str, &[u8])]) {
        let dir = self.0.path().join(job);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("meta.json"), meta).unwrap();
        files.iter().for_each(|(name, bytes)| std::fs::write(dir.join(name), bytes).unwrap());
    }

    fn read(&self) -> Collected {
        let mut found = Collected::default();
        archive::read(self.0.path(), &Options { data_max: 100_000 }, &mut found).unwrap();
        found
    }
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn whole() -> Known {
    let (mut known, doubts) = meta::read(good().to_string().as_bytes()).unwrap();
    assert_eq!(doubts, []);
    let none = Aggregations::default();
    let doubts = data::read(series().to_string().as_bytes(), data::DATA_MAX, &none, &mut known).unwrap();
    assert_eq!(doubts, []);
    known
}

fn other(known: &Known, name: &str) -> Option<String> {
    let name = format!("clustercockpit.{name}");
    known.job.others.iter().find(|other| other.name == name).map(|other| other.value.clone())
}

#[test]
fn fields_have_their_places() {
    let known = whole();
    let job = &known.job;
    assert_eq!((job.job.as_deref(), &*job.shown, job.array_job), (Some("4007"), "4007", Some(4000)));
    assert_eq!((job.cluster.as_deref(), job.user.as_deref()), (Some("c"), Some("u")));
    assert_eq!((job.account.as_deref(), job.partition.as_deref()), (Some("p"), Some("q")));
    assert_eq!((job.nodes, job.cpus, gpus(&job.allocated)), (Some(2), Some(5), Some(1)));
    assert_eq!(job.time_limit, Some(TimeLimit::Nanos(3600 * SECOND)));
    assert_eq!(job.state, Some(State::Failed));
    assert_eq!((job.submit, job.start), (Some((START - 60) * SECOND), Some(START * SECOND)));
    assert_eq!((job.end, job.elapsed), (Some((START + 150) * SECOND), Some(150 * SECOND)));
    assert_eq!(job.node_list.as_deref(), Some("n[1-2]"));
    let placed = |host: &str, cpus: &str, gpus: &[&str]| Placed {
        host: host.into(),
        cpus: Some(cpus.into()),
        gpus: gpus.iter().map(|gpu| gpu.to_string()).collect(),
        memory: None,
    };
    assert_eq!(job.placed, [placed("n2", "0-2,7", &["00000000:E1:00.0"]), placed("n1", "3", &[])]);
    assert_eq!(job.name.as_deref(), Some("näme".as_bytes()));
    for (name, expected) in [
        ("subCluster", Some(r#""s""#)),
        ("smt", Some("1")),
        ("shared", Some(r#""none""#)),
        ("energy", Some("1.25")),
        ("requestedMemory", Some("16")),
        ("of tomorrow", Some(r#"[null,{"a":1}]"#)),
        ("footprint", Some(r#"{"cpu_load_avg":1.5,"mem_used_max":7,"odd":1}"#)),
        // What there is a field for is kept as it was, too.
        ("jobId", Some("4007")),
        ("submitTime", Some("1699999940")),
    ] {
        assert_eq!(other(&known, name).as_deref(), expected, "{name}");
    }
    assert!(other(&known, "resources").unwrap().contains("fast"));
}

#[test]
fn what_is_said_of_the_whole_job() {
    let told = |metric: &str| whole().measures.told.into_iter().find(|told| told.metric.text() == metric);
    let load = told("cpu_load").unwrap();
    // The statistics are believed rather than the footprint.
    assert_eq!(
        (load.avg, load.min, load.max, load.unit.as_deref()),
        (Some(2.0), Some(1.0), Some(3.0), Some("load"))
    );
    let memory = told("mem_used").unwrap();
    assert_eq!((memory.avg, memory.min, memory.max, memory.unit), (None, None, Some(7.0), None));
    assert_eq!(memory.job.submit, Some((START - 60) * SECOND));
    assert!(told("odd").is_none());
}

#[test]
fn series_have_parts_and_times() {
    let known = whole();
    let shown: Vec<String> = known.measures.series.iter().map(show).collect();
    assert_eq!(
        shown,
        [
            "cpu_load n2 - load 60: 0=1 60=2.5",
            "cpu_load n1 - load 60:",
            "odd n1 hwthread 3 MB 30: 0=0.1",
            "odd n1 hwthread 4 MB 30:",
            "odd n2 hwthread 5 MB 30: 30=1 90=2",
            "odd n2 accelerator 00000000:E1:00.0 GB/s 60: 60=-0.001",
            "odd n2 socket - 60: 0=1",
            "odd n1 tomorrow a b - 60: 0=4",
            // The coarsest that there is.
            "odd n2 - - 60: 0=1",
        ]
    );
    let job = known.measures.series[0].job.as_ref().unwrap();
    assert_eq!((job.cluster.as_deref(), &*job.number, job.submit), (Some("c"), "4007", known.job.submit));
}

fn show(series: &Series) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or("-".into());
    let (part, unit, every) = (text(&series.part), text(&series.unit), series.every / SECOND);
    let head = format!("{} {} {part} {unit} {every}:", series.metric.text(), series.host);
    series
        .points
        .iter()
        .fold(head, |line, point| format!("{line} {}={}", point.time / SECOND - START, point.value))
}

#[test]
fn states_and_their_ends() {
    for (word, state, is_over) in [
        ("boot_fail", State::BootFail, true),
        ("cancelled", State::Cancelled, true),
        ("completed", State::Completed, true),
        ("deadline", State::Deadline, true),
        ("failed", State::Failed, true),
        ("node_fail", State::NodeFail, true),
        ("out-of-memory", State::OutOfMemory, true),
        ("out_of_memory", State::OutOfMemory, true),
        ("pending", State::Pending, false),
        ("preempted", State::Preempted, true),
        ("running", State::Running, false),
        ("suspended", State::Suspended, false),
        ("timeout", State::Timeout, true),
        ("stopped", State::Stopped, true),
    ] {
        let mut job = good();
        job["jobState"] = word.into();
        let job = meta::read(job.to_string().as_bytes()).unwrap().0.job;
        assert_eq!((job.state, job.end.is_some()), (Some(state), is_over), "{word}");
        assert_eq!(job.elapsed, Some(150 * SECOND));
    }
}

#[test]
fn zero_is_unknown_or_none() {
    let mut job = good();
    for key in ["arrayJobId", "numNodes", "numHwthreads", "numAcc", "walltime", "submitTime", "startTime"] {
        job[key] = 0.into();
    }
    (job["partition"], job["user"]) = ("".into(), Value::Null);
    let (known, doubts) = meta::read(job.to_string().as_bytes()).unwrap();
    let job = known.job;
    assert_eq!((doubts.len(), job.array_job, job.nodes, job.cpus), (0, None, None, None));
    assert_eq!((job.time_limit, job.submit, job.start, job.end), (None, None, None, None));
    assert_eq!((job.partition, job.user, gpus(&job.allocated)), (None, None, Some(0)));
    let mut job = good();
    job.as_object_mut().unwrap().remove("numAcc");
    let (known, _) = meta::read(job.to_string().as_bytes()).unwrap();
    assert_eq!(gpus(&known.job.allocated), None);
}

#[test]
fn old_jobs_say_how_nodes_are_shared_by_number() {
    for (old, shared) in [(0, "multi_user"), (1, "none"), (2, "single_user")] {
        let mut job = good();
        job.as_object_mut().unwrap().remove("shared");
        job["exclusive"] = old.into();
        let (known, _) = meta::read(job.to_string().as_bytes()).unwrap();
        assert_eq!(other(&known, "shared"), Some(format!("\"{shared}\"")));
        assert_eq!(other(&known, "exclusive"), None);
    }
}

/// Sets a key of a good job; `null` removes it.
fn changed(key: &str, value: Value) -> Vec<u8> {
    let mut job = good();
    job[key] = value;
    job.to_string().into_bytes()
}

#[test]
fn a_broken_job_is_reported_and_does_not_stop_the_others() {
    let huge = u64::MAX;
    for (bytes, expected) in [
        (b"".to_vec(), "meta.json cannot be read: EOF while parsing a value at line 1 column 0"),
        (
            b"{\"jobId\": 1".to_vec(),
            "meta.json cannot be read: EOF while parsing an object at line 1 column 11",
        ),
        (b"{} {}".to_vec(), "meta.json cannot be read: trailing characters at line 1 column 4"),
        (b"[]".to_vec(), "no job"),
        (b"{}".to_vec(), "a job or step without a number"),
        (changed("jobId", 0.into()), "a job or step without a number"),
        (changed("jobId", "x".into()), "jobId cannot be `\"x\"`"),
        (changed("cluster", Value::Null), "cluster is empty, and never is"),
        (changed("cluster", 7.into()), "cluster cannot be `7`"),
        (changed("jobState", Value::Null), "jobState is empty, and never is"),
        (changed("jobState", "asleep".into()), "no known state, `asleep`"),
        (changed("jobState", "COMPLETED".into()), "no known state, `COMPLETED`"),
        (changed("numNodes", "two".into()), "numNodes cannot be `\"two\"`"),
        (changed("numNodes", (-1).into()), "numNodes cannot be `-1`"),
        (changed("duration", 1e300.into()), "duration cannot be `1e+300`"),
        (changed("duration", huge.into()), "duration cannot be `18446744073709551615`"),
        (changed("startTime", "2023-01-01".into()), "startTime cannot be `\"2023-01-01\"`"),
        (changed("resources", "n1".into()), "resources cannot be `\"n1\"`"),
        (changed("resources", json!([{}])), "resources cannot be `{}`"),
        (changed("resources", json!([{"hostname": ""}])), "resources cannot be `[{\"hostname\":\"\"}]`"),
        (
            changed("resources", json!([{"hostname": "a", "hwthreads": ["1"]}])),
            "resources cannot be `{\"hostname\":\"a\",\"hwthreads\":[\"1\"]}`",
        ),
    ] {
        let archive = Archive::new(&bytes, &[("data.json", b"{}")]);
        let mut next = good();
        next["jobId"] = 5001.into();
        archive.add("c/5/001/1700000000", next.to_string(), &[("data.json", b"{}")]);
        let found = archive.read();
        assert_eq!(found.reasons.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
        let head = format!("{}/c/4/007/1700000000/meta.json:job 1: rejected: ", archive.0.path().display());
        assert!(found.problems[0].starts_with(&head), "{}", found.problems[0]);
        assert_eq!(found.jobs.len(), 1, "{expected}");
    }
}

#[test]
fn what_cannot_be_true_is_left_out() {
    for (key, value, expected) in [
        ("startTime", json!(17), "startTime is at an impossible time, `17`"),
        ("submitTime", json!(99_999_999_999u64), "submitTime is at an impossible time, `99999999999`"),
        ("duration", json!(9_999_999_999u64), "duration is at an impossible time, `11699999999`"),
        ("statistics", json!([]), "statistics cannot be `[]`"),
        ("statistics", json!({"x": {"avg": "1"}}), "statistics cannot be `{\"avg\":\"1\"}`"),
        ("footprint", json!({"x_avg": "1"}), "footprint cannot be `\"1\"`"),
    ] {
        let (_, doubts) = meta::read(&changed(key, value)).unwrap();
        assert_eq!(doubts.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }
    let (known, _) = meta::read(&changed("startTime", 17.into())).unwrap();
    assert_eq!((known.job.start, known.job.end), (None, None));
}

#[test]
fn bytes_that_are_no_text_are_shown() {
    let job = good().to_string().into_bytes();
    let at = job.windows(2).position(|pair| pair == "ä".as_bytes()).unwrap();
    let (known, _) = meta::read(&[&job[..at], b"\xff", &job[at + 2..]].concat()).unwrap();
    assert_eq!(known.job.name.as_deref(), Some(&br"n\xffme"[..]));
}

#[test]
fn a_job_without_its_series_is_a_job() {
    let text = series().to_string();
    let gz = packed(text.as_bytes());
    let bomb = packed(&vec![b' '; 1_000_000]);
    let wrong_sum = {
        let mut gz = gz.clone();
        let at = gz.len() - 8;
        gz[at] ^= 1;
        gz
    };
    let one = |data: &str| format!(r#"{{"m": {{"node": {{"timestep": 60, "series": [{data}]}}}}}}"#);
    for (file, bytes, expected) in [
        ("data.json.gz", &gz[..gz.len() / 2], "data.json cannot be read: "),
        ("data.json.gz", &gz[..5], "data.json cannot be read: "),
        ("data.json.gz", b"", "data.json cannot be read: "),
        ("data.json.gz", &wrong_sum, "data.json cannot be read: "),
        ("data.json.gz", text.as_bytes(), "data.json cannot be read: "),
        ("data.json.gz", &bomb, "longer than 100000 bytes"),
        ("data.json.zst", b"", "data.json.zst cannot be read: files of zstd are not supported"),
        ("data.txt", b"", "data.json cannot be read: No such file"),
        ("data.json", b"[]", "data.json cannot be read: invalid type"),
        ("data.json", br#"{"m": 1}"#, "data.json cannot be read: invalid type"),
        ("data.json", b"{\"\xff\": {}}", "data.json cannot be read: invalid unicode"),
        ("data.json", br#"{"m": {"node": {"timestep": 0}}}"#, "timestep cannot be `0`"),
        (
            "data.json",
            br#"{"m": {"node": {"timestep": 99999999999999}}}"#,
            "timestep cannot be `99999999999999`",
        ),
        ("data.json", br#"{"m": {"node": {}}}"#, "data.json cannot be read: missing field `timestep`"),
        (
            "data.json",
            one(r#"{"data": []}"#).as_bytes(),
            "data.json cannot be read: missing field `hostname`",
        ),
        (
            "data.json",
            one(r#"{"hostname": "a", "data": ["1"]}"#).as_bytes(),
            "data.json cannot be read: invalid type",
        ),
        (
            "data.json",
            one(r#"{"hostname": "a", "data": [1e999]}"#).as_bytes(),
            "data.json cannot be read: number out",
        ),
    ] {
        let found = Archive::new(good().to_string(), &[(file, bytes)]).read();
        let reasons: Vec<String> = found.reasons.iter().map(ToString::to_string).collect();
        assert!(matches!(&reasons[..], [one] if one.starts_with(expected)), "{expected}: {reasons:?}");
        assert!(found.problems[0].contains(": doubted: "), "{}", found.problems[0]);
        let [known] = &found.jobs[..] else { panic!("{expected}") };
        assert_eq!((known.job.nodes, known.measures.series.len()), (Some(2), 0));
        assert_eq!(known.measures.told.len(), 2);
    }
}

#[test]
fn plain_and_packed_files_say_the_same() {
    let text = series().to_string();
    let gz = packed(text.as_bytes());
    for (file, bytes) in [("data.json", text.as_bytes()), ("data.json.gz", &gz)] {
        let found = Archive::new(good().to_string(), &[(file, bytes), ("data.json.zst", b"")]).read();
        assert_eq!(found.problems, [""; 0]);
        assert_eq!(found.jobs, [whole()]);
    }
}

#[test]
fn what_is_no_archive_is_an_error() {
    let read = |dir: &Path| archive::read(dir, &Options::default(), &mut Collected::default());
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(read(dir.path()), Err(Error::NoVersion { .. })));
    assert!(matches!(read(&dir.path().join("none")), Err(Error::NoVersion { .. })));
    for (version, is_known) in
        [("1", true), ("2\n", true), (" 3 ", true), ("4", false), ("0", false), ("", false), ("three", false)]
    {
        std::fs::write(dir.path().join("version.txt"), version).unwrap();
        match read(dir.path()) {
            Ok(()) => assert!(is_known, "{version}"),
            Err(Error::Version { text, .. }) => assert!(!is_known && text == version, "{version}"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Newer releases move old jobs into files of Parquet by cluster; a version may stand beside them or not.
#[test]
fn an_archive_in_parquet_is_an_error_that_says_so() {
    let read = |path: &Path| {
        let mut found = Collected::default();
        let is_dir = path.is_dir();
        let read = if is_dir {
            archive::read(path, &Options::default(), &mut found)
        } else {
            database::read(path, &mut found)
        };
        read.err().map(|error| error.to_string())
    };
    let archive = Archive::new(good().to_string(), &[("data.json", b"{}")]);
    let file = archive.0.path().join("c/cc-archive-2026-01-31-001.parquet");
    std::fs::write(&file, "PAR1").unwrap();
    let expected = format!(
        "{}: archives in Parquet are not read: convert it to files with ClusterCockpit's archive-manager",
        file.display()
    );
    assert_eq!(read(archive.0.path()).as_ref(), Some(&expected));
    std::fs::remove_file(archive.0.path().join("version.txt")).unwrap();
    for path in [archive.0.path(), &archive.0.path().join("c"), &file] {
        assert_eq!(read(path).as_ref(), Some(&expected), "{}", path.display());
    }
}

#[test]
fn an_archive_in_sqlite_is_an_error_that_says_so() {
    let (_dir, path) = database(&ROW, "ALTER TABLE job RENAME TO jobs");
    let error = database::read(&path, &mut Collected::default()).unwrap_err().to_string();
    assert!(error.contains("archives in SQLite are not read: convert it to files"), "{error}");
}

#[test]
fn jobs_come_by_number() {
    let archive = Archive::new(good().to_string(), &[("data.json", b"{}")]);
    for (job, number) in [("c/10/000/1700000000", 10_000), ("b/9/999/1700000000", 9_999), ("c/4/007/9", 1)] {
        let mut meta = good();
        meta["jobId"] = number.into();
        archive.add(job, meta.to_string(), &[("data.json", b"{}")]);
    }
    // What has no number for a name is none of theirs.
    archive.add("c/4/007/lost+found", "", &[]);
    let found = archive.read();
    assert_eq!(found.problems, [""; 0]);
    let numbers: Vec<&str> = found.jobs.iter().map(|known| &*known.job.shown).collect();
    assert_eq!(numbers, ["9999", "1", "4007", "10000"]);
}

fn again(jobs: &[Known]) -> (TempDir, Vec<Known>) {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(dir.path(), false).unwrap();
    jobs.iter().for_each(|known| assert!(writer.job(known).unwrap().is_new));
    writer.finish().unwrap();
    let mut found = Collected::default();
    archive::read(dir.path(), &Options::default(), &mut found).unwrap();
    assert_eq!(found.problems, [""; 0]);
    (dir, found.jobs)
}

fn json(file: PathBuf) -> Value {
    let bytes = std::fs::read(&file).unwrap();
    if file.extension().is_some_and(|extension| extension == "gz") {
        return serde_json::from_reader(flate2::read::GzDecoder::new(&bytes[..])).unwrap();
    }
    serde_json::from_slice(&bytes).unwrap()
}

/// The lists of values of a scope, with all that is null.
fn values(scope: &Value) -> Vec<Vec<Option<f64>>> {
    let list = |series: &Value| series["data"].as_array().unwrap().iter().map(Value::as_f64).collect();
    scope["series"].as_array().into_iter().flatten().map(list).collect()
}

#[test]
fn what_is_written_is_read_again() {
    let known = whole();
    let (dir, found) = again(std::slice::from_ref(&known));
    assert_eq!(found, [known]);
    let job = dir.path().join("c/4/007/1700000000");
    assert_eq!(json(job.join("meta.json")), good());
    let data = json(job.join("data.json.gz"));
    let shown = |file: &Value| {
        let lists = file.as_object().unwrap().values().flat_map(|scopes| scopes.as_object().unwrap());
        let lists = lists.map(|(scope, list)| (scope.clone(), list["unit"].clone(), values(list)));
        lists.collect::<Vec<_>>()
    };
    assert_eq!(shown(&data), shown(&series()));
    assert_eq!(data["odd"]["hwthread"]["statisticsSeries"], json!({"mean": [1, 2]}));
    let names: Vec<_> = std::fs::read_dir(&job).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let part = &json(dir.path().join("c/cluster.json"))["subClusters"][0];
    assert_eq!((&part["name"], &part["coresPerSocket"]), (&json!("s"), &json!(8)));
}

/// A job as Slurm tells it, with series of ours.
fn foreign() -> Known {
    let job = Accounting {
        job: Some("12".into()),
        shown: "12".into(),
        start: Some(START * SECOND + 1),
        end: Some(START * SECOND + 1),
        exit: Some(Exit { code: Some(1), signal: None }),
        node_list: Some("n[1-2]".into()),
        elapsed: Some(0),
        ..Accounting::default()
    };
    Known { job, measures: Measures::default() }
}

fn own(host: &str, part: Option<&str>, points: &[(u64, f64)]) -> Series {
    Series {
        host: host.into(),
        metric: Name::Ours("node_load".into()),
        part: part.map(Into::into),
        every: 10 * SECOND,
        points: points
            .iter()
            .map(|(at, value)| Point { time: (START + at) * SECOND, value: *value })
            .collect(),
        ..Series::default()
    }
}

#[test]
fn a_job_of_another_system_has_what_theirs_must_have() {
    let (dir, found) = again(&[foreign()]);
    let meta = json(dir.path().join("unknown/0/012/1700000000/meta.json"));
    let expected = json!({
        "jobId": 12, "user": "unknown", "project": "no project", "cluster": "unknown", "subCluster": "main",
        "shared": "multi_user", "jobState": "failed", "numNodes": 2, "startTime": START, "duration": 1,
        "resources": [{"hostname": "n1"}, {"hostname": "n2"}], "statistics": {},
    });
    assert_eq!(meta, expected);
    assert_eq!(found[0].job.node_list.as_deref(), Some("n[1-2]"));
    let cluster = json(dir.path().join("unknown/cluster.json"));
    assert_eq!(cluster["subClusters"][0]["nodes"], "n[1-2]");
    assert_eq!(cluster["metricConfig"][0]["name"], "cpu_load");
    for key in
        ["topology", "flopRateScalar", "flopRateSimd", "memoryBandwidth", "processorType", "threadsPerCore"]
    {
        assert!(!cluster["subClusters"][0][key].is_null(), "{key}");
    }
}

#[test]
fn series_of_another_system_are_put_into_steps() {
    let mut known = foreign();
    known.job.elapsed = Some(30 * SECOND);
    known.job.end = Some((START + 31) * SECOND);
    known.measures.series = vec![
        own("n1", None, &[(1, 1.0), (12, 2.0), (19, 4.0), (500, 9.0)]),
        own("n2", None, &[(25, 0.1), (26, f64::NAN)]),
        own("n1", Some("gpu0"), &[(0, 1.0)]),
        own("n1", Some("disk sda"), &[(0, 1.0)]),
    ];
    known.measures.series[0].points.insert(0, Point { time: SECOND, value: 7.0 });
    let told = Told { metric: Name::Own("x".into()), avg: Some(1.0), ..Told::default() };
    known.measures.told =
        vec![told.clone(), Told { metric: Name::Own("y".into()), min: Some(0.5), max: Some(2.0), ..told }];
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(dir.path(), false).unwrap();
    assert_eq!(writer.job(&known).unwrap().left_out, 1);
    writer.finish().unwrap();
    let job = dir.path().join("unknown/0/012/1700000000");
    let data = &json(job.join("data.json.gz"))["node_load"];
    assert_eq!(data["node"]["timestep"], 10);
    assert_eq!(data["node"]["series"][0]["data"], json!([1.0, 4.0, null, null]));
    assert_eq!(data["node"]["series"][0]["statistics"], json!({"avg": 2.5, "min": 1.0, "max": 4.0}));
    assert_eq!(data["node"]["series"][1]["data"], json!([null, null, null]));
    assert_eq!(data["node"]["series"][1]["statistics"], Value::Null);
    assert_eq!(data["accelerator"]["series"][0]["id"], "gpu0");
    let statistics = &json(job.join("meta.json"))["statistics"];
    // Of all nodes together; a metric of which only the mean is known has no place.
    assert_eq!(statistics["node_load"], json!({"avg": 2.5, "min": 1.0, "max": 4.0, "unit": {"base": ""}}));
    assert_eq!(statistics["y"], json!({"avg": 1.0, "min": 0.5, "max": 2.0, "unit": {"base": ""}}));
    assert_eq!(statistics["x"], Value::Null);
}

#[test]
fn the_mean_is_of_all_values_and_not_of_nodes() {
    let mut known = foreign();
    known.job.elapsed = Some(30 * SECOND);
    known.measures.series =
        vec![own("n1", None, &[(0, 1.0), (10, 1.0), (20, 1.0)]), own("n2", None, &[(0, 5.0)])];
    // One that was read more often goes by the steps of the others.
    known.measures.series[1].every = 5 * SECOND;
    let (dir, _) = again(&[known]);
    let job = dir.path().join("unknown/0/012/1700000000");
    assert_eq!(json(job.join("meta.json"))["statistics"]["node_load"]["avg"], 2.0);
    assert_eq!(json(job.join("data.json.gz"))["node_load"]["node"]["timestep"], 10);
}

#[test]
fn nodes_tell_more_of_a_job_than_their_parts() {
    let mut known = foreign();
    known.job.elapsed = None;
    known.job.end = Some((START + 25) * SECOND);
    let other = Series { metric: Name::Own("of gpus".into()), ..own("n1", Some("gpu0"), &[(0, 3.0)]) };
    known.measures.series = vec![own("n1", Some("gpu0"), &[(0, 9.0)]), own("n1", None, &[(1, 1.0)]), other];
    known.job.start = Some(START * SECOND);
    let (dir, _) = again(&[known]);
    let meta = json(dir.path().join("unknown/0/012/1700000000/meta.json"));
    assert_eq!(meta["statistics"]["node_load"]["max"], 1.0);
    assert_eq!(meta["statistics"]["of gpus"]["max"], 3.0);
    assert_eq!(meta["duration"], 25);
}

#[test]
fn jobs_that_cannot_be_filed() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(dir.path(), false).unwrap();
    let mut refused = |change: fn(&mut Accounting)| {
        let mut known = foreign();
        change(&mut known.job);
        writer.job(&known).unwrap_err().to_string()
    };
    for (change, expected) in [
        (
            (|job| job.start = None) as fn(&mut Accounting),
            "job 12 has no start, and ClusterCockpit files jobs by it",
        ),
        (
            |job| (job.job, job.shown) = (None, "1_2".into()),
            "job 1_2 has no number that ClusterCockpit could file it under",
        ),
        (|job| job.cluster = Some("..".into()), "job 12: `..` cannot be the name of a directory"),
        (|job| job.cluster = Some("a/b".into()), "job 12: `a/b` cannot be the name of a directory"),
        (|job| job.cluster = Some("".into()), "job 12: `` cannot be the name of a directory"),
    ] {
        assert_eq!(refused(change), expected);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn another_record_is_not_overwritten_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let write = |known: &Known, overwrite| Writer::new(dir.path(), overwrite).unwrap().job(known);
    let known = whole();
    assert!(write(&known, false).unwrap().is_new);
    assert!(!write(&known, false).unwrap().is_new);
    let (mut other_meta, mut other_data) = (known.clone(), known.clone());
    let user = other_meta.job.others.iter_mut().find(|other| other.name == "clustercockpit.user").unwrap();
    (other_meta.job.user, user.value) = (Some("v".into()), "\"v\"".into());
    other_data.measures.series[0].points[0].value = 77.0;
    for other in [&other_meta, &other_data] {
        assert!(matches!(write(other, false), Err(Error::Exists { .. })));
    }
    let mut found = Collected::default();
    archive::read(dir.path(), &Options::default(), &mut found).unwrap();
    assert_eq!(found.jobs, [known]);
    assert!(write(&other_data, true).unwrap().is_new);
    let mut found = Collected::default();
    archive::read(dir.path(), &Options::default(), &mut found).unwrap();
    assert_eq!(found.jobs, [other_data]);
    // A plain file that somebody else wrote would contradict the new one.
    let plain = dir.path().join("c/4/007/1700000000/data.json");
    std::fs::write(&plain, "{}").unwrap();
    assert!(write(&other_meta, true).unwrap().is_new && !plain.exists());
    std::fs::write(dir.path().join("version.txt"), "2").unwrap();
    assert!(matches!(Writer::new(dir.path(), true), Err(Error::Version { .. })));
}

#[test]
fn a_description_of_the_cluster_stays() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("c")).unwrap();
    std::fs::write(dir.path().join("c/cluster.json"), "theirs").unwrap();
    let mut writer = Writer::new(dir.path(), true).unwrap();
    writer.job(&whole()).unwrap();
    writer.finish().unwrap();
    assert_eq!(std::fs::read(dir.path().join("c/cluster.json")).unwrap(), b"theirs");
}

#[test]
fn what_others_keep_of_us_may_be_damaged() {
    for value in ["7", "[]", "{", "{\"cpu_load\": 1}", "{\"cpu_load\": {\"node\": {\"points\": \"x\"}}}"] {
        let mut known = whole();
        let layout =
            known.job.others.iter_mut().find(|other| other.name == "clustercockpit.data.json").unwrap();
        layout.value = value.into();
        // A scope that only the layout knows is one of theirs.
        known.measures.series.retain(|series| series.part.as_deref() != Some("tomorrow a b"));
        let (_, found) = again(std::slice::from_ref(&known));
        assert_eq!(found[0].measures, known.measures, "{value}");
    }
}

/// A database with one table of jobs, of these columns and values.
fn database(columns: &[(&str, &str)], more: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j?b #1%.db");
    let database = Connection::open(&path).unwrap();
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let values: Vec<&str> = columns.iter().map(|(_, value)| *value).collect();
    let (names, values) = (names.join(", "), values.join(", "));
    database
        .execute_batch(&format!("CREATE TABLE job ({names}); INSERT INTO job VALUES ({values}); {more}"))
        .unwrap();
    (dir, path)
}

const ROW: [(&str, &str); 6] = [
    ("id", "9"),
    ("job_id", "5"),
    ("cluster", "'c'"),
    ("start_time", "1700000000"),
    ("job_state", "'completed'"),
    ("duration", "60"),
];

#[test]
fn columns_are_found_by_name() {
    let columns = [
        ("user", "'u'"),
        ("partition", "'q'"),
        ("exclusive", "1"),
        ("load_avg", "0.5"),
        ("meta_data", "CAST('{\"jobName\":\"a\"}' AS BLOB)"),
        ("footprint", "'{\"x_min\": 3}'"),
        ("resources", "''"),
        ("energy_footprint", "NULL"),
    ];
    let tags = "CREATE TABLE tag (id, tag_type, tag_name); CREATE TABLE jobtag (job_id, tag_id);
        INSERT INTO tag VALUES (1, 'app', 'x'), (2, 'app', 'y'); INSERT INTO jobtag VALUES (9, 2), (8, 1);";
    let (dir, path) = database(&[&ROW[..], &columns].concat(), tags);
    let mut found = Collected::default();
    database::read(&path, &mut found).unwrap();
    assert_eq!(found.problems, [""; 0]);
    let known = &found.jobs[0];
    let job = &known.job;
    assert_eq!((job.user.as_deref(), job.partition.as_deref()), (Some("u"), Some("q")));
    assert_eq!((job.name.as_deref(), job.end), (Some(&b"a"[..]), Some((START + 60) * SECOND)));
    assert_eq!((job.nodes, job.account.as_deref(), job.placed.len()), (None, None, 0));
    assert_eq!(known.measures.told[0].min, Some(3.0));
    assert!(job.others.is_sorted());
    for (name, expected) in [
        ("shared", Some("\"none\"")),
        ("load_avg", Some("0.5")),
        ("tags", Some(r#"[{"type":"app","name":"y"}]"#)),
        ("energyFootprint", None),
        ("id", None),
    ] {
        assert_eq!(other(known, name).as_deref(), expected, "{name}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// Counts the files beside a database while it is read.
struct Beside(PathBuf, Vec<usize>);

impl Takes for Beside {
    fn job(&mut self, _: Known) -> std::io::Result<()> {
        self.1.push(std::fs::read_dir(&self.0)?.count());
        Ok(())
    }

    fn problem(&mut self, problem: Problem<'_>) {
        panic!("{problem}");
    }
}

#[test]
fn nothing_is_written_beside_a_database() {
    let (dir, path) = database(&ROW, "");
    // With such a log SQLite writes two files even where it only reads.
    Connection::open(&path).unwrap().pragma_update(None, "journal_mode", "wal").unwrap();
    let mut beside = Beside(dir.path().to_owned(), Vec::new());
    database::read(&path, &mut beside).unwrap();
    assert_eq!(beside.1, [1]);
}

#[test]
fn a_broken_row_is_reported_and_does_not_stop_the_others() {
    for (column, value, expected) in [
        ("resources", "'{'", "resources cannot be read: EOF while parsing an object at line 1 column 1"),
        ("resources", "x'ff'", "resources cannot be read: expected value at line 1 column 1"),
        ("meta_data", "'{]'", "meta_data cannot be read: key must be a string at line 1 column 2"),
        ("num_nodes", "'many'", "numNodes cannot be `\"many\"`"),
        ("num_acc", "-1", "numAcc cannot be `-1`"),
        ("energy", "9e999", "column cannot be read: inf"),
        ("submit_time", "17", "submitTime is at an impossible time, `17`"),
    ] {
        let columns = [&ROW[..], &[(column, value)]].concat();
        let good = "INSERT INTO job VALUES (10, 6, 'c', 1700000000, 'running', 1, NULL)";
        let (_dir, path) = database(&columns, good);
        let mut found = Collected::default();
        database::read(&path, &mut found).unwrap();
        assert_eq!(found.reasons.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
        assert_eq!(found.jobs.last().unwrap().job.shown, "6");
    }
}

#[test]
fn what_is_no_database_of_theirs_is_an_error() {
    let read = |path: &Path| database::read(path, &mut Collected::default()).unwrap_err();
    for column in ["job_id", "cluster", "start_time", "job_state"] {
        let columns: Vec<_> = ROW.into_iter().filter(|(name, _)| *name != column).collect();
        let (_dir, path) = database(&columns, "");
        assert!(matches!(read(&path), Error::NoColumn { column: missing, .. } if missing == column));
    }
    let (dir, path) = database(&ROW, "ALTER TABLE job RENAME TO runs");
    assert!(matches!(read(&path), Error::NoTable { .. }));
    let wal = PathBuf::from(format!("{}-wal", path.display()));
    std::fs::write(wal, "x").unwrap();
    assert!(matches!(read(&path), Error::Unsettled { .. }));
    assert!(matches!(read(&dir.path().join("none")), Error::Io { .. }));
    let text = dir.path().join("text");
    std::fs::write(&text, "no database, but long enough to look like one".repeat(20)).unwrap();
    assert!(matches!(read(&text), Error::Database { .. }));
}

/// Both files of a job, and what a damaged one becomes: bytes replaced, cut out or put in.
fn damaged(text: String) -> impl Strategy<Value = Vec<u8>> {
    let length = text.len();
    let piece = prop_oneof![
        Just(b"".to_vec()),
        Just(b"null".to_vec()),
        Just(b"-1".to_vec()),
        Just(b"1e308".to_vec()),
        Just(b"18446744073709551615".to_vec()),
        Just(b"{}".to_vec()),
        Just(b"[]".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..3),
    ];
    (0..length, 0usize..6, piece).prop_map(move |(at, cut, piece)| {
        let behind = (at + cut).min(length);
        [&text.as_bytes()[..at], &piece, &text.as_bytes()[behind..]].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_can_be_read_of_a_damaged_job_survives_the_way(
        job in prop_oneof![Just(good().to_string().into_bytes()), damaged(good().to_string())],
        values in damaged(series().to_string()),
    ) {
        let Ok((mut known, _)) = meta::read(&job) else { return Ok(()) };
        let none = Aggregations::default();
        let _ = data::read(&values[..], data::DATA_MAX, &none, &mut known);
        let (groups, left_out) = write::data::groups(&known);
        let Ok(written) = write::meta::render(&known, &groups) else { return Ok(()) };
        let mut text = Vec::new();
        write::data::render(&groups, &mut text).unwrap();
        let (mut again, _) = meta::read(written.to_string().as_bytes()).unwrap();
        data::read(&text[..], data::DATA_MAX, &none, &mut again).unwrap();
        prop_assert_eq!(&again.job.placed, &known.job.placed);
        // Where they say nothing of the whole job, it is computed.
        if other(&known, "statistics").is_some() {
            prop_assert_eq!(&again.measures.told, &known.measures.told);
        }
        if left_out == 0 {
            prop_assert_eq!(again.measures.series, known.measures.series);
        }
    }
}
