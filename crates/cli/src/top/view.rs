//! Lines of a page: a head, a row per job as wide as the terminal, and what the keys do.

use serde_json::Value;

use super::keys::{State, Typing};
use super::rows;
use crate::table::{clean, cut, human_bytes};

/// A bar is so wide.
const BAR: usize = 8;
const KEYS: &str = "c CPU  m memory  i I/O  g GPU  t time  u user   / filter  U user's  Esc all  q quit";

/// A name is cut where there is no room for it, but not to fewer characters than these.
const NAME_MIN: usize = 12;

/// A column: its title, whether it stands on the right, how soon it gives way on a narrow terminal, and what it shows.
struct Column {
    title: &'static str,
    right: bool,
    /// Those with the highest number go first; 0 stays.
    gives_way: u8,
    show: fn(&Value) -> String,
}

const fn column(title: &'static str, right: bool, gives_way: u8, show: fn(&Value) -> String) -> Column {
    Column { title, right, gives_way, show }
}

const COLUMNS: [Column; 15] = [
    column("JOB", false, 0, |row| text(&row["job"])),
    column("USER", false, 2, |row| text(&row["user"])),
    column("PARTITION", false, 6, |row| text(&row["partition"])),
    column("NODES", true, 6, |row| text(&row["nodes"])),
    column("ELAPSED", true, 5, |row| elapsed(&row["elapsed_s"])),
    column("CPU", true, 1, |row| of(cores(&row["cpu_used"]), whole(&row["cpu_reserved"]))),
    column("", false, 9, |row| bar(share(row, "cpu_used", "cpu_reserved"))),
    column("MEMORY", true, 3, |row| of(bytes(&row["memory_used"]), bytes(&row["memory_reserved"]))),
    column("", false, 10, |row| bar(share(row, "memory_used", "memory_reserved"))),
    column("READ/S", true, 7, |row| bytes(&row["read"])),
    column("WRITTEN/S", true, 7, |row| bytes(&row["written"])),
    column("GPU", true, 8, gpu),
    column("READ", true, 5, age),
    column("PROGRAM", false, 4, |row| text(&row["program"])),
    // The last one, which is cut where a line ends.
    column("NAME", false, 0, |row| text(&row["name"])),
];

fn unknown() -> String {
    "-".to_owned()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => unknown(),
        Value::String(text) => clean(text),
        other => other.to_string(),
    }
}

fn whole(value: &Value) -> String {
    value.as_f64().map_or_else(unknown, |value| format!("{value:.0}"))
}

fn cores(value: &Value) -> String {
    value.as_f64().map_or_else(unknown, |value| format!("{value:.1}"))
}

fn bytes(value: &Value) -> String {
    value.as_f64().map_or_else(unknown, |bytes| human_bytes(bytes.round() as u64))
}

fn of(used: String, reserved: String) -> String {
    format!("{used}/{reserved}")
}

/// Jobs without GPUs leave it empty.
fn gpu(row: &Value) -> String {
    if row["gpu_reserved"].is_null() && row["gpu_used"].is_null() {
        return String::new();
    }
    of(cores(&row["gpu_used"]), whole(&row["gpu_reserved"]))
}

/// How old the oldest number of the job is, and how many of its nodes should have said something since.
fn age(row: &Value) -> String {
    let age = elapsed(&row["age_s"]);
    match row["nodes_late"].as_u64() {
        None | Some(0) => age,
        Some(late) => format!("{age} {late}!"),
    }
}

fn elapsed(seconds: &Value) -> String {
    let Some(seconds) = seconds.as_f64() else { return unknown() };
    let seconds = seconds as u64;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

fn share(row: &Value, used: &str, reserved: &str) -> Option<f64> {
    Some(row[used].as_f64()? / row[reserved].as_f64().filter(|reserved| *reserved > 0.0)?)
}

/// A share of one; more than one fills the bar, and what is not known has none.
fn bar(share: Option<f64>) -> String {
    let Some(share) = share else { return String::new() };
    let full = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    "█".repeat(full) + &"░".repeat(BAR - full)
}

/// A head and a line per job.
pub struct Lines {
    pub lines: Vec<String>,
    /// The titles of the columns for which there is no room.
    pub left_out: Vec<&'static str>,
}

/// A head and a line per job, not wider than the terminal.
pub fn table(rows: &[&Value], width: Option<usize>) -> Lines {
    let head: Vec<String> = COLUMNS.iter().map(|column| column.title.to_owned()).collect();
    let cells = rows.iter().map(|row| COLUMNS.iter().map(|column| (column.show)(row)).collect());
    let lines: Vec<Vec<String>> = [head].into_iter().chain(cells).collect();
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0))
        .collect();
    let shown = fitting(&widths, width);
    let is_left_out = |(at, column): &(usize, &Column)| !column.title.is_empty() && !shown.contains(at);
    let left_out = COLUMNS.iter().enumerate().filter(is_left_out).map(|(_, column)| column.title).collect();
    let lines = lines.iter().map(|line| cut(&join(line, &widths, &shown), width)).collect();
    Lines { lines, left_out }
}

