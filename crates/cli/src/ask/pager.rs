//! Long answers go through the user's pager, as `git` does it.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::output;

/// Prints text, through a pager if it is longer than the terminal.
pub fn print(text: &str) -> io::Result<()> {
    let text = &output::plain(text);
    let mut out = output::stdout();
    let height = out.size().map_or(0, |(_, height)| height);
    if !out.is_terminal() || !io::stdin().is_terminal() || text.lines().count() < height {
        return out.write_all(text.as_bytes());
    }
    let pager = std::env::var("PAGER").unwrap_or_else(|_| "less".into());
    if pager.is_empty() || pager == "cat" {
        return out.write_all(text.as_bytes());
    }
    let mut command = Command::new("sh");
    command.args(["-c", &pager]).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.spawn() else { return out.write_all(text.as_bytes()) };
    if let Some(mut input) = child.stdin.take() {
        // Whoever leaves the pager early has read enough.
        let _ = input.write_all(text.as_bytes());
    }
    child.wait().map(|_| ())
}

/// Prints a line.
pub fn line(text: impl Display) -> io::Result<()> {
    output::stdout().write_all(output::plain(&format!("{text}\n")).as_bytes())
}

/// Prints a line of JSON.
pub fn json(value: &Value) -> io::Result<()> {
    line(output::json(value)?)
}
