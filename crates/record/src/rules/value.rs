//! Where the value begins and ends that follows a secret's name in a text.

use super::names::{Form, is_name_byte, is_setting};

/// Where a text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It is one argument, and what its first name announces goes on to its end.
    Whole,
    /// It is one argument, which may be a command line.
    Inside,
    /// It is a line of a script: a value ends with its word.
    Line,
}

/// What stands between a name and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Separator {
    kind: Kind,
    /// The name stands in quotes that end with it.
    is_quoted: bool,
    /// Behind it and the spaces that follow.
    end: usize,
}

impl Separator {
    /// Whether it is only a space: `--password X`.
    pub fn is_space(self) -> bool {
        self.kind == Kind::Space
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `=`, `:=`, `=>`
    Equals,
    Space,
    Colon,
}

/// How authorization headers begin.
const SCHEMES: &[u8] = b"bearer,basic,token,digest,apikey,negotiate,key";

/// The separator behind the name at `start..end`; `None` if there is none.
pub(super) fn separator(text: &[u8], start: usize, end: usize) -> Option<Separator> {
    let (mut at, is_quoted) = closing_quote(text, end);
    if is_quoted && text.get(at) == Some(&b']') {
        at = at.checked_add(1)?;
    }
    let next = skip_spaces(text, at);
    let is_apart = next > at;
    let is_long_option = text.get(start) == Some(&b'-') && end > start.saturating_add(2);
    let (kind, end) = match text.get(next)? {
        b'=' => (Kind::Equals, next.checked_add(1)?),
        b'%' if matches!(text.get(next..next.checked_add(3)?)?, b"%3D" | b"%3d") => {
            (Kind::Equals, next.checked_add(3)?)
        }
        b':' if text.get(next.checked_add(1)?) == Some(&b':') => return None,
        b':' if is_apart && !is_quoted => return None,
        // `/etc/passwd:/etc/passwd`
        b':' if is_in_path(text, start) => return None,
        b':' => (Kind::Colon, next.checked_add(1)?),
        b'(' if is_quote(text.get(next.checked_add(1)?)) => (Kind::Equals, next.checked_add(1)?),
        // `PASSWORD 'X'`
        b'"' | b'\'' if is_apart && !is_quoted => (Kind::Space, next),
        b'-' if is_apart => return None,
        _ if is_apart && is_long_option => (Kind::Space, next),
        // `password is "X"`
        _ if is_apart => (Kind::Space, before_quote(text, next)?),
        _ => return None,
    };
    // `:=`, `=>`, `==`
    let is_double = kind != Kind::Space && matches!(text.get(end), Some(b'=' | b'>'));
    let end = end.checked_add(usize::from(is_double))?;
    Some(Separator { kind, is_quoted, end: skip_spaces(text, end) })
}

/// Behind a name's own closing quote: `"password"`, `\"password\"`.
fn closing_quote(text: &[u8], end: usize) -> (usize, bool) {
    let rest = text.get(end..).unwrap_or(&[]);
    let escapes = rest.iter().take_while(|b| **b == b'\\').count();
    let is_quoted = escapes < 8 && is_quote(rest.get(escapes));
    (if is_quoted { end.saturating_add(escapes).saturating_add(1) } else { end }, is_quoted)
}

fn is_in_path(text: &[u8], start: usize) -> bool {
    let slash = start.checked_sub(1).filter(|at| text.get(*at) == Some(&b'/'));
    let before = slash.and_then(|at| at.checked_sub(1)).and_then(|at| text.get(at));
    before.is_some_and(|b| !b.is_ascii_whitespace() && !is_quote(Some(b)))
}

/// Where the quote is in `by 'X'`, `is "X"`.
fn before_quote(text: &[u8], at: usize) -> Option<usize> {
    let word = text.get(at..at.checked_add(3)?)?;
    let is_word = matches!(word, b"by " | b"BY " | b"By " | b"is " | b"IS " | b"to " | b"TO ");
    let next = skip_spaces(text, at.checked_add(3)?);
    (is_word && is_quote(text.get(next))).then_some(next)
}

/// `Bearer X` and `Basic X` wherever they stand, if X is long enough not to be a word; `IDENTIFIED BY 'X'`.
pub(super) fn after_scheme(text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    let name = text.get(start..end)?;
    if name.eq_ignore_ascii_case(b"identified") {
        let from = before_quote(text, skip_spaces(text, end))?;
        return quoted(text, from, Holder::Argument).filter(|(from, to)| from < to);
    }
    if !name.eq_ignore_ascii_case(b"bearer") && !name.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let from = end.checked_add(1).filter(|_| text.get(end) == Some(&b' '))?;
    let rest = text.get(from..).filter(|rest| !rest.starts_with(b"-"))?;
    let is_part = |b: &u8| is_name_byte(*b) || matches!(b, b'.' | b'~' | b'+' | b'/' | b'=');
    let len = rest.iter().position(|b| !is_part(b)).unwrap_or(rest.len());
    let has_digit = rest.get(..len)?.iter().any(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
    (len >= 8 && has_digit).then_some((from, from.checked_add(len)?))
}

/// The extent of the value behind a separator. `None` if there is none, or one that is looked through by itself.
pub(super) fn extent(
    text: &[u8],
    start: usize,
    separator: Separator,
    place: Place,
) -> Option<(usize, usize)> {
    let holder = if separator.is_quoted { Holder::Word } else { holder(text, start, place) };
    let from = skip_scheme(text, separator.end);
    let first = *text.get(from)?;
    if first == b'\n' || holder == Holder::Quote(first) {
        return None;
    }
    if let Some(quoted) = quoted(text, from, holder) {
        return Some(quoted);
    }
    match first {
        b'{' => return None,
        // `auth=("bob", "X")`
        b'[' | b'(' => {
            let rest = text.get(from..)?;
            let end = rest.iter().position(|b| matches!(b, b']' | b')' | b'\n')).unwrap_or(rest.len());
            return Some((from.checked_add(1)?, from.checked_add(end)?));
        }
        _ => {}
    }
    let is_header = separator.kind == Kind::Colon && (holder != Holder::Word || begins_line(text, start));
    let end = match holder {
        _ if is_header => line_end(text, from, holder),
        Holder::Word => word_end(text, from, false),
        Holder::Quote(_) => {
            let is_loose = !is_variable(text.get(start..).unwrap_or(&[]));
            word_end(text, from, is_loose).min(line_end(text, from, holder))
        }
        Holder::Argument => word_end(text, from, true),
    };
    Some((from, end))
}

/// What a name and its value are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// Words of a text.
    Word,
    /// Quotes of their own: `"password=a b"`.
    Quote(u8),
    /// All of an argument.
    Argument,
}

fn holder(text: &[u8], start: usize, place: Place) -> Holder {
    match start.checked_sub(1).and_then(|at| text.get(at)) {
        None if place == Place::Whole || place == Place::Inside && !is_variable(text) => Holder::Argument,
        Some(quote @ (b'"' | b'\'')) => Holder::Quote(*quote),
        // `--header=Authorization: X`
        Some(b'=') if place == Place::Whole && text.first() == Some(&b'-') => Holder::Argument,
        _ => Holder::Word,
    }
}

/// `TOKEN=X ./run` is a command, `password=a b` is none.
fn is_variable(text: &[u8]) -> bool {
    let mut name = text.iter().take_while(|b| is_name_byte(**b));
    !name.any(u8::is_ascii_lowercase)
}

/// Where the name begins that has dots in it and ends with the part at `start`.
pub(super) fn dotted_begin(text: &[u8], start: usize) -> usize {
    let before = text.get(..start).filter(|before| before.ends_with(b".")).unwrap_or(&[]);
    let len = before.iter().rev().take(64).take_while(|b| is_name_byte(**b) || **b == b'.').count();
    start.saturating_sub(len)
}

/// The inside of a value in quotes, which may be escaped. `None` if more follows behind the quotes.
fn quoted(text: &[u8], from: usize, holder: Holder) -> Option<(usize, usize)> {
    let rest = text.get(from..)?;
    let dollar = usize::from(rest.first() == Some(&b'$'));
    let escapes = rest.get(dollar..)?.iter().take_while(|b| **b == b'\\').count();
    let open = dollar.checked_add(escapes)?;
    let quote = *rest.get(open).filter(|b| is_quote(Some(b)))?;
    if escapes >= 8 || holder == Holder::Quote(quote) && escapes == 0 {
        return None;
    }
    let inside = from.checked_add(open)?.checked_add(1)?;
    let end = closing(text, inside, quote, escapes)?;
    let next = end.checked_add(escapes)?.checked_add(1)?;
    let goes_on = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'"' | b'\'' | b'$' | b'_');
    // Within other quotes the next one may close those.
    let is_more = escapes == 0 && holder == Holder::Word && text.get(next).is_some_and(goes_on);
    let is_closed = matches!(text.get(next), Some(b'"' | b'\'')) && is_boundary(text, next.checked_add(1)?);
    (!is_more || is_closed).then_some((inside, end))
}

