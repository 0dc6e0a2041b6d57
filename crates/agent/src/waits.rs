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
pub struct Waits(Arc<Mutex<BTreeMap<&'static str, (Instant, String)>>>);

impl Waits {
    /// Does what may hang, and is known to wait meanwhile. One thread does one thing at a time.
    pub fn during<T>(&self, who: &'static str, what: impl Display, ask: impl FnOnce() -> T) -> T {
        self.lock().insert(who, (Instant::now(), what.to_string()));
        let answer = ask();
        self.lock().remove(who);
        answer
    }

    /// In words, who has been waiting for long.
    pub fn long(&self) -> Vec<String> {
        self.longer_than(LONG)
    }

    pub(crate) fn longer_than(&self, long: Duration) -> Vec<String> {
        let waits = self.lock();
        let long = waits.iter().filter(|(_, (since, _))| since.elapsed() >= long);
        long.map(|(who, (since, what))| {
            format!(
                "{who} has been waiting for {what} for {} s and does nothing else",
                since.elapsed().as_secs()
            )
        })
        .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, (Instant, String)>> {
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
