//! The canonical text of an expression, which reads back as the same expression.

use std::fmt::{self, Display, Formatter};

use crate::expr::{Expr, Operator};
use crate::token::Literal;
use crate::value::Value;

/// How strongly things bind; what binds less than its place asks for is put in parentheses.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum Level {
    Any,
    All,
    Not,
    Predicate,
    Sum,
    Product,
    Signed,
    Primary,
}

impl Expr {
    fn level(&self) -> Level {
        match self {
            Expr::Any(_) => Level::Any,
            Expr::All(_) => Level::All,
            // `x not in (…)` binds like `x in (…)`.
            Expr::Not(inner) if inner.takes_not() => Level::Predicate,
            Expr::Not(_) => Level::Not,
            Expr::Compare(..) | Expr::In(..) | Expr::Between(..) | Expr::Like(..) | Expr::Known(..) => {
                Level::Predicate
            }
            Expr::Arithmetic(_, Operator::Plus | Operator::Minus, _) => Level::Sum,
            Expr::Arithmetic(..) => Level::Product,
            Expr::Negate(_) => Level::Signed,
            Expr::Literal(_) | Expr::Column(_) | Expr::Case(..) | Expr::Call(..) | Expr::Ask(..) => {
                Level::Primary
            }
        }
    }

    /// May `not` stand in the middle of it?
    fn takes_not(&self) -> bool {
        matches!(self, Expr::In(..) | Expr::Between(..) | Expr::Like(..))
    }
}

/// An expression in a place that asks for a level.
struct In<'a>(&'a Expr, Level);

impl Display for In<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let In(expr, level) = self;
        if expr.level() < *level { write!(f, "({expr})") } else { write!(f, "{expr}") }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Expr::Literal(literal) => literal.fmt(f),
            Expr::Column(column) => f.write_str(&column.name),
            Expr::Negate(inner) => write!(f, "-{}", In(inner, Level::Signed)),
            Expr::Arithmetic(left, operator, right) => {
                let (own, above) = match self.level() {
                    Level::Sum => (Level::Sum, Level::Product),
                    _ => (Level::Product, Level::Signed),
                };
                write!(f, "{} {} {}", In(left, own), operator.sign(), In(right, above))
            }
            Expr::Compare(left, comparison, right) => {
                write!(f, "{} {} {}", In(left, Level::Sum), comparison.sign(), In(right, Level::Sum))
            }
            Expr::All(parts) => list(f, parts, Level::Not, " and "),
            Expr::Any(parts) => list(f, parts, Level::All, " or "),
            Expr::Not(inner) if inner.takes_not() => membership(f, inner, " not"),
            Expr::Not(inner) => write!(f, "not {}", In(inner, Level::Not)),
            Expr::In(..) | Expr::Between(..) | Expr::Like(..) => membership(f, self, ""),
            Expr::Known(inner, true) => write!(f, "{} is known", In(inner, Level::Sum)),
            Expr::Known(inner, false) => write!(f, "{} is unknown", In(inner, Level::Sum)),
            Expr::Case(branches, last) => case(f, branches, last.as_deref()),
            Expr::Ask(predicate, pattern) => {
                write!(f, "{}({})", predicate.name, Value::Text(pattern.clone()))
            }
            Expr::Call(function, arguments) => {
                write!(f, "{}(", function.name())?;
                list(f, arguments, Level::Any, ", ")?;
                f.write_str(")")
            }
        }
    }
}

/// `in`, `between` or `like`, with ` not` before it or nothing.
fn membership(f: &mut Formatter, expr: &Expr, not: &str) -> fmt::Result {
    match expr {
        Expr::In(value, items) => {
            write!(f, "{}{not} in (", In(value, Level::Sum))?;
            list(f, items, Level::Any, ", ")?;
            f.write_str(")")
        }
        Expr::Between(value, low, high) => {
            let [value, low, high] = [value, low, high].map(|part| In(part, Level::Sum));
            write!(f, "{value}{not} between {low} and {high}")
        }
        Expr::Like(value, pattern) => {
            write!(f, "{}{not} like {}", In(value, Level::Sum), Value::Text(pattern.clone()))
        }
        _ => Ok(()),
    }
}

fn list(f: &mut Formatter, items: &[Expr], level: Level, between: &str) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        let before = if at > 0 { between } else { "" };
        write!(f, "{before}{}", In(item, level))?;
    }
    Ok(())
}

