//! What of a metric counts as a node's: what was measured on the whole node; where only parts of it were measured, the coarsest of these
//! put together as `cluster.json` says.
//!
//! `{"metricConfig": [{"name": "flops_any", "scope": "core", "aggregation": "sum"}, …]}`

use std::collections::{BTreeMap, HashMap};

use record::measure::{Point, SCOPES, Series};
use serde_json::Value;

pub const NODE: &str = SCOPES[0];

/// How values of the parts of a node become one of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregation {
    Sum,
    Avg,
}

/// How the metrics of a cluster are aggregated; of those that are missing nobody says it.
#[derive(Debug, Clone, Default)]
pub struct Aggregations(HashMap<String, Aggregation>);

impl Aggregations {
    /// Of `cluster.json`; `None` if that is no object. What has another form says nothing.
    pub fn of(cluster: &Value) -> Option<Aggregations> {
        let metrics = cluster.as_object()?.get("metricConfig").and_then(Value::as_array);
        let one = |metric: &Value| {
            let aggregation = match metric.get("aggregation")?.as_str()? {
                "sum" => Aggregation::Sum,
                "avg" => Aggregation::Avg,
                _ => return None,
            };
            Some((metric.get("name")?.as_str()?.to_owned(), aggregation))
        };
        Some(Aggregations(metrics.into_iter().flatten().filter_map(one).collect()))
    }

    pub fn get(&self, metric: &str) -> Option<Aggregation> {
        self.0.get(metric).copied()
    }
}

/// Where a scope stands between the whole and the smallest; one that is not known is smaller still.
pub fn rank(scope: &str) -> usize {
    SCOPES.iter().position(|known| *known == scope).unwrap_or(SCOPES.len())
}

/// One series for each node, of the series of its parts in one scope, in the order of the nodes; `None` if nobody says how the parts of
/// one are aggregated. A single part is all that there is of its node.
pub fn nodes(parts: &[&Series], aggregation: Option<Aggregation>) -> Option<Vec<Series>> {
    let mut hosts: Vec<Vec<&Series>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for part in parts {
        let place = *places.entry(&part.host).or_insert(hosts.len());
        match hosts.get_mut(place) {
            Some(of_host) => of_host.push(part),
            None => hosts.push(vec![part]),
        }
    }
    let one = |parts: Vec<&Series>| match (&parts[..], aggregation) {
        ([only], _) => Some(whole(only, only.points.clone())),
        ([first, ..], Some(aggregation)) => Some(whole(first, joined(&parts, aggregation))),
        _ => None,
    };
    hosts.into_iter().map(one).collect()
}

/// The series of the node that a part belongs to.
fn whole(part: &Series, points: Vec<Point>) -> Series {
    Series {
        cluster: part.cluster.clone(),
        host: part.host.clone(),
        metric: part.metric.clone(),
        unit: part.unit.clone(),
        part: None,
        job: part.job.clone(),
        every: part.every,
        points,
    }
}

/// At the times at which all parts have a value: without one of them neither the sum nor the mean is known.
fn joined(parts: &[&Series], aggregation: Aggregation) -> Vec<Point> {
    let mut times: BTreeMap<u64, (usize, f64)> = BTreeMap::new();
    for point in parts.iter().flat_map(|part| &part.points) {
        let (count, sum) = times.entry(point.time).or_default();
        (*count, *sum) = (*count + 1, *sum + point.value);
    }
    let whole = times.into_iter().filter(|(_, (count, _))| *count == parts.len());
    let value = |count: usize, sum: f64| match aggregation {
        Aggregation::Sum => sum,
        Aggregation::Avg => sum / count as f64,
    };
    whole.map(|(time, (count, sum))| Point { time, value: value(count, sum) }).collect()
}
