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
//!   ended waits a moment ([`GRACE_NS`]), and until all is read that its user's guests had sent by then.

mod accounts;
mod credentials;
mod draft;
mod look;
mod names;
mod report;
mod snapshot;
mod spaces;
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
use crate::kernel::{Event, Record, TaskStats};
use crate::owners::Owners;
use crate::peek::Peeks;
use crate::receive::Heard;
use crate::shares::{Held, Shares};

use accounts::Accounts;
pub use accounts::{Account, Alive, Census, Ended, Subject};
use credentials::Credentials;
pub use draft::Finished;
use draft::{About, Context, Draft, Owner};
use names::Names;
use report::Report;
use spaces::Spaces;
use usage::{Base, Sum};

/// An image that has ended waits this long for what is still on its way.
const GRACE_NS: u64 = 500_000_000;
/// And no longer than this for its guest's message to be read and its objects to be looked at.
const HEARING_NS: u64 = 5_000_000_000;
/// A forked copy that executes a program within this time is not an image of its own.
const FORK_IMAGE_NS: u64 = 1_000_000_000;
/// CPU used by a forked copy before an exec within this time is not worth asking for.
const FORK_CHARGE_NS: u64 = 50_000_000;
/// When a process of which no guest speaks is looked at again: when its libraries are loaded.
const LOOK_WITHOUT_GUEST_NS: [u64; 2] = [20_000_000, 1_000_000_000];
/// When the mapped objects of a process with a guest are looked at: it may be killed before it tells.
const LOOK_WITH_GUEST_NS: [u64; 4] = [2_000_000_000, 30_000_000_000, 300_000_000_000, 3_600_000_000_000];
/// How many messages may wait for the event of their exec; a user has their share of them.
const UNMATCHED_MAX: usize = 2048;
/// Whom a process counts as whose user is not known.
const NOBODY: u32 = u32::MAX;
/// What a process takes in memory, and an image that has ended, without what is known about the program.
const PROCESS_BYTES: usize = 1024;
/// Users that have a socket of their own.
const USERS_MAX: usize = 4096;

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
    /// Bytes that users' processes and messages may take.
    pub memory: Shares,
    pub owners: Owners,
    pub peeks: Peeks,
}

impl Surroundings {
    /// The user that a process counts as.
    fn user_of(&self, credentials: &Credentials) -> u32 {
        credentials.real().map_or(NOBODY, |uid| self.owners.of(uid))
    }
}

/// A message of a guest, with what the kernel says about its sender.
#[derive(Debug)]
pub struct FromGuest {
    pub pid: u32,
    pub uid: u32,
    /// The user that the uid counts as.
    pub user: u32,
    pub message: Message,
    /// Memory for late objects.
    pub memory: Option<(OwnedFd, Held)>,
    /// The memory that the message takes, and its place in the queue.
    pub held: Held,
    pub slot: Held,
    /// When it was received, monotonic.
    pub received: u64,
}

