//! Deletes what is older than the site keeps, and looks after what was measured: makes it coarse when it is old, and puts it into
//! order on disk. All of it in small steps between the batches.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use store::{Coarsen, Forget, Step, StoreError, Writer};

use crate::committer::{Committer, NotStored};
use crate::keep::Keep;
use crate::metrics::Metrics;

/// How often is looked for what there is to do.
const EVERY: Duration = Duration::from_secs(3600);
/// Readings are put into order when their day has been over for so long: most of what comes late has come.
const SETTLED: SignedDuration = SignedDuration::from_hours(24);
/// Between two steps at least so much is left to batches, and at least as long as the step took.
const PAUSE: Duration = Duration::from_millis(50);

/// Why there is no more to do for now.
enum Stop {
    /// The server ends.
    Ending,
    /// An error, which is logged.
    Failed(String),
}

struct Upkeep {
    keep: Keep,
    committer: Committer,
    metrics: Arc<Metrics>,
}

/// Looks now and every hour, on a thread of its own, until the server stops.
pub fn start(keep: Keep, committer: Committer, metrics: Arc<Metrics>) -> std::io::Result<()> {
    let upkeep = Upkeep { keep, committer, metrics };
    let work = move || {
        loop {
            match upkeep.round(Timestamp::now()) {
                Ok(()) => {}
                Err(Stop::Ending) => return,
                Err(Stop::Failed(error)) => {
                    upkeep.metrics.upkeep_failed.inc();
                    tracing::error!(%error, "cannot look after what is old");
                }
            }
            thread::park_timeout(EVERY);
        }
    };
    thread::Builder::new().name("retention".into()).spawn(work).map(drop)
}

impl Upkeep {
    fn round(&self, now: Timestamp) -> Result<(), Stop> {
        self.delete(now)?;
        let now_ns = i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX);
        let mut rows = 0;
        if let Some(before_ns) = self.keep.samples.before_ns(now) {
            let what = Coarsen { before_ns, step_ns: self.keep.coarse_step.as_ns(), rows: store::ROWS };
            let made =
                self.steps(move |writer| writer.coarsen(what, now_ns), &self.metrics.readings_coarsened)?;
            if made > 0 {
                tracing::info!(readings = made, "made old readings coarse");
            }
            rows += made;
        }
        let settled = i64::try_from((now - SETTLED).as_nanosecond()).unwrap_or(i64::MIN);
        rows +=
            self.steps(move |writer| writer.compact(settled, store::ROWS), &self.metrics.readings_sorted)?;
        if rows > 0
            && let Err(error) = self.perform(|writer| writer.checkpoint())?
        {
            // Somebody asks; it happens by itself later.
            tracing::debug!(%error, "no checkpoint now");
        }
        Ok(())
    }

    /// What is too old.
    fn delete(&self, now: Timestamp) -> Result<(), Stop> {
        if let Some(days) = self.keep.days {
            // Whole days: a day is kept together on disk.
            let before = now - SignedDuration::from_hours(24 * i64::from(days));
            let before = i64::try_from(before.as_nanosecond()).unwrap_or(i64::MIN);
            let forgotten = good(self.perform(move |writer| writer.forget(&Forget::Before(before)))?)?;
            if forgotten.processes > 0 {
                tracing::info!(days, processes = forgotten.processes, "deleted what was too old");
            }
        }
        if let Some(before) = self.keep.coarse.before_ns(now) {
            let rows = good(self.perform(move |writer| writer.forget_coarse(before))?)?;
            self.metrics.coarse_deleted.inc_by(rows);
        }
        if let Some(before) = self.keep.jobs.before_ns(now) {
            let rows = good(self.perform(move |writer| writer.forget_jobs(before))?)?;
            self.metrics.jobs_deleted.inc_by(rows);
        }
        Ok(())
    }

    /// Takes one step after the other, until nothing is left; how many readings they took.
    fn steps(
        &self,
        step: impl Fn(&mut Writer) -> Result<Step, StoreError> + Copy + Send + 'static,
        counter: &prometheus_client::metrics::counter::Counter,
    ) -> Result<u64, Stop> {
        let mut rows = 0;
        loop {
            // Rewriting takes room before it gives some back.
            self.committer.check_disk().map_err(|error| Stop::Failed(error.to_string()))?;
            let (done, took) = self.perform(move |writer| {
                let began = Instant::now();
                (step(writer), began.elapsed())
            })?;
            let done = good(done)?;
            self.metrics.upkeep_seconds.observe(took.as_secs_f64());
            counter.inc_by(done.rows);
            rows += done.rows;
            if done.is_last {
                return Ok(rows);
            }
            thread::park_timeout(took.max(PAUSE));
        }
    }

    fn perform<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Writer) -> T + Send + 'static,
    ) -> Result<T, Stop> {
        self.committer.perform(task).map_err(|error| match error {
            NotStored::Stopping => Stop::Ending,
            error => Stop::Failed(error.to_string()),
        })
    }
}

fn good<T>(outcome: Result<T, StoreError>) -> Result<T, Stop> {
    outcome.map_err(|error| Stop::Failed(error.to_string()))
}
