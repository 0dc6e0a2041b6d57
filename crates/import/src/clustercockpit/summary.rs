//! What they say of a whole job: `statistics` (`{"mem_bw": {"unit": …, "avg": 1, "min": 0, "max": 2}}`) and `footprint`
//! (`{"mem_bw_avg": 1}`), which is all that the database has.

use record::measure::{Job, Name, Told};
use serde_json::{Map, Value};

use super::unit;
use crate::sink::{Reason, quoted};

type Slot = fn(&mut Told) -> &mut Option<f64>;

/// What a metric is summed up by.
const KINDS: [(&str, &str, Slot); 3] = [
    ("avg", "_avg", |told| &mut told.avg),
    ("min", "_min", |told| &mut told.min),
    ("max", "_max", |told| &mut told.max),
];

/// One record for each metric. The statistics are believed where the footprint says something else.
pub fn told(job: &Job, map: &Map<String, Value>, doubts: &mut Vec<Reason>) -> Vec<Told> {
    let mut all = Vec::new();
    for (metric, value) in object(map, "statistics", doubts) {
        match statistics(job, metric, value) {
            Some(told) => all.push(told),
            None => doubts.push(unreadable("statistics", value)),
        }
    }
    for (name, value) in object(map, "footprint", doubts) {
        let Some((metric, slot)) = cut(name) else { continue };
        let Some(value) = value.as_f64() else {
            doubts.push(unreadable("footprint", value));
            continue;
        };
        slot(of(&mut all, job, metric)).get_or_insert(value);
    }
    all
}

fn object<'a>(
    map: &'a Map<String, Value>,
    key: &'static str,
    doubts: &mut Vec<Reason>,
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    let value = map.get(key).filter(|value| !value.is_null());
    if let Some(odd) = value.filter(|value| !value.is_object()) {
        doubts.push(unreadable(key, odd));
    }
    value.and_then(Value::as_object).into_iter().flatten()
}

fn statistics(job: &Job, metric: &str, value: &Value) -> Option<Told> {
    let fields = value.as_object()?;
    let mut told = new(job, metric);
    told.unit = fields.get("unit").and_then(unit::text);
    for (key, _, slot) in KINDS {
        if let Some(value) = fields.get(key).filter(|value| !value.is_null()) {
            *slot(&mut told) = Some(value.as_f64()?);
        }
    }
    Some(told)
}

/// `cpu_load_avg` is the metric `cpu_load`.
fn cut(name: &str) -> Option<(&str, Slot)> {
    KINDS.iter().find_map(|(_, suffix, slot)| Some((name.strip_suffix(suffix)?, *slot)))
}

fn of<'a>(all: &'a mut Vec<Told>, job: &Job, metric: &str) -> &'a mut Told {
    let at = all.iter().position(|told| told.metric.text() == metric).unwrap_or_else(|| {
        all.push(new(job, metric));
        all.len() - 1
    });
    &mut all[at]
}

fn new(job: &Job, metric: &str) -> Told {
    Told { job: job.clone(), metric: Name::Own(metric.to_owned()), ..Told::default() }
}

fn unreadable(field: &'static str, value: &Value) -> Reason {
    Reason::Unreadable { field, text: quoted(value.to_string().as_bytes()) }
}
