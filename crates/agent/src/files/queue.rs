//! What is to be looked at, shared fairly between users.
//!
//! A user may put a file system behind their files that never answers, or files that take minutes to read. So each user
//! has a queue of their own with a bound, users take turns, and of one user only one thing is done at a time: whatever
//! hangs holds one thread and makes its own user wait. Lookups, for which images wait, come before hashes, for which nobody
//! does. Hashing goes in slices, the smallest file of a user first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What one user may have waiting.
const USER_BYTES: usize = 1024 * 1024;
const USER_TASKS: usize = 1024;
/// What all may have waiting.
const ALL_BYTES: usize = 16 * 1024 * 1024;
/// A user's files that are open half read; further ones wait, also smaller ones.
const OPEN_MAX: usize = 4;
/// Without this room for others a user who is alone would leave nothing to one who comes.
const USER_SHARE: f64 = 0.5;

/// Reading that may go on later.
pub trait Slices {
    /// How much is to be read in all.
    fn size(&self) -> u64;
    /// Whether a part was read.
    fn is_begun(&self) -> bool;
}

/// What a thread is to do next, for a user.
pub enum Work<L, H> {
    Lookup(L),
    Hash(H),
}

/// Bytes per second, with what was not used of the last second.
struct Budget {
    left: f64,
    filled: Instant,
}

impl Budget {
    fn new(rate: f64) -> Budget {
        Budget { left: rate, filled: Instant::now() }
    }

    fn fill(&mut self, rate: f64, now: Instant) {
        let gained = now.saturating_duration_since(self.filled).as_secs_f64() * rate;
        self.left = (self.left + gained).min(rate);
        self.filled = now;
    }

    /// When it will be more than empty. It may go below: a slice is read whole.
    fn ready_in(&self, rate: f64) -> Duration {
        if self.left > 0.0 { Duration::ZERO } else { Duration::from_secs_f64((1.0 - self.left) / rate) }
    }
}

struct Waiting<L, H> {
    lookups: VecDeque<(L, usize)>,
    hashes: BTreeMap<(u64, u64), (H, usize)>,
    bytes: usize,
    /// A thread is at work for this user.
    is_busy: bool,
    budget: Budget,
}

impl<L, H: Slices> Waiting<L, H> {
    fn is_idle(&self) -> bool {
        self.lookups.is_empty() && self.hashes.is_empty() && !self.is_busy
    }

    /// The smallest file; when enough are open, the smallest of those.
    fn take_hash(&mut self) -> Option<(H, usize)> {
        let begun = self.hashes.values().filter(|(hash, _)| hash.is_begun()).count();
        let is_next = |hash: &H| begun < OPEN_MAX || hash.is_begun();
        let key = *self.hashes.iter().find(|(_, (hash, _))| is_next(hash))?.0;
        self.hashes.remove(&key)
    }
}

struct State<L, H> {
    users: BTreeMap<u32, Waiting<L, H>>,
    bytes: usize,
    /// Who had the last turn of each kind.
    looked_up: u32,
    hashed: u32,
    number: u64,
    budget: Budget,
    idle_threads: usize,
    threads: usize,
}

/// The queue.
pub struct Queue<L, H> {
    state: Mutex<State<L, H>>,
    changed: Condvar,
    rate: f64,
}

impl<L, H: Slices> Queue<L, H> {
    /// With so many bytes hashed per second.
    pub fn new(bytes_per_second: u64) -> Self {
        let rate = bytes_per_second.max(1) as f64;
        let state = State {
            users: BTreeMap::new(),
            bytes: 0,
            looked_up: 0,
            hashed: 0,
            number: 0,
            budget: Budget::new(rate),
            idle_threads: 0,
            threads: 0,
        };
        Queue { state: Mutex::new(state), changed: Condvar::new(), rate }
    }

