//! What a check found, and how it is printed: as lines for people, or as objects.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use crate::output;

/// Names are padded to this many characters.
const NAME_WIDTH: usize = 16;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Ok,
    /// Works, but something deserves a look.
    Warn,
    Fail,
    /// Could not be checked; the finding says why.
    Skip,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warn => "warn",
            State::Fail => "FAIL",
            State::Skip => "skip",
        }
    }
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    pub check: &'static str,
    pub state: State,
    pub finding: String,
    pub advice: Option<String>,
}

impl Check {
    pub fn ok(check: &'static str, finding: impl Into<String>) -> Check {
        Check { check, state: State::Ok, finding: finding.into(), advice: None }
    }

    pub fn skip(check: &'static str, finding: impl Into<String>) -> Check {
        Check { check, state: State::Skip, finding: finding.into(), advice: None }
    }

    pub fn warn(check: &'static str, finding: impl Into<String>, advice: impl Into<String>) -> Check {
        Check { check, state: State::Warn, finding: finding.into(), advice: Some(advice.into()) }
    }

    pub fn fail(check: &'static str, finding: impl Into<String>, advice: impl Into<String>) -> Check {
        Check { check, state: State::Fail, finding: finding.into(), advice: Some(advice.into()) }
    }
}

/// Prints checks as they come: some of them take seconds.
pub struct Printer {
    json: bool,
    failed: u64,
    warned: u64,
}

impl Printer {
    pub fn new(json: bool) -> Printer {
        Printer { json, failed: 0, warned: 0 }
    }

    pub fn print(&mut self, checks: &[Check]) -> Result<()> {
        let mut out = output::stdout();
        for check in checks {
            self.failed += u64::from(check.state == State::Fail);
            self.warned += u64::from(check.state == State::Warn);
            if self.json {
                writeln!(out, "{}", output::json(check)?)?;
            } else {
                write!(out, "{}", lines(check))?;
            }
        }
        out.flush()?;
        Ok(())
    }

    /// Says whether no check failed.
    pub fn end(self) -> Result<bool> {
        if !self.json {
            let sum = match (self.failed, self.warned) {
                (0, 0) => "All is well.".to_owned(),
                (failed, warned) => format!("{failed} failed, {warned} to look at."),
            };
            writeln!(output::stdout(), "\n{sum}")?;
        }
        Ok(self.failed == 0)
    }
}

fn lines(check: &Check) -> String {
    let (word, name) = (check.state.word(), check.check);
    let mut text = format!("{word:<4}  {name:<NAME_WIDTH$}  {}\n", printable(&check.finding));
    if let Some(advice) = &check.advice {
        let column = 4 + 2 + NAME_WIDTH + 2;
        text.push_str(&format!("{:column$}-> {}\n", "", printable(advice)));
    }
    text
}

/// Paths and messages of others must not steer the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_people_and_an_object_for_programs() {
        let check = Check::fail("agent", "no\nagent", "start one");
        assert_eq!(lines(&check), format!("FAIL  {:<16}  no agent\n{:24}-> start one\n", "agent", ""));
        let object = serde_json::to_string(&check).unwrap();
        assert_eq!(object, r#"{"check":"agent","state":"fail","finding":"no\nagent","advice":"start one"}"#);
        assert_eq!(lines(&Check::ok("clock", "fine")), format!("ok    {:<16}  fine\n", "clock"));
    }
}
