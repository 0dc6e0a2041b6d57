//! `jobglass job`: what a job was allocated, ran and used.

use std::fmt::Write;

use anyhow::{Result, bail};
use serde_json::{Map, Value};

use super::show::{self, Shape, text, time};
use super::{account, pager, resources, tree};

/// Libraries shown without `--all`.
const LIBRARIES: usize = 20;

/// Prints a job.
pub fn show(job: &Value, shape: &Shape, all: bool) -> Result<()> {
    let none = Vec::new();
    let processes = job["processes"].as_array().unwrap_or(&none);
    match shape {
        Shape::Json => return Ok(pager::json(&whole(job))?),
        Shape::Csv => return show::rows(&[in_one_row(job).into()], &[], shape),
        Shape::Table => {}
    }
    let mut out = String::new();
    head(job, &mut out);
    if !processes.is_empty() {
        out.push_str(&tree::tree(processes, all));
    }
    out.push_str(&account::steps(&job["steps"]));
    out.push_str(&resources::section(&job["resources"]));
    out.push_str(&account::measures(&job["measures"]));
    let libraries = job["libraries"].as_array().unwrap_or(&none);
    let shown = if all { libraries.len() } else { libraries.len().min(LIBRARIES) };
    section(&mut out, "Libraries", &libraries[..shown], show::OWN_LIBRARY);
    if shown < libraries.len() {
        let _ = writeln!(out, "… and {} more (--all)", libraries.len() - shown);
    }
    section(&mut out, "Modules", job["modules"].as_array().unwrap_or(&none), show::OWN_MODULE);
    Ok(pager::print(&out)?)
}

/// Prints what a job reserved and used; says whether anything was measured.
pub fn show_resources(job: &Value, shape: &Shape) -> Result<bool> {
    let mut measured = job["resources"].clone();
    let others = job["measures"].as_array().is_some_and(|measures| !measures.is_empty());
    if measured.is_null() && !others {
        say!("jobglass: nothing was measured of job {}", text(&job["job"]));
        return Ok(false);
    }
    match shape {
        Shape::Table => {
            let sections = resources::section(&measured) + &account::measures(&job["measures"]);
            pager::print(sections.trim_start())?;
        }
        Shape::Json => {
            measured["account"] = job["account"].clone();
            measured["steps"] = job["steps"].clone();
            measured["measures"] = job["measures"].clone();
            pager::json(&measured)?;
        }
        Shape::Csv => bail!("resources are not rows: use --json, or jobglass series for one metric"),
    }
    Ok(true)
}

/// All that is known, in one object.
fn whole(job: &Value) -> Value {
    let mut whole = job.clone();
    if let Some(fields) = whole.as_object_mut() {
        fields.remove("object_lists");
        let processes = job["processes"].as_array().map_or(&[][..], Vec::as_slice);
        fields.insert("processes".into(), with_lists(processes, &job["object_lists"]).into());
    }
    whole
}

/// What a job has one of: what the batch system says of it, then where and when it was seen, then what it used. What it has many of
/// (steps, processes, libraries) is in JSON, and has commands of its own.
fn in_one_row(job: &Value) -> Map<String, Value> {
    let mut row = Map::new();
    let fields = |of: &Value| of.as_object().cloned().unwrap_or_default();
    for (name, value) in fields(&job["account"]).into_iter().chain(fields(job)) {
        let is_list_of_objects = value.as_array().is_some_and(|list| list.iter().any(Value::is_object));
        if !is_list_of_objects && !value.is_object() && name != "account" && name != "processes" {
            row.entry(name).or_insert(joined(value));
        }
    }
    for (name, value) in fields(&job["resources"]["reserved"]) {
        row.insert(format!("reserved_{name}"), value);
    }
    for (metric, of) in fields(&job["resources"]["metrics"]) {
        let numbers = fields(&of).into_iter().filter(|(_, value)| value.is_number());
        row.extend(numbers.map(|(name, value)| (format!("{metric}_{name}"), value)));
    }
    row
}

