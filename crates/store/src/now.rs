//! Partitions and nodes as a site has them: what its batch system told, with what the site says over it. They stand in tables of
//! their own, so that a question about jobs can have them beside each other.

use digest::Site;
use duckdb::types::Value as Sql;
use duckdb::{Connection, Row};
use record::entry::Nanos;
use record::site::{Node, Partition, SiteData};

use crate::StoreError;
use crate::site::{append, is};
use crate::sql::{count, time, word};

/// Makes the tables anew. The caller has a transaction.
pub(crate) fn renew(connection: &Connection, site: &Site) -> Result<(), StoreError> {
    let (clusters, mut data) = load(connection)?;
    // Whoever does not match was told of when the site was asked for.
    let _ = site.overrides.apply(&mut data);
    complete(&mut data.partitions);
    connection.execute_batch("DELETE FROM partition_now; DELETE FROM node_now")?;
    let partitions = clusters.of_partitions.iter().zip(&data.partitions);
    append(connection, "partition_now", partitions.map(|(cluster, of)| partition_row(cluster, of)))?;
    let nodes = clusters.of_nodes.iter().zip(&data.nodes);
    append(connection, "node_now", nodes.map(|(cluster, of)| node_row(cluster, of)))
}

/// Whose each of them is, in their order.
struct Clusters {
    of_partitions: Vec<Option<String>>,
    of_nodes: Vec<Option<String>>,
}

/// That a partition has GPUs, or disks, is known from its nodes as well. One that was told twice is there once: a job in it would
/// be there twice otherwise.
const PARTITIONS: &str = "SELECT DISTINCT ON (p.cluster, p.name) p.cluster, p.name, p.is_test, coalesce(p.has_gpus, n.has_gpus), \
        coalesce(p.has_local_disk, n.has_disk), p.default_time_ns \
    FROM site_partition p LEFT JOIN ( \
        SELECT cluster, partition, bool_or(gpus > 0) AS has_gpus, nullif(bool_or(tmp_disk > 0), false) AS has_disk \
        FROM (SELECT cluster, unnest(string_split(partitions, ',')) AS partition, gpus, tmp_disk FROM site_node) \
        GROUP BY cluster, partition \
    ) n ON n.partition = p.name AND n.cluster IS NOT DISTINCT FROM p.cluster";
const NODES: &str = "SELECT DISTINCT ON (cluster, name) cluster, name, cores, peak_flops FROM site_node";

fn load(connection: &Connection) -> Result<(Clusters, SiteData), StoreError> {
    let partitions = rows(connection, PARTITIONS, |row| {
        let default_time: Option<i64> = row.get(5)?;
        Ok(Partition {
            name: row.get(1)?,
            is_test: row.get(2)?,
            has_gpus: row.get(3)?,
            has_local_disk: row.get(4)?,
            default_time: default_time.and_then(|time| Nanos::try_from(time).ok()),
            ..Partition::default()
        })
    })?;
    let nodes = rows(connection, NODES, |row| {
        Ok(Node { name: row.get(1)?, cores: row.get(2)?, peak_flops: row.get(3)?, ..Node::default() })
    })?;
    let (of_partitions, partitions) = partitions.into_iter().unzip();
    let (of_nodes, nodes) = nodes.into_iter().unzip();
    Ok((Clusters { of_partitions, of_nodes }, SiteData { partitions, nodes, ..SiteData::default() }))
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
    vec![word(cluster), Sql::Text(of.name.clone()), count(of.cores), count(of.peak_flops)]
}
