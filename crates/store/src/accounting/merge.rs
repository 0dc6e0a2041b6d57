//! A job of which several records tell is one job: its batch system tells of it, a monitoring system has its own record of it
//! (ClusterCockpit), or somebody kept a text that leaves out when it was submitted. What one of them does not say, the other fills in.
//!
//! Records with the same cluster, number and submission are of one job. One that lacks its submission, or the name of its cluster, gives
//! way to one that has it, if number and start are the same, and what people said of it, and what was measured, goes with it.

use std::collections::HashMap;

use duckdb::{Connection, params};
use serde_json::{Map, Value};

use super::measured::{SLACK_NS, move_said};
use super::{Accounted, INCOMING, TABLES, accounts::Accounts, create_incoming, replace, rows};
use crate::StoreError;
use crate::tags::{Declared, ids_due};

/// In the column `source`; a batch system's record has none.
pub(crate) const MONITORING: &str = "monitoring";
const BOTH: &str = "both";

/// How it went belongs together: if only one record knows the end, all of this is taken from it.
const COURSE: [&str; 4] = ["state", "also", "end_ns", "elapsed_ns"];

/// What has a rule of its own where two records are put together. A batch system that does not count GPUs tells of none.
const OWN_RULE: [&str; 4] = ["id", "source", "others", "gpus"];

/// Whether the row that is told, `i`, and the one that is there, `a`, are of different sources.
pub(super) const CROSSES: &str = "(i.source IS NOT NULL AND a.source IS DISTINCT FROM 'monitoring' \
    OR i.source IS NULL AND a.source IS NOT NULL)";

/// Of those that cross, whether the row that is there is believed rather than the one that is told.
const STORED_FIRST: &str = "i.source IS NOT NULL";

/// Whether there are records that another may complete.
pub(super) fn are_there(connection: &Connection) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM accounting WHERE source IS NOT NULL \
               OR submit_ns IS NULL AND is_only_measured IS NOT TRUE)";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

/// Fills what is told, in the tables of what comes in, with what is known from another source, and the other way round.
pub(super) fn fill(connection: &Connection, there: &str) -> Result<(), StoreError> {
    connection.execute_batch(&format!(
        "CREATE OR REPLACE TEMP TABLE crossing AS SELECT i.id, {STORED_FIRST} AS stored_first FROM incoming_job i \
           JOIN (SELECT * FROM accounting WHERE {there}) a ON a.id = i.id WHERE {CROSSES}"
    ))?;
    complete(connection, there)
}

/// The same for rows of which it is known who crosses whom.
fn complete(connection: &Connection, there: &str) -> Result<(), StoreError> {
    let count: u64 = connection.query_row("SELECT count(*) FROM crossing", [], |row| row.get(0))?;
    join_others(connection, there)?;
    if count == 0 {
        return Ok(());
    }
    for (stored_first, [first, second]) in
        [("x.stored_first", ["a", "i"]), ("NOT x.stored_first", ["i", "a"])]
    {
        let told = told_columns()?;
        let columns = told.iter().filter(|column| !OWN_RULE.contains(&&***column)).map(|column| {
            let (one, other) = (format!("{first}.\"{column}\""), format!("{second}.\"{column}\""));
            let value = format!("coalesce({one}, {other})");
            match COURSE.contains(&&**column) {
                false => format!("\"{column}\" = {value}"),
                true => format!(
                    "\"{column}\" = CASE WHEN ({first}.end_ns IS NULL) = ({second}.end_ns IS NULL) THEN {value} \
                     WHEN {first}.end_ns IS NULL THEN {other} ELSE {one} END"
                ),
            }
        });
        let columns: Vec<String> = columns.collect();
        connection.execute_batch(&format!(
            "UPDATE incoming_job i SET {}, \
               gpus = coalesce(nullif({first}.gpus, 0), {second}.gpus, {first}.gpus), \
               source = CASE WHEN i.source IS DISTINCT FROM a.source THEN '{BOTH}' ELSE i.source END \
             FROM (SELECT * FROM accounting WHERE {there}) a, crossing x WHERE a.id = i.id AND x.id = i.id AND {stored_first}; \
             UPDATE incoming_node i SET cpus = coalesce({first}.cpus, {second}.cpus), gpus = coalesce({first}.gpus, {second}.gpus), \
               memory = coalesce({first}.memory, {second}.memory) \
             FROM accounting_node a, crossing x WHERE a.id = i.id AND a.host = i.host AND x.id = i.id AND {stored_first}",
            columns.join(", ")
        ))?;
    }
    // The rows of nodes that are told take the place of all that are there.
    connection.execute_batch(
        "INSERT INTO incoming_node SELECT a.* FROM accounting_node a WHERE a.id IN (SELECT id FROM crossing) \
           AND a.id IN (SELECT id FROM incoming_node) \
           AND NOT EXISTS (SELECT 1 FROM incoming_node i WHERE i.id = a.id AND i.host = a.host)",
    )?;
    Ok(())
}

