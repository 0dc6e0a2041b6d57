//! The agent as an administrator meets it: configuration, signals, switch, restart, folding, no privileges.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::*;

/// Runs `jobglass` and gives exit code and standard error.
fn fails(args: &[&str]) -> (i32, String) {
    let output = Command::new(jobglass()).args(args).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_wrong_configuration_names_file_line_and_text() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.toml");
    fs::write(&file, "cluster = \"c\"\n[spool]\nmax_mb = 7\n").unwrap();
    let (code, err) = fails(&["agent", "--config", file.to_str().unwrap()]);
    assert_eq!(code, 2);
    assert!(err.contains("agent.toml:3: unknown field `max_mb`"), "{err}");
    assert!(err.contains("max_mb = 7"), "{err}");
    let (code, err) = fails(&["agent", "--config", "/nonexistent/agent.toml"]);
    assert_eq!(code, 2);
    assert!(err.contains("/nonexistent/agent.toml"), "{err}");
}

#[test]
fn reading_what_is_not_a_spool_is_an_error_and_an_empty_one_is_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(fails(&["spool", "read", dir.path().to_str().unwrap()]).0, 1);
    let (code, err) = fails(&["spool", "read", "/nonexistent", "--json"]);
    assert_eq!(code, 2);
    assert!(err.contains("/nonexistent"), "{err}");
}

#[test]
fn two_agents_do_not_share_a_spool() {
    let node = Node::start();
    let other = node.dir.path().join("other.sock").display().to_string();
    let spool = node.spool().display().to_string();
    let (code, err) = fails(&["agent", "--spool", &spool, "--socket", &other]);
    assert_eq!(code, 2);
    assert!(err.contains("another agent"), "{err}");
}

#[test]
fn a_terminated_agent_leaves_only_its_spool() {
    let mut node = Node::start();
    must(&mut node.command("/bin/true"));
    node.stop_agent();
    let left: Vec<String> = fs::read_dir(node.dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| !["spool", "agent.log", "agent.toml"].contains(&name.as_str()))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

fn is_survive(row: &Row) -> bool {
    row["exe"] == SURVIVE.display().to_string()
}

#[test]
fn a_damaged_spool_is_named_and_the_rest_is_read() {
    if !is_root("a_damaged_spool_is_named_and_the_rest_is_read") {
        return;
    }
    let mut node = Node::start();
    for _ in 0..5 {
        must(node.command(&*SURVIVE).arg("return"));
    }
    node.wait_for_images("the records", |rows| rows.iter().filter(|row| is_survive(row)).count() == 5);
    node.stop_agent();
    let whole = node.rows("image").len();
    let segment = node.spool().join("0000000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let output = node.read("image");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(err.contains("damaged") && err.contains("0000000001.seg"), "{err}");
    assert!(
        parse(&output).len() + 1 >= whole,
        "one entry is lost, {} of {whole} are read",
        parse(&output).len()
    );
}

/// The flag file turns guest and agent off without touching what runs, and back on.
/// Its name, what it does to a file, and files to which it is done besides those that are always there.
type Damage<'a> = (&'a str, &'a dyn Fn(&Path), &'a [&'a str]);

/// A file beside the spool may be anything after a crash of the machine or a mistake of the administrator.
#[test]
fn damaged_state_files_are_set_aside_and_do_not_stop_the_agent() {
    let mut node = Node::start();
    // Root without this may not read what its mode forbids; the shipped unit takes it away as well.
    node.launcher = ["setpriv", "--bounding-set", "-dac_override"].map(str::to_owned).into();
    let is_root =
        is_root("unreadable files among damaged_state_files_are_set_aside_and_do_not_stop_the_agent");
    if !is_root {
        node.launcher.clear();
    }
    const FILES: [&str; 5] = ["progress", "running", "measured", "clock", "shipped"];
    let spool = node.spool();
    let garbage = |path: &Path| fs::write(path, [0xff; 100]).unwrap();
    let empty = |path: &Path| fs::write(path, "").unwrap();
    let directory = |path: &Path| {
        let _ = fs::remove_file(path);
        fs::create_dir(path).unwrap();
    };
    let fifo = |path: &Path| {
        let _ = fs::remove_file(path);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    };
    let unreadable = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    let truncated = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 3]).unwrap();
    };
    let damages: [Damage; 6] = [
        ("garbage", &garbage, &[]),
        ("truncated", &truncated, &[]),
        ("empty", &empty, &[]),
        (
            "directory",
            &directory,
            &["lock", "running.new", "shipped.new", "measured.new", "clock.new", "0000000001.seg"],
        ),
        ("FIFO", &fifo, &["lock", "running.new", "0000000002.seg"]),
        ("unreadable", &unreadable, &["lock", "0000000003.seg"]),
    ];
    for (name, damage, more) in damages.into_iter().filter(|damage| is_root || damage.0 != "unreadable") {
        node.stop_agent();
        for file in FILES.iter().chain(more) {
            let path = spool.join(file);
            if !path.exists() {
                garbage(&path);
            }
            damage(&path);
        }
        let told_before = node.log().matches(" is damaged: ").count();
        node.start_agent();
        let told = node.log().matches(" is damaged: ").count() - told_before;
        // An unreadable lock is mended, because another agent might hold it.
        let expected = FILES.len() + more.len() - usize::from(name == "unreadable");
        assert_eq!(told, expected, "{name}: {}", node.log());
    }
    let mut child = node.command("/bin/echo").arg("after the damage").stdout(Stdio::null()).spawn().unwrap();
    child.wait().unwrap();
    node.stop_agent();
    let rows = parse(&node.read("image"));
    assert!(rows.iter().any(|row| row["pid"] == child.id()), "the agent records as before");
    let gaps = parse(&node.read("gap"));
    assert!(gaps.iter().any(|gap| gap["images"].is_null()), "what was missed is not known: {gaps:?}");
}

