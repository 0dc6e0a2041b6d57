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
mod rates;
mod remote;
mod sessions;
mod tracked;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use record::metric::Of;
use record::rate::{JobRate, Sensors};
use record::reading::{Hardware, JobReading, Reading};

use crate::clock::{Clock, monotonic_ns};
use crate::output::Output;
use crate::progress::this_boot;
use crate::receive::wake;
use crate::table::{Account, Census, Subject};

pub use cadence::Cadence;
pub use collect::{Collector, Own};
pub use counts::{Counting, Counts};
use kept::Kept;
use rates::Rates;
use sessions::{Brief, Here};
pub use tracked::Tracked;

/// A job whose last process has ended is read for the last time after this: the rest of its accounting has come by then.
const LAST_NS: u64 = 1_000_000_000;
const HARDWARE_NS: u64 = 86_400_000_000_000;
/// So many jobs and sessions of one user are read between the usual times: anyone may begin sessions without end.
const OFTEN_MAX: usize = 256;

/// What the main thread tells.
enum Order {
    Census(Box<Census>),
    /// Jobs have begun.
    Begun,
    /// Sessions have begun, or jobs that only their processes name.
    Met,
    /// The last process of these jobs has ended.
    Quiet(Vec<Subject>),
    Cadence(Cadence),
    /// The server's word about rates.
    Rates(Vec<JobRate>),
    Stop,
}

