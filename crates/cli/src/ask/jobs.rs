//! `jobglass jobs`: what was chosen becomes a question, and the answer a table.

use anyhow::{Context, Result, bail};
use condition::like::of_glob;
use jiff::Zoned;
use serde_json::{Value, json};

use super::show::{self, Shape};
use super::{Parameters, Server, add, pager, searches, server, when};
use crate::args::{JobsArgs, JobsKind};
use crate::table::Table;

/// Jobs that a server lists unless told otherwise.
const LIMIT: u64 = 100;
/// Without times, jobs of the last days.
pub(super) const DAYS: &str = "30d";

/// The columns of a table unless others are chosen.
const TABLE: &str =
    "job_id,user,project,partition,state,submit,start,elapsed_s,wait_s,nodes,cores,gpus,core_hours,name";

/// Of groups.
const GROUP: [&str; 8] =
    ["jobs", "started", "core_hours", "node_hours", "gpu_hours", "wait_avg_s", "wait_median_s", "wait_max_s"];

pub fn run(args: &JobsArgs) -> Result<bool> {
    let server = server(&args.server)?;
    if let Some(words) = asked_help(&args.fmt)? {
        return help(&server, words, &args.shape.into());
    }
    if args.search.as_deref() == Some("help") {
        return searches::show(&server, &args.shape.into());
    }
    let parameters = parameters(args)?;
    if let Some(name) = &args.save {
        save(&server, name, args)?;
    }
    let limit =
        parameters.iter().find(|(name, _)| *name == "limit").and_then(|(_, limit)| limit.parse().ok());
    let answer = server.list("/api/v1/jobs", &parameters, limit.unwrap_or(LIMIT))?;
    let answer = answer.context("this server has no list of jobs: is it older?")?;
    if let Some(count) = answer["count"].as_u64() {
        return show_count(count, args);
    }
    let rows = answer["rows"].as_array().map_or(&[][..], Vec::as_slice);
    print(rows, &answer["units"], args)?;
    say_what_is_missing(&server, rows, &answer, &parameters, args)?;
    Ok(!rows.is_empty())
}

const HELP: &[show::Column] = &[
    ("COLUMN", |row| show::text(&row["column"])),
    ("IN CONDITIONS", |row| show::text(&row["in_conditions"])),
    ("UNIT", |row| show::text(&row["unit"])),
    ("MEANING", |row| show::text(&row["meaning"])),
];

/// The words that are looked for in the help of columns, if that is asked for.
fn asked_help(fmt: &[String]) -> Result<Option<Vec<String>>> {
    let words: Vec<&str> = fmt.iter().flat_map(|text| text.split_whitespace()).collect();
    match (&words[..], fmt) {
        (["help", words @ ..], _) => Ok(Some(words.iter().map(|word| word.to_lowercase()).collect())),
        (_, [_, extra, ..]) => bail!("columns have commas between them, and no spaces: found {extra:?}"),
        _ => Ok(None),
    }
}

/// The columns in whose name or meaning all words are.
fn help(server: &Server, words: Vec<String>, shape: &Shape) -> Result<bool> {
    let answer = server.list("/api/v1/jobs/columns", &[], 0)?.unwrap_or_default();
    let fits = |row: &&Value| {
        let texts =
            ["column", "in_conditions", "unit", "meaning"].map(|name| show::text(&row[name]).to_lowercase());
        words.iter().all(|word| texts.iter().any(|text| text.contains(word)))
    };
    let rows: Vec<Value> = answer["rows"].as_array().into_iter().flatten().filter(fits).cloned().collect();
    if rows.is_empty() {
        say!("jobglass: no column has {:?} in its name or meaning", words.join(" "));
    } else if matches!(shape, Shape::Table) {
        show::print(&show::tabled(&rows, HELP).wrapped())?;
    } else {
        show::rows(&rows, HELP, shape)?;
    }
    Ok(!rows.is_empty())
}

