//! What a job reserved and what it used, from its readings.

use digest::series::{Part, Span};
use digest::{Characteristic, coverage, profile};
use duckdb::types::Value as Sql;
use record::metric::{self, Kind, Metric, Of, Unit};
use serde_json::{Map, Value, json};

use super::hosts::{Hosts, of_hosts};
use super::on_node::{OnNode, Stretch};
use super::{Conditions, Filter, Snapshot, time};
use crate::StoreError;
use crate::jobs::JobKey;

/// A job is shown in so many columns over its time.
const COLUMNS: usize = 40;

/// What the readings of a job say.
pub(crate) struct Measured {
    /// Null if it was never measured.
    pub value: Value,
    /// Some of the readings were put together.
    pub is_coarse: bool,
}

impl Snapshot<'_> {
    /// What the readings of a job say, as far as they are there.
    pub(super) fn measured(&self, filter: &Filter, now_ns: i64) -> Result<Measured, StoreError> {
        let nodes = self.on_nodes(filter, &metric::of(Of::Job).collect::<Vec<_>>())?;
        let value = if nodes.is_empty() {
            Value::Null
        } else {
            summary(&nodes, &self.hosts(&nodes, now_ns)?, now_ns)
        };
        Ok(Measured { value, is_coarse: nodes.iter().any(|on| on.is_coarse) })
    }

    /// What a job reserved and used; null if it was never measured. Where readings were put together or deleted, its row
    /// knows better: it was made of all of them.
    pub(super) fn resources(&self, filter: &Filter, now_ns: i64) -> Result<Value, StoreError> {
        let Measured { mut value, is_coarse } = self.measured(filter, now_ns)?;
        let deleted = crate::upkeep::load_deleted(&self.0)?;
        // A row is of all nodes.
        if let (Some(job), None) = (&filter.job, &filter.host)
            && (is_coarse || value.is_null() || is_cut(value["start_ns"].as_f64(), deleted))
            && let Some(row) = self.job_row(job, filter.cluster.as_deref())?
        {
            put_row(&mut value, &row);
        }
        Ok(value)
    }

    /// The row of a job that has ended; `None` too if there are several of the name, in several clusters.
    pub(super) fn job_row(
        &self,
        job: &str,
        cluster: Option<&str>,
    ) -> Result<Option<Map<String, Value>>, StoreError> {
        let (column, first, last) = self.find_job("job", job)?;
        let mut conditions = Conditions::default();
        let place = [Sql::BigInt(first), Sql::BigInt(last), Sql::Text(job.to_owned())];
        conditions.add(&format!("rowid BETWEEN ? AND ? AND {column} = ?"), place);
        if let Some(cluster) = cluster {
            conditions.add("cluster = ?", [Sql::Text(cluster.to_owned())]);
        }
        self.one_row(&conditions)
    }

    /// The row of exactly this job.
    pub(super) fn row_of(&self, key: &JobKey) -> Result<Option<Map<String, Value>>, StoreError> {
        let mut conditions = Conditions::default();
        for (column, value) in [("cluster", &key.cluster), ("job", &key.job), ("session", &key.session)] {
            match value {
                Some(text) => conditions.add(&format!("{column} = ?"), [Sql::Text(text.clone())]),
                None => conditions.add(&format!("{column} IS NULL"), []),
            }
        }
        self.one_row(&conditions)
    }

    fn one_row(&self, conditions: &Conditions) -> Result<Option<Map<String, Value>>, StoreError> {
        let numbers = crate::jobs::numbers();
        let select: Vec<String> = numbers.iter().map(|name| format!("CAST({name} AS DOUBLE)")).collect();
        let sql = format!(
            "SELECT cluster, job, session, \"user\", is_shared, {} FROM job {}",
            select.join(", "),
            conditions.sql()
        );
        let mut rows = self.rows(&sql, &conditions.values, |row| {
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
        Ok(if rows.len() == 1 { rows.pop() } else { None })
    }
}

/// Whether something of the readings of a job that began then may have been deleted.
pub(crate) fn is_cut(start_ns: Option<f64>, deleted_before: Option<i64>) -> bool {
    start_ns.zip(deleted_before).is_some_and(|(start, before)| start < before as f64)
}

/// Puts what a row knows in place of what the readings say that are left.
fn put_row(value: &mut Value, row: &Map<String, Value>) {
    let known = |name: &str| row.get(name).filter(|value| !value.is_null());
    let whole = |name: &str| known(name).and_then(Value::as_f64).map(|number| json!(number as i64));
    if value.is_null() {
        *value = json!({"metrics": {}, "nodes": []});
    }
    let (start, end) = (whole("start_ns"), whole("end_ns"));
    value["start"] = time(start.as_ref().and_then(Value::as_i64));
    value["end"] = time(end.as_ref().and_then(Value::as_i64));
    let seconds = known("start_ns")
        .zip(known("end_ns"))
        .and_then(|(start, end)| Some((start.as_f64()?, end.as_f64()?)));
    if let Some((start, end)) = seconds {
        value["elapsed_s"] = json!((end - start) / 1e9);
    }
    (value["start_ns"], value["end_ns"]) = (json!(start), json!(end));
    value["readings"] = json!(whole("readings"));
    value["coverage"] = json!(known("coverage"));
    value["is_shared"] = json!(known("is_shared"));
    value["node_count"] = json!(whole("nodes"));
    value["reserved"] = json!({
        "cpus": whole("reserved_cpus"), "memory": whole("reserved_memory"), "gpus": whole("reserved_gpus"),
    });
    for metric in crate::jobs::metrics() {
        let last = crate::jobs::last_name(metric.kind);
        for name in crate::jobs::CHARACTERISTICS {
            if let Some(known) = known(&format!("{}_{name}", metric.name)) {
                value["metrics"][metric.name][name] = known.clone();
                value["metrics"][metric.name]["unit"] = json!(unit(metric));
            }
        }
        if let Some(known) = whole(&format!("{}_{last}", metric.name)) {
            value["metrics"][metric.name][last] = known;
        }
    }
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
    let parts: Vec<Part> = nodes.iter().map(OnNode::seen).collect();
    json!({
        "start": time(Some(start)),
        "end": time(end),
        "start_ns": start,
        "end_ns": end,
        "elapsed_s": (until - start) as f64 / 1e9,
        "readings": nodes.iter().map(|on| on.readings).sum::<u64>(),
        "coverage": coverage(&parts, until),
        "is_shared": nodes.iter().any(|on| on.is_shared),
        "node_count": nodes.len(),
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
pub(super) fn sum(values: impl Iterator<Item = Option<i64>>) -> Option<i64> {
    values.reduce(|sum, value| sum?.checked_add(value?)).flatten()
}

fn metrics(nodes: &[OnNode], hosts: &Hosts, start: i64, until: i64) -> Map<String, Value> {
    let known = metric::of(Of::Job).enumerate().filter_map(|(at, metric)| {
        let stretches: Vec<Vec<Stretch>> = nodes.iter().map(|on| on.stretches(metric, at)).collect();
        let spans: Vec<Vec<Span>> =
            stretches.iter().map(|of_node| of_node.iter().map(|stretch| stretch.span).collect()).collect();
        let mut value = json!(extremes(Characteristic::of(&spans)?, stretches.iter().flatten()));
        value["unit"] = json!(unit(metric));
        // A counter's last value is its sum; a gauge's, where it stood when the job ended.
        value[crate::jobs::last_name(metric.kind)] = json!(sum(nodes.iter().map(|on| on.last(at))));
        value["profile"] = json!(profile(&spans, start, until, COLUMNS));
        Some((metric.name.to_owned(), value))
    });
    known.chain(of_hosts(nodes, hosts, start, until)).collect()
}

/// The readings that were put together had a least and a greatest one.
fn extremes<'s>(of_spans: Characteristic, stretches: impl Iterator<Item = &'s Stretch>) -> Characteristic {
    stretches.fold(of_spans, |found, stretch| Characteristic {
        min: stretch.least.map_or(found.min, |least| found.min.min(least)),
        max: stretch.most.map_or(found.max, |most| found.max.max(most)),
        ..found
    })
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
        "readings": on.readings,
        "coverage": coverage(&[on.seen()], until),
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
