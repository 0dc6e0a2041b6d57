//! `jobglass notes` and `jobglass cases`: what people want to be remembered.

use std::fmt::Write;

use anyhow::Result;
use serde_json::{Value, json};

use super::show::{Column, text, time};
use super::{Parameters, add, pager, rows, server};
use crate::args::{
    AddNoteArgs, CaseNewsArgs, CasesCommand, ListCasesArgs, ListNotesArgs, NotesCommand, NumberArgs,
    OpenCaseArgs, ShowCaseArgs,
};
use crate::table;

pub fn notes(command: &NotesCommand) -> Result<bool> {
    match command {
        NotesCommand::List(args) => list_notes(args),
        NotesCommand::Add(args) => add_note(args),
        NotesCommand::Remove(args) => remove_note(args),
    }
}

pub fn cases(command: &CasesCommand) -> Result<bool> {
    match command {
        CasesCommand::List(args) => list_cases(args),
        CasesCommand::Show(args) => show_case(args),
        CasesCommand::Open(args) => open_case(args),
        CasesCommand::Add(args) => add_to_case(args, false),
        CasesCommand::Close(args) => add_to_case(args, true),
    }
}

const NOTE: &[Column] = &[
    (">NOTE", |row| text(&row["note"])),
    ("JOB", |row| text(&row["job"])),
    ("PROGRAM", |row| text(&row["program"])),
    ("BY", |row| text(&row["by"])),
    ("AT", |row| text(&row["at"])),
    ("TEXT", |row| text(&row["text"])),
];

const CASE: &[Column] = &[
    (">CASE", |row| text(&row["case"])),
    ("USER", |row| text(&row["user"])),
    ("JOB", |row| text(&row["job"])),
    ("BY", |row| text(&row["by"])),
    ("AT", |row| text(&row["at"])),
    ("STATE", |row| if row["is_open"] == true { "open".into() } else { "closed".into() }),
    ("REASON", |row| text(&row["reason"])),
    ("LAST", last),
];

/// The outcome, or what happened last.
fn last(row: &Value) -> String {
    let entry = row["entries"].as_array().and_then(|entries| entries.last()).map(|entry| &entry["text"]);
    text(if row["outcome"].is_null() { entry.unwrap_or(&Value::Null) } else { &row["outcome"] })
}

fn list_notes(args: &ListNotesArgs) -> Result<bool> {
    let mut parameters = Parameters::new();
    for (name, value) in
        [("job", &args.job), ("program", &args.program), ("by", &args.by), ("text", &args.text)]
    {
        add(&mut parameters, name, value.as_ref());
    }
    rows(&server(&args.server)?, "/api/v1/notes", &parameters, NOTE, &args.shape.into())
}

fn add_note(args: &AddNoteArgs) -> Result<bool> {
    let body = json!({"job": args.job, "cluster": args.cluster, "program": args.program, "text": args.text});
    let Some(answer) = server(&args.server)?.post_json("/api/v1/notes", &body)? else {
        say!("jobglass: nothing is known of job {}", args.job.as_deref().unwrap_or_default());
        return Ok(false);
    };
    say!("jobglass: note {}", text(&answer["note"]));
    Ok(true)
}

fn remove_note(args: &NumberArgs) -> Result<bool> {
    let removed = server(&args.server)?.delete(&format!("/api/v1/notes/{}", args.number), &[])?;
    if removed.is_none() {
        say!("jobglass: there is no note {}", args.number);
    }
    Ok(removed.is_some())
}

fn list_cases(args: &ListCasesArgs) -> Result<bool> {
    let mut parameters = Parameters::new();
    for (name, value) in [("user", &args.user), ("job", &args.job), ("by", &args.by), ("text", &args.text)] {
        add(&mut parameters, name, value.as_ref());
    }
    let open = if args.open || args.closed { Some(args.open) } else { None };
    add(&mut parameters, "open", open.as_ref());
    rows(&server(&args.server)?, "/api/v1/cases", &parameters, CASE, &args.shape.into())
}

fn show_case(args: &ShowCaseArgs) -> Result<bool> {
    let answer = server(&args.server)?.get("/api/v1/cases", &[("number", args.number.to_string())])?;
    let Some(case) = answer.as_ref().and_then(|answer| answer["rows"].get(0)) else {
        say!("jobglass: there is no case {}, or you may not see it", args.number);
        return Ok(false);
    };
    if args.json {
        pager::json(case)?;
    } else {
        pager::print(&in_words(case))?;
    }
    Ok(true)
}

/// A case from its beginning to its end.
fn in_words(case: &Value) -> String {
    let mut out = String::new();
    let state = if case["is_open"] == true { "open" } else { "closed" };
    let job = case["job"].as_str().map_or(String::new(), |job| format!(", because of job {job}"));
    let _ = writeln!(out, "Case {}, {state}: user {}{job}", text(&case["case"]), text(&case["user"]));
    let mut entry = |at: &Value, by: &Value, what: &Value| {
        let _ = writeln!(out, "\n{} {}\n  {}", time(at), text(by), table::clean(&text(what)));
    };
    entry(&case["at"], &case["by"], &case["reason"]);
    for news in case["entries"].as_array().into_iter().flatten() {
        entry(&news["at"], &news["by"], &news["text"]);
    }
    if case["is_open"] != true {
        entry(&case["closed"], &case["closed_by"], &case["outcome"]);
    }
    out
}

fn open_case(args: &OpenCaseArgs) -> Result<bool> {
    let body = json!({"user": args.user, "job": args.job, "cluster": args.cluster, "reason": args.reason});
    let Some(answer) = server(&args.server)?.post_json("/api/v1/cases", &body)? else {
        say!("jobglass: nothing is known of job {}", args.job.as_deref().unwrap_or_default());
        return Ok(false);
    };
    say!("jobglass: case {}", text(&answer["case"]));
    Ok(true)
}

fn add_to_case(args: &CaseNewsArgs, close: bool) -> Result<bool> {
    let path = format!("/api/v1/cases/{}", args.number);
    let answer = server(&args.server)?.post_json(&path, &json!({"text": args.text, "close": close}))?;
    if answer.is_none() {
        say!("jobglass: there is no case {} that is open", args.number);
    }
    Ok(answer.is_some())
}
