//! Values of nodes that come when nobody tells of their jobs any more: which jobs had these nodes at the time.
//!
//! What has come is searched every few seconds, beside the writer. Until the jobs that were found are bound, the time of which the
//! values are is remembered in the store, so that a kill forgets none.

use std::collections::{BTreeMap, BTreeSet};

use duckdb::Connection;
use duckdb::types::Value as Sql;
use record::measure::Series;

use super::nanos;
use crate::query::Reader;
use crate::write::Writer;
use crate::{StoreError, upkeep};

/// The time of values of which not all jobs may be bound yet.
const LATE_FROM: &str = "late_values_from_ns";
const LATE_UNTIL: &str = "late_values_until_ns";
/// It is remembered in whole hours, so that values that come as they are measured change it once an hour.
const HOUR_NS: i64 = 3_600_000_000_000;
/// And is forgotten so often at most.
const SETTLE_NS: i64 = 600_000_000_000;

/// A node, and the first and last time of its values.
type Hosts = BTreeMap<String, (i64, i64)>;

/// What has come and was not searched yet.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    hosts: Hosts,
    /// As it is remembered in the store: from, and until.
    remembered: Option<(i64, i64)>,
    settled_ns: i64,
}

/// What has come, to be searched for its jobs.
#[derive(Debug)]
pub struct Arrived {
    hosts: Hosts,
    /// Jobs that are looked at anyway.
    due: BTreeSet<u64>,
}

/// A job of which values have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late {
    pub(super) id: u64,
    pub(super) start_ns: i64,
    pub(super) end_ns: Option<i64>,
}

impl Arriving {
    /// Remembers in the store of which time values come: in the transaction that keeps them.
    pub fn remember(&self, connection: &Connection, series: &[Series]) -> Result<Remembered, StoreError> {
        let times = || of_nodes(series).flat_map(|of| &of.points).map(|point| nanos(point.time));
        let (Some(first), Some(last)) = (times().min(), times().max()) else {
            return Ok(Remembered(self.remembered));
        };
        let hour = |time: i64| time.div_euclid(HOUR_NS) * HOUR_NS;
        let (from, until) = (hour(first), hour(last).saturating_add(HOUR_NS));
        let (known_from, known_until) = self.remembered.unwrap_or((i64::MAX, i64::MIN));
        let range = (from.min(known_from), until.max(known_until));
        if self.remembered != Some(range) {
            upkeep::save(connection, LATE_FROM, range.0)?;
            upkeep::save(connection, LATE_UNTIL, range.1)?;
        }
        Ok(Remembered(Some(range)))
    }

    /// The values are durable.
    pub fn come(&mut self, remembered: Remembered, series: &[Series]) {
        self.remembered = remembered.0;
        for of in of_nodes(series) {
            let times = || of.points.iter().map(|point| nanos(point.time));
            if let (Some(first), Some(last)) = (times().min(), times().max()) {
                add(&mut self.hosts, &of.host, (first, last));
            }
        }
    }

    /// What had come when the store was closed, and may not have been looked at.
    pub fn load(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let range = upkeep::load(connection, LATE_FROM)?.zip(upkeep::load(connection, LATE_UNTIL)?);
        let Some((from, until)) = range else { return Ok(()) };
        self.remembered = range;
        let sql = "SELECT host, min(time_ns), max(time_ns) FROM measure WHERE job IS NULL AND time_ns BETWEEN ? AND ? GROUP BY host";
        let mut query = connection.prepare(sql)?;
        let mut rows = query.query([from, until])?;
        while let Some(row) = rows.next()? {
            add(&mut self.hosts, &row.get::<_, String>(0)?, (row.get(1)?, row.get(2)?));
        }
        Ok(())
    }
}

/// What will be remembered when a transaction is committed.
pub(crate) struct Remembered(Option<(i64, i64)>);

fn of_nodes(series: &[Series]) -> impl Iterator<Item = &Series> {
    series.iter().filter(|series| series.job.is_none())
}

fn add(hosts: &mut Hosts, host: &str, (first, last): (i64, i64)) {
    match hosts.get_mut(host) {
        Some(known) => *known = (known.0.min(first), known.1.max(last)),
        None => drop(hosts.insert(host.to_owned(), (first, last))),
    }
}

