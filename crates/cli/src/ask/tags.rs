//! `jobglass tags`: which there are, who has them, why, and what a new rule would find.

use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::show::{self, Column, text};
use super::{
    Parameters, Server, add, add_times, escape, explain, jobs, opinions, own_tags, pager, proposals, rows,
    server,
};
use crate::args::{CountArgs, ListArgs, RunTagsArgs, SetArgs, SoftwareArgs, TagsCommand, TryArgs};

/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(500);

pub fn run(command: &TagsCommand) -> Result<bool> {
    match command {
        TagsCommand::List(args) => list(args),
        TagsCommand::Count(args) => count(args),
        TagsCommand::Explain(args) => explain::explain(args),
        TagsCommand::Try(args) => trial(args),
        TagsCommand::Run(args) => judge(args),
        TagsCommand::Software(args) => software(args),
        TagsCommand::Declare(args) => own_tags::declare(args),
        TagsCommand::Retire(args) => own_tags::retire(args),
        TagsCommand::Propose(args) => proposals::propose(args),
        TagsCommand::Proposals(args) => proposals::list(args),
        TagsCommand::Approve(args) => proposals::approve(args),
        TagsCommand::Reject(args) => proposals::reject(args),
        TagsCommand::Set(args) => say(args, true),
        TagsCommand::Unset(args) => say(args, false),
        TagsCommand::Agree(args) => opinions::say(args, "agree"),
        TagsCommand::Disagree(args) => opinions::say(args, "disagree"),
        TagsCommand::Hide(args) => opinions::say(args, "hide"),
        TagsCommand::Opinions(args) => opinions::list(args),
    }
}

const TAG: Column = ("TAG", |row| text(&row["tag"]));
const GROUP: Column = ("GROUP", |row| text(&row["group"]));
const JOBS: Column = (">JOBS", |row| text(&row["jobs"]));
/// None of those that were decided is 0; where a rule could decide about no job, nobody knows.
const HITS: Column = (">JOBS", |row| match (row["jobs"].as_u64(), row["decided_jobs"].as_u64()) {
    (Some(0), Some(0)) => show::unknown(),
    _ => text(&row["jobs"]),
});
const DECIDED: Column = (">DECIDED", |row| decided(row));
/// Of GPUs for tags about them.
const HOURS: Column = (">HOURS", |row| {
    let unit = if is_about_gpus(row) { "GPU-h" } else { "core-h" };
    hours_of(row).map_or_else(show::unknown, |hours| format!("{hours:.1} {unit}"))
});
const VERSION: Column = (">VERSION", |row| text(&row["version"]));

const SHORT: &[Column] = &[
    TAG,
    GROUP,
    HITS,
    DECIDED,
    HOURS,
    VERSION,
    ("BY", |row| by(row)),
    ("MEANING", |row| text(&row["description"])),
];
const LONG: &[Column] = &[
    TAG,
    GROUP,
    HITS,
    DECIDED,
    HOURS,
    VERSION,
    ("BY", |row| by(row)),
    ("SPACE", |row| text(&row["space"])),
    ("AUTHOR", |row| text(&row["author"])),
    ("SINCE", |row| text(&row["since"])),
    ("CHANGED", |row| text(&row["changed"])),
    (">AGREE", |row| text(&row["agree"])),
    (">DISAGREE", |row| text(&row["disagree"])),
    (">CRITICALITY", |row| text(&row["criticality"])),
    (">CONFIDENCE", |row| text(&row["confidence"])),
    ("CRITERION", |row| text(&row["criterion"])),
    ("MEANING", |row| text(&row["description"])),
];

fn by(row: &Value) -> String {
    match (row["criterion"].is_null(), row["available"] == true) {
        (_, false) => "not available",
        (true, _) => "people",
        (false, _) => "rule",
    }
    .to_owned()
}

/// Of how many of the newest jobs the rule could decide: of others, something that it needs was not measured.
fn decided(row: &Value) -> String {
    match (row["decided_jobs"].as_u64(), row["newest_jobs"].as_u64()) {
        (Some(_), Some(0)) | (None, _) | (_, None) => show::unknown(),
        (Some(decided), Some(jobs)) => format!("{:.0} %", 100.0 * decided as f64 / jobs as f64),
    }
}

fn hours(value: &Value) -> String {
    value.as_f64().map_or_else(show::unknown, |hours| format!("{hours:.1}"))
}

fn is_about_gpus(row: &Value) -> bool {
    row["group"] == "accelerators"
}

fn hours_of(row: &Value) -> Option<f64> {
    row[if is_about_gpus(row) { "gpu_hours" } else { "core_hours" }].as_f64()
}

