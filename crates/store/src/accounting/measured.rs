//! Jobs that were measured, and of which no batch system has told, have an account that is made of what was measured: they are listed, judged
//! and spoken of as others are. When the batch system tells of one, its account takes the place of ours, and what people said goes with it.
//! Sessions of people have one for good: no batch system knows them.

use std::collections::HashSet;

use duckdb::{Connection, OptionalExt, params, params_from_iter};

use super::{id_of, may_be_same};
use crate::StoreError;
use crate::kind::Kind;
use crate::tags::{Bits, Declared, bring_in};
use crate::write::now_ns;

/// What was measured of a job or session, as far as an account has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Measured {
    pub kind: Kind,
    pub cluster: Option<String>,
    pub job: String,
    pub uid: Option<u32>,
    pub user: Option<String>,
    pub start_ns: i64,
    pub end_ns: Option<i64>,
    pub is_running: bool,
    /// Folded; `None` if the names cannot be those of nodes.
    pub node_list: Option<String>,
    pub nodes: u64,
    pub cores: Option<i64>,
    pub memory: Option<i64>,
    pub gpus: Option<i64>,
}

/// An account of ours that is there.
struct There {
    id: u64,
    kind: Kind,
    job: String,
    cluster: Option<String>,
    user: Option<String>,
    start_ns: i64,
    end_ns: Option<i64>,
}

/// Agents and batch systems do not agree to the second on when a job began and ended.
pub(super) const SLACK_NS: i64 = 60_000_000_000;
const FOREVER: i64 = i64::MAX;

/// What people said of a job is found by its id in these tables.
const SAID_OF: [&str; 5] = ["assignment", "assignment_refused", "note", "opinion", "contact"];

/// What was said of both accounts: the last word counts, as everywhere.
const LATER_WORD: &str = "later.id = h.id AND later.tag = h.tag AND later.is_personal = h.is_personal \
    AND (NOT h.is_personal OR later.\"by\" = h.\"by\") AND later.until_ns IS NULL AND h.until_ns IS NULL \
    AND (later.at_ns, later.rowid) > (h.at_ns, h.rowid)";

/// Columns of an account of ours that change as more is measured.
const CHANGES: [&str; 9] =
    ["cluster", "uid", "\"user\"", "start_ns", "end_ns", "elapsed_ns", "state", "node_list", "nodes"];
/// Those that stay as they were where nothing is known of them now.
const STAY: [&str; 3] = ["cores", "memory", "gpus"];

/// Accounts for jobs of which nobody else has told. The caller has a transaction.
pub(crate) fn keep(connection: &Connection, jobs: &[&Measured]) -> Result<(), StoreError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = jobs.iter().map(|job| &*job.job).collect();
    let mut there = there(connection, &names, "true")?;
    connection.execute_batch(
        "CREATE TEMP TABLE IF NOT EXISTS own_account AS SELECT * FROM (SELECT id, kind, job, cluster, uid, \"user\", start_ns, end_ns, elapsed_ns, state, \
           node_list, nodes, cores, memory, gpus, is_only_measured AS is_new FROM accounting) LIMIT 0; DELETE FROM own_account;",
    )?;
    let mut table = connection.appender_to_catalog_and_db("own_account", "temp", "main")?;
    for job in jobs {
        let Measured { kind, cluster, job: name, uid, user, start_ns, end_ns, node_list, nodes, .. } = job;
        let before = take(&mut there, job);
        let id = before.as_ref().map_or_else(|| job.id(), |before| before.id);
        let elapsed = end_ns.map(|end| end - start_ns);
        let state = job.is_running.then_some("RUNNING");
        let [cores, memory, gpus] =
            [job.cores, job.memory, job.gpus].map(|count| count.and_then(|count| u64::try_from(count).ok()));
        table.append_row(params![
            id,
            kind.number(),
            name,
            cluster,
            uid,
            user,
            start_ns,
            end_ns,
            elapsed,
            state,
            node_list,
            nodes,
            cores,
            memory,
            gpus,
            before.is_none()
        ])?;
    }
    table.flush()?;
    drop(table);
    let changes = CHANGES.into_iter().map(|column| format!("{column} = o.{column}"));
    let changes = changes
        .chain(STAY.map(|column| format!("{column} = coalesce(o.{column}, accounting.{column})")))
        .collect::<Vec<_>>()
        .join(", ");
    let columns = [&CHANGES[..], &STAY[..]].concat().join(", ");
    connection.execute_batch(&format!(
        "UPDATE accounting SET {changes} FROM own_account o WHERE accounting.is_only_measured AND accounting.id = o.id AND NOT o.is_new; \
         INSERT INTO accounting BY NAME SELECT id, kind, job, job AS shown, true AS is_only_measured, {columns} FROM own_account WHERE is_new"
    ))?;
    Ok(())
}

