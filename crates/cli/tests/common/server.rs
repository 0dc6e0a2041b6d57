//! A server of its own, behind a network that can be cut and a proxy that plays tricks.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{jobglass, must, wait_until};

/// The server that is shipped, beside the command.
pub fn jobglass_server() -> PathBuf {
    jobglass().with_file_name("jobglass-server")
}

/// Random numbers that are the same in every run with the same seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed | 1)
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides.max(1)
    }
}

/// Two network namespaces with a cable between them: one for the server, one for those who speak to it.
pub struct Network {
    inner: String,
    outer: String,
    cable: String,
    pub address: String,
}

impl Network {
    pub fn new() -> Network {
        let id = std::process::id() % 10_000;
        let network = Network {
            inner: format!("jgi{id}"),
            outer: format!("jgo{id}"),
            cable: format!("jgc{id}"),
            address: "10.199.7.2".into(),
        };
        let Network { inner, outer, cable, .. } = &network;
        ip(&format!("netns add {inner}"));
        ip(&format!("netns add {outer}"));
        ip(&format!("-n {outer} link add {cable} type veth peer name jgs{id} netns {inner}"));
        ip(&format!("-n {outer} addr add 10.199.7.1/30 dev {cable}"));
        ip(&format!("-n {outer} link set {cable} up"));
        ip(&format!("-n {inner} addr add 10.199.7.2/30 dev jgs{id}"));
        ip(&format!("-n {inner} link set jgs{id} up"));
        ip(&format!("-n {inner} link set lo up"));
        network
    }

    /// A command that runs at the server's end.
    pub fn inside(&self, program: PathBuf) -> Command {
        enter(&self.inner, program)
    }

    /// A command that runs at the other end.
    pub fn outside(&self, program: PathBuf) -> Command {
        enter(&self.outer, program)
    }

    /// A connection through the cable.
    pub fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let space = fs::File::open(format!("/run/netns/{}", self.outer))?;
        // A thread enters a namespace for good.
        let connect = move || {
            use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
            use std::os::fd::AsFd;
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?;
            TcpStream::connect_timeout(&to, Duration::from_secs(2))
        };
        std::thread::spawn(connect).join().unwrap()
    }

    pub fn cut(&self) {
        ip(&format!("-n {} link set {} down", self.outer, self.cable));
    }

    pub fn restore(&self) {
        ip(&format!("-n {} link set {} up", self.outer, self.cable));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.inner, &self.outer] {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

fn enter(name: &str, program: PathBuf) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", name]).arg(program);
    command
}

fn ip(arguments: &str) {
    must(Command::new("ip").args(arguments.split(' ')));
}

/// A server with its data; it can be killed and started again.
pub struct Server {
    pub data: PathBuf,
    pub address: SocketAddr,
    log: PathBuf,
    network: Option<Arc<Network>>,
    child: Option<Child>,
}

