//! Evaluates tag rules for jobs that are new or have new data, and goes on with a run over the whole collection: in pieces between the batches.
//!
//! While an importer is at work, it has the writer and the processors: what it brings is evaluated when it says that it is done, or brings
//! nothing for a moment. Of a long import parts are evaluated meanwhile, so that little is left at its end.

use std::time::{Duration, Instant};

use store::tags::PIECE;

use crate::committer::{Committer, NotStored};
use crate::rounds::Rounds;

/// How often is looked for jobs that are due.
const EVERY: Duration = Duration::from_secs(1);
/// The same while an importer is at work.
const LOOK: Duration = Duration::from_millis(200);
/// Between two pieces, while nobody else wants the writer.
const BETWEEN: Duration = Duration::from_millis(5);
/// An importer that has brought nothing for this time has none ready, or is gone.
const QUIET: Duration = Duration::from_millis(500);
/// So many jobs may wait until an import is done: they take about a second then. Large pieces take less time for each job.
const MANY: u64 = 3 * PIECE;
/// Jobs wait at most this long for an importer that does not end.
const LONGEST: Duration = Duration::from_secs(10);

pub fn start(committer: Committer) -> std::io::Result<Rounds> {
    let mut judging = Judging::new(QUIET);
    let own = committer.clone();
    let rounds = Rounds::start("judging", move || match judging.turn(&own) {
        Ok(wait) => Some(wait),
        Err(NotStored::Stopping) => None,
        Err(_) => Some(EVERY),
    })?;
    committer.wake_after_imports(rounds.thread());
    Ok(rounds)
}

/// What is known between turns.
struct Judging {
    /// After which an importer is taken to be gone.
    quiet: Duration,
    /// Whether the last turn left something to do.
    is_running: bool,
    /// When a piece was evaluated last.
    last: Instant,
}

impl Judging {
    fn new(quiet: Duration) -> Judging {
        Judging { quiet, is_running: false, last: Instant::now() }
    }

    /// Says how long to wait. Not on a disk that is nearly full: it can be done later.
    fn turn(&mut self, committer: &Committer) -> Result<Duration, NotStored> {
        committer.check_disk()?;
        let is_importing = committer.is_importing(self.quiet);
        if is_importing && self.last.elapsed() < LONGEST {
            match committer.perform(|writer| writer.count_due())? {
                Ok(due) if due < MANY => return Ok(LOOK),
                Ok(_) => {}
                Err(error) => tracing::error!(%error, "cannot count the jobs to evaluate"),
            }
        }
        let due = committer.perform(|writer| writer.judge_due(PIECE))?;
        let piece = committer.perform(|writer| writer.judge_piece(PIECE))?;
        self.last = Instant::now();
        let mut is_last = true;
        for judged in [due, piece] {
            match judged {
                Ok(judged) => is_last &= judged.is_last,
                Err(error) => tracing::error!(%error, "cannot judge jobs"),
            }
        }
        if is_importing {
            self.is_running = true;
            return Ok(LOOK);
        }
        // Rows that were changed are read faster from their table than from the log.
        if is_last
            && self.is_running
            && let Err(error) = committer.perform(|writer| writer.checkpoint())?
        {
            tracing::debug!(%error, "no checkpoint now");
        }
        self.is_running = !is_last;
        Ok(if is_last { EVERY } else { BETWEEN })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::accounting::Accounting;
    use std::sync::Arc;
    use store::{Accounts, Limits, Store};

    #[test]
    fn jobs_are_evaluated_when_the_importer_is_done_or_silent() {
        for (quiet, is_done, is_evaluated) in [
            (Duration::from_secs(3600), false, false),
            (Duration::from_secs(3600), true, true),
            (Duration::ZERO, false, true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(dir.path(), &Limits::default()).unwrap();
            let writer = store.writer().unwrap();
            let (committer, committing) = Committer::start(writer, dir.path(), 0, Arc::default()).unwrap();
            let job = Accounting { shown: "7".into(), start: Some(1), end: Some(2), ..Accounting::default() };
            let accounts = Accounts::of(&[job]).unwrap();
            committer.take(move |writer| writer.account(&accounts)).unwrap().unwrap();
            if is_done {
                committer.import_is_done();
            }
            Judging::new(quiet).turn(&committer).unwrap();
            let due = committer.perform(|writer| writer.count_due()).unwrap().unwrap();
            assert_eq!(due == 0, is_evaluated, "{quiet:?} {is_done}");
            drop(committer);
            committing.stop();
        }
    }
}
