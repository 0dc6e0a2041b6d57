//! An expression as SQL for DuckDB. Its text has the columns' own SQL, words of the language and `?`; whatever a user
//! wrote is bound to a `?`.
//!
//! Nothing in it can fail on a row: amounts are DOUBLE, which cannot overflow, divisors of zero become NULL, and
//! patterns were checked before.

use crate::catalogue::Predicate;
use crate::expr::{Comparison, Expr, Function, Operator};
use crate::like::Pattern;
use crate::token::Literal;
use crate::unit::{Scale, Type};
use crate::value::Value;
use crate::whole;

/// A condition for `WHERE`, and the values of its `?` in their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sql {
    pub text: String,
    pub values: Vec<Value>,
}

/// The SQL type of every value of a type. Columns and values are cast to it, so that no operation depends on what a
/// table happens to have; a cast to the type that is there already costs nothing.
fn sql_type(of: Type) -> &'static str {
    match of {
        Type::Text => "VARCHAR",
        // Not DOUBLE: a time of today in nanoseconds would lose the last eight bits, and a condition on the time its use of the
        // table's order.
        Type::Time => "BIGINT",
        Type::Boolean => "BOOLEAN",
        _ => "DOUBLE",
    }
}

impl Sql {
    pub(crate) fn of(expr: &Expr) -> Sql {
        let mut sql = Sql::default();
        sql.expr(expr);
        sql
    }

    /// One question of a predicate.
    pub(crate) fn of_question(predicate: &Predicate, pattern: &str) -> Sql {
        let mut sql = Sql::default();
        sql.ask(predicate, pattern);
        sql
    }

    fn ask(&mut self, predicate: &Predicate, pattern: &str) {
        let asked = (predicate.sql)(pattern);
        self.push(&asked.text);
        self.values.extend(asked.values);
    }

    /// Whether `what`, SQL of the caller's own, fits.
    pub fn of_pattern(what: &str, pattern: &Pattern) -> Sql {
        let (text, value) = pattern.sql(what);
        Sql { text, values: vec![Value::Text(value)] }
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn bind(&mut self, of: Type, value: Value) {
        self.push("CAST(? AS ");
        self.push(sql_type(of));
        self.push(")");
        self.values.push(value);
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Literal(literal) => self.literal(literal),
            Expr::Column(column) => {
                let cast = format!("CAST(({}) AS {})", column.sql, sql_type(column.of));
                match column.unit.scale() {
                    None => self.push(&cast),
                    Some(Scale::Times(factor)) => self.push(&format!("({cast} * {factor:e})")),
                    Some(Scale::Over(divisor)) => self.push(&format!("({cast} / {divisor:e})")),
                }
            }
            Expr::Negate(inner) => self.around("(-", inner, ")"),
            Expr::Arithmetic(left, operator, right) => self.arithmetic(left, *operator, right),
            Expr::Compare(left, comparison, right) => self.compare(left, *comparison, right),
            Expr::All(parts) => self.list("(", parts, " AND ", ")"),
            Expr::Any(parts) => self.list("(", parts, " OR ", ")"),
            Expr::Not(inner) => self.around("(NOT ", inner, ")"),
            Expr::In(value, items) => {
                self.around("(", value, " IN ");
                self.list("(", items, ", ", "))");
            }
            Expr::Between(value, low, high) => {
                if let Some(text) = whole::between(value, low, high) {
                    return self.push(&text);
                }
                self.around("(", value, " BETWEEN ");
                self.around("", low, " AND ");
                self.around("", high, ")");
            }
            Expr::Like(value, pattern) => self.like(value, pattern),
            Expr::Known(inner, true) => self.around("(", inner, " IS NOT NULL)"),
            Expr::Known(inner, false) => self.around("(", inner, " IS NULL)"),
            Expr::Case(branches, last) => self.case(branches, last.as_deref()),
            Expr::Call(function, arguments) => self.call(*function, arguments),
            Expr::Ask(predicate, pattern) => self.ask(predicate, pattern),
        }
    }

    fn around(&mut self, before: &str, expr: &Expr, after: &str) {
        self.push(before);
        self.expr(expr);
        self.push(after);
    }

    fn list(&mut self, before: &str, items: &[Expr], between: &str, after: &str) {
        for (at, item) in items.iter().enumerate() {
            self.push(if at == 0 { before } else { between });
            self.expr(item);
        }
        self.push(after);
    }

    fn literal(&mut self, literal: &Literal) {
        match literal {
            Literal::Quantity(quantity) => self.bind(quantity.unit.of(), Value::Number(quantity.base())),
            Literal::Text(text) => self.bind(Type::Text, Value::Text(text.clone())),
            Literal::Time(ns) => self.bind(Type::Time, Value::Time(*ns)),
            Literal::Boolean(true) => self.push("TRUE"),
            Literal::Boolean(false) => self.push("FALSE"),
        }
    }

    fn arithmetic(&mut self, left: &Expr, operator: Operator, right: &Expr) {
        if left.measure().of == Type::Time {
            // Exact, and wide enough for any two times.
            self.around("(CAST((CAST(", left, " AS HUGEINT) - ");
            self.around("CAST(", right, " AS HUGEINT)) AS DOUBLE) / 1e9)");
            return;
        }
        let (between, after) = match operator {
            Operator::Plus => (" + ", ")"),
            Operator::Minus => (" - ", ")"),
            Operator::Times => (" * ", ")"),
            Operator::Over => (" / nullif(", ", 0e0))"),
        };
        self.around("(", left, between);
        self.around("", right, after);
    }

