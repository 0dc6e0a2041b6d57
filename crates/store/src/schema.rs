//! The tables, and the way from one version of them to the next.

use duckdb::Connection;

use crate::StoreError;

/// Each step brings the tables from one version to the next; a step that has been released never changes.
const STEPS: [&str; 3] = [
    include_str!("../schema/0001.sql"),
    include_str!("../schema/0002.sql"),
    include_str!("../schema/0003.sql"),
];

/// The version this program reads and writes.
pub const VERSION: usize = STEPS.len();

/// Brings the tables to the present version, each step in one transaction with its number.
pub fn migrate(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch("CREATE TABLE IF NOT EXISTS schema_version (version UINTEGER NOT NULL)")?;
    let found: usize =
        connection.query_row("SELECT coalesce(max(version), 0) FROM schema_version", [], |row| row.get(0))?;
    if found > VERSION {
        return Err(StoreError::Newer { found, known: VERSION });
    }
    for (step, version) in STEPS.iter().zip(1..).skip(found) {
        let insert = format!("INSERT INTO schema_version VALUES ({version})");
        connection.execute_batch(&format!("BEGIN; {step} {insert}; COMMIT;"))?;
    }
    Ok(())
}
