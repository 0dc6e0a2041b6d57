//! On a real Slurm: every program of a job with job, step, rank, node, modules and libraries, and an end for
//! every process, however the job ends.

#[path = "common/cluster.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod cluster;
mod common;
#[path = "common/server.rs"]
#[allow(dead_code, reason = "only the server is used here")]
mod server;

use std::collections::BTreeSet;
use std::time::Instant;

use cluster::{Cluster, for_users};
use common::*;
use server::Server;

fn of_job<'a>(rows: &'a [Row], job: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row["job"] == job).collect()
}

fn named<'a>(rows: &[&'a Row], name: &str) -> Vec<&'a Row> {
    let is_named = |row: &&&Row| row["exe"].as_str().is_some_and(|exe| exe.ends_with(&format!("/{name}")));
    rows.iter().filter(is_named).filter(|row| row["forked_from"].is_null()).copied().collect()
}

fn one<'a>(rows: &[&'a Row], name: &str) -> &'a Row {
    let found = named(rows, name);
    assert_eq!(found.len(), 1, "{name}: {found:#?}");
    found[0]
}

/// Ranks of rows, folded or not.
fn ranks(rows: &[&Row]) -> BTreeSet<u64> {
    let folded = rows.iter().flat_map(|row| row["ranks"].as_array().unwrap());
    folded.map(|rank| rank["rank"].as_u64().unwrap()).collect()
}

fn strings(value: &Row) -> Vec<&str> {
    value.as_array().map(|list| list.iter().filter_map(Row::as_str).collect()).unwrap_or_default()
}

/// Where programs of any user wait for the test.
fn gate(node: &Node, name: &str) -> Gate {
    Gate::new(&node.dir.path().join(name))
}

#[test]
fn programs_of_real_jobs() {
    if !is_root("programs_of_real_jobs") {
        return;
    }
    let mut node = Node::start();
    let cluster = Cluster::start(&node, "cgroup");
    let (lib, own) = (for_users(&node, &guest()), for_users(&node, &SURVIVE));
    let socket = node.socket.clone();
    let preload = format!("export LD_PRELOAD={lib} JOBGLASS_SOCKET={socket}");
    let mut step_gate = gate(&node, "step");
    let alice = cluster.submit(
        "jgalice",
        &["-N2", "--ntasks-per-node=2"],
        &format!(
            "{preload}\nmodule load demo/1.0\nsrun -N1 -n1 {own} until_eof_of {}\nsrun -N2 -n2 /usr/bin/hostname\n\
         mpirun mpi_hello\nfor i in 1 2 3; do /bin/date; done\n/usr/bin/python3 -c 'import json'",
            step_gate.path().display()
        ),
    );
    step_gate.wait_for_program();
    node.catch_up();
    step_gate.open();
    cluster.wait_for_end(&alice);
    assert_eq!(
        cluster.state(&alice),
        "COMPLETED",
        "{}",
        cluster.as_user("jgalice", &["cat", &format!("{alice}.out")])
    );

    // Bob says he is Alice's job, and his job outlives an agent.
    let mut bobs_gate = gate(&node, "bob");
    let claim = format!("SLURM_JOB_ID={alice} {own} until_eof_of {}", bobs_gate.path().display());
    let bob = cluster.submit("jgbob", &[], &format!("{preload}\n{claim}"));
    bobs_gate.wait_for_program();
    node.catch_up();
    node.stop_agent();
    node.start_agent();
    bobs_gate.open();

    let mut gates = [gate(&node, "timed_out"), gate(&node, "cancelled")];
    let hang = |gate: &Gate| format!("{preload}\nsrun {own} until_eof_of {}", gate.path().display());
    let timed_out = cluster.submit("jgalice", &[], &hang(&gates[0]));
    let cancelled = cluster.submit("jgbob", &[], &hang(&gates[1]));
    let hungry = cluster.submit("jgalice", &["--mem=50"], &format!("{preload}\n eat_memory 500"));
    gates.iter_mut().for_each(Gate::wait_for_program);
    node.catch_up();
    cluster.as_user("jgbob", &["scancel", &cancelled]);
    cluster.as_user("jgalice", &["scontrol", "update", &format!("JobId={timed_out}"), "EndTime=now+5"]);
    for job in [&bob, &timed_out, &cancelled, &hungry] {
        cluster.wait_for_end(job);
    }
    let states: Vec<String> =
        [&timed_out, &cancelled, &hungry].iter().map(|job| cluster.state(job)).collect();
    assert_eq!(states[0], "TIMEOUT");
    assert!(states[1].starts_with("CANCELLED"), "{states:?}");
    assert_eq!(states[2], "OUT_OF_MEMORY");
    let ended_jobs = [alice.clone(), bob.clone(), timed_out.clone(), cancelled.clone(), hungry.clone()];
    drop(cluster);
    node.catch_up();
    node.stop_agent();
    let rows = node.rows("image");

    check_programs(&of_job(&rows, &alice));
    let claimed = one(&of_job(&rows, &bob), "survive").clone();
    assert_eq!(claimed["claimed_job"], alice.as_str(), "the claim is noted");
    assert_eq!(claimed["job_from"], "cgroup");
    assert_eq!(claimed["user"], "jgbob");
    assert_eq!(end(&claimed), "exit 0", "seen by the next agent");
    assert!(has_source(&claimed, "guest"), "what its guest said to the agent before is kept: {claimed}");
    assert!(named(&of_job(&rows, &alice), "survive").iter().all(|row| row["user"] == "jgalice"));
    for job in &ended_jobs {
        let rows = of_job(&rows, job);
        assert!(!rows.is_empty());
        let endless: Vec<_> = rows.iter().filter(|row| row["ended_by"] == "unknown").collect();
        assert!(endless.is_empty(), "job {job}: {endless:#?}");
    }
    for job in [&timed_out, &cancelled] {
        let hung = one(&of_job(&rows, job), "survive").clone();
        assert_eq!(hung["ended_by"], "signal", "{hung}");
        assert_eq!(hung["step"], "0");
    }
    let eaten = one(&of_job(&rows, &hungry), "eat_memory").clone();
    assert_eq!(end(&eaten), "signal 9", "killed for its memory");
    assert!(eaten["max_rss_bytes"].as_u64().unwrap() > 20 << 20, "{eaten}");
    eprintln!(
        "{} rows of {} jobs",
        ended_jobs.iter().map(|job| of_job(&rows, job).len()).sum::<usize>(),
        ended_jobs.len()
    );
}

