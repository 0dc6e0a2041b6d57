//! However a program begins, runs and ends: exactly the records it should have, with the right end.

mod common;

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::*;

/// A record that must be there: program, how it came to be, how it ended, whether the guest spoke.
type Expected = (&'static str, &'static str, &'static str, bool);

struct Case {
    name: &'static str,
    command: Command,
    expected: Vec<Expected>,
    /// Without a guest, a program must live until the agent has looked at it.
    is_held: bool,
}

fn case(node: &Node, name: &'static str, args: &[&str], expected: &[Expected]) -> Case {
    let mut command = node.command(&*SURVIVE);
    command.arg(args[0]).args(&args[1..]);
    Case { name, command, expected: expected.to_vec(), is_held: false }
}

const OWN: &str = "survive";

/// The ways to end, each a line.
fn endings(node: &Node) -> Vec<Case> {
    let simple = [
        ("return", "exit 0"),
        ("exit3", "exit 3"),
        ("_exit4", "exit 4"),
        ("abort", "signal 6"),
        ("segv", "signal 11"),
        ("term", "signal 15"),
        ("kill", "signal 9"),
        ("int", "signal 2"),
        ("pthread_exit", "exit 5"),
        ("thread_exit6", "exit 6"),
        ("closefds", "exit 10"),
        ("clearenv", "exit 0"),
        ("closed_stderr", "exit 0"),
    ];
    let simple = simple.map(|(mode, end)| case(node, mode, &[mode], &[(OWN, "exec", end, true)]));
    let pid_file = node.dir.path().join("daemon.pid").display().to_string();
    let empty = node.dir.path().join("empty").display().to_string();
    fs::create_dir_all(&empty).unwrap();
    let own = SURVIVE.display().to_string();
    // A user's program: the system's own would be counted together.
    let other = copy(node.dir.path(), "other".into()).display().to_string();
    let mut cases = Vec::from(simple);
    cases.extend([
        case(
            node,
            "exec",
            &["exec", &other, "return"],
            &[(OWN, "exec", "exec", true), ("other", "exec", "exit 0", true)],
        ),
        case(
            node,
            "exec from a thread",
            &["exec_thread", &other, "return"],
            &[(OWN, "exec", "exec", true), ("other", "exec", "exit 0", true)],
        ),
        case(node, "fork", &["fork"], &[(OWN, "exec", "exit 0", true), (OWN, "fork", "exit 7", false)]),
        case(
            node,
            "fork and _exit",
            &["fork__exit"],
            &[(OWN, "exec", "exit 0", true), (OWN, "fork", "exit 8", false)],
        ),
        case(
            node,
            "vfork and exec",
            &["vfork_exec", &other, "return"],
            &[(OWN, "exec", "exit 0", true), ("other", "exec", "exit 0", true)],
        ),
        case(
            node,
            "posix_spawn",
            &["spawn", &own, "exit3"],
            &[(OWN, "exec", "exit 3", true), (OWN, "exec", "exit 3", true)],
        ),
        case(
            node,
            "daemon",
            &["daemon", &pid_file],
            &[(OWN, "exec", "exit 0", true), (OWN, "fork", "exit 0", false), (OWN, "fork", "exit 9", false)],
        ),
        case(node, "chroot", &["chroot", &empty], &[(OWN, "exec", "exit 11", true)]),
    ]);
    cases
}

/// Programs and places that the guest cannot enter, or hardly.
fn places(node: &Node) -> Vec<Case> {
    let dir = node.dir.path();
    let alone = |name, command, end, guest| Case {
        name,
        command,
        expected: vec![(OWN, "exec", end, guest)],
        is_held: !guest,
    };
    let mut long_args = node.command(&*SURVIVE);
    long_args.arg("return").arg("x".repeat(100_000));
    let long = copy(&deep_directory(dir), "survive".into());
    let odd = copy(dir, std::ffi::OsString::from_vec(b"survive \xff\xfe".to_vec()));
    let unlinked = copy(dir, "gone".into());
    let file = fs::File::open(&unlinked).unwrap();
    fs::remove_file(&unlinked).unwrap();
    let mut deleted = node.command(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)));
    deleted.arg("exit3");
    std::mem::forget(file);
    let setuid = copy(dir, "survive_setuid".into());
    fs::set_permissions(&setuid, fs::Permissions::from_mode(0o4755)).unwrap();
    let mut as_nobody = node.command(&setuid);
    as_nobody.arg("until_eof").uid(65534).gid(65534);
    let with_args = |program: &Path, args: &[&str]| {
        let mut command = node.command(program);
        command.args(args);
        command
    };
    let mut cases = vec![
        alone("a static executable", with_args(&SURVIVE_STATIC, &["until_eof"]), "exit 0", false),
        alone("a musl executable", with_args(&SURVIVE_MUSL, &["exit3"]), "exit 3", true),
        alone("a setuid program", as_nobody, "exit 0", false),
        alone("argv of 100 kB", long_args, "exit 0", true),
        alone("a path of 3,000 bytes", with_args(&long, &["exit3"]), "exit 3", true),
        alone("a name that is not UTF-8", with_args(&odd, &["exit3"]), "exit 3", true),
        Case {
            name: "a deleted executable",
            command: deleted,
            expected: vec![("gone", "exec", "exit 3", true)],
            is_held: false,
        },
        Case {
            name: "300 libraries",
            command: with_args(&MANY.join("many"), &[]),
            expected: vec![("many", "exec", "exit 0", true)],
            is_held: false,
        },
    ];
    let own = SURVIVE.display().to_string();
    for (name, program, args) in [
        ("a private pid namespace", "unshare", &["--pid", "--fork", "--mount-proc", &own, "exit3"][..]),
        ("a private network namespace", "unshare", &["--net", &own, "exit3"]),
        (
            "a container-like root",
            "bwrap",
            &["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", &own, "exit3"],
        ),
    ] {
        cases.push(alone(name, with_args(Path::new(program), args), "exit 3", true));
    }
    cases
}

