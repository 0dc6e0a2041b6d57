//! What is secret in one program only: `mysql -pX`, `docker login -p X`, `wandb login X`.
//!
//! The notation of rules is described at [`super::defaults::OPTION`].

use super::names::{Form, is_name_byte};
use super::{Rules, Section};

/// So many words that are no options are remembered.
const REMEMBERED: usize = 8;

/// What the rules say of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// It is no secret, whatever its name.
    Harmless,
    /// The next argument is.
    Next(Form),
    /// What of it begins here is.
    Rest(usize, Form),
}

/// The words of a command line so far.
pub(super) struct Words<'a> {
    program: &'a [u8],
    /// Whether there are rules about the program, once that was asked.
    is_listed: Option<bool>,
    /// Of the first words that are no options.
    hashes: [u32; REMEMBERED],
    count: usize,
}

impl<'a> Words<'a> {
    pub fn new(program: &'a [u8]) -> Self {
        Words { program, is_listed: None, hashes: [0; REMEMBERED], count: 0 }
    }

    pub fn program(&self) -> &'a [u8] {
        self.program
    }

    /// What the rules about this program say of its next argument.
    pub fn find(&mut self, rules: Rules, arg: &[u8], is_secret_name: impl Fn(&[u8]) -> bool) -> Found {
        let program = self.program;
        let is_listed = *self.is_listed.get_or_insert_with(|| is_listed(rules, program));
        if !is_listed {
            return Found::Nothing;
        }
        let is_option = arg.len() > 1 && arg.first() == Some(&b'-');
        let about = rules.entries(Section::Option).filter_map(|rule| about(rule, program));
        let mut found = Found::Nothing;
        for items in about {
            match self.apply(items, arg, is_option, &is_secret_name) {
                Found::Nothing => {}
                one if found == Found::Nothing || one == Found::Harmless => found = one,
                _ => {}
            }
        }
        if !is_option {
            self.remember(arg);
        }
        found
    }

    fn remember(&mut self, word: &[u8]) {
        if let Some(hash) = self.hashes.get_mut(self.count) {
            *hash = hash_of(word);
        }
        self.count = self.count.saturating_add(1);
    }

    /// One rule without its programs.
    fn apply(
        &self,
        items: &[u8],
        arg: &[u8],
        is_option: bool,
        is_secret_name: &impl Fn(&[u8]) -> bool,
    ) -> Found {
        let mut flags: Option<&[u8]> = None;
        let mut subcommands = 0usize;
        for item in items.split(|b| *b == b' ') {
            let found = match item.first() {
                None => Found::Nothing,
                Some(b'+') => {
                    flags = item.get(1..);
                    Found::Nothing
                }
                Some(b'!') if item.get(1..) == Some(name_of(arg)) => Found::Harmless,
                Some(b'@') if !is_option && is_plain(arg) && is_secret_name(arg) => Found::Next(Form::Whole),
                Some(b'*') if !is_option => self.word(item, arg, subcommands),
                Some(b'-' | b'/') => option(item, arg, flags),
                Some(b'a'..=b'z' | b'A'..=b'Z') if item.contains(&b'=') => parameter(item, arg),
                Some(b'a'..=b'z' | b'A'..=b'Z') => {
                    if !self.has_any(item) {
                        return Found::Nothing;
                    }
                    subcommands = subcommands.saturating_add(1);
                    Found::Nothing
                }
                Some(_) => Found::Nothing,
            };
            if found != Found::Nothing {
                return found;
            }
        }
        Found::Nothing
    }

    /// Whether one of these words, with commas between them, was among the first.
    fn has_any(&self, words: &[u8]) -> bool {
        let known = self.hashes.get(..self.count.min(REMEMBERED)).unwrap_or(&[]);
        words.split(|b| *b == b',').any(|word| known.contains(&hash_of(word)))
    }

    /// `*2%`: the second word and those behind it.
    fn word(&self, item: &[u8], arg: &[u8], subcommands: usize) -> Found {
        let item = item.get(1..).unwrap_or(&[]);
        let (number, item) = match item.split_first() {
            Some((digit @ b'1'..=b'9', rest)) => (usize::from(digit.saturating_sub(b'0')), rest),
            _ => (1, item),
        };
        if self.count.saturating_add(1) < subcommands.saturating_add(number) {
            return Found::Nothing;
        }
        match form_of(item.last().copied()) {
            Some(Form::After(mark)) if !arg.contains(&mark) || arg.contains(&b'=') => Found::Nothing,
            form => Found::Rest(0, form.unwrap_or(Form::Whole)),
        }
    }
}

/// The rule without its programs, if this is one of them.
fn about<'r>(rule: &'r [u8], program: &[u8]) -> Option<&'r [u8]> {
    let space = rule.iter().position(|b| *b == b' ')?;
    let (programs, items) = rule.split_at_checked(space)?;
    // Of a hundred rules hardly any has the letter.
    programs.contains(program.first()?).then_some(())?;
    let is_meant = |name: &[u8]| match name.split_last() {
        Some((b'*', prefix)) => program.starts_with(prefix),
        _ => name == program,
    };
    programs.split(|b| *b == b',').any(is_meant).then(|| items.get(1..))?
}

/// Whether there are rules about a program.
pub(super) fn is_listed(rules: Rules, program: &[u8]) -> bool {
    rules.entries(Section::Option).any(|rule| about(rule, program).is_some())
}

/// Whether some program has an option of this name that takes no secret: in a text nobody knows the program.
pub(super) fn is_excepted(rules: Rules, name: &[u8]) -> bool {
    let is_it = |item: &[u8]| item.strip_prefix(b"!") == Some(name);
    rules.entries(Section::Option).any(|rule| rule.split(|b| *b == b' ').any(is_it))
}

