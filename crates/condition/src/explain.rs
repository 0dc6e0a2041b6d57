//! Why a condition holds for a row or does not: each comparison with its values, and how far it is from the other
//! answer.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use crate::catalogue::Column;
use crate::eval::Row;
use crate::expr::{Expr, leading};
use crate::unit::{Quantity, Type, Unit};
use crate::value::Value;

/// A condition for one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// `None` if it is not known; a row fits only with `Some(true)`.
    pub holds: Option<bool>,
    /// The comparisons, in the order in which they are written.
    pub steps: Vec<Step>,
}

/// One comparison, or whatever else is joined with `and`, `or` and `not`.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its canonical text.
    pub text: String,
    pub holds: Option<bool>,
    /// The columns in it.
    pub seen: Vec<Seen>,
    /// How far its two sides are apart: by so much the left one must change before the answer may. Zero on the
    /// boundary; absent for texts, and where it is not known.
    pub margin: Option<Quantity>,
    /// Would the whole condition's answer be another if this one's were?
    pub decides: bool,
}

/// What a column has in the row, in the column's unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub column: Arc<Column>,
    pub value: Value,
}

impl Explanation {
    pub(crate) fn of(expr: &Expr, row: &Row) -> Explanation {
        let mut steps = Vec::new();
        explain(expr, row, true, &mut steps);
        Explanation { holds: expr.truth(row), steps }
    }
}

/// `decides`: would another answer here change the whole?
fn explain(expr: &Expr, row: &Row, decides: bool, steps: &mut Vec<Step>) {
    // A part decides if the others leave it to this one: all true in `and`, all false in `or`.
    let (parts, neutral) = match expr {
        Expr::All(parts) => (parts, true),
        Expr::Any(parts) => (parts, false),
        Expr::Not(inner) => return explain(inner, row, decides, steps),
        _ => return steps.push(step(expr, row, decides)),
    };
    let is_neutral: Vec<bool> = parts.iter().map(|part| part.truth(row) == Some(neutral)).collect();
    let others = is_neutral.iter().filter(|is_neutral| !**is_neutral).count();
    for (part, is_neutral) in parts.iter().zip(is_neutral) {
        let is_alone = others - usize::from(!is_neutral) == 0;
        explain(part, row, decides && is_alone, steps);
    }
}

fn step(expr: &Expr, row: &Row, decides: bool) -> Step {
    let seen = expr.columns().into_values();
    let seen = seen.map(|column| Seen { column: column.clone(), value: row.get(column).clone() }).collect();
    let holds = expr.truth(row);
    let margin = holds.and_then(|_| margin(expr, row));
    Step { text: expr.to_string(), holds, seen, margin, decides }
}

fn margin(expr: &Expr, row: &Row) -> Option<Quantity> {
    let (value, others): (&Expr, Vec<&Expr>) = match expr {
        Expr::Compare(left, _, right) => (left, vec![right]),
        Expr::In(value, items) => (value, items.iter().collect()),
        Expr::Between(value, low, high) => (value, vec![low, high]),
        _ => return None,
    };
    let x = value.eval(row);
    let apart: Vec<f64> = others.iter().filter_map(|other| difference(&x, &other.eval(row))).collect();
    let nearest = apart.iter().map(|apart| apart.abs()).reduce(f64::min);
    let far = match (expr, apart.as_slice()) {
        // No value lies between them.
        (Expr::Between(..), [low, high]) if low < high => None,
        // Of one bound that is unknown nobody can say how near it is.
        (Expr::Between(..), [_]) => None,
        _ => nearest,
    }?;
    let measure = leading(std::iter::once(value).chain(others))?.measure();
    let unit = match measure.of {
        Type::Time => Unit::SECOND,
        of => measure.unit.unwrap_or(of.base()),
    };
    Some(Quantity { amount: rounded(unit.of_base(far)), unit })
}

/// In the base of their type; of times in seconds.
fn difference(a: &Value, b: &Value) -> Option<f64> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => Some(a - b).filter(|apart| apart.is_finite()),
        (Value::Time(a), Value::Time(b)) => Some((i128::from(*a) - i128::from(*b)) as f64 / 1e9),
        _ => None,
    }
}

/// To twelve digits: 5 % less 3.2 % are 1.8 %, not 1.7999999999999998 %.
fn rounded(amount: f64) -> f64 {
    format!("{amount:.11e}").parse().unwrap_or(amount)
}

impl Display for Seen {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self.value {
            Value::Number(amount) => {
                write!(f, "{} is {}", self.column.name, Quantity { amount, unit: self.column.unit })
            }
            ref other => write!(f, "{} is {other}", self.column.name),
        }
    }
}

