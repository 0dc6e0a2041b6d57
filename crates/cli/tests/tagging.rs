//! Tags by the command: jobs of real centres get them, are found by them, and the answer says why.

mod common;
#[path = "common/server.rs"]
#[allow(dead_code, reason = "only the server is used here")]
mod server;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{Row, eventually, new_dir, parse, shared_data, wait_until};
use server::Server;

/// What the tags of real jobs are counted against.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tags-of-real-jobs.txt");

fn start(dir: &Path) -> Server {
    let server = Server::start(dir.to_owned(), None);
    server.wait_ready();
    server
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

fn ask(server: &Server, arguments: &[&str]) -> Output {
    server.ask(arguments).output().unwrap()
}

/// Runs a command that must do what it is told.
fn tell(server: &Server, arguments: &[&str]) -> String {
    let output = ask(server, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn rows(server: &Server, arguments: &[&str]) -> Vec<Row> {
    parse(&ask(server, &[arguments, &["--json"]].concat()))
}

/// Each tag with how many jobs have it, when all jobs have been judged.
fn counted(server: &Server, jobs: u64) -> Vec<Row> {
    wait_until("all jobs to be judged", || {
        rows(server, &["tags", "list", "--all-time"])[0]["judged_jobs"] == jobs
    });
    let mut rows = rows(server, &["tags", "list", "--all-time"]);
    rows.sort_by_key(|row| row["id"].as_u64());
    rows
}

/// Each automatic tag as the golden file has it: how many jobs have it, for how many the rule could decide, and for how many it could not.
fn part_of(title: &str, jobs: u64, rows: &[Row]) -> String {
    let mut part = format!("{title}, {jobs} jobs\n   has decided undecided\n");
    for row in rows.iter().filter(|row| row["decided_jobs"].is_u64()) {
        let [jobs, decided, undecided] =
            ["jobs", "decided_jobs", "undecided_jobs"].map(|name| row[name].as_u64().unwrap());
        writeln!(part, "{jobs:>6} {decided:>7} {undecided:>9} {}", row["tag"].as_str().unwrap()).unwrap();
    }
    part
}

/// Whether the shipped groups that exclude each other do so: no job has two tags of one.
fn check_exclusive_groups(server: &Server) {
    let groups = text(&fs::read(common::root().join("tags/groups.toml")).unwrap());
    let groups: Vec<&str> =
        groups.lines().filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\",")).collect();
    assert_eq!(groups.len(), 8, "{groups:?}");
    let listed = rows(server, &["tags", "list", "--all-time"]);
    let mut pairs = 0;
    for group in groups {
        let is_had = |row: &&Row| row["group"] == *group && row["jobs"] != 0;
        let had: Vec<&str> = listed.iter().filter(is_had).map(|row| row["tag"].as_str().unwrap()).collect();
        for (at, tag) in had.iter().enumerate() {
            for other in &had[at + 1..] {
                let both = format!("{tag},{other}");
                let found = ask(server, &["jobs", "--all-time", "--count", "--all", &both]);
                assert_eq!(text(&found.stdout).trim(), "0", "{group}: {both}: {}", text(&found.stderr));
                pairs += 1;
            }
        }
    }
    assert!(pairs > 5, "{pairs}: too few tags that any job has");
}

#[test]
fn jobs_of_real_centres_get_plausible_tags_and_one_of_each_exclusive_group() {
    let test = "jobs_of_real_centres_get_plausible_tags_and_one_of_each_exclusive_group";
    let Some(data) = shared_data(test, "clustercockpit") else { return };
    let is_new = std::env::var_os("UPDATE_EXPECT").is_some();
    let expected = text(&fs::read(GOLDEN).unwrap_or_default());
    let mut found = String::new();
    let name = |path: &Path| path.to_str().unwrap().to_owned();
    let log = name(&data.parent().unwrap().join("slurm-xdmod/phillips.log"));
    let (archive, database) = (name(&data.join("archive")), name(&data.join("job.db")));
    for (title, imports, jobs) in [
        ("phillips.log", vec![vec!["slurm", "--xdmod", "--time-zone", "UTC", "--file", &log]], 4285),
        ("clustercockpit", vec![vec!["clustercockpit", &database], vec!["clustercockpit", &archive]], 545),
    ] {
        let dir = new_dir();
        let server = start(dir.path());
        for import in imports {
            tell(&server, &[&["import"], &import[..]].concat());
        }
        // What was measured of a job may come after the job, which is then judged again.
        let mut part = String::new();
        eventually(|| {
            part = part_of(title, jobs, &counted(&server, jobs));
            expected.contains(&part) || is_new
        });
        check_exclusive_groups(&server);
        found.push_str(&part);
    }
    if is_new {
        fs::write(GOLDEN, &found).unwrap();
    } else {
        assert_eq!(found, expected, "UPDATE_EXPECT=1 writes what is found");
    }
}

const SACCT: &str = "JobID|JobIDRaw|Cluster|Partition|Account|User|Submit|Eligible|Start|End|Elapsed|State|NNodes|NCPUS|Timelimit|NodeList|JobName
1|1|tiny|gpu|p1|alice|2026-11-01T10:00:00|2026-11-01T10:00:00|2026-11-01T10:00:00|2026-11-01T11:00:00|01:00:00|COMPLETED|1|8|1-00:00:00|n1|a
2|2|tiny|cpu|p1|bob|2026-11-02T10:00:00|2026-11-02T10:00:00|2026-11-02T10:00:00|2026-11-02T11:00:00|01:00:00|FAILED|2|8|02:00:00|n[1-2]|b
3|3|tiny|cpu|p2|alice|2026-11-03T10:00:00|2026-11-03T10:00:00|2026-11-03T10:00:00|2026-11-03T11:00:00|01:00:00|COMPLETED|2|8|02:00:00|n[1-2]|c
";

fn with_three_jobs(dir: &Path) -> Server {
    let server = start(dir);
    let file = dir.join("sacct.txt");
    fs::write(&file, SACCT).unwrap();
    tell(&server, &["import", "slurm", "--time-zone", "UTC", "--file", file.to_str().unwrap()]);
    counted(&server, 3);
    server
}

#[test]
fn a_script_prints_for_how_many_jobs_each_rule_could_decide() {
    let dir = new_dir();
    let server = with_three_jobs(dir.path());
    let listed = server.ask(&[]);
    let mut script = Command::new(common::root().join("scripts/decided"));
    script.env("JOBGLASS", listed.get_program());
    script.envs(listed.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = script.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let part = part_of("", 3, &counted(&server, 3));
    // Nobody knows how many have a tag about which nothing could be decided.
    let expected: Vec<String> = part
        .lines()
        .skip(1)
        .map(|line| {
            if line.starts_with("     0       0 ") {
                format!("     -{}", &line[6..])
            } else {
                line.to_owned()
            }
        })
        .collect();
    let printed = text(&output.stdout);
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
    for line in [
        "     2       3         0 job_status COMPLETED",
        "     0       3         0 job_status TIMEOUT",
        "     -       0         3 avg_LA LOW",
    ] {
        assert!(printed.contains(line), "{line}:\n{printed}");
    }
}

#[test]
fn jobs_are_found_by_their_tags() {
    let dir = new_dir();
    let server = with_three_jobs(dir.path());
    let found = |arguments: &[&str]| {
        let all = [&["jobs", "--all-time", "--sort", "job_id"], arguments].concat();
        rows(&server, &all).iter().map(|row| row["job_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (arguments, expected) in [
        (vec!["--all", "job_status COMPLETED"], vec!["1", "3"]),
        (vec!["--all", "job_status COMPLETED,job_partition CPU"], vec!["3"]),
        (vec!["--any", "job_partition gpu,job_status FAILED"], vec!["1", "2"]),
        (vec!["--any", "job_partition gpu,job_status FAILED", "--any", "job_nnodes FEW"], vec!["2"]),
        (vec!["--none", "job_status COMPLETED"], vec!["2"]),
        (vec!["--all", "JOB_NODES_few", "--user", "alice"], vec!["3"]),
        (vec!["--all", "job_time_limit TOO LONG", "--where", "elapsed > 1m"], vec!["1"]),
        (vec!["--search", "idle-gpus"], vec![]),
    ] {
        assert_eq!(found(&arguments), expected, "{arguments:?}");
    }
    assert_eq!(tell(&server, &["jobs", "--all-time", "--count", "--none", "job_partition gpu"]).trim(), "2");
    let by_user = rows(&server, &["tags", "count", "--by", "user", "--tag", "job_status COMPLETED"]);
    let of = |row: &Row| (row["user"].as_str().unwrap().to_owned(), row["jobs"].as_u64().unwrap());
    assert_eq!(by_user.iter().map(of).collect::<Vec<_>>(), [("alice".to_owned(), 2)]);
}

#[test]
fn what_cannot_be_asked_is_refused_in_words() {
    let dir = new_dir();
    let server = with_three_jobs(dir.path());
    for (arguments, said) in [
        (vec!["jobs", "--all", "job_statuss COMPLETED"], "there is no tag `job_statuss COMPLETED`"),
        (vec!["jobs", "--tagged", "by hand"], "[possible values: auto, manual]"),
        (vec!["tags", "run", "--tag", "job_bug DEADLOCK"], "`job_bug DEADLOCK` has no rule: people set it"),
        (
            vec!["jobs", "--search", "idle"],
            "there is no search `idle`, but big-memory, excellent, idle-disks",
        ),
        (vec!["tags", "count", "--by", "moon"], "tags cannot be counted by `moon`"),
        (vec!["tags", "explain", "1", "--tag", "x"], "there is no tag `x`"),
        (vec!["tags", "try", "gpus >"], "gpus >"),
        (vec!["tags", "try", "nodes > 1; drop table job"], "tags"),
        (vec!["tags", "try", "read_csv('/etc/passwd') is known"], "no function `read_csv`"),
    ] {
        let output = ask(&server, &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = text(&output.stderr);
        assert!(error.contains(said) || said == "tags" && error.contains(';'), "{arguments:?}: {error}");
    }
    let unknown = ask(&server, &["tags", "explain", "99"]);
    assert_eq!(unknown.status.code(), Some(1), "{}", text(&unknown.stderr));
}

#[test]
fn the_answer_says_why() {
    let dir = new_dir();
    let server = with_three_jobs(dir.path());
    let why = tell(&server, &["tags", "explain", "1"]);
    assert!(why.contains("+ job_time_limit TOO LONG  (rule, version 1)"), "{why}");
    assert!(why.contains("It ran for 1 h, with a limit of 1 d."), "{why}");
    assert!(why.contains("! elapsed < 10% * time_limit: true   (elapsed is 1 h; time_limit is 1 d; 1 h 24 min from the bound)"), "{why}");
    let why_not = tell(&server, &["tags", "explain", "1", "--tag", "avg_la low"]);
    assert!(why_not.contains("- avg_LA LOW") && why_not.contains("load_avg is unknown"), "{why_not}");
    let tried = tell(&server, &["tags", "try", "nodes > 1", "--than", "job_status COMPLETED"]);
    assert!(tried.contains("finds 2 jobs with 16.0 core hours, of 2 users in 1 partitions"), "{tried}");
    assert!(tried.contains("1 jobs more, 1 fewer, 1 the same"), "{tried}");
    let run = tell(&server, &["tags", "run"]);
    assert!(run.starts_with("3 of 3 jobs judged by set"), "{run}");
}

/// As with `| head`: whoever has read enough closes the pipe.
#[test]
fn whoever_stops_reading_sees_no_error() {
    let dir = new_dir();
    let server = with_three_jobs(dir.path());
    for arguments in [
        vec!["tags", "explain", "1", "--why-not"],
        vec!["tags", "explain", "1", "--json"],
        vec!["tags", "try", "nodes > 1"],
        vec!["tags", "list", "--all-time"],
        vec!["tags", "run"],
        vec!["tags", "set", "1", "job_bug DEADLOCK"],
        vec!["tags", "agree", "1", "job_status COMPLETED"],
        vec!["tags", "opinions"],
        vec!["jobs", "--all-time"],
        vec!["jobs", "--all-time", "--count"],
        vec!["job", "1"],
        vec!["whoami"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = server.ask(&arguments).stdout(writer).output().unwrap();
        let error = text(&output.stderr);
        assert!(output.status.success() && !error.contains("panicked"), "{arguments:?}: {error}");
    }
}
