//! What the values of a job's nodes in its time say of the job, and whether other jobs were on these nodes then: values of a shared node
//! are not the job's.

use std::collections::{BTreeMap, BTreeSet};

use digest::Characteristic;
use digest::series::Span;
use duckdb::types::Value as Sql;
use duckdb::{Connection, Row, ToSql};
use record::measure::scope_of;
use serde_json::{Value, json};

use super::due::DueMeasures;
use crate::query::{Reader, Snapshot};
use crate::write::Writer;
use crate::{StoreError, tags};

/// A node, or a part of one, with its values.
type Values = BTreeMap<(String, Option<String>), Vec<Span>>;

/// A metric under its name; whether it is ours.
type Metric = (String, bool);

/// What is known of jobs, by job and metric.
#[derive(Debug, Default)]
pub struct Bound {
    jobs: Vec<OfJob>,
}

#[derive(Debug)]
pub(crate) struct OfJob {
    id: u64,
    end_ns: Option<i64>,
    /// Jobs that were on one of its nodes at the same time.
    neighbors: Vec<u64>,
    pub(crate) metrics: BTreeMap<Metric, OfMetric>,
}

/// The values of a metric on all nodes of a job.
#[derive(Debug, Default)]
pub(crate) struct OfMetric {
    pub(crate) unit: Option<String>,
    pub(crate) values: Values,
}

impl OfMetric {
    /// Values by scope; the GPUs of a node are of none, like the node itself.
    fn scopes(&self, is_ours: bool) -> BTreeMap<Option<&str>, OfScope<'_>> {
        let mut scopes: BTreeMap<Option<&str>, OfScope> = BTreeMap::new();
        for ((host, part), spans) in &self.values {
            let scope = part.as_deref().filter(|_| !is_ours).and_then(scope_of);
            scopes.entry(scope).or_default().0.push((host, spans));
        }
        scopes
    }

    /// The values that count as the job's: those of whole nodes. What those of their parts mean for a node is for whoever brings them to say.
    fn counting(&self, is_ours: bool) -> OfScope<'_> {
        self.scopes(is_ours).remove(&None).unwrap_or_default()
    }

    /// For people and programs, scope by scope; whether it counts as the job's.
    pub(crate) fn json(&self, (metric, is_ours): &Metric) -> Vec<(bool, Value)> {
        let one = |(scope, of): (Option<&str>, OfScope)| {
            let mut value = of.characteristic().map_or_else(|| json!({}), |known| json!(known));
            value["metric"] = json!(metric);
            value["is_ours"] = json!(is_ours);
            value["scope"] = json!(scope);
            value["unit"] = json!(self.unit);
            value["nodes"] = json!(of.nodes());
            value["readings"] = json!(of.readings());
            value["from"] = json!("values");
            (scope.is_none(), value)
        };
        self.scopes(*is_ours).into_iter().map(one).collect()
    }
}

/// The values of a metric in one scope, by node and part.
#[derive(Default)]
struct OfScope<'a>(Vec<(&'a str, &'a Vec<Span>)>);

impl OfScope<'_> {
    fn characteristic(&self) -> Option<Characteristic> {
        Characteristic::of(&self.0.iter().map(|(_, spans)| (*spans).clone()).collect::<Vec<_>>())
    }

    fn readings(&self) -> usize {
        self.0.iter().map(|(_, spans)| spans.len()).sum()
    }

    fn nodes(&self) -> usize {
        let mut hosts: Vec<&str> = self.0.iter().map(|(host, _)| *host).collect();
        hosts.dedup();
        hosts.len()
    }
}

impl Reader {
    /// What the values say of jobs that are due.
    pub fn bind(&self, due: &DueMeasures) -> Result<Bound, StoreError> {
        self.ask(|snapshot| {
            let mut jobs = snapshot.bind(&due.ids, None)?;
            let mut neighbors = snapshot.neighbors(&due.ids)?;
            jobs.iter_mut().for_each(|job| job.neighbors = neighbors.remove(&job.id).unwrap_or_default());
            Ok(Bound { jobs })
        })
    }
}

