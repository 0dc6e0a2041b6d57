//! The columns of a job: what they are called, what they mean, and how they come from the tables.
//!
//! SQL here names `c`, a job as it is accounted for (or measured, where nobody accounts for it), `j`, what was measured of it, and
//! `m`, what other systems measured. Of a column that is in two of them, the batch system's word counts, then our own.

use std::sync::{Arc, LazyLock};

use condition::{Catalogue, Column, Type, Unit};
use record::accounting::State;
use record::metric::{Kind, Metric, Of, Unit as Counted};

use super::attributed;
use super::elsewhere::or_elsewhere;
use super::tagged::SET;
use super::{sacct, software};
use crate::job_rows::{CHARACTERISTICS, last_name, metrics, shares};
use crate::kind::Kind as JobKind;
use crate::tags::{REMOVED, TAGS};

/// One column.
#[derive(Debug)]
pub struct JobColumn {
    /// In answers.
    pub name: String,
    /// In conditions, where the name is a word of their language.
    pub alias: Option<&'static str>,
    pub of: Type,
    pub unit: Unit,
    pub meaning: String,
    pub(in crate::query) sql: String,
    /// The whole numbers it comes from, and how many make one.
    whole: Option<(String, f64)>,
    /// Too much work for more than the jobs of a page: no condition may name it, and none are sorted by it.
    pub is_only_shown: bool,
}

impl JobColumn {
    pub(super) fn new(name: &str, of: Type, meaning: &str, sql: &str) -> JobColumn {
        let unit = match of {
            Type::Duration => Unit::SECOND,
            Type::Bytes => Unit::BYTE,
            Type::Rate => Unit::BYTE_PER_SECOND,
            Type::Share => Unit::PERCENT,
            _ => Unit::ONE,
        };
        JobColumn {
            name: name.into(),
            alias: None,
            of,
            unit,
            meaning: meaning.into(),
            sql: sql.into(),
            whole: None,
            is_only_shown: false,
        }
    }

    fn aka(self, alias: &'static str) -> JobColumn {
        JobColumn { alias: Some(alias), ..self }
    }

    /// Made of whole numbers.
    fn of(self, sql: &str, over: f64) -> JobColumn {
        JobColumn { whole: Some((sql.into(), over)), ..self }
    }

    pub(super) fn labelled(self, label: &'static str) -> JobColumn {
        JobColumn { unit: Unit::label(label), ..self }
    }

    /// What a value counts, for people.
    pub fn unit(&self) -> &'static str {
        match self.of {
            Type::Time => "time",
            Type::Text => "text",
            Type::Boolean => "true or false",
            _ => self.unit.symbol(),
        }
    }
}

/// The column that says of which kind a job is.
pub(super) const KIND: &str = "kind";

/// A job that has begun: one that was cancelled before has a start in some texts, and never had a node.
pub(super) const STARTED: &str = "(c.start_ns IS NOT NULL AND c.node_list IS NOT NULL)";

/// The columns of a site, and what conditions may name.
#[derive(Debug, Clone)]
pub struct Columns {
    pub all: Vec<Arc<JobColumn>>,
    pub catalogue: Catalogue,
}

/// The columns that are always there, those of the batch system first.
pub static FIXED: LazyLock<Columns> = LazyLock::new(|| Columns::with(&[]));

