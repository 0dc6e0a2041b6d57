//! The value of an expression for one row, as the database would have it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::catalogue::Column;
use crate::expr::{Comparison, Expr, Function, Operator};
use crate::like::Pattern;
use crate::token::Literal;
use crate::unit::Type;
use crate::value::Value;

/// The values of one row, by column, in the columns' units. What was not set is unknown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    values: BTreeMap<String, Value>,
    /// What predicates say, by the text of the question.
    answers: BTreeMap<String, bool>,
}

/// A value that a column cannot have.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("column `{column}` is {of}; its value is {value}")]
pub struct RowError {
    column: String,
    of: Type,
    value: Value,
}

impl Row {
    pub fn new() -> Row {
        Row::default()
    }

    pub fn set(&mut self, column: &Column, value: Value) -> Result<(), RowError> {
        if !value.fits(column.of) {
            return Err(RowError { column: column.name.clone(), of: column.of, value });
        }
        self.values.insert(column.name.clone(), value);
        Ok(())
    }

    /// What a predicate says; `question` is one of [`Condition::questions`](crate::Condition::questions).
    pub fn answer(&mut self, question: &str, truth: bool) {
        self.answers.insert(question.to_owned(), truth);
    }

    /// What a column has, in its unit.
    pub fn value(&self, column: &Column) -> Value {
        self.get(column).clone()
    }

    pub(crate) fn get(&self, column: &Column) -> &Value {
        self.values.get(&column.name).unwrap_or(&Value::Unknown)
    }
}

impl Expr {
    pub(crate) fn eval(&self, row: &Row) -> Value {
        match self {
            Expr::Literal(literal) => literal.value(),
            Expr::Column(column) => match row.get(column) {
                Value::Number(amount) => Value::Number(column.unit.to_base(*amount)),
                other => other.clone(),
            },
            Expr::Negate(inner) => inner.eval(row).number().map(|number| -number).into(),
            Expr::Arithmetic(left, operator, right) => {
                operator.apply(&left.eval(row), &right.eval(row)).into()
            }
            Expr::Case(branches, last) => {
                let holds = |(when, _): &&(Expr, Expr)| when.truth(row) == Some(true);
                let then = branches.iter().find(holds).map(|(_, then)| then).or(last.as_deref());
                then.map_or(Value::Unknown, |then| then.eval(row))
            }
            Expr::Call(function, arguments) => {
                function.apply(arguments.iter().map(|argument| argument.eval(row)))
            }
            _ => self.truth(row).into(),
        }
    }

    /// Whether a condition holds; `None` if it is not known.
    pub(crate) fn truth(&self, row: &Row) -> Option<bool> {
        match self {
            Expr::Compare(left, comparison, right) => comparison.holds(&left.eval(row), &right.eval(row)),
            Expr::All(parts) => all(parts.iter().map(|part| part.truth(row))),
            Expr::Any(parts) => not(all(parts.iter().map(|part| not(part.truth(row))))),
            Expr::Not(inner) => not(inner.truth(row)),
            Expr::In(value, items) => {
                let value = value.eval(row);
                let differs = |item: &Expr| Comparison::NotEqual.holds(&value, &item.eval(row));
                not(all(items.iter().map(differs)))
            }
            Expr::Between(value, low, high) => {
                let [value, low, high] = [value, low, high].map(|part| part.eval(row));
                let bounds =
                    [Comparison::AtLeast.holds(&value, &low), Comparison::AtMost.holds(&value, &high)];
                all(bounds.into_iter())
            }
            Expr::Like(value, pattern) => match value.eval(row) {
                Value::Text(text) => Some(Pattern::of_like(pattern).fits(&text)),
                _ => None,
            },
            Expr::Ask(..) => row.answers.get(&self.to_string()).copied(),
            Expr::Known(inner, is_known) => Some((inner.eval(row) != Value::Unknown) == *is_known),
            _ => self.eval(row).truth(),
        }
    }
}

fn not(truth: Option<bool>) -> Option<bool> {
    truth.map(|truth| !truth)
}

/// One that does not hold decides, whatever is unknown beside it.
fn all(mut truths: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let combine = |so_far: Option<bool>, truth| match truth {
        Some(false) => Err(()),
        Some(true) => Ok(so_far),
        None => Ok(None),
    };
    truths.try_fold(Some(true), combine).unwrap_or(Some(false))
}

impl Literal {
    fn value(&self) -> Value {
        match self {
            Literal::Quantity(quantity) => Value::Number(quantity.base()),
            Literal::Text(text) => Value::Text(text.clone()),
            Literal::Time(ns) => Value::Time(*ns),
            Literal::Boolean(truth) => Value::Boolean(*truth),
        }
    }
}