/// Where the quote is that closes, with as many escapes before it as the one that opened; or the end.
fn closing(text: &[u8], from: usize, quote: u8, escapes: usize) -> Option<usize> {
    let mut run = 0usize;
    for (at, byte) in text.iter().enumerate().skip(from) {
        match *byte {
            b'\\' => run = run.saturating_add(1),
            byte if byte == quote
                && (run <= escapes || escapes == 0 && (quote == b'\'' || run.is_multiple_of(2))) =>
            {
                return at.checked_sub(run.min(escapes));
            }
            _ => run = 0,
        }
    }
    Some(text.len())
}

fn is_boundary(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|b| !b.is_ascii_alphanumeric())
}

fn skip_scheme(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or(&[]);
    let len = rest.iter().take_while(|b| b.is_ascii_alphabetic()).count();
    let word = rest.get(..len).unwrap_or(&[]);
    let is_scheme = SCHEMES.split(|b| *b == b',').any(|scheme| word.eq_ignore_ascii_case(scheme));
    let next = skip_spaces(text, from.saturating_add(len));
    let is_followed = rest.get(len) == Some(&b' ') && next < text.len();
    if is_scheme && is_followed { next } else { from }
}

/// Whether only what a list or a comment begins with stands before the name in its line.
fn begins_line(text: &[u8], start: usize) -> bool {
    let before = text.get(..start).unwrap_or(&[]).iter().rev();
    before.take_while(|b| **b != b'\n').take(64).all(|b| matches!(b, b' ' | b'\t' | b'-' | b'#' | b'>'))
}