impl Columns {
    /// With the metrics that only other systems have, and their units: those whose names conditions can have.
    pub(super) fn with(own: &[(String, Option<String>)]) -> Columns {
        let mut all = accounted();
        all.extend(used());
        all.extend(attributed::columns());
        all.extend(of_site());
        all.push(tags());
        all.extend(metrics().flat_map(of_metric));
        for column in own.iter().flat_map(|(metric, unit)| of_others(metric, unit.as_deref())) {
            let is_free = |of: &JobColumn| of.name != column.name && of.alias != Some(&column.name);
            if all.iter().all(is_free) && Catalogue::new([catalogued(&column, &column.name)]).is_ok() {
                all.push(column);
            }
        }
        let names = |of: &JobColumn| {
            [of.name.clone()].into_iter().chain(of.alias.map(str::to_owned)).collect::<Vec<_>>()
        };
        let catalogue = all.iter().filter(|of| !of.is_only_shown);
        let catalogue = catalogue.flat_map(|of| names(of).into_iter().map(|name| catalogued(of, &name)));
        // A test sees that there is one.
        let catalogue = Catalogue::new(catalogue).unwrap_or_default();
        let catalogue = software::predicates().into_iter().fold(catalogue, Catalogue::with);
        let catalogue = sacct::NAMES.iter().fold(catalogue, |all, (theirs, ours)| all.also(theirs, ours));
        Columns { all: all.into_iter().map(Arc::new).collect(), catalogue }
    }

    /// A column by the name of answers, of conditions, or of Slurm.
    pub fn named(&self, name: &str) -> Option<&Arc<JobColumn>> {
        self.own(name).or_else(|| self.own(sacct::ours(name)?))
    }

    fn own(&self, name: &str) -> Option<&Arc<JobColumn>> {
        self.all.iter().find(|column| {
            column.name.eq_ignore_ascii_case(name)
                || column.alias.is_some_and(|alias| alias.eq_ignore_ascii_case(name))
        })
    }

    /// The name that somebody may have meant.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        let names = self.all.iter().flat_map(|column| [Some(&*column.name), column.alias]);
        condition::nearest(name, names.flatten().chain(sacct::NAMES.iter().map(|(theirs, _)| *theirs)))
    }
}

fn catalogued(of: &JobColumn, name: &str) -> Column {
    let column = Column::new(name, of.of, &of.meaning, &of.sql).in_unit(of.unit);
    let column = match of.name.as_str() {
        "state" => column.one_of(State::NAMES),
        KIND => column.one_of(JobKind::NAMES),
        _ => column,
    };
    match &of.whole {
        Some((sql, over)) => column.of_whole(sql, *over),
        None => column,
    }
}

/// What jobs are sorted by where nothing else is asked for: their submission, or their start where that is not known.
pub static USUAL_ORDER: LazyLock<Arc<JobColumn>> = LazyLock::new(|| {
    let sql = "coalesce(c.submit_ns, c.start_ns)";
    Arc::new(JobColumn::new("submit", Type::Time, "when it was submitted, or began", sql))
});

/// One of the columns that are always there.
pub fn column(name: &str) -> Option<&'static Arc<JobColumn>> {
    FIXED.named(name)
}

/// The characteristics of a metric that only another system has.
fn of_others(metric: &str, unit: Option<&str>) -> Vec<JobColumn> {
    let unit = unit.map_or(String::new(), |unit| format!(", in {unit}"));
    let of = |name: &str| {
        let meaning = format!("{metric} as another system measured it{unit}: {}", words(name));
        JobColumn::new(&format!("{metric}_{name}"), Type::Number, &meaning, &format!("m.own_{metric}_{name}"))
    };
    CHARACTERISTICS.into_iter().map(of).collect()
}

/// What other systems measured, for columns whose SQL names it: one row for each job.
pub(super) fn told_by_others(used: &[&str]) -> Option<String> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut names: Vec<&str> = used
        .iter()
        .flat_map(|sql| sql.match_indices("m.").map(|(at, _)| &sql[at + 2..]))
        .map(|rest| rest.split(|letter| !is_name(letter)).next().unwrap_or_default())
        .collect();
    names.sort_unstable();
    names.dedup();
    let columns: Vec<String> = names.iter().filter_map(|name| pivoted(name)).collect();
    (!columns.is_empty()).then(|| {
        format!("LEFT JOIN (SELECT id, {} FROM job_measure GROUP BY id) m ON m.id = c.id", columns.join(", "))
    })
}

