//! The machine as its batch system has it, with what the site says over it.

use digest::Site;
use duckdb::types::Value as Sql;
use record::site::{Description, Node, Partition, SiteData};
use serde_json::{Map, Value, json};

use super::{Conditions, Rows, Snapshot, time};
use crate::StoreError;

/// What a column is, to be shown.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// Parts with commas between them.
    List,
    Count,
    Is,
    Time,
    /// Kept in nanoseconds, shown in seconds.
    Seconds,
}
use Kind::{Count, Is, List, Seconds, Text, Time};

/// Names as they are shown, and columns where they differ.
type Columns = &'static [(&'static str, &'static str, Kind)];

const CLUSTERS: Columns = &[
    ("cluster", "cluster", Text),
    ("told", "told_ns", Time),
    ("version", "version", Text),
    ("store_flags", "store_flags", List),
    ("gather_type", "gather_type", Text),
    ("task_plugins", "task_plugins", List),
    ("min_job_age_s", "min_job_age_ns", Seconds),
];

const PARTITIONS: Columns = &[
    ("cluster", "cluster", Text),
    ("partition", "name", Text),
    ("nodes", "nodes", Text),
    ("node_count", "node_count", Count),
    ("cpus", "cpus", Count),
    ("default_time_s", "default_time_ns", Seconds),
    ("max_time_s", "max_time_ns", Seconds),
    ("is_unlimited", "is_unlimited", Is),
    ("is_default", "is_default", Is),
    ("state", "state", Text),
    ("qos", "qos", Text),
    ("allow_accounts", "allow_accounts", List),
    ("tres", "tres", Text),
    ("is_test", "is_test", Is),
    ("has_gpus", "has_gpus", Is),
    ("has_local_disk", "has_local_disk", Is),
    ("is_high_priority", "is_high_priority", Is),
];

/// What the site has, beside what the batch system reported: some partitions and nodes only jobs name.
const PARTITIONS_NOW: &str = "(SELECT p.* REPLACE (n.cluster AS cluster, n.name AS name, n.default_time_ns AS default_time_ns, \
        n.is_test AS is_test, n.has_gpus AS has_gpus, n.has_local_disk AS has_local_disk), n.is_high_priority \
    FROM partition_now n LEFT JOIN site_partition p ON n.name = p.name AND n.cluster IS NOT DISTINCT FROM p.cluster)";
const NODES_NOW: &str = "(SELECT p.* REPLACE (k.cluster AS cluster, k.name AS name, n.cores AS cores, n.cpus AS cpus, \
        n.memory AS memory, n.peak_flops AS peak_flops) \
    FROM (SELECT cluster, name FROM site_node UNION SELECT cluster, name FROM node_now) k \
    LEFT JOIN node_now n ON n.name = k.name AND n.cluster IS NOT DISTINCT FROM k.cluster \
    LEFT JOIN site_node p ON p.name = k.name AND p.cluster IS NOT DISTINCT FROM k.cluster)";

const NODES: Columns = &[
    ("cluster", "cluster", Text),
    ("node", "name", Text),
    ("arch", "arch", Text),
    ("os", "os", Text),
    ("sockets", "sockets", Count),
    ("cores_per_socket", "cores_per_socket", Count),
    ("threads_per_core", "threads_per_core", Count),
    ("cpus", "cpus", Count),
    ("cores", "cores", Count),
    ("memory", "memory", Count),
    ("tmp_disk", "tmp_disk", Count),
    ("gres", "gres", Text),
    ("gpus", "gpus", Count),
    ("features", "features", List),
    ("partitions", "partitions", List),
    ("state", "state", Text),
    ("weight", "weight", Count),
    ("version", "version", Text),
    ("peak_flops", "peak_flops", Count),
];

const ASSOCIATIONS: Columns = &[
    ("cluster", "cluster", Text),
    ("project", "account", Text),
    ("user", "\"user\"", Text),
    ("parent", "parent", Text),
    ("partition", "partition", Text),
    ("default_qos", "default_qos", Text),
    ("qos", "qos", List),
    ("is_default", "is_default", Is),
    ("coordinators", "coordinators", List),
];

impl Snapshot<'_> {
    /// All that was told of clusters, or of one.
    pub(super) fn descriptions(&self) -> Result<Vec<Description>, StoreError> {
        let sql = "SELECT cluster, text FROM cluster_description ORDER BY cluster";
        self.rows(sql, &[], |row| Ok(Description { cluster: row.get(0)?, text: row.get(1)? }))
    }

    pub(super) fn site(&self, cluster: Option<&str>) -> Result<Value, StoreError> {
        let all = |table: &str, columns, order: &str| self.site_rows(table, columns, order, cluster);
        let clusters = all("site_cluster", CLUSTERS, "cluster")?;
        let partitions = all(PARTITIONS_NOW, PARTITIONS, "cluster, name")?;
        let nodes = all(NODES_NOW, NODES, "cluster, name")?;
        let associations = all("site_association", ASSOCIATIONS, "cluster, account, \"user\" NULLS FIRST")?;
        let unmatched =
            if clusters.is_empty() { Vec::new() } else { unmatched(self.site, &partitions, &nodes) };
        Ok(json!({
            "clusters": clusters, "partitions": partitions, "nodes": nodes, "associations": associations,
            "unmatched": unmatched,
        }))
    }

    fn site_rows(
        &self,
        table: &str,
        columns: Columns,
        order: &str,
        cluster: Option<&str>,
    ) -> Result<Rows, StoreError> {
        let mut conditions = Conditions::default();
        if let Some(cluster) = cluster {
            conditions.add("cluster = ?", [Sql::Text(cluster.to_owned())]);
        }
        let select: Vec<&str> = columns.iter().map(|(_, column, _)| *column).collect();
        let sql = format!("SELECT {} FROM {table} {} ORDER BY {order}", select.join(", "), conditions.sql());
        self.rows(&sql, &conditions.values, |row| {
            let mut made = Map::new();
            for (at, (name, _, kind)) in columns.iter().enumerate() {
                made.insert((*name).to_owned(), shown(row, at, *kind)?);
            }
            Ok(made)
        })
    }
}

fn shown(row: &duckdb::Row<'_>, at: usize, kind: Kind) -> duckdb::Result<Value> {
    Ok(match kind {
        Text => json!(row.get::<_, Option<String>>(at)?),
        List => {
            let list = row.get::<_, Option<String>>(at)?;
            json!(list.map(|list| {
                list.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>()
            }))
        }
        Count => json!(row.get::<_, Option<u64>>(at)?),
        Is => json!(row.get::<_, Option<bool>>(at)?),
        Time => time(row.get(at)?),
        Seconds => json!(row.get::<_, Option<i64>>(at)?.map(|nanos| nanos as f64 / 1e9)),
    })
}

/// What the site names and its batch system does not have, in words.
fn unmatched(site: &Site, partitions: &Rows, nodes: &Rows) -> Vec<String> {
    let text = |row: &Map<String, Value>, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let mut data = SiteData {
        partitions: partitions
            .iter()
            .map(|row| Partition { name: text(row, "partition"), ..Partition::default() })
            .collect(),
        nodes: nodes.iter().map(|row| Node { name: text(row, "node"), ..Node::default() }).collect(),
        ..SiteData::default()
    };
    site.overrides.apply(&mut data).iter().map(ToString::to_string).collect()
}
