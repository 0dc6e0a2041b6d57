//! The processes of the node: kernel events, accounting and guests' messages joined into program images.
//!
//! Everything happens on one thread and in the order of the events; nothing here waits. The kernel's traps
//! that decide the shape:
//!
//! * An exec from a thread shows the end of the leader *before* the exec; `pthread_exit` in `main` shows the
//!   leader's end with code 0 while the true code comes with the last thread. So a process ends when its last
//!   thread does.
//! * A process keeps its start time and its accounting over an exec. So images are numbered within a process,
//!   and each is charged with the difference between what was used at its end and at its beginning.
//! * A guest's message is sent before `main` and may be read after the process is gone. So an image that has
//!   ended waits a moment ([`GRACE_NS`]) for its guest before it is finished.

mod accounts;
mod draft;
mod look;
mod names;
mod snapshot;
#[cfg(test)]
mod tests;
mod usage;

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use record::entry::{EndedBy, ImageKey, source};
use record::guest::Message;
use sample::Proc;

use crate::clock::Clock;
use crate::counters::Counters;
use crate::files::Files;
use crate::kernel::{Event, TaskStats};

use accounts::Accounts;
pub use accounts::{Account, Alive, Census, Ended, Subject};
pub use draft::Finished;
use draft::{About, Context, Draft};
use names::Names;
use usage::{Base, Sum};

/// An image that has ended waits this long for what is still on its way.
const GRACE_NS: u64 = 500_000_000;
/// And this long one whose guest should have spoken, or whose objects are still being looked at: while others flood the sockets, or on a
/// node with more work than processors, that takes its time.
const HEARING_NS: u64 = 1_500_000_000;
/// A forked copy that executes a program within this time is not an image of its own.
const FORK_IMAGE_NS: u64 = 1_000_000_000;
/// CPU used by a forked copy before an exec within this time is not worth asking for.
const FORK_CHARGE_NS: u64 = 50_000_000;
/// When a process of which no guest speaks is looked at again: when its libraries are loaded.
const LOOK_WITHOUT_GUEST_NS: [u64; 2] = [20_000_000, 1_000_000_000];
/// When the mapped objects of a process with a guest are looked at: it may be killed before it tells.
const LOOK_WITH_GUEST_NS: [u64; 4] = [2_000_000_000, 30_000_000_000, 300_000_000_000, 3_600_000_000_000];
/// A message whose process is not known yet waits this long for it.
const UNMATCHED_NS: u64 = 1_000_000_000;

/// What the table needs to know about its surroundings.
#[derive(Clone)]
pub struct Surroundings {
    pub proc: Proc,
    pub clock: Clock,
    pub host: String,
    pub cluster: Option<String>,
    pub files: Files,
    pub counters: Arc<Counters>,
    /// The site's rules, packed.
    pub rules: Arc<Vec<u8>>,
    /// Whether the kernel reports execs and exits; without, guests' messages are all there is.
    pub has_kernel: bool,
    /// How many guests' shared memories may be held open.
    pub memories_max: usize,
}

/// A message of a guest, with what the kernel says about its sender.
#[derive(Debug)]
pub struct FromGuest {
    pub pid: u32,
    pub uid: u32,
    pub message: Message,
    pub memory: Option<OwnedFd>,
}

/// A process that runs.
struct Process {
    ppid: Option<u32>,
    start: u64,
    uid: Option<u32>,
    threads: u32,
    leader_status: Option<u32>,
    context: Rc<Context>,
    exec: u32,
    image: Live,
    /// The accounting of threads that ended in earlier images.
    earlier: Vec<Rc<RefCell<Sum>>>,
    /// The highest peak known of earlier images.
    earlier_peak_kib: u64,
    /// The start as a time of day, by the clock when it was first met: part of its images' keys, and never told anew.
    key_start: u64,
    /// Root's step daemon, whose children belong to the job in its title.
    is_stepd: bool,
}

/// The image that a process runs now.
struct Live {
    start: u64,
    about: Rc<RefCell<About>>,
    sum: Rc<RefCell<Sum>>,
    base: Option<Base>,
    source: u8,
    forked_from: Option<ImageKey>,
    memory: Option<OwnedFd>,
}

