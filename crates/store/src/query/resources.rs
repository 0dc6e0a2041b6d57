//! What a job reserved and what it used, from its readings and from its row.

use digest::{Job, OnNode, Site, coverage, profile};
use duckdb::types::Value as Sql;
use record::metric::{self, Kind, Metric, Of, Unit};
use serde_json::{Map, Value, json};

use super::hosts::{Hosts, of_hosts};
use super::{Conditions, Filter, Snapshot, time};
use crate::StoreError;
use crate::better::{Old, Word, better, has_ended, is_cut, keep_extremes};
use crate::due::Name;
use crate::job_rows::{self, CHARACTERISTICS, last_name};

/// A job is shown in so many columns over its time.
const COLUMNS: usize = 40;

/// The columns of a job's row that are text.
const TEXTS: [&str; 5] = ["cluster", "job", "session", "user", "state"];
const TEXTS_SQL: &str = "cluster, CASE WHEN session IS NULL THEN job END, session, \"user\", state";

impl Snapshot<'_> {
    /// What a job reserved and used; null if it was never measured. Where readings were put together or deleted, its row
    /// knows better: it was made of all of them.
    pub(super) fn resources(&self, filter: &Filter, now_ns: i64) -> Result<Value, StoreError> {
        let own: Vec<_> = metric::of(Of::Job).collect();
        let nodes = self.on_nodes(filter, &own)?;
        let hosts = self.hosts(&[&nodes])?.pop().unwrap_or_default();
        let mut job = self.of_nodes(&nodes, &own, &hosts, now_ns);
        let deleted = crate::upkeep::load_deleted(self.connection)?;
        let row = self.row_beside(filter, job.as_ref(), deleted)?;
        let word = row.as_ref().zip(job.as_ref()).map(|(row, job)| better(Some(&old(row)), job, deleted));
        if let (Some(Word::NewWithExtremes), Some(row), Some(job)) = (word, &row, &mut job) {
            keep_extremes(row, job);
        }
        let mut value = job.map_or(Value::Null, |job| {
            let mut value = summary(&job, self.site);
            value["node_count"] = json!(nodes.len());
            let each = nodes.iter().filter_map(|on| {
                let alone = self.of_nodes(std::slice::from_ref(on), &own, &hosts, job.until)?;
                Some(on_node(on, &alone, job.until, self.site))
            });
            value["nodes"] = each.collect();
            value
        });
        if let Some(row) = row.filter(|_| matches!(word, None | Some(Word::Old))) {
            put_row(&mut value, &row, self.site);
        }
        Ok(value)
    }

    /// What the readings of a job and of its hosts say.
    pub(crate) fn of_nodes(
        &self,
        nodes: &[OnNode],
        own: &[&'static Metric],
        hosts: &Hosts,
        now_ns: i64,
    ) -> Option<Job> {
        let mut job = Job::of(nodes, own, self.site, now_ns)?;
        job.metrics.extend(of_hosts(&job, nodes, hosts));
        Some(job)
    }

    /// The row of a job, if it may know more than the readings that are left.
    fn row_beside(
        &self,
        filter: &Filter,
        job: Option<&Job>,
        deleted: Option<i64>,
    ) -> Result<Option<Map<String, Value>>, StoreError> {
        let is_whole = job.is_some_and(|job| !job.is_coarse && !is_cut(job.start, deleted));
        match (&filter.job, &filter.host) {
            // A row is of all nodes.
            (Some(name), None) if !is_whole => self.job_row(name, filter.cluster.as_deref()),
            _ => Ok(None),
        }
    }

    /// The row of a job; `None` too if there are several of the name, in several clusters.
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
    pub(crate) fn row_of(
        &self,
        name: &Name,
        cluster: Option<&str>,
    ) -> Result<Option<Map<String, Value>>, StoreError> {
        let mut conditions = Conditions::default();
        conditions.add(&format!("job = ? AND {}", name.is_row()), [Sql::Text(name.column().1.to_owned())]);
        let cluster = cluster.map_or(Sql::Null, |cluster| Sql::Text(cluster.to_owned()));
        conditions.add("cluster IS NOT DISTINCT FROM CAST(? AS VARCHAR)", [cluster]);
        self.one_row(&conditions)
    }

    fn one_row(&self, conditions: &Conditions) -> Result<Option<Map<String, Value>>, StoreError> {
        let numbers = job_rows::numbers();
        let select: Vec<String> = numbers.iter().map(|name| format!("CAST({name} AS DOUBLE)")).collect();
        let sql =
            format!("SELECT {}, is_shared, {} FROM job {}", TEXTS_SQL, select.join(", "), conditions.sql());
        let mut rows = self.rows(&sql, &conditions.values, |row| {
            let mut made = Map::new();
            for (at, name) in TEXTS.into_iter().enumerate() {
                made.insert(name.to_owned(), json!(row.get::<_, Option<String>>(at)?));
            }
            made.insert("provisional".to_owned(), json!(!has_ended(made["state"].as_str())));
            made.insert("is_shared".to_owned(), json!(row.get::<_, bool>(TEXTS.len())?));
            for (at, name) in numbers.iter().enumerate() {
                made.insert(name.clone(), json!(row.get::<_, Option<f64>>(at + TEXTS.len() + 1)?));
            }
            Ok(made)
        })?;
        Ok(if rows.len() == 1 { rows.pop() } else { None })
    }
}

