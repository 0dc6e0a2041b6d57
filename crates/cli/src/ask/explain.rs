//! `jobglass tags explain`: why a job has its tags, and why not others.

use std::fmt::Write;

use anyhow::Result;
use serde_json::Value;

use super::show::text;
use super::{Parameters, add, escape, opinions, pager, server};
use crate::args::ExplainArgs;

/// Prints why a job has its tags, and why not others.
pub fn explain(args: &ExplainArgs) -> Result<bool> {
    let mut parameters = Parameters::new();
    add(&mut parameters, "cluster", args.cluster.as_ref());
    add(&mut parameters, "tag", args.tag.as_ref());
    add(&mut parameters, "why_not", args.why_not.then_some("true").as_ref());
    let path = format!("/api/v1/jobs/{}/tags", escape(&args.id));
    let Some(answer) = server(&args.server)?.get(&path, &parameters)? else {
        say!("jobglass: nothing is known of job {}", args.id);
        return Ok(false);
    };
    if args.json {
        pager::json(&answer)?;
        return Ok(true);
    }
    let mut out = String::new();
    head(&answer, &mut out);
    tags(&answer, args, &mut out);
    pager::print(&out)?;
    Ok(true)
}

/// Which job it is, and what the decisions rest on.
fn head(answer: &Value, out: &mut String) {
    let [job, user, state] = ["job_id", "user", "state"].map(|name| text(&answer[name]));
    let _ = writeln!(out, "job {job} of {user}, {state}");
    if answer["is_judged"] == true {
        let is_provisional = answer["is_provisional"] == true;
        let provisional =
            if is_provisional { ": it runs, and what is said of it is provisional" } else { "" };
        let _ = writeln!(out, "Judged {}{provisional}.", text(&answer["judged"]));
    } else {
        let _ = writeln!(out, "It was not judged yet.");
    }
    if let Some(coverage) = answer["coverage"].as_f64() {
        let _ = writeln!(out, "Measured for {coverage:.0} % of its time.");
    }
    if let Some(shared) = shared_node(&answer["shared_node"]) {
        let _ = writeln!(out, "{shared}");
    }
}

/// Why values of its nodes are not the job's, if they are not.
fn shared_node(is_shared: &Value) -> Option<&'static str> {
    match is_shared.as_bool() {
        Some(false) => None,
        Some(true) => {
            Some("Shared node: other jobs ran there, so values of the whole node are not used for this job.")
        }
        None => Some(
            "Shared node unknown: other jobs may have run there, so values of the whole node are not used for this job.",
        ),
    }
}

/// What rules decided, what people said, and what they wished in vain.
fn tags(answer: &Value, args: &ExplainArgs, out: &mut String) {
    let with_hidden = args.hidden || args.tag.is_some();
    let list = |name: &str| answer[name].as_array().map_or(&[][..], Vec::as_slice);
    let (tags, said) = (list("tags"), list("said"));
    let is_shown = |tag: &&Value| with_hidden || tag["is_hidden"] != true;
    let (shown, hidden): (Vec<&Value>, Vec<&Value>) = tags.iter().partition(is_shown);
    shown.into_iter().for_each(|tag| by_rule(tag, args.verbose, out));
    for said in said {
        let _ = writeln!(out, "\n{}", said_line(said));
    }
    for refused in list("refused") {
        let (wish, why) = (text(&refused["wish"]), text(&refused["why"]));
        let _ = writeln!(out, "\n? {wish}  (wished at submission) {why}");
    }
    if !hidden.is_empty() {
        let _ = writeln!(out, "\n{} that you have hidden: --hidden shows them.", hidden.len());
    }
    if tags.is_empty() && said.is_empty() {
        let _ = writeln!(out, "It has no tags. --why-not says why.");
    }
}

fn by_rule(tag: &Value, is_verbose: bool, out: &mut String) {
    let has = if tag["has"] == true { "+" } else { "-" };
    let removed = if tag["is_removed"] == true { ", removed by owner" } else { "" };
    let _ =
        writeln!(out, "\n{has} {}  (rule, version {}{removed})", text(&tag["tag"]), text(&tag["version"]));
    for name in ["supposition", "recommendation"] {
        if let Some(words) = tag[name].as_str().filter(|words| !words.is_empty()) {
            let _ = writeln!(out, "    {words}");
        }
    }
    for step in tag["steps"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "    {}", step_line(step, is_verbose));
    }
    match (tag["has"] == true, tag["holds_now"] == true) {
        (false, true) if tag["overruled_by"].is_string() => {
            let _ = writeln!(
                out,
                "    It holds, but a job has one tag of group {}: {}.",
                text(&tag["group"]),
                text(&tag["overruled_by"])
            );
        }
        (true, false) => {
            out.push_str("    By the values of now it does not hold: they have changed since.\n")
        }
        (false, true) => {
            out.push_str(
                "    It holds by the values of now: they have changed since, or somebody took it off.\n",
            );
        }
        _ => {}
    }
    if tag["is_changed"] == true {
        let _ = writeln!(
            out,
            "    The rule has been changed since (version {}): jobglass tags run applies it.",
            text(&tag["newest_version"])
        );
    }
    let opinions = tag["opinions"].as_array().map_or(&[][..], Vec::as_slice);
    for opinion in opinions {
        let _ = writeln!(out, "    {}", opinions::line(opinion));
    }
}

