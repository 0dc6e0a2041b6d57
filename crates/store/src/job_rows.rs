//! The characteristics of jobs, one wide row each: made when a job has ended, made anew when something comes late, and made now and
//! then while it runs.
//!
//! [`Writer::due`] says which, [`Reader::summarise`] reads and computes without the writer, and [`Writer::keep_rows`] replaces the
//! rows: the writer waits for the last only. A row is never made anew of less than it was made of.

use std::collections::{BTreeMap, BTreeSet};

use digest::job::OfMetric;
use digest::threshold::Reserved;
use digest::{Job, OnNode, Site, State};
use duckdb::types::Value as Sql;
use duckdb::{Connection, ToSql, Transaction, params_from_iter};
use record::metric::{self, Metric, Of};
use record::session::is_login;
use xxhash_rust::xxh3::xxh3_64;

use crate::accounting::implicit;
use crate::accounting::measured::{self, Measured};
use crate::better::{Old, Word, better, keep_extremes};
use crate::due::{Name, Seen};
use crate::kind::Kind;
use crate::query::Reader;
use crate::query::batch::Batch;
use crate::write::Writer;
use crate::{StoreError, accounting, now, tags, upkeep};

/// What could not be made while readings waited for it is tried again after this time.
const AFTER_ERROR_NS: i64 = 30_000_000_000;
/// So many jobs are made at most while batches wait.
const JOBS_BEFORE: usize = 20;

/// Jobs of the last week that have ended and have no row, or one that rests on less: a server may be killed before it has
/// made it. And those whose row says that they run. A node whose clock is ahead does not decide what the last week is. Of sessions
/// without an end, logins only are meant.
const NOT_MADE: &str = "WITH recent AS (SELECT least(?, max(time_ns)) - 604800000000000 AS ns FROM job_sample),
    seen AS (
        SELECT job, session, min(start_ns) AS start_ns, max(time_ns) AS heard_ns, count(*) AS readings,
            bool_or(end_ns IS NOT NULL) AS has_end
        FROM job_sample WHERE time_ns > (SELECT ns FROM recent) GROUP BY job, session),
    made AS (
        SELECT CASE WHEN session IS NULL THEN job END AS job, session, sum(readings) AS readings,
            bool_or(state = 'running') AS is_running
        FROM job WHERE computed_ns > (SELECT ns FROM recent) GROUP BY ALL)
    SELECT s.job, s.session, s.start_ns, s.heard_ns, s.readings::UBIGINT,
        coalesce(m.readings < s.readings, true), s.has_end
    FROM seen s
    LEFT JOIN made m ON m.job IS NOT DISTINCT FROM s.job AND m.session IS NOT DISTINCT FROM s.session
    WHERE (s.job IS NOT NULL OR s.has_end OR starts_with(s.session, 's')) AND (m.readings IS NULL OR m.readings < s.readings OR m.is_running)";

/// The characteristics of a metric that are kept, before its last value and its shares.
pub(crate) const CHARACTERISTICS: [&str; 6] = ["min", "max", "avg", "median", "node_min", "node_max"];

/// The columns that are not of a metric.
const OWN: [&str; 16] = [
    "cluster",
    "job",
    "session",
    "user",
    "state",
    "is_shared",
    "start_ns",
    "end_ns",
    "heard_ns",
    "computed_ns",
    "nodes",
    "reserved_cpus",
    "reserved_memory",
    "reserved_gpus",
    "readings",
    "coverage",
];

/// How many of them are no numbers.
const NO_NUMBERS: usize = 6;

/// Jobs whose rows are to be made.
#[derive(Debug)]
pub struct Due {
    /// What is deleted afterwards must not come back with a row that was made before.
    epoch: u64,
    jobs: Vec<(Name, Seen)>,
}

impl Due {
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}

/// The rows of jobs.
#[derive(Debug)]
pub struct Summaries {
    /// No row that they replace began before.
    since_ns: i64,
    rows: Vec<JobRow>,
    /// Jobs whose rows stay.
    stay: Vec<Stays>,
}

