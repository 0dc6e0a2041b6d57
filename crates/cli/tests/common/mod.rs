//! What all end-to-end tests need: a node with an agent, the fixture programs, and the rows that came of them.
#![allow(dead_code, reason = "each test file uses its part")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

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

/// Whether this test can run here; says so if not.
pub fn is_root(test: &str) -> bool {
    let is_root = rustix::process::getuid().is_root();
    if !is_root {
        eprintln!("SKIPPED {test}: needs root");
    }
    is_root
}

#[expect(clippy::disallowed_methods, reason = "tests wait for other processes")]
pub fn sleep_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// A machine that others keep busy gets so many times the time.
pub const PATIENCE: u64 = 3;

/// Waits until `done`, for about `seconds` at most.
pub fn wait_until(seconds: u64, what: &str, mut done: impl FnMut() -> bool) {
    let seconds = PATIENCE * seconds;
    let end = Instant::now() + Duration::from_secs(seconds);
    while !done() {
        assert!(Instant::now() < end, "waited {seconds} s for {what}");
        sleep_ms(20);
    }
}

/// Runs a command that must succeed, and gives its standard output.
pub fn must(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}: {err}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
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
        let new = dir.join(format!("{name}.new"));
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
        let file = dir.path().join("agent.toml");
        let off = dir.path().join("off");
        fs::write(&file, format!("off_file = \"{}\"\n{config}", off.display())).unwrap();
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
        node.start_agent();
        node
    }

    pub fn spool(&self) -> PathBuf {
        self.dir.path().join("spool")
    }

    pub fn start_agent(&mut self) {
        let log =
            fs::OpenOptions::new().create(true).append(true).open(self.dir.path().join("agent.log")).unwrap();
        let mut words = self.launcher.iter().map(Into::into).chain([jobglass().into_os_string()]);
        let mut command = Command::new(words.next().unwrap());
        self.agent = Some(command.args(words).args(&self.args).stderr(log).spawn().unwrap());
        let path = Path::new(&self.socket);
        let ready = self.dir.path().join("agent.log");
        if !self.socket.starts_with('@') {
            let own = format!("{}.{}", path.display(), rustix::process::getuid().as_raw());
            let is_root = rustix::process::getuid().is_root();
            wait_until(10, "the agent's socket", || connects(if is_root { &own } else { &self.socket }));
        }
        wait_until(10, "the agent's word", || {
            fs::read(&ready).is_ok_and(|log| String::from_utf8_lossy(&log).contains("listening"))
        });
        assert!(self.agent.as_mut().unwrap().try_wait().unwrap().is_none(), "{}", self.log());
    }

    pub fn agent_pid(&self) -> u32 {
        self.agent.as_ref().unwrap().id()
    }

    pub fn signal(&self, name: &str) {
        must(Command::new("kill").arg(format!("-{name}")).arg(self.agent_pid().to_string()));
    }

    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.path().join("agent.log")).unwrap()).into_owned()
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
