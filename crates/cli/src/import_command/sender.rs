//! Jobs on their way to the server: many in a request, the next one made while the last one is stored.

use std::fmt;
use std::ops::AddAssign;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow};
use record::accounting::{Accounting, JOBS_MAX};
use serde_json::Value;

use crate::ask::Server;

/// A request is sent when it has so many bytes; the server takes eight million.
const BYTES: usize = 4 << 20;
/// Requests that wait for the server.
const WAITING: usize = 2;
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
}

impl AddAssign for Sent {
    fn add_assign(&mut self, more: Sent) {
        self.new += more.new;
        self.replaced += more.replaced;
        self.older += more.older;
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} new, {} known before, {} of which more was known", self.new, self.replaced, self.older)
    }
}

/// Takes jobs one at a time.
pub struct Sender {
    body: Vec<u8>,
    /// In the body, and of all.
    held: u64,
    jobs: u64,
    queue: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<Result<Sent>>>,
}

impl Sender {
    /// With so many tries for each request.
    pub fn start(server: Server, tries: u32) -> Result<Sender> {
        let (queue, waiting) = sync_channel(WAITING);
        let thread =
            thread::Builder::new().name("send".into()).spawn(move || work(&server, tries, &waiting))?;
        Ok(Sender {
            body: Vec::with_capacity(BYTES),
            held: 0,
            jobs: 0,
            queue: Some(queue),
            thread: Some(thread),
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
        if self.body.len() >= BYTES || self.held >= JOBS_MAX { self.flush() } else { Ok(()) }
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
        let thread = self.thread.take().ok_or_else(|| anyhow!("the sender has ended"))?;
        thread.join().map_err(|_| anyhow!("the sender has ended"))?
    }
}

fn work(server: &Server, tries: u32, waiting: &Receiver<Vec<u8>>) -> Result<Sent> {
    let mut sent = Sent::default();
    for body in waiting {
        let answer = post(server, tries, &body)?;
        let number = |name: &str| answer[name].as_u64().unwrap_or(0);
        sent.new += number("new");
        sent.replaced += number("replaced");
        sent.older += number("older");
    }
    Ok(sent)
}

/// Told again, a job is kept the same: so it is, when the server was not ready or did not answer.
fn post(server: &Server, tries: u32, body: &[u8]) -> Result<Value> {
    let mut wait = FIRST_WAIT;
    for _ in 1..tries {
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
