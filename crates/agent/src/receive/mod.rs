//! Receives the guests' messages, fairly.
//!
//! One common socket, one abstract name for containers, and one socket for each user seen on the node, beside
//! the common one (`NAME.UID`, mode 0600): a user can fill only their own queue. Each guest connects, sends
//! one message and closes; a connection waits in the queue with its message until it is taken, so the guest
//! never waits for the agent. Who speaks is what the kernel says of the connection, never what the message
//! says.
//!
//! This thread only accepts. It never reads nor closes a connection, since either may block for as long as its user
//! wishes ([`message`]): that is for the [`workers`].

mod heard;
mod listen;
mod message;
mod rate;
mod workers;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::clock::monotonic_ns;
use crate::counters::Counters;
use crate::owners::Owners;
use crate::shares::Shares;
use crate::table::FromGuest;

pub use heard::{Heard, Hearing};
use listen::{BACKLOG, Listener, remove_dead};
pub use listen::{Names, path_of, user_socket};
use message::Connection;
use rate::Bucket;
pub use rate::Rate;
use workers::{Desk, Task, Workers};

/// Once one guest has come, others are let come for this long before any is taken: a program that connects to an
/// agent which waits has to wake it, and waking an idle core takes longer than the message.
const GATHER: Duration = Duration::from_millis(10);
/// While workers have something to do, they are looked after this often.
const WATCH: Duration = Duration::from_millis(10);
/// When the agent stops, messages that have come are read for so long.
const LAST: Duration = Duration::from_millis(500);
/// Connections taken from one socket before the next one's turn.
const TURN: usize = 32;
/// A guest connects just before it sends; one that is interrupted in between is waited for this long.
const PATIENCE: Duration = Duration::from_secs(2);
/// Connections without a message that are waited for; a user has their share of them.
const SILENT_MAX: usize = 1024;
/// Connections in a user's line, after which no more are taken from the user's own socket.
const LINE_MAX: usize = 512;
/// Connections in all lines, after which no more are taken from the common sockets.
const LINES_MAX: usize = 32_768;
/// Messages that may wait for the main thread; a user has their share of them.
const QUEUE: usize = 8192;
/// Users whose rate is remembered; those who have not sent anything for a while are forgotten.
const RATES_KEPT: usize = 1024;

/// What the main thread tells the receiver.
#[derive(Debug)]
pub enum Command {
    /// A user was seen on the node.
    User(u32),
    /// A user has not been seen for long, and their socket is needed for others.
    Gone(u32),
    /// Close all sockets, or open them again.
    SwitchOff(bool),
    /// New rules for the guests.
    Rules(Arc<Vec<u8>>),
    /// Close all sockets and end.
    Stop,
}

/// The receiving end, run on a thread of its own.
pub struct Receive {
    names: Names,
    /// Empty while the agent is switched off.
    listeners: Vec<Listener>,
    users: Vec<u32>,
    owners: Owners,
    rates: HashMap<u32, Bucket>,
    silent: Vec<Connection>,
    rate: Rate,
    rules: Arc<Vec<u8>>,
    workers: Workers,
    hearing: Hearing,
    commands: Receiver<Command>,
    command_wake: Arc<OwnedFd>,
    counters: Arc<Counters>,
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
    pub out: Sender<FromGuest>,
    pub wake: Arc<OwnedFd>,
    pub commands: Receiver<Command>,
    pub command_wake: Arc<OwnedFd>,
}

/// What messages may take, and whose they are.
pub struct Bounds {
    pub rate: Rate,
    /// Bytes.
    pub memory: Shares,
    /// Descriptors of memory for late objects.
    pub descriptors: Shares,
    pub owners: Owners,
}

impl Receive {
    /// Opens the sockets and starts the workers.
    pub fn open(
        names: Names,
        rules: Arc<Vec<u8>>,
        bounds: Bounds,
        ends: Ends,
        counters: Arc<Counters>,
    ) -> io::Result<Receive> {
        let Ends { out, wake, commands, command_wake } = ends;
        let Bounds { rate, memory, descriptors, owners } = bounds;
        let desk = Desk {
            out,
            wake,
            counters: counters.clone(),
            memory,
            queue: Shares::new(QUEUE),
            descriptors,
            rules: Mutex::new(rules.clone()),
        };
        let workers = Workers::start(desk, command_wake.clone())?;
        let mut receive = Receive {
            names,
            listeners: Vec::new(),
            users: Vec::new(),
            owners,
            rates: HashMap::new(),
            silent: Vec::new(),
            rate,
            rules,
            hearing: Hearing::new(workers.clone()),
            workers,
            commands,
            command_wake,
            counters,
        };
        receive.listen()?;
        Ok(receive)
    }

