//! Programs that are reported while they run, and what becomes of their reports.
//!
//! A report is a row of `running` until the record of the program's end has come: the transaction that stores that deletes the report.
//! Entries come twice, late and in any order of batches, and the rows are those of all entries that have come, whatever their
//! order. In an agent's spool a report always stands before the end. So an end whose stream is whole up to it has seen its
//! report; only of others the name is remembered, so that a report that comes later is dropped.

use duckdb::{Connection, params};
use intake::Row;

use crate::StoreError;

/// How long a stream may be without some of its entries until a report among these is taken for one of a program that runs.
const REMEMBERED_NS: i64 = 7 * 86_400 * 1_000_000_000;

/// Ids from one text: there may be very many.
const IDS: &str = "(SELECT unnest(string_split(?, ','))::UBIGINT)";

/// What the batches of a transaction say of programs that are or were reported.
#[derive(Default)]
pub struct Reports {
    running: Vec<u64>,
    ended: Vec<u64>,
    /// Of those that have ended: their reports may come late.
    remembered: Vec<u64>,
}

/// Whether any program that has ended is remembered.
pub fn remembers_ended(connection: &Connection) -> Result<bool, StoreError> {
    Ok(connection.query_row("SELECT count(*) > 0 FROM running_ended", [], |row| row.get(0))?)
}

fn text(ids: &[u64]) -> String {
    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

impl Reports {
    pub fn note(&mut self, row: &Row) {
        self.running.extend(row.running.iter().map(|one| one.id));
        self.ended.extend(&row.ended);
    }

    /// Takes those of a batch; whether some of the entries before it are still missing.
    pub fn add(&mut self, batch: Reports, is_missing_some: bool) {
        if is_missing_some {
            self.remembered.extend(&batch.ended);
        }
        self.running.extend(batch.running);
        self.ended.extend(batch.ended);
    }

    pub fn is_remembered(&self) -> bool {
        !self.remembered.is_empty()
    }

    /// Leaves of all reports the last of each program that has not ended. All rows of the transaction are in the tables.
    pub fn settle(
        &self,
        connection: &Connection,
        remembers_ended: bool,
        now_ns: i64,
    ) -> Result<(), StoreError> {
        if self.is_remembered() {
            connection.execute("DELETE FROM running_ended WHERE until_ns < ?", params![now_ns])?;
            let sql = format!("INSERT INTO running_ended SELECT id, ? FROM {IDS} t(id)");
            let until = now_ns.saturating_add(REMEMBERED_NS);
            connection.execute(&sql, params![until, text(&self.remembered)])?;
        }
        if !self.ended.is_empty() {
            let sql = format!("DELETE FROM running WHERE key IN {IDS}");
            connection.execute(&sql, params![text(&self.ended)])?;
        }
        if self.running.is_empty() {
            return Ok(());
        }
        let running = text(&self.running);
        if remembers_ended || self.is_remembered() {
            let sql =
                format!("DELETE FROM running WHERE key IN {IDS} AND key IN (SELECT key FROM running_ended)");
            connection.execute(&sql, params![running])?;
        }
        // A program is reported again when more is known of it, or by the next agent.
        let sql = format!(
            "DELETE FROM running WHERE rowid IN (SELECT rowid FROM ( \
               SELECT rowid, row_number() OVER (PARTITION BY key ORDER BY stream DESC, number DESC, rowid DESC) AS place \
               FROM running WHERE key IN {IDS}) WHERE place > 1)"
        );
        connection.execute(&sql, params![running])?;
        Ok(())
    }
}
