//! A program does not notice the guest: the same output, status, descriptors, environment and signals,
//! whatever state the agent is in.

mod common;

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use common::*;

/// What a program shows to the outside.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    status: i32,
    out: String,
    err: String,
}

fn show(command: &mut Command) -> Shown {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Shown { status: output.status.into_raw(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// Programs whose behaviour is compared: arguments of `survive`.
fn modes(dir: &Path) -> Vec<Vec<String>> {
    let own = SURVIVE.display().to_string();
    let pid_file = dir.join("pid").display().to_string();
    [
        &["return"][..],
        &["exit3"],
        &["_exit4"],
        &["abort"],
        &["segv"],
        &["kill"],
        &["pthread_exit"],
        &["thread_exit6"],
        &["exec", "/bin/echo", "hello"],
        &["exec_thread", "/bin/echo", "hello"],
        &["fork"],
        &["vfork_exec", "/bin/echo", "hello"],
        &["spawn", &own, "exit3"],
        &["daemon", &pid_file],
        &["closefds"],
        &["clearenv"],
        &["closed_stderr"],
        &["late", "libm.so.6"],
    ]
    .iter()
    .map(|args| args.iter().map(|arg| (*arg).to_owned()).collect())
    .collect()
}

/// How the guest is given to a program.
fn with_guest<'a>(command: &'a mut Command, socket: &str) -> &'a mut Command {
    command.env("LD_PRELOAD", guest()).env("JOBGLASS_SOCKET", socket)
}

fn bare(program: &Path, args: &[String]) -> Command {
    let mut command = Command::new(program);
    command.args(args).env_clear().env("PATH", "/usr/bin:/bin");
    // No core files.
    // SAFETY: between fork and exec, only a system call is made.
    unsafe {
        command.pre_exec(|| {
            let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
            Ok(rustix::process::setrlimit(rustix::process::Resource::Core, none)?)
        });
    }
    command
}

/// All programs behave with the guest as without.
fn compare(what: &str, dir: &Path, socket: &str) {
    for program in [&*SURVIVE, &*SURVIVE_MUSL] {
        for args in modes(dir) {
            // musl cannot load glibc's libraries, with or without us.
            let without = show(&mut bare(program, &args));
            let with = show(with_guest(&mut bare(program, &args), socket));
            assert_eq!(with, without, "{what}: {} {args:?}", program.display());
        }
    }
}

#[test]
fn with_an_agent() {
    let node = Node::start();
    compare("agent", node.dir.path(), &node.socket);
    let node = {
        drop(node);
        Node::start_abstract()
    };
    compare("agent with an abstract name", node.dir.path(), &node.socket);
}

#[test]
fn with_a_stopped_agent_and_a_full_queue() {
    let node = Node::start();
    node.signal("STOP");
    compare("stopped agent", node.dir.path(), &node.socket);
    fill_queue(&node);
    compare("full queue", node.dir.path(), &node.socket);
    // The wait for a place in the queue is what was given to the kernel: three times a millisecond.
    let trace = node.dir.path().join("trace");
    let mut command = Command::new("strace");
    command.env_clear().arg("-E").arg(format!("LD_PRELOAD={}", guest().display()));
    command.arg("-E").arg(format!("JOBGLASS_SOCKET={}", node.socket)).arg("-o").arg(&trace).arg("/bin/true");
    must(&mut command);
    let trace = String::from_utf8(fs::read(trace).unwrap()).unwrap();
    let waits: Vec<&str> = trace.lines().filter(|line| line.starts_with("ppoll(")).collect();
    assert!((1..=3).contains(&waits.len()), "{trace}");
    assert!(waits.iter().all(|wait| wait.contains("{tv_sec=0, tv_nsec=1000000}")), "{waits:?}");
    for call in ["poll(", "select(", "nanosleep(", "futex(", "recv", "wait4("] {
        let is_call = |line: &&str| line.starts_with(call) && !line.starts_with("ppoll(");
        assert_eq!(trace.lines().find(is_call), None);
    }
    node.signal("CONT");
}

/// Connects until the queue is full; the connections stay in it when their other ends are closed.
fn fill_queue(node: &Node) {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let name = format!("{}.{}", node.socket, rustix::process::getuid().as_raw());
    let name = if Path::new(&name).exists() { name } else { node.socket.clone() };
    for n in 0..2000 {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        if connect(&socket, &SocketAddrUnix::new(&name).unwrap()) == Err(rustix::io::Errno::AGAIN) {
            assert!(n > 100, "the queue holds {n}");
            return;
        }
    }
    panic!("the queue has no end");
}

#[test]
fn without_an_agent() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("nowhere").display().to_string();
    compare("no agent", dir.path(), &nowhere);
    compare("no agent at an abstract name", dir.path(), "@jobglass-nobody-is-here");
    compare("a name that is too long", dir.path(), &"x".repeat(4000));
    let mut node = Node::start();
    node.kill_agent();
    assert!(Path::new(&node.socket).exists(), "a killed agent leaves its socket");
    compare("dead agent", dir.path(), &node.socket);
    fs::write(format!("{}.rules", node.socket), "no rules at all").unwrap();
    compare("broken rules", dir.path(), &node.socket);
}

