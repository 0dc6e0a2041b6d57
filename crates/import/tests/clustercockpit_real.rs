//! A real archive and a real database of ClusterCockpit. Neither is part of the project.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use import::clustercockpit::archive::Options;
use import::clustercockpit::write::Writer;
use import::clustercockpit::{Collected, Known, archive, database};
use record::accounting::{State, TimeLimit, gpus};
use record::measure::{Name, Series};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use testkit::shared_data;

const SECOND: u64 = 1_000_000_000;

fn from_archive(dir: &Path) -> Vec<Known> {
    let mut found = Collected::default();
    archive::read(dir, &Options::default(), &mut found).unwrap();
    assert_eq!(found.problems, [""; 0]);
    found.jobs
}

fn from_database(data: &Path) -> Vec<Known> {
    let mut found = Collected::default();
    database::read(&data.join("job.db"), &mut found).unwrap();
    assert_eq!(found.problems, [""; 0]);
    found.jobs
}

fn written(jobs: &[Known], dir: &Path) {
    let mut writer = Writer::new(dir, false).unwrap();
    for known in jobs {
        let written = writer.job(known).unwrap();
        assert!(written.is_new && written.left_out == 0, "{written:?}");
    }
    writer.finish().unwrap();
}

/// By cluster, number and start, as an archive is read.
fn in_order(mut jobs: Vec<Known>) -> Vec<Known> {
    let number = |known: &Known| known.job.shown.parse::<u64>().unwrap();
    jobs.sort_by_key(|known| (known.job.cluster.clone(), number(known), known.job.start));
    jobs
}

#[test]
fn all_jobs_of_the_database() {
    let Some(data) = shared_data("all_jobs_of_the_database", "clustercockpit") else { return };
    let jobs = from_database(&data);
    assert_eq!(jobs.len(), 544);
    let uri = format!("file:{}?immutable=1", data.join("job.db").display());
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let plain = Connection::open_with_flags(uri, flags).unwrap();
    let sum = |of: fn(&Known) -> u64| jobs.iter().map(of).sum::<u64>();
    let cluster = |known: &Known, name: &str| u64::from(known.job.cluster.as_deref() == Some(name));
    for (query, found) in [
        ("SELECT sum(duration) FROM job", sum(|known| known.job.elapsed.unwrap() / SECOND)),
        ("SELECT sum(start_time) FROM job", sum(|known| known.job.start.unwrap() / SECOND)),
        ("SELECT sum(start_time + duration) FROM job", sum(|known| known.job.end.unwrap() / SECOND)),
        ("SELECT sum(num_nodes) FROM job", sum(|known| known.job.nodes.unwrap())),
        ("SELECT sum(num_hwthreads) FROM job", sum(|known| known.job.cpus.unwrap())),
        ("SELECT sum(num_acc) FROM job", sum(|known| gpus(&known.job.allocated).unwrap())),
        (
            "SELECT count(*) FROM job WHERE cluster = 'alex'",
            jobs.iter().map(|known| cluster(known, "alex")).sum(),
        ),
        ("SELECT count(*) FROM job WHERE submit_time > 0", sum(|known| known.job.submit.unwrap_or(0))),
        (
            "SELECT count(DISTINCT hpc_user || project) FROM job",
            jobs.iter().map(|known| (&known.job.user, &known.job.account)).collect::<BTreeSet<_>>().len()
                as u64,
        ),
        (
            "SELECT sum(walltime) FROM job",
            sum(|known| match known.job.time_limit {
                Some(TimeLimit::Nanos(limit)) => limit / SECOND,
                _ => 0,
            }),
        ),
        (
            "SELECT sum(json_array_length(CAST(resources AS TEXT))) FROM job",
            sum(|known| known.job.placed.len() as u64),
        ),
        (
            "SELECT sum(json_array_length(CAST(resources AS TEXT), '$[0].accelerators')) FROM job",
            sum(|known| known.job.placed[0].gpus.len() as u64),
        ),
        ("SELECT count(DISTINCT job_id) FROM jobtag", sum(|known| u64::from(other(known, "tags").is_some()))),
        (
            "SELECT count(*) FROM job, json_each(CAST(footprint AS TEXT))",
            sum(|known| known.measures.told.iter().filter(|told| told.avg.is_some()).count() as u64),
        ),
    ] {
        let expected: u64 = plain.query_row(query, [], |row| row.get(0)).unwrap();
        assert_eq!(found, expected, "{query}");
    }
    let load: f64 = jobs.iter().filter_map(|known| average(known, "cpu_load")).sum();
    let query = "SELECT sum(json_extract(CAST(footprint AS TEXT), '$.cpu_load_avg')) FROM job";
    let expected: f64 = plain.query_row(query, [], |row| row.get(0)).unwrap();
    assert!((load - expected).abs() < 1e-6, "{load} {expected}");
}