fn check_programs(rows: &[&Row]) {
    // Slurm's own step daemon is told by its title until it has moved into the job's group; so is a child of it that was gone before
    // anybody could look, on a busy machine.
    for row in rows.iter().filter(|row| row["uid"] != 0) {
        let is_gone = named(&[*row], "hostname").len() == 1 && row["job_from"] == "stepd";
        assert!(row["job_from"] == "cgroup" || is_gone, "{row}");
        assert_eq!(row["cluster"], "testbed", "{row}");
        assert!(row["step"].is_string() && row["node"].as_str().unwrap().starts_with('n'), "{row}");
    }
    let step = one(rows, "survive");
    assert_eq!((&step["step"], &step["rank"], end(step).as_str()), (&"0".into(), &0.into(), "exit 0"));
    let hosts = named(rows, "hostname");
    assert_eq!((ranks(&hosts), sum_of_counts(hosts.iter().copied())), (BTreeSet::from([0, 1]), 2));
    assert!(hosts.iter().all(|row| row["step"] == "1"));
    let mpi = named(rows, "mpi_hello");
    assert_eq!((ranks(&mpi), sum_of_counts(mpi.iter().copied())), (BTreeSet::from([0, 1, 2, 3]), 4));
    let nodes: BTreeSet<&str> = mpi.iter().map(|row| row["node"].as_str().unwrap()).collect();
    assert_eq!(nodes, BTreeSet::from(["n1", "n2"]), "four ranks over two nodes");
    let all_ranks = mpi.iter().flat_map(|row| row["ranks"].as_array().unwrap());
    assert!(all_ranks.clone().all(|rank| rank["user_cpu_s"].is_number()), "each rank has its numbers");
    let dates = named(rows, "date");
    assert_eq!(sum_of_counts(dates.iter().copied()), 3, "{dates:#?}");
    assert_eq!(dates.len(), 1, "a loop over a system program is one row");
    let python: Vec<_> =
        rows.iter().filter(|row| row["exe"].as_str().is_some_and(|exe| exe.contains("/python3"))).collect();
    let python = python.iter().find(|row| row["argv"][1] == "-c").expect("the Python run");
    assert_eq!(python["step"], "batch");
    for row in [step, python, mpi[0], dates[0]] {
        assert_eq!(row["user"], "jgalice");
        assert!(strings(&row["modules"]).contains(&"demo/1.0"), "{row}");
        let objects = row["objects"].as_array().unwrap();
        assert!(
            objects.iter().any(|object| object["path"].as_str().unwrap().contains("/libc.so.6")),
            "{row}"
        );
        assert!(has_source(row, "guest") && has_source(row, "kernel"), "{row}");
    }
    let mpi_objects = mpi[0]["objects"].as_array().unwrap();
    assert!(mpi_objects.iter().any(|object| object["path"].as_str().unwrap().contains("libmpi.so")));
}

