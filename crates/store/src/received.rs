//! Which numbers of a stream have come: a set of ranges, so that whatever comes twice or late is known.

use std::collections::BTreeMap;

/// A set of numbers as ranges that neither overlap nor touch: first to last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Received(BTreeMap<u64, u64>);

impl Received {
    pub fn contains(&self, number: u64) -> bool {
        self.0.range(..=number).next_back().is_some_and(|(_, last)| number <= *last)
    }

    /// Whether all of the numbers are in the set.
    pub fn contains_all(&self, first: u64, last: u64) -> bool {
        self.0.range(..=first).next_back().is_some_and(|(_, end)| last <= *end)
    }

    /// Adds the numbers from `first` to `last`.
    pub fn insert(&mut self, mut first: u64, mut last: u64) {
        let touching: Vec<(u64, u64)> = self
            .0
            .range(..=last.saturating_add(1))
            .rev()
            .take_while(|(_, end)| end.saturating_add(1) >= first)
            .map(|(start, end)| (*start, *end))
            .collect();
        for (start, end) in touching {
            self.0.remove(&start);
            first = first.min(start);
            last = last.max(end);
        }
        self.0.insert(first, last);
    }

    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(first, last)| (*first, *last))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_a_set_of_numbers(ranges in proptest::collection::vec((0u64..60, 0u64..8), 0..12)) {
            let (mut received, mut numbers) = (Received::default(), BTreeSet::new());
            for (first, more) in ranges {
                received.insert(first, first + more);
                numbers.extend(first..=first + more);
            }
            for number in 0..80 {
                prop_assert_eq!(received.contains(number), numbers.contains(&number));
                let both = numbers.contains(&number) && numbers.contains(&(number + 1));
                prop_assert_eq!(received.contains_all(number, number + 1), both);
            }
            let list: Vec<_> = received.ranges().collect();
            prop_assert!(list.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "{:?}", list);
        }
    }

    #[test]
    fn the_last_number_of_all() {
        let mut received = Received::default();
        received.insert(u64::MAX, u64::MAX);
        received.insert(u64::MAX - 1, u64::MAX - 1);
        assert_eq!(received.ranges().collect::<Vec<_>>(), [(u64::MAX - 1, u64::MAX)]);
    }
}
