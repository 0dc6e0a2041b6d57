//! What is used: programs, libraries, modules, each with its users, jobs, runs and CPU time.

use duckdb::Row;
use serde_json::{Map, Value, json};

use super::{Filter, Snapshot, object, time};
use crate::StoreError;

/// What all three have; a forked copy of a program is not another run of it.
const USE: &str = "count(DISTINCT \"user\") AS users, count(DISTINCT coalesce(job, session)) AS jobs, \
     coalesce(sum(count) FILTER (exec > 0), 0)::UBIGINT AS runs, \
     (sum(user_cpu_ns) + sum(coalesce(system_cpu_ns, 0))) / 3.6e12 AS cpu_hours, \
     coalesce(sum(count) FILTER (user_cpu_ns IS NULL), 0)::UBIGINT AS without_cpu, \
     min(start_ns) AS first_seen, max(until_ns) AS last_seen";

/// The columns of [`USE`] behind `name`.
fn used(name: &'static str) -> impl Fn(&Row) -> duckdb::Result<Map<String, Value>> {
    move |row| {
        Ok(object([
            (name, json!(row.get::<_, Option<String>>(0)?)),
            ("users", json!(row.get::<_, u64>(1)?)),
            ("jobs", json!(row.get::<_, u64>(2)?)),
            ("runs", json!(row.get::<_, u64>(3)?)),
            ("cpu_hours", json!(row.get::<_, Option<f64>>(4)?)),
            ("without_cpu", json!(row.get::<_, u64>(5)?)),
            ("first_seen", time(row.get(6)?)),
            ("last_seen", time(row.get(7)?)),
        ]))
    }
}

impl Snapshot<'_> {
    /// Programs, those that ran most first.
    pub(super) fn programs(&self, filter: &Filter) -> Result<Vec<Map<String, Value>>, StoreError> {
        let which = self.which(filter)?;
        let (conditions, all) = (&which.conditions, which.all());
        let (condition, limit) = (conditions.sql(), filter.limit_sql());
        let sql = format!(
            "SELECT exe, {USE} FROM {all} {condition} AND exe IS NOT NULL GROUP BY exe \
             ORDER BY runs DESC, exe {limit}"
        );
        self.rows(&sql, &conditions.values, used("exe"))
    }

    /// Libraries, by path, those of most jobs first.
    pub(super) fn libraries(&self, filter: &Filter) -> Result<Vec<Map<String, Value>>, StoreError> {
        let which = self.which(filter)?;
        let (conditions, all) = (&which.conditions, which.all());
        let (condition, limit) = (conditions.sql(), filter.limit_sql());
        // Processes that are alike are put together before each is multiplied by its libraries. The first of the
        // objects at the start is the program.
        let alike = "\"user\", job, session, exec > 0 AS exec, sum(count) AS count, sum(user_cpu_ns) AS user_cpu_ns, \
             sum(system_cpu_ns) AS system_cpu_ns, min(start_ns) AS start_ns, max(until_ns) AS until_ns";
        let sql = format!(
            "WITH alike AS ( \
               SELECT objects AS list, 1 AS first, {alike} FROM {all} {condition} AND objects IS NOT NULL GROUP BY ALL \
               UNION ALL \
               SELECT late_objects, 0, {alike} FROM {all} {condition} AND late_objects IS NOT NULL GROUP BY ALL) \
             SELECT path, {} FROM alike JOIN object_list ol ON ol.list = alike.list AND ol.position >= alike.first \
             JOIN object o ON o.id = ol.object GROUP BY path ORDER BY jobs DESC, runs DESC, path {limit}",
            USE.replace("exec > 0", "exec")
        );
        let twice = [&conditions.values[..], &conditions.values].concat();
        self.rows(&sql, &twice, used("library"))
    }

    /// Modules, those of most jobs first.
    pub(super) fn modules(&self, filter: &Filter) -> Result<Vec<Map<String, Value>>, StoreError> {
        let which = self.which(filter)?;
        let (conditions, all) = (&which.conditions, which.all());
        let (condition, limit) = (conditions.sql(), filter.limit_sql());
        let sql = format!(
            "SELECT module, {USE} FROM {all} p JOIN (SELECT DISTINCT list, module FROM module_list) m \
             ON m.list = p.modules {condition} GROUP BY module ORDER BY jobs DESC, runs DESC, module {limit}"
        );
        self.rows(&sql, &conditions.values, used("module"))
    }
}