impl Arrived {
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    fn range(&self) -> Option<(i64, i64)> {
        let first = self.hosts.values().map(|(first, _)| *first).min()?;
        Some((first, self.hosts.values().map(|(_, last)| *last).max()?))
    }
}

impl Writer {
    /// What has come since the last time.
    pub fn arrived(&mut self) -> Arrived {
        let hosts = std::mem::take(&mut self.arriving.hosts);
        let due = if hosts.is_empty() { BTreeSet::new() } else { self.measured.known() };
        Arrived { hosts, due }
    }

    /// It could not be searched.
    pub fn not_searched(&mut self, arrived: Arrived) {
        for (host, range) in arrived.hosts {
            add(&mut self.arriving.hosts, &host, range);
        }
    }

    /// Has jobs bound of which values have come, and forgets of which time these were when all of them are.
    pub fn late(&mut self, jobs: &[Late], now_ns: i64) -> Result<(), StoreError> {
        self.measured.late(jobs, now_ns);
        let is_open = self.measured.has_late() || !self.arriving.hosts.is_empty();
        let is_early = now_ns < self.arriving.settled_ns.saturating_add(SETTLE_NS);
        if is_open || is_early || self.arriving.remembered.is_none() {
            return Ok(());
        }
        let transaction = self.connection.transaction()?;
        upkeep::clear(&transaction, LATE_FROM)?;
        upkeep::clear(&transaction, LATE_UNTIL)?;
        transaction.commit()?;
        self.arriving.remembered = None;
        self.arriving.settled_ns = now_ns;
        Ok(())
    }

    /// Jobs that could not be bound are due again at a time.
    pub fn give_back_measures(&mut self, due: super::DueMeasures, again_ns: i64) {
        self.measured.give_back(due, again_ns);
    }
}

impl Reader {
    /// The jobs that had these nodes at the time, but for those that are looked at anyway.
    pub fn late_jobs(&self, arrived: &Arrived) -> Result<Vec<Late>, StoreError> {
        const OF_TIME: &str =
            "start_ns < ? AND (end_ns IS NULL OR end_ns >= ?) AND is_only_measured IS NOT TRUE";
        let Some((first, last)) = arrived.range() else { return Ok(Vec::new()) };
        self.ask(|snapshot| {
            let range = [Sql::BigInt(last), Sql::BigInt(first)];
            // While all is well these are the jobs that run, and all of them are due. Of values of a year there may be millions: one more than
            // are due is enough to know that some are not.
            let most = Sql::UBigInt(arrived.due.len() as u64 + 1);
            let there: Vec<u64> = snapshot.rows(
                &format!("SELECT id FROM accounting WHERE {OF_TIME} LIMIT ?"),
                &[range[0].clone(), range[1].clone(), most],
                |row| row.get(0),
            )?;
            if there.iter().all(|id| arrived.due.contains(id)) {
                return Ok(Vec::new());
            }
            let hosts = vec!["(?, ?, ?)"; arrived.hosts.len()].join(", ");
            let sql = format!(
                "SELECT DISTINCT a.id, a.start_ns, a.end_ns \
                 FROM (SELECT id, start_ns, end_ns, node_list FROM accounting WHERE {OF_TIME}) a \
                 JOIN node_list n ON n.list = a.node_list JOIN (VALUES {hosts}) AS v(host, first, last) ON v.host = n.host \
                 AND v.last > a.start_ns AND (a.end_ns IS NULL OR v.first <= a.end_ns)"
            );
            let own = arrived.hosts.iter().flat_map(|(host, (first, last))| {
                [Sql::Text(host.clone()), Sql::BigInt(*first), Sql::BigInt(*last)]
            });
            let values: Vec<Sql> = range.iter().cloned().chain(own).collect();
            let found = snapshot.rows(&sql, &values, |row| {
                Ok(Late { id: row.get(0)?, start_ns: row.get(1)?, end_ns: row.get(2)? })
            })?;
            Ok(found.into_iter().filter(|job| !arrived.due.contains(&job.id)).collect())
        })
    }
}
