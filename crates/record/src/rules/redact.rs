//! Takes secrets out of arguments and variables inside of users' processes: what is simple to recognize.
//!
//! * `--password=X`, `PGPASSWORD=X`, `?token=X&`, `Authorization: Bearer X`: a secret's name, then `=` or `:`;
//! * `--password X`: a secret's name as an option, the value being the next argument;
//! * `curl -u X`, `mysql -pX`: options that take a secret in one program only;
//! * `https://user:X@host`: the password in an address;
//! * `ghp_…`, `eyJ…`: tokens known by their beginning.
//!
//! A value that may have more to it (`$(…)`, brackets, escapes, lists) is left alone: taken out in part, the rest could no
//! longer be told for a secret. The agent, which redacts whatever it is told with [`super::Deep`], knows where such a value ends.
//! The preload library has 32 KiB in all; that is why this is not the same code.

use super::names::{Form, Names, is_name_byte, is_setting};
use super::{Rules, Section};
use crate::wire::Sink;

/// Stands where a secret was.
pub const REDACTED: &[u8] = b"***";

/// A token has at least this many characters after its beginning.
pub(super) const TOKEN_MIN: usize = 12;

/// Redacts the arguments of one program, one after the other.
pub struct Redactor<'a> {
    names: Names<'a>,
    program: &'a [u8],
    /// The argument before was an option whose value this one is.
    value_is_secret: bool,
    first: bool,
}

/// What the rules say of an option of this program.
enum Found {
    Nothing,
    Harmless,
    /// The next argument is a secret.
    Next,
    /// What follows the first two bytes is.
    Attached,
}

impl<'a> Redactor<'a> {
    /// For the arguments of the program called `program` (a path or a name).
    pub fn new(rules: Rules<'a>, program: &'a [u8]) -> Self {
        Redactor {
            names: Names::new(rules),
            program: base_name(program),
            value_is_secret: false,
            first: true,
        }
    }

    /// Writes `arg` without its secrets.
    pub fn arg(&mut self, arg: &[u8], out: &mut impl Sink) {
        if core::mem::take(&mut self.first) {
            out.put(arg);
            return;
        }
        let is_option = arg.len() > 1 && arg.first() == Some(&b'-');
        if core::mem::take(&mut self.value_is_secret) && !is_option {
            // Whether the name of a file or variable is a secret depends on the option, which the agent knows better.
            let is_source = [&b"/"[..], b"file:", b"env:"].iter().any(|begin| arg.starts_with(begin));
            let is_open = arg.is_empty() || is_source || is_setting(arg);
            out.put(if is_open { arg } else { REDACTED });
            return;
        }
        match if is_option { self.option(arg) } else { Found::Nothing } {
            Found::Nothing => self.text(arg, is_option, out),
            Found::Harmless => out.put(arg),
            Found::Next => {
                self.value_is_secret = true;
                out.put(arg);
            }
            Found::Attached => {
                out.put(arg.get(..2).unwrap_or(arg));
                out.put(REDACTED);
            }
        }
    }

    /// Writes the value of a variable without its secrets; all of it is one if the name says so.
    pub fn variable(&self, name: &[u8], value: &[u8], out: &mut impl Sink) {
        match self.names.secret(name) {
            Some(Form::Whole) if !is_setting(value) => out.put(REDACTED),
            _ => self.text(value, false, out),
        }
    }

    fn option(&self, arg: &[u8]) -> Found {
        for rule in self.names.rules.entries(Section::Option) {
            match self.rule(rule, arg) {
                Found::Nothing => {}
                found => return found,
            }
        }
        let is_name = arg.iter().all(|b| is_name_byte(*b) || *b == b'.');
        match if is_name { self.names.secret(arg) } else { None } {
            Some(Form::Whole) => Found::Next,
            _ => Found::Nothing,
        }
    }

