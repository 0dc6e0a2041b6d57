//! What the paper's authors used tags for (4.1 to 4.3), on a real Slurm: a job in the partition with GPUs that touches none, one in the
//! partition with disks that hardly reads or writes, one with a whole node for a single process. Each is found by the search for it.

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

use cluster::Cluster;
use common::{is_root, new_dir, program, wait_until};
use watched::Watched;

/// What Slurm does not tell of the testbed's partitions. All nodes of the testbed have this machine's disks, which other tests use as well.
const SITE: &str = "[[partition]]\nname = 'gpu'\nhas_gpus = true\n[[partition]]\nname = 'hdd'\nhas_local_disk = true\n\
    [[partition]]\nname = 'test'\nis_test = true\n\
    [tags.'job_disks TOO LOW'.parameters]\nlittle = '1GB/s'\n";

/// A server, and an agent on a node with two GPUs that nobody uses: a library of our own that has the real names and layouts.
fn start() -> Watched {
    let dir = new_dir();
    let built = program("libnvml_stand_in.so", "cc", "nvml_stand_in.c", &["-shared", "-fPIC", "-ldl"]);
    let library = dir.path().join("libnvidia-ml.so.1");
    fs::copy(built, &library).unwrap();
    fs::write(dir.path().join("scenario"), "cards 2\nidle 0\nidle 1\n").unwrap();
    fs::create_dir_all(dir.path().join("data")).unwrap();
    fs::write(dir.path().join("data/site.toml"), SITE).unwrap();
    Watched::start_in(dir, &format!("every_seconds = 1.0\nnvml = \"{}\"\n", library.display()))
}

/// Brings what Slurm says: the machine, and jobs.
fn import(watched: &Watched, cluster: &Cluster, options: &[&str]) {
    let command = watched.server.ask(&[&["import", "slurm"], options].concat());
    let output = cluster.with_slurm(command).output().unwrap();
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The jobs that a search finds.
fn found(watched: &Watched, search: &str) -> Vec<String> {
    let rows = watched.ask(&["jobs", "--search", search, "--all-time", "--sort", "job", "--json"]);
    rows.iter().map(|row| row["job"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn searches_find_the_jobs_that_waste() {
    if !is_root("searches_find_the_jobs_that_waste") {
        return;
    }
    let watched = start();
    let cluster = Cluster::start(&watched.node, "cgroup");
    import(&watched, &cluster, &["--site"]);
    let work = |seconds: u32| format!("end=$((SECONDS + {seconds})); while ((SECONDS < end)); do :; done");
    // As Slurm names the cards of a job that it has given some.
    let idle_gpu = cluster.submit(
        "jgalice",
        &["-p", "gpu"],
        "export SLURM_JOB_GPUS=0 SLURM_GPUS_ON_NODE=1\n/bin/sleep 15",
    );
    let idle_disk = cluster.submit(
        "jgbob",
        // Slurm's control groups do not count disks here, so only what a node did that the job had to itself is known.
        &["-p", "hdd", "--exclusive", "--comment=tag:job_behavior ITERATIVE; tag:no such tag"],
        "/bin/sleep 15",
    );
    let single = cluster.submit("jgalice", &["-p", "regular", "--exclusive", "-N1", "-w", "n1"], &work(15));
    let tested = cluster.submit("jgbob", &["-p", "test"], "/bin/sleep 5");
    for job in [&idle_gpu, &idle_disk, &single, &tested] {
        cluster.wait_for_end(job);
    }
    import(
        &watched,
        &cluster,
        &["--from", "1h", "--state", watched.dir.path().join("state").to_str().unwrap()],
    );
    let explain = |job: &str| {
        let output = watched.server.ask(&["tags", "explain", job, "--why-not"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (search, job) in [("idle-gpus", &idle_gpu), ("idle-disks", &idle_disk), ("single-process", &single)] {
        let mut last = Vec::new();
        let what = format!("{search} to find job {job}");
        let mut looks = 0;
        wait_until(&what, || {
            last = found(&watched, search);
            looks += 1;
            if looks == 100 {
                eprintln!("not yet: {what}\n{}", explain(job));
            }
            last.contains(job)
        });
        assert!(
            !last.contains(&tested) || search == "single-process",
            "{search}: {last:?}\n{}",
            explain(&tested)
        );
        eprintln!("{search}: {last:?}\n{}", explain(job));
    }
    // What its owner said when it was submitted.
    let said = ["jobs", "--all", "job_behavior ITERATIVE", "--tagged-by", "jgbob", "--all-time", "--json"];
    let rows = watched.ask(&said);
    assert_eq!(rows.iter().map(|row| row["job"].as_str().unwrap()).collect::<Vec<_>>(), [&*idle_disk]);
    let explained = explain(&idle_disk);
    assert!(explained.contains("at submission") && explained.contains("? no such tag"), "{explained}");
    assert_eq!(found(&watched, "idle-gpus"), [idle_gpu.as_str()]);
    assert_eq!(found(&watched, "idle-disks"), [idle_disk.as_str()]);
}
