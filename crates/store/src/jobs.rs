//! The characteristics of jobs, one wide row each: made when a job has ended on a node, and made anew when it ends on another or
//! when something comes late.

use std::collections::BTreeSet;

use duckdb::types::Value as Sql;
use duckdb::{ToSql, params};
use record::metric::{self, Kind, Of};
use record::reading::Reading;
use serde_json::{Map, Value};

use crate::query::resources::{Measured, is_cut};
use crate::query::{Filter, Reader};
use crate::write::Writer;
use crate::{StoreError, upkeep};

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
pub(crate) const CHARACTERISTICS: [&str; 6] = ["min", "max", "avg", "median", "node_min", "node_max"];

/// A counter's last value is its sum.
pub(crate) fn last_name(kind: Kind) -> &'static str {
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
        let rows = self.made(&due, now_ns)?;
        let transaction = self.connection.transaction()?;
        for (key, _) in &rows {
            let old = "DELETE FROM job WHERE cluster IS NOT DISTINCT FROM ? AND job IS NOT DISTINCT FROM ? \
                       AND session IS NOT DISTINCT FROM ?";
            transaction.execute(old, params![key.cluster, key.job, key.session])?;
        }
        let mut table = transaction.appender("job")?;
        for (key, resources) in &rows {
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

    /// The rows of jobs, as far as they are better than those that are there.
    fn made<'k>(&self, due: &'k [JobKey], now_ns: i64) -> Result<Vec<(&'k JobKey, Value)>, StoreError> {
        let reader = Reader::new(self.connection.try_clone()?);
        let deleted = upkeep::load_deleted(&self.connection)?;
        let mut rows = Vec::with_capacity(due.len());
        for key in due {
            let name = key.job.clone().or(key.session.clone());
            let filter = Filter { cluster: key.cluster.clone(), job: name, ..Filter::default() };
            let measured = reader.measured(&filter, now_ns)?;
            let old = reader.row_of(key)?;
            rows.extend(better(old.as_ref(), measured, deleted).map(|value| (key, value)));
        }
        Ok(rows)
    }
}

/// What is to stand in the row of a job; `None` if what stands there stays, because it was made of more than is left of the
/// readings.
///
/// A row that was made of all readings is not made anew of what was put together, unless something new has come; then it keeps the
/// least and greatest of before, which rates no longer show. Once some of the readings may be deleted it stays for ever.
fn better(old: Option<&Map<String, Value>>, measured: Measured, deleted: Option<i64>) -> Option<Value> {
    let Measured { mut value, is_coarse } = measured;
    if value.is_null() {
        return None;
    }
    let Some(old) = old else { return Some(value) };
    let of_old = |name: &str| old.get(name).and_then(Value::as_f64);
    let is_more = value["readings"].as_f64() > of_old("readings");
    if is_cut(of_old("start_ns"), deleted) || is_coarse && !is_more {
        return None;
    }
    if is_coarse {
        keep_extremes(old, &mut value);
    }
    Some(value)
}

fn keep_extremes(old: &Map<String, Value>, value: &mut Value) {
    type Choose = fn(f64, f64) -> f64;
    let choices: [(&str, Choose); 2] = [("min", f64::min), ("max", f64::max)];
    for metric in metric::of(Of::Job) {
        for (name, choose) in choices {
            let before = old.get(&format!("{}_{name}", metric.name)).and_then(Value::as_f64);
            // What was never read has none.
            if let Some((before, now)) = before.zip(value["metrics"][metric.name][name].as_f64()) {
                value["metrics"][metric.name][name] = choose(before, now).into();
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A job's row or what its readings say: how many, the beginning, and the least and greatest of the CPU.
    fn row(readings: u64, start: i64, min: f64, max: f64) -> Map<String, Value> {
        let row =
            json!({"readings": readings as f64, "start_ns": start as f64, "cpu_min": min, "cpu_max": max});
        row.as_object().cloned().unwrap()
    }

    #[test]
    fn a_good_row_is_not_replaced_by_a_worse_one() {
        let measured = |readings: u64, is_coarse| Measured {
            value: json!({"readings": readings, "metrics": {"cpu": {"min": 2.0, "max": 3.0}}}),
            is_coarse,
        };
        let old = row(10, 100, 1.0, 4.0);
        let never = Measured { value: Value::Null, is_coarse: false };
        for (about, old, measured, deleted, expected) in [
            ("the first one", None, measured(1, true), Some(500), Some((2.0, 3.0))),
            ("readings that are all there", Some(&old), measured(11, false), None, Some((2.0, 3.0))),
            (
                "less was only ever deleted before it",
                Some(&old),
                measured(11, false),
                Some(100),
                Some((2.0, 3.0)),
            ),
            ("some may be deleted", Some(&old), measured(99, false), Some(101), None),
            ("coarse, and nothing new", Some(&old), measured(10, true), None, None),
            ("coarse, with something new", Some(&old), measured(11, true), None, Some((1.0, 4.0))),
            ("coarse, and some may be deleted", Some(&old), measured(11, true), Some(101), None),
            ("nothing is left", Some(&old), never, None, None),
        ] {
            let found = better(old, measured, deleted);
            let found = found.map(|value| {
                let of = |name: &str| value["metrics"]["cpu"][name].as_f64().unwrap();
                (of("min"), of("max"))
            });
            assert_eq!(found, expected, "{about}");
        }
    }
}
