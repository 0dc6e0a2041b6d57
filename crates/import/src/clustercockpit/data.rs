//! `data.json`: the series of one job, by metric and scope.
//!
//! `{"cpu_load": {"node": {"unit": {"base": "load"}, "timestep": 60, "series": [{"hostname": "n1", "data": [1, null]}]}}}`
//!
//! Value `i` is kept at the start of the job plus `i` steps, and what is null is absent. A series of a whole node has no
//! part; one of less has its scope and id as part, `hwthread 3`. Where a metric has no series of whole nodes, they are made of
//! the coarsest scope that it has ([`super::scope`]). Series with the same host and id cannot both be right: they are numbered,
//! `hwthread 3 #1`, and none of them counts as the node's. Everything else that the file says is kept as the
//! [`Other`] `clustercockpit.data.json`, in the same form with `points`, the length of the lists, instead of the series
//! (a list of lengths where they differ), since an absent value at the end does not tell that there was one; `repeated` says
//! that some are numbered.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{BufReader, Read};
use std::marker::PhantomData;
use std::ops::Range;

use record::accounting::Other;
use record::entry::Nanos;
use record::measure::{Job, Name, Point, Series};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};

use super::bounded::{Bounded, reason};
use super::scope::{self, Aggregations, NODE};
use super::{Known, LAYOUT, reference, unit};
use crate::sink::{Reason, quoted};
use crate::time::SECOND;

/// Longer than the file of any job that was seen: a thousand nodes for two days write less.
pub const DATA_MAX: u64 = 512 << 20;

/// In what is kept of a scope: some of its series have the same host and id.
pub const REPEATED: &str = "repeated";

/// Adds the series of a file to their job, or none of them; gives what of it counts for nothing.
pub fn read(
    source: impl Read,
    max: u64,
    aggregations: &Aggregations,
    known: &mut Known,
) -> Result<Vec<Reason>, Reason> {
    let start = known.job.start.ok_or(Reason::Empty { field: "startTime" })?;
    let source = BufReader::new(Bounded::new(source, max));
    let mut json = serde_json::Deserializer::from_reader(source);
    // The end is looked for because gzip has its checksum behind it.
    let metrics =
        Pairs::<Pairs<Scope>>::deserialize(&mut json).and_then(|metrics| json.end().map(|()| metrics));
    let metrics = metrics.map_err(|error| reason("data.json", &error, max))?;
    let job = reference(&known.job);
    let mut made = Made { aggregations, series: Vec::new(), doubts: Vec::new() };
    let mut layout = Map::new();
    for (metric, scopes) in metrics.0 {
        let place = Place { metric: &metric, scope: NODE, start, job: &job };
        let kept = made.metric(&place, scopes)?;
        if !kept.is_empty() {
            layout.insert(metric, kept.into());
        }
    }
    known.measures.series.append(&mut made.series);
    if !layout.is_empty() {
        known.job.others.push(Other { name: LAYOUT.into(), value: Value::Object(layout).to_string() });
        known.job.others.sort();
    }
    Ok(made.doubts)
}

/// The series that were made of a file.
struct Made<'a> {
    aggregations: &'a Aggregations,
    series: Vec<Series>,
    doubts: Vec<Reason>,
}

/// Which series are of one scope, and on which nodes none of them counts.
struct OfScope {
    scope: String,
    series: Range<usize>,
    repeated: HashSet<String>,
}

impl Made<'_> {
    /// Takes a metric in all its scopes, and gives what they say besides. Its value on whole nodes comes last where it was made here.
    fn metric(&mut self, of: &Place, scopes: Pairs<Scope>) -> Result<Map<String, Value>, Reason> {
        let (mut kept, mut coarsest): (_, Option<OfScope>) = (Map::new(), None);
        for (scope, content) in scopes.0 {
            let (mut said, series) = content.place(&Place { scope: &scope, ..*of })?;
            let first = self.series.len();
            self.series.extend(series);
            let repeated = self.number_repeated(of.metric, first);
            if !repeated.is_empty() {
                said[REPEATED] = true.into();
            }
            kept.insert(scope.clone(), said);
            let found = OfScope { scope, series: first..self.series.len(), repeated };
            let is_coarser = |known: &OfScope| scope::rank(&found.scope) < scope::rank(&known.scope);
            let is_there = found.scope == NODE || !found.series.is_empty();
            if is_there && coarsest.as_ref().is_none_or(is_coarser) {
                coarsest = Some(found);
            }
        }
        if let Some(coarsest) = coarsest.filter(|coarsest| coarsest.scope != NODE) {
            self.aggregate(of.metric, &coarsest);
        }
        Ok(kept)
    }

    fn aggregate(&mut self, metric: &str, of: &OfScope) {
        let counts = |series: &&Series| !of.repeated.contains(&series.host);
        let parts: Vec<&Series> = self.series[of.series.clone()].iter().filter(counts).collect();
        match scope::nodes(&parts, self.aggregations.get(metric)) {
            Some(nodes) => self.series.extend(nodes),
            None => {
                let [metric, scope] = [metric, &of.scope].map(|text| quoted(text.as_bytes()));
                self.doubts.push(Reason::NoAggregation { metric, scope });
            }
        }
    }

    /// Numbers the series that have the same host and part, from the first of a scope on; gives these hosts.
    fn number_repeated(&mut self, metric: &str, first: usize) -> HashSet<String> {
        let key = |series: &Series| (series.host.clone(), series.part.clone());
        let mut counts: HashMap<_, (usize, usize)> = HashMap::new();
        self.series[first..].iter().for_each(|series| counts.entry(key(series)).or_default().0 += 1);
        counts.retain(|_, (count, _)| *count > 1);
        for series in &mut self.series[first..] {
            let Some((_, number)) = counts.get_mut(&key(series)) else { continue };
            let part = series.part.as_deref().unwrap_or(NODE);
            if *number == 0 {
                let [metric, part, host] = [metric, part, &series.host].map(|text| quoted(text.as_bytes()));
                self.doubts.push(Reason::SameSeries { metric, part, host });
            }
            *number += 1;
            series.part = Some(format!("{part} #{number}"));
        }
        counts.into_keys().map(|(host, _)| host).collect()
    }
}

/// What all series of one list share.
#[derive(Clone, Copy)]
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
    /// What it says besides its series, and these.
    fn place(self, place: &Place) -> Result<(Value, Vec<Series>), Reason> {
        let odd =
            || Reason::Unreadable { field: "timestep", text: quoted(self.timestep.to_string().as_bytes()) };
        let every = self.timestep.checked_mul(SECOND).filter(|every| *every > 0).ok_or_else(odd)?;
        let unit = self.unit.as_ref().and_then(unit::text);
        let (mut lengths, mut all) = (Vec::new(), Vec::new());
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
        kept.remove(REPEATED);
        Ok((kept.into(), all))
    }
}

fn part(scope: &str, id: Option<Id>) -> Option<String> {
    match id {
        None if scope == NODE => None,
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
