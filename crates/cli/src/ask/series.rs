//! `jobglass series`: a metric over time, as a plot for people and as rows for programs.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Result;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::show::{self, Shape, text};
use super::{Parameters, add, escape, pager, server};
use crate::args::SeriesArgs;
use crate::output;
use crate::plot::{self, Plot, Span};
use crate::table;

/// A plot where it goes to no terminal, and lines of any plot.
const WIDTH: usize = 80;
const HEIGHT: usize = 12;

pub fn series(args: &SeriesArgs) -> Result<bool> {
    let mut parameters = Parameters::new();
    add(&mut parameters, "cluster", args.cluster.as_ref());
    add(&mut parameters, "host", args.node.as_ref());
    let path = format!("/api/v1/jobs/{}/series/{}", escape(&args.id), escape(&args.metric));
    let answer = server(&args.server)?.list(&path, &parameters, 0)?.unwrap_or_default();
    let empty = Vec::new();
    let rows = answer["rows"].as_array().unwrap_or(&empty);
    let shape: Shape = args.shape.into();
    let is_for_people = matches!(shape, Shape::Table) && output::stdout().is_terminal();
    if rows.is_empty() {
        say!("jobglass: nothing found");
    } else if args.plot || is_for_people && !args.table {
        pager::print(&drawn(&args.metric, &args.id, rows))?;
    } else {
        show::rows(rows, show::SERIES, &shape)?;
    }
    Ok(!rows.is_empty())
}

/// The plot, with what it is of.
fn drawn(metric: &str, job: &str, rows: &[Value]) -> String {
    let mut series: BTreeMap<String, Vec<Span>> = BTreeMap::new();
    for row in rows {
        series.entry(whose(row)).or_default().extend(span(row));
    }
    let unit = rows.iter().find_map(|row| row["unit"].as_str()).unwrap_or_default();
    let is_bytes = unit.starts_with("bytes") || matches!(unit, "B" | "B/s");
    let label = |number: f64| label(number, unit);
    let values: Vec<Vec<Span>> = series.values().cloned().collect();
    let plot = Plot {
        series: &values,
        style: plot::style(),
        width: table::terminal_width().unwrap_or(WIDTH),
        height: HEIGHT,
        is_bytes,
        label: &label,
        zone: TimeZone::system(),
    };
    let mut out = head(metric, job, unit, &series);
    plot.lines().iter().for_each(|line| {
        let _ = writeln!(out, "{line}");
    });
    out.push_str(&days(&values));
    // Of more values than there is room for, a column shows several.
    let is_dense = values.iter().any(|spans| spans.len() > 2 * plot.width);
    if values.len() > 1 || is_dense {
        out.push_str("Line: average. Dots: minimum and maximum.\n");
    }
    out
}

/// Which node, and which GPU of it.
fn whose(row: &Value) -> String {
    let node = text(if row["node"].is_null() { &row["host"] } else { &row["node"] });
    if row["card"].is_null() { node } else { format!("{node} {}", text(&row["card"])) }
}

/// `None` where the value or its time is not known.
fn span(row: &Value) -> Option<Span> {
    let at = |name: &str| Some(row[name].as_str()?.parse::<Timestamp>().ok()?.as_nanosecond() as i64);
    let value = row["value"].as_f64()?;
    let (min, max) = (row["min"].as_f64().unwrap_or(value), row["max"].as_f64().unwrap_or(value));
    Some(Span { from: at("from")?, to: at("to")?, value, min: min.min(value), max: max.max(value) })
}

fn label(number: f64, unit: &str) -> String {
    match unit {
        "bytes" | "B" => show::amount(number, "B"),
        "bytes/s" | "B/s" => show::amount(number, "B/s"),
        "%" => format!("{number} %"),
        // A count, or a share of one, and what has no unit at all.
        _ => format!("{}", (number * 1e6).round() / 1e6),
    }
}

fn head(metric: &str, job: &str, unit: &str, series: &BTreeMap<String, Vec<Span>>) -> String {
    let unit = match unit {
        "" | "bytes" | "bytes/s" | "B" | "B/s" | "%" => String::new(),
        unit => format!(" ({unit})"),
    };
    let names: Vec<&str> = series.keys().map(String::as_str).collect();
    let of = match &names[..] {
        [one] => (*one).to_owned(),
        several if several.iter().any(|name| name.contains(' ')) => {
            format!("{} parts of nodes", several.len())
        }
        several => format!("{} nodes", several.len()),
    };
    table::clean(&format!("{metric}{unit} of job {job}, on {of}")) + "\n"
}

/// Which days the times are of, in which zone.
fn days(values: &[Vec<Span>]) -> String {
    let all = || values.iter().flatten();
    let (Some(from), Some(until)) = (all().map(|span| span.from).min(), all().map(|span| span.to).max())
    else {
        return String::new();
    };
    let written = |ns: i64, form: &str| {
        let time = Timestamp::from_nanosecond(ns.into()).unwrap_or(Timestamp::UNIX_EPOCH);
        time.to_zoned(TimeZone::system()).strftime(form).to_string()
    };
    format!("{} to {}\n", written(from, "%F %T"), written(until, "%F %T %Z"))
}
