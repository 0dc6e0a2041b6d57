//! `types.db`: what the values of each type are called and how they are to be read.
//!
//! ```text
//! # comment
//! if_octets  rx:DERIVE:0:U, tx:DERIVE:0:U
//! ```
//!
//! Bounds are read over: they are for those who draw.

use std::collections::HashMap;

use crate::monitor::NAME_MAX;
use crate::utf8::text;

/// All types of collectd 5.12 and later, for a site that has no file at hand.
pub const SHIPPED: &str = include_str!("types.db");

/// How a value is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Derive,
    Absolute,
}

/// One of the values of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub name: String,
    pub kind: Kind,
}

/// All types.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Types(HashMap<String, Vec<Source>>);

/// What a line of a file is not.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: no type: `{text}`")]
pub struct BadLine {
    pub file: String,
    pub line: usize,
    pub text: String,
}

impl Types {
    pub fn shipped() -> Types {
        let mut types = Types::default();
        // A test reads every line.
        let _ = types.add(SHIPPED.as_bytes(), "types.db");
        types
    }

    /// Adds what a file says; what was said of a type before is replaced. Gives the lines that are none, which do not
    /// stop the rest.
    pub fn add(&mut self, bytes: &[u8], file: &str) -> Vec<BadLine> {
        let mut bad = Vec::new();
        for (line, bytes) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            let text = text(bytes);
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            match parse(text) {
                Some((name, sources)) => {
                    self.0.insert(name, sources);
                }
                None => bad.push(BadLine {
                    file: file.to_owned(),
                    line,
                    text: text.chars().take(NAME_MAX).collect(),
                }),
            }
        }
        bad
    }

    /// The values of a type.
    pub fn get(&self, name: &str) -> Option<&[Source]> {
        self.0.get(name).map(Vec::as_slice)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn parse(text: &str) -> Option<(String, Vec<Source>)> {
    let (name, sources) = text.split_once(char::is_whitespace)?;
    // Commas are for people: blanks alone separate as well.
    let parts = sources.split([',', ' ', '\t']).filter(|part| !part.is_empty());
    let sources: Vec<Source> = parts.map(source).collect::<Option<_>>()?;
    (!sources.is_empty() && name.len() <= NAME_MAX).then(|| (name.to_owned(), sources))
}

/// `rx:DERIVE:0:U`
fn source(text: &str) -> Option<Source> {
    let mut parts = text.split(':');
    let (name, kind) = (parts.next()?, Kind::named(parts.next()?)?);
    let bounds: Vec<&str> = parts.collect();
    let is_bound = |text: &&str| text.eq_ignore_ascii_case("u") || text.parse::<f64>().is_ok();
    let is_whole = bounds.len() == 2 && bounds.iter().all(is_bound);
    (is_whole && !name.is_empty() && name.len() <= NAME_MAX).then(|| Source { name: name.to_owned(), kind })
}

impl Kind {
    pub fn named(word: &str) -> Option<Kind> {
        [
            ("counter", Kind::Counter),
            ("gauge", Kind::Gauge),
            ("derive", Kind::Derive),
            ("absolute", Kind::Absolute),
        ]
        .into_iter()
        .find(|(name, _)| word.eq_ignore_ascii_case(name))
        .map(|(_, kind)| kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(types: &Types, name: &str) -> String {
        let one = |source: &Source| format!("{} {:?}", source.name, source.kind);
        types.get(name).map_or("-".into(), |list| list.iter().map(one).collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn lines_of_every_kind() {
        for (line, expected) in [
            ("t value:GAUGE:0:U", "value Gauge"),
            ("t\tvalue:gauge:-1.5:1e3", "value Gauge"),
            ("t  rx:DERIVE:0:U, tx:DERIVE:0:U\r", "rx Derive, tx Derive"),
            ("t a:COUNTER:U:U,b:ABSOLUTE:0:4294967295", "a Counter, b Absolute"),
            ("t a:GAUGE:0:U b:GAUGE:0:U", "a Gauge, b Gauge"),
            ("  # t value:GAUGE:0:U", "-"),
        ] {
            let mut types = Types::default();
            assert_eq!(types.add(line.as_bytes(), "f"), [], "{line}");
            assert_eq!(shown(&types, "t"), expected, "{line}");
        }
        for line in
            ["t", "t x", "t value:GAUGE", "t value:GAUGE:0", "t value:RATE:0:U", "t :GAUGE:0:U", "t ,"]
        {
            let mut types = Types::default();
            assert_eq!(types.add(format!("\n{line}\nu v:GAUGE:0:U").as_bytes(), "f").len(), 1, "{line}");
            assert_eq!((shown(&types, "t"), types.len()), ("-".into(), 1), "{line}");
        }
    }

    #[test]
    fn a_later_file_says_better() {
        let mut types = Types::shipped();
        assert_eq!(shown(&types, "if_octets"), "rx Derive, tx Derive");
        assert_eq!(types.add(b"if_octets in:COUNTER:0:U\n", "own.db"), []);
        assert_eq!(shown(&types, "if_octets"), "in Counter");
        let bad = types.add(b"\nodd\n", "own.db");
        assert_eq!(bad[0].to_string(), "own.db:2: no type: `odd`");
    }

    #[test]
    fn what_is_shipped_is_whole() {
        let lines = SHIPPED.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
        assert_eq!((Types::default().add(SHIPPED.as_bytes(), ""), Types::shipped().len()), (vec![], lines));
    }
}