    /// Tells the main thread how far this one has come.
    pub fn hearing(&self) -> Hearing {
        self.hearing.clone()
    }

    /// Receives until told to stop.
    pub fn run(mut self) {
        while self.receive() {}
        self.finish();
        // What is still open is closed by the end of the process, which waits for nothing.
        std::mem::forget(self);
    }

    /// Takes what has come by now, but waits for nobody who is stuck.
    fn finish(&mut self) {
        self.close();
        let end = Instant::now() + LAST;
        while self.workers.watch() && Instant::now() < end {
            self.gather();
        }
        self.counters.guest_messages_unread.add(self.workers.tasks() as u64);
    }

    /// Waits for guests and takes them; `false` is the end.
    fn receive(&mut self) -> bool {
        if !self.obey() {
            return false;
        }
        self.wait();
        self.gather();
        while !self.take_connections() {
            if !self.obey() {
                return false;
            }
        }
        true
    }

    fn listen(&mut self) -> io::Result<()> {
        let main = match path_of(&self.names.main) {
            Some(path) => {
                remove_dead(&path)?;
                // Whoever finds the socket finds the rules beside it.
                Listener::at(&path, None, || self.write_rules(&path))?
            }
            None => Listener::bind(&self.names.main)?,
        };
        self.listeners.push(main);
        if let Some(name) = &self.names.container {
            // A squatter on the name costs containers their guests, but not the agent its life.
            self.listeners.extend(Listener::bind(name).ok());
        }
        std::mem::take(&mut self.users).into_iter().for_each(|uid| self.listen_to(uid));
        Ok(())
    }

    /// The socket of one user; without the right to give it to them there is only the common one.
    fn listen_to(&mut self, uid: u32) {
        if self.users.contains(&uid) {
            return;
        }
        self.users.push(uid);
        let Some(path) = path_of(&self.names.main).filter(|_| !self.listeners.is_empty()) else { return };
        self.listeners.extend(Listener::at(&user_socket(&path, uid), Some(uid), || Ok(())).ok());
    }

