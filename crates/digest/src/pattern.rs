//! Which nodes a site means: `cn[001-128],gpu*`.
//!
//! Brackets are those of the batch system's own lists, and stand for the same names; a `*` is any text.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

/// Some nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pattern {
    /// As it is written.
    text: String,
    items: Vec<Vec<Part>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Ranges(Vec<Range>),
    Any,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    first: u64,
    last: u64,
    /// Shorter numbers have zeros before them.
    digits: usize,
}

/// What is wrong with a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("`{0}` names no node")]
    Empty(String),
    #[error("`{0}` has a bracket without its other")]
    Open(String),
    #[error("`{0}` is neither a number nor a range of numbers")]
    Range(String),
    #[error("`{0}` has more than {PARTS_MAX} brackets and asterisks in one name")]
    TooMany(String),
}

/// Each may be tried at every place of a name.
const PARTS_MAX: usize = 6;
/// Longer numbers do not fit.
const DIGITS_MAX: usize = 18;

impl Pattern {
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        let items = items(text)?.into_iter().map(parts).collect::<Result<Vec<_>, _>>()?;
        let text = text.to_owned();
        if items.is_empty() { Err(PatternError::Empty(text)) } else { Ok(Pattern { text, items }) }
    }

    pub fn matches(&self, name: &str) -> bool {
        self.items.iter().any(|parts| fits(parts, name))
    }
}

/// Splits at commas outside brackets.
fn items(text: &str) -> Result<Vec<&str>, PatternError> {
    let open = || PatternError::Open(text.into());
    let (mut items, mut from, mut is_open) = (Vec::new(), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' if !is_open => is_open = true,
            b']' if is_open => is_open = false,
            b'[' | b']' => return Err(open()),
            b',' if !is_open => {
                items.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    items.push(text[from..].trim());
    items.retain(|item| !item.is_empty());
    if is_open { Err(open()) } else { Ok(items) }
}

fn parts(item: &str) -> Result<Vec<Part>, PatternError> {
    let mut parts = Vec::new();
    let mut rest = item;
    while let Some(at) = rest.find(['[', '*']) {
        parts.push(Part::Text(rest[..at].into()));
        rest = match rest[at + 1..].split_once(']').filter(|_| rest[at..].starts_with('[')) {
            Some((ranges, after)) => {
                parts.push(Part::Ranges(ranges.split(',').map(range).collect::<Result<_, _>>()?));
                after
            }
            None => {
                parts.push(Part::Any);
                &rest[at + 1..]
            }
        };
    }
    parts.push(Part::Text(rest.into()));
    if parts.len() > 2 * PARTS_MAX + 1 { Err(PatternError::TooMany(item.into())) } else { Ok(parts) }
}

fn range(text: &str) -> Result<Range, PatternError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (number(first), number(last)) {
        (Some(from), Some(to)) if from <= to => Ok(Range { first: from, last: to, digits: first.len() }),
        _ => Err(PatternError::Range(text.into())),
    }
}

fn number(digits: &str) -> Option<u64> {
    let is_number = digits.len() <= DIGITS_MAX && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Whether all of a name is what the parts say.
fn fits(parts: &[Part], name: &str) -> bool {
    match parts.split_first() {
        None => name.is_empty(),
        Some((Part::Text(text), rest)) => {
            name.strip_prefix(text.as_str()).is_some_and(|after| fits(rest, after))
        }
        Some((Part::Any, rest)) => {
            name.char_indices().any(|(at, _)| fits(rest, &name[at..])) || fits(rest, "")
        }
        Some((Part::Ranges(ranges), rest)) => {
            let digits = name.bytes().take_while(u8::is_ascii_digit).count();
            (1..=digits)
                .any(|end| ranges.iter().any(|range| range.has(&name[..end])) && fits(rest, &name[end..]))
        }
    }
}

impl Range {
    /// `010` is in `001-128`, and neither `10` nor `0010` is.
    fn has(&self, digits: &str) -> bool {
        let number = number(digits).filter(|number| (self.first..=self.last).contains(number));
        number.is_some_and(|number| format!("{number:0width$}", width = self.digits) == digits)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Pattern::parse(&text).map_err(|error| de::Error::custom(format!("names: {error}")))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_match() {
        for (pattern, yes, no) in [
            ("n1", "n1", "n n11 N1 xn1"),
            ("n1, n2", "n1 n2", "n12"),
            ("n[1-3]", "n1 n3", "n0 n4 n01 n n1x n[1-3]"),
            ("cn[001-128]", "cn001 cn010 cn128", "cn1 cn0010 cn129 cn000"),
            ("n[8-11]", "n8 n11", "n08 n12"),
            ("n[1,5-6]x", "n1x n5x n6x", "n1 n2x n16x"),
            ("r[1-2]n[01-02]", "r1n01 r2n02", "r1n1 r3n01"),
            ("gpu*", "gpu gpu1 gpu-a", "gp xgpu"),
            ("*", "a", ""),
            ("*-ib", "a-ib -ib", "a-ibx"),
            ("n*[1-2]", "n1 na2 n11", "n n3"),
            ("é[1-2]*", "é1 é2ü", "é"),
        ] {
            let parsed = Pattern::parse(pattern).unwrap();
            for name in yes.split(' ') {
                assert!(parsed.matches(name), "{pattern} {name}");
            }
            for name in no.split(' ').filter(|name| !name.is_empty()) {
                assert!(!parsed.matches(name), "{pattern} {name}");
            }
        }
    }

    #[test]
    fn what_is_no_pattern_is_said() {
        for (pattern, said) in [
            ("", "names no node"),
            (" , ", "names no node"),
            ("n[1", "bracket without its other"),
            ("n]1", "bracket without its other"),
            ("n[[1]]", "bracket without its other"),
            ("n[a]", "`a` is neither"),
            ("n[2-1]", "`2-1` is neither"),
            ("n[]", "`` is neither"),
            ("n[+1]", "`+1` is neither"),
            ("*******", "more than 6"),
        ] {
            let error = Pattern::parse(pattern).unwrap_err().to_string();
            assert!(error.contains(said), "{pattern}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_list_matches_the_names_that_it_stands_for(list in "(n|m[x-]?)?(\\[(0[1-3]|[1-9])(-[3-9]{2})?(,[0-9])?\\])?(x|\\[[0-3]-[4-6]\\])?,?z?", other in "[nm]?[0-9]{0,3}x?") {
            if let (Ok(pattern), Ok(names)) = (Pattern::parse(&list), hostlist::expand(&list)) {
                for name in &names {
                    prop_assert!(pattern.matches(name), "{} {}", list, name);
                }
                prop_assert_eq!(pattern.matches(&other), names.contains(&other), "{} {}", list, other);
            }
        }

        #[test]
        fn any_text_is_a_pattern_or_not(text in ".{0,30}|[n0-9\\[\\],*-]{0,30}", name in "[n0-9*-]{0,20}") {
            if let Ok(pattern) = Pattern::parse(&text) {
                let _ = pattern.matches(&name);
                prop_assert_eq!(pattern.to_string(), text);
            }
        }
    }
}
