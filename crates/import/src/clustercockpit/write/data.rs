//! `data.json` of a job; its form is in [`crate::clustercockpit::data`].
//!
//! A point goes to the step in which its time is, counted from the start of the job; of two in one step the later stays,
//! and what is before the start or, in a job that is not theirs, after the end is not of the job.

use std::io::Write;

use record::entry::Nanos;
use record::measure::{SCOPES, Series};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use crate::clustercockpit::data::REPEATED;
use crate::clustercockpit::scope::NODE;
use crate::clustercockpit::{Known, LAYOUT, kept, unit};
use crate::time::SECOND;

/// No job has more steps: a year, by the second.
const STEPS_MAX: u64 = 366 * 86_400;

/// The series of a metric in one scope.
pub struct Group<'a> {
    pub(super) metric: String,
    pub(super) scope: String,
    /// Null where theirs has none.
    pub(super) unit: Value,
    /// In seconds.
    pub(super) timestep: u64,
    start: Nanos,
    /// It was made here of the parts of nodes, and is nothing that they have measured.
    pub(super) is_made: bool,
    /// What was kept besides.
    rest: Map<String, Value>,
    lines: Vec<Line<'a>>,
}

struct Line<'a> {
    series: &'a Series,
    id: Option<&'a str>,
    length: usize,
}

/// The mean of some values, the least and the greatest of them.
pub(super) struct Sums {
    pub avg: f64,
    pub min: f64,
    pub max: f64,
}

impl Sums {
    fn of(values: impl Iterator<Item = f64>) -> Option<Sums> {
        let (mut sum, mut count, mut min, mut max) = (0.0, 0u64, f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            (sum, count, min, max) = (sum + value, count + 1, f64::min(min, value), f64::max(max, value));
        }
        (count > 0).then(|| Sums { avg: sum / count as f64, min, max })
    }

    pub fn json(&self) -> Value {
        json!({"avg": self.avg, "min": self.min, "max": self.max})
    }
}

/// The series of a job by metric and scope, and how many have no scope that they know.
pub fn groups(known: &Known) -> (Vec<Group<'_>>, usize) {
    let mut groups = of_layout(known);
    let of_theirs = groups.len();
    let mut left_out = 0;
    for series in &known.measures.series {
        let metric = series.metric.text();
        let is_theirs = |scope: &str| groups.iter().any(|group| group.is(metric, scope));
        let Some((scope, id)) = scope(series.part.as_deref(), is_theirs) else {
            left_out += 1;
            continue;
        };
        let at = groups.iter().position(|group| group.is(metric, scope)).unwrap_or_else(|| {
            let is_made = scope == NODE && groups[..of_theirs].iter().any(|group| group.metric == metric);
            let unit = unit::object(series.unit.as_deref());
            groups.push(Group { is_made, ..Group::new(metric, scope, unit, known) });
            groups.len() - 1
        });
        let id = if groups[at].rest.contains_key(REPEATED) { id.and_then(without_number) } else { id };
        groups[at].lines.push(Line { series, id, length: 0 });
    }
    groups.iter_mut().for_each(|group| group.settle(known));
    (groups, left_out)
}

/// What their file had, in its order and without its series: some lists have none.
fn of_layout(known: &Known) -> Vec<Group<'static>> {
    let Some(Value::Object(metrics)) = kept(&known.job.others, LAYOUT) else { return Vec::new() };
    let mut groups = Vec::new();
    for (metric, scopes) in metrics {
        let Value::Object(scopes) = scopes else { continue };
        for (scope, rest) in scopes {
            let Value::Object(mut rest) = rest else { continue };
            let unit = rest.remove("unit").unwrap_or_default();
            groups.push(Group { rest, ..Group::new(&metric, &scope, unit, known) });
        }
    }
    groups
}

/// Writes them as one object.
pub fn render(groups: &[Group], to: impl Write) -> std::io::Result<()> {
    serde_json::to_writer(to, &File(groups)).map_err(Into::into)
}

/// `hwthread 3` is of the scope `hwthread`. Our own GPUs are accelerators.
fn scope(part: Option<&str>, is_theirs: impl Fn(&str) -> bool) -> Option<(&str, Option<&str>)> {
    let Some(part) = part else { return Some((NODE, None)) };
    let (word, id) = part.split_once(' ').map_or((part, None), |(word, id)| (word, Some(id)));
    if SCOPES.contains(&word) || is_theirs(word) {
        return Some((word, id));
    }
    part.starts_with("gpu").then_some(("accelerator", Some(part)))
}

/// The id of one of several series that had the same, `3 #2`.
fn without_number(id: &str) -> Option<&str> {
    let number = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    match id.rsplit_once('#') {
        Some((id, last)) if number(last) => Some(id.strip_suffix(' ')?),
        _ => Some(id),
    }
}

