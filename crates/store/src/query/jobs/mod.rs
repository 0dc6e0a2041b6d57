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
use crate::kind::{Kind, Kinds};

pub use after::JobAfter;
use columns::KIND;
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
    pub kinds: Kinds,
}

/// Some time, in nanoseconds since 1970: of jobs, whatever waited or ran in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Period {
    pub since_ns: Option<i64>,
    pub until_ns: Option<i64>,
}

impl Period {
    /// Conditions on `c`, each with the value of all its `?`.
    fn conditions(self) -> impl Iterator<Item = (&'static str, i64)> {
        let since = self.since_ns.map(|since| ("(c.end_ns >= ? OR c.end_ns IS NULL)", since));
        // The first says less, but of one column only, so that parts of the table are left out.
        let until = "(c.submit_ns < ? OR c.submit_ns IS NULL) AND coalesce(c.start_ns, c.submit_ns) < ?";
        since.into_iter().chain(self.until_ns.map(|at| (until, at)))
    }

    /// The same as text of a query: these are our own numbers.
    pub(crate) fn sql(self) -> String {
        let written = self.conditions().map(|(text, at)| text.replace('?', &at.to_string()));
        ["true".to_owned()].into_iter().chain(written).collect::<Vec<_>>().join(" AND ")
    }
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

/// What was measured in a job's time: a number that is given again is another job's. Nobody calls their job as a session is called
/// and has what was measured of it.
const MEASURED: &str = concat!(
    "LEFT JOIN job j ON j.job = c.job AND (j.session IS NULL) = (c.kind = 0) AND ",
    same_cluster!("j"),
    " AND j.start_ns <= coalesce(c.end_ns, 9223372036854775807) \
     AND coalesce(j.end_ns, j.heard_ns, j.start_ns) >= c.start_ns - 60000000000"
);

impl Reader {
    /// Jobs, and whether there are more.
    pub fn jobs(&self, which: &Which, page: &Page) -> Result<Listed, StoreError> {
        let which = &self.meant(which);
        self.ask_one(|snapshot| snapshot.jobs(which, page))
    }

    /// The columns that jobs have here.
    pub fn job_columns(&self) -> Result<Columns, StoreError> {
        self.ask(|snapshot| snapshot.job_columns())
    }

    pub fn count_jobs(&self, which: &Which) -> Result<u64, StoreError> {
        let which = &self.meant(which);
        self.ask_one(|snapshot| snapshot.count_jobs(which))
    }

    /// Groups of jobs; unless sorted otherwise those with most processor time first, or in the order of time.
    pub fn group_jobs(&self, which: &Which, by: JobsBy, sort: Option<GroupSort>) -> Result<Rows, StoreError> {
        let which = &self.meant(&which.grouped_by(by));
        self.ask(|snapshot| snapshot.group_jobs(which, by, sort))
    }
}

impl Reader {
    /// The same, where it is known which kinds of jobs there are.
    pub(in crate::query) fn meant(&self, which: &Which) -> Which {
        let names_kind = || which.conditions.iter().flat_map(Condition::columns).any(|of| of.name == KIND);
        let asked = if which.kinds == Kinds::Usual && names_kind() { Kinds::All } else { which.kinds };
        Which { kinds: self.kinds.meant(asked), ..which.clone() }
    }
}

impl Snapshot<'_> {
    fn jobs(&self, which: &Which, page: &Page) -> Result<Listed, StoreError> {
        let mut conditions = which.conditions();
        let sort = self.order(&page.sort, which.kinds)?;
        if let Some(after) = &page.after {
            after.add_to(&mut conditions, &sort, page.is_ascending);
        }
        let sql = parts(which, page, &sort, &conditions);
        let mut values = conditions.values;
        values.push(Sql::UBigInt(page.rows().saturating_add(1)));
        let mut found = Found::new(page);
        self.each_while(&sql, &values, |row| found.take(row))?;
        Ok(found.listed)
    }

    /// What is sorted by. Where all submissions are known, the usual order is that of one column, of which the database is faster.
    fn order(&self, sort: &Arc<JobColumn>, kinds: Kinds) -> Result<Arc<JobColumn>, StoreError> {
        if !Arc::ptr_eq(sort, &USUAL_ORDER) {
            return Ok(sort.clone());
        }
        let of_kind = kinds.condition().map_or(String::new(), |condition| format!("{condition} AND "));
        let sql = format!("SELECT 1 FROM {ACCOUNTED} WHERE {of_kind}c.submit_ns IS NULL LIMIT ?");
        let is_any_unknown = !self.rows(&sql, &[Sql::UBigInt(1)], |row| row.get::<_, i64>(0))?.is_empty();
        Ok(column("submit").filter(|_| !is_any_unknown).unwrap_or(sort).clone())
    }

    fn count_jobs(&self, which: &Which) -> Result<u64, StoreError> {
        let (conditions, beside) = (which.conditions(), which.beside(iter::empty()));
        // With something bound, the question needs no transaction of its own, which would take as long as to count all.
        let mut values = conditions.values.clone();
        values.push(Sql::UBigInt(1));
        let sql = if !conditions.leaves_out(which.kinds) && which.kinds != Kinds::Only(Kind::Session) {
            // How many rows there are stands in the head of the table; tasks that wait together are few, and so are sessions where there is
            // a batch system: the rest is not read for them.
            let others = match which.kinds {
                Kinds::Only(Kind::Job) => format!(" - (SELECT count(*) FROM {ACCOUNTED} WHERE c.kind = 1)"),
                _ => String::new(),
            };
            format!(
                "SELECT (count(*){others} + (SELECT coalesce(sum(c.waiting_tasks - 1), 0) FROM {ACCOUNTED} \
                   WHERE c.waiting_tasks IS NOT NULL))::UBIGINT FROM {ACCOUNTED} LIMIT ?"
            )
        } else {
            format!("SELECT {COUNTED} FROM {ACCOUNTED} {beside} {} LIMIT ?", conditions.sql())
        };
        Ok(self.rows(&sql, &values, |row| row.get::<_, u64>(0))?.iter().sum())
    }

