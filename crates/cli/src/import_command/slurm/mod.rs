//! `jobglass import slurm`: from files that `sacct` wrote, from its history, and as the jobs come.
//!
//! * `files`: what `sacct` wrote before.
//! * `history`: a span of time, window by window.
//! * `follow`: round by round, for as long as it runs.
//! * `bring`: one query, and all that is new of it to the server; `seen` knows what is not new.
//! * `site`: partitions, nodes, accounts and users.
//! * `places`: which processors and GPUs jobs have, while Slurm knows it.
//! * `window`: how long a span one query is about. `state`: how far it is, in a file.
//! * `sacct`: the query. `command`: runs it.
//!
//! One command of Slurm runs at a time, and never one for each job.

mod bring;
mod command;
mod files;
mod follow;
mod history;
mod places;
mod sacct;
mod seen;
mod site;
mod state;
mod window;

use std::fmt::Display;
use std::io::Write;

use anyhow::Result;

use crate::args::ImportSlurmArgs;

/// Says whether everything could be read.
pub fn run(args: &ImportSlurmArgs) -> Result<bool> {
    match &args.from {
        Some(from) => history::run(args, from),
        None if args.site => site::run(args),
        None if args.follow => follow::run(args),
        None => files::run(args),
    }
}

/// A line for whoever reads the log. A log that cannot be written is no reason to stop.
fn say(what: impl Display) {
    let _ = writeln!(std::io::stderr(), "jobglass import: {what}");
}
