//! The whole collection of jobs: what others have kept goes in, and comes out by `jobglass jobs` as it was.

mod common;
#[path = "common/server.rs"]
#[allow(dead_code, reason = "only the server is used here")]
mod server;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Output;

use common::{Row, new_dir, parse, shared_data, wait_until};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use server::Server;

const XDMOD: &str = "jobid,jobidraw,cluster,partition,qos,account,group,gid,user,uid,submit,eligible,start,end,elapsed,exitcode,\
    state,nnodes,ncpus,reqcpus,reqmem,reqtres,alloctres,timelimit,nodelist,jobname";

fn start(dir: &Path) -> Server {
    let server = Server::start(dir.to_owned(), None);
    server.wait_ready();
    server
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a command of `jobglass` that must do what it is told.
fn tell(server: &Server, arguments: &[&str]) -> Output {
    let output = server.ask(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text_of(&output));
    output
}

fn jobs(server: &Server, arguments: &[&str]) -> Vec<Row> {
    let all = [&["jobs", "--json", "--all-time", "--limit", "0"], arguments].concat();
    parse(&server.ask(&all).output().unwrap())
}

fn sum(rows: &[Row], name: &str) -> f64 {
    rows.iter().map(|row| row[name].as_f64().unwrap_or(0.0)).sum()
}

/// The figures of XDMoD, from rows of jobs.
fn figures(rows: &[Row]) -> BTreeMap<&'static str, f64> {
    let started: Vec<Row> = rows.iter().filter(|row| !row["node_list"].is_null()).cloned().collect();
    let count = started.len() as f64;
    let cores = || started.iter().map(|row| row["cores"].as_f64().unwrap());
    [
        ("job_count", count),
        ("total_wallduration_hours", sum(&started, "elapsed_s") / 3600.0),
        ("total_cpu_hours", sum(&started, "core_hours")),
        ("total_gpu_hours", sum(&started, "gpu_hours")),
        ("total_node_hours", sum(&started, "node_hours")),
        ("avg_waitduration_hours", sum(&started, "wait_s") / 3600.0 / count),
        ("avg_wallduration_hours", sum(&started, "elapsed_s") / 3600.0 / count),
        ("avg_processors", sum(&started, "cores") / count),
        ("min_processors", cores().fold(f64::INFINITY, f64::min)),
        ("max_processors", cores().fold(0.0, f64::max)),
    ]
    .into()
}

#[test]
fn a_real_log_gives_the_figures_of_xdmod_however_often_it_is_imported() {
    let Some(data) = shared_data("a_real_log_gives_the_figures_of_xdmod", "slurm-xdmod") else { return };
    let dir = new_dir();
    let server = start(dir.path());
    let log = data.join("phillips.log");
    let expected = String::from_utf8(fs::read(data.join("phillips-expected.csv")).unwrap()).unwrap();
    for (fields, known_before) in [(vec!["--xdmod"], 0), (vec!["--fields", XDMOD], 4285)] {
        let import = ["import", "slurm", "--time-zone", "UTC", "--file", log.to_str().unwrap()];
        let said = text_of(&tell(&server, &[&import, &fields[..]].concat()));
        assert!(said.contains(&format!("{known_before} known before")), "{said}");
        let rows = jobs(&server, &[]);
        assert_eq!(rows.len(), 4285);
        let found = figures(&rows);
        let mut checked = 0;
        for (name, value) in expected.lines().skip(1).filter_map(|line| line.split_once(',')) {
            let digits = value.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            assert_eq!(format!("{:.digits$}", found[name]), value, "{name}");
            checked += 1;
        }
        assert_eq!(checked, 10);
    }
    // The same by the server's own sums.
    let started = ["--where", "node_list is known"];
    assert_eq!(jobs(&server, &[&started[..], &["--count"]].concat())[0]["count"], 4046);
    let groups = jobs(&server, &[&started[..], &["--group-by", "user"]].concat());
    assert_eq!(sum(&groups, "jobs"), 4046.0);
    assert_eq!(format!("{:.4}", sum(&groups, "core_hours")), "11767.9883");
    assert_eq!(format!("{:.4}", sum(&groups, "gpu_hours")), "506.9128");
    for by in ["month", "week", "day", "hour", "node"] {
        let groups = jobs(&server, &[&started[..], &["--group-by", by]].concat());
        assert_eq!(format!("{:.4}", sum(&groups, "core_hours")), "11767.9883", "{by}");
    }
    // A node of the middle of a list.
    let rows = jobs(&server, &["--node", "cpn-f13-04-02", "--nodes", "8", "--duration", "5d.."]);
    assert_eq!(rows.iter().map(|row| row["job"].as_str().unwrap()).collect::<Vec<_>>(), ["165381"]);
}

