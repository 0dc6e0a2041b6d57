//! Reads, checks, decodes and redacts messages, in turns between users, where only the sender can be held up.
//!
//! Each user has a line of connections, and at most one worker serves it at a time, for a short turn; then the next
//! user has theirs. Reading or closing a connection closes the descriptors that were passed over it, and that may block
//! for as long as the user wishes (a socket that lingers). A worker that is stuck is sent a signal, which ends such a
//! wait; what a signal does not end costs the user their own line and one worker, and another worker takes its place,
//! up to [`WORKERS_MAX`].

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use record::guest::{self, Message};
use record::wire::MESSAGE_MAX;

use super::message::{Connection, Received, receive};
use super::rate::{Bucket, Rate};
use super::wake;
use crate::clock::monotonic_ns;
use crate::counters::Counters;
use crate::limits;
use crate::shares::Shares;
use crate::table::FromGuest;

/// Workers that may be stuck with one user each, and one that is not.
const WORKERS_MAX: usize = 24;
/// What a worker does for one user before the next one's turn.
const TURN_TASKS: usize = 32;
const TURN_TIME: Duration = Duration::from_millis(2);
/// A worker that has been with one user for this long gets a signal, and help.
const STUCK: Duration = Duration::from_millis(20);
/// Microseconds on a processor for one user per second, and at once: a flood leaves the agent's processor to its other threads.
const WORK: Rate = Rate { per_second: 400_000, burst: 2_000_000 };
/// Users whose work is remembered; those who have not sent anything for long are forgotten.
const USERS_KEPT: usize = 1024;

/// What a worker does with a connection.
pub enum Task {
    Receive(Connection),
    /// One that is refused, or given up.
    Close(OwnedFd),
}

/// What the workers need.
pub struct Desk {
    pub out: Sender<FromGuest>,
    pub wake: Arc<OwnedFd>,
    pub counters: Arc<Counters>,
    /// Bytes that users' messages may take, once decoded.
    pub memory: Shares,
    /// Messages that may wait for the main thread.
    pub queue: Shares,
    /// Descriptors of memory for late objects.
    pub descriptors: Shares,
    /// The site's rules, packed.
    pub rules: Mutex<Arc<Vec<u8>>>,
}

/// The workers and the lines they serve.
#[derive(Clone)]
pub struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    desk: Desk,
    lines: Mutex<Lines>,
    more: Condvar,
    /// Woken when a connection is found silent.
    silence: Arc<OwnedFd>,
}

#[derive(Default)]
struct Lines {
    of: HashMap<u32, Line>,
    /// Users with something in their line whom nobody serves, in the order of their turns.
    turns: VecDeque<u32>,
    /// Users whose share of work is used up, with something in their line.
    resting: Vec<u32>,
    work: HashMap<u32, Bucket>,
    /// Connections without a message yet.
    silent: Vec<Connection>,
    workers: Vec<Worker>,
    tasks: usize,
}

#[derive(Default)]
struct Line {
    tasks: VecDeque<Task>,
    /// It is among those who wait for their turn, or rest, or has a worker.
    is_known: bool,
}

/// What was done for a user, and the time on a processor that it took.
struct Turn {
    user: u32,
    done: usize,
    worked: Duration,
}

struct Worker {
    thread: libc::pthread_t,
    /// Whom it has served, and since when.
    serves: Option<(u32, Instant)>,
}

impl Workers {
    /// Starts the first worker. `silence` is woken when there are silent connections to take.
    pub fn start(desk: Desk, silence: Arc<OwnedFd>) -> io::Result<Workers> {
        interrupt::install()?;
        let (lines, more) = (Mutex::default(), Condvar::new());
        let workers = Workers { shared: Arc::new(Shared { desk, lines, more, silence }) };
        workers.shared.clone().hire()?;
        Ok(workers)
    }

    /// Puts a task into a user's line.
    pub fn submit(&self, user: u32, task: Task) {
        let mut lines = self.shared.lines();
        lines.tasks += 1;
        let line = lines.of.entry(user).or_default();
        line.tasks.push_back(task);
        if !std::mem::replace(&mut line.is_known, true) {
            lines.turns.push_back(user);
        }
        drop(lines);
        self.shared.more.notify_one();
    }

