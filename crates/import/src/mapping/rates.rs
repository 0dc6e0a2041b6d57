//! What is known of each series: its last value and time, to make rates of sums, and to notice what comes twice.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use record::entry::Nanos;

use crate::monitor::{Reading, System, Value, Width};
use crate::recent::Recent;
use crate::time::SECOND;

/// Why a value says nothing new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Unused {
    #[error("the first of its series: a sum needs two")]
    First,
    #[error("it was told before")]
    Repeated,
    #[error("from before the last one")]
    Backward,
    #[error("the sum has begun again")]
    Reset,
}

/// What a value says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Told {
    Level(f64),
    Rate { per_second: f64, since: Option<Nanos> },
}

pub struct Rates {
    last: Recent<(u64, u64), Last>,
    /// Two hashes with keys of their own stand for a name: 16 bytes a series, and nobody can make two meet.
    hashers: [RandomState; 2],
}

#[derive(Clone, Copy)]
struct Last {
    time: Nanos,
    value: Value,
    /// A time before the last one was seen.
    back: Option<Nanos>,
}

impl Rates {
    pub fn new(bound: usize) -> Self {
        Rates { last: Recent::new(bound), hashers: [RandomState::new(), RandomState::new()] }
    }

    pub fn len(&self) -> usize {
        self.last.len()
    }

    pub fn forgotten(&self) -> u64 {
        self.last.forgotten()
    }

    /// What a reading says after those before it. `is_sum`: it is a sum, though it came as a state.
    pub fn see(&mut self, reading: &Reading, is_sum: bool) -> Result<Told, Unused> {
        let value = match reading.value {
            Value::Gauge(number) if is_sum => Value::Sum(number),
            value => value,
        };
        let name = (&reading.cluster, &reading.host, &reading.path);
        let key = (self.hashers[0].hash_one(name), self.hashers[1].hash_one(name));
        let now = Last { time: reading.time, value, back: None };
        let Some(last) = self.last.get(&key) else {
            self.last.insert(key, now);
            return first(value, reading.interval);
        };
        let before = *last;
        if reading.time <= before.time.saturating_add(slack(reading)) {
            return again(last, now);
        }
        *last = now;
        told(before, now)
    }
}

/// By how much the time of one value may seem to grow when it is read twice: see `ganglia::xml`.
fn slack(reading: &Reading) -> Nanos {
    if reading.path.system == System::Ganglia { SECOND } else { 0 }
}

/// A state stands for itself, and so does a rate; a sum since the last value only if it is known how long that is.
fn first(value: Value, interval: Option<Nanos>) -> Result<Told, Unused> {
    match (value, interval) {
        (Value::Gauge(level), _) => Ok(Told::Level(level)),
        (Value::Rate(per_second), _) => Ok(Told::Rate { per_second, since: None }),
        (Value::Absolute(count), Some(interval)) if interval > 0 => {
            Ok(Told::Rate { per_second: per_second(count as f64, interval), since: None })
        }
        _ => Err(Unused::First),
    }
}

/// Not later than the last one. A packet may be late; but if two in a row are, and the second is after the first, then
/// somebody has set the clock back, and the series begins again.
fn again(last: &mut Last, now: Last) -> Result<Told, Unused> {
    if now.time >= last.time {
        return Err(Unused::Repeated);
    }
    if last.back.is_some_and(|back| now.time > back) {
        *last = now;
        return first(now.value, None).map_err(|_| Unused::Reset);
    }
    last.back = Some(now.time);
    Err(Unused::Backward)
}

fn told(before: Last, now: Last) -> Result<Told, Unused> {
    let grown = match (before.value, now.value) {
        (_, Value::Gauge(level)) => return Ok(Told::Level(level)),
        (_, Value::Rate(per_second)) => return Ok(Told::Rate { per_second, since: Some(before.time) }),
        (_, Value::Absolute(count)) => count as f64,
        (Value::Counter { count: from, .. }, Value::Counter { count: to, width }) => {
            grown(from, to, width).ok_or(Unused::Reset)? as f64
        }
        (Value::Derive(from), Value::Derive(to)) if to >= from => to.abs_diff(from) as f64,
        (Value::Sum(from), Value::Sum(to)) if to >= from => to - from,
        (Value::Counter { .. }, Value::Derive(_) | Value::Sum(_)) => return Err(Unused::First),
        (Value::Derive(_), Value::Counter { .. } | Value::Sum(_)) => return Err(Unused::First),
        (Value::Sum(_), Value::Counter { .. } | Value::Derive(_)) => return Err(Unused::First),
        (Value::Gauge(_) | Value::Rate(_) | Value::Absolute(_), _) => return Err(Unused::First),
        _ => return Err(Unused::Reset),
    };
    let per_second = per_second(grown, now.time - before.time);
    Ok(Told::Rate { per_second, since: Some(before.time) })
}

/// How much a counter has grown. One that is less than before has run out of bits if it was in the last eighth of what
/// it can have and is in the first one; else what counts has begun again, and nobody knows how far it had come. collectd
/// takes both for the former, and a reboot for four thousand million packets.
fn grown(from: u64, to: u64, width: Width) -> Option<u64> {
    if to >= from {
        return Some(to - from);
    }
    let is_short = match width {
        Width::Bits32 => true,
        Width::Bits64 => false,
        Width::Unknown => u32::try_from(from).is_ok(),
    };
    let largest = if is_short { u64::from(u32::MAX) } else { u64::MAX };
    let is_wrapped = from <= largest && from >= largest - largest / 8 && to <= largest / 8;
    is_wrapped.then(|| (largest - from) + to + 1)
}

