//! Questions to the server: what ran, where, by whom, with which libraries.

mod account;
mod explain;
mod fold;
mod job;
pub mod jobs;
pub mod notes;
mod opinions;
mod own_tags;
mod pager;
mod proposals;
pub mod rate;
mod resources;
pub mod searches;
pub mod series;
mod server;
mod show;
pub mod site;
pub mod tags;
mod tree;
pub mod when;

use anyhow::{Context, Result, bail};
use jiff::Zoned;
use serde_json::Value;

use crate::args::{
    EnvCheckArgs, JobArgs, LoginArgs, NodesArgs, ProcessesArgs, ServerArgs, ShortJobsArgs, UsedArgs,
    UsesArgs, WhoamiArgs,
};
use server::Login;
pub use server::{NotPosted, Server};
use show::{Column, Shape};

type Parameters = Vec<(&'static str, String)>;

/// The server that is asked.
pub fn server(args: &ServerArgs) -> Result<Server> {
    Server::new(Login::find(args)?)
}

/// Adds what was given.
fn add(parameters: &mut Parameters, name: &'static str, value: Option<&impl ToString>) {
    parameters.extend(value.map(|value| (name, value.to_string())));
}

fn add_times(parameters: &mut Parameters, since: Option<&str>, until: Option<&str>) -> Result<()> {
    let now = Zoned::now();
    for (name, text) in [("since", since), ("until", until)] {
        if let Some(text) = text {
            parameters.push((name, when::parse(text, &now)?.to_string()));
        }
    }
    Ok(())
}

/// Asks for rows and prints them; says whether there were any.
fn rows(
    server: &Server,
    path: &str,
    parameters: &Parameters,
    columns: &[Column],
    shape: &Shape,
) -> Result<bool> {
    let limit =
        parameters.iter().find(|(name, _)| *name == "limit").and_then(|(_, limit)| limit.parse().ok());
    let answer = server.list(path, parameters, limit.unwrap_or(0))?.unwrap_or_default();
    let empty = Vec::new();
    let rows = answer["rows"].as_array().unwrap_or(&empty);
    show::rows(rows, columns, shape)?;
    if rows.is_empty() {
        say!("jobglass: nothing found");
    }
    if let Some(runs) = answer["unchecked"].as_u64().filter(|runs| *runs > 0) {
        say!("jobglass: {runs} runs could not be checked: their variables are not known");
    }
    if answer["more"] == Value::Bool(true) {
        say!("jobglass: these are the first {}; there are more (--limit N)", rows.len());
    }
    Ok(!rows.is_empty())
}

pub fn processes(args: &ProcessesArgs) -> Result<bool> {
    let mut parameters = Parameters::new();
    add(&mut parameters, "cluster", args.cluster.as_ref());
    add(&mut parameters, "job", args.job.as_ref());
    add(&mut parameters, "user", args.user.as_ref());
    add(&mut parameters, "exe", args.exe.as_ref());
    add(&mut parameters, "host", args.host.as_ref());
    add(&mut parameters, "pid", args.pid.as_ref());
    add(&mut parameters, "failed", args.failed.then_some("true").as_ref());
    add(&mut parameters, "running", args.running.then_some("true").as_ref());
    add(&mut parameters, "limit", Some(&args.limit));
    add_times(&mut parameters, args.since.as_deref(), args.until.as_deref())?;
    rows(&server(&args.server)?, "/api/v1/processes", &parameters, show::PROCESS, &args.shape.into())
}

fn used(args: &UsedArgs, path: &str, columns: &[Column]) -> Result<bool> {
    let mut parameters = Parameters::new();
    add(&mut parameters, "cluster", args.cluster.as_ref());
    add(&mut parameters, "user", args.of.as_ref());
    add(&mut parameters, "limit", Some(&args.limit));
    add_times(&mut parameters, args.since.as_deref(), args.until.as_deref())?;
    rows(&server(&args.server)?, path, &parameters, columns, &args.shape.into())
}

pub fn programs(args: &UsedArgs) -> Result<bool> {
    used(args, "/api/v1/programs", show::PROGRAM)
}

pub fn libraries(args: &UsedArgs) -> Result<bool> {
    used(args, "/api/v1/libraries", show::LIBRARY)
}

pub fn modules(args: &UsedArgs) -> Result<bool> {
    used(args, "/api/v1/modules", show::MODULE)
}

pub fn uses(args: &UsesArgs) -> Result<bool> {
    let mut parameters = vec![("pattern", args.pattern.clone()), ("group_by", args.group_by.to_string())];
    add(&mut parameters, "cluster", args.cluster.as_ref());
    add(&mut parameters, "user", args.user.as_ref());
    add(&mut parameters, "limit", Some(&args.limit));
    add_times(&mut parameters, args.since.as_deref(), args.until.as_deref())?;
    let columns = show::uses(args.group_by);
    rows(&server(&args.server)?, "/api/v1/uses", &parameters, columns, &args.shape.into())
}

pub fn env_check(args: &EnvCheckArgs) -> Result<bool> {
    let server = server(&args.server)?;
    let shape = args.shape.into();
    if args.rules {
        return rows(&server, "/api/v1/env-check/rules", &Parameters::new(), show::RULE, &shape);
    }
    let mut parameters = Parameters::new();
    add(&mut parameters, "rule", args.rule.as_ref());
    add(&mut parameters, "cluster", args.cluster.as_ref());
    add(&mut parameters, "job", args.job.as_ref());
    add(&mut parameters, "user", args.user.as_ref());
    add(&mut parameters, "limit", Some(&args.limit));
    add_times(&mut parameters, args.since.as_deref(), args.until.as_deref())?;
    rows(&server, "/api/v1/env-check", &parameters, show::CHECKED, &shape)
}

pub fn job(args: &JobArgs) -> Result<bool> {
    let mut parameters = Parameters::new();
    add(&mut parameters, "cluster", args.cluster.as_ref());
    let path = format!("/api/v1/jobs/{}", escape(&args.id));
    let Some(found) = server(&args.server)?.get(&path, &parameters)? else {
        say!("jobglass: nothing was seen of job {}", args.id);
        return Ok(false);
    };
    if args.resources {
        return job::show_resources(&found, &args.shape.into());
    }
    job::show(&found, &args.shape.into(), args.all)?;
    Ok(true)
}

pub fn nodes(args: &NodesArgs) -> Result<bool> {
    let mut parameters = Parameters::new();
    add(&mut parameters, "host", args.host.as_ref());
    let columns = if args.hardware { show::HARDWARE } else { show::NODE };
    rows(&server(&args.server)?, "/api/v1/nodes", &parameters, columns, &args.shape.into())
}

pub fn short_jobs(args: &ShortJobsArgs) -> Result<bool> {
    let mut parameters = vec![("per", args.per.to_string())];
    add(&mut parameters, "cluster", args.cluster.as_ref());
    add(&mut parameters, "user", args.user.as_ref());
    add(&mut parameters, "limit", Some(&args.limit));
    add_times(&mut parameters, Some(&args.since), args.until.as_deref())?;
    let columns = show::SHORT_JOBS;
    rows(&server(&args.server)?, "/api/v1/short-jobs", &parameters, columns, &args.shape.into())
}

/// A job's name as part of a path.
fn escape(text: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes()
        .map(|byte| if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

pub fn login(args: &LoginArgs) -> Result<bool> {
    let token = match (&args.token_file, &args.socket) {
        (Some(file), _) => server::read_token(file)?,
        (None, Some(socket)) => server::token_from(socket)?,
        (None, None) => bail!("--token-file or --socket is missing"),
    };
    let login = Login { server: args.url.clone(), token, ca_file: args.ca_file.clone() };
    // A login that does not work is not kept.
    let who = Server::new(login.clone())?.get("/api/v1/whoami", &[])?;
    let who = who.context("this server does not know the request: is it older?")?;
    let path = login.keep()?;
    let text = |name: &str| who[name].as_str().unwrap_or_default().to_owned();
    say!(
        "jobglass: logged in at {} as {} ({}); kept in {}",
        args.url,
        text("user"),
        text("role"),
        path.display()
    );
    Ok(true)
}

pub fn whoami(args: &WhoamiArgs) -> Result<bool> {
    let who = server(&args.server)?.get("/api/v1/whoami", &[])?;
    let who = who.context("this server does not know the request: is it older?")?;
    if args.json {
        pager::json(&who)?;
        return Ok(true);
    }
    let sees = match who["sees_projects"].as_array() {
        None => "sees all jobs".to_owned(),
        Some(projects) if projects.is_empty() => "sees their own jobs".to_owned(),
        Some(projects) => {
            let names: Vec<&str> = projects.iter().filter_map(Value::as_str).collect();
            format!("sees their own jobs and those of {}", names.join(", "))
        }
    };
    pager::line(format_args!(
        "{} ({}), {sees}",
        who["user"].as_str().unwrap_or_default(),
        who["role"].as_str().unwrap_or_default()
    ))?;
    Ok(true)
}
