//! Syntax to expression: names become columns, plain numbers get the unit of what they stand beside, types fit.

use crate::catalogue::Catalogue;
use crate::error::{Fault, Problem, Span};
use crate::expr::{Comparison, Expr, Function, Operator, arithmetic, leading};
use crate::like::{Pattern, is_pattern};
use crate::nearest::nearest;
use crate::parameters::Parameters;
use crate::syntax::{Node, Syntax};
use crate::token::{Literal, quoted_time};
use crate::unit::{Quantity, Type, Unit};

type Checked = Result<Expr, Fault>;

/// The expression of a whole condition.
pub(crate) fn check(node: &Node, catalogue: &Catalogue, parameters: &Parameters) -> Checked {
    Checker { catalogue, parameters }.condition(node)
}

struct Checker<'a> {
    catalogue: &'a Catalogue,
    parameters: &'a Parameters,
}

impl Checker<'_> {
    fn condition(&self, node: &Node) -> Checked {
        self.of_type(node, Type::Boolean)
    }

    fn of_type(&self, node: &Node, expected: Type) -> Checked {
        let expr = self.expr(node)?;
        let found = expr.measure().of;
        if found == expected {
            Ok(expr)
        } else {
            Err(Fault::new(&node.span, Problem::Type { expected, found }))
        }
    }

    fn expr(&self, node: &Node) -> Checked {
        match &node.what {
            Syntax::Literal(literal) => Ok(Expr::Literal(literal.clone())),
            Syntax::Name(name) => self.column(name, &node.span),
            Syntax::Negate(inner) => self.negate(inner),
            Syntax::Arithmetic(left, operator, right) => self.arithmetic(&node.span, left, *operator, right),
            Syntax::Compare(left, comparison, right) => self.compare(left, *comparison, right),
            Syntax::All(parts) => Ok(Expr::All(self.conditions(parts, |part| match part {
                Expr::All(parts) => parts,
                other => vec![other],
            })?)),
            Syntax::Any(parts) => Ok(Expr::Any(self.conditions(parts, |part| match part {
                Expr::Any(parts) => parts,
                other => vec![other],
            })?)),
            Syntax::Not(inner) => Ok(Expr::Not(Box::new(self.condition(inner)?))),
            Syntax::In(value, items) => {
                let mut items = self.alike(std::iter::once(&**value).chain(items))?;
                let value = items.remove(0);
                Ok(Expr::In(Box::new(value), items))
            }
            Syntax::Between(value, low, high) => self.between([value, low, high]),
            Syntax::Like(value, pattern) => self.like(value, pattern),
            Syntax::Known(inner, is_known) => Ok(Expr::Known(Box::new(self.expr(inner)?), *is_known)),
            Syntax::Case(branches, last) => self.case(branches, last.as_deref()),
            Syntax::Call(function, arguments) => self.call(&node.span, *function, arguments),
            Syntax::Ask(name, at, arguments) => self.ask(name, at, arguments),
        }
    }

    fn ask(&self, name: &str, at: &Span, arguments: &[Node]) -> Checked {
        let Some(predicate) = self.catalogue.predicate(name) else {
            let predicates = self.catalogue.predicates().map(|predicate| predicate.name);
            let known = Function::ALL.into_iter().map(Function::name).chain(predicates).collect();
            return Err(Fault::new(at, Problem::NoFunction { name: name.to_owned(), known }));
        };
        match arguments {
            [Node { what: Syntax::Literal(Literal::Text(pattern)), span, .. }] => {
                Pattern::of_glob(pattern).check().map_err(|error| Fault::new(span, error.into()))?;
                Ok(Expr::Ask(predicate.clone(), pattern.clone()))
            }
            [other] => Err(Fault::new(&other.span, Problem::NoGlob)),
            _ => Err(Fault::new(at, Problem::Arguments { name: predicate.name, takes: "one argument" })),
        }
    }

    /// A parameter has the value that it was given, as if that were written here.
    fn column(&self, name: &str, span: &Span) -> Checked {
        if let Some(value) = self.parameters.get(name) {
            return Ok(Expr::Literal(value.clone()));
        }
        let column = self.catalogue.get(name).ok_or_else(|| {
            let nearest = self.catalogue.nearest(name).map(str::to_owned);
            Fault::new(span, Problem::NoColumn { name: name.to_owned(), nearest })
        })?;
        Ok(Expr::Column(column.clone()))
    }

    /// Conditions in a row; those that `flatten` takes apart are of the same kind, so that parentheses without a meaning leave
    /// no trace.
    fn conditions(&self, parts: &[Node], flatten: fn(Expr) -> Vec<Expr>) -> Result<Vec<Expr>, Fault> {
        let mut found = Vec::new();
        for part in parts {
            found.extend(flatten(self.condition(part)?));
        }
        Ok(found)
    }

    fn negate(&self, inner: &Node) -> Checked {
        match self.expr(inner)? {
            Expr::Literal(Literal::Quantity(Quantity { amount, unit })) => Ok(quantity(-amount, unit)),
            expr if expr.measure().of.is_amount() => Ok(Expr::Negate(Box::new(expr))),
            expr => Err(kind(inner, "a number", &expr)),
        }
    }

    fn arithmetic(&self, span: &Span, left: &Node, operator: Operator, right: &Node) -> Checked {
        let (mut a, mut b) = (self.expr(left)?, self.expr(right)?);
        let (x, y) = (a.measure().of, b.measure().of);
        let is_sum = matches!(operator, Operator::Plus | Operator::Minus);
        if is_sum && x.is_amount() && y.is_amount() {
            let mut terms = [(&left.span, a), (&right.span, b)];
            unify(&mut terms)?;
            [(_, a), (_, b)] = terms;
        }
        if operator == Operator::Over && is_zero(&b) {
            return Err(Fault::new(&right.span, Problem::DivisionByZero));
        }
        if let Some(amount) = folded(&a, operator, &b) {
            let is_finite = amount.is_finite();
            return is_finite.then(|| quantity(amount, Unit::ONE)).ok_or(Fault::new(span, Problem::TooLarge));
        }
        if arithmetic(&a, operator, &b).is_none() {
            return Err(Fault::new(span, Problem::Arithmetic { sign: operator.sign(), left: x, right: y }));
        }
        Ok(Expr::Arithmetic(Box::new(a), operator, Box::new(b)))
    }

    /// Expressions of one type.
    fn alike<'a>(&self, nodes: impl Iterator<Item = &'a Node>) -> Result<Vec<Expr>, Fault> {
        let mut items = Vec::new();
        for node in nodes {
            items.push((&node.span, self.expr(node)?));
        }
        unify(&mut items)?;
        Ok(items.into_iter().map(|(_, expr)| expr).collect())
    }

    fn compare(&self, left: &Node, comparison: Comparison, right: &Node) -> Checked {
        let mut sides = [(&left.span, self.expr(left)?), (&right.span, self.expr(right)?)];
        unify(&mut sides)?;
        let [(_, a), (_, b)] = sides;
        if !matches!(comparison, Comparison::Equal | Comparison::NotEqual) {
            ordered(left, &a)?;
        }
        Ok(Expr::Compare(Box::new(a), comparison, Box::new(b)))
    }

    fn between(&self, [value, low, high]: [&Node; 3]) -> Checked {
        let mut parts =
            [(&value.span, self.expr(value)?), (&low.span, self.expr(low)?), (&high.span, self.expr(high)?)];
        unify(&mut parts)?;
        let [(_, x), (_, y), (_, z)] = parts;
        ordered(value, &x)?;
        Ok(Expr::Between(Box::new(x), Box::new(y), Box::new(z)))
    }

    fn like(&self, value: &Node, pattern: &Node) -> Checked {
        let value = self.of_type(value, Type::Text)?;
        let literal = match &pattern.what {
            Syntax::Literal(literal) => Some(literal),
            Syntax::Name(name) => self.parameters.get(name),
            _ => None,
        };
        match literal {
            Some(Literal::Text(text)) if is_pattern(text) => {
                let checked = Pattern::of_like(text).check();
                checked.map_err(|error| Fault::new(&pattern.span, error.into()))?;
                Ok(Expr::Like(Box::new(value), text.clone()))
            }
            Some(Literal::Text(_)) => Err(Fault::new(&pattern.span, Problem::Escape)),
            _ => Err(Fault::new(&pattern.span, Problem::NoPattern)),
        }
    }

    fn case(&self, branches: &[(Node, Node)], last: Option<&Node>) -> Checked {
        let mut results = self.alike(branches.iter().map(|(_, then)| then).chain(last))?;
        let last = last.and_then(|_| results.pop()).map(Box::new);
        let whens = branches.iter().map(|(when, _)| self.condition(when));
        let branches: Result<Vec<_>, Fault> =
            whens.zip(results).map(|(when, then)| Ok((when?, then))).collect();
        Ok(Expr::Case(branches?, last))
    }

    fn call(&self, span: &Span, function: Function, arguments: &[Node]) -> Checked {
        let (counts, takes) = match function {
            Function::Abs | Function::Lower => (1..=1, "one argument"),
            _ => (2..=usize::MAX, "two arguments or more"),
        };
        if !counts.contains(&arguments.len()) {
            return Err(Fault::new(span, Problem::Arguments { name: function.name(), takes }));
        }
        let found = self.alike(arguments.iter())?;
        for (node, expr) in arguments.iter().zip(&found) {
            let of = expr.measure().of;
            match function {
                Function::Abs if !of.is_amount() => return Err(kind(node, "a number", expr)),
                Function::Lower if of != Type::Text => return Err(kind(node, "a text", expr)),
                Function::Least | Function::Greatest => ordered(node, expr)?,
                _ => {}
            }
        }
        Ok(Expr::Call(function, found))
    }
}

