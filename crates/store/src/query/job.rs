//! What ran in one job.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use super::processes::{Draft, Lists};
use super::{Filter, Snapshot, object, page};
use crate::StoreError;

/// A job with more rows than this, or with more than there is room for, shows only the first ones, and says so: `processes` has
/// all of them, part by part.
const ROWS_MAX: u64 = 20_000;

/// Names a process image within a job: host, pid, start of the process, number of the exec.
type Key = (String, i64, String, i64);

impl Snapshot<'_> {
    /// Everything that ran in a job, each process with the place of its parent in the list; `None` if there is no
    /// such job.
    pub(super) fn job(&self, filter: &Filter) -> Result<Option<Value>, StoreError> {
        let (mut drafts, mut is_cut) = self.drafts(filter, ROWS_MAX)?;
        if drafts.is_empty() {
            return Ok(None);
        }
        let (count, lists) = self.lists(&drafts)?;
        is_cut |= count < drafts.len();
        drafts.truncate(count);
        let mut libraries = libraries(&drafts, &lists);
        // Many processes of a job load the same: each list stands once in the answer, and processes name it.
        let name = |id: u64| Some(json!(id.to_string()));
        let mut processes: Vec<_> = drafts.into_iter().map(|draft| lists.complete(draft, name)).collect();
        let parents = parents(&processes);
        for (process, parent) in processes.iter_mut().zip(parents) {
            process.insert("parent".into(), json!(parent));
        }
        // Of rows that are all here, everything else can be told without another question.
        let total = if is_cut { self.count(filter)? } else { processes.len() as u64 };
        let first = Filter { limit: Some(page::ROWS), ..filter.clone() };
        if is_cut {
            libraries = self.libraries(&first)?;
        }
        let modules = if is_cut { self.modules(&first)? } else { modules(&processes) };
        Ok(Some(json!({
            "job": filter.job,
            "clusters": distinct(&processes, "cluster"),
            "users": distinct(&processes, "user"),
            "hosts": distinct(&processes, "host"),
            "nodes": distinct(&processes, "node"),
            "first_seen": extreme(&processes, "start", |a, b| a < b),
            "last_seen": extreme(&processes, "end", |a, b| a > b),
            "rows": total,
            "libraries": libraries,
            "modules": modules,
            "containers": containers(&processes),
            "processes": processes,
            "object_lists": lists.objects.into_iter().map(|(id, list)| (id.to_string(), list)).collect::<Map<_, _>>(),
        })))
    }
}

fn text<'a>(process: &'a Map<String, Value>, name: &str) -> &'a str {
    process.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(process: &Map<String, Value>, name: &str) -> i64 {
    process.get(name).and_then(Value::as_i64).unwrap_or(-1)
}

/// The place of each process's parent in the list: the image it replaced, the image it is a copy of, or the image
/// that ran in its parent process when it began.
fn parents(processes: &[Map<String, Value>]) -> Vec<Option<usize>> {
    let key = |process: &Map<String, Value>| -> Key {
        let host = text(process, "host").to_owned();
        (host, number(process, "pid"), text(process, "process_start").to_owned(), number(process, "exec"))
    };
    let by_key: HashMap<Key, usize> =
        processes.iter().enumerate().map(|(at, process)| (key(process), at)).collect();
    let mut by_pid: HashMap<(&str, i64), Vec<usize>> = HashMap::new();
    for (at, process) in processes.iter().enumerate() {
        by_pid.entry((text(process, "host"), number(process, "pid"))).or_default().push(at);
    }
    let parent = |at: usize, process: &Map<String, Value>| {
        let (host, pid, start, exec) = key(process);
        let before = (exec > 0).then(|| by_key.get(&(host, pid, start, exec - 1)).copied()).flatten();
        let copied = process.get("forked_from").and_then(Value::as_object).and_then(|from| {
            let host = text(process, "host").to_owned();
            by_key
                .get(&(
                    host,
                    number(from, "pid"),
                    text(from, "process_start").to_owned(),
                    number(from, "exec"),
                ))
                .copied()
        });
        // Rows are in the order of their start: of several images in the parent, the last that had begun.
        let began = text(process, "process_start");
        let mother = || {
            let images = by_pid.get(&(text(process, "host"), number(process, "ppid")))?;
            images.iter().rev().copied().find(|at| text(&processes[*at], "start") <= began)
        };
        before.or(copied).or_else(mother).filter(|parent| *parent != at)
    };
    processes.iter().enumerate().map(|(at, process)| parent(at, process)).collect()
}

