//! What jobs used, against the truth: programs that use a known amount, the kernel's own count, and Slurm's.

#[path = "common/cluster.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod cluster;
mod common;
#[path = "common/server.rs"]
#[allow(dead_code, reason = "only the server is used here")]
mod server;
#[path = "common/watched.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod watched;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use cluster::{Cluster, for_users};
use common::*;
use watched::Watched;

const MB: f64 = 1024.0 * 1024.0;

/// Read as often as it would be in a job's first seconds.
const OFTEN: &str = "every_seconds = 10.0\nfirst_every_seconds = 2.0\n";

impl Watched {
    /// What a job reserved and used when it has ended on all its nodes; ten seconds are promised.
    fn ended(&self, cluster: &Cluster, job: &str, nodes: usize) -> Row {
        cluster.wait_for_end(job);
        let began = Instant::now();
        let mut found = Row::Null;
        wait_until(format!("the resources of job {job}"), || {
            found = self.resources(job);
            found["end"].is_string() && found["nodes"].as_array().is_some_and(|all| all.len() == nodes)
        });
        let elapsed = began.elapsed().as_secs_f64();
        eprintln!("job {job}, {elapsed:.1} s after its end was seen:");
        found
    }
}

fn total(resources: &Row, metric: &str) -> f64 {
    resources["metrics"][metric]["total"]
        .as_f64()
        .unwrap_or_else(|| panic!("no total of {metric}: {resources:#}"))
}

fn of(resources: &Row, metric: &str, what: &str) -> f64 {
    resources["metrics"][metric][what]
        .as_f64()
        .unwrap_or_else(|| panic!("no {what} of {metric}: {resources:#}"))
}

/// That a value lies between two others.
#[track_caller]
fn check(what: &str, value: f64, least: f64, most: f64) {
    eprintln!("{what}: {value:.3}, expected {least:.3} to {most:.3}");
    assert!((least..=most).contains(&value), "{what} is {value}, not between {least} and {most}");
}

#[test]
fn what_real_jobs_used() {
    if !is_root("what_real_jobs_used") {
        return;
    }
    let watched = Watched::start(OFTEN);
    let prolog = prolog(&watched);
    let cluster = Cluster::start_with(&watched.node, &["--prolog", &prolog]);
    let consume = for_users(&watched.node, &program("consume", "cc", "consume.c", &["-pthread"]));
    let submit = |options: &[&str], script: &str| cluster.submit("jgalice", options, script);
    let home = cluster.dir.join("home/jgalice");

    let count =
        "cat /sys/fs/cgroup/cpuacct/slurm_*/uid_*/job_$SLURM_JOB_ID/cpuacct.usage > count.$SLURM_JOB_ID";
    let one_core =
        submit(&["-N1", "-n1", "-c4", "--comment=jobglass:rate=1s"], &format!("{consume} cpu=32\n{count}"));
    let peak = "cat /sys/fs/cgroup/memory/slurm_*/uid_*/job_$SLURM_JOB_ID/memory.max_usage_in_bytes > peak.$SLURM_JOB_ID";
    let big_gate = Gate::new(&home.join("big_gate"));
    let big = submit(
        &["-N1", "-n1", "--mem=800"],
        &format!("{consume} memory=300 write=200 children=4 at_end=big_gate\n{peak}"),
    );
    let idle = submit(&["-N1", "-n1"], "sleep 8");
    // Its control group goes with it: nothing of the job is left that could tell.
    let killed_gate = Gate::new(&home.join("killed_gate"));
    let killed = submit(&["-N1", "-n1", "--mem=100"], &format!("cat killed_gate; exec {consume} memory=400"));
    let cancelled = submit(&["-N1", "-n1"], &format!("{consume} cpu=600"));
    let mpi = submit(&["-N2", "--ntasks-per-node=2"], &format!("mpirun {consume} cpu=5"));

    wait_until("the job that is killed", || !watched.resources(&killed).is_null());
    killed_gate.open();
    wait_until("the job with much memory", || {
        let found = watched.resources(&big);
        found["metrics"]["memory"]["max"].as_f64().is_some_and(|max| max >= 299.0 * MB)
    });
    big_gate.open();
    wait_until("the job that is cancelled", || {
        of_running(&watched.resources(&cancelled), "cpu").is_some_and(|total| total > 2e9)
    });
    cluster.as_user("jgalice", &["scancel", &cancelled]);

    let found = watched.ended(&cluster, &idle, 1);
    check("CPU of the idle job", of(&found, "cpu", "avg"), 0.0, 0.05);
    check("reserved cores", found["reserved"]["cpus"].as_f64().unwrap(), 1.0, 1.0);

    let found = watched.ended(&cluster, &killed, 1);
    check("killed for want of memory", total(&found, "oom_kills"), 1.0, 1.0);
    check("reserved memory", found["reserved"]["memory"].as_f64().unwrap() / MB, 100.0, 100.0);
    check("peak of memory", of(&found, "memory_peak", "last") / MB, 99.0, 101.0);

    let found = watched.ended(&cluster, &cancelled, 1);
    let elapsed = found["elapsed_s"].as_f64().unwrap();
    check("CPU of the cancelled job", total(&found, "cpu") / 1e9, 2.0, elapsed);
    check("coverage of the cancelled job", found["coverage"].as_f64().unwrap(), 0.8, 1.0);

    let number = |file: String| -> f64 {
        String::from_utf8(fs::read(home.join(file)).unwrap()).unwrap().trim().parse().unwrap()
    };
    let found = watched.ended(&cluster, &big, 1);
    // Written pages that wait for the disk count as well.
    let own = number(format!("peak.{big}")) / MB;
    check("peak of memory", of(&found, "memory_peak", "last") / MB, own, own + 1.0);
    check("peak by the control group", own, 300.0, 800.0);
    // With the shell; and each child, when it is read, has a block of a megabyte from which it writes.
    check("memory", of(&found, "memory", "max") / MB, 299.0, 303.0);
    check("written", total(&found, "write_bytes") / MB, 200.0, 204.0);
    check("written by calls", total(&found, "write_chars") / MB, 200.0, 204.0);
    check("reserved memory", found["reserved"]["memory"].as_f64().unwrap() / MB, 800.0, 800.0);

    let found = watched.ended(&cluster, &mpi, 2);
    check("CPU of the MPI job", total(&found, "cpu") / 1e9, 20.0, 22.0);
    for node in found["nodes"].as_array().unwrap() {
        check("CPU on a node", total(node, "cpu") / 1e9, 10.0, 11.5);
    }

    let found = watched.ended(&cluster, &one_core, 1);
    check("CPU by the program's clock", total(&found, "cpu") / 1e9, 32.0, 32.0 * 1.02);
    let own = number(format!("count.{one_core}"));
    check("CPU by the control group", total(&found, "cpu") / own, 0.99, 1.01);
    let slurm = slurms_cpu(&cluster, &one_core);
    check("CPU by Slurm", total(&found, "cpu") / 1e9 / slurm, 0.97, 1.03);
    check("reserved cores", found["reserved"]["cpus"].as_f64().unwrap(), 4.0, 4.0);
    // Its comment asks to be read every second; until the agent has heard of it, it is every two.
    let fine = watched.spans(&one_core, "cpu").iter().filter(|(_, length)| *length < 1.5).count();
    check("readings a second after another", fine as f64, 10.0, found["elapsed_s"].as_f64().unwrap() + 2.0);
    accounted(
        &cluster,
        &[(&killed, "OUT_OF_MEMORY", 1), (&cancelled, "CANCELLED", 1), (&mpi, "COMPLETED", 2)],
    );
    for metric in found["metrics"].as_object().unwrap().values() {
        let of = |name: &str| metric[name].as_f64().unwrap();
        assert!(of("min") <= of("median") && of("median") <= of("max"), "{metric:#}");
    }
}

