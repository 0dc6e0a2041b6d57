//! Which of the agent's threads waits for what that may never answer, such as a file on a server that is gone. The agent says it
//! in its health.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Who waits longer than this is worth a word.
const LONG: Duration = Duration::from_secs(10);

/// All waits; copies share them.
#[derive(Debug, Clone, Default)]
pub struct Waits(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    waits: BTreeMap<u64, Wait>,
    next: u64,
}

#[derive(Debug)]
struct Wait {
    who: &'static str,
    what: String,
    since: Instant,
}

impl Waits {
    /// Does what may hang, and is known to wait meanwhile. Several threads may have one name.
    pub fn during<T>(&self, who: &'static str, what: impl Display, ask: impl FnOnce() -> T) -> T {
        let wait = Wait { who, what: what.to_string(), since: Instant::now() };
        let number = {
            let mut state = self.lock();
            state.next += 1;
            let number = state.next;
            state.waits.insert(number, wait);
            number
        };
        let answer = ask();
        self.lock().waits.remove(&number);
        answer
    }

    /// In words, who has been waiting for long.
    pub fn long(&self) -> Vec<String> {
        self.longer_than(LONG)
    }

    pub(crate) fn longer_than(&self, long: Duration) -> Vec<String> {
        let state = self.lock();
        let long = state.waits.values().filter(|wait| wait.since.elapsed() >= long);
        long.map(|Wait { who, what, since }| {
            format!(
                "{who} has been waiting for {what} for {} s and does nothing else",
                since.elapsed().as_secs()
            )
        })
        .collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_who_wait_for_long_are_named() {
        let waits = Waits::default();
        let said = waits.during("files", "/nfs/a.out", || {
            (waits.longer_than(Duration::ZERO), waits.longer_than(Duration::from_secs(60)))
        });
        assert_eq!(said.0.len(), 1);
        assert!(said.0[0].starts_with("files has been waiting for /nfs/a.out for 0 s"), "{said:?}");
        assert!(said.1.is_empty() && waits.longer_than(Duration::ZERO).is_empty());
    }
}