/// What [`super::programs`] asks for, of the rows of one job.
#[derive(Default)]
struct Use<'a> {
    users: BTreeSet<&'a str>,
    runs: u64,
    cpu_s: Option<f64>,
    without_cpu: u64,
    first_seen: Option<&'a str>,
    last_seen: Option<&'a str>,
}

impl<'a> Use<'a> {
    fn add(&mut self, process: &'a Map<String, Value>) {
        let seconds = |name: &str| process.get(name).and_then(Value::as_f64);
        let time = |name: &str| process.get(name).and_then(Value::as_str);
        let count = process.get("count").and_then(Value::as_u64).unwrap_or(0);
        self.users.extend(process.get("user").and_then(Value::as_str));
        // A forked copy of a program is not another run of it.
        self.runs += if number(process, "exec") > 0 { count } else { 0 };
        match seconds("user_cpu_s") {
            Some(user) => {
                let used = user + seconds("system_cpu_s").unwrap_or(0.0);
                self.cpu_s = Some(self.cpu_s.unwrap_or(0.0) + used);
            }
            None => self.without_cpu += count,
        }
        let (start, end) = (time("start"), time("end").or(time("start")));
        self.first_seen = [self.first_seen, start].into_iter().flatten().min();
        self.last_seen = [self.last_seen, end].into_iter().flatten().max();
    }

    /// Those that ran most first.
    fn rows(name: &str, uses: HashMap<&str, Use>) -> Vec<Map<String, Value>> {
        let mut uses: Vec<(&str, Use)> = uses.into_iter().collect();
        uses.sort_by(|(a, one), (b, other)| other.runs.cmp(&one.runs).then(a.cmp(b)));
        uses.into_iter()
            .map(|(what, used)| {
                object([
                    (name, json!(what)),
                    ("users", json!(used.users.len())),
                    ("jobs", json!(1)),
                    ("runs", json!(used.runs)),
                    ("cpu_hours", json!(used.cpu_s.map(|seconds| seconds / 3600.0))),
                    ("without_cpu", json!(used.without_cpu)),
                    ("first_seen", json!(used.first_seen)),
                    ("last_seen", json!(used.last_seen)),
                ])
            })
            .collect()
    }
}

fn list<'a>(process: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    process.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn libraries(drafts: &[Draft], lists: &Lists) -> Vec<Map<String, Value>> {
    let mut uses: HashMap<&str, Use> = HashMap::new();
    let objects = |id: Option<u64>| {
        let list = id.and_then(|id| lists.objects.get(&id)).and_then(Value::as_array);
        list.map_or(&[][..], Vec::as_slice)
    };
    for draft in drafts {
        // The first of the objects at the start is the program.
        for object in objects(draft.objects).iter().skip(1).chain(objects(draft.late_objects)) {
            uses.entry(object["path"].as_str().unwrap_or_default()).or_default().add(&draft.fields);
        }
    }
    Use::rows("library", uses)
}

fn modules(processes: &[Map<String, Value>]) -> Vec<Map<String, Value>> {
    let mut uses: HashMap<&str, Use> = HashMap::new();
    for process in processes {
        let modules: BTreeSet<&str> = list(process, "modules").iter().filter_map(Value::as_str).collect();
        for module in modules {
            uses.entry(module).or_default().add(process);
        }
    }
    Use::rows("module", uses)
}

fn distinct(processes: &[Map<String, Value>], name: &str) -> Vec<String> {
    let mut values: Vec<String> = processes
        .iter()
        .map(|process| text(process, name))
        .filter(|value| !value.is_empty())
        .map(str::to_owned)
        .collect();
    values.sort();
    values.dedup();
    values
}

fn extreme(processes: &[Map<String, Value>], name: &str, is_better: fn(&str, &str) -> bool) -> Value {
    let times = processes.iter().map(|process| text(process, name)).filter(|time| !time.is_empty());
    json!(times.reduce(|best, time| if is_better(time, best) { time } else { best }))
}

fn containers(processes: &[Map<String, Value>]) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    for container in
        processes.iter().filter_map(|process| process.get("container")).filter(|value| !value.is_null())
    {
        if !found.contains(container) {
            found.push(container.clone());
        }
    }
    found
}
