//! The one thread that writes: whatever waits goes into one transaction, and is answered when it is durable.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use store::{Applied, Prepared, StoreError, Writer};
use tokio::sync::{mpsc, oneshot};

use crate::metrics::Metrics;

/// Batches that may wait.
const QUEUE: usize = 4096;
/// Rows after which a transaction is closed although more is waiting.
const ROWS: usize = 50_000;

/// The exit code of a server whose database must be opened again.
const FATAL: i32 = 3;

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

/// What the thread does next.
enum Work {
    Store(Box<Submission>),
    /// Something else that only the writer may do.
    Task(Box<dyn FnOnce(&mut Writer) + Send>),
    /// Nothing any more.
    Stop,
}

/// The way to the thread.
#[derive(Clone)]
pub struct Committer {
    queue: mpsc::Sender<Work>,
    is_broken: Arc<AtomicBool>,
    room: Arc<Room>,
    brought: Arc<Brought>,
}

/// When an importer brought something last: whatever can wait leaves it the writer. Agents do not count: they bring little, and always.
struct Brought {
    since: Instant,
    /// Milliseconds since then.
    last: AtomicU64,
}

impl Brought {
    fn now(&self) -> u64 {
        self.since.elapsed().as_millis() as u64
    }
}

/// How much must be free where.
struct Room {
    dir: PathBuf,
    least_mb: u64,
}

/// The thread, and the way to end it.
pub struct Committing {
    thread: JoinHandle<()>,
    queue: mpsc::Sender<Work>,
}

impl Committing {
    /// Whatever waits is still stored. Not to be called where nothing may wait.
    pub fn stop(self) {
        let _ = self.queue.blocking_send(Work::Stop);
        let _ = self.thread.join();
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
        let (queue, work) = mpsc::channel(QUEUE);
        let is_broken = Arc::new(AtomicBool::new(false));
        let room = Arc::new(Room { dir: dir.to_owned(), least_mb });
        let loop_ = Loop { writer, room: room.clone(), metrics, is_broken: is_broken.clone() };
        let thread = thread::Builder::new().name("committer".into()).spawn(move || loop_.run(work))?;
        let brought = Arc::new(Brought { since: Instant::now(), last: AtomicU64::new(0) });
        Ok((Committer { queue: queue.clone(), is_broken, room, brought }, Committing { thread, queue }))
    }

    /// Stores a batch; returns when it is durable.
    pub async fn store(&self, prepared: Prepared) -> Result<Applied, NotStored> {
        let (answer, answered) = oneshot::channel();
        let work = Work::Store(Box::new(Submission { prepared, answer }));
        self.queue.try_send(work).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => NotStored::Busy,
            mpsc::error::TrySendError::Closed(_) => NotStored::Stopping,
        })?;
        answered.await.unwrap_or(Err(NotStored::Stopping))
    }

    /// Does something that only the writer may do, between two transactions. Not to be called where nothing may wait.
    pub fn perform<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Writer) -> T + Send + 'static,
    ) -> Result<T, NotStored> {
        let (answer, answered) = std::sync::mpsc::channel();
        let task = Work::Task(Box::new(move |writer| drop(answer.send(task(writer)))));
        self.queue.blocking_send(task).map_err(|_| NotStored::Stopping)?;
        answered.recv().map_err(|_| NotStored::Stopping)
    }

    /// The same for an importer.
    pub fn take<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Writer) -> T + Send + 'static,
    ) -> Result<T, NotStored> {
        let taken = self.perform(task);
        self.brought.last.store(self.brought.now(), Ordering::Relaxed);
        taken
    }

    /// Whether an importer has brought something within this time.
    pub fn is_wanted(&self, within: Duration) -> bool {
        let last = self.brought.last.load(Ordering::Relaxed);
        last > 0 && u128::from(self.brought.now().saturating_sub(last)) < within.as_millis()
    }

    /// Whether there is room enough to write.
    pub fn check_disk(&self) -> Result<(), NotStored> {
        self.room.check()
    }

    /// Whether the last transaction failed.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }
}

struct Loop {
    writer: Writer,
    room: Arc<Room>,
    metrics: Arc<Metrics>,
    is_broken: Arc<AtomicBool>,
}

impl Loop {
    fn run(mut self, mut work: mpsc::Receiver<Work>) {
        let mut next = None;
        while let Some(first) = next.take().or_else(|| work.blocking_recv()) {
            let first = match first {
                Work::Store(submission) => submission,
                Work::Task(task) => {
                    task(&mut self.writer);
                    continue;
                }
                Work::Stop => return,
            };
            let mut rows = first.prepared.rows.len();
            let mut together = vec![*first];
            while rows < ROWS
                && let Ok(more) = work.try_recv()
            {
                match more {
                    Work::Store(submission) => {
                        rows += submission.prepared.rows.len();
                        together.push(*submission);
                    }
                    other => {
                        next = Some(other);
                        break;
                    }
                }
            }
            self.commit(together);
        }
    }

    fn commit(&mut self, submissions: Vec<Submission>) {
        let began = Instant::now();
        let (submissions, stale): (Vec<_>, Vec<_>) =
            submissions.into_iter().partition(|submission| self.writer.is_current(&submission.prepared));
        for submission in stale {
            let _ = submission.answer.send(Err(NotStored::Store(StoreError::Stale.to_string())));
        }
        let (batches, answers): (Vec<_>, Vec<_>) =
            submissions.into_iter().map(|submission| (submission.prepared, submission.answer)).unzip();
        let outcome = self.room.check().and_then(|()| {
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
}

impl Room {
    fn check(&self) -> Result<(), NotStored> {
        let Ok(stat) = rustix::fs::statvfs(&self.dir) else { return Ok(()) };
        let free_mb = stat.f_bavail.saturating_mul(stat.f_frsize) / 1_000_000;
        if free_mb < self.least_mb {
            return Err(NotStored::DiskFull { free_mb, least_mb: self.least_mb });
        }
        Ok(())
    }
}

/// What is not acknowledged is sent again, so a database that can do nothing more is best left to the next start.
fn not_stored(error: &StoreError) -> NotStored {
    if error.is_fatal() {
        tracing::error!(%error, "the database must be opened again: the server ends, to be started again");
        std::process::exit(FATAL);
    }
    NotStored::Store(error.to_string())
}
