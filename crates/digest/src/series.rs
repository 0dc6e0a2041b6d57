//! From readings to spans: a value, and how long it held.
//!
//! A gauge holds from its reading to the next one. A counter becomes a rate, held between two readings; it began at zero with
//! the job. Nanoseconds per nanosecond are how many were busy (cores), all else is per second. A counter that has fallen lost
//! its past: nothing is known between the two readings.

use std::collections::HashMap;

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

/// A reading as its node's clock told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    pub time: i64,
    /// When the job began and ended there, by the same clock.
    pub start: i64,
    pub end: Option<i64>,
    pub every: i64,
    pub steady: Option<Steady>,
}

/// When a reading was made by a clock that nobody sets: nanoseconds since a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steady {
    pub boot: u64,
    pub since: i64,
}

/// A value, and the nanoseconds for which it held.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    pub from: i64,
    pub length: i64,
    pub value: f64,
}

/// A reading stands for at most so many times the interval it was meant for: beyond that nobody looked.
pub const STANDS: i64 = 2;

impl Part {
    /// Puts together readings in the order in which they were made. The clock may have been set between two of them: all of
    /// one boot are told as it was set at the last.
    pub fn of(told: &[Told]) -> Part {
        let offset = |told: &Told| Some((told.steady?.boot, told.time.saturating_sub(told.steady?.since)));
        let last: HashMap<u64, i64> = told.iter().filter_map(offset).collect();
        let mut part = Part::default();
        for (at, one) in told.iter().enumerate() {
            let set_by = offset(one).and_then(|(boot, then)| last.get(&boot)?.checked_sub(then)).unwrap_or(0);
            let now = |time: i64| time.saturating_add(set_by);
            part.start = if at == 0 { now(one.start) } else { part.start.min(now(one.start)) };
            part.end = one.end.map(now);
            part.readings.push(At { time: now(one.time), every: one.every });
        }
        part
    }

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

    /// `(time, since boot)` of readings of a job that began 10 before the first: its start, and their times.
    fn aligned(told: &[(i64, u64, i64)], end: Option<i64>) -> (i64, Option<i64>, Vec<i64>) {
        let first = told[0].2;
        let told: Vec<Told> = told
            .iter()
            .enumerate()
            .map(|(at, (time, boot, since))| Told {
                time: *time,
                // The agent tells the start anew each time, by the clock as it is set then.
                start: time - (since - first) - 10,
                end: end.filter(|_| at + 1 == told.len()),
                every: 10,
                steady: (*boot > 0).then_some(Steady { boot: *boot, since: *since }),
            })
            .collect();
        let part = Part::of(&told);
        (part.start, part.end, part.readings.iter().map(|at| at.time).collect())
    }

    #[test]
    fn a_clock_that_was_set_moves_no_reading() {
        for (told, expected) in [
            (vec![(1000, 1, 50), (1010, 1, 60), (1020, 1, 70)], vec![1000, 1010, 1020]),
            // An hour ahead, and back.
            (vec![(1000, 1, 50), (4610, 1, 60), (4620, 1, 70)], vec![4600, 4610, 4620]),
            (vec![(5000, 1, 50), (1410, 1, 60), (1420, 1, 70)], vec![1400, 1410, 1420]),
            (vec![(1000, 1, 50), (4610, 1, 60), (1020, 1, 70)], vec![1000, 1010, 1020]),
            // The machine was suspended: both clocks went on.
            (vec![(1000, 1, 50), (4610, 1, 3660)], vec![1000, 4610]),
        ] {
            let (start, end, times) = aligned(&told, Some(told.last().unwrap().0 + 1));
            assert_eq!(
                (start, &times, end),
                (times[0] - 10, &expected, Some(times[times.len() - 1] + 1)),
                "{told:?}"
            );
        }
        // A machine that was booted anew has another clock; one that does not say keeps its times.
        let reboot = [(1000, 1, 50), (1010, 1, 60), (2000, 2, 5)];
        assert_eq!(aligned(&reboot, None).2, [1000, 1010, 2000]);
        let unknown = [(1000, 0, 50), (900, 0, 60)];
        assert_eq!(aligned(&unknown, None).2, [1000, 900]);
        assert_eq!(Part::of(&[]), Part::default());
    }

    #[test]
    fn times_that_fall_have_no_rate() {
        // From agents that do not tell the steady clock.
        let part = part(0, None, &[10, 20, 5, 15], 10);
        let values = [Some(10), Some(20), Some(30), Some(40)];
        check(&part, id::CPU, &values, &[(0, 10, 1.0), (10, 10, 1.0), (5, 10, 1.0)]);
        check(&part, id::MEMORY, &values, &[(10, 10, 10.0), (5, 10, 30.0), (15, 10, 40.0)]);
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
