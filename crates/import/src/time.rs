//! Times and durations as batch systems write them.

use std::cell::Cell;

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use record::entry::Nanos;

use crate::number::{fraction, whole};

pub const SECOND: Nanos = 1_000_000_000;

/// 1990: there was no batch system of ours before, and zero in any zone is not a time.
const EARLIEST: i64 = 631_152_000;
/// 2106: where the 32 bits of Slurm's database end.
const LATEST: i64 = 0xffff_ffff;

/// Local times in one zone.
pub struct Clock {
    zone: TimeZone,
    /// Hours since 1970 by the local clock, and how far that is ahead of UTC. Asking the zone costs more than all else
    /// about a time, and most of a log's times are in the same few hours.
    known: Cell<Option<(i64, i64)>>,
}

/// A moment in seconds since 1970; twice a year a local time is two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub first: i64,
    pub second: Option<i64>,
}

impl Moment {
    /// Seconds since 1970, if that can be meant.
    pub fn possible(seconds: u64) -> Option<Moment> {
        let moment = Moment { first: i64::try_from(seconds).ok()?, second: None };
        (EARLIEST..=LATEST).contains(&moment.first).then_some(moment)
    }
}

/// What a text says about a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    Nothing,
    /// A time, but not one that can be meant.
    Impossible,
    At(Moment),
}

impl Clock {
    pub fn new(zone: TimeZone) -> Self {
        Clock { zone, known: Cell::new(None) }
    }

    /// `2016-12-22T07:15:12`, with a blank instead of the T, with `Z` or `+01:00` behind it, or seconds since 1970.
    pub fn time(&self, text: &[u8]) -> Option<Told> {
        if matches!(text, b"" | b"Unknown" | b"None" | b"N/A" | b"0" | b"(null)") {
            return Some(Told::Nothing);
        }
        if let Some(seconds) = whole(text).filter(|_| text.len() > 4) {
            return Some(possible(Moment { first: i64::try_from(seconds).ok()?, second: None }));
        }
        let (local, zone) = text.split_at_checked(19)?;
        let civil = civil(local)?;
        match zone {
            b"" => Some(self.local(civil)),
            _ => Some(possible(Moment { first: seconds(civil) - offset(zone)?, second: None })),
        }
    }

    /// A local time of this zone.
    pub fn local(&self, civil: DateTime) -> Told {
        let local = seconds(civil);
        let hour = local.div_euclid(3600);
        if let Some((_, ahead)) = self.known.get().filter(|(known, _)| *known == hour) {
            return possible(Moment { first: local - ahead, second: None });
        }
        match self.zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => {
                self.learn(civil, hour);
                possible(Moment { first: local - i64::from(offset.seconds()), second: None })
            }
            // The clock went from 2 to 3: what says half past 2 was before that.
            AmbiguousOffset::Gap { before, .. } => {
                possible(Moment { first: local - i64::from(before.seconds()), second: None })
            }
            AmbiguousOffset::Fold { before, after } => possible(Moment {
                first: local - i64::from(before.seconds()),
                second: Some(local - i64::from(after.seconds())),
            }),
        }
    }

    /// Keeps the offset of an hour in which it does not change.
    fn learn(&self, civil: DateTime, hour: i64) {
        let at = |minute: i8, second: i8| {
            let time = civil.with().minute(minute).second(second).build().ok()?;
            match self.zone.to_ambiguous_timestamp(time).offset() {
                AmbiguousOffset::Unambiguous { offset } => Some(i64::from(offset.seconds())),
                _ => None,
            }
        };
        if let (Some(from), Some(to)) = (at(0, 0), at(59, 59)) {
            self.known.set((from == to).then_some((hour, from)));
        }
    }
}

/// Which of two moments each is meant: those that are as far apart as is known, else those in the right order.
pub fn settle(start: Moment, end: Moment, apart: Option<Nanos>) -> (i64, i64) {
    let of = |moment: Moment| [Some(moment.first), moment.second].into_iter().flatten();
    let pairs = || of(start).flat_map(|start| of(end).map(move |end| (start, end)));
    let fits = |(start, end): &(i64, i64)| apart.is_some_and(|apart| nanos(end - start) == Some(apart));
    pairs()
        .find(fits)
        .or_else(|| pairs().find(|(start, end)| end >= start))
        .unwrap_or((start.first, end.first))
}

