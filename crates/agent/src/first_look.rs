//! Looks at each program the moment it is executed, on a thread of its own: what `/proc` says of a short program is soon gone.
//!
//! The thread takes the execs from the kernel and adds to each what can be read at once ([`FirstLook`]). The main thread takes them some
//! milliseconds later, many at a time, and is not woken for each.
//!
//! What stands in a process's memory is read under the lock of that memory, and whoever holds it may be waiting for a file system that does
//! not answer. Nothing but the end of the reader ends such a wait. So a thread that is stuck is left to itself, another one goes on
//! with the execs behind it, and the user rests ([`crate::peek`]).

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sample::Proc;
use sample::process::{Exe, Root, Stat, Status};

use crate::clock::monotonic_ns;
use crate::kernel::Event;
use crate::kernel::connector::{Numbered, receive};
use crate::kernel::netlink::Socket;
use crate::limits;
use crate::owners::Owners;
use crate::peek::{self, Peeks};
use crate::receive::{wake, waker, woken};
use crate::table::usage;

/// What was read of programs that the main thread has not taken yet: so many, and so many bytes.
const KEPT: usize = 512;
const KEPT_BYTES: usize = 4 * 1024 * 1024;
/// Execs taken from the kernel at once.
const BATCH: usize = 64;
/// How often the thread looks whether it should end, while it waits.
const PATIENCE: Duration = Duration::from_millis(100);

/// What `/proc` said of a program when it had just been executed.
#[derive(Debug, Default)]
pub struct FirstLook {
    /// When all of it had been read, monotonic.
    pub at: u64,
    pub namespace: Option<u64>,
    /// Where the mount namespace is neither the agent's nor that of the first process.
    pub root: Option<Root>,
    pub exe: Option<Exe>,
    pub cgroup: Option<Vec<u8>>,
    pub terminal: Option<Terminal>,
    /// What the process had used before. How much of it was the kernel's, `stat` says; that of less than a millisecond is not asked for.
    pub cpu_ns: Option<u64>,
    pub stat: Option<Stat>,
    pub cwd: Option<Vec<u8>>,
    pub memory: Memory,
}

/// The session of the terminal in which a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminal {
    pub leader: u32,
    /// When the leader began, in clock ticks since boot, if it is the process itself.
    pub start_ticks: Option<u64>,
}

/// What stands in the process's memory.
#[derive(Debug, Default)]
pub struct Memory {
    pub argv: Option<(Vec<Vec<u8>>, bool)>,
    pub environ: Option<Vec<Vec<u8>>>,
    /// Where the preload library is asked for.
    pub status: Option<Status>,
}

impl Memory {
    /// To be read where the reader may hang.
    pub fn read(proc: &Proc, pid: u32) -> Memory {
        let (argv, environ) = (proc.argv(pid), proc.environ(pid));
        let is_preloaded = environ.iter().flatten().any(|variable| asks_for_preload(variable));
        Memory { argv, environ, status: if is_preloaded { proc.status(pid) } else { None } }
    }

    fn bytes(&self) -> usize {
        let lists = [self.argv.as_ref().map(|(list, _)| list), self.environ.as_ref()];
        lists.into_iter().flatten().flatten().map(|text| text.len() + size_of::<Vec<u8>>()).sum()
    }
}

/// Whether a variable asks the loader for the preload library.
pub fn asks_for_preload(variable: &[u8]) -> bool {
    let value = variable.strip_prefix(b"LD_PRELOAD=");
    value.is_some_and(|value| value.windows(11).any(|part| part == b"libjobglass"))
}

/// Reads what no process can keep from being read.
#[derive(Clone)]
pub struct Glance {
    pub proc: Proc,
    /// The mount namespaces of the agent and of the first process: no containers are there.
    pub own_namespace: Option<u64>,
    pub host_namespace: Option<u64>,
    /// It is the kernel's own, so system calls say the same.
    is_live: bool,
}

impl Glance {
    pub fn new(proc: Proc) -> Glance {
        let own_namespace = proc.mount_namespace(std::process::id());
        let host_namespace = proc.mount_namespace(1);
        let is_live = proc.path(1, "stat").starts_with("/proc");
        Glance { proc, own_namespace, host_namespace, is_live }
    }

