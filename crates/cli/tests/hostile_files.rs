//! The agent, which may read everything, looks only at files that the kernel says a process has mapped.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use common::*;
use record::wire::{self, Writer, key, kind};

/// A message that names a program and objects; the time is to be put at the offset.
fn message(exe: &str, objects: &[String]) -> (Vec<u8>, usize) {
    let mut buf = vec![0; wire::MESSAGE_MAX];
    let mut out = Writer::new(&mut buf);
    out.open_map();
    for (key, value) in [(key::VERSION, wire::VERSION), (key::KIND, kind::START), (key::TIME, u64::MAX)] {
        out.uint(key);
        out.uint(value);
    }
    let offset = out.written().len() - 8;
    out.uint(key::EXE);
    out.bytes(exe.as_bytes());
    out.uint(key::OBJECTS);
    out.open_array();
    for (path, address) in objects.iter().zip([None, Some(0), Some(4096), Some(u64::MAX)].into_iter().cycle())
    {
        out.array(4);
        out.optional_uint(address);
        out.bytes(path.as_bytes());
        out.null();
        out.null();
    }
    out.end();
    out.end();
    (out.written().to_vec(), offset)
}

/// Sends a message in the name of a process that ends at once.
fn forge(node: &Node, exe: &str, objects: &[String]) -> u32 {
    let (message, offset) = message(exe, objects);
    let file = node.dir.path().join("message");
    fs::write(&file, message).unwrap();
    let mut command = Command::new(simple("forge"));
    command.arg(&node.socket).arg(&file).arg(offset.to_string()).uid(65534).gid(65534);
    let mut child = command.spawn().unwrap();
    assert!(child.wait().unwrap().success());
    child.id()
}

/// Writes down which paths a process uses, from now on.
struct Trace {
    strace: Child,
    /// It is told of every new thread here, and would die of a pipe that nobody reads.
    messages: BufReader<ChildStderr>,
    log: PathBuf,
}

impl Trace {
    fn of(node: &Node) -> Trace {
        let log = node.dir.path().join("strace");
        let mut strace = Command::new("strace")
            .args(["-f", "-s", "4096", "-e", "trace=%file", "-o"])
            .arg(&log)
            .args(["-p", &node.agent_pid().to_string()])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut messages = BufReader::new(strace.stderr.take().unwrap());
        let mut said = String::new();
        messages.read_line(&mut said).unwrap();
        assert!(said.contains("attached"), "{said}");
        Trace { strace, messages, log }
    }

    fn end(mut self) -> String {
        must(Command::new("kill").arg(self.strace.id().to_string()));
        self.strace.wait().unwrap();
        drop(self.messages);
        String::from_utf8_lossy(&fs::read(&self.log).unwrap()).into_owned()
    }
}

fn image_of(node: &Node, pid: u32) -> Option<Row> {
    node.rows("image").into_iter().find(|row| row["pid"] == pid && row["exec"] != 0)
}

fn wait_for_image(node: &Node, pid: u32) -> Row {
    wait_until("the record", || image_of(node, pid).is_some());
    image_of(node, pid).unwrap()
}

fn hashes(objects: &Row) -> Vec<&Row> {
    objects.as_array().unwrap().iter().map(|object| &object["hash"]).collect()
}

/// Waits until all objects of a record have their hash.
fn wait_for_hashes(node: &Node, pid: u32) -> Row {
    let is_hashed = |row: &Row| {
        row["exe_hash"].is_string()
            && row["objects"].is_array()
            && hashes(&row["objects"]).iter().all(|hash| hash.is_string())
    };
    wait_until("the record with all hashes", || image_of(node, pid).is_some_and(|row| is_hashed(&row)));
    image_of(node, pid).unwrap()
}

