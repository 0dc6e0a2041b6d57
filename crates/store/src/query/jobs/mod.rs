//! The whole collection of jobs: filtered, sorted, counted, put together.

mod columns;
mod group;

use condition::{Condition, Value as Bound};
use duckdb::types::Value as Sql;
use serde_json::{Map, Value, json};

use super::{Conditions, Reader, Rows, Snapshot, time};
use crate::StoreError;

pub use columns::{CATALOGUE, COLUMNS, JobColumn, USUAL, column};
pub use group::JobsBy;

/// Which jobs are asked for; what is absent does not matter.
#[derive(Debug, Clone, Default)]
pub struct Which {
    /// All of them must hold. Of columns of [`CATALOGUE`].
    pub conditions: Vec<Condition>,
    /// On this node.
    pub node: Option<String>,
    /// Whatever waited or ran at some time between these two, in nanoseconds since 1970.
    pub since_ns: Option<i64>,
    pub until_ns: Option<i64>,
}

/// What is to be said of them, and in which order.
#[derive(Debug, Clone)]
pub struct Page {
    pub columns: Vec<&'static JobColumn>,
    pub sort: &'static JobColumn,
    pub is_ascending: bool,
    /// At most so many rows; without it, all.
    pub limit: Option<u64>,
}

/// Jobs as their batch system accounts for them, and those that were measured and that nobody accounts for.
const JOBS: &str = "(SELECT rowid AS place, true AS is_accounted, * FROM accounting \
    UNION ALL BY NAME SELECT rowid AS place, false AS is_accounted, cluster, job, job AS shown, \"user\", start_ns, end_ns, \
      end_ns - start_ns AS elapsed_ns, CASE state WHEN 'running' THEN 'RUNNING' END AS state, \
      nodes::UBIGINT AS nodes, reserved_cpus::UBIGINT AS cores, reserved_gpus::UBIGINT AS gpus, \
      reserved_memory::UBIGINT AS memory \
    FROM job WHERE job IS NOT NULL AND NOT is_accounted) c";
/// The same where there are only accounts: then it is one table, and asked like one.
const ACCOUNTED: &str = "(SELECT rowid AS place, true AS is_accounted, * FROM accounting) c";

/// What was measured in a job's time: a number that is given again is another job's.
const MEASURED: &str = "LEFT JOIN job j ON j.job = c.job \
    AND (j.cluster = c.cluster OR j.cluster IS NULL OR c.cluster IS NULL) \
    AND j.start_ns <= coalesce(c.end_ns, 9223372036854775807) \
    AND coalesce(j.end_ns, j.heard_ns, j.start_ns) >= c.start_ns - 60000000000";

impl Reader {
    /// Jobs, and one more than was asked for if there are more.
    pub fn jobs(&self, which: &Which, page: &Page) -> Result<Rows, StoreError> {
        self.ask(|snapshot| snapshot.jobs(which, page))
    }

    pub fn count_jobs(&self, which: &Which) -> Result<u64, StoreError> {
        self.ask(|snapshot| snapshot.count_jobs(which))
    }

    /// Jobs put together, those with most processor time first, or in the order of time.
    pub fn group_jobs(&self, which: &Which, by: JobsBy) -> Result<Rows, StoreError> {
        self.ask(|snapshot| snapshot.group_jobs(which, by))
    }
}

