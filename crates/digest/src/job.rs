//! A job on all its nodes: what it reserved, what it used, and whether that is the last word.

use record::metric::Metric;
use serde::Serialize;

use crate::on_node::{OnNode, Stretch};
use crate::series::{Part, STANDS, Span};
use crate::threshold::{Reserved, Shares};
use crate::{Characteristic, Site, coverage};

/// How far a job is, as far as its readings tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Running,
    /// On all nodes it was seen on.
    Ended,
    /// It has no end, and nothing is heard of it any more: it may run or not.
    Unheard,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Ended => "ended",
            State::Unheard => "unheard",
        }
    }

    /// Whether what is known of the job will change if all goes well.
    pub fn is_provisional(self) -> bool {
        self != State::Ended
    }
}

/// What the readings of a job say.
#[derive(Debug, Clone)]
pub struct Job {
    pub state: State,
    pub start: i64,
    /// Absent unless it has ended on all nodes.
    pub end: Option<i64>,
    /// The last reading on any node.
    pub heard: i64,
    /// What is said of the job is said until then.
    pub until: i64,
    pub readings: u64,
    pub coverage: Option<f64>,
    /// Some of the readings were put together.
    pub is_coarse: bool,
    pub is_shared: bool,
    pub reserved: Reserved,
    pub metrics: Vec<OfMetric>,
}

/// A metric of which something is known.
#[derive(Debug, Clone)]
pub struct OfMetric {
    pub metric: &'static Metric,
    /// Absent if it was read only when the job was over, as a short one may be.
    pub characteristic: Option<Characteristic>,
    pub shares: Shares,
    /// A counter's last value is its sum; a gauge's, where it stood when the job ended.
    pub last: Option<i64>,
    /// On each node.
    pub spans: Vec<Vec<Span>>,
}

impl Job {
    /// Of its nodes, whose values are those of `metrics`; `None` without any node.
    pub fn of(nodes: &[OnNode], metrics: &[&'static Metric], site: &Site, now: i64) -> Option<Job> {
        let start = nodes.iter().map(|on| on.part.start).min()?;
        let heard = nodes.iter().filter_map(|on| on.part.readings.last()).map(|at| at.time).max()?;
        let state = state(nodes, site, now);
        let end = nodes.iter().filter_map(|on| on.part.end).max().filter(|_| state == State::Ended);
        let until = match state {
            State::Running => now,
            State::Ended => end.unwrap_or(now),
            State::Unheard => heard,
        };
        let until = until.max(start);
        let parts: Vec<Part> = nodes.iter().map(OnNode::seen).collect();
        Some(Job {
            state,
            start,
            end,
            heard,
            until,
            readings: nodes.iter().map(OnNode::readings).sum(),
            coverage: coverage(&parts, until),
            is_coarse: nodes.iter().any(|on| on.is_coarse),
            is_shared: nodes.iter().any(|on| on.is_shared),
            reserved: Reserved {
                cpus: sum(nodes.iter().map(|on| on.reserved.cpus)),
                memory: sum(nodes.iter().map(|on| on.reserved.memory)),
                gpus: sum(nodes.iter().map(|on| on.reserved.gpus)),
            },
            metrics: metrics.iter().enumerate().filter_map(|(at, of)| metric(nodes, at, of, site)).collect(),
        })
    }
}

fn state(nodes: &[OnNode], site: &Site, now: i64) -> State {
    let mut open = nodes.iter().filter(|on| on.part.end.is_none()).peekable();
    if open.peek().is_none() {
        return State::Ended;
    }
    let is_heard = |on: &OnNode| {
        let last = on.part.readings.last();
        last.is_some_and(|at| {
            now.saturating_sub(at.time) <= site.unheard_ns.max(at.every.saturating_mul(STANDS))
        })
    };
    if open.any(is_heard) { State::Running } else { State::Unheard }
}

fn metric(nodes: &[OnNode], at: usize, metric: &'static Metric, site: &Site) -> Option<OfMetric> {
    let stretches: Vec<Vec<Stretch>> = nodes.iter().map(|on| on.stretches(metric, at)).collect();
    let spans: Vec<Vec<Span>> =
        stretches.iter().map(|of_node| of_node.iter().map(|stretch| stretch.span).collect()).collect();
    let beside = || spans.iter().map(Vec::as_slice).zip(nodes.iter().map(|on| on.reserved));
    let of = OfMetric {
        metric,
        characteristic: Characteristic::of(&spans).map(|known| extremes(known, stretches.iter().flatten())),
        shares: site
            .threshold(metric)
            .map(|threshold| threshold.shares(metric.unit, beside()))
            .unwrap_or_default(),
        last: sum(nodes.iter().map(|on| on.last(at))),
        spans,
    };
    (of.characteristic.is_some() || of.last.is_some()).then_some(of)
}

/// The readings that were put together had a least and a greatest one.
fn extremes<'s>(of_spans: Characteristic, stretches: impl Iterator<Item = &'s Stretch>) -> Characteristic {
    stretches.fold(of_spans, |found, stretch| Characteristic {
        min: stretch.least.map_or(found.min, |least| found.min.min(least)),
        max: stretch.most.map_or(found.max, |most| found.max.max(most)),
        ..found
    })
}

