//! A series in a few columns, for a line of text or a small picture.

use crate::series::Span;

/// The value of all nodes together in each of `columns` equal parts of a time: averages over what is known, `None` where
/// nothing is.
pub fn profile(nodes: &[Vec<Span>], start: i64, end: i64, columns: usize) -> Vec<Option<f64>> {
    let length = end.saturating_sub(start).max(1) as f64 / columns.max(1) as f64;
    let edge = |column: usize| length * column as f64;
    (0..columns)
        .map(|column| {
            let (from, to) = (edge(column), edge(column + 1));
            nodes.iter().filter_map(|spans| within(spans, start, from, to)).reduce(|sum, value| sum + value)
        })
        .collect()
}

/// The average of a node between two times, which are told from `start`: a time since 1970 has more digits than a float.
fn within(spans: &[Span], start: i64, from: f64, to: f64) -> Option<f64> {
    let (mut weight, mut sum) = (0.0, 0.0);
    for span in spans {
        let begin = span.from.saturating_sub(start) as f64;
        let end = begin + span.length as f64;
        let shared = end.min(to) - begin.max(from);
        if shared > 0.0 {
            weight += shared;
            sum += shared * span.value;
        }
    }
    (weight > 0.0).then(|| sum / weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_averages_of_their_time() {
        let one = vec![Span { from: 0, length: 10, value: 1.0 }, Span { from: 10, length: 10, value: 3.0 }];
        assert_eq!(profile(std::slice::from_ref(&one), 0, 20, 2), [Some(1.0), Some(3.0)]);
        assert_eq!(profile(std::slice::from_ref(&one), 5, 15, 1), [Some(2.0)]);
        assert_eq!(profile(std::slice::from_ref(&one), 0, 40, 4), [Some(1.0), Some(3.0), None, None]);
        let other = vec![Span { from: 0, length: 10, value: 5.0 }];
        assert_eq!(profile(&[one, other], 0, 20, 2), [Some(6.0), Some(3.0)]);
        assert_eq!(profile(&[], 0, 0, 1), [None]);
        // In nanoseconds of our days, not a little off.
        let day = 1_763_251_200_000_000_001;
        let late =
            vec![Span { from: day, length: 1, value: 1.0 }, Span { from: day + 1, length: 2, value: 4.0 }];
        assert_eq!(profile(&[late], day, day + 3, 3), [Some(1.0), Some(4.0), Some(4.0)]);
    }
}
