//! The forms in which the kernel writes about control groups.

use super::{Limit, Stall};
use crate::read::{lines, list, number, words};

/// A file with one number.
pub fn value(text: &[u8]) -> Option<u64> {
    number(text.trim_ascii())
}

/// The number after a name, in a file of `name value` lines.
pub fn named(text: &[u8], name: &[u8]) -> Option<u64> {
    lines(text).find_map(|line| number(line.strip_prefix(name)?.strip_prefix(b" ")?.trim_ascii_end()))
}

/// A limit of either version: `max`, or a number. The first version has the largest number of whole pages for no limit,
/// which depends on the size of a page; nobody has half of that.
pub fn limit(text: &[u8]) -> Option<Limit> {
    match text.trim_ascii() {
        b"max" => Some(Limit::Unlimited),
        text => {
            number(text).map(|bytes| if bytes >= 1 << 62 { Limit::Unlimited } else { Limit::Bytes(bytes) })
        }
    }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=12`, and `full` likewise.
pub fn pressure(text: &[u8]) -> Stall {
    let total = |name: &[u8]| {
        lines(text)
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(b" "))
            .and_then(|line| words(line).find_map(|word| number(word.strip_prefix(b"total=")?)))
    };
    Stall { some_us: total(b"some"), full_us: total(b"full") }
}

/// How many there are in `0-3,8`. An empty list is a group that was not set up: unknown.
pub fn count(text: &[u8]) -> Option<u32> {
    u32::try_from(list(text)?.len()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_after_names() {
        let text = b"oom 1\noom_kill 7\noom_kill_disable 0\nbad x\n";
        for (name, expected) in [("oom_kill", Some(7)), ("oom", Some(1)), ("bad", None), ("kill", None)] {
            assert_eq!(named(text, name.as_bytes()), expected, "{name}");
        }
        assert_eq!((value(b"12\n"), value(b"max\n"), value(b"")), (Some(12), None, None));
    }

    #[test]
    fn limits_of_both_versions() {
        for (text, expected) in [
            ("max\n", Some(Limit::Unlimited)),
            ("9223372036854771712\n", Some(Limit::Unlimited)),
            ("9223372036854710272\n", Some(Limit::Unlimited)),
            ("1073741824\n", Some(Limit::Bytes(1 << 30))),
            ("0\n", Some(Limit::Bytes(0))),
            ("\n", None),
        ] {
            assert_eq!(limit(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn pressure_may_lack_the_second_line() {
        let some = "some avg10=0.12 avg60=0.00 avg300=0.00 total=120266959\n";
        let full = "full avg10=0.00 avg60=0.00 avg300=0.00 total=254\n";
        for (text, expected) in [
            (format!("{some}{full}"), (Some(120_266_959), Some(254))),
            (some.to_owned(), (Some(120_266_959), None)),
            ("some avg10=0.12\n".to_owned(), (None, None)),
        ] {
            let stall = pressure(text.as_bytes());
            assert_eq!((stall.some_us, stall.full_us), expected, "{text}");
        }
    }

    #[test]
    fn lists_are_counted() {
        for (text, expected) in
            [("0-3,8,10-11\n", Some(7)), ("0-127\n", Some(128)), ("\n", None), ("a\n", None)]
        {
            assert_eq!(count(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (value(&bytes), named(&bytes, b"a"), limit(&bytes), count(&bytes));
            let _ = pressure(&bytes);
        }
    }
}
