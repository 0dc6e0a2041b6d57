//! Random conditions over rows with everything that is special: the canonical text reads back as the same condition, and
//! DuckDB gives the same answers as we do.

mod random;

use condition::{Catalogue, Column, Condition, Problem, Row, Type, Unit, Value};
use duckdb::types::Value as Sql;
use duckdb::{Connection, ToSql};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use random::Choices;

/// Name, type, unit, and what the table has there.
const COLUMNS: [(&str, Type, Unit, &str); 17] = [
    ("n", Type::Number, Unit::ONE, "DOUBLE"),
    ("m", Type::Number, Unit::ONE, "DOUBLE"),
    ("i", Type::Number, Unit::ONE, "BIGINT"),
    ("flops", Type::Number, Unit::label("flop/s"), "FLOAT"),
    ("percent", Type::Share, Unit::PERCENT, "DOUBLE"),
    ("fraction", Type::Share, Unit::FRACTION, "DOUBLE"),
    ("bytes", Type::Bytes, Unit::BYTE, "UBIGINT"),
    ("kib", Type::Bytes, Unit::KIBIBYTE, "INTEGER"),
    ("rate", Type::Rate, Unit::BYTE_PER_SECOND, "DOUBLE"),
    ("elapsed", Type::Duration, Unit::SECOND, "DOUBLE"),
    ("waited", Type::Duration, Unit::NANOSECOND, "BIGINT"),
    ("early", Type::Time, Unit::ONE, "BIGINT"),
    ("late", Type::Time, Unit::ONE, "BIGINT"),
    ("s", Type::Text, Unit::ONE, "VARCHAR"),
    ("t", Type::Text, Unit::ONE, "VARCHAR"),
    ("flag", Type::Boolean, Unit::ONE, "BOOLEAN"),
    ("other", Type::Boolean, Unit::ONE, "BOOLEAN"),
];

fn catalogue() -> Catalogue {
    let column = |(name, of, unit, _): (&str, Type, Unit, &str)| {
        Column::new(name, of, "", &format!("\"{name}\"")).in_unit(unit)
    };
    Catalogue::new(COLUMNS.map(column)).unwrap()
}

/// Values of a column of the table; few, so that many are equal.
fn values(sql_type: &str, of: Type) -> Vec<Value> {
    let mut values = vec![Value::Unknown];
    match (sql_type, of) {
        ("DOUBLE", _) => values.extend(
            [0.0, -0.0, 1.0, -1.0, 0.5, 5.0, 35.0, 0.35, 1e300, -1e308, f64::INFINITY, f64::NAN]
                .map(Value::Number),
        ),
        (_, Type::Time) => {
            let near = 1_767_225_600_000_000_000;
            values.extend(
                [0, 1, near, near + 1, near + 3_600_000_000_000, i64::MAX, i64::MIN].map(Value::Time),
            );
        }
        (_, Type::Text) => values.extend(
            ["", "a", "A", "Ab", "ab", "a_%\\", "日'本", "%", "aaB", "ÄÖß", "a\nb", "(a|b)*"]
                .map(|text| Value::Text(text.into())),
        ),
        (_, Type::Boolean) => values.extend([true, false].map(Value::Boolean)),
        // Whole numbers, exact in every type.
        _ => values.extend([0.0, 1.0, 2.0, 7.0, 1024.0, 1e9].map(Value::Number)),
    }
    values
}

fn bound(value: &Value) -> Sql {
    match value {
        Value::Unknown => Sql::Null,
        Value::Number(number) => Sql::Double(*number),
        Value::Text(text) => Sql::Text(text.clone()),
        Value::Time(ns) => Sql::BigInt(*ns),
        Value::Boolean(truth) => Sql::Boolean(*truth),
    }
}

/// A table in DuckDB with rows, and the same rows for ourselves.
struct Both {
    catalogue: Catalogue,
    connection: Connection,
    rows: Vec<Row>,
}

impl Both {
    fn new(count: usize) -> Both {
        let (catalogue, connection) = (catalogue(), Connection::open_in_memory().unwrap());
        let types = COLUMNS.map(|(name, _, _, sql_type)| format!("\"{name}\" {sql_type}")).join(", ");
        connection.execute_batch(&format!("CREATE TABLE row (id INTEGER, {types})")).unwrap();
        let marks = ", ?".repeat(COLUMNS.len());
        let mut insert = connection.prepare(&format!("INSERT INTO row VALUES (?{marks})")).unwrap();
        let mut rows = Vec::new();
        // Every column goes through its values with another step, so that all meet all.
        for id in 0..count {
            let mut row = Row::new();
            let mut bound_row = vec![Sql::Int(id as i32)];
            for (at, (name, of, _, sql_type)) in COLUMNS.into_iter().enumerate() {
                let values = values(sql_type, of);
                let value = &values[(id * (2 * at + 3) + id / 7 * (at + 1) + at) % values.len()];
                row.set(catalogue.get(name).unwrap(), value.clone()).unwrap();
                bound_row.push(bound(value));
            }
            insert.execute(duckdb::params_from_iter(bound_row)).unwrap();
            rows.push(row);
        }
        drop(insert);
        Both { catalogue, connection, rows }
    }