fn case(f: &mut Formatter, branches: &[(Expr, Expr)], last: Option<&Expr>) -> fmt::Result {
    f.write_str("case")?;
    for (when, then) in branches {
        write!(f, " when {when} then {then}")?;
    }
    if let Some(last) = last {
        write!(f, " else {last}")?;
    }
    f.write_str(" end")
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Literal::Quantity(quantity) => quantity.fmt(f),
            Literal::Text(text) => Value::Text(text.clone()).fmt(f),
            Literal::Time(ns) => Value::Time(*ns).fmt(f),
            Literal::Boolean(truth) => truth.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::condition;

    /// What is written, and its canonical text.
    const CASES: &[(&str, &str)] = &[
        ("gpu < 5 AND nodes>0", "gpu < 5% and nodes > 0"),
        ("GPU<5", "gpu < 5%"),
        ("5 > gpu", "5% > gpu"),
        ("coverage < .5", "coverage < 0.5"),
        ("coverage < 50%", "coverage < 50%"),
        ("memory > 4096", "memory > 4096B"),
        ("memory_peak > 4 * 1024", "memory_peak > 4096KiB"),
        ("memory_peak > 4GiB", "memory_peak > 4GiB"),
        ("elapsed > 2h", "elapsed > 2h"),
        ("elapsed > -(1 + 2 * 3)", "elapsed > -7s"),
        ("waited > 5", "waited > 5ns"),
        ("power > 300", "power > 300"),
        ("network > 0.2GB/s", "network > 0.2GB/s"),
        ("memory / elapsed > 1MB/s", "memory / elapsed > 1MB/s"),
        ("network * elapsed > 1GB", "network * elapsed > 1GB"),
        ("memory / network > 1h", "memory / network > 1h"),
        ("memory / memory_peak < 10%", "memory / memory_peak < 10%"),
        ("memory < memory_peak * 50%", "memory < memory_peak * 50%"),
        ("gpu * 2 < 50", "gpu * 2 < 50%"),
        ("gpu + 1 < 50", "gpu + 1% < 50%"),
        ("gpu / 1% > 10 * nodes", "gpu / 1% > 10 * nodes"),
        ("nodes * gpu > 1", "nodes * gpu > 1"),
        ("gpu between 5 and 10%", "gpu between 5% and 10%"),
        ("gpu in (5, 10)", "gpu in (5%, 10%)"),
        ("coalesce(gpu, 0) < 5", "coalesce(gpu, 0%) < 5%"),
        ("gpu < case when nodes > 1 then 5 else -1 end", "gpu < case when nodes > 1 then 5% else -1% end"),
        ("start >= 2026-01-01", "start >= 2026-01-01T00:00:00Z"),
        ("start >= 2026-01-01T10:00+01:00", "start >= 2026-01-01T09:00:00Z"),
        ("end_time - start > 2h", "end_time - start > 2h"),
        ("start >= '2026-01-01'", "start >= 2026-01-01T00:00:00Z"),
        ("\"2026-01-01 10:00\" < start", "2026-01-01T10:00:00Z < start"),
        ("start in ('2026-01-01', 2026-01-02)", "start in (2026-01-01T00:00:00Z, 2026-01-02T00:00:00Z)"),
        (
            "start not between '2026-01-01T10:00+01:00' and end",
            "start not between 2026-01-01T09:00:00Z and end",
        ),
        ("End - start > 2h", "end - start > 2h"),
        (
            "case when end > start then end else end end is known",
            "case when end > start then end else end end is known",
        ),
        ("memory > 16G", "memory > 16GiB"),
        ("network > 1.5M/s and elapsed > 16m", "network > 1.5MiB/s and elapsed > 16m"),
        ("ending in ('cd', \"Failed\")", "ending in ('COMPLETED', 'FAILED')"),
        ("'f' != ending", "'FAILED' != ending"),
        ("lower(ending) = 'x'", "lower(ending) = 'x'"),
        ("CORE_COUNT > 1", "cores > 1"),
        ("state <> \"it's\"", "state != 'it''s'"),
        ("lower(user) like 'a\\_%'", "lower(user) like 'a\\_%'"),
        ("not user in ('a')", "user not in ('a')"),
        ("user not like 'a'", "user not like 'a'"),
        ("nodes not between 1 and 2 and is_shared", "nodes not between 1 and 2 and is_shared"),
        ("not nodes = 1", "not nodes = 1"),
        ("not (is_shared and nodes = 1)", "not (is_shared and nodes = 1)"),
        ("is_shared or (nodes = 1 or nodes = 2)", "is_shared or nodes = 1 or nodes = 2"),
        ("(is_shared or nodes = 1) and true", "(is_shared or nodes = 1) and true"),
        ("nodes is not null", "nodes is known"),
        ("nodes IS NULL", "nodes is unknown"),
        ("(nodes < 5) is unknown", "(nodes < 5) is unknown"),
        ("(nodes = 1) = (cores = 1)", "(nodes = 1) = (cores = 1)"),
        ("nodes - (cores - 1) - 2 > 0", "nodes - (cores - 1) - 2 > 0"),
        ("nodes / (cores * 2) > (1)", "nodes / (cores * 2) > 1"),
        ("-(nodes + 1) * -cores < - -nodes", "-(nodes + 1) * -cores < --nodes"),
        ("nodes > 1e300 or nodes < 1e-9", "nodes > 1e300 or nodes < 1e-9"),
        ("abs(nodes - 1) < 2", "abs(nodes - 1) < 2"),
        ("case when is_shared then nodes = 1 end", "case when is_shared then nodes = 1 end"),
    ];

    #[test]
    fn canonical_texts_read_back() {
        for (text, expected) in CASES {
            let read = condition(text);
            assert_eq!(read.to_string(), *expected, "{text}");
            assert_eq!(condition(expected), read, "{text}");
        }
    }

    #[test]
    fn columns_in_use() {
        let columns =
            |text: &str| condition(text).columns().map(|c| c.name.clone()).collect::<Vec<_>>().join(" ");
        for (text, expected) in [
            ("true", ""),
            ("nodes > 1 and Nodes < 5", "nodes"),
            ("user like 'a' or -nodes in (cores, 1)", "cores nodes user"),
            ("case when is_shared then gpu else coverage end is known", "coverage gpu is_shared"),
        ] {
            assert_eq!(columns(text), expected, "{text}");
        }
    }
}