/// One of its columns; what was computed from values counts more than what was told. The name is one of ours, or was checked to be
/// one that conditions can have.
fn pivoted(name: &str) -> Option<String> {
    if name == "is_shared" {
        return Some("bool_or(is_shared) AS is_shared".to_owned());
    }
    let (is_ours, full) = name.strip_prefix("own_").map_or((true, name), |own| (false, own));
    let of =
        CHARACTERISTICS.iter().filter(|of| full.ends_with(&format!("_{of}"))).max_by_key(|of| of.len())?;
    let metric = full.strip_suffix(of)?.strip_suffix('_')?;
    let word = |is_told: bool| {
        format!("max({of}) FILTER (metric = '{metric}' AND is_ours = {is_ours} AND is_told = {is_told})")
    };
    Some(format!("coalesce({}, {}) AS {name}", word(false), word(true)))
}

/// The columns of an answer that names none.
pub const USUAL: [&str; 26] = [
    "cluster",
    "kind",
    "job",
    "job_id",
    "user",
    "project",
    "partition",
    "qos",
    "state",
    "submit",
    "start",
    "end",
    "nodes",
    "node_list",
    "cores",
    "gpus",
    "memory",
    "elapsed_s",
    "wait_s",
    "limit_s",
    "core_hours",
    "node_hours",
    "gpu_hours",
    "exit_code",
    "signal",
    "name",
];

/// What a job had on each of its nodes, where somebody looked while Slurm knew it.
fn placed(what: &str) -> String {
    format!(
        "(SELECT string_agg(h.host || ':' || h.{what}, ' ' ORDER BY h.host) FROM accounting_node h WHERE h.id = c.id)"
    )
}

/// The tags that whoever asks sees on it. Conditions are made of which tags a job has, not of the text: see `Tagged`.
fn tags() -> JobColumn {
    let has_bit = |words: [&str; TAGS.len()]| {
        let words = words.iter().enumerate().map(|(at, word)| format!("WHEN {at} THEN c.{word}"));
        let words = words.collect::<Vec<_>>().join(" ");
        format!("(CASE g.bit // 64 {words} END >> (g.bit % 64)::UBIGINT) & 1::UBIGINT = 1")
    };
    let (has, removed) = (has_bit(TAGS), has_bit(REMOVED));
    let sql = format!(
        "(SELECT string_agg(g.name || CASE WHEN {removed} THEN ' (removed by owner)' ELSE '' END, ', ' ORDER BY g.name) \
           FROM tag g WHERE g.is_available AND \
           ({has} OR {removed} OR g.id IN (SELECT h.tag FROM assignment h WHERE h.id = c.id AND {SET})) \
           AND g.id NOT IN (SELECT v.tag FROM opinion v WHERE v.id = c.id AND v.word = 'hide' AND v.until_ns IS NULL))"
    );
    let meaning = "the tags it has, as far as you see them and did not hide them: --all, --any and --none find jobs by them";
    JobColumn { is_only_shown: true, ..JobColumn::new("tags", Type::Text, meaning, &sql) }
}