impl Summaries {
    /// How far the jobs of a name were found to be: of two clusters with the same number, one may still run.
    fn state(&self, name: &Name) -> Option<State> {
        let made = self.rows.iter().filter(|row| row.name == *name).map(|row| row.state);
        let stay = self.stay.iter().filter(|row| row.name == *name).map(|row| row.state);
        let states: Vec<State> = made.chain(stay).collect();
        states.iter().find(|state| **state == State::Running).or(states.first()).copied()
    }
}

#[derive(Debug)]
struct JobRow {
    cluster: Option<String>,
    name: Name,
    state: State,
    /// In the order of [`columns`].
    values: Vec<Sql>,
    /// For those of which no batch system has told, and for sessions of people.
    account: Option<Measured>,
}

/// A row whose numbers stay.
#[derive(Debug)]
struct Stays {
    cluster: Option<String>,
    name: Name,
    state: State,
    /// Absent unless it has ended.
    end: Option<i64>,
    heard: i64,
    /// The row does not say yet how far the job is.
    is_news: bool,
}

/// A counter's last value is its sum; where a node's gauge stood when a job ended says nothing of the job.
pub(crate) fn last_name(metric: &Metric) -> Option<&'static str> {
    match (metric.kind, metric.of) {
        (metric::Kind::Counter, _) => Some("total"),
        (metric::Kind::Gauge, Of::Node) => None,
        (metric::Kind::Gauge, _) => Some("last"),
    }
}

/// The metrics with characteristics, in the order of the columns.
pub(crate) fn metrics() -> impl Iterator<Item = &'static Metric> {
    metric::of(Of::Job).chain(metric::of(Of::Node))
}

/// The shares of a metric that are kept: a site's thresholds are of jobs' own metrics.
pub(crate) fn shares(metric: &Metric) -> &'static [&'static str] {
    if metric.of == Of::Job { &["below", "above"] } else { &[] }
}

/// The names of all columns.
fn columns() -> Vec<String> {
    let of_metric = |metric: &'static Metric| {
        let names = CHARACTERISTICS.into_iter().chain(last_name(metric));
        names.chain(shares(metric).iter().copied()).map(move |name| format!("{}_{name}", metric.name))
    };
    OWN.into_iter().map(str::to_owned).chain(metrics().flat_map(of_metric)).collect()
}

/// Where each column of the table is among [`columns`]: naming five hundred columns to DuckDB takes longer than writing them.
pub(crate) fn order(connection: &Connection) -> Result<Vec<usize>, StoreError> {
    let columns = columns();
    let mut query = connection.prepare("SELECT name FROM pragma_table_info('job') ORDER BY cid")?;
    let names = query.query_map([], |row| row.get::<_, String>(0))?;
    let place = |name: String| columns.iter().position(|own| *own == name);
    names
        .map(|name| place(name?).ok_or(StoreError::Damaged("a job's row has a column that is not known")))
        .collect()
}

/// The names of the columns of numbers.
pub(crate) fn numbers() -> Vec<String> {
    columns().split_off(NO_NUMBERS)
}

