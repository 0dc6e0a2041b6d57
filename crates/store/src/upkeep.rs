//! What the work on tables of readings has in common: its steps, and what is remembered of it.
//!
//! Steps are small, because batches wait for them: a part of the hosts of one day. A host's place among all is a hash of its
//! name, which need not stay the same for ever: a step finds its hosts anew.

use duckdb::{Connection, params};

use crate::StoreError;
use crate::write::Writer;

/// The tables of readings.
pub(crate) const SAMPLES: [&str; 4] = ["job_sample", "command_sample", "node_sample", "card_sample"];
/// The tables of what was made coarse.
pub(crate) const COARSE: [&str; 4] = ["job_coarse", "command_coarse", "node_coarse", "card_coarse"];

pub(crate) const DAY_NS: i64 = 86_400_000_000_000;

/// Readings that a step may take while batches wait.
pub const ROWS: u64 = 100_000;

/// Places of hosts.
pub(crate) const PLACES: i64 = 1 << 16;

/// Series before this time are no longer whole: some of it was deleted.
const DELETED_BEFORE: &str = "deleted_before_ns";
/// The same of what other systems measured.
const MEASURES_DELETED_BEFORE: &str = "measures_deleted_before_ns";

/// What a step has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Readings that were looked after.
    pub rows: u64,
    /// Nothing is left to do.
    pub is_last: bool,
}

/// Hosts of a day that are taken together.
pub(crate) struct Hosts {
    pub first: i64,
    /// The first place that is not among them.
    pub end: i64,
}

impl Hosts {
    /// Their readings between two times.
    pub fn condition(&self, from_ns: i64, until_ns: i64) -> String {
        let Hosts { first, end } = self;
        format!(
            "time_ns >= {from_ns} AND time_ns < {until_ns} AND CAST(hash(host) >> 48 AS BIGINT) BETWEEN {first} AND {}",
            end - 1
        )
    }
}

impl Writer {
    /// The first day with readings between two times.
    pub(crate) fn first_day(&self, from_ns: i64, before_ns: i64) -> Result<Option<i64>, StoreError> {
        let mut first: Option<i64> = None;
        for table in SAMPLES {
            let sql = format!("SELECT min(time_ns) FROM {table} WHERE time_ns >= ? AND time_ns < ?");
            let found: Option<i64> =
                self.connection.query_row(&sql, params![from_ns, before_ns], |row| row.get(0))?;
            first = first.into_iter().chain(found).min();
        }
        Ok(first.map(|time| time.div_euclid(DAY_NS) * DAY_NS))
    }

    /// The hosts of a day from a place on whose readings are as many as a step may take; those that are left if there are
    /// less.
    pub(crate) fn next_hosts(&self, day: i64, from: i64, most: u64) -> Result<Hosts, StoreError> {
        let rest = Hosts { first: from, end: PLACES };
        let each = SAMPLES.map(|table| {
            let condition = rest.condition(day, day + DAY_NS);
            format!("SELECT hash(host) >> 48 AS place FROM {table} WHERE {condition}")
        });
        let sql = format!(
            "SELECT CAST(min(place) AS BIGINT) FROM ( \
               SELECT place, sum(count(*)) OVER (ORDER BY place) AS so_far, \
                 row_number() OVER (ORDER BY place) AS nth FROM ({}) GROUP BY place) \
             WHERE so_far > ? AND nth > 1",
            each.join(" UNION ALL ")
        );
        let end: Option<i64> = self.connection.query_row(&sql, params![most], |row| row.get(0))?;
        Ok(Hosts { first: from, end: end.unwrap_or(PLACES) })
    }
}

/// A number that is remembered.
pub(crate) fn load(connection: &Connection, name: &str) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT max(value) FROM upkeep WHERE name = ?";
    Ok(connection.query_row(sql, params![name], |row| row.get(0))?)
}

/// Remembers a number instead of the one before.
pub(crate) fn save(connection: &Connection, name: &str, value: i64) -> Result<(), StoreError> {
    clear(connection, name)?;
    connection.execute("INSERT INTO upkeep VALUES (?, ?)", params![name, value])?;
    Ok(())
}

/// Forgets a number.
pub(crate) fn clear(connection: &Connection, name: &str) -> Result<(), StoreError> {
    connection.execute("DELETE FROM upkeep WHERE name = ?", params![name])?;
    Ok(())
}

/// Before which time series are no longer whole.
pub(crate) fn load_deleted(connection: &Connection) -> Result<Option<i64>, StoreError> {
    load(connection, DELETED_BEFORE)
}

/// Before which time values of other systems are no longer whole.
pub(crate) fn load_measures_deleted(connection: &Connection) -> Result<Option<i64>, StoreError> {
    load(connection, MEASURES_DELETED_BEFORE)
}

/// Remembers that something of the series before a time was deleted.
pub(crate) fn deleted_before(connection: &Connection, time_ns: i64) -> Result<(), StoreError> {
    save_last(connection, DELETED_BEFORE, time_ns)
}

/// Remembers that values of other systems before a time were deleted.
pub(crate) fn measures_deleted_before(connection: &Connection, time_ns: i64) -> Result<(), StoreError> {
    save_last(connection, MEASURES_DELETED_BEFORE, time_ns)
}

fn save_last(connection: &Connection, name: &str, time_ns: i64) -> Result<(), StoreError> {
    let before = load(connection, name)?.unwrap_or(i64::MIN);
    save(connection, name, before.max(time_ns))
}
