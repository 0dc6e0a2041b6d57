//! From readings to spans: a value, and how long it held.
//!
//! A gauge holds from its reading to the next one. A counter becomes a rate, held between two readings; it began at zero with
//! the job. Nanoseconds per nanosecond are how many were busy (cores), all else is per second. A counter that has fallen lost
//! its past: nothing is known between the two readings.

use record::metric::{Kind, Metric, Unit};

/// A job or session on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// Nanoseconds since 1970.
    pub start: i64,
    /// Absent while it runs.
    pub end: Option<i64>,
    pub readings: Vec<At>,
}

/// When a reading was made, and how long it was meant to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    pub time: i64,
    pub every: i64,
}

/// A value, and the nanoseconds for which it held.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    pub from: i64,
    pub length: i64,
    pub value: f64,
}

/// A reading stands for at most so many times the interval it was meant for: beyond that nobody looked.
const STANDS: i64 = 2;

impl Part {
    /// The spans of a metric. `values` are those of the readings, in their order.
    pub fn spans(&self, metric: &Metric, values: &[Option<i64>]) -> Vec<Span> {
        let points: Vec<(At, i64)> =
            self.readings.iter().zip(values).filter_map(|(at, value)| Some((*at, (*value)?))).collect();
        match metric.kind {
            Kind::Gauge => self.gauge(&points),
            Kind::Counter => self.counter(&points, metric.unit),
        }
    }

    fn gauge(&self, points: &[(At, i64)]) -> Vec<Span> {
        let nexts = points.iter().skip(1).map(|(at, _)| Some(at.time)).chain([self.end]);
        points
            .iter()
            .zip(nexts)
            .filter_map(|((at, value), next)| {
                let stands = at.every.saturating_mul(STANDS);
                let length = next.map_or(at.every, |next| next.saturating_sub(at.time)).min(stands);
                (length > 0).then_some(Span { from: at.time, length, value: *value as f64 })
            })
            .collect()
    }

    fn counter(&self, points: &[(At, i64)], unit: Unit) -> Vec<Span> {
        let befores = [(self.start, 0)].into_iter().chain(points.iter().map(|(at, value)| (at.time, *value)));
        befores
            .zip(points)
            .filter_map(|((from, before), (at, value))| {
                // The last reading of a job is made a moment after its end.
                let to = self.end.map_or(at.time, |end| at.time.min(end.max(from + 1)));
                rate(from, before, to, *value, unit)
            })
            .collect()
    }
}

/// The spans of a metric of a whole node within a time. Its counters began with the machine: only differences count.
pub fn within(metric: &Metric, readings: &[At], values: &[Option<i64>], from: i64, to: i64) -> Vec<Span> {
    let points: Vec<(At, i64)> =
        readings.iter().zip(values).filter_map(|(at, value)| Some((*at, (*value)?))).collect();
    let whole = Part { start: i64::MIN, end: None, readings: Vec::new() };
    let spans = match metric.kind {
        Kind::Gauge => whole.gauge(&points),
        Kind::Counter => between(&points, metric.unit),
    };
    spans.into_iter().filter_map(|span| span.within(from, to)).collect()
}

/// The rates between readings.
fn between(points: &[(At, i64)], unit: Unit) -> Vec<Span> {
    let pairs = points.iter().zip(points.iter().skip(1));
    pairs.filter_map(|((at, before), (next, now))| rate(at.time, *before, next.time, *now, unit)).collect()
}

/// The rate at which a counter grew; nothing if it fell or no time passed.
fn rate(from: i64, before: i64, to: i64, now: i64, unit: Unit) -> Option<Span> {
    let scale = if unit == Unit::Nanoseconds { 1.0 } else { 1e9 };
    let length = to.saturating_sub(from);
    let grown = now.checked_sub(before).filter(|grown| *grown >= 0)?;
    (length > 0).then(|| Span { from, length, value: grown as f64 / length as f64 * scale })
}

