//! Takes secrets out of arguments, one after the other: all that can be recognized without looking into command lines.
//!
//! * `--password=X`, `PGPASSWORD=X`, `?token=X&`, `{"password": "X"}`, `Authorization: Bearer X`: a secret's name
//!   ([`super::names`]), then a separator ([`super::value`]);
//! * `--password X`: a secret's name as an option, the value being the next argument or the next word;
//! * `curl -sSfu X`, `mysql -pX`, `docker login -p X`: what is secret in one program only ([`super::options`]);
//! * `https://user:X@host`: the password in an address;
//! * `ghp_…`, `eyJ…`, `hooks.slack.com/services/…`: tokens known by their beginning.
//!
//! It errs on the side of privacy: a redacted harmless value is an annoyance, a kept password a breach.

use super::names::{Form, Names, is_name_byte};
use super::options::{self, Found, Words};
use super::redact::{REDACTED, TOKEN_MIN, base_name, password_in_address};
use super::value::{self, Place};
use super::{Rules, Section};
use crate::wire::Sink;

/// How far an `@` may be from the user's name in `user:password@host`.
const PASSWORD_MAX: usize = 128;

/// Redacts the arguments of one program, one after the other.
pub(super) struct Redactor<'a> {
    names: Names<'a>,
    words: Words<'a>,
    /// The argument before was an option whose value this one is.
    pending: Option<Form>,
    /// The argument before was an option that may take a value that is not a command.
    after_option: bool,
    /// `name=DB_PASSWORD`: what is called `value` next is a secret.
    named: bool,
    /// References such as `$TOKEN` are not secrets, because the text is a shell's.
    in_shell: bool,
    /// The argument is a word of a shell's text, not quoted as a whole.
    is_word: bool,
    first: bool,
}

impl<'a> Redactor<'a> {
    /// For the arguments of the program called `program` (a path or a name).
    pub fn new(rules: Rules<'a>, program: &'a [u8]) -> Self {
        Redactor {
            names: Names::new(rules),
            words: Words::new(base_name(program)),
            pending: None,
            after_option: false,
            named: false,
            in_shell: false,
            is_word: false,
            first: true,
        }
    }

    /// Writes `arg` without its secrets.
    pub fn arg(&mut self, arg: &[u8], out: &mut impl Sink) {
        if core::mem::take(&mut self.first) {
            self.named = self.text(arg, Place::Inside, out);
            return;
        }
        let is_option = arg.len() > 1 && arg.first() == Some(&b'-');
        let after_option = core::mem::replace(&mut self.after_option, is_option && !takes_command(arg));
        if let Some(form) = self.pending.take().filter(|_| !is_option) {
            self.value(arg, form, out);
            return;
        }
        match self.words.find(self.names.rules, arg, |name| self.names.is_secret(name)) {
            Found::Nothing => {}
            Found::Harmless => {
                out.put(arg);
                return;
            }
            Found::Next(form) => {
                self.pending = Some(form);
                self.named |= !is_option;
                out.put(arg);
                return;
            }
            Found::Rest(at, form) => {
                out.put(arg.get(..at).unwrap_or(&[]));
                self.value(arg.get(at..).unwrap_or(&[]), form, out);
                return;
            }
        }
        if is_option
            && arg.iter().all(|b| is_name_byte(*b) || *b == b'.')
            && let Some(form) = self.names.secret(arg).or_else(|| self.names_value(arg))
        {
            self.pending = Some(form);
            out.put(arg);
            return;
        }
        let is_whole = is_option || after_option || self.is_word || self.words.program() == b"env";
        self.named |= self.text(arg, if is_whole { Place::Whole } else { Place::Inside }, out);
    }

    /// Writes the value of what has a secret's name; says whether it has one.
    pub(super) fn secret_value(&self, name: &[u8], value: &[u8], out: &mut impl Sink) -> bool {
        let form = self.names.secret(name);
        form.inspect(|form| self.value(value, *form, out)).is_some()
    }

    /// Goes on with another program, which the last argument named: `sudo mysql -pX`.
    pub(super) fn set_program(&mut self, program: &'a [u8]) {
        self.words = Words::new(base_name(program));
        self.first = false;
    }

    /// Whether a word is a subcommand of the program whose arguments these are.
    pub(super) fn is_subcommand(&self, word: &[u8]) -> bool {
        options::is_subcommand(self.names.rules, self.words.program(), word)
    }

    /// Whether the next argument is known to be a secret.
    pub(super) fn expects_secret(&self) -> bool {
        self.pending.is_some()
    }

    /// Says how the next argument stands in a shell's text: whether `$NAME` is no secret in it, and whether it is a word
    /// that ends with its value.
    pub(super) fn set_shell_word(&mut self, in_shell: Option<bool>, is_word: bool) {
        self.in_shell = in_shell.unwrap_or(false);
        self.is_word = is_word;
    }