/// Those that jobs have come first, by the time of these jobs.
fn by_hours(rows: &mut [Value]) {
    let jobs = |row: &Value| row["jobs"].as_u64().unwrap_or_default();
    let hours = |row: &Value| hours_of(row).unwrap_or_default();
    rows.sort_by(|a, b| {
        let (has, other_has) = (jobs(a) > 0, jobs(b) > 0);
        other_has.cmp(&has).then(hours(b).total_cmp(&hours(a))).then(jobs(b).cmp(&jobs(a)))
    });
}

fn list(args: &ListArgs) -> Result<bool> {
    let mut parameters = Parameters::new();
    let is_default = args.since.is_none() && args.until.is_none() && !args.all_time;
    let since = args.since.as_deref().or(is_default.then_some(jobs::DAYS));
    add_times(&mut parameters, since, args.until.as_deref())?;
    let answer = server(&args.server)?
        .get("/api/v1/tags", &parameters)?
        .context("this server has no tags: is it older?")?;
    let is_asked = |row: &&Value| args.group.as_deref().is_none_or(|group| row["group"] == group);
    let mut rows: Vec<Value> =
        answer["rows"].as_array().into_iter().flatten().filter(is_asked).cloned().collect();
    by_hours(&mut rows);
    show::rows(&rows, if args.long { LONG } else { SHORT }, &args.shape.into())?;
    let has_jobs = |row: &Value| row["judged_jobs"].as_u64().is_some_and(|jobs| jobs > 0);
    if rows.is_empty() {
        say!("jobglass: nothing found");
    } else if is_default && !rows.iter().any(has_jobs) {
        say!("jobglass: no jobs in the last 30 days (--all-time counts all)");
    }
    Ok(!rows.is_empty())
}

fn count(args: &CountArgs) -> Result<bool> {
    let mut parameters = vec![("by", args.by.clone())];
    add(&mut parameters, "tags", (!args.tags.is_empty()).then(|| args.tags.join(",")).as_ref());
    add(&mut parameters, "where", args.condition.as_ref());
    add_times(&mut parameters, args.since.as_deref(), args.until.as_deref())?;
    // What it is counted by comes first in a row.
    const COUNTED: &[Column] = &[
        ("OF", |row| row.as_object().and_then(|row| row.values().next()).map_or_else(show::unknown, text)),
        TAG,
        JOBS,
        HOURS,
    ];
    rows(&server(&args.server)?, "/api/v1/tags/count", &parameters, COUNTED, &args.shape.into())
}

const ON_SOFTWARE: &[Column] = &[
    TAG,
    ("OF", |row| text(&row["of"])),
    ("SOFTWARE", |row| text(&row["pattern"])),
    ("BY", |row| text(&row["by"])),
    ("SINCE", |row| text(&row["at"])),
    ("UNTIL", |row| text(&row["until"])),
    ("REASON", |row| text(&row["reason"])),
];

/// Puts a tag on software, takes it off, or shows which there are.
fn software(args: &SoftwareArgs) -> Result<bool> {
    let server = server(&args.server)?;
    let Some(tag) = &args.tag else {
        return rows(&server, "/api/v1/tags/software", &Parameters::new(), ON_SOFTWARE, &args.shape.into());
    };
    let mut parameters = vec![("tag", tag.clone()), ("has", (!args.off).to_string())];
    add(&mut parameters, "uses", args.uses.as_ref());
    add(&mut parameters, "runs", args.runs.as_ref());
    add(&mut parameters, "reason", args.reason.as_ref());
    let answer = server.begin("/api/v1/tags/software", &parameters)?;
    let answer = answer.context("this server puts no tags on software: is it older?")?;
    if answer["is_new"] != true {
        pager::line(format_args!("{}: as it was before", text(&answer["tag"])))?;
        return Ok(true);
    }
    if !args.detach {
        wait(&server, answer["run"]["jobs"].as_u64().unwrap_or_default())?;
    }
    status(&server, false)
}

/// Says that a job has a tag, or has it not.
fn say(args: &SetArgs, has: bool) -> Result<bool> {
    let mut parameters = vec![("tag", args.tag.clone()), ("has", has.to_string())];
    add(&mut parameters, "cluster", args.cluster.as_ref());
    add(&mut parameters, "reason", args.reason.as_ref());
    add(&mut parameters, "personal", args.personal.then_some("true").as_ref());
    let path = format!("/api/v1/jobs/{}/tags", escape(&args.id));
    let Some(answer) = server(&args.server)?.begin(&path, &parameters)? else {
        say!("jobglass: nothing is known of job {}", args.id);
        return Ok(false);
    };
    if args.json {
        pager::json(&answer)?;
    } else {
        let word = if has { "has" } else { "has no longer" };
        let again = if answer["is_new"] == true { "" } else { ", as was said before" };
        pager::line(format_args!("job {} {word} {}{again}", args.id, text(&answer["tag"])))?;
    }
    Ok(true)
}