/// Seconds as we keep them.
pub fn nanos(seconds: i64) -> Option<Nanos> {
    u64::try_from(seconds).ok()?.checked_mul(SECOND)
}

/// `1-02:03:04.567`, `02:03:04` or `03:04.567`.
pub fn duration(text: &[u8]) -> Option<Nanos> {
    let dash = text.iter().position(|byte| *byte == b'-');
    let (days, clock) = match dash {
        Some(at) => (whole(&text[..at])?, &text[at + 1..]),
        None => (0, text),
    };
    let point = clock.iter().position(|byte| *byte == b'.').unwrap_or(clock.len());
    let decimals = clock.get(point + 1..).map_or(Some(0), |decimals| fraction(decimals, SECOND))?;
    let mut parts = clock[..point].rsplit(|byte| *byte == b':').map(whole);
    let (seconds, minutes) = (parts.next()??, parts.next()??);
    let hours = match parts.next() {
        Some(hours) => hours?,
        None if dash.is_none() => 0,
        None => return None,
    };
    if parts.next().is_some() || seconds > 59 || minutes > 59 {
        return None;
    }
    let hours = days.checked_mul(24)?.checked_add(hours)?;
    let seconds = hours.checked_mul(3600)?.checked_add(minutes * 60 + seconds)?;
    seconds.checked_mul(SECOND)?.checked_add(decimals)
}

fn possible(moment: Moment) -> Told {
    if (EARLIEST..=LATEST).contains(&moment.first) { Told::At(moment) } else { Told::Impossible }
}

/// Exactly `YYYY-MM-DDTHH:MM:SS`.
fn civil(text: &[u8]) -> Option<DateTime> {
    let is_mark = |at: usize, marks: &[u8]| text.get(at).is_some_and(|byte| marks.contains(byte));
    let has_form =
        is_mark(4, b"-") && is_mark(7, b"-") && is_mark(10, b"T ") && is_mark(13, b":") && is_mark(16, b":");
    if !has_form || text.len() != 19 {
        return None;
    }
    let two = |at: usize| whole(text.get(at..at + 2)?).map(|number| number as i8);
    let year = whole(text.get(..4)?)? as i16;
    DateTime::new(year, two(5)?, two(8)?, two(11)?, two(14)?, two(17)?, 0).ok()
}

/// By the local clock, as if it were UTC.
fn seconds(civil: DateTime) -> i64 {
    // Howard Hinnant's days_from_civil: a year that begins in March has its leap day at its end.
    let (month, day) = (i64::from(civil.month()), i64::from(civil.day()));
    let year = i64::from(civil.year()) - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    days * 86_400
        + i64::from(civil.hour()) * 3600
        + i64::from(civil.minute()) * 60
        + i64::from(civil.second())
}

