//! What each job and session has used through processes that have ended, and which processes it has.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use minicbor::{Decode, Encode};
use record::entry::{JobFrom, Place};
use record::reading::{JobReading, Reserved};

use super::draft::{About, Context};
use super::usage::Sum;
use super::{Process, Table};
use crate::job::{self, Job, Variables};

/// A job or session without processes is forgotten after this time: a job may be without any between two steps.
const FORGET_NS: u64 = 3_600_000_000_000;
const SIGKILL: u32 = 9;
/// So many accounts are kept, about 3 MB: anyone may begin sessions without end. Whoever has most loses their oldest.
pub(super) const ACCOUNTS_MAX: usize = 4096;
/// So many are remembered to have been met until they are counted: anyone may begin sessions without end.
const MET_MAX: usize = 4096;

/// A batch job on a node, or a session where there is none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject {
    pub job: Option<String>,
    /// The resource manager's name for the node; several may be on one host.
    pub node: Option<String>,
    pub session: Option<String>,
}

impl Subject {
    /// Whose reading this is.
    pub fn of_reading(reading: &JobReading) -> Subject {
        let JobReading { job, node, session, .. } = reading.clone();
        Subject { job, node, session }
    }

    /// Whether it is the session of somebody who logged in.
    pub fn is_login(&self) -> bool {
        self.session.as_deref().is_some_and(record::session::is_login)
    }

    /// Whom the processes with this context belong to, if to anyone. `said` is what one says itself.
    fn of(context: &Context, said: Place) -> Option<Subject> {
        let job = context.job.as_ref();
        let id = job.map(|job| job.id.clone()).or(said.job);
        let session = context.session.as_deref().filter(|_| id.is_none()).map(str::to_owned);
        let node = job.and_then(|job| job.node.clone()).or(said.node).filter(|_| id.is_some());
        let is_any = id.is_some() || session.is_some();
        is_any.then_some(Subject { job: id, node, session })
    }
}

/// What processes had used when they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct Ended {
    #[n(0)]
    pub processes: u64,
    /// Of them, those whose accounting was lost.
    #[n(1)]
    pub unaccounted: u64,
    #[n(2)]
    pub user_ns: u64,
    #[n(3)]
    pub system_ns: u64,
    #[n(4)]
    pub read_bytes: u64,
    #[n(5)]
    pub write_bytes: u64,
    #[n(6)]
    pub read_chars: u64,
    #[n(7)]
    pub write_chars: u64,
    #[n(8)]
    pub minor_faults: u64,
    #[n(9)]
    pub major_faults: u64,
    #[n(10)]
    pub switches: u64,
    #[n(11)]
    pub involuntary_switches: u64,
    /// The highest peak of any of them.
    #[n(12)]
    pub peak_bytes: u64,
    /// Of them, those that the kernel says it killed for want of memory.
    #[n(13)]
    #[cbor(default)]
    pub killed_for_memory: u64,
}

impl Ended {
    fn add(&mut self, sum: &Sum) {
        self.processes += 1;
        self.unaccounted += u64::from(sum.missing || !sum.any);
        let (user, system) = super::usage::split(sum.cpu_ns, sum.user_us, sum.system_us);
        self.user_ns += user;
        self.system_ns += system;
        self.read_bytes += sum.read_bytes;
        self.write_bytes += sum.write_bytes;
        self.read_chars += sum.read_chars;
        self.write_chars += sum.write_chars;
        self.minor_faults += sum.minor_faults;
        self.major_faults += sum.major_faults;
        self.switches += sum.switches;
        self.involuntary_switches += sum.involuntary_switches;
        self.peak_bytes = self.peak_bytes.max(sum.peak_kib * 1024);
    }
}

/// The account of a job or session. Times are monotonic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub subject: Subject,
    pub cluster: Option<String>,
    pub uid: Option<u32>,
    pub first_start: u64,
    pub last_end: Option<u64>,
    pub ended: Ended,
    pub reserved: Reserved,
    /// What the job asked for in its environment.
    pub rate: Option<Vec<u8>>,
    /// The numbers of the GPUs it was given, as the resource manager writes them.
    pub given_cards: Option<String>,
    /// Those that the vendor's library shows to it; numbers among them may be relative to the former.
    pub visible_cards: Option<String>,
}

