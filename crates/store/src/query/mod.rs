//! Questions to the store. Whatever a user gives is a bound value, never text of a query.

pub(crate) mod batch;
pub mod environment;
mod export;
pub(crate) mod hosts;
mod job;
pub mod jobs;
mod measures;
mod named_nodes;
mod nodes;
pub mod notes;
mod on_node;
pub mod page;
mod processes;
mod programs;
pub(crate) mod resources;
pub(crate) mod running;
mod series;
mod short;
mod site;
mod steps;
pub mod tags;
mod top;
mod uses;

use std::sync::Arc;

use condition::like::Pattern;
use digest::Site;
use duckdb::types::Value as Sql;
use duckdb::{Connection, InterruptHandle, Row, ToSql, Transaction};
use record::metric::Metric;
use record::site::Description;
use serde_json::{Map, Value, json};

use crate::StoreError;
use crate::kind;
use crate::sight::{self, Sight};
use crate::tags::{Declared, Shared};

pub use environment::{Rule, Rules};
pub use named_nodes::{Nodes, NodesError, UnknownNode};
pub use page::{After, Listed};
pub use short::Per;
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
    /// Only those that ended with an exit code other than 0, or by a signal.
    pub is_failed: bool,
    /// Only those that run.
    pub is_running: bool,
    /// Whatever ran at some time between these two, in nanoseconds since 1970.
    pub since_ns: Option<i64>,
    pub until_ns: Option<i64>,
    /// At most so many rows.
    pub limit: Option<u64>,
    /// Behind this place of the list.
    pub after: Option<After>,
}

impl Filter {
    /// For lists that are known by positions.
    fn limit_sql(&self) -> String {
        let limit = self.limit.map_or(String::new(), |limit| format!("LIMIT {limit}"));
        let offset =
            self.after.as_ref().map_or(String::new(), |after| format!(" OFFSET {}", after.position()));
        limit + &offset
    }
}

/// A connection to ask with.
pub struct Reader {
    connection: Connection,
    site: Arc<Site>,
    tags: Arc<Shared>,
    kinds: Arc<kind::There>,
    sight: Sight,
    /// The name of the database, whose tables may have views in front of them.
    database: Arc<str>,
}

/// The store at one moment: all queries of one question see the same.
pub(crate) struct Snapshot<'c> {
    pub(crate) connection: &'c Connection,
    /// None where one query is all there is.
    transaction: Option<Transaction<'c>>,
    pub(crate) site: &'c Site,
    database: &'c str,
}

/// Ends the question that a reader is at.
pub struct Stop(Arc<InterruptHandle>);

impl Stop {
    pub fn stop(&self) {
        self.0.interrupt();
    }
}

type Rows = Vec<Map<String, Value>>;

impl Reader {
    pub(crate) fn new(
        connection: Connection,
        database: Arc<str>,
        site: Arc<Site>,
        tags: Arc<Shared>,
        kinds: Arc<kind::There>,
    ) -> Reader {
        Reader { connection, site, tags, kinds, sight: Sight::All, database }
    }

    /// Sees only so much from now on.
    pub(crate) fn limited(self, sight: &Sight) -> Result<Reader, StoreError> {
        sight::limit(&self.connection, sight)?;
        Ok(Reader { sight: sight.clone(), ..self })
    }

    /// The way to end a question while it is asked, from another thread.
    pub fn stop(&self) -> Stop {
        Stop(self.connection.interrupt_handle())
    }

    /// The tags that are declared now, of those that whoever asks sees.
    pub fn tags(&self) -> Declared {
        self.tags.get().seen_by(&self.sight)
    }

    /// All queries of the question see the same.
    pub(crate) fn ask<T>(
        &self,
        question: impl FnOnce(&Snapshot) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let snapshot = self.snapshot(Some(self.connection.unchecked_transaction()?));
        let answer = question(&snapshot)?;
        snapshot.transaction.map_or(Ok(()), Transaction::commit)?;
        Ok(answer)
    }

    /// A question of one query, which is one moment anyway: to begin and end a transaction takes half a millisecond.
    fn ask_one<T>(&self, question: impl FnOnce(&Snapshot) -> Result<T, StoreError>) -> Result<T, StoreError> {
        question(&self.snapshot(None))
    }

