//! Batch jobs as far as an agent can tell, without a batch system: programs in control groups that are named as Slurm names them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use crate::common::Node;

/// A program that sleeps, in a job's control group.
pub struct Job {
    pub id: String,
    child: Child,
    /// From the inside out.
    groups: Vec<PathBuf>,
}

/// Whether control groups can be made here; says so if not.
pub fn can_make(test: &str) -> bool {
    let can = root().is_some();
    if !can {
        testkit::skip(test, "no control groups here");
    }
    can
}

/// Where groups of a node of this test's own go, in either version.
fn root() -> Option<PathBuf> {
    let own = format!("jg{}", std::process::id());
    let (first, second) = (Path::new("/sys/fs/cgroup/freezer"), Path::new("/sys/fs/cgroup/system.slice"));
    if first.is_dir() {
        return Some(first.join(format!("slurm_{own}")));
    }
    second.is_dir().then(|| second.join(format!("{own}_slurmstepd.scope")))
}

impl Job {
    pub fn start(node: &Node, id: &str, variables: &[(&str, &str)]) -> Job {
        let root = root().unwrap();
        let job = root.join(format!("job_{id}"));
        let step = job.join("step_0");
        fs::create_dir_all(&step).unwrap();
        let script = format!("echo $$ > {}/cgroup.procs && exec sleep infinity", step.display());
        let mut command: Command = node.command("sh");
        command.args(["-c", &script]).envs(variables.iter().copied());
        Job { id: id.into(), child: command.spawn().unwrap(), groups: vec![step, job, root] }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for group in &self.groups {
            // Another job may be in the outermost.
            let _ = fs::remove_dir(group);
        }
    }
}