fn show_count(count: u64, args: &JobsArgs) -> Result<bool> {
    match Shape::from(args.shape) {
        Shape::Json => pager::line(format_args!("{{\"count\":{count}}}"))?,
        Shape::Csv => pager::line(format_args!("count\n{count}"))?,
        Shape::Table => pager::line(count)?,
    }
    Ok(count > 0)
}

fn parameters(args: &JobsArgs) -> Result<Parameters> {
    let mut parameters = Parameters::new();
    add(&mut parameters, "where", args.condition.as_ref());
    add(&mut parameters, "also", chosen(args)?.as_ref());
    for (name, tags, between) in [("all", &args.all, ","), ("any", &args.any, ";"), ("none", &args.none, ",")]
    {
        add(&mut parameters, name, (!tags.is_empty()).then(|| tags.join(between)).as_ref());
    }
    add(&mut parameters, "search", args.search.as_ref());
    add(&mut parameters, "tagged_by", args.tagged_by.as_ref());
    add(&mut parameters, "tagged", args.tagged.as_ref());
    add(&mut parameters, "node", args.node.as_ref());
    // A job that is named is wanted whatever it is, and whenever it was.
    let is_any = (!args.job.is_empty()).then_some(JobsKind::All);
    add(&mut parameters, "kind", args.kind.or(is_any).as_ref());
    let is_named = args.all_time || !args.job.is_empty();
    let since = args.since.as_deref().or((!is_named && args.until.is_none()).then_some(DAYS));
    let now = Zoned::now();
    for (name, text) in [("since", since), ("until", args.until.as_deref())] {
        if let Some(text) = text {
            parameters.push((name, when::parse(text, &now)?.to_string()));
        }
    }
    if args.count {
        parameters.push(("count", "true".into()));
        return Ok(parameters);
    }
    add(&mut parameters, "group_by", args.group_by.as_ref());
    let all_groups = args.group_by.map(|_| 0);
    add(&mut parameters, "limit", args.limit.or(all_groups).as_ref());
    add(&mut parameters, "sort", args.sort.as_ref());
    let table = || if args.kind == Some(JobsKind::All) { format!("kind,{TABLE}") } else { TABLE.to_owned() };
    let columns = args.fmt.first().cloned().or((args.group_by.is_none() && is_table(args)).then(table));
    add(&mut parameters, "columns", columns.as_ref());
    Ok(parameters)
}

/// Keeps what was chosen, all but times, as a search.
fn save(server: &Server, name: &str, args: &JobsArgs) -> Result<()> {
    let kind = args.kind.filter(|kind| *kind != JobsKind::All);
    let kind = kind.map(|kind| format!("kind = {}", quoted(&kind.to_string())));
    let conditions: Vec<String> = args.condition.iter().cloned().chain(chosen(args)?).chain(kind).collect();
    let condition = match &conditions[..] {
        [] => None,
        [one] => Some(one.clone()),
        all => Some(all.iter().map(|one| format!("({one})")).collect::<Vec<_>>().join(" and ")),
    };
    let names = |list: &String| list.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
    let body = json!({
        "name": name, "description": args.description.clone().unwrap_or_default(), "all": args.all,
        "any": args.any.iter().map(names).collect::<Vec<_>>(), "none": args.none, "where": condition,
    });
    let saved = server.post_json("/api/v1/searches", &body)?;
    let saved = saved.context("this server keeps no searches: is it older?")?;
    let again = if saved["is_new"] == true { "" } else { ", in place of the one of this name" };
    say!("jobglass: kept as search {name}{again}: jobglass jobs --search {name}");
    Ok(())
}

fn is_table(args: &JobsArgs) -> bool {
    matches!(Shape::from(args.shape), Shape::Table)
}

