//! Jobs as they were told, with what other systems measured of them: for those who take them elsewhere.

use std::collections::{BTreeMap, HashMap};

use duckdb::Row;
use record::accounting::{
    Accounting, Canceller, Exit, MemoryPer, Other, Placed, RequestedMemory, State, TimeLimit, Tres, Usage,
};
use record::bytes::Bytes;
use record::measure::{Exported, Job, Measures, Name, Point, Series, Told};
use serde_json::Value;

use super::jobs::{ACCOUNTED, Which};
use super::{Conditions, Reader, Snapshot, in_list};
use crate::StoreError;
use crate::accounting::merge::MONITORING;

/// The columns that are read back, in the order of [`job`].
const COLUMNS: &str = "id, cluster, source, job, shown, array_job, array_task, array_waiting, het_job, het_offset, sluid, \"user\", uid, \
    \"group\", gid, project, partition, qos, reservation, wckey, name, submit_ns, eligible_ns, start_ns, end_ns, elapsed_ns, limit_ns, \
    is_unlimited, state, also, cancelled_by, exit_code, signal, derived_exit_code, derived_signal, reason, restarts, nodes, cores, \
    requested_nodes, requested_cores, tasks, requested_memory_each, requested_memory_per, requested, allocated, node_list, comment, admin_comment, \
    system_comment, extra, submit_line, work_dir, stdout, container, constraints, licenses, flags, priority, total_cpu_ns, user_cpu_ns, \
    system_cpu_ns, max_rss, average_rss, energy_j, others";

/// Values of other systems in one answer, unless a single job has more.
const VALUES_MAX: u64 = 500_000;

impl Reader {
    /// The next jobs behind an id, in the order of ids, and their steps left out.
    pub fn export(&self, which: &Which, after: Option<u64>, limit: u64) -> Result<Vec<Exported>, StoreError> {
        let which = &self.meant(which);
        self.ask(|snapshot| snapshot.export(which, after, limit))
    }
}