/// Memory shared with the agent is a file to the kernel, and a file beyond the limit is death.
#[test]
fn with_a_low_limit_on_the_size_of_files() {
    let node = Node::start();
    for bytes in [0, 10_000, 1 << 20] {
        for args in [&["exit3"][..], &["late", "libm.so.6"]] {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            let limited = || {
                let mut command = bare(&SURVIVE, &args);
                // SAFETY: between fork and exec, only a system call is made.
                unsafe {
                    command.pre_exec(move || {
                        let limit = rustix::process::Rlimit { current: Some(bytes), maximum: Some(bytes) };
                        Ok(rustix::process::setrlimit(rustix::process::Resource::Fsize, limit)?)
                    });
                }
                command
            };
            let without = show(&mut limited());
            assert_eq!(show(with_guest(&mut limited(), &node.socket)), without, "{bytes} {args:?}");
        }
    }
}

#[test]
fn a_squatter_on_the_abstract_name_gets_nothing() {
    if !is_root("a_squatter_on_the_abstract_name_gets_nothing") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let heard = dir.path().join("heard");
    let name = format!("@jobglass-squat-{}", std::process::id());
    let start = |uid| {
        let child = Command::new(simple("squatter"))
            .arg(&name)
            .arg(&heard)
            .uid(uid)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut squatter = Killed(child);
        let mut ready = [0; 6];
        std::io::Read::read_exact(squatter.stdout.as_mut().unwrap(), &mut ready).unwrap();
        squatter
    };
    let text = || fs::read(&heard).unwrap_or_default();
    let squatter = start(65534);
    compare("squatter", dir.path(), &name);
    // It takes connections in their order: had it heard something before this, that would be there as well.
    send(&name, b"last");
    wait_until("the squatter to hear the test", || !text().is_empty());
    assert_eq!(text(), b"last", "the squatter heard a program");
    drop(squatter);
    let _ = fs::remove_file(&heard);
    // The same, run by root, is believed: the test can fail.
    let _root = start(0);
    show(with_guest(&mut bare(&SURVIVE, &["return".into()]), &name));
    wait_until("root to hear something", || !text().is_empty());
}

/// Sends a message to an abstract name.
fn send(name: &str, message: &[u8]) {
    use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType, connect, send, socket};
    let fd = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let name = name.strip_prefix('@').unwrap();
    connect(&fd, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
    send(&fd, message, SendFlags::empty()).unwrap();
}

#[test]
fn on_a_read_only_run() {
    if !is_root("on_a_read_only_run") {
        return;
    }
    let node = Node::start();
    let dir = node.dir.path().display().to_string();
    let args = |program: &str| {
        ["--ro-bind", "/", "/", "--ro-bind", &dir, &dir, "--dev", "/dev", "--proc", "/proc", program, "exit3"]
            .map(str::to_owned)
    };
    let own = SURVIVE.display().to_string();
    let without = show(&mut bare(Path::new("/usr/bin/bwrap"), &args(&own)));
    let with = show(with_guest(&mut bare(Path::new("/usr/bin/bwrap"), &args(&own)), &node.socket));
    assert_eq!(with, without);
    assert_eq!(with.status, 3 << 8);
}

