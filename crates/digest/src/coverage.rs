//! On how much of what was expected a job's numbers rest.

use crate::series::Part;

/// The share of the expected readings that are there, over all nodes; `None` for a job without any time.
///
/// Between two readings, and at both ends, as many were expected as intervals fit in; one is there.
pub fn coverage(parts: &[Part], now: i64) -> Option<f64> {
    let (mut expected, mut present) = (0.0, 0.0);
    for part in parts {
        let end = part.end.unwrap_or(now);
        let mut before = part.start;
        for at in &part.readings {
            let fit = intervals(at.time.min(end) - before, at.every);
            expected += fit;
            present += fit.min(1.0);
            before = at.time.max(before);
        }
        // What comes after the last reading was expected in its rhythm.
        let every = part.readings.last().map_or(end - part.start, |at| at.every);
        let fit = intervals(end - before, every);
        expected += fit;
        present += if part.readings.is_empty() { 0.0 } else { fit.min(1.0) };
    }
    (expected > 0.0).then(|| present / expected)
}

/// How many intervals fit into a time. Readings come a little late, which is not yet a missing one.
fn intervals(length: i64, every: i64) -> f64 {
    let fit = length.max(0) as f64 / every.max(1) as f64;
    if fit < 1.5 { fit.min(1.0) } else { fit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::At;

    fn part(start: i64, end: Option<i64>, times: &[i64]) -> Part {
        Part { start, end, readings: times.iter().map(|time| At { time: *time, every: 10 }).collect() }
    }

    #[test]
    fn what_is_missing_shows() {
        for (parts, expected) in [
            (vec![part(0, Some(30), &[10, 20, 30])], Some(1.0)),
            // A little late each time.
            (vec![part(0, Some(33), &[11, 22, 33])], Some(1.0)),
            (vec![part(0, Some(40), &[10, 40])], Some(0.5)),
            (vec![part(0, Some(40), &[10])], Some(0.5)),
            (vec![part(0, Some(5), &[6])], Some(1.0)),
            (vec![part(0, Some(10), &[])], Some(0.0)),
            (vec![part(0, Some(10), &[10]), part(0, Some(30), &[10])], Some(0.75)),
            (vec![part(5, Some(5), &[])], None),
            (vec![], None),
        ] {
            let found = coverage(&parts, 100);
            assert!(
                found == expected || found.zip(expected).is_some_and(|(a, b)| (a - b).abs() < 1e-9),
                "{parts:?}: {found:?}, not {expected:?}"
            );
        }
        assert_eq!(coverage(&[part(0, None, &[10, 20])], 25), Some(1.0));
    }
}
