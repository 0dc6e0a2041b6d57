//! How long things are kept, as it is said on the command line.

use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};

/// What is kept how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// All records of processes, and what was measured with them.
    pub days: Option<u32>,
    /// Readings as they came; then they are made coarse.
    pub samples: Kept,
    /// What a coarse row stands for.
    pub coarse_step: Span,
    /// What was made coarse.
    pub coarse: Kept,
    /// The rows of jobs that have ended.
    pub jobs: Kept,
}

/// For a time, or for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    Forever,
    For(Span),
}

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub SignedDuration);

/// Why a text is no length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no length of time: a whole number above zero with m, h, d or y for minutes, hours, days or years, as 90d"
)]
pub struct NoSpan(String);

impl Kept {
    /// What is older than this is not kept, in nanoseconds since 1970.
    pub fn before_ns(self, now: Timestamp) -> Option<i64> {
        let Kept::For(span) = self else { return None };
        let before = now.checked_sub(span.0).ok()?;
        i64::try_from(before.as_nanosecond()).ok()
    }
}

impl FromStr for Kept {
    type Err = NoSpan;

    fn from_str(text: &str) -> Result<Kept, NoSpan> {
        if text == "forever" { Ok(Kept::Forever) } else { text.parse().map(Kept::For) }
    }
}

impl FromStr for Span {
    type Err = NoSpan;

    fn from_str(text: &str) -> Result<Span, NoSpan> {
        let seconds = |text: &str| {
            let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
            let seconds: i64 = match unit {
                "m" => 60,
                "h" => 3600,
                "d" => 86_400,
                "y" => 365 * 86_400,
                _ => return None,
            };
            let number: u32 = number.parse().ok().filter(|number| *number > 0)?;
            seconds.checked_mul(i64::from(number))
        };
        let found = seconds(text).ok_or_else(|| NoSpan(text.to_owned()))?;
        Ok(Span(SignedDuration::from_secs(found)))
    }
}

impl Span {
    /// At least a day: what is newer is still asked for as it came.
    pub fn of_a_day(text: &str) -> Result<Kept, String> {
        let kept: Kept = text.parse().map_err(|error: NoSpan| error.to_string())?;
        match kept {
            Kept::For(span) if span.0 < SignedDuration::from_hours(24) => Err("at least 1d".into()),
            kept => Ok(kept),
        }
    }

    /// Between a minute and a day.
    pub fn of_a_step(text: &str) -> Result<Span, String> {
        let span: Span = text.parse().map_err(|error: NoSpan| error.to_string())?;
        if span.0 > SignedDuration::from_hours(24) { Err("at most 1d".into()) } else { Ok(span) }
    }

    pub fn as_ns(self) -> i64 {
        i64::try_from(self.0.as_nanos()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_length_of_time() {
        let seconds = |seconds| Ok(Kept::For(Span(SignedDuration::from_secs(seconds))));
        for (text, expected) in [
            ("forever", Ok(Kept::Forever)),
            ("10m", seconds(600)),
            ("12h", seconds(43_200)),
            ("90d", seconds(90 * 86_400)),
            ("3y", seconds(3 * 365 * 86_400)),
            ("", Err(())),
            ("d", Err(())),
            ("0d", Err(())),
            ("-1d", Err(())),
            ("90", Err(())),
            ("9µ", Err(())),
            ("99999999999y", Err(())),
        ] {
            assert_eq!(text.parse::<Kept>().map_err(drop), expected, "{text}");
        }
    }

    #[test]
    fn a_day_of_readings_is_always_there_and_a_step_is_no_longer() {
        for (text, is_good) in [("23h", false), ("1d", true), ("24h", true), ("forever", true), ("x", false)]
        {
            assert_eq!(Span::of_a_day(text).is_ok(), is_good, "{text}");
        }
        for (text, is_good) in [("1m", true), ("1d", true), ("25h", false), ("forever", false)] {
            assert_eq!(Span::of_a_step(text).is_ok(), is_good, "{text}");
        }
    }

    #[test]
    fn for_ever_has_no_end_and_what_is_longer_than_time_neither() {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(48);
        let before = |text: &str| text.parse::<Kept>().unwrap().before_ns(now);
        assert_eq!(before("1d"), Some(86_400_000_000_000));
        assert_eq!((before("forever"), before("4000000000y")), (None, None));
    }
}
