//! What a job reserved and what it used, from its readings.

use std::collections::{BTreeMap, BTreeSet};

use digest::series::{At, Part, Span, Steady, Told, within};
use digest::{Characteristic, coverage, profile};
use duckdb::Row;
use duckdb::types::Value as Sql;
use record::metric::{self, Kind, Metric, Of, Unit};
use serde_json::{Map, Value, json};

use super::{Conditions, Filter, Snapshot, time};
use crate::StoreError;

/// A job is shown in so many columns over its time.
const COLUMNS: usize = 40;

/// The columns before those of the metrics.
const LEAD: &str = "host, node, time_ns, start_ns, end_ns, every_ns, reserved_cpus, reserved_memory, reserved_gpus, \
                    is_shared, \"user\", cluster, boot, since_boot_ns";
const LEAD_COLUMNS: usize = 14;

/// Readings of a node that are this much earlier or later than a job may reach into its time.
const AROUND_NS: i64 = 600_000_000_000;
/// Nodes are usually read this often.
const USUAL_NS: i64 = 60_000_000_000;

/// A job on one node.
pub(super) struct OnNode {
    pub host: String,
    pub node: Option<String>,
    cluster: Option<String>,
    user: Option<String>,
    /// As the node's clock told them.
    told: Vec<Told>,
    pub part: Part,
    cpus: Option<u32>,
    memory: Option<i64>,
    gpus: Option<u32>,
    is_shared: bool,
    /// Of each metric, the value of each reading.
    pub values: Vec<Vec<Option<i64>>>,
}

/// Hosts, with all that was read of them while a job was there.
pub(super) type Hosts = BTreeMap<String, OnHost>;

/// A host's own readings.
pub(super) struct OnHost {
    times: Vec<i64>,
    /// Of each metric of nodes, the value of each reading.
    pub values: Vec<Vec<Option<i64>>>,
}

impl OnHost {
    fn new(metrics: usize) -> OnHost {
        OnHost { times: Vec::new(), values: vec![Vec::new(); metrics] }
    }

    /// When it was read. How often that was meant to be is not recorded: it is as often as it ever was.
    pub fn readings(&self) -> Vec<At> {
        readings(&self.times)
    }
}

pub(super) fn readings(times: &[i64]) -> Vec<At> {
    let gaps = times.iter().zip(times.iter().skip(1)).map(|(from, to)| to.saturating_sub(*from));
    let every = gaps.filter(|gap| *gap > 0).min().unwrap_or(USUAL_NS);
    times.iter().map(|time| At { time: *time, every }).collect()
}

impl Snapshot<'_> {
    /// What a job reserved and used; null if it was never measured.
    pub(super) fn resources(&self, filter: &Filter, now_ns: i64) -> Result<Value, StoreError> {
        let nodes = self.on_nodes(filter, &metric::of(Of::Job).collect::<Vec<_>>())?;
        if nodes.is_empty() {
            return Ok(Value::Null);
        }
        let hosts = self.hosts(&nodes, now_ns)?;
        Ok(summary(&nodes, &hosts, now_ns))
    }

    /// The readings of a job's hosts from a while before it began to a while after it ended.
    pub(super) fn hosts(&self, nodes: &[OnNode], now_ns: i64) -> Result<Hosts, StoreError> {
        let (start, until) = interval(nodes, now_ns);
        let names: BTreeSet<&str> = nodes.iter().map(|on| on.host.as_str()).collect();
        let metrics: Vec<&str> = metric::of(Of::Node).map(|metric| metric.name).collect();
        let places = vec!["?"; names.len()].join(", ");
        let sql = format!(
            "SELECT host, time_ns, {} FROM node_sample WHERE time_ns BETWEEN ? AND ? AND host IN ({places}) \
             ORDER BY host, time_ns",
            metrics.join(", ")
        );
        let times = [start.saturating_sub(AROUND_NS), until.saturating_add(AROUND_NS)];
        let values = times.map(Sql::BigInt).into_iter();
        let values: Vec<Sql> = values.chain(names.iter().map(|name| Sql::Text((*name).to_owned()))).collect();
        let mut hosts = Hosts::new();
        self.rows(&sql, &values, |row| {
            let host = hosts.entry(row.get(0)?).or_insert_with(|| OnHost::new(metrics.len()));
            host.times.push(row.get(1)?);
            for (at, values) in host.values.iter_mut().enumerate() {
                values.push(row.get(at + 2)?);
            }
            Ok(())
        })?;
        Ok(hosts)
    }

    /// The row of a job that has ended.
    pub(super) fn job_row(&self, job: &str) -> Result<Option<Map<String, Value>>, StoreError> {
        let numbers = crate::jobs::numbers();
        let select: Vec<String> = numbers.iter().map(|name| format!("CAST({name} AS DOUBLE)")).collect();
        let sql = format!(
            "SELECT cluster, job, session, \"user\", is_shared, {} FROM job WHERE job = ? OR session = ?",
            select.join(", ")
        );
        let rows = self.rows(&sql, &[Sql::Text(job.to_owned()), Sql::Text(job.to_owned())], |row| {
            let mut made = Map::new();
            for (at, name) in ["cluster", "job", "session", "user"].into_iter().enumerate() {
                made.insert(name.to_owned(), json!(row.get::<_, Option<String>>(at)?));
            }
            made.insert("is_shared".to_owned(), json!(row.get::<_, bool>(4)?));
            for (at, name) in numbers.iter().enumerate() {
                made.insert(name.clone(), json!(row.get::<_, Option<f64>>(at + 5)?));
            }
            Ok(made)
        })?;
        Ok(rows.into_iter().next())
    }

    pub(super) fn on_nodes(
        &self,
        filter: &Filter,
        metrics: &[&'static Metric],
    ) -> Result<Vec<OnNode>, StoreError> {
        let Some(job) = &filter.job else { return Ok(Vec::new()) };
        let (column, first, last) = self.find_job("job_sample", job)?;
        let mut conditions = Conditions::default();
        let values = [Sql::BigInt(first), Sql::BigInt(last), Sql::Text(job.clone())];
        conditions.add(&format!("rowid BETWEEN ? AND ? AND {column} = ?"), values);
        if let Some(cluster) = &filter.cluster {
            conditions.add("cluster = ?", [Sql::Text(cluster.clone())]);
        }
        if let Some(host) = &filter.host {
            conditions.add("(host = ? OR node = ?)", [Sql::Text(host.clone()), Sql::Text(host.clone())]);
        }
        let names: String = metrics.iter().map(|metric| format!(", {}", metric.name)).collect();
        let sql = format!(
            "SELECT {LEAD}{names} FROM job_sample {} ORDER BY node, host, stream, number",
            conditions.sql()
        );
        let mut nodes: Vec<OnNode> = Vec::new();
        self.rows(&sql, &conditions.values, |row| take(row, metrics.len(), &mut nodes))?;
        nodes.iter_mut().for_each(|on| on.part = Part::of(&on.told));
        Ok(nodes)
    }
}

