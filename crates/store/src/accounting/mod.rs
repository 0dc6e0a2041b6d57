//! Keeps jobs as their batch system accounts for them: each once, replaced when more is known of it.

mod accounts;
pub(crate) mod implicit;
pub(crate) mod measured;
pub(crate) mod merge;
mod redact;
mod rows;

use std::collections::{HashMap, HashSet};

use duckdb::Connection;
use record::accounting::Accounting;
use record::entry::Nanos;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

pub use self::accounts::{Accounts, TOGETHER};
use self::rows::Part;
use crate::StoreError;
use crate::tags::{DUE, JUDGED, REMOVED, RULES, SAID, TAGS, wish};
use crate::write::{Writer, now_ns};

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
const STAYS: [&str; 44] = [
    "sluid",
    "uid",
    "\"group\"",
    "gid",
    "project",
    "qos",
    "reservation",
    "wckey",
    "requested_nodes",
    "requested_cores",
    "requested_gpus",
    "memory",
    "requested_memory",
    "requested_memory_each",
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
    "is_shared",
    "others",
    // What was decided, until it is decided anew, and what people said.
    TAGS[0],
    TAGS[1],
    TAGS[2],
    TAGS[3],
    SAID[0],
    SAID[1],
    SAID[2],
    SAID[3],
    REMOVED[0],
    REMOVED[1],
    REMOVED[2],
    REMOVED[3],
    RULES,
    JUDGED,
];

impl Writer {
    /// Keeps what a batch system says of jobs, all of it or nothing. Told again, it changes nothing.
    pub fn account(&mut self, accounts: &Accounts) -> Result<Accounted, StoreError> {
        let is_later = accounts.first_submit.is_some_and(|first| first > self.newest_submit);
        if !is_later {
            create_incoming(&self.connection)?;
        }
        let has_incomplete = self.has_incomplete || accounts.has_incomplete;
        let transaction = self.connection.transaction()?;
        let lists = keep_lists(&transaction, &self.node_lists, &accounts.node_lists)?;
        let accounted = if is_later || are_new(&transaction, accounts)? {
            append(&transaction, &self.database, TABLES, &accounts.rows)?;
            Accounted { new: accounts.ids.len() as u64, ..Accounted::default() }
        } else {
            append(&transaction, "temp", INCOMING, &accounts.rows)?;
            if has_incomplete {
                merge::fill(&transaction, &accounts.there())?;
            }
            replace(&transaction, &accounts.there())?
        };
        accounts.places.append(&transaction, &self.database, DUE)?;
        let declared = self.tags.get();
        let voices = wish(&transaction, &declared, &self.people.get(), &accounts.wishes, &accounts.there())?;
        let has_measured = self.has_measured && measured::give_way(&transaction, &accounts.names, &declared)?;
        let (united, gone) = if has_incomplete {
            merge::unite(&transaction, accounts, &declared)?
        } else {
            Default::default()
        };
        transaction.commit()?;
        if !accounts.ids.is_empty() {
            self.kinds.told();
        }
        self.has_measured = has_measured;
        self.has_incomplete = has_incomplete;
        self.measured.now(united, now_ns());
        let has_new_partitions = !accounts.partitions.is_subset(&self.partitions);
        self.is_site_stale |= has_new_partitions || !lists.is_empty();
        self.node_lists.extend(lists);
        self.newest_submit = self.newest_submit.max(accounts.newest);
        for (id, (start, end)) in accounts.ids.iter().zip(&accounts.times) {
            self.measured.told(*id, *start, *end, now_ns());
        }
        if has_new_partitions {
            self.declare_tags()?;
        }
        self.add_voices(voices);
        Ok(Accounted { older: accounted.older + accounts.older, ..accounted.with_gone(gone) })
    }

    /// Which lists of nodes are kept already, when the newest job was submitted, and whether there are accounts of ours.
    pub(crate) fn load_accounting(&mut self) -> Result<(), StoreError> {
        let mut query = self.connection.prepare("SELECT DISTINCT list FROM node_list")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            self.node_lists.insert(xxh3_64(row.get::<_, String>(0)?.as_bytes()));
        }
        drop(rows);
        let newest =
            "SELECT max(coalesce(submit_ns, start_ns)) FROM accounting WHERE is_only_measured IS NOT TRUE";
        let newest: Option<i64> = self.connection.query_row(newest, [], |row| row.get(0))?;
        self.newest_submit = newest.unwrap_or(i64::MIN);
        if newest.is_some() {
            self.kinds.told();
        }
        if measured::are_sessions(&self.connection)? {
            self.kinds.sessions();
        }
        self.has_measured = measured::are_there(&self.connection)?;
        self.has_incomplete = merge::are_there(&self.connection)?;
        Ok(())
    }
}

