//! Takes secrets out of arguments.
//!
//! One pass over each argument, copying all but the secrets' values to a sink:
//!
//! * `--password=X`, `PGPASSWORD=X`, `?token=X&`, `Authorization: Bearer X`: a secret's name, then `=` or `:`;
//! * `--password X`: a secret's name as an option, the value being the next argument or the next word;
//! * `curl -u X`, `mysql -pX`: options that take a secret in one program only;
//! * `https://user:X@host`: the password in an address;
//! * `ghp_…`, `eyJ…`: tokens known by their beginning.
//!
//! It errs on the side of privacy: a redacted harmless value is an annoyance, a kept password a breach.

use super::{Rules, Section};
use crate::wire::Sink;

/// Stands where a secret was.
pub const REDACTED: &[u8] = b"***";

/// A token has at least this many characters after its beginning.
const TOKEN_MIN: usize = 12;

/// Redacts the arguments of one program, one after the other.
pub struct Redactor<'a> {
    rules: Rules<'a>,
    program: Name<'a>,
    /// The last letters of secret words, by bit: most names end with none of them.
    last_letters: u32,
    /// The argument before was an option whose value this one is.
    value_is_secret: bool,
    first: bool,
}

#[derive(Clone, Copy)]
struct Name<'a>(&'a [u8]);

impl<'a> Redactor<'a> {
    /// For the arguments of the program called `program` (a path or a name).
    pub fn new(rules: Rules<'a>, program: &'a [u8]) -> Self {
        let start = program.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
        let name = program.get(start..).unwrap_or(&[]);
        let words = rules.entries(Section::Secret);
        let last_letters =
            words.filter_map(|word| word.last()).fold(0, |letters, last| letters | letter(*last));
        Redactor { rules, program: Name(name), last_letters, value_is_secret: false, first: true }
    }

    /// Writes `arg` without its secrets.
    pub fn arg(&mut self, arg: &[u8], out: &mut impl Sink) {
        if core::mem::take(&mut self.first) {
            out.put(arg);
            return;
        }
        let is_option = arg.first() == Some(&b'-') && arg.len() > 1;
        if core::mem::take(&mut self.value_is_secret) && !is_option {
            out.put(REDACTED);
            return;
        }
        if is_option && self.program_option(arg, out) {
            return;
        }
        if is_option && !arg.contains(&b'=') && self.is_secret_name(arg) {
            self.value_is_secret = true;
            out.put(arg);
            return;
        }
        self.text(arg, is_option, out);
    }

    /// Writes the value of a variable without its secrets; all of it is one if the name says so.
    pub fn variable(&self, name: &[u8], value: &[u8], out: &mut impl Sink) {
        if self.is_secret_name(name) {
            out.put(REDACTED);
        } else {
            self.text(value, false, out);
        }
    }

    /// Options that are secret in this program only; says whether `arg` was one.
    fn program_option(&mut self, arg: &[u8], out: &mut impl Sink) -> bool {
        for rule in self.rules.entries(Section::Option) {
            let Some(space) = rule.iter().position(|b| *b == b' ') else { continue };
            let (program, option) = rule.split_at(space);
            let option = option.get(1..).unwrap_or(&[]);
            if program != self.program.0 || !arg.starts_with(option) {
                continue;
            }
            let rest = arg.get(option.len()..).unwrap_or(&[]);
            match rest.first() {
                None => {
                    self.value_is_secret = true;
                    out.put(arg);
                }
                // `-psecret`; a long option's value follows a `=`.
                Some(_) if option.len() == 2 => {
                    out.put(option);
                    out.put(REDACTED);
                }
                Some(b'=') => {
                    out.put(option);
                    out.put(b"=");
                    out.put(REDACTED);
                }
                Some(_) => continue,
            }
            return true;
        }
        false
    }

