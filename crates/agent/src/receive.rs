//! Receives the guests' messages, fairly.
//!
//! One common socket, one abstract name for containers, and one socket for each user seen on the node, beside
//! the common one (`NAME.UID`, mode 0600): a user can fill only their own queue. Each guest connects, sends
//! one message and closes; a connection waits in the queue with its message until it is taken, so the guest
//! never waits for the agent. Who speaks is what the kernel says of the connection, never what the message
//! says.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

use record::guest;
use record::wire::MESSAGE_MAX;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix, SocketFlags,
    SocketType, sockopt,
};

use crate::counters::Counters;
use crate::files::Files;
use crate::table::FromGuest;

/// Connections that may wait per socket. Each holds a descriptor in flight, of which a user may have as many
/// as files open (1024 by default): a stopped agent must not make a user's own programs fail at passing one.
const BACKLOG: i32 = 512;
/// Once one guest has come, others are let come for this long before any is taken: a program that connects to an
/// agent which waits has to wake it, and waking an idle core takes longer than the message.
const GATHER: Duration = Duration::from_millis(10);
/// A message taken from one socket before the next one's turn.
const TURN: usize = 32;
/// A guest connects just before it sends; one that is interrupted in between is waited for this long.
const PATIENCE: Duration = Duration::from_secs(2);
/// Connections without a message that are waited for, in all and of one user.
const SILENT_MAX: usize = 1024;
const SILENT_PER_USER: usize = 128;
/// A user with more sockets than this on one node is not a user.
const USERS_MAX: usize = 4096;

/// A user may send this many messages per second, and this many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub per_second: u64,
    pub burst: u64,
}

/// What the main thread tells the receiver.
#[derive(Debug)]
pub enum Command {
    /// A user was seen on the node.
    User(u32),
    /// Close all sockets, or open them again.
    SwitchOff(bool),
    /// New rules for the guests.
    Rules(Arc<Vec<u8>>),
    /// Close all sockets and end.
    Stop,
}

/// Where guests find the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// A path, or an abstract name beginning with `@`.
    pub main: String,
    /// The abstract name for containers.
    pub container: Option<String>,
}

/// A connection whose message has not come yet.
struct Silent {
    connection: OwnedFd,
    pid: u32,
    uid: u32,
    since: Instant,
}

/// A socket that listens; a path is removed with it.
struct Listener {
    fd: OwnedFd,
    path: Option<PathBuf>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// The receiving end, run on a thread of its own.
pub struct Receive {
    names: Names,
    listeners: Vec<Listener>,
    users: HashMap<u32, ()>,
    buckets: HashMap<u32, Bucket>,
    silent: Vec<Silent>,
    rate: Rate,
    rules: Arc<Vec<u8>>,
    out: SyncSender<FromGuest>,
    wake: Arc<OwnedFd>,
    commands: Receiver<Command>,
    command_wake: Arc<OwnedFd>,
    counters: Arc<Counters>,
    files: Files,
    buf: Vec<u8>,
}

/// A descriptor that wakes a thread.
pub fn waker() -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
}

