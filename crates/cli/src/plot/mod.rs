//! Values over time as a plot of characters, with axes. Where nothing is known there is a gap.
//!
//! [`canvas`] has the dots, [`axes`] round numbers and times. There are crates for this, but those that fit in size draw no axes of time and
//! join the ends of gaps, and the others bring a whole terminal interface.

mod axes;
mod canvas;

use std::ffi::OsString;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use canvas::Style;

use axes::Scale;
use canvas::{Canvas, Ink};

/// A value that holds from one time to another, in nanoseconds since 1970; with the least and the most of it where these are known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    pub from: i64,
    pub to: i64,
    pub value: f64,
    pub min: f64,
    pub max: f64,
}

/// What is drawn, and how large.
pub struct Plot<'a> {
    /// The values of each node or GPU.
    pub series: &'a [Vec<Span>],
    pub style: Style,
    /// Of the whole plot, in characters.
    pub width: usize,
    /// Of the part with the values.
    pub height: usize,
    pub is_bytes: bool,
    /// A number of the axis, with its unit.
    pub label: &'a dyn Fn(f64) -> String,
    pub zone: TimeZone,
}

/// In one column of dots: the average of the series, and between which values they were.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Column {
    avg: f64,
    min: f64,
    max: f64,
}

/// A label of the axis of time takes so much, with the space beside it.
const TIME_WIDTH: usize = 14;
/// Lines from one number of the other axis to the next.
const LINES_PER_NUMBER: usize = 3;
/// No plot is narrower.
const WIDTH_MIN: usize = 16;

impl Plot<'_> {
    /// The lines of the plot; none if there are no values.
    pub fn lines(&self) -> Vec<String> {
        let all = || self.series.iter().flatten();
        let (Some(from), Some(until)) = (all().map(|span| span.from).min(), all().map(|span| span.to).max())
        else {
            return Vec::new();
        };
        let low = all().map(|span| span.min).fold(f64::INFINITY, f64::min);
        let high = all().map(|span| span.max).fold(f64::NEG_INFINITY, f64::max);
        let scale = Scale::new(low, high, (self.height / LINES_PER_NUMBER).max(2), self.is_bytes);
        let labels: Vec<String> = scale.marks().map(self.label).collect();
        let margin = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
        let width = self.width.saturating_sub(margin + 2).max(WIDTH_MIN);
        let columns = columns(self.series, from, until, width * self.style.dots().0);
        let drawn = draw(&columns, &scale, self.style, width, self.height);
        let mut lines = self.beside(&drawn, &scale, &labels, margin);
        lines.extend(self.below(from, until, width, margin));
        lines
    }

    /// The lines of the canvas behind the axis of values.
    fn beside(&self, drawn: &[String], scale: &Scale, labels: &[String], margin: usize) -> Vec<String> {
        let (axis, tick) = if self.style == Style::Ascii { ('|', '+') } else { ('│', '┤') };
        let mut label_of = vec![None; self.height];
        for (mark, label) in scale.marks().zip(labels) {
            // The last line is that of the least number.
            let line = (1.0 - scale.place(mark)) * self.height.saturating_sub(1) as f64;
            label_of[line.round() as usize] = Some(label);
        }
        let line = |(line, label): (&String, Option<&String>)| {
            let sign = if label.is_some() { tick } else { axis };
            format!("{:>margin$} {sign}{}", label.map_or("", String::as_str), line.trim_end())
        };
        drawn.iter().zip(label_of).map(line).collect()
    }

    /// The axis of time.
    fn below(&self, from: i64, until: i64, width: usize, margin: usize) -> Vec<String> {
        let (corner, axis, tick) =
            if self.style == Style::Ascii { ('+', '-', '+') } else { ('└', '─', '┬') };
        let at = |ns: i64| Timestamp::from_nanosecond(ns.into()).unwrap_or(Timestamp::UNIX_EPOCH);
        let marks = axes::times(at(from), at(until), (width / TIME_WIDTH).max(1), &self.zone);
        let mut line: Vec<char> = vec![axis; width];
        let mut words: Vec<char> = vec![' '; width];
        let mut free = 0;
        for mark in &marks {
            let place = ((width - 1) as f64 * mark.place).round() as usize;
            let text: Vec<char> = mark.text.chars().collect();
            let begin = place.saturating_sub(text.len() / 2).min(width.saturating_sub(text.len()));
            if begin < free || begin + text.len() > width {
                continue;
            }
            line[place] = tick;
            words[begin..begin + text.len()].copy_from_slice(&text);
            free = begin + text.len() + 1;
        }
        let line: String = line.into_iter().collect();
        let words: String = words.into_iter().collect();
        vec![format!("{:margin$} {corner}{line}", ""), format!("{:margin$}  {}", "", words.trim_end())]
    }
}

