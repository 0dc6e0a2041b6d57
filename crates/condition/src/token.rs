//! Text to words, signs and literals, each with its place.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use crate::error::{Fault, Problem, Span};
use crate::limits::{MAX_TEXT, MAX_TOKENS};
use crate::unit::{Quantity, Type, Unit, by_symbol};

/// A value as it is written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    /// In the unit that it was written in, so that it is shown as it was meant.
    Quantity(Quantity),
    Text(String),
    Time(i64),
    Boolean(bool),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token {
    pub(crate) span: Span,
    pub(crate) what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
    Literal(Literal),
    Name,
    Keyword(Keyword),
    Sign(&'static str),
    End,
}

/// The words of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keyword {
    And,
    Or,
    Not,
    In,
    Between,
    Like,
    Is,
    Known,
    /// Also written `null`.
    Unknown,
    True,
    False,
    Case,
    When,
    Then,
    Else,
    End,
}

const KEYWORDS: [(&str, Keyword); 17] = [
    ("and", Keyword::And),
    ("or", Keyword::Or),
    ("not", Keyword::Not),
    ("in", Keyword::In),
    ("between", Keyword::Between),
    ("like", Keyword::Like),
    ("is", Keyword::Is),
    ("known", Keyword::Known),
    ("unknown", Keyword::Unknown),
    ("null", Keyword::Unknown),
    ("true", Keyword::True),
    ("false", Keyword::False),
    ("case", Keyword::Case),
    ("when", Keyword::When),
    ("then", Keyword::Then),
    ("else", Keyword::Else),
    ("end", Keyword::End),
];

impl Keyword {
    pub(crate) fn of(word: &str) -> Option<Keyword> {
        KEYWORDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, keyword)| *keyword)
    }
}

/// Signs as they are written and as they are meant; the longer ones first.
const SIGNS: [(&str, &str); 15] = [
    ("==", "="),
    ("!=", "!="),
    ("<>", "!="),
    ("<=", "<="),
    (">=", ">="),
    ("=", "="),
    ("<", "<"),
    (">", ">"),
    ("(", "("),
    (")", ")"),
    (",", ","),
    ("+", "+"),
    ("-", "-"),
    ("*", "*"),
    ("/", "/"),
];