#[test]
fn the_switch() {
    if !is_root("the_switch") {
        return;
    }
    let mut node = Node::start();
    let mut running = Killed(node.command(&*SURVIVE).arg("hang").spawn().unwrap());
    let off = node.dir.path().join("off");
    fs::write(&off, "").unwrap();
    wait_until("the agent to go off", || !Path::new(&node.socket).exists());
    let mut unseen = node.command(&*SURVIVE).arg("exit3").spawn().unwrap();
    assert_eq!(unseen.wait().unwrap().code(), Some(3));
    assert!(running.try_wait().unwrap().is_none(), "a running program goes on");
    fs::remove_file(&off).unwrap();
    wait_until("the agent to come back", || Path::new(&format!("{}.0", node.socket)).exists());
    let seen = node.run(node.command(&*SURVIVE).arg("exit3"));
    node.wait_for_images("its record", |rows| !tree(rows, seen).is_empty());
    node.stop_agent();
    let rows = node.rows("image");
    assert_eq!((tree(&rows, unseen.id()).len(), tree(&rows, seen).len()), (0, 1));
    let gaps = node.rows("gap");
    assert!(gaps.iter().any(|gap| gap["reason"] == "switched_off"), "{gaps:?}");
}

#[test]
fn a_hangup_reads_the_configuration_again_and_a_bad_one_changes_nothing() {
    if !is_root("a_hangup_reads_the_configuration_again_and_a_bad_one_changes_nothing") {
        return;
    }
    let mut node = Node::start();
    let config = node.dir.path().join("agent.toml");
    fs::write(&config, "nonsense = 1\n").unwrap();
    node.signal("HUP");
    wait_until("the complaint", || node.log().contains("agent.toml:1: unknown field `nonsense`"));
    let first = node.run(node.command(&*SURVIVE).arg("return"));
    // Rules hold for what is not finished yet, too.
    node.wait_for_images("the first record", |rows| !tree(rows, first).is_empty());
    let rules = || fs::read(format!("{}.rules", node.socket)).unwrap();
    let before = rules();
    fs::write(&config, format!("[privacy]\nskip_programs = [\"{}\"]\n", SURVIVE.display())).unwrap();
    node.signal("HUP");
    wait_until("the new configuration", || node.log().contains("configuration read again"));
    wait_until("the new rules", || rules() != before);
    let second = node.run(node.command(&*SURVIVE).arg("return"));
    node.catch_up();
    node.stop_agent();
    let rows = node.rows("image");
    assert_eq!((tree(&rows, first).len(), tree(&rows, second).len()), (1, 0));
}