/// What was chosen by options, as one condition.
fn chosen(args: &JobsArgs) -> Result<Option<String>> {
    let mut parts = Vec::new();
    if !args.job.is_empty() {
        let jobs = list(&args.job);
        let numbers: Vec<&str> = args
            .job
            .iter()
            .map(String::as_str)
            .filter(|job| job.bytes().all(|byte| byte.is_ascii_digit()))
            .collect();
        let arrays = if numbers.is_empty() {
            String::new()
        } else {
            format!(" or array_job in ({})", numbers.join(", "))
        };
        parts.push(format!("(job in {jobs} or job_id in {jobs}{arrays})"));
    }
    let lists = [
        ("user", &args.user),
        ("project", &args.project),
        ("partition", &args.partition),
        ("state", &args.state),
    ];
    for (column, values) in lists {
        if !values.is_empty() {
            parts.push(format!("{column} in {}", list(values)));
        }
    }
    parts.extend(args.cluster.as_ref().map(|cluster| format!("cluster = {}", quoted(cluster))));
    parts.extend(args.name.as_ref().map(|name| format!("name like {}", quoted(&of_glob(name)))));
    let ranges = [
        ("nodes", &args.nodes),
        ("cores", &args.cores),
        ("gpus", &args.gpus),
        ("elapsed", &args.duration),
        ("wait", &args.wait),
    ];
    for (column, text) in ranges {
        parts.extend(text.as_ref().map(|text| range(column, text)).transpose()?);
    }
    Ok((!parts.is_empty()).then(|| parts.join(" and ")))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn list(values: &[String]) -> String {
    format!("({})", values.iter().map(|value| quoted(value)).collect::<Vec<_>>().join(", "))
}

/// `4`, `4..16`, `4..`, `..16`, with units.
fn range(column: &str, text: &str) -> Result<String> {
    let is_value = |value: &str| {
        value.starts_with(|first: char| first.is_ascii_digit())
            && value.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '.')
    };
    let (low, high) = match text.split_once("..") {
        Some((low, high)) => (low.trim(), high.trim()),
        None => (text.trim(), text.trim()),
    };
    let bounds: Vec<String> = [(">=", low), ("<=", high)]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(sign, value)| format!("{column} {sign} {value}"))
        .collect();
    if bounds.is_empty() || [low, high].iter().any(|value| !value.is_empty() && !is_value(value)) {
        bail!("{text:?} is no range; write for example 4, 4..16, 4.., ..16, 10m..2h");
    }
    Ok(bounds.join(" and "))
}

fn print(rows: &[Value], units: &Value, args: &JobsArgs) -> Result<()> {
    let shape = args.shape.into();
    if !matches!(shape, Shape::Table) || rows.is_empty() {
        return show::rows(rows, &[], &shape);
    }
    let names: Vec<String> = match args.group_by {
        Some(by) => [by.to_string()].into_iter().chain(GROUP.map(str::to_owned)).collect(),
        None => {
            rows.first().and_then(Value::as_object).into_iter().flat_map(|row| row.keys().cloned()).collect()
        }
    };
    let mut table = Table::titled(names.iter().map(|name| title(name, rows)));
    for row in rows {
        table.add(names.iter().map(|name| cell(name, units[name].as_str(), &row[name])).collect());
    }
    show::print(&table)
}

/// Numbers stand on the right.
fn title(name: &str, rows: &[Value]) -> String {
    let is_number =
        rows.iter().map(|row| &row[name]).find(|value| !value.is_null()).is_some_and(Value::is_number);
    let (name, _) = shown(name);
    let name = name.to_ascii_uppercase().replace('_', " ");
    if is_number { format!(">{name}") } else { name }
}

/// A column of seconds is shown as a duration, and called without its unit.
fn shown(name: &str) -> (&str, bool) {
    name.strip_suffix("_s").map_or((name, false), |name| (name, true))
}

/// A value for people: in a unit that suits it. Groups have seconds in their names, and no units.
fn cell(name: &str, unit: Option<&str>, value: &Value) -> String {
    let is_seconds = unit == Some("s") || unit.is_none() && shown(name).1;
    match (value.as_f64(), unit) {
        (_, Some("time")) => show::time(value),
        (Some(seconds), _) if is_seconds => duration(seconds),
        (Some(number), Some(unit)) if !unit.is_empty() => show::amount(number, unit),
        (Some(number), _) if value.is_f64() => format!("{number:.2}"),
        _ => show::text(value),
    }
}