/// What a real `sacct` says of jobs is read without a doubt, as text with every field it has and as JSON: state and nodes.
fn accounted(cluster: &Cluster, expected: &[(&str, &str, u64)]) {
    let fields = cluster.as_user("jgalice", &["sacct", "--helpformat"]);
    let fields = fields.split_whitespace().collect::<Vec<_>>().join(",");
    let text = cluster.as_user("jgalice", &["sacct", "--allusers", "-D", "-P", "-o", &fields]);
    let json = cluster.as_user("jgalice", &["sacct", "--allusers", "-D", "--json"]);
    let (mut of_text, mut of_json) = (import::Collected::default(), import::Collected::default());
    let options = import::slurm::text::Options::new(jiff::tz::TimeZone::UTC);
    import::slurm::text::read(text.as_bytes(), "sacct -P", &options, &mut of_text).unwrap();
    import::slurm::json::read(json.as_bytes(), "sacct --json", false, &mut of_json).unwrap();
    for (found, name) in [(&of_text, "text"), (&of_json, "JSON")] {
        assert!(found.problems.is_empty(), "{name}: {:?}", found.problems);
        for (job, state, nodes) in expected {
            let own = found.jobs.iter().find(|own| own.job.as_deref() == Some(job)).unwrap();
            let said = (own.state.map(|state| state.name()), own.nodes);
            assert_eq!(said, (Some(*state), Some(*nodes)), "{name}: {own:?}");
        }
    }
    // Both say the same, as far as both say it.
    for (text, json) in of_text.jobs.iter().zip(&of_json.jobs) {
        let common = |job: &record::accounting::Accounting| {
            (
                job.job.clone(),
                job.user.clone(),
                job.submit,
                job.start,
                job.end,
                job.elapsed,
                job.exit,
                job.cpus,
            )
        };
        assert_eq!(common(text), common(json));
        assert_eq!((&text.node_list, text.steps.len()), (&json.node_list, json.steps.len()));
    }
    eprintln!("{} jobs of sacct read, as text and as JSON", of_text.jobs.len());
}

/// The controller's prolog that is shipped, with the server of this test.
fn prolog(watched: &Watched) -> String {
    let file = watched.node.dir.path().join("prolog");
    let (shipped, command) = (root().join("packaging/slurmctld-prolog"), jobglass());
    let text = format!(
        "#!/bin/sh\nexport JOBGLASS_SERVER={} JOBGLASS_TOKEN_FILE={} JOBGLASS_PATH={}:/usr/bin:/bin\nexec {}\n",
        watched.server.url(),
        watched.server.data.join("admin.token").display(),
        command.parent().unwrap().display(),
        shipped.display()
    );
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file.display().to_string()
}

/// The total of a counter, of a job that may not be known yet.
fn of_running(resources: &Row, metric: &str) -> Option<f64> {
    resources["metrics"][metric]["total"].as_f64()
}

/// CPU seconds over all steps, as Slurm accounts for them.
fn slurms_cpu(cluster: &Cluster, job: &str) -> f64 {
    let text = cluster.as_user("jgalice", &["sacct", "-n", "-P", "-j", job, "-o", "JobID,TotalCPU"]);
    let steps = text.lines().filter_map(|line| line.split_once('|')).filter(|(id, _)| id.contains('.'));
    let seconds =
        |text: &str| text.split(':').fold(0.0, |sum, part| 60.0 * sum + part.parse::<f64>().unwrap());
    steps.map(|(_, cpu)| seconds(cpu)).sum()
}