    /// The columns that jobs have here: those that are always there, and those of what other systems measured.
    fn job_columns(&self) -> Result<Columns, StoreError> {
        let sql = "SELECT DISTINCT metric, unit FROM job_measure WHERE NOT is_ours ORDER BY metric";
        let own = self.rows(sql, &[], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Columns::with(&own))
    }
}

/// A part of the jobs. What is to be shown of one is looked for beside it when it is known to be among them.
///
/// Where a condition on the jobs' own rows leaves some of them out, their values are read together with those of the condition, as for a
/// bare query: a second look at the rows costs as much as the first where few of them fit. Without a condition, or where other tables are
/// looked at for it, all columns of all jobs would be carried along; then only the places of jobs are.
fn parts(which: &Which, page: &Page, sort: &Arc<JobColumn>, conditions: &Conditions) -> String {
    let condition = conditions.sql();
    let beside = which.beside(iter::once(sort));
    let shown = Which::default().beside(page.columns.iter());
    let is_selective = conditions.leaves_out(which.kinds);
    let order_by = |id| order(page, id);
    if is_selective && beside.is_empty() {
        let found = format!(
            "SELECT c.*, {} AS sorted FROM {ACCOUNTED} {condition} {} LIMIT ?",
            sort.sql,
            order_by("c.id")
        );
        return format!(
            "SELECT {}, c.sorted AS sorted, c.id AS id_ FROM ({found}) c {shown} {}",
            select(page),
            order_by("id_")
        );
    }
    let found = format!(
        "SELECT c.rowid AS place, c.id AS id, {} AS sorted FROM {ACCOUNTED} {beside} {condition} {} LIMIT ?",
        sort.sql,
        order_by("c.id")
    );
    format!(
        "SELECT {}, f.sorted AS sorted, f.id AS id_ FROM ({found}) f JOIN {ACCOUNTED} ON c.rowid = f.place {shown} {}",
        select(page),
        order_by("id_")
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
        if let Some(condition) = self.kinds.condition() {
            conditions.add(&condition, []);
        }
        for (text, at) in (Period { since_ns: self.since_ns, until_ns: self.until_ns }).conditions() {
            conditions.add(text, iter::repeat_n(Sql::BigInt(at), text.matches('?').count()));
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

impl Which {
    /// Who groups by kind means all of them.
    pub(in crate::query) fn grouped_by(&self, by: JobsBy) -> Which {
        let is_usual = self.kinds == Kinds::Usual && by == JobsBy::Kind;
        Which { kinds: if is_usual { Kinds::All } else { self.kinds }, ..self.clone() }
    }
}

impl Conditions {
    /// Whether there is any besides that of the kind, which leaves out few where there are few sessions.
    fn leaves_out(&self, kinds: Kinds) -> bool {
        self.text.len() > usize::from(kinds.condition().is_some())
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

    /// A page of few jobs took two to seven times as long while each of its rows was looked up once more.
    #[test]
    fn a_page_of_jobs_by_their_own_columns_reads_them_once() {
        let connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&connection).unwrap();
        let sql = "INSERT INTO accounting BY NAME SELECT range AS id, range::VARCHAR AS job, range::VARCHAR AS shown, 'eve' AS \"user\", \
                   range * 1000000000000 AS elapsed_ns, 'n' || range AS node_list FROM range(5000)";
        connection.execute_batch(sql).unwrap();
        let scans = |text: Option<&str>, kinds| {
            let condition = text.map(|text| Condition::parse(text, &FIXED.catalogue).unwrap());
            let which = Which { conditions: condition.into_iter().collect(), kinds, ..Which::default() };
            let sort = column("elapsed").unwrap().clone();
            let columns = ["job", "user", "elapsed", "core_hours"].map(|name| column(name).unwrap().clone());
            let page = Page {
                columns: columns.into(),
                sort: sort.clone(),
                is_ascending: false,
                limit: Some(100),
                after: None,
            };
            let conditions = which.conditions();
            let mut values = conditions.values.clone();
            values.push(Sql::UBigInt(101));
            let sql = format!("EXPLAIN {}", parts(&which, &page, &sort, &conditions));
            let plan: String =
                connection.query_row(&sql, params_from_iter(&values), |row| row.get(1)).unwrap();
            // Lines of the plan are cut.
            plan.replace(['│', '\n', ' '], "").matches("main.accounting").count()
        };
        for kinds in [Kinds::All, Kinds::Only(Kind::Job)] {
            assert_eq!(scans(Some("user = 'eve' and elapsed > 2h"), kinds), 1, "{kinds:?}");
            // The places of all of them first, then the rows of those on the page.
            assert_eq!(scans(None, kinds), 2, "{kinds:?}");
            assert_eq!(scans(Some("node_cores > 2"), kinds), 2, "{kinds:?}");
        }
    }
}