/// What the batch system says.
fn accounted() -> Vec<JobColumn> {
    use Type::{Boolean, Bytes, Duration, Number, Share, Text, Time};
    // The numbers in the table are whole.
    let new = |name: &str, of: Type, meaning: &str, sql: &str| {
        let column = JobColumn::new(name, of, meaning, sql);
        let is_plain = matches!(of, Number | Bytes) && !sql.contains(' ');
        if is_plain { column.of(sql, 1.0) } else { column }
    };
    let seconds =
        |name, meaning, ns: &str| new(name, Duration, meaning, &format!("({ns}) / 1e9")).of(ns, 1e9);
    let hours =
        |name, meaning, of: &str| new(name, Number, meaning, &format!("c.elapsed_ns * {of} / 3.6e12"));
    vec![
        new("cluster", Text, "the cluster it ran on", "c.cluster"),
        new(
            KIND,
            Text,
            "job, or session: of somebody who logged in, outside any batch job; it has the whole machine",
            JobKind::SQL,
        ),
        new(
            "job",
            Text,
            "the batch system's own number, which programs and control groups have; or the name of a session",
            "c.job",
        ),
        new(
            "job_id",
            Text,
            "as people are shown it: 123, 123_4 in an array, 123+1 in a heterogeneous job",
            "c.shown",
        ),
        new("array_job", Number, "the array it belongs to", "c.array_job"),
        new("array_task", Number, "which of the array", "c.array_task"),
        new(
            "waiting_tasks",
            Number,
            "how many tasks of an array wait in this row; it counts as so many jobs",
            "c.waiting_tasks",
        ),
        new("het_job", Number, "the heterogeneous job it belongs to", "c.het_job"),
        new("user", Text, "who ran it", "c.\"user\""),
        new("uid", Number, "the user's number", "c.uid"),
        new("group", Text, "the user's group", "c.\"group\""),
        new("project", Text, "the account that pays", "c.project"),
        new("partition", Text, "the queue", "c.partition"),
        new("qos", Text, "the quality of service", "c.qos"),
        new("reservation", Text, "the reservation it ran in", "c.reservation"),
        new("wckey", Text, "the key that the user gave to tell work apart", "c.wckey"),
        new("name", Text, "what the user called it", "c.name"),
        new(
            "state",
            Text,
            "PENDING, RUNNING, COMPLETED, FAILED, CANCELLED, TIMEOUT, OUT_OF_MEMORY, NODE_FAIL, …",
            "c.state",
        ),
        new("reason", Text, "why it waits, or waited last", "c.reason"),
        new("cancelled_by", Text, "who cancelled it", "c.cancelled_by"),
        new("exit_code", Number, "the exit code of the batch script", "c.exit_code"),
        new("signal", Number, "the signal that ended it; 0 is none", "c.signal"),
        new("derived_exit_code", Number, "the highest exit code of all steps", "c.derived_exit_code"),
        new("restarts", Number, "how often it was queued again", "c.restarts"),
        new("submit", Time, "when it was submitted", "c.submit_ns"),
        new("eligible", Time, "when it could have begun", "c.eligible_ns"),
        new("start", Time, "when it began", "c.start_ns"),
        new("end", Time, "when it ended", "c.end_ns").aka("ended"),
        seconds("elapsed_s", "how long it ran, without the time it was suspended", "c.elapsed_ns")
            .aka("elapsed"),
        seconds(
            "wait_s",
            "how long it waited, from submission to start",
            &format!("CASE WHEN {STARTED} THEN c.start_ns - c.submit_ns END"),
        )
        .aka("wait"),
        seconds("limit_s", "how long it might have run", "c.limit_ns").aka("time_limit"),
        new("is_unlimited", Boolean, "whether it might have run for ever", "c.is_unlimited"),
        new("nodes", Number, "how many nodes were allocated; unknown while it waits", "c.nodes"),
        new("node_list", Text, "which nodes it had", "c.node_list"),
        new("cpu_ids", Text, "which hardware threads it had on each node: n1:0-3 n2:8", &placed("cpus")),
        new("gpu_ids", Text, "which GPUs it had on each node: n1:0,1", &placed("gpus")),
        new("cores", Number, "how many processors were allocated; unknown while it waits", "c.cores"),
        new("requested_nodes", Number, "how many nodes were requested", "c.requested_nodes"),
        new("requested_cores", Number, "how many processors were requested", "c.requested_cores"),
        new("requested_gpus", Number, "how many GPUs were requested", "c.requested_gpus"),
        new(
            "tasks",
            Number,
            "how many tasks it had; of several steps, those of the one with most",
            "c.tasks",
        ),
        new("gpus", Number, "how many GPUs it had", "c.gpus"),
        new("memory", Bytes, "how much memory it had reserved, on all nodes", "c.memory"),
        new("requested_memory", Bytes, "how much memory was requested, on all nodes", "c.requested_memory"),
        new("requested", Text, "what it asked for, as Slurm writes it", "c.requested"),
        new("allocated", Text, "what it was given, as Slurm writes it", "c.allocated"),
        hours("core_hours", "processors times hours", "c.cores"),
        hours("node_hours", "nodes times hours", "c.nodes"),
        hours("gpu_hours", "GPUs times hours", "c.gpus"),
        new("cpu_time_s", Duration, "CPU time, as the batch system measured it", "c.total_cpu_ns / 1e9")
            .aka("cpu_time"),
        new(
            "cpu_efficiency",
            Share,
            "CPU time of what was reserved, as the batch system measured it",
            "c.total_cpu_ns / nullif(c.cores * c.elapsed_ns, 0) * 100",
        ),
        new("max_rss", Bytes, "the most memory that one task had", "c.max_rss"),
        new("energy", Number, "energy, as the batch system measured it", "c.energy_j").labelled("J"),
        new("priority", Number, "the priority when it began", "c.priority"),
        new("comment", Text, "the user's comment", "c.comment"),
        new("admin_comment", Text, "the administrator's comment", "c.admin_comment"),
        new("system_comment", Text, "the batch system's comment", "c.system_comment"),
        new("extra", Text, "what else was given at submission", "c.extra"),
        new("submit_line", Text, "the command that submitted it", "c.submit_line"),
        new("work_dir", Text, "where it began", "c.work_dir"),
        new("stdout", Text, "the file of its output", "c.stdout"),
        new("container", Text, "the container it ran in", "c.container"),
        new("constraints", Text, "which kinds of nodes it asked for", "c.constraints"),
        new("licenses", Text, "which licences it asked for", "c.licenses"),
        new("flags", Text, "how it was scheduled", "c.flags"),
    ]
}

