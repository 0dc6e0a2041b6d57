//! Which jobs are to be bound to values that are there, and when.

use std::collections::BTreeMap;

use duckdb::Connection;

use crate::StoreError;

/// Values of other systems come an interval late or two: a job is looked at again so long after its end, and a job that runs so
/// often.
const AGAIN_NS: i64 = 120_000_000_000;
/// So many jobs are bound at a time.
const AT_ONCE: usize = 200;

/// Jobs, by the time at which they are due.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    due: BTreeMap<u64, i64>,
    /// The time of which there are values of nodes.
    from_ns: Option<i64>,
    to_ns: i64,
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
            self.due.insert(id, now_ns);
        }
    }

    /// A job was told: it is due if there may be values of its time, at once and once more when late values have come.
    pub fn told(&mut self, id: u64, start_ns: Option<i64>, end_ns: Option<i64>, now_ns: i64) {
        let (Some(from), Some(start)) = (self.from_ns, start_ns) else { return };
        if end_ns.is_none_or(|end| end >= from) && start <= self.to_ns.saturating_add(AGAIN_NS) {
            self.due.entry(id).and_modify(|due| *due = (*due).min(now_ns)).or_insert(now_ns);
        }
    }

    /// The next ones.
    pub fn take(&mut self, now_ns: i64) -> DueMeasures {
        let ids: Vec<u64> =
            self.due.iter().filter(|(_, due)| **due <= now_ns).map(|(id, _)| *id).take(AT_ONCE).collect();
        for id in &ids {
            self.due.remove(id);
        }
        DueMeasures { ids }
    }

    /// A job was bound: one that runs, or has just ended, is due again.
    pub fn bound(&mut self, id: u64, end_ns: Option<i64>, now_ns: i64) {
        let last_look = end_ns.map_or(i64::MAX, |end| end.saturating_add(AGAIN_NS));
        if now_ns < last_look {
            self.due.entry(id).or_insert_with(|| now_ns.saturating_add(AGAIN_NS).min(last_look));
        }
    }

    /// What is known when a store is opened: of which time there are values, and which jobs ran until just now.
    pub fn load(&mut self, connection: &Connection, now_ns: i64) -> Result<(), StoreError> {
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

    #[test]
    fn jobs_are_due_where_there_are_values_and_once_more_after_their_end() {
        let second = 1_000_000_000;
        let now = 1000 * second;
        let mut pending = Pending::default();
        pending.told(1, Some(1), None, now);
        assert!(pending.take(now).is_empty(), "without values nothing is due");
        pending.seen(900 * second);
        for (id, start, end, is_due) in [
            (1, Some(100), Some(800), false),
            (2, Some(100), Some(950), true),
            (3, Some(990), None, true),
            (4, None, None, false),
            (5, Some(5000), None, false),
        ] {
            pending.told(id, start.map(|at| at * second), end.map(|at: i64| at * second), now);
            assert_eq!(pending.take(now).ids.contains(&id), is_due, "{id}");
        }
        // It has ended long ago, just now, not yet.
        for (end, again) in [
            (Some(10 * second), None),
            (Some(now - second), Some(now - second + AGAIN_NS)),
            (None, Some(now + AGAIN_NS)),
        ] {
            pending.bound(7, end, now);
            assert_eq!(pending.due.remove(&7), again, "{end:?}");
        }
    }
}
