//! Makes the characteristics of jobs that have ended, between the batches.

use std::thread;
use std::time::Duration;

use jiff::Timestamp;

use crate::committer::{Committer, NotStored};

/// Jobs in one go: batches wait for so many at most.
const AT_ONCE: usize = 20;
/// How often is looked for jobs that have ended, and after an error.
const EVERY: Duration = Duration::from_secs(1);
const AFTER_ERROR: Duration = Duration::from_secs(30);

/// Looks on a thread of its own, until the server stops.
pub fn start(committer: Committer) -> std::io::Result<()> {
    let work = move || {
        loop {
            let now = i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX);
            let wait = match committer.perform(move |writer| writer.summarise(AT_ONCE, now)) {
                Ok(Ok(0)) => EVERY,
                // More are waiting; so are batches.
                Ok(Ok(_)) => Duration::from_millis(20),
                Ok(Err(error)) => {
                    tracing::error!(%error, "cannot make the characteristics of jobs");
                    AFTER_ERROR
                }
                Err(NotStored::Stopping) => return,
                Err(_) => AFTER_ERROR,
            };
            thread::park_timeout(wait);
        }
    };
    thread::Builder::new().name("summaries".into()).spawn(work).map(drop)
}
