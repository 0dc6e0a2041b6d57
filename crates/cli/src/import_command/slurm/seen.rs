//! What the server has: a job that is as it was sent last is not sent again.
//!
//! Only hashes are kept, and a bounded number of them. What was forgotten is sent once more, which changes nothing there.

use import::recent::Recent;
use record::accounting::Accounting;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// So many jobs are remembered, in 16 bytes each.
const JOBS: usize = 1 << 20;

/// The name of a job: neither its state nor its times change it.
pub type Key = u64;

/// What was sent, and what is on its way.
pub struct Seen {
    sent: Recent<Key, u64>,
    /// Not there yet, as far as we know.
    sending: Vec<(Key, u64)>,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen { sent: Recent::new(JOBS), sending: Vec::new() }
    }
}

impl Seen {
    /// Whether a job, as it is encoded, differs from what was sent last.
    pub fn is_news(&mut self, key: Key, encoded: &[u8]) -> bool {
        let content = xxh3_64(encoded);
        if self.sent.get(&key).is_some_and(|sent| *sent == content) {
            return false;
        }
        self.sending.push((key, content));
        true
    }

    /// The server has all of it.
    pub fn arrived(&mut self) {
        self.sending.drain(..).for_each(|(key, content)| self.sent.insert(key, content));
    }

    /// It may have none of it.
    pub fn failed(&mut self) {
        self.sending.clear();
    }
}

/// The same as in the store: cluster, number and time of submission.
pub fn key(job: &Accounting) -> Key {
    let mut hash = Xxh3::new();
    let number = job.job.as_deref().unwrap_or(&job.shown);
    for part in [job.cluster.as_deref().unwrap_or_default(), number] {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
    hash.update(&job.submit.unwrap_or_default().to_le_bytes());
    hash.digest()
}

pub fn encoded(job: &Accounting) -> Vec<u8> {
    // Writing into memory does not fail.
    minicbor::to_vec(job).unwrap_or_default()
}

/// Takes out what grows by itself: a job that runs would be another one every second, and what was kept of it would be
/// wrong a second later.
pub fn settle(job: &mut Accounting) {
    if job.end.is_none() {
        job.elapsed = None;
    }
    job.steps.iter_mut().filter(|step| step.end.is_none()).for_each(|step| step.elapsed = None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::accounting::{State, Step};

    fn job(number: &str) -> Accounting {
        Accounting { job: Some(number.into()), submit: Some(5), ..Accounting::default() }
    }

    #[test]
    fn only_what_is_new_is_news() {
        let mut seen = Seen::default();
        let ended = Accounting { end: Some(9), state: Some(State::Completed), ..job("1") };
        let step = Accounting { steps: vec![Step::default()], ..job("1") };
        let again = Accounting { submit: Some(6), ..job("1") };
        for (job, is_news) in [
            (job("1"), true),
            (job("1"), false),
            (job("2"), true),
            (step, true),
            (ended.clone(), true),
            (ended, false),
            (again, true),
        ] {
            assert_eq!(seen.is_news(key(&job), &encoded(&job)), is_news, "{job:?}");
            seen.arrived();
        }
        assert!(seen.is_news(3, b"a"));
        seen.failed();
        assert!(seen.is_news(3, b"a"), "what did not arrive is sent again");
    }

    #[test]
    fn time_that_passes_is_no_news() {
        let running = |elapsed| {
            let steps = vec![
                Step { elapsed: Some(elapsed), ..Step::default() },
                Step { elapsed: Some(7), end: Some(8), ..Step::default() },
            ];
            let mut job = Accounting { elapsed: Some(elapsed), steps, ..job("1") };
            settle(&mut job);
            job
        };
        assert_eq!(running(1), running(2));
        assert_eq!(running(1).steps[1].elapsed, Some(7));
        let mut ended = Accounting { elapsed: Some(3), end: Some(9), ..job("1") };
        settle(&mut ended);
        assert_eq!(ended.elapsed, Some(3));
    }
}
