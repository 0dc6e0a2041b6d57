//! Values of a row and of an expression, and how they compare.

use std::cmp::Ordering;
use std::fmt;

use jiff::Timestamp;

use crate::unit::Type;

/// A value, and also what is bound to a `?`.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// NULL.
    Unknown,
    /// Every amount; DOUBLE in the database.
    Number(f64),
    Text(String),
    /// In nanoseconds since 1970; BIGINT.
    Time(i64),
    Boolean(bool),
}

impl Value {
    /// May a column of this type have it?
    pub(crate) fn fits(&self, of: Type) -> bool {
        match self {
            Value::Unknown => true,
            Value::Number(_) => of.is_amount(),
            Value::Text(_) => of == Type::Text,
            Value::Time(_) => of == Type::Time,
            Value::Boolean(_) => of == Type::Boolean,
        }
    }

    /// Its order; `None` if one of them is unknown. Texts are ordered by their bytes.
    pub(crate) fn compare(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Number(a), Value::Number(b)) => Some(order(*a, *b)),
            (Value::Text(a), Value::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
            (Value::Time(a), Value::Time(b)) => Some(a.cmp(b)),
            (Value::Boolean(a), Value::Boolean(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    pub(crate) fn truth(&self) -> Option<bool> {
        match self {
            Value::Boolean(truth) => Some(*truth),
            _ => None,
        }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }
}

impl From<Option<bool>> for Value {
    fn from(truth: Option<bool>) -> Self {
        truth.map_or(Value::Unknown, Value::Boolean)
    }
}

impl From<Option<f64>> for Value {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Value::Unknown, Value::Number)
    }
}

/// The database's order of numbers: what is no number equals itself and is above all others.
fn order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// As it is written in a condition; an amount without its unit.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Value::Unknown => f.write_str("unknown"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Value::Time(ns) => {
                write!(f, "{}", Timestamp::from_nanosecond(i128::from(*ns)).unwrap_or_default())
            }
            Value::Boolean(truth) => write!(f, "{truth}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders() {
        let nan = f64::NAN;
        for (a, b, expected) in [
            (Value::Number(1.0), Value::Number(2.0), Some(Ordering::Less)),
            (Value::Number(0.0), Value::Number(-0.0), Some(Ordering::Equal)),
            (Value::Number(nan), Value::Number(f64::INFINITY), Some(Ordering::Greater)),
            (Value::Number(nan), Value::Number(nan), Some(Ordering::Equal)),
            (Value::Text("Z".into()), Value::Text("a".into()), Some(Ordering::Less)),
            (Value::Text("ä".into()), Value::Text("z".into()), Some(Ordering::Greater)),
            (Value::Time(1), Value::Unknown, None),
            (Value::Unknown, Value::Unknown, None),
        ] {
            assert_eq!(a.compare(&b), expected, "{a} and {b}");
            assert_eq!(b.compare(&a), expected.map(Ordering::reverse), "{b} and {a}");
        }
    }

    #[test]
    fn values_as_text() {
        for (value, text) in [
            (Value::Text("it's".into()), "'it''s'"),
            (Value::Time(0), "1970-01-01T00:00:00Z"),
            (Value::Time(1_500_000_000), "1970-01-01T00:00:01.5Z"),
            (Value::Boolean(true), "true"),
            (Value::Unknown, "unknown"),
        ] {
            assert_eq!(value.to_string(), text);
        }
    }
}