fn per_second(amount: f64, time: Nanos) -> f64 {
    amount * SECOND as f64 / time as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Path;

    fn reading(system: System, seconds: u64, value: Value) -> Reading {
        Reading {
            host: "n1".into(),
            cluster: None,
            time: seconds * SECOND,
            interval: None,
            path: Path::new(system, "x".into()),
            unit: None,
            value,
        }
    }

    /// The last of a row of values at these seconds.
    fn last(system: System, values: &[(u64, Value)]) -> Result<Told, Unused> {
        let mut rates = Rates::new(100);
        let told = values.iter().map(|(time, value)| rates.see(&reading(system, *time, *value), false));
        told.last().unwrap()
    }

    fn rate(per_second: f64, since: u64) -> Result<Told, Unused> {
        Ok(Told::Rate { per_second, since: Some(since * SECOND) })
    }

    fn counter(count: u64) -> Value {
        Value::Counter { count, width: Width::Unknown }
    }

    #[test]
    fn rates_of_sums() {
        const TOP32: u64 = u32::MAX as u64;
        let wide = |count| Value::Counter { count, width: Width::Bits64 };
        let narrow = |count| Value::Counter { count, width: Width::Bits32 };
        for (from, to, expected) in [
            (counter(100), counter(150), rate(5.0, 10)),
            (counter(100), counter(100), rate(0.0, 10)),
            (counter(TOP32 - 9), counter(10), rate(2.0, 10)),
            (narrow(TOP32 - 9), narrow(10), rate(2.0, 10)),
            (wide(TOP32 - 9), wide(10), Err(Unused::Reset)),
            (wide(u64::MAX - 9), wide(10), rate(2.0, 10)),
            (counter(u64::MAX - 9), counter(10), rate(2.0, 10)),
            (counter(TOP32 + 10), counter(10), Err(Unused::Reset)),
            (counter(TOP32 / 2), counter(10), Err(Unused::Reset)),
            (counter(TOP32 - 9), counter(TOP32 / 2), Err(Unused::Reset)),
            (Value::Derive(-50), Value::Derive(50), rate(10.0, 10)),
            (Value::Derive(i64::MIN), Value::Derive(i64::MAX), rate(u64::MAX as f64 / 10.0, 10)),
            (Value::Derive(50), Value::Derive(40), Err(Unused::Reset)),
            (Value::Sum(0.5), Value::Sum(1.0), rate(0.05, 10)),
            (Value::Sum(1.0), Value::Sum(0.5), Err(Unused::Reset)),
            (Value::Absolute(7), Value::Absolute(50), rate(5.0, 10)),
            (Value::Rate(7.0), Value::Rate(8.0), rate(8.0, 10)),
            (Value::Gauge(7.0), Value::Gauge(8.0), Ok(Told::Level(8.0))),
            (counter(5), Value::Derive(9), Err(Unused::First)),
            (Value::Gauge(5.0), counter(9), Err(Unused::First)),
        ] {
            assert_eq!(last(System::Collectd, &[(10, from), (20, to)]), expected, "{from:?} {to:?}");
        }
    }

    #[test]
    fn a_series_goes_on_after_it_began_again() {
        let values = [(10, Value::Derive(50)), (20, Value::Derive(10)), (30, Value::Derive(20))];
        assert_eq!(last(System::Collectd, &values), rate(1.0, 20));
    }

    #[test]
    fn times_that_stand_or_go_back() {
        let at = |seconds: &[u64]| {
            let values: Vec<_> =
                seconds.iter().map(|second| (*second, Value::Derive(*second as i64))).collect();
            last(System::Collectd, &values)
        };
        assert_eq!(at(&[10]), Err(Unused::First));
        assert_eq!(at(&[10, 10]), Err(Unused::Repeated));
        assert_eq!(at(&[10, 20, 15]), Err(Unused::Backward));
        assert_eq!(at(&[10, 20, 15, 30]), rate(1.0, 20));
        assert_eq!(at(&[1000, 20, 30]), Err(Unused::Reset));
        assert_eq!(at(&[1000, 20, 30, 40]), rate(1.0, 30));
        assert_eq!(at(&[1000, 30, 20]), Err(Unused::Backward));
    }

    /// Of a value that is read twice the time may be a second later.
    #[test]
    fn one_second_is_no_time_for_ganglia() {
        let values = [(10, counter(5)), (11, counter(5))];
        assert_eq!(last(System::Ganglia, &values), Err(Unused::Repeated));
        assert_eq!(last(System::Collectd, &values), rate(0.0, 10));
        let values = [(10, counter(5)), (11, counter(5)), (12, counter(9))];
        assert_eq!(last(System::Ganglia, &values), rate(2.0, 10));
    }

    #[test]
    fn series_are_kept_apart_and_bounded() {
        let mut rates = Rates::new(50);
        for round in 1..3 {
            for host in 0..20 {
                let mut reading = reading(System::Collectd, round * 10, Value::Derive(round as i64 * 10));
                reading.host = format!("n{host}");
                let expected = if round == 1 { Err(Unused::First) } else { rate(1.0, 10) };
                assert_eq!(rates.see(&reading, false), expected);
            }
        }
        for host in 0..10_000 {
            let mut reading = reading(System::Collectd, 10, Value::Derive(1));
            reading.host = format!("m{host}");
            let _ = rates.see(&reading, false);
        }
        assert!(rates.len() <= 50 && rates.forgotten() > 9000);
    }

    #[test]
    fn an_absolute_value_is_of_its_interval() {
        let mut reading = reading(System::Collectd, 10, Value::Absolute(50));
        reading.interval = Some(5 * SECOND);
        assert_eq!(Rates::new(9).see(&reading, false), Ok(Told::Rate { per_second: 10.0, since: None }));
    }
}
