//! `meta.json` of a job: what was kept of theirs, and what our record says besides.
//!
//! Their schema wants more than every batch system tells. Where a job does not come from them, who and what is not known
//! is `unknown`, the project is `no project` as they call it themselves, and nodes count as shared with other users, since
//! otherwise all that was measured on a node would be believed to be the job's.

use record::accounting::{Accounting, Placed, State, TimeLimit, gpus};
use serde_json::{Map, Value, json};

use super::data::{Group, Sums};
use crate::clustercockpit::meta::STATES;
use crate::clustercockpit::scope::NODE;
use crate::clustercockpit::{Error, Known, LAYOUT, PREFIX, unit};
use crate::time::SECOND;

const UNKNOWN: &str = "unknown";
const NO_PROJECT: &str = "no project";
/// The only part of a cluster of which nothing is known.
const SUB_CLUSTER: &str = "main";
/// No node has more; a damaged range may say otherwise.
const THREADS_MAX: usize = 1 << 20;

/// All of the file.
pub fn render(known: &Known, groups: &[Group]) -> Result<Value, Error> {
    let job = &known.job;
    let mut map = kept(job);
    forget_course(job, &mut map);
    let is_theirs = !map.is_empty();
    names(job, &mut map)?;
    given(job, is_theirs, &mut map);
    times(job, is_theirs, &mut map)?;
    if map.get("resources").is_none_or(Value::is_null) {
        map.insert("resources".into(), resources(job));
    }
    describe(job, &mut map);
    map.entry("statistics").or_insert_with(|| statistics(known, groups));
    Ok(map.into())
}

fn kept(job: &Accounting) -> Map<String, Value> {
    let theirs = job.others.iter().filter(|other| other.name != LAYOUT);
    let pair = |name: &str, value: &str| {
        Some((name.strip_prefix(PREFIX)?.to_owned(), serde_json::from_str(value).ok()?))
    };
    theirs.filter_map(|other| pair(&other.name, &other.value)).collect()
}

/// What they said of a job while it ran is no longer so when it has ended.
fn forget_course(job: &Accounting, map: &mut Map<String, Value>) {
    let state = map.get("jobState").and_then(Value::as_str);
    let state = STATES.iter().find(|(name, _)| Some(*name) == state).map(|(_, state)| *state);
    let ran = matches!(state, Some(State::Running | State::Pending | State::Suspended));
    if ran && job.end.is_some() {
        map.remove("jobState");
        map.remove("duration");
    }
}

/// What they said themselves stays.
fn add(map: &mut Map<String, Value>, key: &str, value: Value) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), value);
    }
}

fn names(job: &Accounting, map: &mut Map<String, Value>) -> Result<(), Error> {
    let number = job.job.as_ref().unwrap_or(&job.shown).parse::<u64>().ok();
    let number = number.ok_or_else(|| Error::NoNumber { job: job.shown.clone() })?;
    map.insert("jobId".into(), json!(number));
    if let Some(array) = job.array_job {
        add(map, "arrayJobId", json!(array));
    }
    let text = |text: &Option<String>, default: &str| json!(text.as_deref().unwrap_or(default));
    add(map, "user", text(&job.user, UNKNOWN));
    add(map, "project", text(&job.account, NO_PROJECT));
    add(map, "cluster", text(&job.cluster, UNKNOWN));
    map.entry("subCluster").or_insert(json!(SUB_CLUSTER));
    map.entry("shared").or_insert(json!("multi_user"));
    if let Some(partition) = &job.partition {
        add(map, "partition", json!(partition));
    }
    add(map, "jobState", json!(state(job)));
    Ok(())
}

/// One of their twelve. Slurm's flags are none of them, and a job may have no state at all.
fn state(job: &Accounting) -> &'static str {
    let known = STATES.iter().find(|(name, state)| *name != "stopped" && Some(*state) == job.state);
    match (known, job.state) {
        (Some((name, _)), _) => name,
        (None, Some(State::Revoked | State::Stopped)) => "cancelled",
        (None, Some(State::LaunchFailed | State::SpecialExit | State::ReconfigFail)) => "failed",
        (None, _) if job.end.is_none() => "running",
        (None, _) if job.exit.is_some_and(|exit| exit.code.unwrap_or(0) != 0) => "failed",
        (None, _) => "completed",
    }
}

fn given(job: &Accounting, is_theirs: bool, map: &mut Map<String, Value>) {
    // What was not told is at least one.
    let hosts = || job.placed.len().max(hosts(job).len()).max(1) as u64;
    add(map, "numNodes", json!(job.nodes.unwrap_or_else(hosts)));
    if let Some(cpus) = job.cpus.filter(|cpus| *cpus > 0) {
        add(map, "numHwthreads", json!(cpus));
    }
    // Their schema has no zero here, and their database does.
    if let Some(gpus) = gpus(&job.allocated).filter(|gpus| *gpus > 0 || is_theirs) {
        add(map, "numAcc", json!(gpus));
    }
}

