//! What the batch system says of a job, and what other monitoring measured of it.

use std::fmt::Write;

use serde_json::Value;

use super::jobs::duration;
use super::show::{self, bytes, text, time};

/// A line for each thing that is known; empty if the batch system was never asked.
pub fn section(account: &Value) -> String {
    let mut out = String::new();
    if account.is_null() {
        return out;
    }
    let _ = writeln!(out, "State     {}", ending(account));
    let who = [("user", ""), ("project", "project "), ("partition", "partition "), ("qos", "QOS ")];
    let who: Vec<String> = who
        .iter()
        .filter(|(name, _)| !account[name].is_null())
        .map(|(name, word)| format!("{word}{}", text(&account[name])))
        .collect();
    let _ = writeln!(out, "Of        {}", who.join(", "));
    let _ = writeln!(out, "Name      {}", text(&account["name"]));
    let _ = writeln!(
        out,
        "Submitted {}, waited {}, began {}, ended {}, ran {} of {}",
        time(&account["submit"]),
        seconds(&account["wait_s"]),
        time(&account["start"]),
        time(&account["end"]),
        seconds(&account["elapsed_s"]),
        seconds(&account["limit_s"]),
    );
    let _ = writeln!(
        out,
        "Given     {} nodes ({}), {} cores, {} GPUs, {} memory",
        text(&account["nodes"]),
        text(&account["node_list"]),
        text(&account["cores"]),
        text(&account["gpus"]),
        bytes(&account["memory"]),
    );
    out
}

fn ending(account: &Value) -> String {
    let state = text(&account["state"]);
    match (account["exit_code"].as_u64(), account["signal"].as_u64()) {
        (Some(code), Some(signal)) if signal > 0 => format!("{state}, exit {code}, signal {signal}"),
        (Some(code), _) => format!("{state}, exit {code}"),
        _ => state,
    }
}

fn seconds(value: &Value) -> String {
    value.as_f64().map_or_else(show::unknown, duration)
}

const STEP: &[show::Column] = &[
    ("STEP", |row| text(&row["step"])),
    ("NAME", |row| text(&row["name"])),
    ("STATE", ending),
    (">NODES", |row| text(&row["nodes"])),
    (">TASKS", |row| text(&row["tasks"])),
    (">CORES", |row| text(&row["cores"])),
    (">RAN", |row| seconds(&row["elapsed_s"])),
    (">CPU TIME", |row| seconds(&row["cpu_time_s"])),
    (">OF RESERVED", |row| {
        row["cpu_efficiency"].as_f64().map_or_else(show::unknown, |share| format!("{share:.0} %"))
    }),
    (">LARGEST TASK", |row| bytes(&row["max_rss"])),
    ("ON NODE", |row| text(&row["max_rss_node"])),
];

/// A table of the steps, as the batch system has them; empty if it told of none.
pub fn steps(steps: &Value) -> String {
    match steps.as_array() {
        Some(rows) if !rows.is_empty() => format!("\nSteps\n{}", show::table(rows, STEP)),
        _ => String::new(),
    }
}

const MEASURE: &[show::Column] = &[
    ("METRIC", |row| text(&row["metric"])),
    ("OF", |row| row["scope"].as_str().unwrap_or("node").to_owned()),
    ("UNIT", |row| show::unit_beside(&row["unit"])),
    (">AVERAGE", |row| show::measured(&row["avg"], &row["unit"])),
    (">MEDIAN", |row| show::measured(&row["median"], &row["unit"])),
    (">LEAST", |row| show::measured(&row["min"], &row["unit"])),
    (">MOST", |row| show::measured(&row["max"], &row["unit"])),
    (">NODES", |row| text(&row["nodes"])),
    (">VALUES", |row| text(&row["readings"])),
    ("FROM", |row| if row["from"] == "told" { "as it was told".into() } else { "its values".into() }),
];

/// A table of what others measured; empty if they did not.
pub fn measures(measures: &Value) -> String {
    match measures.as_array() {
        Some(rows) if !rows.is_empty() => format!("\nOther monitoring\n{}", show::table(rows, MEASURE)),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_is_one_line_without_control_characters() {
        let account =
            json!({"state": "COMPLETED", "name": "a\u{1b}]0;title\u{7}\nState     FAILED", "user": "eve"});
        let section = section(&account);
        assert!(section.contains("Name      a ]0;title  State     FAILED\n"), "{section:?}");
        assert_eq!(section.matches("\nState").count() + usize::from(section.starts_with("State")), 1);
    }
}