/// What it is to know of the agent and the node.
pub struct Around {
    pub host: String,
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
        let Around { host, collector, dir } = around;
        let (orders, work) = channel();
        let wants_census = Arc::new(AtomicBool::new(false));
        let mut sampler = Sampler {
            cadence,
            host,
            boot: this_boot(),
            clock: collector.clock.clone(),
            collector,
            output,
            wake,
            wants_census: wants_census.clone(),
            dir,
            tracked: kept
                .iter()
                .map(|kept| (Subject::of_reading(&kept.reading), Tracked::from_kept(kept)))
                .collect(),
            said_cards: Vec::new(),
            due: Due::default(),
            rates: Rates::default(),
            brief: Brief::since(monotonic_ns()),
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

    pub fn met(&self) {
        let _ = self.orders.send(Order::Met);
    }

    pub fn quiet(&self, subjects: Vec<Subject>) {
        let _ = self.orders.send(Order::Quiet(subjects));
    }

    pub fn set_cadence(&self, cadence: Cadence) {
        let _ = self.orders.send(Order::Cadence(cadence));
    }

    pub fn set_rates(&self, rates: Vec<JobRate>) {
        let _ = self.orders.send(Order::Rates(rates));
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
    /// Those that were met and are in no census yet. Whoever makes them without end is counted no more often than this.
    met: Option<u64>,
    /// A census was asked for, and the readings that were due then are made when it comes.
    asked: bool,
    /// How the clock was set when these times were told.
    offset: i64,
}

impl Due {
    /// The clock was set: what was due in a minute is still due in a minute.
    fn follow(&mut self, offset: i64) {
        let set_by = offset.wrapping_sub(self.offset);
        self.offset = offset;
        if set_by != 0 {
            let all = self.jobs.values_mut().chain([&mut self.all, &mut self.hardware]);
            all.chain(&mut self.met).for_each(|due| *due = due.saturating_add_signed(set_by));
        }
    }

    /// When somebody has to be asked.
    fn next(&self) -> u64 {
        self.jobs.values().chain(&self.met).copied().fold(self.all, u64::min)
    }

    /// Puts off to the usual time what is too much of one user, except last readings; and leaves out what is too much of sessions that
    /// came and went.
    fn bound_users(&mut self, accounts: &[Account], due: &mut [bool], is_all: bool) {
        let mut of_user: HashMap<Option<u32>, usize> = HashMap::new();
        for (account, is_due) in accounts.iter().zip(due).filter(|(_, is_due)| **is_due) {
            let has_ended = account.last_end.is_some();
            if has_ended && self.jobs.contains_key(&account.subject) || !has_ended && is_all {
                continue;
            }
            let count = of_user.entry(account.uid).or_default();
            *count += 1;
            if *count > OFTEN_MAX {
                *is_due = false;
                if !has_ended {
                    self.jobs.insert(account.subject.clone(), self.all);
                }
            }
        }
    }
}

struct Sampler {
    cadence: Cadence,
    host: String,
    boot: u64,
    clock: Clock,
    output: Output,
    wake: Arc<OwnedFd>,
    wants_census: Arc<AtomicBool>,
    collector: Collector,
    /// Where [`kept`] is.
    dir: PathBuf,
    tracked: HashMap<Subject, Tracked>,
    /// GPUs that were told.
    said_cards: Vec<String>,
    due: Due,
    rates: Rates,
    brief: Brief,
}

impl Sampler {
    fn run(&mut self, orders: &Receiver<Order>) {
        self.due.offset = self.clock.offset();
        self.due.all = cadence::next(self.now(), self.cadence.every);
        self.ask();
        loop {
            let now = self.now();
            let wait = if self.due.asked { self.cadence.every } else { self.due.next().saturating_sub(now) };
            match orders.recv_timeout(Duration::from_nanos(wait)) {
                Ok(Order::Census(census)) => self.read(&census),
                Ok(Order::Begun) => self.ask(),
                Ok(Order::Met) => self.meet(),
                Ok(Order::Quiet(subjects)) => self.hear_last_words(subjects),
                Ok(Order::Cadence(cadence)) => self.cadence = cadence,
                Ok(Order::Rates(told)) => self.hear_rates(told),
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => self.ask(),
            }
        }
    }

    fn now(&mut self) -> u64 {
        self.due.follow(self.clock.offset());
        self.clock.wall(monotonic_ns())
    }

    /// Who has begun a session, or names a job, is read for the first time with all others that are young.
    fn meet(&mut self) {
        let now = self.now();
        self.due.met.get_or_insert(cadence::next(now, self.cadence.of_job(0, None)));
    }

    fn ask(&mut self) {
        self.brief.ask(monotonic_ns());
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

    /// A job that is read more often from now on does not wait for the time it was read at until now.
    fn hear_rates(&mut self, told: Vec<JobRate>) {
        let (now, monotonic) = (self.now(), monotonic_ns());
        self.rates.hear(told, monotonic);
        for (subject, due) in &mut self.due.jobs {
            let kept = self.tracked.get(subject).and_then(|tracked| tracked.kept.as_ref());
            let cluster = kept.and_then(|kept| kept.reading.cluster.as_deref());
            let rate = subject.job.as_deref().and_then(|job| self.rates.told(job, cluster, monotonic));
            if let Some(rate) = rate {
                *due = (*due).min(cadence::next(now, self.cadence.of_job(u64::MAX, Some(rate.every))));
            }
        }
    }

    /// By which sensors a job that is due is read now: by all at the usual times and at its end, in between by those that were
    /// asked for.
    fn sensors(&self, account: &Account, now: u64, is_all: bool) -> Sensors {
        let full_at = self.tracked.get(&account.subject).map_or(0, |tracked| tracked.full_at);
        if is_all || now >= full_at || account.last_end.is_some() {
            return Sensors::ALL;
        }
        self.rates.of(account, monotonic_ns()).map_or(Sensors::ALL, |rate| rate.sensors)
    }

    /// Takes those off `due` of whom only the node's own sensors are wanted now; says which of these are.
    fn only_of_node(&mut self, census: &Census, due: &mut [bool], now: u64) -> Sensors {
        let mut wanted = Sensors::NONE;
        for (account, is_due) in census.accounts.iter().zip(due).filter(|(_, is_due)| **is_due) {
            let sensors = self.sensors(account, now, false);
            if sensors.is_all() {
                continue;
            }
            wanted = wanted.and(sensors.of(Of::Node));
            *is_due = !sensors.of(Of::Job).is_empty();
            if !*is_due && let Some(rate) = self.rates.of(account, monotonic_ns()) {
                let every = self.cadence.of_job(u64::MAX, Some(rate.every));
                self.due.jobs.insert(account.subject.clone(), cadence::next(now, every));
            }
        }
        wanted
    }

    /// Reads what is due, now that it is known who is who.
    fn read(&mut self, census: &Census) {
        self.due.asked = false;
        self.due.met = None;
        let (clock, moment) = (self.clock.at_rest(), monotonic_ns());
        self.due.follow(clock.offset());
        let now = clock.wall(moment);
        let is_all = now >= self.due.all;
        if is_all {
            self.due.all = cadence::next(now, self.cadence.every);
        }
        let live = live_counts(census);
        let is_due = |at: usize, account: &Account| {
            let due = self.due.jobs.get(&account.subject);
            let has_processes = live.get(at).is_some_and(|count| *count > 0);
            let is_young = moment.saturating_sub(account.first_start) < self.cadence.young;
            // What has just begun is met here for the first time.
            let is_new = if has_processes {
                is_young || account.subject.job.is_some()
            } else {
                !self.tracked.contains_key(&account.subject) && self.brief.is_due(account)
            };
            is_all && (has_processes || due.is_some()) || due.map_or(is_new, |due| now >= *due)
        };
        let mut due: Vec<bool> =
            census.accounts.iter().enumerate().map(|(at, account)| is_due(at, account)).collect();
        self.due.bound_users(&census.accounts, &mut due, is_all);
        let mut reading = Reading {
            time: now,
            host: self.host.clone(),
            boot: Some(self.boot),
            since_boot: Some(clock.boottime(moment)),
            ..Reading::default()
        };
        let sorted = if is_all {
            self.read_all(census, &due, &mut reading)
        } else {
            self.read_due(census, &mut due, &mut reading)
        };
        let here = Here::of(&live, &census.accounts);
        let mut brief = HashSet::new();
        for (at, mut own) in sorted {
            let Some(account) = census.accounts.get(at) else { continue };
            own.is_shared = here.has_others(&account.subject, own.pids.len());
            let is_first = !self.tracked.contains_key(&account.subject);
            let sensors = self.sensors(account, now, is_all);
            reading.jobs.extend(self.job(account, own, sensors, now, &clock));
            // Of one that came and went nothing is left to read.
            if is_first && account.subject.is_login() && !self.due.jobs.contains_key(&account.subject) {
                self.tracked.remove(&account.subject);
                brief.insert(account.subject.clone());
            }
        }
        self.brief.told(brief);
        let known = &census.accounts;
        self.tracked.retain(|subject, _| known.iter().any(|account| account.subject == *subject));
        self.due.jobs.retain(|subject, _| self.tracked.contains_key(subject));
        if !reading.jobs.is_empty() || !reading.node.is_empty() {
            self.output.reading(reading);
            self.keep();
        }
    }

    /// Reads the node and all that is on it.
    fn read_all(&mut self, census: &Census, due: &[bool], reading: &mut Reading) -> BTreeMap<usize, Own> {
        // Without `/proc` there is nothing to say, which the coverage shows.
        let _ = self.collector.read_all();
        reading.node = self.collector.read_node();
        let mut sorted = self.collector.sort(census, due);
        reading.cards = self.collector.read_cards(census, &mut sorted);
        reading.hardware = self.hardware_if_due(reading.time);
        sorted
    }

    /// Reads what is due between two readings of all.
    fn read_due(&mut self, census: &Census, due: &mut [bool], reading: &mut Reading) -> BTreeMap<usize, Own> {
        let of_node = self.only_of_node(census, due, reading.time);
        self.collector.read_due(census, due);
        if !of_node.is_empty() {
            reading.node = rates::of_sensors(&self.collector.read_node(), of_node, Of::Node);
        }
        let mut sorted = self.collector.sort(census, due);
        self.collector.read_cards(census, &mut sorted);
        sorted
    }

    /// What the node is made of is said once a day, because a server may be new; and when other GPUs are found, because drivers may
    /// be late.
    fn hardware_if_due(&mut self, now: u64) -> Option<Box<Hardware>> {
        let cards = self.collector.cards.models();
        let has_others = !cards.is_empty() && cards != self.said_cards;
        (has_others || now >= self.due.hardware).then(|| {
            self.due.hardware = now.saturating_add(HARDWARE_NS);
            self.said_cards = cards;
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
    fn job(
        &mut self,
        account: &Account,
        mut own: Own,
        sensors: Sensors,
        now: u64,
        clock: &Clock,
    ) -> Option<JobReading> {
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
        let mut reading = tracked.reading(account, own, clock);
        let rate = self.rates.of(account, monotonic_ns());
        let age = now.saturating_sub(reading.start);
        let every = self.cadence.of_job(age, rate.map(|rate| rate.every));
        reading.every = every;
        if !sensors.is_all() {
            rates::keep(&mut reading, sensors);
        } else if rate.is_some_and(|rate| !rate.sensors.is_all()) {
            // What is read at the usual times only stands until the next of them.
            reading.every = self.cadence.of_job(age, None);
            tracked.full_at = cadence::next(now, reading.every);
        }
        if has_ended {
            reading.end = account.last_end.map(|end| clock.wall(end));
            self.due.jobs.remove(&account.subject);
        } else {
            self.due.jobs.insert(account.subject.clone(), cadence::next(now, every));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::tests::{Hands, S};

    /// When a reading would be made, in seconds of a steady clock, while the clock is set at 95 by so many seconds.
    fn readings(set_by: i64, suspended: u64) -> Vec<u64> {
        let (hands, clock) = Hands::new(0, 0, 1_800_000_000 * S);
        let every = 10 * S;
        let mut due = Due { offset: clock.offset(), ..Due::default() };
        due.all = cadence::next(clock.wall(0), every);
        let mut made = Vec::new();
        for second in 0..200 {
            if second == 95 {
                hands.set(set_by * S.cast_signed());
                hands.suspend(suspended * S);
                clock.follow();
            }
            due.follow(clock.offset());
            let now = clock.wall(hands.now().monotonic);
            if now >= due.all {
                made.push(second);
                due.all = cadence::next(now, every);
            }
            hands.pass(S);
        }
        made
    }

    #[test]
    fn the_rhythm_goes_on_when_the_clock_is_set() {
        let usual: Vec<u64> = (1..20).map(|n| 10 * n).collect();
        for (set_by, suspended, after) in [
            (0, 0, vec![100, 110, 120]),
            // Neither a burst nor a stall; the reading after the next is aligned again.
            (3600, 0, vec![100, 110, 120]),
            (-3600, 0, vec![100, 110, 120]),
            (-1_700_000_000, 0, vec![100, 110, 120]),
            (3, 0, vec![100, 107, 117]),
            (-3, 0, vec![100, 103, 113]),
            // What was due while it slept is made once.
            (0, 3600, vec![95, 100, 110]),
            (0, 7, vec![95, 103, 113]),
        ] {
            let made = readings(set_by, suspended);
            assert_eq!(made[..9], usual[..9], "{set_by} {suspended}");
            assert_eq!(made[9..12], after, "{set_by} {suspended}");
            assert!(made.windows(2).all(|two| two[1] - two[0] <= 10), "{set_by} {suspended}: {made:?}");
        }
    }

    #[test]
    fn a_user_with_many_sessions_is_read_often_in_a_bounded_number_of_them() {
        let mut due = Due { all: 60, ..Due::default() };
        let account = |uid, n: usize| {
            let subject = Subject { job: None, node: None, session: Some(format!("{uid}-{n}")) };
            Account { uid: Some(uid), ..Account::new(subject, 0) }
        };
        let mut accounts: Vec<Account> = (0..OFTEN_MAX + 10).map(|n| account(7, n)).collect();
        accounts.push(account(8, 0));
        accounts.push(Account { last_end: Some(1), ..account(7, usize::MAX) });
        due.jobs.insert(accounts[OFTEN_MAX + 11].subject.clone(), 60);
        let mut wanted = vec![true; accounts.len()];
        due.bound_users(&accounts, &mut wanted, false);
        let left_out: Vec<usize> = (0..wanted.len()).filter(|at| !wanted[*at]).collect();
        assert_eq!(
            left_out,
            (OFTEN_MAX..OFTEN_MAX + 10).collect::<Vec<_>>(),
            "neither another user's nor an end"
        );
        assert!(left_out.iter().all(|at| due.jobs[&accounts[*at].subject] == 60), "their usual time is due");
        // Those that came and went are bounded at all times, and put off to none.
        let ended = |n: usize| Account { last_end: Some(1), ..account(9, n) };
        let gone: Vec<Account> = (0..OFTEN_MAX + 3).map(ended).collect();
        let mut wanted = vec![true; gone.len()];
        due.bound_users(&gone, &mut wanted, true);
        assert_eq!(wanted.iter().filter(|is_wanted| **is_wanted).count(), OFTEN_MAX);
        assert!(!due.jobs.contains_key(&gone[OFTEN_MAX].subject));
        due.met = Some(30);
        assert_eq!(due.next(), 30);
        due.follow(-10);
        assert_eq!((due.next(), due.all), (20, 50));
    }

    #[test]
    fn what_is_due_moves_with_the_clock() {
        let subject = |job: &str| Subject { job: Some(job.into()), node: None, session: None };
        let mut due = Due { all: 60, ..Due::default() };
        due.jobs.insert(subject("1"), 31);
        due.jobs.insert(subject("2"), 0);
        due.follow(-40);
        due.follow(-40);
        assert_eq!((due.all, due.jobs[&subject("1")], due.jobs[&subject("2")]), (20, 0, 0));
    }
}
