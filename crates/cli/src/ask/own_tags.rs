//! `jobglass tags declare` and `retire`: tags for a project, or for oneself.

use anyhow::{Context, Result};
use serde_json::json;

use super::show::text;
use super::{escape, server};
use crate::args::{DeclareArgs, RetireArgs};

pub fn declare(args: &DeclareArgs) -> Result<bool> {
    let body = json!({"name": args.name, "description": args.description, "project": args.project});
    let declared = server(&args.server)?.post_json("/api/v1/tags", &body)?;
    let declared = declared.context("this server takes no tags: is it older?")?;
    say!("jobglass: {} is declared, {}", text(&declared["tag"]), text(&declared["space"]));
    Ok(true)
}

pub fn retire(args: &RetireArgs) -> Result<bool> {
    let retired = server(&args.server)?.delete(&format!("/api/v1/tags/{}", escape(&args.name)), &[])?;
    if retired.is_none() {
        say!("jobglass: there is no tag {}", args.name);
    }
    Ok(retired.is_some())
}
