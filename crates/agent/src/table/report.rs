//! What still runs, said once an image has run for a while: a program of six hours is known before it ends.
//!
//! An image is reported once, and again only if it has loaded more when it was looked at since, which happens twice at most
//! ([`super::LOOK_WITH_GUEST_NS`]). Its last record names it by the same key and says that it was reported.

use std::sync::Arc;

use record::entry::Used;

use super::{Draft, Finished, Live, Process, Surroundings, Table};
use crate::counters::Counters;
use crate::files::ListKey;

/// What was said of an image while it runs.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// It was looked at for its report.
    is_looked_at: bool,
    /// This agent has reported it, with these late objects.
    late: Option<Option<ListKey>>,
    /// This agent or an earlier one has reported it.
    pub is_told: bool,
}

impl Live {
    /// Whether there is something to say of it.
    fn is_due(&self, exec: u32, now: u64, after: u64) -> bool {
        if now.saturating_sub(self.start) < after {
            return false;
        }
        match self.report.late {
            None => true,
            // A forked copy shares what is known with its parent, and has loaded nothing itself.
            Some(late) => exec > 0 && late != self.late(),
        }
    }

    fn late(&self) -> Option<ListKey> {
        self.about.borrow().late.as_ref().map(|(_, key)| *key)
    }
}

impl Table {
    /// Images that have run for `after` and of which there is something to say; at most so many, the others the next time.
    pub fn report(&mut self, now: u64, after: u64, most: usize) -> Vec<Finished> {
        let is_due =
            |(pid, process): (&u32, &Process)| process.image.is_due(process.exec, now, after).then_some(*pid);
        let due: Vec<u32> = self.live.iter().filter_map(is_due).take(most).collect();
        if due.is_empty() {
            return Vec::new();
        }
        let around = self.uncounted();
        due.into_iter().filter_map(|pid| self.report_of(pid, now, &around)).collect()
    }

    fn report_of(&mut self, pid: u32, now: u64, around: &Surroundings) -> Option<Finished> {
        let process = self.live.get_mut(&pid)?;
        let was_looked_at = std::mem::replace(&mut process.image.report.is_looked_at, true);
        if !was_looked_at && process.exec > 0 {
            self.look_at_objects(pid);
        }
        let process = self.live.get_mut(&pid)?;
        let mut draft = Draft::new(pid, process, &process.image);
        if !was_looked_at && !draft.is_resolved(&around.files) {
            // Its files are being looked at: what is known the next time is said.
            return None;
        }
        self.cluster = self.cluster.take().or_else(|| draft.cluster());
        let finished = draft.finish(around, self.jobs_are_told, self.cluster.as_deref());
        let report = &mut process.image.report;
        report.late = Some(draft.about.borrow().late.as_ref().map(|(_, key)| *key));
        let mut finished = finished?;
        report.is_told = true;
        let image = &mut finished.image;
        image.running_at = Some(around.clock.wall(now));
        image.reported = false;
        // What it has used so far would be taken for what it has used.
        image.used = Used::default();
        Some(finished)
    }

    /// Whatever runs is to be reported again: what was reported before does not count any more.
    pub fn report_again(&mut self) {
        self.live.values_mut().for_each(|process| process.image.report.late = None);
    }

    /// The images that were reported and run, for when everything else is forgotten.
    pub fn reported(&self) -> Vec<Finished> {
        let mut running = self.snapshot();
        running.retain(|finished| finished.image.reported);
        running
    }

    /// An image that has not ended will be counted when it has.
    pub(super) fn uncounted(&self) -> Surroundings {
        Surroundings { counters: Arc::new(Counters::default()), ..self.around.clone() }
    }
}