    pub(super) fn is_secret_name(&self, name: &[u8]) -> bool {
        self.names.is_secret(name)
    }

    /// Goes on where another redactor was.
    pub(super) fn set_named(&mut self, named: bool) {
        self.named = named;
    }

    /// `--name db-password --value X`
    fn names_value(&self, option: &[u8]) -> Option<Form> {
        if self.named { value_word(option) } else { None }
    }

    /// Writes what is not secret of a value.
    fn value(&self, value: &[u8], form: Form, out: &mut impl Sink) {
        let Some((from, to)) = self.secret_part(value, form).filter(|(from, to)| from < to) else {
            self.text(value, Place::Inside, out);
            return;
        };
        out.put(value.get(..from).unwrap_or(&[]));
        out.put(REDACTED);
        out.put(value.get(to..).unwrap_or(&[]));
    }

    fn secret_part(&self, value: &[u8], form: Form) -> Option<(usize, usize)> {
        if self.in_shell && value::is_reference(value) || value::is_harmless(value, form) {
            return None;
        }
        let all = (0, value.len());
        match form {
            Form::Whole | Form::NotPath | Form::Chance => Some(all),
            Form::After(mark) => {
                let at = value.iter().position(|b| *b == mark).filter(|at| *at > 0)?;
                let rest = value.get(at.saturating_add(1)..)?;
                // `user/password@database`
                let end = rest.iter().position(|b| *b == b'@').filter(|_| mark == b'/');
                let from = value.len().saturating_sub(rest.len());
                Some((from, from.saturating_add(end.unwrap_or(rest.len()))))
            }
        }
    }

    /// Writes a text without its secrets. Says whether it has a secret's name without a value.
    pub(super) fn text(&self, text: &[u8], place: Place, out: &mut impl Sink) -> bool {
        let mut named = self.named;
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
            if let Some((from, to)) = self.secret_at(text, start, at, place, &mut named) {
                out.put(text.get(copied..from).unwrap_or(&[]));
                out.put(REDACTED);
                copied = to;
                at = to;
            }
        }
        out.put(text.get(copied..).unwrap_or(&[]));
        named
    }

    /// The extent of the secret that the name at `start..end` announces or is.
    fn secret_at(
        &self,
        text: &[u8],
        start: usize,
        end: usize,
        place: Place,
        named: &mut bool,
    ) -> Option<(usize, usize)> {
        if let Some(found) = self.token_at(text, start) {
            return Some(found);
        }
        if text.get(end..)?.starts_with(b"://") {
            let from = end.checked_add(3)?;
            let is_web = text.get(start..end)?.starts_with(b"http");
            let found = password_in_address(text, from, is_web).or_else(|| unencoded(text, from));
            return found.filter(|(from, to)| from < to);
        }
        if let Some(found) = user_and_password(text, start, end) {
            return Some(found);
        }
        // Most names in paths are behind this.
        if !may_have_value(text.get(end)) {
            return None;
        }
        // `fs.s3a.secret.key`
        let start = value::dotted_begin(text, start);
        let name = text.get(start..end)?;
        let before = start.checked_sub(1).and_then(|at| text.get(at)).copied();
        let is_query = matches!(before, Some(b'?' | b'&'));
        let form = self.names.secret_in_text(name, is_query);
        let form = form.or_else(|| if *named { value_word(name) } else { None });
        let Some(form) = form else {
            return value::after_scheme(text, start, end);
        };
        let Some(separator) = value::separator(text, start, end) else {
            *named = true;
            return value::after_scheme(text, start, end);
        };
        if separator.is_space() && options::is_excepted(self.names.rules, name) {
            return None;
        }
        let (from, to) = value::extent(text, start, separator, place)?;
        let value = text.get(from..to)?;
        let is_kept = self.in_shell && value::is_reference(value) && !value::is_literal(text, from)
            || value::is_harmless(value, form);
        (!is_kept && from < to).then_some((from, to))
    }

    /// Whether a text is one word, as most names are, with nothing in it that could be the value of something else, and no token either.
    pub(super) fn is_plain_word(&self, text: &[u8]) -> bool {
        let is_begin = |at: usize| at.checked_sub(1).and_then(|at| text.get(at)).is_none_or(|b| *b == b'.');
        text.iter().all(|b| is_name_byte(*b) || *b == b'.')
            && (0..text.len()).filter(|at| is_begin(*at)).all(|at| self.token_at(text, at).is_none())
    }

    /// A token that is known by its beginning; behind an address, only what follows the address.
    fn token_at(&self, text: &[u8], start: usize) -> Option<(usize, usize)> {
        let rest = text.get(start..)?;
        if !self.names.may_begin_token(*rest.first()?) {
            return None;
        }
        let mut prefixes = self.names.rules.entries(Section::Token);
        let prefix = prefixes.find(|prefix| rest.starts_with(prefix) && is_token(rest, prefix))?;
        let from = if prefix.contains(&b'/') { start.checked_add(prefix.len())? } else { start };
        Some((from, start.checked_add(token_len(rest, prefix))?))
    }
}