fn times(job: &Accounting, is_theirs: bool, map: &mut Map<String, Value>) -> Result<(), Error> {
    let start = job.start.ok_or_else(|| Error::NoStart { job: job.shown.clone() })?;
    // Directories are called by it.
    if map.get("startTime").is_none_or(|start| !start.is_u64()) {
        map.insert("startTime".into(), json!(start / SECOND));
    }
    if let Some(submit) = job.submit {
        add(map, "submitTime", json!(submit / SECOND));
    }
    let apart = || job.end.map(|end| end.saturating_sub(start));
    let took = job.elapsed.or_else(apart).unwrap_or(0).div_ceil(SECOND);
    // A job of less than a second is none in their schema.
    add(map, "duration", json!(if is_theirs { took } else { took.max(1) }));
    if let Some(TimeLimit::Nanos(limit)) = job.time_limit {
        add(map, "walltime", json!(limit.div_ceil(SECOND)));
    }
    Ok(())
}

fn resources(job: &Accounting) -> Value {
    if job.placed.is_empty() {
        return hosts(job).iter().map(|host| json!({"hostname": host})).collect();
    }
    job.placed.iter().map(resource).collect()
}

fn hosts(job: &Accounting) -> Vec<String> {
    job.node_list.as_deref().and_then(|list| hostlist::expand(list).ok()).unwrap_or_default()
}

fn resource(placed: &Placed) -> Value {
    let mut resource = json!({"hostname": placed.host});
    if let Some(threads) = placed.cpus.as_deref().and_then(threads) {
        resource["hwthreads"] = json!(threads);
    }
    if !placed.gpus.is_empty() {
        resource["accelerators"] = json!(placed.gpus);
    }
    resource
}

/// The numbers of `0-3,8`.
fn threads(text: &str) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
        numbers.extend((first..=last).take(THREADS_MAX + 1));
        if numbers.len() > THREADS_MAX {
            return None;
        }
    }
    Some(numbers)
}

/// The name of the job is in what they call its meta data.
fn describe(job: &Accounting, map: &mut Map<String, Value>) {
    let Some(name) = &job.name else { return };
    let data = map.entry("metaData").or_insert_with(|| json!({}));
    if !data.is_object() {
        *data = json!({});
    }
    if data["jobName"].is_null() {
        data["jobName"] = json!(name.to_string());
    }
}

/// Of all values of a metric together, of whole nodes where there are such. What others have computed is told where there are no series.
fn statistics(known: &Known, groups: &[Group]) -> Value {
    let mut all = Map::new();
    for group in groups {
        let is_best = group.scope == NODE || !all.contains_key(&group.metric);
        if let (true, Some(mut sums)) = (is_best, group.sums()) {
            sums["unit"] = group.known_unit();
            all.insert(group.metric.clone(), sums);
        }
    }
    for told in &known.measures.told {
        let (Some(avg), Some(min), Some(max)) = (told.avg, told.min, told.max) else { continue };
        let mut sums = Sums { avg, min, max }.json();
        sums["unit"] = unit::object(told.unit.as_deref());
        all.entry(told.metric.text()).or_insert(sums);
    }
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_threads() {
        for (text, expected) in [
            ("0-2,8", Some(vec![0, 1, 2, 8])),
            ("3,1-2", Some(vec![3, 1, 2])),
            ("5", Some(vec![5])),
            ("", None),
            ("a", None),
            ("1-", None),
            ("0-18446744073709551615", None),
        ] {
            assert_eq!(threads(text), expected, "{text}");
        }
    }

    #[test]
    fn every_job_has_one_of_their_states() {
        let job = |state, end, code| Accounting {
            state,
            end,
            exit: Some(record::accounting::Exit { code: Some(code), signal: None }),
            ..Accounting::default()
        };
        for (job, expected) in [
            (job(Some(State::Timeout), Some(1), 0), "timeout"),
            (job(Some(State::OutOfMemory), Some(1), 0), "out-of-memory"),
            (job(Some(State::Stopped), Some(1), 0), "cancelled"),
            (job(Some(State::LaunchFailed), Some(1), 0), "failed"),
            (job(Some(State::Completing), None, 0), "running"),
            (job(None, None, 0), "running"),
            (job(None, Some(1), 0), "completed"),
            (job(None, Some(1), 2), "failed"),
        ] {
            assert_eq!(state(&job), expected);
        }
    }
}
