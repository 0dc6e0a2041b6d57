//! What a running agent says of itself, for `jobglass doctor`: its version and what it runs with, also where the configuration has changed
//! since or where it was started with options.
//!
//! A file of JSON beside the socket (`SOCKET.status`, for everybody) and one in the spool's directory (`status`, for whoever may look there). The
//! agent only writes them: there is nothing that could be asked of it. Whoever reads one believes it only if it belongs to root or to
//! themselves, nobody else could have written it, and the process it names still runs ([`read`]).

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use sample::Proc;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::config::{Config, DEFAULT_PATH, Server};
use crate::counters::Counters;
use crate::progress::this_boot;
use crate::receive::path_of;
use crate::run::Flags;
use crate::say::say;
use crate::state;

/// The file's name in the spool's directory.
const NAME: &str = "status";
/// A file is some hundred bytes.
const LONGEST: u64 = 64 * 1024;

/// An agent that runs, or did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub version: String,
    pub pid: u32,
    /// When the process began, in ticks since the machine's start; numbers of processes are given again.
    start_ticks: u64,
    boot: u64,
    /// What was typed.
    pub flags: Flags,
    /// The checksum of the configuration file when it was last read; `None` if there was none.
    pub config_sum: Option<u64>,
    pub running: Running,
}

/// What an agent runs with until it ends, whatever its configuration says meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Running {
    pub socket: String,
    pub container_socket: String,
    pub spool: PathBuf,
    pub server: Server,
}

impl Running {
    /// Paths are those that they are for this process.
    pub fn of(config: &Config) -> Running {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let socket = path_of(&config.socket).map(|path| absolute(&path).display().to_string());
        let Server { url, token_file, enroll_token_file, ca_file, flush_seconds } = &config.server;
        Running {
            socket: socket.unwrap_or_else(|| config.socket.clone()),
            container_socket: config.container_socket.clone(),
            spool: absolute(&config.spool.dir),
            server: Server {
                url: url.clone(),
                token_file: absolute(token_file),
                enroll_token_file: absolute(enroll_token_file),
                ca_file: absolute(ca_file),
                flush_seconds: *flush_seconds,
            },
        }
    }

    /// Puts what an agent runs with in place of what its configuration says.
    pub fn apply(&self, config: &mut Config) {
        config.socket = self.socket.clone();
        config.container_socket = self.container_socket.clone();
        config.spool.dir = self.spool.clone();
        config.server = self.server.clone();
    }

    /// What another agent would run with, as lines for people.
    pub fn differences(&self, other: &Running) -> Vec<String> {
        let (this, that) = (self.keys(), other.keys());
        let pairs = this.into_iter().zip(that).filter(|(this, that)| this != that);
        pairs.map(|((key, this), (_, that))| format!("{key} is \"{this}\", not \"{that}\"")).collect()
    }

    fn keys(&self) -> [(&'static str, String); 8] {
        let path = |path: &Path| path.display().to_string();
        let Server { url, token_file, enroll_token_file, ca_file, flush_seconds } = &self.server;
        [
            ("socket", self.socket.clone()),
            ("container_socket", self.container_socket.clone()),
            ("spool.dir", path(&self.spool)),
            ("server.url", url.clone()),
            ("server.token_file", path(token_file)),
            ("server.enroll_token_file", path(enroll_token_file)),
            ("server.ca_file", path(ca_file)),
            ("server.flush_seconds", flush_seconds.to_string()),
        ]
    }
}

impl Status {
    /// Of this process. `config_sum` is from before the configuration was read: of two versions it is the older one.
    pub fn of_this_process(flags: &Flags, config_sum: Option<u64>, config: &Config) -> Status {
        let pid = std::process::id();
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid,
            start_ticks: Proc::default().stat(pid).map_or(0, |stat| stat.start_ticks),
            boot: this_boot(),
            flags: flags.clone().absolute(),
            config_sum,
            running: Running::of(config),
        }
    }

    /// Writes both files. The agent runs without them, too.
    pub fn tell(&self, counters: &Counters) {
        state::clear(&self.running.spool, NAME, counters);
        for (path, mode) in self.files() {
            if let Err(error) = self.write(&path, mode) {
                say(format_args!("cannot write {}: {error}", path.display()));
            }
        }
    }

    /// Removes what was told.
    pub fn end(&self) {
        for (path, _) in self.files() {
            let _ = fs::remove_file(path);
        }
    }

    fn files(&self) -> Vec<(PathBuf, u32)> {
        let beside = beside(&self.running.socket).map(|path| (path, 0o644));
        beside.into_iter().chain([(in_spool(&self.running.spool), 0o640)]).collect()
    }

