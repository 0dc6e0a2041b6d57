//! Rows as a table, as JSON or as CSV.

use std::io::{BufWriter, Write};

use anyhow::Result;
use serde_json::Value;

use super::{pager, when};
use crate::args::{By, ShapeArgs};
use crate::output;
use crate::table::{self, Table};

/// How rows are printed.
pub enum Shape {
    Table,
    Json,
    Csv,
}

impl From<ShapeArgs> for Shape {
    fn from(args: ShapeArgs) -> Self {
        match (args.json, args.csv) {
            (true, _) => Shape::Json,
            (_, true) => Shape::Csv,
            _ => Shape::Table,
        }
    }
}

/// A column of a table: its title, and what of a row it shows.
pub type Column = (&'static str, fn(&Value) -> String);

pub const PROCESS: &[Column] = &[
    ("START", |row| time(&row["start"])),
    ("USER", |row| user(row)),
    ("JOB", |row| place(row)),
    ("NODE", |row| text(if row["node"].is_null() { &row["host"] } else { &row["node"] })),
    (">PID", |row| text(&row["pid"])),
    (">COUNT", |row| text(&row["count"])),
    ("END", |row| end(row)),
    (">SECONDS", |row| lasted(row)),
    (">CPU", |row| cpu(row)),
    (">MEMORY", |row| bytes(&row["max_rss_bytes"])),
    ("PROGRAM", |row| program(row)),
];

/// What programs, libraries and modules have before their names.
const USERS: Column = (">USERS", |row| text(&row["users"]));
const JOBS: Column = (">JOBS", |row| text(&row["jobs"]));
const RUNS: Column = (">RUNS", |row| text(&row["runs"]));
const HOURS: Column = (">CPU HOURS", |row| match row["cpu_hours"].as_f64() {
    None => unknown(),
    Some(hours) if hours > 0.0 && hours < 0.01 => "<0.01".into(),
    Some(hours) => format!("{hours:.2}"),
});
const FIRST: Column = ("FIRST SEEN", |row| time(&row["first_seen"]));
const LAST: Column = ("LAST SEEN", |row| time(&row["last_seen"]));
const EXE: Column = ("PROGRAM", |row| text(&row["exe"]));
const NAME: Column = ("LIBRARY", |row| text(&row["library"]));
const USER: Column = ("USER", |row| text(&row["user"]));

pub const PROGRAM: &[Column] = &[USERS, JOBS, RUNS, HOURS, FIRST, LAST, EXE];
pub const LIBRARY: &[Column] = &[USERS, JOBS, RUNS, HOURS, FIRST, LAST, NAME];
pub const MODULE: &[Column] =
    &[USERS, JOBS, RUNS, HOURS, FIRST, LAST, ("MODULE", |row| text(&row["module"]))];

/// The same within one job.
pub const OWN_LIBRARY: &[Column] = &[RUNS, NAME];
pub const OWN_MODULE: &[Column] = &[RUNS, ("MODULE", |row| text(&row["module"]))];

/// How a node fares.
pub const NODE: &[Column] = &[
    ("NODE", |row| text(&row["host"])),
    ("READ AT", |row| time(&row["time"])),
    (">LOAD", |row| row["load"].as_f64().map_or_else(unknown, |load| format!("{load:.2}"))),
    (">CPU", |row| percent(&row["cpu_busy"])),
    (">MEMORY", |row| bytes(&row["memory_used"])),
    (">OF", |row| bytes(&row["memory_total"])),
    (">DISK READ/S", |row| per_second(&row["disk_read"])),
    (">WRITTEN/S", |row| per_second(&row["disk_written"])),
    (">NET IN/S", |row| per_second(&row["net_received"])),
    (">OUT/S", |row| per_second(&row["net_sent"])),
    ("JOBS", |row| {
        let jobs: Vec<&str> =
            row["jobs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        jobs.join(" ")
    }),
];

/// What a node is made of.
pub const HARDWARE: &[Column] = &[
    ("NODE", |row| text(&row["host"])),
    (">SOCKETS", |row| text(&row["hardware"]["sockets"])),
    (">CORES", |row| text(&row["hardware"]["cores"])),
    (">THREADS", |row| text(&row["hardware"]["threads"])),
    (">NUMA", |row| text(&row["hardware"]["numa"])),
    (">MEMORY", |row| bytes(&row["hardware"]["memory"])),
    (">GFLOPS", |row| {
        row["hardware"]["peak_flops"].as_f64().map_or_else(unknown, |flops| format!("{:.0}", flops / 1e9))
    }),
    ("PROCESSOR", |row| text(&row["hardware"]["model"])),
    ("GPUS", |row| text(&row["hardware"]["cards"])),
];

fn per_second(value: &Value) -> String {
    value.as_f64().map_or_else(unknown, |rate| table::human_bytes(rate.round() as u64))
}

/// A metric over time.
pub const SERIES: &[Column] = &[
    ("NODE", |row| text(if row["node"].is_null() { &row["host"] } else { &row["node"] })),
    ("GPU", |row| if row["card"].is_null() { String::new() } else { text(&row["card"]) }),
    ("FROM", |row| time(&row["from"])),
    ("TO", |row| time(&row["to"])),
    (">VALUE", |row| measured(&row["value"], &row["unit"])),
    ("UNIT", |row| unit_beside(&row["unit"])),
];

/// A value that stands beside its unit; of bytes, the number has it.
pub fn measured(value: &Value, unit: &Value) -> String {
    match (value.as_f64(), unit.as_str()) {
        (Some(number), Some(unit @ ("B" | "B/s"))) => amount(number, unit),
        (Some(number), _) => format!("{number:.3}"),
        (None, _) => unknown(),
    }
}

pub fn unit_beside(unit: &Value) -> String {
    if matches!(unit.as_str(), Some("B" | "B/s")) { String::new() } else { text(unit) }
}

/// Short jobs of one user and time together.
pub const SHORT_JOBS: &[Column] = &[
    ("FROM (UTC)", |row| row["from"].as_str().map_or_else(unknown, utc)),
    USER,
    JOBS,
    (">HOURS", |row| hours(&row["elapsed_s"])),
    (">MEDIAN", |row| row["median_s"].as_f64().map_or_else(unknown, |seconds| format!("{seconds:.1} s"))),
    (">CORE HOURS", |row| hours(&row["reserved_core_s"])),
    (">CPU HOURS", |row| hours(&row["cpu_s"])),
    (">SHARE", |row| percent(&row["cpu_share"])),
    (">MEMORY PEAK", |row| bytes(&row["memory_peak"])),
];

/// The beginning of an hour or day: in the zone in which it is one.
fn utc(text: &str) -> String {
    text.get(..16).unwrap_or(text).replace('T', " ")
}

fn hours(seconds: &Value) -> String {
    seconds.as_f64().map_or_else(unknown, |seconds| format!("{:.2}", seconds / 3600.0))
}

/// A share of one.
pub fn percent(share: &Value) -> String {
    share.as_f64().map_or_else(unknown, |share| format!("{:.0} %", 100.0 * share))
}

/// What `env-check` found, and its rules.
pub const CHECKED: &[Column] = &[
    ("RULE", |row| text(&row["rule"])),
    USER,
    JOBS,
    RUNS,
    LAST,
    ("LAST JOB", |row| text(&row["example_job"])),
    EXE,
    ("FOUND", |row| text(&row["example"])),
];
pub const RULE: &[Column] = &[
    ("RULE", |row| text(&row["rule"])),
    ("SAYS", |row| text(&row["says"])),
    ("ADVICE", |row| text(&row["advice"])),
];

/// The columns of `uses`.
pub fn uses(by: By) -> &'static [Column] {
    match by {
        By::Job => &[("JOB", |row| text(&row["job"])), USER, RUNS, FIRST, LAST, EXE],
        By::User => &[USER, JOBS, RUNS, FIRST, LAST],
        By::Program => &[USERS, JOBS, RUNS, FIRST, LAST, EXE],
        By::Library => &[USERS, JOBS, RUNS, FIRST, LAST, NAME],
    }
}

/// Prints rows in the shape that was asked for.
pub fn rows(rows: &[Value], columns: &[Column], shape: &Shape) -> Result<()> {
    match shape {
        Shape::Json => json(rows),
        Shape::Csv => csv(rows),
        Shape::Table if rows.is_empty() => Ok(()),
        Shape::Table => Ok(pager::print(&table(rows, columns))?),
    }
}

pub fn table(rows: &[Value], columns: &[Column]) -> String {
    written(&tabled(rows, columns))
}

pub fn tabled(rows: &[Value], columns: &[Column]) -> Table {
    let titles: Vec<&'static str> = columns.iter().map(|(title, _)| *title).collect();
    let mut table = Table::new(&titles);
    rows.iter().for_each(|row| table.add(columns.iter().map(|(_, show)| show(row)).collect()));
    table
}

fn written(table: &Table) -> String {
    let mut out = Vec::new();
    // Writing into memory does not fail.
    let _ = table.print(&mut out, table::terminal_width(), table::has_colour());
    String::from_utf8_lossy(&out).into_owned()
}

/// Prints a table, page by page if it is long.
pub fn print(table: &Table) -> Result<()> {
    Ok(pager::print(&written(table))?)
}

/// One object per line.
fn json(rows: &[Value]) -> Result<()> {
    let mut out = BufWriter::new(output::stdout());
    for row in rows {
        writeln!(out, "{}", output::json(row)?)?;
    }
    Ok(out.flush()?)
}

/// All fields of a row; lists and objects as JSON, unknown as an empty cell. Texts are as they are, but on a terminal.
fn csv(rows: &[Value]) -> Result<()> {
    let is_seen = output::stdout().is_terminal();
    let cell = |text: String| if is_seen { table::clean(&text) } else { text };
    let mut out = csv::Writer::from_writer(output::stdout());
    let Some(first) = rows.first().and_then(Value::as_object) else { return Ok(()) };
    out.write_record(first.keys())?;
    for row in rows {
        let text = |name| match &row[name] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        out.write_record(first.keys().map(|name| cell(text(name))))?;
    }
    Ok(out.flush()?)
}

pub fn unknown() -> String {
    "-".to_owned()
}

/// A value in words, on one line: a name with a line break in it is not two.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => unknown(),
        Value::String(text) => table::clean(text),
        other => table::clean(&other.to_string()),
    }
}