/// A line, what is wrong with it, and the name of the job that can be made of it all the same.
const BROKEN: &[(&[u8], &str, Option<&str>)] = &[
    (b"11|u|a|2026-01-01T10:00:00|2026-01-01T11:00:00", "fields instead of", None),
    (b"12|u|a|2026-01-01T10:00:00|2026-01-01T11:00:00|COMPLETED|1G|x|y|z|w", "fields instead of", None),
    (
        b"13|u|a|b|2026-01-01T10:00:00|2026-01-01T11:00:00|COMPLETED|1G|n1",
        "a delimiter or a line break",
        Some("a|b"),
    ),
    (
        b"14|u|a\nb|2026-01-01T10:00:00|2026-01-01T11:00:00|COMPLETED|1G|n1",
        "a delimiter or a line break",
        Some("a\nb"),
    ),
    (b"15|u|a|2026-01-01T10:00:00|2026-01-01T11:00:00|DANCING|1G|n1", "DANCING", Some("a")),
    (b"16|u|a|2026-13-01T10:00:00|2026-01-01T11:00:00|COMPLETED|1G|n1", "2026-13-01", None),
    (b"17|u|a|2026-01-01T10:00:00|2026-01-01T11:00:00|COMPLETED|1Q|n1", "1Q", None),
    (b"18|u\xff|a|2026-01-01T10:00:00|2026-01-01T11:00:00|COMPLETED|1G|n1", "no UTF-8", Some("a")),
];

#[test]
fn what_is_broken_is_told_and_kept_and_the_rest_is_imported() {
    let dir = new_dir();
    let server = start(dir.path());
    let header = b"JobID|User|JobName|Start|End|State|ReqMem|NodeList\n";
    for (at, (line, reason, can_be)) in BROKEN.iter().enumerate() {
        let good = |id: u32| format!("{id}|v|good|2026-01-01T10:00:00|2026-01-01T11:00:00|COMPLETED|1G|n2\n");
        let (before, after) = (1000 + 2 * at as u32, 1001 + 2 * at as u32);
        let (first, last) = (good(before), good(after));
        let content = [&header[..], first.as_bytes(), line, b"\n", last.as_bytes()].concat();
        let (file, rejects) = (dir.path().join("sacct.txt"), dir.path().join("rejects"));
        fs::write(&file, content).unwrap();
        let output = import(&server, &file, &rejects);
        let said = text_of(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(" 1 rejected"), "{said}");
        assert!(said.contains("sacct.txt:3: ") && said.contains(reason), "{said}");
        let kept = fs::read(&rejects).unwrap();
        assert!(kept.windows(line.len()).any(|part| part == *line), "{}", String::from_utf8_lossy(&kept));
        for id in [before, after] {
            assert_eq!(jobs(&server, &["--job", &id.to_string()]).len(), 1, "{said}");
        }
        let id = std::str::from_utf8(&line[..2]).unwrap();
        assert!(jobs(&server, &["--job", id]).is_empty(), "{said}");
        let mended = server
            .ask(&["import", "slurm", "--mend", "--file", file.to_str().unwrap()])
            .current_dir(dir.path())
            .output();
        assert_eq!(mended.unwrap().status.code(), Some(1));
        let found = jobs(&server, &["--job", id]);
        assert_eq!(found.first().and_then(|row| row["name"].as_str()), *can_be, "{said}");
    }
}

