//! A thread that does something again and again until the server stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

/// The thread, and the way to end it.
pub struct Rounds {
    thread: JoinHandle<()>,
    is_stopping: Arc<AtomicBool>,
}

impl Rounds {
    /// `turn` says how long to wait for the next one; `None` ends it.
    pub fn start(
        name: &str,
        mut turn: impl FnMut() -> Option<Duration> + Send + 'static,
    ) -> std::io::Result<Rounds> {
        let is_stopping = Arc::new(AtomicBool::new(false));
        let stop = is_stopping.clone();
        let work = move || {
            while !stop.load(Ordering::Relaxed)
                && let Some(wait) = turn()
            {
                thread::park_timeout(wait);
            }
        };
        let thread = thread::Builder::new().name(name.into()).spawn(work)?;
        Ok(Rounds { thread, is_stopping })
    }

    /// To wake it before its time.
    pub fn thread(&self) -> &Thread {
        self.thread.thread()
    }

    /// What it is at is still finished. Not to be called where nothing may wait.
    pub fn stop(self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let _ = self.thread.join();
    }
}
