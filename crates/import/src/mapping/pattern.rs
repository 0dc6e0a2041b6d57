//! Names with a wildcard: `*` stands for anything, `#` for a digit or more, `|` stands between names that are all meant.

use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Pattern(String);

impl Pattern {
    pub fn matches(&self, text: &str) -> bool {
        self.0.split('|').any(|name| matches(name.as_bytes(), text.as_bytes()))
    }

    /// The text it is, if it stands for one only.
    pub fn literal(&self) -> Option<&str> {
        (!self.0.contains(['*', '#', '|'])).then_some(&*self.0)
    }
}

/// Tries all that a `*` may stand for. Patterns are a site's own, and short.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else {
        return fits(pattern, text).is_some_and(<[u8]>::is_empty);
    };
    let (first, rest) = (&pattern[..star], &pattern[star + 1..]);
    let Some(text) = fits(first, text) else { return false };
    rest.is_empty() || (0..=text.len()).any(|at| matches(rest, &text[at..]))
}

/// What is left of a text after a pattern without `*`.
fn fits<'a>(pattern: &[u8], text: &'a [u8]) -> Option<&'a [u8]> {
    pattern.iter().try_fold(text, |text, byte| match byte {
        b'#' => {
            let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            text.get(digits..).filter(|_| digits > 0)
        }
        byte => text.strip_prefix(&[*byte]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_wildcards() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("eth0", "eth0", true),
            ("eth0", "eth01", false),
            ("*", "", true),
            ("sd*#", "sda1", true),
            ("sd*#", "sda", false),
            ("sd*#", "sdaa12", true),
            ("nvme*p#", "nvme0n1p2", true),
            ("nvme*p#", "nvme0n1", false),
            ("cpu#", "cpu12", true),
            ("cpu#", "cpu-total", false),
            ("cpu#", "cpu", false),
            ("*_temp_*", "a_temp_b", true),
            ("*_temp_*", "temp", false),
            ("a*b*c", "abbbc", true),
            ("a*b*c", "ac", false),
            ("open|close|link_*", "close", true),
            ("open|close|link_*", "link_downed", true),
            ("open|close|link_*", "open|close", false),
            ("open|close", "", false),
        ] {
            assert_eq!(Pattern(pattern.into()).matches(text), expected, "{pattern} {text}");
        }
    }
}
