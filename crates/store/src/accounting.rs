//! Keeps jobs as their batch system accounts for them: each once, replaced when more is known of it.

use std::collections::HashMap;

use duckdb::types::Value as Sql;
use duckdb::{Connection, ToSql};
use record::accounting::{Accounting, Canceller, Exit, MemoryPer, Step, TimeLimit, Tres, Usage, gpus};
use record::bytes::Bytes;
use record::entry::Nanos;
use xxhash_rust::xxh3::Xxh3;

use crate::StoreError;
use crate::write::Writer;

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

/// Rows are put here first: those of a batch replace others all at once, one by one would take milliseconds each.
const INCOMING: &str = "CREATE TEMP TABLE IF NOT EXISTS incoming_job AS SELECT * FROM accounting LIMIT 0; \
    CREATE TEMP TABLE IF NOT EXISTS incoming_step AS SELECT * FROM accounting_step LIMIT 0; \
    DELETE FROM incoming_job; DELETE FROM incoming_step;";

impl Writer {
    /// Keeps what a batch system says of jobs, all of it or nothing. Told again, it changes nothing.
    pub fn account(&mut self, jobs: &[Accounting]) -> Result<Accounted, StoreError> {
        let (told, older) = last_words(jobs);
        self.connection.execute_batch(INCOMING)?;
        let transaction = self.connection.transaction()?;
        append(&transaction, &told)?;
        let accounted = replace(&transaction, told.values().copied())?;
        transaction.commit()?;
        Ok(Accounted { older: accounted.older + older, ..accounted })
    }
}

/// Of each job what was said last, unless it has ended before that; and how many words that leaves out.
fn last_words(jobs: &[Accounting]) -> (HashMap<u64, &Accounting>, u64) {
    let mut told: HashMap<u64, &Accounting> = HashMap::with_capacity(jobs.len());
    for job in jobs {
        let last = told.entry(id(job)).or_insert(job);
        if job.end.is_some() || last.end.is_none() {
            *last = job;
        }
    }
    let left_out = (jobs.len() - told.len()) as u64;
    (told, left_out)
}

/// The name of a job for good: neither its state nor its times change it.
fn id(job: &Accounting) -> u64 {
    let mut hash = Xxh3::new();
    let number = job.job.as_deref().unwrap_or(&job.shown);
    for part in [job.cluster.as_deref().unwrap_or_default(), number] {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
    hash.update(&job.submit.unwrap_or_default().to_le_bytes());
    hash.digest()
}

fn append(connection: &Connection, told: &HashMap<u64, &Accounting>) -> Result<(), StoreError> {
    let mut table = connection.appender_to_catalog_and_db("incoming_job", "temp", "main")?;
    let mut steps = connection.appender_to_catalog_and_db("incoming_step", "temp", "main")?;
    for (id, job) in told {
        put(&mut table, &row(*id, job))?;
        for step in &job.steps {
            put(&mut steps, &step_row(*id, step))?;
        }
    }
    table.flush()?;
    Ok(steps.flush()?)
}

fn put(table: &mut duckdb::Appender, row: &[Sql]) -> Result<(), StoreError> {
    let row: Vec<&dyn ToSql> = row.iter().map(|value| value as &dyn ToSql).collect();
    Ok(table.append_row(&row[..])?)
}

/// Rows of the time since the first of these was submitted only: a table of years is not looked through for each batch.
fn replace<'a>(
    connection: &Connection,
    told: impl Iterator<Item = &'a Accounting>,
) -> Result<Accounted, StoreError> {
    let since = told.map(|job| job.submit.map_or(i64::MIN, nanos)).min().unwrap_or(i64::MIN);
    // Submissions of which the time is not known are in no part of it.
    let there = format!("(submit_ns >= {since} OR submit_ns IS NULL AND {since} = {})", i64::MIN);
    let older = connection.execute(
        &format!(
            "DELETE FROM incoming_job WHERE end_ns IS NULL \
             AND id IN (SELECT id FROM accounting WHERE end_ns IS NOT NULL AND {there})"
        ),
        [],
    )?;
    connection.execute_batch("DELETE FROM incoming_step WHERE id NOT IN (SELECT id FROM incoming_job)")?;
    let replaced = connection.execute(
        &format!("DELETE FROM accounting WHERE {there} AND id IN (SELECT id FROM incoming_job)"),
        [],
    )?;
    if replaced > 0 {
        connection.execute_batch("DELETE FROM accounting_step WHERE id IN (SELECT id FROM incoming_job)")?;
    }
    let kept = connection.execute("INSERT INTO accounting SELECT * FROM incoming_job", [])?;
    connection.execute_batch("INSERT INTO accounting_step SELECT * FROM incoming_step")?;
    Ok(Accounted { new: (kept - replaced) as u64, replaced: replaced as u64, older: older as u64 })
}

