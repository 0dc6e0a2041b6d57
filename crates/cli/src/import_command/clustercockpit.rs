//! `jobglass import clustercockpit` and `jobglass export clustercockpit`: a centre can come, and go.

use std::io;

use anyhow::{Context, Result};
use import::Problem;
use import::clustercockpit::write::Writer;
use import::clustercockpit::{Known, Takes, archive, database};
use jiff::Zoned;
use record::measure::Exported;
use record::site::Description;

use super::progress::Progress;
use super::report::Report;
use super::sender::{Sender, TRIES, put};
use crate::args::{ExportClusterCockpitArgs, ImportClusterCockpitArgs};
use crate::ask::{self, Server};

/// Where clusters as they describe themselves are kept.
const DESCRIPTIONS: &str = "/api/v1/site/descriptions";

/// An archive of jobs, or a database of them.
pub fn run(args: &ImportClusterCockpitArgs) -> Result<bool> {
    let progress = Progress::of_bytes(None);
    let report = Report::new(args.rejects.rejects.clone());
    let server = ask::server(&args.server)?;
    let sender = Sender::start(server.clone(), TRIES)?;
    let mut taking = Taking { server, sender, report, progress: &progress, failed: None };
    let read = if args.path.is_dir() {
        archive::read(&args.path, &archive::Options::default(), &mut taking)
    } else {
        database::read(&args.path, &mut taking)
    };
    progress.finish();
    if let Some(error) = taking.failed {
        return Err(error);
    }
    read?;
    let jobs = taking.sender.jobs();
    let sent = taking.sender.finish()?;
    say!("jobglass: {jobs} jobs: {sent}; {} values", sent.values);
    taking.report.finish()
}

struct Taking<'a> {
    server: Server,
    sender: Sender,
    report: Report,
    progress: &'a Progress,
    /// Why jobs cannot be sent.
    failed: Option<anyhow::Error>,
}

impl Takes for Taking<'_> {
    fn job(&mut self, known: Known) -> io::Result<()> {
        let sent = self.sender.send(&known.job).and_then(|()| self.sender.measured(known.measures));
        self.progress.at(0, self.sender.jobs());
        self.end_if_not(sent)
    }

    fn cluster(&mut self, name: &str, text: &str) -> io::Result<()> {
        let sent = put_description(&self.server, name, text);
        self.end_if_not(sent)
    }

    fn problem(&mut self, problem: Problem<'_>) {
        self.report.take(&problem, self.progress);
    }
}

impl Taking<'_> {
    fn end_if_not(&mut self, sent: Result<()>) -> io::Result<()> {
        sent.map_err(|error| {
            self.failed = Some(error);
            io::Error::other("not sent")
        })
    }
}

fn put_description(server: &Server, cluster: &str, text: &str) -> Result<()> {
    let of = Description { cluster: cluster.to_owned(), text: text.to_owned() };
    let body = minicbor::to_vec(&of).context("a description of a cluster cannot be written")?;
    put(server, TRIES, DESCRIPTIONS, &body).map(|_| ())
}

/// Writes jobs as an archive; says whether there were any, and all have a place in it.
pub fn export(args: &ExportClusterCockpitArgs) -> Result<bool> {
    let server = ask::server(&args.server)?;
    let mut parameters = Vec::new();
    parameters.extend(args.condition.iter().map(|text| ("where", text.clone())));
    let now = Zoned::now();
    for (name, text) in [("since", &args.since), ("until", &args.until)] {
        if let Some(text) = text {
            parameters.push((name, ask::when::parse(text, &now)?.to_string()));
        }
    }
    let mut writer = Writer::new(&args.dir, args.overwrite)?;
    let body = server.fetch(DESCRIPTIONS, &[])?;
    let described: Vec<Description> =
        minicbor::decode(&body).context("the server's answer cannot be read")?;
    described.into_iter().for_each(|of| writer.describe(of.cluster, of.text));
    let (progress, mut done) = (Progress::of_bytes(None), Done::default());
    let mut after: Option<u64> = None;
    loop {
        let asked = parameters.iter().cloned().chain(after.map(|id| ("after", id.to_string())));
        let body = server.fetch("/api/v1/export", &asked.collect::<Vec<_>>())?;
        let jobs: Vec<Exported> = minicbor::decode(&body).context("the server's answer cannot be read")?;
        let Some(last) = jobs.last() else { break };
        after = Some(last.id);
        for Exported { job, measures, .. } in jobs {
            done.add(&mut writer, &Known { job, measures }, &progress);
        }
        progress.at(0, done.written + done.same);
    }
    writer.finish()?;
    progress.finish();
    done.say(args)
}

/// What became of the jobs.
#[derive(Default)]
struct Done {
    written: u64,
    same: u64,
    left_out: u64,
    refused: u64,
}

impl Done {
    fn add(&mut self, writer: &mut Writer, known: &Known, progress: &Progress) {
        match writer.job(known) {
            Ok(written) => {
                *(if written.is_new { &mut self.written } else { &mut self.same }) += 1;
                self.left_out += written.left_out as u64;
            }
            Err(error) => {
                self.refused += 1;
                progress.say(&format!("jobglass: {error}"));
            }
        }
    }

    fn say(&self, args: &ExportClusterCockpitArgs) -> Result<bool> {
        let Done { written, same, left_out, refused } = self;
        say!("jobglass: {written} jobs written to {}, {same} were there", args.dir.display());
        if left_out + refused > 0 {
            say!("jobglass: {refused} jobs and {left_out} series have no place in an archive");
        }
        Ok(written + same > 0 && left_out + refused == 0)
    }
}
