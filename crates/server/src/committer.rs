//! The one thread that writes: whatever waits goes into one transaction, and is answered when it is durable.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use jiff::Timestamp;
use store::{Applied, Prepared, StoreError, Writer};
use tokio::sync::{mpsc, oneshot};

use crate::metrics::Metrics;

/// Batches that may wait.
const QUEUE: usize = 4096;
/// Rows after which a transaction is closed although more is waiting.
const ROWS: usize = 50_000;

/// Why a batch was not stored, though nothing is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotStored {
    #[error("the server is busy: {QUEUE} batches are waiting")]
    Busy,
    #[error("the server is stopping")]
    Stopping,
    #[error("the disk of the store is full: {free_mb} MB are free, {least_mb} MB must be")]
    DiskFull { free_mb: u64, least_mb: u64 },
    #[error("the store cannot write: {0}")]
    Store(String),
}

struct Submission {
    prepared: Prepared,
    answer: oneshot::Sender<Result<Applied, NotStored>>,
}

/// The way to the thread.
#[derive(Clone)]
pub struct Committer {
    queue: mpsc::Sender<Submission>,
    is_broken: Arc<AtomicBool>,
}

/// The thread; it ends when every [`Committer`] is gone.
pub struct Committing(JoinHandle<()>);

impl Committing {
    pub fn wait(self) {
        let _ = self.0.join();
    }
}

impl Committer {
    /// Starts the thread. It refuses to write while less than `least_mb` is free in `dir`: DuckDB does not survive
    /// a disk that fills up under it.
    pub fn start(
        writer: Writer,
        dir: &Path,
        least_mb: u64,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<(Committer, Committing)> {
        let (queue, submissions) = mpsc::channel(QUEUE);
        let is_broken = Arc::new(AtomicBool::new(false));
        let loop_ = Loop { writer, dir: dir.to_owned(), least_mb, metrics, is_broken: is_broken.clone() };
        let thread = thread::Builder::new().name("committer".into()).spawn(move || loop_.run(submissions))?;
        Ok((Committer { queue, is_broken }, Committing(thread)))
    }

    /// Stores a batch; returns when it is durable.
    pub async fn store(&self, prepared: Prepared) -> Result<Applied, NotStored> {
        let (answer, answered) = oneshot::channel();
        self.queue.try_send(Submission { prepared, answer }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => NotStored::Busy,
            mpsc::error::TrySendError::Closed(_) => NotStored::Stopping,
        })?;
        answered.await.unwrap_or(Err(NotStored::Stopping))
    }

    /// Whether the last transaction failed.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }
}

struct Loop {
    writer: Writer,
    dir: PathBuf,
    least_mb: u64,
    metrics: Arc<Metrics>,
    is_broken: Arc<AtomicBool>,
}

impl Loop {
    fn run(mut self, mut submissions: mpsc::Receiver<Submission>) {
        while let Some(first) = submissions.blocking_recv() {
            let mut rows = first.prepared.rows.len();
            let mut together = vec![first];
            while rows < ROWS
                && let Ok(next) = submissions.try_recv()
            {
                rows += next.prepared.rows.len();
                together.push(next);
            }
            self.commit(together);
        }
    }

    fn commit(&mut self, submissions: Vec<Submission>) {
        let began = Instant::now();
        let (batches, answers): (Vec<_>, Vec<_>) =
            submissions.into_iter().map(|submission| (submission.prepared, submission.answer)).unzip();
        let outcome = self.check_disk().and_then(|()| {
            let now = i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX);
            self.writer.apply(batches, now).map_err(|error| not_stored(&error))
        });
        self.is_broken.store(outcome.is_err(), Ordering::Relaxed);
        match outcome {
            Ok(applied) => {
                self.metrics.committed(&applied, began.elapsed());
                for (answer, applied) in answers.into_iter().zip(applied) {
                    let _ = answer.send(Ok(applied));
                }
            }
            Err(error) => {
                tracing::error!(%error, batches = answers.len(), "nothing was stored");
                self.metrics.transactions_failed.inc();
                answers.into_iter().for_each(|answer| drop(answer.send(Err(error.clone()))));
            }
        }
    }

    fn check_disk(&self) -> Result<(), NotStored> {
        let Ok(stat) = rustix::fs::statvfs(&self.dir) else { return Ok(()) };
        let free_mb = stat.f_bavail.saturating_mul(stat.f_frsize) / 1_000_000;
        if free_mb < self.least_mb {
            return Err(NotStored::DiskFull { free_mb, least_mb: self.least_mb });
        }
        Ok(())
    }
}

fn not_stored(error: &StoreError) -> NotStored {
    NotStored::Store(error.to_string())
}
