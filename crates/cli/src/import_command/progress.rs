//! How far an import is: a bar with rate and remaining time where somebody looks, a line now and then where nobody does.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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
        }
    }

    /// So far, with so many jobs.
    pub fn at(&self, position: u64, jobs: u64) {
        if self.began.elapsed() < QUIET {
            return;
        }
        if self.is_terminal {
            if self.bar.is_hidden() {
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            self.bar.set_message(format!("{jobs} jobs"));
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
            eprintln!("jobglass: {jobs} jobs{share}");
        }
    }

    /// A line that the bar does not overwrite.
    pub fn say(&self, text: &str) {
        if self.bar.is_hidden() {
            eprintln!("{text}");
        } else {
            self.bar.suspend(|| eprintln!("{text}"));
        }
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