/// Whether a name with this behind it may have a value, or be one.
fn may_have_value(next: Option<&u8>) -> bool {
    next.is_none_or(|b| {
        matches!(b, b'=' | b':' | b'"' | b'\'' | b'\\' | b' ' | b'\t' | b'\n' | b'%' | b'(' | b',' | b']')
    })
}

/// `-c`, `-lc`, `-ec`: a shell's command follows.
fn takes_command(option: &[u8]) -> bool {
    option.len() <= 5 && option.get(1) != Some(&b'-') && option.last() == Some(&b'c')
}

/// How long the token is, with its beginning.
fn token_len(rest: &[u8], prefix: &[u8]) -> usize {
    let is_address = prefix.contains(&b'/');
    let is_part = |b: u8| {
        is_name_byte(b) || matches!(b, b'.' | b'%' | b'~') || is_address && matches!(b, b'/' | b':' | b'@')
    };
    let tail = rest.get(prefix.len()..).unwrap_or(&[]);
    let len = tail.iter().position(|b| !is_part(*b)).unwrap_or(tail.len());
    prefix.len().saturating_add(len)
}

/// A word such as `hf_hub_download` is none: there is a digit or a capital letter in all that are made by chance.
fn is_token(rest: &[u8], prefix: &[u8]) -> bool {
    let tail = rest.get(prefix.len()..token_len(rest, prefix)).unwrap_or(&[]);
    let name = tail.iter().position(|b| !is_name_byte(*b)).unwrap_or(tail.len());
    let is_long = if prefix.contains(&b'/') { tail.len() } else { name } >= TOKEN_MIN;
    is_long && tail.iter().any(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
}

/// `value`, `ParameterValue`: what belongs to the name before.
fn value_word(name: &[u8]) -> Option<Form> {
    let tail = name.len().checked_sub(5).and_then(|at| name.get(at..))?;
    tail.eq_ignore_ascii_case(b"value").then_some(Form::Whole)
}

/// `user:pass/word@host`: the password, if what stands before the `/` cannot be a host and its port.
fn unencoded(text: &[u8], start: usize) -> Option<(usize, usize)> {
    let rest = text.get(start..)?;
    let end = rest.iter().position(|b| matches!(b, b'/' | b'?' | b'#' | b' ' | b'\n' | b'"' | b'\''))?;
    let colon = rest.get(..end)?.iter().position(|b| *b == b':')?;
    let port = rest.get(colon + 1..end)?;
    if !rest.get(..colon)?.iter().all(|b| is_name_byte(*b)) || port.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let near = rest.get(..rest.len().min(PASSWORD_MAX))?;
    let stop = near.iter().position(|b| b.is_ascii_whitespace() || matches!(b, b'"' | b'\''));
    let at = near.get(..stop.unwrap_or(near.len()))?.iter().rposition(|b| *b == b'@')?;
    (at > end).then_some((start + colon + 1, start + at))
}

/// The password in `user:password@host` without a scheme; the host has a dot in its name, or is `localhost` or `tcp(`.
fn user_and_password(text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    let name = text.get(start..end)?;
    if text.get(end) != Some(&b':') || !name.first()?.is_ascii_alphabetic() || name == b"mailto" {
        return None;
    }
    let before = start.checked_sub(1).and_then(|at| text.get(at)).copied();
    if matches!(before, Some(b'/' | b'.' | b'@' | b':')) {
        return None;
    }
    let from = end.checked_add(1)?;
    let rest = text.get(from..)?;
    let near = rest.get(..rest.len().min(PASSWORD_MAX))?;
    let is_end = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'@' | b'/' | b'"' | b'\'' | b'=' | b',');
    let at = near.iter().position(is_end).filter(|at| *at > 0 && near.get(*at) == Some(&b'@'))?;
    let host = near.get(at.checked_add(1)?..)?;
    let len = host.iter().position(|b| !is_name_byte(*b)).unwrap_or(host.len());
    let is_host = match host.get(len) {
        Some(b'.') => host.get(len.checked_add(1)?).is_some_and(u8::is_ascii_alphanumeric),
        Some(b'(') => true,
        _ => host.get(..len) == Some(b"localhost"),
    };
    (is_host && len > 0).then_some((from, from.checked_add(at)?))
}
