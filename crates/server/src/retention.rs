//! Deletes what is older than the site keeps.

use std::thread;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use store::Forget;

use crate::committer::{Committer, NotStored};

/// How often is looked for what is too old.
const EVERY: Duration = Duration::from_secs(3600);

/// Looks now and every hour, on a thread of its own, until the server stops.
pub fn start(days: u32, committer: Committer) -> std::io::Result<()> {
    let work = move || {
        loop {
            let before = Timestamp::now() - SignedDuration::from_hours(24 * i64::from(days));
            let before = i64::try_from(before.as_nanosecond()).unwrap_or(i64::MIN);
            match committer.perform(move |writer| writer.forget(&Forget::Before(before))) {
                Ok(Ok(forgotten)) if forgotten.processes > 0 => {
                    tracing::info!(days, processes = forgotten.processes, "deleted what was too old");
                }
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::error!(%error, "cannot delete what is too old"),
                Err(NotStored::Stopping) => return,
                Err(error) => tracing::error!(%error, "cannot delete what is too old"),
            }
            thread::park_timeout(EVERY);
        }
    };
    thread::Builder::new().name("retention".into()).spawn(work).map(drop)
}
