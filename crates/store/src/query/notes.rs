//! Notes, cases and proposals of tags, as far as whoever asks sees them.

use std::collections::HashMap;

use condition::like::Pattern;
use duckdb::types::Value as Sql;
use serde_json::{Map, Value, json};

use super::{Conditions, Reader, Rows, Snapshot, in_list, object, time};
use crate::StoreError;

/// Which notes are asked for; what is absent does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    pub number: Option<u64>,
    /// As people are shown it, or as the batch system has it.
    pub job: Option<String>,
    /// A program; notes with a pattern that fits it are among them.
    pub program: Option<String>,
    pub by: Option<String>,
    /// Words that are in it, in upper or lower case.
    pub text: Option<String>,
    pub part: Part,
}

/// Which part of a list, whose newest row is the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// Only rows with a lower number.
    pub after: Option<u64>,
    /// At most so many rows.
    pub limit: Option<u64>,
}

impl Part {
    fn limit_sql(&self) -> String {
        self.limit.map_or(String::new(), |limit| format!(" LIMIT {limit}"))
    }
}

/// Which cases are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cases {
    pub number: Option<u64>,
    pub user: Option<String>,
    pub job: Option<String>,
    pub by: Option<String>,
    /// In the reason, the outcome or what happened since.
    pub text: Option<String>,
    pub is_open: Option<bool>,
    pub part: Part,
}

/// The job of a note or a case, where whoever asks sees it.
const JOB: &str = "LEFT JOIN accounting c ON c.id = n.id";

impl Reader {
    /// The newest first.
    pub fn notes(&self, which: &Notes) -> Result<Rows, StoreError> {
        self.ask(|snapshot| snapshot.notes(which))
    }

    /// Tags that somebody proposes, and what became of that; the newest first.
    pub fn proposals(&self, part: &Part) -> Result<Rows, StoreError> {
        self.ask(|snapshot| snapshot.proposals(part))
    }

    /// The newest first.
    pub fn cases(&self, which: &Cases) -> Result<Rows, StoreError> {
        self.ask(|snapshot| snapshot.cases(which))
    }
}

