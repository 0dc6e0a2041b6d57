//! What people think of tags that rules have set: `jobglass tags agree`, `disagree`, `hide` and `opinions`.

use anyhow::Result;
use serde_json::Value;

use super::show::{Column, text};
use super::{Parameters, add, escape, pager, rows, server};
use crate::args::{OpinionArgs, OpinionsArgs};

pub fn say(args: &OpinionArgs, word: &str) -> Result<bool> {
    let mut parameters = vec![("tag", args.tag.clone()), ("word", word.to_owned())];
    add(&mut parameters, "cluster", args.cluster.as_ref());
    add(&mut parameters, "reason", args.reason.as_ref());
    add(&mut parameters, "undo", args.undo.then_some("true").as_ref());
    let path = format!("/api/v1/jobs/{}/opinions", escape(&args.id));
    let Some(answer) = server(&args.server)?.begin(&path, &parameters)? else {
        say!("jobglass: nothing is known of job {}", args.id);
        return Ok(false);
    };
    if args.json {
        pager::json(&answer)?;
        return Ok(true);
    }
    let (job, tag) = (&args.id, text(&answer["tag"]));
    match (answer["taken_back"].as_bool(), word) {
        (Some(true), _) => pager::line(format_args!("{tag} on job {job}: taken back"))?,
        (Some(false), _) => pager::line(format_args!("{tag} on job {job}: there was nothing to take back"))?,
        (None, "hide") => pager::line(format_args!("{tag} on job {job} is not shown to you any more"))?,
        (None, _) => pager::line(format_args!("{tag} on job {job}: you {word}"))?,
    }
    Ok(true)
}

const OPINION: &[Column] = &[
    ("JOB", |row| text(&row["job"])),
    ("OF", |row| text(&row["user"])),
    ("TAG", |row| text(&row["tag"])),
    (">VERSION", |row| text(&row["version"])),
    ("WORD", |row| text(&row["word"])),
    ("BY", |row| text(&row["by"])),
    ("AT", |row| text(&row["at"])),
    ("REASON", |row| text(&row["reason"])),
];

pub fn list(args: &OpinionsArgs) -> Result<bool> {
    let mut parameters = Parameters::new();
    for (name, value) in [("tag", &args.tag), ("word", &args.word), ("by", &args.by)] {
        add(&mut parameters, name, value.as_ref());
    }
    rows(&server(&args.server)?, "/api/v1/opinions", &parameters, OPINION, &args.shape.into())
}

/// `anna disagrees (2026-11-18T04:00:00Z): it needs the memory`.
pub fn line(opinion: &Value) -> String {
    let word = match opinion["word"].as_str() {
        Some("agree") => "agrees",
        Some("disagree") => "disagrees",
        _ => "hides it",
    };
    let reason = &opinion["reason"];
    let reason = if reason.is_null() { String::new() } else { format!(": {}", text(reason)) };
    format!("{} {word} ({}){reason}", text(&opinion["by"]), text(&opinion["at"]))
}