fn copy(dir: &Path, name: std::ffi::OsString) -> PathBuf {
    let path = dir.join(name);
    fs::copy(&*SURVIVE, &path).unwrap();
    path
}

fn deep_directory(dir: &Path) -> PathBuf {
    let mut deep = dir.to_owned();
    while deep.as_os_str().len() < 2900 {
        deep.push("d".repeat(96));
    }
    fs::create_dir_all(&deep).unwrap();
    deep
}

/// Runs a case and gives its process number.
fn start(node: &Node, case: &mut Case) -> u32 {
    let command = case.command.stdout(Stdio::null()).stderr(Stdio::null());
    if case.is_held { node.run_until_seen(command) } else { node.run(command) }
}

/// What a row says, in the form of [`Expected`].
fn said(row: &Row) -> (String, &'static str, String, bool) {
    let exe = row["exe"].as_str().unwrap_or("?");
    let name = exe.rsplit('/').next().unwrap();
    // Copies under other names are the same program.
    let name = if name.starts_with(OWN) { OWN } else { name };
    let how = if row["forked_from"].is_null() { "exec" } else { "fork" };
    (name.to_owned(), how, end(row), has_source(row, "guest"))
}

/// The rows of a case. The tools that make namespaces are not what is tested.
fn rows_of(pid: u32, rows: &[Row]) -> Vec<Row> {
    let mut rows = tree(rows, pid);
    rows.retain(|row| {
        !row["exe"].as_str().is_some_and(|exe| exe.ends_with("/unshare") || exe.ends_with("/bwrap"))
    });
    rows
}

fn check(case: &Case, pid: u32, rows: &[Row]) -> Result<Vec<Row>, String> {
    let rows = rows_of(pid, rows);
    let mut found: Vec<_> = rows.iter().map(said).collect();
    let mut expected: Vec<_> = case
        .expected
        .iter()
        .map(|(exe, how, end, guest)| ((*exe).to_owned(), *how, (*end).to_owned(), *guest))
        .collect();
    found.sort();
    expected.sort();
    if found == expected {
        Ok(rows)
    } else {
        Err(format!("{}: {found:?} instead of {expected:?}", case.name))
    }
}

/// Runs all cases; gives their rows by name.
fn run(node: Node, mut cases: Vec<Case>) -> impl Fn(&str) -> Vec<Row> {
    let pids: Vec<u32> = cases.iter_mut().map(|case| start(&node, case)).collect();
    // Files are looked at behind the programs' backs.
    node.wait_for_images("the records of all cases", |rows| {
        cases.iter().zip(&pids).all(|(case, pid)| rows_of(*pid, rows).len() >= case.expected.len())
    });
    let rows = node.stop();
    let outcomes: Vec<_> =
        cases.iter().zip(pids).map(|(case, pid)| (case.name, check(case, pid, &rows))).collect();
    let wrong: Vec<&String> = outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref().err()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    move |name| {
        let found = outcomes.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("no case {name}")).1.clone().unwrap()
    }
}

