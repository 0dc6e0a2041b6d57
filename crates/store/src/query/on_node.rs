//! The readings of jobs, sorted by node: those that are there, and what is left of those that were made coarse.

use std::collections::BTreeMap;

use digest::on_node::{OnNode, Taken, Value};
use digest::series::{Steady, Told};
use digest::threshold::Reserved;
use duckdb::Row;
use duckdb::types::Value as Sql;
use record::metric::{Kind, Metric};

use super::{Conditions, Filter, Snapshot};
use crate::StoreError;

/// A table with readings of jobs, or with what was made of them.
pub(super) struct Table {
    pub name: &'static str,
    /// What follows [`LEAD`].
    lead: &'static str,
    /// In which order they were made.
    order: &'static str,
    is_coarse: bool,
}

/// What is coarse was made first.
pub(super) const TABLES: [Table; 2] = [
    Table {
        name: "job_coarse",
        lead: "from_ns, held_ns, readings, CAST(NULL AS UBIGINT), CAST(NULL AS BIGINT)",
        order: "time_ns",
        is_coarse: true,
    },
    Table {
        name: "job_sample",
        lead: "time_ns, CAST(0 AS BIGINT), CAST(1 AS UINTEGER), boot, since_boot_ns",
        order: "stream, number",
        is_coarse: false,
    },
];

/// The columns before those of the metrics.
const LEAD: &str = "coalesce(job, session), host, node, time_ns, start_ns, end_ns, every_ns, reserved_cpus, reserved_memory, \
                    reserved_gpus, is_shared, \"user\", cluster, uid";
const LEAD_COLUMNS: usize = 19;

/// Jobs and sessions by their names.
pub(super) type Sorted = BTreeMap<String, BTreeMap<Place, OnNode>>;

/// Nodes in the order of their names; those without a name come last.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    has_no_name: bool,
    node: Option<String>,
    host: String,
}

impl Snapshot<'_> {
    /// The nodes of a job, by name.
    pub(super) fn on_nodes(
        &self,
        filter: &Filter,
        metrics: &[&'static Metric],
    ) -> Result<Vec<OnNode>, StoreError> {
        let Some(job) = &filter.job else { return Ok(Vec::new()) };
        let mut sorted = Sorted::new();
        for table in &TABLES {
            let (column, first, last) = self.find_job(table.name, job)?;
            let mut conditions = Conditions::default();
            let values = [Sql::BigInt(first), Sql::BigInt(last), Sql::Text(job.clone())];
            conditions.add(&format!("rowid BETWEEN ? AND ? AND {column} = ?"), values);
            if let Some(cluster) = &filter.cluster {
                conditions.add("cluster = ?", [Sql::Text(cluster.clone())]);
            }
            if let Some(host) = &filter.host {
                conditions.add("(host = ? OR node = ?)", [Sql::Text(host.clone()), Sql::Text(host.clone())]);
            }
            self.take_in(table, &conditions, metrics, &mut sorted)?;
        }
        Ok(finished(sorted).flat_map(|(_, nodes)| nodes).collect())
    }

    /// Takes in the rows of a table, after those of the tables before it.
    pub(super) fn take_in(
        &self,
        table: &Table,
        conditions: &Conditions,
        metrics: &[&'static Metric],
        sorted: &mut Sorted,
    ) -> Result<(), StoreError> {
        let Table { name, lead, order, is_coarse } = *table;
        let columns: String =
            metrics.iter().map(|metric| format!(", {}", columns(metric, is_coarse))).collect();
        let sql = format!("SELECT {LEAD}, {lead}{columns} FROM {name} {} ORDER BY {order}", conditions.sql());
        self.rows(&sql, &conditions.values, |row| {
            let job: Option<String> = row.get(0)?;
            let (host, node): (String, Option<String>) = (row.get(1)?, row.get(2)?);
            let place = Place { has_no_name: node.is_none(), node: node.clone(), host: host.clone() };
            let nodes = sorted.entry(job.unwrap_or_default()).or_default();
            let on = nodes.entry(place).or_insert_with(|| OnNode::new(host, node, metrics.len()));
            on.take(taken(row, metrics, is_coarse)?);
            Ok(())
        })?;
        Ok(())
    }
}

/// The nodes of each job, once all tables are taken in.
pub(super) fn finished(sorted: Sorted) -> impl Iterator<Item = (String, Vec<OnNode>)> {
    sorted.into_iter().map(|(job, nodes)| {
        let mut nodes: Vec<OnNode> = nodes.into_values().collect();
        nodes.iter_mut().for_each(OnNode::set_the_clock);
        (job, nodes)
    })
}

/// A metric's columns of a table.
fn columns(metric: &Metric, is_coarse: bool) -> String {
    match (metric.kind, is_coarse) {
        (Kind::Gauge, true) => {
            ["", "_min", "_max"].map(|end| format!("CAST({}{end} AS DOUBLE)", metric.name)).join(", ")
        }
        _ => metric.name.to_owned(),
    }
}

fn taken(row: &Row, metrics: &[&'static Metric], is_coarse: bool) -> duckdb::Result<Taken> {
    let mut values = Vec::with_capacity(metrics.len());
    let mut at = LEAD_COLUMNS;
    for metric in metrics {
        if is_coarse && metric.kind == Kind::Gauge {
            values.push(Value::Over(row.get(at)?, row.get(at + 1)?, row.get(at + 2)?));
            at += 3;
        } else {
            values.push(Value::Read(row.get(at)?));
            at += 1;
        }
    }
    let boot: Option<u64> = row.get(17)?;
    let steady = boot.zip(row.get(18)?).map(|(boot, since)| Steady { boot, since });
    Ok(Taken {
        told: Told { time: row.get(3)?, start: row.get(4)?, end: row.get(5)?, every: row.get(6)?, steady },
        reserved: Reserved {
            cpus: row.get::<_, Option<u32>>(7)?.map(i64::from),
            memory: row.get(8)?,
            gpus: row.get::<_, Option<u32>>(9)?.map(i64::from),
        },
        is_shared: row.get(10)?,
        user: row.get(11)?,
        cluster: row.get(12)?,
        uid: row.get(13)?,
        from: row.get(14)?,
        held: row.get(15)?,
        readings: row.get(16)?,
        is_coarse,
        values,
    })
}