/// In equal parts of the time; `None` where no series has a value.
fn columns(series: &[Vec<Span>], from: i64, until: i64, count: usize) -> Vec<Option<Column>> {
    let length = until.saturating_sub(from).max(1) as f64 / count.max(1) as f64;
    // Times since 1970 have more digits than a float.
    let since = |ns: i64| ns.saturating_sub(from) as f64;
    let mut sums: Vec<Option<(f64, usize, f64, f64)>> = vec![None; count];
    for spans in series {
        let mut own: Vec<Option<(f64, f64, f64, f64)>> = vec![None; count];
        for span in spans {
            let (begin, end) = (since(span.from), since(span.to).max(since(span.from)));
            let first = ((begin / length) as usize).min(count.saturating_sub(1));
            // What ends with a column is not in the next one.
            let last = (((end / length).ceil() as usize).max(first + 1)).min(count);
            for (at, cell) in own.iter_mut().enumerate().take(last).skip(first) {
                let (left, right) = (length * at as f64, length * (at + 1) as f64);
                // A value without a length counts as well.
                let weight = (end.min(right) - begin.max(left)).max(length * 1e-6);
                let (sum, weights, min, max) = cell.unwrap_or((0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY));
                *cell =
                    Some((sum + weight * span.value, weights + weight, min.min(span.min), max.max(span.max)));
            }
        }
        for (all, own) in sums.iter_mut().zip(own) {
            let Some((sum, weights, min, max)) = own else { continue };
            let (before, known, least, most) = all.unwrap_or((0.0, 0, f64::INFINITY, f64::NEG_INFINITY));
            *all = Some((before + sum / weights, known + 1, least.min(min), most.max(max)));
        }
    }
    let column =
        |(sum, known, min, max): (f64, usize, f64, f64)| Column { avg: sum / known as f64, min, max };
    sums.into_iter().map(|sum| sum.map(column)).collect()
}

/// A line through the averages, and dots at minimum and maximum: every second one, and wherever they change, so that no peak is left out.
fn draw(columns: &[Option<Column>], scale: &Scale, style: Style, width: usize, height: usize) -> Vec<String> {
    let mut canvas = Canvas::new(style, width, height);
    let dots = height * style.dots().1;
    let row = |value: f64| ((1.0 - scale.place(value)) * dots.saturating_sub(1) as f64).round() as usize;
    let mut before: Option<[usize; 3]> = None;
    for (x, column) in columns.iter().enumerate() {
        let now = column.map(|column| [row(column.max), row(column.avg), row(column.min)]);
        if let Some([top, at, bottom]) = now {
            let last = before.unwrap_or([top, at, bottom]);
            for (y, was) in [(top, last[0]), (bottom, last[2])] {
                if x % 2 == 0 || y != was {
                    canvas.set(x, y, Ink::Range);
                }
            }
            (last[1].min(at)..=last[1].max(at)).for_each(|y| canvas.set(x, y, Ink::Line));
        }
        before = now;
    }
    canvas.lines()
}