fn nanos(time: Nanos) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

fn time(time: Option<Nanos>) -> Sql {
    time.map_or(Sql::Null, |time| Sql::BigInt(nanos(time)))
}

fn count(count: Option<u64>) -> Sql {
    count.map_or(Sql::Null, Sql::UBigInt)
}

fn number(number: Option<u32>) -> Sql {
    number.map_or(Sql::Null, Sql::UInt)
}

fn word(word: &Option<String>) -> Sql {
    word.clone().map_or(Sql::Null, Sql::Text)
}

/// Bytes that are no text are shown as such.
fn text(bytes: &Option<Bytes>) -> Sql {
    bytes.as_ref().map_or(Sql::Null, |bytes| Sql::Text(bytes.to_string()))
}

fn words<'a>(words: impl Iterator<Item = &'a str>) -> Sql {
    let joined = words.collect::<Vec<_>>().join(",");
    if joined.is_empty() { Sql::Null } else { Sql::Text(joined) }
}

/// As Slurm writes it: `cpu=4,gres/gpu:a100=2`. Memory is in bytes, times are in nanoseconds.
fn tres(list: &[Tres]) -> Sql {
    let one = |tres: &Tres| match &tres.name {
        Some(name) => format!("{}/{name}={}", tres.kind, tres.count),
        None => format!("{}={}", tres.kind, tres.count),
    };
    let all: Vec<String> = list.iter().map(one).collect();
    words(all.iter().map(String::as_str))
}

fn exit(exit: Option<Exit>) -> [Sql; 2] {
    let exit = exit.unwrap_or_default();
    [number(exit.code), number(exit.signal)]
}

/// How long it may run, and whether that is for ever.
fn limit(limit: Option<TimeLimit>) -> [Sql; 2] {
    match limit {
        Some(TimeLimit::Nanos(limit)) => [time(Some(limit)), Sql::Boolean(false)],
        Some(TimeLimit::Unlimited) => [Sql::Null, Sql::Boolean(true)],
        Some(TimeLimit::OfPartition) | None => [Sql::Null, Sql::Null],
    }
}

fn canceller(by: &Option<Canceller>) -> Sql {
    match by {
        Some(Canceller::Uid(uid)) => Sql::Text(uid.to_string()),
        Some(Canceller::User(user)) => Sql::Text(user.clone()),
        None => Sql::Null,
    }
}

fn memory_per(per: MemoryPer) -> Sql {
    let per = match per {
        MemoryPer::Node => "node",
        MemoryPer::Cpu => "core",
        MemoryPer::Job => "job",
    };
    Sql::Text(per.to_owned())
}

fn times_of_cpu(used: &Usage) -> [Sql; 3] {
    [used.total_cpu, used.user_cpu, used.system_cpu].map(time)
}

/// In the order of the table.
fn row(id: u64, job: &Accounting) -> Vec<Sql> {
    let mut row = vec![Sql::UBigInt(id)];
    row.extend(identity(job));
    row.extend(course(job));
    row.extend(amounts(job));
    row.extend(texts(job));
    row
}

fn identity(job: &Accounting) -> [Sql; 19] {
    [
        word(&job.cluster),
        word(&job.job),
        Sql::Text(job.shown.clone()),
        count(job.array_job),
        count(job.array_task),
        word(&job.array_waiting),
        count(job.het_job),
        count(job.het_offset),
        word(&job.sluid),
        word(&job.user),
        number(job.uid),
        word(&job.group),
        number(job.gid),
        word(&job.account),
        word(&job.partition),
        word(&job.qos),
        word(&job.reservation),
        word(&job.wckey),
        text(&job.name),
    ]
}