    /// Puts in what takes `bytes` of memory; gives it back if the user, or everyone, has too much waiting.
    pub fn push(&self, user: u32, work: Work<L, H>, bytes: usize) -> Result<(), Work<L, H>> {
        let mut state = self.lock();
        if state.bytes + bytes > ALL_BYTES {
            return Err(work);
        }
        let rate = self.rate * USER_SHARE;
        let new = || Waiting {
            lookups: VecDeque::new(),
            hashes: BTreeMap::new(),
            bytes: 0,
            is_busy: false,
            budget: Budget::new(rate),
        };
        let number = state.number;
        let waiting = state.users.entry(user).or_insert_with(new);
        let tasks = waiting.lookups.len() + waiting.hashes.len();
        if waiting.bytes + bytes > USER_BYTES || tasks >= USER_TASKS {
            return Err(work);
        }
        waiting.bytes += bytes;
        match work {
            Work::Lookup(lookup) => waiting.lookups.push_back((lookup, bytes)),
            Work::Hash(hash) => {
                waiting.hashes.insert((hash.size(), number), (hash, bytes));
            }
        }
        state.number += 1;
        state.bytes += bytes;
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Whether something waits and another thread should be started for it; then it counts as started.
    pub fn wants_thread(&self, max: usize) -> bool {
        let mut state = self.lock();
        let has_work = |waiting: &Waiting<L, H>| {
            let has_any = !waiting.lookups.is_empty() || !waiting.hashes.is_empty();
            has_any && !waiting.is_busy
        };
        let is_wanted = state.idle_threads == 0 && state.threads < max && state.users.values().any(has_work);
        state.threads += usize::from(is_wanted);
        is_wanted
    }

    /// A thread is started without being asked for.
    pub fn add_thread(&self) {
        self.lock().threads += 1;
    }

    /// A thread could not be started after all.
    pub fn lost_thread(&self) {
        self.lock().threads -= 1;
    }

    /// Waits for what is to be done next; [`Queue::done`] ends it.
    pub fn next(&self) -> (u32, Work<L, H>) {
        let mut state = self.lock();
        loop {
            if let Some(next) = state.lookup() {
                return next;
            }
            let wait = match state.hash(self.rate) {
                Ok(next) => return next,
                Err(wait) => wait,
            };
            state.idle_threads += 1;
            state = match wait {
                Some(wait) => {
                    self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
            state.idle_threads -= 1;
        }
    }

    /// A user's work is done, so that their next can be; `read` bytes were hashed, and `unfinished` goes on later.
    pub fn done(&self, user: u32, read: u64, unfinished: Option<H>) {
        let mut state = self.lock();
        state.budget.left -= read as f64;
        let number = state.number;
        state.number += 1;
        if let Some(waiting) = state.users.get_mut(&user) {
            waiting.is_busy = false;
            waiting.budget.left -= read as f64;
            if let Some(hash) = unfinished {
                // Its bytes are not counted again: it is one for each user at most that goes beyond.
                waiting.hashes.insert((hash.size(), number), (hash, 0));
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// What waits takes so many bytes.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, State<L, H>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L, H: Slices> State<L, H> {
    fn lookup(&mut self) -> Option<(u32, Work<L, H>)> {
        let has_lookup = |waiting: &Waiting<L, H>| !waiting.is_busy && !waiting.lookups.is_empty();
        let user = after(self.looked_up, &self.users, has_lookup)?;
        self.looked_up = user;
        let waiting = self.users.get_mut(&user)?;
        let (lookup, bytes) = waiting.lookups.pop_front()?;
        self.take(user, bytes);
        Some((user, Work::Lookup(lookup)))
    }

    /// The next slice, or after which time there may be one.
    fn hash(&mut self, rate: f64) -> Result<(u32, Work<L, H>), Option<Duration>> {
        let now = Instant::now();
        let user_rate = rate * USER_SHARE;
        self.budget.fill(rate, now);
        self.users.values_mut().for_each(|waiting| waiting.budget.fill(user_rate, now));
        // Whoever has nothing waiting and owes nothing is forgotten.
        self.users.retain(|_, waiting| !waiting.is_idle() || waiting.budget.left < user_rate);
        let waits = |waiting: &Waiting<L, H>| !waiting.is_busy && !waiting.hashes.is_empty();
        let soonest =
            self.users.values().filter(|waiting| waits(waiting)).map(|w| w.budget.ready_in(user_rate)).min();
        let wait = soonest.map(|soonest| soonest.max(self.budget.ready_in(rate)));
        if wait != Some(Duration::ZERO) {
            return Err(wait);
        }
        let is_ready = |waiting: &Waiting<L, H>| waits(waiting) && waiting.budget.left > 0.0;
        let user = after(self.hashed, &self.users, is_ready).ok_or(None)?;
        self.hashed = user;
        let (hash, bytes) = self.users.get_mut(&user).and_then(Waiting::take_hash).ok_or(None)?;
        self.take(user, bytes);
        Ok((user, Work::Hash(hash)))
    }

    fn take(&mut self, user: u32, bytes: usize) {
        self.bytes -= bytes;
        if let Some(waiting) = self.users.get_mut(&user) {
            waiting.bytes -= bytes;
            waiting.is_busy = true;
        }
    }
}

/// The first user behind `last`, in a circle, for whom this holds.
fn after<W>(last: u32, users: &BTreeMap<u32, W>, holds: impl Fn(&W) -> bool) -> Option<u32> {
    let mut behind = users.range(last.saturating_add(1)..).chain(users.range(..=last));
    behind.find(|(_, waiting)| holds(waiting)).map(|(user, _)| *user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Reading(&'static str, u64, u64);

    impl Slices for Reading {
        fn size(&self) -> u64 {
            self.1
        }

        fn is_begun(&self) -> bool {
            self.2 > 0
        }
    }

    type Tested = Queue<&'static str, Reading>;

    fn lookup(queue: &Tested, user: u32, name: &'static str) -> bool {
        queue.push(user, Work::Lookup(name), 10).is_ok()
    }

    fn hash(queue: &Tested, user: u32, name: &'static str, size: u64) -> bool {
        queue.push(user, Work::Hash(Reading(name, size, 0)), 10).is_ok()
    }

    fn next(queue: &Tested) -> (u32, &'static str) {
        match queue.next() {
            (user, Work::Lookup(name)) => (user, name),
            (user, Work::Hash(reading)) => (user, reading.0),
        }
    }

    #[test]
    fn users_take_turns_and_lookups_come_first() {
        let queue = Tested::new(u64::MAX);
        hash(&queue, 1, "hash", 5);
        (0..3).for_each(|_| assert!(lookup(&queue, 1, "one")));
        lookup(&queue, 2, "two");
        let mut order = Vec::new();
        for _ in 0..5 {
            let (user, name) = next(&queue);
            order.push(name);
            queue.done(user, 0, None);
        }
        assert_eq!(order, ["one", "two", "one", "one", "hash"]);
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn a_user_whose_work_hangs_waits_alone() {
        let queue = Tested::new(u64::MAX);
        lookup(&queue, 1, "hangs");
        lookup(&queue, 1, "behind it");
        lookup(&queue, 2, "other");
        lookup(&queue, 2, "another");
        assert_eq!(next(&queue), (1, "hangs"));
        assert_eq!(next(&queue), (2, "other"));
        queue.done(2, 0, None);
        assert_eq!(next(&queue), (2, "another"), "not the one behind it");
        queue.done(1, 0, None);
        assert_eq!(next(&queue), (1, "behind it"));
    }

    #[test]
    fn a_small_file_overtakes_a_large_one_of_the_same_user() {
        let queue = Tested::new(1 << 40);
        hash(&queue, 1, "large", 1 << 30);
        let (user, Work::Hash(large)) = queue.next() else { panic!("no hash") };
        hash(&queue, 1, "small", 100);
        queue.done(user, 1 << 20, Some(Reading("large", large.1, 1 << 20)));
        assert_eq!(next(&queue), (1, "small"));
        hash(&queue, 1, "smaller", 10);
        hash(&queue, 1, "smallest", 1);
        queue.done(1, 0, None);
        assert_eq!(next(&queue), (1, "smallest"), "also before it has begun");
    }

    /// A user who reads without end leaves budget to one who comes.
    #[test]
    fn another_users_file_does_not_wait_for_a_large_one() {
        let queue = Tested::new(1 << 20);
        hash(&queue, 1, "large", 1 << 30);
        hash(&queue, 1, "large too", 1 << 30);
        let (user, Work::Hash(large)) = queue.next() else { panic!("no hash") };
        // More than this user's share of a second, less than the whole.
        queue.done(user, 3 << 18, Some(Reading(large.0, large.1, 1)));
        assert!(queue.lock().hash(queue.rate).is_err(), "whoever had their share waits");
        hash(&queue, 2, "small", 100);
        assert!(matches!(queue.lock().hash(queue.rate), Ok((2, _))), "it has its turn at once");
    }

    #[test]
    fn what_a_user_may_have_waiting_is_bounded_and_others_are_not_concerned() {
        let queue = Tested::new(1);
        let taken = (0..10_000).filter(|_| lookup(&queue, 1, "x")).count();
        assert_eq!(taken, USER_TASKS);
        assert!(queue.push(3, Work::Lookup("x"), USER_BYTES + 1).is_err());
        assert!(lookup(&queue, 2, "x"));
        for user in 10..100 {
            let _ = queue.push(user, Work::Lookup("x"), USER_BYTES);
        }
        assert!(queue.bytes() <= ALL_BYTES);
    }
}