    fn database(&self, condition: &Condition) -> Vec<Option<bool>> {
        let sql = condition.sql();
        let values: Vec<Sql> = sql.values.iter().map(bound).collect();
        let values: Vec<&dyn ToSql> = values.iter().map(|value| value as &dyn ToSql).collect();
        let query = format!("SELECT {} FROM row ORDER BY id", sql.text);
        let mut query =
            self.connection.prepare(&query).unwrap_or_else(|error| panic!("{}: {error}", sql.text));
        let rows = query.query_map(&values[..], |row| row.get(0));
        let rows = rows.unwrap_or_else(|error| panic!("{condition}: {error}"));
        rows.map(|row| row.unwrap_or_else(|error| panic!("{condition}: {error}"))).collect()
    }

    fn ourselves(&self, condition: &Condition) -> Vec<Option<bool>> {
        self.rows.iter().map(|row| condition.holds(row)).collect()
    }
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() })
}

fn choices() -> impl Strategy<Value = Vec<u16>> {
    proptest::collection::vec(any::<u16>(), 0..120)
}

/// What is made at random makes sense, but for products of plain numbers that are too large.
fn read(text: &str, catalogue: &Catalogue) -> Result<Condition, TestCaseError> {
    Condition::parse(text, catalogue).map_err(|error| match error.problem {
        Problem::TooLarge => TestCaseError::reject("too large"),
        _ => TestCaseError::fail(error.to_string()),
    })
}

#[test]
fn the_canonical_text_reads_back() {
    let catalogue = catalogue();
    let property = |numbers: Vec<u16>| {
        let text = Choices::new(&numbers).condition(4);
        let condition = read(&text, &catalogue)?;
        let shown = condition.to_string();
        let again = Condition::parse(&shown, &catalogue).unwrap_or_else(|error| panic!("{error}"));
        prop_assert_eq!(&again, &condition, "{}", shown);
        prop_assert_eq!(again.to_string(), shown);
        Ok(())
    };
    runner(3000).run(&choices(), property).unwrap();
}

#[test]
fn duckdb_gives_the_same_answers() {
    let both = Both::new(150);
    let property = |numbers: Vec<u16>| {
        let text = Choices::new(&numbers).condition(3);
        let condition = read(&text, &both.catalogue)?;
        let (theirs, ours) = (both.database(&condition), both.ourselves(&condition));
        for ((theirs, ours), row) in theirs.iter().zip(&ours).zip(&both.rows) {
            prop_assert_eq!(theirs, ours, "{} for {:?}", condition, row);
        }
        Ok(())
    };
    runner(600).run(&choices(), property).unwrap();
}

/// Patterns of all kinds: each of them one of the plain functions, or a regular expression.
#[test]
fn duckdb_finds_what_a_pattern_means() {
    let both = Both::new(150);
    let letters = [
        "%", "_", "a", "b", "B", "\\%", "\\_", "\\\\", "日", "''", "ß", "\n", "(", "|", ")", "*", ".", "[",
        "^", "$",
    ];
    let property = |choices: Vec<usize>| {
        let pattern: String = choices.iter().map(|at| letters[at % letters.len()]).collect();
        let condition = read(&format!("s like '{pattern}' or lower(t) like '{pattern}'"), &both.catalogue)?;
        prop_assert_eq!(both.database(&condition), both.ourselves(&condition), "{}", condition);
        Ok(())
    };
    runner(1500).run(&proptest::collection::vec(any::<usize>(), 0..7), property).unwrap();
}

/// DuckDB's own LIKE tries every way to fit this: 24 s for one text. What it does must not depend on how the optimizer rewrites it.
#[test]
fn no_pattern_takes_long() {
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch("CREATE TABLE row AS SELECT repeat('a', 400) || range AS s FROM range(2000)")
        .unwrap();
    let catalogue = Catalogue::new([Column::new("s", Type::Text, "", "s")]).unwrap();
    let begin = std::time::Instant::now();
    for pattern in [
        "%_a".repeat(15) + "%_b",
        "%a".repeat(31) + "b",
        "%a".repeat(30) + "_b%",
        format!("%a{}b%", "_".repeat(28)),
        "%_a%".to_owned() + &"a%_a%".repeat(8) + "c",
    ] {
        let condition = Condition::parse(&format!("s like '{pattern}'"), &catalogue).unwrap();
        let sql = condition.sql();
        let values: Vec<Sql> = sql.values.iter().map(bound).collect();
        let query = format!("SELECT count(*) FROM row WHERE {}", sql.text);
        let found: u64 =
            connection.query_row(&query, duckdb::params_from_iter(values), |row| row.get(0)).unwrap();
        assert_eq!(found, 0, "{pattern}");
    }
    // Unlimited ways: hours. Linear ones: a second where nothing is optimized.
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
}

