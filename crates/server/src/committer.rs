//! The one thread that writes: whatever waits goes into one transaction, and is answered when it is durable.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use store::{Applied, Prepared, StoreError, Writer};
use tokio::sync::{mpsc, oneshot};

use crate::metrics::Metrics;
use crate::places::Place;

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
    /// The turn of its host, if it has any, which ends when it is stored.
    turn: Option<Place>,
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

/// What importers bring, and when the last of it came: whatever can wait leaves them the writer. Agents do not count: they bring little, and
/// always.
struct Brought {
    since: Instant,
    /// Milliseconds since then; 0 if nothing more is expected.
    last: AtomicU64,
    /// Requests that are being stored.
    at_work: AtomicU32,
    /// Whom to wake when an importer is done.
    waiting: OnceLock<Thread>,
}

impl Brought {
    fn now(&self) -> u64 {
        1 + self.since.elapsed().as_millis() as u64
    }
}

/// A request that is being stored, until it is dropped.
struct AtWork<'a>(&'a Brought);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.last.store(self.0.now(), Ordering::Relaxed);
        self.0.at_work.fetch_sub(1, Ordering::Relaxed);
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
        let brought = Arc::new(Brought {
            since: Instant::now(),
            last: AtomicU64::new(0),
            at_work: AtomicU32::new(0),
            waiting: OnceLock::new(),
        });
        Ok((Committer { queue: queue.clone(), is_broken, room, brought }, Committing { thread, queue }))
    }

    /// Stores a batch; returns when it is durable.
    pub async fn store(&self, prepared: Prepared, turn: Option<Place>) -> Result<Applied, NotStored> {
        let (answer, answered) = oneshot::channel();
        let work = Work::Store(Box::new(Submission { prepared, turn, answer }));
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
        self.brought.at_work.fetch_add(1, Ordering::Relaxed);
        let _at_work = AtWork(&self.brought);
        self.perform(task)
    }

    /// Whether an importer has brought something within this time, and not said that it is done.
    pub fn is_importing(&self, within: Duration) -> bool {
        let last = self.brought.last.load(Ordering::Relaxed);
        let is_recent = u128::from(self.brought.now().saturating_sub(last)) < within.as_millis();
        self.brought.at_work.load(Ordering::Relaxed) > 0 || last > 0 && is_recent
    }

    /// An importer has brought all it had.
    pub fn import_is_done(&self) {
        self.brought.last.store(0, Ordering::Relaxed);
        self.brought.waiting.get().into_iter().for_each(Thread::unpark);
    }

    /// Wakes a thread whenever an importer is done; the first that asks for it.
    pub fn wake_after_imports(&self, thread: &Thread) {
        let _ = self.brought.waiting.set(thread.clone());
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
        let (batches, answers): (Vec<_>, Vec<_>) = submissions
            .into_iter()
            .map(|Submission { prepared, turn, answer }| (prepared, (turn, answer)))
            .unzip();
        let outcome = self.room.check().and_then(|()| {
            let now = i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX);
            self.writer.apply(batches, now).map_err(|error| not_stored(&error))
        });
        self.is_broken.store(outcome.is_err(), Ordering::Relaxed);
        match outcome {
            Ok(applied) => {
                self.metrics.committed(&applied, began.elapsed());
                for ((turn, answer), applied) in answers.into_iter().zip(applied) {
                    drop(turn);
                    let _ = answer.send(Ok(applied));
                }
            }
            Err(error) => {
                tracing::error!(%error, batches = answers.len(), "nothing was stored");
                self.metrics.transactions_failed.inc();
                for (turn, answer) in answers {
                    drop(turn);
                    let _ = answer.send(Err(error.clone()));
                }
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
