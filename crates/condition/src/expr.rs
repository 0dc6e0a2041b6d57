//! The typed expression: what a condition means, and what each part of it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalogue::{Column, Predicate};
use crate::error::Problem;
use crate::limits::Cost;
use crate::token::Literal;
use crate::unit::{Type, Unit};

/// Made by `check` only, so that every expression makes sense.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    Literal(Literal),
    Column(Arc<Column>),
    /// Never of a literal: that is a literal.
    Negate(Box<Expr>),
    Arithmetic(Box<Expr>, Operator, Box<Expr>),
    Compare(Box<Expr>, Comparison, Box<Expr>),
    /// Two at least, and none of them `All`.
    All(Vec<Expr>),
    /// Two at least, and none of them `Any`.
    Any(Vec<Expr>),
    Not(Box<Expr>),
    In(Box<Expr>, Vec<Expr>),
    Between(Box<Expr>, Box<Expr>, Box<Expr>),
    /// The pattern is as it was written.
    Like(Box<Expr>, String),
    /// `is known`, or with false `is unknown`.
    Known(Box<Expr>, bool),
    Case(Vec<(Expr, Expr)>, Option<Box<Expr>>),
    Call(Function, Vec<Expr>),
    /// The pattern is as it was written.
    Ask(Arc<Predicate>, String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Plus,
    Minus,
    Times,
    Over,
}

impl Operator {
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Operator::Plus => "+",
            Operator::Minus => "-",
            Operator::Times => "*",
            Operator::Over => "/",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Comparison {
    pub(crate) const ALL: [Comparison; 6] = [
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::AtMost,
        Comparison::More,
        Comparison::AtLeast,
    ];

    pub(crate) fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::AtMost => "<=",
            Comparison::More => ">",
            Comparison::AtLeast => ">=",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Abs,
    Coalesce,
    Greatest,
    Least,
    Lower,
}

impl Function {
    pub(crate) const ALL: [Function; 5] =
        [Function::Abs, Function::Coalesce, Function::Greatest, Function::Least, Function::Lower];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Function::Abs => "abs",
            Function::Coalesce => "coalesce",
            Function::Greatest => "greatest",
            Function::Least => "least",
            Function::Lower => "lower",
        }
    }
}

/// What an expression gives. The unit is that in which a number beside it is read; it is absent where columns of
/// several units, or of none, went into it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measure {
    pub(crate) of: Type,
    pub(crate) unit: Option<Unit>,
}

impl Measure {
    fn plain(of: Type) -> Measure {
        Measure { of, unit: None }
    }
}

impl Expr {
    pub(crate) fn measure(&self) -> Measure {
        match self {
            Expr::Literal(literal) => literal_measure(literal),
            Expr::Column(column) => Measure { of: column.of, unit: Some(column.unit) },
            Expr::Negate(inner) => inner.measure(),
            // The check has seen that there is a type.
            Expr::Arithmetic(left, operator, right) => {
                arithmetic(left, *operator, right).unwrap_or(Measure::plain(Type::Number))
            }
            Expr::Case(branches, last) => {
                leading(branches.iter().map(|(_, then)| then).chain(last.as_deref()))
                    .map_or(Measure::plain(Type::Boolean), Expr::measure)
            }
            Expr::Call(Function::Lower, _) => Measure::plain(Type::Text),
            Expr::Call(_, arguments) => {
                leading(arguments.iter()).map_or(Measure::plain(Type::Number), Expr::measure)
            }
            _ => Measure::plain(Type::Boolean),
        }
    }

    /// Is it a number that waits for a unit: a plain one, or one of several plain ones?
    pub(crate) fn is_bare(&self) -> bool {
        match self {
            Expr::Literal(Literal::Quantity(quantity)) => quantity.unit == Unit::ONE,
            Expr::Negate(inner) => inner.is_bare(),
            Expr::Case(branches, last) => {
                branches.iter().map(|(_, then)| then).chain(last.as_deref()).all(Expr::is_bare)
            }
            Expr::Call(_, arguments) => arguments.iter().all(Expr::is_bare),
            _ => false,
        }
    }

