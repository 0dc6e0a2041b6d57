//! Comparisons of whole numbers with a bound, as SQL that the database can use to leave out whole parts of a table.
//!
//! A column such as seconds is made of whole numbers, nanoseconds. What is computed of them only grows with them, so the whole
//! numbers for which a comparison holds are those from, or up to, a certain one. That one is found here, by computing as
//! [`crate::eval`] does: the answer is the same for every row. The text has numbers of ours, nothing that a user wrote.

use crate::catalogue::{Column, Whole};
use crate::expr::{Comparison, Expr};
use crate::token::Literal;

/// A comparison of a column with a bound, if it can be made of whole numbers.
pub(crate) fn compare(left: &Expr, comparison: Comparison, right: &Expr) -> Option<String> {
    let (column, comparison, bound) = match (left, right) {
        (Expr::Column(column), Expr::Literal(Literal::Quantity(bound))) => (column, comparison, bound.base()),
        (Expr::Literal(Literal::Quantity(bound)), Expr::Column(column)) => {
            (column, turned(comparison), bound.base())
        }
        _ => return None,
    };
    let whole = column.whole.as_ref()?;
    // The first that are not below the bound, and the first above it.
    let reaches = first(|raw| amount(column, whole, raw) >= bound)?;
    let exceeds = first(|raw| amount(column, whole, raw) > bound)?;
    let sql = &whole.sql;
    Some(match comparison {
        Comparison::Less => format!("(({sql}) < {reaches})"),
        Comparison::AtLeast => format!("(({sql}) >= {reaches})"),
        Comparison::AtMost => format!("(({sql}) < {exceeds})"),
        Comparison::More => format!("(({sql}) >= {exceeds})"),
        Comparison::Equal => format!("(({sql}) >= {reaches} AND ({sql}) < {exceeds})"),
        Comparison::NotEqual => format!("(({sql}) < {reaches} OR ({sql}) >= {exceeds})"),
    })
}

/// The same for `between`.
pub(crate) fn between(value: &Expr, low: &Expr, high: &Expr) -> Option<String> {
    let low = compare(value, Comparison::AtLeast, low)?;
    Some(format!("({low} AND {})", compare(value, Comparison::AtMost, high)?))
}

/// The same comparison from the other side.
fn turned(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Less => Comparison::More,
        Comparison::AtMost => Comparison::AtLeast,
        Comparison::More => Comparison::Less,
        Comparison::AtLeast => Comparison::AtMost,
        same => same,
    }
}

fn amount(column: &Column, whole: &Whole, raw: i64) -> f64 {
    let value = if whole.over == 1.0 { raw as f64 } else { raw as f64 / whole.over };
    column.unit.to_base(value)
}

/// The first number for which something holds that holds for all after it; none if it is the first or there is none, where
/// nothing is gained.
fn first(holds: impl Fn(i64) -> bool) -> Option<i64> {
    let (mut low, mut high) = (i64::MIN, i64::MAX);
    if holds(low) || !holds(high) {
        return None;
    }
    // It does not hold for the low one, and holds for the high one.
    while low < high - 1 {
        let middle = low.midpoint(high);
        if holds(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use crate::{Catalogue, Column, Condition, Row, Type, Unit, Value};
    use proptest::prelude::*;

    fn catalogue() -> Catalogue {
        Catalogue::new([
            Column::new("n", Type::Number, "", "n").of_whole("n", 1.0),
            Column::new("t", Type::Duration, "", "ns / 1e9").of_whole("ns", 1e9),
            Column::new("p", Type::Share, "", "c / 3e0").in_unit(Unit::PERCENT).of_whole("c", 3.0),
        ])
        .unwrap()
    }

    #[test]
    fn bounds_are_whole_numbers() {
        for (text, expected) in [
            ("n > 0", "((n) >= 1)"),
            ("n >= 0", "((n) >= 0)"),
            ("0 < n", "((n) >= 1)"),
            ("n < 2.5", "((n) < 3)"),
            ("n <= 2", "((n) < 3)"),
            ("n = 2", "((n) >= 2 AND (n) < 3)"),
            ("n = 2.5", "((n) >= 3 AND (n) < 3)"),
            ("n != 2", "((n) < 2 OR (n) >= 3)"),
            ("t > 2h", "((ns) >= 7200000000001)"),
            ("t >= 1.5", "((ns) >= 1500000000)"),
            ("p < 5", "((c) < 15)"),
            ("n between 2 and 3", "(((n) >= 2) AND ((n) < 4))"),
        ] {
            let sql = Condition::parse(text, &catalogue()).unwrap().sql();
            assert_eq!((sql.text.as_str(), sql.values.len()), (expected, 0), "{text}");
        }
        // Beyond all whole numbers nothing is gained.
        let far = Condition::parse("n > 1e30", &catalogue()).unwrap().sql();
        assert_eq!(far.values.len(), 1);
    }

    /// What the text says of a whole number.
    fn says(text: &str, raw: i64) -> bool {
        let one = |part: &str| {
            let (_, rest) = part.trim_matches(['(', ')']).split_once(") ").unwrap();
            let (sign, bound) = rest.split_once(' ').unwrap();
            let bound: i64 = bound.parse().unwrap();
            if sign == "<" { raw < bound } else { raw >= bound }
        };
        if text.contains(" OR ") { text.split(" OR ").any(one) } else { text.split(" AND ").all(one) }
    }

    proptest! {
        #[test]
        fn the_same_rows_match(
            raw in prop_oneof![-1000i64..1000, any::<i64>().prop_map(|n| n / 1000)],
            near in -3i64..3,
            column in 0usize..3,
            sign in prop::sample::select(vec!["<", "<=", ">", ">=", "=", "!="]),
        ) {
            let (name, over) = [("n", 1.0), ("t", 1e9), ("p", 3.0)][column];
            let unit = ["", "s", "%"][column];
            let bound = raw.saturating_add(near) as f64 / over;
            prop_assume!(bound >= 0.0);
            let text = format!("{name} {sign} {bound}{unit}");
            let catalogue = catalogue();
            let condition = Condition::parse(&text, &catalogue).unwrap();
            let mut row = Row::new();
            row.set(catalogue.get(name).unwrap(), Value::Number(raw as f64 / over)).unwrap();
            let sql = condition.sql();
            prop_assert_eq!(Some(says(&sql.text, raw)), condition.holds(&row), "{} {}", text, sql.text);
        }
    }
}