/// The table.
pub struct Table {
    around: Surroundings,
    live: HashMap<u32, Process>,
    waiting: VecDeque<Draft>,
    stats: HashMap<u32, VecDeque<TaskStats>>,
    /// Threads that ended and whose accounting has not been taken yet, in the order of their ends.
    owed: Vec<(u32, Rc<RefCell<Sum>>)>,
    look_later: BinaryHeap<Look>,
    unmatched: Vec<(u64, FromGuest)>,
    users: HashSet<u32>,
    new_users: Vec<u32>,
    own_namespace: Option<Vec<u8>>,
    /// A control group or a step daemon has told a job: claims are not needed on this machine.
    jobs_are_told: bool,
    /// The cluster's name, as the first process of a job had it, for those that do not say.
    cluster: Option<String>,
    memories: usize,
    accounts: Accounts,
    names: Names,
}

/// A process to look at again.
#[derive(PartialEq, Eq)]
struct Look {
    due: u64,
    pid: u32,
    image_start: u64,
    step: usize,
}

/// The earliest is the greatest, for a heap that gives the greatest.
impl Ord for Look {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.pid, other.step).cmp(&(self.due, self.pid, self.step))
    }
}

impl PartialOrd for Look {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Table {
    pub fn new(around: Surroundings) -> Table {
        let own_namespace = around.proc.mount_namespace(std::process::id());
        Table {
            around,
            live: HashMap::new(),
            waiting: VecDeque::new(),
            stats: HashMap::new(),
            owed: Vec::new(),
            look_later: BinaryHeap::new(),
            unmatched: Vec::new(),
            users: HashSet::new(),
            new_users: Vec::new(),
            own_namespace,
            jobs_are_told: false,
            cluster: None,
            memories: 0,
            accounts: Accounts::default(),
            names: Names::default(),
        }
    }

    /// Takes new rules.
    pub fn set_rules(&mut self, rules: Arc<Vec<u8>>) {
        self.around.rules = rules;
    }

    /// Users seen for the first time since the last call.
    pub fn take_new_users(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.new_users)
    }

    /// Processes that run, and images that have ended and are not finished.
    pub fn in_memory(&self) -> (usize, usize) {
        (self.live.len(), self.waiting.len())
    }

    /// How many users have been seen.
    pub fn user_count(&self) -> u64 {
        self.users.len() as u64
    }

    /// This host's name in records.
    pub fn host(&self) -> &str {
        &self.around.host
    }

    /// How many processes run that began before a monotonic time.
    pub fn running_since(&self, time: u64) -> u64 {
        self.live.values().filter(|process| process.start < time).count() as u64
    }

    /// Forgets everything: the agent is switched off.
    pub fn forget(&mut self) {
        *self = Table::new(self.around.clone());
    }

    /// Takes in the processes that run already.
    pub fn scan(&mut self) {
        for pid in self.around.proc.pids() {
            if !self.live.contains_key(&pid) {
                self.adopt_from_proc(pid);
            }
        }
    }

    /// What happened to a process.
    pub fn event(&mut self, event: Event) {
        match event {
            Event::Fork { time, parent_tgid, child, child_tgid } => {
                self.around.counters.forks.one();
                self.fork(time, parent_tgid, child, child_tgid);
            }
            Event::Exec { time, tgid } => {
                self.around.counters.execs.one();
                self.exec(time, tgid);
            }
            Event::Exit { time, pid, tgid, status } => self.exit(time, pid, tgid, status),
            Event::Session { tgid } => {
                if let Some(process) = self.live.get_mut(&tgid) {
                    process.context = Rc::new(Context { session: None, ..(*process.context).clone() });
                }
            }
            Event::Uid { tgid, real, .. } => {
                if let Some(process) = self.live.get_mut(&tgid) {
                    process.uid = Some(real);
                }
                self.note_user(real);
            }
        }
    }

    /// A thread's accounting. Comes before the event of its end, on another socket.
    pub fn stats(&mut self, stats: TaskStats) {
        self.stats.entry(stats.pid).or_default().push_back(stats);
    }

    /// Charges the accounting to the threads that have ended; to be called when both sockets were drained.
    pub fn settle(&mut self) {
        for (pid, sum) in self.owed.drain(..) {
            let stats = self.stats.get_mut(&pid).and_then(VecDeque::pop_front);
            if self.stats.get(&pid).is_some_and(VecDeque::is_empty) {
                self.stats.remove(&pid);
            }
            match stats {
                Some(stats) => sum.borrow_mut().add(&stats),
                None => sum.borrow_mut().missing = true,
            }
        }
        self.accounts.settle();
    }