impl Snapshot<'_> {
    fn jobs(&self, which: &Which, page: &Page) -> Result<Rows, StoreError> {
        let conditions = which.conditions();
        let order = order(page);
        let keys = [page.sort].into_iter().any(JobColumn::is_measured) || which.is_measured();
        let select: Vec<&str> = page.columns.iter().map(|column| column.sql.as_str()).collect();
        let is_joined = keys || page.columns.iter().any(|column| column.is_measured());
        let Some(limit) = page.limit else {
            let from = self.from(is_joined)?;
            let sql = format!("SELECT {} FROM {from} {} {order}", select.join(", "), conditions.sql());
            return self.job_rows(&sql, &conditions.values, page);
        };
        // Which ones first, by the columns that decide it, then all columns of these: reading all of all is what takes time.
        let from = self.from(keys)?;
        let found =
            format!("SELECT c.is_accounted, c.place FROM {from} {} {order} LIMIT {limit}", conditions.sql());
        let found = self.rows(&found, &conditions.values, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let from = self.from(is_joined)?;
        let sql = format!("SELECT {} FROM {from} WHERE {} {order}", select.join(", "), these(&found));
        self.job_rows(&sql, &[], page)
    }

    fn job_rows(&self, sql: &str, values: &[Sql], page: &Page) -> Result<Rows, StoreError> {
        self.rows(sql, values, |row| {
            let mut made = Map::new();
            for (at, column) in page.columns.iter().enumerate() {
                made.insert(column.name.clone(), value(column, row.get(at)?));
            }
            Ok(made)
        })
    }

    fn count_jobs(&self, which: &Which) -> Result<u64, StoreError> {
        let conditions = which.conditions();
        let sql = format!("SELECT count(*) FROM {} {}", self.from(which.is_measured())?, conditions.sql());
        let counted = self.rows(&sql, &conditions.values, |row| row.get(0))?;
        Ok(counted.first().copied().unwrap_or(0))
    }

    fn from(&self, is_joined: bool) -> Result<String, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM job WHERE job IS NOT NULL AND NOT is_accounted)";
        let is_more = self.rows(sql, &[], |row| row.get::<_, bool>(0))?.contains(&true);
        let jobs = if is_more { JOBS } else { ACCOUNTED };
        Ok(if is_joined { format!("{jobs} {MEASURED}") } else { jobs.to_owned() })
    }
}

/// Newest first unless asked otherwise; what is not known is last. The second word decides between equals, so that two
/// questions have one answer.
fn order(page: &Page) -> String {
    let way = if page.is_ascending { "ASC" } else { "DESC" };
    format!("ORDER BY {} {way} NULLS LAST, c.is_accounted, c.place {way}", page.sort.sql)
}

/// The rows that were found, by table.
fn these(found: &[(bool, i64)]) -> String {
    let of = |is_accounted: bool| {
        let places = found.iter().filter(|(own, _)| *own == is_accounted);
        let places: Vec<String> = places.map(|(_, place)| place.to_string()).collect();
        (!places.is_empty())
            .then(|| format!("(c.is_accounted = {is_accounted} AND c.place IN ({}))", places.join(", ")))
    };
    let both: Vec<String> = [true, false].into_iter().filter_map(of).collect();
    if both.is_empty() { "false".into() } else { both.join(" OR ") }
}

impl Which {
    fn is_measured(&self) -> bool {
        self.conditions.iter().flat_map(Condition::columns).any(|column| column.sql.contains("j."))
    }

    fn conditions(&self) -> Conditions {
        let mut conditions = Conditions::default();
        if let Some(since) = self.since_ns {
            conditions.add("(c.end_ns >= ? OR c.end_ns IS NULL)", [Sql::BigInt(since)]);
        }
        if let Some(until) = self.until_ns {
            // The first says less, but of one column only, so that parts of the table are left out.
            let text = "(c.submit_ns < ? OR c.submit_ns IS NULL) AND coalesce(c.start_ns, c.submit_ns) < ?";
            conditions.add(text, [Sql::BigInt(until), Sql::BigInt(until)]);
        }
        if let Some(node) = &self.node {
            conditions.add(
                "(c.node_list IN (SELECT list FROM node_list WHERE host = ?) OR NOT c.is_accounted \
                  AND c.job IN (SELECT job FROM job_sample WHERE host = ? OR node = ?))",
                std::iter::repeat_n(Sql::Text(node.clone()), 3),
            );
        }
        for condition in &self.conditions {
            let sql = condition.sql();
            conditions.add(&sql.text, sql.values.into_iter().map(bound));
        }
        conditions
    }
}

fn bound(value: Bound) -> Sql {
    match value {
        Bound::Number(number) => Sql::Double(number),
        Bound::Time(ns) => Sql::BigInt(ns),
        Bound::Text(text) => Sql::Text(text),
        Bound::Boolean(boolean) => Sql::Boolean(boolean),
        Bound::Unknown => Sql::Null,
    }
}

/// A value as answers have it: times as text, numbers whole where they are.
fn value(column: &JobColumn, value: Sql) -> Value {
    match (column.of, value) {
        (condition::Type::Time, Sql::BigInt(ns)) => time(Some(ns)),
        (_, Sql::Boolean(boolean)) => json!(boolean),
        (_, Sql::Text(text)) => json!(text),
        (_, Sql::BigInt(number)) => json!(number),
        (_, Sql::UBigInt(number)) => json!(number),
        (_, Sql::UInt(number)) => json!(number),
        (_, Sql::Double(number)) => json!(number),
        (_, Sql::HugeInt(number)) => json!(number as f64),
        _ => Value::Null,
    }
}