impl Snapshot<'_> {
    fn export(&self, which: &Which, after: Option<u64>, limit: u64) -> Result<Vec<Exported>, StoreError> {
        let mut conditions: Conditions = which.conditions();
        if let Some(after) = after {
            conditions.add(&format!("c.id > {after}"), []);
        }
        // What was only measured has neither a project nor an end that anybody told.
        conditions.add("c.is_only_measured IS NOT TRUE", []);
        let columns: Vec<String> = COLUMNS.split(',').map(|name| format!("c.{}", name.trim())).collect();
        let sql = format!(
            "SELECT {} FROM {ACCOUNTED} {} {} ORDER BY c.id LIMIT {limit}",
            columns.join(", "),
            which.beside(std::iter::empty()),
            conditions.sql()
        );
        let jobs = self.rows(&sql, &conditions.values, job)?;
        let fit = self.that_fit(jobs.iter().map(|(id, _)| *id))?;
        let mut all: BTreeMap<u64, Exported> = jobs
            .into_iter()
            .take(fit)
            .map(|(id, job)| (id, Exported { id, job, measures: Measures::default() }))
            .collect();
        if !all.is_empty() {
            let ids = all.keys().map(u64::to_string).collect::<Vec<_>>().join(", ");
            self.add_places(&mut all, &ids)?;
            self.add_series(&mut all, &ids)?;
            self.add_told(&mut all, &ids)?;
        }
        Ok(all.into_values().collect())
    }

    /// How many of these jobs, in their order, fit into one answer with all their values: one at least.
    fn that_fit(&self, ids: impl Iterator<Item = u64>) -> Result<usize, StoreError> {
        let ids: Vec<u64> = ids.collect();
        if ids.is_empty() {
            return Ok(0);
        }
        let list = in_list(ids.iter().copied());
        let sql = format!("SELECT job, count(*) FROM measure WHERE job IN ({list}) GROUP BY job");
        let counts: HashMap<u64, u64> =
            self.rows(&sql, &[], |row| Ok((row.get(0)?, row.get(1)?)))?.into_iter().collect();
        let mut values = 0;
        let fits = |id: &&u64| {
            values += counts.get(id).copied().unwrap_or(0);
            values <= VALUES_MAX
        };
        Ok(ids.iter().take_while(fits).count().max(1))
    }

    fn add_places(&self, all: &mut BTreeMap<u64, Exported>, ids: &str) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT id, host, cpus, gpus, memory FROM accounting_node WHERE id IN ({ids}) ORDER BY rowid"
        );
        let rows = self.rows(&sql, &[], |row| {
            let placed =
                Placed { host: row.get(1)?, cpus: row.get(2)?, gpus: words(row, 3)?, memory: row.get(4)? };
            Ok((row.get::<_, u64>(0)?, placed))
        })?;
        for (id, placed) in rows {
            all.get_mut(&id).into_iter().for_each(|of| of.job.placed.push(placed.clone()));
        }
        Ok(())
    }

    /// Only what is said of the job itself: values of nodes are of whoever ran there. In an order that does not depend on the one in
    /// which they came, so that two exports are the same.
    fn add_series(&self, all: &mut BTreeMap<u64, Exported>, ids: &str) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT job, cluster, host, metric, is_ours, unit, part, every_ns, time_ns, value FROM measure WHERE job IN ({ids}) \
             ORDER BY job, metric, is_ours, host, part NULLS FIRST, time_ns"
        );
        let rows = self.rows(&sql, &[], |row| {
            let point = Point { time: row.get::<_, i64>(8)? as u64, value: row.get(9)? };
            let series = Series {
                cluster: row.get(1)?,
                host: row.get(2)?,
                metric: named(row.get(3)?, row.get(4)?),
                unit: row.get(5)?,
                part: row.get(6)?,
                every: row.get::<_, i64>(7)? as u64,
                ..Series::default()
            };
            Ok((row.get::<_, u64>(0)?, series, point))
        })?;
        for (id, series, point) in rows {
            let Some(of) = all.get_mut(&id) else { continue };
            let job = Some(reference(&of.job));
            let is_same = |known: &Series| {
                known.host == series.host && known.metric == series.metric && known.part == series.part
            };
            match of.measures.series.last_mut().filter(|known| is_same(known)) {
                Some(known) => known.points.push(point),
                None => of.measures.series.push(Series { job, points: vec![point], ..series }),
            }
        }
        Ok(())
    }

    fn add_told(&self, all: &mut BTreeMap<u64, Exported>, ids: &str) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT id, metric, is_ours, unit, min, max, avg, median FROM job_measure WHERE is_told AND id IN ({ids}) ORDER BY metric, is_ours"
        );
        let rows = self.rows(&sql, &[], |row| {
            let told = Told {
                job: Job::default(),
                metric: named(row.get(1)?, row.get(2)?),
                unit: row.get(3)?,
                min: row.get(4)?,
                max: row.get(5)?,
                avg: row.get(6)?,
                median: row.get(7)?,
            };
            Ok((row.get::<_, u64>(0)?, told))
        })?;
        for (id, told) in rows {
            let Some(of) = all.get_mut(&id) else { continue };
            of.measures.told.push(Told { job: reference(&of.job), ..told });
        }
        Ok(())
    }
}

fn named(name: String, is_ours: bool) -> Name {
    if is_ours { Name::Ours(name) } else { Name::Own(name) }
}

fn reference(job: &Accounting) -> Job {
    let number = job.job.clone().unwrap_or_else(|| job.shown.clone());
    let start = job.start.filter(|_| job.submit.is_none());
    Job { cluster: job.cluster.clone(), number, submit: job.submit, start }
}

/// Words that were kept with commas between them.
fn words(row: &Row, at: usize) -> duckdb::Result<Vec<String>> {
    let text: Option<String> = row.get(at)?;
    Ok(text.map_or(Vec::new(), |text| text.split(',').map(str::to_owned).collect()))
}

/// Takes one column after another.
struct Columns<'r, 'q> {
    row: &'r Row<'q>,
    at: usize,
}

impl Columns<'_, '_> {
    fn next<T: duckdb::types::FromSql>(&mut self) -> duckdb::Result<T> {
        self.at += 1;
        self.row.get(self.at - 1)
    }

    fn time(&mut self) -> duckdb::Result<Option<u64>> {
        Ok(self.next::<Option<i64>>()?.and_then(|ns| u64::try_from(ns).ok()))
    }

    fn bytes(&mut self) -> duckdb::Result<Option<Bytes>> {
        Ok(self.next::<Option<String>>()?.map(|text| Bytes(text.into_bytes())))
    }

    fn words(&mut self) -> duckdb::Result<Vec<String>> {
        self.at += 1;
        words(self.row, self.at - 1)
    }

