//! What a job reserved against what it used, with bars, and sparklines that are scaled to what was allocated.

use std::fmt::Write;

use serde_json::Value;

use super::show;
use crate::table::{Table, human_bytes};

/// Bars are so wide.
const BAR: usize = 10;
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The section about resources; empty if nothing was measured.
pub fn section(resources: &Value) -> String {
    let mut out = String::new();
    if resources.is_null() {
        return out;
    }
    out.push_str("\nResources\n");
    let mut table = Table::new(&["WHAT", ">RESERVED", ">USED", "", ">SHARE", "", "SCALE", "OVER TIME"]);
    let disks = [disk(resources, "Read", "read"), disk(resources, "Written", "write")];
    let rows = [cpu(resources), memory(resources)].into_iter().chain(gpu(resources)).chain(disks);
    rows.for_each(|row| table.add(row));
    let _ = write!(out, "{}", printed(&table));
    out.push_str(&nodes(resources));
    out.push_str(&thresholds(resources));
    out.push_str(&foot(resources));
    out
}

fn printed(table: &Table) -> String {
    let mut out = Vec::new();
    let _ = table.print(&mut out, crate::table::terminal_width(), crate::table::has_colour());
    String::from_utf8_lossy(&out).into_owned()
}

fn cpu(resources: &Value) -> Vec<String> {
    let cpu = &resources["metrics"]["cpu"];
    let (avg, max) = (total_average(resources, "cpu"), cpu["max"].as_f64());
    let used = avg.map_or_else(show::unknown, |avg| format!("{avg:.2} cores"));
    let most = max.map_or(String::new(), |max| format!("at most {max:.2} on a node"));
    let reserved = resources["reserved"]["cpus"].as_f64();
    let share = avg.zip(reserved).map(|(avg, reserved)| avg / reserved.max(1.0));
    let graph = Graph::new(&cpu["profile"], reserved, |cores| format!("{} cores", short(cores)));
    line("CPU", reserved.map(|cpus| format!("{cpus:.0} cores")), used, most, share, graph)
}

/// The characteristic is of one node; the job has several.
fn total_average(resources: &Value, metric: &str) -> Option<f64> {
    // Of an old job the nodes themselves may be forgotten, but not how many they were.
    let nodes = resources["node_count"].as_f64();
    let nodes = nodes.or_else(|| resources["nodes"].as_array().map(|list| list.len() as f64))?;
    Some(resources["metrics"][metric]["avg"].as_f64()? * nodes)
}

fn memory(resources: &Value) -> Vec<String> {
    // The kernel's peak only grows: the last one is the peak.
    let peak = resources["metrics"]["memory_peak"]["last"].as_f64();
    let used = peak.map_or_else(show::unknown, |peak| format!("{} peak", human_bytes(peak as u64)));
    let memory = &resources["metrics"]["memory"];
    let most = memory["avg"].as_f64().map(|avg| format!("{} on average per node", human_bytes(avg as u64)));
    let reserved = resources["reserved"]["memory"].as_f64();
    let share = peak.zip(reserved).map(|(peak, reserved)| peak / reserved.max(1.0));
    let graph = Graph::new(&memory["profile"], reserved, |bytes| human_bytes(bytes as u64));
    let reserved = reserved.map(|bytes| human_bytes(bytes as u64));
    line("Memory", reserved, used, most.unwrap_or_default(), share, graph)
}

/// Nothing for a job that had no GPU.
fn gpu(resources: &Value) -> Option<Vec<String>> {
    let (gpu, memory) = (&resources["metrics"]["gpu"], &resources["metrics"]["gpu_memory"]);
    let reserved = resources["reserved"]["gpus"].as_f64().filter(|gpus| *gpus > 0.0);
    if gpu.is_null() && reserved.is_none() {
        return None;
    }
    // Utilisation is in hundredths of a card.
    let avg = total_average(resources, "gpu").map(|avg| avg / 100.0);
    let used = avg.map_or_else(show::unknown, |avg| format!("{avg:.2} GPUs"));
    let most = memory["max"].as_f64().map(|max| format!("at most {} on a node", human_bytes(max as u64)));
    let share = avg.zip(reserved).map(|(avg, reserved)| avg / reserved.max(1.0));
    // Of all GPUs together; hundredths of the GPUs that were allocated are percent.
    let percent = |value: f64| format!("{} %", short(value / reserved.unwrap_or(1.0)));
    let graph = Graph::new(&gpu["profile"], reserved.map(|gpus| 100.0 * gpus), percent);
    let reserved = reserved.map(|gpus| format!("{gpus:.0} GPUs"));
    Some(line("GPU", reserved, used, most.unwrap_or_default(), share, graph))
}

