//! `cluster.json`: the least that describes a cluster, from the jobs that ran on it.
//!
//! Their schema wants rates and limits that no job tells; they are zero. What a cluster has said of itself is written in
//! place of this one.

use std::collections::{BTreeMap, BTreeSet};

use record::measure::Told;
use serde_json::{Value, json};

use super::data::Group;
use crate::clustercockpit::unit;

/// What they measure by if nobody says otherwise, in seconds.
const TIMESTEP: u64 = 60;
/// The one metric that every job of theirs has, where no job tells of any: the list must not be empty.
const LEAST: &str = "cpu_load";

/// What is known of a cluster.
#[derive(Default)]
pub struct Cluster {
    parts: BTreeMap<String, Part>,
    metrics: BTreeMap<String, Value>,
}

#[derive(Default)]
struct Part {
    hosts: BTreeSet<String>,
    /// The most that are known of a node.
    threads: u64,
}

impl Cluster {
    /// Learns from a job.
    pub fn add(&mut self, meta: &Value, groups: &[Group], told: &[Told]) {
        let name = meta["subCluster"].as_str().unwrap_or_default();
        let part = self.parts.entry(name.to_owned()).or_default();
        for resource in meta["resources"].as_array().into_iter().flatten() {
            part.hosts.extend(resource["hostname"].as_str().map(str::to_owned));
            let threads = resource["hwthreads"].as_array().into_iter().flatten().filter_map(Value::as_u64);
            part.threads = part.threads.max(threads.max().map_or(0, |last| last.saturating_add(1)));
        }
        for group in groups.iter().filter(|group| !group.is_made) {
            let metric = || metric(&group.metric, &group.known_unit(), &group.scope, group.timestep);
            self.metrics.entry(group.metric.clone()).or_insert_with(metric);
        }
        for told in told {
            let (name, unit) = (told.metric.text(), unit::object(told.unit.as_deref()));
            self.metrics.entry(name.to_owned()).or_insert_with(|| metric(name, &unit, "node", TIMESTEP));
        }
    }

    pub fn describe(&self, name: &str) -> Value {
        let parts: Vec<Value> = self.parts.iter().map(|(name, part)| part.describe(name)).collect();
        let mut metrics: Vec<Value> = self.metrics.values().cloned().collect();
        if metrics.is_empty() {
            metrics.push(metric(LEAST, &unit::object(None), "node", TIMESTEP));
        }
        json!({"name": name, "metricConfig": metrics, "subClusters": parts})
    }
}

impl Part {
    /// As if each node had one socket, with as many cores as threads are known.
    fn describe(&self, name: &str) -> Value {
        let rate = |base: &str| json!({"unit": {"prefix": "G", "base": base}, "value": 0});
        let threads: Vec<u64> = (0..self.threads.clamp(1, 1 << 16)).collect();
        let cores: Vec<Value> = threads.iter().map(|thread| json!([thread])).collect();
        json!({
            "name": name,
            "nodes": hostlist::fold(self.hosts.iter().map(String::as_str)).unwrap_or_default(),
            "processorType": "unknown",
            "socketsPerNode": 1,
            "coresPerSocket": threads.len(),
            "threadsPerCore": 1,
            "flopRateScalar": rate("F/s"),
            "flopRateSimd": rate("F/s"),
            "memoryBandwidth": rate("B/s"),
            "topology": {"node": threads, "socket": [threads], "memoryDomain": [threads], "core": cores},
        })
    }
}

fn metric(name: &str, unit: &Value, scope: &str, timestep: u64) -> Value {
    json!({
        "name": name, "unit": unit, "scope": scope, "timestep": timestep, "aggregation": "avg",
        "peak": 0, "normal": 0, "caution": 0, "alert": 0,
    })
}