/// Each step is a condition of its own, with the answer that the explanation says.
#[test]
fn an_explanation_agrees_with_the_condition() {
    let both = Both::new(60);
    let property = |numbers: Vec<u16>| {
        let text = Choices::new(&numbers).condition(3);
        let condition = read(&text, &both.catalogue)?;
        for row in &both.rows {
            let explanation = condition.explain(row);
            prop_assert_eq!(explanation.holds, condition.holds(row));
            prop_assert!(!explanation.steps.is_empty());
            for step in explanation.steps {
                let alone = Condition::parse(&step.text, &both.catalogue).unwrap();
                prop_assert_eq!(alone.holds(row), step.holds, "{}", step);
            }
        }
        Ok(())
    };
    runner(200).run(&choices(), property).unwrap();
}

/// Words in any order: most are errors, whose place is in the text, and what is not reads back.
#[test]
fn whatever_is_typed_is_a_condition_or_an_error() {
    const WORDS: [&str; 40] = [
        "n",
        "m",
        "percent",
        "bytes",
        "elapsed",
        "early",
        "s",
        "flag",
        "and",
        "or",
        "not",
        "in",
        "between",
        "like",
        "is",
        "known",
        "unknown",
        "case",
        "when",
        "then",
        "else",
        "end",
        "(",
        ")",
        ",",
        "+",
        "-",
        "*",
        "/",
        "=",
        "<",
        "!=",
        "5",
        "7%",
        "2h",
        "4KiB",
        "2026-01-01",
        "'a'",
        "coalesce",
        "least",
    ];
    let catalogue = catalogue();
    let words = proptest::collection::vec(0..WORDS.len(), 1..12);
    let property = |(words, any, at): (Vec<usize>, String, usize)| {
        let mut words: Vec<&str> = words.into_iter().map(|word| WORDS[word]).collect();
        let soup = words.join(" ");
        words.insert(at % words.len(), &any);
        for text in [soup, words.concat(), words.join(" "), any.clone()] {
            match Condition::parse(&text, &catalogue) {
                Ok(condition) => {
                    let again = Condition::parse(&condition.to_string(), &catalogue);
                    prop_assert_eq!(again.unwrap(), condition, "{}", text);
                }
                Err(error) => {
                    prop_assert!(text.get(error.span.clone()).is_some(), "{:?}", error);
                    prop_assert_eq!(error.to_string().lines().count(), 3, "{}", error);
                }
            }
        }
        Ok(())
    };
    runner(3000).run(&(words, any::<String>(), any::<usize>()), property).unwrap();
}

/// The longest and deepest that is allowed: each step over it may look at all below, no more.
#[test]
fn the_largest_condition_takes_no_time() {
    let (catalogue, begin) = (catalogue(), std::time::Instant::now());
    let wide = "n, ".repeat(30);
    let nested = (0..60).fold("n".to_owned(), |inner, _| format!("coalesce({wide}{inner})"));
    let sums = (0..3).fold("n".to_owned(), |inner, _| format!("abs({inner}{})", " + n".repeat(19)));
    let wide = vec![format!("{sums} > 1"); 14].join(" and ");
    for text in [format!("{nested} > 1"), wide] {
        let condition = read(&text, &catalogue).unwrap();
        let _ = (condition.sql(), condition.explain(&Row::new()), condition.to_string());
    }
    assert!(begin.elapsed().as_secs() < 5, "{:?}", begin.elapsed());
}

/// Unicode grows: letters that the database does not know yet are as they are there, and few.
#[test]
fn lower_case_is_that_of_the_database() {
    let connection = Connection::open_in_memory().unwrap();
    let catalogue = Catalogue::new([Column::new("s", Type::Text, "", "s")]).unwrap();
    let column = catalogue.get("s").unwrap().clone();
    let mut query = connection.prepare("SELECT chr(c::INTEGER), lower(chr(c::INTEGER)) FROM range(1, 1114112) t(c) WHERE c NOT BETWEEN 55296 AND 57343").unwrap();
    let pairs = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let mut differ = Vec::new();
    for pair in pairs {
        let (upper, lower): (String, String) = pair.unwrap();
        let is_quote = lower == "'";
        let condition =
            Condition::parse(&format!("lower(s) = '{}'", if is_quote { "''" } else { &lower }), &catalogue);
        let mut row = Row::new();
        row.set(&column, Value::Text(upper.clone())).unwrap();
        if condition.unwrap().holds(&row) != Some(true) {
            differ.push(upper);
        }
    }
    assert!(differ.len() < 100, "{differ:?}");
    assert!(differ.iter().all(|upper| upper.chars().all(|c| u32::from(c) > 0x1000)), "{differ:?}");
}
