//! Jobs as columns of the tables. Column by column, because a value that is appended alone takes longer to hand over than to store; and only
//! the columns in which there is something.

use std::borrow::Cow;
use std::sync::Arc;

use duckdb::Connection;
use duckdb::arrow::array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use duckdb::arrow::error::ArrowError;
use record::accounting::{Accounting, Canceller, Exit, MemoryPer, TimeLimit, Tres, gpus};
use record::bytes::Bytes;
use record::entry::Nanos;
use serde_json::{Map, Value};

use super::merge::MONITORING;
use super::{nanos, redact};
use crate::StoreError;

/// A batch of rows, or why there is none: a column of another length would be our own mistake.
pub(super) type Columns = Result<RecordBatch, ArrowError>;

/// Jobs with their names for good.
pub(super) type Told<'a> = [(u64, &'a Accounting)];

/// What is appended to one table.
#[derive(Default)]
pub(super) struct Part(Vec<RecordBatch>);

impl Part {
    /// A column of another length would be our own mistake.
    pub fn add(&mut self, made: Columns) -> Result<(), StoreError> {
        let made = made.map_err(|_| StoreError::Damaged("jobs have columns of several lengths"))?;
        if made.num_rows() > 0 {
            self.0.push(made);
        }
        Ok(())
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.iter().map(RecordBatch::num_rows).sum()
    }

    /// The columns in which there is something.
    fn used(&self) -> Vec<usize> {
        let is_used = |at: &usize| self.0.iter().any(|rows| rows.column(*at).null_count() < rows.num_rows());
        (0..self.0.first().map_or(0, RecordBatch::num_columns)).filter(is_used).collect()
    }

    /// The rest of the table's columns is not known.
    pub fn append(&self, connection: &Connection, database: &str, table: &str) -> Result<(), StoreError> {
        let Some(first) = self.0.first() else { return Ok(()) };
        let (used, schema) = (self.used(), first.schema());
        let columns: Vec<&str> = used.iter().map(|at| schema.field(*at).name().as_str()).collect();
        let mut table =
            connection.appender_with_columns_to_catalog_and_db(table, database, "main", &columns)?;
        for rows in &self.0 {
            // Only the columns' handles are copied.
            let rows = rows.project(&used);
            table.append_record_batch(
                rows.map_err(|_| StoreError::Damaged("jobs have other columns than others"))?,
            )?;
        }
        Ok(table.flush()?)
    }
}

/// Of the table `tag_due`.
pub(super) fn places(told: &Told) -> Columns {
    let all = Rows(told.to_vec());
    named(vec![("id", all.ids()), ("submit_ns", all.time(|job| job.submit))])
}

fn named(columns: Named) -> Columns {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
}

/// Things of one kind, each with the id of its job, from which columns are made.
struct Rows<'a, T>(Vec<(u64, &'a T)>);

impl<'a, T> Rows<'a, T> {
    /// The parts of all jobs.
    fn of(told: &Told<'a>, parts: impl Fn(&'a Accounting) -> &'a [T]) -> Rows<'a, T> {
        Rows(told.iter().flat_map(|(id, job)| parts(job).iter().map(|part| (*id, part))).collect())
    }

    fn ids(&self) -> ArrayRef {
        Arc::new(self.0.iter().map(|(id, _)| Some(*id)).collect::<UInt64Array>())
    }

    fn text<'b>(&'b self, of: impl Fn(&'b T) -> Option<Cow<'b, str>>) -> ArrayRef {
        Arc::new(self.0.iter().map(|(_, one)| of(one)).collect::<StringArray>())
    }

    fn word<'b>(&'b self, of: impl Fn(&'b T) -> &'b Option<String>) -> ArrayRef {
        self.text(|one| of(one).as_deref().map(Cow::Borrowed))
    }