/// A process that runs.
struct Process {
    ppid: Option<u32>,
    start: u64,
    credentials: Credentials,
    /// Its part of its user's share of memory.
    held: Option<Held>,
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
    memory: Option<(OwnedFd, Held)>,
    report: Report,
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
    /// Whatever happened until then has been told, monotonic.
    events_until: u64,
    /// Messages about what happened later.
    unmatched: Vec<(Held, FromGuest)>,
    unmatched_max: Shares,
    /// Users, and when each was seen last, monotonic.
    users: HashMap<u32, u64>,
    new_users: Vec<u32>,
    gone_users: Vec<u32>,
    /// The mount namespaces of the agent and of the first process: no containers are there.
    own_namespace: Option<u64>,
    host_namespace: Option<u64>,
    /// A control group or a step daemon has told a job: claims are not needed on this machine.
    jobs_are_told: bool,
    /// The cluster's name, as the first process of a job had it, for those that do not say.
    cluster: Option<String>,
    accounts: Accounts,
    names: Names,
    spaces: Spaces,
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
        let host_namespace = around.proc.mount_namespace(1);
        Table {
            around,
            live: HashMap::new(),
            waiting: VecDeque::new(),
            stats: HashMap::new(),
            owed: Vec::new(),
            look_later: BinaryHeap::new(),
            events_until: 0,
            unmatched: Vec::new(),
            unmatched_max: Shares::new(UNMATCHED_MAX),
            users: HashMap::new(),
            new_users: Vec::new(),
            gone_users: Vec::new(),
            own_namespace,
            host_namespace,
            jobs_are_told: false,
            cluster: None,
            accounts: Accounts::default(),
            names: Names::default(),
            spaces: Spaces::default(),
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

    /// Users that were forgotten since the last call, because others need their place.
    pub fn take_gone_users(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.gone_users)
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
            Event::Uid { time, tgid, real, effective } => {
                self.note_user(real, tgid);
                self.change_user(time, tgid, real, effective);
            }
        }
    }

    /// What a process has mapped. To be given before the events up to the same time.
    pub fn mapped(&mut self, record: Record) {
        let user = match &record {
            Record::Exec { pid, .. } => {
                self.live.get(pid).map(|process| self.around.user_of(&process.credentials))
            }
            _ => None,
        };
        self.spaces.record(record, user, &self.around.counters);
    }

    /// Mappings may have been lost that nobody counted: what is known is not taken for all there is.
    pub fn mappings_lost(&mut self) {
        let time = crate::clock::monotonic_ns();
        self.spaces.record(Record::Lost { time, records: 0 }, None, &self.around.counters);
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
        self.bound_accounts();
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
        self.spaces.retain(|pid| self.live.contains_key(&pid) || running.contains(&pid));
        self.scan();
    }

    /// A process is gone and nobody saw how.
    pub fn gone(&mut self, pid: u32) {
        if let Some(process) = self.live.remove(&pid) {
            self.end_image(pid, process, None, EndedBy::Unknown, None);
        }
    }

    /// A guest has spoken.
    pub fn guest(&mut self, from: FromGuest) {
        self.note_user(from.uid, from.pid);
        if from.time() > from.received {
            // Nobody has sent it yet.
            self.around.counters.guest_messages_unmatched.one();
            return;
        }
        let Err(from) = self.apply_guest(from) else { return };
        match self.unmatched_max.hold(from.user, 1).filter(|_| self.may_match(&from)) {
            Some(slot) => self.unmatched.push((slot, from)),
            None => self.around.counters.guest_messages_unmatched.one(),
        }
    }

    /// Does what is due and gives the images that are finished. `heard` is what the messages given so far are.
    pub fn tick(&mut self, now: u64, heard: &Heard) -> Vec<Finished> {
        self.match_late();
        self.look_at_due(now);
        self.finish_due(now, |waited, draft, around| {
            let user = draft.credentials.real().map(|uid| around.owners.of(uid));
            let is_heard = heard.is_all_of(user, draft.ended_at);
            let is_known = waited >= GRACE_NS && is_heard && draft.is_resolved(&around.files);
            is_known || waited >= HEARING_NS || draft.is_complete(&around.files)
        })
    }

    /// Whether an image has ended since a moment and has waited for a while.
    pub fn has_waited_since(&self, since: u64, now: u64) -> bool {
        let is_late = |draft: &Draft| now.saturating_sub(draft.ended_at) >= GRACE_NS;
        self.waiting.iter().any(|draft| draft.ended_at > since && is_late(draft))
    }

    /// All events until a moment have been given.
    pub fn note_events_until(&mut self, until: u64) {
        self.events_until = self.events_until.max(until);
    }

    /// Whether the exec that a message is about may not have been told yet.
    fn may_match(&self, from: &FromGuest) -> bool {
        self.around.has_kernel && from.time() > self.events_until
    }

    /// Gives messages that came early to the processes that have become known since.
    fn match_late(&mut self) {
        let ended: HashSet<u32> = match self.unmatched.is_empty() {
            true => return,
            false => self.waiting.iter().map(|draft| draft.key.pid).collect(),
        };
        for (slot, from) in std::mem::take(&mut self.unmatched) {
            let is_known = self.live.contains_key(&from.pid) || ended.contains(&from.pid);
            let left = if is_known { self.apply_guest(from).err() } else { Some(from) };
            match left {
                Some(from) if self.may_match(&from) => self.unmatched.push((slot, from)),
                Some(_) => self.around.counters.guest_messages_unmatched.one(),
                None => {}
            }
        }
    }

    /// Finishes all images that have ended, without waiting.
    pub fn finish_all(&mut self) -> Vec<Finished> {
        self.around.counters.guest_messages_unmatched.add(self.unmatched.drain(..).len() as u64);
        self.finish_due(u64::MAX, |_, _, _| true)
    }

    fn finish_due(
        &mut self,
        now: u64,
        is_done: impl Fn(u64, &Draft, &Surroundings) -> bool,
    ) -> Vec<Finished> {
        let mut finished = Vec::new();
        let mut waiting = VecDeque::with_capacity(self.waiting.len());
        for mut draft in self.waiting.drain(..) {
            if is_done(now.saturating_sub(draft.ended_at), &draft, &self.around) {
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
        let uid = self.live.get(&parent).and_then(|mother| mother.credentials.real());
        let Some(held) = self.hold_process(uid) else { return };
        let mut process = Process::blank(time, &self.around.clock);
        process.held = Some(held);
        process.ppid = Some(parent);
        process.image.source = source::KERNEL;
        if let Some(mother) = self.live.get(&parent) {
            process.credentials = mother.credentials;
            process.context = mother.context.clone();
            process.image.about = mother.image.about.clone();
            process.image.forked_from = Some(mother.key(parent));
        }
        self.live.insert(child, process);
    }

    /// A process counts as its new user's; if their share is used up, it is not followed any more.
    fn change_user(&mut self, time: u64, pid: u32, real: u32, effective: u32) {
        let before = self.live.get(&pid).and_then(|process| process.credentials.real());
        let is_same =
            before.is_some_and(|before| self.around.owners.of(before) == self.around.owners.of(real));
        let held = if is_same { None } else { self.hold_process(Some(real)) };
        let Some(process) = self.live.get_mut(&pid) else { return };
        process.credentials.change(time, real, effective);
        if held.is_some() {
            process.held = held;
        } else if !is_same {
            self.live.remove(&pid);
            self.spaces.end(pid, time);
        }
    }

    fn exec(&mut self, time: u64, pid: u32) {
        if !self.live.contains_key(&pid) {
            // Its fork was lost, or it is a helper of the kernel's.
            let start = self.around.proc.stat(pid).map(|stat| self.around.clock.from_ticks(stat.start_ticks));
            let uid = self.around.proc.status(pid).and_then(|status| status.uid);
            let Some(held) = self.hold_process(uid.map(|(real, _)| real)) else {
                // Nobody follows it, so nobody asks what it has mapped.
                self.spaces.end(pid, time);
                return;
            };
            let process = Process::blank(start.unwrap_or(time), &self.around.clock);
            self.live.insert(pid, Process { held: Some(held), ..process });
        }
        let held = self.live.get(&pid).and_then(|process| self.hold_process(process.credentials.real()));
        let user = self.live.get(&pid).map(|process| self.around.user_of(&process.credentials));
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
        process.image.about.borrow_mut().space = self.spaces.claim(pid, time, user);
        process.note_earlier(old.sum.clone());
        if let Some(held) = held.filter(|_| is_own_image) {
            if process.exec > 0 {
                let mut about = old.about.borrow_mut();
                about.distrust_after(time);
                about.note_mapped(
                    Owner { pid, user: self.around.user_of(&process.credentials) },
                    &self.around.files,
                );
            }
            let mut draft = Draft::new(pid, process, &old);
            draft.end(time, EndedBy::Exec, None);
            draft.end_usage = base;
            // It is charged with what was used until the exec, and not with the threads one by one.
            draft.earlier = Vec::new();
            draft.held = Some(held);
            self.waiting.push_back(draft);
        }
        process.exec += 1;
        process.threads = 1;
        process.leader_status = None;
        self.look_at_start(pid);
    }

    fn exit(&mut self, time: u64, pid: u32, tgid: u32, status: u32) {
        let Some(process) = self.live.get_mut(&tgid) else {
            self.owed.push((pid, Rc::default()));
            if pid == tgid {
                self.around.counters.exits_unknown.one();
                self.spaces.end(tgid, time);
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
        let mut draft = Draft::new(pid, &process, &image);
        draft.held = process.held.take();
        if process.exec > 0 {
            let mut about = image.about.borrow_mut();
            let owner = Owner { pid, user: self.around.user_of(&process.credentials) };
            let is_whole = about.space.as_ref().is_some_and(|space| self.spaces.is_whole(space));
            if about.from_guest {
                about.hear_late(image.memory, owner, is_whole, &self.around.files);
            } else {
                about.note_mapped(owner, &self.around.files);
            }
            about.hold(owner.user, &self.around);
        }
        self.spaces.end(pid, time.unwrap_or(u64::MAX));
        draft.end(time.unwrap_or_else(crate::clock::monotonic_ns), by, status);
        if time.is_none() {
            draft.end = None;
        }
        self.waiting.push_back(draft);
    }

    /// Gives a message to the image it speaks of, or back if that is not known.
    #[expect(clippy::result_large_err, reason = "what is not taken is given back, not an error")]
    fn apply_guest(&mut self, from: FromGuest) -> Result<(), FromGuest> {
        let time = from.time();
        let is_live = self.live.get(&from.pid).is_some_and(|process| {
            process.image.start <= time && (process.exec > 0 || process.image.source & source::PROC != 0)
        });
        if !self.around.has_kernel {
            self.guest_without_kernel(&from, time);
        } else if !is_live {
            return self.apply_to_waiting(from, time);
        }
        self.complete_space(from.pid);
        let Some(process) = self.live.get_mut(&from.pid) else { return Err(from) };
        if !is_first_of(process.image.source, &process.credentials, &from, &self.around.counters) {
            return Ok(());
        }
        process.credentials.learn(from.uid, from.uid);
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
                // What the message has taken is given back first: most of it is in what is known now.
                drop(from.held);
                let mut about = process.image.about.borrow_mut();
                let is_whole = about.space.as_ref().is_some_and(|space| self.spaces.is_whole(space));
                let owner = Owner { pid: from.pid, user: from.user };
                about.hear(*start, owner, is_whole, &self.around);
                about.hold(from.user, &self.around);
            }
            Message::Suppressed { .. } => process.image.about.borrow_mut().suppressed = true,
        }
        process.image.memory = from.memory;
        self.meet(from.pid);
        Ok(())
    }

    #[expect(clippy::result_large_err, reason = "what is not taken is given back, not an error")]
    fn apply_to_waiting(&mut self, from: FromGuest, time: u64) -> Result<(), FromGuest> {
        let is_meant = |draft: &Draft| {
            draft.key.pid == from.pid && draft.start <= time && draft.end.is_none_or(|end| time <= end)
        };
        let Some(at) = self.waiting.iter().rposition(is_meant) else { return Err(from) };
        let mut charge = None;
        let owner = Owner { pid: from.pid, user: from.user };
        if let Some(draft) = self.waiting.get_mut(at) {
            if !is_first_of(draft.source, &draft.credentials, &from, &self.around.counters) {
                return Ok(());
            }
            draft.source |= source::GUEST;
            let space = draft.about.borrow().space.clone();
            let is_whole = space.is_some_and(|space| self.spaces.is_whole(&space));
            match from.message {
                Message::Start(start) => {
                    if let Some(base) = Base::from_guest(&start) {
                        draft.base = Some(base);
                        let key = ImageKey { exec: draft.key.exec.wrapping_sub(1), ..draft.key };
                        charge = Some((key, base, usage::earlier_peak(&start)));
                    }
                    drop(from.held);
                    let mut about = draft.about.borrow_mut();
                    about.hear(*start, owner, is_whole, &self.around);
                    about.hold(from.user, &self.around);
                }
                Message::Suppressed { .. } => draft.about.borrow_mut().suppressed = true,
            }
            let mut about = draft.about.borrow_mut();
            if draft.ended_by == EndedBy::Exec {
                about.note_mapped(owner, &self.around.files);
            } else {
                about.hear_late(from.memory, owner, is_whole, &self.around.files);
            }
            about.hold(from.user, &self.around);
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
            let Some(held) = self.hold_process(Some(from.uid)) else { return };
            let mut process = Process::blank(start.unwrap_or(time), &clock);
            process.exec = 1;
            process.held = Some(held);
            self.live.insert(from.pid, process);
        }
        if let Some(process) = self.live.get_mut(&from.pid) {
            process.image.about.borrow_mut().space = self.spaces.claim(from.pid, time, Some(from.uid));
        }
        self.look_at_start(from.pid);
    }

    /// The part of a user's share of memory that a process or an image takes; what does not fit is not followed.
    fn hold_process(&self, uid: Option<u32>) -> Option<Held> {
        let user = self.around.owners.of(uid.unwrap_or(NOBODY));
        let held = self.around.memory.hold(user, PROCESS_BYTES);
        if held.is_none() {
            self.around.counters.processes_dropped_memory.one();
        }
        held
    }

    /// Notes that a user is there, who then has a socket of their own. Subordinate uids use the common one.
    fn note_user(&mut self, uid: u32, pid: u32) {
        let now = crate::clock::monotonic_ns();
        if let Some(seen) = self.users.get_mut(&uid) {
            *seen = now;
            return;
        }
        self.around.owners.learn(&self.around.proc, uid, pid);
        if self.around.owners.is_subordinate(uid) {
            return;
        }
        if self.users.len() >= USERS_MAX {
            let Some(oldest) = self.users.iter().min_by_key(|(_, seen)| **seen).map(|(uid, _)| *uid) else {
                return;
            };
            self.users.remove(&oldest);
            self.gone_users.push(oldest);
        }
        self.users.insert(uid, now);
        self.new_users.push(uid);
    }
}

impl Process {
    fn blank(start: u64, clock: &Clock) -> Process {
        Process {
            ppid: None,
            start,
            credentials: Credentials::default(),
            held: None,
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

    /// Remembers the accounting of an image's threads. What nobody adds to any more is put together, so that a process
    /// that executes for ever takes no more memory.
    fn note_earlier(&mut self, sum: Rc<RefCell<Sum>>) {
        let mut settled = Sum::default();
        self.earlier.retain(|earlier| {
            let is_settled = Rc::strong_count(earlier) == 1;
            if is_settled {
                settled.join(&earlier.borrow());
            }
            !is_settled
        });
        if settled.any || settled.missing {
            self.earlier.push(Rc::new(RefCell::new(settled)));
        }
        self.earlier.push(sum);
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
            report: Report::default(),
        }
    }
}

impl FromGuest {
    /// When the library says it has sent it, monotonic.
    fn time(&self) -> u64 {
        match &self.message {
            Message::Start(start) => start.time,
            Message::Suppressed { time, .. } => *time,
        }
    }
}

/// Whether a message is the first of its image, and was sent by the user whose image it is.
fn is_first_of(source: u8, credentials: &Credentials, from: &FromGuest, counters: &Counters) -> bool {
    let is_repeated = source & source::GUEST != 0;
    let is_own = credentials.could_be(from.uid, from.time());
    if !is_own {
        counters.guest_messages_forged.one();
    } else if is_repeated {
        counters.guest_messages_repeated.one();
    }
    is_own && !is_repeated
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
