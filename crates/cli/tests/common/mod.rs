//! What all end-to-end tests need: a node with an agent, the fixture programs, and the rows that came of them.
#![allow(dead_code, reason = "each test file uses its part")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use agent::spool::Reader;
use record::entry::{Entry, Image};
use serde_json::Value;
use tempfile::TempDir;

pub use testkit::*;

pub type Row = Value;

/// The command under test: the release build that `make build` leaves, else cargo's own.
pub fn jobglass() -> PathBuf {
    std::env::var_os("JOBGLASS_BIN").map_or_else(|| env!("CARGO_BIN_EXE_jobglass").into(), PathBuf::from)
}

/// The guest under test.
pub fn guest() -> PathBuf {
    let built = || root().join("target/release/libjobglass.so");
    let path = std::env::var_os("JOBGLASS_LIB").map_or_else(built, PathBuf::from);
    assert!(path.exists(), "no guest at {}: run `make build`", path.display());
    path
}

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Compiles a fixture once: `cc OPTIONS tests/programs/SOURCE -o NAME`.
pub fn program(name: &str, compiler: &str, source: &str, options: &[&str]) -> PathBuf {
    static LOCK: Mutex<()> = Mutex::new(());
    let _guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    fs::create_dir_all(&dir).unwrap();
    let (built, source) = (dir.join(name), root().join("tests/programs").join(source));
    let changed = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    if changed(&built).is_none_or(|built| Some(built) < changed(&source)) {
        // Tests of another binary may compile the same at this moment.
        let new = dir.join(format!("{name}.{}", std::process::id()));
        must(Command::new(compiler).args(["-Wall", "-O1", "-o"]).arg(&new).arg(source).args(options));
        fs::rename(new, &built).unwrap();
    }
    built
}

pub static SURVIVE: LazyLock<PathBuf> =
    LazyLock::new(|| program("survive", "cc", "survive.c", &["-pthread", "-ldl"]));
pub static SURVIVE_STATIC: LazyLock<PathBuf> =
    LazyLock::new(|| program("survive_static", "cc", "survive.c", &["-pthread", "-static", "-DNO_DLOPEN"]));
pub static SURVIVE_MUSL: LazyLock<PathBuf> =
    LazyLock::new(|| program("survive_musl", "musl-gcc", "survive.c", &["-pthread"]));

/// A simple program of one source file.
pub fn simple(name: &str) -> PathBuf {
    program(name, "cc", &format!("{name}.c"), &["-lm"])
}

/// A directory with 300 libraries and a program that is linked to all of them.
pub static MANY: LazyLock<PathBuf> = LazyLock::new(|| {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("many");
    if !dir.join("many").exists() {
        fs::create_dir_all(&dir).unwrap();
        must(Command::new(root().join("tests/programs/many_libs.sh")).arg(&dir).arg("300"));
    }
    dir
});

/// A node with an agent of its own: own socket, own spool.
pub struct Node {
    pub dir: TempDir,
    pub socket: String,
    pub agent: Option<Child>,
    pub args: Vec<String>,
    /// What the agent is started by, if not directly.
    pub launcher: Vec<String>,
    /// Every agent sees the whole machine: one at a time.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl Node {
    /// With a socket at a path.
    pub fn start() -> Node {
        let dir = new_dir();
        let socket = dir.path().join("agent.sock").display().to_string();
        Node::with(dir, socket, "")
    }

    /// With an abstract socket.
    pub fn start_abstract() -> Node {
        let dir = new_dir();
        let name = format!("@jobglass-test-{}", dir.path().file_name().unwrap().display());
        Node::with(dir, name, "")
    }

    /// With a configuration.
    pub fn configured(config: &str) -> Node {
        Node::configured_in(new_dir(), config)
    }

    /// With a configuration, and all its files in this directory.
    pub fn configured_in(dir: TempDir, config: &str) -> Node {
        let socket = dir.path().join("agent.sock").display().to_string();
        Node::with(dir, socket, config)
    }

