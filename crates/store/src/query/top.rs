//! The batch jobs that run now, by their last readings.

mod called;

use std::collections::BTreeMap;

use duckdb::Row;
use duckdb::types::Value as Sql;
use serde_json::{Map, Value, json};

use super::{Rows, Snapshot, object, time};
use crate::StoreError;
use called::Called;

/// Only readings that are younger than this are looked at: a job that was not read for so long is not shown.
const RECENT_NS: i64 = 900_000_000_000;
/// A job whose reading was due so many intervals ago is not read any more: one may be late, or on its way.
const LATE: i64 = 2;
/// And a node may be so much behind, with its clock or with sending.
const SLACK_NS: i64 = 15_000_000_000;

/// Counters of which the rate is shown.
const RATES: [&str; 3] = ["cpu", "read_bytes", "write_bytes"];

/// The last readings of each job on each node. Those of before its cluster was known belong to the only one there is. Not every reading has every value, where somebody asked for some sensors more often
/// than for the others: each value comes from the last reading that has it, each rate from the last two.
fn sql() -> String {
    let rates: Vec<String> = RATES
        .iter()
        .map(|name| {
            format!(
                "arg_max({name}, time_ns, 2) FILTER (WHERE {name} IS NOT NULL) AS {name}_values, \
                 max(time_ns, 2) FILTER (WHERE {name} IS NOT NULL) AS {name}_times"
            )
        })
        .collect();
    let pairs: Vec<String> = RATES
        .iter()
        .map(|name| format!("{name}_values[1], {name}_values[2], {name}_times[1], {name}_times[2]"))
        .collect();
    format!(
        "WITH recent AS (SELECT * FROM job_sample WHERE time_ns >= ? AND job IS NOT NULL),
        known AS (SELECT job, min(cluster) AS its_cluster FROM recent GROUP BY job HAVING min(cluster) = max(cluster))
        SELECT name, job, account, host, node, time_ns, every_ns, start_ns, cpus, reserved, gpus, memory, gpu, {} FROM (
            SELECT coalesce(cluster, its_cluster) AS name, job, host, node, max(time_ns) AS time_ns, arg_max(every_ns, time_ns) AS every_ns,
                coalesce(any_value(\"user\"), CAST(any_value(uid) AS VARCHAR)) AS account, min(start_ns) AS start_ns,
                arg_max(reserved_cpus, time_ns) AS cpus, arg_max(reserved_memory, time_ns) AS reserved,
                arg_max(reserved_gpus, time_ns) AS gpus, arg_max(memory, time_ns) AS memory, arg_max(gpu, time_ns) AS gpu, {}
            FROM recent LEFT JOIN known USING (job) GROUP BY name, job, host, node
            HAVING arg_max(end_ns IS NULL, time_ns))
        ORDER BY name, job, host, node",
        pairs.join(", "),
        rates.join(", ")
    )
}

/// A job on one node.
#[derive(Debug, Clone, Default)]
struct Part {
    host: String,
    node: Option<String>,
    user: Option<String>,
    time_ns: i64,
    every_ns: i64,
    start_ns: i64,
    cpus: Option<i64>,
    reserved: Option<i64>,
    gpus: Option<i64>,
    memory: Option<i64>,
    gpu: Option<i64>,
    /// Of each of [`RATES`], per second.
    rates: [Option<f64>; RATES.len()],
}

impl Part {
    fn read(row: &Row) -> duckdb::Result<Part> {
        let mut part = Part {
            user: row.get(2)?,
            host: row.get(3)?,
            node: row.get(4)?,
            time_ns: row.get(5)?,
            every_ns: row.get(6)?,
            start_ns: row.get(7)?,
            cpus: row.get(8)?,
            reserved: row.get(9)?,
            gpus: row.get(10)?,
            memory: row.get(11)?,
            gpu: row.get(12)?,
            rates: [None; RATES.len()],
        };
        for (at, rate) in part.rates.iter_mut().enumerate() {
            let first = 13 + 4 * at;
            let number = |at: usize| row.get::<_, Option<i64>>(first + at);
            *rate = per_second([number(0)?, number(1)?, number(2)?, number(3)?], part.start_ns);
        }
        Ok(part)
    }

    fn is_late(&self, now_ns: i64) -> bool {
        let stands = self.every_ns.saturating_mul(LATE).saturating_add(SLACK_NS);
        self.time_ns.saturating_add(stands) < now_ns
    }
}

/// How fast a counter grew: its last two values and their times. One value alone has grown since the job began, where it began
/// at zero; one that has fallen lost its past.
fn per_second([value, before, to, from]: [Option<i64>; 4], start_ns: i64) -> Option<f64> {
    let grown = value?.checked_sub(before.unwrap_or(0)).filter(|grown| *grown >= 0)?;
    let span = to?.checked_sub(from.unwrap_or(start_ns)).filter(|span| *span > 0)?;
    Some(grown as f64 / span as f64 * 1e9)
}

impl Snapshot<'_> {
    /// The batch jobs that run, as far as they were read lately.
    pub(super) fn top(&self, now_ns: i64) -> Result<Rows, StoreError> {
        let since = now_ns.saturating_sub(RECENT_NS);
        let mut jobs: BTreeMap<(Option<String>, String), Vec<Part>> = BTreeMap::new();
        self.rows(&sql(), &[Sql::BigInt(since)], |row| {
            jobs.entry((row.get(0)?, row.get(1)?)).or_default().push(Part::read(row)?);
            Ok(())
        })?;
        let (records, commands) = (self.records_since(since)?, self.commands_since(since)?);
        let rows = jobs.iter().map(|((cluster, job), parts)| {
            let called = records.find(cluster.as_deref(), job, user(parts)).cloned().unwrap_or_default();
            let places = parts.iter().map(|part| (&*part.host, part.node.as_deref()));
            let program = commands.program(job, places);
            row(Job { cluster: cluster.as_deref(), job, called, program }, parts, now_ns)
        });
        Ok(rows.collect())
    }
}

/// A sum of which one part is unknown is unknown.
fn sum<T: std::ops::Add<Output = T>>(values: impl Iterator<Item = Option<T>>) -> Option<T> {
    values.reduce(|sum, value| Some(sum? + value?)).flatten()
}

fn user(parts: &[Part]) -> Option<&str> {
    parts.iter().find_map(|part| part.user.as_deref())
}

/// Which job it is, and what it runs.
struct Job<'a> {
    cluster: Option<&'a str>,
    job: &'a str,
    called: Called,
    program: Option<&'a str>,
}

