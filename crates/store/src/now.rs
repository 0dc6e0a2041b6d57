//! Partitions and nodes as a site has them: what `site.toml` says, else what the batch system reported, else what an agent measured. They
//! stand in tables of their own, so that a question about jobs can join them.
//!
//! A partition or node that no batch system reported is there as well if a job names it, for each cluster that has jobs: `site.toml` knows
//! no clusters.

use digest::Site;
use duckdb::types::Value as Sql;
use duckdb::{Connection, Row};
use record::entry::Nanos;
use record::site::{Gpus, Node, Partition, SiteData};

use crate::StoreError;
use crate::accounting::implicit;
use crate::site::{append, is};
use crate::sql::{count, time, word};
use crate::write::Writer;

impl Writer {
    /// Makes the tables anew if jobs have named partitions or nodes since, or an agent has measured a node.
    pub(crate) fn renew_stale_site(&mut self) -> Result<(), StoreError> {
        if self.is_site_stale { self.renew_site() } else { Ok(()) }
    }
}

/// Makes the tables anew. The caller has a transaction.
pub(crate) fn renew(connection: &Connection, site: &Site) -> Result<(), StoreError> {
    let mut partitions = rows(connection, PARTITIONS, partition)?;
    if !site.overrides.partitions.is_empty() {
        partitions.extend(rows(connection, NAMED_PARTITIONS, partition)?);
    }
    let mut nodes = rows(connection, NODES, node)?;
    nodes.extend(rows(connection, NAMED_NODES, node)?);
    let (of_partitions, partitions): (Vec<_>, Vec<_>) = partitions.into_iter().unzip();
    let of_nodes: Vec<_> = nodes.iter().map(|(cluster, (_, threads))| (cluster.clone(), *threads)).collect();
    let nodes = nodes.into_iter().map(|(_, (node, _))| node).collect();
    let mut data = SiteData { partitions, nodes, ..SiteData::default() };
    // What matches nothing is reported where the site is shown.
    let _ = site.overrides.apply(&mut data);
    complete(&mut data.partitions);
    for (node, (_, threads)) in data.nodes.iter_mut().zip(&of_nodes) {
        node.cpus = node.cpus.or_else(|| threads.on(node.cores));
    }
    connection.execute_batch("DELETE FROM partition_now; DELETE FROM node_now")?;
    let partitions = of_partitions.iter().zip(&data.partitions);
    append(connection, "partition_now", partitions.map(|(cluster, of)| partition_row(cluster, of)))?;
    let nodes = of_nodes.iter().zip(&data.nodes).filter(|(_, of)| is_anything_known(of));
    append(connection, "node_now", nodes.map(|((cluster, _), of)| node_row(cluster, of)))?;
    implicit::allocate(connection)
}

/// That a partition has GPUs, or disks, is known from its nodes as well. One that was reported twice is there once: a job in it would
/// be there twice otherwise.
const PARTITIONS: &str = "SELECT DISTINCT ON (p.cluster, p.name) p.cluster, p.name, p.is_test, coalesce(p.has_gpus, n.has_gpus), \
        coalesce(p.has_local_disk, n.has_disk), p.default_time_ns \
    FROM site_partition p LEFT JOIN ( \
        SELECT cluster, partition, bool_or(gpus > 0) AS has_gpus, nullif(bool_or(tmp_disk > 0), false) AS has_disk \
        FROM (SELECT cluster, unnest(string_split(partitions, ',')) AS partition, gpus, tmp_disk FROM site_node) \
        GROUP BY cluster, partition \
    ) n ON n.partition = p.name AND n.cluster IS NOT DISTINCT FROM p.cluster";
/// Partitions that only jobs name.
const NAMED_PARTITIONS: &str = "SELECT DISTINCT a.cluster, a.partition, NULL::BOOLEAN, NULL::BOOLEAN, NULL::BOOLEAN, NULL::BIGINT \
    FROM accounting a WHERE a.partition IS NOT NULL AND NOT EXISTS ( \
        SELECT 1 FROM site_partition p WHERE p.name = a.partition AND p.cluster IS NOT DISTINCT FROM a.cluster)";

