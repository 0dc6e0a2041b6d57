//! A share for every host: one that sends too much waits, and the others do not.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Hosts of which the share is remembered; one that has been quiet has its full share again anyway.
const HOSTS: usize = 100_000;

/// So many batches a second, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    pub per_second: f64,
    pub burst: f64,
}

/// What each host has left.
pub struct Rates {
    share: Share,
    hosts: Mutex<HashMap<String, (f64, Instant)>>,
}

impl Rates {
    pub fn new(share: Share) -> Rates {
        Rates { share, hosts: Mutex::default() }
    }

    /// Takes one batch of a host's share, if there is one left.
    pub fn take(&self, host: &str, now: Instant) -> bool {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= HOSTS && !hosts.contains_key(host) {
            let Share { per_second, burst } = self.share;
            hosts.retain(|_, (left, then)| {
                *left + now.duration_since(*then).as_secs_f64() * per_second < burst
            });
        }
        let (left, then) = hosts.entry(host.to_owned()).or_insert((self.share.burst, now));
        let more = now.saturating_duration_since(*then).as_secs_f64() * self.share.per_second;
        *left = (*left + more).min(self.share.burst);
        *then = now;
        let is_left = *left >= 1.0;
        if is_left {
            *left -= 1.0;
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_and_then_a_rate_for_each_host() {
        let rates = Rates::new(Share { per_second: 2.0, burst: 3.0 });
        let now = Instant::now();
        let taken = |host, after| rates.take(host, now + Duration::from_millis(after));
        assert_eq!([0, 0, 0, 0].map(|after| taken("a", after)), [true, true, true, false]);
        assert!(taken("b", 0));
        assert_eq!([499, 500, 600, 1000].map(|after| taken("a", after)), [false, true, false, true]);
        assert_eq!([60_000; 4].map(|after| taken("a", after)), [true, true, true, false]);
    }
}
