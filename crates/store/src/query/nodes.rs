//! How the nodes fare: their last readings.

use std::collections::BTreeMap;

use duckdb::types::Value as Sql;
use record::metric::{self, Of};
use serde_json::{Map, Value, json};

use super::{Nodes, Rows, Snapshot, object, time};
use crate::StoreError;

/// A node whose last reading is older than this is not shown.
const RECENT_NS: i64 = 86_400_000_000_000;

/// One reading of a node.
struct Reading {
    time_ns: i64,
    /// The boot, and the time since.
    steady: Option<(u64, i64)>,
    values: BTreeMap<&'static str, i64>,
}

impl Snapshot<'_> {
    /// The nodes with a reading of the last day: what they use, as the difference of their last two readings says. Between two
    /// whole readings there may be some of single sensors, at a rate that somebody asked for; they do not take their place.
    pub(super) fn nodes(&self, which: Option<&Nodes>, now_ns: i64) -> Result<Rows, StoreError> {
        let names: Vec<&'static str> = metric::of(Of::Node).map(|metric| metric.name).collect();
        let (fits, named) = which.map_or(("true".to_owned(), Vec::new()), |nodes| nodes.fits("host"));
        let sql = format!(
            "SELECT host, time_ns, boot, since_boot_ns, {} FROM node_sample WHERE time_ns >= ? \
             AND {fits} \
             QUALIFY row_number() OVER (PARTITION BY host, node_load IS NULL ORDER BY stream DESC, number DESC) <= 2 \
             ORDER BY host, stream, number",
            names.join(", ")
        );
        let since = Sql::BigInt(now_ns.saturating_sub(RECENT_NS));
        let values: Vec<Sql> = [since].into_iter().chain(named).collect();
        let mut nodes: BTreeMap<String, Vec<Reading>> = BTreeMap::new();
        self.rows(&sql, &values, |row| {
            let mut values = BTreeMap::new();
            for (at, name) in names.iter().enumerate() {
                if let Some(value) = row.get::<_, Option<i64>>(at + 4)? {
                    values.insert(*name, value);
                }
            }
            let steady = row.get::<_, Option<u64>>(2)?.zip(row.get(3)?);
            nodes.entry(row.get(0)?).or_default().push(Reading { time_ns: row.get(1)?, steady, values });
            Ok(())
        })?;
        let jobs = self.jobs_on_nodes(now_ns)?;
        let mut hardware = self.hardware()?;
        let none = Vec::new();
        let rows = nodes.iter().map(|(host, readings)| {
            let mut row = node(host, readings, jobs.get(host).unwrap_or(&none));
            row.insert("hardware".into(), hardware.remove(host).unwrap_or(Value::Null));
            row
        });
        Ok(rows.collect())
    }

    /// What each host last said it is made of.
    fn hardware(&self) -> Result<BTreeMap<String, Value>, StoreError> {
        let sql = "SELECT host, model, sockets, cores, threads, memory, numa, peak_flops, peak_rule, cards \
                   FROM node_hardware QUALIFY row_number() OVER (PARTITION BY host ORDER BY time_ns DESC) = 1";
        let rows = self.rows(sql, &[], |row| {
            let text = |at| row.get::<_, Option<String>>(at);
            let number = |at| row.get::<_, Option<u64>>(at);
            let made = json!({
                "model": text(1)?, "sockets": number(2)?, "cores": number(3)?, "threads": number(4)?,
                "memory": number(5)?, "numa": number(6)?, "peak_flops": number(7)?, "peak_rule": text(8)?,
                "cards": text(9)?,
            });
            Ok((row.get(0)?, made))
        })?;
        Ok(rows.into_iter().collect())
    }

    /// The batch jobs in the last reading of each host that had any.
    fn jobs_on_nodes(&self, now_ns: i64) -> Result<BTreeMap<String, Vec<String>>, StoreError> {
        let sql = "SELECT host, job FROM job_sample WHERE time_ns >= ? AND job IS NOT NULL \
                   GROUP BY host, job HAVING max_by(end_ns IS NULL AND time_ns + 2 * every_ns >= ?, rowid) \
                   ORDER BY host, job";
        let since = Sql::BigInt(now_ns.saturating_sub(RECENT_NS));
        let mut jobs: BTreeMap<String, Vec<String>> = BTreeMap::new();
        self.rows(sql, &[since, Sql::BigInt(now_ns)], |row| {
            jobs.entry(row.get(0)?).or_default().push(row.get(1)?);
            Ok(())
        })?;
        Ok(jobs)
    }
}

