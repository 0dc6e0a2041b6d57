//! Quotes that a spreadsheet or a CSV writer has put around fields, with those in them doubled: `"say ""hi"""`. `sacct` itself quotes
//! nothing, so a name may also have quotes of its own.

use std::ops::Range;

use memchr::memmem::Finder;

use super::cut::Cuts;

const QUOTE: u8 = b'"';

/// A line without such quotes, and where its fields are; nothing if there are none in it.
pub fn undone(line: &[u8], delimiter: &Finder) -> Option<(Vec<u8>, Cuts)> {
    memchr::memchr(QUOTE, line)?;
    let (mut plain, mut cuts, mut is_changed) = (Vec::with_capacity(line.len()), Cuts::new(), false);
    let mut at = 0;
    loop {
        let begin = plain.len();
        let behind = match quoted(line, at, delimiter, &mut plain) {
            Some(behind) => {
                is_changed = true;
                behind
            }
            None => {
                plain.truncate(begin);
                let behind = delimiter.find(&line[at..]).map_or(line.len(), |length| at + length);
                is_changed |= halved(&line[at..behind], &mut plain);
                behind
            }
        };
        cuts.push(begin..plain.len());
        if behind == line.len() {
            break;
        }
        plain.extend_from_slice(delimiter.needle());
        at = behind + delimiter.needle().len();
    }
    is_changed.then_some((plain, cuts))
}

/// Whether quotes stand beside each other, as they do where somebody doubled them.
pub fn has_doubled(line: &[u8]) -> bool {
    memchr::memchr(QUOTE, line).is_some_and(|at| line[at..].windows(2).any(|pair| pair == [QUOTE; 2]))
}

/// Takes the quotes from a name of a field.
pub fn bare(name: &str) -> &str {
    let name = name.trim();
    name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name)
}

/// The field that begins here, if it is in quotes: puts it together, and gives where its end is.
fn quoted(line: &[u8], begin: usize, delimiter: &Finder, plain: &mut Vec<u8>) -> Option<usize> {
    let mut at = begin + 1;
    (line.get(begin) == Some(&QUOTE)).then_some(())?;
    loop {
        match (line.get(at)?, line.get(at + 1)) {
            (&QUOTE, Some(&QUOTE)) => {
                plain.push(QUOTE);
                at += 2;
            }
            (&QUOTE, _) => {
                let rest = &line[at + 1..];
                return (rest.is_empty() || rest.starts_with(delimiter.needle())).then_some(at + 1);
            }
            (byte, _) => {
                plain.push(*byte);
                at += 1;
            }
        }
    }
}

/// Puts a field without quotes around it, and says whether all quotes in it were doubled. `""` away from any word may be an empty one.
fn halved(field: &[u8], plain: &mut Vec<u8>) -> bool {
    let runs = runs(field);
    let is_empty_word = |run: &Range<usize>| {
        let is_edge =
            |byte: Option<&u8>| byte.is_none_or(|byte| byte.is_ascii() && !byte.is_ascii_alphanumeric());
        run.len() == 2
            && is_edge(run.start.checked_sub(1).and_then(|at| field.get(at)))
            && is_edge(field.get(run.end))
    };
    let is_doubled = runs.len() > 1 && runs.iter().all(|run| run.len() % 2 == 0 && !is_empty_word(run));
    let mut at = 0;
    for run in runs.iter().filter(|_| is_doubled) {
        plain.extend_from_slice(&field[at..run.start + run.len() / 2]);
        at = run.end;
    }
    plain.extend_from_slice(&field[at..]);
    is_doubled
}

/// Where quotes stand together.
fn runs(field: &[u8]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for at in memchr::memchr_iter(QUOTE, field) {
        match runs.last_mut().filter(|run| run.end == at) {
            Some(run) => run.end = at + 1,
            None => runs.push(at..at + 1),
        }
    }
    runs
}