/// Wakes the thread that waits on it.
pub fn wake(fd: &OwnedFd) {
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

/// Forgets that it was woken.
pub fn woken(fd: &OwnedFd) {
    let _ = rustix::io::read(fd, &mut [0; 8]);
}

/// What the receiver is connected to.
pub struct Ends {
    pub out: SyncSender<FromGuest>,
    pub wake: Arc<OwnedFd>,
    pub commands: Receiver<Command>,
    pub command_wake: Arc<OwnedFd>,
}

impl Receive {
    /// Opens the sockets.
    pub fn open(
        names: Names,
        rules: Arc<Vec<u8>>,
        rate: Rate,
        ends: Ends,
        counters: Arc<Counters>,
        files: Files,
    ) -> io::Result<Receive> {
        let Ends { out, wake, commands, command_wake } = ends;
        let (listeners, users, buckets) = (Vec::new(), HashMap::new(), HashMap::new());
        let (silent, buf) = (Vec::new(), vec![0; MESSAGE_MAX]);
        let mut receive = Receive {
            names,
            listeners,
            users,
            buckets,
            silent,
            rate,
            rules,
            out,
            wake,
            commands,
            command_wake,
            counters,
            files,
            buf,
        };
        receive.listen()?;
        Ok(receive)
    }

    /// Receives until told to stop.
    pub fn run(mut self) {
        while self.obey() {
            self.wait();
            self.gather();
            self.listen_to_silent();
            let mut listened = Instant::now();
            while self.round() {
                if !self.obey() {
                    return;
                }
                // A flood of others may go on for long; whoever was slow to speak is not waited for so long.
                if listened.elapsed() >= GATHER {
                    self.listen_to_silent();
                    listened = Instant::now();
                }
            }
        }
    }

    fn listen(&mut self) -> io::Result<()> {
        let main = match path_of(&self.names.main) {
            Some(path) => self.listen_at(&path)?,
            None => bind(&self.names.main)?,
        };
        self.listeners.push(main);
        if let Some(name) = self.names.container.clone() {
            // A squatter on the name costs containers their guests, but not the agent its life.
            self.listeners.extend(bind(&name).ok());
        }
        let known: Vec<u32> = self.users.drain().map(|(uid, ())| uid).collect();
        known.into_iter().for_each(|uid| self.listen_to(uid));
        Ok(())
    }

    /// The common socket at a path. It is in its place only when it listens, is for everybody, and the rules are
    /// beside it: whoever finds it finds all.
    fn listen_at(&self, path: &Path) -> io::Result<Listener> {
        remove_dead(path)?;
        let new = PathBuf::from(format!("{}.new", path.display()));
        let _ = fs::remove_file(&new);
        let mut listener = bind(&new.display().to_string())?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o666))?;
        self.write_rules(path)?;
        fs::rename(&new, path)?;
        listener.path = Some(path.to_owned());
        Ok(listener)
    }

    /// The socket of one user; without the right to give it to them there is only the common one.
    fn listen_to(&mut self, uid: u32) {
        if self.users.len() >= USERS_MAX || self.users.insert(uid, ()).is_some() || self.listeners.is_empty()
        {
            return;
        }
        let Some(path) = path_of(&self.names.main) else { return };
        let own = user_socket(&path, uid);
        let new = PathBuf::from(format!("{}.new", own.display()));
        let _ = fs::remove_file(&new);
        let made = bind(&new.display().to_string()).and_then(|mut listener| {
            listener.path = Some(new.clone());
            fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
            chown(&new, Some(uid), None)?;
            // In place only when it listens and belongs to its user.
            fs::rename(&new, &own)?;
            listener.path = Some(own);
            Ok(listener)
        });
        self.listeners.extend(made.ok());
    }

    fn write_rules(&self, socket: &Path) -> io::Result<()> {
        let path = PathBuf::from(format!("{}.rules", socket.display()));
        let new = PathBuf::from(format!("{}.new", path.display()));
        fs::write(&new, &*self.rules)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o644))?;
        fs::rename(new, path)
    }

    fn close(&mut self) {
        self.listeners.clear();
        if let Some(path) = path_of(&self.names.main) {
            let _ = fs::remove_file(format!("{}.rules", path.display()));
        }
    }

    /// Does what the main thread says; `false` is the end.
    fn obey(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::User(uid)) => self.listen_to(uid),
                Ok(Command::SwitchOff(true)) => self.close(),
                Ok(Command::SwitchOff(false)) => drop(self.listen()),
                Ok(Command::Rules(rules)) => {
                    self.rules = rules;
                    if let Some(path) = path_of(&self.names.main).filter(|_| !self.listeners.is_empty()) {
                        let _ = self.write_rules(&path);
                    }
                }
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => {
                    self.close();
                    return false;
                }
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    fn wait(&self) {
        let mut fds: Vec<PollFd> =
            self.listeners.iter().map(|listener| PollFd::new(&listener.fd, PollFlags::IN)).collect();
        fds.push(PollFd::new(&*self.command_wake, PollFlags::IN));
        fds.extend(self.silent.iter().map(|silent| PollFd::new(&silent.connection, PollFlags::IN)));
        let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        let _ = poll(&mut fds, Some(&patience).filter(|_| !self.silent.is_empty()));
        woken(&self.command_wake);
    }

    /// Waits for a moment, but not for guests.
    fn gather(&self) {
        let moment = Timespec { tv_sec: 0, tv_nsec: GATHER.as_nanos() as i64 };
        let _ = poll(&mut [PollFd::new(&*self.command_wake, PollFlags::IN)], Some(&moment));
    }

    /// Gives every socket its turn, however full another is; says whether there may be more.
    fn round(&mut self) -> bool {
        let mut more = false;
        for index in 0..self.listeners.len() {
            more |= self.turn(index);
        }
        more
    }

    /// Takes some messages from one socket; says whether there may be more.
    fn turn(&mut self, index: usize) -> bool {
        let mut received = 0;
        for _ in 0..TURN {
            let Some(listener) = self.listeners.get(index) else { break };
            match net::accept_with(&listener.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(connection) => {
                    received += 1;
                    self.admit(connection);
                }
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        if received > 0 {
            wake(&self.wake);
        }
        received == TURN
    }

    fn admit(&mut self, connection: OwnedFd) {
        let Ok(peer) = sockopt::socket_peercred(&connection) else { return };
        let (uid, pid) = (peer.uid.as_raw(), peer.pid.as_raw_nonzero().get() as u32);
        if !self.buckets.entry(uid).or_insert_with(|| Bucket::full(self.rate)).take(self.rate) {
            self.counters.guest_messages_flood.one();
            return;
        }
        if !self.take(&connection, pid, uid) {
            let of_user = self.silent.iter().filter(|silent| silent.uid == uid).count();
            if self.silent.len() < SILENT_MAX && of_user < SILENT_PER_USER {
                self.silent.push(Silent { connection, pid, uid, since: Instant::now() });
            } else {
                self.counters.guest_messages_flood.one();
            }
        }
    }

    fn listen_to_silent(&mut self) {
        let mut heard = false;
        for silent in std::mem::take(&mut self.silent) {
            if self.take(&silent.connection, silent.pid, silent.uid) {
                heard = true;
            } else if silent.since.elapsed() < PATIENCE {
                self.silent.push(silent);
            }
        }
        if heard {
            wake(&self.wake);
        }
    }

    /// Takes the message of a connection; `false` if there is none yet.
    fn take(&mut self, connection: &OwnedFd, pid: u32, uid: u32) -> bool {
        let (n, memory) = match receive_message(connection, &mut self.buf) {
            Ok(received) => received,
            Err(error) => return error != Errno::AGAIN,
        };
        // A connection that ends without a message was somebody looking whether we are here.
        let Some(message) = self.buf.get(..n).filter(|message| !message.is_empty()) else { return true };
        // Whatever else a program may send, reading or closing it can take for ever.
        let memory = memory.and_then(|fd| match rustix::fs::fcntl_get_seals(&fd) {
            Ok(_) => Some(fd),
            Err(_) => {
                self.files.close(fd);
                None
            }
        });
        match guest::decode(message) {
            Ok(message) => {
                self.counters.guest_messages.one();
                let _ = self.out.send(FromGuest { pid, uid, message, memory });
            }
            Err(_) => self.counters.guest_messages_bad.one(),
        }
        true
    }
}

/// A message with the descriptor that came with it.
fn receive_message(connection: &OwnedFd, buf: &mut [u8]) -> rustix::io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut iov = [io::IoSliceMut::new(buf)];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = net::recvmsg(connection, &mut iov, &mut control, flags)?;
    let mut memory = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            memory = fds.into_iter().next().or(memory);
        }
    }
    Ok((received.bytes, memory))
}

