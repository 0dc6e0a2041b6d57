//! Has jobs judged that were just told, or of which more is known now, and goes on with a run over the whole collection: in pieces between
//! the batches.

use std::time::{Duration, Instant};

use store::tags::PIECE;

use crate::committer::{Committer, NotStored};
use crate::rounds::Rounds;

/// How often is looked for jobs that are due.
const EVERY: Duration = Duration::from_secs(1);
/// Between two pieces, while nobody else wants the writer.
const BETWEEN: Duration = Duration::from_millis(5);
/// An importer that has brought something within this time is about to bring more. It has the writer for fifty times as long as this takes, and
/// what is due is taken a few jobs at a time, so that it hardly waits.
const RECENTLY: Duration = Duration::from_secs(1);
const SHARE: u32 = 50;
const FEW: u64 = 5_000;

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
    let (began, is_wanted) = (Instant::now(), committer.is_wanted(RECENTLY));
    let most = if is_wanted { FEW } else { PIECE };
    let due = committer.perform(move |writer| writer.judge_due(most))?;
    let piece = committer.perform(|writer| writer.judge_piece(PIECE))?;
    let mut is_last = true;
    for judged in [due, piece] {
        match judged {
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
    Ok(match (is_last, is_wanted) {
        (true, _) => EVERY,
        (false, true) => EVERY.max(SHARE * began.elapsed()),
        (false, false) => BETWEEN,
    })
}