impl Reader {
    /// Makes the rows of jobs from their readings.
    pub fn summarise(&self, due: &Due, now_ns: i64) -> Result<Summaries, StoreError> {
        let own: Vec<_> = metric::of(Of::Job).collect();
        self.ask(|snapshot| {
            let Batch { since_ns, jobs, rows } = snapshot.batch(&due.jobs, &own)?;
            let deleted = upkeep::load_deleted(snapshot.connection)?;
            let asked: Vec<Asked> =
                jobs.into_iter().flat_map(|(name, nodes)| by_cluster(name, nodes)).collect();
            let nodes: Vec<&[OnNode]> = asked.iter().map(|asked| asked.nodes.as_slice()).collect();
            let hosts = snapshot.hosts(&nodes)?;
            let mut made = Summaries { since_ns, rows: Vec::with_capacity(asked.len()), stay: Vec::new() };
            for (asked, hosts) in asked.iter().zip(&hosts) {
                let Some(mut job) = snapshot.of_nodes(&asked.nodes, &own, hosts, now_ns) else { continue };
                let old = old(&rows, asked);
                match (old, better(old, &job, deleted)) {
                    (Some(old), Word::Old) => {
                        made.stay.push(stays(asked, old, &job));
                        continue;
                    }
                    (Some(old), Word::NewWithExtremes) => {
                        let row = snapshot.row_of(&asked.name, old.cluster.as_deref())?;
                        row.iter().for_each(|row| keep_extremes(row, &mut job));
                    }
                    _ => {}
                }
                made.rows.push(row(asked, &job, snapshot.site, now_ns));
            }
            Ok(made)
        })
    }
}

/// A job of one cluster, whose row is to be made.
struct Asked {
    cluster: Option<String>,
    name: Name,
    nodes: Vec<OnNode>,
}

/// The row that is there of a job: it may have been made before the cluster was known.
fn old<'r>(rows: &'r [(Name, Old)], asked: &Asked) -> Option<&'r Old> {
    let mut own = rows.iter().filter(|(name, _)| *name == asked.name).map(|(_, old)| old);
    own.clone().find(|old| old.cluster == asked.cluster).or_else(|| own.find(|old| old.cluster.is_none()))
}

/// What has ended stays so; that a job has ended since, or is silent, is still news.
fn stays(asked: &Asked, old: &Old, job: &Job) -> Stays {
    Stays {
        cluster: old.cluster.clone(),
        name: asked.name.clone(),
        state: if old.has_ended { State::Ended } else { job.state },
        end: job.end,
        heard: job.heard,
        is_news: !old.has_ended,
    }
}

/// Two clusters may have given the same number. What came before the cluster was known belongs to the only one there is.
fn by_cluster(name: Name, nodes: Vec<OnNode>) -> impl Iterator<Item = Asked> {
    let known: BTreeSet<String> = nodes.iter().filter_map(|on| on.cluster.clone()).collect();
    let only = (known.len() == 1).then(|| known.into_iter().next()).flatten();
    let mut sorted: BTreeMap<Option<String>, Vec<OnNode>> = BTreeMap::new();
    for on in nodes {
        sorted.entry(on.cluster.clone().or_else(|| only.clone())).or_default().push(on);
    }
    sorted.into_iter().map(move |(cluster, nodes)| Asked { cluster, name: name.clone(), nodes })
}

impl Writer {
    /// What a server that was stopped or killed has left to do.
    pub(crate) fn load_pending(&mut self, now_ns: i64) -> Result<(), StoreError> {
        let mut query = self.connection.prepare(NOT_MADE)?;
        let mut rows = query.query([now_ns])?;
        while let Some(row) = rows.next()? {
            let has_end: bool = row.get(6)?;
            let (job, session): (Option<String>, Option<String>) = (row.get(0)?, row.get(1)?);
            let session = session.filter(|session| has_end || is_login(session));
            let Some(name) = job.map(Name::Job).or(session.map(Name::Session)) else { continue };
            let has_news = row.get(5)?;
            let seen = Seen {
                start_ns: row.get(2)?,
                heard_ns: row.get(3)?,
                readings: row.get(4)?,
                has_news,
                has_end: has_news && has_end,
                // Agents have not had the time yet to send what they could not.
                made_ns: now_ns,
                held_ns: i64::MIN,
                is_taken: false,
            };
            self.pending.load(name, seen);
        }
        Ok(())
    }

    /// The next jobs whose rows are to be made. They are to be given back to [`Writer::keep_rows`], or to [`Writer::give_back`].
    pub fn due(&mut self, now_ns: i64) -> Due {
        let epoch = self.catalogue().read().epoch;
        Due { epoch, jobs: self.pending.take(&self.site, now_ns) }
    }