    fn snapshot<'c>(&'c self, transaction: Option<Transaction<'c>>) -> Snapshot<'c> {
        Snapshot { connection: &self.connection, transaction, site: &self.site, database: &self.database }
    }

    /// Processes in the order in which they began: as many as one part of a list has.
    pub fn processes(&self, filter: &Filter) -> Result<Listed, StoreError> {
        self.ask(|snapshot| snapshot.processes(filter))
    }

    /// Everything that ran in a job, each process with the place of its parent in the list; `None` if there is no
    /// such job.
    pub fn job(&self, filter: &Filter, now_ns: i64) -> Result<Option<Value>, StoreError> {
        self.ask(|snapshot| {
            let mut resources = snapshot.resources(filter, now_ns)?;
            let mut job = snapshot.job(filter)?;
            let account = snapshot.account(filter)?.filter(|account| account.says_what_it_has());
            if let Some(account) = &account {
                account.overrule(&mut resources);
            }
            let account = account.filter(|account| !account.is_only_measured);
            // A job that runs has been measured before one of its programs has ended; of others only the batch system knows.
            if job.is_none() && (!resources.is_null() || account.is_some()) {
                job = Some(json!({"job": filter.job, "processes": [], "rows": 0, "libraries": [], "modules": [], "containers": []}));
            }
            if let Some(job) = &mut job {
                job["resources"] = resources;
                job["measures"] = account.as_ref().map_or(Ok(Vec::new()), |account| snapshot.measures(account.id))?.into();
                job["steps"] = account.as_ref().map_or(Ok(Vec::new()), |account| snapshot.steps(account.id))?.into();
                job["account"] = account.map_or(Value::Null, |account| account.row.into());
            }
            Ok(job)
        })
    }

    /// Whether anything is known of a job: by its batch system, or because it was seen or measured.
    pub fn knows_job(&self, job: &str) -> Result<bool, StoreError> {
        self.ask(|snapshot| {
            let sql = "SELECT 1 FROM accounting WHERE job = ? OR shown = ? LIMIT 1";
            let values = [Sql::Text(job.to_owned()), Sql::Text(job.to_owned())];
            if !snapshot.rows(sql, &values, |row| row.get::<_, i64>(0))?.is_empty() {
                return Ok(true);
            }
            for table in ["process", "job_sample"] {
                let (_, first, last) = snapshot.find_job(table, job)?;
                if first <= last {
                    return Ok(true);
                }
            }
            Ok(snapshot.has_running("job", job)? || snapshot.has_running("session", job)?)
        })
    }

    /// What a job reserved and used; null if it was never measured.
    pub fn resources(&self, filter: &Filter, now_ns: i64) -> Result<Value, StoreError> {
        self.ask(|snapshot| snapshot.resources(filter, now_ns))
    }

    /// The row of a job: its characteristics, by the names of the columns.
    pub fn job_row(&self, job: &str) -> Result<Option<Map<String, Value>>, StoreError> {
        self.ask(|snapshot| snapshot.job_row(job, None))
    }

    /// Short jobs, rolled up by user and time.
    pub fn short_jobs(&self, filter: &Filter, per: Per) -> Result<Rows, StoreError> {
        self.ask(|snapshot| snapshot.short_jobs(filter, per))
    }

    /// How the nodes fare, or some of them.
    pub fn nodes(&self, which: Option<&Nodes>, now_ns: i64) -> Result<Rows, StoreError> {
        self.ask(|snapshot| snapshot.nodes(which, now_ns))
    }

    /// The machine as its batch system has it, with what the site says over it: all clusters, or one.
    pub fn site(&self, cluster: Option<&str>) -> Result<Value, StoreError> {
        self.ask(|snapshot| snapshot.site(cluster))
    }

    /// Clusters as they were described.
    pub fn descriptions(&self) -> Result<Vec<Description>, StoreError> {
        self.ask(|snapshot| snapshot.descriptions())
    }

    /// The batch jobs that run now, by their last readings.
    pub fn top(&self, now_ns: i64) -> Result<Rows, StoreError> {
        self.ask(|snapshot| snapshot.top(now_ns))
    }

