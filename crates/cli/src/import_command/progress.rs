//! How far an import is: a bar with rate and remaining time where somebody looks, a line now and then where nobody does.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What takes less is done before anybody looks.
const QUIET: Duration = Duration::from_secs(2);
/// Where the output is no terminal.
const LINES: Duration = Duration::from_secs(30);

/// A bar of bytes or of seconds of history.
pub struct Progress {
    bar: ProgressBar,
    began: Instant,
    is_terminal: bool,
    said: AtomicU64,
    /// Of history: where it began this time, and the jobs of windows that are not done.
    first: Option<u64>,
    jobs: AtomicU64,
    position: AtomicU64,
}

impl Progress {
    /// Of so many bytes; without a size only the rate is known.
    pub fn of_bytes(size: Option<u64>) -> Progress {
        let template = if size.is_some() {
            "{bar:30} {percent:>3}%  {msg}  {binary_bytes_per_sec}  {eta} left"
        } else {
            "{binary_bytes}  {msg}  {binary_bytes_per_sec}"
        };
        Progress::new(size, template)
    }

    /// Of so many seconds of history, of which some were done before.
    pub fn of_seconds(all: u64, done: u64) -> Progress {
        let new = Progress::new(Some(all), "{bar:30} {percent:>3}%  {msg}");
        Progress { first: Some(done), position: AtomicU64::new(done), ..new }
    }

    /// Of something without an end.
    pub fn none() -> Progress {
        Progress { is_terminal: false, ..Progress::new(None, "{msg}") }
    }

    fn new(size: Option<u64>, template: &str) -> Progress {
        let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress {
            bar,
            began: Instant::now(),
            is_terminal: std::io::stderr().is_terminal(),
            said: AtomicU64::new(0),
            first: None,
            jobs: AtomicU64::new(0),
            position: AtomicU64::new(0),
        }
    }

    /// More jobs, in a window that is not done yet.
    pub fn more_jobs(&self, more: u64) {
        if self.first.is_some() {
            let jobs = self.jobs.fetch_add(more, Ordering::Relaxed) + more;
            self.show(self.position.load(Ordering::Relaxed), jobs);
        }
    }

    /// So far, with so many jobs.
    pub fn at(&self, position: u64, jobs: u64) {
        self.jobs.store(jobs, Ordering::Relaxed);
        self.position.store(position, Ordering::Relaxed);
        self.show(position, jobs);
    }

    fn show(&self, position: u64, jobs: u64) {
        if self.began.elapsed() < QUIET {
            return;
        }
        if self.is_terminal {
            if self.bar.is_hidden() {
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            self.bar.set_message(self.pace(position, jobs));
            self.bar.set_position(position);
        } else {
            self.line(position, jobs);
        }
    }

    fn line(&self, position: u64, jobs: u64) {
        let turn = self.began.elapsed().as_secs() / LINES.as_secs();
        if turn > self.said.swap(turn, Ordering::Relaxed) {
            let share = self.bar.length().map_or(String::new(), |all| {
                format!(", {:.0} %", 100.0 * position as f64 / all.max(1) as f64)
            });
            say!("jobglass: {}{share}", self.pace(position, jobs));
        }
    }

    /// How many jobs, and of history how fast and for how long still.
    fn pace(&self, position: u64, jobs: u64) -> String {
        match (self.first, self.bar.length()) {
            (Some(first), Some(all)) => pace(self.began.elapsed(), [first, position, all], jobs),
            _ => format!("{jobs} jobs"),
        }
    }

    /// A line that the bar does not overwrite.
    pub fn say(&self, text: &str) {
        if self.bar.is_hidden() {
            say!("{text}");
        } else {
            self.bar.suspend(|| say!("{text}"));
        }
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// In this time from the first of these to the second; the third is the end.
fn pace(elapsed: Duration, [first, position, all]: [u64; 3], jobs: u64) -> String {
    let rate = jobs as f64 / elapsed.as_secs_f64().max(0.001);
    let done = position.saturating_sub(first);
    let left = if done == 0 {
        "?".to_owned()
    } else {
        let seconds = elapsed.as_secs_f64() * all.saturating_sub(position) as f64 / done as f64;
        HumanDuration(Duration::from_secs_f64(seconds.min(1e9))).to_string()
    };
    format!("{jobs} jobs, {rate:.0} a second, {left} left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_fast_and_how_long_still() {
        for (seconds, way, jobs, expected) in [
            (10, [0, 0, 1000], 0, "0 jobs, 0 a second, ? left"),
            (10, [0, 100, 1000], 500, "500 jobs, 50 a second, 2 minutes left"),
            (10, [500, 600, 1000], 500, "500 jobs, 50 a second, 40 seconds left"),
            (10, [0, 1000, 1000], 500, "500 jobs, 50 a second, 0 seconds left"),
        ] {
            assert_eq!(pace(Duration::from_secs(seconds), way, jobs), expected);
        }
    }
}