/// A sum of which one part is unknown is unknown.
fn sum(values: impl Iterator<Item = Option<i64>>) -> Option<i64> {
    values.reduce(|sum, value| sum?.checked_add(value?)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::on_node::{Taken, Value};
    use crate::series::Told;
    use record::metric::{by_id, id};

    fn on(end: Option<i64>, last: i64) -> OnNode {
        with(end, last, &[])
    }

    /// A node with one reading.
    fn with(end: Option<i64>, last: i64, values: &[Option<i64>]) -> OnNode {
        let mut on = OnNode::new("n1".into(), None, values.len());
        on.take(Taken {
            told: Told { time: last, start: 0, end, every: 10, steady: None },
            from: last,
            held: 0,
            readings: 1,
            is_coarse: false,
            reserved: Reserved::default(),
            is_shared: false,
            uid: None,
            user: None,
            cluster: None,
            values: values.iter().map(|value| Value::Read(*value)).collect(),
        });
        on.set_the_clock();
        on
    }

    #[test]
    fn a_job_has_ended_when_it_has_on_all_nodes() {
        let site = Site { unheard_ns: 100, ..Site::default() };
        for (nodes, now, expected) in [
            (vec![on(Some(50), 51)], 1000, (State::Ended, Some(50), 50)),
            (vec![on(Some(50), 51), on(Some(60), 61)], 1000, (State::Ended, Some(60), 60)),
            (vec![on(Some(50), 51), on(None, 60)], 150, (State::Running, None, 150)),
            (vec![on(Some(50), 51), on(None, 60)], 161, (State::Unheard, None, 60)),
            // One that is silent does not end the others.
            (vec![on(None, 10), on(None, 900)], 1000, (State::Running, None, 1000)),
            // The server's clock is behind.
            (vec![on(None, 900)], 5, (State::Running, None, 5)),
        ] {
            let job = Job::of(&nodes, &[], &site, now).unwrap();
            assert_eq!((job.state, job.end, job.until), expected, "{nodes:?} at {now}");
        }
        // A reading that was meant to stand longer than that is no silence.
        let rare = Site { unheard_ns: 1, ..Site::default() };
        assert_eq!(Job::of(&[on(None, 10)], &[], &rare, 30).unwrap().state, State::Running);
        assert!(Job::of(&[], &[], &site, 0).is_none());
    }

    #[test]
    fn a_peak_that_was_read_at_the_end_only_is_known_all_the_same() {
        let metrics = [by_id(id::MEMORY_PEAK).unwrap(), by_id(id::MEMORY).unwrap()];
        let short = with(Some(50), 51, &[Some(7), None]);
        let job = Job::of(&[short], &metrics, &Site::default(), 100).unwrap();
        let found: Vec<_> =
            job.metrics.iter().map(|of| (of.metric.name, of.characteristic, of.last)).collect();
        assert_eq!(found, [("memory_peak", None, Some(7))]);
    }
}