fn kind(node: &Node, expected: &'static str, found: &Expr) -> Fault {
    Fault::new(&node.span, Problem::Kind { expected, found: found.measure().of })
}

/// Of two conditions, none is more than the other.
fn ordered(node: &Node, expr: &Expr) -> Result<(), Fault> {
    match expr.measure().of {
        Type::Boolean => Err(kind(node, "a number, a time or a text", expr)),
        _ => Ok(()),
    }
}

fn quantity(amount: f64, unit: Unit) -> Expr {
    Expr::Literal(Literal::Quantity(Quantity { amount, unit }))
}

fn is_zero(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(Literal::Quantity(quantity)) if quantity.base() == 0.0)
}

/// Plain numbers are computed at once, so that `memory > 2 * 1024` is a number with the unit of `memory`, too.
fn folded(left: &Expr, operator: Operator, right: &Expr) -> Option<f64> {
    let plain = |expr: &Expr| match expr {
        Expr::Literal(Literal::Quantity(quantity)) if expr.is_bare() => Some(quantity.amount),
        _ => None,
    };
    let (a, b) = (plain(left)?, plain(right)?);
    Some(match operator {
        Operator::Plus => a + b,
        Operator::Minus => a - b,
        Operator::Times => a * b,
        Operator::Over => a / b,
    })
}