fn node(host: &str, readings: &[Reading], jobs: &[String]) -> Map<String, Value> {
    let Some(last) = readings.last() else { return Map::new() };
    // Not every reading has all.
    let latest = |name: &str| {
        let mut known =
            readings.iter().rev().filter_map(|reading| Some((reading, *reading.values.get(name)?)));
        (known.next(), known.next())
    };
    let value = |name: &str| latest(name).0.map(|(_, value)| value);
    // A counter that has fallen began again with the machine.
    let since = |name: &str| {
        let ((to, value), (from, before)) = Option::zip(latest(name).0, latest(name).1)?;
        let grown = value.checked_sub(before).filter(|grown| *grown >= 0)?;
        Some((grown, seconds_between(from, to)))
    };
    let grown = |name: &str| since(name).map(|(grown, _)| grown);
    let rate = |name: &str| {
        let (grown, seconds) = since(name)?;
        Some(grown as f64 / seconds.filter(|seconds| *seconds > 0.0)?)
    };
    let parts = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
    let spent: Option<Vec<i64>> = parts.iter().map(|part| grown(&format!("node_cpu_{part}"))).collect();
    let total = spent.as_ref().map(|spent| spent.iter().sum::<i64>() as f64).filter(|total| *total > 0.0);
    let share = |part: &str| Some(grown(&format!("node_cpu_{part}"))? as f64 / total?);
    let idle = share("idle").zip(share("iowait")).map(|(idle, waiting)| idle + waiting);
    let used =
        value("node_memory_total").zip(value("node_memory_available")).map(|(total, free)| total - free);
    object([
        ("host", json!(host)),
        ("time", time(Some(last.time_ns))),
        ("jobs", json!(jobs)),
        ("load", json!(value("node_load").map(|load| load as f64 / 100.0))),
        ("cpu_busy", json!(idle.map(|idle| 1.0 - idle))),
        ("cpu_iowait", json!(share("iowait"))),
        ("cpu_steal", json!(share("steal"))),
        ("memory_total", json!(value("node_memory_total"))),
        ("memory_used", json!(used)),
        ("swap_used", json!(value("node_swap_used"))),
        ("disk_read", json!(rate("node_disk_read"))),
        ("disk_written", json!(rate("node_disk_write"))),
        ("net_received", json!(rate("node_net_received"))),
        ("net_sent", json!(rate("node_net_sent"))),
        ("ib_received", json!(rate("node_ib_received"))),
        ("ib_sent", json!(rate("node_ib_sent"))),
        ("power_watt", json!(rate("node_energy").map(|microwatt| microwatt / 1e6))),
        ("temperature", json!(value("node_temperature").map(|milli| milli as f64 / 1e3))),
    ])
}

/// The time between two readings, by the clock that nobody sets; unknown over a reboot.
fn seconds_between(before: &Reading, last: &Reading) -> Option<f64> {
    let nanos = match (before.steady, last.steady) {
        (Some((one, from)), Some((other, to))) => (one == other).then_some(to.saturating_sub(from))?,
        _ => last.time_ns.saturating_sub(before.time_ns),
    };
    Some(nanos as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(time_ns: i64, values: &[(&'static str, i64)]) -> Reading {
        Reading { time_ns, steady: None, values: values.iter().copied().collect() }
    }

    #[test]
    fn rates_are_differences_and_a_first_reading_has_none() {
        let cpu = |busy, idle| {
            let mut all: Vec<(&'static str, i64)> = metric::of(Of::Node)
                .map(|m| m.name)
                .filter(|n| n.starts_with("node_cpu_") && *n != "node_cpu_pressure")
                .map(|n| (n, 0))
                .collect();
            all.extend([
                ("node_cpu_user", busy),
                ("node_cpu_idle", idle),
                ("node_disk_read", busy),
                ("node_load", 150),
            ]);
            all
        };
        let first = reading(0, &cpu(100, 100));
        let one = node("n1", std::slice::from_ref(&first), &[]);
        assert_eq!(
            (&one["cpu_busy"], &one["disk_read"], &one["load"]),
            (&Value::Null, &Value::Null, &json!(1.5))
        );
        let two = node("n1", &[first, reading(2_000_000_000, &cpu(175, 125))], &[]);
        assert_eq!((&two["cpu_busy"], &two["disk_read"]), (&json!(0.75), &json!(37.5)));
        // The clock was set back, or the machine was booted anew, which its counters do not show.
        for (steady, read) in
            [(Some((7, 4_000_000_000)), json!(37.5)), (Some((8, 4_000_000_000)), Value::Null)]
        {
            let mut first = reading(0, &cpu(100, 100));
            first.steady = Some((7, 2_000_000_000));
            let last = Reading { steady, ..reading(-3_600_000_000_000, &cpu(175, 125)) };
            assert_eq!(node("n1", &[first, last], &[])["disk_read"], read, "{steady:?}");
        }
        // It was booted in between.
        let three = node("n1", &[reading(0, &cpu(100, 100)), reading(2_000_000_000, &cpu(5, 5))], &[]);
        assert_eq!((&three["cpu_busy"], &three["disk_read"]), (&Value::Null, &Value::Null));
    }
}
