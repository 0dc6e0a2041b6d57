//! Deletes what may no longer be kept: everything of a user, or everything that is too old; and with it whatever no
//! process refers to any more.

use duckdb::types::Value as Sql;
use duckdb::{Connection, params};
use serde::{Deserialize, Serialize};
use tags::Space;

use crate::query::running::RUNS;
use crate::tags::{Bits, Declared, bring_in, ids_due};
use crate::upkeep::{COARSE, SAMPLES};
use crate::write::Writer;
use crate::{StoreError, upkeep};

/// What is to be deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Forget {
    /// A user's name, or number.
    User(String),
    /// Processes that ended, and gaps, readings and reports of agents that were, before this time (nanoseconds since 1970).
    Before(i64),
}

/// How much was deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    /// Rows of processes.
    pub processes: u64,
    /// Lists, files and environments that no process had any more.
    pub shared: u64,
}

/// What only processes hold in place, in the order in which it comes loose.
fn sweep() -> [String; 5] {
    [
        format!(
            "DELETE FROM environment WHERE id NOT IN (SELECT environment FROM {RUNS} WHERE environment IS NOT NULL)"
        ),
        format!(
            "DELETE FROM module_list WHERE list NOT IN (SELECT modules FROM {RUNS} WHERE modules IS NOT NULL)"
        ),
        format!(
            "DELETE FROM object_list WHERE list NOT IN (SELECT objects FROM {RUNS} WHERE objects IS NOT NULL \
               UNION SELECT late_objects FROM {RUNS} WHERE late_objects IS NOT NULL)"
        ),
        "DELETE FROM object WHERE id NOT IN (SELECT object FROM object_list)".to_owned(),
        format!(
            "DELETE FROM file WHERE id NOT IN (SELECT file FROM object WHERE file IS NOT NULL \
               UNION SELECT exe_file FROM {RUNS} WHERE exe_file IS NOT NULL)"
        ),
    ]
}

/// Programs that were reported before a time, on hosts of which nothing is heard since: what is told of these is over as well.
const OLD_REPORTS: &str =
    "DELETE FROM running WHERE seen_ns < ? AND stream NOT IN (SELECT stream FROM health)";

/// A command belongs to the job that was read with it.
const COMMANDS_OF_USER: &str = "DELETE FROM command_sample c USING job_sample j \
    WHERE (j.\"user\" = ? OR j.uid = ?) AND c.stream = j.stream AND c.number = j.number \
    AND c.job IS NOT DISTINCT FROM j.job AND c.session IS NOT DISTINCT FROM j.session \
    AND c.node IS NOT DISTINCT FROM j.node";

/// A GPU goes on without its job.
const CARDS_OF_USER: &str = "UPDATE card_sample c SET cluster = NULL, job = NULL, session = NULL FROM job_sample j \
    WHERE (j.\"user\" = ? OR j.uid = ?) AND c.stream = j.stream AND c.number = j.number \
    AND c.job IS NOT DISTINCT FROM j.job AND c.session IS NOT DISTINCT FROM j.session";
const OLD_CARDS_OF_USER: &str = "UPDATE card_coarse c SET cluster = NULL, job = NULL, session = NULL FROM job_coarse j \
    WHERE (j.\"user\" = ? OR j.uid = ?) AND c.job IS NOT DISTINCT FROM j.job \
    AND c.session IS NOT DISTINCT FROM j.session AND c.host = j.host \
    AND c.from_ns <= j.time_ns AND c.time_ns >= j.from_ns";

/// A command is of the job that was on the same node at the same time; names of sessions come again.
const OLD_COMMANDS_OF_USER: &str = "DELETE FROM command_coarse c USING job_coarse j \
    WHERE (j.\"user\" = ? OR j.uid = ?) AND c.job IS NOT DISTINCT FROM j.job \
    AND c.session IS NOT DISTINCT FROM j.session AND c.host = j.host AND c.node IS NOT DISTINCT FROM j.node \
    AND c.from_ns <= j.time_ns AND c.time_ns >= j.from_ns";

/// What belongs to whom the job belongs, by the job's id: its steps, what it had on its nodes, what people
/// said of it, and what others measured of it.
const OF_JOBS: [(&str, &str); 9] = [
    ("accounting_step", "id"),
    ("accounting_node", "id"),
    ("assignment", "id"),
    ("assignment_refused", "id"),
    ("job_measure", "id"),
    ("measure", "job"),
    ("note", "id"),
    ("opinion", "id"),
    ("account_moved", "told"),
];

/// What happened in cases about a user.
const ENTRIES_OF_USER: &str =
    "DELETE FROM contact_entry WHERE number IN (SELECT number FROM contact WHERE \"user\" = ?)";

/// Jobs that ended before a time. What was only measured, and has no end, goes with what it was made of.
const OLD_JOBS: &str = "(end_ns < ? OR is_only_measured AND end_ns IS NULL \
    AND NOT EXISTS (SELECT 1 FROM job j WHERE j.job = accounting.job AND j.start_ns = accounting.start_ns))";

/// The jobs of a user.
const JOBS_OF_USER: &str = "SELECT id FROM accounting WHERE \"user\" = ? OR uid = ?";

impl Writer {
    /// Deletes what was made coarse before a time, and remembers that series are no longer whole; says how many rows.
    pub fn forget_coarse(&mut self, before_ns: i64) -> Result<u64, StoreError> {
        let transaction = self.connection.transaction()?;
        let rows = delete_series(&transaction, &COARSE, before_ns)?;
        // Values of others have no coarse form; they are kept as long.
        let sql = "DELETE FROM measure WHERE time_ns < ? AND job IS NULL";
        if transaction.execute(sql, params![before_ns])? > 0 {
            upkeep::measures_deleted_before(&transaction, before_ns)?;
            self.measured.deleted_before(before_ns);
        }
        transaction.commit()?;
        Ok(rows)
    }