/// What agents measured of nodes last.
macro_rules! measured {
    () => {
        "(SELECT host, cores, threads, memory, peak_flops, len(string_split(cards, '; '))::UBIGINT AS gpus FROM node_hardware \
          QUALIFY row_number() OVER (PARTITION BY host ORDER BY time_ns DESC) = 1)"
    };
}
const NODES: &str = concat!(
    "SELECT DISTINCT ON (s.cluster, s.name) s.cluster, s.name, coalesce(s.cores, h.cores), s.cpus, \
        coalesce(s.memory, h.memory), coalesce(s.peak_flops, h.peak_flops), coalesce(s.gpus, h.gpus), h.threads, h.cores \
     FROM site_node s LEFT JOIN ",
    measured!(),
    " h ON h.host = s.name"
);
/// Nodes that only jobs name.
const NAMED_NODES: &str = concat!(
    "SELECT k.cluster, l.host, h.cores, NULL::UBIGINT, h.memory, h.peak_flops, h.gpus, h.threads, h.cores \
     FROM (SELECT DISTINCT host FROM node_list) l CROSS JOIN (SELECT DISTINCT cluster FROM accounting) k LEFT JOIN ",
    measured!(),
    " h ON h.host = l.host \
     WHERE NOT EXISTS (SELECT 1 FROM site_node s WHERE s.name = l.host AND s.cluster IS NOT DISTINCT FROM k.cluster)"
);

fn partition(row: &Row) -> duckdb::Result<Partition> {
    let default_time: Option<i64> = row.get(5)?;
    Ok(Partition {
        name: row.get(1)?,
        is_test: row.get(2)?,
        has_gpus: row.get(3)?,
        has_local_disk: row.get(4)?,
        default_time: default_time.and_then(|time| Nanos::try_from(time).ok()),
        ..Partition::default()
    })
}

fn node(row: &Row) -> duckdb::Result<(Node, Threads)> {
    let gpus: Option<u64> = row.get(6)?;
    let threads = Threads { count: row.get(7)?, of_cores: row.get(8)? };
    let node = Node {
        name: row.get(1)?,
        cores: row.get(2)?,
        cpus: row.get(3)?,
        memory: row.get(4)?,
        peak_flops: row.get(5)?,
        gpus: gpus.map(|count| Gpus { model: None, count }).into_iter().collect(),
        ..Node::default()
    };
    Ok((node, threads))
}

/// The hardware threads that an agent found on a node, and on how many cores.
#[derive(Debug, Clone, Copy)]
struct Threads {
    count: Option<u64>,
    of_cores: Option<u64>,
}

impl Threads {
    /// As many for each core, where the site says that there are more cores or less. Where nobody counts threads, processors are cores.
    fn on(self, cores: Option<u64>) -> Option<u64> {
        let Some((count, cores)) = self.count.zip(cores) else { return self.count.or(cores) };
        let of_cores = self.of_cores.filter(|of| *of > 0).unwrap_or(cores);
        Some(if of_cores == cores { count } else { count.saturating_mul(cores) / of_cores })
    }
}

fn is_anything_known(node: &Node) -> bool {
    [node.cores, node.cpus, node.memory, node.peak_flops, node.gpu_count()].iter().any(Option::is_some)
}

/// Things with the cluster that they are of.
type Of<T> = Vec<(Option<String>, T)>;

fn rows<T>(
    connection: &Connection,
    sql: &str,
    make: impl Fn(&Row) -> duckdb::Result<T>,
) -> Result<Of<T>, StoreError> {
    let mut query = connection.prepare(sql)?;
    let found = query.query_map([], |row| Ok((row.get(0)?, make(row)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// A site that names one of its partitions for tests has named them all; so it is with those of high priority.
fn complete(partitions: &mut [Partition]) {
    let of: [fn(&mut Partition) -> &mut Option<bool>; 2] =
        [|of| &mut of.is_test, |of| &mut of.is_high_priority];
    for of in of {
        if partitions.iter_mut().any(|partition| *of(partition) == Some(true)) {
            partitions.iter_mut().for_each(|partition| {
                of(partition).get_or_insert(false);
            });
        }
    }
}

fn partition_row(cluster: &Option<String>, of: &Partition) -> Vec<Sql> {
    vec![
        word(cluster),
        Sql::Text(of.name.clone()),
        is(of.is_test),
        is(of.has_gpus),
        is(of.has_local_disk),
        is(of.is_high_priority),
        time(of.default_time),
    ]
}

fn node_row(cluster: &Option<String>, of: &Node) -> Vec<Sql> {
    vec![
        word(cluster),
        Sql::Text(of.name.clone()),
        count(of.cores),
        count(of.cpus),
        count(of.memory),
        count(of.peak_flops),
        count(of.gpu_count()),
    ]
}
