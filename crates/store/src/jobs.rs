//! The characteristics of jobs, one wide row each: made when a job has ended on a node, and made anew when it ends on another or
//! when something comes late.

use std::collections::BTreeSet;

use duckdb::types::Value as Sql;
use duckdb::{ToSql, params};
use record::metric::{self, Kind, Of};
use record::reading::Reading;
use serde_json::Value;

use crate::StoreError;
use crate::query::{Filter, Reader};
use crate::write::Writer;

/// A job or session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobKey {
    pub cluster: Option<String>,
    pub job: Option<String>,
    pub session: Option<String>,
}

/// The jobs that have ended according to a reading.
pub fn ended(reading: &Reading) -> impl Iterator<Item = JobKey> {
    reading.jobs.iter().filter(|job| job.end.is_some()).map(|job| JobKey {
        cluster: job.cluster.clone(),
        job: job.job.clone(),
        session: job.session.clone(),
    })
}

/// Jobs of the last week that have ended and have no row, or one that rests on less: a server may be killed before it has
/// made it. A node whose clock is ahead does not decide what the last week is.
const NOT_MADE: &str = "SELECT s.cluster, s.job, s.session FROM (
        SELECT cluster, job, session, count(*) AS readings FROM job_sample
        WHERE time_ns > least(?, (SELECT max(time_ns) FROM job_sample)) - 604800000000000
        GROUP BY cluster, job, session HAVING bool_or(end_ns IS NOT NULL)) s
    LEFT JOIN job j ON j.cluster IS NOT DISTINCT FROM s.cluster AND j.job IS NOT DISTINCT FROM s.job
        AND j.session IS NOT DISTINCT FROM s.session
    WHERE j.readings IS NULL OR j.readings < s.readings";

/// The characteristics of a metric that are kept.
const CHARACTERISTICS: [&str; 6] = ["min", "max", "avg", "median", "node_min", "node_max"];

/// A counter's last value is its sum.
fn last_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "total",
        Kind::Gauge => "last",
    }
}

/// The names of the columns of numbers, in the order of the table.
pub(crate) fn numbers() -> Vec<String> {
    let own = [
        "start_ns",
        "end_ns",
        "nodes",
        "reserved_cpus",
        "reserved_memory",
        "reserved_gpus",
        "readings",
        "coverage",
    ];
    let of_metric = |metric: &'static metric::Metric| {
        let names = CHARACTERISTICS.into_iter().chain([last_name(metric.kind)]);
        names.map(move |name| format!("{}_{name}", metric.name))
    };
    own.into_iter().map(str::to_owned).chain(metrics().flat_map(of_metric)).collect()
}

/// The metrics with characteristics, in the order of the columns.
pub(crate) fn metrics() -> impl Iterator<Item = &'static metric::Metric> {
    metric::of(Of::Job).chain(metric::of(Of::Node))
}

impl Writer {
    /// What a server that was killed has left to do.
    pub(crate) fn load_ended(&mut self) -> Result<(), StoreError> {
        let mut query = self.connection.prepare(NOT_MADE)?;
        let now = i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX);
        let mut rows = query.query([now])?;
        let mut ended = BTreeSet::new();
        while let Some(row) = rows.next()? {
            ended.insert(JobKey { cluster: row.get(0)?, job: row.get(1)?, session: row.get(2)? });
        }
        drop(rows);
        drop(query);
        self.ended = ended;
        Ok(())
    }

    /// Makes the rows of at most `max` jobs that have ended; says how many are left.
    pub fn summarise(&mut self, max: usize, now_ns: i64) -> Result<usize, StoreError> {
        let due: Vec<JobKey> = self.ended.iter().take(max).cloned().collect();
        if due.is_empty() {
            return Ok(0);
        }
        let reader = Reader::new(self.connection.try_clone()?);
        let mut rows = Vec::with_capacity(due.len());
        for key in &due {
            let filter = Filter {
                cluster: key.cluster.clone(),
                job: key.job.clone().or(key.session.clone()),
                ..Filter::default()
            };
            rows.push((key, reader.resources(&filter, now_ns)?));
        }
        drop(reader);
        let transaction = self.connection.transaction()?;
        for (key, _) in &rows {
            let old = "DELETE FROM job WHERE cluster IS NOT DISTINCT FROM ? AND job IS NOT DISTINCT FROM ? \
                       AND session IS NOT DISTINCT FROM ?";
            transaction.execute(old, params![key.cluster, key.job, key.session])?;
        }
        let mut table = transaction.appender("job")?;
        for (key, resources) in rows.iter().filter(|(_, resources)| !resources.is_null()) {
            let row = columns(key, resources, now_ns);
            let row: Vec<&dyn ToSql> = row.iter().map(|value| value as &dyn ToSql).collect();
            table.append_row(&row[..])?;
        }
        table.flush()?;
        drop(table);
        transaction.commit()?;
        self.ended.retain(|key| !due.contains(key));
        Ok(self.ended.len())
    }
}

/// The row of a job, in the order of the table's columns.
fn columns(key: &JobKey, resources: &Value, now_ns: i64) -> Vec<Sql> {
    let text = |text: &Option<String>| text.clone().map_or(Sql::Null, Sql::Text);
    let number = |value: &Value| value.as_i64().map_or(Sql::Null, Sql::BigInt);
    let double = |value: &Value| value.as_f64().map_or(Sql::Null, Sql::Double);
    let nodes = resources["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let user = nodes.iter().find_map(|node| node["user"].as_str()).map(str::to_owned);
    let reserved = &resources["reserved"];
    let mut row = vec![
        text(&key.cluster),
        text(&key.job),
        text(&key.session),
        text(&user),
        number(&resources["start_ns"]),
        number(&resources["end_ns"]),
        Sql::UInt(nodes.len() as u32),
        number(&reserved["cpus"]),
        number(&reserved["memory"]),
        number(&reserved["gpus"]),
        Sql::Boolean(resources["is_shared"] == Value::Bool(true)),
        Sql::UBigInt(resources["readings"].as_u64().unwrap_or(0)),
        double(&resources["coverage"]),
        Sql::BigInt(now_ns),
    ];
    for metric in metrics() {
        let of = &resources["metrics"][metric.name];
        row.extend(CHARACTERISTICS.map(|name| double(&of[name])));
        row.push(number(&of[last_name(metric.kind)]));
    }
    row
}