    /// Events were lost: what is known is compared with what runs.
    pub fn resynchronise(&mut self) {
        self.stats.clear();
        for (_, sum) in self.owed.drain(..) {
            sum.borrow_mut().missing = true;
        }
        let running: HashSet<u32> = self.around.proc.pids().into_iter().collect();
        let gone: Vec<u32> = self.live.keys().filter(|pid| !running.contains(pid)).copied().collect();
        for pid in gone {
            self.gone(pid);
        }
        let live: Vec<u32> = self.live.keys().copied().collect();
        for pid in live {
            let ticks = self.around.proc.stat(pid).map(|stat| stat.start_ticks);
            let known = self.live.get(&pid).map(|process| process.start);
            // Ticks are coarse; another process began at least one later.
            if let (Some(ticks), Some(known)) = (ticks, known)
                && self.around.clock.is_later_start(known, ticks)
            {
                self.gone(pid);
            }
        }
        self.scan();
    }

    /// A process is gone and nobody saw how.
    pub fn gone(&mut self, pid: u32) {
        if let Some(process) = self.live.remove(&pid) {
            self.end_image(pid, process, None, EndedBy::Unknown, None);
        }
    }

    /// A guest has spoken.
    pub fn guest(&mut self, now: u64, from: FromGuest) {
        self.note_user(from.uid);
        if let Err(from) = self.apply_guest(from) {
            self.unmatched.push((now, from));
        }
    }

    /// Does what is due and gives the images that are finished.
    pub fn tick(&mut self, now: u64) -> Vec<Finished> {
        for (since, from) in std::mem::take(&mut self.unmatched) {
            let Err(from) = self.apply_guest(from) else { continue };
            if now.saturating_sub(since) < UNMATCHED_NS {
                self.unmatched.push((since, from));
            } else {
                self.around.counters.guest_messages_unmatched.one();
            }
        }
        self.look_at_due(now);
        self.finish_due(now, GRACE_NS)
    }

    /// Finishes all images that have ended, without waiting.
    pub fn finish_all(&mut self) -> Vec<Finished> {
        self.finish_due(u64::MAX, 0)
    }

    fn finish_due(&mut self, now: u64, grace: u64) -> Vec<Finished> {
        let mut finished = Vec::new();
        let mut waiting = VecDeque::with_capacity(self.waiting.len());
        for mut draft in self.waiting.drain(..) {
            let waited = now.saturating_sub(draft.ended_at);
            let is_awaited = || draft.expects_guest() || !draft.is_resolved(&self.around.files);
            let is_late = waited >= grace && (grace == 0 || waited >= HEARING_NS || !is_awaited());
            if is_late || draft.is_complete(&self.around.files) {
                self.cluster = self.cluster.take().or_else(|| draft.cluster());
                finished.extend(draft.finish(&self.around, self.jobs_are_told, self.cluster.as_deref()));
            } else {
                waiting.push_back(draft);
            }
        }
        self.waiting = waiting;
        finished
    }

    fn fork(&mut self, time: u64, parent: u32, child: u32, child_tgid: u32) {
        const KTHREADD: u32 = 2;
        if child != child_tgid {
            if let Some(process) = self.live.get_mut(&child_tgid) {
                process.threads += 1;
            }
            return;
        }
        if parent == KTHREADD || parent == 0 {
            return;
        }
        if !self.live.contains_key(&parent) {
            self.adopt_from_proc(parent);
        }
        if self.live.get(&parent).is_some_and(|mother| mother.is_stepd && mother.context.job.is_none()) {
            // It had no title yet when it began.
            self.look_at_job(parent);
        }
        let mut process = Process::blank(time, &self.around.clock);
        process.ppid = Some(parent);
        process.image.source = source::KERNEL;
        if let Some(mother) = self.live.get(&parent) {
            process.uid = mother.uid;
            process.context = mother.context.clone();
            process.image.about = mother.image.about.clone();
            process.image.forked_from = Some(mother.key(parent));
        }
        self.live.insert(child, process);
    }

