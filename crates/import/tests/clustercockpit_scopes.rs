//! Metrics of ClusterCockpit that are measured on whole nodes, on parts of them, or on both: what counts as the node's.

use std::fs;
use std::path::Path;

use import::clustercockpit::write::Writer;
use import::clustercockpit::{Collected, Known, archive};
use record::measure::Series;
use serde_json::{Value, json};
use tempfile::TempDir;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000;

/// How a cluster says that its metrics are aggregated; of `odd` it does not.
fn cluster() -> Value {
    let metric = |name: &str, scope: &str, aggregation: &str| json!({"name": name, "scope": scope, "aggregation": aggregation, "timestep": 60, "unit": {"base": ""}});
    json!({"name": "c", "metricConfig": [
        metric("flops_any", "hwthread", "sum"), metric("clock", "core", "avg"), metric("mem_bw", "socket", "sum"),
        metric("acc_power", "accelerator", "sum"), metric("acc_utilization", "accelerator", "avg"),
        {"name": "odd", "scope": "core", "timestep": 60, "unit": {"base": ""}},
    ], "subClusters": []})
}

fn one(host: &str, id: Value, data: Value) -> Value {
    let mut series = json!({"hostname": host, "data": data});
    if !id.is_null() {
        series["id"] = id;
    }
    series
}

fn scope(series: Vec<Value>) -> Value {
    json!({"unit": {"prefix": "G", "base": "F/s"}, "timestep": 60, "series": series})
}

/// One value on each of these parts of the node.
fn parts(values: &[f64]) -> Value {
    scope(
        values
            .iter()
            .enumerate()
            .map(|(id, value)| one("n1", id.to_string().into(), json!([value])))
            .collect(),
    )
}

/// An archive with a job that has this `data.json`.
fn archive(cluster: Option<&Value>, data: &Value) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("c/0/007/1700000000");
    fs::create_dir_all(&job).unwrap();
    fs::write(dir.path().join("version.txt"), "3").unwrap();
    if let Some(cluster) = cluster {
        fs::write(dir.path().join("c/cluster.json"), cluster.to_string()).unwrap();
    }
    let meta = json!({
        "jobId": 7, "user": "u", "project": "p", "cluster": "c", "subCluster": "s", "numNodes": 2, "shared": "none",
        "jobState": "completed", "startTime": START, "duration": 120, "statistics": {},
        "resources": [{"hostname": "n1"}, {"hostname": "n2"}],
    });
    fs::write(job.join("meta.json"), meta.to_string()).unwrap();
    fs::write(job.join("data.json"), data.to_string()).unwrap();
    dir
}

fn read(dir: &Path) -> Collected {
    let mut found = Collected::default();
    archive::read(dir, &archive::Options::default(), &mut found).unwrap();
    found
}

fn only(found: Collected) -> Known {
    assert_eq!(found.problems, [""; 0]);
    found.jobs.into_iter().next().unwrap()
}

/// The values of whole nodes: host, seconds from the start and value.
fn of_nodes(known: &Known, metric: &str) -> Vec<String> {
    let is_asked = |series: &&Series| series.metric.text() == metric && series.part.is_none();
    let show = |series: &Series| {
        let head = format!("{} {}:", series.host, series.unit.as_deref().unwrap_or("-"));
        let points = series.points.iter();
        points.fold(head, |line, point| format!("{line} {}={}", point.time / SECOND - START, point.value))
    };
    known.measures.series.iter().filter(is_asked).map(show).collect()
}

#[test]
fn finer_scopes_are_aggregated_as_the_cluster_says_where_there_is_no_coarser_one() {
    let cores = scope(vec![
        one("n1", json!("0"), json!([1, 2, null])),
        one("n2", json!("0"), json!([10, 20, 30])),
        one("n1", json!("1"), json!([3, 4, 5])),
    ]);
    for (metric, scopes, expected) in [
        // Both: the node's own.
        (
            "flops_any",
            json!({"core": parts(&[0.5; 72]), "node": scope(vec![one("n1", Value::Null, json!([45.012]))])}),
            &["n1 GF/s: 0=45.012"][..],
        ),
        // Of a sum with an unknown part nothing is known, and it is never less.
        ("flops_any", json!({"core": cores}), &["n1 GF/s: 0=4 60=6", "n2 GF/s: 0=10 60=20 120=30"]),
        ("clock", json!({"core": cores}), &["n1 GF/s: 0=2 60=3", "n2 GF/s: 0=10 60=20 120=30"]),
        // Sockets are coarser than hardware threads, in whichever order they come.
        ("mem_bw", json!({"hwthread": parts(&[1.0; 4]), "socket": parts(&[30.0, 40.0])}), &["n1 GF/s: 0=70"]),
        ("mem_bw", json!({"memoryDomain": parts(&[3.0, 4.0]), "core": parts(&[1.0; 8])}), &["n1 GF/s: 0=7"]),
        ("acc_power", json!({"accelerator": parts(&[300.0, 50.0])}), &["n1 GF/s: 0=350"]),
        ("acc_utilization", json!({"accelerator": parts(&[100.0, 50.0])}), &["n1 GF/s: 0=75"]),
        // One part of a node is all that there is of it, whatever the cluster says.
        ("odd", json!({"core": parts(&[2.5])}), &["n1 GF/s: 0=2.5"]),
    ] {
        let dir = archive(Some(&cluster()), &json!({metric: scopes}));
        assert_eq!(of_nodes(&only(read(dir.path())), metric), expected, "{metric}: {scopes}");
    }
}

