//! Another user's work that goes on while somebody attacks: one program after the other, each with a record to be found.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use testkit::install;

use crate::common::{Row, guest, has_source, look_until, program};
use crate::users::VICTIM;

/// How many different executables the victim has.
const PROGRAMS: usize = 16;

/// One program that the victim ran.
#[derive(Debug)]
pub struct Run {
    exe: String,
    pub mark: String,
}

impl Run {
    /// What its record lacks; nothing if it is complete.
    pub fn lacks(&self, rows: &[Row]) -> Option<&'static str> {
        let mut own = rows.iter().filter(|row| row["argv"][1] == *self.mark);
        let Some(row) = own.next() else { return Some("a record with its arguments") };
        let has_objects = || row["objects"].as_array().is_some_and(|objects| objects.len() >= 2);
        let argv = serde_json::json!([self.exe, self.mark, "--threads=4"]);
        let checks = [
            (own.next().is_none(), "a record of its own: it has two"),
            (row["argv"] == argv, "its arguments"),
            (row["exe"] == *self.exe, "its executable"),
            (row["uid"] == VICTIM, "its user"),
            (has_source(row, "guest"), "the message of the preload library"),
            (has_objects(), "its libraries"),
            (row["exit_code"] == 0 && row["count"] == 1, "its end"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
    }
}

/// The victim at work; also ended by a test that fails.
pub struct Victim {
    stop: Arc<AtomicBool>,
    ran: Arc<AtomicUsize>,
    thread: Option<JoinHandle<Vec<Run>>>,
}

/// Different programs of the victim's own, with nothing in them.
fn programs(dir: &Path) -> Vec<PathBuf> {
    let one = program("victim", "cc", "nothing.c", &[]);
    let copy = |number| {
        let to = dir.join(format!("victim-program-{number}"));
        install(&one, &to, "755");
        to
    };
    (0..PROGRAMS).map(copy).collect()
}

/// A command with the preload library, run by a user.
pub fn preloaded(program: &Path, socket: &str, uid: u32) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LD_PRELOAD", guest())
        .env("JOBGLASS_SOCKET", socket);
    command.stdin(Stdio::null()).uid(uid).gid(uid);
    command
}

impl Victim {
    pub fn start(dir: &Path, socket: &str) -> Victim {
        let (programs, socket) = (programs(dir), socket.to_owned());
        let (stop, ran) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (is_over, count) = (stop.clone(), ran.clone());
        // Another run of this suite on the same machine has other marks.
        let own = std::process::id();
        let thread = std::thread::spawn(move || {
            let mut runs = Vec::new();
            look_until(&is_over, || {
                let number = runs.len();
                let program = &programs[number % programs.len()];
                let mark = format!("victim-{own}-{number}.");
                let mut command = preloaded(program, &socket, VICTIM);
                assert!(command.args([mark.as_str(), "--threads=4"]).status().unwrap().success());
                runs.push(Run { exe: program.display().to_string(), mark });
                count.fetch_add(1, Ordering::Relaxed);
            });
            runs
        });
        Victim { stop, ran, thread: Some(thread) }
    }

    pub fn ran(&self) -> usize {
        self.ran.load(Ordering::Relaxed)
    }

    pub fn stop(mut self) -> Vec<Run> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
