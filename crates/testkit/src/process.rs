//! Processes of tests: commands that must succeed, and children that never outlive their test.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, Command};

/// Runs a command that must succeed, and returns its standard output.
#[track_caller]
pub fn must(command: &mut Command) -> String {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => panic!("{command:?}: {error}"),
    };
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}: {err}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Copies a program, by another process: a file that this one writes would be held open by whatever child is forked
/// meanwhile, and could not be executed.
#[track_caller]
pub fn install(program: &Path, to: &Path, mode: &str) {
    must(Command::new("install").args(["-m", mode]).arg(program).arg(to));
}

/// A child that is killed and reaped when its test ends, also when it fails.
#[derive(Debug)]
pub struct Killed(pub Child);

impl Deref for Killed {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Killed {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
