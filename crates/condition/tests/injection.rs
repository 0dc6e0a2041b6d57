//! What somebody may type to get at the database. It is an error, or a value that is bound: the text of the SQL is made of
//! the catalogue's SQL and our own words only.

use condition::{Catalogue, Column, Condition, Type, Unit, Value};

/// The catalogue's SQL, in a form that nothing else has.
const SQL: [&str; 3] = ["<<name>>", "<<size>>", "<<when>>"];

/// All that may be left of the text without it.
const WORDS: &[&str] = &[
    "CAST",
    "AS",
    "DOUBLE",
    "VARCHAR",
    "BIGINT",
    "BOOLEAN",
    "HUGEINT",
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "prefix",
    "suffix",
    "contains",
    "regexp_full_match",
    "IS",
    "NULL",
    "TRUE",
    "FALSE",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "abs",
    "coalesce",
    "lower",
    "list_sort",
    "nullif",
    "'ASC'",
    "'DESC'",
    "'NULLS",
    "FIRST'",
    "1e9",
    "0e0",
    "1",
    "1.024e3",
];

const TRIED: &[&str] = &[
    "'; DROP TABLE job; --",
    "'' OR 1=1",
    "x' OR 'a'='a",
    "\"; SELECT 1; --",
    "a''b",
    "\\' OR true --",
    "\\",
    "/* */",
    "-- comment",
    "?",
    "$1",
    ":name",
    "$$x$$",
    "E'\\x27'",
    "U&'\\0027'",
    "a\0b",
    "\0",
    "\u{2019} OR true",
    "\u{02bc}",
    "\u{ff07}; DROP TABLE job",
    "a\u{1b}[2J",
    "a\nb; DROP",
    "read_csv('/etc/passwd')",
    "(SELECT 1)",
    "name; COPY job TO '/tmp/x'",
    "<<name>>",
    "%' OR name LIKE '%",
    "\u{202e}' RO",
    "{'a': 1}",
    "[1]",
    "name::INTEGER",
    "getenv('HOME')",
    "@@version",
    "`name`",
    "1e9; x",
    "0x27",
    "{}",
    "{0}",
];

/// Around what is tried, as a text and as it is.
const PLACES: &[&str] = &[
    "name = '@'",
    "name = \"@\"",
    "name in ('a', '@')",
    "name like '@'",
    "lower(name) != coalesce(name, '@')",
    "case when name = '@' then name else '@' end = name",
    "name between '@' and '@'",
    "@",
    "name = @",
    "size > @",
    "size > 1@",
    "when_ > 2026-01-01@",
    "@(size) > 1",
    "name @ 'a'",
    "size in (1, @)",
    "name = 'a' @",
];

fn catalogue() -> Catalogue {
    Catalogue::new([
        Column::new("name", Type::Text, "", SQL[0]),
        Column::new("size", Type::Bytes, "", SQL[1]).in_unit(Unit::KIBIBYTE),
        Column::new("when_", Type::Time, "", SQL[2]),
    ])
    .unwrap()
}

/// The words that are left of a text without columns and signs.
fn foreign(sql: &str) -> Vec<String> {
    let rest = SQL.iter().fold(sql.to_owned(), |text, column| text.replace(column, " "));
    let words = rest.split([' ', '(', ')', ',', '?', '[', ']']).filter(|word| !word.is_empty());
    let is_sign = |word: &str| matches!(word, "=" | "<>" | "<" | "<=" | ">" | ">=" | "+" | "-" | "*" | "/");
    words.filter(|word| !is_sign(word) && !WORDS.contains(word)).map(str::to_owned).collect()
}

#[test]
fn whatever_is_tried_is_an_error_or_a_value() {
    let catalogue = catalogue();
    let (mut errors, mut accepted) = (0, 0);
    for place in PLACES {
        for tried in TRIED {
            let text = place.replace('@', tried);
            match Condition::parse(&text, &catalogue) {
                Err(error) => {
                    errors += 1;
                    let said = error.to_string();
                    assert!(text.get(error.span).is_some(), "{text}: {said}");
                    assert!(!said.contains(['\0', '\u{1b}', '\u{202e}']), "{said:?}");
                }
                Ok(condition) => {
                    accepted += 1;
                    let sql = condition.sql();
                    assert_eq!(foreign(&sql.text), Vec::<String>::new(), "{text}: {}", sql.text);
                    assert_eq!(sql.text.matches('?').count(), sql.values.len(), "{text}: {}", sql.text);
                }
            }
        }
    }
    assert!(errors > 200 && accepted > 100, "{errors} errors, {accepted} accepted");
}

#[test]
fn a_text_is_bound_as_it_is() {
    for tried in TRIED.iter().filter(|tried| !tried.contains('\0')) {
        let text = format!("name = '{}'", tried.replace('\'', "''"));
        let sql = Condition::parse(&text, &catalogue()).unwrap().sql();
        assert_eq!(sql.text, "(CAST((<<name>>) AS VARCHAR) = CAST(? AS VARCHAR))");
        assert_eq!(sql.values, [Value::Text(tried.to_string())]);
    }
}
