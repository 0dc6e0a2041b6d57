//! Jobs that were measured, and of which no batch system has told, have an account that is made of what was measured: they are listed, judged
//! and spoken of as others are. When the batch system tells of one, its account takes the place of ours, and what people said goes with it.

use std::collections::HashMap;

use duckdb::{Connection, params, params_from_iter};

use super::{id_of, may_be_same};
use crate::StoreError;

/// What was measured of a job, as far as an account has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Measured {
    pub cluster: Option<String>,
    pub job: String,
    pub user: Option<String>,
    pub start_ns: i64,
    pub end_ns: Option<i64>,
    pub is_running: bool,
    /// Folded; `None` if the names cannot be those of nodes.
    pub node_list: Option<String>,
    pub nodes: u64,
    pub cores: Option<i64>,
    pub memory: Option<i64>,
    pub gpus: Option<i64>,
}

/// An account of ours that is there.
struct There {
    id: u64,
    job: String,
    cluster: Option<String>,
    start_ns: i64,
    end_ns: Option<i64>,
}

/// What people said of a job is found by its id in these tables.
const SAID: [&str; 5] = ["assignment", "assignment_refused", "note", "opinion", "contact"];

/// Columns of an account of ours that change as more is measured.
const CHANGES: [&str; 11] = [
    "cluster",
    "\"user\"",
    "start_ns",
    "end_ns",
    "elapsed_ns",
    "state",
    "node_list",
    "nodes",
    "cores",
    "memory",
    "gpus",
];

/// Accounts for jobs of which nobody else has told. The caller has a transaction.
pub(crate) fn keep(connection: &Connection, jobs: &[Measured]) -> Result<(), StoreError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = jobs.iter().map(|job| &*job.job).collect();
    let there = there(connection, &names)?;
    connection.execute_batch(
        "CREATE TEMP TABLE IF NOT EXISTS own_account AS SELECT * FROM (SELECT id, job, cluster, \"user\", start_ns, end_ns, elapsed_ns, state, \
           node_list, nodes, cores, memory, gpus, is_only_measured AS is_new FROM accounting) LIMIT 0; DELETE FROM own_account;",
    )?;
    let mut table = connection.appender_to_catalog_and_db("own_account", "temp", "main")?;
    for job in jobs {
        let Measured { cluster, job: name, user, start_ns, end_ns, node_list, nodes, .. } = job;
        let before = there.iter().find(|there| there.is(job));
        let start = u64::try_from(*start_ns).ok();
        let id = before.map_or_else(|| id_of(cluster.as_deref(), name, start), |before| before.id);
        let elapsed = end_ns.map(|end| end - start_ns);
        let state = job.is_running.then_some("RUNNING");
        let [cores, memory, gpus] =
            [job.cores, job.memory, job.gpus].map(|count| count.and_then(|count| u64::try_from(count).ok()));
        table.append_row(params![
            id,
            name,
            cluster,
            user,
            start_ns,
            end_ns,
            elapsed,
            state,
            node_list,
            nodes,
            cores,
            memory,
            gpus,
            before.is_none()
        ])?;
    }
    table.flush()?;
    drop(table);
    let changes = CHANGES.map(|column| format!("{column} = o.{column}")).join(", ");
    let columns = CHANGES.join(", ");
    connection.execute_batch(&format!(
        "UPDATE accounting SET {changes} FROM own_account o WHERE accounting.is_only_measured AND accounting.id = o.id AND NOT o.is_new; \
         INSERT INTO accounting BY NAME SELECT id, job, job AS shown, true AS is_only_measured, {columns} FROM own_account WHERE is_new"
    ))?;
    Ok(())
}

impl There {
    /// A number that is given again is another job's.
    fn is(&self, job: &Measured) -> bool {
        self.job == job.job
            && may_be_same(self.cluster.as_deref(), job.cluster.as_deref())
            && self.start_ns <= job.end_ns.unwrap_or(i64::MAX)
            && self.end_ns.unwrap_or(i64::MAX) >= job.start_ns
    }
}

/// Accounts of ours with one of these names, or all.
fn there(connection: &Connection, names: &[&str]) -> Result<Vec<There>, StoreError> {
    let of_names = match names {
        [] => String::new(),
        names => format!(" AND job IN ({})", vec!["?"; names.len()].join(", ")),
    };
    let sql =
        format!("SELECT id, job, cluster, start_ns, end_ns FROM accounting WHERE is_only_measured{of_names}");
    let mut query = connection.prepare(&sql)?;
    let rows = query.query_map(params_from_iter(names), |row| {
        Ok(There {
            id: row.get(0)?,
            job: row.get(1)?,
            cluster: row.get(2)?,
            start_ns: row.get(3)?,
            end_ns: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Whether there are accounts of ours.
pub(super) fn are_there(connection: &Connection) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM accounting WHERE is_only_measured)";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

/// Says of jobs whose rows stay how far they are.
pub(crate) fn change_state(
    connection: &Connection,
    cluster: Option<&str>,
    job: &str,
    end_ns: Option<i64>,
    is_running: bool,
) -> Result<(), StoreError> {
    let state = is_running.then_some("RUNNING");
    connection.execute(
        "UPDATE accounting SET state = ?, end_ns = ?, elapsed_ns = ? - start_ns \
         WHERE is_only_measured AND job = ? AND cluster IS NOT DISTINCT FROM CAST(? AS VARCHAR)",
        params![state, end_ns, end_ns, job, cluster],
    )?;
    Ok(())
}

/// The accounts that a batch system has just given take the places of ours; says whether any of ours are left. The caller has a transaction.
pub(super) fn give_way(
    connection: &Connection,
    names: &[(String, Option<String>)],
) -> Result<bool, StoreError> {
    let told: HashMap<&str, Option<&str>> =
        names.iter().map(|(name, cluster)| (&**name, cluster.as_deref())).collect();
    let (mut found, mut is_left) = (Vec::new(), false);
    for there in there(connection, &[])? {
        let cluster = there.cluster.as_deref();
        match told.get(&*there.job).is_some_and(|told| may_be_same(*told, cluster)) {
            true => found.push(there.id.to_string()),
            false => is_left = true,
        }
    }
    if found.is_empty() {
        return Ok(is_left);
    }
    let found = found.join(", ");
    // Of several with its number, the one that ran at its time, or the last.
    connection.execute_batch(&format!(
        "CREATE OR REPLACE TEMP TABLE given_way AS SELECT m.id AS own, c.id AS told \
           FROM (SELECT * FROM accounting WHERE is_only_measured AND id IN ({found})) m \
           JOIN (SELECT * FROM accounting WHERE is_only_measured IS NOT TRUE) c ON c.job = m.job \
             AND (c.cluster = m.cluster OR c.cluster IS NULL OR m.cluster IS NULL) \
           QUALIFY row_number() OVER (PARTITION BY m.id ORDER BY \
             coalesce(c.start_ns <= coalesce(m.end_ns, 9223372036854775807) AND coalesce(c.end_ns, 9223372036854775807) >= m.start_ns, false) DESC, \
             c.submit_ns DESC NULLS LAST) = 1; \
         DELETE FROM accounting WHERE is_only_measured AND id IN (SELECT own FROM given_way)"
    ))?;
    for table in SAID {
        connection.execute_batch(&format!(
            "UPDATE {table} SET id = g.told FROM given_way g WHERE {table}.id = g.own"
        ))?;
    }
    Ok(is_left)
}
