//! Reads in `/proc` what stands in a process's memory: arguments, environment, mappings.
//!
//! The kernel takes the lock of the process's memory for that, and whoever holds it may be waiting for a file system that does not
//! answer, which anybody can have. Nothing but the end of the reader ends such a wait. So a helper reads, and the main
//! thread waits for it a moment only: a helper that is stuck is left to itself, the next read gets another, and its user's
//! processes are not read for a while, which is longer each time.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sample::Proc;

use crate::counters::Counters;
use crate::waits::Waits;

/// What is not read within this time is given up.
const PATIENCE: Duration = Duration::from_millis(50);
/// A user's process may also be slow by chance, when one that forks lost its processor while it held the lock: the user is read again soon, in
/// time for the second look at a process that has just begun.
const FIRST_REST: Duration = Duration::from_millis(250);
/// Whoever keeps the main thread waiting again and again is left alone for this long.
const LONGEST_REST: Duration = Duration::from_secs(30);
/// After this long without another wait, the next one is the first again.
const FORGIVEN: Duration = Duration::from_secs(60);
/// Helpers that may be stuck, each with a user of its own.
const STUCK_MAX: usize = 12;
/// Users of whom it is remembered that they rest.
const RESTING_MAX: usize = 1024;

type Job = Box<dyn FnOnce(&Proc) + Send>;

/// A thread that reads, and the way to it.
struct Helper {
    jobs: Sender<Job>,
    /// Its number; 0 until it has begun.
    thread: Arc<AtomicI32>,
}

/// The helpers; copies share them.
#[derive(Clone)]
pub struct Peeks(Arc<Desk>);

struct Desk {
    proc: Proc,
    counters: Arc<Counters>,
    waits: Waits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The one that is not stuck.
    helper: Option<Helper>,
    /// Reads that were given up and have not ended.
    stuck: HashMap<u32, usize>,
    resting: HashMap<u32, Rest>,
}

/// The time for which a user is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rest {
    until: Instant,
    length: Duration,
}

impl Rest {
    /// What follows when a user has kept the main thread waiting: twice the rest before, unless that is long ago.
    fn after(before: Option<&Rest>, now: Instant) -> Rest {
        let recent = before.filter(|rest| !rest.is_forgiven(now));
        let length = recent.map_or(FIRST_REST, |rest| (rest.length * 2).min(LONGEST_REST));
        Rest { until: now + length, length }
    }

    fn is_forgiven(&self, now: Instant) -> bool {
        now > self.until + FORGIVEN
    }
}

impl Peeks {
    pub fn new(proc: Proc, counters: Arc<Counters>, waits: Waits) -> Peeks {
        Peeks(Arc::new(Desk { proc, counters, waits, state: Mutex::default() }))
    }