/// A user's own socket beside the common one.
pub fn user_socket(main: &Path, uid: u32) -> PathBuf {
    PathBuf::from(format!("{}.{uid}", main.display()))
}

/// The path in a socket's name, unless it is an abstract one.
pub fn path_of(name: &str) -> Option<PathBuf> {
    (!name.starts_with('@')).then(|| PathBuf::from(name))
}

fn bind(name: &str) -> io::Result<Listener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let path = path_of(name);
    let address = match &path {
        Some(path) => {
            remove_dead(path)?;
            SocketAddrUnix::new(path)?
        }
        None => SocketAddrUnix::new_abstract_name(name.strip_prefix('@').unwrap_or(name).as_bytes())?,
    };
    net::bind(&fd, &address)?;
    net::listen(fd.as_fd(), BACKLOG)?;
    Ok(Listener { fd, path })
}

/// Removes the socket of an agent that was killed; one that somebody listens on is an error.
fn remove_dead(path: &Path) -> io::Result<()> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    let is_socket = std::os::unix::fs::FileTypeExt::is_socket(&meta.file_type());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    if !is_socket || net::connect(&probe, &SocketAddrUnix::new(path)?) != Err(Errno::CONNREFUSED) {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "something else is there"));
    }
    fs::remove_file(path)
}

