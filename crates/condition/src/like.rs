//! Patterns of `like`: `%` stands for any text, `_` for one character, and `\` takes the meaning from the next.

use crate::limits::{MAX_PATTERN, MAX_WILDCARDS};

/// Does each `\` stand before something that it takes the meaning from? The database would refuse some others only
/// when it comes to a row.
pub(crate) fn is_pattern(pattern: &str) -> bool {
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if letter == '\\' && !matches!(letters.next(), Some('%' | '_' | '\\')) {
            return false;
        }
    }
    true
}

/// A pattern that a text fits or not: of `like`, or a glob as shells have it.
///
/// Users write them, so no pattern may take long: the database gets one of its plain functions or a regular expression, which RE2
/// matches in time linear in the text. Its own LIKE and GLOB try every way to fit a pattern: `%_a%_a%_a%_a` took 24 s where RE2
/// took 4 ms, and did not stop when it was told to.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Any,
    One,
    Letter(char),
    /// One of these ranges, or with true none of them.
    Class(Vec<(char, char)>, bool),
}

/// A pattern that is too much work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a pattern has at most {MAX_PATTERN} characters and {MAX_WILDCARDS} wildcards: write a shorter one")]
pub struct PatternError;

impl Pattern {
    /// Of `like`. What is no pattern is read as far as it makes sense.
    pub fn of_like(pattern: &str) -> Pattern {
        let mut letters = pattern.chars();
        let mut parts = Vec::new();
        while let Some(letter) = letters.next() {
            parts.push(match letter {
                '%' => Part::Any,
                '_' => Part::One,
                '\\' => Part::Letter(letters.next().unwrap_or('\\')),
                letter => Part::Letter(letter),
            });
        }
        Pattern::of(parts)
    }

    /// `*` is any text, `?` one character, `[a-z]` one of these and `[!a-z]` none of these; all else is itself.
    pub fn of_glob(glob: &str) -> Pattern {
        let (mut parts, mut rest) = (Vec::new(), glob);
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            parts.push(match letter {
                '*' => Part::Any,
                '?' => Part::One,
                '[' => match class(rest) {
                    Some((class, behind)) => {
                        rest = behind;
                        class
                    }
                    None => Part::Letter('['),
                },
                letter => Part::Letter(letter),
            });
        }
        Pattern::of(parts)
    }

    /// Of wildcards beside each other, those for one character come first and one for any text is enough.
    fn of(parts: Vec<Part>) -> Pattern {
        let mut short: Vec<Part> = Vec::with_capacity(parts.len());
        for part in parts {
            match (short.last(), part) {
                (Some(Part::Any), Part::Any) => {}
                (Some(Part::Any), Part::One) => {
                    let last = short.len() - 1;
                    short.insert(last, Part::One);
                }
                (_, part) => short.push(part),
            }
        }
        Pattern { parts: short }
    }

    /// Whether it is short enough for a user to ask for. A text without wildcards is compared as it is.
    pub fn check(&self) -> Result<(), PatternError> {
        let wildcards = self.parts.iter().filter(|part| !matches!(part, Part::Letter(_))).count();
        let is_long = wildcards > MAX_WILDCARDS || wildcards > 0 && self.parts.len() > MAX_PATTERN;
        if is_long { Err(PatternError) } else { Ok(()) }
    }

    /// SQL that says whether `what` fits, with one `?`, and the value of that. Unknown stays unknown.
    pub fn sql(&self, what: &str) -> (String, String) {
        let (function, value) = match &self.parts[..] {
            [Part::Any, inner @ .., Part::Any] if plain(inner).is_some() => ("contains", plain(inner)),
            [inner @ .., Part::Any] if plain(inner).is_some() => ("prefix", plain(inner)),
            [Part::Any, inner @ ..] if plain(inner).is_some() => ("suffix", plain(inner)),
            all => match plain(all) {
                Some(text) => return (format!("({what} = CAST(? AS VARCHAR))"), text),
                None => ("regexp_full_match", None),
            },
        };
        (format!("{function}({what}, CAST(? AS VARCHAR))"), value.unwrap_or_else(|| self.regex()))
    }

    /// For RE2: a line break is a character like others.
    fn regex(&self) -> String {
        let mut regex = "(?s)".to_owned();
        for part in &self.parts {
            match part {
                Part::Any => regex.push_str(".*"),
                Part::One => regex.push('.'),
                Part::Letter(letter) => escape(&mut regex, *letter),
                Part::Class(ranges, is_negated) => {
                    regex.push_str(if *is_negated { "[^" } else { "[" });
                    for (first, last) in ranges {
                        escape(&mut regex, *first);
                        regex.push('-');
                        escape(&mut regex, *last);
                    }
                    regex.push(']');
                }
            }
        }
        regex
    }

    /// Does the whole text fit? Upper and lower case differ.
    ///
    /// When a letter does not fit, the last `Any` takes one more: earlier ones need not be tried again, so the time is at
    /// most the product of the lengths.
    pub fn fits(&self, text: &str) -> bool {
        let (text, parts) = (text.chars().collect::<Vec<_>>(), &self.parts);
        let (mut at, mut part) = (0, 0);
        let mut last_any: Option<(usize, usize)> = None;
        while at < text.len() {
            match parts.get(part) {
                Some(Part::Any) => {
                    last_any = Some((at, part));
                    part += 1;
                }
                Some(one) if one.fits(text[at]) => (at, part) = (at + 1, part + 1),
                _ => {
                    let Some((taken, any)) = last_any else { return false };
                    last_any = Some((taken + 1, any));
                    (at, part) = (taken + 1, any + 1);
                }
            }
        }
        parts[part..].iter().all(|part| *part == Part::Any)
    }
}

