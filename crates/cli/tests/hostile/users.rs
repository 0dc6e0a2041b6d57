//! The users of the tests: some with one uid, one who owns a range of subordinate uids.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::common::{must, simple};

pub const VICTIM: u32 = 64100;
pub const ATTACKER: u32 = 64101;
pub const ACCOMPLICE: u32 = 64102;
pub const NEWCOMER: u32 = 64103;

/// Owns [`RANGE`].
const OWNER: u32 = 64110;
const OWNER_NAME: &str = "jghostile";
const RANGE: (u32, u32) = (1_500_000_000, 65_536);
const SUBUID: &str = "/etc/subuid";

/// A user with subordinate uids, as the system's files have it. Removed at the end.
pub struct Owner;

impl Owner {
    pub fn create() -> Owner {
        let is_there = Command::new("id").arg(OWNER_NAME).output().unwrap().status.success();
        if !is_there {
            must(Command::new("useradd").args(["-M", "-N", "-u", &OWNER.to_string(), OWNER_NAME]));
        }
        let others = Owner::lines_of_others();
        fs::write(SUBUID, format!("{others}{OWNER_NAME}:{}:{}\n", RANGE.0, RANGE.1)).unwrap();
        Owner
    }

    fn lines_of_others() -> String {
        let text = String::from_utf8(fs::read(SUBUID).unwrap_or_default()).unwrap();
        let others = text.lines().filter(|line| !line.starts_with(&format!("{OWNER_NAME}:")));
        others.map(|line| format!("{line}\n")).collect()
    }

    /// Runs a command under `count` of the subordinate uids, from the `first` on; gives how many ended well.
    pub fn run(&self, first: u32, count: u32, command: &mut Command) -> u32 {
        let mut outer = Command::new(simple("subordinate"));
        outer
            .args([first.to_string(), count.to_string()])
            .arg(command.get_program())
            .args(command.get_args());
        outer.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        outer.uid(OWNER).gid(OWNER).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = outer.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready");
        for map in ["uid_map", "gid_map"] {
            fs::write(format!("/proc/{}/{map}", child.id()), format!("0 {} {}", RANGE.0, RANGE.1)).unwrap();
        }
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        let mut well = String::new();
        lines.read_to_string(&mut well).unwrap();
        assert!(child.wait().unwrap().success());
        well.trim().parse().unwrap()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let others = Owner::lines_of_others();
        let _ = if others.is_empty() { fs::remove_file(SUBUID) } else { fs::write(SUBUID, others) };
        let _ = Command::new("userdel").arg(OWNER_NAME).output();
    }
}
