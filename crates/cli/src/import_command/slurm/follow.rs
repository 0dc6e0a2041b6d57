//! `jobglass import slurm --follow`: jobs as they come, change and end.
//!
//! Each round asks once for all that waited or ran since the last round that worked, and a while before. What waits or runs is
//! in every round. What Slurm's accounting learned too late for that is found by a longer look back: at the start, every hour, and
//! when a job that had not ended is missing.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};

use super::super::progress::Progress;
use super::super::report::Report;
use super::super::stop::Stop;
use super::bring::{Bringer, Brought};
use super::history::AHEAD;
use super::places::Places;
use super::sacct::Sacct;
use super::say;
use super::seen::{Key, Seen};
use super::site::Daily;
use super::state::{self, Import, State, StateFile};
use super::window::{Windows, ceil, earlier, floor, later};
use crate::args::ImportSlurmArgs;
use crate::ask;

const STATE: &str = "import-slurm.state";
/// Clocks differ, and the accounting is told of a job's end later than it is.
const OVERLAP: SignedDuration = SignedDuration::from_mins(5);
/// The same for the time while nobody asked.
const OVERLAP_AT_START: SignedDuration = SignedDuration::from_hours(1);
const LOOK_BACK: SignedDuration = SignedDuration::from_hours(24);
const LOOK_BACK_EVERY: Duration = Duration::from_secs(3600);
/// One that is made for the sake of jobs that are missing.
const LOOK_BACK_SOONEST: Duration = Duration::from_secs(300);
/// Slurm rests so many times as long as it had to work, but no longer than this.
const REST: u32 = 5;
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// Jobs that have not ended are remembered up to this number.
const OPEN: usize = 1 << 20;

struct Follow {
    bringer: Bringer,
    places: Places,
    site: Daily,
    file: StateFile,
    state: State,
    windows: Windows,
    every: Duration,
    /// What has not ended, by the last round that worked.
    open: HashSet<Key>,
    looked_back: Instant,
    is_look_back_due: bool,
    /// Rounds that failed since the last one that worked.
    failures: u32,
    news: u64,
}

pub fn run(args: &ImportSlurmArgs) -> Result<bool> {
    let mut follow = Follow::start(args)?;
    let stop = follow.bringer.stop.clone();
    let mut from = follow.state.done;
    while !stop.is_set() {
        let began = Instant::now();
        let took = follow.round(from);
        follow.site.tell(&follow.bringer.server, &stop, &mut follow.bringer.report);
        if stop.wait(follow.wait(took, began.elapsed())) {
            break;
        }
        from = follow.next_from();
    }
    say(format_args!("stopped; all that waited or ran up to {} is on the server", follow.state.done));
    Ok(true)
}

impl Follow {
    fn start(args: &ImportSlurmArgs) -> Result<Follow> {
        let stop = Stop::at_signals().context("cannot catch signals")?;
        let server = ask::server(&args.server)?;
        let import = Import::Follow { server: server.name().to_owned(), clusters: args.clusters.clone() };
        let file = StateFile::open(&args.state.clone().map_or_else(|| state::usual(STATE), Ok)?)?;
        if args.restart {
            file.remove()?;
        }
        let state = begin(file.read(&import)?, import, floor(Timestamp::now()));
        let report = Report::adding(args.rejects.rejects.clone().unwrap_or_else(|| file.rejects()));
        let sacct = Sacct::find(args.clusters.as_deref(), &stop)?;
        let bringer = Bringer { sacct, server, tries: 1, stop, report, seen: Seen::default() };
        bringer.is_server_ready()?;
        say(format_args!("following Slurm from {} to {}", state.done, bringer.server.name()));
        Ok(Follow {
            bringer,
            places: Places::new(args.clusters.is_some()),
            site: Daily::new(args.clusters.clone()),
            file,
            state,
            windows: Windows::new(args.window),
            every: args.every,
            open: HashSet::new(),
            looked_back: Instant::now(),
            is_look_back_due: false,
            failures: 0,
            news: 0,
        })
    }

    /// Where the next round begins.
    fn next_from(&mut self) -> Timestamp {
        let from = earlier(self.state.done, OVERLAP);
        let since = self.looked_back.elapsed();
        if !is_look_back_due(since, self.is_look_back_due) || self.failures > 0 {
            return from;
        }
        self.looked_back = Instant::now();
        self.is_look_back_due = false;
        let news = std::mem::take(&mut self.news);
        say(format_args!("{news} jobs were new or had changed in {} minutes", since.as_secs() / 60));
        from.min(earlier(self.state.done, LOOK_BACK))
    }

    /// From this time to now, in one window or in as many as it takes; says how long Slurm had to work for the last.
    fn round(&mut self, from: Timestamp) -> Duration {
        let began = Instant::now();
        match self.walk(from) {
            Ok(took) => {
                if self.failures > 0 {
                    say("it works again");
                }
                self.failures = 0;
                took
            }
            Err(_) if self.bringer.stop.is_set() => Duration::ZERO,
            Err(error) => {
                if self.failures == 0 {
                    say(format_args!("{error:#}; trying again until it works, nothing is lost"));
                }
                self.failures += 1;
                self.windows.shorten();
                began.elapsed()
            }
        }
    }

