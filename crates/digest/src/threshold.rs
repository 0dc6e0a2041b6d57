//! For which share of the time a metric was beyond a site's thresholds.

use record::metric::Unit;
use serde::{Deserialize, Serialize};

use crate::series::Span;

/// What a threshold is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    ReservedCpus,
    ReservedMemory,
    ReservedGpus,
}

/// When a metric is low, and when it is high.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// The bounds are shares of this; without it, they are values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<Of>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// What was reserved; what is not known is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Reserved {
    pub cpus: Option<i64>,
    pub memory: Option<i64>,
    pub gpus: Option<i64>,
}

/// Shares of the time that is known; absent without such a time, or without the bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Shares {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<f64>,
}

impl Threshold {
    /// Of the spans of each node, and what was reserved there; a metric in this unit.
    pub fn shares<'a>(&self, of: Unit, nodes: impl Iterator<Item = (&'a [Span], Reserved)>) -> Shares {
        let (mut total, mut below, mut above) = (0i128, 0i128, 0i128);
        for (spans, reserved) in nodes {
            // A node of which nobody knows what was reserved has no weight.
            let Some(unit) = self.unit(of, reserved) else { continue };
            let is_low = |value: f64| self.low.is_some_and(|low| value < low * unit);
            let is_high = |value: f64| self.high.is_some_and(|high| value > high * unit);
            for span in spans {
                let length = i128::from(span.length);
                total += length;
                below += if is_low(span.value) { length } else { 0 };
                above += if is_high(span.value) { length } else { 0 };
            }
        }
        let share = |part: i128| (total > 0).then(|| part as f64 / total as f64);
        Shares { below: self.low.and(share(below)), above: self.high.and(share(above)) }
    }

    /// What a bound of one means on a node.
    fn unit(&self, of: Unit, reserved: Reserved) -> Option<f64> {
        let amount = match self.of {
            None => return Some(1.0),
            Some(Of::ReservedCpus) => reserved.cpus,
            Some(Of::ReservedMemory) => reserved.memory,
            Some(Of::ReservedGpus) => reserved.gpus,
        };
        // Of one GPU there are a hundred hundredths.
        let whole = if of == Unit::Hundredths { 100.0 } else { 1.0 };
        // Nothing is no share of nothing.
        amount.filter(|amount| *amount > 0).map(|amount| amount as f64 * whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{in_python, spans};
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use serde_json::json;

    fn cpus(cpus: i64) -> Reserved {
        Reserved { cpus: Some(cpus), ..Reserved::default() }
    }

    #[test]
    fn shares_of_the_known_time() {
        let of_cores = Threshold { of: Some(Of::ReservedCpus), low: Some(0.1), high: Some(0.9) };
        let high_only = Threshold { high: Some(3.0), ..Threshold::default() };
        let of_gpus = Threshold { of: Some(Of::ReservedGpus), ..of_cores };
        let gpus = Reserved { gpus: Some(2), ..Reserved::default() };
        let (idle, busy) = (spans(&[(30, 0.1), (10, 4.0)]), spans(&[(40, 4.0)]));
        let gpu = spans(&[(10, 19.0), (20, 21.0), (10, 181.0)]);
        for (threshold, nodes, below, above) in [
            (of_gpus, vec![(&gpu, gpus)], Some(0.25), Some(0.25)),
            (of_cores, vec![(&idle, cpus(4)), (&busy, cpus(4))], Some(0.375), Some(0.625)),
            // On the boundary it is neither.
            (of_cores, vec![(&idle, cpus(1))], Some(0.0), Some(0.25)),
            // Not known, or nothing: no weight.
            (of_cores, vec![(&idle, cpus(4)), (&busy, Reserved::default())], Some(0.75), Some(0.25)),
            (of_cores, vec![(&idle, cpus(0))], None, None),
            (of_cores, vec![], None, None),
            (high_only, vec![(&idle, Reserved::default())], None, Some(0.25)),
            (Threshold::default(), vec![(&idle, cpus(1))], None, None),
        ] {
            let unit =
                if threshold.of == Some(Of::ReservedGpus) { Unit::Hundredths } else { Unit::Nanoseconds };
            let nodes = || nodes.iter().map(|(spans, reserved)| (spans.as_slice(), *reserved));
            let found = threshold.shares(unit, nodes());
            assert_eq!(found, Shares { below, above }, "{threshold:?} of {:?}", nodes().collect::<Vec<_>>());
        }
    }

    /// By another way: each span is repeated as often as it is long, and each moment is judged on its own.
    const PYTHON: &str = "
import json, sys
from fractions import Fraction
for line in sys.stdin:
    low, high, nodes = json.loads(line)
    moments = [Fraction(v, n['cpus']) for n in nodes if n['cpus'] for length, v in n['spans'] for _ in range(length)]
    share = lambda fits: len(list(filter(fits, moments))) / len(moments) if moments else None
    print(json.dumps([share(lambda v: v < Fraction(low, 8)), share(lambda v: v > Fraction(high, 8))]))
";

    #[test]
    fn python_computes_the_same() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let node = (0..5i64, proptest::collection::vec((1..40i64, 0..40u32), 0..8));
        let strategy = (0..8u32, 8..16u32, proptest::collection::vec(node, 1..4));
        let cases: Vec<_> = (0..200).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
        // Eighths and whole numbers are exact in both languages.
        let lines = cases.iter().map(|(low, high, nodes)| {
            let nodes: Vec<_> =
                nodes.iter().map(|(cpus, spans)| json!({"cpus": cpus, "spans": spans})).collect();
            json!([low, high, nodes])
        });
        let expected = in_python(PYTHON, lines);
        assert_eq!(expected.len(), cases.len());
        for ((low, high, nodes), expected) in cases.iter().zip(expected) {
            let (low, high) = (Some(f64::from(*low) / 8.0), Some(f64::from(*high) / 8.0));
            let nodes: Vec<(Vec<Span>, Reserved)> = nodes
                .iter()
                .map(|(n, pairs)| {
                    let pairs: Vec<_> = pairs.iter().map(|(l, v)| (*l, f64::from(*v))).collect();
                    (spans(&pairs), cpus(*n))
                })
                .collect();
            let threshold = Threshold { of: Some(Of::ReservedCpus), low, high };
            let beside = nodes.iter().map(|(spans, reserved)| (spans.as_slice(), *reserved));
            let Shares { below, above } = threshold.shares(Unit::Nanoseconds, beside);
            for (ours, theirs) in [below, above].into_iter().zip(expected.as_array().unwrap()) {
                let is_same = match (ours, theirs.as_f64()) {
                    (Some(ours), Some(theirs)) => (ours - theirs).abs() < 1e-12,
                    (ours, theirs) => ours == theirs,
                };
                assert!(is_same, "{nodes:?}: {ours:?} and {theirs}");
            }
        }
    }
}