/// Who runs, and what those who do not any more have used.
#[derive(Debug, Clone, Default)]
pub struct Census {
    pub accounts: Vec<Account>,
    pub live: HashMap<u32, Alive>,
}

impl Census {
    /// The batch jobs that run.
    pub fn running_jobs(&self) -> impl Iterator<Item = &str> {
        let running = self.accounts.iter().filter(|account| account.last_end.is_none());
        running.filter_map(|account| account.subject.job.as_deref())
    }
}

/// A process that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alive {
    /// Monotonic.
    pub start: u64,
    /// The place of its account.
    pub account: usize,
    /// What its threads had used that have ended.
    pub ended: Ended,
}

/// All accounts.
#[derive(Default)]
pub struct Accounts {
    of: HashMap<Subject, Account>,
    /// Ended in this turn; their threads' accounting comes with it.
    ending: Vec<Ending>,
    /// Jobs and sessions of which something has ended since they were last asked for.
    touched: HashSet<Subject>,
    /// Jobs that have been seen, with their nodes, and whether one is new since it was last asked.
    jobs: HashSet<(String, Option<String>)>,
    has_begun: bool,
    /// Others that were met since the last census and have no account yet, and whether one was since it was last asked.
    met: HashSet<Subject>,
    has_met: bool,
}

struct Ending {
    pid: u32,
    subject: Subject,
    start: u64,
    end: u64,
    uid: Option<u32>,
    sums: Vec<Rc<RefCell<Sum>>>,
    was_killed: bool,
    was_killed_for_memory: bool,
}

impl Accounts {
    /// Notes that a process belongs to this job.
    pub fn note_job(&mut self, job: &Job) {
        let key = (job.id.clone(), job.node.clone());
        self.has_begun |= self.jobs.insert(key);
    }

    /// Notes whom a process belongs to of which neither a control group nor a step daemon tells.
    fn meet(&mut self, subject: Subject) {
        let has_room = self.met.len() < MET_MAX;
        self.has_met |= has_room && !self.of.contains_key(&subject) && self.met.insert(subject);
    }

    /// A job has got another name.
    pub fn rename(&mut self, before: &str, id: &str) {
        let named = |subject: &Subject| Subject { job: Some(id.to_owned()), ..subject.clone() };
        let is_meant = |subject: &Subject| subject.job.as_deref() == Some(before);
        for ending in self.ending.iter_mut().filter(|ending| is_meant(&ending.subject)) {
            ending.subject = named(&ending.subject);
        }
        let old: Vec<Subject> = self.of.keys().filter(|subject| is_meant(subject)).cloned().collect();
        for subject in old {
            let new = named(&subject);
            // What was charged to the old name stays there if the new one has an account already.
            if !self.of.contains_key(&new)
                && let Some(account) = self.of.remove(&subject)
            {
                self.of.insert(new.clone(), Account { subject: new, ..account });
            }
        }
    }

    /// Charges what has ended; to be called when the accounting of all threads is settled.
    pub fn settle(&mut self) {
        for ending in self.ending.drain(..) {
            let total = total(&ending.sums);
            let account = self
                .of
                .entry(ending.subject.clone())
                .or_insert_with_key(|subject| Account::new(subject.clone(), ending.start));
            account.meet(ending.start, ending.uid);
            account.last_end = account.last_end.max(Some(ending.end));
            account.ended.add(&total);
            account.ended.killed_for_memory += u64::from(ending.was_killed_for_memory);
            self.touched.insert(ending.subject);
        }
    }

    /// Forgets the older half of what has ended of the user who has most of it; not those that are `live`.
    fn make_room(&mut self, live: &HashSet<Subject>) {
        let mut quiet: HashMap<Option<u32>, Vec<(Option<u64>, Subject)>> = HashMap::new();
        for (subject, account) in self.of.iter().filter(|(subject, _)| !live.contains(*subject)) {
            quiet.entry(account.uid).or_default().push((account.last_end, subject.clone()));
        }
        let Some(mut most) = quiet.into_values().max_by_key(Vec::len) else { return };
        most.sort_unstable_by_key(|(last_end, _)| *last_end);
        for (_, subject) in most.drain(..most.len().div_ceil(2)) {
            self.of.remove(&subject);
        }
    }
}

