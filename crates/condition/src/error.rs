//! What is wrong with a condition, and where: a message, the line, and a mark under the place.

use std::fmt;
use std::ops::Range;

use unicode_width::UnicodeWidthChar;

use crate::like::PatternError;
use crate::unit::{Type, WRITTEN};

/// Longer lines are shown in part, so that the mark stays under its place on a terminal.
const WIDEST: usize = 100;
/// So much is shown before the place then.
const BEFORE: usize = 40;

/// Bytes of the text.
pub type Span = Range<usize>;

/// An error in a condition. Its text has the line with a mark under the place.
#[derive(Debug, Clone, PartialEq)]
pub struct ConditionError {
    pub problem: Problem,
    /// Where, in bytes of the text; empty at its end.
    pub span: Span,
    text: String,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    #[error("the condition is longer than {0} bytes")]
    TooLong(usize),
    #[error("the condition has more than {0} words and signs")]
    TooMany(usize),
    #[error("the condition is nested more than {0} times")]
    TooDeep(usize),
    #[error("the condition has {found} {what}, at most {most} are allowed: ask for less at a time")]
    TooCostly { what: &'static str, found: usize, most: usize },
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error("{0:?} has no meaning here")]
    Character(char),
    #[error("a text cannot have a NUL in it")]
    Nul,
    #[error("the text has no closing quote")]
    Unclosed,
    #[error("the number is too large")]
    TooLarge,
    #[error("no such unit; there are {}", units())]
    NoUnit,
    #[error("no such time; a time is written 2026-01-31, 2026-01-31T10:00 or 2026-01-31T10:00:00+01:00")]
    NoTime,
    #[error("expected {expected}, found {found}")]
    Expected { expected: &'static str, found: String },
    #[error("comparisons do not follow each other: put `and` between them, or one in parentheses")]
    Chained,
    #[error("to ask for what is not known, write `is unknown` or `is known`")]
    ComparedWithUnknown,
    #[error("no column `{name}`{}", meant(nearest))]
    NoColumn { name: String, nearest: Option<String> },
    #[error("`{text}` is no {column}{}", meant_word(nearest))]
    NoWord { column: String, text: String, nearest: Option<&'static str> },
    #[error("no function `{name}`; there are {}", known.join(", "))]
    NoFunction { name: String, known: Vec<&'static str> },
    #[error("`{name}` takes {takes}")]
    Arguments { name: &'static str, takes: &'static str },
    #[error("expected {expected}; this is {found}")]
    Type { expected: Type, found: Type },
    #[error("expected {expected}; this is {found}")]
    Kind { expected: &'static str, found: Type },
    #[error("a number without its unit; expected {0}")]
    NeedsUnit(Type),
    #[error("`{sign}` has no meaning between these: {left}; {right}{}", hint(*left, *right))]
    Arithmetic { sign: &'static str, left: Type, right: Type },
    #[error("division by zero")]
    DivisionByZero,
    #[error("expected one value")]
    NoValue,
    #[error("a pattern is a text in quotes: `%` stands for any text, `_` for one character")]
    NoPattern,
    #[error("expected a text in quotes, such as 'libblas*': `*` stands for any text, `?` for one character")]
    NoGlob,
    #[error("`\\` in a pattern comes before `%`, `_` or `\\`")]
    Escape,
}

fn units() -> String {
    WRITTEN.iter().map(|unit| unit.symbol()).collect::<Vec<_>>().join(" ")
}

fn meant(nearest: &Option<String>) -> String {
    match nearest {
        Some(name) => format!("; is it `{name}`? (A text is written in quotes.)"),
        None => "; a text is written in quotes".into(),
    }
}

fn meant_word(nearest: &Option<&str>) -> String {
    nearest.map_or(String::new(), |name| format!("; is it `{name}`?"))
}

fn hint(left: Type, right: Type) -> &'static str {
    if left == Type::Time || right == Type::Time {
        " (a time can only be taken from another, as in `ended - started > 2h`)"
    } else {
        ""
    }
}

/// A problem with its place, inside of this crate.
#[derive(Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) span: Span,
    pub(crate) problem: Problem,
}

impl Fault {
    pub(crate) fn new(span: &Span, problem: Problem) -> Fault {
        Fault { span: span.clone(), problem }
    }

    pub(crate) fn of(self, text: &str) -> ConditionError {
        ConditionError { problem: self.problem, span: self.span, text: text.to_owned() }
    }
}

impl std::error::Error for ConditionError {}

impl fmt::Display for ConditionError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let place = self.place();
        write!(f, "{}", self.problem)?;
        if self.text.contains('\n') {
            write!(f, " (line {})", place.line)?;
        }
        let mark = "^".repeat(place.width);
        write!(f, "\n  {}\n  {:indent$}{mark}", place.shown, "", indent = place.column)
    }
}

/// A line as it is shown, and where the mark is, in columns of a terminal.
struct Place {
    line: usize,
    shown: String,
    column: usize,
    width: usize,
}

impl ConditionError {
    fn place(&self) -> Place {
        let (before, _) = self.text.split_at_checked(self.span.start).unwrap_or((&self.text, ""));
        let begin = before.rfind('\n').map_or(0, |at| at + 1);
        let line = self.text.get(begin..).unwrap_or_default().lines().next().unwrap_or_default();
        let cells: Vec<(usize, char)> = line.char_indices().map(|(at, c)| (begin + at, visible(c))).collect();
        let width_of = |range: Span| -> usize {
            cells.iter().filter(|(at, _)| range.contains(at)).map(|(_, c)| width(*c)).sum()
        };
        let column = width_of(begin..self.span.start);
        // What reaches over the end of the line is marked up to there.
        let marked = width_of(self.span.clone()).clamp(1, WIDEST - BEFORE);
        let number = before.matches('\n').count() + 1;
        if width_of(begin..begin + line.len()) <= WIDEST {
            let shown = cells.iter().map(|(_, c)| c).collect();
            return Place { line: number, shown, column, width: marked };
        }
        let (shown, skipped) = part(cells.iter().map(|(_, c)| *c), column.saturating_sub(BEFORE));
        Place { line: number, shown, column: column - skipped, width: marked }
    }
}

/// About [`WIDEST`] columns of a line after the first `skip`, and by how much the rest has moved to the left.
fn part(line: impl Iterator<Item = char>, skip: usize) -> (String, usize) {
    let (mut shown, mut at, mut skipped) = (String::new(), 0, 0);
    for c in line {
        if at < skip {
            skipped += width(c);
        } else if at < skip + WIDEST {
            shown.push(c);
        }
        at += width(c);
    }
    if skipped == 0 {
        return (shown, 0);
    }
    (format!("…{shown}"), skipped - 1)
}

/// A character that keeps its place: nothing that moves the cursor, or turns the direction of the text.
fn visible(c: char) -> char {
    match c {
        '\t' => ' ',
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

fn width(c: char) -> usize {
    c.width().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line and the mark of an error at `span`.
    fn shown(text: &str, span: Span) -> String {
        let error = Fault::new(&span, Problem::TooLarge).of(text).to_string();
        error.split_once('\n').unwrap().1.to_owned()
    }

    #[test]
    fn the_mark_is_under_its_place() {
        for (text, span, expected) in [
            ("a > b", 4..5, "  a > b\n      ^"),
            ("a > bcd", 4..7, "  a > bcd\n      ^^^"),
            ("a >", 3..3, "  a >\n     ^"),
            ("", 0..0, "  \n  ^"),
            // Two bytes in one column; three bytes in two columns; no column at all.
            ("'é' > b", 7..8, "  'é' > b\n        ^"),
            ("'日本' > b", 11..12, "  '日本' > b\n           ^"),
            ("'e\u{301}' > b", 8..9, "  'e\u{301}' > b\n        ^"),
            ("'日本' > b", 0..8, "  '日本' > b\n  ^^^^^^"),
            ("a\t> b", 4..5, "  a > b\n      ^"),
            ("\u{1b}[2J \u{202e}b", 8..9, "  \u{fffd}[2J \u{fffd}b\n        ^"),
            ("a\nand bc\nor d", 6..8, "  and bc\n      ^^"),
            ("a 'b\nc' d", 2..7, "  a 'b\n    ^^"),
            ("a\r\nb", 3..4, "  b\n  ^"),
        ] {
            assert_eq!(shown(text, span), expected, "{text:?}");
        }
    }

    #[test]
    fn the_line_is_named_where_there_are_several() {
        let error = Fault::new(&(2..3), Problem::DivisionByZero).of("a\nb").to_string();
        assert_eq!(error, "division by zero (line 2)\n  b\n  ^");
    }

    #[test]
    fn of_a_long_line_the_place_is_shown() {
        let text = format!("{} HERE {}", "ab ".repeat(200), "c ".repeat(3000));
        let at = text.find("HERE").unwrap();
        let shown = shown(&text, at..at + 4);
        let (line, mark) = shown.split_once('\n').unwrap();
        assert!(line.chars().count() <= WIDEST + 3, "{line}");
        let marked: String = line.chars().skip(mark.find('^').unwrap()).take(mark.trim().len()).collect();
        assert_eq!(marked, "HERE", "{shown}");
    }
}
