//! What ran in one job.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{Filter, Reader};
use crate::StoreError;

/// A job with more rows than this shows only the first ones, and says so.
const ROWS_MAX: u64 = 100_000;

/// Names a process image within a job: host, pid, start of the process, number of the exec.
type Key = (String, i64, String, i64);

impl Reader {
    /// Everything that ran in a job, each process with the place of its parent in the list; `None` if there is no
    /// such job.
    pub fn job(&self, filter: &Filter) -> Result<Option<Value>, StoreError> {
        let limited = Filter { limit: Some(ROWS_MAX), ..filter.clone() };
        let mut processes = self.processes(&limited)?;
        if processes.is_empty() {
            return Ok(None);
        }
        let parents = parents(&processes);
        for (process, parent) in processes.iter_mut().zip(parents) {
            process.insert("parent".into(), json!(parent));
        }
        let total =
            if processes.len() as u64 == ROWS_MAX { self.count(filter)? } else { processes.len() as u64 };
        Ok(Some(json!({
            "job": filter.job,
            "clusters": distinct(&processes, "cluster"),
            "users": distinct(&processes, "user"),
            "hosts": distinct(&processes, "host"),
            "nodes": distinct(&processes, "node"),
            "first_seen": extreme(&processes, "start", |a, b| a < b),
            "last_seen": extreme(&processes, "end", |a, b| a > b),
            "rows": total,
            "libraries": self.libraries(filter)?,
            "modules": self.modules(filter)?,
            "containers": containers(&processes),
            "processes": processes,
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