impl Part {
    /// One character.
    fn fits(&self, letter: char) -> bool {
        match self {
            Part::Any => false,
            Part::One => true,
            Part::Letter(own) => *own == letter,
            Part::Class(ranges, is_negated) => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&letter)) != *is_negated
            }
        }
    }
}

/// The text, if there is no wildcard in it.
fn plain(parts: &[Part]) -> Option<String> {
    let letter = |part: &Part| match part {
        Part::Letter(letter) => Some(*letter),
        _ => None,
    };
    parts.iter().map(letter).collect()
}

/// What stands between `[` and `]`, and what is behind; `None` if it is no class, so that `[` is itself.
fn class(text: &str) -> Option<(Part, &str)> {
    let (is_negated, text) = match text.strip_prefix(['!', '^']) {
        Some(text) => (true, text),
        None => (false, text),
    };
    // A `]` that comes first is one of the characters.
    let first = text.chars().next()?.len_utf8();
    let end = first + text.get(first..)?.find(']')?;
    let letters: Vec<char> = text[..end].chars().collect();
    let (mut ranges, mut at) = (Vec::new(), 0);
    while let Some(from) = letters.get(at) {
        let to = letters.get(at + 2).filter(|_| letters.get(at + 1) == Some(&'-'));
        // A range the wrong way round has nothing in it.
        ranges.extend((to.is_none_or(|to| from <= to)).then(|| (*from, *to.unwrap_or(from))));
        at += if to.is_some() { 3 } else { 1 };
    }
    (!ranges.is_empty()).then(|| (Part::Class(ranges, is_negated), &text[end + 1..]))
}

fn escape(regex: &mut String, letter: char) {
    match letter {
        letter if letter.is_ascii_control() => {
            regex.push_str(&format!("\\x{{{:x}}}", u32::from(letter)));
        }
        letter if letter.is_ascii_punctuation() => regex.extend(['\\', letter]),
        letter => regex.push(letter),
    }
}