    fn exit(&mut self) -> duckdb::Result<Option<Exit>> {
        let exit = Exit { code: self.next()?, signal: self.next()? };
        Ok((exit != Exit::default()).then_some(exit))
    }

    fn limit(&mut self) -> duckdb::Result<Option<TimeLimit>> {
        let (limit, is_unlimited) = (self.time()?, self.next::<Option<bool>>()?);
        Ok(if is_unlimited == Some(true) { Some(TimeLimit::Unlimited) } else { limit.map(TimeLimit::Nanos) })
    }

    fn memory(&mut self) -> duckdb::Result<Option<RequestedMemory>> {
        let (bytes, per) = (self.next::<Option<u64>>()?, self.next::<Option<String>>()?);
        let per = match per.as_deref() {
            Some("node") => MemoryPer::Node,
            Some("core") => MemoryPer::Cpu,
            _ => MemoryPer::Job,
        };
        Ok(bytes.map(|bytes| RequestedMemory { bytes, per }))
    }

    fn tres(&mut self) -> duckdb::Result<Vec<Tres>> {
        Ok(self.words()?.iter().filter_map(|text| tres(text)).collect())
    }
}

fn tres(text: &str) -> Option<Tres> {
    let (name, count) = text.rsplit_once('=')?;
    let (kind, name) =
        name.split_once('/').map_or((name, None), |(kind, name)| (kind, Some(name.to_owned())));
    Some(Tres { kind: kind.into(), name, count: count.parse().ok()? })
}

fn canceller(text: String) -> Canceller {
    text.parse().map_or(Canceller::User(text), Canceller::Uid)
}

fn others(text: Option<String>) -> Vec<Other> {
    let all = text.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let all = all.as_ref().and_then(Value::as_object).into_iter().flatten();
    all.map(|(name, value)| Other { name: name.clone(), value: value.to_string() }).collect()
}

/// In the order of [`COLUMNS`]; fields are read in the order in which they stand here.
fn job(row: &Row) -> duckdb::Result<(u64, Accounting)> {
    let mut next = Columns { row, at: 0 };
    let id = next.next()?;
    let state = |text: &str| State::named(text.as_bytes());
    let job = Accounting {
        cluster: next.next()?,
        from_monitoring: next.next::<Option<String>>()?.as_deref() == Some(MONITORING),
        job: next.next()?,
        shown: next.next()?,
        array_job: next.next()?,
        array_task: next.next()?,
        array_waiting: next.next()?,
        het_job: next.next()?,
        het_offset: next.next()?,
        sluid: next.next()?,
        user: next.next()?,
        uid: next.next()?,
        group: next.next()?,
        gid: next.next()?,
        account: next.next()?,
        partition: next.next()?,
        qos: next.next()?,
        reservation: next.next()?,
        wckey: next.next()?,
        name: next.bytes()?,
        submit: next.time()?,
        eligible: next.time()?,
        start: next.time()?,
        end: next.time()?,
        elapsed: next.time()?,
        time_limit: next.limit()?,
        state: next.next::<Option<String>>()?.and_then(|text| state(&text)),
        also: next.words()?.iter().filter_map(|text| state(text)).collect(),
        cancelled_by: next.next::<Option<String>>()?.map(canceller),
        exit: next.exit()?,
        derived_exit: next.exit()?,
        reason: next.next()?,
        restarts: next.next()?,
        nodes: next.next()?,
        cpus: next.next()?,
        requested_nodes: next.next()?,
        requested_cpus: next.next()?,
        tasks: next.next()?,
        requested_memory: next.memory()?,
        requested: next.tres()?,
        allocated: next.tres()?,
        node_list: next.next()?,
        comment: next.bytes()?,
        admin_comment: next.bytes()?,
        system_comment: next.bytes()?,
        extra: next.bytes()?,
        submit_line: next.bytes()?,
        work_dir: next.bytes()?,
        stdout: next.bytes()?,
        container: next.bytes()?,
        constraints: next.next()?,
        licenses: next.next()?,
        flags: next.words()?,
        priority: next.next()?,
        used: Usage {
            total_cpu: next.time()?,
            user_cpu: next.time()?,
            system_cpu: next.time()?,
            max_rss: next.next()?,
            average_rss: next.next()?,
            energy: next.next()?,
            ..Usage::default()
        },
        others: others(next.next()?),
        ..Accounting::default()
    };
    Ok((id, job))
}