/// The columns that fit, beginning with those that stay.
fn fitting(widths: &[usize], width: Option<usize>) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..widths.len()).filter(|at| widths[*at] > 0).collect();
    let Some(width) = width else { return shown };
    let needed = |at: &usize| if at + 1 == widths.len() { widths[*at].min(NAME_MIN) } else { widths[*at] };
    while shown.iter().map(|at| needed(at) + 1).sum::<usize>() > width + 1 {
        let first = shown.iter().copied().max_by_key(|at| COLUMNS[*at].gives_way);
        match first.filter(|at| COLUMNS[*at].gives_way > 0) {
            Some(first) => shown.retain(|at| *at != first),
            None => break,
        }
    }
    shown
}

fn join(line: &[String], widths: &[usize], shown: &[usize]) -> String {
    let cell = |at: &usize| {
        let pad = " ".repeat(widths[*at].saturating_sub(line[*at].chars().count()));
        if COLUMNS[*at].right { pad + &line[*at] } else { line[*at].clone() + &pad }
    };
    shown.iter().map(cell).collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

/// A line of a page, and whether it stands out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub text: String,
    pub is_bright: bool,
}

/// Exactly as many lines as the terminal has, none wider than it is.
pub fn page(all: &[Value], state: &State, trouble: Option<&str>, width: usize, height: usize) -> Vec<Line> {
    let rows = rows::chosen(all, state);
    let room = height.saturating_sub(3).max(1);
    let skip = state.skip.min(rows.len().saturating_sub(room));
    // Columns are as wide as all rows need, so that they stand still while one scrolls.
    let table = table(&rows, Some(width));
    let mut summary = summary(all, &rows, state);
    if !table.left_out.is_empty() {
        summary += &format!("; no room for {}", table.left_out.join(", "));
    }
    let mut lines = vec![Line { text: summary, is_bright: false }];
    let mut table = table.lines.into_iter();
    lines.extend(table.next().map(|text| Line { text, is_bright: true }));
    lines.extend(table.skip(skip).take(room).map(|text| Line { text, is_bright: false }));
    lines.resize(height.saturating_sub(1), Line { text: String::new(), is_bright: false });
    lines.push(foot(state, trouble));
    lines.truncate(height);
    for line in &mut lines {
        line.text = cut(&line.text, Some(width));
    }
    lines
}

fn summary(all: &[Value], rows: &[&Value], state: &State) -> String {
    let sum = |name: &str| rows.iter().map(|row| row[name].as_f64()).sum::<Option<f64>>();
    let number = |value: Option<f64>| value.map_or_else(unknown, |value| format!("{value:.0}"));
    let mut text = format!(
        "{} jobs, {} of {} cores used, by {}",
        rows.len(),
        number(sum("cpu_used")),
        number(sum("cpu_reserved")),
        state.sort
    );
    if rows.len() < all.len() {
        text += &format!("; {} of {} jobs shown", rows.len(), all.len());
    }
    text
}

