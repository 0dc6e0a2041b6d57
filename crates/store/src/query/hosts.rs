//! The hosts of jobs: what was read of the whole machine while a job was there, whoever else was.

use std::collections::{BTreeMap, BTreeSet};

use digest::job::OfMetric;
use digest::series::{At, Part, Span, Steady, Told, within};
use digest::{Characteristic, Job, OnNode, Shares};
use duckdb::types::Value as Sql;
use record::metric::{self, Kind, Metric, Of, Unit};

use super::Snapshot;
use crate::StoreError;

/// Readings of a node that are this much earlier or later than a job may reach into its time.
const AROUND_NS: i64 = 600_000_000_000;
/// Nodes are usually read this often.
const USUAL_NS: i64 = 60_000_000_000;
/// How the clock was set is no longer known of readings that were put together.
const COARSE_LEAD: &str = "CAST(NULL AS UBIGINT), CAST(NULL AS BIGINT)";

/// The hosts of a job, by their names.
pub(crate) type Hosts = BTreeMap<String, OnHost>;

/// A host's own readings. Those that were put together are as one, at their end.
pub(crate) struct OnHost {
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

/// When a job was on a host, as far as readings of the host may reach into it.
struct Stay<'a> {
    /// The place of the job among those that are asked for.
    job: usize,
    host: &'a str,
    from: i64,
    until: i64,
}

impl Snapshot<'_> {
    /// The hosts of each of several jobs, with their readings from a while before it began to a while after it ended.
    pub(crate) fn hosts(&self, jobs: &[&[OnNode]]) -> Result<Vec<Hosts>, StoreError> {
        let mut hosts: Vec<Hosts> = jobs.iter().map(|_| Hosts::new()).collect();
        let stays: Vec<Stay> = jobs.iter().enumerate().flat_map(|(job, nodes)| stays(job, nodes)).collect();
        if stays.is_empty() {
            return Ok(hosts);
        }
        for (table, lead, order) in [
            ("node_coarse", COARSE_LEAD, "time_ns"),
            ("node_sample", "boot, since_boot_ns", "stream, number"),
        ] {
            self.read_hosts(&query(table, lead, order, &stays), &stays, &mut hosts)?;
        }
        hosts.iter_mut().flat_map(Hosts::values_mut).for_each(OnHost::set_the_clock);
        Ok(hosts)
    }

    fn read_hosts(&self, sql: &str, stays: &[Stay], hosts: &mut [Hosts]) -> Result<(), StoreError> {
        let names: Vec<Sql> = stays.iter().map(|stay| Sql::Text(stay.host.to_owned())).collect();
        let metrics = metric::of(Of::Node).count();
        self.rows(sql, &names, |row| {
            let job: i64 = row.get(0)?;
            let Some(own) = usize::try_from(job).ok().and_then(|job| hosts.get_mut(job)) else {
                return Ok(());
            };
            let host = own.entry(row.get(1)?).or_insert_with(|| OnHost::new(metrics));
            let (time, boot): (i64, Option<u64>) = (row.get(2)?, row.get(3)?);
            let steady = boot.zip(row.get(4)?).map(|(boot, since)| Steady { boot, since });
            host.told.push(Told { time, start: time, end: None, every: USUAL_NS, steady });
            for (at, values) in host.values.iter_mut().enumerate() {
                values.push(row.get(at + 5)?);
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// The stays of a job, one for each of its hosts.
fn stays(job: usize, nodes: &[OnNode]) -> impl Iterator<Item = Stay<'_>> {
    let told = || nodes.iter().flat_map(OnNode::told);
    let from = told().min().unwrap_or(0).saturating_sub(AROUND_NS);
    let until = told().max().unwrap_or(0).saturating_add(AROUND_NS);
    let hosts: BTreeSet<&str> = nodes.iter().map(|on| on.host.as_str()).collect();
    hosts.into_iter().map(move |host| Stay { job, host, from, until })
}

/// The readings of all stays; the names of their hosts are bound values, the numbers are our own.
fn query(table: &str, lead: &str, order: &str, stays: &[Stay]) -> String {
    // Of a gauge that was put together there is an average, with a fraction.
    let columns = metric::of(Of::Node).map(|metric| format!("CAST({} AS BIGINT)", metric.name));
    let keys = stays.iter().map(|Stay { job, from, until, .. }| {
        format!("({job}::BIGINT, ?::VARCHAR, {from}::BIGINT, {until}::BIGINT)")
    });
    let first = stays.iter().map(|stay| stay.from).min().unwrap_or(0);
    let last = stays.iter().map(|stay| stay.until).max().unwrap_or(0);
    // The times of all show most parts of the table to be without any.
    format!(
        "SELECT stay.job, t.host, t.time_ns, {lead}, {} FROM {table} t \
         JOIN (VALUES {}) AS stay(job, host, from_ns, until_ns) \
           ON t.host = stay.host AND t.time_ns BETWEEN stay.from_ns AND stay.until_ns \
         WHERE t.time_ns BETWEEN {first} AND {last} ORDER BY stay.job, t.host, {order}",
        columns.collect::<Vec<_>>().join(", "),
        keys.collect::<Vec<_>>().join(", ")
    )
}

/// What is known of all metrics of nodes, within the time of a job.
pub(crate) fn of_hosts(job: &Job, nodes: &[OnNode], hosts: &Hosts) -> Vec<OfMetric> {
    let names: BTreeSet<&str> = nodes.iter().map(|on| on.host.as_str()).collect();
    let own: Vec<&OnHost> = names.iter().filter_map(|name| hosts.get(*name)).collect();
    let known = metric::of(Of::Node).enumerate().filter_map(|(at, metric)| {
        let spans: Vec<Vec<Span>> = own
            .iter()
            .map(|host| within(metric, &host.readings, &host.values[at], job.start, job.until))
            .collect();
        let last = match metric.kind {
            Kind::Counter => Some(grown(metric, &spans)),
            Kind::Gauge => None,
        };
        let characteristic = Some(Characteristic::of(&spans)?);
        Some(OfMetric { metric, characteristic, shares: Shares::default(), last, spans })
    });
    known.collect()
}

/// What was added to a counter within the spans, as far as it is known.
fn grown(metric: &Metric, spans: &[Vec<Span>]) -> i64 {
    let scale = if metric.unit == Unit::Nanoseconds { 1.0 } else { 1e9 };
    spans.iter().flatten().map(|span| span.value * span.length as f64 / scale).sum::<f64>().round() as i64
}
