//! Which jobs are to be bound to values that are there, and when.

use std::collections::{BTreeMap, BTreeSet};

use duckdb::Connection;

use super::late::Late;
use crate::{StoreError, upkeep};

/// Values of other systems come an interval late or two: a job is looked at again so long after its end, and a job that runs so
/// often.
const AGAIN_NS: i64 = 120_000_000_000;
/// A job of which late values have come is looked at so long afterwards: more of them are on their way.
const GATHER_NS: i64 = 3_000_000_000;
/// So many jobs are bound at a time.
const AT_ONCE: usize = 200;

/// When a job is due, and where it is in time: those that ended one after another are bound together, since that reads the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Due {
    at_ns: i64,
    end_ns: i64,
}

/// Jobs, by the time at which they are due.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    due: BTreeMap<u64, Due>,
    /// Those of them that are due because of late values.
    late: BTreeSet<u64>,
    /// The time of which there are values of nodes.
    from_ns: Option<i64>,
    to_ns: i64,
    /// Before it values were deleted: what was made of all of them is not made anew of the rest.
    whole_from_ns: i64,
}

/// Jobs that are to be bound now.
#[derive(Debug)]
pub struct DueMeasures {
    pub(super) ids: Vec<u64>,
}

impl DueMeasures {
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }
}

impl Pending {
    /// There is a value of a node.
    pub fn seen(&mut self, time_ns: i64) {
        self.from_ns = Some(self.from_ns.map_or(time_ns, |from| from.min(time_ns)));
        self.to_ns = self.to_ns.max(time_ns);
    }

    /// Jobs are due at once.
    pub fn now(&mut self, ids: Vec<u64>, now_ns: i64) {
        for id in ids {
            self.due.insert(id, Due { at_ns: now_ns, end_ns: i64::MAX });
        }
    }

    /// A job was told: it is due if there may be values of its time, at once and once more when late values have come. Values that
    /// begin later are searched for their jobs.
    pub fn told(&mut self, id: u64, start_ns: Option<i64>, end_ns: Option<i64>, now_ns: i64) {
        let (Some(from), Some(start)) = (self.from_ns, start_ns) else { return };
        let is_whole = start >= self.whole_from_ns;
        let may_have = end_ns.is_none_or(|end| end >= from) && start <= self.to_ns.saturating_add(AGAIN_NS);
        if is_whole && may_have {
            let new = Due { at_ns: now_ns, end_ns: end_ns.unwrap_or(i64::MAX) };
            let due = self.due.entry(id).or_insert(new);
            due.at_ns = due.at_ns.min(now_ns);
        }
    }

    /// Values have come of jobs that nobody may tell of again. Those that are due anyway stay so.
    pub fn late(&mut self, jobs: &[Late], now_ns: i64) {
        // Nothing is being bound now: of those that are not due any more nothing was found, since they were deleted.
        self.late.retain(|id| self.due.contains_key(id));
        for job in jobs.iter().filter(|job| job.start_ns >= self.whole_from_ns) {
            let end_ns = job.end_ns.unwrap_or(i64::MAX);
            self.due.entry(job.id).or_insert(Due { at_ns: now_ns.saturating_add(GATHER_NS), end_ns });
            self.late.insert(job.id);
        }
    }

    /// Whether all jobs of late values are bound.
    pub fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// Those that are due, as far as it can be known.
    pub fn known(&self) -> BTreeSet<u64> {
        self.due.keys().copied().collect()
    }

    /// Values before a time were deleted.
    pub fn deleted_before(&mut self, time_ns: i64) {
        self.whole_from_ns = self.whole_from_ns.max(time_ns);
    }

    /// The next ones: the first to end of those that are due.
    pub fn take(&mut self, now_ns: i64) -> DueMeasures {
        let due = self.due.iter().filter(|(_, due)| due.at_ns <= now_ns);
        let mut due: Vec<(i64, u64)> = due.map(|(id, due)| (due.end_ns, *id)).collect();
        if due.len() > AT_ONCE {
            due.select_nth_unstable(AT_ONCE);
            due.truncate(AT_ONCE);
        }
        let ids: Vec<u64> = due.into_iter().map(|(_, id)| id).collect();
        for id in &ids {
            self.due.remove(id);
        }
        DueMeasures { ids }
    }

    /// Jobs could not be bound, and are due again.
    pub fn give_back(&mut self, due: DueMeasures, again_ns: i64) {
        for id in due.ids {
            self.due.entry(id).or_insert(Due { at_ns: again_ns, end_ns: i64::MAX });
        }
    }

