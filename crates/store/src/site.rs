//! Keeps what a batch system says of its machine, cluster by cluster.

use std::sync::Arc;

use digest::Site;
use duckdb::types::Value as Sql;
use duckdb::{Connection, ToSql, params};
use record::accounting::TimeLimit;
use record::site::{Association, Description, Node, Partition, SiteData};

use crate::StoreError;
use crate::now;
use crate::people::People;
use crate::sql::{count, limit, text_of, time, tres, word};
use crate::write::Writer;

const TABLES: [&str; 4] = ["site_cluster", "site_partition", "site_node", "site_association"];

impl Writer {
    /// Keeps what is said of a cluster in place of all that was said of it before.
    pub fn keep_site(&mut self, site: &SiteData, now_ns: i64) -> Result<(), StoreError> {
        let transaction = self.connection.transaction()?;
        for table in TABLES {
            let sql = format!("DELETE FROM {table} WHERE cluster IS NOT DISTINCT FROM CAST(? AS VARCHAR)");
            transaction.execute(&sql, [&site.cluster])?;
        }
        let cluster = word(&site.cluster);
        let [clusters, partitions, nodes, associations] = TABLES;
        append(&transaction, clusters, [cluster_row(site, now_ns)])?;
        append(&transaction, partitions, site.partitions.iter().map(|of| partition_row(&cluster, of)))?;
        append(&transaction, nodes, site.nodes.iter().map(|of| node_row(&cluster, of)))?;
        append(&transaction, associations, site.associations.iter().map(|of| association_row(&cluster, of)))?;
        now::renew(&transaction, &self.site)?;
        transaction.commit()?;
        self.people.put(People::load(&self.connection, &self.site)?);
        self.declare_tags()
    }

    /// Keeps a description of a cluster in place of the one before.
    pub fn keep_description(&mut self, of: &Description, now_ns: i64) -> Result<(), StoreError> {
        let transaction = self.connection.transaction()?;
        transaction.execute("DELETE FROM cluster_description WHERE cluster = ?", [&of.cluster])?;
        let sql = "INSERT INTO cluster_description VALUES (?, ?, ?)";
        transaction.execute(sql, params![of.cluster, of.text, now_ns])?;
        Ok(transaction.commit()?)
    }

    /// Tags, people and limits are as the site says now; the rest of what it says counts from the next start on. Nothing changes if its tags make no
    /// sense.
    pub fn change_rules(&mut self, said: &Site) -> Result<(), StoreError> {
        let changed = Site {
            tags: said.tags.clone(),
            own_tags: said.own_tags.clone(),
            searches: said.searches.clone(),
            people: said.people.clone(),
            projects: said.projects.clone(),
            limits: said.limits.clone(),
            ..(*self.site).clone()
        };
        let before = std::mem::replace(&mut self.site, Arc::new(changed));
        if let Err(error) = self.declare_tags() {
            self.site = before;
            return Err(error);
        }
        self.people.put(People::load(&self.connection, &self.site)?);
        Ok(())
    }

    /// The site may say something else than when this was written last.
    pub(crate) fn renew_site(&mut self) -> Result<(), StoreError> {
        let transaction = self.connection.transaction()?;
        now::renew(&transaction, &self.site)?;
        transaction.commit()?;
        self.is_site_stale = false;
        self.people.put(People::load(&self.connection, &self.site)?);
        Ok(())
    }
}

pub(crate) fn append(
    connection: &Connection,
    table: &str,
    rows: impl IntoIterator<Item = Vec<Sql>>,
) -> Result<(), StoreError> {
    let mut appender = connection.appender(table)?;
    for row in rows {
        let row: Vec<&dyn ToSql> = row.iter().map(|value| value as &dyn ToSql).collect();
        appender.append_row(&row[..])?;
    }
    Ok(appender.flush()?)
}

/// A list that is empty was told to be; one that is absent was not told.
fn told_list(list: Option<&Vec<String>>) -> Sql {
    list.map_or(Sql::Null, |list| Sql::Text(list.join(",")))
}

pub(crate) fn is(told: Option<bool>) -> Sql {
    told.map_or(Sql::Null, Sql::Boolean)
}

fn cluster_row(site: &SiteData, now_ns: i64) -> Vec<Sql> {
    let config = site.config.clone().unwrap_or_default();
    vec![
        word(&site.cluster),
        Sql::BigInt(now_ns),
        word(&config.version),
        told_list(config.store_flags.as_ref()),
        word(&config.gather_type),
        told_list(config.task_plugins.as_ref()),
        time(config.min_job_age),
    ]
}

fn partition_row(cluster: &Sql, of: &Partition) -> Vec<Sql> {
    let [max_time, is_unlimited] = limit(of.max_time.filter(|time| *time != TimeLimit::OfPartition));
    vec![
        cluster.clone(),
        Sql::Text(of.name.clone()),
        word(&of.nodes),
        count(of.node_count),
        count(of.cpus),
        time(of.default_time),
        max_time,
        is_unlimited,
        is(of.is_default),
        word(&of.state),
        word(&of.qos),
        told_list(of.allow_accounts.as_ref()),
        tres(&of.tres),
        is(of.is_test),
        is(of.has_gpus),
        is(of.has_local_disk),
    ]
}

fn node_row(cluster: &Sql, of: &Node) -> Vec<Sql> {
    vec![
        cluster.clone(),
        Sql::Text(of.name.clone()),
        word(&of.arch),
        word(&of.os),
        count(of.sockets),
        count(of.cores_per_socket),
        count(of.threads_per_core),
        count(of.cpus),
        count(of.cores),
        count(of.memory),
        count(of.tmp_disk),
        word(&of.gres),
        count(of.gpu_count()),
        text_of(of.features.iter().map(String::as_str)),
        text_of(of.partitions.iter().map(String::as_str)),
        word(&of.state),
        count(of.weight),
        word(&of.version),
        count(of.peak_flops),
    ]
}

fn association_row(cluster: &Sql, of: &Association) -> Vec<Sql> {
    vec![
        cluster.clone(),
        Sql::Text(of.account.clone()),
        word(&of.user),
        word(&of.parent),
        word(&of.partition),
        word(&of.default_qos),
        text_of(of.qos.iter().map(String::as_str)),
        is(of.is_default),
        told_list(of.coordinators.as_ref()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows are appended by the order of the table.
    #[test]
    fn rows_have_the_tables_columns() {
        let connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&connection).unwrap();
        let lengths = [
            cluster_row(&SiteData::default(), 0).len(),
            partition_row(&Sql::Null, &Partition::default()).len(),
            node_row(&Sql::Null, &Node::default()).len(),
            association_row(&Sql::Null, &Association::default()).len(),
        ];
        for (table, length) in TABLES.into_iter().zip(lengths) {
            let sql = format!("SELECT count(*) FROM pragma_table_info('{table}')");
            let columns: usize = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
            assert_eq!(length, columns, "{table}");
        }
    }
}
