//! Reads the node and its jobs at their times, on a thread of its own.
//!
//! For each reading the thread asks the main thread for a [`Census`]: which process belongs to whom, and what those used that
//! have ended. Then it reads `/proc` and the control groups, and makes a record of both.
//!
//! ```text
//! due ─▶ ask ─▶ census ─▶ collect ─▶ tracked ─▶ output
//! ```

pub mod cadence;
mod cards;
mod collect;
mod counts;
mod hardware;
pub mod kept;
mod live;
mod node;
mod remote;
mod tracked;

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use record::reading::{Hardware, JobReading, Reading};

use crate::clock::{Clock, monotonic_ns};
use crate::output::Output;
use crate::receive::wake;
use crate::table::{Account, Census, Subject};

pub use cadence::Cadence;
pub use collect::{Collector, Own};
pub use counts::{Counting, Counts};
use kept::Kept;
pub use tracked::Tracked;

/// A job whose last process has ended is read for the last time after this: the rest of its accounting has come by then.
const LAST_NS: u64 = 1_000_000_000;
const HARDWARE_NS: u64 = 86_400_000_000_000;

/// What the main thread tells.
enum Order {
    Census(Box<Census>),
    /// Jobs have begun.
    Begun,
    /// The last process of these jobs has ended.
    Quiet(Vec<Subject>),
    Cadence(Cadence),
    Stop,
}

/// What it is to know of the agent and the node.
pub struct Around {
    pub host: String,
    pub clock: Clock,
    pub collector: Collector,
    /// Where [`kept`] is.
    pub dir: PathBuf,
}

/// The thread, and how to speak to it.
pub struct Sampling {
    orders: Sender<Order>,
    wants_census: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Sampling {
    /// Starts the thread; `wake` is what the main thread waits on.
    pub fn start(
        cadence: Cadence,
        around: Around,
        output: Output,
        wake: Arc<OwnedFd>,
        kept: &[Kept],
    ) -> io::Result<Sampling> {
        let Around { host, clock, collector, dir } = around;
        let (orders, work) = channel();
        let wants_census = Arc::new(AtomicBool::new(false));
        let mut sampler = Sampler {
            cadence,
            host,
            clock,
            output,
            wake,
            wants_census: wants_census.clone(),
            collector,
            dir,
            tracked: kept
                .iter()
                .map(|kept| (Subject::of_reading(&kept.reading), Tracked::from_kept(kept)))
                .collect(),
            due: Due::default(),
        };
        // What an earlier agent knew is read at once: it may be over.
        sampler.due.jobs = sampler.tracked.keys().map(|subject| (subject.clone(), 0)).collect();
        let thread = thread::Builder::new()
            .name("sample".into())
            .stack_size(512 * 1024)
            .spawn(move || sampler.run(&work))?;
        Ok(Sampling { orders, wants_census, thread })
    }

    /// Whether a census is asked for; asking ends with it.
    pub fn wants_census(&self) -> bool {
        self.wants_census.swap(false, Ordering::Relaxed)
    }

    pub fn census(&self, census: Census) {
        let _ = self.orders.send(Order::Census(Box::new(census)));
    }

    pub fn begun(&self) {
        let _ = self.orders.send(Order::Begun);
    }

    pub fn quiet(&self, subjects: Vec<Subject>) {
        let _ = self.orders.send(Order::Quiet(subjects));
    }

    pub fn set_cadence(&self, cadence: Cadence) {
        let _ = self.orders.send(Order::Cadence(cadence));
    }

    pub fn stop(self) {
        let _ = self.orders.send(Order::Stop);
        let _ = self.thread.join();
    }
}

/// When what is read next, as times of day.
#[derive(Default)]
struct Due {
    all: u64,
    hardware: u64,
    jobs: HashMap<Subject, u64>,
    /// A census was asked for, and the readings that were due then are made when it comes.
    asked: bool,
}

struct Sampler {
    cadence: Cadence,
    host: String,
    clock: Clock,
    output: Output,
    wake: Arc<OwnedFd>,
    wants_census: Arc<AtomicBool>,
    collector: Collector,
    /// Where [`kept`] is.
    dir: PathBuf,
    tracked: HashMap<Subject, Tracked>,
    due: Due,
}

impl Sampler {
    fn run(&mut self, orders: &Receiver<Order>) {
        self.due.all = cadence::next(self.now(), self.cadence.every);
        self.ask();
        loop {
            let next = self.due.jobs.values().copied().chain([self.due.all]).min().unwrap_or(0);
            let wait = if self.due.asked { self.cadence.every } else { next.saturating_sub(self.now()) };
            match orders.recv_timeout(Duration::from_nanos(wait)) {
                Ok(Order::Census(census)) => self.read(&census),
                Ok(Order::Begun) => self.ask(),
                Ok(Order::Quiet(subjects)) => self.hear_last_words(subjects),
                Ok(Order::Cadence(cadence)) => self.cadence = cadence,
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => self.ask(),
            }
        }
    }