impl Server {
    pub fn start(dir: PathBuf, network: Option<Arc<Network>>) -> Server {
        let address = match &network {
            Some(network) => format!("{}:8765", network.address).parse().unwrap(),
            // The server takes one that is free: one that was free before may be another's when it starts.
            None => SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        let (data, log) = (dir.join("data"), dir.join("server.log"));
        let mut server = Server { data, address, log, network, child: None };
        server.start_again();
        if address.port() == 0 {
            wait_until("the server's address", || server.said_address().is_some());
            server.address = server.said_address().unwrap();
        }
        server
    }

    /// Where it listens, as its log says.
    fn said_address(&self) -> Option<SocketAddr> {
        let log = self.log();
        let (_, rest) = log.split_once("ready address=")?;
        rest.split(' ').next()?.parse().ok()
    }

    pub fn start_again(&mut self) {
        let mut command = match &self.network {
            Some(network) => network.inside(jobglass_server()),
            None => Command::new(jobglass_server()),
        };
        let log = fs::OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        command.args(["--listen", &self.address.to_string(), "--least-free", "16", "--data"]).arg(&self.data);
        command.args(["--host-rate", "1000", "--host-burst", "1000"]);
        self.child = Some(command.stderr(log).spawn().unwrap());
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn wait_ready(&self) {
        wait_until("the server", || match &self.network {
            Some(network) => network.connect(self.address).is_ok(),
            None => TcpStream::connect_timeout(&self.address, Duration::from_secs(2)).is_ok(),
        });
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// A token for one host.
    pub fn node_token(&self, host: &str) -> PathBuf {
        let mut command = Command::new(jobglass_server());
        let secret = must(command.args(["token", "create", "--host", host, "--data"]).arg(&self.data));
        let path = self.data.with_file_name("node.token");
        fs::write(&path, secret).unwrap();
        path
    }

    /// A question to it, for the administrator.
    pub fn ask(&self, arguments: &[&str]) -> Command {
        let mut command = match &self.network {
            Some(network) => network.outside(jobglass()),
            None => Command::new(jobglass()),
        };
        command.args(arguments).env("JOBGLASS_SERVER", self.url());
        command.env("JOBGLASS_TOKEN_FILE", self.data.join("admin.token"));
        command
    }

    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
        self.kill();
    }
}

/// Stands between agent and server and does to requests what networks do, and worse.
pub struct Proxy {
    pub address: SocketAddr,
    /// How many requests met each trick.
    pub tricks: Arc<[AtomicU64; 6]>,
}

pub const TRICKS: [&str; 6] = ["passed", "doubled", "truncated", "corrupted", "answer lost", "held back"];

impl Proxy {
    pub fn start(server: SocketAddr, network: &Arc<Network>, seed: u64) -> Proxy {
        // Its threads live as long as the test; the network must not.
        let network = Arc::downgrade(network);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let tricks: Arc<[AtomicU64; 6]> = Arc::default();
        let counted = tricks.clone();
        std::thread::spawn(move || {
            let dice = Arc::new(Mutex::new(Dice::new(seed)));
            let held = Arc::new(Mutex::new(VecDeque::new()));
            for client in listener.incoming().flatten() {
                let (dice, held, counted) = (dice.clone(), held.clone(), counted.clone());
                let network = network.clone();
                std::thread::spawn(move || {
                    let forward = |request: &[u8]| {
                        let network = network.upgrade().ok_or(io::ErrorKind::NotConnected)?;
                        forward(network.connect(server)?, request)
                    };
                    let _ = play(client, forward, &dice, &held, &counted);
                });
            }
        });
        Proxy { address, tricks }
    }
}

/// One request of one client.
fn play(
    mut client: TcpStream,
    forward: impl Fn(&[u8]) -> io::Result<Vec<u8>>,
    dice: &Mutex<Dice>,
    held: &Mutex<VecDeque<Vec<u8>>>,
    counted: &[AtomicU64; 6],
) -> io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut request = read_message(&mut client)?;
    let trick = match dice.lock().unwrap().roll(20) {
        at @ 0..5 => at as usize + 1,
        _ => 0,
    };
    counted[trick].fetch_add(1, Ordering::Relaxed);
    let at = dice.lock().unwrap().roll(request.len() as u64) as usize;
    match trick {
        1 => {
            forward(&request)?;
        }
        2 => request.truncate(at),
        3 => request[at] ^= 0x20,
        5 => {
            // It arrives later, behind others; the client hears nothing.
            held.lock().unwrap().push_back(request);
            return Ok(());
        }
        _ => {}
    }
    let answer = forward(&request)?;
    let late = held.lock().unwrap().pop_front();
    if let Some(late) = late {
        let _ = forward(&late);
    }
    if trick != 4 {
        client.write_all(&answer)?;
    }
    Ok(())
}

fn forward(mut stream: TcpStream, request: &[u8]) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(request)?;
    if !is_whole(request) {
        stream.shutdown(std::net::Shutdown::Write)?;
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

/// Whether there are a head and as much of a body as it says.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    bytes.len() >= end + 4 + length
}

/// A head and as much of a body as it says; the connection is to be closed behind it.
fn read_message(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buf = [0; 65536];
    loop {
        if is_whole(&bytes) {
            let end = bytes.windows(4).position(|part| part == b"\r\n\r\n").unwrap_or(0);
            bytes.splice(end..end, b"\r\nconnection: close".iter().copied());
            return Ok(bytes);
        }
        let n = stream.read(&mut buf)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&buf[..n]);
    }
}
