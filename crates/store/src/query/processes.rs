//! Processes with everything that is known of them.

use std::collections::{BTreeSet, HashMap};

use duckdb::Row;
use duckdb::types::Value as Sql;
use record::entry::source;
use serde_json::{Map, Value, json};

use super::{Filter, Snapshot, in_list, object, parsed, seconds, time};
use crate::StoreError;

/// The columns that [`Draft::read`] reads, in its order.
const COLUMNS: &str = "cluster, job, step, rank, host, node, pid, ppid, start_ns, end_ns, ended_by, exit_code, \
     signal, uid, \"user\", exe, argv, cwd, modules, objects, environment, container, container_image, user_cpu_ns, \
     system_cpu_ns, max_rss_bytes, read_bytes, write_bytes, count, source, process_start_ns, exec, forked_from, \
     job_from, claimed_job, exe_file, exe_deleted, argv_cut, late_objects, objects_cut, without_guest, ranks, session";

/// A row before its lists are known.
pub(super) struct Draft {
    pub fields: Map<String, Value>,
    pub objects: Option<u64>,
    pub late_objects: Option<u64>,
    modules: Option<u64>,
    environment: Option<u64>,
    exe_file: Option<u64>,
}

impl Draft {
    fn read(row: &Row) -> duckdb::Result<Draft> {
        let text = |at: usize| row.get::<_, Option<String>>(at);
        let number = |at: usize| row.get::<_, Option<i64>>(at);
        let container = text(21)?.map(|kind| json!({"kind": kind, "image": text(22).ok().flatten()}));
        let fields = object([
            ("cluster", json!(text(0)?)),
            ("job", json!(text(1)?)),
            ("step", json!(text(2)?)),
            ("rank", json!(number(3)?)),
            ("host", json!(text(4)?)),
            ("node", json!(text(5)?)),
            ("session", json!(text(42)?)),
            ("pid", json!(number(6)?)),
            ("ppid", json!(number(7)?)),
            ("start", time(number(8)?)),
            ("end", time(number(9)?)),
            ("ended_by", json!(text(10)?)),
            ("exit_code", json!(number(11)?)),
            ("signal", json!(number(12)?)),
            ("uid", json!(number(13)?)),
            ("user", json!(text(14)?)),
            ("exe", json!(text(15)?)),
            ("argv", parsed(text(16)?)),
            ("cwd", json!(text(17)?)),
            ("modules", Value::Null),
            ("objects", Value::Null),
            ("env", Value::Null),
            ("container", json!(container)),
            ("user_cpu_s", seconds(number(23)?)),
            ("system_cpu_s", seconds(number(24)?)),
            ("max_rss_bytes", json!(number(25)?)),
            ("read_bytes", json!(number(26)?)),
            ("write_bytes", json!(number(27)?)),
            ("count", json!(number(28)?)),
            ("source", json!(source::names(row.get(29)?))),
            ("process_start", time(number(30)?)),
            ("exec", json!(number(31)?)),
            ("forked_from", forked_from(text(32)?)),
            ("job_from", json!(text(33)?)),
            ("claimed_job", json!(text(34)?)),
            ("exe_hash", Value::Null),
            ("exe_deleted", json!(row.get::<_, bool>(36)?)),
            ("argv_cut", json!(row.get::<_, bool>(37)?)),
            ("module_files", Value::Null),
            ("late_objects", Value::Null),
            ("objects_cut", json!(number(39)?)),
            ("without_guest", json!(text(40)?)),
            ("ranks", ranks(text(41)?)),
        ]);
        Ok(Draft {
            fields,
            modules: row.get(18)?,
            objects: row.get(19)?,
            environment: row.get(20)?,
            exe_file: row.get(35)?,
            late_objects: row.get(38)?,
        })
    }
}

/// Names of modules, and the files they came from.
type Modules = (Vec<String>, Vec<Option<String>>);

/// What rows refer to, by the store's ids.
pub(super) struct Lists {
    pub objects: HashMap<u64, Value>,
    modules: HashMap<u64, Modules>,
    environments: HashMap<u64, Value>,
    hashes: HashMap<u64, Value>,
}

impl Lists {
    /// Puts into a row what it refers to; `list` says how a list of objects is shown.
    pub fn complete(&self, draft: Draft, list: impl Fn(u64) -> Option<Value>) -> Map<String, Value> {
        let mut fields = draft.fields;
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                fields.insert(name.to_owned(), value);
            }
        };
        let found = |map: &HashMap<u64, Value>, id: Option<u64>| id.and_then(|id| map.get(&id)).cloned();
        set("objects", draft.objects.and_then(&list));
        set("late_objects", draft.late_objects.and_then(&list));
        set("env", found(&self.environments, draft.environment));
        set("exe_hash", found(&self.hashes, draft.exe_file));
        if let Some((names, files)) = draft.modules.and_then(|id| self.modules.get(&id)) {
            set("modules", Some(json!(names)));
            set("module_files", files.iter().any(Option::is_some).then(|| json!(files)));
        }
        fields
    }
}

fn forked_from(text: Option<String>) -> Value {
    let key = text.as_deref().and_then(|text| {
        let mut parts = text.split('.');
        let (pid, start, exec) = (parts.next()?, parts.next()?, parts.next()?);
        let (pid, exec): (u32, u32) = (pid.parse().ok()?, exec.parse().ok()?);
        Some(json!({"pid": pid, "process_start": time(start.parse().ok()), "exec": exec}))
    });
    json!(key)
}