/// A list of names is a text.
fn joined(value: Value) -> Value {
    match value.as_array() {
        Some(names) => names.iter().map(text).collect::<Vec<_>>().join(" ").into(),
        None => value,
    }
}

/// Rows as `jobglass processes` shows them: each with its libraries instead of the name of their list.
fn with_lists(processes: &[Value], lists: &Value) -> Vec<Value> {
    let mut rows = processes.to_vec();
    for row in &mut rows {
        for name in ["objects", "late_objects"] {
            if let Some(list) = row[name].as_str().and_then(|id| lists.get(id)) {
                row[name] = list.clone();
            }
        }
    }
    rows
}

fn head(job: &Value, out: &mut String) {
    let list = |name: &str| {
        let values: Vec<String> = job[name].as_array().into_iter().flatten().map(text).collect();
        if values.is_empty() { show::unknown() } else { values.join(", ") }
    };
    let _ = writeln!(out, "Job       {}", text(&job["job"]));
    if !job["account"].is_null() {
        out.push_str(&account::section(&job["account"]));
    }
    if job["processes"].as_array().is_none_or(Vec::is_empty) {
        return;
    }
    let _ = writeln!(out, "User      {}", user(job));
    for (title, name) in [("Cluster ", "clusters"), ("Nodes   ", "nodes"), ("Hosts   ", "hosts")] {
        if job[name].as_array().is_some_and(|values| !values.is_empty()) {
            let _ = writeln!(out, "{title}  {}", list(name));
        }
    }
    let _ = writeln!(out, "Seen      {} to {}", time(&job["first_seen"]), time(&job["last_seen"]));
    for container in job["containers"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "Container {} {}", text(&container["kind"]), text(&container["image"]));
    }
    out.push('\n');
}

/// Whose job it is, by the batch system, else by what was measured. Prologs and helpers of the batch system run as other users, so
/// of those that are seen only who is not root counts, where there is one.
fn user(job: &Value) -> String {
    let measured = job["resources"]["nodes"].as_array().into_iter().flatten().map(|node| &node["user"]);
    let told = [&job["account"]["user"]].into_iter().chain(measured).find_map(Value::as_str);
    if let Some(user) = told {
        return text(&user.into());
    }
    let processes = job["processes"].as_array().into_iter().flatten();
    let of_root = processes.filter(|process| process["uid"] == 0).map(|process| &process["user"]);
    let root: Vec<&Value> = of_root.collect();
    let all: Vec<&Value> = job["users"].as_array().into_iter().flatten().collect();
    let others: Vec<String> = all.iter().filter(|user| !root.contains(user)).map(|user| text(user)).collect();
    match (others.is_empty(), all.is_empty()) {
        (_, true) => show::unknown(),
        (true, _) => all.into_iter().map(text).collect::<Vec<_>>().join(", "),
        (false, _) => others.join(", "),
    }
}

fn section(out: &mut String, title: &str, rows: &[Value], columns: &[show::Column]) {
    if !rows.is_empty() {
        let _ = write!(out, "\n{title}\n{}", show::table(rows, columns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_user_of_the_job_is_named() {
        let processes = json!([{"uid": 0, "user": "root"}, {"uid": 1000, "user": "alice"}]);
        let measured = json!({"nodes": [{"user": null}, {"user": "alice"}]});
        for (job, expected) in [
            (
                json!({"account": {"user": "alice"}, "users": ["alice", "root"], "processes": processes}),
                "alice",
            ),
            (json!({"account": null, "resources": measured, "users": ["root"], "processes": []}), "alice"),
            (json!({"users": ["alice", "root"], "processes": processes}), "alice"),
            (json!({"users": ["root"], "processes": [{"uid": 0, "user": "root"}]}), "root"),
            (json!({"users": [], "processes": []}), "-"),
        ] {
            assert_eq!(user(&job), expected, "{job}");
        }
    }
}