impl Account {
    pub fn new(subject: Subject, first_start: u64) -> Account {
        Account {
            subject,
            cluster: None,
            uid: None,
            first_start,
            last_end: None,
            ended: Ended::default(),
            reserved: Reserved::default(),
            rate: None,
            given_cards: None,
            visible_cards: None,
        }
    }

    /// Takes in a process.
    pub fn meet(&mut self, start: u64, uid: Option<u32>) {
        self.first_start = self.first_start.min(start);
        self.uid = owner(self.uid, uid);
    }

    fn learn(&mut self, process: &Process, about: &About) {
        self.meet(process.start, process.credentials.real());
        self.cluster = self.cluster.take().or_else(|| about.variables().text("SLURM_CLUSTER_NAME"));
        let Some(env) = &about.env else { return };
        let variables = Variables(env);
        let number = |name| variables.text(name)?.parse().ok();
        // Zero asks for all there is: how much that is the control group says.
        let megabytes = |name| variables.text(name)?.parse::<u64>().ok().filter(|megabytes| *megabytes > 0);
        // Nor can it ask for more than a number of the store can say.
        let fits = |bytes: &u64| i64::try_from(*bytes).is_ok();
        let times = |amount: u64, factor: u64| amount.checked_mul(factor).filter(fits);
        let memory = |name| times(megabytes(name)?, 1024 * 1024);
        let reserved = &mut self.reserved;
        reserved.cpus = reserved.cpus.or_else(|| number("SLURM_CPUS_ON_NODE"));
        reserved.gpus = reserved.gpus.or_else(|| number("SLURM_GPUS_ON_NODE"));
        reserved.memory = reserved
            .memory
            .or_else(|| memory("SLURM_MEM_PER_NODE"))
            .or_else(|| times(memory("SLURM_MEM_PER_CPU")?, u64::from(reserved.cpus?)));
        let text = |name| variables.text(name);
        let given = || text("SLURM_JOB_GPUS").or_else(|| text("SLURM_STEP_GPUS"));
        self.given_cards = self.given_cards.take().or_else(given);
        self.visible_cards = self.visible_cards.take().or_else(|| text("CUDA_VISIBLE_DEVICES"));
        self.rate = self.rate.take().or_else(|| variables.get("JOBGLASS_RATE").map(<[u8]>::to_vec));
    }
}

/// The resource manager's own processes in a job are root's; the job is not.
fn owner(known: Option<u32>, other: Option<u32>) -> Option<u32> {
    known.filter(|uid| *uid != 0).or(other).or(known)
}

fn total(sums: &[Rc<RefCell<Sum>>]) -> Sum {
    let mut total = Sum::default();
    for sum in sums {
        let sum = sum.borrow();
        total.peak_kib = total.peak_kib.max(sum.peak_kib);
        total.join(&sum);
    }
    total
}

impl Process {
    /// All sums of threads that have ended in this process.
    fn sums(&self) -> Vec<Rc<RefCell<Sum>>> {
        let mut sums = self.earlier.clone();
        sums.push(self.image.sum.clone());
        sums
    }

    fn ended(&self) -> Ended {
        let mut ended = Ended::default();
        ended.add(&total(&self.sums()));
        ended
    }
}

impl Table {
    /// Notes that a process has ended.
    pub(super) fn note_end(&mut self, pid: u32, process: &Process, end: u64, status: Option<u32>) {
        let Some(subject) = self.subject(process) else { return };
        self.accounts.ending.push(Ending {
            pid,
            subject,
            start: process.start,
            end,
            uid: process.credentials.real(),
            sums: process.sums(),
            was_killed: status.is_some_and(|status| status & 0x7f == SIGKILL),
            was_killed_for_memory: false,
        });
    }

    /// Keeps accounts within their bound.
    pub(super) fn bound_accounts(&mut self) {
        if self.accounts.of.len() >= ACCOUNTS_MAX {
            let live: HashSet<Subject> =
                self.live.values().filter_map(|process| self.subject(process)).collect();
            self.accounts.make_room(&live);
        }
    }

    /// Whether a process was killed of those that are not settled yet.
    pub fn has_killed(&self) -> bool {
        self.accounts.ending.iter().any(|ending| ending.was_killed)
    }

    /// These processes were killed for want of memory, and are not settled yet.
    pub fn note_killed_for_memory(&mut self, pids: &[u32]) {
        for ending in self.accounts.ending.iter_mut().filter(|ending| ending.was_killed) {
            ending.was_killed_for_memory = pids.contains(&ending.pid);
        }
    }

