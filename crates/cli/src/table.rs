//! Rows in columns, for people.

use std::io::{self, Write};

use crate::output;

/// How wide the terminal is; `None` where the output goes elsewhere and is never cut.
pub fn terminal_width() -> Option<usize> {
    output::stdout().size().map(|(width, _)| width).filter(|width| *width > 0)
}

/// Whether the output may have colours: a terminal, and nobody said `NO_COLOR`.
pub fn has_colour() -> bool {
    output::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Names by which rows are told apart: their columns are shown however narrow the terminal is, like the first one.
const NAMES: [&str; 4] = ["NAME", "PROGRAM", "JOB ID", "JOB"];

/// What is left out first where a terminal is too narrow, in this order; then the columns on the right.
const LEAST: [&str; 18] = [
    // Bars, and what else has no title.
    "",
    "FIRST SEEN",
    "VERSION",
    "WAIT",
    "SUBMIT",
    "DECIDED",
    "PROJECT",
    "COUNT",
    "PID",
    "CPU",
    "GROUP",
    "WAIT MAX",
    "WAIT MEDIAN",
    "CORE HOURS",
    "PARTITION",
    "GPUS",
    "RUNS",
    "START",
];

/// So much of a text in the last column is shown at least.
const LAST_MIN: usize = 24;

/// A table that is printed when all its rows are known.
pub struct Table {
    header: Vec<String>,
    /// Which columns are numbers and stand on the right.
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
    is_wrapped: bool,
}

impl Table {
    /// A column whose name begins with `>` stands on the right.
    pub fn new(header: &[&'static str]) -> Table {
        Table::titled(header.iter().map(|name| (*name).to_owned()))
    }

    /// The same, for columns that are known only when the program runs.
    pub fn titled(titles: impl Iterator<Item = String>) -> Table {
        let titles: Vec<String> = titles.collect();
        let right = titles.iter().map(|name| name.starts_with('>')).collect();
        let header = titles.iter().map(|name| name.trim_start_matches('>').to_owned()).collect();
        Table { header, right, rows: Vec::new(), is_wrapped: false }
    }

    /// The same, whose last column goes on below itself instead of being cut.
    pub fn wrapped(self) -> Table {
        Table { is_wrapped: true, ..self }
    }

    pub fn add(&mut self, row: Vec<String>) {
        self.rows.push(row.into_iter().map(|cell| clean(&cell)).collect());
    }

    /// Prints all rows. If there is a width, the least important columns are left out until the rest fits, which is said, and the last
    /// one is cut.
    pub fn print(&self, out: &mut impl Write, width: Option<usize>, colour: bool) -> io::Result<()> {
        let widths: Vec<usize> = (0..self.header.len())
            .map(|at| self.rows.iter().chain([&self.header]).map(|row| length(&row[at])).max().unwrap_or(0))
            .collect();
        let shown = self.shown(&widths, width);
        let line = self.line(&self.header, &shown, &widths, width);
        if colour {
            writeln!(out, "{}{line}{}", output::BOLD, output::NORMAL)?
        } else {
            writeln!(out, "{line}")?
        }
        for row in &self.rows {
            for row in self.folded(row, &shown, &widths, width) {
                writeln!(out, "{}", self.line(&row, &shown, &widths, width))?;
            }
        }
        let titles =
            self.header.iter().enumerate().filter(|(at, title)| !shown.contains(at) && !title.is_empty());
        let left_out: Vec<&str> = titles.map(|(_, title)| title.as_str()).collect();
        if !left_out.is_empty() {
            for line in note_of(&left_out, width) {
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }

    /// The columns that are shown in this width.
    fn shown(&self, widths: &[usize], width: Option<usize>) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..widths.len()).collect();
        let Some(width) = width else { return shown };
        while self.least_width(&shown, widths) > width
            && let Some(least) = self.least_important(&shown)
        {
            shown.retain(|at| *at != least);
        }
        shown
    }

    fn least_width(&self, shown: &[usize], widths: &[usize]) -> usize {
        let needed =
            shown.iter().map(|at| if self.gives_way(*at) { widths[*at].min(LAST_MIN) } else { widths[*at] });
        needed.sum::<usize>() + 2 * shown.len().saturating_sub(1)
    }

    /// Whether the column can be cut.
    fn gives_way(&self, at: usize) -> bool {
        at + 1 == self.header.len() && !self.right[at]
    }

    fn least_important(&self, shown: &[usize]) -> Option<usize> {
        let can_go = |at: &usize| *at > 0 && !self.gives_way(*at) && !NAMES.contains(&&*self.header[*at]);
        let mut order = shown.iter().copied().filter(can_go).collect::<Vec<_>>();
        order.sort_by_key(|at| {
            let listed = LEAST.iter().position(|title| *title == self.header[*at]);
            (listed.unwrap_or(LEAST.len()), usize::MAX - at)
        });
        order.first().copied()
    }

    /// A row as several, where its last cell is wrapped.
    fn folded(
        &self,
        row: &[String],
        shown: &[usize],
        widths: &[usize],
        width: Option<usize>,
    ) -> Vec<Vec<String>> {
        let (Some(width), Some((last, before)), true) = (width, shown.split_last(), self.is_wrapped) else {
            return vec![row.to_vec()];
        };
        let taken: usize = before.iter().map(|at| widths[*at] + 2).sum();
        let parts = wrapped(&row[*last], width.saturating_sub(taken).max(LAST_MIN));
        let empty = || vec![String::new(); row.len()];
        let mut rows: Vec<Vec<String>> = parts
            .into_iter()
            .map(|part| {
                let mut row = empty();
                row[*last] = part;
                row
            })
            .collect();
        if let Some(first) = rows.first_mut() {
            first[..*last].clone_from_slice(&row[..*last]);
        }
        rows
    }

    fn line(&self, row: &[String], shown: &[usize], widths: &[usize], width: Option<usize>) -> String {
        let mut line = String::new();
        for at in shown {
            let cell = row[*at].as_str();
            let pad = " ".repeat(widths[*at].saturating_sub(length(cell)));
            let is_last = Some(at) == shown.last();
            match (self.right[*at], is_last) {
                (true, _) => line.extend([&pad, cell]),
                (false, false) => line.extend([cell, &pad]),
                (false, true) => line.push_str(cell),
            }
            if !is_last {
                line.push_str("  ");
            }
        }
        cut(line.trim_end(), width)
    }
}

/// What is said of columns for which a terminal has no room, in lines that fit it.
pub fn note_of(left_out: &[&str], width: Option<usize>) -> Vec<String> {
    let note = format!("(no room for {}: use a wider terminal, or a pipe)", left_out.join(", "));
    wrapped(&note, width.unwrap_or(usize::MAX))
}

/// A text in lines of this width, broken between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line =
            lines.last_mut().filter(|line| line.is_empty() || length(line) + 1 + length(word) <= width);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => line.extend([" ", word]),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Bytes in the unit that leaves at most four digits, rounded up.
pub fn human_bytes(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{}K", bytes.div_ceil(1 << 10)),
        1_048_576..10_737_418_240 => format!("{}M", bytes.div_ceil(1 << 20)),
        _ => format!("{}G", bytes.div_ceil(1 << 30)),
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Cuts a line that is too long, and shows that it was.
pub fn cut(text: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if length(text) > width => {
            text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
        }
        _ => text.to_owned(),
    }
}

/// Names come from users: no control character of theirs reaches the terminal.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_one_another_and_lines_are_cut() {
        let mut table = Table::new(&["NAME", ">RUNS", "PATH"]);
        table.add(vec!["a".into(), "7".into(), "/x/y\u{1b}[31m".into()]);
        table.add(vec!["longer".into(), "1234".into(), "/z".into()]);
        let print = |width| {
            let mut out = Vec::new();
            table.print(&mut out, width, false).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(print(None), "NAME    RUNS  PATH\na          7  /x/y [31m\nlonger  1234  /z\n");
        let narrow = "NAME    PATH\na       /x/y [3…\nlonger  /z\n(no room for\nRUNS: use a\nwider terminal,\nor a pipe)\n";
        assert_eq!(print(Some(16)), narrow);
        assert_eq!(print(Some(80)), print(None));
    }

    #[test]
    fn a_narrow_terminal_leaves_out_the_least_important_columns() {
        let titles = ["JOB ID", "USER", "PROJECT", "STATE", "SUBMIT", ">WAIT", ">CORES", "NAME"];
        let mut table = Table::new(&titles);
        table.add(titles.map(|title| "x".repeat(title.len() + 2)).into());
        let print = |width| {
            let mut out = Vec::new();
            table.print(&mut out, width, false).unwrap();
            String::from_utf8(out).unwrap()
        };
        let all = print(None);
        assert_eq!(print(Some(all.lines().next().unwrap().len() + 5)), all);
        for (width, left_out) in [
            (60, "SUBMIT, WAIT"),
            (45, "PROJECT, SUBMIT, WAIT"),
            (20, "USER, PROJECT, STATE, SUBMIT, WAIT, CORES"),
        ] {
            let text = print(Some(width));
            let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains(&format!("(no room for {left_out}:")), "{width}: {text}");
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines.iter().all(|line| length(line) <= width), "{text}");
            assert!(lines[0].starts_with("JOB ID") && lines[0].ends_with("NAME"), "{text}");
        }
    }

    #[test]
    fn a_wrapped_column_goes_on_below_itself() {
        let mut table = Table::new(&["COLUMN", "MEANING"]).wrapped();
        table.add(vec!["cpu".into(), "one two three four five six seven".into()]);
        table.add(vec!["b".into(), String::new()]);
        let mut out = Vec::new();
        table.print(&mut out, Some(32), false).unwrap();
        let expected = "COLUMN  MEANING\ncpu     one two three four five\n        six seven\nb\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