pub fn time(value: &Value) -> String {
    value.as_str().map_or_else(unknown, when::local)
}

fn user(row: &Value) -> String {
    text(if row["user"].is_null() { &row["uid"] } else { &row["user"] })
}

/// Job, step and rank, or the session.
fn place(row: &Value) -> String {
    let Some(job) = row["job"].as_str() else { return text(&row["session"]) };
    match (row["step"].as_str(), row["rank"].as_u64()) {
        (Some(step), Some(rank)) => format!("{job}.{step}:{rank}"),
        (Some(step), None) => format!("{job}.{step}"),
        (None, _) => job.to_owned(),
    }
}

pub fn end(row: &Value) -> String {
    match row["ended_by"].as_str() {
        Some("exit") => format!("exit {}", text(&row["exit_code"])),
        Some("signal") => format!("signal {}", text(&row["signal"])),
        Some(other) => other.to_owned(),
        // It runs, or nobody knows.
        None => text(&row["state"]),
    }
}

pub fn lasted(row: &Value) -> String {
    seconds_of(row).map_or_else(unknown, |seconds| format!("{seconds:.2}"))
}

/// From its start to its end; of a process that runs, the time so far.
pub fn seconds_of(row: &Value) -> Option<f64> {
    let at = |name: &str| row[name].as_str()?.parse::<jiff::Timestamp>().ok();
    let so_far = || (row["state"] == "running").then(jiff::Timestamp::now);
    let span = at("start").zip(at("end").or_else(so_far));
    span.map(|(start, end)| end.duration_since(start).as_secs_f64())
}

