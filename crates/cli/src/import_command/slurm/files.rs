//! `jobglass import slurm --file F`: files that `sacct` wrote.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use import::slurm::text::Options;
use import::slurm::{json, text};
use import::{Error, Problem, Sink};
use record::accounting::Accounting;

use super::super::input::{Input, zone};
use super::super::progress::Progress;
use super::super::report::Report;
use super::super::sender::{Sender, TRIES};
use crate::args::ImportSlurmArgs;
use crate::ask;

/// How many jobs there are between two looks at how far it is.
const LOOK: u64 = 500;

pub fn run(args: &ImportSlurmArgs) -> Result<bool> {
    let options = options(args)?;
    let mut report = Report::new(args.rejects.rejects.clone());
    let mut sender = Sender::start(ask::server(&args.server)?, TRIES)?;
    for path in &args.file {
        let input = Input::open(path)?;
        read(input, &options, &mut sender, &mut report)?;
    }
    let jobs = sender.jobs();
    let sent = sender.finish()?;
    say!("jobglass: {jobs} jobs: {sent}");
    report.finish()
}

fn options(args: &ImportSlurmArgs) -> Result<Options> {
    let zone = zone(args.time_zone.as_deref())?;
    let mut options = if args.xdmod { Options::xdmod(zone) } else { Options::new(zone) };
    options.delimiter.clone_from(&args.delimiter.0);
    options.is_strict = !args.rejects.mend;
    options.rejects_unknown_fields = args.rejects.strict;
    options.may_have_quotes = true;
    options.cluster = args.cluster.clone();
    if let Some(fields) = &args.fields {
        options.fields = Some(fields.clone());
    }
    Ok(options)
}

/// Reads one file to its end, or to where it is damaged: what came before is imported all the same.
fn read(mut input: Input, options: &Options, sender: &mut Sender, report: &mut Report) -> Result<()> {
    let progress = Progress::of_bytes(input.size);
    let mut taking = Taking { sender, report, progress: &progress, read: input.read.clone(), failed: None };
    let is_json = input.is_json();
    let outcome = match is_json {
        Ok(true) => json::read(input.content, &input.name, options.is_strict, &mut taking),
        Ok(false) => text::read(input.content, &input.name, options, &mut taking),
        Err(error) => Err(Error::Io { file: input.name, error }),
    };
    let failed = taking.failed.take();
    progress.finish();
    match (failed, outcome) {
        (Some(error), _) => Err(error),
        (None, Ok(())) => Ok(()),
        (None, Err(error @ (Error::Io { .. } | Error::Json { .. }))) => {
            report.broken(&error.to_string());
            Ok(())
        }
        (None, Err(error)) => Err(error.into()),
    }
}

/// Jobs to the server, problems to the report.
struct Taking<'a> {
    sender: &'a mut Sender,
    report: &'a mut Report,
    progress: &'a Progress,
    read: Arc<AtomicU64>,
    /// Why jobs cannot be sent.
    failed: Option<anyhow::Error>,
}

impl Sink for Taking<'_> {
    fn job(&mut self, job: Accounting) -> io::Result<()> {
        if self.sender.jobs().is_multiple_of(LOOK) {
            self.progress.at(self.read.load(Ordering::Relaxed), self.sender.jobs());
        }
        self.sender.send(&job).map_err(|error| {
            self.failed = Some(error);
            io::Error::other("not sent")
        })
    }

    fn problem(&mut self, problem: Problem<'_>) {
        self.report.take(&problem, self.progress);
    }
}