/// All that a record tells: neither what was decided of the job, nor what people said.
fn told_columns() -> Result<Vec<String>, StoreError> {
    let made = rows::jobs(&[]).map_err(|_| StoreError::Damaged("jobs have columns of several lengths"))?;
    Ok(made.schema().fields().iter().map(|field| field.name().clone()).collect())
}

/// What each source said besides is kept key by key; what is told last counts.
fn join_others(connection: &Connection, there: &str) -> Result<(), StoreError> {
    let any: bool =
        connection.query_row("SELECT count(others) > 0 FROM incoming_job", [], |row| row.get(0))?;
    if !any {
        return Ok(());
    }
    let sql = format!(
        "SELECT i.id, a.others, i.others FROM incoming_job i JOIN (SELECT * FROM accounting WHERE {there}) a ON a.id = i.id \
         WHERE i.others <> a.others"
    );
    let mut query = connection.prepare(&sql)?;
    let rows: Vec<(u64, String, String)> =
        query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect::<Result<_, _>>()?;
    if rows.is_empty() {
        return Ok(());
    }
    connection.execute_batch("CREATE OR REPLACE TEMP TABLE joined_others (id UBIGINT, others VARCHAR)")?;
    let mut table = connection.appender_to_catalog_and_db("joined_others", "temp", "main")?;
    for (id, known, told) in rows {
        let object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
        let mut all = object(&known);
        all.extend(object(&told));
        table.append_row(params![id, Value::Object(all).to_string()])?;
    }
    table.flush()?;
    connection.execute_batch(
        "UPDATE incoming_job SET others = o.others FROM joined_others o WHERE o.id = incoming_job.id",
    )?;
    Ok(())
}

/// Which record gives way to which: `m` to `c`. Agents and batch systems do not agree to the second on when a job began.
fn pairs() -> String {
    format!(
        "CREATE OR REPLACE TEMP TABLE given_way AS \
         WITH t AS (SELECT id, coalesce(job, shown) AS number, cluster, \"user\", submit_ns, start_ns, source IS NOT NULL AS is_beside, \
             source IS DISTINCT FROM '{MONITORING}' AS is_told FROM accounting \
           WHERE is_only_measured IS NOT TRUE AND coalesce(job, shown) IN (SELECT name FROM told_name)), \
         p AS (SELECT m.id AS own, c.id AS told, NOT m.is_told OR c.is_told AS told_first, abs(c.start_ns - m.start_ns) AS apart, c.submit_ns \
           FROM t m JOIN t c ON m.number = c.number AND m.id <> c.id \
             AND (c.cluster = m.cluster OR c.cluster IS NULL OR m.cluster IS NULL) \
             AND (c.\"user\" = m.\"user\" OR c.\"user\" IS NULL OR m.\"user\" IS NULL) \
             AND CASE WHEN m.submit_ns IS NULL THEN abs(c.start_ns - m.start_ns) <= {SLACK_NS} \
                   AND (c.submit_ns IS NOT NULL OR NOT m.is_told AND c.is_told) \
                 ELSE m.submit_ns = c.submit_ns AND m.cluster IS NULL AND c.cluster IS NOT NULL AND (m.is_beside OR c.is_beside) END) \
         SELECT own, told, told_first FROM (SELECT * FROM p WHERE told NOT IN (SELECT own FROM p) \
           QUALIFY row_number() OVER (PARTITION BY own ORDER BY apart, submit_ns DESC) = 1) \
         QUALIFY row_number() OVER (PARTITION BY told ORDER BY own) = 1"
    )
}

/// Puts together what was just told with what is known, where one of the two is not whole; gives the jobs of which more is known now and
/// how many records are gone. The caller has a transaction.
pub(super) fn unite(
    connection: &Connection,
    accounts: &Accounts,
    declared: &Declared,
) -> Result<(Vec<u64>, u64), StoreError> {
    let (mut jobs, mut gone) = (Vec::new(), 0);
    if !may_unite(connection, accounts)? {
        return Ok((jobs, gone));
    }
    loop {
        connection.execute_batch(&pairs())?;
        let mut query = connection.prepare("SELECT told FROM given_way")?;
        let told: Vec<u64> = query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        if told.is_empty() {
            return Ok((jobs, gone));
        }
        gone += told.len() as u64;
        unite_pairs(connection, declared, &told)?;
        jobs.extend(told);
    }
}

