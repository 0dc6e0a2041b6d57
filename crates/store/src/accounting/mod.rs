//! Keeps jobs as their batch system accounts for them: each once, replaced when more is known of it.

pub(crate) mod rows;

use std::collections::{HashMap, HashSet};

use duckdb::types::Value as Sql;
use duckdb::{Appender, Connection, ToSql, params_from_iter};
use record::accounting::Accounting;
use record::entry::Nanos;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

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

/// The tables of jobs, of their steps and of what they had on each node.
const TABLES: [&str; 3] = ["accounting", "accounting_step", "accounting_node"];
/// Where rows of jobs are put that are known already: they replace others all at once, one by one would take milliseconds each.
const INCOMING: [&str; 3] = ["incoming_job", "incoming_step", "incoming_node"];

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
        let there = there(told.iter().map(|(_, job)| *job));
        create_incoming(&self.connection)?;
        let transaction = self.connection.transaction()?;
        let lists = keep_lists(
            &transaction,
            &self.node_lists,
            told.iter().filter_map(|(_, job)| job.node_list.as_deref()),
        )?;
        let accounted = if are_new(&transaction, &told, &there)? {
            append(TABLES.map(|table| transaction.appender(table)), &told)?;
            Accounted { new: told.len() as u64, ..Accounted::default() }
        } else {
            let incoming = |table| transaction.appender_to_catalog_and_db(table, "temp", "main");
            append(INCOMING.map(incoming), &told)?;
            replace(&transaction, &there)?
        };
        mark_measured(&transaction, &told)?;
        transaction.commit()?;
        self.node_lists.extend(lists);
        Ok(Accounted { older: accounted.older + older, ..accounted })
    }

    /// Which lists of nodes are kept already.
    pub(crate) fn load_node_lists(&mut self) -> Result<(), StoreError> {
        let mut query = self.connection.prepare("SELECT DISTINCT list FROM node_list")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            self.node_lists.insert(xxh3_64(row.get::<_, String>(0)?.as_bytes()));
        }
        Ok(())
    }
}

/// Jobs with their names for good, in the order in which they were told.
type Told<'a> = Vec<(u64, &'a Accounting)>;