/// Takes in a row: of the node before, or of another.
fn take(row: &Row, metrics: usize, nodes: &mut Vec<OnNode>) -> duckdb::Result<()> {
    let (host, node): (String, Option<String>) = (row.get(0)?, row.get(1)?);
    let cluster: Option<String> = row.get(11)?;
    let is_same = |on: &OnNode| on.host == host && on.node == node;
    if !nodes.last().is_some_and(is_same) {
        nodes.push(OnNode {
            host,
            node,
            cluster: None,
            user: None,
            told: Vec::new(),
            part: Part::default(),
            cpus: None,
            memory: None,
            gpus: None,
            is_shared: false,
            values: vec![Vec::new(); metrics],
        });
    }
    let Some(on) = nodes.last_mut() else { return Ok(()) };
    let boot: Option<u64> = row.get(12)?;
    on.told.push(Told {
        time: row.get(2)?,
        start: row.get(3)?,
        end: row.get(4)?,
        every: row.get(5)?,
        steady: boot.zip(row.get(13)?).map(|(boot, since)| Steady { boot, since }),
    });
    on.cpus = row.get::<_, Option<u32>>(6)?.or(on.cpus);
    on.memory = row.get::<_, Option<i64>>(7)?.or(on.memory);
    on.gpus = row.get::<_, Option<u32>>(8)?.or(on.gpus);
    on.is_shared |= row.get::<_, bool>(9)?;
    // Its first reading may be made before anyone has said which cluster it is.
    on.cluster = cluster.or(on.cluster.take());
    on.user = row.get::<_, Option<String>>(10)?.or(on.user.take());
    for (at, values) in on.values.iter_mut().enumerate() {
        values.push(row.get(LEAD_COLUMNS + at)?);
    }
    Ok(())
}

/// When a job ended on its last node; nothing while it runs on any.
fn end(nodes: &[OnNode]) -> Option<i64> {
    let is_over = nodes.iter().all(|on| on.part.end.is_some());
    nodes.iter().filter_map(|on| on.part.end).max().filter(|_| is_over)
}

/// From its start to its end, or to now.
pub(super) fn interval(nodes: &[OnNode], now_ns: i64) -> (i64, i64) {
    let start = nodes.iter().map(|on| on.part.start).min().unwrap_or(0);
    (start, end(nodes).unwrap_or(now_ns).max(start))
}

