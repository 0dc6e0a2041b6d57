//! What other systems measured of a job, and what its batch system says of it.

use duckdb::types::Value as Sql;
use record::metric;
use serde_json::{Map, Value, json};

use super::jobs::{self, USUAL};
use super::resources::shown;
use super::{Conditions, Filter, Rows, Snapshot, object, time};
use crate::StoreError;
use crate::job_rows::CHARACTERISTICS;
use crate::kind::Kind;

/// A job as its batch system accounts for it, or as it was measured where none does.
pub(super) struct Account {
    pub id: u64,
    pub is_only_measured: bool,
    pub kind: Kind,
    pub row: Map<String, Value>,
}

impl Account {
    /// Whether it says what a job has: a batch system does, and what a session has follows from its node. What was only measured is said of
    /// its resources.
    pub fn says_what_it_has(&self) -> bool {
        !self.is_only_measured || self.kind == Kind::Session
    }

    /// What was reserved is the batch system's to say; agents see only what control groups let them. A session has the whole machine.
    pub fn overrule(&self, resources: &mut Value) {
        let from = if self.kind == Kind::Session { "machine" } else { "accounting" };
        for (name, own) in [("cpus", "cores"), ("memory", "memory"), ("gpus", "gpus")] {
            let told = self.row.get(own).filter(|told| !told.is_null());
            if let (Some(told), false) = (told, resources.is_null()) {
                resources["reserved"][name] = told.clone();
                resources["reserved"]["from"] = json!(from);
            }
        }
    }
}

impl Snapshot<'_> {
    /// The last job with a number, as the batch system has it, else as people are shown it. A session comes before a job that somebody calls
    /// as it is called.
    pub(super) fn account(&self, filter: &Filter) -> Result<Option<Account>, StoreError> {
        let Some(job) = &filter.job else { return Ok(None) };
        for column in ["job", "shown"] {
            let mut conditions = Conditions::default();
            conditions.add(&format!("c.{column} = ?"), [Sql::Text(job.clone())]);
            if let Some(cluster) = &filter.cluster {
                conditions.add("c.cluster = ?", [Sql::Text(cluster.clone())]);
            }
            let found = self.accounts(
                &conditions,
                "ORDER BY c.kind DESC, c.submit_ns DESC NULLS LAST, c.start_ns DESC LIMIT 1",
            )?;
            if let Some(found) = found.into_iter().next() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn accounts(&self, conditions: &Conditions, order: &str) -> Result<Vec<Account>, StoreError> {
        let columns: Vec<_> = USUAL.iter().filter_map(|name| jobs::column(name)).collect();
        let select: Vec<&str> = columns.iter().map(|column| column.sql.as_str()).collect();
        let sql = format!(
            "SELECT c.id, coalesce(c.is_only_measured, false), c.kind, {} FROM {} {} {order}",
            select.join(", "),
            jobs::ACCOUNTED,
            conditions.sql()
        );
        self.rows(&sql, &conditions.values, |row| {
            let mut made = Map::new();
            for (at, column) in columns.iter().enumerate() {
                made.insert(column.name.clone(), jobs::value(column, row.get(at + 3)?));
            }
            Ok(Account {
                id: row.get(0)?,
                is_only_measured: row.get(1)?,
                kind: Kind::of(row.get(2)?),
                row: made,
            })
        })
    }

    /// Each metric that others measured of a job: from their values, else as they told it. Ours are in the units of people.
    pub(super) fn measures(&self, id: u64) -> Result<Vec<Value>, StoreError> {
        let bound = self.bind(&[id], None)?.pop();
        let mut all: Vec<(bool, Value)> =
            bound.iter().flat_map(|of| &of.metrics).flat_map(|(metric, of)| of.json(metric)).collect();
        for told in self.told(id)? {
            let is_same =
                |known: &Value| known["metric"] == told["metric"] && known["is_ours"] == told["is_ours"];
            match all.iter_mut().find(|(counts, known)| *counts && is_same(known)) {
                Some((_, known)) => known["told"] = told,
                None => all.push((true, told)),
            }
        }
        let mut all: Vec<Value> = all.into_iter().map(|(_, known)| known).collect();
        all.iter_mut().for_each(for_people);
        Ok(all)
    }

    fn told(&self, id: u64) -> Result<Vec<Value>, StoreError> {
        let sql = format!(
            "SELECT metric, is_ours, unit, min, max, avg, median FROM job_measure WHERE is_told AND id = {id} ORDER BY metric"
        );
        self.rows(&sql, &[], |row| {
            let number = |at: usize| row.get::<_, Option<f64>>(at);
            Ok(json!({
                "metric": row.get::<_, String>(0)?, "is_ours": row.get::<_, bool>(1)?,
                "unit": row.get::<_, Option<String>>(2)?, "min": number(3)?, "max": number(4)?, "avg": number(5)?,
                "median": number(6)?, "from": "told",
            }))
        })
    }

    /// The values of one metric of a job, node by node.
    pub(super) fn measure_series(&self, filter: &Filter, metric: &str) -> Result<Rows, StoreError> {
        let Some(account) = self.account(filter)? else { return Ok(Rows::new()) };
        let bound = self.bind(&[account.id], Some(metric))?;
        let mut rows = Rows::new();
        for ((name, is_ours), of) in bound.iter().flat_map(|job| &job.metrics) {
            let (unit, over) = if *is_ours { in_unit(name) } else { (of.unit.as_deref(), 1.0) };
            for ((host, part), spans) in &of.values {
                if filter.host.as_ref().is_some_and(|asked| asked != host) {
                    continue;
                }
                rows.extend(spans.iter().map(|span| {
                    object([
                        ("host", json!(host)),
                        ("node", json!(host)),
                        ("card", json!(part)),
                        ("from", time(Some(span.from))),
                        ("to", time(Some(span.from + span.length))),
                        ("value", json!(span.value / over)),
                        ("unit", json!(unit)),
                    ])
                }));
            }
        }
        Ok(rows)
    }
}

/// The unit of one of our metrics, and how many of ours make one.
fn in_unit(name: &str) -> (Option<&'static str>, f64) {
    metric::by_name(name).map_or((None, 1.0), |metric| {
        let (unit, over) = shown(metric);
        (Some(unit), over)
    })
}

/// What is said of one of our metrics, also what was told beside the values.
fn for_people(said: &mut Value) {
    if said["is_ours"] == true {
        let (unit, over) = in_unit(said["metric"].as_str().unwrap_or_default());
        for name in CHARACTERISTICS {
            if let Some(number) = said[name].as_f64() {
                said[name] = json!(number / over);
            }
        }
        said["unit"] = json!(unit);
    }
    if let Some(told) = said.get_mut("told") {
        for_people(told);
    }
}
