//! `meta.json`: one job, without its series.
//!
//! All of it is kept as it is, besides what our record has a field for: the batch system may say something else, and zero is not
//! always the same as nothing.
//!
//! Versions differ in a few keys: the first two have `exclusive` (0, 1, 2) for what is `shared` since. Zero stands for
//! unknown in times, limits and numbers of processors, and for none in `arrayJobId`. A text that is empty is unknown.

use record::accounting::{Accounting, Other, Placed, State, TimeLimit, Tres};
use record::bytes::Bytes;
use record::entry::Nanos;
use record::measure::Measures;
use serde_json::{Map, Value, json};

use super::{Known, LAYOUT, PREFIX, bounded, reference, summary};
use crate::sink::{Reason, quoted};
use crate::time::{Moment, SECOND, nanos};
use crate::utf8::{Mended, escape};

/// A script is in it, but nothing that grows with the time a job takes.
pub const META_MAX: u64 = 64 << 20;

/// Their names of states; the last two are of older versions.
pub(super) const STATES: [(&str, State); 14] = [
    ("boot_fail", State::BootFail),
    ("cancelled", State::Cancelled),
    ("completed", State::Completed),
    ("deadline", State::Deadline),
    ("failed", State::Failed),
    ("node_fail", State::NodeFail),
    ("out-of-memory", State::OutOfMemory),
    ("pending", State::Pending),
    ("preempted", State::Preempted),
    ("running", State::Running),
    ("suspended", State::Suspended),
    ("timeout", State::Timeout),
    ("out_of_memory", State::OutOfMemory),
    ("stopped", State::Stopped),
];

/// What `exclusive` was, by its numbers.
const SHARED: [&str; 3] = ["multi_user", "none", "single_user"];

/// A job, and what was left out of it.
pub fn read(bytes: &[u8]) -> Result<(Known, Vec<Reason>), Reason> {
    let mut json = serde_json::Deserializer::from_reader(Mended::new(bytes, escape));
    let value: Result<Value, _> = serde::Deserialize::deserialize(&mut json);
    let value = value.and_then(|value| json.end().map(|()| value));
    match value.map_err(|error| bounded::reason("meta.json", &error, META_MAX))? {
        Value::Object(map) => job(map),
        _ => Err(Reason::NoJob),
    }
}

/// A job by the keys of `meta.json`.
pub(super) fn job(map: Map<String, Value>) -> Result<(Known, Vec<Reason>), Reason> {
    let mut whole = map.clone();
    let mut fields = Fields { map, doubts: Vec::new() };
    let mut job = Accounting { from_monitoring: true, ..Accounting::default() };
    name(&mut fields, &mut job)?;
    job.user = fields.text("user")?;
    job.account = fields.text("project")?;
    job.partition = fields.text("partition")?;
    job.state = Some(state(&mut fields)?);
    times(&mut fields, &mut job)?;
    given(&mut fields, &mut job)?;
    placed(&mut fields, &mut job)?;
    let told = summary::told(&reference(&job), &fields.map, &mut fields.doubts);
    share(&mut whole);
    job.is_shared = whole.get("shared").and_then(Value::as_str).map(|shared| shared != "none");
    job.others = others(whole);
    Ok((Known { job, measures: Measures { series: Vec::new(), told } }, fields.doubts))
}

/// What is not taken yet.
struct Fields {
    map: Map<String, Value>,
    doubts: Vec<Reason>,
}

impl Fields {
    fn take(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key).filter(|value| !value.is_null())
    }

    fn text(&mut self, key: &'static str) -> Result<Option<String>, Reason> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
            Some(odd) => Err(unreadable(key, &odd)),
        }
    }

    fn count(&mut self, key: &'static str) -> Result<Option<u64>, Reason> {
        let Some(value) = self.take(key) else { return Ok(None) };
        whole(&value).map(Some).ok_or_else(|| unreadable(key, &value))
    }

    fn seconds(&mut self, key: &'static str) -> Result<Option<Nanos>, Reason> {
        let Some(seconds) = self.count(key)? else { return Ok(None) };
        let span = seconds.checked_mul(SECOND);
        span.map(Some).ok_or_else(|| unreadable(key, &json!(seconds)))
    }

    fn moment(&mut self, key: &'static str) -> Result<Option<Nanos>, Reason> {
        let seconds = self.count(key)?.filter(|seconds| *seconds > 0);
        Ok(seconds.and_then(|seconds| self.possible(key, seconds)))
    }

    fn possible(&mut self, field: &'static str, seconds: u64) -> Option<Nanos> {
        let moment = Moment::possible(seconds).and_then(|moment| nanos(moment.first));
        if moment.is_none() {
            let text = quoted(seconds.to_string().as_bytes());
            self.doubts.push(Reason::ImpossibleTime { field, text });
        }
        moment
    }
}

fn name(fields: &mut Fields, job: &mut Accounting) -> Result<(), Reason> {
    let number = fields.count("jobId")?.filter(|number| *number > 0).ok_or(Reason::NoId)?;
    job.shown = number.to_string();
    job.job = Some(job.shown.clone());
    job.array_job = fields.count("arrayJobId")?.filter(|number| *number > 0);
    job.cluster = Some(fields.text("cluster")?.ok_or(Reason::Empty { field: "cluster" })?);
    let name = fields.map.get("metaData").and_then(|data| data.get("jobName")).and_then(Value::as_str);
    job.name = name.filter(|name| !name.is_empty()).map(|name| Bytes::from(name.as_bytes()));
    Ok(())
}