    /// Of a rule's notation ([`super::defaults::OPTION`]) only options by themselves.
    fn rule(&self, rule: &[u8], arg: &[u8]) -> Found {
        let mut items = rule.split(|b| *b == b' ');
        let is_meant = |name: &[u8]| match name.split_last() {
            Some((b'*', prefix)) => self.program.starts_with(prefix),
            _ => name == self.program,
        };
        if !items.next().is_some_and(|programs| programs.split(|b| *b == b',').any(is_meant)) {
            return Found::Nothing;
        }
        for item in items {
            match item.first() {
                Some(b'!') if item.get(1..) == Some(arg) => return Found::Harmless,
                // Only behind a word that nobody remembers here.
                Some(first) if first.is_ascii_alphabetic() => return Found::Nothing,
                Some(b'-') => {}
                _ => continue,
            }
            let name = item.strip_suffix(b"*").or(item.strip_suffix(b"$")).unwrap_or(item);
            if arg == name && !item.ends_with(b"*") {
                return Found::Next;
            }
            if name.len() == 2 && !item.ends_with(b"$") && arg.len() > 2 && arg.starts_with(name) {
                return Found::Attached;
            }
        }
        Found::Nothing
    }

    #[inline(never)]
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
        let found = match text.get(end)? {
            b':' if text.get(end..)?.starts_with(b"://") => {
                password_in_address(text, end + 3, name.starts_with(b"http"))
            }
            // `/etc/passwd:/etc/passwd`
            b':' if start > 1 && text.get(start - 1) == Some(&b'/') => None,
            b'=' | b':' if self.names.secret(name) == Some(Form::Whole) => {
                simple_value(text, end + 1, is_option)
            }
            _ => None,
        };
        found.filter(|(from, to)| from < to && !text.get(*from..*to).is_some_and(is_setting))
    }

    fn is_token(&self, name: &[u8]) -> bool {
        let is_it = |prefix: &[u8]| {
            let tail = name.strip_prefix(prefix).unwrap_or(&[]);
            tail.len() >= TOKEN_MIN && tail.iter().any(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
        };
        name.len() > TOKEN_MIN
            && name.first().is_some_and(|first| self.names.may_begin_token(*first))
            && self.names.rules.entries(Section::Token).any(is_it)
    }
}

/// The last part of a path.
pub(super) fn base_name(path: &[u8]) -> &[u8] {
    let start = path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    path.get(start..).unwrap_or(&[])
}

/// The password in `user:password@host`, where `start` is behind the `//`.
pub(super) fn password_in_address(text: &[u8], start: usize, is_web: bool) -> Option<(usize, usize)> {
    let rest = text.get(start..)?;
    let is_end = |b: &u8| matches!(b, b'/' | b'?' | b'#' | b' ' | b'\n' | b'"' | b'\'');
    let authority = rest.get(..rest.iter().position(is_end).unwrap_or(rest.len()))?;
    let at = authority.iter().rposition(|b| *b == b'@')?;
    match authority.get(..at)?.iter().position(|b| *b == b':') {
        Some(colon) => Some((start + colon + 1, start + at)),
        // `https://token@host`: a lone name is more often a token than a user, where nobody signs in by name.
        None if is_web => Some((start, start + at)),
        None => None,
    }
}

/// The value that begins at `start`: all of an option, or a word that is sure to end where it seems to.
fn simple_value(text: &[u8], start: usize, is_option: bool) -> Option<(usize, usize)> {
    if is_option {
        return Some((start, text.len()));
    }
    let rest = text.get(start..)?;
    let mut from = rest.iter().take_while(|b| **b == b' ').count();
    for scheme in [&b"Bearer "[..], b"Basic ", b"token "] {
        if rest.get(from..)?.starts_with(scheme) {
            from += scheme.len();
        }
    }
    let value = rest.get(from..)?;
    let is_end = |b: &u8| matches!(b, b' ' | b'\t' | b'\n' | b'&' | b'"' | b'\'');
    let len = value.iter().position(is_end).unwrap_or(value.len());
    let is_simple = |b: &u8| b.is_ascii_alphanumeric() || b"_-.~+/@%^!*=:".contains(b);
    let is_all = value.get(..len)?.iter().all(is_simple);
    is_all.then_some((start + from, start + from + len))
}