    fn now(&self) -> u64 {
        self.clock.wall(monotonic_ns())
    }

    fn ask(&mut self) {
        self.due.asked = true;
        self.wants_census.store(true, Ordering::Relaxed);
        wake(&self.wake);
    }

    /// The group of a job is removed soon after its last process has ended.
    fn hear_last_words(&mut self, subjects: Vec<Subject>) {
        let last = self.now() + LAST_NS;
        for subject in subjects {
            let tracked = self.tracked.entry(subject.clone()).or_default();
            tracked.is_over = false;
            if let Some(groups) = &tracked.groups {
                let usage = self.collector.cgroups.read(groups);
                tracked.hear(usage);
            }
            self.due.jobs.insert(subject, last);
        }
    }

    /// Reads what is due, now that it is known who is who.
    fn read(&mut self, census: &Census) {
        self.due.asked = false;
        let now = self.now();
        let is_all = now >= self.due.all;
        if is_all {
            self.due.all = cadence::next(now, self.cadence.every);
        }
        let live = live_counts(census);
        let is_due = |at: usize, account: &Account| {
            let due = self.due.jobs.get(&account.subject);
            let has_processes = live.get(at).is_some_and(|count| *count > 0);
            // What has just begun is met here for the first time.
            is_all && (has_processes || due.is_some())
                || due.map_or(has_processes && account.subject.job.is_some(), |due| now >= *due)
        };
        let due: Vec<bool> =
            census.accounts.iter().enumerate().map(|(at, account)| is_due(at, account)).collect();
        let mut reading = Reading { time: now, host: self.host.clone(), ..Reading::default() };
        if is_all {
            // Without `/proc` there is nothing to say, which the coverage shows.
            let _ = self.collector.read_all();
            reading.node = self.collector.read_node();
        } else {
            self.collector.read_due(census, &due);
        }
        let mut sorted = self.collector.sort(census, &due);
        let other_cards = self.collector.read_cards(census, &mut sorted);
        if is_all {
            reading.cards = other_cards;
            reading.hardware = self.hardware_if_due(now);
        }
        let jobs_here =
            live.iter().zip(&census.accounts).filter(|(n, a)| **n > 0 && a.subject.job.is_some()).count();
        for (at, mut own) in sorted {
            let Some(account) = census.accounts.get(at) else { continue };
            own.is_shared = jobs_here > 1;
            reading.jobs.extend(self.job(account, own, now));
        }
        let known = &census.accounts;
        self.tracked.retain(|subject, _| known.iter().any(|account| account.subject == *subject));
        self.due.jobs.retain(|subject, _| self.tracked.contains_key(subject));
        if !reading.jobs.is_empty() || !reading.node.is_empty() {
            self.output.reading(reading);
            self.keep();
        }
    }

    /// What the node is made of is said once a day; a server may be new, and machines are changed.
    fn hardware_if_due(&mut self, now: u64) -> Option<Box<Hardware>> {
        (now >= self.due.hardware).then(|| {
            self.due.hardware = now.saturating_add(HARDWARE_NS);
            Box::new(self.collector.read_hardware())
        })
    }

    /// A disk that is full costs the next agent its knowledge, and nothing else.
    fn keep(&self) {
        let running = self.tracked.values().filter(|tracked| !tracked.is_over);
        let kept: Vec<Kept> = running.filter_map(|tracked| tracked.kept.clone()).collect();
        let _ = kept::write(&self.dir, &kept);
    }

    /// One job's part of a reading, and when it is read next.
    fn job(&mut self, account: &Account, mut own: Own, now: u64) -> Option<JobReading> {
        let tracked = self.tracked.entry(account.subject.clone()).or_default();
        let has_ended = own.live.processes == 0 && account.last_end.is_some();
        if has_ended && tracked.is_over {
            self.due.jobs.remove(&account.subject);
            return None;
        }
        tracked.is_over = has_ended;
        tracked.groups = own.groups.take().or(tracked.groups.take());
        if let Some(groups) = &tracked.groups {
            let usage = self.collector.cgroups.read(groups);
            tracked.hear(usage);
        }
        let mut reading = tracked.reading(account, own, &self.clock);
        let asked = account.rate.as_deref().and_then(cadence::parse_rate);
        reading.every = match account.subject.job {
            Some(_) => self.cadence.of_job(now.saturating_sub(reading.start), asked),
            None => self.cadence.every,
        };
        if has_ended {
            reading.end = account.last_end.map(|end| self.clock.wall(end));
            self.due.jobs.remove(&account.subject);
        } else {
            self.due.jobs.insert(account.subject.clone(), cadence::next(now, reading.every));
        }
        Some(reading)
    }
}

/// How many processes each account has.
fn live_counts(census: &Census) -> Vec<usize> {
    let mut counts = vec![0; census.accounts.len()];
    for alive in census.live.values() {
        if let Some(count) = counts.get_mut(alive.account) {
            *count += 1;
        }
    }
    counts
}
