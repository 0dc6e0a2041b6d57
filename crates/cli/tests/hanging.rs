//! A file system that stops answering costs what lies on it, and nothing else.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::*;

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

#[test]
fn a_file_system_that_does_not_answer_stops_only_who_asks_it() {
    if !is_root("a_file_system_that_does_not_answer_stops_only_who_asks_it") {
        return;
    }
    let mut node = Node::configured("[sampling]\nevery_seconds = 1.0\n");
    node.stop_agent();
    let mut hung = HangFs::mount(node.dir.path());
    // One runs from it, one waits for a page of it while another of its threads changes its mappings, one has it as its
    // directory.
    let mut touch = Command::new(program("touch_map", "cc", "touch_map.c", &["-pthread"]))
        .arg(hung.program())
        .arg(&hung.stop)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(first_line(&mut touch), "mapped");
    let from_it = Command::new(hung.program()).arg("600").spawn().unwrap();
    let in_it = Command::new("sleep").arg("600").current_dir(&hung.dir).spawn().unwrap();
    hung.users = vec![touch, from_it, in_it];
    hung.stop_answering();
    node.start_agent();
    wait_until(30, "a thread that waits for it", || !waiting(&node).is_empty());
    let began = std::time::Instant::now();
    assert_eq!(waiting(&node), ["files"]);
    let before = node.rows("reading").len();
    // Another program is seen as ever, with its end.
    must(node.command("/bin/echo").arg("still here"));
    let is_seen = || node.rows("image").iter().any(|image| image["argv"][1] == "still here");
    wait_until(30, "a program beside it", is_seen);
    wait_until(40, "twelve seconds", || began.elapsed().as_secs() >= 12);
    let readings = node.rows("reading").len() - before;
    eprintln!("{readings} readings in {:.1} s", began.elapsed().as_secs_f64());
    assert!(readings >= 8, "{readings} readings");
    assert_eq!(waiting(&node), ["files"]);
    node.stop_agent();
    let health = node.rows("health").pop().unwrap();
    let said = health["blind"].to_string();
    assert!(said.contains("files has been waiting for") && said.contains("hung/program"), "{said}");
}