fn course(job: &Accounting) -> [Sql; 16] {
    let [limit_ns, is_unlimited] = limit(job.time_limit);
    let [exit_code, signal] = exit(job.exit);
    let [derived_code, derived_signal] = exit(job.derived_exit);
    [
        time(job.submit),
        time(job.eligible),
        time(job.start),
        time(job.end),
        time(job.elapsed),
        limit_ns,
        is_unlimited,
        job.state.map_or(Sql::Null, |state| Sql::Text(state.name().to_owned())),
        words(job.also.iter().map(|state| state.name())),
        canceller(&job.cancelled_by),
        exit_code,
        signal,
        derived_code,
        derived_signal,
        word(&job.reason),
        count(job.restarts),
    ]
}

fn amounts(job: &Accounting) -> [Sql; 11] {
    let memory = job.allocated.iter().find(|tres| tres.kind == "mem").map(|tres| tres.count);
    let asked = job.requested_memory;
    [
        count(job.nodes),
        count(job.cpus),
        count(job.requested_cpus),
        count(job.tasks),
        count(gpus(&job.allocated)),
        count(memory),
        count(asked.map(|asked| asked.bytes)),
        asked.map_or(Sql::Null, |asked| memory_per(asked.per)),
        tres(&job.requested),
        tres(&job.allocated),
        word(&job.node_list),
    ]
}

fn texts(job: &Accounting) -> Vec<Sql> {
    let mut texts: Vec<Sql> = [
        &job.comment,
        &job.admin_comment,
        &job.system_comment,
        &job.extra,
        &job.submit_line,
        &job.work_dir,
        &job.stdout,
        &job.container,
    ]
    .map(text)
    .into();
    texts.extend([word(&job.constraints), word(&job.licenses)]);
    texts.extend([words(job.flags.iter().map(String::as_str)), count(job.priority)]);
    texts.extend(times_of_cpu(&job.used));
    texts.extend([job.used.max_rss, job.used.average_rss, job.used.energy].map(count));
    texts
}

fn step_row(id: u64, step: &Step) -> Vec<Sql> {
    let [exit_code, signal] = exit(step.exit);
    let mut row = vec![
        Sql::UBigInt(id),
        Sql::Text(step.step.clone()),
        text(&step.name),
        time(step.start),
        time(step.end),
        time(step.elapsed),
        step.state.map_or(Sql::Null, |state| Sql::Text(state.name().to_owned())),
        exit_code,
        signal,
        count(step.nodes),
        count(step.cpus),
        count(step.tasks),
        tres(&step.allocated),
        word(&step.node_list),
        text(&step.submit_line),
        text(&step.container),
    ];
    row.extend(times_of_cpu(&step.used));
    row.extend([count(step.used.max_rss), word(&step.used.max_rss_node)]);
    row.extend([step.used.average_rss, step.used.energy].map(count));
    row.extend([tres(&step.used.in_total), tres(&step.used.out_total)]);
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::accounting::State;

    /// Rows are appended by the order of the table.
    #[test]
    fn rows_have_the_tables_columns() {
        let connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&connection).unwrap();
        let columns = |table: &str| -> usize {
            let sql = format!("SELECT count(*) FROM pragma_table_info('{table}')");
            connection.query_row(&sql, [], |row| row.get(0)).unwrap()
        };
        assert_eq!(row(1, &Accounting::default()).len(), columns("accounting"));
        assert_eq!(step_row(1, &Step::default()).len(), columns("accounting_step"));
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

    #[test]
    fn that_a_job_has_ended_is_not_forgotten() {
        let at = |submit, end| Accounting {
            shown: "1".into(),
            submit: Some(submit),
            end,
            ..Accounting::default()
        };
        let jobs = [at(1, None), at(1, Some(9)), at(1, None), at(2, None)];
        let (told, left_out) = last_words(&jobs);
        assert_eq!((told.len(), left_out), (2, 2));
        assert_eq!(told[&id(&jobs[0])].end, Some(9));
    }
}
