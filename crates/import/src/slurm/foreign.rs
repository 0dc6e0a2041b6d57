//! JSON of Slurm that is not of its accounting: recognized, so that nothing of it passes for a job without user, state and times.

use serde_json::Value;

/// Lists that Slurm's other commands print.
const LISTS: [&str; 20] = [
    "accounts",
    "associations",
    "assoc_mgr",
    "clusters",
    "events",
    "instances",
    "licenses",
    "nodes",
    "partitions",
    "pings",
    "qos",
    "reservations",
    "shares",
    "sinfo",
    "statistics",
    "steps",
    "tres",
    "tres_list",
    "users",
    "wckeys",
];

/// What the controller says of its jobs beside their list, in versions since 23.02.
const UPDATES: [&str; 2] = ["last_backfill", "last_update"];
/// What each of its jobs has, in every version, and no job of the accounting.
const FIELDS: [&str; 3] = ["job_state", "user_name", "submit_time"];

/// Whether a job is as the controller has it.
pub fn is_controllers(job: &Value) -> bool {
    FIELDS.iter().any(|field| job.get(field).is_some()) && !job.get("time").is_some_and(Value::is_object)
}

/// Whether a key beside the list of jobs is the controller's.
pub fn is_update(key: &str) -> bool {
    UPDATES.contains(&key)
}

/// Which list of another command a key is.
pub fn list(key: &str) -> Option<&'static str> {
    LISTS.into_iter().find(|list| *list == key)
}

/// An error that Slurm met: text, or an object with a number, where it was met and what it means.
pub fn error(value: &Value) -> String {
    let text = |key: &str| value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let said: Vec<&str> = [text("description"), text("error")].into_iter().flatten().collect();
    if said.is_empty() {
        return value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    }
    let number = value.get("error_number").and_then(Value::as_i64).map(|number| number.to_string());
    let about: Vec<String> = number.into_iter().chain(text("source").map(str::to_owned)).collect();
    let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
    said.join(": ") + &about
}