    /// Bytes that are no text are shown as such.
    fn bytes<'b>(&'b self, of: impl Fn(&'b T) -> &'b Option<Bytes>) -> ArrayRef {
        self.text(|one| {
            let bytes = of(one).as_ref()?;
            Some(std::str::from_utf8(bytes).map_or_else(|_| Cow::Owned(bytes.to_string()), Cow::Borrowed))
        })
    }

    /// What somebody wrote, without its secrets.
    fn written<'b>(&'b self, of: impl Fn(&'b T) -> &'b Option<Bytes>) -> ArrayRef {
        self.text(|one| {
            let bytes = of(one).as_ref()?;
            Some(match std::str::from_utf8(bytes) {
                Ok(text) => redact::text(text),
                Err(_) => Cow::Owned(redact::text(&bytes.to_string()).into_owned()),
            })
        })
    }

    fn count(&self, of: impl Fn(&T) -> Option<u64>) -> ArrayRef {
        Arc::new(self.0.iter().map(|(_, one)| of(one)).collect::<UInt64Array>())
    }

    fn number(&self, of: impl Fn(&T) -> Option<u32>) -> ArrayRef {
        Arc::new(self.0.iter().map(|(_, one)| of(one)).collect::<UInt32Array>())
    }

    fn time(&self, of: impl Fn(&T) -> Option<Nanos>) -> ArrayRef {
        Arc::new(self.0.iter().map(|(_, one)| of(one).map(nanos)).collect::<Int64Array>())
    }

    fn truth(&self, of: impl Fn(&T) -> Option<bool>) -> ArrayRef {
        Arc::new(self.0.iter().map(|(_, one)| of(one)).collect::<BooleanArray>())
    }
}

/// Of the table `accounting`, all but what is decided of a job.
pub(super) fn jobs(told: &Told) -> Columns {
    let all = Rows(told.to_vec());
    let mut columns = identity(&all);
    columns.extend(course(&all));
    columns.extend(amounts(&all));
    columns.extend(texts(&all));
    columns.extend(used(&all));
    named(columns)
}