/// Of each job what was said last, unless it has ended before that; and how many words that leaves out.
fn last_words(jobs: &[Accounting]) -> (Told<'_>, u64) {
    let mut told: Told = Vec::with_capacity(jobs.len());
    let mut places: HashMap<u64, usize> = HashMap::with_capacity(jobs.len());
    for job in jobs {
        let id = id(job);
        let place = *places.entry(id).or_insert(told.len());
        match told.get_mut(place) {
            None => told.push((id, job)),
            Some((_, last)) if job.end.is_some() || last.end.is_none() => *last = job,
            Some(_) => {}
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

fn create_incoming(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch(
        "CREATE TEMP TABLE IF NOT EXISTS incoming_id (id UBIGINT); DELETE FROM incoming_id;",
    )?;
    for (table, incoming) in TABLES.into_iter().zip(INCOMING) {
        connection.execute_batch(&format!(
            "CREATE TEMP TABLE IF NOT EXISTS {incoming} AS SELECT * FROM {table} LIMIT 0; DELETE FROM {incoming};"
        ))?;
    }
    Ok(())
}

/// Rows of the time since the first of these was submitted: a table of years is not looked through for each batch.
fn there<'a>(told: impl Iterator<Item = &'a Accounting>) -> String {
    match told.map(|job| job.submit.map(nanos)).min() {
        // Submissions of which the time is not known are in no part of it.
        Some(Some(since)) => format!("submit_ns >= {since}"),
        _ => "true".to_owned(),
    }
}

/// Whether nothing is known of any of them.
fn are_new(connection: &Connection, told: &Told, there: &str) -> Result<bool, StoreError> {
    let mut ids = connection.appender_to_catalog_and_db("incoming_id", "temp", "main")?;
    for (id, _) in told {
        ids.append_row([id])?;
    }
    ids.flush()?;
    let sql = format!(
        "SELECT NOT EXISTS (SELECT 1 FROM accounting WHERE {there} AND id IN (SELECT id FROM incoming_id)) \
         AND NOT EXISTS (SELECT 1 FROM accounting_node WHERE id IN (SELECT id FROM incoming_id))"
    );
    Ok(connection.query_row(&sql, [], |row| row.get(0))?)
}

fn append(tables: [duckdb::Result<Appender>; 3], told: &Told) -> Result<(), StoreError> {
    let [jobs, steps, nodes] = tables;
    let (mut jobs, mut steps, mut nodes) = (jobs?, steps?, nodes?);
    for (id, job) in told {
        put(&mut jobs, &rows::row(*id, job))?;
        for step in &job.steps {
            put(&mut steps, &rows::step_row(*id, step))?;
        }
        for placed in &job.placed {
            put(&mut nodes, &rows::node_row(*id, placed))?;
        }
    }
    for mut table in [jobs, steps, nodes] {
        table.flush()?;
    }
    Ok(())
}

fn put(table: &mut Appender, row: &[Sql]) -> Result<(), StoreError> {
    let row: Vec<&dyn ToSql> = row.iter().map(|value| value as &dyn ToSql).collect();
    Ok(table.append_row(&row[..])?)
}

/// Keeps the nodes behind lists of them that are new, and says which; a list that cannot be expanded is of no node.
fn keep_lists<'a>(
    connection: &Connection,
    known: &HashSet<u64>,
    lists: impl Iterator<Item = &'a str>,
) -> Result<HashSet<u64>, StoreError> {
    let mut new = HashSet::new();
    let mut table = connection.appender("node_list")?;
    for list in lists {
        let id = xxh3_64(list.as_bytes());
        if known.contains(&id) || !new.insert(id) {
            continue;
        }
        for host in hostlist::expand(list).unwrap_or_default() {
            table.append_row([list, &host])?;
        }
    }
    table.flush()?;
    Ok(new)
}

/// What is told anew takes the place of what was told before.
fn replace(connection: &Connection, there: &str) -> Result<Accounted, StoreError> {
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
    // What a job had on its nodes stays, if nobody says it anew: whoever looked while it ran was right.
    connection.execute_batch(&format!(
        "DELETE FROM accounting WHERE {there} AND id IN (SELECT id FROM incoming_job); \
         DELETE FROM accounting_step WHERE id IN (SELECT id FROM incoming_step); \
         DELETE FROM accounting_node WHERE id IN (SELECT id FROM incoming_node)"
    ))?;
    let mut kept = 0;
    for (table, incoming) in TABLES.into_iter().zip(INCOMING).rev() {
        kept = connection.execute(&format!("INSERT INTO {table} SELECT * FROM {incoming}"), [])?;
    }
    Ok(Accounted { new: (kept - replaced) as u64, replaced: replaced as u64, older: older as u64 })
}

/// What was measured of these jobs stands beside their accounts from now on, not for itself.
fn mark_measured(connection: &Connection, told: &Told) -> Result<(), StoreError> {
    let sql = "SELECT rowid, job, cluster FROM job WHERE job IS NOT NULL AND NOT is_accounted";
    let mut query = connection.prepare(sql)?;
    let mut rows = query.query([])?;
    let names: HashMap<&str, &Accounting> =
        told.iter().filter_map(|(_, job)| Some((job.job.as_deref()?, *job))).collect();
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (place, name, cluster): (i64, String, Option<String>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if names.get(&*name).is_some_and(|job| may_be_same(job.cluster.as_deref(), cluster.as_deref())) {
            found.push(place.to_string());
        }
    }
    if !found.is_empty() {
        let sql = format!("UPDATE job SET is_accounted = true WHERE rowid IN ({})", found.join(", "));
        connection.execute_batch(&sql)?;
    }
    Ok(())
}

/// Agents learn the name of their cluster later than that of the job, and a text may leave it out.
pub(crate) fn may_be_same(a: Option<&str>, b: Option<&str>) -> bool {
    a.zip(b).is_none_or(|(a, b)| a == b)
}

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
        assert_eq!(told[0].1.end, Some(9));
    }
}