/// All tokens of a text, and the end as the last.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, Fault> {
    if text.len() > MAX_TEXT {
        return Err(Fault::new(&(0..0), Problem::TooLong(MAX_TEXT)));
    }
    let mut reader = Reader { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        let token = reader.token()?;
        if tokens.len() == MAX_TOKENS {
            return Err(Fault::new(&token.span, Problem::TooMany(MAX_TOKENS)));
        }
        let is_end = token.what == What::End;
        tokens.push(token);
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Takes characters for as long as they are wanted.
    fn take(&mut self, is_wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !is_wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn token(&mut self) -> Result<Token, Fault> {
        self.take(char::is_whitespace);
        let start = self.at;
        let rest = self.rest();
        let what = match rest.chars().next() {
            None => What::End,
            Some(quote @ ('\'' | '"')) => What::Literal(Literal::Text(self.quoted(quote)?)),
            Some(c) if starts_number(c, rest) => What::Literal(self.number_or_time()?),
            Some(c) if is_word(c) => word(self.take(is_word)),
            Some(c) => self.sign().ok_or_else(|| {
                let end = start + c.len_utf8();
                Fault::new(&(start..end), Problem::Character(c))
            })?,
        };
        Ok(Token { span: start..self.at, what })
    }

    fn sign(&mut self) -> Option<What> {
        let (written, meant) = SIGNS.iter().find(|(written, _)| self.rest().starts_with(written))?;
        self.at += written.len();
        Some(What::Sign(meant))
    }

    /// A text in quotes; a quote in it is doubled.
    fn quoted(&mut self, quote: char) -> Result<String, Fault> {
        let start = self.at;
        let mut text = String::new();
        let mut letters = self.rest().char_indices().skip(1).peekable();
        while let Some((at, letter)) = letters.next() {
            let at = start + at;
            if letter == '\0' {
                return Err(Fault::new(&(at..at + 1), Problem::Nul));
            }
            if letter == quote && letters.next_if(|(_, next)| *next == quote).is_none() {
                self.at = at + 1;
                return Ok(text);
            }
            text.push(letter);
        }
        Err(Fault::new(&(start..self.text.len()), Problem::Unclosed))
    }

    fn number_or_time(&mut self) -> Result<Literal, Fault> {
        if starts_date(self.rest().as_bytes()) {
            self.time().map(Literal::Time)
        } else {
            self.quantity().map(Literal::Quantity)
        }
    }

    /// A date, with a time of day and an offset if they follow without a space. Without an offset it is UTC.
    fn time(&mut self) -> Result<i64, Fault> {
        let start = self.at;
        self.at += 10;
        if self.rest().starts_with(['T', 't']) {
            self.at += 1;
            self.take(|c| c.is_ascii_digit() || matches!(c, ':' | '.'));
            if self.rest().starts_with(['Z', 'z', '+', '-']) {
                self.at += 1;
                self.take(|c| c.is_ascii_digit() || c == ':');
            }
        }
        self.take(is_word);
        let span = start..self.at;
        let written = &self.text[span.clone()];
        nanoseconds(written).ok_or_else(|| Fault::new(&span, Problem::NoTime))
    }

    fn quantity(&mut self) -> Result<Quantity, Fault> {
        let start = self.at;
        self.take(|c| c.is_ascii_digit());
        if self.rest().starts_with('.') {
            self.at += 1;
            self.take(|c| c.is_ascii_digit());
        }
        self.at += exponent(self.rest().as_bytes());
        let amount = self.text[start..self.at].parse().unwrap_or(f64::INFINITY);
        let unit = self.unit()?;
        let quantity = Quantity { amount, unit };
        if !quantity.base().is_finite() {
            return Err(Fault::new(&(start..self.at), Problem::TooLarge));
        }
        Ok(quantity)
    }

    /// What follows a number without a space.
    fn unit(&mut self) -> Result<Unit, Fault> {
        let start = self.at;
        let symbol = self.take(|c| c.is_alphanumeric() || matches!(c, '_' | '%' | '.'));
        if symbol.is_empty() {
            return Ok(Unit::ONE);
        }
        let mut unit = by_symbol(symbol);
        // `4GB/s` is a rate, `4GB/start` a division.
        let is_per_second = self.rest().strip_prefix("/s").is_some_and(|rest| !rest.starts_with(is_word));
        if is_per_second && unit.is_some_and(|unit| unit.of() == Type::Bytes) {
            self.at += 2;
            unit = by_symbol(&self.text[start..self.at]);
        }
        unit.ok_or_else(|| Fault::new(&(start..self.at), Problem::NoUnit))
    }
}

fn word(word: &str) -> What {
    match Keyword::of(word) {
        Some(Keyword::True) => What::Literal(Literal::Boolean(true)),
        Some(Keyword::False) => What::Literal(Literal::Boolean(false)),
        Some(keyword) => What::Keyword(keyword),
        None => What::Name,
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn starts_number(first: char, rest: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    is_digit(first) || (first == '.' && rest[1..].starts_with(is_digit))
}

/// `2026-01-31` is a date; a difference of such numbers is written with spaces.
fn starts_date(rest: &[u8]) -> bool {
    let fits = |(at, byte): (usize, &u8)| match at {
        4 | 7 => *byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    rest.len() >= 10
        && rest[..10].iter().enumerate().all(fits)
        && !rest.get(10).is_some_and(u8::is_ascii_digit)
}

/// How long the exponent is that a number goes on with: `e9`, `E-7`.
fn exponent(rest: &[u8]) -> usize {
    let Some(b'e' | b'E') = rest.first() else { return 0 };
    let sign = usize::from(matches!(rest.get(1), Some(b'+' | b'-')));
    let digits = rest[1 + sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 { 0 } else { 1 + sign + digits }
}

/// A time that stands in quotes, as SQL has it: with a space before the time of day, too.
pub(crate) fn quoted_time(text: &str) -> Option<i64> {
    let text = text.trim();
    let is_date = starts_date(text.as_bytes());
    is_date.then(|| nanoseconds(&text.replacen(' ', "T", 1))).flatten()
}

fn nanoseconds(written: &str) -> Option<i64> {
    let time = match written.parse::<Timestamp>() {
        Ok(time) => time,
        Err(_) => Offset::UTC.to_timestamp(written.parse::<DateTime>().ok()?).ok()?,
    };
    i64::try_from(time.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<What>, Fault> {
        Ok(tokens(text)?.into_iter().map(|token| token.what).collect())
    }

    #[test]
    fn literals() {
        for (text, expected) in [
            ("5", "5"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1e9", "1000000000"),
            ("1E-7", "1e-7"),
            ("2h", "2h"),
            ("4GiB", "4GiB"),
            ("0.2GB/s", "0.2GB/s"),
            ("1.5e3kB", "1500kB"),
            ("50%", "50%"),
            ("3µs", "3µs"),
        ] {
            match of(text).unwrap().as_slice() {
                [What::Literal(Literal::Quantity(found)), What::End] => {
                    assert_eq!(found.to_string(), expected)
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        for (text, expected) in [
            ("'a'", "a"),
            ("\"it's\"", "it's"),
            ("'it''s'", "it's"),
            ("''''", "'"),
            ("''", ""),
            ("'ä\n;--'", "ä\n;--"),
        ] {
            assert_eq!(of(text).unwrap(), [What::Literal(Literal::Text(expected.into())), What::End]);
        }
    }

    #[test]
    fn times() {
        const DAY: i64 = 86_400_000_000_000;
        const HOUR: i64 = 3_600_000_000_000;
        for (text, expected) in [
            ("1970-01-02", DAY),
            ("1970-01-02T01:00", DAY + HOUR),
            ("1970-01-02T01:00:00", DAY + HOUR),
            ("1970-01-02T01:00Z", DAY + HOUR),
            ("1970-01-02T01:00:00.5Z", DAY + HOUR + 500_000_000),
            ("1970-01-02T01:00+01:00", DAY),
            ("1970-01-01T23:00:00-01:00", DAY),
        ] {
            assert_eq!(of(text).unwrap(), [What::Literal(Literal::Time(expected)), What::End], "{text}");
        }
        for text in
            ["2026-13-01", "2026-02-30", "2026-01-01T", "2026-01-01T25:00", "9999-01-01", "2026-01-01x"]
        {
            assert_eq!(tokens(text).unwrap_err(), Fault::new(&(0..text.len()), Problem::NoTime), "{text}");
        }
        // Not a date: a difference.
        assert_eq!(of("2026-1-1").unwrap().len(), 6);
    }

    #[test]
    fn signs_and_words() {
        use What::{Keyword as Word, Sign};
        let name = What::Name;
        for (text, expected) in [
            ("a==b", vec![name.clone(), Sign("="), name.clone()]),
            ("a<>b", vec![name.clone(), Sign("!="), name.clone()]),
            ("a<=-b", vec![name.clone(), Sign("<="), Sign("-"), name.clone()]),
            ("NOT Null", vec![Word(Keyword::Not), Word(Keyword::Unknown)]),
            ("4GB/start", vec![of("4GB").unwrap()[0].clone(), Sign("/"), name.clone()]),
            ("4h/s", vec![of("4h").unwrap()[0].clone(), Sign("/"), name]),
        ] {
            assert_eq!(of(text).unwrap()[..expected.len()], expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_token_is_said_with_its_place() {
        for (text, span, problem) in [
            ("a ; b", 2..3, Problem::Character(';')),
            ("a ! b", 2..3, Problem::Character('!')),
            ("ä", 0..2, Problem::Character('ä')),
            ("a\0", 1..2, Problem::Character('\0')),
            ("a = 'x\0'", 6..7, Problem::Nul),
            ("a = 'x", 4..6, Problem::Unclosed),
            ("a = 'x''", 4..8, Problem::Unclosed),
            ("5gb", 1..3, Problem::NoUnit),
            ("1.2.3", 3..5, Problem::NoUnit),
            ("5 %", 2..3, Problem::Character('%')),
            ("1e999", 0..5, Problem::TooLarge),
            ("1e308PiB", 0..8, Problem::TooLarge),
        ] {
            assert_eq!(tokens(text).unwrap_err(), Fault::new(&span, problem), "{text}");
        }
    }

    #[test]
    fn limits() {
        assert_eq!(tokens(&" ".repeat(MAX_TEXT)).unwrap().len(), 1);
        let long = tokens(&" ".repeat(MAX_TEXT + 1)).unwrap_err();
        assert_eq!(long.problem, Problem::TooLong(MAX_TEXT));
        assert_eq!(tokens(&"(".repeat(MAX_TOKENS - 1)).unwrap().len(), MAX_TOKENS);
        assert_eq!(tokens(&"(".repeat(MAX_TOKENS)).unwrap_err().problem, Problem::TooMany(MAX_TOKENS));
    }
}