impl Snapshot<'_> {
    /// The values of jobs, of all metrics or of one. A value is of the time before it: those of the job came after its start.
    pub(crate) fn bind(&self, ids: &[u64], metric: Option<&str>) -> Result<Vec<OfJob>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let list = ids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let range = format!(
            "SELECT min(start_ns), max(coalesce(end_ns, 9223372036854775807)) FROM accounting WHERE id IN ({list})"
        );
        let range =
            self.rows(&range, &[], |row| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?)))?;
        let (from, to) = range.first().map_or((None, None), |range| *range);
        let ends =
            self.rows(&format!("SELECT id, end_ns FROM accounting WHERE id IN ({list})"), &[], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let ends: BTreeMap<u64, Option<i64>> = ends.into_iter().collect();
        let only = if metric.is_some() { "AND m.metric = ?" } else { "" };
        let values: Vec<Sql> =
            metric.iter().flat_map(|name| [Sql::Text((*name).into()), Sql::Text((*name).into())]).collect();
        let columns = "m.metric, m.is_ours, m.unit, m.host, m.part, m.time_ns, m.every_ns, m.value";
        let sql = format!(
            "SELECT a.id, {columns} FROM (SELECT id, cluster, start_ns, end_ns, node_list FROM accounting WHERE id IN ({list})) a \
               JOIN node_list n ON n.list = a.node_list \
               JOIN (SELECT * FROM measure WHERE job IS NULL AND time_ns BETWEEN {} AND {}) m ON m.host = n.host \
               AND m.time_ns > a.start_ns AND (a.end_ns IS NULL OR m.time_ns <= a.end_ns) \
               AND (m.cluster IS NULL OR a.cluster IS NULL OR m.cluster = a.cluster) {only} \
             UNION ALL SELECT m.job, {columns} FROM measure m WHERE m.job IN ({list}) {only} \
             ORDER BY 1, 2, 5, 6, 7",
            from.unwrap_or(0),
            to.unwrap_or(i64::MAX),
        );
        let mut jobs: BTreeMap<u64, OfJob> = BTreeMap::new();
        self.rows(&sql, &values, |row| {
            let id = row.get(0)?;
            let of = || OfJob::new(id, ends.get(&id).copied().flatten());
            jobs.entry(id).or_insert_with(of).add(row)
        })?;
        for (id, end_ns) in ends {
            jobs.entry(id).or_insert_with(|| OfJob::new(id, end_ns));
        }
        Ok(jobs.into_values().collect())
    }

    /// The jobs that were on nodes of these at the same time; sessions do not count. The first condition on times leaves out most of a
    /// long history before anything is joined.
    fn neighbors(&self, ids: &[u64]) -> Result<BTreeMap<u64, Vec<u64>>, StoreError> {
        let mut neighbors: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        if ids.is_empty() {
            return Ok(neighbors);
        }
        let list = ids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        const LAST: i64 = i64::MAX;
        let sql = format!(
            "WITH own AS (SELECT id, cluster, node_list, start_ns, coalesce(end_ns, {LAST}) AS end_ns FROM accounting \
               WHERE id IN ({list}) AND start_ns IS NOT NULL), \
             other AS (SELECT id, cluster, node_list, start_ns, coalesce(end_ns, {LAST}) AS end_ns FROM accounting \
               WHERE kind = 0 AND start_ns < (SELECT max(end_ns) FROM own) \
               AND (end_ns > (SELECT min(start_ns) FROM own) OR end_ns IS NULL AND state = 'RUNNING')) \
             SELECT DISTINCT a.id, b.id FROM own a JOIN node_list l ON l.list = a.node_list JOIN node_list k ON k.host = l.host \
               JOIN other b ON b.node_list = k.list AND b.id <> a.id AND b.start_ns < a.end_ns AND b.end_ns > a.start_ns \
               AND b.cluster IS NOT DISTINCT FROM a.cluster"
        );
        self.rows(&sql, &[], |row| {
            neighbors.entry(row.get(0)?).or_default().push(row.get(1)?);
            Ok(())
        })?;
        Ok(neighbors)
    }
}