    fn walk(&mut self, mut from: Timestamp) -> Result<Duration> {
        let progress = Progress::none();
        let (mut all, mut open) = (HashSet::new(), HashSet::new());
        loop {
            let now = ceil(Timestamp::now());
            let mut span = self.windows.next(from, now);
            let (to, is_last) = (span.to, span.to >= now);
            if is_last {
                span.to = later(to, AHEAD);
            }
            let places = Some(&mut self.places).filter(|places| is_last && places.are_due());
            let brought = self.bringer.bring(span, places, &progress)?;
            self.count(&brought, to)?;
            all.extend(brought.all);
            open.extend(brought.open);
            if is_last {
                self.compare(&all, open);
                return Ok(brought.took);
            }
            if self.bringer.stop.wait(brought.took.min(LONGEST_WAIT)) {
                return Ok(Duration::ZERO);
            }
            from = to;
        }
    }

    /// The server has all up to here.
    fn count(&mut self, brought: &Brought, to: Timestamp) -> Result<()> {
        self.windows.learn(brought.jobs, brought.took);
        self.news += brought.news;
        self.state.done = self.state.done.max(to);
        self.file.write(&self.state)
    }

    /// A job that has not ended is in every round. One that is missing has ended before what the round was about.
    fn compare(&mut self, all: &HashSet<Key>, open: HashSet<Key>) {
        self.is_look_back_due |= is_missing(&self.open, all);
        self.open = if open.len() <= OPEN { open } else { HashSet::new() };
    }

    /// Rounds begin so often; what one took is not waited for once more, unless it failed.
    fn wait(&self, took: Duration, spent: Duration) -> Duration {
        let left = if self.failures == 0 { self.every.saturating_sub(spent) } else { self.every };
        pause(left, took, self.failures)
    }
}

/// So long after the last one, and if a job is missing or not.
fn is_look_back_due(since: Duration, is_missing: bool) -> bool {
    since >= if is_missing { LOOK_BACK_SOONEST } else { LOOK_BACK_EVERY }
}

fn is_missing(open: &HashSet<Key>, all: &HashSet<Key>) -> bool {
    open.iter().any(|key| !all.contains(key))
}

/// Where an import begins of which this is known.
fn begin(kept: Option<State>, import: Import, now: Timestamp) -> State {
    match kept {
        Some(kept) => State { done: earlier(kept.done, OVERLAP_AT_START), ..kept },
        None => State { import, from: earlier(now, LOOK_BACK), done: earlier(now, LOOK_BACK) },
    }
}

/// How long to wait before the next round: longer if Slurm is slow, and longer each time it fails.
fn pause(every: Duration, took: Duration, failures: u32) -> Duration {
    let patience = every.saturating_mul(1 << failures.min(16));
    patience.max(took.saturating_mul(REST)).min(LONGEST_WAIT.max(every))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_slow_is_left_alone() {
        let seconds = Duration::from_secs;
        for (every, took, failures, expected) in [
            (5, 0, 0, 5),
            (5, 1, 0, 5),
            (5, 4, 0, 20),
            (5, 90, 0, 300),
            (5, 0, 1, 10),
            (5, 0, 3, 40),
            (5, 0, 40, 300),
            (600, 0, 2, 600),
            (600, 400, 0, 600),
        ] {
            assert_eq!(
                pause(seconds(every), seconds(took), failures),
                seconds(expected),
                "{every} {took} {failures}"
            );
        }
    }

    #[test]
    fn a_longer_look_back_now_and_then() {
        for (minutes, is_missing, expected) in
            [(1, false, false), (1, true, false), (6, true, true), (59, false, false), (61, false, true)]
        {
            let since = Duration::from_secs(60 * minutes);
            assert_eq!(is_look_back_due(since, is_missing), expected, "{minutes} {is_missing}");
        }
    }

    #[test]
    fn it_begins_before_the_last_time() {
        let import = Import::Follow { server: "a".into(), clusters: None };
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-01-10T00:00:00Z");
        let new = begin(None, import.clone(), now);
        assert_eq!(new.done, at("2026-01-09T00:00:00Z"));
        let kept = State {
            import: import.clone(),
            from: at("2026-01-01T00:00:00Z"),
            done: at("2026-01-05T12:00:00Z"),
        };
        assert_eq!(begin(Some(kept), import, now).done, at("2026-01-05T11:00:00Z"));
    }

    #[test]
    fn a_job_that_is_missing_is_noticed() {
        let keys = |keys: &[Key]| keys.iter().copied().collect::<HashSet<_>>();
        for (open, all, expected) in
            [(&[][..], &[][..], false), (&[1, 2], &[1, 2, 3], false), (&[1, 2], &[1, 3], true)]
        {
            assert_eq!(is_missing(&keys(open), &keys(all)), expected, "{open:?} {all:?}");
        }
    }
}