type Named = Vec<(&'static str, ArrayRef)>;

fn identity(all: &Rows<Accounting>) -> Named {
    vec![
        ("id", all.ids()),
        ("cluster", all.word(|job| &job.cluster)),
        ("source", all.text(|job| job.from_monitoring.then_some(Cow::Borrowed(MONITORING)))),
        ("job", all.word(|job| &job.job)),
        ("shown", all.text(|job| Some(Cow::Borrowed(&job.shown)))),
        ("array_job", all.count(|job| job.array_job)),
        ("array_task", all.count(|job| job.array_task)),
        ("array_waiting", all.word(|job| &job.array_waiting)),
        ("waiting_tasks", all.count(Accounting::tasks_waiting)),
        ("het_job", all.count(|job| job.het_job)),
        ("het_offset", all.count(|job| job.het_offset)),
        ("sluid", all.word(|job| &job.sluid)),
        ("user", all.word(|job| &job.user)),
        ("uid", all.number(|job| job.uid)),
        ("group", all.word(|job| &job.group)),
        ("gid", all.number(|job| job.gid)),
        ("project", all.word(|job| &job.account)),
        ("partition", all.word(|job| &job.partition)),
        ("qos", all.word(|job| &job.qos)),
        ("reservation", all.word(|job| &job.reservation)),
        ("wckey", all.word(|job| &job.wckey)),
        ("name", all.written(|job| &job.name)),
    ]
}

fn course(all: &Rows<Accounting>) -> Named {
    vec![
        ("submit_ns", all.time(|job| job.submit)),
        ("eligible_ns", all.time(|job| job.eligible)),
        ("start_ns", all.time(|job| job.start)),
        ("end_ns", all.time(|job| job.end)),
        ("elapsed_ns", all.time(|job| job.elapsed)),
        ("limit_ns", all.time(|job| limit(job.time_limit))),
        ("is_unlimited", all.truth(|job| is_unlimited(job.time_limit))),
        ("state", all.text(|job| job.state.map(|state| Cow::Borrowed(state.name())))),
        ("also", all.text(|job| words(job.also.iter().map(|state| state.name())))),
        ("cancelled_by", all.text(|job| job.cancelled_by.as_ref().map(canceller))),
        ("exit_code", all.number(|job| code(job.exit))),
        ("signal", all.number(|job| signal(job.exit))),
        ("derived_exit_code", all.number(|job| code(job.derived_exit))),
        ("derived_signal", all.number(|job| signal(job.derived_exit))),
        ("reason", all.word(|job| &job.reason)),
        ("restarts", all.count(|job| job.restarts)),
    ]
}

fn amounts(all: &Rows<Accounting>) -> Named {
    vec![
        ("nodes", all.count(|job| job.nodes)),
        ("cores", all.count(|job| job.cpus)),
        ("requested_nodes", all.count(|job| job.requested_nodes)),
        ("requested_cores", all.count(|job| job.requested_cpus)),
        ("requested_gpus", all.count(Accounting::gpus_requested)),
        ("requested_memory", all.count(Accounting::memory_requested)),
        ("requested_memory_each", all.count(|job| job.requested_memory.map(|asked| asked.bytes))),
        ("requested_memory_per", all.text(|job| job.requested_memory.map(|asked| memory_per(asked.per)))),
        ("tasks", all.count(|job| job.tasks)),
        // Slurm names what there is; where it names something and no GPU, there is none.
        ("gpus", all.count(|job| gpus(&job.allocated).or((!job.allocated.is_empty()).then_some(0)))),
        (
            "memory",
            all.count(|job| job.allocated.iter().find(|tres| tres.kind == "mem").map(|tres| tres.count)),
        ),
        ("requested", all.text(|job| tres(&job.requested))),
        ("allocated", all.text(|job| tres(&job.allocated))),
        ("node_list", all.word(|job| &job.node_list)),
        ("is_shared", all.truth(|job| job.is_shared)),
    ]
}

fn texts(all: &Rows<Accounting>) -> Named {
    vec![
        ("comment", all.written(|job| &job.comment)),
        ("admin_comment", all.written(|job| &job.admin_comment)),
        ("system_comment", all.written(|job| &job.system_comment)),
        ("extra", all.written(|job| &job.extra)),
        ("submit_line", all.written(|job| &job.submit_line)),
        ("work_dir", all.bytes(|job| &job.work_dir)),
        ("stdout", all.bytes(|job| &job.stdout)),
        ("container", all.written(|job| &job.container)),
        ("constraints", all.word(|job| &job.constraints)),
        ("licenses", all.word(|job| &job.licenses)),
        ("flags", all.text(|job| words(job.flags.iter().map(String::as_str)))),
        ("priority", all.count(|job| job.priority)),
    ]
}

fn used(all: &Rows<Accounting>) -> Named {
    vec![
        ("total_cpu_ns", all.time(|job| job.used.total_cpu)),
        ("user_cpu_ns", all.time(|job| job.used.user_cpu)),
        ("system_cpu_ns", all.time(|job| job.used.system_cpu)),
        ("max_rss", all.count(|job| job.used.max_rss)),
        ("average_rss", all.count(|job| job.used.average_rss)),
        ("energy_j", all.count(|job| job.used.energy)),
        ("others", others(all)),
    ]
}

/// Of the table `accounting_step`.
pub(super) fn steps(told: &Told) -> Columns {
    let all = Rows::of(told, |job| &job.steps);
    named(vec![
        ("id", all.ids()),
        ("step", all.text(|step| Some(Cow::Borrowed(&step.step)))),
        ("name", all.written(|step| &step.name)),
        ("start_ns", all.time(|step| step.start)),
        ("end_ns", all.time(|step| step.end)),
        ("elapsed_ns", all.time(|step| step.elapsed)),
        ("state", all.text(|step| step.state.map(|state| Cow::Borrowed(state.name())))),
        ("exit_code", all.number(|step| code(step.exit))),
        ("signal", all.number(|step| signal(step.exit))),
        ("nodes", all.count(|step| step.nodes)),
        ("cores", all.count(|step| step.cpus)),
        ("tasks", all.count(|step| step.tasks)),
        ("allocated", all.text(|step| tres(&step.allocated))),
        ("node_list", all.word(|step| &step.node_list)),
        ("submit_line", all.written(|step| &step.submit_line)),
        ("container", all.written(|step| &step.container)),
        ("total_cpu_ns", all.time(|step| step.used.total_cpu)),
        ("user_cpu_ns", all.time(|step| step.used.user_cpu)),
        ("system_cpu_ns", all.time(|step| step.used.system_cpu)),
        ("max_rss", all.count(|step| step.used.max_rss)),
        ("max_rss_node", all.word(|step| &step.used.max_rss_node)),
        ("average_rss", all.count(|step| step.used.average_rss)),
        ("energy_j", all.count(|step| step.used.energy)),
        ("used_in", all.text(|step| tres(&step.used.in_total))),
        ("used_out", all.text(|step| tres(&step.used.out_total))),
    ])
}

/// Of the table `accounting_node`.
pub(super) fn nodes(told: &Told) -> Columns {
    let all = Rows::of(told, |job| &job.placed);
    named(vec![
        ("id", all.ids()),
        ("host", all.text(|placed| Some(Cow::Borrowed(&placed.host)))),
        ("cpus", all.word(|placed| &placed.cpus)),
        ("gpus", all.text(|placed| words(placed.gpus.iter().map(String::as_str)))),
        ("memory", all.count(|placed| placed.memory)),
    ])
}

fn words<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Cow<'a, str>> {
    let first = words.next()?;
    Some(words.fold(Cow::Borrowed(first), |list, word| Cow::Owned(format!("{list},{word}"))))
}