    /// Whom a process belongs to. The step daemon serves the job and is not part of it, nor are its copies of which it makes
    /// the job's processes.
    fn subject(&self, process: &Process) -> Option<Subject> {
        let context = &process.context;
        let is_told_by_stepd = context.job.as_ref().is_some_and(|job| job.from == JobFrom::Stepd);
        if process.is_stepd || is_told_by_stepd && process.exec == 0 {
            return None;
        }
        let about = process.image.about.borrow();
        Subject::of(context, job::place(None, about.variables(), None, !self.jobs_are_told))
    }

    /// Takes over the account of a job or session from an earlier agent. It has ended by now unless it is found to run.
    pub fn restore_account(&mut self, subject: Subject, start: u64, uid: Option<u32>, ended: Ended) {
        let now = crate::clock::monotonic_ns();
        let account = Account { uid, last_end: Some(now), ended, ..Account::new(subject.clone(), start) };
        self.accounts.of.insert(subject, account);
    }

    /// Whether a job has begun since the last call.
    pub fn take_begun(&mut self) -> bool {
        std::mem::take(&mut self.accounts.has_begun)
    }

    /// Whether a session has begun since the last call, or a job that only its processes name.
    pub fn take_met(&mut self) -> bool {
        std::mem::take(&mut self.accounts.has_met)
    }

    /// Notes whom a process belongs to, if that is no job that a trusted source has told.
    pub(super) fn meet(&mut self, pid: u32) {
        let Some(process) = self.live.get(&pid).filter(|process| process.context.job.is_none()) else {
            return;
        };
        if let Some(subject) = self.subject(process) {
            self.accounts.meet(subject);
        }
    }

    /// Jobs of which the last process has ended since the last call.
    pub fn take_quiet(&mut self) -> Vec<Subject> {
        let mut touched = std::mem::take(&mut self.accounts.touched);
        touched.retain(|subject| subject.job.is_some());
        if touched.is_empty() {
            return Vec::new();
        }
        for process in self.live.values() {
            if let Some(subject) = self.subject(process) {
                touched.remove(&subject);
            }
        }
        touched.into_iter().collect()
    }

    /// Who runs now, and what has been used by those who have ended.
    pub fn census(&mut self, now: u64) -> Census {
        let mut census = Census::default();
        let mut at: HashMap<Subject, usize> = HashMap::new();
        self.accounts.met.clear();
        let mut accounts = std::mem::take(&mut self.accounts.of);
        accounts.retain(|_, account| account.last_end.is_none_or(|end| now.saturating_sub(end) < FORGET_NS));
        for (pid, process) in &self.live {
            let Some(subject) = self.subject(process) else { continue };
            let about = process.image.about.borrow();
            let account = accounts
                .entry(subject)
                .or_insert_with_key(|subject| Account::new(subject.clone(), process.start));
            account.learn(process, &about);
            // The time of the last end only tells how long nothing has run.
            account.last_end = None;
            let next = at.len();
            let index = *at.entry(account.subject.clone()).or_insert(next);
            census.live.insert(*pid, Alive { start: process.start, account: index, ended: process.ended() });
        }
        // A process may have come to another's account before it ended: then this one is over, or was nothing.
        accounts.retain(|subject, account| {
            let is_empty = !at.contains_key(subject) && account.last_end.is_none();
            if is_empty && account.ended.processes > 0 {
                account.last_end = Some(now);
            }
            !is_empty || account.ended.processes > 0
        });
        let order: HashMap<&Subject, usize> = at.iter().map(|(subject, index)| (subject, *index)).collect();
        census.accounts = accounts.values().cloned().collect();
        // Accounts with processes come first, in the order of their numbers.
        census.accounts.sort_by_key(|account| order.get(&account.subject).copied().unwrap_or(usize::MAX));
        for account in census.accounts.iter_mut().filter(|account| account.subject.job.is_some()) {
            let known = account.cluster.take().or_else(|| self.cluster.clone());
            account.cluster = self.around.cluster.clone().or(known);
        }
        let is_known = |(id, node): &(String, Option<String>)| {
            let subject = Subject { job: Some(id.clone()), node: node.clone(), session: None };
            accounts.contains_key(&subject)
        };
        self.accounts.jobs.retain(is_known);
        self.accounts.of = accounts;
        census
    }
}