    /// Reads something of a user's process; `None` as well if it cannot be read now.
    pub fn read<T: Send + 'static>(
        &self,
        user: u32,
        pid: u32,
        read: impl FnOnce(&Proc) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = sync_channel(1);
        if !self.0.begin(user, self.job(user, pid, read, answer)) {
            self.0.counters.processes_unread.one();
            return None;
        }
        loop {
            match answered.recv_timeout(PATIENCE) {
                Ok(value) => return value,
                // On a busy machine it may have to wait for a processor, which is nobody's fault.
                Err(_) if self.0.is_running() => {}
                Err(_) => return self.0.give_up(user, &answered),
            }
        }
    }

    fn job<T: Send + 'static>(
        &self,
        user: u32,
        pid: u32,
        read: impl FnOnce(&Proc) -> Option<T> + Send + 'static,
        answer: SyncSender<Option<T>>,
    ) -> Job {
        let desk = self.0.clone();
        Box::new(move |proc: &Proc| {
            let value = desk.waits.during("peek", format_args!("the memory of process {pid}"), || read(proc));
            let _ = answer.send(value);
            desk.end(user);
        })
    }
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a helper its work, unless it would only be stuck as well.
    fn begin(&self, user: u32, job: Job) -> bool {
        let mut state = self.state();
        let is_resting = state.resting.get(&user).is_some_and(|rest| rest.until > Instant::now());
        if is_resting || state.stuck.contains_key(&user) || state.stuck.len() >= STUCK_MAX {
            return false;
        }
        let job = match &state.helper {
            Some(helper) => match helper.jobs.send(job) {
                Ok(()) => return true,
                Err(returned) => returned.0,
            },
            None => job,
        };
        let Ok(helper) = self.hire() else { return false };
        let is_begun = helper.jobs.send(job).is_ok();
        state.helper = Some(helper);
        is_begun
    }

    fn hire(&self) -> io::Result<Helper> {
        let (jobs, work) = channel::<Job>();
        let (proc, thread) = (self.proc.clone(), Arc::new(AtomicI32::new(0)));
        let number = thread.clone();
        let run = move || {
            number.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
            work.into_iter().for_each(|job| job(&proc));
        };
        thread::Builder::new().name("peek".into()).stack_size(256 * 1024).spawn(run)?;
        Ok(Helper { jobs, thread })
    }

    /// Whether the helper has a processor or waits for one.
    fn is_running(&self) -> bool {
        let number = self.state().helper.as_ref().map_or(0, |helper| helper.thread.load(Ordering::Relaxed));
        let stat = fs::read(format!("/proc/self/task/{number}/stat")).unwrap_or_default();
        number == 0
            || stat
                .rsplit(|byte| *byte == b')')
                .next()
                .is_some_and(|rest| rest.trim_ascii_start().starts_with(b"R"))
    }

    /// The helper is left to itself, unless it has answered after all.
    fn give_up<T>(&self, user: u32, answered: &Receiver<Option<T>>) -> Option<T> {
        let mut state = self.state();
        if let Ok(value) = answered.try_recv() {
            return value;
        }
        // It ends with its work: nobody else has the way to it.
        state.helper = None;
        *state.stuck.entry(user).or_default() += 1;
        let now = Instant::now();
        if state.resting.len() >= RESTING_MAX {
            state.resting.retain(|_, rest| !rest.is_forgiven(now));
        }
        let rest = Rest::after(state.resting.get(&user), now);
        state.resting.insert(user, rest);
        self.counters.processes_unread.one();
        None
    }

    fn end(&self, user: u32) {
        let mut state = self.state();
        let is_last = state.stuck.get_mut(&user).is_some_and(|count| {
            *count -= 1;
            *count == 0
        });
        if is_last {
            state.stuck.remove(&user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_hangs_costs_its_user_alone() {
        let counters = Arc::new(Counters::default());
        let peeks = Peeks::new(Proc::default(), counters.clone(), Waits::default());
        assert_eq!(peeks.read(1, 10, |_| Some(5)), Some(5));
        let (go_on, wait) = channel::<()>();
        assert_eq!(peeks.read(1, 10, move |_| wait.recv().ok()), None);
        assert_eq!(peeks.read(1, 11, |_| Some(6)), None, "the same user waits");
        assert_eq!(peeks.read(2, 12, |_| Some(7)), Some(7));
        assert_eq!(counters.processes_unread.get(), 2);
        go_on.send(()).unwrap();
        testkit::wait_until("the helper to come back", || peeks.0.state().stuck.is_empty());
        let longer = Rest { until: Instant::now() + LONGEST_REST, length: LONGEST_REST };
        let rest = peeks.0.state().resting.insert(1, longer);
        assert_eq!(rest.map(|rest| rest.length), Some(FIRST_REST), "they have kept all waiting");
        assert_eq!(peeks.read(1, 11, |_| Some(8)), None, "and are not read for a while");
        peeks.0.state().resting.clear();
        assert_eq!(peeks.read(1, 11, |_| Some(9)), Some(9));
    }

    /// A process that is slow by chance costs its user little: a job that only its environment names is found at the second look.
    #[test]
    fn a_user_rests_longer_each_time_and_is_forgiven() {
        let now = Instant::now();
        let first = Rest::after(None, now);
        assert_eq!(first.until - now, FIRST_REST);
        let mut rest = first;
        for _ in 0..9 {
            let next = Rest::after(Some(&rest), rest.until);
            assert_eq!(next.length, (rest.length * 2).min(LONGEST_REST));
            rest = next;
        }
        assert_eq!(rest.length, LONGEST_REST);
        let later = rest.until + FORGIVEN + Duration::from_millis(1);
        assert_eq!(Rest::after(Some(&rest), later).length, FIRST_REST);
    }

    #[test]
    fn so_many_helpers_are_stuck_and_no_more() {
        let counters = Arc::new(Counters::default());
        let peeks = Peeks::new(Proc::default(), counters.clone(), Waits::default());
        let ends: Vec<Sender<()>> = (0..STUCK_MAX as u32 + 3)
            .map(|user| {
                let (end, wait) = channel::<()>();
                assert_eq!(peeks.read(user, 10, move |_| wait.recv().ok()), None);
                end
            })
            .collect();
        assert_eq!(peeks.0.state().stuck.len(), STUCK_MAX);
        assert_eq!(counters.processes_unread.get(), STUCK_MAX as u64 + 3);
        drop(ends);
        testkit::wait_until("all to come back", || peeks.0.state().stuck.is_empty());
        assert_eq!(peeks.read(77, 10, |_| Some(1)), Some(1));
    }
}