    fn exec(&mut self, time: u64, pid: u32) {
        if !self.live.contains_key(&pid) {
            // Its fork was lost, or it is a helper of the kernel's.
            let start = self.around.proc.stat(pid).map(|stat| self.around.clock.from_ticks(stat.start_ticks));
            self.live.insert(pid, Process::blank(start.unwrap_or(time), &self.around.clock));
        }
        let Some(process) = self.live.get_mut(&pid) else { return };
        let age = time.saturating_sub(process.image.start);
        let is_own_image = process.exec > 0 || age >= FORK_IMAGE_NS;
        let base = if process.exec == 0 && age < FORK_CHARGE_NS {
            Some(Base::default())
        } else {
            usage::base_from_proc(&self.around.proc, pid)
        };
        let old = std::mem::replace(&mut process.image, Live::new(time));
        process.image.base = base;
        process.image.source = source::KERNEL;
        process.earlier.push(old.sum.clone());
        if is_own_image {
            if process.exec > 0 {
                old.about.borrow_mut().distrust_after(time);
            }
            let mut draft = Draft::new(pid, process, &old);
            draft.end(time, EndedBy::Exec, None);
            draft.end_usage = base;
            self.waiting.push_back(draft);
        }
        process.exec += 1;
        process.threads = 1;
        process.leader_status = None;
        self.memories -= usize::from(old.memory.is_some());
        self.look_at_start(pid);
    }

    fn exit(&mut self, time: u64, pid: u32, tgid: u32, status: u32) {
        let Some(process) = self.live.get_mut(&tgid) else {
            self.owed.push((pid, Rc::default()));
            if pid == tgid {
                self.around.counters.exits_unknown.one();
            }
            return;
        };
        self.owed.push((pid, process.image.sum.clone()));
        process.threads = process.threads.saturating_sub(1);
        if pid == tgid {
            process.leader_status = Some(status);
        }
        if process.threads > 0 {
            return;
        }
        self.around.counters.exits.one();
        let Some(process) = self.live.remove(&tgid) else { return };
        // A group's exit gives its code to all threads; only a thread that ended by itself before has another.
        let status = if status != 0 { status } else { process.leader_status.unwrap_or(0) };
        let by = if status & 0x7f == 0 { EndedBy::Exit } else { EndedBy::Signal };
        self.end_image(tgid, process, Some(time), by, Some(status));
    }

    fn end_image(
        &mut self,
        pid: u32,
        mut process: Process,
        time: Option<u64>,
        by: EndedBy,
        status: Option<u32>,
    ) {
        self.note_end(pid, &process, time.unwrap_or_else(crate::clock::monotonic_ns), status);
        let image = std::mem::replace(&mut process.image, Live::new(0));
        self.memories -= usize::from(image.memory.is_some());
        let mut draft = Draft::new(pid, &process, &image);
        image.about.borrow_mut().hear_late(image.memory, pid, &self.around.files);
        draft.end(time.unwrap_or_else(crate::clock::monotonic_ns), by, status);
        if time.is_none() {
            draft.end = None;
        }
        self.waiting.push_back(draft);
    }

    /// Gives a message to the image it speaks of, or back if that is not known.
    fn apply_guest(&mut self, from: FromGuest) -> Result<(), FromGuest> {
        let time = match &from.message {
            Message::Start(start) => start.time,
            Message::Suppressed { time, .. } => *time,
        };
        let is_live = self.live.get(&from.pid).is_some_and(|process| {
            process.image.start <= time && (process.exec > 0 || process.image.source & source::PROC != 0)
        });
        if !self.around.has_kernel {
            self.guest_without_kernel(&from, time);
        } else if !is_live {
            return self.apply_to_waiting(from, time);
        }
        let Some(process) = self.live.get_mut(&from.pid) else { return Err(from) };
        process.uid.get_or_insert(from.uid);
        process.image.source |= source::GUEST;
        if !process.context.has_guest {
            process.context = Rc::new(Context { has_guest: true, ..(*process.context).clone() });
        }
        match from.message {
            Message::Start(start) => {
                if let Some(base) = Base::from_guest(&start) {
                    process.image.base = Some(base);
                    let key = ImageKey { exec: process.exec.wrapping_sub(1), ..process.key(from.pid) };
                    let peak = usage::earlier_peak(&start).filter(|peak| *peak > process.earlier_peak_kib);
                    process.earlier_peak_kib = process.earlier_peak_kib.max(peak.unwrap_or(0));
                    charge_earlier_image(&mut self.waiting, key, base, peak);
                }
                let namespace = self.own_namespace.as_deref();
                process.image.about.borrow_mut().hear(*start, from.pid, &self.around, namespace);
            }
            Message::Suppressed { .. } => process.image.about.borrow_mut().suppressed = true,
        }
        if from.memory.is_some() && process.image.memory.is_none() {
            if self.memories < self.around.memories_max {
                self.memories += 1;
                process.image.memory = from.memory;
            } else {
                self.around.counters.late_unwatched.one();
            }
        }
        Ok(())
    }

