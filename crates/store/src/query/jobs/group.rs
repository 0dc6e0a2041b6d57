//! Jobs put together by who ran them, where, or when.

use serde_json::{Map, Value, json};

use super::columns::STARTED;
use super::{ACCOUNTED, COUNTED, Rows, Snapshot, Which};
use crate::StoreError;

/// What the jobs of a row have in common. Times are those of UTC, of the start, or of the submission where none began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobsBy {
    Cluster,
    User,
    Project,
    Partition,
    State,
    Day,
    /// Of the day.
    Hour,
    Weekday,
}

impl JobsBy {
    pub const ALL: [JobsBy; 8] = [
        JobsBy::Cluster,
        JobsBy::User,
        JobsBy::Project,
        JobsBy::Partition,
        JobsBy::State,
        JobsBy::Day,
        JobsBy::Hour,
        JobsBy::Weekday,
    ];

    pub fn name(self) -> &'static str {
        match self {
            JobsBy::Cluster => "cluster",
            JobsBy::User => "user",
            JobsBy::Project => "project",
            JobsBy::Partition => "partition",
            JobsBy::State => "state",
            JobsBy::Day => "day",
            JobsBy::Hour => "hour",
            JobsBy::Weekday => "weekday",
        }
    }

    pub(in crate::query) fn key(self) -> String {
        let at = "coalesce(c.start_ns, c.submit_ns)";
        match self {
            JobsBy::Day => format!("strftime(make_timestamp_ns({at}), '%Y-%m-%d')"),
            JobsBy::Hour => format!("lpad(CAST({at} // 3600000000000 % 24 AS VARCHAR), 2, '0')"),
            // 1970 began with a Thursday.
            JobsBy::Weekday => format!("CAST(({at} // 86400000000000 + 3) % 7 + 1 AS VARCHAR)"),
            _ => format!("c.\"{}\"", self.name()),
        }
    }

    fn is_time(self) -> bool {
        matches!(self, JobsBy::Day | JobsBy::Hour | JobsBy::Weekday)
    }

    pub(in crate::query) fn word(self, key: Option<String>) -> Value {
        const DAYS: [&str; 7] =
            ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
        match (self, key) {
            (JobsBy::Weekday, Some(key)) => {
                json!(key.parse::<usize>().ok().and_then(|day| DAYS.get(day.wrapping_sub(1))))
            }
            (_, key) => json!(key),
        }
    }
}

/// Sums are over those of which it is known.
const TOGETHER: [(&str, &str); 10] = [
    ("jobs", COUNTED),
    ("started", "count(*) FILTER (STARTED)"),
    ("core_hours", "sum(c.elapsed_ns::DOUBLE * c.cores) / 3.6e12"),
    ("node_hours", "sum(c.elapsed_ns::DOUBLE * c.nodes) / 3.6e12"),
    ("gpu_hours", "sum(c.elapsed_ns::DOUBLE * c.gpus) / 3.6e12"),
    ("elapsed_hours", "sum(c.elapsed_ns::DOUBLE) / 3.6e12"),
    ("wait_avg_s", "avg(c.start_ns - c.submit_ns) FILTER (STARTED) / 1e9"),
    ("wait_median_s", "median(c.start_ns - c.submit_ns) FILTER (STARTED) / 1e9"),
    ("wait_max_s", "max(c.start_ns - c.submit_ns) FILTER (STARTED) / 1e9"),
    ("cores_avg", "avg(c.cores) FILTER (STARTED)"),
];

impl Snapshot<'_> {
    pub(super) fn group_jobs(&self, which: &Which, by: JobsBy) -> Result<Rows, StoreError> {
        let conditions = which.conditions();
        let together = TOGETHER.map(|(_, sql)| sql.replace("STARTED", STARTED)).join(", ");
        let order = if by.is_time() {
            "key NULLS LAST"
        } else {
            "sum(c.elapsed_ns::DOUBLE * c.cores) DESC NULLS LAST, key"
        };
        let beside = which.beside(std::iter::empty());
        let sql = format!(
            "SELECT {} AS key, {together} FROM {ACCOUNTED} {beside} {} GROUP BY key ORDER BY {order}",
            by.key(),
            conditions.sql()
        );
        self.rows(&sql, &conditions.values, |row| {
            let mut made = Map::new();
            made.insert(by.name().to_owned(), by.word(row.get(0)?));
            for (at, (name, _)) in TOGETHER.iter().enumerate() {
                let value = match *name {
                    "jobs" | "started" => json!(row.get::<_, u64>(at + 1)?),
                    _ => json!(row.get::<_, Option<f64>>(at + 1)?),
                };
                made.insert((*name).to_owned(), value);
            }
            Ok(made)
        })
    }
}
