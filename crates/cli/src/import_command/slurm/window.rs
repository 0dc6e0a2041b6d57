//! Spans of time that Slurm is asked about, each with one query: shorter where there is much or it is slow.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// A query with more jobs, or that takes longer, is followed by one over half the time.
const MANY: u64 = 50_000;
const SLOW: Duration = Duration::from_secs(20);
/// One with less than this share of both is followed by one over twice the time.
const FEW: u64 = MANY / 4;
const QUICK: Duration = Duration::from_secs(5);
/// No span is shorter, unless the end is near.
const SHORTEST: SignedDuration = SignedDuration::from_secs(60);

/// Such a part of a span is not worth a query.
const LITTLE: i32 = 8;

/// From a time to another, in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub from: Timestamp,
    pub to: Timestamp,
}

/// How long the next span is.
#[derive(Debug, Clone)]
pub struct Windows {
    length: SignedDuration,
    longest: SignedDuration,
}

impl Windows {
    pub fn new(longest: Duration) -> Windows {
        let longest = SignedDuration::try_from(longest)
            .unwrap_or(SignedDuration::MAX)
            .max(SignedDuration::from_secs(1));
        Windows { length: longest, longest }
    }

    /// The next span up to this end. What little would be left behind it is part of it.
    pub fn next(&self, from: Timestamp, end: Timestamp) -> Span {
        let to = later(from, self.length);
        Span { from, to: if later(to, self.length / LITTLE) >= end { end } else { to } }
    }

    /// Learns from a query that worked.
    pub fn learn(&mut self, jobs: u64, took: Duration) {
        if jobs > MANY || took > SLOW {
            self.shorten();
        } else if jobs < FEW && took < QUICK {
            self.length = (self.length * 2).min(self.longest);
        }
    }

    /// The next one has half the length: this one was too much.
    pub fn shorten(&mut self) {
        self.length = (self.length / 2).max(SHORTEST.min(self.longest));
    }
}

/// The whole second before, and after.
pub fn floor(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_nanosecond().div_euclid(1_000_000_000) as i64).unwrap_or(time)
}

pub fn ceil(time: Timestamp) -> Timestamp {
    let floor = floor(time);
    if floor == time { time } else { later(floor, SignedDuration::from_secs(1)) }
}

pub fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

pub fn earlier(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_sub(by).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_follows_what_there_is() {
        let mut windows = Windows::new(Duration::from_secs(86_400));
        let (few, many) = (10, MANY + 1);
        let (quick, slow) = (Duration::from_secs(1), SLOW * 2);
        for (jobs, took, expected) in [
            (few, quick, 86_400),
            (many, quick, 43_200),
            (few, slow, 21_600),
            (FEW + 1, quick, 21_600),
            (few, QUICK * 2, 21_600),
            (few, quick, 43_200),
            (few, quick, 86_400),
            (few, quick, 86_400),
        ] {
            windows.learn(jobs, took);
            assert_eq!(windows.length.as_secs(), expected, "{jobs} {took:?}");
        }
        (0..40).for_each(|_| windows.shorten());
        assert_eq!(windows.length, SHORTEST);
        let mut short = Windows::new(Duration::from_secs(10));
        short.shorten();
        assert_eq!(short.length.as_secs(), 10);
    }

    #[test]
    fn spans_lie_side_by_side() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (mut from, end) = (at("2026-01-01T00:00:00Z"), at("2026-01-03T12:00:00Z"));
        let windows = Windows::new(Duration::from_secs(86_400));
        let mut seen = Vec::new();
        while from < end {
            let span = windows.next(from, end);
            seen.push(span.to.to_string());
            from = span.to;
        }
        assert_eq!(seen, ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-03T12:00:00Z"]);
        let (from, end) = (at("2026-01-01T00:00:00Z"), at("2026-01-02T00:00:01Z"));
        assert_eq!(windows.next(from, end), Span { from, to: end });
    }

    #[test]
    fn whole_seconds() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        for (time, before, after) in [
            ("2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
            ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
            ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!((floor(at(time)), ceil(at(time))), (at(before), at(after)), "{time}");
        }
    }
}