impl Measured {
    /// No batch system's job has it, and two users never have the same. The name of a session never comes again.
    fn id(&self) -> u64 {
        if self.kind == Kind::Session {
            return id_of(self.cluster.as_deref(), &format!("{}\0", self.job), None);
        }
        let number = format!("{}\0{}", self.job, self.user.as_deref().unwrap_or_default());
        id_of(self.cluster.as_deref(), &number, u64::try_from(self.start_ns).ok())
    }
}

impl There {
    /// A number that is given again is another job's.
    fn is(&self, job: &Measured) -> bool {
        if self.kind != job.kind
            || self.job != job.job
            || !may_be_same(self.cluster.as_deref(), job.cluster.as_deref())
        {
            return false;
        }
        // A session belongs to root until its user is known, and its name never comes again.
        self.kind == Kind::Session
            || may_be_same(self.user.as_deref(), job.user.as_deref())
                && self.start_ns <= job.end_ns.unwrap_or(FOREVER)
                && self.end_ns.unwrap_or(FOREVER) >= job.start_ns
    }
}

/// The account of a job, which is no other's then: of its own cluster, or made before that was known.
fn take(there: &mut Vec<There>, job: &Measured) -> Option<There> {
    let id = job.id();
    let place = there
        .iter()
        .position(|there| there.id == id)
        .or_else(|| there.iter().position(|there| there.is(job) && there.cluster == job.cluster))
        .or_else(|| there.iter().position(|there| there.is(job)))?;
    Some(there.swap_remove(place))
}