/// What decides whether a row stays.
fn old(row: &Map<String, Value>) -> Old {
    let number = |name: &str| row.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    Old {
        cluster: row.get("cluster").and_then(Value::as_str).map(str::to_owned),
        has_ended: has_ended(row.get("state").and_then(Value::as_str)),
        start_ns: number("start_ns") as i64,
        readings: number("readings") as u64,
    }
}

/// Puts what a row knows in place of what the readings say that are left.
fn put_row(value: &mut Value, row: &Map<String, Value>, site: &Site) {
    let whole = |name: &str| known(row, name).and_then(Value::as_f64).map(|number| number as i64);
    // A row of a job that runs is not of now.
    if value.is_null() || has_ended(row.get("state").and_then(Value::as_str)) {
        if value.is_null() {
            *value = json!({"metrics": {}, "nodes": []});
        }
        (value["state"], value["provisional"]) = (json!(row.get("state")), json!(row.get("provisional")));
        (value["end"], value["end_ns"]) = (time(whole("end_ns")), json!(whole("end_ns")));
        value["last_reading"] = time(whole("heard_ns"));
        let elapsed = whole("start_ns").zip(whole("end_ns").or(whole("heard_ns")));
        value["elapsed_s"] = json!(elapsed.map(|(start, until)| (until - start) as f64 / 1e9));
    }
    (value["start"], value["start_ns"]) = (time(whole("start_ns")), json!(whole("start_ns")));
    value["readings"] = json!(whole("readings"));
    value["coverage"] = json!(known(row, "coverage"));
    value["is_shared"] = json!(known(row, "is_shared"));
    value["node_count"] = json!(whole("nodes"));
    value["reserved"] = json!({
        "cpus": whole("reserved_cpus"), "memory": whole("reserved_memory"), "gpus": whole("reserved_gpus"),
    });
    for metric in job_rows::metrics() {
        put_metric(&mut value["metrics"], metric, row, site);
    }
}

fn known<'r>(row: &'r Map<String, Value>, name: &str) -> Option<&'r Value> {
    row.get(name).filter(|value| !value.is_null())
}