/// The name of a job for good: neither its state nor its times change it.
fn id(job: &Accounting) -> u64 {
    let number = job.job.as_deref().unwrap_or(&job.shown);
    id_of(job.cluster.as_deref(), number, job.submit.or(job.start))
}

/// By cluster, number and the time of its submission; by that of its start where nobody knows that.
pub(crate) fn id_of(cluster: Option<&str>, number: &str, at: Option<Nanos>) -> u64 {
    let mut hash = Xxh3::new();
    for part in [cluster.unwrap_or_default(), number] {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
    hash.update(&at.unwrap_or_default().to_le_bytes());
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

/// Whether nothing is known of any of them.
fn are_new(connection: &Connection, accounts: &Accounts) -> Result<bool, StoreError> {
    let mut ids = connection.appender_to_catalog_and_db("incoming_id", "temp", "main")?;
    for id in &accounts.ids {
        ids.append_row([id])?;
    }
    ids.flush()?;
    let sql = format!(
        "SELECT NOT EXISTS (SELECT 1 FROM accounting WHERE {} AND id IN (SELECT id FROM incoming_id)) \
         AND NOT EXISTS (SELECT 1 FROM accounting_node WHERE id IN (SELECT id FROM incoming_id))",
        accounts.there()
    );
    Ok(connection.query_row(&sql, [], |row| row.get(0))?)
}

fn append(
    connection: &Connection,
    database: &str,
    tables: [&str; 3],
    rows: &[Part; 3],
) -> Result<(), StoreError> {
    tables.into_iter().zip(rows).try_for_each(|(table, rows)| rows.append(connection, database, table))
}

/// Keeps the nodes behind lists of them that are new, and says which; a list that cannot be expanded is of no node.
pub(crate) fn keep_lists(
    connection: &Connection,
    known: &HashSet<u64>,
    lists: &HashMap<u64, String>,
) -> Result<Vec<u64>, StoreError> {
    let mut table = connection.appender("node_list")?;
    let new: Vec<(&u64, &String)> = lists.iter().filter(|(id, _)| !known.contains(id)).collect();
    for (_, list) in &new {
        for host in hostlist::expand(list).unwrap_or_default() {
            table.append_row([*list, &host])?;
        }
    }
    table.flush()?;
    Ok(new.into_iter().map(|(id, _)| *id).collect())
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
    // The tables of what comes have no defaults.
    let defaults = SAID.into_iter().chain(REMOVED).chain(["kind"]);
    let defaults = defaults.map(|column| format!("coalesce({column}, 0) AS {column}"));
    let defaults = defaults.collect::<Vec<_>>().join(", ");
    for (table, incoming) in TABLES.into_iter().zip(INCOMING).rev() {
        let but = if table == TABLES[0] { format!("REPLACE ({defaults})") } else { String::new() };
        kept = connection.execute(&format!("INSERT INTO {table} SELECT * {but} FROM {incoming}"), [])?;
    }
    Ok(Accounted { new: (kept - replaced) as u64, replaced: replaced as u64, older: older as u64 })
}

/// Agents learn the name of their cluster later than that of the job, and a text may leave it out.
pub(crate) fn may_be_same(a: Option<&str>, b: Option<&str>) -> bool {
    a.zip(b).is_none_or(|(a, b)| a == b)
}

fn nanos(time: Nanos) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::accounting::State;

    #[test]
    fn rows_have_the_tables_columns() {
        let connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&connection).unwrap();
        let columns = |table: &str| -> Vec<String> {
            let sql = format!("SELECT name FROM pragma_table_info('{table}') ORDER BY cid");
            let mut query = connection.prepare(&sql).unwrap();
            query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let made = |batch: rows::Columns| -> Vec<String> {
            batch.unwrap().schema().fields().iter().map(|field| field.name().clone()).collect()
        };
        let decided: Vec<&str> = TAGS
            .into_iter()
            .chain(SAID)
            .chain(REMOVED)
            .chain([RULES, JUDGED, "is_only_measured", "kind"])
            .collect();
        for (table, batch) in TABLES.into_iter().zip([rows::jobs, rows::steps, rows::nodes]) {
            let mut told = columns(table);
            told.retain(|name| table != TABLES[0] || !decided.contains(&&**name));
            assert_eq!(made(batch(&[])), told);
        }
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
}