fn other(known: &Known, name: &str) -> Option<Value> {
    let name = format!("clustercockpit.{name}");
    let other = known.job.others.iter().find(|other| other.name == name)?;
    Some(serde_json::from_str(&other.value).unwrap())
}

fn average(known: &Known, metric: &str) -> Option<f64> {
    known.measures.told.iter().find(|told| told.metric.text() == metric)?.avg
}

#[test]
fn the_first_job_of_the_database() {
    let Some(data) = shared_data("the_first_job_of_the_database", "clustercockpit") else { return };
    let known = &from_database(&data)[0];
    let job = &known.job;
    assert_eq!((job.job.as_deref(), &*job.shown), (Some("679694"), "679694"));
    assert_eq!((job.user.as_deref(), job.account.as_deref()), (Some("iwi5056h"), Some("iwi5")));
    assert_eq!((job.partition.as_deref(), job.state), (Some("a40"), Some(State::Completed)));
    assert_eq!((job.array_job, job.submit), (None, None));
    assert_eq!(job.node_list.as_deref(), Some("a0128"));
    assert_eq!(job.placed[0].cpus.as_deref(), Some("112-127"));
    assert_eq!(job.placed[0].gpus, ["00000000:E1:00.0"]);
    assert_eq!(job.name.as_deref(), Some(&b"retrain_SNN"[..]));
    assert_eq!(average(known, "cpu_load"), Some(36.87));
    assert_eq!(other(known, "subCluster"), Some("a40".into()));
    assert_eq!(other(known, "smt"), Some(0.into()));
    assert_eq!(other(known, "tags").unwrap().as_array().unwrap().len(), 2);
    assert_eq!(other(known, "id"), None);
}

/// Their own file, as plain JSON.
fn raw(data: &Path, file: &str) -> Value {
    let bytes = std::fs::read(data.join("archive/emmy/1403/244/1608923076").join(file)).unwrap();
    let mut text = Vec::new();
    if file.ends_with(".gz") {
        flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut text).unwrap();
    } else {
        text = bytes;
    }
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn the_job_of_the_archive() {
    let Some(data) = shared_data("the_job_of_the_archive", "clustercockpit") else { return };
    let jobs = from_archive(&data.join("archive"));
    let [Known { job, measures }] = &jobs[..] else { panic!("{} jobs", jobs.len()) };
    assert_eq!(hostlist::expand(job.node_list.as_deref().unwrap()).unwrap().len(), 32);
    assert_eq!((job.end.unwrap() - job.start.unwrap()) / SECOND, 86486);
    assert_eq!(job.end, Some(1609009562 * SECOND));
    let theirs = raw(&data, "data.json.gz");
    let mut series = measures.series.iter();
    for (metric, scopes) in theirs.as_object().unwrap() {
        for one in scopes["node"]["series"].as_array().unwrap() {
            let ours = series.next().unwrap();
            assert_eq!(ours.metric, Name::Own(metric.clone()));
            assert_eq!((ours.host.as_str(), ours.every), (one["hostname"].as_str().unwrap(), 60 * SECOND));
            let values = one["data"].as_array().unwrap().iter().map(Value::as_f64).collect::<Vec<_>>();
            assert_eq!(spread(ours, values.len()), values, "{metric} of {}", ours.host);
        }
    }
    assert!(series.next().is_none());
    assert_eq!(measures.series.len(), 9 * 32);
}