impl Span {
    /// What of it lies within a time.
    fn within(self, from: i64, to: i64) -> Option<Span> {
        let end = self.from.saturating_add(self.length).min(to);
        let from = self.from.max(from);
        let length = end.saturating_sub(from);
        (length > 0).then_some(Span { from, length, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::metric::{by_id, id};

    fn part(start: i64, end: Option<i64>, times: &[i64], every: i64) -> Part {
        Part { start, end, readings: times.iter().map(|time| At { time: *time, every }).collect() }
    }

    fn check(part: &Part, id: u16, values: &[Option<i64>], expected: &[(i64, i64, f64)]) {
        let spans: Vec<_> = part
            .spans(by_id(id).unwrap(), values)
            .iter()
            .map(|span| (span.from, span.length, span.value))
            .collect();
        assert_eq!(spans, expected);
    }

    #[test]
    fn gauges_stand_until_the_next_reading() {
        let known = |values: &[i64]| values.iter().map(|value| Some(*value)).collect::<Vec<_>>();
        check(
            &part(0, Some(30), &[10, 20], 10),
            id::MEMORY,
            &known(&[5, 7]),
            &[(10, 10, 5.0), (20, 10, 7.0)],
        );
        // Still running: it stands for as long as it was meant to.
        check(&part(0, None, &[10], 10), id::MEMORY, &known(&[5]), &[(10, 10, 5.0)]);
        // Nobody looked for a long time.
        check(&part(0, Some(99), &[10, 90], 10), id::MEMORY, &known(&[5, 7]), &[(10, 20, 5.0), (90, 9, 7.0)]);
        // One that could not be read is not zero.
        let values = [Some(5), None, Some(7)];
        check(&part(0, Some(40), &[10, 20, 30], 10), id::MEMORY, &values, &[(10, 20, 5.0), (30, 10, 7.0)]);
        check(&part(0, Some(40), &[], 10), id::MEMORY, &[], &[]);
    }

    #[test]
    fn counters_become_rates_and_begin_at_zero() {
        let part = part(0, Some(35), &[10, 20, 40], 10);
        let values = [Some(20), Some(30), Some(60)];
        check(&part, id::CPU, &values, &[(0, 10, 2.0), (10, 10, 1.0), (20, 15, 2.0)]);
        check(&part, id::READ_BYTES, &values, &[(0, 10, 2e9), (10, 10, 1e9), (20, 15, 2e9)]);
        // It has lost its past.
        check(&part, id::CPU, &[Some(20), Some(5), Some(20)], &[(0, 10, 2.0), (20, 15, 1.0)]);
        check(&part, id::CPU, &[None, Some(40), None], &[(0, 20, 2.0)]);
    }

    #[test]
    fn of_a_node_only_what_lies_within_the_jobs_time_counts() {
        let readings: Vec<At> = [0, 10, 20, 30].map(|time| At { time, every: 10 }).into();
        let of = |id, values: [Option<i64>; 4], from, to| -> Vec<(i64, i64, f64)> {
            let spans = within(by_id(id).unwrap(), &readings, &values, from, to);
            spans.iter().map(|span| (span.from, span.length, span.value)).collect()
        };
        let values = [Some(100), Some(110), Some(140), Some(5)];
        // The machine was booted between the last two.
        let busy = of(id::NODE_CPU_USER, values, 5, 30);
        assert_eq!(busy, [(5, 5, 1.0), (10, 10, 3.0)]);
        let load = of(id::NODE_LOAD, values, 5, 32);
        assert_eq!(load, [(5, 5, 100.0), (10, 10, 110.0), (20, 10, 140.0), (30, 2, 5.0)]);
        assert_eq!(of(id::NODE_CPU_USER, [None, Some(1), None, Some(21)], 0, 99), [(10, 20, 1.0)]);
        assert_eq!(of(id::NODE_LOAD, values, 100, 200), []);
    }
}
