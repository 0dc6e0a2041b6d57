//! The wish to stop: a signal, seen by all who wait.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

/// A signal is noticed within this time.
const NOTICE: Duration = Duration::from_millis(100);

/// Becomes true once, and stays so.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// At SIGTERM or SIGINT. Without this, they end the process at once.
    pub fn at_signals() -> io::Result<Stop> {
        let stop = Stop::default();
        for signal in [SIGTERM, SIGINT] {
            signal_hook::flag::register(signal, stop.0.clone())?;
        }
        Ok(stop)
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits so long, or until it is to stop; says whether it is.
    pub fn wait(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.is_set() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            thread::park_timeout(left.min(NOTICE));
        }
        true
    }

    /// Who cannot go on stops the others.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_the_wish() {
        let stop = Stop::default();
        assert!(!stop.wait(Duration::from_millis(20)));
        stop.set();
        let began = Instant::now();
        assert!(stop.wait(Duration::from_secs(60)) && began.elapsed() < Duration::from_secs(5));
    }
}
