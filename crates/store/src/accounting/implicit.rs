//! What a session has without having asked for it: the whole machine, as the site says, its batch system or its agent.

use duckdb::Connection;

use crate::StoreError;

/// Gives all sessions what their nodes have of which nothing was known: an agent says once a day what its node is made of. The caller has
/// a transaction.
pub(crate) fn allocate(connection: &Connection) -> Result<(), StoreError> {
    allocate_where(connection, "(cores IS NULL OR memory IS NULL)")
}

/// The same, for those whose accounts were just written.
pub(crate) fn allocate_kept(connection: &Connection) -> Result<(), StoreError> {
    allocate_where(connection, "id IN (SELECT id FROM own_account)")
}

/// They are to be judged again. What was known stays: a node may be made of something else later.
fn allocate_where(connection: &Connection, which: &str) -> Result<(), StoreError> {
    connection.execute_batch(&format!(
        "CREATE OR REPLACE TEMP TABLE allocated AS \
           SELECT a.id, coalesce(a.cores, n.cpus) AS cores, coalesce(a.memory, n.memory) AS memory, coalesce(a.gpus, n.gpus) AS gpus \
           FROM (SELECT id, cluster, node_list, cores, memory, gpus FROM accounting WHERE kind = 1 AND {which}) a \
           JOIN node_list l ON l.list = a.node_list \
           JOIN node_now n ON n.name = l.host AND n.cluster IS NOT DISTINCT FROM a.cluster \
           WHERE a.cores IS NULL AND n.cpus IS NOT NULL OR a.memory IS NULL AND n.memory IS NOT NULL \
             OR a.gpus IS NULL AND n.gpus IS NOT NULL"
    ))?;
    let found: u64 = connection.query_row("SELECT count(*) FROM allocated", [], |row| row.get(0))?;
    if found > 0 {
        connection.execute_batch(
            "UPDATE accounting SET cores = o.cores, memory = o.memory, gpus = o.gpus FROM allocated o \
               WHERE accounting.kind = 1 AND accounting.id = o.id; \
             INSERT INTO tag_due SELECT id, NULL FROM allocated",
        )?;
    }
    Ok(())
}