/// What reads a secret from its standard input: the rules' `<`, alone or behind an option that must be given.
pub(super) fn reads_secret<'w>(
    rules: Rules,
    program: &[u8],
    args: impl Iterator<Item = &'w [u8]> + Clone,
) -> bool {
    let is_given = |name: &[u8]| args.clone().any(|arg| arg == name);
    let reads = |item: &[u8]| item.strip_suffix(b"<").is_some_and(|name| name.is_empty() || is_given(name));
    let is_missing = |item: &&[u8]| is_subcommands(item) && !item.split(|b| *b == b',').any(is_given);
    let about = rules.entries(Section::Option).filter_map(|rule| about(rule, program));
    about
        .map(|items| items.split(|b| *b == b' '))
        .any(|items| items.take_while(|item| !is_missing(item)).any(reads))
}

/// `login,auth`: words of which one must have come before.
fn is_subcommands(item: &[u8]) -> bool {
    item.first().is_some_and(u8::is_ascii_alphabetic) && !item.contains(&b'=')
}

/// Whether the rules about a program know a word as its subcommand: `passwd` behind `openssl` is not the program of that name.
pub(super) fn is_subcommand(rules: Rules, program: &[u8], word: &[u8]) -> bool {
    let items = rules.entries(Section::Option).filter_map(|rule| about(rule, program));
    let mut items = items.flat_map(|items| items.split(|b| *b == b' '));
    items.any(|item| is_subcommands(item) && item.split(|b| *b == b',').any(|own| own == word))
}

/// An option up to its value.
fn name_of(arg: &[u8]) -> &[u8] {
    let end = arg.iter().position(|b| *b == b'=').unwrap_or(arg.len());
    arg.get(..end).unwrap_or(arg)
}

/// A name as programs write those of settings: `user.password`, `auth/token`, `//registry.example/:_authToken`.
fn is_plain(arg: &[u8]) -> bool {
    let is_path = matches!(arg, [b'.', ..] | [b'/', ..]) && !arg.starts_with(b"//");
    !is_path && arg.iter().all(|b| is_name_byte(*b) || matches!(b, b'.' | b'/' | b':'))
}

fn form_of(mark: Option<u8>) -> Option<Form> {
    match mark? {
        b'~' => Some(Form::NotPath),
        mark @ (b':' | b'%' | b',' | b'/' | b'=') => Some(Form::After(mark)),
        _ => None,
    }
}

/// `-p`, `-p*`, `-U%`, `--creds:`
fn option(item: &[u8], arg: &[u8], flags: Option<&[u8]>) -> Found {
    if item.ends_with(b"<") {
        return Found::Nothing;
    }
    let mark = form_of(item.last().copied()).filter(|_| item.len() > 2);
    let is_attached = item.len() > 2 && item.ends_with(b"*");
    let is_alone = item.len() > 2 && item.ends_with(b"$");
    let end =
        if mark.is_some() || is_attached || is_alone { item.len().saturating_sub(1) } else { item.len() };
    let name = item.get(..end).unwrap_or(item);
    let form = mark.unwrap_or(Form::Whole);
    if arg == name {
        return if is_attached { Found::Nothing } else { Found::Next(form) };
    }
    if is_alone {
        return Found::Nothing;
    }
    if name.len() == 2
        && let Some(at) = in_cluster(name, arg, flags)
    {
        return if at == arg.len() { Found::Next(form) } else { Found::Rest(at, form) };
    }
    match arg.strip_prefix(name) {
        // `/p:X`, but not `/path`
        Some([b':', ..]) if name.starts_with(b"/") => Found::Rest(name.len().saturating_add(1), form),
        _ if name.starts_with(b"/") => Found::Nothing,
        Some([b'=' | b':', ..]) if name.len() > 2 => Found::Rest(name.len().saturating_add(1), form),
        // `-psecret`; a long option's value follows a `=`.
        Some([_, ..]) if name.len() == 2 || is_attached => Found::Rest(name.len(), form),
        _ => Found::Nothing,
    }
}

/// Where the value begins in `-sSfuX`: behind the option's letter, with only letters of `flags` before it.
fn in_cluster(name: &[u8], arg: &[u8], flags: Option<&[u8]>) -> Option<usize> {
    let flags = flags?;
    let (letters, letter) = (arg.strip_prefix(b"-")?, name.last()?);
    let at = letters.iter().position(|b| b == letter)?;
    let before = letters.get(..at)?;
    let is_end = at.checked_add(1)? == letters.len();
    let are_flags = before.iter().all(|b| flags.contains(b));
    // Without a list any letters may come first, but nothing behind.
    let may_be = are_flags || flags.is_empty() && is_end && before.iter().all(u8::is_ascii_alphanumeric);
    may_be.then(|| at.checked_add(2))?
}

/// `userid=`, `userid=/`
fn parameter(item: &[u8], arg: &[u8]) -> Found {
    let Some(end) = item.iter().position(|b| *b == b'=').map(|at| at.saturating_add(1)) else {
        return Found::Nothing;
    };
    let (name, mark) = item.split_at_checked(end).unwrap_or((item, &[]));
    match arg.get(..end).is_some_and(|begin| begin.eq_ignore_ascii_case(name)) {
        true => Found::Rest(end, form_of(mark.last().copied()).unwrap_or(Form::Whole)),
        false => Found::Nothing,
    }
}

/// FNV-1a: the words themselves are not kept.
fn hash_of(word: &[u8]) -> u32 {
    word.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
