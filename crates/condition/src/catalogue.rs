//! The columns that a condition may name, as the caller gives them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::nearest::nearest;
use crate::sql::Sql;
use crate::token::Keyword;
use crate::unit::{Type, Unit};

/// One column.
///
/// `sql` is an expression of the caller's own, with an integer or a floating point number for every amount, an
/// integer of nanoseconds since 1970 for a time, VARCHAR for a text, BOOLEAN; and NULL for what is not known. No amount
/// is NaN: the database would have it above every bound.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Letters, digits and `_`. Upper and lower case are the same.
    pub name: String,
    pub of: Type,
    /// What the column's numbers count, and numbers without a unit that they are compared with.
    pub unit: Unit,
    /// For people.
    pub meaning: String,
    pub sql: String,
    /// Where it comes from whole numbers.
    pub whole: Option<Whole>,
    /// Of a text, where there are no others: what it can be.
    pub words: Option<Words>,
}

/// All that a text can be, in the spelling of the database, each with a short form; empty where it has none.
pub type Words = &'static [(&'static str, &'static str)];

/// Whole numbers from which a column is made: the database compares them faster, and leaves out what cannot match.
#[derive(Debug, Clone, PartialEq)]
pub struct Whole {
    pub sql: String,
    /// How many make one of the column's unit.
    pub over: f64,
}

impl Column {
    /// A column in the base unit of its type: bytes, bytes a second, seconds, one.
    pub fn new(name: &str, of: Type, meaning: &str, sql: &str) -> Column {
        Column {
            name: name.into(),
            of,
            unit: of.base(),
            meaning: meaning.into(),
            sql: sql.into(),
            whole: None,
            words: None,
        }
    }

    /// The same, which can be one of these only. Upper and lower case are the same in conditions.
    pub fn one_of(self, words: Words) -> Column {
        Column { words: Some(words), ..self }
    }

    /// The same in another unit.
    pub fn in_unit(self, unit: Unit) -> Column {
        Column { unit, ..self }
    }

    /// The same, whose SQL is `sql / over`, and `sql` gives whole numbers.
    pub fn of_whole(self, sql: &str, over: f64) -> Column {
        Column { whole: Some(Whole { sql: sql.into(), over }), ..self }
    }
}

/// A question about a row that needs more than its columns: `uses('libblas*')`.
///
/// `sql` makes an expression of a pattern with `*` and `?`: of the caller's own text, with the pattern in its values. It gives BOOLEAN,
/// NULL where it is not known.
#[derive(Debug, Clone)]
pub struct Predicate {
    pub name: &'static str,
    /// For people.
    pub meaning: &'static str,
    pub sql: fn(&str) -> Sql,
}

impl PartialEq for Predicate {
    fn eq(&self, other: &Predicate) -> bool {
        self.name == other.name
    }
}

/// Columns and predicates by name.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    columns: BTreeMap<String, Arc<Column>>,
    /// What else columns are called.
    also: BTreeMap<String, Arc<Column>>,
    predicates: Vec<Arc<Predicate>>,
}

/// What is wrong with a column.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum CatalogueError {
    #[error(
        "`{0}` is no name for a column: letters, digits and `_`, no digit first, none of the language's words"
    )]
    Name(String),
    #[error("column `{0}` is there twice (upper and lower case are the same)")]
    Twice(String),
    #[error("column `{name}` cannot be in `{unit}`: it is {of}")]
    Unit { name: String, unit: &'static str, of: Type },
    /// A `?` would take a value that is bound to something else.
    #[error("the SQL of column `{0}` is empty, or has a `?` in it")]
    Sql(String),
}

impl Catalogue {
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Result<Catalogue, CatalogueError> {
        let mut catalogue = Catalogue::default();
        for column in columns {
            check(&column)?;
            let key = column.name.to_ascii_lowercase();
            if let Some(before) = catalogue.columns.insert(key, Arc::new(column)) {
                return Err(CatalogueError::Twice(before.name.clone()));
            }
        }
        Ok(catalogue)
    }

    /// The same, with a predicate.
    pub fn with(mut self, predicate: Predicate) -> Catalogue {
        self.predicates.push(Arc::new(predicate));
        self
    }

    /// The same, with another name for a column. A name that is taken, and one for a column that is not there, changes nothing.
    pub fn also(mut self, name: &str, of: &str) -> Catalogue {
        if let Some(column) = self.columns.get(of).cloned().filter(|_| self.get(name).is_none()) {
            self.also.insert(name.to_ascii_lowercase(), column);
        }
        self
    }

    pub(crate) fn predicate(&self, name: &str) -> Option<&Arc<Predicate>> {
        self.predicates.iter().find(|predicate| predicate.name.eq_ignore_ascii_case(name))
    }

    pub fn predicates(&self) -> impl Iterator<Item = &Predicate> {
        self.predicates.iter().map(Arc::as_ref)
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Column>> {
        let name = name.to_ascii_lowercase();
        self.columns.get(&name).or_else(|| self.also.get(&name))
    }

    /// All columns, by name.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.values().map(Arc::as_ref)
    }

    pub(crate) fn nearest(&self, name: &str) -> Option<&str> {
        nearest(name, self.columns().map(|column| column.name.as_str()))
    }
}