/// Filters that came with the process, and one that a program installs in `main` and that kills on all but
/// writing and ending.
#[test]
fn under_seccomp() {
    let node = Node::start();
    let seccomp = simple("seccomp");
    let whoami = simple("whoami").display().to_string();
    let own = SURVIVE.display().to_string();
    for args in [
        &["errno", &own, "exit3"][..],
        &["errno", &own, "late", "libm.so.6"],
        &["errno", "/bin/echo", "hello"],
        &["kill", &own, "exit3"],
        &["kill", "/bin/echo", "hello"],
        &["kill", &whoami],
        &["main_kill"],
    ] {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let without = show(&mut bare(&seccomp, &args));
        let with = show(with_guest(&mut bare(&seccomp, &args), &node.socket));
        assert_eq!(without_ours(&with.out), without_ours(&without.out), "{args:?}");
        assert_eq!((with.status, &with.err), (without.status, &without.err), "{args:?}");
        assert_eq!(with.status & 0x7f, 0, "{args:?} was killed");
    }
}

/// Descriptors, errno, environment, signal mask and handlers, limits, random state: as without us, but for
/// the variables that load us.
#[test]
fn a_program_sees_itself_unchanged() {
    let node = Node::start();
    let whoami = simple("whoami");
    let musl = program("whoami_musl", "musl-gcc", "whoami.c", &["-lm"]);
    for program in [whoami, musl] {
        let without = show(&mut bare(&program, &[]));
        let with = show(with_guest(&mut bare(&program, &[]), &node.socket));
        assert!(with.out.contains("LD_PRELOAD"), "it sees how it was loaded");
        assert_eq!(without_ours(&with.out), without.out.trim());
        assert_eq!((with.status, with.err), (0, String::new()));
        assert!(without.out.lines().count() > 80, "whoami tells much: {}", without.out);
    }
}

