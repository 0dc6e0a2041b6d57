//! A job on each of its nodes: the readings, and what is left of those that were made coarse.

use std::cmp::Ordering;

use digest::series::{At, Part, Span, Steady, Told};
use duckdb::Row;
use duckdb::types::Value as Sql;
use record::metric::{Kind, Metric};

use super::{Conditions, Filter, Snapshot};
use crate::StoreError;

/// The columns before those of the metrics: of a reading, and of a row that is made of several.
const LEAD: &str = "host, node, time_ns, start_ns, end_ns, every_ns, reserved_cpus, reserved_memory, reserved_gpus, \
                    is_shared, \"user\", cluster";
const OF_ONE: &str = "time_ns, CAST(0 AS BIGINT), CAST(1 AS UINTEGER), boot, since_boot_ns, stream, number";
const OF_SEVERAL: &str = "from_ns, held_ns, readings, CAST(NULL AS UBIGINT), CAST(NULL AS BIGINT), \
                          CAST(0 AS UINTEGER), CAST(0 AS UBIGINT)";
const LEAD_COLUMNS: usize = 19;

/// A job on one node.
pub(super) struct OnNode {
    pub host: String,
    pub node: Option<String>,
    pub cluster: Option<String>,
    pub user: Option<String>,
    pub part: Part,
    pub cpus: Option<u32>,
    pub memory: Option<i64>,
    pub gpus: Option<u32>,
    pub is_shared: bool,
    /// How many readings there were.
    pub readings: u64,
    pub is_coarse: bool,
    /// As the node's clock told them.
    told: Vec<Told>,
    /// When they were made; those that were put together, evenly.
    seen: Vec<At>,
    /// In the order in which the metrics were asked for.
    measured: Vec<Measured>,
}

/// A metric of a job on a node.
#[derive(Default)]
struct Measured {
    /// The value at each reading; of those that were put together, the counter's last.
    values: Vec<Option<i64>>,
    /// What a gauge was over several readings, on average.
    over: Vec<Over>,
}

/// A gauge over several readings.
#[derive(Clone, Copy)]
struct Over {
    span: Span,
    least: f64,
    most: f64,
}

/// A span with the least and the greatest reading in it, where they are known: a rate's are not.
pub(super) struct Stretch {
    pub span: Span,
    pub least: Option<f64>,
    pub most: Option<f64>,
}

/// A row of either table.
struct Taken {
    host: String,
    node: Option<String>,
    at: At,
    start: i64,
    end: Option<i64>,
    cpus: Option<u32>,
    memory: Option<i64>,
    gpus: Option<u32>,
    is_shared: bool,
    user: Option<String>,
    cluster: Option<String>,
    from: i64,
    held: i64,
    readings: u32,
    steady: Option<Steady>,
    /// In which order it was told.
    place: (u32, u64),
    is_coarse: bool,
    values: Vec<Value>,
}

/// What a row says of a metric.
#[derive(Clone, Copy)]
enum Value {
    Read(Option<i64>),
    /// Average, least and greatest of a gauge.
    Over(Option<f64>, Option<f64>, Option<f64>),
}