fn line_end(text: &[u8], from: usize, holder: Holder) -> usize {
    let rest = text.get(from..).unwrap_or(&[]);
    let is_end = |b: &u8| *b == b'\n' || matches!(holder, Holder::Quote(quote) if quote == *b);
    from.saturating_add(rest.iter().position(is_end).unwrap_or(rest.len()))
}

/// Where the word ends that begins at `from`: at white space outside of quotes and `$(…)`, or where another name with a
/// value follows. With `is_loose` white space ends it only if one does.
fn word_end(text: &[u8], from: usize, is_loose: bool) -> usize {
    let mut at = from;
    let mut scan = Scan::default();
    while let Some(&byte) = text.get(at) {
        let next = at.saturating_add(1);
        if byte == b'\n' && scan.depth == 0 {
            break;
        }
        if !scan.step(text, at, byte) {
            let ends = match byte {
                b' ' | b'\t' => !is_loose || is_name_with_value(text, skip_spaces(text, next)),
                b'&' | b';' | b',' => {
                    text.get(next).is_none_or(|b| !is_loose && b.is_ascii_whitespace())
                        || is_name_with_value(text, skip_closing(text, next))
                }
                // A quote that closes what began before the name.
                b'"' | b'\'' => !is_loose && !text.get(next).is_some_and(|b| b.is_ascii_alphanumeric()),
                b'\\' => !is_loose && is_quote(text.get(next)),
                b'|' | b'<' | b'>' => !is_loose,
                _ => false,
            };
            if ends {
                break;
            }
        }
        at = next;
    }
    if is_loose { at } else { trim_closing(text, from, at) }
}

/// What of a shell's text encloses the place that is looked at.
#[derive(Default)]
struct Scan {
    escaped: bool,
    quote: Option<u8>,
    /// Of `$(`, `${` and the like.
    depth: usize,
    tick: bool,
}