fn import(server: &Server, file: &Path, rejects: &Path) -> Output {
    let (file, rejects) = (file.to_str().unwrap(), rejects.to_str().unwrap());
    server.ask(&["import", "slurm", "--file", file, "--rejects", rejects]).output().unwrap()
}

#[test]
fn a_file_that_is_cut_off_gives_what_came_before() {
    let dir = new_dir();
    let server = start(dir.path());
    let mut content = String::from("JobID|User|State\n");
    (1..=20_000).for_each(|id| content.push_str(&format!("{id}|u{}|COMPLETED\n", id * 7919 % 10_007)));
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(content.as_bytes()).unwrap();
    let packed = packer.finish().unwrap();
    let (whole, cut, rejects) =
        (dir.path().join("whole.gz"), dir.path().join("cut.gz"), dir.path().join("r"));
    fs::write(&cut, &packed[..packed.len() / 2]).unwrap();
    let output = import(&server, &cut, &rejects);
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(text_of(&output).contains("cut.gz"), "{}", text_of(&output));
    let count = || jobs(&server, &["--count"])[0]["count"].as_u64().unwrap();
    assert!((1..20_000).contains(&count()), "{}", count());
    fs::write(&whole, &packed).unwrap();
    let output = import(&server, &whole, &rejects);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert_eq!(count(), 20_000);
}

/// Everything that a server says of its jobs, for comparison.
fn all_that_is_known(server: &Server) -> Vec<String> {
    let columns = "cluster,job,job_id,user,project,partition,state,submit,start,end,nodes,node_list,cores,gpus,elapsed_s,limit_s,name,\
        cpu_load_avg,cpu_load_min,cpu_load_max,cpu_load_median,mem_bw_avg,mem_used_avg,flops_any_avg,acc_utilization_avg,acc_mem_used_avg";
    let mut rows: Vec<String> = jobs(server, &["--fmt", columns]).iter().map(ToString::to_string).collect();
    rows.sort();
    rows
}

/// Binding is done beside the writer, within a second or two, one metric after the other.
fn wait_for_characteristics(server: &Server) {
    let are_known =
        ["cpu_load", "mem_bw", "mem_used", "flops_any"].map(|metric| format!("{metric}_median is known"));
    wait_until("the characteristics", || {
        jobs(server, &["--where", &are_known.join(" and "), "--count"])[0]["count"] == 1
    });
}

#[test]
fn clustercockpit_comes_and_goes() {
    let Some(data) = shared_data("clustercockpit_comes_and_goes", "clustercockpit") else { return };
    let dir = new_dir();
    let server = start(dir.path());
    let (archive, database) = (data.join("archive"), data.join("job.db"));
    let import = |server: &Server, path: &Path| {
        text_of(&tell(server, &["import", "clustercockpit", path.to_str().unwrap()]))
    };
    for known_before in [0, 1] {
        let said = import(&server, &database);
        assert!(said.contains(&format!("{} known before", 544 * known_before)), "{said}");
        let said = import(&server, &archive);
        assert!(said.contains(&format!("1 jobs: {} new", 1 - known_before)), "{said}");
    }
    assert_eq!(jobs(&server, &["--count"])[0]["count"], 545);
    wait_for_characteristics(&server);
    check_statistics(&server, &archive.join("emmy/1403/244/1608923076"));
    // To another place and in again.
    let (away, other) = (dir.path().join("away"), new_dir());
    tell(&server, &["export", "clustercockpit", away.to_str().unwrap()]);
    let description = |dir: &Path| fs::read(dir.join("emmy/cluster.json")).unwrap();
    assert_eq!(description(&away), description(&archive));
    let second = start(other.path());
    import(&second, &away);
    wait_for_characteristics(&second);
    let (before, after) = (all_that_is_known(&server), all_that_is_known(&second));
    assert_eq!(before.len(), 545);
    assert_eq!(before, after);
    let series = |server: &Server, metric: &str| {
        parse(&server.ask(&["series", "1403244", metric, "--json"]).output().unwrap())
    };
    for metric in ["cpu_load", "mem_bw"] {
        let rows = series(&server, metric);
        assert!(rows.len() > 40_000, "{}", rows.len());
        assert_eq!(rows, series(&second, metric));
    }
    // Exported again, nothing changes.
    let said = text_of(&tell(&second, &["export", "clustercockpit", away.to_str().unwrap()]));
    assert!(said.contains("545 were there"), "{said}");
}

