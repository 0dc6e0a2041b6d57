//! Jobs that are to be judged: those that were just told, and those of which something else is known than when they were judged.

use duckdb::{Connection, params_from_iter};

use super::judge::{Jobs, judge};
use crate::StoreError;
use crate::write::Writer;

/// The table of jobs that are due.
pub(crate) const DUE: &str = "tag_due";

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// Jobs of which something was decided.
    pub jobs: u64,
    /// Nothing is left to do.
    pub is_last: bool,
}

/// Jobs of which something else is known, by the numbers that were measured from a time on.
pub(crate) fn named_due(connection: &Connection, names: &[&str], since_ns: i64) -> Result<(), StoreError> {
    if names.is_empty() {
        return Ok(());
    }
    let sql = format!(
        "INSERT INTO tag_due SELECT id, submit_ns FROM accounting WHERE (end_ns >= {since_ns} OR end_ns IS NULL) AND job IN ({})",
        vec!["?"; names.len()].join(", ")
    );
    connection.execute(&sql, params_from_iter(names))?;
    Ok(())
}

/// The same, by ids.
pub(crate) fn ids_due(connection: &Connection, ids: &[String]) -> Result<(), StoreError> {
    let ids = ids.join(", ");
    connection.execute_batch(&format!(
        "INSERT INTO tag_due SELECT id, submit_ns FROM accounting WHERE id IN ({ids})"
    ))?;
    Ok(())
}

impl Writer {
    /// How many jobs are due, some of them more than once.
    pub fn count_due(&self) -> Result<u64, StoreError> {
        Ok(self.connection.query_row("SELECT count(*) FROM tag_due", [], |row| row.get(0))?)
    }

    /// Judges jobs that are due, so many at most.
    pub fn judge_due(&mut self, most: u64) -> Result<Judged, StoreError> {
        self.renew_stale_site()?;
        let declared = self.tags.get();
        self.connection.execute_batch(
            "CREATE TEMP TABLE IF NOT EXISTS judge_now (id UBIGINT, submit_ns BIGINT); DELETE FROM judge_now;",
        )?;
        let transaction = self.connection.transaction()?;
        let last: Option<i64> = transaction.query_row(
            &format!("SELECT max(rowid) FROM (SELECT rowid FROM tag_due ORDER BY rowid LIMIT {most})"),
            [],
            |row| row.get(0),
        )?;
        let Some(last) = last else { return Ok(Judged { jobs: 0, is_last: true }) };
        transaction.execute_batch(&format!(
            "INSERT INTO judge_now SELECT DISTINCT id, submit_ns FROM tag_due WHERE rowid <= {last}; \
             DELETE FROM tag_due WHERE rowid <= {last}"
        ))?;
        let jobs = judge(&transaction, &declared, &taken(&transaction)?, None)?;
        let left: u64 = transaction.query_row("SELECT count(*) FROM tag_due", [], |row| row.get(0))?;
        transaction.commit()?;
        Ok(Judged { jobs, is_last: left == 0 })
    }
}

/// The jobs in `judge_now`, which lie where jobs of their time do. Of some nobody knows when they were submitted.
fn taken(connection: &Connection) -> Result<Jobs, StoreError> {
    let sql = "SELECT min(submit_ns), max(submit_ns), count(*) = count(submit_ns) FROM judge_now";
    let (first, last, is_known): (Option<i64>, Option<i64>, bool) =
        connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let time = match (first.zip(last), is_known) {
        (Some((first, last)), true) => format!("c.submit_ns BETWEEN {first} AND {last}"),
        (Some((first, last)), false) => {
            format!("(c.submit_ns BETWEEN {first} AND {last} OR c.submit_ns IS NULL)")
        }
        (None, _) => "c.submit_ns IS NULL".to_owned(),
    };
    Ok(Jobs { condition: format!("{time} AND c.id IN (SELECT id FROM judge_now)") })
}