/// `Z`, `+01:00`, `+0100` or `+01`, in seconds.
fn offset(text: &[u8]) -> Option<i64> {
    if text == b"Z" {
        return Some(0);
    }
    let (sign, digits) = text.split_first()?;
    let (hours, minutes) = match digits.len() {
        2 => (digits, &b"0"[..]),
        4 => digits.split_at(2),
        5 if digits[2] == b':' => (&digits[..2], &digits[3..]),
        _ => return None,
    };
    let ahead = (whole(hours)? * 3600 + whole(minutes)? * 60) as i64;
    match sign {
        b'+' => Some(ahead),
        b'-' => Some(-ahead),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn berlin() -> Clock {
        Clock::new(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap())
    }

    fn at(first: i64) -> Option<Told> {
        Some(Told::At(Moment { first, second: None }))
    }

    #[test]
    fn times() {
        for (text, expected) in [
            ("2016-12-22T07:15:12", at(1482387312)),
            ("2016-12-22 07:15:12", at(1482387312)),
            ("2016-07-01T12:00:00", at(1467367200)),
            ("2016-07-01T12:00:00Z", at(1467374400)),
            ("2016-07-01T12:00:00-02:30", at(1467383400)),
            ("2016-07-01T12:00:00+0100", at(1467370800)),
            ("2016-02-29T00:00:00Z", at(1456704000)),
            ("2000-03-01T00:00:00Z", at(951868800)),
            ("1482387312", at(1482387312)),
            ("2026-03-29T02:30:00", at(1774747800)),
            ("2026-03-29T03:30:00", at(1774747800)),
            ("2026-10-25T02:30:00", Some(Told::At(Moment { first: 1792888200, second: Some(1792891800) }))),
            ("Unknown", Some(Told::Nothing)),
            ("None", Some(Told::Nothing)),
            ("", Some(Told::Nothing)),
            ("1969-12-31T18:00:00", Some(Told::Impossible)),
            ("1970-01-01T00:00:00", Some(Told::Impossible)),
            ("9999-12-31T23:59:59", Some(Told::Impossible)),
            ("99999999999", Some(Told::Impossible)),
            ("2016-02-30T00:00:00", None),
            ("2016-12-22T24:00:00", None),
            ("2016-12-22T07:15", None),
            ("2016-12-22T07:15:12+1", None),
            ("2016/12/22T07:15:12", None),
            ("2016-12-22T07.15:12", None),
            ("yesterday", None),
            ("17", None),
        ] {
            assert_eq!(berlin().time(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn the_known_hour_is_no_other_hour() {
        // Lord Howe sets its clocks by half an hour; nobody does it within an hour, yet.
        const LORD_HOWE: &str = "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0";
        const WITHIN: &str = "<+00>0<+0030>-0:30,M3.2.0/2:15,M11.1.0/2:45";
        for zone in ["CET-1CEST,M3.5.0,M10.5.0/3", LORD_HOWE, WITHIN, "IST-5:30"] {
            let zone = TimeZone::posix(zone).unwrap();
            let clock = Clock::new(zone.clone());
            let day = jiff::civil::date(2026, 1, 1).at(0, 0, 0, 0);
            for minutes in (0..60 * 24 * 365).step_by(10) {
                let time = day + jiff::SignedDuration::from_mins(minutes);
                assert_eq!(clock.local(time), Clock::new(zone.clone()).local(time), "{time} {zone:?}");
            }
        }
    }

    #[test]
    fn durations() {
        for (text, expected) in [
            ("00:00:24", Some(24_000)),
            ("10-13:27:06", Some(912_426_000)),
            ("37-14:00:00", Some(3_247_200_000)),
            ("100:00:00", Some(360_000_000)),
            ("45:21.005", Some(2_721_005)),
            ("00:00.120", Some(120)),
            ("1-02:03:04.5", Some(93_784_500)),
            ("1-02:03", None),
            ("24", None),
            ("00:60:00", None),
            ("00:00:61", None),
            ("1:2:3:4", None),
            ("-1:00:00", None),
            ("a:00:00", None),
            ("00:00:00.", None),
            ("99999999999999-00:00:00", None),
        ] {
            assert_eq!(duration(text.as_bytes()), expected.map(|ms: u64| ms * 1_000_000), "{text}");
        }
    }

    #[test]
    fn a_job_over_the_end_of_summer_takes_its_time() {
        let (once, twice) =
            (|first| Moment { first, second: None }, |first| Moment { first, second: Some(first + 3600) });
        for (start, end, apart, expected) in [
            (once(100), once(200), None, (100, 200)),
            (once(100), once(50), None, (100, 50)),
            (once(9000), twice(6000), None, (9000, 9600)),
            (once(100), twice(6000), Some(9500), (100, 9600)),
            (twice(6000), once(9700), Some(100), (9600, 9700)),
            (twice(6000), twice(6010), Some(10), (6000, 6010)),
            (twice(6000), twice(5000), None, (6000, 8600)),
        ] {
            assert_eq!(settle(start, end, apart.map(|s: u64| s * SECOND)), expected);
        }
    }
}