/// The characteristics of the archived job are the archive's own, but for what it contradicts itself in: its average of `ipc` is
/// above its maximum.
fn check_statistics(server: &Server, of_job: &Path) {
    let meta: Row = serde_json::from_slice(&fs::read(of_job.join("meta.json")).unwrap()).unwrap();
    let job = &parse(&server.ask(&["job", "1403244", "--resources", "--json"]).output().unwrap())[0];
    let mut checked = 0;
    for (metric, own) in meta["statistics"].as_object().unwrap().iter().filter(|(metric, _)| *metric != "ipc")
    {
        let measures = job["measures"].as_array().unwrap();
        let found = measures.iter().find(|found| found["metric"] == **metric).unwrap();
        for name in ["avg", "min", "max"] {
            let (ours, theirs) = (found[name].as_f64().unwrap(), own[name].as_f64().unwrap());
            assert!((ours - theirs).abs() <= 0.005_001, "{metric} {name}: {ours} and {theirs}");
            checked += 1;
        }
        let (median, low, high) = (found["median"].as_f64(), found["min"].as_f64(), found["max"].as_f64());
        assert!(low <= median && median <= high, "{found}");
    }
    assert_eq!(checked, 24);
}

/// An archive in ClusterCockpit's form with a job that was measured per node and per core, and without a submit time.
fn clustercockpit_archive(dir: &Path) -> (Row, &'static str) {
    let cluster = "{\"name\": \"tiny\",  \"metricConfig\": [{\"name\": \"mem_bw\", \"aggregation\": \"sum\"}], \"of\": 1.50}";
    let meta = json!({
        "jobId": 17, "user": "alice", "project": "no project", "cluster": "tiny", "subCluster": "s", "numNodes": 1,
        "shared": "none", "jobState": "completed", "startTime": 1_767_268_800, "duration": 100, "arrayJobId": 0,
        "resources": [{"hostname": "n1", "hwthreads": [0, 1]}], "metaData": {"jobName": "heat"},
        "statistics": {"flops_any": {"unit": {"base": "F/s"}, "avg": 45.01, "min": 45.01, "max": 45.01}},
    });
    let cores = |value: f64| {
        let one = |core: u32| json!({"hostname": "n1", "id": core.to_string(), "data": [value, value]});
        json!({"unit": {"base": "F/s"}, "timestep": 60, "series": (0..72).map(one).collect::<Vec<_>>()})
    };
    let node = json!({"unit": {"base": "F/s"}, "timestep": 60, "series": [{"hostname": "n1", "data": [45.012, 45.012]}]});
    let data = json!({"flops_any": {"node": node, "core": cores(0.5)}, "mem_bw": {"core": cores(2.0)}});
    let job = dir.join("tiny/0/017/1767268800");
    fs::create_dir_all(&job).unwrap();
    fs::write(dir.join("version.txt"), "3").unwrap();
    fs::write(dir.join("tiny/cluster.json"), cluster).unwrap();
    fs::write(job.join("meta.json"), meta.to_string()).unwrap();
    fs::write(job.join("data.json"), data.to_string()).unwrap();
    (meta, cluster)
}