    pub(crate) fn is_literal(&self) -> bool {
        matches!(self, Expr::Literal(_))
    }

    /// A share that was written as such, which beside a number is a number: `used / total < 50%`.
    pub(crate) fn is_percent(&self) -> bool {
        matches!(self, Expr::Literal(Literal::Quantity(quantity)) if quantity.unit == Unit::PERCENT)
    }

    /// Calls `see` for each part directly below.
    pub(crate) fn each_part<'a>(&'a self, see: &mut impl FnMut(&'a Expr)) {
        match self {
            Expr::Literal(_) | Expr::Column(_) | Expr::Ask(..) => {}
            Expr::Negate(inner) | Expr::Not(inner) | Expr::Known(inner, _) | Expr::Like(inner, _) => {
                see(inner)
            }
            Expr::Arithmetic(left, _, right) | Expr::Compare(left, _, right) => {
                see(left);
                see(right);
            }
            Expr::All(parts) | Expr::Any(parts) | Expr::Call(_, parts) => parts.iter().for_each(see),
            Expr::In(value, items) => {
                see(value);
                items.iter().for_each(see);
            }
            Expr::Between(value, low, high) => [value, low, high].into_iter().for_each(|part| see(part)),
            Expr::Case(branches, last) => {
                branches.iter().flat_map(|(when, then)| [when, then]).for_each(&mut *see);
                last.iter().for_each(|last| see(last));
            }
        }
    }

    /// The columns below, by name.
    pub(crate) fn columns(&self) -> BTreeMap<&str, &Arc<Column>> {
        let mut columns = BTreeMap::new();
        self.find_columns(&mut columns);
        columns
    }

    /// What is asked of the catalogue's predicates below, by its text.
    pub(crate) fn questions(&self) -> BTreeMap<String, (&Arc<Predicate>, &str)> {
        let mut questions = BTreeMap::new();
        self.find_questions(&mut questions);
        questions
    }

    /// Puts columns in place of what is asked of predicates.
    pub(crate) fn answer(&mut self, column: &impl Fn(&str) -> Option<Arc<Column>>) {
        match self {
            Expr::Ask(..) => {
                if let Some(column) = column(&self.to_string()) {
                    *self = Expr::Column(column);
                }
            }
            Expr::Literal(_) | Expr::Column(_) => {}
            Expr::Negate(inner) | Expr::Not(inner) | Expr::Known(inner, _) | Expr::Like(inner, _) => {
                inner.answer(column)
            }
            Expr::Arithmetic(left, _, right) | Expr::Compare(left, _, right) => {
                left.answer(column);
                right.answer(column);
            }
            Expr::All(parts) | Expr::Any(parts) | Expr::Call(_, parts) => {
                parts.iter_mut().for_each(|part| part.answer(column))
            }
            Expr::In(value, items) => {
                value.answer(column);
                items.iter_mut().for_each(|item| item.answer(column));
            }
            Expr::Between(value, low, high) => {
                [value, low, high].into_iter().for_each(|part| part.answer(column))
            }
            Expr::Case(branches, last) => {
                for (when, then) in branches {
                    when.answer(column);
                    then.answer(column);
                }
                last.iter_mut().for_each(|last| last.answer(column));
            }
        }
    }

    /// Whether it is not more than this.
    pub(crate) fn check_cost(&self, most: &Cost) -> Result<(), Problem> {
        let mut found = Cost { predicates: 0, patterns: 0, columns: self.columns().len(), operations: 0 };
        self.count(&mut found);
        for (what, found, most) in [
            ("questions such as uses('lib*')", found.predicates, most.predicates),
            ("patterns", found.patterns, most.patterns),
            ("columns", found.columns, most.columns),
            ("operations", found.operations, most.operations),
        ] {
            if found > most {
                return Err(Problem::TooCostly { what, found, most });
            }
        }
        Ok(())
    }