    fn with(dir: TempDir, socket: String, config: &str) -> Node {
        let mut node = Node::unstarted(dir, socket, config);
        node.start_agent();
        node
    }

    /// With a configuration, and an agent that is not started yet.
    pub fn prepared(config: &str) -> Node {
        let dir = new_dir();
        let socket = dir.path().join("agent.sock").display().to_string();
        Node::unstarted(dir, socket, config)
    }

    fn unstarted(dir: TempDir, socket: String, config: &str) -> Node {
        let file = dir.path().join("agent.toml");
        let off = dir.path().join("off");
        // All that runs on this machine would be reported: only tests that are about that ask for it.
        let running =
            if config.contains("running_after_seconds") { "" } else { "running_after_seconds = 0\n" };
        fs::write(&file, format!("off_file = \"{}\"\n{running}{config}", off.display())).unwrap();
        let args = [
            "agent".into(),
            "--socket".into(),
            socket.clone(),
            "--config".into(),
            file.display().to_string(),
        ];
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut node = Node { dir, socket, agent: None, args: args.into(), launcher: Vec::new(), _alone };
        node.args.extend(["--spool".into(), node.spool().display().to_string()]);
        node
    }

    pub fn spool(&self) -> PathBuf {
        self.dir.path().join("spool")
    }

    pub fn start_agent(&mut self) {
        let log =
            fs::OpenOptions::new().create(true).append(true).open(self.dir.path().join("agent.log")).unwrap();
        let said_before = self.log().len();
        let mut words = self.launcher.iter().map(Into::into).chain([jobglass().into_os_string()]);
        let mut command = Command::new(words.next().unwrap());
        self.agent = Some(command.args(words).args(&self.args).stderr(log).spawn().unwrap());
        let is_up = |node: &mut Node| {
            let ended = node.agent.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the agent ended: {}", node.log());
            node.log().get(said_before..).is_some_and(|log| log.contains("listening")) && node.is_reachable()
        };
        wait_until("the agent to listen", || is_up(self));
    }

    fn is_reachable(&self) -> bool {
        let uid = rustix::process::getuid();
        // An abstract name is bound when the agent says that it listens.
        self.socket.starts_with('@')
            || if uid.is_root() {
                connects(&format!("{}.{}", self.socket, uid.as_raw()))
            } else {
                connects(&self.socket)
            }
    }

    pub fn agent_pid(&self) -> u32 {
        self.agent.as_ref().unwrap().id()
    }