impl Operator {
    fn apply(self, left: &Value, right: &Value) -> Option<f64> {
        let (a, b) = match (left, right) {
            (Value::Time(a), Value::Time(b)) => return Some((i128::from(*a) - i128::from(*b)) as f64 / 1e9),
            _ => (left.number()?, right.number()?),
        };
        match self {
            Operator::Plus => Some(a + b),
            Operator::Minus => Some(a - b),
            Operator::Times => Some(a * b),
            Operator::Over => (b != 0.0).then_some(a / b),
        }
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> Option<bool> {
        let order = left.compare(right)?;
        Some(match self {
            Comparison::Equal => order == Ordering::Equal,
            Comparison::NotEqual => order != Ordering::Equal,
            Comparison::Less => order == Ordering::Less,
            Comparison::AtMost => order != Ordering::Greater,
            Comparison::More => order == Ordering::Greater,
            Comparison::AtLeast => order != Ordering::Less,
        })
    }
}

impl Function {
    fn apply(self, mut arguments: impl Iterator<Item = Value>) -> Value {
        match self {
            Function::Abs => arguments.next().and_then(|value| value.number()).map(f64::abs).into(),
            Function::Coalesce => arguments.find(|value| *value != Value::Unknown).unwrap_or(Value::Unknown),
            Function::Least => extreme(arguments, Ordering::Less),
            Function::Greatest => extreme(arguments, Ordering::Greater),
            Function::Lower => match arguments.next() {
                Some(Value::Text(text)) => Value::Text(lower(&text)),
                _ => Value::Unknown,
            },
        }
    }
}

/// The least or the greatest; unknown if one of them is.
fn extreme(values: impl Iterator<Item = Value>, wanted: Ordering) -> Value {
    let better = |best: Value, value: Value| match value.compare(&best) {
        None => Value::Unknown,
        Some(order) if order == wanted => value,
        Some(_) => best,
    };
    values.reduce(better).unwrap_or(Value::Unknown)
}

/// Each character on its own, as the database does it: no final sigma, and one character for one.
fn lower(text: &str) -> String {
    text.chars().map(|c| c.to_lowercase().next().unwrap_or(c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{catalogue, condition, row};

    #[test]
    fn three_answers() {
        let (yes, no, unknown) = (Some(true), Some(false), None);
        let row = row(&[
            ("nodes", Value::Number(2.0)),
            ("gpu", Value::Number(7.0)),
            ("user", Value::Text("Anna".into())),
            ("waited", Value::Number(1e9)),
            ("memory_peak", Value::Number(2.0)),
        ]);
        for (text, expected) in [
            ("nodes = 2", yes),
            ("cores = 2", unknown),
            ("not cores = 2", unknown),
            ("cores = cores", unknown),
            ("cores is unknown", yes),
            ("nodes is known", yes),
            ("(cores > 1) is unknown", yes),
            ("nodes = 1 and cores = 2", no),
            ("cores = 2 and nodes = 1", no),
            ("nodes = 2 and cores = 2", unknown),
            ("nodes = 2 or cores = 2", yes),
            ("cores = 2 or nodes = 1", unknown),
            ("nodes in (1, 2)", yes),
            ("nodes in (2, cores)", yes),
            ("nodes in (1, cores)", unknown),
            ("nodes not in (1, cores)", unknown),
            ("cores in (1)", unknown),
            ("nodes between 2 and 2", yes),
            ("nodes between 3 and cores", no),
            ("nodes between 1 and cores", unknown),
            ("user like 'A%'", yes),
            ("state like '%'", unknown),
            ("lower(user) = 'anna'", yes),
            ("gpu = 7%", yes),
            ("waited = 1s", yes),
            ("memory_peak = 2048B", yes),
            ("nodes / 4 = 0.5", yes),
            ("nodes / (nodes - 2) > 0", unknown),
            ("case when cores > 1 then 1 when nodes = 2 then 2 else 3 end = 2", yes),
            ("case when cores > 1 then 1 end is unknown", yes),
            ("coalesce(cores, nodes, 5) = 2", yes),
            ("least(nodes, 1) = 1 and greatest(nodes, 1) = 2", yes),
            ("least(nodes, cores) <= 2", unknown),
            ("abs(nodes - 5) = 3", yes),
            ("is_shared", unknown),
        ] {
            assert_eq!(condition(text).holds(&row), expected, "{text}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let catalogue = catalogue();
        let error = Row::new().set(catalogue.get("start").unwrap(), Value::Number(1.0)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "column `start` is a time, such as 2026-01-31 or 2026-01-31T10:00; its value is 1"
        );
    }
}