fn summary(nodes: &[OnNode], hosts: &Hosts, now_ns: i64) -> Value {
    let end = end(nodes);
    let (start, until) = interval(nodes, now_ns);
    let parts: Vec<Part> = nodes.iter().map(|on| on.part.clone()).collect();
    json!({
        "start": time(Some(start)),
        "end": time(end),
        "start_ns": start,
        "end_ns": end,
        "elapsed_s": (until - start) as f64 / 1e9,
        "readings": nodes.iter().map(|on| on.part.readings.len()).sum::<usize>(),
        "coverage": coverage(&parts, until),
        "is_shared": nodes.iter().any(|on| on.is_shared),
        "reserved": {
            "cpus": sum(nodes.iter().map(|on| on.cpus.map(i64::from))),
            "memory": sum(nodes.iter().map(|on| on.memory)),
            "gpus": sum(nodes.iter().map(|on| on.gpus.map(i64::from))),
        },
        "metrics": metrics(nodes, hosts, start, until),
        "nodes": nodes.iter().map(|on| on_node(on, hosts, until)).collect::<Vec<_>>(),
    })
}

/// A sum of which one part is unknown is unknown.
fn sum(values: impl Iterator<Item = Option<i64>>) -> Option<i64> {
    values.reduce(|sum, value| sum?.checked_add(value?)).flatten()
}

fn metrics(nodes: &[OnNode], hosts: &Hosts, start: i64, until: i64) -> Map<String, Value> {
    let known = metric::of(Of::Job).enumerate().filter_map(|(at, metric)| {
        let spans: Vec<Vec<Span>> = nodes.iter().map(|on| on.part.spans(metric, &on.values[at])).collect();
        let mut value = json!(Characteristic::of(&spans)?);
        value["unit"] = json!(unit(metric));
        // A counter's last value is its sum; a gauge's, where it stood when the job ended.
        let name = if metric.kind == Kind::Counter { "total" } else { "last" };
        value[name] = json!(sum(nodes.iter().map(|on| last(&on.values[at]))));
        value["profile"] = json!(profile(&spans, start, until, COLUMNS));
        Some((metric.name.to_owned(), value))
    });
    known.chain(of_hosts(nodes, hosts, start, until)).collect()
}

/// Metrics of the whole hosts while the job was there, whoever else was.
fn of_hosts(nodes: &[OnNode], hosts: &Hosts, start: i64, until: i64) -> Vec<(String, Value)> {
    let names: BTreeSet<&str> = nodes.iter().map(|on| on.host.as_str()).collect();
    let own: Vec<(&OnHost, Vec<At>)> =
        names.iter().filter_map(|name| hosts.get(*name)).map(|host| (host, host.readings())).collect();
    let is_shared = nodes.iter().any(|on| on.is_shared);
    let known = metric::of(Of::Node).enumerate().filter_map(|(at, metric)| {
        let spans: Vec<Vec<Span>> = own
            .iter()
            .map(|(host, readings)| within(metric, readings, &host.values[at], start, until))
            .collect();
        let mut value = json!(Characteristic::of(&spans)?);
        value["unit"] = json!(unit(metric));
        value["is_node_wide"] = json!(true);
        value["is_shared"] = json!(is_shared);
        match metric.kind {
            Kind::Counter => value["total"] = json!(grown(metric, &spans)),
            Kind::Gauge => value["last"] = json!(sum(own.iter().map(|(host, _)| last(&host.values[at])))),
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

fn on_node(on: &OnNode, hosts: &Hosts, until: i64) -> Value {
    let own = std::slice::from_ref(on);
    let mut metrics = metrics(own, hosts, on.part.start, on.part.end.unwrap_or(until));
    for value in metrics.values_mut() {
        if let Some(value) = value.as_object_mut() {
            value.remove("profile");
        }
    }
    json!({
        "host": on.host,
        "node": on.node,
        "cluster": on.cluster,
        "user": on.user,
        "start": time(Some(on.part.start)),
        "end": time(on.part.end),
        "readings": on.part.readings.len(),
        "coverage": coverage(std::slice::from_ref(&on.part), until),
        "is_shared": on.is_shared,
        "reserved": {"cpus": on.cpus, "memory": on.memory, "gpus": on.gpus},
        "metrics": metrics,
    })
}

/// What a value of the series is: a counter's is a rate.
pub(super) fn unit(metric: &Metric) -> &'static str {
    match (metric.kind, metric.unit) {
        (Kind::Counter, Unit::Nanoseconds) => "cores",
        (Kind::Counter, Unit::Bytes) => "bytes/s",
        (Kind::Counter, Unit::MicroJoule) => "microwatts",
        (Kind::Counter, _) => "1/s",
        (Kind::Gauge, Unit::Bytes) => "bytes",
        (Kind::Gauge, Unit::Nanoseconds) => "nanoseconds",
        (Kind::Gauge, Unit::Hundredths) => "hundredths",
        (Kind::Gauge, Unit::MilliCelsius) => "millicelsius",
        (Kind::Gauge, Unit::MilliWatt) => "milliwatts",
        (Kind::Gauge, Unit::MicroJoule) => "microjoules",
        (Kind::Gauge, Unit::Count) => "count",
        (Kind::Gauge, Unit::MegaHertz) => "megahertz",
    }
}