fn row(job: Job, parts: &[Part], now_ns: i64) -> Map<String, Value> {
    let Job { cluster, job, called, program } = job;
    let start = parts.iter().map(|part| part.start_ns).min();
    // The oldest of the nodes' last readings: no number of the job is older.
    let read_at = parts.iter().map(|part| part.time_ns).min();
    let since = |then: Option<i64>| then.map(|then| now_ns.saturating_sub(then).max(0) as f64 / 1e9);
    let rate = |at: usize| sum(parts.iter().map(|part| part.rates[at]));
    object([
        ("job", json!(job)),
        ("cluster", json!(cluster)),
        ("user", json!(user(parts))),
        ("name", json!(called.name)),
        ("partition", json!(called.partition)),
        ("program", json!(program)),
        ("nodes", json!(parts.len())),
        ("start", time(start)),
        ("elapsed_s", json!(since(start))),
        // Nanoseconds per second.
        ("cpu_used", json!(rate(0).map(|busy| busy / 1e9))),
        ("cpu_reserved", json!(sum(parts.iter().map(|part| part.cpus)))),
        ("memory_used", json!(sum(parts.iter().map(|part| part.memory)))),
        ("memory_reserved", json!(sum(parts.iter().map(|part| part.reserved)))),
        ("read", json!(rate(1))),
        ("written", json!(rate(2))),
        // Hundredths.
        ("gpu_used", json!(sum(parts.iter().map(|part| part.gpu)).map(|gpu| gpu as f64 / 100.0))),
        ("gpu_reserved", json!(sum(parts.iter().map(|part| part.gpus)))),
        ("read_at", time(read_at)),
        ("age_s", json!(since(read_at))),
        ("nodes_late", json!(parts.iter().filter(|part| part.is_late(now_ns)).count())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_counters() {
        const S: i64 = 1_000_000_000;
        for (numbers, expected) in [
            ([Some(30), Some(10), Some(20 * S), Some(10 * S)], Some(2.0)),
            // The job began ten seconds before its first reading.
            ([Some(30), None, Some(20 * S), None], Some(3.0)),
            ([Some(10), Some(30), Some(20 * S), Some(10 * S)], None),
            ([Some(10), Some(10), Some(20 * S), Some(20 * S)], None),
            ([None, None, None, None], None),
        ] {
            assert_eq!(per_second(numbers, 10 * S), expected, "{numbers:?}");
        }
    }

    #[test]
    fn what_one_node_does_not_know_is_unknown() {
        let known = Part { memory: Some(5), rates: [Some(1e9), None, Some(2.0)], ..Part::default() };
        let other = Part { memory: Some(6), rates: [Some(2e9), Some(1.0), Some(3.0)], ..Part::default() };
        let job = Job { cluster: None, job: "17", called: Called::default(), program: None };
        let row = row(job, &[known, other], 0);
        assert_eq!(
            (&row["name"], &row["partition"], &row["program"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
        assert_eq!(
            (&row["cpu_used"], &row["memory_used"], &row["nodes"]),
            (&json!(3.0), &json!(11), &json!(2))
        );
        assert_eq!(
            (&row["read"], &row["written"], &row["gpu_used"]),
            (&Value::Null, &json!(5.0), &Value::Null)
        );
    }
}
