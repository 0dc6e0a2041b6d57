//! One query of `sacct`, and what is new of it to the server.

use std::io;
use std::time::Duration;

use anyhow::{Result, bail};
use import::{At, Outcome, Problem, Reason, Sink};
use record::accounting::Accounting;

use super::super::progress::Progress;
use super::super::report::Report;
use super::super::sender::{Sender, Sent};
use super::super::stop::Stop;
use super::places::Places;
use super::sacct::Sacct;
use super::seen::{self, Key, Seen};
use super::window::Span;
use crate::ask::Server;

/// A job may take so much of a request; the server takes eight million bytes.
const JOB_BYTES: usize = 3 << 20;
/// How many jobs there are between two looks at how far it is.
const LOOK: u64 = 500;
/// An array without jobs, which only tells whether they would be taken.
const NO_JOBS: [u8; 1] = [0x80];

/// All that a query needs.
pub struct Bringer {
    pub sacct: Sacct,
    pub server: Server,
    pub tries: u32,
    pub stop: Stop,
    pub report: Report,
    pub seen: Seen,
}

/// What came of a query.
#[derive(Debug, Default)]
pub struct Brought {
    /// All that it gave, and what of it was not known to be there.
    pub jobs: u64,
    pub news: u64,
    pub took: Duration,
    pub sent: Sent,
    /// All jobs, and those that have not ended.
    pub all: Vec<Key>,
    pub open: Vec<Key>,
}

impl Bringer {
    /// Asks, and returns when the server has it all. Nothing is lost by an error: what is asked again is sent again.
    pub fn bring(
        &mut self,
        span: Span,
        mut places: Option<&mut Places>,
        progress: &Progress,
    ) -> Result<Brought> {
        let mut sender = Sender::start(self.server.clone(), self.tries)?;
        let mut taking = Taking {
            sender: &mut sender,
            seen: &mut self.seen,
            report: &mut self.report,
            places: places.as_deref_mut(),
            progress,
            brought: Brought::default(),
            failed: None,
        };
        let asked = self.sacct.ask(span, &self.stop, &mut taking);
        let asked = match (taking.failed.take(), asked) {
            (Some(error), _) => Err(error),
            (None, asked) => asked,
        };
        let mut brought = taking.brought;
        let placed = match (&asked, places) {
            (Ok(_), Some(places)) => places.find(&self.stop, &mut self.report, progress),
            _ => Vec::new(),
        };
        let sent = placed.iter().try_for_each(|job| sender.send(job));
        brought.news += placed.len() as u64;
        let outcome = asked.and_then(|took| {
            sent?;
            (brought.took, brought.sent) = (took, sender.finish()?);
            Ok(brought)
        });
        match &outcome {
            Ok(_) => self.seen.arrived(),
            Err(_) => self.seen.failed(),
        }
        outcome
    }

    /// Whether the server would take jobs now; an error if it never will.
    pub fn is_server_ready(&self) -> Result<bool> {
        match self.server.post("/api/v1/accounting", &NO_JOBS) {
            Ok(_) => Ok(true),
            Err(error) if error.is_passing => {
                super::say(format_args!("{:#}", error.why));
                Ok(false)
            }
            Err(error) => bail!(error.why),
        }
    }
}

/// Jobs to the server, problems to the report.
struct Taking<'a> {
    sender: &'a mut Sender,
    seen: &'a mut Seen,
    report: &'a mut Report,
    places: Option<&'a mut Places>,
    progress: &'a Progress,
    brought: Brought,
    /// Why jobs cannot be sent.
    failed: Option<anyhow::Error>,
}

impl Sink for Taking<'_> {
    fn job(&mut self, mut job: Accounting) -> io::Result<()> {
        self.brought.jobs += 1;
        if self.brought.jobs.is_multiple_of(LOOK) {
            self.progress.more_jobs(LOOK);
        }
        seen::settle(&mut job);
        let Some(encoded) = self.sendable(&mut job) else { return Ok(()) };
        let key = seen::key(&job);
        self.brought.all.push(key);
        if job.end.is_none() {
            self.brought.open.push(key);
        }
        let is_news = self.seen.is_news(key, &encoded);
        let job = match &mut self.places {
            Some(places) => places.hold(job, is_news),
            None => Some(job).filter(|_| is_news),
        };
        let Some(job) = job else { return Ok(()) };
        self.brought.news += 1;
        self.sender.send(&job).map_err(|error| {
            self.failed = Some(error);
            io::Error::other("not sent")
        })
    }

    fn problem(&mut self, problem: Problem<'_>) {
        self.report.take(&problem, self.progress);
    }
}

impl Taking<'_> {
    /// What the server would refuse is reported here, lest one job holds up all others for ever.
    fn sendable(&mut self, job: &mut Accounting) -> Option<Vec<u8>> {
        if !job.times().all(|time| i64::try_from(time).is_ok()) {
            let text = job.shown.as_bytes().into();
            let reason = Reason::ImpossibleTime { field: "one of its times", text };
            self.refuse(job, Outcome::Rejected, reason);
            return None;
        }
        let encoded = seen::encoded(job);
        if encoded.len() <= JOB_BYTES {
            return Some(encoded);
        }
        let all = job.steps.len();
        job.steps.truncate(steps_that_fit(all, encoded.len()));
        let (encoded, reason) = (seen::encoded(job), Reason::TooManySteps { kept: job.steps.len(), all });
        let does_fit = encoded.len() <= JOB_BYTES;
        self.refuse(job, if does_fit { Outcome::Doubted } else { Outcome::Rejected }, reason);
        Some(encoded).filter(|_| does_fit)
    }

    fn refuse(&mut self, job: &Accounting, outcome: Outcome, reason: Reason) {
        let (at, text) = (At::Job(self.brought.jobs), job.shown.as_bytes());
        self.report.take(&Problem { file: "sacct", at, text, outcome, reason }, self.progress);
    }
}

/// Steps are alike, more or less.
fn steps_that_fit(all: usize, bytes: usize) -> usize {
    (all as u64 * JOB_BYTES as u64 / (2 * bytes.max(1) as u64)) as usize
}
