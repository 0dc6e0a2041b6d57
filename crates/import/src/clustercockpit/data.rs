//! `data.json`: the series of one job, by metric and scope.
//!
//! `{"cpu_load": {"node": {"unit": {"base": "load"}, "timestep": 60, "series": [{"hostname": "n1", "data": [1, null]}]}}}`
//!
//! Value `i` is kept at the start of the job plus `i` steps, and what is null is absent. A series of a whole node has no
//! part; one of less has its scope and id as part, `hwthread 3`. Everything else that the file says is kept as the
//! [`Other`] `clustercockpit.data.json`, in the same form with `points`, the length of the lists, instead of the series
//! (a list of lengths where they differ), since an absent value at the end does not tell that there was one.

use std::fmt;
use std::io::{BufReader, Read};
use std::marker::PhantomData;

use record::accounting::Other;
use record::entry::Nanos;
use record::measure::{Job, Name, Point, Series};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};

use super::bounded::{Bounded, reason};
use super::{Known, LAYOUT, reference, unit};
use crate::sink::{Reason, quoted};
use crate::time::SECOND;

/// Longer than the file of any job that was seen: a thousand nodes for two days write less.
pub const DATA_MAX: u64 = 512 << 20;

/// Adds the series of a file to their job, or none of them.
pub fn read(source: impl Read, max: u64, known: &mut Known) -> Result<(), Reason> {
    let start = known.job.start.ok_or(Reason::Empty { field: "startTime" })?;
    let source = BufReader::new(Bounded::new(source, max));
    let mut json = serde_json::Deserializer::from_reader(source);
    // The end is looked for because gzip has its checksum behind it.
    let metrics =
        Pairs::<Pairs<Scope>>::deserialize(&mut json).and_then(|metrics| json.end().map(|()| metrics));
    let metrics = metrics.map_err(|error| reason("data.json", &error, max))?;
    let job = reference(&known.job);
    let (mut all, mut layout) = (Vec::new(), Map::new());
    for (metric, scopes) in metrics.0 {
        let mut kept = Map::new();
        for (scope, content) in scopes.0 {
            let place = Place { metric: &metric, scope: &scope, start, job: &job };
            kept.insert(scope.clone(), content.place(&place, &mut all)?);
        }
        if !kept.is_empty() {
            layout.insert(metric, kept.into());
        }
    }
    known.measures.series.append(&mut all);
    if !layout.is_empty() {
        known.job.others.push(Other { name: LAYOUT.into(), value: Value::Object(layout).to_string() });
        known.job.others.sort();
    }
    Ok(())
}

/// What all series of one list share.
struct Place<'a> {
    metric: &'a str,
    scope: &'a str,
    start: Nanos,
    job: &'a Job,
}

/// A metric in one scope.
#[derive(serde::Deserialize)]
struct Scope {
    unit: Option<Value>,
    timestep: u64,
    series: Option<Vec<One>>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// A series; its statistics can be computed.
#[derive(serde::Deserialize)]
struct One {
    hostname: String,
    id: Option<Id>,
    data: Option<Values>,
}

/// Numbers of threads are written as texts, and once were not.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Id {
    Text(String),
    Number(u64),
}

impl Scope {
    /// Makes series of it, and gives what it says besides.
    fn place(self, place: &Place, all: &mut Vec<Series>) -> Result<Value, Reason> {
        let odd =
            || Reason::Unreadable { field: "timestep", text: quoted(self.timestep.to_string().as_bytes()) };
        let every = self.timestep.checked_mul(SECOND).filter(|every| *every > 0).ok_or_else(odd)?;
        let unit = self.unit.as_ref().and_then(unit::text);
        let mut lengths = Vec::new();
        for one in self.series.into_iter().flatten() {
            let values = one.data.unwrap_or_default();
            lengths.push(values.length);
            all.push(Series {
                cluster: place.job.cluster.clone(),
                host: one.hostname,
                metric: Name::Own(place.metric.to_owned()),
                unit: unit.clone(),
                part: part(place.scope, one.id),
                job: Some(place.job.clone()),
                every,
                points: timed(values.points, place.start, every).ok_or_else(odd)?,
            });
        }
        let mut kept = self.rest;
        if let Some(unit) = self.unit {
            kept.insert("unit".into(), unit);
        }
        kept.insert("timestep".into(), json!(self.timestep));
        let is_same = lengths.windows(2).all(|pair| pair[0] == pair[1]);
        let points = if is_same { json!(lengths.first().unwrap_or(&0)) } else { json!(lengths) };
        kept.insert("points".into(), points);
        Ok(kept.into())
    }
}

fn part(scope: &str, id: Option<Id>) -> Option<String> {
    match id {
        None if scope == "node" => None,
        None => Some(scope.to_owned()),
        Some(Id::Text(id)) => Some(format!("{scope} {id}")),
        Some(Id::Number(id)) => Some(format!("{scope} {id}")),
    }
}

/// Points that have their number as time, at their time.
fn timed(mut points: Vec<Point>, start: Nanos, every: Nanos) -> Option<Vec<Point>> {
    for point in &mut points {
        point.time = start.checked_add(point.time.checked_mul(every)?)?;
    }
    Some(points)
}

/// A list of numbers; only those that are there take memory.
#[derive(Default)]
struct Values {
    length: u64,
    points: Vec<Point>,
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(list: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Values;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of numbers")
            }

            fn visit_seq<Q: SeqAccess<'de>>(self, mut list: Q) -> Result<Values, Q::Error> {
                let mut values = Values::default();
                while let Some(value) = list.next_element::<Option<f64>>()? {
                    values.points.extend(value.map(|value| Point { time: values.length, value }));
                    values.length += 1;
                }
                Ok(values)
            }
        }
        list.deserialize_seq(List)
    }
}

/// An object in the order in which it is written.
struct Pairs<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(object: D) -> Result<Self, D::Error> {
        struct Object<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
            type Value = Pairs<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Pairs<T>, M::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        object.deserialize_map(Object(PhantomData))
    }
}
