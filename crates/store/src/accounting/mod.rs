//! Keeps jobs as their batch system accounts for them: each once, replaced when more is known of it.

mod rows;

use std::collections::{BTreeSet, HashMap};

use duckdb::types::Value as Sql;
use duckdb::{Connection, ToSql, params_from_iter};
use record::accounting::Accounting;
use record::entry::Nanos;
use xxhash_rust::xxh3::Xxh3;

use crate::StoreError;
use crate::write::Writer;

/// What became of jobs that were told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Accounted {
    /// Of which nothing was known.
    pub new: u64,
    /// Of which something was known.
    pub replaced: u64,
    /// Of which more was known: that one has ended is not forgotten when an older text says it runs.
    pub older: u64,
}

/// The tables of jobs, and where rows are put first: those of a batch replace others all at once, one by one would take
/// milliseconds each.
const TABLES: [(&str, &str); 3] = [
    ("accounting", "incoming_job"),
    ("accounting_step", "incoming_step"),
    ("accounting_node", "incoming_node"),
];

/// What a text that a centre kept may not have, and another source has told: it stays known. All else is as it was told last.
const STAYS: [&str; 26] = [
    "sluid",
    "uid",
    "\"group\"",
    "gid",
    "project",
    "qos",
    "reservation",
    "wckey",
    "requested_cores",
    "memory",
    "requested_memory",
    "requested_memory_per",
    "requested",
    "comment",
    "admin_comment",
    "system_comment",
    "extra",
    "submit_line",
    "work_dir",
    "stdout",
    "container",
    "constraints",
    "licenses",
    "priority",
    "limit_ns",
    "others",
];

impl Writer {
    /// Keeps what a batch system says of jobs, all of it or nothing. Told again, it changes nothing.
    pub fn account(&mut self, jobs: &[Accounting]) -> Result<Accounted, StoreError> {
        let (told, older) = last_words(jobs);
        empty(&self.connection)?;
        let transaction = self.connection.transaction()?;
        append(&transaction, &told)?;
        keep_lists(&transaction, told.values().filter_map(|job| job.node_list.as_deref()).collect())?;
        let accounted = replace(&transaction, told.values().copied())?;
        transaction.commit()?;
        Ok(Accounted { older: accounted.older + older, ..accounted })
    }
}

/// Of each job what was said last, unless it has ended before that; and how many words that leaves out.
fn last_words(jobs: &[Accounting]) -> (HashMap<u64, &Accounting>, u64) {
    let mut told: HashMap<u64, &Accounting> = HashMap::with_capacity(jobs.len());
    for job in jobs {
        let last = told.entry(id(job)).or_insert(job);
        if job.end.is_some() || last.end.is_none() {
            *last = job;
        }
    }
    let left_out = (jobs.len() - told.len()) as u64;
    (told, left_out)
}

/// The name of a job for good: neither its state nor its times change it.
fn id(job: &Accounting) -> u64 {
    let mut hash = Xxh3::new();
    let number = job.job.as_deref().unwrap_or(&job.shown);
    for part in [job.cluster.as_deref().unwrap_or_default(), number] {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
    hash.update(&job.submit.unwrap_or_default().to_le_bytes());
    hash.digest()
}

fn empty(connection: &Connection) -> Result<(), StoreError> {
    for (table, incoming) in TABLES {
        connection.execute_batch(&format!(
            "CREATE TEMP TABLE IF NOT EXISTS {incoming} AS SELECT * FROM {table} LIMIT 0; DELETE FROM {incoming};"
        ))?;
    }
    Ok(())
}

fn append(connection: &Connection, told: &HashMap<u64, &Accounting>) -> Result<(), StoreError> {
    let appender = |table: &str| connection.appender_to_catalog_and_db(table, "temp", "main");
    let (mut table, mut steps) = (appender("incoming_job")?, appender("incoming_step")?);
    let mut nodes = appender("incoming_node")?;
    for (id, job) in told {
        put(&mut table, &rows::row(*id, job))?;
        for step in &job.steps {
            put(&mut steps, &rows::step_row(*id, step))?;
        }
        for placed in &job.placed {
            put(&mut nodes, &rows::node_row(*id, placed))?;
        }
    }
    table.flush()?;
    steps.flush()?;
    Ok(nodes.flush()?)
}

fn put(table: &mut duckdb::Appender, row: &[Sql]) -> Result<(), StoreError> {
    let row: Vec<&dyn ToSql> = row.iter().map(|value| value as &dyn ToSql).collect();
    Ok(table.append_row(&row[..])?)
}

/// Keeps the nodes behind lists of them that are new. A list that cannot be expanded is of no node.
fn keep_lists(connection: &Connection, mut lists: BTreeSet<&str>) -> Result<(), StoreError> {
    if lists.is_empty() {
        return Ok(());
    }
    let known =
        format!("SELECT DISTINCT list FROM node_list WHERE list IN ({})", vec!["?"; lists.len()].join(", "));
    let mut query = connection.prepare(&known)?;
    let known = query.query_map(params_from_iter(lists.iter()), |row| row.get::<_, String>(0))?;
    for list in known {
        lists.remove(list?.as_str());
    }
    let mut table = connection.appender("node_list")?;
    for list in lists {
        for host in hostlist::expand(list).unwrap_or_default() {
            table.append_row([list, &host])?;
        }
    }
    Ok(table.flush()?)
}

/// Rows of the time since the first of these was submitted only: a table of years is not looked through for each batch.
fn replace<'a>(
    connection: &Connection,
    told: impl Iterator<Item = &'a Accounting>,
) -> Result<Accounted, StoreError> {
    let since = told.map(|job| job.submit.map_or(i64::MIN, nanos)).min().unwrap_or(i64::MIN);
    // Submissions of which the time is not known are in no part of it.
    let there = format!("(submit_ns >= {since} OR submit_ns IS NULL AND {since} = {})", i64::MIN);
    let older = connection.execute(
        &format!(
            "DELETE FROM incoming_job WHERE end_ns IS NULL \
             AND id IN (SELECT id FROM accounting WHERE end_ns IS NOT NULL AND {there})"
        ),
        [],
    )?;
    connection.execute_batch("DELETE FROM incoming_step WHERE id NOT IN (SELECT id FROM incoming_job)")?;
    let stays = STAYS.map(|column| format!("{column} = coalesce(incoming_job.{column}, a.{column})"));
    let replaced = connection.execute(
        &format!(
            "UPDATE incoming_job SET {} FROM (SELECT * FROM accounting WHERE {there}) a WHERE a.id = incoming_job.id",
            stays.join(", ")
        ),
        [],
    )?;
    if replaced > 0 {
        connection.execute_batch(&format!(
            "DELETE FROM accounting WHERE {there} AND id IN (SELECT id FROM incoming_job); \
             DELETE FROM accounting_step WHERE id IN (SELECT id FROM incoming_step)"
        ))?;
    }
    // Also those of jobs that have ended meanwhile: whoever looked at them before was right.
    connection.execute_batch("DELETE FROM accounting_node WHERE id IN (SELECT id FROM incoming_node)")?;
    mark_measured(connection, since)?;
    let kept = connection.execute("INSERT INTO accounting SELECT * FROM incoming_job", [])?;
    connection.execute_batch(
        "INSERT INTO accounting_step SELECT * FROM incoming_step; \
         INSERT INTO accounting_node SELECT * FROM incoming_node",
    )?;
    Ok(Accounted { new: (kept - replaced) as u64, replaced: replaced as u64, older: older as u64 })
}

