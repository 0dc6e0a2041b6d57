//! A job as rows of the tables, in the order of their columns.

use duckdb::types::Value as Sql;
use record::accounting::{
    Accounting, Canceller, Exit, MemoryPer, Placed, Step, TimeLimit, Tres, Usage, gpus,
};
use record::bytes::Bytes;
use record::entry::Nanos;
use serde_json::{Map, Value};

use super::nanos;

pub(crate) fn time(time: Option<Nanos>) -> Sql {
    time.map_or(Sql::Null, |time| Sql::BigInt(nanos(time)))
}

pub(crate) fn count(count: Option<u64>) -> Sql {
    count.map_or(Sql::Null, Sql::UBigInt)
}

fn number(number: Option<u32>) -> Sql {
    number.map_or(Sql::Null, Sql::UInt)
}

pub(crate) fn word(word: &Option<String>) -> Sql {
    word.clone().map_or(Sql::Null, Sql::Text)
}

/// Bytes that are no text are shown as such.
fn text(bytes: &Option<Bytes>) -> Sql {
    bytes.as_ref().map_or(Sql::Null, |bytes| Sql::Text(bytes.to_string()))
}

pub(crate) fn text_of<'a>(words: impl Iterator<Item = &'a str>) -> Sql {
    let joined = words.collect::<Vec<_>>().join(",");
    if joined.is_empty() { Sql::Null } else { Sql::Text(joined) }
}

/// As Slurm writes it: `cpu=4,gres/gpu:a100=2`. Memory is in bytes, times are in nanoseconds.
pub(crate) fn tres(list: &[Tres]) -> Sql {
    let one = |tres: &Tres| match &tres.name {
        Some(name) => format!("{}/{name}={}", tres.kind, tres.count),
        None => format!("{}={}", tres.kind, tres.count),
    };
    let all: Vec<String> = list.iter().map(one).collect();
    text_of(all.iter().map(String::as_str))
}

fn exit(exit: Option<Exit>) -> [Sql; 2] {
    let exit = exit.unwrap_or_default();
    [number(exit.code), number(exit.signal)]
}

/// How long it may run, and whether that is for ever.
pub(crate) fn limit(limit: Option<TimeLimit>) -> [Sql; 2] {
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
pub(super) fn row(id: u64, job: &Accounting) -> Vec<Sql> {
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
        text_of(job.also.iter().map(|state| state.name())),
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
        // Slurm names what there is; where it names something and no GPU, there is none.
        count(gpus(&job.allocated).or((!job.allocated.is_empty()).then_some(0))),
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
    texts.extend([text_of(job.flags.iter().map(String::as_str)), count(job.priority)]);
    texts.extend(times_of_cpu(&job.used));
    texts.extend([job.used.max_rss, job.used.average_rss, job.used.energy].map(count));
    texts.push(others(job));
    texts
}

/// An object of JSON values.
fn others(job: &Accounting) -> Sql {
    if job.others.is_empty() {
        return Sql::Null;
    }
    let value = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    let all: Map<String, Value> =
        job.others.iter().map(|other| (other.name.clone(), value(&other.value))).collect();
    Sql::Text(Value::from(all).to_string())
}

pub(super) fn step_row(id: u64, step: &Step) -> Vec<Sql> {
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

pub(super) fn node_row(id: u64, placed: &Placed) -> Vec<Sql> {
    vec![
        Sql::UBigInt(id),
        Sql::Text(placed.host.clone()),
        word(&placed.cpus),
        text_of(placed.gpus.iter().map(String::as_str)),
        count(placed.memory),
    ]
}