    fn compare(&mut self, left: &Expr, comparison: Comparison, right: &Expr) {
        if let Some(text) = whole::compare(left, comparison, right) {
            return self.push(&text);
        }
        let sign = match comparison {
            Comparison::NotEqual => "<>",
            other => other.sign(),
        };
        self.around("(", left, &format!(" {sign} "));
        self.around("", right, ")");
    }

    fn like(&mut self, value: &Expr, pattern: &str) {
        let value = Sql::of(value);
        let fits = Sql::of_pattern(&value.text, &Pattern::of_like(pattern));
        self.push(&fits.text);
        self.values.extend(value.values.into_iter().chain(fits.values));
    }

    fn case(&mut self, branches: &[(Expr, Expr)], last: Option<&Expr>) {
        self.push("(CASE");
        for (when, then) in branches {
            self.around(" WHEN ", when, " THEN ");
            self.expr(then);
        }
        if let Some(last) = last {
            self.around(" ELSE ", last, "");
        }
        self.push(" END)");
    }

    /// DuckDB's own `least` and `greatest` leave out what is NULL; the least of something unknown is unknown. Sorting says
    /// each argument once: with `CASE` it would be there twice, and in nested calls twice to the power of their depth.
    fn call(&mut self, function: Function, arguments: &[Expr]) {
        match function {
            Function::Abs => self.list("abs(", arguments, ", ", ")"),
            Function::Coalesce => self.list("coalesce(", arguments, ", ", ")"),
            Function::Lower => self.list("lower(", arguments, ", ", ")"),
            Function::Least => self.list("list_sort([", arguments, ", ", "], 'ASC', 'NULLS FIRST')[1]"),
            Function::Greatest => self.list("list_sort([", arguments, ", ", "], 'DESC', 'NULLS FIRST')[1]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Value::{Number, Text, Time};
    use crate::testing::condition;

    #[test]
    fn conditions_as_sql() {
        for (text, expected, values) in [
            ("nodes > 1", "(CAST((nodes) AS DOUBLE) > CAST(? AS DOUBLE))", vec![Number(1.0)]),
            ("gpu < 5", "((CAST((gpu) AS DOUBLE) / 1e2) < CAST(? AS DOUBLE))", vec![Number(0.05)]),
            (
                "memory_peak != 4GiB",
                "((CAST((memory_peak) AS DOUBLE) * 1.024e3) <> CAST(? AS DOUBLE))",
                vec![Number(4_294_967_296.0)],
            ),
            (
                "start >= 1970-01-02",
                "(CAST((start) AS BIGINT) >= CAST(? AS BIGINT))",
                vec![Time(86_400_000_000_000)],
            ),
            ("is_shared and not true", "(CAST((is_shared) AS BOOLEAN) AND (NOT TRUE))", vec![]),
            (
                "nodes / cores > 1 or false",
                "(((CAST((nodes) AS DOUBLE) / nullif(CAST((cores) AS DOUBLE), 0e0)) > CAST(? AS DOUBLE)) OR FALSE)",
                vec![Number(1.0)],
            ),
            ("user like 'a%'", "prefix(CAST((user) AS VARCHAR), CAST(? AS VARCHAR))", vec![Text("a".into())]),
            ("user like '\\%'", "(CAST((user) AS VARCHAR) = CAST(? AS VARCHAR))", vec![Text("%".into())]),
            (
                "lower('A') like '%_a%'",
                "regexp_full_match(lower(CAST(? AS VARCHAR)), CAST(? AS VARCHAR))",
                vec![Text("A".into()), Text("(?s)..*a.*".into())],
            ),
            (
                "user in ('a', 'b')",
                "(CAST((user) AS VARCHAR) IN (CAST(? AS VARCHAR), CAST(? AS VARCHAR)))",
                vec![Text("a".into()), Text("b".into())],
            ),
            ("nodes is unknown", "(CAST((nodes) AS DOUBLE) IS NULL)", vec![]),
            (
                "end_time - start > 1m",
                "((CAST((CAST(CAST((end_time) AS BIGINT) AS HUGEINT) - CAST(CAST((start) AS BIGINT) AS HUGEINT)) AS DOUBLE) / 1e9) > CAST(? AS DOUBLE))",
                vec![Number(60.0)],
            ),
            (
                "case when is_shared then user else 'x' end = lower(user)",
                "((CASE WHEN CAST((is_shared) AS BOOLEAN) THEN CAST((user) AS VARCHAR) ELSE CAST(? AS VARCHAR) END) = lower(CAST((user) AS VARCHAR)))",
                vec![Text("x".into())],
            ),
            (
                "least(nodes, -cores) between 1 and 2",
                "(list_sort([CAST((nodes) AS DOUBLE), (-CAST((cores) AS DOUBLE))], 'ASC', 'NULLS FIRST')[1] BETWEEN CAST(? AS DOUBLE) AND CAST(? AS DOUBLE))",
                vec![Number(1.0), Number(2.0)],
            ),
        ] {
            let sql = condition(text).sql();
            assert_eq!((sql.text.as_str(), sql.values), (expected, values), "{text}");
        }
    }
}