/// What was used of what was reserved.
fn used() -> Vec<JobColumn> {
    let share =
        |name: String, meaning: String, sql: String| JobColumn::new(&name, Type::Share, &meaning, &sql);
    let mut columns = vec![
        JobColumn::new(
            "is_measured",
            Type::Boolean,
            "whether anything was measured of it",
            "j.readings IS NOT NULL",
        ),
        share("coverage".into(), "the share of its time that was measured".into(), "100 * j.coverage".into()),
        share(
            "memory_util_max".into(),
            "the most memory in use at a time, of what was reserved".into(),
            "100 * j.memory_peak_last / nullif(c.memory, 0)".into(),
        ),
    ];
    for (of, word) in [("min", "least"), ("max", "most"), ("avg", "average"), ("median", "median")] {
        columns.push(share(
            format!("cpu_util_{of}"),
            format!("processors in use of those reserved, {word}"),
            format!("100 * j.cpu_{of} * j.nodes / nullif(c.cores, 0)"),
        ));
        // Hundredths of GPUs; characteristics are those of one node.
        columns.push(share(
            format!("gpu_util_{of}"),
            format!("GPUs in use of those reserved, {word}"),
            format!("{} * coalesce(j.nodes, c.nodes) / nullif(c.gpus, 0)", or_elsewhere("gpu", of, &["j"])),
        ));
    }
    columns
}

