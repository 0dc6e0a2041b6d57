//! `jobglass import cleo`: what Cleo left.

use std::io;
use std::path::Path;

use anyhow::Result;
use import::cleo::{log, rows};
use import::{Error, Problem, Sink};
use record::accounting::Accounting;

use super::input::{Input, zone};
use super::progress::Progress;
use super::report::Report;
use super::sender::{Sender, TRIES};
use crate::args::ImportCleoArgs;
use crate::ask;

pub fn run(args: &ImportCleoArgs) -> Result<bool> {
    let zone = zone(args.time_zone.as_deref())?;
    let sender = Sender::start(ask::server(&args.server)?, TRIES)?;
    let report = Report::new(args.rejects.clone());
    let mut taking = Taking { sender, report, progress: Progress::of_bytes(None), failed: None };
    let cluster = args.cluster.as_deref();
    for path in &args.log {
        taking.file(path, |input, taking| log::read(input.content, &input.name, &zone, cluster, taking))?;
    }
    for path in &args.rows {
        taking.file(path, |input, taking| rows::read(input.content, &input.name, &zone, cluster, taking))?;
    }
    taking.progress.finish();
    let jobs = taking.sender.jobs();
    let sent = taking.sender.finish()?;
    say!("jobglass: {jobs} jobs: {sent}");
    taking.report.finish()
}

struct Taking {
    sender: Sender,
    report: Report,
    progress: Progress,
    /// Why jobs cannot be sent.
    failed: Option<anyhow::Error>,
}

impl Taking {
    /// Reads a file to its end, or to where it is damaged.
    fn file(
        &mut self,
        path: &Path,
        read: impl FnOnce(Input, &mut Taking) -> Result<(), Error>,
    ) -> Result<()> {
        let read = read(Input::open(path)?, self);
        match (self.failed.take(), read) {
            (Some(error), _) => Err(error),
            (None, Ok(())) => Ok(()),
            (None, Err(error @ Error::Io { .. })) => {
                self.report.broken(&error.to_string());
                Ok(())
            }
            (None, Err(error)) => Err(error.into()),
        }
    }
}

impl Sink for Taking {
    fn job(&mut self, job: Accounting) -> io::Result<()> {
        self.progress.at(0, self.sender.jobs());
        self.sender.send(&job).map_err(|error| {
            self.failed = Some(error);
            io::Error::other("not sent")
        })
    }

    fn problem(&mut self, problem: Problem<'_>) {
        self.report.take(&problem, &self.progress);
    }
}
