//! Jobs on their way to the server: many in a request, the next one made while the last one is stored.

use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow};
use record::accounting::{Accounting, JOBS_MAX};
use serde_json::Value;

use crate::ask::Server;

/// A request is sent when it has so many bytes; the server takes eight million.
const BYTES: usize = 4 << 20;
/// Requests that wait for the server, and those that it has at a time: one is made ready there while another is stored.
const WAITING: usize = 2;
const AT_ONCE: usize = 2;
/// How often a server that is not ready is asked again, and how long the first wait is. Each is twice as long as the last.
const TRIES: u32 = 8;
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// What became of the jobs, as the server says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    pub new: u64,
    pub replaced: u64,
    pub older: u64,
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} new, {} known before, {} of which more was known", self.new, self.replaced, self.older)
    }
}

/// Takes jobs one at a time.
pub struct Sender {
    body: Vec<u8>,
    jobs: u64,
    all: u64,
    queue: Option<SyncSender<Vec<u8>>>,
    threads: Vec<JoinHandle<Result<Sent>>>,
}

impl Sender {
    pub fn start(server: Server) -> Result<Sender> {
        let (queue, waiting) = sync_channel(WAITING);
        let (server, waiting) = (Arc::new(server), Arc::new(Mutex::new(waiting)));
        let spawn = |_| {
            let (server, waiting) = (server.clone(), waiting.clone());
            thread::Builder::new().name("send".into()).spawn(move || work(&server, &waiting))
        };
        let threads = (0..AT_ONCE).map(spawn).collect::<Result<_, _>>()?;
        Ok(Sender { body: Vec::with_capacity(BYTES), jobs: 0, all: 0, queue: Some(queue), threads })
    }

    /// How many jobs were taken.
    pub fn jobs(&self) -> u64 {
        self.all
    }

    pub fn send(&mut self, job: &Accounting) -> Result<()> {
        minicbor::encode(job, &mut self.body).map_err(|error| anyhow!("a job cannot be written: {error}"))?;
        self.jobs += 1;
        self.all += 1;
        if self.body.len() >= BYTES || self.jobs >= JOBS_MAX { self.flush() } else { Ok(()) }
    }

    /// Sends what was taken and not sent yet.
    fn flush(&mut self) -> Result<()> {
        if self.jobs == 0 {
            return Ok(());
        }
        let mut request = Vec::with_capacity(self.body.len() + 9);
        // Writing into memory does not fail.
        let _ = minicbor::Encoder::new(&mut request).array(self.jobs);
        request.append(&mut self.body);
        self.jobs = 0;
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
        self.join()
    }

    fn join(&mut self) -> Result<Sent> {
        self.queue = None;
        let mut all = Sent::default();
        for thread in self.threads.drain(..) {
            let sent = thread.join().map_err(|_| anyhow!("the sender has ended"))??;
            all.new += sent.new;
            all.replaced += sent.replaced;
            all.older += sent.older;
        }
        Ok(all)
    }
}

fn work(server: &Server, waiting: &Mutex<Receiver<Vec<u8>>>) -> Result<Sent> {
    let mut sent = Sent::default();
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(body) = next() {
        let answer = post(server, &body)?;
        let number = |name: &str| answer[name].as_u64().unwrap_or(0);
        sent.new += number("new");
        sent.replaced += number("replaced");
        sent.older += number("older");
    }
    Ok(sent)
}

/// Told again, a job is kept the same: so it is, when the server was not ready or did not answer.
fn post(server: &Server, body: &[u8]) -> Result<Value> {
    let mut wait = FIRST_WAIT;
    for _ in 1..TRIES {
        match server.post("/api/v1/accounting", body) {
            Err(error) if error.is_passing => {
                eprintln!("jobglass: {:#}; trying again in {} ms", error.why, wait.as_millis());
                thread::park_timeout(wait);
                wait *= 2;
            }
            other => return other.map_err(|error| error.why),
        }
    }
    server.post("/api/v1/accounting", body).map_err(|error| error.why)
}
