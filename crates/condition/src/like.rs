//! Patterns of `like`: `%` stands for any text, `_` for one character, and `\` takes the meaning from the next.

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

#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    Any,
    One,
    Letter(char),
}

fn parts(pattern: &str) -> Vec<Part> {
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
    parts
}

/// Does the whole text fit? Upper and lower case differ.
///
/// When a letter does not fit, the last `%` takes one more: earlier ones need not be tried again, so the time is at
/// most the product of the lengths.
pub(crate) fn like(text: &str, pattern: &str) -> bool {
    let (text, parts) = (text.chars().collect::<Vec<_>>(), parts(pattern));
    let (mut at, mut part) = (0, 0);
    let mut last_any: Option<(usize, usize)> = None;
    while at < text.len() {
        match parts.get(part) {
            Some(Part::Any) => {
                last_any = Some((at, part));
                part += 1;
            }
            Some(Part::One) => (at, part) = (at + 1, part + 1),
            Some(Part::Letter(letter)) if *letter == text[at] => (at, part) = (at + 1, part + 1),
            _ => {
                let Some((taken, any)) = last_any else { return false };
                last_any = Some((taken + 1, any));
                (at, part) = (taken + 1, any + 1);
            }
        }
    }
    parts[part..].iter().all(|part| *part == Part::Any)
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
            assert_eq!(like(text, pattern), expected, "{text} like {pattern}");
        }
        let (text, pattern) = ("a".repeat(10_000), format!("{}b", "%a".repeat(50)));
        assert!(!like(&text, &pattern));
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