/// Makes all of one type: that of the leading one, in whose unit plain numbers are meant.
fn unify(items: &mut [(&Span, Expr)]) -> Result<(), Fault> {
    let Some(measure) = leading(items.iter().map(|(_, expr)| expr)).map(Expr::measure) else { return Ok(()) };
    let expected = measure.of;
    for (span, expr) in items.iter_mut() {
        if let (Type::Time, Expr::Literal(Literal::Text(text))) = (expected, &*expr) {
            let ns = quoted_time(text).ok_or_else(|| Fault::new(span, Problem::NoTime))?;
            *expr = Expr::Literal(Literal::Time(ns));
        }
        let found = expr.measure().of;
        if expr.is_bare() && expected.is_amount() && expected != Type::Number {
            let unit = measure.unit.ok_or(Fault::new(span, Problem::NeedsUnit(expected)))?;
            give_unit(expr, unit, span)?;
        } else if found != expected && !(expected == Type::Number && expr.is_percent()) {
            return Err(Fault::new(span, Problem::Type { expected, found }));
        }
    }
    spell(items)
}

/// Texts that stand beside a column of few words become its words.
fn spell(items: &mut [(&Span, Expr)]) -> Result<(), Fault> {
    let column = items.iter().find_map(|(_, expr)| match expr {
        Expr::Column(column) => Some((column.name.clone(), column.words?)),
        _ => None,
    });
    let Some((column, words)) = column else { return Ok(()) };
    for (span, expr) in items {
        let Expr::Literal(Literal::Text(text)) = expr else { continue };
        let is_meant =
            |(word, short): &&(&str, &str)| [word, short].iter().any(|name| name.eq_ignore_ascii_case(text));
        let Some((word, _)) = words.iter().find(is_meant).filter(|_| !text.is_empty()) else {
            let nearest = nearest(text, words.iter().map(|(word, _)| *word));
            let problem = Problem::NoWord { column, text: std::mem::take(text), nearest };
            return Err(Fault::new(span, problem));
        };
        *text = (*word).to_owned();
    }
    Ok(())
}

