//! What criteria ask about programs, libraries and variables, answered for many jobs at once: asked of one job at a time, each question would go
//! through all processes.

use std::collections::BTreeMap;

use condition::like::Pattern;
use condition::{Condition, Question};
use duckdb::types::Value as Sql;
use duckdb::{Connection, params};

use super::judge::{Jobs, Time};
use crate::StoreError;
use crate::query::jobs::{KnownBy, OF_JOB, bound, fits, variables};
use crate::query::running::RUNS;

/// The questions of all criteria, each once.
pub(super) struct Answers {
    questions: BTreeMap<String, Question>,
}

/// SQL with the values of its `?`.
pub(super) struct Answered {
    pub text: String,
    pub values: Vec<Sql>,
}

/// Whether any program was seen in this time.
pub(super) fn is_seen(connection: &Connection, time: Time) -> Result<bool, StoreError> {
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM {RUNS} WHERE start_ns <= ? AND (end_ns >= ? OR end_ns IS NULL) AND job IS NOT NULL)"
    );
    Ok(connection.query_row(&sql, params![time.until_ns, time.from_ns], |row| row.get(0))?)
}

impl Answers {
    pub fn of<'a>(criteria: impl Iterator<Item = &'a Condition>) -> Answers {
        let questions = criteria.flat_map(Condition::questions);
        Answers { questions: questions.map(|question| (question.text.clone(), question)).collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    /// The column that has the answer.
    pub fn column(&self, question: &str) -> Option<String> {
        self.questions.keys().position(|text| text == question).map(|at| format!("w.q{at}"))
    }

    /// `place` of each job of which a program was seen, and a column for each question.
    pub fn sql(&self, jobs: &Jobs, time: Time) -> Answered {
        let Time { from_ns, until_ns } = time;
        let (mut fits, mut columns) = (Vec::new(), Vec::new());
        let mut had = Vec::new();
        let (mut of_lists, mut of_variables, mut of_programs) = (Vec::new(), Vec::new(), Vec::new());
        for (at, question) in self.questions.values().enumerate() {
            match question.predicate {
                "runs" => {
                    let fit = fit(&PROGRAM, question, &mut of_programs);
                    columns.push(format!("coalesce(bool_or({fit}), false) AS q{at}"));
                }
                "sets" => {
                    let (fits, value) = Pattern::of_glob(&question.pattern).sql("v.variable");
                    of_variables.push(Sql::Text(value));
                    had.push(format!("bool_or({fits}) AS v{at}"));
                    // Of programs whose variables are not known it is unknown.
                    columns.push(format!("bool_or(CASE WHEN s.environment IS NOT NULL THEN coalesce(e.v{at}, false) END) AS q{at}"));
                }
                _ => {
                    let fit = fit(&OBJECT, question, &mut of_lists);
                    fits.push(format!("bool_or({fit}) AS u{at}"));
                    columns.push(format!("coalesce(bool_or(a.u{at} OR b.u{at}), false) AS q{at}"));
                }
            }
        }
        for asked in [&mut fits, &mut had] {
            if asked.is_empty() {
                asked.push("true AS nothing".into());
            }
        }
        let text = format!(
            "WITH s AS MATERIALIZED (SELECT DISTINCT c.rowid AS place, q.exe, q.exe_file, q.objects, q.late_objects, q.environment \
               FROM accounting c JOIN (SELECT * FROM {RUNS} WHERE start_ns <= {until_ns} AND (end_ns >= {from_ns} OR end_ns IS NULL)) q \
               ON {OF_JOB} WHERE {}), \
             f AS MATERIALIZED (SELECT l.list, {} FROM object_list l JOIN object o ON o.id = l.object \
               WHERE l.list IN (SELECT objects FROM s UNION SELECT late_objects FROM s) GROUP BY l.list), \
             e AS MATERIALIZED (SELECT v.id, {} FROM {} v GROUP BY v.id) \
             SELECT s.place, {} FROM s LEFT JOIN f a ON a.list = s.objects LEFT JOIN f b ON b.list = s.late_objects \
               LEFT JOIN e ON e.id = s.environment GROUP BY s.place",
            jobs.condition,
            fits.join(", "),
            had.join(", "),
            variables("SELECT environment FROM s"),
            columns.join(", ")
        );
        of_lists.extend(of_variables);
        of_lists.extend(of_programs);
        Answered { text, values: of_lists }
    }
}

const PROGRAM: KnownBy =
    KnownBy { name: "parse_filename(s.exe)", path: "s.exe", build_id: "NULL", file: "s.exe_file" };
const OBJECT: KnownBy = KnownBy { name: "o.name", path: "o.path", build_id: "o.build_id", file: "o.file" };

/// SQL, whose values go behind those that are there.
fn fit(known: &KnownBy, question: &Question, values: &mut Vec<Sql>) -> String {
    let fits = fits(known, &question.pattern);
    values.extend(fits.values.into_iter().map(bound));
    fits.text
}
