//! Users' conditions: whatever was typed is a condition that reads back as itself, or an error with its place.
#![no_main]

use condition::{Catalogue, Column, Condition, Row, Type, Unit, Value};
use libfuzzer_sys::fuzz_target;

fn catalogue() -> Catalogue {
    let columns = [
        Column::new("n", Type::Number, "", "n"),
        Column::new("share", Type::Share, "", "share").in_unit(Unit::PERCENT),
        Column::new("bytes", Type::Bytes, "", "bytes").in_unit(Unit::KIBIBYTE),
        Column::new("rate", Type::Rate, "", "rate"),
        Column::new("took", Type::Duration, "", "took").in_unit(Unit::NANOSECOND),
        Column::new("at", Type::Time, "", "at"),
        Column::new("s", Type::Text, "", "s"),
        Column::new("b", Type::Boolean, "", "b"),
    ];
    Catalogue::new(columns).expect("columns that make sense")
}

fuzz_target!(|text: &str| {
    let catalogue = catalogue();
    let condition = match Condition::parse(text, &catalogue) {
        Ok(condition) => condition,
        Err(error) => {
            assert!(text.get(error.span.clone()).is_some());
            return drop(error.to_string());
        }
    };
    let again = Condition::parse(&condition.to_string(), &catalogue).expect("the canonical text");
    assert_eq!(again, condition);
    let sql = condition.sql();
    assert_eq!(sql.text.matches('?').count(), sql.values.len());
    let mut row = Row::new();
    let values = [("n", Value::Number(-1.5)), ("at", Value::Time(i64::MIN)), ("s", Value::Text(text.into()))];
    for (name, value) in values {
        let column = catalogue.get(name).expect("a column");
        row.set(column, value).expect("a value of its type");
    }
    assert_eq!(condition.explain(&row).holds, condition.holds(&row));
});
