//! `jobglass import influx`: line protocol, as Telegraf, cc-metric-collector, Clustrx and DiMMon speak it.

use std::io::{self, BufRead};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use import::influx::{Lines, Precision, read};
use import::monitor::Dropped;
use serde_json::json;

use super::gate::Gate;
use super::request::Refusal;
use super::{Shared, http, lock, now, open, serve, spawn, udp};
use crate::args::ImportInfluxArgs;
use crate::import_command::input::Input;
use crate::import_command::stop::Stop;

/// What collectors have, unless they were told otherwise.
const EVERY: Duration = Duration::from_secs(10);
/// So much of a file is read at a time.
const AT_ONCE: usize = 1 << 20;
/// Of so many pieces of a file the first broken line is told; all are counted.
const TOLD: u32 = 20;

pub fn run(args: &ImportInfluxArgs) -> Result<bool> {
    let (feed, stop) = (open(&args.monitor, EVERY)?, Stop::at_signals()?);
    let precision = named(&args.precision)?;
    let mut sources = Vec::new();
    if let Some(address) = args.listen {
        let gate = Gate::new(&args.senders.allow, None)?;
        gate.guard(address, false)?;
        let (socket, feed, stop) = (udp::bind(address)?, feed.clone(), stop.clone());
        sources.push(spawn("udp", &stop.clone(), move || {
            let take = |bytes: &[u8], _| {
                read(bytes, precision, now(), &mut *lock(&feed));
            };
            udp::receive(&socket, &gate, &feed, &stop, take)
        })?);
    }
    if let Some(address) = args.http {
        let gate = Gate::new(&args.senders.allow, args.http_token_file.as_deref())?;
        gate.guard(address, false)?;
        let (listener, feed, stop) = (http::bind(address)?, feed.clone(), stop.clone());
        sources.push(spawn("http", &stop.clone(), move || {
            http::serve(&listener, &gate, &feed, &stop, |path, body| {
                let precision = asked(path, precision)
                    .map_err(|error| Refusal::new(400, error.to_string()).counted(Dropped::Malformed))?;
                answer(read(body, precision, now(), &mut *lock(&feed)))
            })
        })?);
    }
    for path in args.file.clone() {
        let (mut input, feed) = (Input::open(&path)?, feed.clone());
        sources.push(spawn("file", &stop, move || file(&mut input, precision, &feed))?);
    }
    if sources.is_empty() {
        bail!("nothing to import from: give --listen ADDRESS:PORT, --http ADDRESS:PORT or --file FILE");
    }
    serve(&args.monitor, &feed, &stop, sources)
}

/// What InfluxDB says in this case, in its form: Telegraf looks for these words and does not send all of it again.
fn answer(lines: Lines) -> Result<(), Refusal> {
    let Some(bad) = &lines.first_bad else { return Ok(()) };
    let text = format!("partial write: {bad}; {} lines are taken, {} are not", lines.good, lines.bad);
    Err(Refusal::json(400, &json!({"code": "invalid", "error": text, "message": text})))
}

/// Reads a file piece by piece; the first lines that are broken are told.
fn file(input: &mut Input, precision: Precision, feed: &Shared) -> Result<()> {
    let (mut before, mut told) = (0, 0);
    while let Some(lines) =
        lines(&mut input.content).with_context(|| format!("cannot read {}", input.name))?
    {
        let read = read(&lines, precision, now(), &mut *lock(feed));
        if let Some(bad) = read.first_bad.filter(|_| told < TOLD) {
            told += 1;
            say!("jobglass: {}:{}: {}: `{}`", input.name, before + bad.line, bad.why, bad.text);
        }
        before += lines.iter().filter(|byte| **byte == b'\n').count() as u64;
    }
    Ok(())
}

/// The next lines, about a million bytes; none at the end.
fn lines(content: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut lines = Vec::new();
    while lines.len() < AT_ONCE && content.read_until(b'\n', &mut lines)? > 0 {}
    Ok((!lines.is_empty()).then_some(lines))
}

fn named(word: &str) -> Result<Precision> {
    match Precision::named(word) {
        Some(precision) => Ok(precision),
        None => bail!("precision `{word}` is none of s, ms, us, ns"),
    }
}

/// A request may say its own: `/write?db=x&precision=s`.
fn asked(path: &str, usual: Precision) -> Result<Precision> {
    let Some((_, query)) = path.split_once('?') else { return Ok(usual) };
    let word = query.split('&').find_map(|pair| pair.strip_prefix("precision="));
    word.map_or(Ok(usual), named)
}