    fn apply_to_waiting(&mut self, from: FromGuest, time: u64) -> Result<(), FromGuest> {
        let is_meant = |draft: &Draft| {
            draft.key.pid == from.pid && draft.start <= time && draft.end.is_none_or(|end| time <= end)
        };
        let Some(at) = self.waiting.iter().rposition(is_meant) else { return Err(from) };
        let mut charge = None;
        if let Some(draft) = self.waiting.get_mut(at) {
            draft.source |= source::GUEST;
            match from.message {
                Message::Start(start) => {
                    if let Some(base) = Base::from_guest(&start) {
                        draft.base = Some(base);
                        let key = ImageKey { exec: draft.key.exec.wrapping_sub(1), ..draft.key };
                        charge = Some((key, base, usage::earlier_peak(&start)));
                    }
                    let namespace = self.own_namespace.as_deref();
                    draft.about.borrow_mut().hear(*start, from.pid, &self.around, namespace);
                }
                Message::Suppressed { .. } => draft.about.borrow_mut().suppressed = true,
            }
            if draft.ended_by != EndedBy::Exec {
                draft.about.borrow_mut().hear_late(from.memory, from.pid, &self.around.files);
            }
        }
        if let Some((key, base, peak)) = charge {
            charge_earlier_image(&mut self.waiting, key, base, peak);
        }
        Ok(())
    }

    /// Without kernel events, a message is the only sign of a new image.
    fn guest_without_kernel(&mut self, from: &FromGuest, time: u64) {
        let clock = self.around.clock.clone();
        let ticks = self.around.proc.stat(from.pid).map(|stat| stat.start_ticks);
        let start = ticks.map(|ticks| clock.from_ticks(ticks));
        let is_same =
            |process: &Process| ticks.is_none_or(|ticks| !clock.is_later_start(process.start, ticks));
        if self.live.get(&from.pid).is_some_and(|process| !is_same(process)) {
            self.gone(from.pid);
        }
        if let Some(process) = self.live.get_mut(&from.pid) {
            let old = std::mem::replace(&mut process.image, Live::new(time));
            let mut draft = Draft::new(from.pid, process, &old);
            draft.end(time, EndedBy::Exec, None);
            self.waiting.push_back(draft);
            process.exec += 1;
        } else {
            let mut process = Process::blank(start.unwrap_or(time), &clock);
            process.exec = 1;
            self.live.insert(from.pid, process);
        }
        self.look_at_start(from.pid);
    }

    fn note_user(&mut self, uid: u32) {
        if self.users.insert(uid) {
            self.new_users.push(uid);
        }
    }
}

impl Process {
    fn blank(start: u64, clock: &Clock) -> Process {
        Process {
            ppid: None,
            start,
            uid: None,
            threads: 1,
            leader_status: None,
            context: Rc::default(),
            exec: 0,
            image: Live::new(start),
            earlier: Vec::new(),
            earlier_peak_kib: 0,
            key_start: clock.wall(start),
            is_stepd: false,
        }
    }

    fn key(&self, pid: u32) -> ImageKey {
        ImageKey { pid, process_start: self.key_start, exec: self.exec }
    }
}

impl Live {
    fn new(start: u64) -> Live {
        Live {
            start,
            about: Rc::default(),
            sum: Rc::default(),
            base: None,
            source: 0,
            forked_from: None,
            memory: None,
        }
    }
}

/// What an image had used by the time the next one began is known from the next one's guest.
fn charge_earlier_image(waiting: &mut VecDeque<Draft>, key: ImageKey, used: Base, peak_kib: Option<u64>) {
    if let Some(draft) = waiting.iter_mut().rev().find(|draft| draft.key == key) {
        draft.end_usage = Some(used);
        draft.heard_next = true;
        if let Some(peak) = peak_kib {
            draft.peak_kib = Some(peak);
        }
    }
}
