//! `jobglass tags propose`, `proposals`, `approve` and `reject`.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::show::{Column, text};
use super::{Parameters, rows, server};
use crate::args::{ApproveArgs, ProposalsArgs, ProposeArgs, RejectArgs, ServerArgs};

const PROPOSAL: &[Column] = &[
    (">NUMBER", |row| text(&row["proposal"])),
    ("NAME", |row| text(&row["name"])),
    ("BY", |row| text(&row["by"])),
    ("AT", |row| text(&row["at"])),
    ("STATE", |row| text(&row["state"])),
    ("TAG", |row| text(&row["tag"])),
    ("REASON", |row| text(&row["reason"])),
    ("CRITERION", |row| text(&row["criterion"])),
    ("DESCRIPTION", |row| text(&row["description"])),
    ("MOTIVATION", |row| text(&row["motivation"])),
];

pub fn list(args: &ProposalsArgs) -> Result<bool> {
    rows(&server(&args.server)?, "/api/v1/proposals", &Parameters::new(), PROPOSAL, &args.shape.into())
}

pub fn propose(args: &ProposeArgs) -> Result<bool> {
    let body = json!({
        "name": args.name, "description": args.description, "motivation": args.motivation, "criterion": args.criterion,
    });
    let answer = server(&args.server)?.post_json("/api/v1/proposals", &body)?;
    let answer = answer.context("this server takes no proposals: is it older?")?;
    say!("jobglass: proposal {}", text(&answer["proposal"]));
    Ok(true)
}

pub fn approve(args: &ApproveArgs) -> Result<bool> {
    let body = json!({
        "approve": true, "reason": args.reason, "name": args.name, "description": args.description, "criterion": args.criterion,
    });
    decide(&args.server, args.number, &body)
}

pub fn reject(args: &RejectArgs) -> Result<bool> {
    decide(&args.server, args.number, &json!({"approve": false, "reason": args.reason}))
}

fn decide(to: &ServerArgs, number: u64, body: &Value) -> Result<bool> {
    match server(to)?.post_json(&format!("/api/v1/proposals/{number}"), body)? {
        Some(answer) => say!("jobglass: proposal {number} is {}", text(&answer["state"])),
        None => {
            say!("jobglass: there is no proposal {number} that waits for a decision");
            return Ok(false);
        }
    }
    Ok(true)
}