    /// The number of a process's mount namespace, and its root if containers may be there.
    pub fn namespace(&self, pid: u32) -> (Option<u64>, Option<Root>) {
        let number = self.proc.mount_namespace(pid);
        let is_elsewhere = number.is_some() && number != self.own_namespace && number != self.host_namespace;
        (number, is_elsewhere.then(|| self.proc.root(pid)).flatten())
    }

    /// The process that began the session in which a process is; 0 is none that is seen from here.
    fn session_leader(&self, pid: u32) -> Option<u32> {
        if !self.is_live {
            return self.proc.stat(pid).map(|stat| stat.session);
        }
        // SAFETY: takes and gives numbers. (rustix takes 0 for impossible, which it is not.)
        let leader = unsafe { libc::getsid(pid as i32) };
        u32::try_from(leader).ok()
    }

    /// Where a process is, and what it executes.
    pub fn at(&self, pid: u32) -> FirstLook {
        let (namespace, root) = self.namespace(pid);
        let (exe, cgroup) = (self.proc.exe(pid), self.proc.cgroup(pid));
        // Of a process that is gone nothing else is asked for.
        let is_there = namespace.is_some() || exe.is_some() || cgroup.is_some();
        if !is_there {
            return FirstLook { at: monotonic_ns(), ..FirstLook::default() };
        }
        let cwd = self.proc.cwd(pid);
        let leader = self.session_leader(pid);
        let cpu_ns = self.proc.cpu_ns(pid);
        // Reading it takes as long as several other files.
        let is_asked = leader == Some(pid) || cpu_ns.is_some_and(|used| used >= usage::ASKED_NS);
        let stat = if is_asked { self.proc.stat(pid) } else { None };
        let own_ticks = || stat.as_ref().map(|stat| stat.start_ticks);
        let terminal = leader
            .map(|leader| Terminal { leader, start_ticks: if leader == pid { own_ticks() } else { None } });
        FirstLook {
            at: monotonic_ns(),
            namespace,
            root,
            exe,
            cgroup,
            terminal,
            cpu_ns,
            stat,
            cwd,
            memory: Memory::default(),
        }
    }
}

/// An exec, and what was seen of the program.
pub struct Seen {
    pub exec: Numbered,
    pub look: FirstLook,
}

/// What the main thread takes at once.
#[derive(Default)]
pub struct Taken {
    pub seen: Vec<Seen>,
    pub messages: usize,
    pub overrun: bool,
    /// Whatever was executed until then has been taken, monotonic.
    pub until: u64,
}

/// What the threads need to know.
#[derive(Clone)]
pub struct Around {
    pub glance: Glance,
    pub peeks: Peeks,
    pub owners: Owners,
}

/// The threads that look; dropped, they end.
pub struct Looker(Arc<Shared>);

struct Shared {
    around: Around,
    socket: Mutex<Socket>,
    /// The socket's descriptor, to wait on it without its lock.
    readable: OwnedFd,
    state: Mutex<State>,
    /// The main thread has taken what was seen.
    taken: Condvar,
    /// There is nothing to look at any more.
    idle: Condvar,
    /// Written when there is something for the main thread, which it has not been told.
    told: Arc<OwnedFd>,
    end: Arc<OwnedFd>,
    is_over: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Taken from the kernel, and not looked at.
    execs: VecDeque<Numbered>,
    /// When the program was executed that is being looked at.
    in_hand: Option<u64>,
    /// What is known of it while its memory is read.
    current: Option<Current>,
    seen: Taken,
    bytes: usize,
    /// The execs that were taken are all there were until then.
    received_until: u64,
    /// A thread may have taken execs from the kernel that are not among these yet.
    is_busy: bool,
    is_told: bool,
    /// The thread that is not stuck.
    worker: Option<Arc<Worker>>,
}

struct Current {
    seen: Seen,
    since: Instant,
}

/// One thread.
#[derive(Default)]
struct Worker {
    /// Its number; 0 until it has begun.
    number: AtomicI32,
    /// The user whose process it is stuck with.
    stuck_with: Mutex<Option<u32>>,
}