    /// Users with at least so many tasks in their line.
    pub fn users_with_lines_of(&self, count: usize) -> Vec<u32> {
        let lines = self.shared.lines();
        lines.of.iter().filter(|(_, line)| line.tasks.len() >= count).map(|(user, _)| *user).collect()
    }

    /// How many tasks are not done yet.
    pub fn tasks(&self) -> usize {
        self.shared.lines().tasks
    }

    /// Users with connections that nobody has read yet, or that have said nothing when they were looked at.
    pub fn users_with_lines(&self) -> HashSet<u32> {
        let lines = self.shared.lines();
        lines.of.keys().copied().chain(lines.silent.iter().map(|silent| silent.user)).collect()
    }

    /// Connections that have said nothing yet.
    pub fn take_silent(&self) -> Vec<Connection> {
        std::mem::take(&mut self.shared.lines().silent)
    }

    pub fn set_rules(&self, rules: Arc<Vec<u8>>) {
        *self.shared.desk.rules.lock().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    /// Sends a signal to workers that are stuck, and starts another one if nobody is left to serve those who wait. Says
    /// whether anybody is being served, or waits: then this is to be called again soon.
    pub fn watch(&self) -> bool {
        let mut lines = self.shared.lines();
        lines.wake_rested();
        let stuck = |worker: &&Worker| worker.serves.is_some_and(|(_, since)| since.elapsed() >= STUCK);
        let count = lines.workers.iter().filter(stuck).map(|worker| interrupt::send(worker.thread)).count();
        let are_all_stuck = count == lines.workers.len();
        let is_anybody_waiting = !lines.turns.is_empty() || !lines.resting.is_empty();
        let is_busy = is_anybody_waiting || lines.workers.iter().any(|worker| worker.serves.is_some());
        let is_help_needed = are_all_stuck && !lines.turns.is_empty() && count < WORKERS_MAX;
        drop(lines);
        self.shared.more.notify_one();
        if is_help_needed {
            // A machine without room for another thread is asked again at the next call.
            let _ = self.shared.clone().hire();
        }
        is_busy
    }
}

impl Lines {
    /// Gives those their turn again who have rested.
    fn wake_rested(&mut self) {
        let Lines { resting, work, turns, .. } = self;
        let rested = resting.extract_if(.., |user| work.get_mut(user).is_none_or(|work| work.has_any(WORK)));
        turns.extend(rested);
    }

    /// Charges a user for a turn, and lets them wait for the next one, or rest.
    fn line_up(&mut self, user: u32, worked: Duration) {
        if self.work.len() > USERS_KEPT {
            self.work.retain(|_, work| !work.is_full(WORK));
        }
        let work = self.work.entry(user).or_insert_with(|| Bucket::full(WORK));
        work.spend(WORK, worked.as_micros() as f64);
        let has_more = self.of.get(&user).is_some_and(|line| !line.tasks.is_empty());
        match (has_more, work.has_any(WORK)) {
            (false, _) => drop(self.of.remove(&user)),
            (true, true) => self.turns.push_back(user),
            (true, false) => self.resting.push(user),
        }
    }
}

impl Shared {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hire(self: Arc<Self>) -> io::Result<()> {
        thread::Builder::new().name("messages".into()).stack_size(256 * 1024).spawn(move || self.work())?;
        Ok(())
    }

    fn work(&self) {
        limits::take_short_turns();
        let number = {
            let mut lines = self.lines();
            lines.workers.push(Worker { thread: interrupt::this_thread(), serves: None });
            lines.workers.len() - 1
        };
        let mut buf = vec![0; MESSAGE_MAX];
        loop {
            let (user, mut tasks) = self.begin_turn(number);
            let (count, began) = (tasks.len(), cpu_time());
            let silent = self.serve(&mut tasks, &mut buf);
            let turn = Turn { user, done: count - tasks.len(), worked: cpu_time().saturating_sub(began) };
            self.end_turn(number, turn, tasks, silent);
        }
    }

