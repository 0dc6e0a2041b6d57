//! A delimiter, as people can type it.

use std::str::FromStr;

/// What is between two fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delimiter(pub Vec<u8>);

impl FromStr for Delimiter {
    type Err = String;

    /// `\t` is a tab, `\x1f` a byte by its number, `\\` a backslash; a backslash before anything else is one.
    fn from_str(text: &str) -> Result<Delimiter, String> {
        let mut bytes = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('\\') {
            bytes.extend_from_slice(&rest.as_bytes()[..at]);
            let behind = &rest[at + 1..];
            let number = behind.strip_prefix('x').and_then(|behind| behind.get(..2));
            let number = number.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
            let (byte, used) = match (behind.as_bytes().first(), number) {
                (Some(b't'), _) => (b'\t', 1),
                (Some(b'\\'), _) => (b'\\', 1),
                (Some(b'x'), Some(digits)) => (u8::from_str_radix(digits, 16).unwrap_or_default(), 3),
                _ => (b'\\', 0),
            };
            bytes.push(byte);
            rest = &behind[used..];
        }
        bytes.extend_from_slice(rest.as_bytes());
        if bytes.is_empty() || bytes.contains(&b'\n') {
            return Err("it must not be empty or a line break".into());
        }
        Ok(Delimiter(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters_can_be_typed() {
        for (text, expected) in [
            ("|", Some(&b"|"[..])),
            (r"\t", Some(b"\t")),
            ("\t", Some(b"\t")),
            (r"\x1f", Some(b"\x1f")),
            (r"\\", Some(b"\\")),
            (r"\", Some(b"\\")),
            (r"a\tb", Some(b"a\tb")),
            (r"\xg", Some(b"\\xg")),
            ("☃", Some("☃".as_bytes())),
            (r"\x0a", None),
            ("", None),
        ] {
            assert_eq!(
                text.parse::<Delimiter>().ok().map(|delimiter| delimiter.0).as_deref(),
                expected,
                "{text}"
            );
        }
    }
}