    /// What could not be made is due again from then on.
    pub fn give_back(&mut self, due: Due, from_ns: i64) {
        self.pending.give_back(due.jobs, from_ns);
    }

    /// Replaces the rows of jobs; if that fails, they are due again from then on.
    pub fn keep_rows(&mut self, due: Due, made: &Summaries, from_ns: i64) -> Result<(), StoreError> {
        if due.epoch != self.catalogue().read().epoch {
            // Something was deleted meanwhile, and may still be in these rows.
            self.give_back(due, i64::MIN);
            return Ok(());
        }
        if let Err(error) = self.replace(made) {
            self.give_back(due, from_ns);
            return Err(error);
        }
        for (name, _) in &due.jobs {
            self.pending.made(name, made.state(name));
        }
        Ok(())
    }

    /// Makes the rows of a few jobs that have ended and began before a time, here and now; says whether none of them is left,
    /// nor is being made elsewhere.
    pub(crate) fn summarise_before(&mut self, before_ns: i64, now_ns: i64) -> Result<bool, StoreError> {
        let epoch = self.catalogue().read().epoch;
        let due = Due { epoch, jobs: self.pending.take_ended(before_ns, JOBS_BEFORE, now_ns) };
        if !due.is_empty() {
            let (database, site, tags) =
                (self.database.as_str().into(), self.site.clone(), self.tags.clone());
            let reader = Reader::new(self.connection.try_clone()?, database, site, tags, self.kinds.clone());
            let again = now_ns.saturating_add(AFTER_ERROR_NS);
            match reader.summarise(&due, now_ns) {
                Ok(made) => self.keep_rows(due, &made, again)?,
                Err(error) => {
                    self.give_back(due, again);
                    return Err(error);
                }
            }
        }
        Ok(!self.pending.is_open(before_ns, now_ns))
    }

    fn replace(&mut self, made: &Summaries) -> Result<(), StoreError> {
        let transaction = self.connection.transaction()?;
        for row in made.stay.iter().filter(|row| row.is_news) {
            change_state(&transaction, row)?;
            let (kind, name) = (row.name.kind(), row.name.column().1);
            if kind == Kind::Session || self.has_measured {
                let is_running = row.state == State::Running;
                measured::change_state(
                    &transaction,
                    kind,
                    row.cluster.as_deref(),
                    name,
                    row.end,
                    is_running,
                )?;
            }
        }
        delete(&transaction, Kind::Job, made)?;
        delete(&transaction, Kind::Session, made)?;
        let names: Vec<&str> = made.rows.iter().filter_map(|row| row.name.job()).collect();
        let mut table = transaction.appender("job")?;
        for row in &made.rows {
            let row: Vec<&dyn ToSql> =
                self.job_order.iter().map(|at| &row.values[*at] as &dyn ToSql).collect();
            table.append_row(&row[..])?;
        }
        table.flush()?;
        drop(table);
        let told = measured::told(&transaction, &names)?;
        let untold = made.rows.iter().filter_map(|row| row.account.as_ref());
        let untold: Vec<&Measured> = untold.filter(|job| !told.iter().any(|told| told.is(job))).collect();
        let lists = untold.iter().filter_map(|job| job.node_list.clone());
        let lists = lists.map(|list| (xxh3_64(list.as_bytes()), list)).collect();
        let lists = accounting::keep_lists(&transaction, &self.node_lists, &lists)?;
        measured::keep(&transaction, &untold)?;
        let is_stale = self.is_site_stale || !lists.is_empty();
        let has_sessions = untold.iter().any(|job| job.kind == Kind::Session);
        if has_sessions {
            if is_stale {
                now::renew(&transaction, &self.site)?;
            }
            implicit::allocate_kept(&transaction)?;
        }
        let names: Vec<&str> = made.rows.iter().map(|row| row.name.column().1).collect();
        tags::named_due(&transaction, &names, made.since_ns)?;
        transaction.commit()?;
        self.is_site_stale = is_stale && !has_sessions;
        self.node_lists.extend(lists);
        self.has_measured |= untold.iter().any(|job| job.kind == Kind::Job);
        if has_sessions {
            self.kinds.sessions();
        }
        Ok(())
    }
}

