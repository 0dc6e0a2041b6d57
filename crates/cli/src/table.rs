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

/// A table that is printed when all its rows are known.
pub struct Table {
    header: Vec<String>,
    /// Which columns are numbers and stand on the right.
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
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
        Table { header, right, rows: Vec::new() }
    }

    pub fn add(&mut self, row: Vec<String>) {
        self.rows.push(row.into_iter().map(|cell| clean(&cell)).collect());
    }

    /// Prints all rows, cut to `width` if there is one; the last column gives way.
    pub fn print(&self, out: &mut impl Write, width: Option<usize>, colour: bool) -> io::Result<()> {
        let header = &self.header;
        let widths: Vec<usize> = (0..header.len())
            .map(|at| self.rows.iter().chain([header]).map(|row| length(&row[at])).max().unwrap_or(0))
            .collect();
        let line = self.line(header, &widths, width);
        if colour {
            writeln!(out, "\x1b[1m{line}\x1b[0m")?
        } else {
            writeln!(out, "{line}")?
        }
        for row in &self.rows {
            writeln!(out, "{}", self.line(row, &widths, width))?;
        }
        Ok(())
    }

    fn line(&self, row: &[String], widths: &[usize], width: Option<usize>) -> String {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[at].saturating_sub(length(cell)));
            let is_last = at + 1 == row.len();
            match (self.right[at], is_last) {
                (true, _) => line.extend([&pad, cell.as_str()]),
                (false, false) => line.extend([cell.as_str(), &pad]),
                (false, true) => line.push_str(cell),
            }
            if !is_last {
                line.push_str("  ");
            }
        }
        cut(line.trim_end(), width)
    }
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
        assert_eq!(print(Some(16)), "NAME    RUNS  P…\na          7  /…\nlonger  1234  /z\n");
    }
}