    /// Waits for a user, and takes what is next in their line.
    fn begin_turn(&self, number: usize) -> (u32, VecDeque<Task>) {
        let mut lines = self.lines();
        loop {
            if let Some(user) = lines.turns.pop_front()
                && let Some(line) = lines.of.get_mut(&user)
            {
                let count = line.tasks.len().min(TURN_TASKS);
                let tasks: VecDeque<Task> = line.tasks.drain(..count).collect();
                if let Some(worker) = lines.workers.get_mut(number) {
                    worker.serves = Some((user, Instant::now()));
                }
                return (user, tasks);
            }
            lines = self.more.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Puts back what there was no time for; the user's next turn is behind those who wait.
    fn end_turn(&self, number: usize, turn: Turn, rest: VecDeque<Task>, silent: Vec<Connection>) {
        let mut lines = self.lines();
        lines.tasks -= turn.done;
        if let Some(line) = lines.of.get_mut(&turn.user) {
            rest.into_iter().rev().for_each(|task| line.tasks.push_front(task));
        }
        if let Some(worker) = lines.workers.get_mut(number) {
            worker.serves = None;
        }
        lines.line_up(turn.user, turn.worked);
        if !silent.is_empty() {
            lines.silent.extend(silent);
            wake(&self.silence);
        }
    }

    /// Does a user's tasks until their turn is over; gives the connections that have said nothing yet.
    fn serve(&self, tasks: &mut VecDeque<Task>, buf: &mut [u8]) -> Vec<Connection> {
        let began = Instant::now();
        let (mut silent, mut heard) = (Vec::new(), false);
        while began.elapsed() < TURN_TIME
            && let Some(task) = tasks.pop_front()
        {
            let connection = match task {
                Task::Receive(connection) => connection,
                Task::Close(fd) => {
                    drop(fd);
                    continue;
                }
            };
            match receive(&connection, buf) {
                Received::Silence => silent.push(connection),
                Received::Nothing => {}
                Received::Forged => self.desk.counters.guest_messages_forged.one(),
                Received::Message(len, memory) => {
                    heard |= self.desk.accept(&connection, buf.get(..len).unwrap_or(&[]), memory);
                }
            }
        }
        if heard {
            wake(&self.desk.wake);
        }
        silent
    }
}

impl Desk {
    /// Decodes and redacts a message and hands it to the main thread; says whether it did.
    fn accept(&self, connection: &Connection, bytes: &[u8], memory: Option<OwnedFd>) -> bool {
        let Connection { pid, uid, user, .. } = *connection;
        let Ok(mut message) = guest::decode(bytes) else {
            self.counters.guest_messages_bad.one();
            return false;
        };
        let Some(slot) = self.queue.hold(user, 1) else {
            self.counters.guest_messages_flood.one();
            return false;
        };
        let Some(held) = self.memory.hold(user, message.weight()) else {
            self.counters.guest_messages_memory.one();
            return false;
        };
        if let Message::Start(start) = &mut message {
            let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner).clone();
            crate::privacy::redact(start, &rules);
        }
        let memory = memory.and_then(|fd| {
            let descriptor = self.descriptors.hold(user, 1);
            if descriptor.is_none() {
                self.counters.late_unwatched.one();
            }
            Some((fd, descriptor?))
        });
        self.counters.guest_messages.one();
        let received = monotonic_ns();
        self.out.send(FromGuest { pid, uid, user, message, memory, held, slot, received }).is_ok()
    }
}

/// The time that this thread has been on a processor.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// A signal that does nothing but end a wait.
mod interrupt {
    use std::io;

    /// Ignored by default, so a stray one harms nobody.
    const SIGNAL: libc::c_int = libc::SIGURG;

    extern "C" fn do_nothing(_: libc::c_int) {}

    /// Without `SA_RESTART`, so that the wait is not begun again.
    pub fn install() -> io::Result<()> {
        // SAFETY: all zero is a valid sigaction, with an empty mask and no flags.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = do_nothing as *const () as usize;
        // SAFETY: the handler does nothing, so it may run at any moment.
        match unsafe { libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub fn this_thread() -> libc::pthread_t {
        // SAFETY: has no preconditions.
        unsafe { libc::pthread_self() }
    }

    pub fn send(thread: libc::pthread_t) {
        // SAFETY: workers never end, so the thread exists.
        unsafe { libc::pthread_kill(thread, SIGNAL) };
    }
}