#[test]
fn claimed_paths_are_recorded_and_never_touched() {
    if !is_root("claimed_paths_are_recorded_and_never_touched") {
        return;
    }
    let mut node = Node::start();
    let dir = node.dir.path().join("claims");
    fs::create_dir(&dir).unwrap();
    let path = |name: &str| dir.join(name).display().to_string();
    fs::write(path("secret"), "1234").unwrap();
    fs::set_permissions(path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink(path("secret"), path("link")).unwrap();
    fs::hard_link(path("secret"), path("hard")).unwrap();
    fs::write(path("two\nlines"), "x").unwrap();
    fs::write(path("gone (deleted)"), "x").unwrap();
    must(Command::new("mkfifo").arg(path("pipe")));
    let claimed: Vec<String> =
        ["secret", "link", "hard", "two\nlines", "gone (deleted)", "pipe", "", "not there"]
            .map(path)
            .into_iter()
            .chain(
                ["/etc/shadow", "/dev/kvm", "/dev/null", "/proc/kmsg", "/root", "relative", ""]
                    .map(String::from),
            )
            .collect();
    let trace = Trace::of(&node);
    let pid = forge(&node, "/etc/shadow", &claimed);
    // The program itself is looked at, as the trace must show.
    wait_until("the record with its hash", || {
        image_of(&node, pid).is_some_and(|row| row["exe_hash"].is_string())
    });
    let row = image_of(&node, pid).unwrap();
    let log = trace.end();
    node.stop_agent();
    assert_eq!(row["exe"], simple("forge").display().to_string(), "the kernel knows the program: {row}");
    let objects = row["objects"].as_array().unwrap();
    for path in &claimed {
        let shown = record::bytes::Bytes::from(path.as_bytes()).to_string();
        let object = objects.iter().find(|object| object["path"] == shown.as_str());
        let object = object.unwrap_or_else(|| panic!("{path:?} is not in {row}"));
        assert_eq!((&object["claimed"], &object["hash"]), (&true.into(), &Row::Null), "{path:?}");
        assert!(object["build_id"].is_null(), "whether it exists is not told: {object}");
    }
    let libc =
        objects.iter().find(|object| object["path"].as_str().unwrap().ends_with("/libc.so.6")).unwrap();
    assert_eq!(libc["claimed"], false, "the kernel's list is complete: {row}");
    let claims = dir.display().to_string();
    for line in log.lines() {
        for path in [claims.as_str(), "/etc/shadow", "/dev/kvm", "kmsg", "\"/root\"", "\"relative\""] {
            assert!(!line.contains(path), "touched: {line}");
        }
    }
    assert!(log.contains(&format!("/proc/{pid}/exe")), "the trace sees what is looked at: {log}");
    assert!(node.rows("file").iter().all(|file| !claimed.iter().any(|path| file["path"] == path.as_str())));
    let health = node.rows("health").pop().unwrap();
    assert!(health["counters"]["objects_claimed"].as_u64().unwrap() >= claimed.len() as u64, "{health}");
}

#[test]
fn short_programs_have_all_their_files() {
    if is_root("short_programs_have_all_their_files") {
        run_short_programs(Node::start());
    }
}

/// With the capabilities of the shipped unit, and mounts of its own.
#[test]
fn short_programs_have_all_their_files_under_the_units_rights() {
    if !is_root("short_programs_have_all_their_files_under_the_units_rights") {
        return;
    }
    let mut node = Node::start();
    node.stop_agent();
    let capabilities = "--bounding-set=-all,+net_admin,+sys_ptrace,+dac_read_search,+syslog,+perfmon,+chown";
    let words = ["unshare", "-m", "setpriv", capabilities, "--inh-caps=-all", "--no-new-privs"];
    node.launcher = words.map(String::from).into();
    node.start_agent();
    run_short_programs(node);
}

fn run_short_programs(mut node: Node) {
    let mut first = node.command("/bin/true").spawn().unwrap();
    first.wait().unwrap();
    for _ in 0..200 {
        must(&mut node.command("/bin/true"));
    }
    // One that says nothing, one that is killed at once.
    let mut alone = Command::new(&*SURVIVE_STATIC).arg("return").spawn().unwrap();
    alone.wait().unwrap();
    let mut killed = Command::new("/bin/sleep").arg("100").spawn().unwrap();
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_for_hashes(&node, first.id());
    let alone = wait_for_hashes(&node, alone.id());
    wait_until("the killed program", || image_of(&node, killed.id()).is_some());
    let killed = image_of(&node, killed.id()).unwrap();
    node.stop_agent();
    let program = fs::canonicalize("/bin/true").unwrap().display().to_string();
    let rows: Vec<Row> =
        node.rows("image").into_iter().filter(|row| row["exe"] == program.as_str()).collect();
    assert!(sum_of_counts(&rows) >= 201, "{}", sum_of_counts(&rows));
    for row in &rows {
        let objects = row["objects"].as_array().unwrap();
        assert!(objects.len() >= 3 && objects[0]["path"] == program.as_str(), "{row}");
        for object in objects {
            assert_eq!(object["claimed"], false, "{row}");
            assert!(object["hash"].is_string() && object["build_id"].is_string(), "{row}");
        }
    }
    assert_eq!(alone["objects"].as_array().unwrap().len(), 1, "a static program is all it maps: {alone}");
    // It may have been killed before its exec: then there is only a copy of us, and no record of it.
    assert_eq!(killed["signal"], 9);
    assert!(killed["objects"][0]["path"].as_str().unwrap().ends_with("/sleep"), "{killed}");
}

/// A copy of a small program, with something behind it that makes it another file.
fn copy(path: &Path, mark: &str) {
    let mut bytes = fs::read("/bin/sleep").unwrap();
    bytes.extend(mark.as_bytes());
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_file_that_was_swapped_is_not_taken_for_the_program() {
    if !is_root("a_file_that_was_swapped_is_not_taken_for_the_program") {
        return;
    }
    let mut node = Node::start();
    let dir = node.dir.path().canonicalize().unwrap();
    let (program, other, hard) = (dir.join("program"), dir.join("other"), dir.join("hard"));
    copy(&program, "first");
    copy(&other, "second");
    fs::hard_link(&other, &hard).unwrap();
    let run = |path: &Path| {
        let mut child = node.command(path).arg("0").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    };
    let second = wait_for_hashes(&node, run(&other))["exe_hash"].clone();
    let linked = wait_for_hashes(&node, run(&hard));
    assert_eq!(linked["exe_hash"], second, "the same file by another name");
    let mut swapped = Vec::new();
    for round in 0..10 {
        copy(&program, &format!("round {round}"));
        swapped.push(run(&program));
        // The agent may be about to look at the path.
        fs::remove_file(&program).unwrap();
        fs::hard_link(&other, &program).unwrap();
        wait_for_image(&node, swapped[round]);
        fs::remove_file(&program).unwrap();
    }
    let rows: Vec<Row> = swapped.iter().map(|pid| wait_for_image(&node, *pid)).collect();
    node.stop_agent();
    for row in rows {
        assert_ne!(row["exe_hash"], second, "{row}");
        assert_eq!(row["objects"][0]["path"], program.display().to_string(), "{row}");
        assert_ne!(row["objects"][0]["hash"], second, "{row}");
    }
}

#[test]
fn files_in_a_container_are_found_through_its_root() {
    if !is_root("files_in_a_container_are_found_through_its_root") {
        return;
    }
    let mut node = Node::start();
    let dir = node.dir.path().canonicalize().unwrap();
    let (inner, outer) = (dir.join("inner"), dir.join("outer"));
    fs::create_dir(&inner).unwrap();
    fs::create_dir(&outer).unwrap();
    copy(&inner.join("program"), "inside");
    // On the host another file has the name.
    copy(&outer.join("program"), "outside");
    let outside = {
        let mut child = node.command(outer.join("program")).arg("0").spawn().unwrap();
        child.wait().unwrap();
        wait_for_hashes(&node, child.id())
    };
    let (from, to) = (inner.display(), outer.display());
    let script = format!("mount --bind {from} {to} && exec {to}/program 2");
    let mut child = node.command("unshare").args(["-m", "/bin/sh", "-c", &script]).spawn().unwrap();
    child.wait().unwrap();
    let of_program =
        |row: &Row| row["exe"] == outer.join("program").display().to_string() && row["argv"][1] == "2";
    wait_until("the program with its hash", || {
        node.rows("image").iter().any(|row| of_program(row) && row["objects"][0]["hash"].is_string())
    });
    node.stop_agent();
    let inside = node.rows("image").into_iter().find(of_program).unwrap();
    assert_ne!(inside["objects"][0]["hash"], outside["objects"][0]["hash"], "{inside}");
    assert!(hashes(&inside["objects"]).iter().all(|hash| hash.is_string()), "{inside}");
}

/// One user has files that take minutes to read; another's program has its hash in seconds.
#[test]
fn large_files_of_one_user_do_not_hold_up_another() {
    if !is_root("large_files_of_one_user_do_not_hold_up_another") {
        return;
    }
    let mut node = Node::configured("[files]\nmax_mib = 2048\nmib_per_second = 10\n");
    let dir = node.dir.path().canonicalize().unwrap();
    let mut holders = Vec::new();
    for number in 0..8 {
        let sparse = dir.join(format!("sparse{number}"));
        fs::File::create(&sparse).unwrap().set_len(1 << 30).unwrap();
        let mut command = Command::new(simple("map_exec"));
        command.arg(&sparse).uid(65533).gid(65533).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "mapped");
        holders.push(child);
    }
    let is_sparse = |file: &Row| file["path"].as_str().unwrap().contains("/sparse");
    let program = dir.join("program");
    copy(&program, "small");
    let mut child = node.command(&program).arg("0").uid(65534).gid(65534).spawn().unwrap();
    child.wait().unwrap();
    let row = wait_for_hashes(&node, child.id());
    assert_eq!(row["exe"], program.display().to_string());
    for mut holder in holders {
        drop(holder.stdin.take());
        holder.wait().unwrap();
    }
    node.stop_agent();
    let sparse: Vec<Row> = node.rows("file").into_iter().filter(is_sparse).collect();
    assert!(!sparse.is_empty(), "they were noticed");
    assert!(sparse.iter().all(|file| file["hash"].is_null()), "they take longer: {sparse:?}");
}