fn without_ours(text: &str) -> String {
    let is_ours = |line: &&str| line.contains("LD_PRELOAD=") || line.contains("JOBGLASS_SOCKET=");
    text.lines().filter(|line| !is_ours(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_guest_allocates_nothing() {
    let node = Node::start();
    let count = program("count_alloc.so", "cc", "count_alloc.c", &["-shared", "-fPIC", "-ldl"]);
    let counted = node.dir.path().join("counted");
    for args in [&["late", "libm.so.6"][..], &["clearenv"], &["late_close", "libm.so.6"]] {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut command = bare(&SURVIVE, &args);
        with_guest(&mut command, &node.socket);
        command.env("LD_PRELOAD", format!("{}:{}", guest().display(), count.display()));
        command.env("COUNT_ALLOC_FILE", &counted);
        assert_eq!(show(&mut command).status, 0);
        let text = String::from_utf8(fs::read(&counted).unwrap()).unwrap();
        for line in text.lines() {
            let (name, value) = line.split_once('=').unwrap();
            // `calls` is how many calls of anybody were seen: the counter counts.
            assert!((name == "calls") == (value != "0"), "{args:?}: {line}");
        }
        fs::remove_file(&counted).unwrap();
    }
}

/// Notes, headers and names that nobody sane would write.
#[test]
fn hostile_files() {
    let node = Node::start();
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile");
    fs::create_dir_all(&dir).unwrap();
    must(Command::new("python3").arg(root().join("tests/programs/hostile.py")).arg(&dir));
    let mut ran = 0;
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !(name.starts_with("exe_") || name.starts_with("use_")) || name.contains('.') {
            continue;
        }
        let without = show(&mut bare(&path, &[]));
        let with = show(with_guest(&mut bare(&path, &[]), &node.socket));
        assert_eq!(with, without, "{name}");
        assert_eq!(with.status, 0, "{name}");
        ran += 1;
    }
    assert!(ran >= 30, "{ran} hostile programs");
    let is_heard = |row: &&Row| {
        row["exe"].as_str().is_some_and(|exe| exe.contains("/hostile/")) && has_source(row, "guest")
    };
    node.wait_for_images("every hostile program", |rows| rows.iter().filter(is_heard).count() >= ran);
    let rows = node.stop();
    let heard: Vec<&Row> = rows.iter().filter(is_heard).collect();
    assert_eq!(heard.len(), ran, "every hostile program was reported");
    let moved = heard.iter().find(|row| row["exe"].as_str().unwrap().ends_with("exe_moved")).unwrap();
    assert_eq!(moved["objects"][0]["build_id"].as_str().unwrap().len(), 64, "a good note elsewhere is found");
}

#[test]
fn off_means_off_for_a_process_and_its_children() {
    if !is_root("off_means_off_for_a_process_and_its_children") {
        return;
    }
    let node = Node::start();
    let own = SURVIVE.display().to_string();
    let mut command = node.command(&*SURVIVE);
    command.env("JOBGLASS", "off").args(["spawn", &own, "until_eof"]);
    let pid = node.run_until_seen(&mut command);
    node.wait_for_images("both records", |rows| tree(rows, pid).len() >= 2);
    let rows = tree(&node.stop(), pid);
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert!(!has_source(row, "guest"), "{row}");
        assert_eq!(row["without_guest"], "off", "{row}");
        assert!(row["argv"].is_null() && row["env"].is_null() && row["objects"].is_null(), "{row}");
        assert!(row["exe"].is_string() && row["exit_code"].is_number(), "the kernel still accounts: {row}");
    }
}

#[test]
fn secrets_stay_where_they_are() {
    if !is_root("secrets_stay_where_they_are") {
        return;
    }
    let node = Node::configured("[privacy]\nkeep_variables = [\"OMP_*\", \"MY_TOKEN\"]\n");
    let secret = "hunter2hunter2";
    for program in [&*SURVIVE, &*SURVIVE_STATIC] {
        let mut command = node.command(program);
        command.args(["until_eof", &format!("--password={secret}"), "--token", secret]);
        command.arg(format!("https://bob:{secret}@example.org/?api_key={secret}"));
        command.env("OMP_NUM_THREADS", "4").env("AWS_SECRET_ACCESS_KEY", secret);
        command.env("MY_TOKEN", format!("https://bob:{secret}@example.org/"));
        node.run_until_seen(&mut command);
    }
    let is_ours = |row: &&Row| row["argv"].to_string().contains("--password=***");
    node.wait_for_images("both records", |rows| rows.iter().filter(is_ours).count() >= 2);
    for file in fs::read_dir(node.spool()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "the secret is on disk");
    }
    let rows = node.stop();
    let ours: Vec<_> = rows.iter().filter(is_ours).collect();
    assert_eq!(ours.len(), 2, "one with the guest, one from /proc");
    assert!(ours.iter().all(|row| row["env"]["OMP_NUM_THREADS"] == "4"));
    assert!(ours.iter().all(|row| row["env"].get("AWS_SECRET_ACCESS_KEY").is_none()));
}

/// What a site says not to record is not recorded, with or without the guest; and it is counted.
#[test]
fn rules_suppress_and_count() {
    if !is_root("rules_suppress_and_count") {
        return;
    }
    // Programs of its own: the agent sees what other tests run as well.
    let dir = new_dir();
    let own = [&*SURVIVE, &*SURVIVE_STATIC].map(|program| {
        let own = dir.path().join(program.file_name().unwrap());
        fs::copy(program, &own).unwrap();
        own
    });
    let rules = format!("[privacy]\nskip_programs = [\"{}/*\"]\n", dir.path().display());
    let mut node = Node::configured(&rules);
    let pids = own.map(|program| node.run_until_seen(node.command(program).arg("until_eof")));
    node.catch_up();
    node.stop_agent();
    let rows = node.rows("image");
    assert!(pids.iter().all(|pid| tree(&rows, *pid).is_empty()));
    let health = node.rows("health");
    assert_eq!(health.last().unwrap()["counters"]["suppressed_by_rule"], 2);
}

/// The guest's own time is bounded even when everything is against it; shown with many runs, not a stopwatch.
#[test]
fn a_hundred_programs_with_a_stopped_agent_end() {
    let node = Node::start();
    node.signal("STOP");
    let start = Instant::now();
    for _ in 0..100 {
        assert_eq!(show(with_guest(&mut bare(&SURVIVE, &["return".into()]), &node.socket)).status, 0);
    }
    assert!(start.elapsed().as_secs() < 30);
    node.signal("CONT");
}
