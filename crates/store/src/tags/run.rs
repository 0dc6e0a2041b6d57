//! A run over the whole collection, in pieces of some days each: every piece is a transaction with the note of how far the run is, so whoever
//! reads sees a job under the old rules or under the new ones, and a run goes on where a kill has stopped it.

use duckdb::{Connection, OptionalExt, params};

use super::judge::{Jobs, judge};
use super::{Declared, Judged};
use crate::StoreError;
use crate::upkeep::DAY_NS;
use crate::write::{Writer, now_ns};

/// Jobs of a piece while others wait for the writer.
pub const PIECE: u64 = 200_000;

/// A run, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub begun_ns: i64,
    /// The set of rules.
    pub rules: u32,
    /// Of jobs submitted from then on.
    pub since_ns: Option<i64>,
    /// By the rule of this tag only.
    pub tag: Option<u32>,
    /// Jobs that there were when it began.
    pub jobs: u64,
    pub judged: u64,
    pub ended_ns: Option<i64>,
    /// Jobs submitted before this are done, or begun before it.
    next_ns: Option<i64>,
    /// All are done but those of which nobody knows when they were submitted; they come in the order of their start.
    is_by_start: bool,
}

impl Writer {
    /// Begins a run by the rules of now, or by that of one tag; one that is under way is given up for it, and what was still to be done of it is
    /// done by this one.
    pub fn begin_run(&mut self, since_ns: Option<i64>, tag: Option<u32>) -> Result<Run, StoreError> {
        self.renew_stale_site()?;
        self.declare_tags()?;
        let declared = self.tags.get();
        let left = load(&self.connection)?.filter(|run| run.ended_ns.is_none());
        let (since_ns, tag) = match left {
            Some(left) if left.tag != tag || left.since_ns < since_ns => (
                left.since_ns.zip(since_ns).map(|(one, other)| one.min(other)),
                left.tag.filter(|own| tag == Some(*own)),
            ),
            _ => (since_ns, tag),
        };
        let transaction = self.connection.transaction()?;
        let jobs = transaction.query_row(
            "SELECT count(*) FROM accounting WHERE coalesce(submit_ns, start_ns) >= ? OR ? IS NULL",
            params![since_ns, since_ns],
            |row| row.get(0),
        )?;
        transaction.execute("DELETE FROM tag_run", [])?;
        let run = Run {
            begun_ns: now_ns(),
            rules: declared.set,
            since_ns,
            tag,
            jobs,
            judged: 0,
            ended_ns: None,
            next_ns: since_ns,
            is_by_start: false,
        };
        save(&transaction, &run)?;
        transaction.commit()?;
        Ok(run)
    }

    /// The next piece of the run that is under way: so many jobs, unless a day has more.
    pub fn judge_piece(&mut self, most: u64) -> Result<Judged, StoreError> {
        let Some(mut run) = load(&self.connection)?.filter(|run| run.ended_ns.is_none()) else {
            return Ok(Judged { jobs: 0, is_last: true });
        };
        let declared = self.tags.get();
        if declared.set != run.rules {
            // The rules were changed meanwhile: what was done is to be done again.
            self.begin_run(run.since_ns, run.tag)?;
            return Ok(Judged::default());
        }
        let transaction = self.connection.transaction()?;
        let judged = piece(&transaction, &declared, &mut run, most)?;
        save(&transaction, &run)?;
        transaction.commit()?;
        Ok(judged)
    }
}

fn piece(
    connection: &Connection,
    declared: &Declared,
    run: &mut Run,
    most: u64,
) -> Result<Judged, StoreError> {
    let (which, column) = if run.is_by_start {
        ("c.submit_ns IS NULL", "start_ns")
    } else {
        ("c.submit_ns IS NOT NULL", "submit_ns")
    };
    let until = next_bound(connection, which, column, run.next_ns, most)?;
    let mut condition = which.to_owned();
    if let Some(until) = until {
        condition.push_str(&format!(" AND c.{column} < {until}"));
    }
    if let Some(from) = run.next_ns {
        condition.push_str(&format!(" AND c.{column} >= {from}"));
    }
    let jobs = judge(connection, declared, &Jobs { condition }, run.tag)?;
    run.judged += jobs;
    run.next_ns = until.or(run.next_ns);
    let is_last = until.is_none() && run.is_by_start;
    if until.is_none() && !run.is_by_start {
        (run.is_by_start, run.next_ns) = (true, run.since_ns);
    }
    run.ended_ns = is_last.then(now_ns);
    Ok(Judged { jobs, is_last })
}

/// Where the next piece ends; `None` if nothing is behind it.
fn next_bound(
    connection: &Connection,
    which: &str,
    column: &str,
    from: Option<i64>,
    most: u64,
) -> Result<Option<i64>, StoreError> {
    let from = from.unwrap_or(i64::MIN);
    let sql = format!(
        "SELECT min(day) FROM (SELECT day, sum(jobs) OVER (ORDER BY day) AS so_far, row_number() OVER (ORDER BY day) AS nth FROM ( \
           SELECT c.{column} // {DAY_NS} AS day, count(*) AS jobs FROM accounting c WHERE {which} AND c.{column} >= {from} GROUP BY day)) \
         WHERE so_far > {most} AND nth > 1"
    );
    let day: Option<i64> = connection.query_row(&sql, [], |row| row.get(0))?;
    Ok(day.map(|day| day * DAY_NS))
}

fn save(connection: &Connection, run: &Run) -> Result<(), StoreError> {
    connection.execute("DELETE FROM tag_run WHERE begun_ns = ?", params![run.begun_ns])?;
    connection.execute(
        "INSERT INTO tag_run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            run.begun_ns,
            run.rules,
            run.since_ns,
            run.next_ns,
            run.jobs,
            run.judged,
            run.ended_ns,
            run.tag,
            run.is_by_start
        ],
    )?;
    Ok(())
}

/// The last run.
pub(crate) fn load(connection: &Connection) -> Result<Option<Run>, StoreError> {
    let sql = "SELECT begun_ns, rules, since_ns, next_ns, jobs, judged, ended_ns, tag, coalesce(is_by_start, false) FROM tag_run ORDER BY begun_ns DESC LIMIT 1";
    let run = connection.query_row(sql, [], |row| {
        Ok(Run {
            begun_ns: row.get(0)?,
            rules: row.get(1)?,
            since_ns: row.get(2)?,
            next_ns: row.get(3)?,
            jobs: row.get(4)?,
            judged: row.get(5)?,
            ended_ns: row.get(6)?,
            tag: row.get(7)?,
            is_by_start: row.get(8)?,
        })
    });
    Ok(run.optional()?)
}