/// Without control groups, descent from the step daemon tells the job.
#[test]
fn jobs_without_control_groups() {
    if !is_root("jobs_without_control_groups") {
        return;
    }
    let mut node = Node::start();
    let cluster = Cluster::start(&node, "linuxproc");
    let (lib, own) = (for_users(&node, &guest()), for_users(&node, &SURVIVE));
    let script = format!(
        "export LD_PRELOAD={lib} JOBGLASS_SOCKET={}\nSLURM_JOB_ID=4711 {own} return\nsrun -n2 {own} exit3\ntrue",
        node.socket
    );
    let job = cluster.submit("jgalice", &["-N1", "-n2"], &script);
    cluster.wait_for_end(&job);
    drop(cluster);
    node.catch_up();
    node.stop_agent();
    let rows = node.rows("image");
    let rows = of_job(&rows, &job);
    let own = named(&rows, "survive");
    let batch: Vec<_> = own.iter().filter(|row| row["step"] == "batch").collect();
    assert_eq!(batch.len(), 1, "{own:#?}");
    assert_eq!((&batch[0]["job_from"], &batch[0]["claimed_job"]), (&"stepd".into(), &"4711".into()));
    let step: Vec<&Row> = own.iter().filter(|row| row["step"] == "0").copied().collect();
    assert_eq!((ranks(&step), sum_of_counts(step.iter().copied())), (BTreeSet::from([0, 1]), 2));
    assert!(step.iter().all(|row| end(row) == "exit 3" && row["node"].is_string()), "{step:#?}");
}

/// Rows that an answer has, as JSON.
fn answer(server: &Server, arguments: &[&str]) -> Vec<Row> {
    let output = server.ask(arguments).arg("--json").output().unwrap();
    assert_ne!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    parse(&output)
}

/// How often a program ran, over rows that are folded or not.
fn runs(rows: &[Row], name: &str) -> u64 {
    let rows: Vec<&Row> = rows.iter().collect();
    sum_of_counts(named(&rows, name))
}

#[test]
fn answers_about_a_real_job() {
    if !is_root("answers_about_a_real_job") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path().to_owned(), None);
    server.wait_ready();
    let token = server.data.join("ingest.token");
    let node = Node::configured(&format!(
        "[server]\nurl = \"{}\"\ntoken_file = \"{}\"\n",
        server.url(),
        token.display()
    ));
    let cluster = Cluster::start(&node, "cgroup");
    let (lib, own) = (for_users(&node, &guest()), for_users(&node, &SURVIVE));
    let script = format!(
        "export LD_PRELOAD={lib} JOBGLASS_SOCKET={}\nmodule load demo/1.0\nmpirun mpi_hello\n\
         for i in 1 2 3 4 5; do {own} return; /bin/date; done\nsrun -N1 -n1 {own} return",
        node.socket
    );
    let job = cluster.submit("jgalice", &["-N2", "--ntasks-per-node=2"], &script);
    cluster.wait_for_end(&job);
    let ended = Instant::now();
    let is_complete = |rows: &[Row]| {
        runs(rows, "mpi_hello") == 4 && runs(rows, "survive") == 6 && runs(rows, "date") == 5 && {
            let batch: Vec<&Row> = rows.iter().filter(|row| row["step"] == "batch").collect();
            named(&batch, "bash").iter().any(|row| row["end"].is_string())
        }
    };
    // Five seconds are promised; a machine that is shared may take longer, and the time is printed.
    wait_until("the whole job", || is_complete(&answer(&server, &["processes", "--job", &job])));
    eprintln!("complete {:.1} s after its end was seen", ended.elapsed().as_secs_f64());

    let uses = answer(&server, &["uses", "libmpi*"]);
    assert!(uses.iter().any(|row| row["job"] == *job && row["user"] == "jgalice"), "{uses:#?}");
    let programs = answer(&server, &["programs", "--of", "jgalice"]);
    let count = |name: &str| {
        let named = programs.iter().filter(|row| row["exe"].as_str().is_some_and(|exe| exe.ends_with(name)));
        named.map(|row| row["runs"].as_u64().unwrap()).sum::<u64>()
    };
    // As often as the script says.
    assert_eq!((count("/mpi_hello"), count("/survive"), count("/date")), (4, 6, 5), "{programs:#?}");
    let modules = answer(&server, &["modules"]);
    assert!(modules.iter().any(|row| row["module"] == "demo/1.0"), "{modules:#?}");
    let text = String::from_utf8(server.ask(&["job", &job]).output().unwrap().stdout).unwrap();
    eprintln!("{text}");
    assert!(
        text.contains("└─ ") && text.contains("demo/1.0") && text.contains("User      jgalice"),
        "{text}"
    );
    assert_eq!(server.ask(&["job", "999999"]).output().unwrap().status.code(), Some(1));
}