#[test]
fn a_job_of_slurm_and_clustercockpit_is_one_job_whichever_comes_first() {
    for is_slurm_first in [true, false] {
        let dir = new_dir();
        let server = start(dir.path());
        let (archive, log) = (dir.path().join("archive"), dir.path().join("sacct.log"));
        let (mut meta, cluster) = clustercockpit_archive(&archive);
        let rows = "JobID|JobIDRaw|Cluster|User|Account|Submit|Start|End|State|ExitCode|NNodes|NCPUS|NodeList\n\
            12_3|17|tiny|alice|physics|2026-01-01T10:00:00|2026-01-01T12:00:20|2026-01-01T12:02:00|FAILED|3:0|1|2|n1\n";
        fs::write(&log, rows).unwrap();
        let slurm = ["import", "slurm", "--time-zone", "UTC", "--file", log.to_str().unwrap()];
        let theirs = ["import", "clustercockpit", archive.to_str().unwrap()];
        if is_slurm_first {
            tell(&server, &slurm);
        }
        assert!(text_of(&tell(&server, &theirs)).contains("1 jobs: "));
        tell(&server, &["notes", "add", "--job", "17", "slow"]);
        for again in [&slurm[..], &theirs, &slurm] {
            let said = text_of(&tell(&server, again));
            assert!(said.contains("0 new, 1 known before"), "{said}");
        }
        let columns = "job,project,state,exit_code,name,submit,flops_any_avg,flops_any_max,mem_bw_avg";
        // A metric is a column from its first value on.
        wait_until("the statistics", || {
            let known = "flops_any_avg is known and mem_bw_median is known";
            jobs(&server, &["--where", known, "--count"]).first().is_some_and(|row| row["count"] == 1)
        });
        let found = jobs(&server, &["--fmt", columns]);
        assert_eq!(found.len(), 1, "{found:?}");
        let row = &found[0];
        assert_eq!(
            (&row["project"], &row["state"], &row["exit_code"]),
            (&json!("physics"), &json!("FAILED"), &json!(3))
        );
        assert_eq!(
            (&row["name"], &row["flops_any_avg"], &row["flops_any_max"]),
            (&json!("heat"), &json!(45.012), &json!(45.012))
        );
        assert_eq!(row["mem_bw_avg"], 144.0);
        assert_eq!(
            parse(&server.ask(&["notes", "list", "--job", "17", "--json"]).output().unwrap()).len(),
            1
        );
        // Back to where it came from, nothing has changed.
        let away = dir.path().join("away");
        tell(&server, &["export", "clustercockpit", away.to_str().unwrap()]);
        let file = away.join("tiny/0/017/1767268800/meta.json");
        meta["submitTime"] = 1_767_261_600.into();
        meta["numHwthreads"] = 2.into();
        assert_eq!(serde_json::from_slice::<Row>(&fs::read(file).unwrap()).unwrap(), meta);
        assert_eq!(fs::read(away.join("tiny/cluster.json")).unwrap(), cluster.as_bytes());
    }
}

#[test]
fn what_cleo_left_is_in_the_list() {
    let dir = new_dir();
    let server = start(dir.path());
    let (log, rows) = (dir.path().join("cleo-short.log"), dir.path().join("rows"));
    let text = "[Thu May 28 10:51:41 2015] regular :ADDED 17; ;0; ann; 16; ./a.out\n\
        [Thu May 28 11:00:00 2015] regular :RUN 17; ann; 16; ./a.out\n\
        no line of this log\n\
        [Thu May 28 12:00:00 2015] regular :END_TASK 17; ann; 0; 0; 1:00:00\n\
        [Thu May 28 12:00:00 2015] regular :END_TASK_NODES 17; n1,n1,n2,n2\n";
    fs::write(&log, text).unwrap();
    fs::write(&rows, "9;bob;./b.out;/home/bob;test;1432800000;1432800060;1432803660;n3:1;8;7200;0\n")
        .unwrap();
    let arguments = [
        "import",
        "cleo",
        "--cluster",
        "lom",
        "--time-zone",
        "UTC",
        "--log",
        log.to_str().unwrap(),
        "--rows",
        rows.to_str().unwrap(),
    ];
    let output = server.ask(&arguments).current_dir(dir.path()).output().unwrap();
    // One line is none, and said to be.
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(text_of(&output).contains("cleo-short.log:3: rejected"), "{}", text_of(&output));
    let found = jobs(&server, &["--sort", "submit"]);
    let shown: Vec<_> = found
        .iter()
        .map(|row| {
            (row["user"].as_str().unwrap(), row["partition"].as_str().unwrap(), row["elapsed_s"].as_f64())
        })
        .collect();
    assert_eq!(shown, [("bob", "test", Some(3600.0)), ("ann", "regular", Some(3600.0))], "{found:?}");
    assert_eq!(jobs(&server, &["--node", "n2", "--count"])[0]["count"], 1);
}

