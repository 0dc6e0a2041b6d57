//! Processes with everything that is known of them.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};

use duckdb::Row;
use duckdb::types::Value as Sql;
use record::entry::source;
use serde_json::{Map, Value, json};

use super::running::Processes;
use super::{After, Conditions, Filter, Listed, Snapshot, in_list, object, page, parsed, seconds, time};
use crate::StoreError;

/// The columns that [`Draft::read`] reads, in its order.
const COLUMNS: &str = "cluster, job, step, rank, host, node, pid, ppid, start_ns, end_ns, ended_by, exit_code, \
     signal, uid, \"user\", exe, argv, cwd, modules, objects, environment, container, container_image, user_cpu_ns, \
     system_cpu_ns, max_rss_bytes, read_bytes, write_bytes, count, source, process_start_ns, exec, forked_from, \
     job_from, claimed_job, exe_file, exe_deleted, argv_cut, late_objects, objects_cut, without_guest, ranks, session, \
     stream, number, state";

/// Rows of one part of a list: each takes a multiple of its JSON in memory before it is written.
const ROWS: u64 = page::ROWS / 2;
/// Rows whose lists are looked up together: few, since each may have lists of its own.
const TOGETHER: usize = 200;
/// Bytes of texts in rows that are held at the same time, and of the lists to which these refer.
const TEXTS: usize = 4 * page::BYTES;
/// What an object takes beside its path.
const BYTES_OF_OBJECT: usize = 256;
/// What a text in a list takes beside its bytes.
const BYTES_OF_TEXT: usize = 32;

/// A row before its lists are known.
pub(super) struct Draft {
    pub fields: Map<String, Value>,
    /// Which names it among all, in the order of the list.
    place: After,
    /// Bytes of its texts.
    size: usize,
    pub objects: Option<u64>,
    pub late_objects: Option<u64>,
    modules: Option<u64>,
    environment: Option<u64>,
    exe_file: Option<u64>,
}

