//! What a tag says about a job: a text with the names of columns in braces, for which the job's values are put in.

use std::fmt::Write;

use condition::{Catalogue, Column, Type, Unit, Value};

/// A text that makes sense.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Text {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Words(String),
    Column(String),
}

/// What is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    #[error("`{0}` has a brace without its other")]
    Unclosed(String),
    #[error("there is no column `{0}`")]
    NoColumn(String),
}

impl Text {
    pub fn parse(text: &str, catalogue: &Catalogue) -> Result<Text, TextError> {
        let unclosed = || TextError::Unclosed(text.to_owned());
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((words, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or_else(unclosed)?;
            let column = catalogue.get(name).ok_or_else(|| TextError::NoColumn(name.to_owned()))?;
            parts.extend([Part::Words(words.to_owned()), Part::Column(column.name.clone())]);
            rest = after;
        }
        parts.push(Part::Words(rest.to_owned()));
        let is_stray = |part: &Part| matches!(part, Part::Words(words) if words.contains('}'));
        if parts.iter().any(is_stray) { Err(unclosed()) } else { Ok(Text { parts }) }
    }

    /// The columns whose values it needs.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Column(name) => Some(name.as_str()),
            Part::Words(_) => None,
        })
    }

    /// With a job's values, each already as people read it.
    pub fn filled(&self, value: impl Fn(&str) -> String) -> String {
        self.parts.iter().fold(String::new(), |text, part| match part {
            Part::Words(words) => text + words,
            Part::Column(name) => text + &value(name),
        })
    }
}

/// A column's value as people read it.
pub fn shown(column: &Column, value: &Value) -> String {
    let Value::Number(number) = value else {
        return match value {
            Value::Unknown => "unknown".to_owned(),
            Value::Text(text) => text.clone(),
            other => other.to_string(),
        };
    };
    amount(column.of, column.unit, *number)
}

/// So many of a unit as people read it.
pub fn amount(of: Type, unit: Unit, number: f64) -> String {
    match of {
        Type::Duration => duration(number * unit.in_base()),
        Type::Bytes => scaled(number * unit.in_base(), "B"),
        Type::Rate => scaled(number * unit.in_base(), "B/s"),
        _ => format!("{}{}{}", rounded(number), spaced(unit.symbol()), unit.symbol()),
    }
}

/// A word is apart from its number.
fn spaced(unit: &str) -> &'static str {
    if unit.is_empty() { "" } else { " " }
}

/// With three digits that say something, and no more behind the point than it takes.
fn rounded(number: f64) -> String {
    let before = number.abs().max(1.0).log10() as usize;
    let text = format!("{number:.*}", 2usize.saturating_sub(before));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn scaled(mut bytes: f64, unit: &str) -> String {
    let mut prefixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi"].into_iter();
    let mut prefix = prefixes.next().unwrap_or_default();
    while bytes.abs() >= 1024.0
        && let Some(next) = prefixes.next()
    {
        bytes /= 1024.0;
        prefix = next;
    }
    format!("{} {prefix}{unit}", rounded(bytes))
}

/// The two largest units.
fn duration(seconds: f64) -> String {
    const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)];
    if seconds < 60.0 {
        return format!("{} s", rounded(seconds));
    }
    let mut rest = seconds.round() as u64;
    let mut text = String::new();
    let first = UNITS.iter().position(|(_, size)| rest >= *size).unwrap_or(UNITS.len() - 1);
    for (unit, size) in UNITS.iter().skip(first).take(2) {
        if rest >= *size {
            let space = if text.is_empty() { "" } else { " " };
            // Writing into memory does not fail.
            let _ = write!(text, "{space}{} {unit}", rest / size);
        }
        rest %= size;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Catalogue {
        let column = |name, of| Column::new(name, of, "", name);
        let share = column("gpu", Type::Share).in_unit(Unit::PERCENT);
        Catalogue::new([column("nodes", Type::Number), share, column("user", Type::Text)]).unwrap()
    }

    #[test]
    fn values_are_put_in() {
        let text = Text::parse("{nodes} nodes of {User}: {gpu}.", &catalogue()).unwrap();
        assert_eq!(text.columns().collect::<Vec<_>>(), ["nodes", "user", "gpu"]);
        assert_eq!(text.filled(|name| format!("<{name}>")), "<nodes> nodes of <user>: <gpu>.");
        assert_eq!(Text::parse("", &catalogue()).unwrap().filled(|_| String::new()), "");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, expected) in [
            ("{nodes", TextError::Unclosed("{nodes".into())),
            ("nodes}", TextError::Unclosed("nodes}".into())),
            ("{nodes} }", TextError::Unclosed("{nodes} }".into())),
            ("{node}", TextError::NoColumn("node".into())),
            ("{}", TextError::NoColumn("".into())),
        ] {
            assert_eq!(Text::parse(text, &catalogue()).unwrap_err(), expected);
        }
    }

    #[test]
    fn values_as_people_read_them() {
        let of = |of, unit| Column::new("x", of, "", "x").in_unit(unit);
        for (column, value, expected) in [
            (of(Type::Share, Unit::PERCENT), 2.346, "2.35 %"),
            (of(Type::Share, Unit::PERCENT), 0.0, "0 %"),
            (of(Type::Number, Unit::ONE), 1234.6, "1235"),
            (of(Type::Number, Unit::ONE), 12.0, "12"),
            (of(Type::Number, Unit::ONE), 100.0, "100"),
            (of(Type::Number, Unit::label("W")), 12.345, "12.3 W"),
            (of(Type::Bytes, Unit::KIBIBYTE), 16_777_216.0, "16 GiB"),
            (of(Type::Bytes, Unit::BYTE), 1000.0, "1000 B"),
            (of(Type::Rate, Unit::BYTE_PER_SECOND), 1_572_864.0, "1.5 MiB/s"),
            (of(Type::Duration, Unit::SECOND), 0.5, "0.5 s"),
            (of(Type::Duration, Unit::SECOND), 3600.0, "1 h"),
            (of(Type::Duration, Unit::SECOND), 93_784.0, "1 d 2 h"),
            (of(Type::Duration, Unit::SECOND), 61.0, "1 min 1 s"),
        ] {
            assert_eq!(shown(&column, &Value::Number(value)), expected);
        }
        let text = Column::new("x", Type::Text, "", "x");
        assert_eq!(shown(&text, &Value::Text("it's".into())), "it's");
        assert_eq!(shown(&text, &Value::Unknown), "unknown");
    }
}
