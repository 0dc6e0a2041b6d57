//! Where readers put what they find: jobs, and what could not be read.

use std::fmt;
use std::io;

use record::accounting::Accounting;
use record::bytes::Bytes;

/// Takes jobs and problems one at a time, so that no reader holds a file in memory.
pub trait Sink {
    /// An error ends the reading.
    fn job(&mut self, job: Accounting) -> io::Result<()>;
    fn problem(&mut self, problem: Problem<'_>);
}

/// Something that was not as it should be.
#[derive(Debug)]
pub struct Problem<'a> {
    pub file: &'a str,
    pub at: At,
    /// The line, or the job, as it was found.
    pub text: &'a [u8],
    pub outcome: Outcome,
    pub reason: Reason,
}

/// Where a problem is; both count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    Line(u64),
    /// Among the names of the fields that were given with the file.
    Fields,
    /// In a list of jobs.
    Job(u64),
    /// In a list of errors that the source itself met.
    Error(u64),
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing of it was taken.
    Rejected,
    /// It was taken as it must have been meant.
    Mended,
    /// It was taken without the value that cannot be true.
    Doubted,
    /// It is not needed, and passed over.
    Ignored,
    /// The source says so of itself: something may be missing.
    Reported,
}

impl Outcome {
    /// In a message.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Rejected => "rejected",
            Outcome::Mended => "mended",
            Outcome::Doubted => "doubted",
            Outcome::Ignored => "ignored",
            Outcome::Reported => "reported",
        }
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reason {
    #[error("{field} cannot be `{text}`")]
    Unreadable { field: &'static str, text: Bytes },
    #[error("{field} is empty, and never is")]
    Empty { field: &'static str },
    #[error("{found} fields instead of {expected}")]
    FieldCount { found: usize, expected: usize },
    #[error("{found} fields instead of {expected}, and it cannot be told which of {fields} is too long")]
    Ambiguous { found: usize, expected: usize, fields: String },
    #[error("{field} has a delimiter or a line break in it")]
    Joined { field: &'static str },
    #[error("fields in quotes, or with doubled ones in them")]
    Quoted,
    #[error("no field is called `{0}`")]
    UnknownField(String),
    #[error("a job or step without a number")]
    NoId,
    #[error("a step, and its job is not before it")]
    Orphan,
    #[error("longer than {0} bytes")]
    TooLong(usize),
    #[error("{field} is at an impossible time, `{text}`")]
    ImpossibleTime { field: &'static str, text: Bytes },
    #[error("it ends before it starts")]
    EndBeforeStart,
    #[error("more memory asked for than there can be, `{0}`")]
    ImpossibleMemory(Bytes),
    #[error("no known state, `{0}`")]
    UnknownState(Bytes),
    #[error("bytes that are no UTF-8")]
    NoText,
    #[error("no line of this log")]
    NoEvent,
    #[error("no job")]
    NoJob,
    #[error("{what} cannot be read: {error}")]
    Broken { what: &'static str, error: String },
    #[error("not what this command prints")]
    Stray,
    #[error("it is not whole, or a user's text is like it")]
    Unsure,
    #[error("job {0} is there more than once, and only one can be it")]
    Twice(u64),
    #[error("job {found}, and {asked} was asked for")]
    OtherJob { asked: u64, found: u64 },
    #[error(
        "{metric} is known of {scope} only, and cluster.json does not say how that is aggregated (sum or avg)"
    )]
    NoAggregation { metric: Bytes, scope: Bytes },
    #[error("{metric} has several series for {part} of {host}: none of them counts as its value")]
    SameSeries { metric: Bytes, part: Bytes, host: Bytes },
    #[error("more than {0} nodes")]
    TooManyNodes(usize),
    #[error("Slurm says: {0}")]
    Said(String),
    #[error("more than can be sent at once: {kept} of {all} steps are kept")]
    TooManySteps { kept: usize, all: usize },
}

/// How much of a text is repeated in a reason.
const QUOTED: usize = 80;

impl Reason {
    pub(crate) fn unreadable(field: &'static str, text: &[u8]) -> Reason {
        Reason::Unreadable { field, text: quoted(text) }
    }
}

/// The beginning of a text.
pub(crate) fn quoted(text: &[u8]) -> Bytes {
    Bytes::from(&text[..text.len().min(QUOTED)])
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Line(line) => write!(f, "{line}"),
            At::Fields => write!(f, "fields"),
            At::Job(job) => write!(f, "job {job}"),
            At::Error(error) => write!(f, "error {error}"),
        }
    }
}

/// `file:12: rejected: 3 fields instead of 4: a|b|c`
impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (outcome, text) = (self.outcome.name(), Bytes::from(self.text));
        write!(f, "{}:{}: {outcome}: {}: {text}", self.file, self.at, self.reason)
    }
}

/// Why a whole file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{file}: {error}")]
    Io { file: String, error: io::Error },
    #[error("{file}: no field is called `{name}`; there are {known}")]
    UnknownField { file: String, name: String, known: String },
    #[error("{file}: neither JobID nor JobIDRaw is among the fields")]
    NoIdField { file: String },
    #[error("{file}: no header: use --fields, --xdmod or --delimiter")]
    NoHeader { file: String },
    #[error(
        "{file}: its columns have a fixed width, in which sacct cuts values off: import what sacct -P prints"
    )]
    FixedWidth { file: String },
    #[error("{file}: it is empty")]
    Empty { file: String },
    #[error("{file}: a delimiter must not be empty or a line break")]
    Delimiter { file: String },
    #[error("{file}: {error}")]
    Json { file: String, error: serde_json::Error },
    #[error("{file}: no `jobs` in it")]
    NoJobs { file: String },
    #[error(
        "{file}: this is from the controller (squeue --json, scontrol show job --json), not from the accounting: import what \
         sacct --json or sacct -P prints"
    )]
    Controller { file: String },
    #[error("{file}: this lists {list}, and no jobs: import what sacct --json prints")]
    OtherList { file: String, list: &'static str },
}

/// Everything in memory: for tests, and for files that are known to be small.
#[derive(Debug, Default)]
pub struct Collected {
    pub jobs: Vec<Accounting>,
    pub problems: Vec<(At, Outcome, Reason)>,
}

impl Sink for Collected {
    fn job(&mut self, job: Accounting) -> io::Result<()> {
        self.jobs.push(job);
        Ok(())
    }

    fn problem(&mut self, problem: Problem<'_>) {
        self.problems.push((problem.at, problem.outcome, problem.reason));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_where_what_and_why() {
        let reason = Reason::FieldCount { found: 3, expected: 4 };
        let problem =
            Problem { file: "log", at: At::Line(12), text: b"a|\xff|c", outcome: Outcome::Rejected, reason };
        assert_eq!(problem.to_string(), "log:12: rejected: 3 fields instead of 4: a|\\xff|c");
        assert_eq!(quoted(&[b'x'; 1000]).len(), QUOTED);
    }
}