/// How long a list was, as it was kept: one number for all, or one for each.
fn length(points: &Value, at: usize) -> u64 {
    points.get(at).unwrap_or(points).as_u64().unwrap_or(0)
}

impl Group<'_> {
    fn new(metric: &str, scope: &str, unit: Value, known: &Known) -> Self {
        let (metric, scope) = (metric.to_owned(), scope.to_owned());
        let start = known.job.start.unwrap_or(0) / SECOND * SECOND;
        Group { metric, scope, unit, timestep: 0, start, is_made: false, rest: Map::new(), lines: Vec::new() }
    }

    fn is(&self, metric: &str, scope: &str) -> bool {
        self.metric == metric && self.scope == scope
    }

    /// Decides on what all series of the group have in common, and on how long each is.
    fn settle(&mut self, known: &Known) {
        let told = self.rest.remove("timestep").and_then(|step| step.as_u64());
        let every = self.lines.iter().map(|line| line.series.every.div_ceil(SECOND)).max();
        self.timestep = every.or(told).unwrap_or(0).max(1);
        let unit = self.lines.iter().find_map(|line| line.series.unit.as_deref());
        if let (Value::Null, Some(unit)) = (&self.unit, unit) {
            self.unit = unit::object(Some(unit));
        }
        let points = self.rest.remove("points");
        self.rest.remove(REPEATED);
        let took = known.job.elapsed.filter(|_| points.is_none());
        let most = took.map_or(STEPS_MAX, |took| took.div_ceil(SECOND) / self.timestep + 1).min(STEPS_MAX);
        for at in 0..self.lines.len() {
            let last = self.lines[at].series.points.iter().filter_map(|point| self.step(point.time)).max();
            let needed = last.map_or(0, |last| last + 1);
            let told = points.as_ref().map_or(0, |points| length(points, at));
            self.lines[at].length = needed.max(told).min(most) as usize;
        }
    }

    fn step(&self, time: Nanos) -> Option<u64> {
        Some(time.checked_sub(self.start)? / self.timestep.saturating_mul(SECOND))
    }

    fn values(&self, line: &Line) -> Vec<Option<f64>> {
        let mut values = vec![None; line.length];
        for point in &line.series.points {
            let slot = self.step(point.time).and_then(|step| values.get_mut(step as usize));
            if let Some(slot) = slot {
                *slot = Some(point.value).filter(|value| value.is_finite());
            }
        }
        values
    }

    /// Where a unit must be.
    pub(super) fn known_unit(&self) -> Value {
        if self.unit.is_null() { unit::object(None) } else { self.unit.clone() }
    }

    /// Of all values together.
    pub(super) fn sums(&self) -> Option<Value> {
        let all = self.lines.iter().flat_map(|line| self.values(line).into_iter().flatten());
        Sums::of(all).map(|sums| sums.json())
    }
}

struct File<'a, 'g>(&'a [Group<'g>]);

impl Serialize for File<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut metrics: Vec<&str> = Vec::new();
        for group in self.0.iter().filter(|group| !group.is_made) {
            if !metrics.contains(&&*group.metric) {
                metrics.push(&group.metric);
            }
        }
        to.collect_map(metrics.into_iter().map(|metric| (metric, Scopes(self.0, metric))))
    }
}

struct Scopes<'a, 'g>(&'a [Group<'g>], &'a str);

impl Serialize for Scopes<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let scopes = self.0.iter().filter(|group| group.metric == self.1 && !group.is_made);
        to.collect_map(scopes.map(|group| (&group.scope, group)))
    }
}

impl Serialize for Group<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        if !self.unit.is_null() {
            map.serialize_entry("unit", &self.unit)?;
        }
        map.serialize_entry("timestep", &self.timestep)?;
        for (key, value) in &self.rest {
            map.serialize_entry(key, value)?;
        }
        map.serialize_entry("series", &Lines(self))?;
        map.end()
    }
}

struct Lines<'a, 'g>(&'a Group<'g>);

impl Serialize for Lines<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.lines.iter().map(|line| One(self.0, line)))
    }
}

struct One<'a, 'g>(&'a Group<'g>, &'a Line<'g>);

impl Serialize for One<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let values = self.0.values(self.1);
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("hostname", &self.1.series.host)?;
        if let Some(id) = self.1.id {
            map.serialize_entry("id", id)?;
        }
        if let Some(sums) = Sums::of(values.iter().copied().flatten()) {
            map.serialize_entry("statistics", &sums.json())?;
        }
        map.serialize_entry("data", &values)?;
        map.end()
    }
}
