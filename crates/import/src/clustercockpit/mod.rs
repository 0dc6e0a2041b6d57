//! ClusterCockpit: its archive of jobs and its database in, and an archive of our jobs out.
//!
//! * [`archive`]: the directory in which it keeps jobs that are over, with what was measured in them.
//! * `database`, with the feature `clustercockpit`: `job.db`, which has all jobs and their means, but no series.
//! * [`meta`] and [`data`]: the two files of a job, from bytes.
//! * [`scope`]: what of a metric counts as a node's, where parts of nodes were measured.
//! * [`write`]: a job in their form.
//!
//! Metrics keep their names. All of `meta.json` is kept as [`Other`]s besides, `clustercockpit.` and the key, so that a job that is
//! written again says the same, whatever its batch system said of it since.

use std::io;

use record::accounting::{Accounting, Other};
use record::measure::{Job, Measures};

use crate::sink::{Problem, Reason};

pub mod archive;
mod bounded;
pub mod data;
#[cfg(feature = "clustercockpit")]
pub mod database;
pub mod meta;
pub mod scope;
mod summary;
mod unit;
pub mod write;

/// Before the names of what is kept for the way back.
const PREFIX: &str = "clustercockpit.";

/// Where [`data`] keeps what its file says besides the values.
const LAYOUT: &str = "clustercockpit.data.json";

/// A job and what was measured in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    pub job: Accounting,
    pub measures: Measures,
}

/// Takes jobs and problems one at a time, so that no reader holds an archive in memory.
pub trait Takes {
    /// An error ends the reading.
    fn job(&mut self, known: Known) -> io::Result<()>;
    /// A cluster and its `cluster.json` as it is, before its jobs.
    fn cluster(&mut self, _name: &str, _text: &str) -> io::Result<()> {
        Ok(())
    }
    fn problem(&mut self, problem: Problem<'_>);
}

/// Everything in memory: for tests, and for archives that are known to be small.
#[derive(Debug, Default)]
pub struct Collected {
    pub jobs: Vec<Known>,
    /// Clusters with their descriptions.
    pub clusters: Vec<(String, String)>,
    /// As they are shown to people.
    pub problems: Vec<String>,
    pub reasons: Vec<Reason>,
}

impl Takes for Collected {
    fn job(&mut self, known: Known) -> io::Result<()> {
        self.jobs.push(known);
        Ok(())
    }

    fn cluster(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.clusters.push((name.to_owned(), text.to_owned()));
        Ok(())
    }

    fn problem(&mut self, problem: Problem<'_>) {
        self.problems.push(problem.to_string());
        self.reasons.push(problem.reason);
    }
}

/// Why an archive or a database cannot be read, or a job not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{file}: {error}")]
    Io { file: String, error: io::Error },
    #[error("{file}: there is no version.txt, so this is no archive of jobs")]
    NoVersion { file: String },
    #[error("{file}: version `{text}` of the archive is not understood; 1, 2 and 3 are")]
    Version { file: String, text: String },
    #[error(
        "{file}: archives in Parquet are not read: convert it to files with ClusterCockpit's archive-manager"
    )]
    Parquet { file: String },
    #[cfg(feature = "clustercockpit")]
    #[error(
        "{file}: archives in SQLite are not read: convert it to files with ClusterCockpit's archive-manager"
    )]
    SqliteArchive { file: String },
    #[cfg(feature = "clustercockpit")]
    #[error("{file}: {error}")]
    Database { file: String, error: rusqlite::Error },
    #[error("{file}: there is no table `job` in it")]
    NoTable { file: String },
    #[error("{file}: the table `job` has no column `{column}`")]
    NoColumn { file: String, column: &'static str },
    #[error("{file}: it has changes in {file}-wal; stop the server, or read a copy made with `.backup`")]
    Unsettled { file: String },
    #[error("job {job} has no number that ClusterCockpit could file it under")]
    NoNumber { job: String },
    #[error("job {job} has no start, and ClusterCockpit files jobs by it")]
    NoStart { job: String },
    #[error("job {job}: `{cluster}` cannot be the name of a directory")]
    Cluster { job: String, cluster: String },
    #[error("{file}: there is another record of this job")]
    Exists { file: String },
}

impl Error {
    fn io(file: &std::path::Path) -> impl Fn(io::Error) -> Error {
        let file = file.display().to_string();
        move |error| Error::Io { file: file.clone(), error }
    }
}

/// A job as its records are found again.
fn reference(job: &Accounting) -> Job {
    let number = job.job.clone().unwrap_or_else(|| job.shown.clone());
    let start = job.start.filter(|_| job.submit.is_none());
    Job { cluster: job.cluster.clone(), number, submit: job.submit, start }
}

/// What was kept under a name.
fn kept(others: &[Other], name: &str) -> Option<serde_json::Value> {
    let other = others.iter().find(|other| other.name == name)?;
    serde_json::from_str(&other.value).ok()
}