/// The pattern for `like` with `\\` that means what a glob does: `*` is any text, `?` one character, all else itself.
pub fn of_glob(glob: &str) -> String {
    let mut pattern = String::with_capacity(glob.len());
    for letter in glob.chars() {
        match letter {
            '*' => pattern.push('%'),
            '?' => pattern.push('_'),
            '%' | '_' | '\\' => pattern.extend(['\\', letter]),
            other => pattern.push(other),
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_those_of_shells() {
        for (glob, expected) in [("gmx*", "gmx%"), ("a?_%", "a_\\_\\%"), ("x", "x"), ("\\", "\\\\")] {
            assert_eq!(of_glob(glob), expected);
        }
    }

    #[test]
    fn texts_and_patterns() {
        for (text, pattern, expected) in [
            ("", "", true),
            ("", "%", true),
            ("", "_", false),
            ("abc", "abc", true),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "%b%", true),
            ("abc", "a_c", true),
            ("abc", "a_", false),
            ("abc", "ABC", false),
            ("aXbXc", "a%X%c", true),
            ("aab", "a%ab", true),
            ("日本", "__", true),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("a_", "a\\_", true),
            ("a\\b", "a\\\\b", true),
            ("x", "%%x%%", true),
        ] {
            assert_eq!(Pattern::of_like(pattern).fits(text), expected, "{text} like {pattern}");
        }
        let (text, pattern) = ("a".repeat(10_000), format!("{}b", "%a".repeat(50)));
        assert!(!Pattern::of_like(&pattern).fits(&text));
    }

    #[test]
    fn globs_fit_as_in_shells() {
        for (glob, text, expected) in [
            ("python[23]", "python3", true),
            ("python[23]", "python4", false),
            ("python[!23]", "python4", true),
            ("[a-c-]x", "bx", true),
            ("[a-c-]x", "-x", true),
            ("[]a]", "]", true),
            ("[z-a]", "m", false),
            ("[ab", "[ab", true),
            ("a[.]b", "a.b", true),
            ("a[.]b", "axb", false),
            ("*/gmx*", "/opt/gmx_mpi", true),
            ("?", "日", true),
            ("100%_\\", "100%_\\", true),
        ] {
            assert_eq!(Pattern::of_glob(glob).fits(text), expected, "{glob} {text}");
        }
    }

    #[test]
    fn simple_patterns_use_plain_functions() {
        for (pattern, expected, value) in [
            ("abc", "(x = CAST(? AS VARCHAR))", "abc"),
            ("", "(x = CAST(? AS VARCHAR))", ""),
            ("a\\%%", "prefix(x, CAST(? AS VARCHAR))", "a%"),
            ("%", "prefix(x, CAST(? AS VARCHAR))", ""),
            ("%.so", "suffix(x, CAST(? AS VARCHAR))", ".so"),
            ("%%a%", "contains(x, CAST(? AS VARCHAR))", "a"),
            ("a%b", "regexp_full_match(x, CAST(? AS VARCHAR))", "(?s)a.*b"),
            ("_%_%_", "regexp_full_match(x, CAST(? AS VARCHAR))", "(?s)....*"),
            ("(_.\n)日", "regexp_full_match(x, CAST(? AS VARCHAR))", "(?s)\\(.\\.\\x{a}\\)日"),
        ] {
            assert_eq!(Pattern::of_like(pattern).sql("x"), (expected.into(), value.into()), "{pattern}");
        }
    }

    #[test]
    fn long_patterns_are_refused_and_long_texts_are_not() {
        let check = |pattern: &str| Pattern::of_like(pattern).check().is_ok();
        assert!(check(&"a".repeat(4096)));
        assert!(check(&format!("{}%", "a".repeat(MAX_PATTERN - 1))));
        assert!(!check(&format!("{}%", "a".repeat(MAX_PATTERN))));
        assert!(check(&"%a".repeat(MAX_WILDCARDS)));
        assert!(!check(&"%a".repeat(MAX_WILDCARDS + 1)));
        assert!(check(&"%".repeat(1000)), "the same as one");
    }

    #[test]
    fn escapes_have_something_to_escape() {
        for (pattern, expected) in
            [("a\\%", true), ("\\\\", true), ("a\\", false), ("\\a", false), ("\\\\\\", false), ("", true)]
        {
            assert_eq!(is_pattern(pattern), expected, "{pattern}");
        }
    }
}