    /// A question that is asked again is work again.
    fn count(&self, found: &mut Cost) {
        found.operations += usize::from(!self.is_literal());
        found.patterns += usize::from(matches!(self, Expr::Like(..)));
        found.predicates += usize::from(matches!(self, Expr::Ask(..)));
        self.each_part(&mut |part| part.count(found));
    }

    fn find_questions<'a>(&'a self, questions: &mut BTreeMap<String, (&'a Arc<Predicate>, &'a str)>) {
        if let Expr::Ask(predicate, pattern) = self {
            questions.insert(self.to_string(), (predicate, pattern));
        }
        self.each_part(&mut |part| part.find_questions(questions));
    }

    fn find_columns<'a>(&'a self, columns: &mut BTreeMap<&'a str, &'a Arc<Column>>) {
        if let Expr::Column(column) = self {
            columns.insert(&column.name, column);
        }
        self.each_part(&mut |part| part.find_columns(columns));
    }
}

fn literal_measure(literal: &Literal) -> Measure {
    match literal {
        Literal::Quantity(quantity) => Measure { of: quantity.unit.of(), unit: Some(quantity.unit) },
        Literal::Text(_) => Measure::plain(Type::Text),
        Literal::Time(_) => Measure::plain(Type::Time),
        Literal::Boolean(_) => Measure::plain(Type::Boolean),
    }
}

/// Of several that must be of one type, the one that says which: what is computed or stored before what is written,
/// and a plain number last.
pub(crate) fn leading<'a>(items: impl Iterator<Item = &'a Expr>) -> Option<&'a Expr> {
    items.min_by_key(|item| rank(item))
}

fn rank(item: &Expr) -> (bool, bool) {
    (item.is_bare(), item.is_literal())
}

/// What an operation gives; `None` if it makes no sense.
pub(crate) fn arithmetic(left: &Expr, operator: Operator, right: &Expr) -> Option<Measure> {
    let (a, b) = (left.measure(), right.measure());
    match operator {
        Operator::Minus if (a.of, b.of) == (Type::Time, Type::Time) => Some(Measure::plain(Type::Duration)),
        _ if !a.of.is_amount() || !b.of.is_amount() => None,
        // As `leading` has it, but each side is measured once: twice would be twice to the power of the depth.
        Operator::Plus | Operator::Minus => Some(if rank(right) < rank(left) { b } else { a }),
        // Twice a share is a share in the same unit.
        Operator::Times | Operator::Over if right.is_bare() => Some(a),
        Operator::Times if left.is_bare() => Some(b),
        Operator::Times if right.is_percent() => Some(a),
        Operator::Times if left.is_percent() => Some(b),
        Operator::Times => times(a, b),
        Operator::Over => over(a, b),
    }
}

fn times(a: Measure, b: Measure) -> Option<Measure> {
    use Type::{Bytes, Duration, Number, Rate, Share};
    match (a.of, b.of) {
        // So many cores, each busy for this share: a number of cores.
        (Number, Share) | (Share, Number) => Some(Measure::plain(Number)),
        (Share, Share) => Some(Measure::plain(Share)),
        (_, Number | Share) => Some(a),
        (Number | Share, _) => Some(b),
        (Rate, Duration) | (Duration, Rate) => Some(Measure::plain(Bytes)),
        _ => None,
    }
}

fn over(a: Measure, b: Measure) -> Option<Measure> {
    use Type::{Bytes, Duration, Number, Rate, Share};
    match (a.of, b.of) {
        (x, y) if x == y => Some(Measure::plain(Number)),
        (_, Number | Share) => Some(a),
        (Bytes, Duration) => Some(Measure::plain(Rate)),
        (Bytes, Rate) => Some(Measure::plain(Duration)),
        _ => None,
    }
}
