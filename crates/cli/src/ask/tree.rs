//! The programs of a job as a tree: each below the one that started it, with where it ran, how long, and how it ended.

use serde_json::{Value, json};

use super::fold;
use super::show::{self, bytes, cpu, end, lasted, program, text};
use crate::table::{self, Table};

/// A line of the tree.
#[derive(Debug, Clone)]
enum Line {
    /// A process, by its place in the list.
    Process(usize),
    /// Several, with all below them.
    Folded(Vec<usize>),
}

/// A line that is still to be written: what stands before it, and what before those below it.
struct Branch {
    line: Line,
    lead: String,
    below: String,
}

/// The tree; with `all`, nothing is folded.
pub fn tree(processes: &[Value], all: bool) -> String {
    let mut out = Vec::new();
    let _ = built(processes, all).print(&mut out, table::terminal_width(), table::has_colour());
    String::from_utf8_lossy(&out).into_owned()
}

fn built(processes: &[Value], all: bool) -> Table {
    let parents: Vec<Option<usize>> = processes.iter().enumerate().map(|(at, row)| parent(row, at)).collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); processes.len()];
    let mut roots = Vec::new();
    for (at, parent) in parents.iter().enumerate() {
        match parent {
            Some(parent) => children[*parent].push(at),
            None => roots.push(at),
        }
    }
    let folded = if all { vec![false; processes.len()] } else { fold::folded(processes, &parents) };
    let mut table =
        Table::new(&["STEP", "NODE", ">PID", ">COUNT", "END", ">SECONDS", ">CPU", ">MEMORY", "PROGRAM"]);
    // A stack, not recursion: a chain of processes may be long.
    let mut stack: Vec<Branch> = lines(&roots, &children, &folded)
        .into_iter()
        .rev()
        .map(|line| Branch { line, lead: String::new(), below: String::new() })
        .collect();
    while let Some(Branch { line, lead, below }) = stack.pop() {
        let at = match line {
            Line::Process(at) => at,
            Line::Folded(all) => {
                table.add(folded_cells(processes, &all, &lead));
                continue;
            }
        };
        table.add(cells(&processes[at], &lead));
        let lines = lines(&children[at], &children, &folded);
        let last = lines.len().saturating_sub(1);
        for (number, line) in lines.into_iter().enumerate().rev() {
            let (branch, rest) = if number == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            stack.push(Branch { line, lead: format!("{below}{branch}"), below: format!("{below}{rest}") });
        }
    }
    table
}

fn parent(process: &Value, at: usize) -> Option<usize> {
    process["parent"].as_u64().map(|parent| parent as usize).filter(|parent| *parent < at)
}

/// The lines of some siblings: those that are folded are one, where the first of them stands. A single row says more than a line for it.
fn lines(siblings: &[usize], children: &[Vec<usize>], folded: &[bool]) -> Vec<Line> {
    let mut together = Vec::new();
    let mut rest: Vec<usize> = siblings.iter().copied().filter(|at| folded[*at]).collect();
    while let Some(at) = rest.pop() {
        together.push(at);
        rest.extend(&children[at]);
    }
    together.sort_unstable();
    if together.len() < 2 {
        return siblings.iter().copied().map(Line::Process).collect();
    }
    let first = siblings.iter().position(|at| folded[*at]);
    let shown = siblings.iter().enumerate().filter(|(place, at)| !folded[**at] || Some(*place) == first);
    shown
        .map(|(_, at)| if folded[*at] { Line::Folded(together.clone()) } else { Line::Process(*at) })
        .collect()
}

fn cells(row: &Value, lead: &str) -> Vec<String> {
    let node = if row["node"].is_null() { &row["host"] } else { &row["node"] };
    vec![
        step(row),
        text(node),
        text(&row["pid"]),
        text(&row["count"]),
        end(row),
        lasted(row),
        cpu(row),
        bytes(&row["max_rss_bytes"]),
        format!("{lead}{}", program(row)),
    ]
}

fn step(row: &Value) -> String {
    match (row["step"].as_str(), row["rank"].as_u64()) {
        (Some(step), Some(rank)) => format!("{step}:{rank}"),
        (step, _) => step.map_or_else(show::unknown, str::to_owned),
    }
}

/// Several programs together: how many, their CPU time, and the memory of the largest.
fn folded_cells(processes: &[Value], all: &[usize], lead: &str) -> Vec<String> {
    let rows = || all.iter().map(|at| &processes[*at]);
    let count: u64 = rows().map(|row| row["count"].as_u64().unwrap_or(1)).sum();
    let sum = |name: &str| rows().map(|row| row[name].as_f64()).sum::<Option<f64>>();
    let used = json!({"user_cpu_s": sum("user_cpu_s"), "system_cpu_s": sum("system_cpu_s")});
    let largest = rows().map(|row| row["max_rss_bytes"].as_u64()).max().flatten();
    let mut cells = vec![String::new(); 9];
    (cells[3], cells[6], cells[7]) = (count.to_string(), cpu(&used), bytes(&json!(largest)));
    cells[8] = format!("{lead}+ {count} short system programs of the shell and module system");
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(exe: &str, parent: Option<usize>, count: u64, exit_code: u64) -> Value {
        json!({"exe": exe, "argv": [exe], "parent": parent, "pid": 7, "host": "n1", "count": count, "ended_by": "exit", "exit_code": exit_code,
            "start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:00:00.5Z", "user_cpu_s": 0.25, "system_cpu_s": 0.0,
            "max_rss_bytes": 1024 * parent.unwrap_or(0), "forked_from": null})
    }

    fn programs(all: bool, rows: &[Value]) -> Vec<String> {
        let mut out = Vec::new();
        built(rows, all).print(&mut out, None, false).unwrap();
        let text = String::from_utf8(out).unwrap();
        let at = text.find("PROGRAM").unwrap();
        text.lines().skip(1).map(|line| line.chars().skip(at).collect()).collect()
    }

    #[test]
    fn what_the_shell_starts_on_its_own_is_one_line() {
        let rows = [
            row("/usr/bin/bash", None, 1, 0),
            row("/usr/bin/uname", Some(0), 3, 0),
            row("/usr/bin/sed", Some(0), 30, 0),
            row("/usr/bin/tty", Some(0), 1, 1),
            row("/home/ann/solver", Some(0), 1, 0),
            row("/usr/bin/hostname", Some(4), 1, 0),
            row("/usr/bin/tput", Some(0), 1, 0),
        ];
        let expected = [
            "/usr/bin/bash",
            "├─ + 34 short system programs of the shell and module system",
            "├─ /usr/bin/tty",
            "└─ /home/ann/solver",
            "   └─ /usr/bin/hostname",
        ];
        assert_eq!(programs(false, &rows), expected);
        assert_eq!(programs(true, &rows).len(), rows.len());
        let cells = folded_cells(&rows, &[1, 2, 6], "");
        assert_eq!((&*cells[3], &*cells[6]), ("34", "0.75"));
        // One row stays as it is.
        let rows = [row("/usr/bin/bash", None, 1, 0), row("/usr/bin/sed", Some(0), 30, 0)];
        assert_eq!(programs(false, &rows), ["/usr/bin/bash", "└─ /usr/bin/sed"]);
    }
}