fn disk(resources: &Value, title: &str, name: &str) -> Vec<String> {
    let (storage, calls) =
        (&resources["metrics"][format!("{name}_bytes")], &resources["metrics"][format!("{name}_chars")]);
    let total = |metric: &Value| metric["total"].as_u64().map(human_bytes);
    let used = total(storage).unwrap_or_else(show::unknown);
    let all = total(calls).map_or(String::new(), |all| format!("{all} by system calls"));
    let graph = Graph::new(&storage["profile"], None, |bytes| format!("{}/s", human_bytes(bytes as u64)));
    line(title, None, used, all, None, graph)
}

fn line(
    what: &str,
    reserved: Option<String>,
    used: String,
    more: String,
    share: Option<f64>,
    graph: Graph,
) -> Vec<String> {
    let percent = share.map_or(String::new(), |share| format!("{:.0} %", 100.0 * share));
    vec![
        what.into(),
        reserved.unwrap_or_default(),
        used,
        more,
        percent,
        share.map_or(String::new(), bar),
        graph.scale,
        graph.columns,
    ]
}

/// A share of one as a bar; more than one fills it.
fn bar(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    "█".repeat(full) + &"░".repeat(BAR - full)
}

/// So many columns fit beside the rest of the table on a terminal of 80.
const NARROW: usize = 20;
const WIDE_FROM: usize = 110;

/// How a metric went, in a line of text.
struct Graph {
    columns: String,
    /// What a full column stands for.
    scale: String,
}

impl Graph {
    /// From nothing to what was allocated; where that is not known, to the maximum, and the scale says so. What is above is a full column.
    fn new(profile: &Value, allocated: Option<f64>, amount: impl Fn(f64) -> String) -> Graph {
        let values: Vec<Option<f64>> = profile.as_array().into_iter().flatten().map(Value::as_f64).collect();
        let values = if crate::table::terminal_width().is_some_and(|width| width < WIDE_FROM) {
            narrowed(&values, NARROW)
        } else {
            values
        };
        let most = values.iter().flatten().copied().reduce(f64::max);
        let (top, note) = match (allocated.filter(|top| *top > 0.0), most) {
            (Some(top), Some(_)) => (top, ""),
            (None, Some(most)) if most > 0.0 => (most, " (maximum)"),
            (None, Some(_)) => return Graph { columns: spark(&values, 1.0), scale: "always 0".into() },
            (_, None) => return Graph { columns: String::new(), scale: String::new() },
        };
        Graph { columns: spark(&values, top), scale: format!("0 to {}{note}", amount(top)) }
    }
}