/// As Slurm writes it: `1-02:03:04`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    let (days, rest) = (whole / 86_400, whole % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days > 0 { format!("{days}-{clock}") } else { clock }
}

fn say_what_is_missing(
    server: &Server,
    rows: &[Value],
    answer: &Value,
    parameters: &Parameters,
    args: &JobsArgs,
) -> Result<()> {
    let is_default = args.since.is_none() && args.until.is_none() && !args.all_time && args.job.is_empty();
    if let (Value::Bool(true), Some(groups)) = (&answer["more"], answer["groups"].as_u64()) {
        say!("jobglass: showing {} of {groups} groups (--limit N, 0 for all)", rows.len());
    } else if answer["more"] == Value::Bool(true) {
        let asked = |name: &&(&str, String)| !matches!(name.0, "limit" | "sort" | "columns" | "group_by");
        let mut count: Parameters = parameters.iter().filter(asked).cloned().collect();
        count.push(("count", "true".into()));
        let all = server.get("/api/v1/jobs", &count)?.unwrap_or_default();
        say!("jobglass: showing {} of {} jobs (--limit N, 0 for all)", rows.len(), show::text(&all["count"]));
    } else if rows.is_empty() && is_default {
        say!("jobglass: nothing found in the last 30 days (--all-time looks at all)");
    } else if rows.is_empty() {
        say!("jobglass: nothing found");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_conditions() {
        for (text, expected) in [
            ("4", Some("x >= 4 and x <= 4")),
            ("4..16", Some("x >= 4 and x <= 16")),
            ("10m..", Some("x >= 10m")),
            ("..2.5h", Some("x <= 2.5h")),
            ("..", None),
            ("", None),
            ("a", None),
            ("4 or true", None),
            ("4..'5'", None),
        ] {
            assert_eq!(range("x", text).ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_quote_is_doubled() {
        assert_eq!(quoted("o'neil"), "'o''neil'");
    }

    #[test]
    fn values_are_shown_in_units_that_suit_them() {
        for (name, unit, value, expected) in [
            ("memory", Some("B"), json!(17_179_869_184u64), "16G"),
            ("read_bytes_avg", Some("B/s"), json!(2_097_152.0), "2M/s"),
            ("elapsed_s", Some("s"), json!(93_784.0), "1-02:03:04"),
            ("wait_avg_s", None, json!(60.2), "00:01:00"),
            ("cpu_util_avg", Some("%"), json!(12.345), "12.3 %"),
            ("energy", Some("J"), json!(5), "5 J"),
            ("cpu_avg", Some("cores"), json!(1.239), "1.24 cores"),
            ("core_hours", Some(""), json!(16.0), "16.00"),
            ("nodes", Some(""), json!(2), "2"),
            ("name", Some("text"), json!("a"), "a"),
            ("memory", Some("B"), json!(null), "-"),
        ] {
            assert_eq!(cell(name, unit, &value), expected, "{name}");
        }
    }

    #[test]
    fn help_is_asked_with_words() {
        let asked = |fmt: &[&str]| asked_help(&fmt.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        for (fmt, expected) in [
            (&[][..], None),
            (&["job,user"], None),
            (&["help"], Some("")),
            (&["help", "CPU", "Avg"], Some("cpu avg")),
            (&["help cpu"], Some("cpu")),
        ] {
            let expected =
                expected.map(|words| words.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(asked(fmt).unwrap(), expected, "{fmt:?}");
        }
        assert!(asked(&["job", "user"]).unwrap_err().to_string().contains("commas"));
    }

    #[test]
    fn durations_are_slurms() {
        for (seconds, expected) in
            [(0.0, "00:00:00"), (59.6, "00:01:00"), (93_784.0, "1-02:03:04"), (-1.0, "00:00:00")]
        {
            assert_eq!(duration(seconds), expected);
        }
    }
}