/// What `sacct` prints has the lines as they were typed.
#[test]
fn secrets_of_an_imported_log_are_not_shown() {
    let dir = new_dir();
    let server = start(dir.path());
    let log = dir.path().join("sacct.log");
    let rows = "JobID|JobIDRaw|Cluster|User|Submit|Start|End|State|Comment|SubmitLine\n\
        7|7|tiny|bob|2026-01-01T10:00:00|2026-01-01T10:00:01|2026-01-01T10:00:09|COMPLETED|password=hunter2|\
        sbatch --wrap='curl -sSfu bob:hunter2 https://h.example/x'\n\
        7.0|7.0|tiny||2026-01-01T10:00:00|2026-01-01T10:00:01|2026-01-01T10:00:09|COMPLETED||srun mysql -phunter2 db\n";
    fs::write(&log, rows).unwrap();
    tell(&server, &["import", "slurm", "--time-zone", "UTC", "--file", log.to_str().unwrap()]);
    let shown = jobs(&server, &["--fmt", "job,comment,submit_line"]);
    assert_eq!(shown[0]["submit_line"], "sbatch '--wrap=curl -sSfu *** https://h.example/x'", "{shown:?}");
    assert_eq!(shown[0]["comment"], "password=***");
    let token = fs::read(server.data.join("admin.token")).unwrap();
    let answer = ureq::get(format!("{}/api/v1/jobs/7", server.url()))
        .header("Authorization", format!("Bearer {}", String::from_utf8_lossy(&token).trim()))
        .call();
    let job = answer.unwrap().body_mut().read_to_string().unwrap();
    assert!(job.contains("srun mysql -p*** db") && !job.contains("hunter2"), "{job}");
}