    /// The series of a metric of a job, node by node and GPU by GPU.
    pub fn series(&self, filter: &Filter, metric: &'static Metric, now_ns: i64) -> Result<Rows, StoreError> {
        self.ask(|snapshot| snapshot.series(filter, metric, now_ns))
    }

    /// The series of a metric of a job as another system measured it.
    pub fn measure_series(&self, filter: &Filter, metric: &str) -> Result<Rows, StoreError> {
        self.ask(|snapshot| snapshot.measure_series(filter, metric))
    }

    /// Programs, those that ran most first.
    pub fn programs(&self, filter: &Filter) -> Result<Rows, StoreError> {
        self.ask(|snapshot| snapshot.programs(filter))
    }

    /// Libraries, by path, those of most jobs first.
    pub fn libraries(&self, filter: &Filter) -> Result<Rows, StoreError> {
        self.ask(|snapshot| snapshot.libraries(filter))
    }

    /// Modules, those of most jobs first.
    pub fn modules(&self, filter: &Filter) -> Result<Rows, StoreError> {
        self.ask(|snapshot| snapshot.modules(filter))
    }

    /// Runs for which a rule about variables holds, and how many runs have variables that are not known.
    pub fn check_environments(&self, rules: &[Rule], filter: &Filter) -> Result<(Rows, u64), StoreError> {
        self.ask(|snapshot| snapshot.check_environments(rules, filter))
    }

    /// Programs that loaded an object that fits `pattern`: a pattern for the path (with a `/` in it) or for the
    /// name, a build-id or a content hash.
    pub fn uses(&self, pattern: &str, group_by: GroupBy, filter: &Filter) -> Result<Rows, StoreError> {
        self.ask(|snapshot| snapshot.uses(pattern, group_by, filter))
    }
}

