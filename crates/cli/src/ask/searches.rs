//! `jobglass searches`: combinations of tags and conditions that have a name.

use anyhow::Result;
use serde_json::Value;

use super::show::{Column, Shape, text};
use super::{Parameters, Server, escape, rows, server};
use crate::args::{ForgetArgs, SearchesCommand};

pub fn run(command: &SearchesCommand) -> Result<bool> {
    match command {
        SearchesCommand::List(args) => show(&server(&args.server)?, &args.shape.into()),
        SearchesCommand::Forget(args) => forget(args),
    }
}

const SEARCH: &[Column] = &[
    ("SEARCH", |row| text(&row["search"])),
    ("WHOSE", |row| if row["is_own"] == true { "yours".into() } else { "everybody's".into() }),
    ("WHAT IT FINDS", |row| text(&row["description"])),
    ("ALL", |row| names(&row["all"])),
    ("ANY", |row| row["any"].as_array().into_iter().flatten().map(names).collect::<Vec<_>>().join("; ")),
    ("NONE", |row| names(&row["none"])),
    ("WHERE", |row| if row["where"].is_null() { String::new() } else { text(&row["where"]) }),
];

fn names(list: &Value) -> String {
    list.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(", ")
}

pub fn show(server: &Server, shape: &Shape) -> Result<bool> {
    rows(server, "/api/v1/searches", &Parameters::new(), SEARCH, shape)
}

fn forget(args: &ForgetArgs) -> Result<bool> {
    let path = format!("/api/v1/searches/{}", escape(&args.name));
    let forgotten = server(&args.server)?.delete(&path, &[])?;
    if forgotten.is_none() {
        say!("jobglass: you have no search {}", args.name);
    }
    Ok(forgotten.is_some())
}