/// What was measured of these jobs stands beside their accounts from now on, not for itself.
fn mark_measured(connection: &Connection, since: i64) -> Result<(), StoreError> {
    connection.execute_batch(&format!(
        "UPDATE job SET is_accounted = true WHERE NOT is_accounted AND start_ns >= {since} AND EXISTS \
         (SELECT 1 FROM incoming_job i WHERE i.job = job.job AND {SAME_CLUSTER})"
    ))?;
    Ok(())
}

/// Agents learn the name of their cluster later than that of the job, and a text may leave it out.
const SAME_CLUSTER: &str = "(i.cluster = job.cluster OR i.cluster IS NULL OR job.cluster IS NULL)";

/// Which of the jobs that were measured are accounted for, of those with these names.
pub(crate) fn accounted(
    connection: &Connection,
    names: &[&str],
) -> Result<Vec<(String, Option<String>)>, StoreError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT DISTINCT job, cluster FROM accounting WHERE job IN ({})",
        vec!["?"; names.len()].join(", ")
    );
    let mut query = connection.prepare(&sql)?;
    let found = query.query_map(params_from_iter(names), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn nanos(time: Nanos) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::accounting::{Placed, State, Step};

    /// Rows are appended by the order of the table.
    #[test]
    fn rows_have_the_tables_columns() {
        let connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&connection).unwrap();
        let columns = |table: &str| -> usize {
            let sql = format!("SELECT count(*) FROM pragma_table_info('{table}')");
            connection.query_row(&sql, [], |row| row.get(0)).unwrap()
        };
        assert_eq!(rows::row(1, &Accounting::default()).len(), columns("accounting"));
        assert_eq!(rows::step_row(1, &Step::default()).len(), columns("accounting_step"));
        assert_eq!(rows::node_row(1, &Placed::default()).len(), columns("accounting_node"));
    }

    #[test]
    fn a_job_is_named_by_cluster_number_and_submission() {
        let job = |cluster: Option<&str>, job: Option<&str>, submit| Accounting {
            cluster: cluster.map(str::to_owned),
            job: job.map(str::to_owned),
            shown: "7".into(),
            submit,
            ..Accounting::default()
        };
        let one = job(Some("a"), Some("1"), Some(5));
        let ended = Accounting { state: Some(State::Completed), end: Some(9), ..one.clone() };
        assert_eq!(id(&one), id(&ended));
        for other in [
            job(Some("b"), Some("1"), Some(5)),
            job(Some("a"), Some("2"), Some(5)),
            job(Some("a"), Some("1"), Some(6)),
            job(None, Some("a1"), Some(5)),
            job(Some("a1"), None, Some(5)),
        ] {
            assert_ne!(id(&one), id(&other), "{other:?}");
        }
    }

    #[test]
    fn that_a_job_has_ended_is_not_forgotten() {
        let at = |submit, end| Accounting {
            shown: "1".into(),
            submit: Some(submit),
            end,
            ..Accounting::default()
        };
        let jobs = [at(1, None), at(1, Some(9)), at(1, None), at(2, None)];
        let (told, left_out) = last_words(&jobs);
        assert_eq!((told.len(), left_out), (2, 2));
        assert_eq!(told[&id(&jobs[0])].end, Some(9));
    }
}