/// The values of a series by their places from the start of the job.
fn spread(series: &Series, length: usize) -> Vec<Option<f64>> {
    let mut values = vec![None; length];
    for point in &series.points {
        values[((point.time - 1608923076 * SECOND) / series.every) as usize] = Some(point.value);
    }
    values
}

/// Theirs are rounded to two decimals.
fn check_rounded(metric: &str, ours: &Value, theirs: &Value) {
    for kind in ["avg", "min", "max"] {
        let (ours, theirs) = (ours[kind].as_f64().unwrap(), theirs[kind].as_f64().unwrap());
        assert!((ours - theirs).abs() <= 0.005 + 1e-9, "{kind} of {metric}: {ours} {theirs}");
    }
}

#[test]
fn statistics_are_computed_as_theirs() {
    let Some(data) = shared_data("statistics_are_computed_as_theirs", "clustercockpit") else { return };
    let mut jobs = from_archive(&data.join("archive"));
    // Ours are written only where there are none of theirs.
    jobs[0].job.others.retain(|other| other.name != "clustercockpit.statistics");
    jobs[0].measures.told.clear();
    let dir = tempfile::tempdir().unwrap();
    written(&jobs, dir.path());
    let job = dir.path().join("emmy/1403/244/1608923076");
    let meta: Value = serde_json::from_slice(&std::fs::read(job.join("meta.json")).unwrap()).unwrap();
    let mut text = Vec::new();
    let packed = std::fs::read(job.join("data.json.gz")).unwrap();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut text).unwrap();
    let ours: Value = serde_json::from_slice(&text).unwrap();
    let theirs = raw(&data, "data.json.gz");
    let mut compared = 0;
    for (metric, scopes) in theirs.as_object().unwrap() {
        let list = |scopes: &Value| scopes["node"]["series"].as_array().unwrap().clone();
        for (theirs, ours) in list(scopes).iter().zip(&list(&ours[metric])) {
            assert_eq!(ours["hostname"], theirs["hostname"]);
            // They have none of one metric.
            if theirs["statistics"].is_object() {
                check_rounded(metric, &ours["statistics"], &theirs["statistics"]);
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 8 * 32);
    let theirs = raw(&data, "meta.json");
    for (metric, theirs) in theirs["statistics"].as_object().unwrap() {
        // Their figures of this one cannot be true: its mean is above its maximum. They are those of cycles per
        // instruction, turned around one by one.
        if metric != "ipc" {
            check_rounded(metric, &meta["statistics"][metric], theirs);
        }
    }
}

#[test]
fn what_is_written_is_read_again() {
    let Some(data) = shared_data("what_is_written_is_read_again", "clustercockpit") else { return };
    for jobs in [from_archive(&data.join("archive")), in_order(from_database(&data))] {
        let dir = tempfile::tempdir().unwrap();
        written(&jobs, dir.path());
        let mut found = Collected::default();
        archive::read(dir.path(), &Options::default(), &mut found).unwrap();
        assert_eq!(found.problems, [""; 0]);
        assert_eq!(found.jobs.len(), jobs.len());
        for (found, known) in found.jobs.iter().zip(&jobs) {
            assert_eq!(found.job, known.job);
            assert_eq!(found.measures.told, known.measures.told);
            assert!(found.measures == known.measures, "series of {}", known.job.shown);
        }
    }
}

#[test]
fn their_statistics_are_written_back() {
    let Some(data) = shared_data("their_statistics_are_written_back", "clustercockpit") else { return };
    let dir = tempfile::tempdir().unwrap();
    written(&from_archive(&data.join("archive")), dir.path());
    let file = dir.path().join("emmy/1403/244/1608923076/meta.json");
    let ours: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    // All of the file, in fact.
    assert_eq!(ours, raw(&data, "meta.json"));
}