impl Draft {
    fn read(row: &Row) -> duckdb::Result<Draft> {
        let size = Cell::new(0);
        let text = |at: usize| -> duckdb::Result<Option<String>> {
            let text: Option<String> = row.get(at)?;
            size.set(size.get() + text.as_ref().map_or(0, String::len));
            Ok(text)
        };
        let number = |at: usize| row.get::<_, Option<i64>>(at);
        let state: String = row.get(45)?;
        let ended_by = text(10)?.filter(|_| state == "ended");
        let container = text(21)?.map(|kind| json!({"kind": kind, "image": text(22).ok().flatten()}));
        let session = text(42)?;
        let fields = object([
            ("cluster", json!(text(0)?)),
            ("job", json!(text(1)?.filter(|_| session.is_none()))),
            ("step", json!(text(2)?)),
            ("rank", json!(number(3)?)),
            ("host", json!(text(4)?)),
            ("node", json!(text(5)?)),
            ("session", json!(session)),
            ("pid", json!(number(6)?)),
            ("ppid", json!(number(7)?)),
            ("start", time(number(8)?)),
            ("end", time(number(9)?)),
            ("state", json!(state)),
            ("ended_by", json!(ended_by)),
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
            place: After(vec![
                row.get::<_, i64>(8)?.into(),
                row.get::<_, u32>(43)?.into(),
                row.get::<_, u64>(44)?.into(),
            ]),
            size: size.get(),
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
    pub(super) fn processes(&self, filter: &Filter) -> Result<Listed, StoreError> {
        let limit = filter.limit.unwrap_or(ROWS).min(ROWS);
        let (drafts, mut is_more) = self.drafts(filter, limit)?;
        let (mut listed, mut last) = (Listed::default(), None);
        let mut drafts = drafts.into_iter();
        while !listed.is_full()
            && let Some(together) = drafts.as_slice().chunks(TOGETHER).next()
        {
            let (count, lists) = self.lists(together)?;
            let list = |id: u64| lists.objects.get(&id).cloned();
            for draft in drafts.by_ref().take(count) {
                if listed.is_full() {
                    is_more = true;
                    break;
                }
                last = Some(draft.place.clone());
                listed.add(&lists.complete(draft, list));
            }
        }
        is_more |= drafts.next().is_some();
        if let Some(last) = last.filter(|_| is_more) {
            listed.goes_on_after(&last);
        }
        Ok(listed)
    }

    /// Processes in the order in which they began, still without the lists to which they refer; and whether there are more.
    pub(super) fn drafts(&self, filter: &Filter, limit: u64) -> Result<(Vec<Draft>, bool), StoreError> {
        let which = self.which(filter)?;
        let (mut drafts, mut is_more) = (Vec::new(), false);
        if !filter.is_running {
            (drafts, is_more) = self.drafts_from(&of_ended(&which), &which.conditions, filter, limit)?;
        }
        if filter.is_failed {
            return Ok((drafts, is_more));
        }
        let (running, is_more_running) =
            self.drafts_from(&of_running(&which), &which.conditions, filter, limit)?;
        if running.is_empty() {
            return Ok((drafts, is_more));
        }
        // Of one that goes on, nothing is known behind its last row: nothing of the other may be shown there.
        let bound =
            |drafts: &[Draft], is_more| drafts.last().filter(|_| is_more).map(|draft| draft.place.0.clone());
        let until = [bound(&drafts, is_more), bound(&running, is_more_running)].into_iter().flatten().min();
        drafts.extend(running);
        drafts.sort_by(|a, b| a.place.0.cmp(&b.place.0));
        let known =
            until.map_or(drafts.len(), |until| drafts.partition_point(|draft| draft.place.0 <= until));
        let count = known.min(limit as usize);
        let is_cut = count < drafts.len();
        drafts.truncate(count);
        Ok((drafts, is_more || is_more_running || is_cut))
    }

    fn drafts_from(
        &self,
        from: &str,
        conditions: &Conditions,
        filter: &Filter,
        limit: u64,
    ) -> Result<(Vec<Draft>, bool), StoreError> {
        let (mut after, mut values) = (String::new(), conditions.values.clone());
        if let Some([start, stream, number]) = filter.after.as_ref().map(|after| &after.0[..]) {
            // The first says less, but of one column only, so that old parts of the table are left out.
            after = "WHERE start_ns >= ? AND (start_ns > ? OR stream > CAST(? AS HUGEINT) OR stream = CAST(? AS HUGEINT) \
                     AND number > CAST(? AS HUGEINT))"
                .to_owned();
            let start = || Sql::BigInt((*start).clamp(i64::MIN.into(), i64::MAX.into()) as i64);
            let [stream, number] = [stream, number].map(|number| Sql::HugeInt(*number));
            values.extend([start(), start(), stream.clone(), stream, number]);
        }
        let sql = format!(
            "SELECT {COLUMNS} FROM {from} {after} ORDER BY start_ns, stream, number LIMIT {}",
            limit.saturating_add(1)
        );
        let (mut drafts, mut size, mut is_more) = (Vec::new(), 0, false);
        self.each_while(&sql, &values, |row| {
            is_more = drafts.len() as u64 == limit || size >= TEXTS;
            if !is_more {
                let draft = Draft::read(row)?;
                size += draft.size;
                drafts.push(draft);
            }
            Ok(!is_more)
        })?;
        Ok((drafts, is_more))
    }

    /// The lists to which the first of these rows refer, and how many rows these are: fewer than all, but at least one, where
    /// the lists take too much memory.
    pub(super) fn lists(&self, drafts: &[Draft]) -> Result<(usize, Lists), StoreError> {
        let mut count = drafts.len();
        loop {
            let first = drafts.get(..count).unwrap_or(drafts);
            let mut room = if count > 1 { TEXTS } else { usize::MAX };
            match self.lists_within(first, &mut room)? {
                Some(lists) => return Ok((count, lists)),
                None => count /= 2,
            }
        }
    }

    /// The lists to which rows refer, unless there is no room for them and for what each row has a copy of.
    fn lists_within(&self, drafts: &[Draft], room: &mut usize) -> Result<Option<Lists>, StoreError> {
        let ids = |id: fn(&Draft) -> Option<u64>| drafts.iter().filter_map(id).collect::<BTreeSet<u64>>();
        let mut lists = ids(|draft| draft.objects);
        lists.extend(ids(|draft| draft.late_objects));
        let found = Lists {
            objects: self.objects(&lists, room)?,
            modules: self.modules_of(&ids(|draft| draft.modules), room)?,
            environments: self.environments(&ids(|draft| draft.environment), room)?,
            hashes: self.hashes(&ids(|draft| draft.exe_file))?,
        };
        let environments = weights(&found.environments, weight);
        let modules = weights(&found.modules, |(names, files)| {
            let texts = names.iter().chain(files.iter().flatten());
            texts.map(|text| text.len() + BYTES_OF_TEXT).sum()
        });
        for draft in drafts {
            let of = |weights: &HashMap<u64, usize>, id: Option<u64>| {
                id.and_then(|id| weights.get(&id)).copied().unwrap_or(0)
            };
            take(room, of(&environments, draft.environment) + of(&modules, draft.modules));
        }
        Ok((*room > 0).then_some(found))
    }

    /// As far as there is room.
    fn objects(&self, lists: &BTreeSet<u64>, room: &mut usize) -> Result<HashMap<u64, Value>, StoreError> {
        let sql = format!(
            "SELECT list, o.path, coalesce(o.build_id, f.build_id), coalesce(o.signature, f.signature), f.hash, o.claimed \
             FROM object_list JOIN object o ON o.id = object LEFT JOIN file f ON f.id = o.file \
             WHERE list IN ({}) ORDER BY list, position",
            in_list(lists.iter().copied())
        );
        // A list without objects has no rows.
        let mut found: HashMap<u64, Vec<Value>> = lists.iter().map(|list| (*list, Vec::new())).collect();
        if lists.is_empty() {
            return Ok(HashMap::new());
        }
        self.each_while(&sql, &[], |row| {
            let text = |at: usize| row.get::<_, Option<String>>(at);
            let path = text(1)?;
            take(room, path.as_ref().map_or(0, String::len) + BYTES_OF_OBJECT);
            let mut value =
                json!({"path": path, "build_id": text(2)?, "signature": text(3)?, "hash": text(4)?});
            if let (true, Some(object)) = (row.get(5)?, value.as_object_mut()) {
                object.insert("claimed".into(), json!(true));
            }
            found.entry(row.get(0)?).or_default().push(value);
            Ok(*room > 0)
        })?;
        Ok(found.into_iter().map(|(list, objects)| (list, objects.into())).collect())
    }

    /// As far as there is room.
    fn modules_of(
        &self,
        lists: &BTreeSet<u64>,
        room: &mut usize,
    ) -> Result<HashMap<u64, Modules>, StoreError> {
        let ids = in_list(lists.iter().copied());
        let sql = format!(
            "SELECT list, module, file FROM module_list WHERE list IN ({ids}) ORDER BY list, position"
        );
        let mut found: HashMap<u64, Modules> = lists.iter().map(|list| (*list, Default::default())).collect();
        if lists.is_empty() {
            return Ok(found);
        }
        self.each_while(&sql, &[], |row| {
            let (names, files) = found.entry(row.get(0)?).or_default();
            let (name, file): (String, Option<String>) = (row.get(1)?, row.get(2)?);
            take(room, name.len() + file.as_ref().map_or(0, String::len) + 2 * BYTES_OF_TEXT);
            names.push(name);
            files.push(file);
            Ok(*room > 0)
        })?;
        Ok(found)
    }

    /// As far as there is room.
    fn environments(&self, ids: &BTreeSet<u64>, room: &mut usize) -> Result<HashMap<u64, Value>, StoreError> {
        let mut found = HashMap::new();
        if ids.is_empty() {
            return Ok(found);
        }
        let ids = in_list(ids.iter().copied());
        let sql = format!("SELECT id, any_value(variables) FROM environment WHERE id IN ({ids}) GROUP BY id");
        self.each_while(&sql, &[], |row| {
            let text: String = row.get(1)?;
            take(room, text.len());
            found.insert(row.get(0)?, environment(&text));
            Ok(*room > 0)
        })?;
        Ok(found)
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
        let which = self.which(filter)?;
        let mut count = 0;
        for from in [of_ended(&which), of_running(&which)] {
            let sql = format!("SELECT count(*) FROM {from}");
            let values: &[Sql] = &which.conditions.values;
            count += self.rows(&sql, values, |row| row.get::<_, u64>(0))?.pop().unwrap_or(0);
        }
        Ok(count)
    }
}

/// The rows of those that have ended.
fn of_ended(which: &Processes) -> String {
    format!("(SELECT * FROM {} {})", which.ended, which.conditions.sql())
}

/// The rows of those that run: ranks that were reported together are one, as they will be when they have ended.
fn of_running(which: &Processes) -> String {
    let columns = COLUMNS.split(',').map(str::trim).map(|column| match column {
        "stream" | "number" => column.to_owned(),
        "count" => "count(*)::UBIGINT AS count".to_owned(),
        "start_ns" | "pid" => format!("min({column}) AS {column}"),
        "rank" | "exec" | "process_start_ns" => format!("arg_min({column}, pid) AS {column}"),
        "ranks" => "CASE WHEN count(rank) > 0 THEN to_json(list({'rank': rank, 'pid': pid, 'start_ns': start_ns, 'count': 1} \
                    ORDER BY rank, pid))::VARCHAR END AS ranks"
            .to_owned(),
        _ => format!("any_value({column}) AS {column}"),
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    format!("(SELECT {columns} FROM {} {} GROUP BY stream, number)", which.running, which.conditions.sql())
}

/// Takes bytes of what is left.
fn take(room: &mut usize, bytes: usize) {
    *room = room.saturating_sub(bytes);
}

fn weights<T>(lists: &HashMap<u64, T>, weight: impl Fn(&T) -> usize) -> HashMap<u64, usize> {
    lists.iter().map(|(id, list)| (*id, weight(list))).collect()
}

/// What names with values take, about.
fn weight(environment: &Value) -> usize {
    let text = |value: &Value| value.as_str().map_or(0, str::len) + BYTES_OF_TEXT;
    let variables = environment.as_object().into_iter().flatten();
    variables.map(|(name, value)| name.len() + BYTES_OF_TEXT + text(value)).sum()
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
