//! What could not be read as it is: told on standard error, and kept whole in a file, so that it can be mended and imported again.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use import::{Outcome, Problem};
use xxhash_rust::xxh3::xxh3_64;

use super::progress::Progress;

/// So many are told; all are kept.
const TOLD: u64 = 20;

/// Where lines come again and again, each is kept once, and no more than these.
const KEPT_ONCE: usize = 100_000;

/// So much of a line says whose it is.
const LIKE: usize = 32;

/// Where lines are kept unless another file is named.
const FILE: &str = "jobglass-rejects.txt";

/// Counts problems, tells the first and keeps all.
pub struct Report {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    /// Why they could not be kept.
    error: Option<std::io::Error>,
    pub rejected: u64,
    pub mended: u64,
    pub doubted: u64,
    /// Errors that the source itself met.
    reported: u64,
    /// Files that end before their end.
    broken: u64,
    /// What was seen, where the same comes again and again.
    seen: Option<HashSet<u64>>,
}

impl Report {
    pub fn new(path: Option<PathBuf>) -> Report {
        let path = path.unwrap_or_else(|| FILE.into());
        let (file, error, seen) = (None, None, None);
        Report { path, file, error, rejected: 0, mended: 0, doubted: 0, reported: 0, broken: 0, seen }
    }

    /// Adds to the file, and takes each problem once: one that is asked again says the same again.
    pub fn adding(path: PathBuf) -> Report {
        Report { seen: Some(HashSet::new()), ..Report::new(Some(path)) }
    }

    pub fn problems(&self) -> u64 {
        self.rejected + self.mended + self.doubted + self.reported
    }

    pub fn take(&mut self, problem: &Problem<'_>, progress: &Progress) {
        if let Some(seen) = &mut self.seen
            && (seen.len() >= KEPT_ONCE || !seen.insert(likeness(problem)))
        {
            return;
        }
        match problem.outcome {
            // A warning: nothing that belongs to a job is lost.
            Outcome::Ignored => return progress.say(&format!("jobglass: {problem}")),
            Outcome::Reported => self.reported += 1,
            Outcome::Rejected => self.rejected += 1,
            Outcome::Mended => self.mended += 1,
            Outcome::Doubted => self.doubted += 1,
        }
        if self.problems() <= TOLD {
            progress.say(&format!("jobglass: {problem}"));
        } else if self.problems() == TOLD + 1 {
            progress.say(&format!("jobglass: more of these are in {}", self.path.display()));
        }
        if let Err(error) = self.keep(problem) {
            self.error.get_or_insert(error);
        }
    }

    /// What is wrong stands before the line, behind a `#`.
    fn keep(&mut self, problem: &Problem<'_>) -> std::io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut options = File::options();
                options.create(true).write(true).append(self.seen.is_some()).truncate(self.seen.is_none());
                none.insert(BufWriter::new(options.open(&self.path)?))
            }
        };
        writeln!(file, "# {}:{}: {}: {}", problem.file, problem.at, problem.outcome.name(), problem.reason)?;
        file.write_all(problem.text)?;
        writeln!(file)?;
        // Whoever runs for weeks, or is killed, keeps them all the same.
        if self.seen.is_some() { file.flush() } else { Ok(()) }
    }

    /// A file cannot be read any further.
    pub fn broken(&mut self, why: &str) {
        self.broken += 1;
        say!("jobglass: {why}: it ends here, what came before is imported");
    }

    /// Says in a line what became of all of them; whether there were none.
    pub fn finish(mut self) -> Result<bool> {
        if let Some(file) = &mut self.file {
            file.flush().with_context(|| format!("cannot write {}", self.path.display()))?;
        }
        if let Some(error) = self.error.take() {
            return Err(error)
                .with_context(|| format!("cannot keep what was rejected in {}", self.path.display()));
        }
        if self.problems() > 0 {
            say!(
                "jobglass: {} rejected, {} mended, {} without a value that cannot be true, {} errors of the source: kept in {}",
                self.rejected,
                self.mended,
                self.doubted,
                self.reported,
                self.path.display()
            );
        }
        Ok(self.problems() + self.broken == 0)
    }
}

/// The same for what is told again: the times of a job that runs change, what is wrong and whose it is do not.
fn likeness(problem: &Problem<'_>) -> u64 {
    let start = &problem.text[..problem.text.len().min(LIKE)];
    xxh3_64(&[problem.reason.to_string().as_bytes(), b"\0", start].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use import::{At, Reason};

    /// A column that is not known is no reason to fail; an error that Slurm met is one.
    #[test]
    fn a_warning_is_no_problem_and_an_error_of_the_source_is_one() {
        let dir = tempfile::tempdir().unwrap();
        for (outcome, is_good) in [(Outcome::Ignored, true), (Outcome::Reported, false)] {
            let mut report = Report::new(Some(dir.path().join("rejects")));
            let (at, reason) = (At::Line(1), Reason::UnknownField("Color".into()));
            report.take(&Problem { file: "f", at, text: b"x", outcome, reason }, &Progress::none());
            assert_eq!(report.finish().unwrap(), is_good, "{outcome:?}");
            assert_eq!(dir.path().join("rejects").exists(), !is_good, "{outcome:?}");
        }
    }

    /// Also by a later import that adds to the file.
    #[test]
    fn what_comes_again_is_kept_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rejects");
        let progress = Progress::none();
        for expected in [2, 4] {
            let mut report = Report::adding(path.clone());
            for text in
                ["1 a line that goes on for a while, 00:05", "1 a line that goes on for a while, 00:10", "2"]
            {
                let (at, outcome, reason) = (At::Line(1), Outcome::Rejected, Reason::NoId);
                report
                    .take(&Problem { file: "sacct", at, text: text.as_bytes(), outcome, reason }, &progress);
            }
            assert_eq!(report.rejected, 2);
            assert!(!report.finish().unwrap());
            let kept = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
            assert_eq!(
                kept.matches("# sacct:1: rejected: a job or step without a number").count(),
                expected,
                "{kept}"
            );
        }
    }
}
