//! A real server on generated data.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The server that is shipped, beside this program.
const PROGRAM: &str = "target/release/jobglass-server";
const PORT: u16 = 18_799;

/// Stopped when dropped.
pub struct Server {
    child: Child,
    data: PathBuf,
    pub port: u16,
}

impl Server {
    pub fn start(data: &Path) -> Result<Server> {
        Server::start_with(data, &[])
    }

    pub fn start_with(data: &Path, options: &[&str]) -> Result<Server> {
        let mut command = Command::new(PROGRAM);
        command.args(options).args(["--listen", &format!("127.0.0.1:{PORT}"), "--data"]).arg(data);
        let child = command
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {PROGRAM}: run `make build`"))?;
        let server = Server { child, data: data.to_owned(), port: PORT };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", PORT)).is_err() {
            if began.elapsed() > Duration::from_secs(120) {
                bail!("the server does not answer");
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// The token of this name that the server made at its first start.
    pub fn token(&self, name: &str) -> Result<String> {
        let path = self.data.join(format!("{name}.token"));
        let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    }

    /// A new token of a user.
    pub fn token_of(&self, user: &str) -> Result<String> {
        let mut command = Command::new(PROGRAM);
        command.args(["token", "create", "--user", user, "--data"]).arg(&self.data);
        let made = command.output()?;
        if !made.status.success() {
            bail!("no token for {user}: {}", String::from_utf8_lossy(&made.stderr));
        }
        Ok(String::from_utf8_lossy(&made.stdout).trim().to_owned())
    }

    /// The body of the answer to a question.
    pub fn get(&self, target: &str, token: &str) -> Result<Vec<u8>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        let request = format!(
            "GET {target} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
            bail!("{target}: no answer")
        };
        if !answer.starts_with(b"HTTP/1.1 200") {
            bail!("{target}: {}", String::from_utf8_lossy(&answer));
        }
        Ok(answer.split_off(end + 4))
    }

    /// The most memory it had resident.
    pub fn peak_mb(&self) -> u64 {
        peak_mb(self.child.id())
    }
}

/// The most memory a process had resident.
pub fn peak_mb(pid: u32) -> u64 {
    let status = std::fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|text| text.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) / 1000
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