impl Snapshot<'_> {
    fn notes(&self, which: &Notes) -> Result<Rows, StoreError> {
        let mut conditions = Conditions::default();
        conditions.add("n.until_ns IS NULL", []);
        common(&mut conditions, which.number, which.job.as_ref(), which.by.as_ref(), &which.part);
        if let Some(program) = &which.program {
            let numbers = self.on_program(program, &which.part)?;
            conditions.add(&format!("n.number IN ({})", in_list(numbers)), []);
        }
        if let Some(words) = &which.text {
            conditions.add("contains(lower(n.text), lower(?))", [Sql::Text(words.clone())]);
        }
        let sql = format!(
            "SELECT n.number, n.program, n.text, n.\"by\", n.at_ns, c.cluster, c.shown, c.\"user\" FROM note n {JOB} {} \
             ORDER BY n.number DESC{}",
            conditions.sql(),
            which.part.limit_sql()
        );
        self.rows(&sql, &conditions.values, |row| {
            let text = |at: usize| row.get::<_, Option<String>>(at);
            Ok(object([
                ("note", json!(row.get::<_, u64>(0)?)),
                ("job", json!(text(6)?)),
                ("cluster", json!(text(5)?)),
                ("user", json!(text(7)?)),
                ("program", json!(text(1)?)),
                ("text", json!(text(2)?)),
                ("by", json!(text(3)?)),
                ("at", time(row.get(4)?)),
            ]))
        })
    }

    /// Notes on a program, by number. Patterns are matched here, among those that may be seen: the database would try what others
    /// wrote in every way.
    fn on_program(&self, program: &str, part: &Part) -> Result<Vec<u64>, StoreError> {
        let mut numbers = vec![0];
        let before = part.after.map_or(i64::MAX, |after| after as i64);
        let sql = "SELECT n.number, n.program FROM note n WHERE n.program IS NOT NULL AND n.until_ns IS NULL AND n.number < ? \
                   ORDER BY n.number DESC";
        self.each_while(sql, &[Sql::BigInt(before)], |row| {
            let on: String = row.get(1)?;
            if on == program || Pattern::of_glob(&on).fits(program) {
                numbers.push(row.get(0)?);
            }
            Ok(part.limit.is_none_or(|limit| (numbers.len() as u64) <= limit))
        })?;
        Ok(numbers)
    }

    fn cases(&self, which: &Cases) -> Result<Rows, StoreError> {
        let mut conditions = Conditions::default();
        common(&mut conditions, which.number, which.job.as_ref(), which.by.as_ref(), &which.part);
        if let Some(user) = &which.user {
            conditions.add("n.\"user\" = ?", [Sql::Text(user.clone())]);
        }
        if let Some(is_open) = which.is_open {
            conditions.add("(n.closed_ns IS NULL) = ?", [Sql::Boolean(is_open)]);
        }
        if let Some(words) = &which.text {
            let has = |what: &str| format!("contains(lower({what}), lower(?))");
            let entries =
                format!("n.number IN (SELECT e.number FROM contact_entry e WHERE {})", has("e.text"));
            let text = format!("({} OR {} OR {entries})", has("n.reason"), has("coalesce(n.outcome, '')"));
            conditions.add(&text, std::iter::repeat_n(Sql::Text(words.clone()), 3));
        }
        let sql = format!(
            "SELECT n.number, n.\"user\", n.reason, n.\"by\", n.at_ns, n.outcome, n.closed_by, n.closed_ns, c.cluster, c.shown \
             FROM contact n {JOB} {} ORDER BY n.number DESC{}",
            conditions.sql(),
            which.part.limit_sql()
        );
        let found = self.rows(&sql, &conditions.values, |row| {
            let text = |at: usize| row.get::<_, Option<String>>(at);
            let number: u64 = row.get(0)?;
            let closed: Option<i64> = row.get(7)?;
            Ok(object([
                ("case", json!(number)),
                ("user", json!(text(1)?)),
                ("job", json!(text(9)?)),
                ("cluster", json!(text(8)?)),
                ("is_open", json!(closed.is_none())),
                ("reason", json!(text(2)?)),
                ("by", json!(text(3)?)),
                ("at", time(row.get(4)?)),
                ("entries", Value::Null),
                ("outcome", json!(text(5)?)),
                ("closed_by", json!(text(6)?)),
                ("closed", time(closed)),
            ]))
        })?;
        let mut entries = self.entries(&found)?;
        let with_entries = |mut case: Map<String, Value>| {
            let number = case["case"].as_u64().unwrap_or_default();
            case["entries"] = entries.remove(&number).unwrap_or_default().into();
            case
        };
        Ok(found.into_iter().map(with_entries).collect())
    }

    fn proposals(&self, part: &Part) -> Result<Rows, StoreError> {
        let before = part.after.map_or(i64::MAX, |after| after as i64);
        let sql = "SELECT p.number, p.name, p.description, p.motivation, p.criterion, p.\"by\", p.at_ns, p.is_approved, p.decided_by, \
                     p.reason, p.decided_ns, t.name FROM proposal p LEFT JOIN approved_tag t ON t.proposal = p.number \
                     WHERE p.number < ? ORDER BY p.number DESC";
        self.rows(&format!("{sql}{}", part.limit_sql()), &[Sql::BigInt(before)], |row| {
            let text = |at: usize| row.get::<_, Option<String>>(at);
            let state = match row.get::<_, Option<bool>>(7)? {
                None => "waiting",
                Some(true) => "approved",
                Some(false) => "rejected",
            };
            Ok(object([
                ("proposal", json!(row.get::<_, u64>(0)?)),
                ("name", json!(text(1)?)),
                ("description", json!(text(2)?)),
                ("motivation", json!(text(3)?)),
                ("criterion", json!(text(4)?)),
                ("by", json!(text(5)?)),
                ("at", time(row.get(6)?)),
                ("state", json!(state)),
                ("decided_by", json!(text(8)?)),
                ("reason", json!(text(9)?)),
                ("decided", time(row.get(10)?)),
                ("tag", json!(text(11)?)),
            ]))
        })
    }

    /// What happened in these cases, in the order of time.
    fn entries(&self, cases: &Rows) -> Result<HashMap<u64, Vec<Map<String, Value>>>, StoreError> {
        let numbers = in_list(cases.iter().filter_map(|case| case["case"].as_u64()).chain([0]));
        let sql = format!(
            "SELECT number, text, \"by\", at_ns FROM contact_entry WHERE number IN ({numbers}) ORDER BY at_ns"
        );
        let mut all: HashMap<u64, Vec<Map<String, Value>>> = HashMap::new();
        self.each(&sql, &[], |row| {
            let entry = object([
                ("text", json!(row.get::<_, String>(1)?)),
                ("by", json!(row.get::<_, String>(2)?)),
                ("at", time(row.get(3)?)),
            ]);
            all.entry(row.get(0)?).or_default().push(entry);
            Ok(())
        })?;
        Ok(all)
    }
}

fn common(
    conditions: &mut Conditions,
    number: Option<u64>,
    job: Option<&String>,
    by: Option<&String>,
    part: &Part,
) {
    if let Some(after) = part.after {
        conditions.add("n.number < ?", [Sql::UBigInt(after)]);
    }
    if let Some(number) = number {
        conditions.add("n.number = ?", [Sql::UBigInt(number)]);
    }
    if let Some(job) = job {
        let text = || Sql::Text(job.clone());
        conditions.add("(c.shown = ? OR c.job = ?)", [text(), text()]);
    }
    if let Some(by) = by {
        conditions.add("n.\"by\" = ?", [Sql::Text(by.clone())]);
    }
}
