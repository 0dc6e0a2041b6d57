//! The whole collection of jobs: filtered, sorted, counted, put together.

mod after;
pub(super) mod attributed;
mod columns;
mod elsewhere;
mod found;
mod group;
mod sacct;
mod software;
pub(super) mod tagged;

use std::iter;
use std::sync::Arc;

use condition::{Condition, Value as Bound};
use duckdb::types::Value as Sql;

use super::{Conditions, Listed, Nodes, Reader, Rows, Snapshot, page};
use crate::StoreError;

pub use after::JobAfter;
pub use columns::{Columns, FIXED, JobColumn, USUAL, USUAL_ORDER, column};
use found::Found;
pub(super) use found::value;
pub use group::{GroupSort, JobsBy};
pub(crate) use software::{Known as KnownBy, OF_JOB, fits, variables};
pub use tagged::{Origin, Tagged, Wanted};

/// Which jobs are asked for; what is absent does not matter.
#[derive(Debug, Clone, Default)]
pub struct Which {
    /// All of them must hold. Of the columns of a [`Columns`].
    pub conditions: Vec<Condition>,
    /// On one of these nodes.
    pub node: Option<Nodes>,
    /// Whatever waited or ran at some time between these two, in nanoseconds since 1970.
    pub since_ns: Option<i64>,
    pub until_ns: Option<i64>,
    pub tagged: Tagged,
}

/// What is to be said of them, and in which order.
#[derive(Debug, Clone)]
pub struct Page {
    pub columns: Vec<Arc<JobColumn>>,
    pub sort: Arc<JobColumn>,
    pub is_ascending: bool,
    /// At most so many rows; without it, as many as one part of the list has.
    pub limit: Option<u64>,
    /// Behind this job.
    pub after: Option<JobAfter>,
}

impl Page {
    /// A part has few rows where each has many columns: what does not fit into it would be looked up for nothing.
    fn rows(&self) -> u64 {
        let fit = page::BYTES / (self.columns.len().max(1) * BYTES_OF_COLUMN);
        self.limit.unwrap_or(u64::MAX).min((fit as u64).max(1))
    }
}

/// What a name and its value take in an answer, about.
const BYTES_OF_COLUMN: usize = 24;

/// Jobs as their batch system accounts for them, or as they were measured where none does.
pub(super) const ACCOUNTED: &str = "accounting c";

/// How many jobs there are: tasks of an array that wait together are one row, and counted one by one.
pub(super) const COUNTED: &str = "(count(*) + coalesce(sum(c.waiting_tasks - 1), 0))::UBIGINT";

/// Whether something of another table is of the same cluster as `c`, or of one that is not known: comparisons of one side with the other only.
/// `a = b OR a IS NULL OR b IS NULL` would say it in fewer words, and have the database compare each row with each.
macro_rules! same_cluster {
    ($other:literal) => {
        concat!(
            "coalesce(",
            $other,
            ".cluster, '') <= coalesce(c.cluster, chr(1114111)) AND coalesce(",
            $other,
            ".cluster, chr(1114111)) >= coalesce(c.cluster, '')"
        )
    };
}
pub(crate) use same_cluster;

/// What was measured in a job's time: a number that is given again is another job's.
const MEASURED: &str = concat!(
    "LEFT JOIN job j ON j.job = c.job AND ",
    same_cluster!("j"),
    " AND j.start_ns <= coalesce(c.end_ns, 9223372036854775807) \
     AND coalesce(j.end_ns, j.heard_ns, j.start_ns) >= c.start_ns - 60000000000"
);

impl Reader {
    /// Jobs, and whether there are more.
    pub fn jobs(&self, which: &Which, page: &Page) -> Result<Listed, StoreError> {
        self.ask_one(|snapshot| snapshot.jobs(which, page))
    }

    /// The columns that jobs have here.
    pub fn job_columns(&self) -> Result<Columns, StoreError> {
        self.ask(|snapshot| snapshot.job_columns())
    }

    pub fn count_jobs(&self, which: &Which) -> Result<u64, StoreError> {
        self.ask_one(|snapshot| snapshot.count_jobs(which))
    }

    /// Groups of jobs; unless sorted otherwise those with most processor time first, or in the order of time.
    pub fn group_jobs(&self, which: &Which, by: JobsBy, sort: Option<GroupSort>) -> Result<Rows, StoreError> {
        self.ask(|snapshot| snapshot.group_jobs(which, by, sort))
    }
}

impl Snapshot<'_> {
    fn jobs(&self, which: &Which, page: &Page) -> Result<Listed, StoreError> {
        let mut conditions = which.conditions();
        let sort = self.order(&page.sort)?;
        if let Some(after) = &page.after {
            after.add_to(&mut conditions, &sort, page.is_ascending);
        }
        let sql = parts(which, page, &sort, &conditions.sql());
        let mut values = conditions.values;
        values.push(Sql::UBigInt(page.rows().saturating_add(1)));
        let mut found = Found::new(page);
        self.each_while(&sql, &values, |row| found.take(row))?;
        Ok(found.listed)
    }

    /// What is sorted by. Where all submissions are known, the usual order is that of one column, of which the database is faster.
    fn order(&self, sort: &Arc<JobColumn>) -> Result<Arc<JobColumn>, StoreError> {
        if !Arc::ptr_eq(sort, &USUAL_ORDER) {
            return Ok(sort.clone());
        }
        let sql = format!("SELECT 1 FROM {ACCOUNTED} WHERE c.submit_ns IS NULL LIMIT ?");
        let is_any_unknown = !self.rows(&sql, &[Sql::UBigInt(1)], |row| row.get::<_, i64>(0))?.is_empty();
        Ok(column("submit").filter(|_| !is_any_unknown).unwrap_or(sort).clone())
    }

    fn count_jobs(&self, which: &Which) -> Result<u64, StoreError> {
        let (conditions, beside) = (which.conditions(), which.beside(iter::empty()));
        // With something bound, the question needs no transaction of its own, which would take as long as to count all.
        let mut values = conditions.values.clone();
        values.push(Sql::UBigInt(1));
        let sql = format!("SELECT {COUNTED} FROM {ACCOUNTED} {beside} {} LIMIT ?", conditions.sql());
        Ok(self.rows(&sql, &values, |row| row.get::<_, u64>(0))?.iter().sum())
    }

    /// The columns that jobs have here: those that are always there, and those of what other systems measured.
    fn job_columns(&self) -> Result<Columns, StoreError> {
        let sql = "SELECT DISTINCT metric, unit FROM job_measure WHERE NOT is_ours ORDER BY metric";
        let own = self.rows(sql, &[], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Columns::with(&own))
    }
}