impl Snapshot<'_> {
    /// Runs a query and makes something of each row.
    ///
    /// A plan rests on what the table holds when it is made (the longest name, the highest number), so it is made
    /// for this question only: run over more than that, it gives wrong answers.
    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        values: &[Sql],
        mut make: impl FnMut(&Row) -> duckdb::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut made = Vec::new();
        self.each(sql, values, |row| {
            made.push(make(row)?);
            Ok(())
        })?;
        Ok(made)
    }

    /// The same, for whoever keeps something else than one thing of each row.
    pub(crate) fn each(
        &self,
        sql: &str,
        values: &[Sql],
        mut take: impl FnMut(&Row) -> duckdb::Result<()>,
    ) -> Result<(), StoreError> {
        self.each_while(sql, values, |row| take(row).map(|()| true))
    }

    /// The same, until there is enough.
    pub(crate) fn each_while(
        &self,
        sql: &str,
        values: &[Sql],
        mut take: impl FnMut(&Row) -> duckdb::Result<bool>,
    ) -> Result<(), StoreError> {
        // With values the database plans when it runs, as a test sees; without any, something may come in between.
        let is_alone = self.transaction.is_none() && values.is_empty();
        let transaction = is_alone.then(|| self.connection.unchecked_transaction()).transpose()?;
        let values: Vec<&dyn ToSql> = values.iter().map(|value| value as &dyn ToSql).collect();
        let mut query = self.connection.prepare(sql)?;
        let mut rows = query.query(&values[..])?;
        while let Some(row) = rows.next()? {
            if !take(row)? {
                break;
            }
        }
        drop(rows);
        transaction.map_or(Ok(()), Transaction::commit)?;
        Ok(())
    }

    /// Where a job's rows lie: it has stretches of the table that follow each other in time, and looking for one name in
    /// one column shows most others to be without it. Where the name of a session stands in its own column only, it is looked for where
    /// no batch job has it: either or both in one condition would have to be looked for everywhere.
    fn find_job(&self, table: &str, job: &str) -> Result<(&'static str, i64, i64), StoreError> {
        for column in ["job", "session"] {
            let sql = format!("SELECT min(rowid), max(rowid) FROM {table} WHERE {column} = ?");
            let found =
                self.rows(&sql, &[Sql::Text(job.to_owned())], |row| Ok((row.get(0)?, row.get(1)?)))?;
            if let Some((Some(first), Some(last))) = found.first() {
                return Ok((column, *first, *last));
            }
        }
        // Nothing lies there.
        Ok(("job", 1, 0))
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
        if let Some(user) = &filter.user {
            conditions.add("\"user\" = ?", [text(user)]);
        }
        if let Some(exe) = &filter.exe {
            let pattern = if exe.contains('/') { exe.clone() } else { format!("*/{exe}") };
            let (text, value) = Pattern::of_glob(&pattern).sql("exe");
            conditions.add(&text, [Sql::Text(value)]);
        }
        if let Some(host) = &filter.host {
            // What is no list of nodes is no node's name either.
            let nodes = Nodes::parse(host).unwrap_or_else(|_| Nodes::literal(host));
            let ((own, values), (other, again)) = (nodes.fits("host"), nodes.fits("node"));
            conditions.add(&format!("({own} OR {other})"), values.into_iter().chain(again));
        }
        if let Some(pid) = filter.pid {
            conditions.add("pid = ?", [Sql::UInt(pid)]);
        }
        if filter.is_failed {
            conditions.add("(exit_code <> 0 OR signal > 0)", []);
        }
        if let Some(since) = filter.since_ns {
            // The first says the same less exactly, but of one column only, so that old parts of the table are left out.
            let text = "(end_ns >= ? OR end_ns IS NULL) AND coalesce(end_ns, start_ns) >= ?";
            conditions.add(text, [Sql::BigInt(since), Sql::BigInt(since)]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sight::limit;

    /// A pattern is tried on rows that whoever asks may see, and on no others: theirs are chosen where the table is read.
    #[test]
    fn what_is_hidden_is_left_out_before_a_pattern_is_tried() {
        let connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&connection).unwrap();
        let jobs = "INSERT INTO accounting BY NAME SELECT range AS id, range::VARCHAR AS job, range::VARCHAR AS shown, \
                    ['eve', 'otto', 'zora'][range % 3 + 1] AS \"user\", range::VARCHAR AS name FROM range(5000)";
        connection.execute_batch(jobs).unwrap();
        let sight = Sight::Own { user: "eve".into(), projects: vec![], member_of: vec![] };
        limit(&connection, &sight).unwrap();
        let (fits, value) = Pattern::of_glob("*?1*2").sql("name");
        let sql = format!("EXPLAIN SELECT count(*) FROM accounting WHERE {fits}");
        let plan: String = connection.query_row(&sql, [value], |row| row.get(1)).unwrap();
        // Lines of the plan are cut: the pattern is tried on a text that is there only if the row is seen.
        let words = plan.replace(['│', '\n', ' '], "");
        assert!(words.contains("regexp_full_match(CASEWHEN((user='eve'))"), "{plan}");
    }

    /// Rows that come between a plan and its run are found, if a value is bound. Without one, a plan for numbers below 100 gives wrong
    /// answers for larger ones.
    #[test]
    fn a_query_with_values_is_planned_when_it_runs() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch("CREATE TABLE t AS SELECT range AS x, range::VARCHAR AS y FROM range(100)")
            .unwrap();
        let writer = connection.try_clone().unwrap();
        for (condition, value) in [
            ("x >= ?", Sql::BigInt(0)),
            ("x >= ?", Sql::Double(0.0)),
            ("y >= CAST(? AS VARCHAR)", Sql::Text("0".into())),
            ("true LIMIT ?", Sql::UBigInt(1_000_000)),
        ] {
            let (condition, limit) =
                condition.split_once(" LIMIT").map_or((condition, ""), |(first, _)| (first, "LIMIT ?"));
            let mut query = connection
                .prepare(&format!("SELECT x, y FROM t WHERE {condition} ORDER BY x DESC, y {limit}"))
                .unwrap();
            let next: i64 =
                writer.query_row("SELECT max(x) * 1000 + 7 FROM t", [], |row| row.get(0)).unwrap();
            writer.execute("INSERT INTO t SELECT ?, repeat('9', 200)", [next]).unwrap();
            let found: i64 = query.query_row([value], |row| row.get(0)).unwrap();
            assert_eq!(found, next, "{condition}");
        }
    }
}
