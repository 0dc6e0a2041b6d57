//! The tables, and the way from one version of them to the next.

use duckdb::Connection;

use crate::StoreError;

/// Each step brings the tables from one version to the next; a step that has been released never changes.
const STEPS: [&str; 19] = [
    include_str!("../schema/0001.sql"),
    include_str!("../schema/0002.sql"),
    include_str!("../schema/0003.sql"),
    include_str!("../schema/0004.sql"),
    include_str!("../schema/0005.sql"),
    include_str!("../schema/0006.sql"),
    include_str!("../schema/0007.sql"),
    include_str!("../schema/0008.sql"),
    include_str!("../schema/0009.sql"),
    include_str!("../schema/0010.sql"),
    include_str!("../schema/0011.sql"),
    include_str!("../schema/0012.sql"),
    include_str!("../schema/0013.sql"),
    include_str!("../schema/0014.sql"),
    include_str!("../schema/0015.sql"),
    include_str!("../schema/0016.sql"),
    include_str!("../schema/0017.sql"),
    include_str!("../schema/0018.sql"),
    include_str!("../schema/0019.sql"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_an_older_version_get_a_state_and_an_account() {
        let connection = Connection::open_in_memory().unwrap();
        for step in &STEPS[..3] {
            connection.execute_batch(step).unwrap();
        }
        connection
            .execute_batch(
                "CREATE TABLE schema_version (version UINTEGER NOT NULL); INSERT INTO schema_version VALUES (3); \
                 INSERT INTO job (job, start_ns, end_ns, nodes, is_shared, readings, computed_ns) \
                 VALUES ('1', 1, 2, 1, false, 1, 3), ('2', 1, NULL, 2, false, 1, 3)",
            )
            .unwrap();
        migrate(&connection).unwrap();
        let mut query = connection.prepare("SELECT state FROM job ORDER BY job").unwrap();
        let states: Vec<String> =
            query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(states, ["ended", "unheard"]);
        // No batch system had told of them.
        let sql = "SELECT count(DISTINCT id) FROM accounting WHERE is_only_measured AND shown = job AND nodes IN (1, 2)";
        let accounts: u64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(accounts, 2);
    }
}
