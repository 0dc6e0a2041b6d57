//! `jobglass top`: the jobs of the cluster, live.
//!
//! [`rows`] are what the server knows, sorted and filtered; [`view`] makes lines of them, as wide as the terminal; [`keys`] is what
//! keys do; [`screen`] takes the terminal and gives it back.

mod keys;
mod rows;
mod screen;
mod view;

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::Value;

use crate::args::TopArgs;
use crate::ask::{Server, server};
use crate::{output, table};
use keys::State;
use screen::{Input, Screen};

/// Asks for what runs.
fn ask(server: &Server) -> Result<Vec<Value>> {
    match server.get("/api/v1/top", &[])? {
        Some(answer) => Ok(answer["rows"].as_array().cloned().unwrap_or_default()),
        None => bail!("this server does not know the question: is it older than this command?"),
    }
}

pub fn run(args: &TopArgs) -> Result<bool> {
    let server = server(&args.server)?;
    let state = State::new(args.sort, args.user.clone());
    if args.json || args.once || !output::stdout().is_terminal() {
        return once(&server, &state, args.json);
    }
    live(&server, state, Duration::from_secs_f64(args.interval))
}

/// One table, or one line of JSON per job; says whether there was any.
fn once(server: &Server, state: &State, json: bool) -> Result<bool> {
    let all = ask(server)?;
    let rows = rows::chosen(&all, state);
    let mut out = output::stdout();
    if json {
        for row in &rows {
            writeln!(out, "{}", output::json(row)?)?;
        }
    } else {
        let made = view::table(&rows, table::terminal_width());
        for line in &made.lines {
            writeln!(out, "{line}")?;
        }
        if !made.left_out.is_empty() {
            for line in table::note_of(&made.left_out, table::terminal_width()) {
                writeln!(out, "{line}")?;
            }
        }
    }
    if rows.is_empty() {
        say!("jobglass: no job runs");
    }
    Ok(!rows.is_empty())
}

/// Until somebody has seen enough.
fn live(server: &Server, mut state: State, interval: Duration) -> Result<bool> {
    // What is wrong from the beginning is said on a terminal as it was.
    let mut all = ask(server)?;
    let mut trouble = None;
    let mut screen = Screen::take()?;
    let mut next = Instant::now() + interval;
    loop {
        screen.draw(|width, height| view::page(&all, &state, trouble.as_deref(), width, height))?;
        match screen.wait(next.saturating_duration_since(Instant::now()))? {
            Input::Key(key) => {
                if !state.press(key) {
                    return Ok(true);
                }
            }
            Input::End => return Ok(true),
            Input::Resized => {}
            Input::Nothing if Instant::now() >= next => {
                match ask(server) {
                    Ok(rows) => {
                        all = rows;
                        trouble = None;
                    }
                    // The server may come back; until then what was known last stays.
                    Err(error) => trouble = Some(format!("{error:#}")),
                }
                next = Instant::now() + interval;
            }
            Input::Nothing => {}
        }
    }
}
