//! `jobglass import slurm --from T [--to T]`: what Slurm has kept, window by window.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp, Zoned};

use super::super::progress::Progress;
use super::super::report::Report;
use super::super::sender::{Sent, TRIES};
use super::super::stop::Stop;
use super::bring::{Bringer, Brought};
use super::sacct::Sacct;
use super::seen::Seen;
use super::state::{self, Import, State, StateFile};
use super::window::{Windows, ceil, floor, later};
use crate::args::ImportSlurmArgs;
use crate::ask::{self, when};

/// Not that of the service: both may be at work.
const STATE: &str = "import-slurm-history.state";
/// How often a window is tried, and how long the first wait is. Each is twice as long as the last.
const ATTEMPTS: u32 = 6;
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// A query that takes longer is followed by a rest of the same length.
const LONG: Duration = Duration::from_secs(5);
const LONGEST_REST: Duration = Duration::from_secs(60);
/// Up to now means also what waits now and may not begin yet.
pub const AHEAD: SignedDuration = SignedDuration::from_hours(30 * 24);

struct History {
    bringer: Bringer,
    file: StateFile,
    state: State,
    end: Timestamp,
    /// Whether that is now.
    is_open: bool,
    windows: Windows,
    progress: Progress,
    jobs: u64,
    sent: Sent,
}

pub fn run(args: &ImportSlurmArgs, from: &str) -> Result<bool> {
    let mut history = History::start(args, from)?;
    while history.state.done < history.end {
        history.window()?;
    }
    history.progress.finish();
    history.file.remove()?;
    say!("jobglass: {} jobs: {}", history.jobs, history.sent);
    history.bringer.report.finish()
}

impl History {
    fn start(args: &ImportSlurmArgs, from: &str) -> Result<History> {
        let now = Zoned::now();
        let begin = floor(when::parse(from, &now).context("--from")?);
        let end = match &args.to {
            Some(to) => ceil(when::parse(to, &now).context("--to")?),
            None => ceil(now.timestamp()),
        };
        ensure!(begin < end, "nothing is between --from, {begin}, and --to, {end}");
        let server = ask::server(&args.server)?;
        let import = Import::History {
            from: from.to_owned(),
            to: args.to.clone(),
            server: server.name().to_owned(),
            clusters: args.clusters.clone(),
        };
        let file = StateFile::open(&state_path(args)?)?;
        let state = begin_or_go_on(&file, import, begin, args.restart)?;
        let report = Report::adding(args.rejects.rejects.clone().unwrap_or_else(|| file.rejects()));
        let stop = Stop::default();
        let sacct = Sacct::find(args.clusters.as_deref(), &stop)?;
        let bringer = Bringer { sacct, server, tries: TRIES, stop, report, seen: Seen::default() };
        ensure!(bringer.is_server_ready()?, "the server does not answer: try again when it does");
        let seconds =
            |from: Timestamp, to: Timestamp| u64::try_from(to.as_second() - from.as_second()).unwrap_or(0);
        let progress = Progress::of_seconds(seconds(state.from, end), seconds(state.from, state.done));
        Ok(History {
            bringer,
            file,
            state,
            end,
            is_open: args.to.is_none(),
            windows: Windows::new(args.window),
            progress,
            jobs: 0,
            sent: Sent::default(),
        })
    }

    /// One window; when this returns the server has it, and the file says so.
    fn window(&mut self) -> Result<()> {
        let mut wait = FIRST_WAIT;
        for attempt in 1.. {
            let mut span = self.windows.next(self.state.done, self.end);
            let to = span.to;
            if self.is_open && to == self.end {
                span.to = later(to, AHEAD);
            }
            match self.bringer.bring(span, None, &self.progress) {
                Ok(brought) => return self.count(&brought, to),
                Err(error) if attempt >= ATTEMPTS => return Err(error).with_context(|| self.how_to_go_on()),
                Err(error) => {
                    let seconds = wait.as_secs();
                    self.progress
                        .say(&format!("jobglass: {error:#}; trying again in {seconds} s, with less"));
                }
            }
            self.windows.shorten();
            self.bringer.stop.wait(wait);
            wait *= 2;
        }
        Ok(())
    }

    fn count(&mut self, brought: &Brought, to: Timestamp) -> Result<()> {
        self.state.done = to;
        self.file.write(&self.state)?;
        self.windows.learn(brought.jobs, brought.took);
        self.jobs += brought.jobs;
        self.sent += brought.sent;
        let done = self.state.done.as_second() - self.state.from.as_second();
        self.progress.at(u64::try_from(done).unwrap_or(0), self.jobs);
        if brought.took > LONG {
            self.bringer.stop.wait(brought.took.min(LONGEST_REST));
        }
        Ok(())
    }

    fn how_to_go_on(&self) -> String {
        format!("stopped at {}; the same command goes on there", self.state.done)
    }
}

fn state_path(args: &ImportSlurmArgs) -> Result<PathBuf> {
    args.state.clone().map_or_else(|| state::usual(STATE), Ok)
}

fn begin_or_go_on(file: &StateFile, import: Import, begin: Timestamp, restart: bool) -> Result<State> {
    if restart {
        file.remove()?;
    }
    let kept = file.read(&import)?;
    if let Some(kept) = &kept {
        say!("jobglass: going on at {}; --restart begins anew", kept.done);
    }
    Ok(kept.unwrap_or(State { import, from: begin, done: begin }))
}