/// A part of the jobs. What is to be said of one is read and looked for beside it when it is known to be among them: as one query, all columns of all
/// jobs that fit are carried through whatever else is looked at for a condition.
fn parts(which: &Which, page: &Page, sort: &Arc<JobColumn>, condition: &str) -> String {
    let found = format!(
        "SELECT c.rowid AS place, c.id AS id, {} AS sorted FROM {ACCOUNTED} {} {condition} {} LIMIT ?",
        sort.sql,
        which.beside(iter::once(sort)),
        order(page, "id")
    );
    format!(
        "SELECT {}, f.sorted AS sorted, f.id AS id_ FROM ({found}) f JOIN {ACCOUNTED} ON c.rowid = f.place {} {}",
        select(page),
        Which::default().beside(page.columns.iter()),
        order(page, "id_")
    )
}

fn select(page: &Page) -> String {
    let named = page.columns.iter().enumerate().map(|(at, column)| format!("{} AS v{at}", column.sql));
    named.collect::<Vec<_>>().join(", ")
}

/// The first rows: newest unless asked otherwise; what is not known is last. Between equals the job's id decides, which stays when its
/// row is written anew, so that two questions have one answer and parts of the list fit together.
fn order(page: &Page, id: &str) -> String {
    let way = if page.is_ascending { "ASC" } else { "DESC" };
    format!("ORDER BY sorted {way} NULLS LAST, {id} {way}")
}

impl Which {
    /// What stands beside a job for these columns and for those of the conditions: what was measured of it, by us and by others.
    pub(crate) fn beside<'a>(&self, columns: impl Iterator<Item = &'a Arc<JobColumn>>) -> String {
        let own = columns.map(|column| column.sql.as_str());
        let conditions =
            self.conditions.iter().flat_map(Condition::columns).map(|column| column.sql.as_str());
        let used: Vec<&str> = own.chain(conditions).collect();
        let mut beside = Vec::new();
        if used.iter().any(|sql| sql.contains("j.")) {
            beside.push(MEASURED.to_owned());
        }
        beside.extend(columns::told_by_others(&used));
        beside.extend(columns::told_by_site(&used).map(str::to_owned));
        beside.join(" ")
    }

    pub(in crate::query) fn conditions(&self) -> Conditions {
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
            let (fits, values) = node.fits("host");
            conditions.add(&format!("c.node_list IN (SELECT list FROM node_list WHERE {fits})"), values);
        }
        self.tagged.conditions().into_iter().for_each(|(text, values)| conditions.add(&text, values));
        for condition in &self.conditions {
            let sql = condition.sql();
            conditions.add(&sql.text, sql.values.into_iter().map(bound));
        }
        conditions
    }
}

pub(crate) fn bound(value: Bound) -> Sql {
    match value {
        Bound::Number(number) => Sql::Double(number),
        Bound::Time(ns) => Sql::BigInt(ns),
        Bound::Text(text) => Sql::Text(text),
        Bound::Boolean(boolean) => Sql::Boolean(boolean),
        Bound::Unknown => Sql::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duckdb::{Connection, params_from_iter};

    /// Each row beside each would take hours for a collection of years.
    #[test]
    fn what_stands_beside_a_job_is_not_looked_for_row_by_row() {
        let connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&connection).unwrap();
        connection
            .execute_batch(
                "INSERT INTO accounting BY NAME SELECT range AS id, range::VARCHAR AS job, range::VARCHAR AS shown, range AS start_ns \
                   FROM range(5000); \
                 INSERT INTO job BY NAME SELECT range::VARCHAR AS job, range AS start_ns, 1 AS nodes, false AS is_shared, 1 AS readings, \
                   0 AS computed_ns, range AS heard_ns FROM range(5000)",
            )
            .unwrap();
        for text in ["cpu_avg > 1", "node_cores > 2 and is_test_partition", "load_avg < 1"] {
            let condition = Condition::parse(text, &FIXED.catalogue).unwrap();
            let which = Which { conditions: vec![condition], ..Which::default() };
            let conditions = which.conditions();
            let beside = which.beside(iter::empty());
            let sql = format!("EXPLAIN SELECT count(*) FROM accounting c {beside} {}", conditions.sql());
            let plan: String =
                connection.query_row(&sql, params_from_iter(&conditions.values), |row| row.get(1)).unwrap();
            assert!(plan.contains("HASH_JOIN"), "{text}:\n{plan}");
            assert!(!plan.contains("NL_JOIN") && !plan.contains("NESTED_LOOP"), "{text}:\n{plan}");
        }
    }
}