fn put_metric(metrics: &mut Value, metric: &Metric, row: &Map<String, Value>, site: &Site) {
    let of = |name: &str| known(row, &format!("{}_{name}", metric.name)).cloned();
    let whole = |value: Value| value.as_f64().map(|number| json!(number as i64));
    let numbers = CHARACTERISTICS.into_iter().map(|name| (name, of(name)));
    let numbers = numbers.chain(last_name(metric).map(|last| (last, of(last).and_then(whole))));
    let shares = job_rows::shares(metric).iter().map(|name| (*name, of(name)));
    for (name, number) in numbers.chain(shares).filter_map(|(name, number)| Some((name, number?))) {
        let value = &mut metrics[metric.name];
        value[name] = number;
        mark(value, metric, known(row, "is_shared") == Some(&Value::Bool(true)));
        if matches!(name, "below" | "above") {
            value["threshold"] = json!(site.threshold(metric));
        }
    }
}

/// All of a job but its nodes.
fn summary(job: &Job, site: &Site) -> Value {
    json!({
        "state": job.state,
        "provisional": job.state.is_provisional(),
        "start": time(Some(job.start)),
        "end": time(job.end),
        "start_ns": job.start,
        "end_ns": job.end,
        "last_reading": time(Some(job.heard)),
        "elapsed_s": (job.until - job.start) as f64 / 1e9,
        "readings": job.readings,
        "coverage": job.coverage,
        "is_shared": job.is_shared,
        "reserved": job.reserved,
        "metrics": metrics(job, site, true),
    })
}

/// What is known of each metric, with its course over time if that is wanted.
fn metrics(job: &Job, site: &Site, with_profile: bool) -> Map<String, Value> {
    let known = job.metrics.iter().map(|of| {
        let mut value = of.characteristic.map_or_else(|| json!({}), |known| json!(known));
        mark(&mut value, of.metric, job.is_shared);
        if let Some(last) = last_name(of.metric) {
            value[last] = json!(of.last);
        }
        for (name, share) in [("below", of.shares.below), ("above", of.shares.above)] {
            if let Some(share) = share {
                value[name] = json!(share);
                value["threshold"] = json!(site.threshold(of.metric));
            }
        }
        if with_profile && of.metric.of == Of::Job && of.characteristic.is_some() {
            value["profile"] = json!(profile(&of.spans, job.start, job.until, COLUMNS));
        }
        (of.metric.name.to_owned(), value)
    });
    known.collect()
}

/// Says what the numbers of a metric are, and whose.
fn mark(value: &mut Value, metric: &Metric, is_shared: bool) {
    value["unit"] = json!(unit(metric));
    if metric.of == Of::Node {
        value["is_node_wide"] = json!(true);
        value["is_shared"] = json!(is_shared);
    }
}

/// A node, within a job of which something is said until then.
fn on_node(on: &OnNode, alone: &Job, until: i64, site: &Site) -> Value {
    json!({
        "host": on.host,
        "node": on.node,
        "cluster": on.cluster,
        "user": on.user,
        "start": time(Some(alone.start)),
        "end": time(alone.end),
        "readings": alone.readings,
        "coverage": coverage(&[on.seen()], until),
        "is_shared": alone.is_shared,
        "reserved": alone.reserved,
        "metrics": metrics(alone, site, false),
    })
}

/// What people are shown instead of a value of the series: its unit, and how many of ours make one.
pub(super) fn shown(metric: &Metric) -> (&'static str, f64) {
    match (metric.kind, metric.unit) {
        // Of one card these are percent.
        (Kind::Gauge, Unit::Hundredths) if metric.of == Of::Card => ("%", 1.0),
        (_, Unit::Hundredths) => ("", 100.0),
        (_, Unit::MilliCelsius) => ("°C", 1000.0),
        (_, Unit::MilliWatt) => ("W", 1000.0),
        (Kind::Counter, Unit::MicroJoule) => ("W", 1e6),
        (Kind::Gauge, Unit::MicroJoule) => ("J", 1e6),
        (Kind::Gauge, Unit::Nanoseconds) => ("s", 1e9),
        _ => (unit(metric), 1.0),
    }
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
