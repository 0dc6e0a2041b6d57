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