/// `+ job_behavior ITERATIVE  (anna, 2026-11-17T12:00:00Z, at submission)`, with its reason.
fn said_line(said: &Value) -> String {
    let mark = if said["has"] == true { "+" } else { "-" };
    let mut words = vec![text(&said["by"]), text(&said["at"])];
    words.extend(said["until"].as_str().map(|until| format!("until {until}")));
    words.extend((said["at_submission"] == true).then(|| "at submission".to_owned()));
    words.extend((said["is_personal"] == true).then(|| "personal".to_owned()));
    let reason = &said["reason"];
    let reason = if reason.is_null() { String::new() } else { format!("\n    {}", text(reason)) };
    format!("{mark} {}  ({}){reason}", text(&said["tag"]), words.join(", "))
}

/// `! gpu_max = 0: true   (gpu_max is 0 cores; 1 core from the bound)`: with `!` what decides. Unless asked for, what is unknown beside a known
/// value is left out, as is how a column is made of several.
fn step_line(step: &Value, is_verbose: bool) -> String {
    let mark = if step["decides"] == true { "!" } else { " " };
    let holds = step["holds"].as_bool().map_or("unknown", |holds| if holds { "true" } else { "false" });
    let values = step["values"].as_array().map_or(&[][..], Vec::as_slice);
    let is_shown = |seen: &&Value| is_verbose || !seen["value"].is_null() || values.len() == 1;
    let mut said: Vec<String> = values
        .iter()
        .filter(is_shown)
        .map(|seen| format!("{} is {}", text(&seen["column"]), text(&seen["shown"])))
        .collect();
    let margin =
        step["margin"].as_str().filter(|margin| is_verbose || !margin.starts_with("0 ") && *margin != "0");
    said.extend(margin.map(|margin| format!("{margin} from the bound")));
    let said = if said.is_empty() { String::new() } else { format!("   ({})", said.join("; ")) };
    let criterion = text(&step["text"]);
    let criterion = if is_verbose { criterion } else { without_coalesce(&criterion, values) };
    format!("{mark} {criterion}: {holds}{said}")
}

/// In place of the first known of several columns, that column.
fn without_coalesce(criterion: &str, values: &[Value]) -> String {
    const BEGIN: &str = "coalesce(";
    let (mut plain, mut rest) = (String::new(), criterion);
    while let Some(at) = rest.find(BEGIN) {
        let inner = &rest[at + BEGIN.len()..];
        let Some(end) = inner.find(')').filter(|end| !inner[..*end].contains('(')) else { break };
        let columns: Vec<&str> = inner[..end].split(", ").collect();
        let is_known =
            |name: &&&str| values.iter().any(|seen| seen["column"] == **name && !seen["value"].is_null());
        let shown = columns.iter().find(is_known).or(columns.first());
        plain.push_str(&rest[..at]);
        plain.push_str(shown.copied().unwrap_or_default());
        rest = &inner[end + 1..];
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_values_and_internals_are_shown_when_asked_for() {
        let seen =
            |name: &str, value: Value, shown: &str| json!({"column": name, "value": value, "shown": shown});
        let step = json!({
            "text": "coalesce(gpu_max, gpu_avg) = 0", "holds": true, "decides": true, "margin": "0",
            "values": [seen("gpu_max", Value::Null, "unknown"), seen("gpu_avg", json!(0), "0")],
        });
        assert_eq!(step_line(&step, false), "! gpu_avg = 0: true   (gpu_avg is 0)");
        assert_eq!(
            step_line(&step, true),
            "! coalesce(gpu_max, gpu_avg) = 0: true   (gpu_max is unknown; gpu_avg is 0; 0 from the bound)"
        );
        let step = json!({
            "text": "load_avg < 0.75", "holds": null, "decides": true, "margin": null,
            "values": [seen("load_avg", Value::Null, "unknown")],
        });
        assert_eq!(step_line(&step, false), "! load_avg < 0.75: unknown   (load_avg is unknown)");
    }

    #[test]
    fn reasons_of_users_stay_on_their_line() {
        let said = json!({"has": true, "tag": "x", "by": "eve", "at": "now", "reason": "a\u{1b}[2J\n+ y  (anna, now)"});
        assert_eq!(said_line(&said), "+ x  (eve, now)\n    a [2J + y  (anna, now)");
        let opinion = json!({"word": "agree", "by": "eve", "at": "now", "reason": "a\u{9b}2J\nb"});
        assert_eq!(opinions::line(&opinion), "eve agrees (now): a 2J b");
    }

    #[test]
    fn a_column_stands_for_the_first_known_of_several() {
        let values = [json!({"column": "b", "value": 1})];
        for (criterion, plain) in [
            ("coalesce(a, b) > coalesce(c, d)", "b > c"),
            ("coalesce(least(a, 1), b) > 0", "coalesce(least(a, 1), b) > 0"),
            ("a > 0", "a > 0"),
        ] {
            assert_eq!(without_coalesce(criterion, &values), plain);
        }
    }
}