/// What the site says of where a job ran: `p` is its partition, `n` its nodes.
fn of_site() -> Vec<JobColumn> {
    let new = JobColumn::new;
    vec![
        new(
            "is_test_partition",
            Type::Boolean,
            "whether its partition is for trying things out",
            "p.is_test",
        ),
        new(
            "is_high_priority_partition",
            Type::Boolean,
            "whether jobs of its partition go before others",
            "p.is_high_priority",
        ),
        new("partition_has_gpus", Type::Boolean, "whether nodes of its partition have GPUs", "p.has_gpus"),
        new(
            "partition_has_disks",
            Type::Boolean,
            "whether nodes of its partition have disks of their own",
            "p.has_local_disk",
        ),
        new(
            "default_limit_s",
            Type::Duration,
            "the time limit of jobs that ask its partition for none",
            "(p.default_time_ns) / 1e9",
        )
        .of("p.default_time_ns", 1e9)
        .aka("default_time_limit"),
        new("node_cores", Type::Number, "cores of each of its nodes; the smallest node's", "n.cores")
            .of("n.cores", 1.0),
        new("node_memory", Type::Bytes, "memory of each of its nodes; the smallest node's", "n.memory")
            .of("n.memory", 1.0),
        new(
            "node_peak_flops",
            Type::Number,
            "floating point operations that each of its nodes can do in a second; the slowest node's",
            "n.peak_flops",
        )
        .labelled("1/s"),
    ]
}

/// The partition of a job and its nodes, for columns whose SQL names them.
pub(super) fn told_by_site(used: &[&str]) -> impl Iterator<Item = &'static str> {
    const PARTITION: &str =
        "LEFT JOIN partition_now p ON p.name = c.partition AND p.cluster IS NOT DISTINCT FROM c.cluster";
    const NODES: &str = "LEFT JOIN (SELECT l.list, s.cluster, min(s.cores) AS cores, min(s.memory) AS memory, \
          min(s.peak_flops) AS peak_flops, sum(s.cpus) AS cpus, count(s.cpus) AS counted \
        FROM node_list l JOIN node_now s ON s.name = l.host GROUP BY l.list, s.cluster) n \
        ON n.list = c.node_list AND n.cluster IS NOT DISTINCT FROM c.cluster";
    let names = |alias: &str| {
        let is_own = |before: Option<char>| {
            before.is_none_or(|letter| !letter.is_ascii_alphanumeric() && letter != '_')
        };
        used.iter().any(|sql| sql.match_indices(alias).any(|(at, _)| is_own(sql[..at].chars().next_back())))
    };
    let found = [(names("p."), PARTITION), (names("n."), NODES)];
    found.into_iter().filter_map(|(is_used, join)| is_used.then_some(join))
}

/// The characteristics of a metric.
fn of_metric(metric: &'static Metric) -> Vec<JobColumn> {
    let new = |name: &str, (of, label, scale): (Type, &'static str, &str), what: &str| {
        let full = format!("{}_{name}", metric.name);
        let value = match metric.of {
            _ if !CHARACTERISTICS.contains(&name) => format!("j.{full}"),
            Of::Node => or_elsewhere(metric.name, name, &["j", "m"]),
            _ => or_elsewhere(metric.name, name, &["j"]),
        };
        let column =
            JobColumn::new(&full, of, &format!("{}: {what}", metric.about), &format!("{value}{scale}"));
        if label.is_empty() { column } else { column.labelled(label) }
    };
    let level = level(metric);
    let mut columns: Vec<JobColumn> =
        CHARACTERISTICS.into_iter().map(|name| new(name, level, words(name))).collect();
    columns.extend(last_name(metric).map(|name| new(name, last(metric), words(name))));
    columns.extend(shares(metric).iter().map(|name| new(name, (Type::Share, "", " * 100"), words(name))));
    columns
}

fn words(characteristic: &str) -> &'static str {
    match characteristic {
        "min" => "least",
        "max" => "most",
        "avg" => "average",
        "median" => "median",
        "node_min" => "average of the node with the least",
        "node_max" => "average of the node with the most",
        "total" => "in all",
        "last" => "at the end",
        "below" => "share of the time below the site's low threshold",
        _ => "share of the time above the site's high threshold",
    }
}

/// What a value of the series is: its type, its label where that says more, and how it comes from the column.
pub(super) fn level(metric: &Metric) -> (Type, &'static str, &'static str) {
    match (metric.kind, metric.unit) {
        (Kind::Counter, Counted::Nanoseconds) => (Type::Number, "cores", ""),
        (Kind::Counter, Counted::Bytes) => (Type::Rate, "", ""),
        (Kind::Counter, Counted::MicroJoule) => (Type::Number, "W", " / 1e6"),
        (Kind::Counter, _) => (Type::Number, "1/s", ""),
        (Kind::Gauge, _) => last(metric),
    }
}