/// A file that `sacct` or `squeue` of some version printed, as the tests of the reader have it.
fn printed(name: &str) -> String {
    format!("{}/../import/tests/data/sacct/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// With the columns that hold what was requested.
#[test]
fn a_job_that_waits_has_what_it_requested_and_an_array_counts_as_its_tasks() {
    for name in ["24.05.txt", "24.05.json"] {
        let dir = new_dir();
        let server = start(dir.path());
        tell(&server, &["import", "slurm", "--time-zone", "UTC", "--file", &printed(name)]);
        assert_eq!(jobs(&server, &["--count"])[0]["count"], 7, "{name}: five rows, one of three tasks");
        let states = jobs(&server, &["--group-by", "state"]);
        let pending = states.iter().find(|row| row["state"] == "PENDING").unwrap();
        assert_eq!((&pending["jobs"], pending["core_hours"].is_null()), (&3.into(), true), "{name}");
        let fmt = "cores,nodes,core_hours,requested_cores,requested_nodes,requested_gpus,requested_memory,max_rss,tasks";
        let of = |id: &str| {
            let row = jobs(&server, &["--where", &format!("job = '{id}'"), "--fmt", fmt]).remove(0);
            fmt.split(',').map(|column| row[column].as_f64()).collect::<Vec<_>>()
        };
        let gib = |number: f64| Some(number * f64::from(1 << 30));
        let waits = [None, None, None, Some(8.0), Some(2.0), Some(2.0), gib(16.0), None, None];
        assert_eq!(of("1003"), waits, "{name}");
        let only_tres = [4.0, 1.0, 2.0, 4.0, 1.0, 2.0].map(Some);
        assert_eq!(of("1002"), [&only_tres[..], &[gib(32.0), gib(20.0), Some(1.0)]].concat(), "{name}");
        let steps = [16.0, 2.0, 16.0, 16.0, 2.0, 0.0].map(Some);
        assert_eq!(of("1001"), [&steps[..], &[gib(16.0), gib(3.0), Some(16.0)]].concat(), "{name}");
    }
}

#[test]
fn what_is_no_accounting_is_rejected_and_what_is_unusual_is_read() {
    let dir = new_dir();
    let server = start(dir.path());
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let run = |arguments: &[&str]| {
        let all = [&["import", "slurm", "--time-zone", "UTC", "--file"], arguments].concat();
        let output = server.ask(&all).current_dir(dir.path()).output().unwrap();
        (output.status.code().unwrap(), text_of(&output))
    };
    let (bare, tabs) =
        (file("bare.txt", "1|ann|FAILED\n"), file("tabs.txt", "JobID\tUser\tState\n1\tann\tFAILED\n"));
    let color = file("color.txt", "JobID|Color|User|State\n2|red|ann|FAILED\n");
    let quotes = file("quotes.txt", "JobID|JobName|State\n3|\"say \"\"hi\"\"\"|FAILED\n");
    for (arguments, code, said) in [
        (&[&*bare][..], 2, "no header: use --fields, --xdmod or --delimiter"),
        (&[&tabs], 2, "no header: use --fields, --xdmod or --delimiter"),
        (&[&tabs, "--delimiter", r"\t"], 0, "1 new"),
        (&[&color, "--strict"], 2, "no field is called `Color`"),
        (&[&color], 0, "color.txt:1: ignored: no field is called `Color`"),
        (&[&quotes], 1, "quotes.txt:2: rejected: fields in quotes"),
        (&[&quotes, "--mend"], 1, "quotes.txt:2: mended: fields in quotes"),
        (&[&printed("squeue-24.05.json")], 2, "this is from the controller (squeue --json"),
        (&[&printed("errors-24.05.json")], 1, "reported: Slurm says: Unable to query all clusters"),
    ] {
        let (found, text) = run(arguments);
        assert_eq!(found, code, "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
    let names: Vec<_> =
        ["1", "2", "3"].map(|id| jobs(&server, &["--job", id]).remove(0)["name"].clone()).into();
    assert_eq!(names[2], "say \"hi\"");
    assert_eq!(jobs(&server, &["--count"])[0]["count"], 4, "and the one that was printed beside an error");
}

/// A centre brings last week's jobs first, and what its own monitoring measured in that time afterwards.
#[test]
fn values_of_a_file_that_come_after_the_jobs_reach_columns_tags_and_tables() {
    let dir = new_dir();
    let server = start(dir.path());
    let file = |name: &str, text: &str| {
        fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name).display().to_string()
    };
    let sacct = "JobIDRaw|JobID|Cluster|User|Account|Partition|Submit|Start|End|State|NNodes|NCPUS|NodeList\n\
        71|71|tiny|ann|physics|main|2023-11-14T22:00:00|2023-11-14T22:10:00|2023-11-14T23:10:00|COMPLETED|1|4|n1\n";
    let sacct = file("sacct.txt", sacct);
    tell(&server, &["import", "slurm", "--time-zone", "UTC", "--file", &sacct]);
    let known = |condition: &str| jobs(&server, &["--where", condition]).len() == 1;
    wait_until("the job", || known("job = '71' and node_load_avg is unknown"));
    let line = |minute: u64| format!("system,host=n1 load1=0.05 {}\n", 1_700_000_000 + 60 * minute);
    let values = file("values.txt", &(0..60).map(line).collect::<String>());
    tell(&server, &["import", "influx", "--precision", "s", "--cluster", "tiny", "--file", &values]);
    wait_until("the column", || known("node_load_avg = 0.05"));
    wait_until("the tag", || jobs(&server, &["--all", "avg_LA LOW"]).len() == 1);
    let asked = |arguments: &[&str]| String::from_utf8(tell(&server, arguments).stdout).unwrap();
    for shown in [asked(&["job", "71", "--resources"]), asked(&["series", "71", "node_load"])] {
        assert!(shown.contains("0.050") && !shown.contains("5.000"), "{shown}");
    }
}
