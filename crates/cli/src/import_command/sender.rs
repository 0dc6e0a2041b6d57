//! Jobs and values on their way to the server: many in a request, the next one made while the last one is stored.

use std::fmt;
use std::ops::AddAssign;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow};
use record::accounting::{Accounting, JOBS_MAX};
use record::measure::{Measures, VALUES_MAX};
use serde_json::Value;

use crate::ask::{NotPosted, Server};

/// A request is sent when it has so many bytes; the server takes eight million.
const BYTES: usize = 4 << 20;
/// Jobs in a request: each is a transaction that waits for the disk.
const JOBS: u64 = JOBS_MAX;
/// Values in a request, and what is told of whole jobs.
const VALUES: u64 = VALUES_MAX / 2;
const TOLD: u64 = 10_000;
/// Requests that wait for the server, and those that it has at a time: one is made ready there while another is stored.
const WAITING: usize = 2;
const AT_ONCE: usize = 2;
/// How often a server that is not ready is asked, where nobody asks again later.
pub const TRIES: u32 = 8;
/// How long the first wait is. Each is twice as long as the last.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// What became of the jobs, as the server says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    pub new: u64,
    pub replaced: u64,
    pub older: u64,
    /// Values that were measured.
    pub values: u64,
}

impl AddAssign for Sent {
    fn add_assign(&mut self, more: Sent) {
        self.new += more.new;
        self.replaced += more.replaced;
        self.older += more.older;
        self.values += more.values;
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} new, {} known before, {} of which more was known", self.new, self.replaced, self.older)
    }
}

/// Where it goes, and what it is.
type Request = (&'static str, Vec<u8>);

/// An array without jobs: no more are coming.
const NO_JOBS: [u8; 1] = [0x80];

/// Takes jobs and values one at a time.
pub struct Sender {
    server: Arc<Server>,
    body: Vec<u8>,
    /// In the body, and of all.
    held: u64,
    jobs: u64,
    measures: Measures,
    values: u64,
    queue: Option<SyncSender<Request>>,
    threads: Vec<JoinHandle<Result<Sent>>>,
}

impl Sender {
    /// With so many tries for each request.
    pub fn start(server: Server, tries: u32) -> Result<Sender> {
        let (queue, waiting) = sync_channel(WAITING);
        let (server, waiting) = (Arc::new(server), Arc::new(Mutex::new(waiting)));
        let spawn = |_| {
            let (server, waiting) = (server.clone(), waiting.clone());
            thread::Builder::new().name("send".into()).spawn(move || work(&server, tries, &waiting))
        };
        let threads = (0..AT_ONCE).map(spawn).collect::<Result<_, _>>()?;
        Ok(Sender {
            server,
            body: Vec::with_capacity(BYTES),
            held: 0,
            jobs: 0,
            measures: Measures::default(),
            values: 0,
            queue: Some(queue),
            threads,
        })
    }

    /// How many jobs were taken.
    pub fn jobs(&self) -> u64 {
        self.jobs
    }

    pub fn send(&mut self, job: &Accounting) -> Result<()> {
        minicbor::encode(job, &mut self.body).map_err(|error| anyhow!("a job cannot be written: {error}"))?;
        self.held += 1;
        self.jobs += 1;
        if self.body.len() >= BYTES || self.held >= JOBS { self.flush() } else { Ok(()) }
    }

    /// Sends what was taken and not sent yet.
    fn flush(&mut self) -> Result<()> {
        if self.held == 0 {
            return Ok(());
        }
        let mut request = Vec::with_capacity(self.body.len() + 9);
        // Writing into memory does not fail.
        let _ = minicbor::Encoder::new(&mut request).array(self.held);
        request.append(&mut self.body);
        self.held = 0;
        self.push(("/api/v1/accounting", request))
    }

    /// What was measured. A series is never cut: the server takes it for all there is of it.
    pub fn measured(&mut self, measures: Measures) -> Result<()> {
        for series in measures.series {
            let values = series.points.len() as u64;
            if self.values + values > VALUES {
                self.flush_measures()?;
            }
            self.values += values;
            self.measures.series.push(series);
        }
        self.measures.told.extend(measures.told);
        if self.measures.told.len() as u64 > TOLD { self.flush_measures() } else { Ok(()) }
    }

    fn flush_measures(&mut self) -> Result<()> {
        let measures = std::mem::take(&mut self.measures);
        self.values = 0;
        if measures == Measures::default() {
            return Ok(());
        }
        let request =
            minicbor::to_vec(&measures).map_err(|error| anyhow!("values cannot be written: {error}"))?;
        self.push(("/api/v1/measures", request))
    }

    fn push(&mut self, request: Request) -> Result<()> {
        let is_taken = self.queue.as_ref().is_some_and(|queue| queue.send(request).is_ok());
        if is_taken {
            Ok(())
        } else {
            Err(self.join().err().unwrap_or_else(|| anyhow!("the sender has ended")))
        }
    }

    /// Waits until the server has all of it.
    pub fn finish(mut self) -> Result<Sent> {
        self.flush()?;
        self.flush_measures()?;
        let sent = self.join()?;
        if self.jobs > 0 {
            // The server evaluates the jobs at once. Otherwise it does when it has got none for a moment.
            let _ = self.server.post("/api/v1/accounting", &NO_JOBS);
        }
        Ok(sent)
    }

    fn join(&mut self) -> Result<Sent> {
        self.queue = None;
        let mut all = Sent::default();
        for thread in self.threads.drain(..) {
            all += thread.join().map_err(|_| anyhow!("the sender has ended"))??;
        }
        Ok(all)
    }
}

fn work(server: &Server, tries: u32, waiting: &Mutex<Receiver<Request>>) -> Result<Sent> {
    let mut sent = Sent::default();
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok((path, body)) = next() {
        let answer = post(server, tries, path, &body)?;
        let number = |name: &str| answer[name].as_u64().unwrap_or(0);
        sent.new += number("new");
        sent.replaced += number("replaced");
        sent.older += number("older");
        sent.values += number("values");
    }
    Ok(sent)
}

/// Told again, a job is kept the same: so it is, when the server was not ready or did not answer.
pub fn post(server: &Server, tries: u32, path: &str, body: &[u8]) -> Result<Value> {
    again(tries, || server.post(path, body))
}

/// The same for what takes the place of what was there.
pub fn put(server: &Server, tries: u32, path: &str, body: &[u8]) -> Result<Value> {
    again(tries, || server.put_cbor(path, body))
}

fn again(tries: u32, send: impl Fn() -> Result<Value, NotPosted>) -> Result<Value> {
    let mut wait = FIRST_WAIT;
    for _ in 1..tries {
        match send() {
            Err(error) if error.is_passing => {
                say!("jobglass: {:#}; trying again in {} ms", error.why, wait.as_millis());
                thread::park_timeout(wait);
                wait *= 2;
            }
            other => return other.map_err(|error| error.why),
        }
    }
    send().map_err(|error| error.why)
}