/// Gives the unit to all plain numbers of an expression that is bare.
fn give_unit(expr: &mut Expr, unit: Unit, span: &Span) -> Result<(), Fault> {
    match expr {
        Expr::Literal(Literal::Quantity(quantity)) => {
            quantity.unit = unit;
            if quantity.base().is_finite() { Ok(()) } else { Err(Fault::new(span, Problem::TooLarge)) }
        }
        Expr::Negate(inner) => give_unit(inner, unit, span),
        Expr::Case(branches, last) => {
            let results = branches.iter_mut().map(|(_, then)| then).chain(last.as_deref_mut());
            results.into_iter().try_for_each(|then| give_unit(then, unit, span))
        }
        Expr::Call(_, arguments) => arguments.iter_mut().try_for_each(|part| give_unit(part, unit, span)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::limits::MAX_DEPTH;
    use crate::testing::{catalogue, condition};
    use crate::{Condition, Problem};

    /// A condition, the part of it that is wrong, and what is said of it.
    const WRONG: &[(&str, &str, &str)] = &[
        ("", "", "expected a column, a value or `(`, found the end"),
        ("nodes >", "", "expected a column, a value or `(`, found the end"),
        ("nodes > 1 2", "2", "expected `and`, `or` or the end, found `2`"),
        ("nodes > 4 GiB", "GiB", "expected `and`, `or` or the end, found `GiB`"),
        ("nodes = and", "and", "expected a column, a value or `(`, found `and`"),
        ("(nodes = 1", "", "expected `)`, found the end"),
        ("nodes in 1", "1", "expected `(` and a list, found `1`"),
        ("nodes in ()", ")", "expected a column, a value or `(`, found `)`"),
        ("nodes in (1 2)", "2", "expected `,` or `)`, found `2`"),
        ("nodes between 1 or 2", "or", "expected `and` and the upper bound, found `or`"),
        ("nodes not 1", "1", "expected `in`, `between` or `like`, found `1`"),
        ("nodes is 1", "1", "expected `known` or `unknown`, found `1`"),
        ("case nodes end", "nodes", "expected `when`, found `nodes`"),
        ("case when true then 1", "", "expected `when`, `else` or `end`, found the end"),
        ("1 < nodes < 5", "<", "comparisons do not follow each other"),
        ("nodes = null", "null", "to ask for what is not known, write `is unknown`"),
        ("gpus > 1", "gpus", "no column `gpus`; is it `gpu`?"),
        ("state = completed", "completed", "no column `completed`; a text is written in quotes"),
        ("sqrt(nodes) > 1", "sqrt", "no function `sqrt`; there are abs, coalesce"),
        ("abs(nodes, 1) > 1", "abs(nodes, 1)", "`abs` takes one argument"),
        ("least(nodes) > 1", "least(nodes)", "`least` takes two arguments or more"),
        ("nodes", "nodes", "expected a condition; this is a number"),
        ("nodes and true", "nodes", "expected a condition; this is a number"),
        ("not 'a'", "'a'", "expected a condition; this is a text"),
        ("memory > 'a'", "'a'", "expected bytes, such as 4GiB; this is a text"),
        ("memory > 2h", "2h", "expected bytes, such as 4GiB; this is a duration"),
        ("nodes in (1, 'a')", "'a'", "expected a number, such as 5; this is a text"),
        ("start > 'soon'", "'soon'", "no such time; a time is written 2026-01-31"),
        ("start > '2026-02-30'", "'2026-02-30'", "no such time"),
        ("ending = 'COMPLETD'", "'COMPLETD'", "`COMPLETD` is no ending; is it `COMPLETED`?"),
        ("ending in ('CD', '')", "''", "`` is no ending"),
        ("ending != 'done'", "'done'", "`done` is no ending"),
        ("end > 1", "1", "expected a time, such as 2026-01-31"),
        ("case when nodes = 1 then end", "", "expected `when`, `else` or `end`, found the end"),
        ("start > 2026", "2026", "expected a time, such as 2026-01-31"),
        ("2026 < start", "2026", "expected a time, such as 2026-01-31"),
        ("gpu > nodes", "nodes", "expected a share, such as 50%; this is a number"),
        ("gpu < least(5, nodes)", "least(5, nodes)", "expected a share, such as 50%; this is a number"),
        ("nodes > gpu", "gpu", "expected a number, such as 5; this is a share"),
        ("end_time - start > 5", "5", "a number without its unit; expected a duration, such as 2h"),
        ("start + 2h < end_time", "start + 2h", "`+` has no meaning between these"),
        ("nodes / elapsed > 1", "nodes / elapsed", "`/` has no meaning between these"),
        ("memory * memory > 1", "memory * memory", "`*` has no meaning between these"),
        ("user + 'a' = 'b'", "user + 'a'", "`+` has no meaning between these"),
        ("memory + elapsed > 1B", "elapsed", "expected bytes, such as 4GiB; this is a duration"),
        ("-user = 'a'", "user", "expected a number; this is a text"),
        ("abs(start) > 1", "start", "expected a number; this is a time"),
        ("lower(nodes) = 'a'", "nodes", "expected a text; this is a number"),
        ("is_shared > false", "is_shared", "expected a number, a time or a text; this is a condition"),
        ("is_shared between true and true", "is_shared", "expected a number, a time or a text"),
        ("least(is_shared, true)", "is_shared", "expected a number, a time or a text"),
        ("nodes / 0 > 1", "0", "division by zero"),
        ("nodes > 1 / (2 - 2)", "(2 - 2)", "division by zero"),
        ("nodes > 1e300 * 1e300", "1e300 * 1e300", "the number is too large"),
        ("memory_peak > 1e307", "1e307", "the number is too large"),
        ("nodes like 'a'", "nodes", "expected a text, such as 'main'; this is a number"),
        ("user like state", "state", "a pattern is a text in quotes"),
        ("user like 'a\\'", "'a\\'", "`\\` in a pattern comes before"),
        ("case when nodes then 1 else 2 end > 1", "nodes", "expected a condition; this is a number"),
        ("case when true then 1 else 'a' end > 1", "1", "expected a text, such as 'main'; this is a number"),
    ];

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, place, said) in WRONG {
            let Err(error) = Condition::parse(text, &catalogue()) else { panic!("{text} was accepted") };
            assert_eq!(&text[error.span.clone()], *place, "{text}: {error}");
            assert!(error.to_string().contains(said), "{text}: {error}");
        }
        let error = Condition::parse("nodes > 0 and gpus > 1", &catalogue()).unwrap_err().to_string();
        let expected = "no column `gpus`; is it `gpu`? (A text is written in quotes.)
  nodes > 0 and gpus > 1
                ^^^^";
        assert_eq!(error, expected);
    }

    #[test]
    fn whatever_is_deep_is_refused() {
        let open = |count: usize, end: &str| format!("{}{end}", "(".repeat(count));
        let nested = |before: &str, inner: &str, after: &str, count: usize| {
            format!("{}{inner}{}", before.repeat(count), after.repeat(count))
        };
        condition(&nested("(", "true", ")", MAX_DEPTH));
        condition(&format!("nodes{} > 1", " + nodes".repeat(MAX_DEPTH - 2)));
        for text in [
            open(3000, ""),
            nested("(", "true", ")", MAX_DEPTH + 1),
            nested("not ", "true", "", 3000),
            nested("-", "nodes", "", 1000) + " > 1",
            nested("abs(", "nodes", ")", 500) + " > 1",
            nested("case when ", "true", " then true end", 500),
            nested("nodes in (", "1", ")", 500),
            format!("nodes{} > 1", " + nodes".repeat(1500)),
            format!("nodes{} > 1", " * nodes".repeat(1500)),
            // Sums of sums, none of which is deep alone.
            (0..5).fold("nodes".to_owned(), |sum, _| format!("({sum}{})", " + nodes".repeat(20))) + " > 1",
        ] {
            let error = Condition::parse(&text, &catalogue()).unwrap_err();
            assert_eq!(error.problem, Problem::TooDeep(MAX_DEPTH), "{error}");
        }
    }

    #[test]
    fn whatever_is_wide_is_accepted_up_to_the_limit() {
        let wide = format!("nodes in ({}1)", "1,".repeat(1900));
        condition(&wide);
        condition(&format!("true{}", " and true".repeat(1500)));
        let more = format!("nodes in ({}1)", "1,".repeat(2000));
        assert!(matches!(Condition::parse(&more, &catalogue()).unwrap_err().problem, Problem::TooMany(_)));
        // Short as it was written, and too long as it would be kept.
        let quotes = format!("user = \"{}\"", "'".repeat(10_000));
        assert!(matches!(Condition::parse(&quotes, &catalogue()).unwrap_err().problem, Problem::TooLong(_)));
    }
}