#[test]
fn every_way_to_end_has_its_records() {
    if !is_root("every_way_to_end_has_its_records") {
        return;
    }
    let node = Node::start();
    let cases = endings(&node);
    let rows = run(node, cases);
    for row in rows("return").iter().chain(&rows("kill")) {
        assert!(seconds(row).is_some(), "CPU is known: {row}");
        assert!(row["max_rss_bytes"].as_u64().unwrap() > 100_000, "{row}");
        let objects = row["objects"].as_array().unwrap();
        assert!(objects.iter().any(|object| object["path"].as_str().unwrap().contains("libc.so.6")));
        assert!(objects.iter().all(|object| object["build_id"].is_string()), "{objects:?}");
        assert_eq!(row["count"], 1);
        assert_eq!(row["uid"], 0);
        assert_eq!(row["user"], "root");
    }
    let fork = &rows("fork");
    let child = fork.iter().find(|row| !row["forked_from"].is_null()).unwrap();
    assert_eq!(child["forked_from"]["pid"], child["ppid"]);
    assert!(child["objects"].is_array(), "a forked copy has its parent's objects");
}

#[test]
fn programs_that_are_hard_to_see_have_their_records() {
    if !is_root("programs_that_are_hard_to_see_have_their_records") {
        return;
    }
    let node = Node::start();
    let cases = places(&node);
    let rows = run(node, cases);
    let only = |name: &str| rows(name).pop().unwrap();
    assert_eq!(only("a static executable")["without_guest"], "static");
    assert_eq!(only("a setuid program")["without_guest"], "privileged");
    assert_eq!(only("a setuid program")["uid"], 65534);
    assert_eq!(only("argv of 100 kB")["argv_cut"], true);
    assert!(only("a path of 3,000 bytes")["exe"].as_str().unwrap().len() > 2900);
    assert!(only("a name that is not UTF-8")["exe"].as_str().unwrap().ends_with("survive \\xff\\xfe"));
    assert!(only("a name that is not UTF-8")["exe_hex"].as_str().unwrap().ends_with("20fffe"));
    assert_eq!(only("a deleted executable")["exe_deleted"], true);
    let many = only("300 libraries");
    let objects = many["objects"].as_array().unwrap();
    let is_many = |object: &&Row| object["path"].as_str().unwrap().contains("libmany_");
    let libraries: Vec<_> = objects.iter().filter(is_many).collect();
    assert_eq!(libraries.len(), 300);
    assert!(libraries.iter().all(|object| object["build_id"].is_string()));
    let musl = only("a musl executable");
    assert!(
        musl["objects"]
            .as_array()
            .unwrap()
            .iter()
            .any(|object| object["path"].as_str().unwrap().contains("musl"))
    );
}

/// Where only the abstract name exists, a private network hides it: the kernel and `/proc` still tell.
#[test]
fn behind_a_private_network_the_kernel_still_tells() {
    if !is_root("behind_a_private_network_the_kernel_still_tells") {
        return;
    }
    let node = Node::start_abstract();
    let own = SURVIVE.display().to_string();
    let mut inside = node.command("unshare");
    inside.args(["--net", &own, "until_eof"]);
    let mut late = node.command(&own);
    let library = MANY.join("libmany_7.so");
    late.arg("late").arg(&library);
    let rows = run(
        node,
        vec![
            Case {
                name: "inside",
                command: inside,
                expected: vec![(OWN, "exec", "exit 0", false)],
                is_held: true,
            },
            Case {
                name: "outside",
                command: late,
                expected: vec![(OWN, "exec", "exit 0", true)],
                is_held: false,
            },
        ],
    );
    let inside = rows("inside").pop().unwrap();
    assert!(has_source(&inside, "kernel") && has_source(&inside, "proc"), "{inside}");
    assert_eq!(inside["argv"][1], "until_eof");
    assert!(
        inside["objects"].as_array().is_some_and(|objects| !objects.is_empty()),
        "from its maps: {inside}"
    );
    let late = &rows("outside")[0]["late_objects"];
    assert_eq!(late[0]["path"], library.display().to_string());
}

