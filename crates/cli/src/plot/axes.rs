//! Round numbers and times for the axes of a plot.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

/// From nothing, or from the least value if that is below, in equal steps that are round numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    pub low: f64,
    pub step: f64,
    pub steps: usize,
}

/// Steps that are easy to read.
const DECIMAL: [f64; 4] = [1.0, 2.0, 5.0, 10.0];
/// The same for bytes, where 1024 is round.
const BINARY: f64 = 1024.0;

impl Scale {
    /// Has room for values between two; `steps` at most.
    pub fn new(low: f64, high: f64, steps: usize, is_bytes: bool) -> Scale {
        let (low, high) = (low.min(0.0), high.max(0.0));
        let span = if high > low { high - low } else { 1.0 };
        // Below nothing there may be one step more.
        let steps = steps.max(2);
        let mut step = round(span / (steps - usize::from(low < 0.0)).max(1) as f64, is_bytes);
        let count = |step: f64| ((high / step).ceil() - (low / step).floor()).max(1.0) as usize;
        while count(step) > steps {
            step = round(step * 1.01, is_bytes);
        }
        Scale { low: (low / step).floor() * step, step, steps: count(step) }
    }

    pub fn high(&self) -> f64 {
        self.low + self.step * self.steps as f64
    }

    /// Where a value stands between the ends: 0 to 1.
    pub fn place(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high() - self.low)).clamp(0.0, 1.0)
    }

    pub fn marks(&self) -> impl Iterator<Item = f64> {
        (0..=self.steps).map(|at| self.low + self.step * at as f64)
    }
}

/// The next round number that is not less.
fn round(number: f64, is_bytes: bool) -> f64 {
    if !is_bytes || number < 1.0 {
        let power = 10f64.powf(number.log10().floor());
        return DECIMAL
            .map(|digit| digit * power)
            .into_iter()
            .find(|step| *step >= number * 0.999_999)
            .unwrap_or(number);
    }
    let power = BINARY.powf((number.ln() / BINARY.ln()).floor());
    let mut step = power;
    while step < number {
        step *= 2.0;
    }
    step
}

/// Seconds between marks of time, from the shortest.
const SECONDS: [i64; 20] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800,
    604_800,
];
const DAY: i64 = 86_400;

/// A mark on the axis of time: where between the ends, and what it says.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    pub place: f64,
    pub text: String,
}

/// Round local times between two, `count` at most.
pub fn times(from: Timestamp, until: Timestamp, count: usize, zone: &TimeZone) -> Vec<Mark> {
    let span = until.duration_since(from).as_secs_f64().max(1e-9);
    let fits = |step: &&i64| span / **step as f64 <= count.max(1) as f64;
    let step = SECONDS.iter().find(fits).copied().unwrap_or_else(|| {
        let weeks = (span / 604_800.0 / count.max(1) as f64).ceil();
        weeks as i64 * 604_800
    });
    let form = if step < 60 {
        "%H:%M:%S"
    } else if step < DAY {
        "%H:%M"
    } else {
        "%m-%d"
    };
    let mut marks = Vec::new();
    let mut at = first(from, step, zone);
    while let Some(time) = at.filter(|time| time.timestamp() <= until) {
        let place = time.timestamp().duration_since(from).as_secs_f64() / span;
        if place >= 0.0 {
            marks.push(Mark { place, text: time.strftime(form).to_string() });
        }
        at = time.checked_add(SignedDuration::from_secs(step)).ok();
    }
    marks
}

/// The first round time that is not before this one: round from midnight on.
fn first(from: Timestamp, step: i64, zone: &TimeZone) -> Option<Zoned> {
    let local = from.to_zoned(zone.clone());
    let midnight = local.start_of_day().ok()?;
    let since = from.duration_since(midnight.timestamp()).as_secs_f64();
    let steps = (since / step as f64).ceil() as i64;
    midnight.checked_add(SignedDuration::from_secs(steps * step)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_between_round_numbers() {
        for (low, high, is_bytes, expected) in [
            (0.0, 7.3, false, (0.0, 2.0, 4)),
            (0.0, 0.0, false, (0.0, 0.5, 1)),
            (3.0, 3.9, false, (0.0, 1.0, 4)),
            (0.0, 100.0, false, (0.0, 50.0, 2)),
            (-3.0, 9.0, false, (-5.0, 5.0, 3)),
            (0.0, 0.012, false, (0.0, 0.005, 3)),
            (0.0, 3e9, true, (0.0, 1073741824.0, 3)),
            (0.0, 17e9, true, (0.0, 4294967296.0, 4)),
            (0.0, 1500.0, true, (0.0, 512.0, 3)),
        ] {
            let scale = Scale::new(low, high, 4, is_bytes);
            assert_eq!((scale.low, scale.step, scale.steps), expected, "{low} {high}");
            assert!(scale.place(low) >= 0.0 && scale.high() >= high);
        }
        assert_eq!(Scale { low: 0.0, step: 2.0, steps: 4 }.place(2.0), 0.25);
    }

    #[test]
    fn times_are_round_where_the_reader_is() {
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let of = |from: &str, until: &str, count| {
            let marks = times(from.parse().unwrap(), until.parse().unwrap(), count, &zone);
            marks.iter().map(|mark| format!("{} {:.2}", mark.text, mark.place)).collect::<Vec<_>>()
        };
        assert_eq!(
            of("2026-01-01T10:10:00Z", "2026-01-01T12:10:00Z", 4),
            ["11:30 0.17", "12:00 0.42", "12:30 0.67", "13:00 0.92"]
        );
        assert_eq!(
            of("2026-01-01T10:00:05Z", "2026-01-01T10:00:11Z", 4),
            ["11:00:06 0.17", "11:00:08 0.50", "11:00:10 0.83"]
        );
        assert_eq!(
            of("2026-01-01T10:00:00Z", "2026-01-04T10:00:00Z", 4),
            ["01-02 0.18", "01-03 0.51", "01-04 0.85"]
        );
        assert_eq!(of("2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z", 4), ["11:00:00 0.00"]);
        assert!(of("2020-01-01T10:00:00Z", "2026-01-04T10:00:00Z", 4).len() <= 5);
    }
}
