//! Lists of nodes as Slurm writes them: `cpn-[01-04,07],gpu1`.
//!
//! A list is items between commas; an item is text with any number of brackets, each with numbers and ranges of them.
//! `r[1-2]n[01-10]` is every `n` of every `r`. The first number of a range says how many digits all of it have at least.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// No cluster has more nodes, and no list of names of them is longer; a damaged list may say `[0-999999999]`.
const NAMES_MAX: u64 = 1 << 18;
const BYTES_MAX: u64 = 64 << 20;
/// Longer numbers are serial numbers or damage, and would not fit.
const DIGITS_MAX: usize = 18;

/// Why a list cannot be expanded or folded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("`{0}` has a bracket that does not close")]
    Open(String),
    #[error("`{0}` is neither a number nor a range of numbers")]
    Range(String),
    #[error("`{0}` stands for more than {NAMES_MAX} nodes, or {BYTES_MAX} bytes of names")]
    TooMany(String),
    #[error("`{0}` cannot be the name of a node")]
    Name(String),
}

/// All names, in the order of the list.
pub fn expand(list: &str) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    let mut bytes = 0;
    for item in items(list)? {
        let parts = parts(item)?;
        let (count, length) = size(&parts).ok_or_else(|| too_many(item))?;
        bytes = count.saturating_mul(length).saturating_add(bytes);
        if count.saturating_add(names.len() as u64) > NAMES_MAX || bytes > BYTES_MAX {
            return Err(too_many(item));
        }
        multiply(&parts, &mut names);
    }
    Ok(names)
}

/// The shortest list of these names, whatever their order and however often they are named. The last number of a name
/// is what is folded.
pub fn fold<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<String, Error> {
    let mut groups: BTreeMap<(&str, &str), BTreeSet<(usize, u64)>> = BTreeMap::new();
    let mut plain = BTreeSet::new();
    for name in names {
        if name.is_empty() || name.contains(['[', ']', ',']) {
            return Err(Error::Name(name.to_owned()));
        }
        match numbered(name) {
            Some((before, digits, number, after)) => {
                groups.entry((before, after)).or_default().insert((digits, number));
            }
            None => drop(plain.insert(name)),
        }
    }
    let folded = groups.iter().map(|((before, after), numbers)| bracket(before, numbers, after));
    Ok(plain.into_iter().map(str::to_owned).chain(folded).collect::<Vec<_>>().join(","))
}

/// A piece of an item: text, or the ranges of a bracket.
enum Part<'a> {
    Text(&'a str),
    Ranges(Vec<Range>),
}

struct Range {
    first: u64,
    last: u64,
    digits: usize,
}

/// Splits at commas outside brackets.
fn items(list: &str) -> Result<Vec<&str>, Error> {
    let mut items = Vec::new();
    let (mut from, mut is_open) = (0, false);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'[' if !is_open => is_open = true,
            b']' if is_open => is_open = false,
            b'[' | b']' => return Err(Error::Open(cut(list))),
            b',' if !is_open => {
                items.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    items.push(&list[from..]);
    items.retain(|item| !item.is_empty());
    if is_open { Err(Error::Open(cut(list))) } else { Ok(items) }
}

fn parts(item: &str) -> Result<Vec<Part<'_>>, Error> {
    let mut parts = Vec::new();
    let mut rest = item;
    while let Some((text, bracket)) = rest.split_once('[') {
        let (ranges, after) = bracket.split_once(']').ok_or_else(|| Error::Open(cut(item)))?;
        parts.push(Part::Text(text));
        parts.push(Part::Ranges(ranges.split(',').map(range).collect::<Result<_, _>>()?));
        rest = after;
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

fn range(text: &str) -> Result<Range, Error> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |digits: &str| {
        let is_number = digits.len() <= DIGITS_MAX && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u64>().ok().filter(|_| is_number)
    };
    match (number(first), number(last)) {
        (Some(from), Some(to)) if from <= to => Ok(Range { first: from, last: to, digits: first.len() }),
        _ => Err(Error::Range(cut(text))),
    }
}

/// How many names the parts stand for, and how long each is at most.
fn size(parts: &[Part]) -> Option<(u64, u64)> {
    let (mut count, mut length) = (1u64, 0u64);
    for part in parts {
        match part {
            Part::Text(text) => length += text.len() as u64,
            Part::Ranges(ranges) => {
                let all = ranges.iter().map(|range| range.last - range.first + 1);
                count = count.checked_mul(all.reduce(u64::saturating_add)?)?;
                length += DIGITS_MAX as u64;
            }
        }
    }
    Some((count, length))
}

/// Appends every combination, the last bracket counting fastest.
fn multiply(parts: &[Part], names: &mut Vec<String>) {
    let mut heads = vec![String::new()];
    for part in parts {
        match part {
            Part::Text(text) => heads.iter_mut().for_each(|head| head.push_str(text)),
            Part::Ranges(ranges) => {
                let longer = heads.iter().flat_map(|head| {
                    let numbers =
                        ranges.iter().flat_map(|r| (r.first..=r.last).map(|number| (number, r.digits)));
                    numbers.map(move |(number, digits)| format!("{head}{number:0digits$}"))
                });
                heads = longer.collect();
            }
        }
    }
    names.append(&mut heads);
}

/// What is before the last number of a name, how many digits that has, the number, and what is after it.
fn numbered(name: &str) -> Option<(&str, usize, u64, &str)> {
    let to = name.rfind(|c: char| c.is_ascii_digit())? + 1;
    let from = name[..to]
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |at| at + name[at..].chars().next().map_or(1, char::len_utf8));
    let digits = &name[from..to];
    let number = digits.parse().ok().filter(|_| digits.len() <= DIGITS_MAX)?;
    Some((&name[..from], digits.len(), number, &name[to..]))
}

