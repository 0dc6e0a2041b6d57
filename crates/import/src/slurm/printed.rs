//! What `scontrol show` prints: things that begin at the start of a line, each with `Key=value` and blanks or line breaks
//! between them. One line (`-o`) and several are the same to this.
//!
//! Nothing is escaped. Whoever knows which texts people wrote keeps them out; see [`super::live`] for those of users.

use memchr::memmem::find_iter;
use memchr::{memchr, memchr_iter};

use crate::number::{scaled, told};
use crate::sink::{At, Outcome, Problem, Reason};

/// Takes what could not be read.
pub type Report<'a> = &'a mut dyn FnMut(Problem<'_>);

/// One thing as it was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thing<'a> {
    /// From 1, in all of the text.
    pub line: u64,
    pub text: &'a [u8],
}

/// Cuts a text where a line begins with this key and gives what is before the first, too, if anything is.
pub fn things<'a>(text: &'a [u8], key: &[u8]) -> (Option<Thing<'a>>, Vec<Thing<'a>>) {
    let is_start = |at: &usize| *at == 0 || text[*at - 1] == b'\n';
    let starts: Vec<usize> = find_iter(text, key).filter(is_start).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let (mut line, mut counted) = (1, 0);
    let mut thing = |(start, end): (usize, usize)| {
        line += memchr_iter(b'\n', &text[counted..start]).count() as u64;
        counted = start;
        Thing { line, text: &text[start..end] }
    };
    let before = &text[..starts.first().copied().unwrap_or(text.len())];
    let before = Thing { line: 1, text: before };
    let things = starts.iter().copied().zip(ends).map(&mut thing).collect();
    (Some(before).filter(Thing::is_stray), things)
}

impl<'a> Thing<'a> {
    /// Whether it is neither nothing nor the notice that there is nothing.
    fn is_stray(&self) -> bool {
        let text = self.text.trim_ascii();
        let is_notice = text.starts_with(b"No ") && text.ends_with(b" in the system");
        !text.is_empty() && !is_notice
    }

    pub fn first_line(&self) -> &'a [u8] {
        &self.text[..memchr(b'\n', self.text).unwrap_or(self.text.len())]
    }

    pub fn report(&self, file: &str, outcome: Outcome, reason: Reason, report: Report<'_>) {
        report(Problem { file, at: At::Line(self.line), text: self.first_line(), outcome, reason });
    }

    /// What is before the first of these keys.
    pub fn before(self, keys: &[&[u8]]) -> Thing<'a> {
        let end = keys.iter().filter_map(|key| places(self.text, key).next()).min();
        Thing { text: &self.text[..end.unwrap_or(self.text.len())], ..self }
    }

    /// What is behind the first of this key (which has its `=`), up to the next blank.
    pub fn value(&self, key: &[u8]) -> Option<&'a [u8]> {
        let value = self.behind(key)?;
        let end = value.iter().position(u8::is_ascii_whitespace);
        meant(&value[..end.unwrap_or(value.len())])
    }

    /// The same up to the key that follows it, or the end of the line: there are blanks in it.
    pub fn text_until(&self, key: &[u8], next: &[u8]) -> Option<&'a [u8]> {
        let value = self.behind(key)?;
        let end = [places(value, next).next(), memchr(b'\n', value)].into_iter().flatten().min();
        meant(value[..end.unwrap_or(value.len())].trim_ascii())
    }

    fn behind(&self, key: &[u8]) -> Option<&'a [u8]> {
        places(self.text, key).next().map(|at| &self.text[at + key.len()..])
    }

    pub fn word(&self, key: &[u8]) -> Option<String> {
        self.value(key).map(|value| crate::word::text(value).into_owned())
    }

    /// Words between commas.
    pub fn words(&self, key: &[u8]) -> Option<Vec<String>> {
        self.value(key).map(words)
    }

    /// A number with perhaps a unit; `bare` is what it is counted in without.
    pub fn number(&self, key: &'static str, step: u64, bare: u64) -> Result<Option<u64>, Reason> {
        let Some(value) = self.value(key.as_bytes()) else { return Ok(None) };
        let number = scaled(value, step, bare).ok_or_else(|| unreadable(key, value))?;
        Ok(told(number))
    }
}

/// The reason without the `=` of the key.
pub fn unreadable(key: &'static str, value: &[u8]) -> Reason {
    Reason::unreadable(key.trim_end_matches('='), value)
}

pub fn words(list: &[u8]) -> Vec<String> {
    let words = list.split(|byte| *byte == b',').filter(|word| !word.is_empty());
    words.map(|word| crate::word::text(word).into_owned()).collect()
}

/// Where a key is that has a blank or a line break before it.
pub fn places(text: &[u8], key: &[u8]) -> impl Iterator<Item = usize> {
    let is_key = |at: &usize| *at == 0 || text[*at - 1].is_ascii_whitespace();
    find_iter(text, key).filter(is_key).collect::<Vec<_>>().into_iter()
}

/// Slurm has many words for nothing.
pub fn meant(value: &[u8]) -> Option<&[u8]> {
    let is_nothing = matches!(value, b"" | b"(null)" | b"N/A" | b"n/a" | b"NONE" | b"None" | b"Unknown");
    (!is_nothing).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_begin_at_a_line() {
        let text = b"oh\n\nA=1 A=2\n x\nA=3\n A=4\n";
        let (before, found) = things(text, b"A=");
        assert_eq!(before, Some(Thing { line: 1, text: b"oh\n\n" }));
        let expected = [Thing { line: 3, text: b"A=1 A=2\n x\n" }, Thing { line: 5, text: b"A=3\n A=4\n" }];
        assert_eq!(found, expected);
        for nothing in ["", "\n \n", "No nodes in the system\n"] {
            assert_eq!(things(nothing.as_bytes(), b"A="), (None, vec![]), "{nothing:?}");
        }
    }

    #[test]
    fn values_by_key() {
        let thing =
            Thing { line: 1, text: b"A=1 BA=2  B=3\n   OS=Linux 6 #1 \n N=(null) M=5G L=a,,b Why=B=4" };
        for (key, expected) in
            [("A=", Some("1")), ("B=", Some("3")), ("BA=", Some("2")), ("N=", None), ("Z=", None)]
        {
            assert_eq!(thing.value(key.as_bytes()), expected.map(str::as_bytes), "{key}");
        }
        assert_eq!(thing.text_until(b"OS=", b"N="), Some(&b"Linux 6 #1"[..]));
        assert_eq!(thing.text_until(b"A=", b"B="), Some(&b"1 BA=2"[..]));
        assert_eq!(thing.words(b"L="), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(thing.number("M=", 1024, 1), Ok(Some(5 << 30)));
        assert_eq!(thing.number("N=", 1024, 1), Ok(None));
        assert_eq!(thing.number("L=", 1024, 1), Err(Reason::unreadable("L", b"a,,b")));
        assert_eq!(thing.before(&[b"OS=", b"Why="]).text, b"A=1 BA=2  B=3\n   ");
    }
}