    fn text(&self, text: &[u8], is_option: bool, out: &mut impl Sink) {
        let mut copied = 0;
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            if !is_name_byte(byte) {
                at += 1;
                continue;
            }
            let start = at;
            while text.get(at).copied().is_some_and(is_name_byte) {
                at += 1;
            }
            if let Some((from, to)) = self.secret_at(text, start, at, is_option && start == 0) {
                out.put(text.get(copied..from).unwrap_or(&[]));
                out.put(REDACTED);
                copied = to;
                at = to;
            }
        }
        out.put(text.get(copied..).unwrap_or(&[]));
    }

    /// The extent of the secret that the name at `start..end` announces or is.
    fn secret_at(&self, text: &[u8], start: usize, end: usize, is_option: bool) -> Option<(usize, usize)> {
        let name = text.get(start..end)?;
        if self.is_token(name) {
            // A JSON web token goes on over its dots.
            let rest = text.get(end..)?;
            let more = rest.iter().position(|b| !is_name_byte(*b) && *b != b'.');
            return Some((start, end + more.unwrap_or(rest.len())));
        }
        match text.get(end)? {
            b':' if text.get(end..)?.starts_with(b"://") => password_in_address(text, end + 3),
            b'=' | b':' if self.is_secret_name(name) => Some(value_extent(text, end + 1, is_option)),
            b' ' if name.starts_with(b"--") && self.is_secret_name(name) => {
                Some(value_extent(text, end + 1, false))
            }
            _ => None,
        }
        .filter(|(from, to)| from < to)
    }

    fn is_token(&self, name: &[u8]) -> bool {
        name.len() > TOKEN_MIN
            && self
                .rules
                .entries(Section::Token)
                .any(|prefix| name.starts_with(prefix) && name.len() >= prefix.len() + TOKEN_MIN)
    }

    /// Whether a word of [`super::defaults::SECRET`] ends where a part of the name ends. Done for every option
    /// and variable in every process, so each part's end is compared from behind and mostly ends at once.
    fn is_secret_name(&self, name: &[u8]) -> bool {
        let is_end = |at: &usize| name.get(*at).is_none_or(|b| !b.is_ascii_alphanumeric());
        (1..=name.len()).filter(is_end).any(|end| {
            let until = name.get(..end).unwrap_or(&[]);
            until.last().is_some_and(|last| self.last_letters & letter(*last) != 0)
                && self.rules.entries(Section::Secret).any(|word| ends_with_word(until, word))
        })
    }
}

/// Whether `name` ends with `word`, as a word of its own unless it is a long one.
fn ends_with_word(name: &[u8], word: &[u8]) -> bool {
    let (Some(last), Some(word_last)) = (name.last(), word.last()) else { return false };
    if fold(*last) != fold(*word_last) {
        return false;
    }
    let Some(start) = name.len().checked_sub(word.len()) else { return false };
    let here = name.get(start..).unwrap_or(&[]);
    if !here.iter().rev().zip(word.iter().rev()).all(|(a, b)| fold(*a) == fold(*b)) {
        return false;
    }
    let begins = start.checked_sub(1).and_then(|at| name.get(at)).is_none_or(|b| !b.is_ascii_alphanumeric());
    begins || word.len() >= 6
}

/// A bit for each letter; the last one for all else.
fn letter(byte: u8) -> u32 {
    match byte.to_ascii_lowercase() {
        byte @ b'a'..=b'z' => 1 << (byte - b'a'),
        _ => 1 << 31,
    }
}