pub fn cpu(row: &Value) -> String {
    let cpu = row["user_cpu_s"].as_f64().zip(row["system_cpu_s"].as_f64());
    cpu.map_or_else(unknown, |(user, system)| format!("{:.2}", user + system))
}

/// A number with its unit: bytes and shares in few digits, everything else with the unit behind it.
pub fn amount(number: f64, unit: &str) -> String {
    let plain = || if number.fract() == 0.0 { format!("{number:.0}") } else { format!("{number:.2}") };
    match unit {
        "B" => human(number),
        "B/s" => human(number) + "/s",
        "%" => format!("{number:.1} %"),
        _ => format!("{} {unit}", plain()),
    }
}

/// Bytes, which may be an average or a difference.
fn human(bytes: f64) -> String {
    let sign = if bytes < 0.0 { "-" } else { "" };
    format!("{sign}{}", table::human_bytes(bytes.abs().round() as u64))
}

pub fn bytes(value: &Value) -> String {
    value.as_u64().map_or_else(unknown, table::human_bytes)
}

/// The path, and what tells one run from another.
pub fn program(row: &Value) -> String {
    let exe = row["exe"].as_str().unwrap_or("?");
    let forked = if row["forked_from"].is_null() { "" } else { " (forked)" };
    let arguments: Vec<&str> =
        row["argv"].as_array().into_iter().flatten().skip(1).filter_map(Value::as_str).collect();
    let line = format!("{exe}{forked} {}", arguments.join(" "));
    table::cut(line.trim(), Some(120))
}
