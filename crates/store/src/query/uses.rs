//! Who loaded a library.

use duckdb::types::Value as Sql;
use serde_json::{Map, Value, json};

use super::{Conditions, Filter, Reader, object, time};
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

impl Reader {
    /// Programs that loaded an object that fits `pattern`: a pattern for the path (with a `/` in it) or for the
    /// name, a build-id or a content hash.
    pub fn uses(
        &self,
        pattern: &str,
        group_by: GroupBy,
        filter: &Filter,
    ) -> Result<Vec<Map<String, Value>>, StoreError> {
        let conditions = Conditions::from(filter);
        let condition = conditions.sql();
        let limit = filter.limit.map_or(String::new(), |limit| format!("LIMIT {limit}"));
        let fits = if pattern.contains('/') { "o.path GLOB ?" } else { "o.name GLOB ?" };
        let (columns, names): (&str, &[&str]) = match group_by {
            GroupBy::Job => {
                ("cluster, coalesce(job, session), \"user\", exe", &["cluster", "job", "user", "exe"])
            }
            GroupBy::User => ("\"user\"", &["user"]),
            GroupBy::Program => ("exe", &["exe"]),
            GroupBy::Library => ("path", &["library"]),
        };
        // The program itself is the first of the objects at the start.
        let found = format!(
            "WITH found AS MATERIALIZED (SELECT o.id, o.path FROM object o LEFT JOIN file f ON f.id = o.file \
               WHERE {fits} OR o.build_id = ? OR f.build_id = ? OR f.hash = ?), \
             lists AS MATERIALIZED (SELECT DISTINCT list, position = 0 AS is_program, path \
               FROM object_list JOIN found ON object = found.id)"
        );
        let source = if group_by == GroupBy::Library {
            "(SELECT process.*, path FROM process JOIN lists ON objects = list AND NOT is_program \
              UNION ALL SELECT process.*, path FROM process JOIN lists ON late_objects = list)"
        } else {
            "process"
        };
        let loaded = if group_by == GroupBy::Library {
            "true"
        } else {
            "(objects IN (SELECT list FROM lists WHERE NOT is_program) OR late_objects IN (SELECT list FROM lists))"
        };
        let sql = format!(
            "{found} SELECT {columns}, count(DISTINCT \"user\"), count(DISTINCT coalesce(job, session)) AS jobs, \
             sum(count)::UBIGINT AS runs, min(start_ns), max(coalesce(end_ns, start_ns)) AS last \
             FROM {source} {condition} AND {loaded} GROUP BY ALL ORDER BY last DESC, runs DESC {limit}"
        );
        let text = || Sql::Text(pattern.to_owned());
        let mut values = vec![text(), text(), text(), text()];
        values.extend(conditions.values);
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
