//! Which names are a secret's: `PGPASSWORD`, `--api_key`, `privateKey`.
//!
//! A name has parts, which `-`, `_`, `.`, a digit or a capital letter behind a small one separate. A word counts where
//! it ends with a part. The notation of words is described at [`super::defaults::SECRET`].

use super::Rules;

/// A word of so many letters counts inside of a longer part, too.
const LONG: usize = 5;

/// What of a value is secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// All of it.
    Whole,
    /// All of it, unless it is a path: a file with a key in it may be named.
    NotPath,
    /// All of it, if it looks made by chance.
    Chance,
    /// What follows this byte: `user%X`.
    #[cfg(feature = "std")]
    After(u8),
}

/// The words of a table.
pub(super) struct Names<'a> {
    pub rules: Rules<'a>,
    first_of_tokens: u32,
}

impl<'a> Names<'a> {
    pub fn new(rules: Rules<'a>) -> Self {
        Names { rules, first_of_tokens: rules.token_letters() }
    }

    /// Whether a token may begin with this byte.
    pub fn may_begin_token(&self, byte: u8) -> bool {
        self.first_of_tokens & letter(byte) != 0
    }

    #[cfg(feature = "std")]
    pub fn is_secret(&self, name: &[u8]) -> bool {
        self.secret(name).is_some()
    }

    /// Whether the value of what has this name is a secret.
    pub fn secret(&self, name: &[u8]) -> Option<Form> {
        self.secret_in_text(name, false)
    }

    /// The same, of a name in a text, which may be the parameter of an address. Done for every option and variable in
    /// every process, so each part's end is compared from behind and mostly ends at once.
    #[inline(never)]
    pub fn secret_in_text(&self, name: &[u8], is_query: bool) -> Option<Form> {
        let find = |end: usize| {
            let until = name.get(..end)?;
            let mut words = self.rules.words_with_end(*until.last()?);
            words.find_map(|word| announces(until, word, is_query))
        };
        let mut form = None;
        for end in (1..=name.len()).filter(|end| is_part_end(name, *end)) {
            // `--auth-token` is a token: what `auth` says is less.
            form = find(end).or(form);
            if form == Some(Form::Whole) {
                break;
            }
        }
        form.filter(|_| !self.is_harmless(name))
    }

    /// Whether a word with a `!` says that it is none in spite of all: `--password-file`.
    #[inline(never)]
    fn is_harmless(&self, name: &[u8]) -> bool {
        let digits = name.iter().rev().take_while(|b| b.is_ascii_digit()).count();
        let end = name.get(..name.len().saturating_sub(digits)).unwrap_or(name);
        let dashes = name.iter().take_while(|b| **b == b'-').count();
        let start = name.get(dashes..).unwrap_or(&[]);
        let says_so = |word: &[u8]| match word.split_last() {
            Some((b'*', prefix)) => {
                start.len() > prefix.len() && start.iter().zip(prefix).all(|(a, b)| fold(*a) == fold(*b))
            }
            _ => begin_of(end, word).is_some_and(|begin| is_part_begin(name, begin)),
        };
        self.rules.exceptions().filter_map(|word| word.strip_prefix(b"!")).any(says_so)
    }
}

/// What the word makes of a name that ends with it.
fn announces(name: &[u8], word: &[u8], is_query: bool) -> Option<Form> {
    let (form, word) = match word.strip_suffix(b"/") {
        Some(word) => (Form::NotPath, word),
        None => (Form::Whole, word),
    };
    if let Some(word) = word.strip_prefix(b"?") {
        return (is_query && name.eq_ignore_ascii_case(word)).then_some(form);
    }
    if let Some(word) = word.strip_prefix(b"~") {
        let dashes = name.iter().take_while(|b| **b == b'-').count();
        return name.get(dashes..)?.eq_ignore_ascii_case(word).then_some(Form::Chance);
    }
    // `-KEY`: not the first part.
    let (must_follow, word) = match word.strip_prefix(b"-") {
        Some(word) => (true, word),
        None => (false, word),
    };
    let begin = begin_of(name, word)?;
    let follows = || begin > 1 && name.get(..begin).is_some_and(|b| b.iter().any(u8::is_ascii_alphanumeric));
    let is_word = is_part_begin(name, begin) || word.len() >= LONG;
    (is_word && (!must_follow || follows())).then_some(form)
}

/// Where a word begins that the name ends with. A `-` of the word stands for any separator, or for none; a capital letter
/// of the word for itself only.
fn begin_of(name: &[u8], word: &[u8]) -> Option<usize> {
    let mut rest = name;
    for expected in word.iter().rev() {
        if *expected == b'-' {
            if let Some((b'-' | b'_' | b'.', before)) = rest.split_last() {
                rest = before;
            }
            continue;
        }
        let (byte, before) = rest.split_last()?;
        if byte != expected && byte.to_ascii_lowercase() != *expected {
            return None;
        }
        rest = before;
    }
    Some(rest.len())
}

/// Whether a part ends before `at`: the next byte is no letter, or a capital one behind a small one.
fn is_part_end(name: &[u8], at: usize) -> bool {
    match name.get(at) {
        Some(next) if next.is_ascii_uppercase() => {
            at.checked_sub(1).and_then(|at| name.get(at)).is_some_and(|last| !last.is_ascii_uppercase())
        }
        Some(next) => !next.is_ascii_alphabetic(),
        None => true,
    }
}

/// Whether a part begins at `at`. Behind `-D` and the like the name of a definition begins.
#[inline(never)]
fn is_part_begin(name: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|at| name.get(at)).copied();
    let is_capital = || name.get(at).is_some_and(u8::is_ascii_uppercase);
    match before {
        None => true,
        Some(before) if !before.is_ascii_alphanumeric() || before.is_ascii_digit() => true,
        Some(before) if before.is_ascii_lowercase() && is_capital() => true,
        Some(letter) => at == 2 && name.first() == Some(&b'-') && matches!(letter, b'D' | b'P' | b'e' | b'o'),
    }
}

/// Whether a value is no secret whatever its name, because nobody would have such a one: a switch (`-DUSE_AUTH=ON`, `--use-auth-token
/// true`), or a number of one or two digits (`PASS=2`).
#[inline(never)]
pub(super) fn is_setting(value: &[u8]) -> bool {
    const SWITCHES: &[u8] = b"on,off,true,false,yes,no,none";
    matches!(value.len(), 1 | 2) && value.iter().all(u8::is_ascii_digit)
        || SWITCHES.split(|b| *b == b',').any(|switch| value.eq_ignore_ascii_case(switch))
}

/// A bit for each letter; the last one for all else.
pub(super) const fn letter(byte: u8) -> u32 {
    1 << letter_number(byte)
}

/// From 0 to 25 for a letter, 26 for all else.
pub(super) const fn letter_number(byte: u8) -> usize {
    match byte.to_ascii_lowercase() {
        byte @ b'a'..=b'z' => (byte - b'a') as usize,
        _ => 26,
    }
}

fn fold(byte: u8) -> u8 {
    if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() }
}

pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}
