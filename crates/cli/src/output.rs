//! What is written for people and programs: to standard output until nobody reads on, to standard error whether or not anybody does.
//!
//! A reader that leaves early (`… --json | head -1`) has read enough, which is success. Writers wrap the error in one of their own, and a
//! server that hangs up gives the same kind of error, so it is noted here, where it happens, that it was our own output.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

/// Whether somebody has closed our standard output.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Standard output; it notes when nobody reads on.
#[derive(Debug)]
pub struct Output(io::Stdout);

#[allow(clippy::disallowed_methods, reason = "the one place")]
pub fn stdout() -> Output {
    Output(io::stdout())
}

/// Whether nobody reads our output any more.
pub fn is_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

impl Output {
    pub fn is_terminal(&self) -> bool {
        self.0.is_terminal()
    }

    /// How many columns and lines the terminal has; `None` where the output goes elsewhere.
    pub fn size(&self) -> Option<(usize, usize)> {
        if !self.is_terminal() {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(&self.0).ok()?;
        Some((size.ws_col.into(), size.ws_row.into()))
    }
}

/// The same error, noted if it says that nobody reads on.
fn noted<T>(result: io::Result<T>) -> io::Result<T> {
    if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        IS_CLOSED.store(true, Ordering::Relaxed);
    }
    result
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        noted(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        noted(self.0.flush())
    }
}

/// Begins and ends bold text: headers of tables.
pub const BOLD: &str = "\x1b[1m";
pub const NORMAL: &str = "\x1b[0m";

/// Text as a terminal may have it. Names, reasons and paths come from users: nothing of theirs moves the cursor, changes the title
/// or clears the screen. Bold text is ours, and harms nobody.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_control() && c != '\n') {
        let (before, from) = rest.split_at(at);
        plain.push_str(before);
        let own = [BOLD, NORMAL].into_iter().find(|own| from.starts_with(own));
        plain.push_str(own.unwrap_or(" "));
        let length = own.map_or_else(|| from.chars().next().map_or(1, char::len_utf8), str::len);
        rest = &from[length..];
    }
    plain + rest
}

/// A line of JSON. Some control characters need no escape there, and a terminal obeys them all the same.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string(value)?;
    let escaped = |c: char| match c.is_control() {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    Ok(if text.contains(char::is_control) { text.chars().map(escaped).collect() } else { text })
}

/// Writes a line to standard error. Not as `eprintln!` does it, which panics where nobody reads.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "{}", $crate::output::plain(&format!($($text)*)));
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_users_do_not_reach_a_terminal() {
        for (text, expected) in [
            (
                "\x1b[1mNAME\x1b[0m\n\x1b[2Ja\u{9b}31mb\r\x1b]0;title\x07\x7fc\t\n",
                "\x1b[1mNAME\x1b[0m\n [2Ja 31mb  ]0;title  c \n",
            ),
            ("\x1b", " "),
            ("", ""),
            ("Jürgen\u{301}", "Jürgen\u{301}"),
        ] {
            assert_eq!(plain(text), expected);
        }
        let value = serde_json::json!({"a\u{9b}": "\x1b[2J\x7f\n\u{85}ü"});
        let text = json(&value).unwrap();
        assert!(!text.contains(char::is_control), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