#[test]
fn what_is_alike_is_counted_in_one_row() {
    if !is_root("what_is_alike_is_counted_in_one_row") {
        return;
    }
    // Rows stay open until the agent stops, however slow the machine is.
    let mut node = Node::configured("[fold]\nidle_seconds = 600\nage_seconds = 600\n");
    let own = SURVIVE.display().to_string();
    let script = format!(
        "for i in $(seq 200); do echo $i | sed s/1/2/ >/dev/null; done; for i in 1 2 3 4 5; do {own} return; done"
    );
    let pid = node.run(node.command("/bin/bash").args(["-c", &script]));
    node.catch_up();
    node.stop_agent();
    let rows = node.rows("image");
    let ours = |name: &str| {
        let is_named = |row: &&Row| row["exe"].as_str().is_some_and(|exe| exe.ends_with(name));
        let rows: Vec<Row> =
            rows.iter().filter(is_named).filter(|row| row["forked_from"].is_null()).cloned().collect();
        rows.into_iter()
            .filter(|row| row["ppid"] == pid || tree(std::slice::from_ref(row), pid).len() == 1)
            .collect::<Vec<_>>()
    };
    let sed = ours("/sed");
    assert!(
        sum_of_counts(&sed) >= 200 && sed.len() <= 3,
        "{} rows with {} runs",
        sed.len(),
        sum_of_counts(&sed)
    );
    assert_eq!(ours("/survive").len(), 5, "a user's program keeps its rows");
    let forked: Vec<_> = rows.iter().filter(|row| row["forked_from"]["pid"] == pid).collect();
    assert!(
        sum_of_counts(forked.iter().copied()) >= 200 && forked.len() <= 5,
        "{} rows of forked copies",
        forked.len()
    );
}

#[test]
fn modules_containers_and_claims() {
    if !is_root("modules_containers_and_claims") {
        return;
    }
    let mut node = Node::start();
    let mut command = node.command(&*SURVIVE);
    command.arg("return");
    command.env("LOADEDMODULES", "gcc/12:openmpi/4").env("_LMFILES_", "/m/gcc/12.lua:/m/openmpi/4.lua");
    command.env("APPTAINER_CONTAINER", "/images/a.sif").env("OMP_NUM_THREADS", "4").env("SLURM_JOB_ID", "77");
    let pid = node.run(&mut command);
    // An agent that has just begun hashes the programs that run first.
    node.wait_for_images("the record with its hash", |rows| {
        tree(rows, pid).pop().is_some_and(|row| row["exe_hash"].is_string())
    });
    node.stop_agent();
    let row = tree(&node.rows("image"), pid).pop().unwrap();
    assert_eq!(row["modules"], serde_json::json!(["gcc/12", "openmpi/4"]));
    assert_eq!(row["module_files"][1], "/m/openmpi/4.lua");
    assert_eq!(row["container"], serde_json::json!({"kind": "apptainer", "image": "/images/a.sif"}));
    assert_eq!(row["env"]["OMP_NUM_THREADS"], "4");
    // Nothing on this machine knows better, so the claim is believed, and marked as one.
    assert_eq!((&row["job"], &row["job_from"]), (&"77".into(), &"environment".into()));
    assert_eq!(row["argv"], serde_json::json!([SURVIVE.display().to_string(), "return"]));
    assert_eq!(row["exe_hash"].as_str().unwrap().len(), 32);
}

/// A user may make any root for their programs, also one in which nothing answers; the agent goes on.
#[test]
fn a_root_that_is_a_trap_stops_nobody() {
    if !is_root("a_root_that_is_a_trap_stops_nobody") {
        return;
    }
    let mut node = Node::start();
    let own = SURVIVE.display().to_string();
    let trap = format!("mount -t tmpfs t /run && mkfifo /run/.containerenv && exec {own} until_eof");
    let inside = node.run_until_seen(node.command("unshare").args(["-m", "/bin/sh", "-c", &trap]));
    let outside = node.run(node.command(&*SURVIVE).arg("exit3"));
    let trapped = |rows: &[Row]| tree(rows, inside).into_iter().find(|row| row["argv"][1] == "until_eof");
    node.wait_for_images("both records", |rows| trapped(rows).is_some() && !tree(rows, outside).is_empty());
    node.stop_agent();
    let rows = node.rows("image");
    let row = trapped(&rows).unwrap();
    assert_eq!((end(&row).as_str(), &row["container"]), ("exit 0", &Row::Null));
    assert_eq!(end(&tree(&rows, outside)[0]), "exit 3");
}

/// A container with a root of its own, whose runtime tells nothing in the environment.
fn contained(root: &Path, mark: &str, program: &[&str]) -> Command {
    let copy = root.join("survive");
    fs::create_dir_all(root.join("run")).unwrap();
    if !copy.exists() {
        fs::copy(&*SURVIVE_STATIC, &copy).unwrap();
    }
    match mark {
        ".singularity.d" => fs::create_dir_all(root.join(mark)).unwrap(),
        _ => fs::write(root.join(mark), "").unwrap(),
    }
    let mut command = Command::new("bwrap");
    command.arg("--bind").arg(root).args(["/", "/survive"]).args(program).env_clear().stdin(Stdio::null());
    command
}