/// Lets a user's messages through at their rate.
struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    fn full(rate: Rate) -> Bucket {
        Bucket { tokens: rate.burst as f64, filled: Instant::now() }
    }

    fn take(&mut self, rate: Rate) -> bool {
        let now = Instant::now();
        let gained = now.duration_since(self.filled).as_secs_f64() * rate.per_second as f64;
        self.tokens = (self.tokens + gained).min(rate.burst as f64);
        self.filled = now;
        let has_one = self.tokens >= 1.0;
        if has_one {
            self.tokens -= 1.0;
        }
        has_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{channel, sync_channel};

    use record::guest::Message;
    use record::wire::{self, Writer, key, kind};
    use sample::Proc;

    use crate::files::HashLimits;

    fn connect(path: &Path) -> OwnedFd {
        let fd = net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        while net::connect(&fd, &SocketAddrUnix::new(path).unwrap()).is_err() {}
        fd
    }

    fn message() -> Vec<u8> {
        let mut buf = vec![0; 64];
        let mut out = Writer::new(&mut buf);
        out.open_map();
        for (key, value) in [(key::VERSION, wire::VERSION), (key::KIND, kind::START), (key::TIME, 77)] {
            out.uint(key);
            out.uint(value);
        }
        out.end();
        out.written().to_vec()
    }

    /// Its image would be finished without its words.
    #[test]
    fn whoever_was_slow_to_speak_is_heard_in_a_flood() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let (out, messages) = sync_channel(16);
        let (commands, orders) = channel();
        let command_wake = waker().unwrap();
        let ends = Ends { out, wake: waker().unwrap(), commands: orders, command_wake: command_wake.clone() };
        let limits = HashLimits { max_bytes: 1 << 20, bytes_per_second: 1 << 30 };
        let files = Files::start(Proc::new(dir.path()), limits, Arc::default(), |_| {}).unwrap();
        let names = Names { main: path.display().to_string(), container: None };
        let rate = Rate { per_second: 1, burst: 100 };
        let receive = Receive::open(names, Arc::default(), rate, ends, Arc::default(), files).unwrap();
        let receiver = std::thread::spawn(move || receive.run());
        // Taken before it has said anything.
        let slow = connect(&path);
        std::thread::park_timeout(Duration::from_millis(100));
        let is_over = Arc::new(AtomicBool::new(false));
        let flood = |_| {
            let (path, is_over) = (path.clone(), is_over.clone());
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = net::send(connect(&path), b"nothing", net::SendFlags::DONTWAIT);
                }
            })
        };
        let floods: Vec<_> = (0..4).map(flood).collect();
        std::thread::park_timeout(Duration::from_millis(300));
        net::send(&slow, &message(), net::SendFlags::empty()).unwrap();
        let heard = messages.recv_timeout(Duration::from_secs(1));
        is_over.store(true, Ordering::Relaxed);
        floods.into_iter().for_each(|flood| flood.join().unwrap());
        commands.send(Command::Stop).unwrap();
        wake(&command_wake);
        receiver.join().unwrap();
        assert!(matches!(heard.unwrap().message, Message::Start(start) if start.time == 77));
    }
}
