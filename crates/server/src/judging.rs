//! Has jobs judged that were just told, or of which more is known now, and goes on with a run over the whole collection: in pieces between
//! the batches.

use std::time::{Duration, Instant};

use store::tags::{Judged, PIECE};
use store::{StoreError, Writer};

use crate::committer::{Committer, NotStored};
use crate::rounds::Rounds;

/// How often is looked for jobs that are due.
const EVERY: Duration = Duration::from_secs(1);
/// Between two pieces at least so much is left to batches.
const BETWEEN: Duration = Duration::from_millis(5);

/// Something that only the writer may do.
type Work = fn(&mut Writer) -> Result<Judged, StoreError>;

pub fn start(committer: Committer) -> std::io::Result<Rounds> {
    // Whether the last turn left something to do.
    let mut is_running = false;
    Rounds::start("judging", move || match turn(&committer, &mut is_running) {
        Ok(wait) => Some(wait),
        Err(NotStored::Stopping) => None,
        Err(_) => Some(EVERY),
    })
}

/// Says how long to wait. Not on a disk that is nearly full: it can be done later.
fn turn(committer: &Committer, is_running: &mut bool) -> Result<Duration, NotStored> {
    committer.check_disk()?;
    let began = Instant::now();
    let steps: [Work; 2] = [Writer::judge_due, |writer| writer.judge_piece(PIECE)];
    let mut is_last = true;
    for step in steps {
        match committer.perform(step)? {
            Ok(judged) => is_last &= judged.is_last,
            Err(error) => tracing::error!(%error, "cannot judge jobs"),
        }
    }
    // Rows that were changed are read faster from their table than from the log.
    if is_last
        && *is_running
        && let Err(error) = committer.perform(|writer| writer.checkpoint())?
    {
        tracing::debug!(%error, "no checkpoint now");
    }
    *is_running = !is_last;
    // As much time is left to others as this took, while somebody waits for them: `perform` stands in their line.
    Ok(if is_last { EVERY } else { BETWEEN.max(began.elapsed() / 10) })
}