impl Snapshot<'_> {
    /// The nodes of a job, by name.
    pub(super) fn on_nodes(
        &self,
        filter: &Filter,
        metrics: &[&'static Metric],
    ) -> Result<Vec<OnNode>, StoreError> {
        let Some(job) = &filter.job else { return Ok(Vec::new()) };
        let mut taken = self.taken("job_sample", job, filter, metrics)?;
        taken.extend(self.taken("job_coarse", job, filter, metrics)?);
        taken.sort_by(|a, b| {
            let place = |row: &Taken| (!row.is_coarse, row.place, row.at.time);
            order(&a.node, &b.node).then(a.host.cmp(&b.host)).then(place(a).cmp(&place(b)))
        });
        let mut nodes: Vec<OnNode> = Vec::new();
        for row in taken {
            if !nodes.last().is_some_and(|on| on.host == row.host && on.node == row.node) {
                nodes.push(OnNode::new(&row, metrics.len()));
            }
            if let Some(on) = nodes.last_mut() {
                on.take(row);
            }
        }
        nodes.iter_mut().for_each(OnNode::set_the_clock);
        Ok(nodes)
    }

    fn taken(
        &self,
        table: &str,
        job: &str,
        filter: &Filter,
        metrics: &[&'static Metric],
    ) -> Result<Vec<Taken>, StoreError> {
        let is_coarse = table == "job_coarse";
        let (column, first, last) = self.find_job(table, job)?;
        let mut conditions = Conditions::default();
        let values = [Sql::BigInt(first), Sql::BigInt(last), Sql::Text(job.to_owned())];
        conditions.add(&format!("rowid BETWEEN ? AND ? AND {column} = ?"), values);
        if let Some(cluster) = &filter.cluster {
            conditions.add("cluster = ?", [Sql::Text(cluster.clone())]);
        }
        if let Some(host) = &filter.host {
            conditions.add("(host = ? OR node = ?)", [Sql::Text(host.clone()), Sql::Text(host.clone())]);
        }
        let names: String =
            metrics.iter().map(|metric| format!(", {}", columns(metric, is_coarse))).collect();
        let lead = if is_coarse { OF_SEVERAL } else { OF_ONE };
        let sql = format!("SELECT {LEAD}, {lead}{names} FROM {table} {}", conditions.sql());
        self.rows(&sql, &conditions.values, |row| taken(row, metrics, is_coarse))
    }
}

/// Nodes without a name come last.
fn order(a: &Option<String>, b: &Option<String>) -> Ordering {
    a.is_none().cmp(&b.is_none()).then(a.cmp(b))
}

/// A metric's columns of a table.
fn columns(metric: &Metric, is_coarse: bool) -> String {
    match (metric.kind, is_coarse) {
        (Kind::Gauge, true) => {
            ["", "_min", "_max"].map(|end| format!("CAST({}{end} AS DOUBLE)", metric.name)).join(", ")
        }
        _ => metric.name.to_owned(),
    }
}

fn taken(row: &Row, metrics: &[&'static Metric], is_coarse: bool) -> duckdb::Result<Taken> {
    let mut values = Vec::with_capacity(metrics.len());
    let mut at = LEAD_COLUMNS;
    for metric in metrics {
        if is_coarse && metric.kind == Kind::Gauge {
            values.push(Value::Over(row.get(at)?, row.get(at + 1)?, row.get(at + 2)?));
            at += 3;
        } else {
            values.push(Value::Read(row.get(at)?));
            at += 1;
        }
    }
    let boot: Option<u64> = row.get(15)?;
    Ok(Taken {
        steady: boot.zip(row.get(16)?).map(|(boot, since)| Steady { boot, since }),
        place: (row.get(17)?, row.get(18)?),
        host: row.get(0)?,
        node: row.get(1)?,
        at: At { time: row.get(2)?, every: row.get(5)? },
        start: row.get(3)?,
        end: row.get(4)?,
        cpus: row.get(6)?,
        memory: row.get(7)?,
        gpus: row.get(8)?,
        is_shared: row.get(9)?,
        user: row.get(10)?,
        cluster: row.get(11)?,
        from: row.get(12)?,
        held: row.get(13)?,
        readings: row.get(14)?,
        is_coarse,
        values,
    })
}

impl OnNode {
    fn new(row: &Taken, metrics: usize) -> OnNode {
        OnNode {
            host: row.host.clone(),
            node: row.node.clone(),
            cluster: None,
            user: None,
            part: Part::default(),
            cpus: None,
            memory: None,
            gpus: None,
            is_shared: false,
            readings: 0,
            is_coarse: false,
            told: Vec::new(),
            seen: Vec::new(),
            measured: (0..metrics).map(|_| Measured::default()).collect(),
        }
    }

    /// Takes in the next row, in the order of time.
    fn take(&mut self, row: Taken) {
        let (At { time, every }, Taken { start, end, steady, .. }) = (row.at, &row);
        self.told.push(Told { time, start: *start, end: *end, every, steady: *steady });
        self.seen.extend(spread(&row));
        self.readings += u64::from(row.readings);
        self.cpus = row.cpus.or(self.cpus);
        self.memory = row.memory.or(self.memory);
        self.gpus = row.gpus.or(self.gpus);
        self.is_shared |= row.is_shared;
        // Its first reading may be made before anyone has said which cluster it is.
        self.cluster = row.cluster.or(self.cluster.take());
        self.user = row.user.or(self.user.take());
        for (measured, value) in self.measured.iter_mut().zip(&row.values) {
            match *value {
                Value::Read(value) => measured.values.push(value),
                Value::Over(average, least, most) => {
                    // The last reading was left alone, and is what it was.
                    let last = average.filter(|_| row.end.is_some()).map(|value| value.round() as i64);
                    measured.values.push(last);
                    measured.over.extend(over(row.from, row.held, average, least, most));
                }
            }
        }
        self.is_coarse |= row.is_coarse;
    }

    /// From the first to the last time that the node's clock told, however it was set.
    pub fn told(&self) -> impl Iterator<Item = i64> {
        self.told.iter().map(|told| told.time)
    }

    /// The clock may have been set between two readings. Of those that were put together that is no longer known.
    fn set_the_clock(&mut self) {
        self.part = Part::of(&self.told);
        if !self.is_coarse {
            self.seen.clone_from(&self.part.readings);
        }
    }

    /// The spans of a metric, in the order of time.
    pub fn stretches(&self, metric: &Metric, at: usize) -> Vec<Stretch> {
        let Some(measured) = self.measured.get(at) else { return Vec::new() };
        let is_gauge = metric.kind == Kind::Gauge;
        let of_one = self.part.spans(metric, &measured.values).into_iter().map(|span| Stretch {
            span,
            least: is_gauge.then_some(span.value),
            most: is_gauge.then_some(span.value),
        });
        let of_several = measured.over.iter().map(|over| Stretch {
            span: over.span,
            least: Some(over.least),
            most: Some(over.most),
        });
        let mut all: Vec<Stretch> = of_several.chain(of_one).collect();
        all.sort_by_key(|stretch| stretch.span.from);
        all
    }

    /// The last known value of a metric.
    pub fn last(&self, at: usize) -> Option<i64> {
        self.measured.get(at)?.values.iter().rev().find_map(|value| *value)
    }

    /// The times of the readings, for how many of them are missing.
    pub fn seen(&self) -> Part {
        Part { readings: self.seen.clone(), ..self.part.clone() }
    }
}

/// A gauge that stood for some time.
fn over(from: i64, held: i64, average: Option<f64>, least: Option<f64>, most: Option<f64>) -> Option<Over> {
    let value = average?;
    let span = Span { from, length: held, value };
    (held > 0).then(|| Over { span, least: least.unwrap_or(value), most: most.unwrap_or(value) })
}

/// When the readings of a row were made, if they were made evenly.
fn spread(row: &Taken) -> impl Iterator<Item = At> {
    let (count, from, every) = (i64::from(row.readings).max(1), row.from, row.at.every);
    let length = row.at.time.saturating_sub(from);
    let time = row.at.time;
    (1..=count).map(move |n| {
        let time = if n == count { time } else { from + length / (count - 1).max(1) * (n - 1) };
        At { time, every }
    })
}