fn state(fields: &mut Fields) -> Result<State, Reason> {
    let word = fields.text("jobState")?.ok_or(Reason::Empty { field: "jobState" })?;
    let known = STATES.iter().find(|(name, _)| *name == word);
    known.map(|(_, state)| *state).ok_or_else(|| Reason::UnknownState(quoted(word.as_bytes())))
}

fn times(fields: &mut Fields, job: &mut Accounting) -> Result<(), Reason> {
    job.submit = fields.moment("submitTime")?;
    job.start = fields.moment("startTime")?;
    job.elapsed = fields.seconds("duration")?;
    job.time_limit = fields.seconds("walltime")?.filter(|limit| *limit > 0).map(TimeLimit::Nanos);
    let is_over = !matches!(job.state, Some(State::Running | State::Pending | State::Suspended));
    if let (true, Some(start), Some(elapsed)) = (is_over, job.start, job.elapsed) {
        job.end = fields.possible("duration", start.saturating_add(elapsed) / SECOND);
    }
    Ok(())
}

fn given(fields: &mut Fields, job: &mut Accounting) -> Result<(), Reason> {
    job.nodes = fields.count("numNodes")?.filter(|nodes| *nodes > 0);
    job.cpus = fields.count("numHwthreads")?.filter(|threads| *threads > 0);
    let gpus = fields.count("numAcc")?;
    let gpu = |count| Tres { kind: "gres".into(), name: Some("gpu".into()), count };
    job.allocated = gpus.map(gpu).into_iter().collect();
    Ok(())
}

/// Where it ran.
fn placed(fields: &mut Fields, job: &mut Accounting) -> Result<(), Reason> {
    let Some(list) = fields.take("resources") else { return Ok(()) };
    let odd = || unreadable("resources", &list);
    for resource in list.as_array().ok_or_else(odd)? {
        job.placed.push(one_placed(resource).ok_or_else(|| unreadable("resources", resource))?);
    }
    let folded = hostlist::fold(job.placed.iter().map(|placed| &*placed.host));
    job.node_list = Some(folded.map_err(|_| odd())?).filter(|list| !list.is_empty());
    Ok(())
}

fn one_placed(resource: &Value) -> Option<Placed> {
    let list = |key: &str| match resource.get(key) {
        None | Some(Value::Null) => Some([].as_slice()),
        Some(list) => list.as_array().map(Vec::as_slice),
    };
    let threads = list("hwthreads")?.iter().map(whole).collect::<Option<Vec<u64>>>()?;
    let gpus = list("accelerators")?.iter().map(|gpu| Some(gpu.as_str()?.to_owned()));
    Some(Placed {
        host: resource.get("hostname")?.as_str()?.to_owned(),
        cpus: Some(threads).filter(|threads| !threads.is_empty()).map(|threads| ranges(&threads)),
        gpus: gpus.collect::<Option<_>>()?,
        memory: None,
    })
}

/// `0-3,8`, in the order of the numbers.
fn ranges(numbers: &[u64]) -> String {
    let runs = numbers.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    let text = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(u64::to_string).collect(),
    });
    text.collect::<Vec<_>>().join(",")
}

/// Older versions say it with a number.
fn share(map: &mut Map<String, Value>) {
    let old = map.get("exclusive").and_then(Value::as_u64).and_then(|old| SHARED.get(old as usize));
    if let Some(shared) = old.filter(|_| !map.contains_key("shared")) {
        map.insert("shared".into(), json!(shared));
        map.remove("exclusive");
    }
}

fn others(map: Map<String, Value>) -> Vec<Other> {
    let says_something = |(key, value): &(String, Value)| key != "statistics" || *value != json!({});
    let other =
        |(key, value): (String, Value)| Other { name: PREFIX.to_owned() + &key, value: value.to_string() };
    let mut others: Vec<Other> = map.into_iter().filter(says_something).map(other).collect();
    // The name is for what the other file says.
    others.retain(|other| other.name != LAYOUT);
    others.sort();
    others
}

/// A number that counts something; some write it with a decimal point.
fn whole(value: &Value) -> Option<u64> {
    const EXACT_MAX: f64 = (1u64 << 53) as f64;
    let float = || value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..EXACT_MAX).contains(number));
    value.as_u64().or_else(|| float().map(|number| number as u64))
}

fn unreadable(field: &'static str, value: &Value) -> Reason {
    Reason::Unreadable { field, text: quoted(value.to_string().as_bytes()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_fold_in_their_order() {
        for (numbers, expected) in [
            (&[0, 1, 2, 8][..], "0-2,8"),
            (&[5], "5"),
            (&[3, 1, 2], "3,1-2"),
            (&[1, 1], "1,1"),
            (&[u64::MAX, 0], "18446744073709551615,0"),
        ] {
            assert_eq!(ranges(numbers), expected);
        }
    }

    #[test]
    fn whole_numbers() {
        for (value, expected) in [
            (json!(7), Some(7)),
            (json!(7.0), Some(7)),
            (json!(7.5), None),
            (json!(-1), None),
            (json!(1e300), None),
            (json!("7"), None),
            (json!(u64::MAX), Some(u64::MAX)),
        ] {
            assert_eq!(whole(&value), expected, "{value}");
        }
    }
}
