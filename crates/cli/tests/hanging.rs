//! A file system that stops answering costs what lies on it, and nothing else.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::*;
use testkit::install;

/// A file system with one program on it that serves until it is told to stop.
struct HangFs {
    dir: PathBuf,
    stop: PathBuf,
    server: Child,
    /// What runs from it or has it mapped.
    users: Vec<Child>,
}

impl HangFs {
    fn mount(dir: &Path) -> HangFs {
        let server = program("hang_fs", "cc", "hang_fs.c", &[]);
        let (mount, stop) = (dir.join("hung"), dir.join("stop"));
        fs::create_dir(&mount).unwrap();
        let mut server = Command::new(server)
            .arg(&mount)
            .arg("/bin/sleep")
            .arg(&stop)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(first_line(&mut server), "ready");
        HangFs { dir: mount, stop, server, users: Vec::new() }
    }

    fn program(&self) -> PathBuf {
        self.dir.join("program")
    }

    fn stop_answering(&self) {
        fs::write(&self.stop, "").unwrap();
    }
}

impl Drop for HangFs {
    fn drop(&mut self) {
        // With its server the file system ends, and whoever waits for it.
        let _ = self.server.kill();
        let _ = self.server.wait();
        for user in &mut self.users {
            let _ = user.kill();
            let _ = user.wait();
        }
        let _ = Command::new("umount").arg("-l").arg(&self.dir).status();
    }
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line.trim().to_owned()
}

/// The threads of the agent that wait in the kernel for a file system's answer.
fn waiting(node: &Node) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", node.agent_pid())).unwrap();
    let read = |path: PathBuf| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).trim().to_owned();
    tasks
        .map(|task| task.unwrap().path())
        .filter(|task| read(task.join("wchan")).contains("request_wait_answer"))
        .map(|task| read(task.join("comm")))
        .collect()
}

/// When readings were taken, in seconds since 1970.
fn reading_times(rows: &[Row]) -> Vec<f64> {
    let time = |row: &Row| row["time"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    rows.iter().map(|row| time(row).as_nanosecond() as f64 / 1e9).collect()
}

#[test]
fn a_file_system_that_does_not_answer_stops_only_who_asks_it() {
    if !is_root("a_file_system_that_does_not_answer_stops_only_who_asks_it") {
        return;
    }
    let mut node = Node::configured("[sampling]\nevery_seconds = 1.0\n");
    node.stop_agent();
    let mut hung = HangFs::mount(node.dir.path());
    // One runs from it, one waits for a page of it while another of its threads changes its mappings, one has it as its
    // directory, and one as its root, with mounts of its own.
    let mut touch = Command::new(program("touch_map", "cc", "touch_map.c", &["-pthread"]))
        .arg(hung.program())
        .arg(&hung.stop)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(first_line(&mut touch), "mapped");
    let from_it = Command::new(hung.program()).arg("infinity").spawn().unwrap();
    let in_it = Command::new("sleep").arg("infinity").current_dir(&hung.dir).spawn().unwrap();
    let mut below_it = Command::new("unshare")
        .args(["-m", "perl", "-e", "chroot $ARGV[0] or die; $| = 1; print qq(below\\n); sleep"])
        .arg(&hung.dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(first_line(&mut below_it), "below");
    hung.users = vec![touch, from_it, in_it, below_it];
    hung.stop_answering();
    node.start_agent();
    wait_until("a thread that waits for it", || !waiting(&node).is_empty());
    assert_eq!(waiting(&node), ["files"]);
    let before = reading_times(&node.rows("reading")).len();
    // Another program is seen as ever, with its end.
    must(node.command("/bin/echo").arg("still here"));
    let is_seen = |rows: &[Row]| rows.iter().any(|image| image["argv"][1] == "still here");
    node.wait_for_images("a program beside it", is_seen);
    // Another user's files are looked at meanwhile.
    let program = node.dir.path().join("program");
    install(Path::new("/bin/echo"), &program, "755");
    must(node.command(&program).arg("of another user").uid(65534).gid(65534));
    node.wait_for_images("another user's program with its hash", |rows| {
        let is_it = |image: &Row| image["argv"][1] == "of another user" && image["exe_hash"].is_string();
        rows.iter().any(is_it)
    });
    // Readings go on for longer than a thread may wait before the agent says so.
    let rows = node.wait_for_rows("reading", "readings over twelve seconds", |rows| {
        let times = &reading_times(rows)[before..];
        times.len() >= 8 && times[times.len() - 1] - times[0] >= 12.0
    });
    let times = &reading_times(&rows)[before..];
    eprintln!("{} readings in {:.1} s", times.len(), times[times.len() - 1] - times[0]);
    assert_eq!(waiting(&node), ["files"]);
    node.stop_agent();
    let health = node.rows("health").pop().unwrap();
    let said = health["blind"].to_string();
    // One thing is done at a time for each user: whichever of these came first.
    let is_named = said.contains("hung/program") || said.contains("the root of process");
    assert!(said.contains("files has been waiting for") && is_named, "{said}");
}

#[test]
fn a_process_that_keeps_its_memory_locked_stops_nobody_else() {
    if !is_root("a_process_that_keeps_its_memory_locked_stops_nobody_else") {
        return;
    }
    let mut node = Node::configured("");
    node.stop_agent();
    let mut hung = HangFs::mount(node.dir.path());
    let mut hold = Command::new(program("hold_map", "cc", "hold_map.c", &[]))
        .arg(hung.program())
        .arg(&hung.stop)
        .uid(65534)
        .gid(65534)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(first_line(&mut hold), "open");
    let wchan = format!("/proc/{}/wchan", hold.id());
    hung.users = vec![hold];
    hung.stop_answering();
    let waits_in = || String::from_utf8_lossy(&fs::read(&wchan).unwrap_or_default()).into_owned();
    wait_until("it to keep its memory locked", || waits_in().contains("folio"));
    node.start_agent();
    let program = node.dir.path().join("program");
    install(Path::new("/bin/echo"), &program, "755");
    // One may be gone before anybody can look at it.
    wait_until("the arguments of another user's program", || {
        let mut command = node.command(&program);
        must(command.arg("with arguments").env_remove("LD_PRELOAD").uid(12345).gid(12345));
        node.rows("image").iter().any(|image| image["argv"][1] == "with arguments")
    });
    node.stop_agent();
    let counters = node.rows("health").pop().unwrap()["counters"].clone();
    assert!(counters["processes_unread"].as_u64().is_some_and(|count| count > 0), "{counters}");
}
