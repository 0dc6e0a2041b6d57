//! Questions to the store. Whatever a user gives is a bound value, never text of a query.

mod job;
mod processes;
mod programs;
mod uses;

use duckdb::types::Value as Sql;
use duckdb::{Connection, Row, ToSql};
use serde_json::{Map, Value, json};

use crate::StoreError;

pub use uses::GroupBy;

/// Which processes are asked for; what is absent does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub cluster: Option<String>,
    /// A batch job, or a login session.
    pub job: Option<String>,
    pub user: Option<String>,
    /// A pattern for the path, or for its last part if there is no `/` in it.
    pub exe: Option<String>,
    /// A host, or a node of the batch system.
    pub host: Option<String>,
    pub pid: Option<u32>,
    /// Whatever ran at some time between these two, in nanoseconds since 1970.
    pub since_ns: Option<i64>,
    pub until_ns: Option<i64>,
    /// At most so many rows.
    pub limit: Option<u64>,
}

/// A connection to ask with.
pub struct Reader {
    connection: Connection,
}

impl Reader {
    pub(crate) fn new(connection: Connection) -> Reader {
        Reader { connection }
    }

    /// Runs a query and makes something of each row.
    fn rows<T>(
        &self,
        sql: &str,
        values: &[Sql],
        mut make: impl FnMut(&Row) -> duckdb::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        // A plan rests on what the table holds when it is made (the longest name, the highest number), so it is made
        // for this question only, and in the same transaction: run over more than that, it gives wrong answers.
        let transaction = self.connection.unchecked_transaction()?;
        let values: Vec<&dyn ToSql> = values.iter().map(|value| value as &dyn ToSql).collect();
        let mut made = Vec::new();
        {
            let mut query = transaction.prepare(sql)?;
            let mut rows = query.query(&values[..])?;
            while let Some(row) = rows.next()? {
                made.push(make(row)?);
            }
        }
        transaction.commit()?;
        Ok(made)
    }
}

/// Conditions with the values they are bound to.
#[derive(Debug, Default, Clone)]
struct Conditions {
    text: Vec<String>,
    values: Vec<Sql>,
}

impl Conditions {
    /// Adds a condition; each `?` in it takes one of the values.
    fn add(&mut self, condition: &str, values: impl IntoIterator<Item = Sql>) {
        self.text.push(condition.to_owned());
        self.values.extend(values);
    }

    /// `WHERE …`, true without conditions.
    fn sql(&self) -> String {
        if self.text.is_empty() { "WHERE true".into() } else { format!("WHERE {}", self.text.join(" AND ")) }
    }
}

impl From<&Filter> for Conditions {
    fn from(filter: &Filter) -> Self {
        let mut conditions = Conditions::default();
        let text = |value: &String| Sql::Text(value.clone());
        if let Some(cluster) = &filter.cluster {
            conditions.add("cluster = ?", [text(cluster)]);
        }
        if let Some(job) = &filter.job {
            conditions.add("(job = ? OR session = ?)", [text(job), text(job)]);
        }
        if let Some(user) = &filter.user {
            conditions.add("\"user\" = ?", [text(user)]);
        }
        if let Some(exe) = &filter.exe {
            let pattern = if exe.contains('/') { exe.clone() } else { format!("*/{exe}") };
            conditions.add("exe GLOB ?", [Sql::Text(pattern)]);
        }
        if let Some(host) = &filter.host {
            conditions.add("(host = ? OR node = ?)", [text(host), text(host)]);
        }
        if let Some(pid) = filter.pid {
            conditions.add("pid = ?", [Sql::UInt(pid)]);
        }
        if let Some(since) = filter.since_ns {
            conditions.add("coalesce(end_ns, start_ns) >= ?", [Sql::BigInt(since)]);
        }
        if let Some(until) = filter.until_ns {
            conditions.add("start_ns < ?", [Sql::BigInt(until)]);
        }
        conditions
    }
}

/// Ids as a list for `IN`: they are our own numbers.
fn in_list(ids: impl IntoIterator<Item = u64>) -> String {
    ids.into_iter().map(|id| id.to_string()).collect::<Vec<_>>().join(",")
}

/// Names of columns and their values, in order.
fn object<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Nanoseconds since 1970 as text that sorts; unknown is null.
fn time(ns: Option<i64>) -> Value {
    ns.map_or(Value::Null, |ns| json!(crate::time::text(ns)))
}

fn seconds(ns: Option<i64>) -> Value {
    json!(ns.map(|ns| ns as f64 / 1e9))
}

/// JSON that was stored as text.
fn parsed(text: Option<String>) -> Value {
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null)
}