/// Braille where the terminal's characters are UTF-8, as the environment says.
pub fn style() -> Style {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    style_of(names.into_iter().map(std::env::var_os))
}

/// The first that is set and not empty counts.
fn style_of(mut variables: impl Iterator<Item = Option<OsString>>) -> Style {
    let set = variables.find_map(|value| value.filter(|value| !value.is_empty()));
    let locale = set.unwrap_or_default().to_string_lossy().to_lowercase();
    if locale.contains("utf-8") || locale.contains("utf8") { Style::Braille } else { Style::Ascii }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn span(from: i64, to: i64, value: f64) -> Span {
        Span { from: from * S, to: to * S, value, min: value, max: value }
    }

    fn plot(series: &[Vec<Span>], style: Style) -> Vec<String> {
        let label = |number: f64| format!("{number}");
        let zone = TimeZone::UTC;
        Plot { series, style, width: 40, height: 6, is_bytes: false, label: &label, zone }.lines()
    }

    #[test]
    fn values_have_axes_and_unknown_times_are_gaps() {
        // Half a minute of nothing.
        let spans = vec![span(0, 60, 2.0), span(90, 120, 1.0)];
        let (space, line) = (|count| " ".repeat(count), |count| "-".repeat(count));
        let expected = [
            format!("2 +{}", "*".repeat(19)),
            "  |".into(),
            "  |".into(),
            format!("1 +{}{}", space(27), "*".repeat(10)),
            "  |".into(),
            "0 +".into(),
            format!("  ++{}+{}+", line(17), line(17)),
            format!("   00:00{}00:01{}00:02", space(11), space(11)),
        ];
        assert_eq!(plot(&[spans], Style::Ascii), expected);
    }

    #[test]
    fn several_series_are_their_average_with_a_range() {
        let one = vec![span(0, 100, 0.0)];
        let other = vec![span(0, 100, 4.0)];
        let columns = columns(&[one.clone(), other.clone()], 0, 100 * S, 2);
        assert_eq!(columns, [Some(Column { avg: 2.0, min: 0.0, max: 4.0 }); 2]);
        let lines = plot(&[one, other], Style::Ascii);
        assert!(lines[0].contains("4 +. . . .") && lines[3].contains("*****"), "{lines:#?}");
        // What one of them does not know is the other's.
        let late = vec![span(50, 100, 4.0)];
        let half = super::columns(&[vec![span(0, 100, 2.0)], late], 0, 100 * S, 2);
        assert_eq!(
            half.iter().map(|column| column.map(|column| column.avg)).collect::<Vec<_>>(),
            [Some(2.0), Some(3.0)]
        );
    }

    #[test]
    fn a_peak_is_seen_however_narrow_the_plot() {
        let spans: Vec<Span> =
            (0..10_000).map(|at| span(at, at + 1, if at == 5000 { 100.0 } else { 1.0 })).collect();
        let columns = columns(&[spans], 0, 10_000 * S, 20);
        assert_eq!(columns.iter().flatten().map(|column| column.max).fold(0.0, f64::max), 100.0);
    }

    #[test]
    fn braille_only_where_the_locale_is_utf_8() {
        for (variables, expected) in [
            ([None, None, Some("en_US.UTF-8")], Style::Braille),
            ([None, None, Some("de_DE.utf8")], Style::Braille),
            ([Some("C"), None, Some("en_US.UTF-8")], Style::Ascii),
            ([Some(""), Some("C.UTF-8"), Some("C")], Style::Braille),
            ([None, None, None], Style::Ascii),
        ] {
            assert_eq!(
                style_of(variables.into_iter().map(|value| value.map(OsString::from))),
                expected,
                "{variables:?}"
            );
        }
        let lines = plot(&[vec![span(0, 60, 2.0), span(60, 120, 1.0)]], Style::Braille);
        assert!(lines[0].contains('⠉') && lines[6].contains('┬'), "{lines:#?}");
        assert!(plot(&[vec![]], Style::Braille).is_empty());
    }
}