fn check(column: &Column) -> Result<(), CatalogueError> {
    let name = || column.name.clone();
    let mut letters = column.name.chars();
    let is_name = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    // Where a column can stand, `end` can only be one.
    if !is_name || Keyword::of(&column.name).is_some_and(|word| word != Keyword::End) {
        return Err(CatalogueError::Name(name()));
    }
    if column.unit.of() != column.of.base().of() {
        return Err(CatalogueError::Unit { name: name(), unit: column.unit.symbol(), of: column.of });
    }
    let whole = column.whole.as_ref().map_or("-", |whole| &whole.sql);
    if [&column.sql, whole].iter().any(|sql| sql.trim().is_empty() || sql.contains('?')) {
        return Err(CatalogueError::Sql(name()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::like::Pattern;
    use crate::{Condition, Question, Row, Value};

    #[test]
    fn names_are_found_in_any_case() {
        let catalogue = Catalogue::new([Column::new("GPU_util", Type::Share, "", "g")]).unwrap();
        assert_eq!(catalogue.get("gpu_UTIL").unwrap().name, "GPU_util");
        assert_eq!(catalogue.get("gpu"), None);
        assert_eq!(catalogue.nearest("gpu_utl"), Some("GPU_util"));
    }

    fn asking() -> Catalogue {
        let sql = |pattern: &str| {
            let fits = Sql::of_pattern("name", &Pattern::of_glob(pattern));
            Sql { text: format!("(SELECT bool_or({}) FROM software)", fits.text), ..fits }
        };
        let uses = Predicate { name: "uses", meaning: "", sql };
        Catalogue::new([Column::new("nodes", Type::Number, "", "n")]).unwrap().with(uses)
    }

    #[test]
    fn predicates_are_asked() {
        let condition = Condition::parse("nodes > 1 and not USES('lib_*.so')", &asking()).unwrap();
        assert_eq!(condition.to_string(), "nodes > 1 and not uses('lib_*.so')");
        assert_eq!(Condition::parse(&condition.to_string(), &asking()).unwrap(), condition);
        let sql = condition.sql();
        let fits = "regexp_full_match(name, CAST(? AS VARCHAR))";
        assert!(
            sql.text.ends_with(&format!("(NOT (SELECT bool_or({fits}) FROM software)))")),
            "{}",
            sql.text
        );
        assert_eq!(sql.values, [Value::Number(1.0), Value::Text("(?s)lib\\_.*\\.so".into())]);
        let questions: Vec<Question> = condition.questions().collect();
        assert_eq!((questions.len(), &*questions[0].text), (1, "uses('lib_*.so')"));
        assert_eq!((questions[0].predicate, &*questions[0].pattern), ("uses", "lib_*.so"));
        assert_eq!(questions[0].sql.values, sql.values[1..]);
        let answered = condition.answered(|text| (text == "uses('lib_*.so')").then(|| "w.q0".into()));
        assert!(answered.sql().text.ends_with("(NOT CAST((w.q0) AS BOOLEAN)))"), "{}", answered.sql().text);
        assert_eq!(condition.answered(|_| None), condition);
        let mut row = Row::new();
        row.set(asking().get("nodes").unwrap(), Value::Number(2.0)).unwrap();
        assert_eq!(condition.holds(&row), None);
        for (answer, holds) in [(true, false), (false, true)] {
            row.answer(&questions[0].text, answer);
            assert_eq!(condition.holds(&row), Some(holds));
        }
    }

    #[test]
    fn what_a_user_asks_is_bounded() {
        let many = |part: &str, count: usize| vec![part; count].join(" or ");
        for (most, text, what) in [
            (8, "uses('a')", "questions such as uses('lib*')"),
            (32, "lower('a') like 'b%'", "patterns"),
            (333, "nodes + 1 > 2", "operations"),
        ] {
            Condition::asked(&many(text, most), &asking()).unwrap();
            let more = many(text, most + 1);
            let error = Condition::asked(&more, &asking()).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("at most"), "{error}");
            // The site itself may.
            Condition::parse(&more, &asking()).unwrap();
        }
        let long = format!("uses('*{}')", "a".repeat(300));
        let error = Condition::parse(&long, &asking()).unwrap_err().to_string();
        assert!(error.contains("at most 256 characters"), "{error}");
    }

    #[test]
    fn what_is_wrong_with_a_question_is_said() {
        for (text, place, said) in [
            (
                "used('a')",
                "used",
                "no function `used`; there are abs, coalesce, greatest, least, lower, uses",
            ),
            ("uses(nodes)", "nodes", "expected a text in quotes, such as 'libblas*'"),
            ("uses('a', 'b')", "uses", "`uses` takes one argument"),
            ("uses('a') > 1", "1", "expected a condition; this is a number"),
        ] {
            let error = Condition::parse(text, &asking()).unwrap_err();
            assert_eq!(&text[error.span.clone()], place, "{text}: {error}");
            assert!(error.to_string().starts_with(said), "{text}: {error}");
        }
    }

    #[test]
    fn a_column_that_cannot_work_is_refused() {
        let number = |name: &str| Column::new(name, Type::Number, "", "x");
        let error = |columns: Vec<Column>| Catalogue::new(columns).unwrap_err();
        for name in ["", "1a", "a b", "a-b", "ä", "And", "unknown", "a;b", "a\0"] {
            assert_eq!(error(vec![number(name)]), CatalogueError::Name(name.into()));
        }
        assert_eq!(error(vec![number("a"), number("A")]), CatalogueError::Twice("a".into()));
        let unit = CatalogueError::Unit { name: "a".into(), unit: "B", of: Type::Number };
        assert_eq!(error(vec![number("a").in_unit(Unit::BYTE)]), unit);
        for sql in ["", " ", "x + ?", "'?'"] {
            let column = Column::new("a", Type::Text, "", sql);
            assert_eq!(error(vec![column]), CatalogueError::Sql("a".into()));
        }
    }
}
