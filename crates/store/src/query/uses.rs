//! Who loaded a library.

use condition::like::Pattern;
use duckdb::types::Value as Sql;
use serde_json::{Map, Value, json};

use super::{Filter, Snapshot, object, time};
use crate::StoreError;

/// What the answer has one row for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupBy {
    /// Each program of each job.
    #[default]
    Job,
    User,
    Program,
    Library,
}

impl Snapshot<'_> {
    /// Programs that loaded an object that fits `pattern`: a pattern for the path (with a `/` in it) or for the
    /// name, a build-id or a content hash.
    pub(super) fn uses(
        &self,
        pattern: &str,
        group_by: GroupBy,
        filter: &Filter,
    ) -> Result<Vec<Map<String, Value>>, StoreError> {
        let which = self.which(filter)?;
        let (conditions, all) = (&which.conditions, which.all());
        let condition = conditions.sql();
        let limit = filter.limit_sql();
        let by = if pattern.contains('/') { "o.path" } else { "o.name" };
        let (fits, glob) = Pattern::of_glob(pattern).sql(by);
        let (columns, names): (&str, &[&str]) = match group_by {
            GroupBy::Job => {
                ("cluster, coalesce(job, session) AS job, \"user\", exe", &["cluster", "job", "user", "exe"])
            }
            GroupBy::User => ("\"user\"", &["user"]),
            GroupBy::Program => ("exe", &["exe"]),
            GroupBy::Library => ("path", &["library"]),
        };
        // Where rows are of one user and one job each, there is nothing to count.
        let counts = if group_by == GroupBy::Job {
            "(\"user\" IS NOT NULL)::UBIGINT, (coalesce(job, session) IS NOT NULL)::UBIGINT"
        } else {
            "count(DISTINCT \"user\"), count(DISTINCT coalesce(job, session))"
        };
        // The program itself is the first of the objects at the start. A process is looked for by its libraries at the start
        // and by those loaded later, one after the other: in one condition, each row would be looked at twice.
        let first = "(SELECT list FROM lists WHERE NOT is_program)";
        let source = if group_by == GroupBy::Library {
            format!(
                "SELECT p.*, path FROM {all} p JOIN lists ON objects = list AND NOT is_program {condition} \
                 UNION ALL SELECT p.*, path FROM {all} p JOIN lists ON late_objects = list {condition}"
            )
        } else {
            format!(
                "SELECT * FROM {all} {condition} AND objects IN {first} \
                 UNION ALL SELECT * FROM {all} {condition} AND late_objects IN (SELECT list FROM lists) \
                 AND coalesce(objects NOT IN {first}, true)"
            )
        };
        // Between equals the names decide, so that parts of the list fit together.
        let order = (1..=names.len()).map(|at| at.to_string()).collect::<Vec<_>>().join(", ");
        let sql = format!(
            "WITH found AS MATERIALIZED (SELECT o.id, o.path FROM object o LEFT JOIN file f ON f.id = o.file \
               WHERE {fits} OR o.build_id = ? OR f.build_id = ? OR f.hash = ?), \
             lists AS MATERIALIZED (SELECT DISTINCT list, position = 0 AS is_program{path} \
               FROM object_list JOIN found ON object = found.id) \
             SELECT {columns}, {counts}, sum(count)::UBIGINT AS runs, min(start_ns), \
             max(until_ns) AS last FROM ({source}) GROUP BY ALL ORDER BY last DESC, runs DESC, {order} {limit}",
            path = if group_by == GroupBy::Library { ", path" } else { "" },
        );
        let text = || Sql::Text(pattern.to_owned());
        let mut values = vec![Sql::Text(glob), text(), text(), text()];
        values.extend(conditions.values.clone());
        values.extend(conditions.values.clone());
        let width = names.len();
        self.rows(&sql, &values, |row| {
            let mut fields = Map::new();
            for (at, name) in names.iter().enumerate() {
                fields.insert((*name).to_owned(), json!(row.get::<_, Option<String>>(at)?));
            }
            fields.extend(object([
                ("users", json!(row.get::<_, u64>(width)?)),
                ("jobs", json!(row.get::<_, u64>(width + 1)?)),
                ("runs", json!(row.get::<_, u64>(width + 2)?)),
                ("first_seen", time(row.get(width + 3)?)),
                ("last_seen", time(row.get(width + 4)?)),
            ]));
            Ok(fields)
        })
    }
}