fn foot(state: &State, trouble: Option<&str>) -> Line {
    let (text, is_bright) = match (state.typing, trouble) {
        (Some(Typing::Text), _) => (format!("/{}_", state.text), true),
        (Some(Typing::User), _) => (format!("user: {}_", state.user), true),
        (None, Some(trouble)) => (clean(trouble), true),
        (None, None) => (KEYS.to_owned(), false),
    };
    Line { text, is_bright }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Sort;
    use serde_json::json;

    fn jobs() -> Vec<Value> {
        vec![
            json!({"job": "4711", "user": "alice", "name": "heat 3d", "partition": "cpu", "program": "solver", "nodes": 2, "elapsed_s": 3723.0, "cpu_used": 96.4, "cpu_reserved": 128,
                "memory_used": 2_i64 << 30, "memory_reserved": 4_i64 << 30, "read": 0.0, "written": 1048576.0,
                "gpu_used": null, "gpu_reserved": null, "age_s": 12.0, "nodes_late": 0}),
            json!({"job": "4712\u{1b}[2J", "user": null, "name": null, "partition": null, "program": null, "nodes": 1, "elapsed_s": 59.0, "cpu_used": null, "cpu_reserved": null,
                "memory_used": null, "memory_reserved": 4_i64 << 30, "read": null, "written": null,
                "gpu_used": 1.5, "gpu_reserved": 2, "age_s": 300.0, "nodes_late": 1}),
        ]
    }

    #[test]
    fn rows_and_what_is_not_known() {
        let jobs = jobs();
        let lines = table(&jobs.iter().collect::<Vec<_>>(), None).lines;
        let expected = [
            "JOB       USER  PARTITION NODES ELAPSED      CPU                  MEMORY          READ/S WRITTEN/S   GPU    READ PROGRAM NAME",
            "4711      alice cpu           2 1:02:03 96.4/128 ██████░░    2048M/4096M ████░░░░     0K        1M           12s solver  heat 3d",
            "4712 [2J  -     -             1     59s      -/-                 -/4096M              -         - 1.5/2 5:00 1! -       -",
        ];
        let joined = |lines: &[String]| lines.join("\n");
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (line, expected) in lines.iter().zip(expected) {
            assert_eq!(squeeze(line), squeeze(expected), "{}", joined(&lines));
        }
        assert!(!joined(&lines).contains('\u{1b}'));
    }

    #[test]
    fn no_page_is_larger_than_its_terminal() {
        let many: Vec<Value> = (0..50).flat_map(|_| jobs()).collect();
        for all in [&many[..], &[]] {
            for width in 0..160 {
                for height in [0, 1, 2, 3, 4, 10, 200] {
                    for skip in [0, 7, usize::MAX] {
                        let state = State { skip, ..State::new(Sort::Cpu, None) };
                        let page = page(all, &state, None, width, height);
                        assert_eq!(page.len(), height, "{width} {height}");
                        let widest = page.iter().map(|line| line.text.chars().count()).max().unwrap_or(0);
                        // A cut line has a mark, which needs a place.
                        assert!(widest <= width.max(1), "{width} {height}: {page:#?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_narrow_terminal_shows_what_matters_and_always_the_name() {
        let mut jobs = jobs();
        jobs[0]["name"] = json!("heat_3d_with_a_name_that_says_everything_of_it");
        let rows: Vec<&Value> = jobs.iter().collect();
        for (width, titles, left_out) in [
            (
                100,
                "JOB USER PARTITION NODES ELAPSED CPU MEMORY READ/S READ PROGRAM NAME",
                Some(&["WRITTEN/S", "GPU"]),
            ),
            (60, "JOB USER CPU MEMORY PROGRAM NAME", None),
            (40, "JOB USER CPU NAME", None),
            (20, "JOB NAME", None),
        ] {
            let table = table(&rows, Some(width));
            let head = table.lines[0].split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(head, titles, "{width}");
            assert!(left_out.is_none_or(|left_out| table.left_out == left_out), "{width}");
            assert!(
                table.lines[1].contains("heat") && table.lines[1].ends_with('…'),
                "{width}: {}",
                table.lines[1]
            );
        }
        assert!(table(&rows, None).left_out.is_empty());
        let page = page(&jobs, &State::new(Sort::Cpu, None), None, 100, 5);
        assert!(page[0].text.ends_with("by cpu; no room for WRITTEN/S, GPU"), "{}", page[0].text);
    }

    #[test]
    fn what_is_typed_and_what_is_wrong_is_seen() {
        let state =
            State { text: "alice".into(), typing: Some(Typing::Text), ..State::new(Sort::Memory, None) };
        let page_of = |state: &State, trouble| page(&jobs(), state, trouble, 100, 10);
        let typed = page_of(&state, Some("the server is gone"));
        assert_eq!(typed.last().unwrap().text, "/alice_");
        assert!(typed[0].text.contains("1 of 2 jobs shown"), "{typed:?}");
        let state = State { typing: None, ..state };
        assert_eq!(page_of(&state, Some("the server is gone")).last().unwrap().text, "the server is gone");
        assert!(page_of(&state, None).last().unwrap().text.contains("q quit"));
    }
}
