//! Processes that have ended and those that run, as one table.
//!
//! A process without an end runs if its host is heard and its agent has said so itself: whatever was reported before a gap in what the
//! agent saw, or by a spool that is gone, may have ended unseen. Of such nobody knows: it is `unheard`.

use duckdb::types::Value as Sql;

use super::{Conditions, Filter, Snapshot};
use crate::StoreError;

/// Both tables with the columns of the first, for whoever asks only what was run.
pub(crate) const RUNS: &str =
    "(SELECT * FROM process UNION ALL SELECT * EXCLUDE (key, seen_ns) FROM running)";

/// After these, an agent reports again what runs; what was reported before does not count.
const REPORTED_AGAIN: &str = "'agent_stopped', 'agent_killed', 'switched_off', 'ends_lost'";

/// An agent reports its health every minute: whatever a site calls silent, one report may be late.
const SILENT_NS: i64 = 180_000_000_000;

/// Which processes are asked for, and where they are. What is read has the columns of `process`, and `state` and `until_ns`, the time
/// until which it is known to have run.
pub(super) struct Processes {
    pub conditions: Conditions,
    pub ended: String,
    pub running: String,
}

impl Processes {
    /// Both as one table; the conditions are not in it.
    pub fn all(&self) -> String {
        format!("(SELECT * FROM {} UNION ALL SELECT * FROM {})", self.ended, self.running)
    }
}

impl Snapshot<'_> {
    /// The processes that a filter is about.
    pub(super) fn which(&self, filter: &Filter) -> Result<Processes, StoreError> {
        let mut conditions = Conditions::from(&Filter { since_ns: None, ..filter.clone() });
        if let Some(since) = filter.since_ns {
            // The first says the same less exactly, but of one column only, so that old parts of the table are left out.
            let text = "(end_ns >= ? OR end_ns IS NULL) AND until_ns >= ?";
            conditions.add(text, [Sql::BigInt(since), Sql::BigInt(since)]);
        }
        if filter.is_running {
            conditions.add("state = 'running'", []);
        }
        let mut place = String::new();
        if let Some(job) = &filter.job {
            let (column, first, last) = self.find_processes(job)?;
            conditions.add(&format!("{column} = ?"), [Sql::Text(job.clone())]);
            // The numbers are our own.
            place = format!(" WHERE rowid BETWEEN {first} AND {last}");
        }
        let ended = format!(
            "(SELECT *, 'ended' AS state, coalesce(end_ns, start_ns) AS until_ns FROM process{place})"
        );
        Ok(Processes { conditions, ended, running: self.running() })
    }

    /// Where a job's processes lie that have ended, and which column has its name.
    pub(super) fn find_processes(&self, job: &str) -> Result<(&'static str, i64, i64), StoreError> {
        let (column, first, last) = self.find_job("process", job)?;
        if column == "job" && first <= last || self.has_running("job", job)? {
            return Ok(if column == "job" { (column, first, last) } else { ("job", 1, 0) });
        }
        Ok(if self.has_running("session", job)? && first > last {
            ("session", 1, 0)
        } else {
            (column, first, last)
        })
    }

    /// Whether a process is reported of a job, or a session.
    pub(super) fn has_running(&self, column: &str, name: &str) -> Result<bool, StoreError> {
        let sql = format!("SELECT 1 FROM running WHERE {column} = ? LIMIT 1");
        Ok(!self.rows(&sql, &[Sql::Text(name.to_owned())], |row| row.get::<_, i64>(0))?.is_empty())
    }

    /// The processes that were reported and have not ended. What agents say of themselves nobody sees; whether they are heard, everybody.
    fn running(&self) -> String {
        let now = crate::write::now_ns();
        let since = now.saturating_sub(self.site.unheard_ns.max(SILENT_NS));
        let main = format!("\"{}\".main", self.database);
        format!(
            "(SELECT r.* EXCLUDE (key, seen_ns), CASE WHEN h.stream IS NULL THEN 'unheard' ELSE 'running' END AS state, \
               CASE WHEN h.stream IS NULL THEN r.seen_ns ELSE {now} END AS until_ns \
             FROM running r LEFT JOIN ( \
               SELECT s.id AS stream, coalesce(max(g.number), 0) AS gap FROM {main}.stream s \
               LEFT JOIN {main}.gap g ON g.stream = s.id AND g.reason IN ({REPORTED_AGAIN}) \
               WHERE s.id IN (SELECT max(id) FROM {main}.stream GROUP BY host) \
                 AND s.id IN (SELECT stream FROM {main}.health WHERE time_ns >= {since}) \
               GROUP BY s.id) h ON h.stream = r.stream AND r.number > h.gap)"
        )
    }
}
