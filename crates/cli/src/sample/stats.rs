//! What readings cost, as figures.

use std::io::{self, Write};

use serde_json::json;

use crate::table::Table;

/// The cost of one reading.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    pub processes: usize,
    pub collect_ns: u64,
    pub encode_ns: u64,
    pub calls: u64,
    pub bytes: usize,
    pub resident: Option<u64>,
}

/// The first reading, and the median of the later ones.
pub fn print(out: &mut impl Write, costs: &[Cost], json: bool) -> io::Result<()> {
    let first = costs.iter().take(1).copied().map(|cost| ("first", cost));
    let later = (costs.len() > 1).then(|| ("later, median", median(&costs[1..])));
    let rows: Vec<(&str, Cost)> = first.chain(later).collect();
    if json {
        for (name, cost) in rows {
            let row = json!({
                "reading": name, "readings": if name == "first" { 1 } else { costs.len() - 1 },
                "processes": cost.processes, "collect_us": cost.collect_ns / 1000, "encode_us": cost.encode_ns / 1000,
                "system_calls": cost.calls, "bytes": cost.bytes, "resident_bytes": cost.resident,
            });
            writeln!(out, "{row}")?;
        }
        return Ok(());
    }
    let mut table = Table::new(&[
        "READING",
        ">PROCESSES",
        ">COLLECT US",
        ">ENCODE US",
        ">CALLS",
        ">PER PROCESS",
        ">BYTES",
        ">RESIDENT KB",
    ]);
    for (name, cost) in rows {
        let per_process = cost.calls as f64 / cost.processes.max(1) as f64;
        table.add(vec![
            name.into(),
            cost.processes.to_string(),
            (cost.collect_ns / 1000).to_string(),
            (cost.encode_ns / 1000).to_string(),
            cost.calls.to_string(),
            format!("{per_process:.1}"),
            cost.bytes.to_string(),
            cost.resident.map_or("?".into(), |bytes| (bytes / 1024).to_string()),
        ]);
    }
    table.print(out, None, false)
}

fn median(costs: &[Cost]) -> Cost {
    fn middle<T: Ord + Copy>(costs: &[Cost], value: fn(&Cost) -> T) -> T {
        let mut values: Vec<T> = costs.iter().map(value).collect();
        values.sort_unstable();
        values[values.len() / 2]
    }
    Cost {
        processes: middle(costs, |cost| cost.processes),
        collect_ns: middle(costs, |cost| cost.collect_ns),
        encode_ns: middle(costs, |cost| cost.encode_ns),
        calls: middle(costs, |cost| cost.calls),
        bytes: middle(costs, |cost| cost.bytes),
        resident: costs.iter().filter_map(|cost| cost.resident).max(),
    }
}