/// What a value itself is.
fn last(metric: &Metric) -> (Type, &'static str, &'static str) {
    match metric.unit {
        Counted::Bytes => (Type::Bytes, "", ""),
        Counted::Nanoseconds => (Type::Duration, "", " / 1e9"),
        Counted::Count => (Type::Number, "", ""),
        Counted::Hundredths => (Type::Number, "", " / 100"),
        Counted::MilliCelsius => (Type::Number, "°C", " / 1000"),
        Counted::MilliWatt => (Type::Number, "W", " / 1000"),
        Counted::MicroJoule => (Type::Number, "J", " / 1e6"),
        Counted::MegaHertz => (Type::Number, "MHz", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_both_names() {
        let (all, catalogue) = (&FIXED.all, &FIXED.catalogue);
        assert!(all.len() > 400, "{}", all.len());
        for usual in USUAL {
            assert!(column(usual).is_some(), "{usual}");
        }
        assert_eq!(column("Ended").map(|column| &*column.name), Some("end"));
        assert_eq!(column("gpu_util_avg").map(|column| column.unit()), Some("%"));
        assert!(catalogue.get("end").is_some() && catalogue.get("ended").is_some());
        assert!(column("tags").is_some() && catalogue.get("tags").is_none());
        assert!(catalogue.columns().count() > all.len());
    }

    #[test]
    fn columns_are_found_by_the_names_of_sacct() {
        for (name, expected) in
            [("JobID", "job_id"), ("elapsed", "elapsed_s"), ("NCPUS", "cores"), ("State", "state")]
        {
            assert_eq!(column(name).map(|column| &*column.name), Some(expected), "{name}");
        }
        for (theirs, ours) in sacct::NAMES {
            let of = column(theirs).map(|column| &*column.name);
            let Some(column) = FIXED.all.iter().find(|column| column.name == *ours) else { continue };
            assert!(of == Some(*ours), "{theirs}: {of:?}");
            assert!(FIXED.catalogue.get(theirs).is_some() || column.is_only_shown, "{theirs}");
        }
        for (name, nearest) in [
            ("elapsd", Some("elapsed")),
            ("jobidd", Some("JobID")),
            ("Elapsd_s", Some("elapsed_s")),
            ("zzzzzz", None),
        ] {
            assert_eq!(FIXED.nearest(name), nearest, "{name}");
        }
    }

    #[test]
    fn metrics_of_others_are_columns_if_their_names_can_be() {
        let own = |name: &str| (name.to_owned(), Some("GB/s".to_owned()));
        let columns =
            Columns::with(&[own("mem_bw"), own("collectd/cpu-0"), own("x'; DROP"), own("node_load")]);
        assert_eq!(columns.all.len(), FIXED.all.len() + 6);
        assert_eq!(columns.named("mem_bw_node_min").unwrap().sql, "m.own_mem_bw_node_min");
        let used = ["m.own_mem_bw_node_min", "100 * coalesce(j.node_load_avg, m.node_load_avg) / 100"];
        let sql = told_by_others(&used).unwrap();
        assert!(
            sql.contains("max(node_min) FILTER (metric = 'mem_bw' AND is_ours = false AND is_told = false)"),
            "{sql}"
        );
        assert!(
            sql.contains("max(avg) FILTER (metric = 'node_load' AND is_ours = true AND is_told = true)"),
            "{sql}"
        );
        assert!(sql.contains("AS own_mem_bw_node_min, ") || sql.contains("AS own_mem_bw_node_min "), "{sql}");
        assert_eq!(told_by_others(&["c.name", "j.cpu_avg"]), None);
    }
}