/// Whether one with the number of a job that was told lacks something.
fn may_unite(connection: &Connection, accounts: &Accounts) -> Result<bool, StoreError> {
    connection.execute_batch("CREATE OR REPLACE TEMP TABLE told_name (name VARCHAR)")?;
    let mut table = connection.appender_to_catalog_and_db("told_name", "temp", "main")?;
    accounts.names.iter().try_for_each(|(name, _)| table.append_row([name]))?;
    table.flush()?;
    drop(table);
    let sql = "SELECT EXISTS (SELECT 1 FROM accounting WHERE (submit_ns IS NULL OR source IS NOT NULL) \
               AND is_only_measured IS NOT TRUE AND coalesce(job, shown) IN (SELECT name FROM told_name))";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

fn unite_pairs(connection: &Connection, declared: &Declared, told: &[u64]) -> Result<(), StoreError> {
    // What gives way comes in once more, under the other name.
    create_incoming(connection)?;
    let told_columns: Vec<String> = told_columns()?
        .iter()
        .filter(|column| *column != "id")
        .map(|column| format!("m.\"{column}\""))
        .collect();
    let told_columns = format!("g.told AS id, {}", told_columns.join(", "));
    let whole = "m.* REPLACE (g.told AS id)";
    for ((table, incoming), columns) in TABLES.into_iter().zip(INCOMING).zip([&*told_columns, whole, whole]) {
        connection.execute_batch(&format!(
            "INSERT INTO {incoming} BY NAME SELECT {columns} FROM {table} m JOIN given_way g ON m.id = g.own; \
             DELETE FROM {table} WHERE id IN (SELECT own FROM given_way)"
        ))?;
    }
    let there = "id IN (SELECT told FROM given_way)";
    connection.execute_batch(
        "DELETE FROM incoming_step WHERE id IN (SELECT id FROM accounting_step); \
         CREATE OR REPLACE TEMP TABLE crossing AS SELECT told AS id, told_first AS stored_first FROM given_way",
    )?;
    complete(connection, there)?;
    replace(connection, there)?;
    move_measures(connection)?;
    connection.execute_batch(
        "UPDATE account_moved SET told = g.told FROM given_way g WHERE account_moved.told = g.own; \
         INSERT INTO account_moved SELECT own, told FROM given_way g \
           WHERE NOT EXISTS (SELECT 1 FROM account_moved m WHERE m.own = g.own AND m.told = g.told); \
         DELETE FROM tag_due WHERE id IN (SELECT own FROM given_way)",
    )?;
    move_said(connection, declared)?;
    ids_due(connection, &told.iter().map(u64::to_string).collect::<Vec<_>>())
}

/// What was measured of a record is of the job that it is now; what is known of that already stays.
fn move_measures(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch(
        "DELETE FROM measure USING given_way g WHERE measure.job = g.own AND EXISTS (SELECT 1 FROM measure t WHERE t.job = g.told \
           AND t.metric = measure.metric AND t.host = measure.host AND t.part IS NOT DISTINCT FROM measure.part); \
         UPDATE measure SET job = g.told FROM given_way g WHERE measure.job = g.own; \
         DELETE FROM job_measure USING given_way g WHERE job_measure.id = g.own AND EXISTS (SELECT 1 FROM job_measure t \
           WHERE t.id = g.told AND t.metric = job_measure.metric AND t.is_ours = job_measure.is_ours AND t.is_told = job_measure.is_told); \
         UPDATE job_measure SET id = g.told FROM given_way g WHERE job_measure.id = g.own",
    )?;
    Ok(())
}

/// Records that have given way, of these, with the jobs that they are now.
pub(crate) fn moved(connection: &Connection, ids: &[u64]) -> Result<HashMap<u64, u64>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let list = ids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let mut query =
        connection.prepare(&format!("SELECT own, told FROM account_moved WHERE own IN ({list})"))?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

impl Accounted {
    /// So many of the records turned out to be of jobs that were known, or became so.
    pub(super) fn with_gone(self, gone: u64) -> Accounted {
        Accounted { new: self.new.saturating_sub(gone), replaced: self.replaced + gone.min(self.new), ..self }
    }
}
