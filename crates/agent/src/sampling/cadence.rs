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
        asked.map_or(usual, |asked| asked.clamp(self.least, self.every).min(usual))
    }
}

/// The next multiple of `every` after a time.
pub fn next(time: u64, every: u64) -> u64 {
    let every = every.max(1);
    (time / every).saturating_add(1).saturating_mul(every)
}

/// `5s`, `500ms`, `2m`, or seconds.
pub fn parse_rate(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let scale = match unit {
        "ms" => 1e6,
        "" | "s" => 1e9,
        "m" | "min" => 60e9,
        _ => return None,
    };
    let nanos = number.parse::<f64>().ok()? * scale;
    (nanos.is_finite() && (1e6..=86_400e9).contains(&nanos)).then_some(nanos as u64)
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
    }

    #[test]
    fn readings_are_aligned_to_the_clock() {
        assert_eq!(next(59 * S, 60 * S), 60 * S);
        assert_eq!(next(60 * S, 60 * S), 120 * S);
        assert_eq!(next(61 * S, 5 * S), 65 * S);
        assert_eq!(next(u64::MAX, 60 * S), u64::MAX);
        assert_eq!(next(7, 0), 8);
    }

    #[test]
    fn rates_as_people_write_them() {
        for (text, expected) in [
            ("5s", Some(5 * S)),
            ("5", Some(5 * S)),
            ("500ms", Some(S / 2)),
            ("2m", Some(120 * S)),
            ("0.5", Some(S / 2)),
            ("", None),
            ("0s", None),
            ("-1s", None),
            ("5h", None),
            ("1e9", None),
            ("999999999", None),
        ] {
            assert_eq!(parse_rate(text.as_bytes()), expected, "{text}");
        }
    }
}
