//! Makes the characteristics of jobs, those that run included, beside the batches: only to replace rows does it need the writer.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use store::{Reader, StoreError};

use crate::committer::{Committer, NotStored};
use crate::rounds::Rounds;

/// How often is looked for jobs whose rows are due.
const EVERY: Duration = Duration::from_secs(1);
/// How often is looked for jobs of values that came late.
const SEARCH_EVERY: Duration = Duration::from_secs(5);
/// A row that could not be made is tried again after this time.
const AFTER_ERROR_NS: i64 = 30_000_000_000;
/// Between two batches of rows: others want to ask as well.
const BETWEEN: Duration = Duration::from_millis(20);

pub fn start(reader: Reader, committer: Committer) -> std::io::Result<Rounds> {
    let mut searched = None;
    Rounds::start("summaries", move || match turn(&reader, &committer, &mut searched) {
        Ok(Ok(0)) => Some(EVERY),
        Ok(Ok(_)) => Some(BETWEEN),
        Ok(Err(error)) => {
            tracing::error!(%error, "cannot make the characteristics of jobs");
            Some(EVERY)
        }
        Err(NotStored::Stopping) => None,
        Err(_) => Some(EVERY),
    })
}

/// Makes the rows that are due, a bounded number of them; says how many. Not on a disk that is nearly full: they can be made later.
fn turn(
    reader: &Reader,
    committer: &Committer,
    searched: &mut Option<Instant>,
) -> Result<Result<usize, StoreError>, NotStored> {
    committer.check_disk()?;
    let now = i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX);
    if searched.is_none_or(|last| last.elapsed() >= SEARCH_EVERY) {
        *searched = Some(Instant::now());
        if let Err(error) = search(reader, committer, now)? {
            return Ok(Err(error));
        }
    }
    let bound = match bind(reader, committer, now)? {
        Ok(bound) => bound,
        Err(error) => return Ok(Err(error)),
    };
    let due = committer.perform(move |writer| writer.due(now))?;
    if due.is_empty() {
        return Ok(Ok(bound));
    }
    let (jobs, again) = (due.len(), now.saturating_add(AFTER_ERROR_NS));
    match reader.summarise(&due, now) {
        Ok(made) => Ok(committer.perform(move |writer| writer.keep_rows(due, &made, again))?.map(|()| jobs)),
        Err(error) => {
            committer.perform(move |writer| writer.give_back(due, again))?;
            Ok(Err(error))
        }
    }
}

/// Finds the jobs of values that came when nobody told of these jobs any more.
fn search(reader: &Reader, committer: &Committer, now: i64) -> Result<Result<(), StoreError>, NotStored> {
    let arrived = committer.perform(|writer| writer.arrived())?;
    match reader.late_jobs(&arrived) {
        Ok(jobs) => committer.perform(move |writer| writer.late(&jobs, now)),
        Err(error) => {
            committer.perform(move |writer| writer.not_searched(arrived))?;
            Ok(Err(error))
        }
    }
}

/// Binds jobs to what other systems measured on their nodes; says how many. What fails is tried again.
fn bind(reader: &Reader, committer: &Committer, now: i64) -> Result<Result<usize, StoreError>, NotStored> {
    let due = committer.perform(move |writer| writer.due_measures(now))?;
    if due.is_empty() {
        return Ok(Ok(0));
    }
    let jobs = due.len();
    let kept = match reader.bind(&due) {
        Ok(bound) => committer.perform(move |writer| writer.keep_bound(&bound, now))?,
        Err(error) => Err(error),
    };
    if kept.is_err() {
        let again = now.saturating_add(AFTER_ERROR_NS);
        committer.perform(move |writer| writer.give_back_measures(due, again))?;
    }
    Ok(kept.map(|()| jobs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use store::{Limits, Store};

    #[test]
    fn on_a_full_disk_no_row_is_written() {
        for (least_mb, is_full) in [(0, false), (u64::MAX, true)] {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(dir.path(), &Limits::default()).unwrap();
            let writer = store.writer().unwrap();
            let (committer, committing) =
                Committer::start(writer, dir.path(), least_mb, Arc::default()).unwrap();
            let done = turn(&store.reader().unwrap(), &committer, &mut None);
            assert_eq!(matches!(done, Err(NotStored::DiskFull { .. })), is_full, "{done:?}");
            drop(committer);
            committing.stop();
        }
    }
}