#[test]
fn containers_are_recognized_by_the_files_in_their_root() {
    if !is_root("containers_are_recognized_by_the_files_in_their_root") {
        return;
    }
    let node = Node::start();
    let marks = [(".singularity.d", "apptainer"), ("run/.containerenv", "podman"), (".dockerenv", "docker")];
    let mut runs = Vec::new();
    for (mark, kind) in marks {
        let root = node.dir.path().join(kind);
        let held = node.run_until_seen(&mut contained(&root, mark, &["until_eof"]));
        // What a program starts there is in it as well, however short it is. A first program that ends before the agent has
        // opened its root is in no known container: nothing can be proven of that, since it depends on who is faster.
        let children = node.run_until_seen(&mut contained(&root, mark, &["after_eof", "/survive", "exit3"]));
        runs.push((kind, held, children));
    }
    let rows = node.stop();
    let inside =
        |pid| -> Vec<Row> { tree(&rows, pid).into_iter().filter(|row| row["exe"] == "/survive").collect() };
    for (kind, held, children) in runs {
        let kinds = |pid| inside(pid).iter().map(|row| row["container"]["kind"].clone()).collect::<Vec<_>>();
        assert_eq!(kinds(held), [kind], "{held}");
        assert_eq!(kinds(children), [kind; 2], "{:#?}", inside(children));
    }
}

#[test]
fn a_namespace_whose_number_comes_again_is_another_one() {
    if !is_root("a_namespace_whose_number_comes_again_is_another_one") {
        return;
    }
    let node = Node::start();
    let own = SURVIVE.display().to_string();
    let number = node.dir.path().join("number");
    let mut numbers = Vec::new();
    let mut runs = Vec::new();
    for is_container in [true, false, true, false] {
        let mark = if is_container { "touch /run/.containerenv" } else { "true" };
        let script = format!(
            "readlink /proc/self/ns/mnt > {}; mount -t tmpfs t /run && {mark} && exec {own} until_eof",
            number.display()
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).env_clear().env("PATH", "/usr/bin:/bin");
        runs.push((is_container, node.run_until_seen(&mut command)));
        numbers.push(fs::read(&number).unwrap());
    }
    eprintln!("{numbers:?}");
    let rows = node.stop();
    for (is_container, pid) in runs {
        let row = tree(&rows, pid).into_iter().find(|row| row["exe"] == own).unwrap();
        let expected = if is_container { Row::from("podman") } else { Row::Null };
        assert_eq!(row["container"]["kind"], expected, "{row:#}");
    }
}

/// Each subscription to the kernel's events is answered with an event of its own, which all subscribers get.
#[test]
fn another_subscriber_makes_no_gap() {
    if !is_root("another_subscriber_makes_no_gap") {
        return;
    }
    let mut node = Node::start();
    for _ in 0..5 {
        drop(agent::kernel::Connector::open().unwrap());
        must(&mut node.command("/bin/true"));
    }
    node.catch_up();
    node.stop_agent();
    assert_eq!(node.rows("gap"), Vec::<Row>::new());
}

/// What users run is nobody else's business.
#[test]
fn what_is_recorded_is_not_for_everybody() {
    let mut node = Node::start();
    must(&mut node.command("/bin/true"));
    node.stop_agent();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&node.spool()), 0o750);
    for file in fs::read_dir(node.spool()).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path) & 0o007, 0, "{}", path.display());
    }
}