#[test]
fn without_a_rule_parts_are_not_aggregated_and_that_is_reported_once() {
    let data = json!({"odd": {"core": parts(&[1.0, 2.0])}});
    let mut damaged = cluster();
    damaged["metricConfig"][5]["aggregation"] = "median".into();
    for cluster in [Some(cluster()), Some(damaged), None] {
        let dir = archive(cluster.as_ref(), &data);
        let again = dir.path().join("c/0/008/1700000000");
        fs::create_dir_all(&again).unwrap();
        for file in ["meta.json", "data.json"] {
            let text = fs::read(dir.path().join("c/0/007/1700000000").join(file)).unwrap();
            let text = String::from_utf8(text).unwrap().replace("\"jobId\":7", "\"jobId\":8");
            fs::write(again.join(file), text).unwrap();
        }
        let found = read(dir.path());
        let expected =
            "odd is known of core only, and cluster.json does not say how that is aggregated (sum or avg)";
        assert_eq!(found.reasons.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
        assert_eq!(found.jobs.len(), 2);
        assert_eq!(of_nodes(&found.jobs[0], "odd"), [""; 0]);
        assert_eq!(found.jobs[0].measures.series.len(), 2);
    }
}

#[test]
fn a_broken_description_of_the_cluster_is_reported_and_its_jobs_are_read() {
    for (text, expected) in [
        ("{", "cluster.json cannot be read: EOF while parsing an object at line 1 column 1"),
        ("[]", "cluster.json cannot be read: no object"),
    ] {
        let dir = archive(None, &json!({"odd": {"core": parts(&[1.0])}}));
        fs::write(dir.path().join("c/cluster.json"), text).unwrap();
        let found = read(dir.path());
        assert_eq!(found.reasons.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
        assert_eq!(found.jobs.len(), 1);
    }
}

#[test]
fn what_was_aggregated_here_is_not_written_as_if_they_had_measured_it() {
    let data = json!({"flops_any": {"core": parts(&[1.0, 2.0])}});
    let dir = archive(Some(&cluster()), &data);
    let mut known = only(read(dir.path()));
    known.job.others.retain(|other| other.name != "clustercockpit.statistics");
    let away = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(away.path(), false).unwrap();
    assert_eq!(writer.job(&known).unwrap().left_out, 0);
    let job = away.path().join("c/0/007/1700000000");
    let packed = fs::read(job.join("data.json.gz")).unwrap();
    let written: Value = serde_json::from_reader(flate2::read::GzDecoder::new(&packed[..])).unwrap();
    let scopes: Vec<&String> = written["flops_any"].as_object().unwrap().keys().collect();
    assert_eq!(scopes, ["core"]);
    // What is said of the whole job is of whole nodes.
    let meta: Value = serde_json::from_slice(&fs::read(job.join("meta.json")).unwrap()).unwrap();
    assert_eq!(meta["statistics"]["flops_any"]["avg"], 3.0);
}

#[test]
fn series_with_the_same_host_and_id_are_kept_apart_and_reported() {
    let twice = scope(vec![
        one("n1", json!("3"), json!([1])),
        one("n1", json!(3), json!([10])),
        one("n1", json!("4"), json!([100])),
        one("n2", json!("3"), json!([1000])),
    ]);
    let nodes = scope(vec![one("n1", Value::Null, json!([1])), one("n1", Value::Null, json!([2]))]);
    let data = json!({"flops_any": {"core": twice}, "mem_bw": {"node": nodes}});
    let dir = archive(Some(&cluster()), &data);
    let found = read(dir.path());
    assert_eq!(
        found.reasons.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "flops_any has several series for core 3 of n1: none of them counts as its value",
            "mem_bw has several series for node of n1: none of them counts as its value",
        ]
    );
    let [known] = &found.jobs[..] else { panic!() };
    let shown = |series: &Series| {
        let (metric, part) = (series.metric.text(), series.part.as_deref().unwrap_or("-"));
        format!(
            "{metric} {} {part}: {:?}",
            series.host,
            series.points.iter().map(|point| point.value).collect::<Vec<_>>()
        )
    };
    assert_eq!(
        known.measures.series.iter().map(shown).collect::<Vec<_>>(),
        [
            "flops_any n1 core 3 #1: [1.0]",
            "flops_any n1 core 3 #2: [10.0]",
            "flops_any n1 core 4: [100.0]",
            "flops_any n2 core 3: [1000.0]",
            "flops_any n2 -: [1000.0]",
            "mem_bw n1 node #1: [1.0]",
            "mem_bw n1 node #2: [2.0]",
        ]
    );
    // They are written as they came.
    let away = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(away.path(), false).unwrap();
    assert_eq!(writer.job(known).unwrap().left_out, 0);
    let packed = fs::read(away.path().join("c/0/007/1700000000/data.json.gz")).unwrap();
    let written: Value = serde_json::from_reader(flate2::read::GzDecoder::new(&packed[..])).unwrap();
    let ids = |scope: &Value| {
        let series = scope["series"].as_array().unwrap();
        series.iter().map(|series| series["id"].as_str().unwrap_or("-").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (ids(&written["flops_any"]["core"]), ids(&written["mem_bw"]["node"])),
        (
            vec!["3".to_owned(), "3".to_owned(), "4".to_owned(), "3".to_owned()],
            vec!["-".to_owned(), "-".to_owned()],
        )
    );
    assert_eq!(written["mem_bw"]["node"].get("repeated"), None);
}

#[test]
fn what_a_job_and_a_cluster_said_of_themselves_is_written_as_it_was() {
    let dir = archive(None, &json!({}));
    let text = "{ \"name\": \"c\",\n\t\"metricConfig\": [], \"subClusters\": [1.50], \"of tomorrow\": null }";
    fs::write(dir.path().join("c/cluster.json"), text).unwrap();
    let file = "c/0/007/1700000000/meta.json";
    let mut meta: Value = serde_json::from_slice(&fs::read(dir.path().join(file)).unwrap()).unwrap();
    (meta["arrayJobId"], meta["walltime"], meta["partition"]) = (json!(0), json!(0), json!(""));
    fs::write(dir.path().join(file), meta.to_string()).unwrap();
    let mut found = read(dir.path());
    assert_eq!(found.clusters, [("c".to_owned(), text.to_owned())]);
    let job = &mut found.jobs[0].job;
    assert_eq!((job.array_job, job.time_limit, job.partition.as_deref()), (None, None, None));
    // The batch system says something else, and more.
    (job.account, job.cpus, job.end) = (Some("physics".into()), Some(3), Some((START + 9) * SECOND));
    (job.submit, job.name) = (Some((START - 5) * SECOND), Some(b"heat".as_slice().into()));
    let away = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(away.path(), false).unwrap();
    found.clusters.into_iter().for_each(|(cluster, text)| writer.describe(cluster, text));
    writer.describe("other".into(), "{}".into());
    writer.job(&found.jobs[0]).unwrap();
    writer.finish().unwrap();
    let written: Value = serde_json::from_slice(&fs::read(away.path().join(file)).unwrap()).unwrap();
    let mut expected = meta;
    expected["numHwthreads"] = 3.into();
    expected["submitTime"] = (START - 5).into();
    expected["metaData"] = json!({"jobName": "heat"});
    assert_eq!(written, expected);
    assert_eq!(fs::read(away.path().join("c/cluster.json")).unwrap(), text.as_bytes());
    assert!(!away.path().join("other").exists());
}

#[test]
fn what_they_said_of_a_job_while_it_ran_is_no_longer_written_when_it_has_ended() {
    let dir = archive(None, &json!({}));
    let file = "c/0/007/1700000000/meta.json";
    let mut meta: Value = serde_json::from_slice(&fs::read(dir.path().join(file)).unwrap()).unwrap();
    meta["jobState"] = "running".into();
    fs::write(dir.path().join(file), meta.to_string()).unwrap();
    let mut known = only(read(dir.path()));
    let written = |known: &Known| {
        let away = tempfile::tempdir().unwrap();
        Writer::new(away.path(), false).unwrap().job(known).unwrap();
        let meta: Value = serde_json::from_slice(&fs::read(away.path().join(file)).unwrap()).unwrap();
        (meta["jobState"].as_str().unwrap().to_owned(), meta["duration"].as_u64().unwrap())
    };
    assert_eq!(written(&known), ("running".to_owned(), 120));
    known.job.state = Some(record::accounting::State::Timeout);
    (known.job.end, known.job.elapsed) = (Some((START + 600) * SECOND), Some(600 * SECOND));
    assert_eq!(written(&known), ("timeout".to_owned(), 600));
}
