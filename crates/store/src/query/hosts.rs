//! The hosts of a job: what was read of the whole machine while the job was there, whoever else was.

use std::collections::{BTreeMap, BTreeSet};

use digest::Characteristic;
use digest::series::{At, Part, Span, Steady, Told, within};
use duckdb::types::Value as Sql;
use record::metric::{self, Kind, Metric, Of, Unit};
use serde_json::{Value, json};

use super::Snapshot;
use super::on_node::OnNode;
use super::resources::{interval, sum, unit};
use crate::StoreError;

/// Readings of a node that are this much earlier or later than a job may reach into its time.
const AROUND_NS: i64 = 600_000_000_000;
/// Nodes are usually read this often.
const USUAL_NS: i64 = 60_000_000_000;
/// How the clock was set is no longer known of readings that were put together.
const COARSE_LEAD: &str = "CAST(NULL AS UBIGINT), CAST(NULL AS BIGINT)";

/// Hosts by their names.
pub(super) type Hosts = BTreeMap<String, OnHost>;

/// A host's own readings. Those that were put together are as one, at their end.
pub(super) struct OnHost {
    /// As the host's clock told them, in the order in which it did.
    told: Vec<Told>,
    /// When they were made, by the clock as it was set at the last; in the order of these times.
    pub readings: Vec<At>,
    /// Of each metric of nodes, the value of each reading.
    pub values: Vec<Vec<Option<i64>>>,
}

impl OnHost {
    fn new(metrics: usize) -> OnHost {
        OnHost { told: Vec::new(), readings: Vec::new(), values: vec![Vec::new(); metrics] }
    }

    fn set_the_clock(&mut self) {
        let times: Vec<i64> = Part::of(&self.told).readings.iter().map(|at| at.time).collect();
        let mut order: Vec<usize> = (0..times.len()).collect();
        order.sort_by_key(|at| times[*at]);
        self.readings = readings(&order.iter().map(|at| times[*at]).collect::<Vec<_>>());
        for values in &mut self.values {
            *values = order.iter().map(|at| values[*at]).collect();
        }
    }
}

/// How often something was meant to be read is not recorded for nodes and cards: it is as often as it ever was.
pub(super) fn readings(times: &[i64]) -> Vec<At> {
    let gaps = times.iter().zip(times.iter().skip(1)).map(|(from, to)| to.saturating_sub(*from));
    let every = gaps.filter(|gap| *gap > 0).min().unwrap_or(USUAL_NS);
    times.iter().map(|time| At { time: *time, every }).collect()
}

impl Snapshot<'_> {
    /// The readings of a job's hosts from a while before it began to a while after it ended.
    pub(super) fn hosts(&self, nodes: &[OnNode], now_ns: i64) -> Result<Hosts, StoreError> {
        let (start, until) = interval(nodes, now_ns);
        let told = || nodes.iter().flat_map(OnNode::told);
        let (start, until) = (told().fold(start, i64::min), told().fold(until, i64::max));
        let names: BTreeSet<&str> = nodes.iter().map(|on| on.host.as_str()).collect();
        let metrics: Vec<&str> = metric::of(Of::Node).map(|metric| metric.name).collect();
        let mut hosts = Hosts::new();
        for (table, lead, order) in [
            ("node_coarse", COARSE_LEAD, "time_ns"),
            ("node_sample", "boot, since_boot_ns", "stream, number"),
        ] {
            // Of a gauge that was put together there is an average, with a fraction.
            let columns = metrics.iter().map(|name| format!("CAST({name} AS BIGINT)"));
            let places = vec!["?"; names.len()].join(", ");
            let sql = format!(
                "SELECT host, time_ns, {lead}, {} FROM {table} WHERE time_ns BETWEEN ? AND ? AND host IN ({places}) \
                 ORDER BY host, {order}",
                columns.collect::<Vec<_>>().join(", ")
            );
            let times = [start.saturating_sub(AROUND_NS), until.saturating_add(AROUND_NS)];
            let values = times.map(Sql::BigInt).into_iter();
            let values: Vec<Sql> =
                values.chain(names.iter().map(|name| Sql::Text((*name).to_owned()))).collect();
            self.rows(&sql, &values, |row| {
                let host = hosts.entry(row.get(0)?).or_insert_with(|| OnHost::new(metrics.len()));
                let (time, boot): (i64, Option<u64>) = (row.get(1)?, row.get(2)?);
                let steady = boot.zip(row.get(3)?).map(|(boot, since)| Steady { boot, since });
                host.told.push(Told { time, start: time, end: None, every: USUAL_NS, steady });
                for (at, values) in host.values.iter_mut().enumerate() {
                    values.push(row.get(at + 4)?);
                }
                Ok(())
            })?;
        }
        hosts.values_mut().for_each(OnHost::set_the_clock);
        Ok(hosts)
    }
}

/// The characteristics of all metrics of nodes that are known.
pub(super) fn of_hosts(nodes: &[OnNode], hosts: &Hosts, start: i64, until: i64) -> Vec<(String, Value)> {
    let names: BTreeSet<&str> = nodes.iter().map(|on| on.host.as_str()).collect();
    let own: Vec<&OnHost> = names.iter().filter_map(|name| hosts.get(*name)).collect();
    let is_shared = nodes.iter().any(|on| on.is_shared);
    let known = metric::of(Of::Node).enumerate().filter_map(|(at, metric)| {
        let spans: Vec<Vec<Span>> =
            own.iter().map(|host| within(metric, &host.readings, &host.values[at], start, until)).collect();
        let mut value = json!(Characteristic::of(&spans)?);
        value["unit"] = json!(unit(metric));
        value["is_node_wide"] = json!(true);
        value["is_shared"] = json!(is_shared);
        match metric.kind {
            Kind::Counter => value["total"] = json!(grown(metric, &spans)),
            Kind::Gauge => value["last"] = json!(sum(own.iter().map(|host| last(&host.values[at])))),
        }
        Some((metric.name.to_owned(), value))
    });
    known.collect()
}

/// What was added to a counter within the spans, as far as it is known.
fn grown(metric: &Metric, spans: &[Vec<Span>]) -> i64 {
    let scale = if metric.unit == Unit::Nanoseconds { 1.0 } else { 1e9 };
    spans.iter().flatten().map(|span| span.value * span.length as f64 / scale).sum::<f64>().round() as i64
}

fn last(values: &[Option<i64>]) -> Option<i64> {
    values.iter().rev().find_map(|value| *value)
}