/// `gpu_util < 5%: true (gpu_util is 3.2%; 1.8% from the bound)`
impl Display for Step {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.text, Value::from(self.holds))?;
        let mut said: Vec<String> = self.seen.iter().map(Seen::to_string).collect();
        said.extend(self.margin.map(|margin| format!("{margin} from the bound")));
        if said.is_empty() { Ok(()) } else { write!(f, " ({})", said.join("; ")) }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{condition, row};

    /// Each step as text, those that decide with a `!` before them.
    fn steps(text: &str, values: &[(&str, crate::Value)]) -> Vec<String> {
        let explanation = condition(text).explain(&row(values));
        let decides = |decides| if decides { "!" } else { "" };
        explanation.steps.iter().map(|step| format!("{}{step}", decides(step.decides))).collect()
    }

    #[test]
    fn comparisons_with_values_and_margins() {
        use crate::Value::{Number, Text, Time};
        for (text, values, expected) in [
            ("gpu < 5", vec![("gpu", Number(3.2))], "gpu < 5%: true (gpu is 3.2%; 1.8% from the bound)"),
            ("gpu < 5%", vec![("gpu", Number(5.0))], "gpu < 5%: false (gpu is 5%; 0% from the bound)"),
            ("gpu < 5%", vec![], "gpu < 5%: unknown (gpu is unknown)"),
            (
                "memory > 4GiB",
                vec![("memory", Number(1_073_741_824.0))],
                "memory > 4GiB: false (memory is 1073741824B; 3221225472B from the bound)",
            ),
            (
                "nodes between 2 and 8",
                vec![("nodes", Number(3.0))],
                "nodes between 2 and 8: true (nodes is 3; 1 from the bound)",
            ),
            (
                "nodes between 2 and 8",
                vec![("nodes", Number(11.0))],
                "nodes between 2 and 8: false (nodes is 11; 3 from the bound)",
            ),
            (
                "nodes between 8 and 2",
                vec![("nodes", Number(3.0))],
                "nodes between 8 and 2: false (nodes is 3)",
            ),
            (
                "nodes between 8 and cores",
                vec![("nodes", Number(3.0))],
                "nodes between 8 and cores: false (cores is unknown; nodes is 3)",
            ),
            (
                "nodes in (1, 8)",
                vec![("nodes", Number(6.0))],
                "nodes in (1, 8): false (nodes is 6; 2 from the bound)",
            ),
            (
                "nodes in (1, 6)",
                vec![("nodes", Number(6.0))],
                "nodes in (1, 6): true (nodes is 6; 0 from the bound)",
            ),
            (
                "state = 'FAILED'",
                vec![("state", Text("OK".into()))],
                "state = 'FAILED': false (state is 'OK')",
            ),
            (
                "start >= 1970-01-01T00:01",
                vec![("start", Time(0))],
                "start >= 1970-01-01T00:01:00Z: false (start is 1970-01-01T00:00:00Z; 60s from the bound)",
            ),
            (
                "end_time - start > 1h",
                vec![("start", Time(0)), ("end_time", Time(60_000_000_000))],
                "end_time - start > 1h: false (end_time is 1970-01-01T00:01:00Z; start is 1970-01-01T00:00:00Z; 3540s from the bound)",
            ),
            ("true", vec![], "true: true"),
        ] {
            assert_eq!(steps(text, &values), [format!("!{expected}")], "{text}");
        }
    }

    #[test]
    fn what_would_change_the_answer() {
        use crate::Value::Number;
        let values = [("nodes", Number(1.0)), ("cores", Number(1.0))];
        for (text, expected) in [
            ("nodes = 1 and cores = 1", "!!"),
            ("nodes = 1 and cores = 2", " !"),
            ("nodes = 2 and cores = 2", "  "),
            ("nodes = 1 or cores = 1", "  "),
            ("nodes = 1 or cores = 2", "! "),
            ("nodes = 2 or cores = 2", "!!"),
            ("nodes = 1 and gpu < 5", " !"),
            ("not (nodes = 1 and cores = 2)", " !"),
            ("nodes = 1 and (cores = 1 or cores = 2)", "!! "),
            ("nodes = 2 and (cores = 1 or cores = 2)", "!  "),
        ] {
            let explanation = condition(text).explain(&row(&values));
            let found: String =
                explanation.steps.iter().map(|step| if step.decides { '!' } else { ' ' }).collect();
            assert_eq!(found, expected, "{text}");
            assert_eq!(explanation.holds, condition(text).holds(&row(&values)));
        }
    }
}