/// Users are told what is recorded about them.
#[test]
fn every_field_of_a_record_is_documented() {
    let document = fs::read(root().join("docs/what-is-collected.md")).unwrap();
    let document = String::from_utf8(document).unwrap();
    let mut node = Node::start();
    must(&mut node.command("/bin/true"));
    node.catch_up();
    node.stop_agent();
    let rows = node.rows("image");
    let fields = rows.first().and_then(|row| row.as_object()).unwrap().keys();
    let missing: Vec<&String> =
        fields.filter(|field| *field != "kind" && !document.contains(&format!("`{field}`"))).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

/// As an ordinary user: what the guests say is there, what cannot be seen is null and stated.
#[test]
fn without_privileges() {
    if !is_root("without_privileges") {
        return;
    }
    // Not 65534, which stands for everybody unknown in a user namespace.
    const USER: u32 = 65533;
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let (socket, spool) = (dir.path().join("s"), dir.path().join("spool"));
    let copy = |path: &Path| {
        let to = dir.path().join(path.file_name().unwrap());
        fs::copy(path, &to).unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
        to
    };
    let (bin, lib, own) = (copy(&jobglass()), copy(&guest()), copy(&SURVIVE));
    let config = dir.path().join("agent.toml");
    fs::write(&config, "").unwrap();
    // Even the process connector is closed to a process without capabilities in a network of its own.
    let mut agent = Command::new("unshare");
    agent.args(["--user", "--net"]).arg(&bin).args(["agent", "--config"]).arg(&config);
    agent.arg("--spool").arg(&spool).arg("--socket").arg(&socket);
    let log = dir.path().join("log");
    let agent = agent.uid(USER).gid(USER).stderr(fs::File::create(&log).unwrap());
    let mut agent = Killed(agent.spawn().unwrap());
    wait_until("the agent to listen", || {
        String::from_utf8_lossy(&fs::read(&log).unwrap()).contains("listening")
    });
    let mut command = Command::new(&own);
    command.args(["exec"]).arg(&own).arg("exit3").uid(USER).gid(USER);
    command.env_clear().env("LD_PRELOAD", lib).env("JOBGLASS_SOCKET", &socket);
    let mut child = Killed(command.spawn().unwrap());
    child.wait().unwrap();
    let pid = child.id();
    let read = |kind| {
        let output = Command::new(jobglass())
            .args(["spool", "read", "--json", "--kind", kind])
            .arg(&spool)
            .output()
            .unwrap();
        parse(&output)
    };
    wait_until("both images", || tree(&read("image"), pid).len() >= 2);
    must(Command::new("kill").arg(agent.id().to_string()));
    agent.wait().unwrap();
    let rows = tree(&read("image"), pid);
    let ends: Vec<String> = rows.iter().map(end).collect();
    assert_eq!(ends, ["exec", "unknown"], "{rows:#?}");
    for row in &rows {
        assert!(has_source(row, "guest") && !has_source(row, "kernel"), "{row}");
        assert!(row["exit_code"].is_null() && row["max_rss_bytes"].is_null(), "{row}");
        assert!(row["objects"].as_array().is_some_and(|objects| objects.len() >= 3), "{row}");
    }
    let blind = read("health").pop().unwrap()["blind"].clone();
    let says =
        |what: &str| blind.as_array().unwrap().iter().filter(|one| one.to_string().contains(what)).count();
    // The log may be open to everyone, by the kernel's settings.
    assert!(says("CAP_NET_ADMIN") == 2 && says("CAP_SYSLOG") <= 1, "{blind}");
}

#[test]
fn help_version_man_pages_and_completions() {
    let help = must(Command::new(jobglass()).arg("--help"));
    for command in ["agent", "run", "doctor", "spool"] {
        assert!(help.contains(command), "{help}");
    }
    assert!(must(Command::new(jobglass()).arg("--version")).starts_with("jobglass 0."));
    let dir = tempfile::tempdir().unwrap();
    must(Command::new(jobglass()).arg("generate").arg(dir.path()));
    for file in ["man/man1/jobglass.1", "man/man1/jobglass-agent.1", "completions/jobglass.bash"] {
        assert!(dir.path().join(file).exists(), "{file}");
    }
}

#[test]
fn run_starts_a_program_with_the_guest() {
    if !is_root("run_starts_a_program_with_the_guest") {
        return;
    }
    let mut node = Node::start();
    let mut command = Command::new(jobglass());
    command
        .args(["run", "--library"])
        .arg(guest())
        .args(["--socket", &node.socket, "--"])
        .arg(&*SURVIVE)
        .arg("exit3");
    let mut child = command.spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    node.wait_for_images("its record", |rows| {
        tree(rows, child.id()).iter().any(|row| end(row) == "exit 3" && has_source(row, "guest"))
    });
    node.stop_agent();
    let (code, err) = fails(&["run", "--library", "/nonexistent/x.so", "--", "true"]);
    assert!(code == 2 && err.contains("/nonexistent/x.so"), "{code} {err}");
    let (code, err) = fails(&["run", "--library", guest().to_str().unwrap(), "--", "/nonexistent/prog"]);
    assert!(code == 2 && err.contains("/nonexistent/prog"), "{code} {err}");
}
