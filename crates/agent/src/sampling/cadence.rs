//! When what is read: aligned to the clock, finer in a job's first seconds and where somebody asked for it.

/// How often to read, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cadence {
    /// The node and all jobs.
    pub every: u64,
    /// Jobs that are younger than `young` are read this often.
    pub young: u64,
    pub young_every: u64,
    /// Nobody gets a finer rate than this.
    pub least: u64,
}

impl Cadence {
    /// How often a job of this age is read, which may have asked for a rate.
    pub fn of_job(&self, age: u64, asked: Option<u64>) -> u64 {
        let usual = if age < self.young { self.young_every.min(self.every) } else { self.every };
        asked.map_or(usual, |asked| asked.max(self.least).min(usual))
    }
}

/// The next multiple of `every` after a time.
pub fn next(time: u64, every: u64) -> u64 {
    let every = every.max(1);
    (time / every).saturating_add(1).saturating_mul(every)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_job_is_read_more_often_when_it_is_young_or_asks_for_it() {
        let cadence = Cadence { every: 60 * S, young: 30 * S, young_every: 5 * S, least: S };
        for (age, asked, expected) in [
            (0, None, 5 * S),
            (29 * S, None, 5 * S),
            (30 * S, None, 60 * S),
            (30 * S, Some(10 * S), 10 * S),
            (30 * S, Some(1), S),
            (30 * S, Some(600 * S), 60 * S),
            (0, Some(20 * S), 5 * S),
            (0, Some(2 * S), 2 * S),
        ] {
            assert_eq!(cadence.of_job(age, asked), expected, "{age} {asked:?}");
        }
        // A site that reads more often than it lets anybody ask for.
        let cadence = Cadence { every: S / 2, ..cadence };
        assert_eq!(cadence.of_job(30 * S, Some(1)), S / 2);
    }

    #[test]
    fn readings_are_aligned_to_the_clock() {
        assert_eq!(next(59 * S, 60 * S), 60 * S);
        assert_eq!(next(60 * S, 60 * S), 120 * S);
        assert_eq!(next(61 * S, 5 * S), 65 * S);
        assert_eq!(next(u64::MAX, 60 * S), u64::MAX);
        assert_eq!(next(7, 0), 8);
    }
}