fn trial(args: &TryArgs) -> Result<bool> {
    let mut parameters = vec![("condition", args.condition.clone())];
    add(&mut parameters, "than", args.than.as_ref());
    add_times(&mut parameters, args.since.as_deref(), args.until.as_deref())?;
    let answer = server(&args.server)?
        .get("/api/v1/tags/try", &parameters)?
        .context("this server cannot try rules: is it older?")?;
    let is_any = answer["jobs"].as_u64().is_some_and(|jobs| jobs > 0);
    if args.json {
        pager::json(&answer)?;
        return Ok(is_any);
    }
    pager::print(&found(&answer, args.than.as_deref()))?;
    Ok(is_any)
}

/// What a condition finds, in words.
fn found(answer: &Value, than: Option<&str>) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", text(&answer["criterion"]));
    let _ = writeln!(
        out,
        "  finds {} jobs with {} core hours, of {} users in {} partitions; of {} jobs it is unknown",
        text(&answer["jobs"]),
        hours(&answer["core_hours"]),
        text(&answer["users"]),
        text(&answer["partitions"]),
        text(&answer["unknown"])
    );
    for (name, title) in [("most_users", "users"), ("most_partitions", "partitions")] {
        let most: Vec<String> = answer[name].as_array().into_iter().flatten().map(one_of_most).collect();
        if !most.is_empty() {
            let _ = writeln!(out, "  {title} with most: {}", most.join(", "));
        }
    }
    let examples: Vec<String> = answer["examples"].as_array().into_iter().flatten().map(text).collect();
    if !examples.is_empty() {
        let _ = writeln!(out, "  for example jobs {}", examples.join(", "));
    }
    if let (Some(tag), difference @ Value::Object(_)) = (than, &answer["difference"]) {
        let _ = writeln!(
            out,
            "  than {tag}: {} jobs more, {} fewer, {} the same",
            text(&difference["only_new"]),
            text(&difference["only_old"]),
            text(&difference["both"])
        );
    }
    out
}

fn one_of_most(row: &Value) -> String {
    format!("{} ({} jobs, {} h)", text(&row["name"]), text(&row["jobs"]), hours(&row["core_hours"]))
}

fn judge(args: &RunTagsArgs) -> Result<bool> {
    let server = server(&args.server)?;
    if args.status {
        return status(&server, args.json);
    }
    let mut parameters = Parameters::new();
    add_times(&mut parameters, args.since.as_deref(), None)?;
    add(&mut parameters, "tag", args.tag.as_ref());
    let begun = server.begin("/api/v1/tags/run", &parameters)?;
    let begun = begun.context("this server has no tags: is it older?")?;
    if !args.detach {
        wait(&server, begun["jobs"].as_u64().unwrap_or_default())?;
    }
    status(&server, args.json)
}

/// Until the run has ended, with a bar for those who look.
fn wait(server: &Server, jobs: u64) -> Result<()> {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(jobs) } else { ProgressBar::hidden() };
    bar.set_style(ProgressStyle::with_template(
        "{bar:30} {percent:>3}%  {human_pos} jobs  {per_sec}  {eta} left",
    )?);
    loop {
        let run = last(server)?;
        bar.set_position(run["judged"].as_u64().unwrap_or_default());
        if !run["ended"].is_null() || run.is_null() {
            bar.finish_and_clear();
            return Ok(());
        }
        std::thread::park_timeout(LOOK);
    }
}

fn last(server: &Server) -> Result<Value> {
    let answer = server.get("/api/v1/tags/run", &[])?.context("this server has no tags: is it older?")?;
    Ok(answer["run"].clone())
}

fn status(server: &Server, json: bool) -> Result<bool> {
    let run = last(server)?;
    if json {
        pager::json(&run)?;
    } else if run.is_null() {
        pager::line(format_args!(
            "The collection was never judged as a whole; jobs are judged when they are told."
        ))?;
    } else {
        let word = if run["ended"].is_null() { "so far" } else { "done" };
        pager::line(format_args!(
            "{} of {} jobs judged by set {} of the rules, {word}; those that wait are not judged",
            text(&run["judged"]),
            text(&run["jobs"]),
            text(&run["rules"])
        ))?;
    }
    Ok(!run.is_null())
}
