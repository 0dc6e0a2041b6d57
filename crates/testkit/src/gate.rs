//! A named pipe at which programs of a test wait, also those in jobs of a batch system.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{must, wait_for};

/// A pipe that a program opens for reading and reads to its end. The end comes when the gate is opened.
#[derive(Debug)]
pub struct Gate {
    path: PathBuf,
    held: Option<File>,
}

/// `O_NONBLOCK` of all architectures that Jobglass runs on: without a reader, opening fails instead of waiting.
const NONBLOCK: i32 = 0o4000;

impl Gate {
    /// Makes the pipe, for programs of any user.
    pub fn new(path: &Path) -> Gate {
        must(Command::new("mkfifo").args(["-m", "666"]).arg(path));
        Gate { path: path.to_owned(), held: None }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns when a program waits here.
    pub fn wait_for_program(&mut self) {
        let open = || OpenOptions::new().write(true).custom_flags(NONBLOCK).open(&self.path).ok();
        self.held = Some(wait_for(format_args!("a program at {}", self.path.display()), open));
    }

    /// Lets a program that waits here, or comes here next, go on.
    pub fn open(mut self) {
        if self.held.is_none() {
            self.wait_for_program();
        }
    }
}
