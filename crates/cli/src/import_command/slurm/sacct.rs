//! `sacct`: one query for all jobs of a span of time, read as it is printed.

use std::io;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use import::slurm::text::{self, Options};
use import::{Error, Problem, Sink, slurm};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use record::accounting::Accounting;
use rustix::rand::{GetRandomFlags, getrandom};

use super::super::stop::Stop;
use super::command;
use super::window::Span;

/// Whoever asks longer asks for too much.
const LIMIT: Duration = Duration::from_secs(600);
const HELP_LIMIT: Duration = Duration::from_secs(60);
/// What begins each delimiter: nobody types it.
const UNIT_SEPARATOR: u8 = 0x1f;
/// How problems name the output.
const NAME: &str = "sacct";

/// How `sacct` is asked here.
pub struct Sacct {
    fields: String,
    clusters: Option<String>,
    /// What it complained about last, though it worked.
    said: String,
}

impl Sacct {
    /// Asks it once which fields it has.
    pub fn find(clusters: Option<&str>, stop: &Stop) -> Result<Sacct> {
        let mut command = command::slurm(NAME);
        command.arg("--helpformat");
        let answer = command::text(command, HELP_LIMIT, stop)?;
        let offered = String::from_utf8_lossy(&answer.value);
        let fields = slurm::wanted(offered.split_whitespace());
        ensure!(
            fields.contains(&"JobIDRaw"),
            "sacct --helpformat names no JobIDRaw; it says: {}",
            start(&offered)
        );
        Ok(Sacct { fields: fields.join(","), clusters: clusters.map(str::to_owned), said: String::new() })
    }

    /// Asks for all that waited or ran in a span; says how long it took. What the sink took before an error was right.
    pub fn ask(&mut self, span: Span, stop: &Stop, sink: &mut impl Sink) -> Result<Duration> {
        let delimiter = delimiter()?;
        let mut command = command::slurm(NAME);
        command.args(["--allusers", "--duplicates", "--parsable2", "--noconvert"]);
        command.arg(format!("--delimiter={delimiter}")).arg(format!("--format={}", self.fields));
        command.arg(format!("--starttime={}", shown(span.from)));
        command.arg(format!("--endtime={}", shown(span.to)));
        if let Some(clusters) = &self.clusters {
            command.arg(format!("--clusters={clusters}"));
        }
        let sink = &mut Plain { sink, delimiter: delimiter.clone() };
        let options = Options { delimiter: delimiter.into_bytes(), ..Options::new(TimeZone::UTC) };
        let answer = command::ask(command, LIMIT, stop, |output| text::read(output, NAME, &options, sink))?;
        if answer.said != self.said && !answer.said.is_empty() {
            super::say(format_args!("sacct says: {}", answer.said));
        }
        self.said = answer.said;
        match answer.value {
            Err(Error::Empty { .. }) => {
                Err(anyhow::anyhow!("sacct printed nothing, not even the names of the fields"))
            }
            other => other.map(|()| answer.took).context("what sacct printed cannot be read"),
        }
    }
}

/// Shows lines with problems without the random part of the delimiter, the same whenever they are asked for.
struct Plain<'a, S> {
    sink: &'a mut S,
    delimiter: String,
}

impl<S: Sink> Sink for Plain<'_, S> {
    fn job(&mut self, job: Accounting) -> io::Result<()> {
        self.sink.job(job)
    }

    fn problem(&mut self, problem: Problem<'_>) {
        let text = plain(problem.text, self.delimiter.as_bytes());
        self.sink.problem(Problem { text: &text, ..problem });
    }
}

fn plain(text: &[u8], delimiter: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        plain.push(*first);
        rest = rest.strip_prefix(delimiter).unwrap_or(behind);
    }
    plain
}

/// Another one for each query: a user who knew it could write the line of another's job into a comment.
fn delimiter() -> Result<String> {
    let mut random = [0; 3];
    getrandom(&mut random, GetRandomFlags::empty()).context("no random bytes")?;
    let [a, b, c] = random;
    Ok(format!("{}{a:02x}{b:02x}{c:02x}", char::from(UNIT_SEPARATOR)))
}

/// A time as every version reads it, in the zone that the command is given.
fn shown(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

fn start(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_delimiters() {
        assert_eq!(shown("2026-03-29T01:30:00.9Z".parse().unwrap()), "2026-03-29T01:30:00");
        let (one, other) = (delimiter().unwrap(), delimiter().unwrap());
        for (text, expected) in [("a\u{1f}12b\u{1f}12", "a\u{1f}b\u{1f}"), ("\u{1f}13", "\u{1f}13"), ("", "")]
        {
            assert_eq!(plain(text.as_bytes(), b"\x1f12"), expected.as_bytes());
        }
        assert!(one.len() == 7 && one.as_bytes()[0] == UNIT_SEPARATOR && one != other);
    }
}
