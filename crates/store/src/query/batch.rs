//! Many jobs at once, as their rows are made. One pass over the time since the first of them began is cheaper than looking for
//! each: readings lie in the order of time.

use digest::OnNode;
use duckdb::types::Value as Sql;
use record::metric::Metric;

use super::on_node::{Sorted, TABLES, finished};
use super::{Conditions, Snapshot};
use crate::StoreError;
use crate::better::{Old, has_ended};
use crate::due::{Name, Seen};
use crate::kind::Kind;

/// Jobs with their readings, and with the rows they have.
pub(crate) struct Batch {
    /// Neither a reading nor a row of them is older.
    pub since_ns: i64,
    pub jobs: Vec<(Name, Vec<OnNode>)>,
    pub rows: Vec<(Name, Old)>,
}

/// The names of jobs or sessions, and the column of readings in which they are.
struct Names {
    kind: Kind,
    column: &'static str,
    names: Vec<Sql>,
    name: fn(String) -> Name,
}

impl Names {
    fn condition(&self) -> String {
        self.are_in(self.column)
    }

    fn are_in(&self, column: &str) -> String {
        format!("{column} IN ({})", vec!["?"; self.names.len()].join(", "))
    }
}

impl Snapshot<'_> {
    /// Jobs that were taken, on their nodes.
    pub(crate) fn batch(
        &self,
        taken: &[(Name, Seen)],
        metrics: &[&'static Metric],
    ) -> Result<Batch, StoreError> {
        let since_ns = taken.iter().map(|(_, seen)| seen.start_ns).min().unwrap_or(i64::MAX);
        let mut batch = Batch { since_ns, jobs: Vec::new(), rows: Vec::new() };
        let kinds = names(taken);
        for of in &kinds {
            batch.rows.extend(self.rows_there(of)?);
        }
        // What came before the server was started again is not in `taken`, but in the row.
        batch.since_ns = batch.rows.iter().map(|(_, old)| old.start_ns).fold(batch.since_ns, i64::min);
        for of in &kinds {
            let mut conditions = Conditions::default();
            conditions.add("time_ns >= ?", [Sql::BigInt(batch.since_ns)]);
            conditions.add(&of.condition(), of.names.clone());
            let mut sorted = Sorted::new();
            for table in &TABLES {
                self.take_in(table, &conditions, metrics, &mut sorted)?;
            }
            batch.jobs.extend(finished(sorted).map(|(own, nodes)| ((of.name)(own), nodes)));
        }
        Ok(batch)
    }

    /// The rows that are there.
    fn rows_there(&self, of: &Names) -> Result<Vec<(Name, Old)>, StoreError> {
        let Names { kind, names, name, .. } = of;
        let sql = format!(
            "SELECT job, cluster, state, start_ns, readings FROM job WHERE {} AND {}",
            kind.is_row(),
            of.are_in("job")
        );
        self.rows(&sql, names, |row| {
            let has_ended = has_ended(row.get::<_, Option<String>>(2)?.as_deref());
            let old = Old { cluster: row.get(1)?, has_ended, start_ns: row.get(3)?, readings: row.get(4)? };
            Ok((name(row.get(0)?), old))
        })
    }
}

/// Those that there are, jobs apart from sessions.
fn names(taken: &[(Name, Seen)]) -> Vec<Names> {
    let mut jobs = Names { kind: Kind::Job, column: "job", names: Vec::new(), name: Name::Job };
    let mut sessions =
        Names { kind: Kind::Session, column: "session", names: Vec::new(), name: Name::Session };
    for (name, _) in taken {
        match name {
            Name::Job(name) => jobs.names.push(Sql::Text(name.clone())),
            Name::Session(name) => sessions.names.push(Sql::Text(name.clone())),
        }
    }
    [jobs, sessions].into_iter().filter(|of| !of.names.is_empty()).collect()
}
