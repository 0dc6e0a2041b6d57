//! What a value is, by the type and the slope that Ganglia gives it.
//!
//! A slope tells which way a value can go: `zero` is a constant, `positive` only grows, which `gmetad` stores as a
//! counter, `derivative` likewise but begins again with what counts; all others are states.

use crate::monitor::{Dropped, Value, Width, number};
use crate::number::whole;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slope {
    Positive,
    Derivative,
    /// Zero, negative, both or not said.
    Other,
}

impl Slope {
    pub fn named(word: &str) -> Slope {
        match word {
            "positive" => Slope::Positive,
            "derivative" => Slope::Derivative,
            _ => Slope::Other,
        }
    }

    pub fn numbered(number: u32) -> Slope {
        match number {
            1 => Slope::Positive,
            5 => Slope::Derivative,
            _ => Slope::Other,
        }
    }
}

/// A value that is written as text.
pub fn of_text(text: &[u8], kind: &str, slope: Slope) -> Result<Value, Dropped> {
    if kind == "string" {
        return Err(Dropped::Text);
    }
    let float = number(text)?;
    Ok(match (slope, whole(text)) {
        (Slope::Other, _) => Value::Gauge(float),
        (Slope::Positive, Some(count)) => Value::Counter { count, width: width(kind) },
        (Slope::Derivative, Some(count)) => i64::try_from(count).map_or(Value::Sum(float), Value::Derive),
        _ => Value::Sum(float),
    })
}

/// Smaller types are counted in 32 bits on the way.
fn width(kind: &str) -> Width {
    if kind.ends_with("int32") { Width::Bits32 } else { Width::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_by_type_and_slope() {
        let counter = |count, width| Ok(Value::Counter { count, width });
        for (text, kind, slope, expected) in [
            ("12", "uint32", "both", Ok(Value::Gauge(12.0))),
            ("12", "uint32", "zero", Ok(Value::Gauge(12.0))),
            ("12", "uint32", "positive", counter(12, Width::Bits32)),
            ("12", "double", "positive", counter(12, Width::Unknown)),
            ("12.5", "double", "positive", Ok(Value::Sum(12.5))),
            ("12", "uint32", "derivative", Ok(Value::Derive(12))),
            ("-1.5", "float", "", Ok(Value::Gauge(-1.5))),
            ("12", "string", "both", Err(Dropped::Text)),
            ("Linux", "float", "both", Err(Dropped::Text)),
            ("nan", "float", "both", Err(Dropped::NoValue)),
        ] {
            assert_eq!(
                of_text(text.as_bytes(), kind, Slope::named(slope)),
                expected,
                "{text} {kind} {slope}"
            );
        }
        assert_eq!(
            [0, 1, 3, 5].map(Slope::numbered)[1..],
            [Slope::Positive, Slope::Other, Slope::Derivative]
        );
    }
}