    fn write_rules(&self, socket: &Path) -> io::Result<()> {
        let path = PathBuf::from(format!("{}.rules", socket.display()));
        let new = PathBuf::from(format!("{}.new", path.display()));
        fs::write(&new, &*self.rules)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o644))?;
        fs::rename(new, path)
    }

    /// Closes all sockets; nobody who waits in one is left to be closed with it.
    fn close(&mut self) {
        for listener in std::mem::take(&mut self.listeners) {
            self.retire(listener);
        }
        if let Some(path) = path_of(&self.names.main) {
            let _ = fs::remove_file(format!("{}.rules", path.display()));
        }
    }

    fn retire(&mut self, mut listener: Listener) {
        listener.refuse();
        while let Ok(connection) = listener.accept() {
            self.admit(connection);
        }
    }

    fn forget(&mut self, uid: u32) {
        self.users.retain(|known| *known != uid);
        let gone: Vec<Listener> =
            self.listeners.extract_if(.., |listener| listener.user == Some(uid)).collect();
        gone.into_iter().for_each(|listener| self.retire(listener));
    }

    /// Does what the main thread says; `false` is the end.
    fn obey(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::User(uid)) => self.listen_to(uid),
                Ok(Command::Gone(uid)) => self.forget(uid),
                Ok(Command::SwitchOff(true)) => self.close(),
                Ok(Command::SwitchOff(false)) => drop(self.listen()),
                Ok(Command::Rules(rules)) => {
                    self.rules = rules.clone();
                    self.workers.set_rules(rules);
                    if let Some(path) = path_of(&self.names.main).filter(|_| !self.listeners.is_empty()) {
                        let _ = self.write_rules(&path);
                    }
                }
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    fn wait(&mut self) {
        let is_busy = self.workers.watch();
        let open = self.open_listeners();
        let mut fds: Vec<PollFd> =
            open.map(|(_, listener)| PollFd::new(&listener.fd, PollFlags::IN)).collect();
        fds.push(PollFd::new(&*self.command_wake, PollFlags::IN));
        fds.extend(self.silent.iter().map(|silent| PollFd::new(&silent.fd, PollFlags::IN)));
        let limit = if is_busy { WATCH } else { PATIENCE };
        let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        let _ = poll(&mut fds, Some(&timeout).filter(|_| is_busy || !self.silent.is_empty()));
        woken(&self.command_wake);
    }

    /// The sockets from which connections may be taken now. A user whose line is long waits in the kernel's queue, in
    /// which only they can wait; the common sockets are taken from as long as any descriptor can be.
    fn open_listeners(&self) -> impl Iterator<Item = (usize, &Listener)> {
        let crowded = self.workers.users_with_lines_of(LINE_MAX);
        let is_room = self.workers.tasks() < LINES_MAX;
        self.listeners.iter().enumerate().filter(move |(_, listener)| match listener.user {
            Some(user) => !crowded.contains(&user),
            None => is_room,
        })
    }

    /// Waits for a moment, but not for guests.
    fn gather(&self) {
        let moment = Timespec { tv_sec: 0, tv_nsec: GATHER.as_nanos() as i64 };
        let _ = poll(&mut [PollFd::new(&*self.command_wake, PollFlags::IN)], Some(&moment));
    }

    /// Takes all who have connected by now, in turns between the sockets; `false` if more may have come since.
    fn take_connections(&mut self) -> bool {
        let began = monotonic_ns();
        self.follow_silent();
        let mut is_all = self.workers.tasks() < LINES_MAX;
        let mut open: Vec<usize> = self.open_listeners().map(|(index, _)| index).collect();
        // After so many turns, all are taken that waited when this began, however many come.
        for _ in 0..=BACKLOG as usize / TURN {
            open.retain(|index| match self.take_turn(*index) {
                Ok(is_more) => is_more,
                Err(_) => {
                    is_all = false;
                    false
                }
            });
            self.workers.watch();
            if open.is_empty() {
                break;
            }
        }
        if is_all {
            self.hearing.note_accepted_until(began);
        }
        open.is_empty()
    }

    /// Takes a few connections from a socket; says whether there may be more.
    fn take_turn(&mut self, index: usize) -> Result<bool, Errno> {
        for _ in 0..TURN {
            let Some(listener) = self.listeners.get(index) else { return Ok(false) };
            match listener.accept() {
                Ok(connection) => self.admit(connection),
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Puts a connection into its user's line.
    fn admit(&mut self, fd: OwnedFd) {
        let Ok(peer) = sockopt::socket_peercred(&fd) else {
            self.workers.submit(u32::MAX, Task::Close(fd));
            return;
        };
        let (uid, pid) = (peer.uid.as_raw(), peer.pid.as_raw_nonzero().get() as u32);
        let user = self.owners.of(uid);
        let rate = self.rate;
        if self.rates.len() > RATES_KEPT {
            self.rates.retain(|_, bucket| !bucket.is_full(rate));
        }
        let is_in_time = self.rates.entry(user).or_insert_with(|| Bucket::full(rate)).take(rate);
        if is_in_time {
            let connection = Connection { fd, pid, uid, user, since: Instant::now() };
            self.workers.submit(user, Task::Receive(connection));
        } else {
            self.counters.guest_messages_flood.one();
            self.workers.submit(user, Task::Close(fd));
        }
    }

    /// Has those read who have spoken since, and gives up those who have not for long.
    fn follow_silent(&mut self) {
        self.silent.extend(self.workers.take_silent());
        let mut of_user: HashMap<u32, usize> = HashMap::new();
        for silent in std::mem::take(&mut self.silent) {
            let user = silent.user;
            let count = of_user.entry(user).or_default();
            let is_share = *count < SILENT_MAX.saturating_sub(self.silent.len());
            if has_spoken(&silent.fd) {
                self.workers.submit(user, Task::Receive(silent));
            } else if silent.since.elapsed() >= PATIENCE || !is_share {
                if !is_share {
                    self.counters.guest_messages_flood.one();
                }
                self.workers.submit(user, Task::Close(silent.fd));
            } else {
                *count += 1;
                self.silent.push(silent);
            }
        }
    }
}

/// Whether there is something to be read, or the other end is closed.
fn has_spoken(connection: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(connection, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
}

#[cfg(test)]
mod tests;