/// Ranges go over numbers with as many digits only: `[8-9,10-11]` and `[08-11]` are different names.
fn bracket(before: &str, numbers: &BTreeSet<(usize, u64)>, after: &str) -> String {
    let mut ranges: Vec<(usize, u64, u64)> = Vec::new();
    for &(digits, number) in numbers {
        match ranges.last_mut() {
            Some((same, _, last)) if *same == digits && *last + 1 == number => *last = number,
            _ => ranges.push((digits, number, number)),
        }
    }
    let mut text = String::new();
    for (at, &(digits, first, last)) in ranges.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{first:0digits$}");
        if last > first {
            let _ = write!(text, "-{last:0digits$}");
        }
    }
    if numbers.len() == 1 { format!("{before}{text}{after}") } else { format!("{before}[{text}]{after}") }
}

fn too_many(item: &str) -> Error {
    Error::TooMany(cut(item))
}

/// The beginning of a text, for a message.
fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_expand() {
        for (list, expected) in [
            ("", ""),
            ("n1", "n1"),
            ("n1,n2", "n1 n2"),
            ("n[1-3]", "n1 n2 n3"),
            ("n[08-11]", "n08 n09 n10 n11"),
            ("n[8-11]", "n8 n9 n10 n11"),
            ("n[99-101]x", "n99x n100x n101x"),
            ("n[1,3,5-6]", "n1 n3 n5 n6"),
            (
                "cpn-f13-03-[01-02],cpn-f13-04-[01-02]",
                "cpn-f13-03-01 cpn-f13-03-02 cpn-f13-04-01 cpn-f13-04-02",
            ),
            ("r[1-2]n[01-02],x", "r1n01 r1n02 r2n01 r2n02 x"),
            ("[1-2]", "1 2"),
            ("n[1-2],n[2-3]", "n1 n2 n2 n3"),
            (",n1,,n2,", "n1 n2"),
        ] {
            assert_eq!(expand(list).unwrap().join(" "), expected, "{list}");
        }
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        for list in [
            "n[", "n]", "n[1", "n[1]]", "n[[1]]", "n[]", "n[a]", "n[2-1]", "n[1-2-3]", "n[-1]", "n[+1]",
            "n[1-]",
        ] {
            assert!(expand(list).is_err(), "{list}");
        }
        for list in ["n[1-300000]", "n[1-999]m[1-999]", "n[0-999999999999999999]m[0-999999999999999999]"] {
            assert!(matches!(expand(list), Err(Error::TooMany(_))), "{list}");
        }
        let long = format!("{}[1-200000]", "x".repeat(1000));
        assert!(matches!(expand(&long), Err(Error::TooMany(_))));
        assert!(matches!(expand("n[1-200000],m[1-200000]"), Err(Error::TooMany(_))));
        assert!(fold(["a,b"]).is_err() && fold([""]).is_err());
    }

    #[test]
    fn names_fold() {
        for (names, expected) in [
            ("", ""),
            ("n1", "n1"),
            ("n2 n1 n3 n1", "n[1-3]"),
            ("n08 n09 n10", "n[08-10]"),
            ("n8 n9 n10 n011", "n[8-9,10,011]"),
            ("login n1 n3", "login,n[1,3]"),
            ("n1-ib n2-ib n1", "n1,n[1-2]-ib"),
            ("é1 é2", "é[1-2]"),
            ("n12345678901234567890", "n12345678901234567890"),
        ] {
            assert_eq!(fold(names.split_whitespace()).unwrap(), expected, "{names}");
        }
    }

    proptest! {
        #[test]
        fn what_is_folded_expands_to_the_same(names in proptest::collection::btree_set("[a-cé]{0,2}[0-9]{1,3}[a-b]{0,1}[0-9]{0,2}", 0..40)) {
            let folded = fold(names.iter().map(String::as_str)).unwrap();
            let expanded = expand(&folded).unwrap();
            prop_assert_eq!(expanded.len(), names.len());
            prop_assert_eq!(expanded.into_iter().collect::<BTreeSet<_>>(), names);
        }

        #[test]
        fn any_text_expands_without_a_panic(text in "[n0-9\\[\\],é-]{0,30}|.{0,40}") {
            if let Ok(names) = expand(&text) {
                let _ = fold(names.iter().map(String::as_str));
            }
        }
    }
}