impl Looker {
    /// Gives the socket back if there can be no thread.
    pub fn start(socket: Socket, around: Around) -> Result<Looker, Socket> {
        Looker::start_with(socket, around, VecDeque::new())
    }

    /// The same, with execs that were taken from the kernel before.
    fn start_with(socket: Socket, around: Around, execs: VecDeque<Numbered>) -> Result<Looker, Socket> {
        let made =
            socket.as_fd().try_clone_to_owned().and_then(|readable| Ok((readable, waker()?, waker()?)));
        let Ok((readable, told, end)) = made else { return Err(socket) };
        let shared = Arc::new(Shared {
            around,
            socket: Mutex::new(socket),
            readable,
            state: Mutex::new(State { execs, ..State::default() }),
            taken: Condvar::new(),
            idle: Condvar::new(),
            told,
            end,
            is_over: AtomicBool::new(false),
        });
        if shared.hire(&mut shared.state()) {
            return Ok(Looker(shared));
        }
        match Arc::try_unwrap(shared) {
            Ok(shared) => Err(shared.socket.into_inner().unwrap_or_else(PoisonError::into_inner)),
            Err(shared) => Ok(Looker(shared)),
        }
    }

    /// Readable when something was seen since the last call of [`Looker::take`].
    pub fn told(&self) -> BorrowedFd<'_> {
        self.0.told.as_fd()
    }

    /// Whether a thread is at work, or stuck.
    pub fn is_looking(&self) -> bool {
        let state = self.0.state();
        state.in_hand.is_some() || !state.execs.is_empty()
    }

    /// Waits until every exec has been looked at that the kernel has told, or for so long.
    pub fn catch_up(&self, longest: Duration) {
        let began = Instant::now();
        let mut state = self.0.state();
        while state.is_at_work() || is_readable(&self.0.readable) {
            let Some(left) = longest.checked_sub(began.elapsed()).filter(|_| !state.is_full()) else {
                return;
            };
            let wait = self.0.idle.wait_timeout(state, left.min(PATIENCE));
            state = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes what was seen so far.
    pub fn take(&self) -> Taken {
        let now = monotonic_ns();
        let is_readable = is_readable(&self.0.readable);
        let mut state = self.0.state();
        self.0.rescue(&mut state);
        let mut taken = std::mem::take(&mut state.seen);
        let first = state.execs.iter().map(|exec| exec.time).chain(state.in_hand).min();
        taken.until = match first {
            None if !is_readable && !state.is_busy => now,
            None => state.received_until,
            Some(first) => state.received_until.min(first.saturating_sub(1)),
        };
        state.bytes = 0;
        if std::mem::take(&mut state.is_told) {
            woken(&self.0.told);
        }
        self.0.taken.notify_all();
        taken
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
        wake(&self.0.end);
        self.0.taken.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread; says whether there is one.
    fn hire(self: &Arc<Shared>, state: &mut State) -> bool {
        let worker = Arc::new(Worker::default());
        let (shared, own) = (self.clone(), worker.clone());
        let run = move || {
            limits::take_short_turns();
            own.number.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
            shared.run(&own);
        };
        let is_hired = thread::Builder::new().name("look".into()).stack_size(256 * 1024).spawn(run).is_ok();
        state.worker = is_hired.then_some(worker);
        is_hired
    }

    /// A thread that is stuck is left to itself, and what it was looking at is taken as far as it was seen.
    fn rescue(self: &Arc<Shared>, state: &mut State) {
        if state.worker.is_none() {
            self.hire(state);
            return;
        }
        let is_late = state.current.as_ref().is_some_and(|current| current.since.elapsed() > peek::PATIENCE);
        let Some(worker) = state.worker.clone().filter(|_| is_late) else { return };
        if peek::is_running(worker.number.load(Ordering::Relaxed)) {
            // On a busy machine it may have to wait for a processor, which is nobody's fault.
            return;
        }
        let Some(Current { seen, .. }) = state.current.take() else { return };
        let user = self.user_of(&seen.exec);
        *worker.stuck_with.lock().unwrap_or_else(PoisonError::into_inner) = Some(user);
        self.around.peeks.blame(user);
        state.keep(seen);
        self.hire(state);
    }

    fn run(&self, worker: &Arc<Worker>) {
        while !self.is_over.load(Ordering::Relaxed) {
            let next = {
                let mut state = self.state();
                if !state.is_of(worker) {
                    return;
                }
                let next = state.execs.pop_front();
                (state.in_hand, state.is_busy) = (next.map(|exec| exec.time), true);
                next
            };
            match next {
                Some(exec) => {
                    if !self.look(exec, worker) {
                        return;
                    }
                }
                None => self.receive(),
            }
        }
    }

    /// Takes execs from the kernel, and waits for some if there are none.
    fn receive(&self) {
        let began = monotonic_ns();
        let mut execs = Vec::new();
        let received =
            receive(&mut self.socket.lock().unwrap_or_else(PoisonError::into_inner), BATCH, &mut execs);
        let mut state = self.state();
        if let Ok((until, drained)) = received {
            state.received_until = until.min(began);
            state.seen.messages += drained.messages;
            state.seen.overrun |= drained.overrun;
        }
        let is_empty = execs.is_empty();
        state.execs.extend(execs);
        if is_empty {
            state.is_busy = false;
            drop(state);
            self.idle.notify_all();
            let mut fds =
                [PollFd::new(&self.readable, PollFlags::IN), PollFd::new(&*self.end, PollFlags::IN)];
            let _ = poll(&mut fds, None);
        }
    }

    /// Looks at a program; says whether the thread goes on.
    fn look(&self, exec: Numbered, worker: &Arc<Worker>) -> bool {
        let Some(Event::Exec { tgid, .. }) = exec.event else {
            self.state().keep(Seen { exec, look: FirstLook::default() });
            return true;
        };
        let look = self.around.glance.at(tgid);
        let is_there = look.exe.is_some();
        self.state().current = Some(Current { seen: Seen { exec, look }, since: Instant::now() });
        let memory = if is_there && self.may_read(&exec) {
            Memory::read(&self.around.glance.proc, tgid)
        } else {
            Memory::default()
        };
        let mut state = self.state();
        if !state.is_of(worker) {
            drop(state);
            let user = worker.stuck_with.lock().unwrap_or_else(PoisonError::into_inner).take();
            user.into_iter().for_each(|user| self.around.peeks.release(user));
            return false;
        }
        let Some(Current { mut seen, .. }) = state.current.take() else { return true };
        (seen.look.memory, seen.look.at) = (memory, monotonic_ns());
        state.keep(seen);
        if !std::mem::replace(&mut state.is_told, true) {
            wake(&self.told);
        }
        while state.is_full() && !self.is_over.load(Ordering::Relaxed) {
            state = self.taken.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Whose processes rest is asked only while somebody's do.
    fn may_read(&self, exec: &Numbered) -> bool {
        !self.around.peeks.is_anyone_resting() || self.around.peeks.may_read(self.user_of(exec))
    }

    fn user_of(&self, exec: &Numbered) -> u32 {
        let Some(Event::Exec { tgid, .. }) = exec.event else { return peek::NOBODY };
        let uid = self.around.glance.proc.status(tgid).and_then(|status| status.uid);
        uid.map_or(peek::NOBODY, |(real, _)| self.around.owners.of(real))
    }
}

impl State {
    fn is_of(&self, worker: &Arc<Worker>) -> bool {
        self.worker.as_ref().is_some_and(|own| Arc::ptr_eq(own, worker))
    }

    fn is_at_work(&self) -> bool {
        self.is_busy || self.in_hand.is_some() || !self.execs.is_empty()
    }

    fn is_full(&self) -> bool {
        self.seen.seen.len() >= KEPT || self.bytes >= KEPT_BYTES
    }

    fn keep(&mut self, seen: Seen) {
        self.in_hand = None;
        self.bytes += seen.look.memory.bytes();
        self.seen.seen.push(seen);
    }
}

fn is_readable(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;
    use crate::waits::Waits;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use testkit::wait_until;

    fn exec(pid: u32, time: u64) -> Numbered {
        let event = Some(Event::Exec { time, tgid: pid });
        Numbered { time, cpu: 0, number: pid, event }
    }

    /// A process as `/proc` shows it; one whose memory cannot be read has a pipe without a writer for its arguments.
    fn process(proc: &Path, pid: u32, uid: u32, is_locked: bool) {
        let dir = proc.join(pid.to_string());
        fs::create_dir_all(dir.join("ns")).unwrap();
        symlink("mnt:[1]", dir.join("ns/mnt")).unwrap();
        symlink("/bin/true", dir.join("exe")).unwrap();
        symlink("/tmp", dir.join("cwd")).unwrap();
        fs::write(dir.join("status"), format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")).unwrap();
        fs::write(dir.join("environ"), "A=1\0").unwrap();
        if is_locked {
            mknodat(CWD, dir.join("cmdline"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        } else {
            fs::write(dir.join("cmdline"), "true\0-x\0").unwrap();
        }
    }

    fn looker(proc: &Path, execs: &[Numbered]) -> (Looker, Peeks) {
        let glance = Glance::new(Proc::new(proc));
        let peeks = Peeks::new(glance.proc.clone(), Arc::new(Counters::default()), Waits::default());
        let around = Around { glance, peeks: peeks.clone(), owners: Owners::default() };
        // Nothing comes from this socket.
        let socket = Socket::open(None, 0).unwrap();
        let execs = execs.iter().copied().collect();
        (Looker::start_with(socket, around, execs).unwrap_or_else(|_| panic!("no thread")), peeks)
    }

    /// Takes until so many were seen.
    fn take_all(looker: &Looker, count: usize) -> Vec<Seen> {
        let mut seen = Vec::new();
        wait_until("all to be looked at", || {
            seen.extend(looker.take().seen);
            seen.len() >= count
        });
        seen
    }

    #[test]
    fn what_a_program_is_is_read_at_once() {
        let proc = tempfile::tempdir().unwrap();
        process(proc.path(), 5, 7, false);
        let (looker, _) = looker(proc.path(), &[exec(5, 100), exec(6, 200)]);
        let seen = take_all(&looker, 2);
        let look = &seen[0].look;
        assert_eq!(look.exe.as_ref().unwrap().path, b"/bin/true");
        assert_eq!((look.namespace, look.cwd.as_deref()), (Some(1), Some(&b"/tmp"[..])));
        assert_eq!(look.memory.argv, Some((vec![b"true".to_vec(), b"-x".to_vec()], false)));
        assert_eq!(look.memory.environ, Some(vec![b"A=1".to_vec()]));
        // One that is gone.
        assert!(seen[1].look.exe.is_none() && seen[1].look.memory.argv.is_none());
        assert!(looker.take().until > 200, "all that was executed until now was taken");
    }

    /// Those behind it are looked at, those of other users as always.
    #[test]
    fn a_process_that_keeps_its_memory_locked_keeps_nobody_else_waiting() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, uid, is_locked) in [(5, 7, true), (6, 7, false), (8, 9, false)] {
            process(proc.path(), pid, uid, is_locked);
        }
        let (looker, peeks) = looker(proc.path(), &[exec(5, 100), exec(6, 200), exec(8, 300)]);
        let first = looker.take();
        assert!(
            first.seen.is_empty() && first.until < 100,
            "nothing is given before what is still looked at"
        );
        let seen = take_all(&looker, 3);
        let has_memory: Vec<bool> = seen.iter().map(|seen| seen.look.memory.argv.is_some()).collect();
        assert_eq!(has_memory, [false, false, true], "its user is not read for a while");
        assert!(seen.iter().all(|seen| seen.look.exe.is_some()));
        assert!(!peeks.may_read(7) && peeks.may_read(9));
        // It lets go: the thread that was stuck ends, and nothing comes twice.
        fs::write(proc.path().join("5/cmdline"), "late\0").unwrap();
        wait_until("the thread to come back", || !peeks.is_stuck(7));
        assert!(looker.take().seen.is_empty());
    }

    #[test]
    fn no_more_is_kept_than_the_main_thread_takes() {
        let proc = tempfile::tempdir().unwrap();
        let execs: Vec<Numbered> = (1..=2 * KEPT as u32).map(|pid| exec(pid, u64::from(pid))).collect();
        let (looker, _) = looker(proc.path(), &execs);
        wait_until("as many as may be kept", || looker.0.state().seen.seen.len() == KEPT);
        assert_eq!(take_all(&looker, execs.len()).len(), execs.len());
    }
}
