//! A real server, and what agents and people send to it.
#![allow(dead_code, reason = "each test uses its part of it")]

pub mod cluster;

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};

use record::batch::{Batch, MEDIA_TYPE, Stream};
use record::entry::{EndedBy, Entry, Gap, GapReason, Image, ImageKey, Place, Used, source};
use serde_json::Value;
use ureq::http::StatusCode;

/// A server of its own: own directory, own port.
pub struct Server {
    pub dir: tempfile::TempDir,
    pub address: SocketAddr,
    pub child: Child,
}

impl Server {
    pub fn start(options: &[&str]) -> Server {
        Server::start_in(tempfile::tempdir().unwrap(), options)
    }

    /// With the data that is in the directory already.
    pub fn start_in(dir: tempfile::TempDir, options: &[&str]) -> Server {
        // The server takes a port that is free: one that was free before may be another's when it starts.
        let child = Command::new(env!("CARGO_BIN_EXE_jobglass-server"))
            .args(["--listen", "127.0.0.1:0", "--data"])
            .arg(dir.path().join("data"))
            .args(if options.contains(&"--least-free") { &[][..] } else { &["--least-free", "1"] })
            .args(options)
            .stderr(Stdio::from(fs::File::create(dir.path().join("log")).unwrap()))
            .spawn()
            .unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Server { dir, address, child };
        server.address = testkit::wait_for("the server to be ready", || server.said_address());
        server
    }

    /// Where it listens, as its log says.
    fn said_address(&self) -> Option<SocketAddr> {
        let log = self.log();
        let (_, rest) = log.split_once("ready address=")?;
        rest.split(' ').next()?.parse().ok()
    }

    pub fn log(&self) -> String {
        String::from_utf8(fs::read(self.dir.path().join("log")).unwrap_or_default()).unwrap()
    }

    pub fn data(&self) -> std::path::PathBuf {
        self.dir.path().join("data")
    }

    pub fn token(&self, name: &str) -> String {
        String::from_utf8(fs::read(self.data().join(format!("{name}.token"))).unwrap())
            .unwrap()
            .trim()
            .to_owned()
    }

    pub fn agent() -> ureq::Agent {
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        config.timeout_global(Some(testkit::LIMIT)).build().new_agent()
    }

    pub fn get(&self, path: &str, token: Option<&str>) -> Option<(StatusCode, String)> {
        let mut request = Server::agent().get(format!("http://{}{path}", self.address));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut response = request.call().ok()?;
        let body = response.body_mut().read_to_vec().ok()?;
        // Not every answer is text.
        Some((response.status(), String::from_utf8_lossy(&body).into_owned()))
    }

    pub fn post(&self, body: &[u8], token: &str, headers: &[(&str, &str)]) -> (StatusCode, Value) {
        let mut request = Server::agent().post(format!("http://{}/api/v1/ingest", self.address));
        request = request.header("authorization", format!("Bearer {token}"));
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", MEDIA_TYPE);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = request.send(body).unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        (response.status(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// The status, if there is an answer at all.
    pub fn try_post(&self, body: &[u8], token: &str) -> Option<u16> {
        let request = Server::agent().post(format!("http://{}/api/v1/ingest", self.address));
        let request =
            request.header("authorization", format!("Bearer {token}")).header("content-type", MEDIA_TYPE);
        Some(request.send(body).ok()?.status().as_u16())
    }

    pub fn command(&self, arguments: &[&str]) -> String {
        let output = run(arguments, &self.data());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub fn counter(&self, name: &str) -> u64 {
        let (_, text) = self.get("/metrics", None).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("jobglass_{name}_total ")));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    pub fn stop(mut self) -> String {
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        )
        .unwrap();
        assert!(self.child.wait().unwrap().success(), "{}", self.log());
        self.log()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn batch(host: &str, first: u64, entries: &[Entry]) -> Vec<u8> {
    let entries: Vec<Vec<u8>> = entries.iter().map(|entry| minicbor::to_vec(entry).unwrap()).collect();
    let entries = entries.iter().map(Vec::as_slice).collect();
    Batch::new(host, Stream([1; 16]), first, entries, Vec::new()).to_bytes()
}

pub fn gap() -> Entry {
    let reason = GapReason::EventsLost;
    Entry::Gap(Gap { from: 1, to: 2, reason, forks: None, events: Some(1), images: None })
}

/// A process of this user.
pub fn image(user: &str, pid: u32, start: u64) -> Entry {
    Entry::Image(Box::new(Image {
        key: ImageKey { pid, process_start: start, exec: 1 },
        start,
        end: Some(start + 1),
        ended_by: EndedBy::Exit,
        exit_code: Some(0),
        signal: None,
        ppid: None,
        uid: None,
        user: Some(user.into()),
        host: "n1".into(),
        place: Place::default(),
        exe: Some(b"/bin/x".as_slice().into()),
        exe_file: None,
        exe_deleted: false,
        argv: None,
        argv_cut: false,
        cwd: None,
        modules: None,
        module_files: None,
        env: None,
        container: None,
        objects: None,
        late_objects: None,
        objects_cut: 0,
        used: Used::default(),
        count: 1,
        source: source::KERNEL,
        forked_from: None,
        without_guest: None,
        ranks: Vec::new(),
        running_at: None,
        reported: false,
    }))
}

/// Runs the command on a data directory.
pub fn run(arguments: &[&str], data: &std::path::Path) -> Output {
    let program = env!("CARGO_BIN_EXE_jobglass-server");
    Command::new(program).args(arguments).arg("--data").arg(data).output().unwrap()
}