    /// Deletes the rows of jobs that ended before a time, what was measured and what was accounted for; says how many.
    pub fn forget_jobs(&mut self, before_ns: i64) -> Result<u64, StoreError> {
        let transaction = self.connection.transaction()?;
        let measured = "DELETE FROM job WHERE coalesce(end_ns, computed_ns) < ?";
        let mut deleted = transaction.execute(measured, params![before_ns])?;
        for (table, column) in OF_JOBS {
            let sql =
                format!("DELETE FROM {table} WHERE {column} IN (SELECT id FROM accounting WHERE {OLD_JOBS})");
            transaction.execute(&sql, params![before_ns])?;
        }
        let accounts = format!("DELETE FROM accounting WHERE {OLD_JOBS}");
        deleted += transaction.execute(&accounts, params![before_ns])?;
        transaction.commit()?;
        Ok(deleted as u64)
    }

    /// Deletes all of it or nothing. What is received already stays known as received: a batch that an agent sends
    /// again does not bring it back.
    pub fn forget(&mut self, what: &Forget) -> Result<Forgotten, StoreError> {
        let transaction = self.connection.transaction()?;
        let processes = match what {
            Forget::User(user) => forget_user(&transaction, &self.tags.get(), user)?,
            Forget::Before(time) => {
                transaction.execute("DELETE FROM gap WHERE to_ns < ?", params![time])?;
                for table in ["health", "node_hardware"] {
                    transaction.execute(&format!("DELETE FROM {table} WHERE time_ns < ?"), params![time])?;
                }
                delete_series(&transaction, &SAMPLES, *time)?;
                delete_series(&transaction, &COARSE, *time)?;
                let old = "DELETE FROM process WHERE coalesce(end_ns, start_ns) < ?";
                transaction.execute(old, params![time])? + transaction.execute(OLD_REPORTS, params![time])?
            }
        };
        let mut shared = 0;
        if processes > 0 {
            for sweep in sweep() {
                shared += transaction.execute(&sweep, [])?;
            }
        }
        transaction.commit()?;
        // Batches that were prepared before may leave out what has just been deleted.
        let epoch = self.catalogue().read().epoch + 1;
        self.load_shared(epoch)?;
        if matches!(what, Forget::User(_)) {
            self.declare_tags()?;
        }
        Ok(Forgotten { processes: processes as u64, shared: shared as u64 })
    }
}

/// Deletes what a user ran, what was said of it, and what the user said; how many rows of processes.
fn forget_user(connection: &Connection, declared: &Declared, user: &str) -> Result<usize, StoreError> {
    let uid = user.parse::<u32>().map_or(Sql::Null, Sql::UInt);
    for of_user in [COMMANDS_OF_USER, CARDS_OF_USER, OLD_COMMANDS_OF_USER, OLD_CARDS_OF_USER] {
        connection.execute(of_user, params![user, uid])?;
    }
    connection.execute("DELETE FROM job WHERE \"user\" = ?", params![user])?;
    for (table, column) in OF_JOBS {
        let sql = format!("DELETE FROM {table} WHERE {column} IN ({JOBS_OF_USER})");
        connection.execute(&sql, params![user, uid])?;
    }
    connection.execute(ENTRIES_OF_USER, params![user])?;
    for table in ["contact", "site_association"] {
        connection.execute(&format!("DELETE FROM {table} WHERE \"user\" = ?"), params![user])?;
    }
    forget_words(connection, declared, user)?;
    for table in ["note", "proposal", "opinion", "saved_search"] {
        connection.execute(&format!("DELETE FROM {table} WHERE \"by\" = ?"), params![user])?;
    }
    let own = Space::Personal(user.to_owned()).to_string();
    for table in ["own_tag", "tag"] {
        connection.execute(&format!("DELETE FROM {table} WHERE space = ?"), params![own])?;
    }
    for table in ["accounting", "job_sample", "job_coarse"] {
        let of_user = format!("DELETE FROM {table} WHERE \"user\" = ? OR uid = ?");
        connection.execute(&of_user, params![user, uid])?;
    }
    let mut processes = 0;
    for table in ["process", "running"] {
        let of_user = format!("DELETE FROM {table} WHERE \"user\" = ? OR uid = ?");
        processes += connection.execute(&of_user, params![user, uid])?;
    }
    Ok(processes)
}

/// Deletes which tags a user has set and taken off, on whosever jobs; what rules say of these is to be decided again.
fn forget_words(connection: &Connection, declared: &Declared, user: &str) -> Result<(), StoreError> {
    let mut query = connection.prepare("SELECT DISTINCT id FROM assignment WHERE \"by\" = ?")?;
    let ids = query.query_map([user], |row| Ok(row.get::<_, u64>(0)?.to_string()))?;
    let ids = ids.collect::<Result<Vec<_>, _>>()?;
    if ids.is_empty() {
        return Ok(());
    }
    connection.execute("DELETE FROM assignment WHERE \"by\" = ?", params![user])?;
    bring_in(connection, declared, &format!("c.id IN ({})", ids.join(", ")), Bits::default())?;
    ids_due(connection, &ids)
}

/// Deletes what the tables have of the time before; how many rows.
fn delete_series(connection: &Connection, tables: &[&str], before_ns: i64) -> Result<u64, StoreError> {
    let mut rows = 0;
    for table in tables {
        rows += connection.execute(&format!("DELETE FROM {table} WHERE time_ns < ?"), params![before_ns])?;
    }
    if rows > 0 {
        upkeep::deleted_before(connection, before_ns)?;
    }
    Ok(rows as u64)
}