impl OfJob {
    fn new(id: u64, end_ns: Option<i64>) -> OfJob {
        OfJob { id, end_ns, neighbors: Vec::new(), metrics: BTreeMap::new() }
    }

    /// In the order of time. A value that comes late stands no longer than one that does not.
    fn add(&mut self, row: &Row) -> duckdb::Result<()> {
        let of = self.metrics.entry((row.get(1)?, row.get(2)?)).or_default();
        of.unit = row.get(3)?;
        let values = of.values.entry((row.get(4)?, row.get(5)?)).or_default();
        let (time, every): (i64, i64) = (row.get(6)?, row.get(7)?);
        let since =
            values.last().map_or(i64::MAX, |last| time.saturating_sub(last.from.saturating_add(last.length)));
        let length = every.min(since);
        // Told twice.
        if length > 0 {
            values.push(Span { from: time.saturating_sub(length), length, value: row.get(8)? });
        }
        Ok(())
    }
}

impl Writer {
    /// The next jobs that are to be bound to values.
    pub fn due_measures(&mut self, now_ns: i64) -> DueMeasures {
        self.measured.take(now_ns)
    }

    /// Replaces what was computed of jobs.
    pub fn keep_bound(&mut self, bound: &Bound, now_ns: i64) -> Result<(), StoreError> {
        let ids: Vec<String> = bound.jobs.iter().map(|job| job.id.to_string()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let transaction = self.connection.transaction()?;
        let old = format!("DELETE FROM job_measure WHERE NOT is_told AND id IN ({})", ids.join(", "));
        transaction.execute_batch(&old)?;
        let mut table = transaction.appender("job_measure")?;
        for job in &bound.jobs {
            for (metric, of) in &job.metrics {
                let row = row(job, metric, of);
                let row: Vec<&dyn ToSql> = row.iter().map(|value| value as &dyn ToSql).collect();
                table.append_row(&row[..])?;
            }
        }
        table.flush()?;
        drop(table);
        tags::ids_due(&transaction, &ids)?;
        note_neighbors(&transaction, bound)?;
        transaction.commit()?;
        for job in &bound.jobs {
            self.measured.bound(job.id, job.end_ns, now_ns);
        }
        Ok(())
    }
}

/// A job that was alone so far is not when a job that ran beside it is reported later.
fn note_neighbors(connection: &Connection, bound: &Bound) -> Result<(), StoreError> {
    let ids: BTreeSet<u64> = bound.jobs.iter().flat_map(|job| &job.neighbors).copied().collect();
    if ids.is_empty() {
        return Ok(());
    }
    let ids = ids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let mut query = connection.prepare(&format!(
        "UPDATE job_measure SET is_shared = true WHERE is_shared = false AND id IN ({ids}) RETURNING id"
    ))?;
    let changed: BTreeSet<u64> = query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let changed: Vec<String> = changed.iter().map(u64::to_string).collect();
    if changed.is_empty() { Ok(()) } else { tags::ids_due(connection, &changed) }
}

fn row(job: &OfJob, (metric, is_ours): &Metric, of: &OfMetric) -> Vec<Sql> {
    let counting = of.counting(*is_ours);
    let known = counting.characteristic();
    let numbers =
        known.map_or([None; 6], |c| [c.min, c.max, c.avg, c.median, c.node_min, c.node_max].map(Some));
    let mut row = vec![
        Sql::UBigInt(job.id),
        Sql::Text(metric.clone()),
        Sql::Boolean(*is_ours),
        Sql::Boolean(false),
        of.unit.clone().map_or(Sql::Null, Sql::Text),
    ];
    row.extend(numbers.map(|number| number.map_or(Sql::Null, Sql::Double)));
    let is_shared = !job.neighbors.is_empty();
    row.extend([
        Sql::UInt(counting.nodes() as u32),
        Sql::UBigInt(counting.readings() as u64),
        Sql::Boolean(is_shared),
    ]);
    row
}