impl Scan {
    /// Says whether `byte` cannot end the word.
    fn step(&mut self, text: &[u8], at: usize, byte: u8) -> bool {
        if core::mem::take(&mut self.escaped) {
            return true;
        }
        if let Some(quote) = self.quote {
            if byte == quote {
                self.quote = None;
            }
            self.escaped = byte == b'\\' && quote == b'"';
            return true;
        }
        let opens = || at.checked_sub(1).and_then(|at| text.get(at)) == Some(&b'$');
        match byte {
            b'\\' if !is_quote(text.get(at.saturating_add(1))) => self.escaped = true,
            b'(' if opens() || self.depth > 0 => self.depth = self.depth.saturating_add(1),
            b')' if self.depth > 0 => self.depth = self.depth.saturating_sub(1),
            b'`' => self.tick = !self.tick,
            b'"' | b'\'' if text.get(at.saturating_add(1)).is_some_and(|b| b.is_ascii_alphanumeric()) => {
                self.quote = Some(byte);
            }
            _ => return self.depth > 0 || self.tick,
        }
        true
    }
}

/// `},` and the like behind a value.
fn skip_closing(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or(&[]);
    let len = rest.iter().take_while(|b| matches!(b, b' ' | b'"' | b'\'' | b'{')).take(8).count();
    at.saturating_add(len)
}

/// `name=`, `name:`, `"name":`, `--name`
fn is_name_with_value(text: &[u8], at: usize) -> bool {
    let rest = text.get(at..).unwrap_or(&[]);
    let near = rest.get(..rest.len().min(64)).unwrap_or(&[]);
    let len = near.iter().take_while(|b| is_name_byte(**b) || **b == b'.').count();
    let quotes = usize::from(is_quote(near.get(len)));
    len > 0 && (matches!(near.get(len.saturating_add(quotes)), Some(b'=' | b':')) || near.starts_with(b"--"))
}

/// Brackets that were opened before the value do not belong to it.
fn trim_closing(text: &[u8], from: usize, end: usize) -> usize {
    let value = text.get(from..end).unwrap_or(&[]);
    let is_own = value.iter().any(|b| matches!(b, b'(' | b'{' | b'['));
    let extra = value.iter().rev().take_while(|b| !is_own && matches!(b, b')' | b'}' | b']')).count();
    end.saturating_sub(extra)
}

fn skip_spaces(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or(&[]);
    at.saturating_add(rest.iter().take_while(|b| matches!(b, b' ' | b'\t')).count())
}

fn is_quote(byte: Option<&u8>) -> bool {
    matches!(byte, Some(b'"' | b'\''))
}

/// `$NAME` or `${NAME}` and nothing else.
pub(super) fn is_reference(value: &[u8]) -> bool {
    let Some(name) = value.strip_prefix(b"$") else { return false };
    let name = name.strip_prefix(b"{").and_then(|name| name.strip_suffix(b"}")).unwrap_or(name);
    !name.is_empty() && name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

/// Whether the value at `from` stands in single quotes, where a shell replaces nothing.
pub(super) fn is_literal(text: &[u8], from: usize) -> bool {
    from.checked_sub(1).and_then(|at| text.get(at)) == Some(&b'\'')
}

/// Whether a value is none of the secrets that have such a name.
pub(super) fn is_harmless(value: &[u8], form: Form) -> bool {
    match form {
        Form::Whole => is_setting(value),
        Form::NotPath => is_path(value) || is_setting(value),
        Form::Chance => !is_by_chance(value),
        Form::After(_) => false,
    }
}

/// Letters and digits in no order that a word or a number would have.
fn is_by_chance(value: &[u8]) -> bool {
    const LEAST: usize = 20;
    value.len() >= LEAST
        && value.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'+' | b'/' | b'='))
        && value.iter().any(u8::is_ascii_digit)
        && value.iter().any(u8::is_ascii_alphabetic)
        && !is_path(value)
}

/// Whether a value names what holds the secret: it begins like a path or, for OpenSSL, names a variable or a descriptor, or it ends like
/// a file of keys.
fn is_path(value: &[u8]) -> bool {
    let end = value.iter().rposition(|b| *b == b'.').and_then(|at| value.get(at..)).unwrap_or(&[]);
    matches!(value, [b'/' | b'~' | b'@', ..] | [b'.', b'/', ..] | [b'.', b'.', b'/', ..])
        || [&b"file:"[..], b"env:", b"fd:"].iter().any(|source| value.starts_with(source))
        || value == b"stdin"
        || value.starts_with(b"$HOME/")
        || matches!(
            end,
            b".pem" | b".key" | b".json" | b".txt" | b".yml" | b".yaml" | b".toml" | b".ini" | b".crt"
        )
}