/// As Slurm writes it: `cpu=4,gres/gpu:a100=2`. Memory is in bytes, times are in nanoseconds.
fn tres(list: &[Tres]) -> Option<Cow<'_, str>> {
    use std::fmt::Write;
    if list.is_empty() {
        return None;
    }
    let mut text = String::new();
    for tres in list {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing into memory does not fail.
        let _ = match &tres.name {
            Some(name) => write!(text, "{comma}{}/{name}={}", tres.kind, tres.count),
            None => write!(text, "{comma}{}={}", tres.kind, tres.count),
        };
    }
    Some(Cow::Owned(text))
}

fn code(exit: Option<Exit>) -> Option<u32> {
    exit?.code
}

fn signal(exit: Option<Exit>) -> Option<u32> {
    exit?.signal
}

fn limit(limit: Option<TimeLimit>) -> Option<Nanos> {
    match limit {
        Some(TimeLimit::Nanos(limit)) => Some(limit),
        _ => None,
    }
}

fn is_unlimited(limit: Option<TimeLimit>) -> Option<bool> {
    match limit {
        Some(TimeLimit::Nanos(_)) => Some(false),
        Some(TimeLimit::Unlimited) => Some(true),
        Some(TimeLimit::OfPartition) | None => None,
    }
}

fn canceller(by: &Canceller) -> Cow<'_, str> {
    match by {
        Canceller::Uid(uid) => Cow::Owned(uid.to_string()),
        Canceller::User(user) => Cow::Borrowed(user),
    }
}

fn memory_per(per: MemoryPer) -> Cow<'static, str> {
    Cow::Borrowed(match per {
        MemoryPer::Node => "node",
        MemoryPer::Cpu => "core",
        MemoryPer::Job => "job",
    })
}

/// An object of JSON values: scripts are among them.
fn others(all: &Rows<Accounting>) -> ArrayRef {
    let value = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    all.text(|job| {
        let values = job.others.iter().map(|other| (other.name.clone(), value(&other.value)));
        let mut values = Value::from(values.collect::<Map<String, Value>>());
        redact::json(&mut values);
        (!job.others.is_empty()).then(|| Cow::Owned(values.to_string()))
    })
}
