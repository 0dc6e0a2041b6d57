//! Times as people write them.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

/// How times may be written, for help and errors.
pub const FORMS: &str =
    "2h, 30m, 7d (ago), today, yesterday, 2026-11-01, 2026-11-01T12:30, 2026-11-01T12:30:00Z";

/// Understands a time; what is not said is taken from `now`, in its zone.
pub fn parse(text: &str, now: &Zoned) -> Result<Timestamp> {
    let text = text.trim();
    let midnight = |date: Date| Ok(date.to_zoned(now.time_zone().clone())?.timestamp());
    match text {
        "now" => return Ok(now.timestamp()),
        "today" => return midnight(now.date()),
        "yesterday" => return midnight(now.date().yesterday()?),
        _ => {}
    }
    if let Some(ago) = ago(text) {
        return Ok(now.timestamp().checked_sub(ago)?);
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    if let Ok(time) = text.parse::<DateTime>() {
        return Ok(time.to_zoned(now.time_zone().clone())?.timestamp());
    }
    bail!("{text:?} is not a time; write for example {FORMS}")
}

/// Understands how long something takes: 5s, 10m, 1d.
pub fn duration(text: &str) -> Result<Duration> {
    let wrong = || format!("{text:?} is not how long something takes; write for example 5s, 10m, 1h or 1d");
    let time = ago(text.trim()).and_then(|time| Duration::try_from(time).ok());
    time.filter(|time| !time.is_zero()).with_context(wrong)
}

/// A number and a unit: so long ago.
fn ago(text: &str) -> Option<SignedDuration> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(at);
    let seconds = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return None,
    };
    Some(SignedDuration::from_secs(number.parse::<i64>().ok()?.checked_mul(seconds)?))
}

/// A time for people: in their zone, to the second.
pub fn local(text: &str) -> String {
    match text.parse::<Timestamp>() {
        Ok(time) => time.to_zoned(TimeZone::system()).strftime("%F %T").to_string(),
        Err(_) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_it_takes() {
        for (text, expected) in [("5s", 5), ("10m", 600), ("1h", 3600), (" 1d ", 86_400)] {
            assert_eq!(duration(text).unwrap().as_secs(), expected, "{text}");
        }
        for text in ["", "5", "0s", "-5s", "soon", "2026-01-01"] {
            assert!(duration(text).unwrap_err().to_string().contains("write for example"), "{text}");
        }
    }

    #[test]
    fn many_ways_to_say_it() {
        let now: Zoned = "2026-11-16T10:20:30+01:00[+01:00]".parse().unwrap();
        for (text, expected) in [
            ("now", "2026-11-16T09:20:30Z"),
            ("2h", "2026-11-16T07:20:30Z"),
            ("90s", "2026-11-16T09:19:00Z"),
            ("7d", "2026-11-09T09:20:30Z"),
            ("today", "2026-11-15T23:00:00Z"),
            ("yesterday", "2026-11-14T23:00:00Z"),
            ("2026-11-01", "2026-10-31T23:00:00Z"),
            ("2026-11-01T12:30", "2026-11-01T11:30:00Z"),
            ("2026-11-01 12:30:15", "2026-11-01T11:30:15Z"),
            ("2026-11-01T12:30:00Z", "2026-11-01T12:30:00Z"),
        ] {
            assert_eq!(parse(text, &now).unwrap().to_string(), expected, "{text}");
        }
        for text in ["", "2x", "soon", "h", "99999999999999999999d", "2026-13-01"] {
            let error = parse(text, &now).unwrap_err().to_string();
            assert!(error.contains("write for example") || error.contains("2026-13"), "{text}: {error}");
        }
    }
}
