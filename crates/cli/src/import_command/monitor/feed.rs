//! From readings of other systems to series of ours.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use import::mapping::{Amount, Joined, Joiner, Mapper, Point, Table, Target};
use import::monitor::{Dropped, Drops, Reading, Take};
use record::entry::Nanos;
use record::measure::{self, Measures, Name, Series};
use record::metric::{Kind, Metric, Unit};

/// How many series of all nodes are remembered: 3,000 nodes with 500 each.
const SERIES: usize = 1_500_000;
/// And how many metrics of nodes that come in parts.
const JOINED: usize = 500_000;

/// What a series is of.
type Key = (String, Name, Option<String>);

/// Takes readings, and gives series.
pub struct Feed {
    mapper: Mapper,
    joiner: Joiner,
    cluster: Option<String>,
    full_names: bool,
    /// How long it is from one value to the next, where nobody says.
    every: Nanos,
    waiting: BTreeMap<Key, Series>,
    /// Of the last reading.
    interval: Option<Nanos>,
    readings: u64,
    values: u64,
    incomplete: u64,
    drops: Drops,
}

impl Feed {
    pub fn new(table: Table, cluster: Option<String>, full_names: bool, every: Duration) -> Feed {
        Feed {
            mapper: Mapper::new(table, SERIES),
            joiner: Joiner::new(JOINED),
            cluster,
            full_names,
            every: u64::try_from(every.as_nanos()).unwrap_or(u64::MAX),
            waiting: BTreeMap::new(),
            interval: None,
            readings: 0,
            values: 0,
            incomplete: 0,
            drops: Drops::default(),
        }
    }

    /// What has come since the last time.
    pub fn flush(&mut self) -> Measures {
        let series = std::mem::take(&mut self.waiting).into_values().collect();
        Measures { series, told: Vec::new() }
    }

    /// There are no more parts of what was told in parts.
    pub fn finish(&mut self) {
        for point in self.mapper.finish() {
            let joined = self.joiner.take(point);
            self.joined(joined);
        }
        for joined in self.joiner.finish() {
            self.joined(joined);
        }
    }

    /// Whether something was no reading.
    pub fn has_dropped(&self) -> bool {
        self.drops.iter().any(|(why, _)| why != Dropped::NoMeasurement && why != Dropped::Text)
    }

    /// How many there were of what, for people.
    pub fn said(&self) -> String {
        let mut said = format!(
            "{} readings, {} values, {} of them under their own names",
            self.readings,
            self.values,
            self.mapper.unmapped()
        );
        let skipped = self.mapper.skipped();
        let skipped = skipped.iter().map(|(why, count)| (why.to_string(), count));
        let drops = self.drops.iter().map(|(why, count)| (why.to_string(), count));
        let parts = [("parts were missing".to_owned(), self.incomplete)];
        for (why, count) in skipped.chain(drops).chain(parts).filter(|(_, count)| *count > 0) {
            said.push_str(&format!("; {count} without a value: {why}"));
        }
        said
    }

    fn joined(&mut self, joined: Joined) {
        match joined {
            Joined::Whole(point) => self.add(point),
            Joined::Incomplete => self.incomplete += 1,
            Joined::Waiting => {}
        }
    }

    fn add(&mut self, point: Point) {
        let (metric, scale) = match &point.target {
            Target::Metric(metric) => (Name::Ours(metric.name.to_owned()), scale(metric)),
            Target::Own(name) => (Name::Own(name.clone()), 1.0),
        };
        let (value, every) = match point.amount {
            Amount::Level(value) => (value, None),
            Amount::Rate { per_second, since } => {
                (per_second / scale, since.map(|since| point.time.saturating_sub(since)))
            }
        };
        let every = every.or(self.interval).unwrap_or(self.every);
        let host = if self.full_names { point.host } else { short(&point.host) };
        let part = Some(point.part).filter(|part| !part.is_empty());
        let key = (host.clone(), metric.clone(), part.clone());
        let cluster = self.cluster.clone();
        let series = self.waiting.entry(key).or_insert_with(|| Series {
            cluster,
            host,
            metric,
            unit: point.unit,
            part,
            ..Series::default()
        });
        series.every = every;
        series.points.push(measure::Point { time: point.time, value });
        self.values += 1;
    }
}

impl Take for Feed {
    fn reading(&mut self, reading: Reading) {
        self.readings += 1;
        self.interval = reading.interval;
        for point in self.mapper.map(&reading) {
            let joined = self.joiner.take(point);
            self.joined(joined);
        }
    }

    fn dropped(&mut self, why: Dropped) {
        self.drops.count(why);
    }
}

/// Times are told as nanoseconds each second; as a rate they are cores.
fn scale(metric: &Metric) -> f64 {
    match (metric.kind, metric.unit) {
        (Kind::Counter, Unit::Nanoseconds) => 1e9,
        _ => 1.0,
    }
}

/// The name of a node without its domain: batch systems call it so.
fn short(host: &str) -> String {
    if host.parse::<IpAddr>().is_ok() {
        return host.to_owned();
    }
    host.split('.').next().unwrap_or(host).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use import::influx::{Precision, read};

    #[test]
    fn domains_are_left_out() {
        for (host, expected) in
            [("n1.example.org", "n1"), ("n1", "n1"), ("10.0.0.1", "10.0.0.1"), ("::1", "::1"), ("", "")]
        {
            assert_eq!(short(host), expected);
        }
    }

    #[test]
    fn readings_become_series_under_our_names_or_their_own() {
        let mut feed =
            Feed::new(Table::shipped().unwrap(), Some("tiny".into()), false, Duration::from_secs(10));
        let lines = "system,host=n1.example load1=1.5 1700000000\nsystem,host=n1.example load1=2 1700000010\nfans,host=n2 speed=3 1700000000\nbroken\n";
        read(lines.as_bytes(), Precision::Seconds, 0, &mut feed);
        let Measures { series, .. } = feed.flush();
        let found: Vec<_> = series
            .iter()
            .map(|series| {
                (
                    series.host.as_str(),
                    series.metric.text(),
                    series.points.iter().map(|point| point.value).collect::<Vec<_>>(),
                )
            })
            .collect();
        assert_eq!(found, [("n1", "node_load", vec![150.0, 200.0]), ("n2", "influx/fans/speed", vec![3.0])]);
        assert!(
            series
                .iter()
                .all(|series| series.cluster.as_deref() == Some("tiny") && series.every == 10_000_000_000)
        );
        assert!(
            feed.has_dropped() && feed.said().contains("3 readings, 3 values, 1 of them"),
            "{}",
            feed.said()
        );
        assert!(feed.flush().series.is_empty());
    }
}