/// Accounts of ours with one of these names, or all, for which this holds.
fn there(connection: &Connection, names: &[&str], which: &str) -> Result<Vec<There>, StoreError> {
    let of_names = match names {
        [] => String::new(),
        names => format!(" AND job IN ({})", vec!["?"; names.len()].join(", ")),
    };
    let sql = format!(
        "SELECT id, job, cluster, start_ns, end_ns, \"user\", kind FROM accounting WHERE is_only_measured AND {which}{of_names}"
    );
    let mut query = connection.prepare(&sql)?;
    let rows = query.query_map(params_from_iter(names), |row| {
        Ok(There {
            id: row.get(0)?,
            job: row.get(1)?,
            cluster: row.get(2)?,
            start_ns: row.get(3)?,
            end_ns: row.get(4)?,
            user: row.get(5)?,
            kind: Kind::of(row.get(6)?),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Whether there are accounts of ours that may give way.
pub(super) fn are_there(connection: &Connection) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM accounting WHERE is_only_measured AND kind = 0)";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

/// Whether there are any sessions.
pub(super) fn are_sessions(connection: &Connection) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM accounting WHERE kind = 1)";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

/// Says of jobs whose rows stay how far they are.
pub(crate) fn change_state(
    connection: &Connection,
    kind: Kind,
    cluster: Option<&str>,
    job: &str,
    end_ns: Option<i64>,
    is_running: bool,
) -> Result<(), StoreError> {
    let state = is_running.then_some("RUNNING");
    connection.execute(
        "UPDATE accounting SET state = ?, end_ns = ?, elapsed_ns = ? - start_ns \
         WHERE is_only_measured AND kind = ? AND job = ? AND cluster IS NOT DISTINCT FROM CAST(? AS VARCHAR) AND end_ns IS NULL",
        params![state, end_ns, end_ns, kind.number(), job, cluster],
    )?;
    Ok(())
}

/// The accounts that a batch system has just given take the places of ours; says whether any of ours are left. The caller has a transaction.
pub(super) fn give_way(
    connection: &Connection,
    names: &[(String, Option<String>)],
    declared: &Declared,
) -> Result<bool, StoreError> {
    let told: HashSet<&str> = names.iter().map(|(name, _)| &**name).collect();
    let all = there(connection, &[], "kind = 0")?;
    let is_named = |there: &&There| told.contains(&*there.job);
    let named: Vec<String> = all.iter().filter(is_named).map(|there| there.id.to_string()).collect();
    if named.is_empty() {
        return Ok(!all.is_empty());
    }
    // Of several with its number and at its time (one that is queued again keeps its number), the last.
    connection.execute_batch(&format!(
        "CREATE OR REPLACE TEMP TABLE given_way AS SELECT m.id AS own, c.id AS told \
           FROM (SELECT * FROM accounting WHERE is_only_measured AND id IN ({})) m \
           JOIN (SELECT * FROM accounting WHERE is_only_measured IS NOT TRUE) c ON c.job = m.job \
             AND (c.cluster = m.cluster OR c.cluster IS NULL OR m.cluster IS NULL) \
             AND (c.\"user\" = m.\"user\" OR c.\"user\" IS NULL OR m.\"user\" IS NULL) \
             AND coalesce(c.start_ns, c.submit_ns, m.start_ns) - {SLACK_NS} <= coalesce(m.end_ns, {FOREVER}) \
             AND coalesce(c.end_ns, {FOREVER}) >= m.start_ns - {SLACK_NS} \
           QUALIFY row_number() OVER (PARTITION BY m.id ORDER BY c.submit_ns DESC NULLS LAST) = 1; \
         DELETE FROM accounting WHERE is_only_measured AND id IN (SELECT own FROM given_way); \
         INSERT INTO account_moved SELECT own, told FROM given_way",
        named.join(", ")
    ))?;
    move_said(connection, declared)?;
    let given: u64 = connection.query_row("SELECT count(*) FROM given_way", [], |row| row.get(0))?;
    Ok(given < all.len() as u64)
}

/// What people said of jobs in `given_way` is said of those that took their place.
pub(super) fn move_said(connection: &Connection, declared: &Declared) -> Result<(), StoreError> {
    for table in SAID_OF {
        connection.execute_batch(&format!(
            "UPDATE {table} SET id = g.told FROM given_way g WHERE {table}.id = g.own"
        ))?;
    }
    connection.execute_batch(&format!(
        "UPDATE assignment h SET until_ns = {} FROM given_way g, assignment later WHERE h.id = g.told AND {LATER_WORD}",
        now_ns()
    ))?;
    bring_in(connection, declared, "c.id IN (SELECT g.told FROM given_way g)", Bits::default())?;
    Ok(())
}

/// Of a job that a batch system has told of: when it was there.
pub(crate) struct Told {
    job: String,
    cluster: Option<String>,
    user: Option<String>,
    from_ns: Option<i64>,
    end_ns: Option<i64>,
}

impl Told {
    /// A number that is given again is another job's.
    pub fn is(&self, job: &Measured) -> bool {
        job.kind == Kind::Job
            && self.job == job.job
            && may_be_same(self.cluster.as_deref(), job.cluster.as_deref())
            && may_be_same(self.user.as_deref(), job.user.as_deref())
            && self.from_ns.is_none_or(|from| from.saturating_sub(SLACK_NS) <= job.end_ns.unwrap_or(FOREVER))
            && self.end_ns.is_none_or(|end| end.saturating_add(SLACK_NS) >= job.start_ns)
    }
}

/// Of which jobs with these names a batch system has told.
pub(crate) fn told(connection: &Connection, names: &[&str]) -> Result<Vec<Told>, StoreError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT job, cluster, coalesce(start_ns, submit_ns), end_ns, \"user\" FROM accounting WHERE job IN ({}) AND is_only_measured IS NOT TRUE",
        vec!["?"; names.len()].join(", ")
    );
    let mut query = connection.prepare(&sql)?;
    let rows = query.query_map(params_from_iter(names), |row| {
        Ok(Told {
            job: row.get(0)?,
            cluster: row.get(1)?,
            user: row.get(4)?,
            from_ns: row.get(2)?,
            end_ns: row.get(3)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The account that has taken the place of this one, or this one: whoever speaks of a job may have seen it before that.
pub(crate) fn now(connection: &Connection, id: u64) -> Result<u64, StoreError> {
    let sql = "SELECT told FROM account_moved WHERE own = ? LIMIT 1";
    Ok(connection.query_row(sql, params![id], |row| row.get(0)).optional()?.unwrap_or(id))
}