/// Times and seconds as everywhere else.
fn ranks(text: Option<String>) -> Value {
    let Value::Array(ranks) = parsed(text) else { return json!([]) };
    let number = |rank: &Value, name: &str| rank[name].as_i64();
    let rank = |rank: &Value| {
        json!({
            "rank": rank["rank"], "pid": rank["pid"], "count": rank["count"],
            "start": time(number(rank, "start_ns")), "end": time(number(rank, "end_ns")),
            "user_cpu_s": seconds(number(rank, "user_cpu_ns")),
            "system_cpu_s": seconds(number(rank, "system_cpu_ns")),
            "max_rss_bytes": rank["max_rss_bytes"],
            "read_bytes": rank["read_bytes"], "write_bytes": rank["write_bytes"],
        })
    };
    ranks.iter().map(rank).collect()
}

impl Snapshot<'_> {
    /// Processes in the order in which they began.
    pub(super) fn processes(&self, filter: &Filter) -> Result<Vec<Map<String, Value>>, StoreError> {
        let drafts = self.drafts(filter)?;
        let lists = self.lists(&drafts)?;
        let list = |id: u64| lists.objects.get(&id).cloned();
        Ok(drafts.into_iter().map(|draft| lists.complete(draft, list)).collect())
    }

    /// Processes in the order in which they began, still without the lists to which they refer.
    pub(super) fn drafts(&self, filter: &Filter) -> Result<Vec<Draft>, StoreError> {
        let conditions = self.conditions(filter)?;
        let condition = conditions.sql();
        let limit = filter.limit.map_or(String::new(), |limit| format!("LIMIT {limit}"));
        let order = "ORDER BY start_ns, stream, number";
        let sql = format!("SELECT {COLUMNS} FROM process {condition} {order} {limit}");
        self.rows(&sql, &conditions.values, Draft::read)
    }

    /// The lists to which rows refer.
    pub(super) fn lists(&self, drafts: &[Draft]) -> Result<Lists, StoreError> {
        let ids = |id: fn(&Draft) -> Option<u64>| drafts.iter().filter_map(id).collect::<BTreeSet<u64>>();
        let mut lists = ids(|draft| draft.objects);
        lists.extend(ids(|draft| draft.late_objects));
        Ok(Lists {
            objects: self.objects(&lists)?,
            modules: self.modules_of(&ids(|draft| draft.modules))?,
            environments: self.environments(&ids(|draft| draft.environment))?,
            hashes: self.hashes(&ids(|draft| draft.exe_file))?,
        })
    }

    fn objects(&self, lists: &BTreeSet<u64>) -> Result<HashMap<u64, Value>, StoreError> {
        let sql = format!(
            "SELECT list, o.path, coalesce(o.build_id, f.build_id), coalesce(o.signature, f.signature), f.hash \
             FROM object_list JOIN object o ON o.id = object LEFT JOIN file f ON f.id = o.file \
             WHERE list IN ({}) ORDER BY list, position",
            in_list(lists.iter().copied())
        );
        let mut found: HashMap<u64, Value> = HashMap::new();
        if lists.is_empty() {
            return Ok(found);
        }
        let rows = self.rows(&sql, &[], |row| {
            let text = |at: usize| row.get::<_, Option<String>>(at);
            let value =
                json!({"path": text(1)?, "build_id": text(2)?, "signature": text(3)?, "hash": text(4)?});
            Ok((row.get::<_, u64>(0)?, value))
        })?;
        for (list, value) in rows {
            if let Value::Array(list) = found.entry(list).or_insert_with(|| json!([])) {
                list.push(value);
            }
        }
        // A list without objects has no rows.
        for list in lists {
            found.entry(*list).or_insert_with(|| json!([]));
        }
        Ok(found)
    }

    fn modules_of(&self, lists: &BTreeSet<u64>) -> Result<HashMap<u64, Modules>, StoreError> {
        let ids = in_list(lists.iter().copied());
        let sql = format!(
            "SELECT list, module, file FROM module_list WHERE list IN ({ids}) ORDER BY list, position"
        );
        let mut found: HashMap<u64, Modules> = lists.iter().map(|list| (*list, Default::default())).collect();
        if lists.is_empty() {
            return Ok(found);
        }
        for (list, module, file) in self.rows(&sql, &[], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))? {
            let (names, files) = found.entry(list).or_default();
            names.push(module);
            files.push(file);
        }
        Ok(found)
    }

    fn environments(&self, ids: &BTreeSet<u64>) -> Result<HashMap<u64, Value>, StoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let ids = in_list(ids.iter().copied());
        let sql = format!("SELECT id, any_value(variables) FROM environment WHERE id IN ({ids}) GROUP BY id");
        let rows = self.rows(&sql, &[], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
        Ok(rows.into_iter().map(|(id, text)| (id, environment(&text))).collect())
    }

    fn hashes(&self, ids: &BTreeSet<u64>) -> Result<HashMap<u64, Value>, StoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let sql = format!("SELECT id, hash FROM file WHERE id IN ({})", in_list(ids.iter().copied()));
        let rows = self.rows(&sql, &[], |row| Ok((row.get(0)?, row.get::<_, Option<String>>(1)?)))?;
        Ok(rows.into_iter().map(|(id, hash)| (id, json!(hash))).collect())
    }

    /// How many rows a filter finds.
    pub(super) fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let conditions = self.conditions(filter)?;
        let sql = format!("SELECT count(*) FROM process {}", conditions.sql());
        let values: &[Sql] = &conditions.values;
        Ok(self.rows(&sql, values, |row| row.get(0))?.pop().unwrap_or(0))
    }
}

/// `NAME=value` texts as names with values.
fn environment(text: &str) -> Value {
    let variables: Vec<String> = serde_json::from_str(text).unwrap_or_default();
    let pair = |variable: &String| match variable.split_once('=') {
        Some((name, value)) => (name.to_owned(), json!(value)),
        None => (variable.clone(), json!("")),
    };
    Value::Object(variables.iter().map(pair).collect())
}