/// Fewer columns: each the average of those it stands for, as far as they are known.
fn narrowed(values: &[Option<f64>], columns: usize) -> Vec<Option<f64>> {
    let each = values.len().div_ceil(columns).max(1);
    let average = |part: &[Option<f64>]| {
        let known: Vec<f64> = part.iter().flatten().copied().collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    values.chunks(each).map(average).collect()
}

/// A number in few digits.
fn short(number: f64) -> String {
    if number.fract() == 0.0 || number >= 100.0 { format!("{number:.0}") } else { format!("{number:.2}") }
}

/// Columns as high as their values, of which `top` is full; where nothing is known there is a gap.
fn spark(values: &[Option<f64>], top: f64) -> String {
    let column = |value: &Option<f64>| match value {
        None => ' ',
        Some(value) => STEPS[((value / top).clamp(0.0, 1.0) * 7.0).round() as usize],
    };
    values.iter().map(column).collect()
}

/// One line per node, where there are several.
fn nodes(resources: &Value) -> String {
    let none = Vec::new();
    let nodes = resources["nodes"].as_array().unwrap_or(&none);
    if nodes.len() < 2 {
        return String::new();
    }
    let mut table =
        Table::new(&["NODE", ">CORES", ">CPU", ">MEMORY", ">PEAK", ">READ", ">WRITTEN", ">READINGS"]);
    for node in nodes {
        let metric = |name: &str, of: &str| node["metrics"][name][of].as_f64();
        let bytes = |name, of| metric(name, of).map_or_else(show::unknown, |bytes| human_bytes(bytes as u64));
        let name = if node["node"].is_null() { &node["host"] } else { &node["node"] };
        table.add(vec![
            show::text(name),
            show::text(&node["reserved"]["cpus"]),
            metric("cpu", "avg").map_or_else(show::unknown, |cores| format!("{cores:.2}")),
            bytes("memory", "avg"),
            bytes("memory_peak", "last"),
            bytes("read_bytes", "total"),
            bytes("write_bytes", "total"),
            show::text(&node["readings"]),
        ]);
    }
    format!("\n{}", printed(&table))
}

/// For which share of the time metrics were beyond the site's thresholds; only those that ever were.
fn thresholds(resources: &Value) -> String {
    let none = serde_json::Map::new();
    let mut table = Table::new(&["METRIC", ">TIME BELOW", "", ">TIME ABOVE", "", "OF"]);
    let (mut is_known, mut is_empty) = (false, true);
    for (name, metric) in resources["metrics"].as_object().unwrap_or(&none) {
        let threshold = &metric["threshold"];
        let shares = || ["below", "above"].into_iter().filter_map(|name| metric[name].as_f64());
        is_known |= shares().next().is_some();
        if threshold.is_null() || shares().all(|share| share <= 0.0) {
            continue;
        }
        is_empty = false;
        let share = |of: &str| metric[of].as_f64().map_or(String::new(), |_| show::percent(&metric[of]));
        let bound = |of: &str| threshold[of].as_f64().map_or(String::new(), |bound| bound.to_string());
        let of =
            threshold["of"].as_str().map_or_else(|| show::text(&metric["unit"]), |of| of.replace('_', " "));
        table.add(vec![name.clone(), share("below"), bound("low"), share("above"), bound("high"), of]);
    }
    match (is_known, is_empty) {
        (_, false) => format!("\n{}", printed(&table)),
        (true, true) => "\nAs far as is known, nothing was ever beyond the site's thresholds.\n".to_owned(),
        (false, true) => String::new(),
    }
}

fn foot(resources: &Value) -> String {
    let readings = resources["readings"].as_u64().unwrap_or(0);
    let coverage =
        resources["coverage"].as_f64().map_or_else(show::unknown, |share| format!("{:.0} %", 100.0 * share));
    let mut out = format!("\nThese numbers rest on {readings} readings, {coverage} of those expected.");
    match resources["state"].as_str() {
        Some("running") => out.push_str(" The job still runs: they are provisional."),
        Some("unheard") => {
            let last = show::time(&resources["last_reading"]);
            let _ = write!(
                out,
                " The job has no end, and nothing was heard of it since {last}: it may run or not."
            );
        }
        _ => {}
    }
    if resources["is_shared"] == Value::Bool(true) {
        out.push_str(" Other jobs ran on its nodes; only its own processes count here.");
    }
    let killed = resources["metrics"]["oom_kills"]["total"].as_u64().unwrap_or(0);
    if killed > 0 {
        let _ = write!(out, "\nThe kernel killed {killed} of its processes for want of memory.");
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bars_and_columns() {
        for (share, expected) in
            [(0.0, "░░░░░░░░░░"), (0.26, "███░░░░░░░"), (1.0, "██████████"), (7.0, "██████████")]
        {
            assert_eq!(bar(share), expected);
        }
        assert_eq!(spark(&[Some(0.0), Some(1.0), None, Some(0.5), Some(2.0)], 1.0), "▁█ ▅█");
        assert_eq!(
            narrowed(&[Some(1.0), Some(3.0), None, Some(5.0), None, None], 3),
            [Some(2.0), Some(5.0), None]
        );
    }

    #[test]
    fn sparklines_are_scaled_to_what_was_allocated() {
        let of = |metric: &str, profile: Value, reserved: Value| {
            let metrics = json!({metric: {"avg": 1.0, "profile": profile}});
            let text = section(
                &json!({"readings": 1, "coverage": 1.0, "nodes": [{}], "metrics": metrics, "reserved": reserved}),
            );
            let title = match metric {
                "cpu" => "CPU",
                "memory" => "Memory",
                "gpu" => "GPU",
                _ => "Read",
            };
            text.lines().find(|line| line.starts_with(title)).unwrap().to_owned()
        };
        let gib = (1_u64 << 30) as f64;
        for (metric, profile, reserved, expected) in [
            // One of eight cores is not a full column.
            ("cpu", json!([1.0, 8.0, null, 0.0]), json!({"cpus": 8}), "0 to 8 cores  ▂█ ▁"),
            ("cpu", json!([1.0, 2.0]), json!({}), "0 to 2 cores (maximum)  ▅█"),
            ("cpu", json!([0.0, 0.0]), json!({}), "always 0  ▁▁"),
            ("memory", json!([gib, 8.0 * gib]), json!({"memory": 16.0 * gib}), "0 to 16G  ▁▅"),
            ("gpu", json!([50.0, 200.0]), json!({"gpus": 4}), "0 to 100 %  ▂▅"),
            ("gpu", json!([50.0, 100.0]), json!({}), "0 to 100 % (maximum)  ▅█"),
            ("read_bytes", json!([0.0, 4.0 * 1024.0]), json!({"cpus": 8}), "0 to 4K/s (maximum)  ▁█"),
        ] {
            let line = of(metric, profile, reserved);
            assert!(line.ends_with(expected), "{expected}: {line}");
        }
    }

    #[test]
    fn a_gpu_that_was_reserved_is_shown_also_if_nothing_is_known_of_it() {
        let with = |reserved: Value, metrics: Value| {
            section(&json!({"readings": 1, "coverage": 1.0, "nodes": [{}, {}], "metrics": metrics,
                            "reserved": {"gpus": reserved}, "end": null}))
        };
        let busy = json!({"gpu": {"avg": 50.0}, "gpu_memory": {"max": 2048.0}});
        for (reserved, metrics, expected) in [
            (json!(4), busy.clone(), Some(["4 GPUs", "1.00 GPUs", "25 %"])),
            (json!(4), json!({}), Some(["4 GPUs", "-", ""])),
            (Value::Null, busy, Some(["", "1.00 GPUs", ""])),
            (json!(0), json!({}), None),
            (Value::Null, json!({}), None),
        ] {
            let text = with(reserved, metrics);
            let line = text.lines().find(|line| line.starts_with("GPU"));
            assert_eq!(line.is_some(), expected.is_some(), "{text}");
            for part in expected.into_iter().flatten() {
                assert!(line.is_some_and(|line| line.contains(part)), "{part}: {text}");
            }
        }
    }

    #[test]
    fn what_was_not_measured_is_not_shown_as_zero() {
        assert_eq!(section(&Value::Null), "");
        let bare = json!({"readings": 1, "coverage": null, "nodes": [{}], "metrics": {}, "reserved": {}, "state": "running"});
        let text = section(&bare);
        assert!(text.contains("CPU") && !text.contains("0.00"), "{text}");
        assert!(text.contains("still runs") && !text.contains("METRIC"), "{text}");
        let old = json!({"readings": 60, "coverage": 1.0, "nodes": [], "node_count": 2, "reserved": {"cpus": 8}, "end": "2026",
            "metrics": {"cpu": {"avg": 2.0, "max": 3.0}}});
        let text = section(&old);
        assert!(text.contains("4.00 cores") && text.contains("50 %"), "{text}");
    }

    #[test]
    fn thresholds_are_shown_where_they_are_known() {
        let metrics = json!({
            "cpu": {"below": 0.25, "above": 0.5, "threshold": {"of": "reserved_cpus", "low": 0.1, "high": 0.9}},
            "memory_swap": {"above": 0.1, "unit": "bytes", "threshold": {"high": 0.0}},
            "job_load": {"above": 0.0, "unit": "threads", "threshold": {"high": 4.0}},
            "threads": {"avg": 1.0},
        });
        let text =
            section(&json!({"metrics": metrics, "state": "unheard", "last_reading": "2026-11-16T00:00:00Z"}));
        let lines: Vec<Vec<&str>> = text
            .lines()
            .skip_while(|line| !line.starts_with("METRIC"))
            .take_while(|line| !line.is_empty())
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines[1..],
            [
                vec!["cpu", "25", "%", "0.1", "50", "%", "0.9", "reserved", "cpus"],
                vec!["memory_swap", "10", "%", "0", "bytes"]
            ]
        );
        assert!(text.contains("it may run or not"), "{text}");
        let never = json!({"metrics": {"cpu": {"above": 0.0, "threshold": {"high": 1.0}}}});
        assert!(section(&never).contains("nothing was ever beyond"), "{}", section(&never));
    }
}