/// Says in a row that stays how far its job is.
fn change_state(transaction: &Transaction, row: &Stays) -> Result<(), StoreError> {
    let (name, is_row) = (row.name.column().1, row.name.is_row());
    let (state, heard) = (row.state.name(), row.heard);
    let end = row.end.map_or("NULL".to_owned(), |end| end.to_string());
    // Bound values only are what comes from outside.
    let sql = format!(
        "UPDATE job SET state = '{state}', end_ns = {end}, heard_ns = {heard} \
         WHERE job = ? AND {is_row} AND cluster IS NOT DISTINCT FROM CAST(? AS VARCHAR)"
    );
    transaction.execute(&sql, params_from_iter([Sql::Text(name.to_owned()), text(&row.cluster)]))?;
    Ok(())
}

/// Deletes the rows before these, also those made before the cluster was known. All in one go, and only where they can be: one
/// at a time would look through the whole table for each.
fn delete(transaction: &Transaction, kind: Kind, made: &Summaries) -> Result<(), StoreError> {
    let mut values = Vec::new();
    for row in &made.rows {
        if row.name.kind() == kind {
            let name = row.name.column().1;
            let name = Sql::Text(name.to_owned());
            values.extend([text(&row.cluster), name.clone(), Sql::Null, name]);
        }
    }
    if values.is_empty() {
        return Ok(());
    }
    let keys = vec!["(CAST(? AS VARCHAR), CAST(? AS VARCHAR))"; values.len() / 2].join(", ");
    let is_row = kind.is_row();
    let sql = format!(
        "DELETE FROM job USING (SELECT DISTINCT * FROM (VALUES {keys}) AS v(cluster, name)) AS k \
         WHERE job.job = k.name AND job.{is_row} AND job.cluster IS NOT DISTINCT FROM k.cluster AND job.start_ns >= {}",
        // No bound value: DuckDB numbers those of WHERE before those of USING.
        made.since_ns
    );
    transaction.execute(&sql, params_from_iter(values))?;
    Ok(())
}

fn text(text: &Option<String>) -> Sql {
    text.clone().map_or(Sql::Null, Sql::Text)
}

fn row(asked: &Asked, job: &Job, site: &Site, now_ns: i64) -> JobRow {
    let Asked { cluster, name, nodes } = asked;
    let number = |value: Option<i64>| value.map_or(Sql::Null, Sql::BigInt);
    let double = |value: Option<f64>| value.map_or(Sql::Null, Sql::Double);
    let session = match name {
        Name::Job(_) => Sql::Null,
        Name::Session(name) => Sql::Text(name.clone()),
    };
    let user = nodes.iter().find_map(|on| on.user.clone());
    let mut values = vec![
        text(cluster),
        Sql::Text(name.column().1.to_owned()),
        session,
        text(&user),
        Sql::Text(job.state.name().to_owned()),
        Sql::Boolean(job.is_shared),
        Sql::BigInt(job.start),
        number(job.end),
        Sql::BigInt(job.heard),
        Sql::BigInt(now_ns),
        Sql::UInt(nodes.len() as u32),
        number(job.reserved.cpus),
        number(job.reserved.memory),
        number(job.reserved.gpus),
        Sql::UBigInt(job.readings),
        double(job.coverage),
    ];
    for metric in metrics() {
        let of = job.metrics.iter().find(|of| of.metric.id == metric.id);
        values.extend(characteristics(of).map(double));
        values.extend(last_name(metric).map(|_| number(of.and_then(|of| of.last))));
        if metric.of == Of::Job {
            let shares = of.map(|of| of.shares).unwrap_or_default();
            values.extend([double(shares.below), double(shares.above)]);
        }
    }
    let account = has_account(name, nodes, site).then(|| account(cluster, name, nodes, job));
    JobRow { cluster: cluster.clone(), name: name.clone(), state: job.state, values, account }
}

