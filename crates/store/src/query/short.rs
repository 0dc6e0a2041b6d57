//! Short jobs of one user rolled up: a thousand of ten seconds each show as what they are together.

use duckdb::types::Value as Sql;
use serde_json::json;

use super::{Conditions, Filter, Rows, Snapshot, object, time};
use crate::StoreError;

/// The time whose jobs are put together, by when they began (UTC).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Per {
    Hour,
    #[default]
    Day,
}

impl Per {
    fn ns(self) -> i64 {
        match self {
            Per::Hour => 3_600_000_000_000,
            Per::Day => 86_400_000_000_000,
        }
    }
}

/// What is known of the jobs of a group. Sums are over those of which it is known, and the others are counted; a share is of
/// those of which both of its sides are known.
const TOGETHER: &str = "count(*) AS jobs, sum(lasted) / 1e9, median(lasted) / 1e9, \
     sum(reserved) / 1e9, count(*) FILTER (reserved IS NULL), sum(cpu) / 1e9, count(*) FILTER (cpu IS NULL), \
     sum(cpu) FILTER (reserved > 0) / sum(reserved) FILTER (reserved > 0 AND cpu IS NOT NULL), \
     max(memory_peak_last)";

impl Snapshot<'_> {
    /// Batch jobs that have ended and were short, one row for each user and hour or day; those with most jobs first.
    pub(super) fn short_jobs(&self, filter: &Filter, per: Per) -> Result<Rows, StoreError> {
        let mut conditions = Conditions::from(filter);
        conditions.add("session IS NULL", []);
        // One that has not ended has no end.
        conditions.add("end_ns - start_ns < ?", [Sql::BigInt(self.site.short_job_ns)]);
        let limit = filter.limit_sql();
        let sql = format!(
            "SELECT start_ns - start_ns % {} AS from_ns, cluster, \"user\", {TOGETHER} FROM ( \
               SELECT start_ns, cluster, \"user\", (end_ns - start_ns)::DOUBLE AS lasted, cpu_total::DOUBLE AS cpu, \
               reserved_cpus::DOUBLE * lasted AS reserved, memory_peak_last FROM job {}) \
             GROUP BY from_ns, cluster, \"user\" ORDER BY jobs DESC, from_ns DESC, cluster, \"user\" {limit}",
            per.ns(),
            conditions.sql()
        );
        let shorter = self.site.short_job_ns as f64 / 1e9;
        self.rows(&sql, &conditions.values, |row| {
            let from: i64 = row.get(0)?;
            Ok(object([
                ("from", time(Some(from))),
                ("to", time(Some(from.saturating_add(per.ns())))),
                ("cluster", json!(row.get::<_, Option<String>>(1)?)),
                ("user", json!(row.get::<_, Option<String>>(2)?)),
                ("jobs", json!(row.get::<_, u64>(3)?)),
                ("shorter_than_s", json!(shorter)),
                ("elapsed_s", json!(row.get::<_, Option<f64>>(4)?)),
                ("median_s", json!(row.get::<_, Option<f64>>(5)?)),
                ("reserved_core_s", json!(row.get::<_, Option<f64>>(6)?)),
                ("without_reserved", json!(row.get::<_, u64>(7)?)),
                ("cpu_s", json!(row.get::<_, Option<f64>>(8)?)),
                ("without_cpu", json!(row.get::<_, u64>(9)?)),
                ("cpu_share", json!(row.get::<_, Option<f64>>(10)?)),
                ("memory_peak", json!(row.get::<_, Option<i64>>(11)?)),
            ]))
        })
    }
}
