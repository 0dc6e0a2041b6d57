//! What spans say in a few numbers.

use serde::Serialize;

use crate::series::Span;

/// A metric over all nodes and the whole time of a job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Characteristic {
    pub min: f64,
    pub max: f64,
    /// Weighted with time.
    pub avg: f64,
    /// Half of the time the value was at most this: exact, and weighted with time.
    pub median: f64,
    /// The averages of the nodes with the lowest and the highest one.
    pub node_min: f64,
    pub node_max: f64,
}

impl Characteristic {
    /// Of the spans of each node; `None` without any.
    pub fn of(nodes: &[Vec<Span>]) -> Option<Characteristic> {
        let averages: Vec<f64> = nodes.iter().filter_map(|spans| average(spans)).collect();
        let mut spans: Vec<Span> = nodes.iter().flatten().copied().collect();
        spans.sort_by(|a, b| a.value.total_cmp(&b.value));
        let (first, last) = (spans.first()?, spans.last()?);
        let avg = average(&spans)?;
        Some(Characteristic {
            min: first.value,
            max: last.value,
            // Rounding must not put it outside.
            avg: avg.clamp(first.value, last.value),
            median: median(&spans)?,
            node_min: averages.iter().copied().reduce(f64::min)?,
            node_max: averages.iter().copied().reduce(f64::max)?,
        })
    }
}

fn average(spans: &[Span]) -> Option<f64> {
    let total: f64 = spans.iter().map(|span| span.length as f64).sum();
    (total > 0.0).then(|| spans.iter().map(|span| span.value * span.length as f64).sum::<f64>() / total)
}

/// Of spans in the order of their values.
fn median(spans: &[Span]) -> Option<f64> {
    let total: i128 = spans.iter().map(|span| i128::from(span.length)).sum();
    let mut below = 0;
    for span in spans {
        below += i128::from(span.length);
        if 2 * below >= total {
            return Some(span.value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{in_python, spans};
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use serde_json::json;

    #[test]
    fn time_is_what_weighs() {
        let one = Characteristic::of(&[spans(&[(10, 1.0), (30, 5.0), (20, 2.0)])]).unwrap();
        assert_eq!((one.min, one.max, one.median), (1.0, 5.0, 2.0));
        assert!((one.avg - 200.0 / 60.0).abs() < 1e-12);
        let two = Characteristic::of(&[spans(&[(10, 1.0)]), spans(&[(10, 3.0)]), vec![]]).unwrap();
        assert_eq!((two.node_min, two.node_max, two.avg, two.median), (1.0, 3.0, 2.0, 1.0));
        assert_eq!(Characteristic::of(&[vec![], vec![]]), None);
    }

    /// Computed in another language by another way: each span is repeated as often as it is long.
    const PYTHON: &str = "
import json, statistics, sys
for line in sys.stdin:
    nodes = json.loads(line)
    flat = sorted(v for n in nodes for length, v in n for _ in range(length))
    means = [statistics.fmean(v for length, v in n for _ in range(length)) for n in nodes if n]
    print(json.dumps([min(flat), max(flat), statistics.fmean(flat), statistics.median_low(flat), min(means), max(means)]))
";

    #[test]
    fn python_computes_the_same() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let node = proptest::collection::vec((1..40i64, 0..1000u32), 0..8);
        let strategy = proptest::collection::vec(node, 1..4)
            .prop_filter("some span", |nodes| nodes.iter().any(|n| !n.is_empty()));
        let cases: Vec<Vec<Vec<(i64, u32)>>> =
            (0..200).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
        let lines = in_python(PYTHON, cases.iter().map(|case| json!(case)));
        assert_eq!(lines.len(), cases.len());
        for (case, expected) in cases.iter().zip(lines) {
            let nodes: Vec<Vec<Span>> = case
                .iter()
                .map(|node| spans(&node.iter().map(|(l, v)| (*l, f64::from(*v))).collect::<Vec<_>>()))
                .collect();
            let c = Characteristic::of(&nodes).unwrap();
            for (ours, theirs) in [c.min, c.max, c.avg, c.median, c.node_min, c.node_max]
                .iter()
                .zip(expected.as_array().unwrap())
            {
                assert!((ours - theirs.as_f64().unwrap()).abs() < 1e-9, "{case:?}: {ours} and {theirs}");
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_lies_outside(pairs in proptest::collection::vec((1..i64::MAX / 64, -1e300..1e300f64), 1..20)) {
            let c = Characteristic::of(&[spans(&pairs)]).unwrap();
            prop_assert!(c.min <= c.median && c.median <= c.max);
            prop_assert!(c.min <= c.avg && c.avg <= c.max || !c.avg.is_finite());
        }
    }
}
