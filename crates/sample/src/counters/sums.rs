//! What the kernel gives for a set of events, and what is made of it.
//!
//! The format, by the flags a leader is opened with (`PERF_FORMAT_GROUP`, `…_TOTAL_TIME_ENABLED`, `…_TOTAL_TIME_RUNNING`), in
//! words of eight bytes: how many events there are, for how long they were wanted, for how long they were counted, both in
//! nanoseconds, and the sum of each event, in the order in which they were opened.

/// Sums since a set was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    pub enabled_ns: u64,
    pub running_ns: u64,
    pub values: Vec<u64>,
}

/// Words before the values.
pub const HEAD: usize = 3;

/// Reads the kernel's format. What is shorter or longer than it says is unknown.
pub fn parse(bytes: &[u8]) -> Option<Sums> {
    let (words, []) = bytes.as_chunks::<8>() else { return None };
    let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
    let count = words.next()?;
    let (enabled_ns, running_ns) = (words.next()?, words.next()?);
    let values: Vec<u64> = words.collect();
    (u64::try_from(values.len()).ok()? == count).then_some(Sums { enabled_ns, running_ns, values })
}

impl Sums {
    /// What was added since `before`. Sums that fell are unknown.
    pub fn since(&self, before: &Sums) -> Option<Sums> {
        if self.values.len() != before.values.len() {
            return None;
        }
        let values = self.values.iter().zip(&before.values).map(|(now, before)| now.checked_sub(*before));
        Some(Sums {
            enabled_ns: self.enabled_ns.checked_sub(before.enabled_ns)?,
            running_ns: self.running_ns.checked_sub(before.running_ns)?,
            values: values.collect::<Option<Vec<u64>>>()?,
        })
    }

    /// For which share of the time it was counted. Unknown where no time passed.
    pub fn share(&self) -> Option<f64> {
        (self.enabled_ns > 0).then(|| (self.running_ns as f64 / self.enabled_ns as f64).min(1.0))
    }

    /// What a value would be had it been counted all the time. One that was wanted and never counted is unknown.
    pub fn scaled(&self, value: u64) -> Option<u64> {
        if self.running_ns >= self.enabled_ns {
            return Some(value);
        }
        let whole = u128::from(value).checked_mul(u128::from(self.enabled_ns))?;
        u64::try_from(whole.checked_div(u128::from(self.running_ns))?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn sums(enabled_ns: u64, running_ns: u64, values: &[u64]) -> Sums {
        Sums { enabled_ns, running_ns, values: values.to_vec() }
    }

    #[test]
    fn formats() {
        for (words, expected) in [
            (&[2, 100, 50, 7, 8][..], Some(sums(100, 50, &[7, 8]))),
            (&[0, 100, 50], Some(sums(100, 50, &[]))),
            (&[2, 100, 50, 7], None),
            (&[2, 100, 50, 7, 8, 9], None),
            (&[u64::MAX, 100, 50, 7], None),
            (&[0, 100], None),
            (&[], None),
        ] {
            assert_eq!(parse(&bytes(words)), expected, "{words:?}");
        }
        assert_eq!(parse(&bytes(&[1, 2, 3, 4])[1..]), None);
    }

    #[test]
    fn values_are_scaled_by_the_time_they_were_counted() {
        for (enabled, running, value, scaled, share) in [
            (100, 100, 7, Some(7), Some(1.0)),
            (100, 50, 7, Some(14), Some(0.5)),
            (100, 0, 0, None, Some(0.0)),
            (0, 0, 0, Some(0), None),
            (100, 101, 7, Some(7), Some(1.0)),
            (u64::MAX, 1, u64::MAX, None, None),
        ] {
            let sums = sums(enabled, running, &[]);
            assert_eq!(sums.scaled(value), scaled, "{enabled} {running} {value}");
            if share.is_some() || enabled == 0 {
                assert_eq!(sums.share(), share);
            }
        }
    }

    #[test]
    fn sums_that_fell_are_unknown() {
        let before = sums(100, 50, &[7, 8]);
        for (now, expected) in [
            (sums(300, 150, &[9, 8]), Some(sums(200, 100, &[2, 0]))),
            (sums(300, 150, &[9, 7]), None),
            (sums(99, 150, &[9, 8]), None),
            (sums(300, 49, &[9, 8]), None),
            (sums(300, 150, &[9]), None),
        ] {
            assert_eq!(now.since(&before), expected, "{now:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(sums) = parse(&bytes) {
                prop_assert_eq!(bytes.len(), 8 * (HEAD + sums.values.len()));
            }
        }

        #[test]
        fn what_is_written_is_read(enabled: u64, running: u64, values in proptest::collection::vec(any::<u64>(), 0..9)) {
            let mut words = vec![values.len() as u64, enabled, running];
            words.extend(&values);
            let read = parse(&bytes(&words));
            prop_assert_eq!(read, Some(sums(enabled, running, &values)));
        }

        #[test]
        fn scaling_never_shrinks(enabled: u64, running: u64, value: u64) {
            let sums = sums(enabled, running, &[]);
            if let Some(scaled) = sums.scaled(value) {
                prop_assert!(scaled >= value);
            }
            if let Some(share) = sums.share() {
                prop_assert!((0.0..=1.0).contains(&share));
            }
        }
    }
}