    pub fn signal(&self, name: &str) {
        must(Command::new("kill").arg(format!("-{name}")).arg(self.agent_pid().to_string()));
    }

    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.path().join("agent.log")).unwrap_or_default()).into_owned()
    }

    /// A command that runs with the guest, in an environment of its own.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LD_PRELOAD", guest())
            .env("JOBGLASS_SOCKET", &self.socket)
            .stdin(Stdio::null());
        command
    }

    /// Returns when the agent has dealt with all that happened before: programs that began, ended or sent a message. Two marker
    /// programs are recorded one after the other, because the agent takes its second look at a new process a tick after the first.
    pub fn catch_up(&self) {
        let marker = program("marker", "cc", "nothing.c", &[]);
        for _ in 0..2 {
            let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
            let pid = self.run(&mut self.command(&marker));
            let is_marker = |image: &Image| image.key.pid == pid && image.start >= began;
            wait_until("the record of a marker program", || self.images().iter().any(is_marker));
        }
    }

    /// Runs a command to its end, however that is, and gives its process number.
    pub fn run(&self, command: &mut Command) -> u32 {
        let mut child = Killed(command.spawn().unwrap());
        child.wait().unwrap();
        child.id()
    }

    /// Runs a command that lives as long as its standard input is open, as `survive until_eof` does, until the agent has seen all
    /// it looks at. Gives its process number.
    pub fn run_until_seen(&self, command: &mut Command) -> u32 {
        let mut child = Killed(command.stdin(Stdio::piped()).spawn().unwrap());
        self.catch_up();
        drop(child.stdin.take());
        child.wait().unwrap();
        child.id()
    }

    /// The images in the spool now, read without another process, which the agent would see.
    pub fn images(&self) -> Vec<Image> {
        let entries = Reader::open(&self.spool()).into_iter().flatten().flatten();
        let image = |(_, entry)| match entry {
            Entry::Image(image) => Some(*image),
            _ => None,
        };
        entries.filter_map(image).collect()
    }

    /// Waits until the rows of a kind in the spool are as they should be, and gives them.
    pub fn wait_for_rows(&self, kind: &str, what: &str, mut is_so: impl FnMut(&[Row]) -> bool) -> Vec<Row> {
        let mut read = None;
        wait_for(what, || {
            // Whoever reads the spool is a process as well, which the agent records.
            let size = Some(self.spool_size());
            if std::mem::replace(&mut read, size) == size {
                return None;
            }
            let rows = self.rows(kind);
            is_so(&rows).then_some(rows)
        })
    }

    pub fn wait_for_images(&self, what: &str, is_so: impl FnMut(&[Row]) -> bool) -> Vec<Row> {
        self.wait_for_rows("image", what, is_so)
    }

    /// Bytes in the spool; none while there is none.
    fn spool_size(&self) -> u64 {
        let files = fs::read_dir(self.spool()).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).sum()
    }

    /// Ends the agent in good order and gives everything it has recorded.
    pub fn stop(mut self) -> Vec<Row> {
        self.stop_agent();
        self.rows("image")
    }

    pub fn stop_agent(&mut self) {
        self.signal("TERM");
        let status = self.agent.take().unwrap().wait().unwrap();
        assert!(status.success(), "the agent ended with {status}: {}", self.log());
    }

    pub fn kill_agent(&mut self) {
        let mut agent = self.agent.take().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    /// What is in the spool now.
    pub fn rows(&self, kind: &str) -> Vec<Row> {
        let output = self.read(kind);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!err.contains("damaged"), "{err}");
        parse(&output)
    }

    pub fn read(&self, kind: &str) -> Output {
        Command::new(jobglass())
            .args(["spool", "read", "--json", "--kind", kind])
            .arg(self.spool())
            .output()
            .unwrap()
    }
}

pub fn parse(output: &Output) -> Vec<Row> {
    let lines = output.stdout.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

pub fn new_dir() -> TempDir {
    let dir = tempfile::Builder::new().prefix("jg").tempdir().unwrap();
    // Other users' programs find the socket here.
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    dir
}

fn connects(path: &str) -> bool {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    SocketAddrUnix::new(path).is_ok_and(|address| connect(&socket, &address).is_ok())
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the agent's log:\n{}", self.log());
        }
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

/// The rows of a process and of all it started.
pub fn tree(rows: &[Row], pid: u32) -> Vec<Row> {
    let mut pids = vec![u64::from(pid)];
    loop {
        let more: Vec<u64> = rows
            .iter()
            .filter(|row| pids.contains(&row["ppid"].as_u64().unwrap_or(0)))
            .map(|row| row["pid"].as_u64().unwrap())
            .filter(|pid| !pids.contains(pid))
            .collect();
        if more.is_empty() {
            break;
        }
        pids.extend(more);
    }
    rows.iter().filter(|row| pids.contains(&row["pid"].as_u64().unwrap())).cloned().collect()
}

/// How a row ended, in words.
pub fn end(row: &Row) -> String {
    match row["ended_by"].as_str().unwrap() {
        "exit" => format!("exit {}", row["exit_code"]),
        "signal" => format!("signal {}", row["signal"]),
        other => other.to_owned(),
    }
}

pub fn has_source(row: &Row, source: &str) -> bool {
    row["source"].as_array().unwrap().iter().any(|name| name == source)
}

pub fn seconds(row: &Row) -> Option<f64> {
    Some(row["user_cpu_s"].as_f64()? + row["system_cpu_s"].as_f64()?)
}

pub fn sum_of_counts<'a>(rows: impl IntoIterator<Item = &'a Row>) -> u64 {
    rows.into_iter().map(|row| row["count"].as_u64().unwrap()).sum()
}
