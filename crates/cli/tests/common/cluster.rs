//! A real Slurm cluster for tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Node, must, root, wait_until};

/// A cluster that is stopped whatever happens.
pub struct Cluster {
    pub dir: PathBuf,
}

impl Cluster {
    pub fn start(node: &Node, proctrack: &str) -> Cluster {
        Cluster::start_with(node, &["--proctrack", proctrack])
    }

    /// With these options of `testbed/cluster start`.
    pub fn start_with(node: &Node, options: &[&str]) -> Cluster {
        Cluster::start_in(node.dir.path(), options)
    }

    /// With all its files below this directory.
    pub fn start_in(dir: &Path, options: &[&str]) -> Cluster {
        must(Command::new(root().join("testbed/cluster")).arg("install"));
        let cluster = Cluster { dir: dir.join("cluster") };
        must(cluster.command("start").args(options).stderr(Stdio::inherit()));
        cluster
    }

    pub fn command(&self, command: &str) -> Command {
        let mut cluster = Command::new(root().join("testbed/cluster"));
        cluster.arg(command).arg("--dir").arg(&self.dir);
        cluster
    }

    /// Runs a command as one of the users.
    pub fn as_user(&self, user: &str, args: &[&str]) -> String {
        let mut command = Command::new(root().join("testbed/cluster"));
        command.args(["as", user, "--dir"]).arg(&self.dir).arg("--").args(args);
        must(&mut command).trim().to_owned()
    }

    /// A command that finds Slurm's configuration and its commands, as root.
    pub fn with_slurm(&self, mut command: Command) -> Command {
        command.env("SLURM_CONF", self.dir.join("etc/slurm.conf"));
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        command
    }

    /// Submits a script and gives the job's number.
    pub fn submit(&self, user: &str, options: &[&str], script: &str) -> String {
        let file = self.dir.join(format!("home/{user}/script.sh"));
        fs::write(&file, format!("#!/bin/bash -l\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let file = file.display().to_string();
        let args = [&["sbatch", "--parsable", "--output=%j.out"], options, &[&file]].concat();
        self.as_user(user, &args)
    }

    pub fn is_running(&self, job: &str) -> bool {
        let state = self.as_user("jgalice", &["squeue", "-h", "-o", "%T", "-j", job]);
        state == "RUNNING"
    }

    pub fn wait_for_end(&self, job: &str) {
        wait_until(format!("the end of job {job}"), || {
            let state =
                self.as_user("jgalice", &["sacct", "--allusers", "-n", "-X", "-P", "-j", job, "-o", "State"]);
            !["", "PENDING", "RUNNING", "COMPLETING"].contains(&state.as_str())
        });
    }

    pub fn state(&self, job: &str) -> String {
        self.as_user("jgalice", &["sacct", "--allusers", "-n", "-X", "-P", "-j", job, "-o", "State"])
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.command("stop").stderr(Stdio::null()).status();
    }
}

/// What users need must be where they can read it.
pub fn for_users(node: &Node, path: &Path) -> String {
    let copy = node.dir.path().join(path.file_name().unwrap());
    fs::copy(path, &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    copy.display().to_string()
}