    fn write(&self, path: &Path, mode: u32) -> io::Result<()> {
        let new = PathBuf::from(format!("{}.new", path.display()));
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new)?;
        serde_json::to_writer(&mut file, self)?;
        writeln!(file)?;
        // Whatever the umask is.
        file.set_permissions(Permissions::from_mode(mode))?;
        fs::rename(new, path)
    }

    fn runs(&self, owner: u32) -> bool {
        let is_owners = || fs::metadata(format!("/proc/{}", self.pid)).is_ok_and(|meta| meta.uid() == owner);
        let stat = Proc::default().stat(self.pid);
        self.boot == this_boot()
            && stat.is_some_and(|stat| stat.start_ticks == self.start_ticks)
            && is_owners()
    }
}

/// Where an agent tells everybody; abstract sockets have no place beside them.
pub fn beside(socket: &str) -> Option<PathBuf> {
    path_of(socket).map(|path| PathBuf::from(format!("{}.status", path.display())))
}

/// Where an agent tells those who may look into its spool.
pub fn in_spool(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

/// The checksum of the configuration file; `None` if there is none.
pub fn config_sum(flags: &Flags) -> Option<u64> {
    fs::read(flags.config.as_deref().unwrap_or(Path::new(DEFAULT_PATH))).ok().map(|text| xxh3_64(&text))
}

/// The agent that runs and has told this file, as far as it can be believed; `None` if there is none, and why not if somebody else
/// may have written the file.
pub fn read(path: &Path) -> Result<Option<Status>, String> {
    let distrust = |why: String| Err(format!("{} is not believed: {why}", path.display()));
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return distrust("it is a symbolic link".into());
        }
        Err(_) => return Ok(None),
    };
    let meta = match file.metadata() {
        Ok(meta) => meta,
        Err(error) => return distrust(error.to_string()),
    };
    let own = rustix::process::geteuid().as_raw();
    if !meta.is_file() || meta.nlink() != 1 {
        return distrust("it is no regular file with one name".into());
    }
    if meta.uid() != 0 && meta.uid() != own {
        return distrust(format!("it belongs to user {}, who is neither root nor you", meta.uid()));
    }
    if meta.mode() & 0o022 != 0 {
        return distrust(format!("others than its owner can change it (mode {:04o})", meta.mode() & 0o7777));
    }
    match parse(&file) {
        Ok(status) => Ok(Some(status).filter(|status| status.runs(meta.uid()))),
        Err(error) => distrust(error.to_string()),
    }
}

fn parse(file: &File) -> io::Result<Status> {
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_status_that_nobody_else_could_write_is_believed() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.spool.dir = dir.path().to_owned();
        config.socket = dir.path().join("socket").display().to_string();
        let status = Status::of_this_process(&Flags::default(), Some(7), &config);
        status.tell(&Counters::default());
        let (beside, in_spool) = (beside(&config.socket).unwrap(), in_spool(dir.path()));
        for (path, mode) in [(&beside, 0o644), (&in_spool, 0o640)] {
            assert_eq!(read(path).unwrap(), Some(status.clone()));
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o7777, mode);
        }
        let untrusted = |path: &Path, why: &str| {
            let error = read(path).unwrap_err();
            assert!(error.contains(why), "{error}");
        };
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&beside, &link).unwrap();
        untrusted(&link, "symbolic link");
        fs::hard_link(&beside, dir.path().join("name")).unwrap();
        untrusted(&beside, "one name");
        fs::set_permissions(&in_spool, Permissions::from_mode(0o660)).unwrap();
        untrusted(&in_spool, "mode 0660");
        untrusted(dir.path(), "regular file");
        status.tell(&Counters::default());
        fs::write(&in_spool, "{}").unwrap();
        untrusted(&in_spool, "missing field");
        let gone = Status { start_ticks: status.start_ticks + 1, ..status.clone() };
        gone.tell(&Counters::default());
        assert_eq!(read(&beside).unwrap(), None, "another process with its number");
        status.end();
        assert_eq!(read(&beside).unwrap(), None);
        assert_eq!(read(&in_spool).unwrap(), None);
    }

    #[test]
    fn every_key_of_what_runs_is_compared() {
        let running = Running::of(&Config::default());
        assert!(running.differences(&running).is_empty());
        let other: Config = toml::from_str(
            "socket = \"@s\"\ncontainer_socket = \"\"\n[spool]\ndir = \"/d\"\n[server]\nurl = \"http://x\"\n\
             token_file = \"/t\"\nenroll_token_file = \"/e\"\nca_file = \"/c\"\nflush_seconds = 9\n",
        )
        .unwrap();
        let differences = running.differences(&Running::of(&other));
        assert_eq!(differences.len(), running.keys().len(), "{differences:?}");
        assert_eq!(differences[3], "server.url is \"\", not \"http://x\"");
        let mut applied = Config::default();
        Running::of(&other).apply(&mut applied);
        assert_eq!(Running::of(&applied), Running::of(&other));
    }
}
