//! A small catalogue for tests.

use crate::{Catalogue, Column, Condition, Row, Type, Unit, Value};

pub(crate) fn catalogue() -> Catalogue {
    let column = |name, of| Column::new(name, of, "", name);
    Catalogue::new([
        column("nodes", Type::Number),
        column("cores", Type::Number),
        column("power", Type::Number).in_unit(Unit::label("W")),
        column("gpu", Type::Share).in_unit(Unit::PERCENT),
        column("coverage", Type::Share),
        column("memory", Type::Bytes),
        column("memory_peak", Type::Bytes).in_unit(Unit::KIBIBYTE),
        column("network", Type::Rate),
        column("elapsed", Type::Duration),
        column("waited", Type::Duration).in_unit(Unit::NANOSECOND),
        column("start", Type::Time),
        column("end_time", Type::Time),
        column("end", Type::Time),
        column("state", Type::Text),
        column("ending", Type::Text).one_of(&[("COMPLETED", "CD"), ("FAILED", "F"), ("REVOKED", "")]),
        column("user", Type::Text),
        column("is_shared", Type::Boolean),
    ])
    .unwrap()
    .also("core_count", "cores")
    .also("nodes", "cores")
    .also("nothing", "not_there")
}

pub(crate) fn condition(text: &str) -> Condition {
    Condition::parse(text, &catalogue()).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn row(values: &[(&str, Value)]) -> Row {
    let (catalogue, mut row) = (catalogue(), Row::new());
    for (name, value) in values {
        row.set(catalogue.get(name).unwrap(), value.clone()).unwrap();
    }
    row
}