fn fold(byte: u8) -> u8 {
    if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// The password in `user:password@host`, where `start` is behind the `//`.
fn password_in_address(text: &[u8], start: usize) -> Option<(usize, usize)> {
    let rest = text.get(start..)?;
    let end = rest.iter().position(|b| matches!(b, b'/' | b'?' | b'#' | b' ' | b'"' | b'\''));
    let authority = rest.get(..end.unwrap_or(rest.len()))?;
    let at = authority.iter().rposition(|b| *b == b'@')?;
    match authority.get(..at)?.iter().position(|b| *b == b':') {
        Some(colon) => Some((start + colon + 1, start + at)),
        // `https://token@host`: a lone name is more often a token than a user.
        None => Some((start, start + at)),
    }
}

/// Where the value beginning at `start` ends: at the matching quote, at white space or `&` inside a longer
/// text, at the end of the argument if all of it is one option.
fn value_extent(text: &[u8], start: usize, is_option: bool) -> (usize, usize) {
    let mut from = start;
    if !is_option {
        while text.get(from) == Some(&b' ') {
            from += 1;
        }
    }
    for scheme in [&b"Bearer "[..], b"Basic ", b"bearer ", b"basic ", b"token "] {
        if text.get(from..).is_some_and(|rest| rest.starts_with(scheme)) {
            from += scheme.len();
        }
    }
    let rest = text.get(from..).unwrap_or(&[]);
    let end = match rest.first() {
        _ if is_option => None,
        Some(quote @ (b'"' | b'\'')) => {
            from += 1;
            return (
                from,
                rest.get(1..)
                    .and_then(|r| r.iter().position(|b| b == quote))
                    .map_or(text.len(), |n| from + n),
            );
        }
        _ => rest.iter().position(|b| matches!(b, b' ' | b'\t' | b'\n' | b'&' | b'"' | b'\'')),
    };
    (from, end.map_or(text.len(), |n| from + n))
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redacted(args: &[&str]) -> Vec<String> {
        let mut redactor = Redactor::new(Rules::builtin(), args[0].as_bytes());
        let one = |arg: &&str| {
            let mut out = Vec::new();
            redactor.arg(arg.as_bytes(), &mut out);
            String::from_utf8(out).unwrap()
        };
        args.iter().map(one).collect()
    }

    #[test]
    fn secrets_go_and_the_rest_stays() {
        for (args, expected) in [
            (&["a", "--password=x&y z"][..], &["a", "--password=***"][..]),
            (&["a", "--password", "hunter2", "b"], &["a", "--password", "***", "b"]),
            (&["a", "--password", "--verbose"], &["a", "--password", "--verbose"]),
            (&["a", "--api_key=K"], &["a", "--api_key=***"]),
            (&["a", "--auth-token=K"], &["a", "--auth-token=***"]),
            (&["a", "--max-tokens=512", "--tokenizer=bpe"], &["a", "--max-tokens=512", "--tokenizer=bpe"]),
            (&["a", "--compass=n", "--bypass", "x"], &["a", "--compass=n", "--bypass", "x"]),
            (&["env", "PGPASSWORD=geheim", "psql"], &["env", "PGPASSWORD=***", "psql"]),
            (&["a", "https://bob:pw@h/x?y=1"], &["a", "https://bob:***@h/x?y=1"]),
            (&["a", "https://h/x?token=abc&y=1"], &["a", "https://h/x?token=***&y=1"]),
            (&["git", "clone", "https://oauth@h/x"], &["git", "clone", "https://***@h/x"]),
            (&["a", "s3://bucket/key"], &["a", "s3://bucket/key"]),
            (&["curl", "-u", "bob:pw", "h"], &["curl", "-u", "***", "h"]),
            (&["/usr/bin/curl", "-ubob:pw"], &["/usr/bin/curl", "-u***"]),
            (&["mysql", "-psecret", "-u", "bob"], &["mysql", "-p***", "-u", "bob"]),
            (&["cp", "-pr", "a", "b"], &["cp", "-pr", "a", "b"]),
            (&["curl", "-H", "Authorization: Bearer abc.def"], &["curl", "-H", "Authorization: Bearer ***"]),
            (
                &["sh", "-c", "x --password 'a b' --out=f; TOKEN=q y"],
                &["sh", "-c", "x --password '***' --out=f; TOKEN=*** y"],
            ),
            (&["a", "ghp_0123456789abcdef"], &["a", "***"]),
            (&["a", "pre eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ9.sig post"], &["a", "pre *** post"]),
            (&["a", "sk-short"], &["a", "sk-short"]),
            (&["a", "", "-", "--", "="], &["a", "", "-", "--", "="]),
        ] {
            assert_eq!(redacted(args), expected, "{args:?}");
        }
    }

    #[test]
    fn a_variables_name_may_make_all_of_it_a_secret() {
        for (name, value, expected) in [
            ("OMPI_MCA_my_password", "hunter2", "***"),
            ("JOBGLASS_TOKEN", "abc", "***"),
            ("OMP_NUM_THREADS", "4", "4"),
            ("FI_PROVIDER", "https://a:b@c/", "https://a:***@c/"),
        ] {
            let mut out = Vec::new();
            Redactor::new(Rules::builtin(), b"").variable(name.as_bytes(), value.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    proptest! {
        #[test]
        fn the_value_of_a_secret_never_survives(value in "[A-Z]{8,20}", name in "(--)?(db-)?(password|PGPASSWORD|token|api_key)") {
            let option = format!("{name}={value}");
            let shell = format!("run {name}={value} more");
            let out = redacted(&["a", &option, &shell]);
            prop_assert!(!out.concat().contains(&value), "{out:?}");
        }

        #[test]
        fn any_bytes_pass_without_a_panic(args in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..6)) {
            let mut redactor = Redactor::new(Rules::builtin(), b"curl");
            let mut out = Vec::new();
            for arg in &args {
                redactor.arg(arg, &mut out);
            }
        }
    }
}