/// The paths of the objects that a program has loaded later.
fn late_paths(row: &Row) -> Vec<String> {
    let late = row["late_objects"].as_array().into_iter().flatten();
    late.map(|object| object["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn objects_loaded_later_are_told_at_the_end() {
    if !is_root("objects_loaded_later_are_told_at_the_end") {
        return;
    }
    let node = Node::start();
    let libraries: Vec<String> =
        (1..=40).map(|n| MANY.join(format!("libmany_{n}.so")).display().to_string()).collect();
    let arguments = |mode| [vec![mode], libraries.iter().map(String::as_str).collect()].concat();
    let expected = [(OWN, "exec", "exit 0", true)];
    let late = case(&node, "late", &arguments("late"), &expected);
    let close = case(&node, "closed again", &["late_close", &libraries[0]], &expected);
    let killed = case(&node, "killed", &arguments("late_killed"), &[(OWN, "exec", "signal 9", true)]);
    let quick = case(&node, "_exit", &arguments("late__exit"), &expected);
    let none = case(&node, "none", &["return"], &expected);
    let rows = run(node, vec![late, close, killed, quick, none]);
    for name in ["killed", "_exit", "late"] {
        assert_eq!(late_paths(&rows(name)[0]), libraries, "{name}");
    }
    let late = &rows("late")[0]["late_objects"];
    assert!(late.as_array().unwrap().iter().all(|object| object["build_id"].is_string()), "{late}");
    let closed = &rows("closed again")[0];
    assert_eq!(closed["late_objects"][0]["path"], libraries[0], "the kernel has told of it: {closed}");
    assert_eq!(closed["objects_cut"], 0);
    assert!(rows("none")[0]["late_objects"].is_null());
}

/// Without the right to the kernel's records of mapped files, there is still what programs say at their end, and `/proc`.
#[test]
fn without_records_of_mapped_files_programs_tell_objects_loaded_later() {
    let test = "without_records_of_mapped_files_programs_tell_objects_loaded_later";
    if !is_root(test) {
        return;
    }
    let mut node = Node::prepared("");
    node.launcher = ["setpriv", "--bounding-set", "-perfmon,-sys_admin"].map(str::to_owned).into();
    node.start_agent();
    assert!(node.log().contains("no mapped files from the kernel"), "{}", node.log());
    let libraries = [1, 2].map(|n| MANY.join(format!("libmany_{n}.so")).display().to_string());
    let expected = [(OWN, "exec", "exit 0", true)];
    let late = case(&node, "late", &["late", &libraries[0], &libraries[1]], &expected);
    let rows = run(node, vec![late]);
    let mut paths = late_paths(&rows("late")[0]);
    paths.sort();
    assert_eq!(paths, libraries);
}

/// The kernel's rings are read in time or not at all.
#[test]
fn lost_records_of_mapped_files_are_a_gap_of_their_number() {
    if !is_root("lost_records_of_mapped_files_are_a_gap_of_their_number") {
        return;
    }
    let mut node = Node::start();
    let own = SURVIVE.display().to_string();
    node.signal("STOP");
    must(node.command(&own).args(["remap", own.as_str(), "20000"]));
    node.signal("CONT");
    // The kernel says what it has dropped with the next record of the same processor.
    let processors = std::thread::available_parallelism().unwrap().get();
    for processor in 0..processors {
        must(Command::new("taskset").args(["-c", processor.to_string().as_str(), "true"]));
    }
    let is_it = |gap: &&Row| gap["reason"] == "mappings_lost";
    node.wait_for_rows("gap", "the gap", |gaps| gaps.iter().any(|gap| is_it(&gap)));
    node.stop_agent();
    let gaps = node.rows("gap");
    let lost: u64 = gaps.iter().filter(is_it).map(|gap| gap["events"].as_u64().unwrap()).sum();
    let health = node.rows("health").pop().unwrap();
    assert!(lost > 1000, "{gaps:?}");
    assert_eq!(health["counters"]["mappings_lost"], lost);
}

/// The kernel charges the CPU time of all images of a process to its last one.
#[test]
fn each_image_is_charged_with_its_own() {
    if !is_root("each_image_is_charged_with_its_own") {
        return;
    }
    let node = Node::start();
    let own = SURVIVE.display().to_string();
    let expected = [(OWN, "exec", "exec", true), (OWN, "exec", "exit 0", true)];
    let statics = SURVIVE_STATIC.display().to_string();
    let cases = vec![
        case(&node, "burn", &["burn", "400", &own, "burn", "200"], &expected),
        case(&node, "grow", &["grow", "100", &own, "return"], &expected),
        case(
            &node,
            "burn before a static program",
            &["burn", "400", &statics, "burn", "200"],
            &[(OWN, "exec", "exec", true), (OWN, "exec", "exit 0", false)],
        ),
        case(&node, "threads", &["multi", "4"], &[(OWN, "exec", "exit 0", true)]),
    ];
    let rows = run(node, cases);
    let by = |name: &str, how: &str| rows(name).into_iter().find(|row| row["ended_by"] == how).unwrap();
    for name in ["burn", "burn before a static program"] {
        let (first, second) = (seconds(&by(name, "exec")).unwrap(), seconds(&by(name, "exit")).unwrap());
        assert!((0.39..0.60).contains(&first), "{name}: first image used {first}");
        assert!((0.19..0.40).contains(&second), "{name}: second image used {second}");
    }
    let first = by("grow", "exec")["max_rss_bytes"].as_u64().unwrap();
    let second = by("grow", "exit")["max_rss_bytes"].as_u64().unwrap();
    assert!((100 << 20..140 << 20).contains(&first), "{first}");
    assert!(second < 20 << 20, "the second image never had the first one's memory: {second}");
    let threads = seconds(&by("threads", "exit")).unwrap();
    assert!((0.079..0.2).contains(&threads), "four threads of 20 ms: {threads}");
}