    /// A job was bound: one that runs, or has just ended, is due again.
    pub fn bound(&mut self, id: u64, end_ns: Option<i64>, now_ns: i64) {
        if !self.due.contains_key(&id) {
            self.late.remove(&id);
        }
        let last_look = end_ns.map_or(i64::MAX, |end| end.saturating_add(AGAIN_NS));
        if now_ns < last_look {
            let at_ns = now_ns.saturating_add(AGAIN_NS).min(last_look);
            self.due.entry(id).or_insert(Due { at_ns, end_ns: end_ns.unwrap_or(i64::MAX) });
        }
    }

    /// What is known when a store is opened: of which time there are values, and which jobs ran until just now.
    pub fn load(&mut self, connection: &Connection, now_ns: i64) -> Result<(), StoreError> {
        if let Some(before) = upkeep::load_measures_deleted(connection)? {
            self.deleted_before(before);
        }
        let sql = "SELECT min(time_ns), max(time_ns) FROM measure WHERE job IS NULL";
        let range = connection
            .query_row(sql, [], |row| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?)))?;
        let (Some(from), Some(to)) = range else { return Ok(()) };
        self.seen(from);
        self.seen(to);
        let sql = "SELECT id, start_ns, end_ns FROM accounting WHERE (end_ns IS NULL OR end_ns > ?) AND start_ns IS NOT NULL \
                   AND is_only_measured IS NOT TRUE";
        let mut query = connection.prepare(sql)?;
        let mut rows = query.query([now_ns.saturating_sub(2 * AGAIN_NS)])?;
        while let Some(row) = rows.next()? {
            self.told(row.get(0)?, row.get(1)?, row.get(2)?, now_ns);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn jobs_are_due_where_there_are_values_and_once_more_after_their_end() {
        let now = 1000 * SECOND;
        let mut pending = Pending::default();
        pending.told(1, Some(1), None, now);
        assert!(pending.take(now).is_empty(), "without values nothing is due");
        pending.seen(900 * SECOND);
        for (id, start, end, is_due) in [
            (1, Some(100), Some(800), false),
            (2, Some(100), Some(950), true),
            (3, Some(990), None, true),
            (4, None, None, false),
            (5, Some(5000), None, false),
        ] {
            pending.told(id, start.map(|at| at * SECOND), end.map(|at: i64| at * SECOND), now);
            assert_eq!(pending.take(now).ids.contains(&id), is_due, "{id}");
        }
        // It has ended long ago, just now, not yet.
        for (end, again) in [
            (Some(10 * SECOND), None),
            (Some(now - SECOND), Some(now - SECOND + AGAIN_NS)),
            (None, Some(now + AGAIN_NS)),
        ] {
            pending.bound(7, end, now);
            assert_eq!(pending.due.remove(&7).map(|due| due.at_ns), again, "{end:?}");
        }
    }

    #[test]
    fn jobs_of_late_values_are_due_when_more_have_come_in_the_order_of_their_ends() {
        let now = 1000 * SECOND;
        let mut pending = Pending::default();
        let late = |id: u64| Late { id, start_ns: 5, end_ns: Some(500 - id as i64) };
        let all: Vec<Late> = (0..=AT_ONCE as u64).map(late).collect();
        pending.late(&all, now);
        assert!(pending.take(now).is_empty() && pending.has_late());
        let mut first = pending.take(now + GATHER_NS).ids;
        first.sort_unstable();
        assert_eq!(first, (1..=AT_ONCE as u64).collect::<Vec<_>>(), "job 0 ended last");
        first.iter().for_each(|id| pending.bound(*id, Some(5), now));
        assert!(pending.has_late());
        // What could not be bound is due again.
        let last = pending.take(now + GATHER_NS);
        pending.give_back(last, now + 60 * SECOND);
        assert_eq!(pending.take(now + 60 * SECOND).ids, [0]);
        pending.bound(0, Some(5), now);
        assert!(!pending.has_late());
    }

    #[test]
    fn jobs_that_were_deleted_are_not_waited_for() {
        let mut pending = Pending::default();
        pending.late(&[Late { id: 1, start_ns: 5, end_ns: Some(9) }], 0);
        assert_eq!(pending.take(i64::MAX).len(), 1);
        // Nothing was found to bind.
        pending.late(&[], 0);
        assert!(!pending.has_late());
    }

    #[test]
    fn jobs_of_a_time_whose_values_were_deleted_are_not_bound_anew() {
        let mut pending = Pending::default();
        pending.seen(900);
        pending.deleted_before(500);
        for (start, is_due) in [(499, false), (500, true)] {
            pending.late(&[Late { id: 1, start_ns: start, end_ns: Some(800) }], 0);
            assert_eq!(!pending.take(i64::MAX).is_empty(), is_due, "{start}");
            pending.told(1, Some(start), Some(950), 0);
            assert_eq!(!pending.take(i64::MAX).is_empty(), is_due, "{start}");
        }
    }
}