/// Services have none, nor have users of the system.
fn has_account(name: &Name, nodes: &[OnNode], site: &Site) -> bool {
    match name {
        Name::Job(_) => true,
        Name::Session(name) => is_login(name) && nodes.iter().all(|on| site.is_person(on.uid)),
    }
}

fn account(cluster: &Option<String>, name: &Name, nodes: &[OnNode], job: &Job) -> Measured {
    let names = nodes.iter().map(|on| on.node.as_deref().unwrap_or(&on.host));
    // What a session has is not what its programs say of it.
    let reserved = if name.kind() == Kind::Job { job.reserved } else { Reserved::default() };
    Measured {
        kind: name.kind(),
        cluster: cluster.clone(),
        job: name.column().1.to_owned(),
        uid: nodes.iter().find_map(|on| on.uid),
        user: nodes.iter().find_map(|on| on.user.clone()),
        start_ns: job.start,
        end_ns: job.end,
        is_running: job.state == State::Running,
        node_list: hostlist::fold(names).ok(),
        nodes: nodes.len() as u64,
        cores: reserved.cpus,
        memory: reserved.memory,
        gpus: reserved.gpus,
    }
}

/// In the order of [`CHARACTERISTICS`].
fn characteristics(of: Option<&OfMetric>) -> [Option<f64>; 6] {
    of.and_then(|of| of.characteristic)
        .map_or([None; 6], |c| [c.min, c.max, c.avg, c.median, c.node_min, c.node_max].map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A metric that is added to the catalogue needs a step of the schema, here as well as in the tables of readings.
    #[test]
    fn the_table_has_the_columns_of_the_catalogue() {
        let connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&connection).unwrap();
        let sql = "SELECT column_name FROM information_schema.columns WHERE table_name = 'job'";
        let mut query = connection.prepare(sql).unwrap();
        let found: BTreeSet<String> =
            query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(found, columns().into_iter().collect());
    }

    #[test]
    fn nodes_without_a_cluster_belong_to_the_only_one() {
        let on = |cluster: Option<&str>| {
            let mut on = OnNode::new("n1".into(), None, 0);
            on.cluster = cluster.map(str::to_owned);
            on
        };
        for (clusters, expected) in [
            (vec![None, Some("a")], vec![(Some("a"), 2)]),
            (vec![None, None], vec![(None, 2)]),
            (vec![None, Some("a"), Some("b"), Some("b")], vec![(None, 1), (Some("a"), 1), (Some("b"), 2)]),
        ] {
            let nodes = clusters.iter().map(|cluster| on(*cluster)).collect();
            let sorted: Vec<Asked> = by_cluster(Name::Job("17".into()), nodes).collect();
            let found: Vec<_> = sorted.iter().map(|of| (of.cluster.as_deref(), of.nodes.len())).collect();
            assert_eq!(found, expected, "{clusters:?}");
        }
    }

    /// Rows of clusters with the same number, and which one is made anew.
    #[test]
    fn a_row_of_before_the_cluster_was_known_is_the_jobs() {
        let name = Name::Job("17".into());
        let of = |cluster: Option<&str>| cluster.map(str::to_owned);
        for (rows, asked, expected) in [
            (vec![None, Some("a")], Some("a"), Some(Some("a"))),
            (vec![None, Some("a")], Some("b"), Some(None)),
            (vec![Some("a")], Some("b"), None),
        ] {
            let row = |cluster: &Option<&str>| {
                let old = Old { cluster: of(*cluster), has_ended: true, start_ns: 0, readings: 1 };
                (name.clone(), old)
            };
            let rows: Vec<_> = rows.iter().map(row).collect();
            let asked = Asked { cluster: of(asked), name: name.clone(), nodes: Vec::new() };
            assert_eq!(old(&rows, &asked).map(|old| old.cluster.as_deref()), expected);
        }
    }
}
