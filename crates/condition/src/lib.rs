//! Users' conditions: the criteria of tags, and `jobglass jobs --where`. Text becomes a typed expression, and that becomes SQL
//! with bound values; the database never sees a user's text. No I/O, no database, and no names of tables: the caller gives a
//! [`Catalogue`] of columns with the SQL each stands for.
//!
//! # The language
//!
//! ```text
//! gpu_util_avg < 5 and gpus > 0
//! memory_peak / memory_reserved < 10% and elapsed > 2h
//! submit >= 2026-01-01 and (partition in ('gpu', 'gpu-test') or name like 'gmx%')
//! ```
//!
//! From what binds least to what binds most:
//!
//! | | |
//! |---|---|
//! | `or`, `and`, `not` | |
//! | `=` (`==`), `!=` (`<>`), `<`, `<=`, `>`, `>=` | they do not follow each other: `a < b < c` is an error |
//! | `in (…)`, `between … and …`, `like '…'` | also with `not` before them |
//! | `is known`, `is unknown` | (`is not null`, `is null`) |
//! | `+`, `-` | |
//! | `*`, `/` | a quotient has its fraction: 1 / 2 is 0.5; by zero it is unknown |
//! | `-` | |
//! | columns, values, `( )`, functions, `case when … then … else … end` | without `else`: unknown |
//!
//! Words and names may be in upper or lower case. The functions are `abs`, `least`, `greatest`, `coalesce` (the first that is
//! known) and `lower`. Besides, a catalogue may have predicates, which are asked with a pattern: `uses('libblas*')`.
//!
//! *Values.* Texts are in single or double quotes; a quote in one is doubled. They compare by their bytes, upper before lower
//! case; beside a column that can only be one of a few words, such as a job's state, case does not matter, short forms are
//! understood, and anything else is an error. Times are `2026-01-31`, `2026-01-31T10:00`, `2026-01-31T10:00:00.5+01:00`, also in
//! quotes; without an offset they are UTC, like all that Jobglass prints. Numbers may have a unit right behind them: `%`, `ns` to
//! `d`, `B` to `PiB`, `B/s` to `PiB/s`; `16G` is 16 GiB, as in Slurm. A number
//! without one is in the unit of the column that it stands beside, and the canonical text says it: `gpu_util_avg < 5` is shown
//! as `gpu_util_avg < 5%`. Where no column says the unit, it must be written.
//!
//! *Units.* Bytes by a duration are a rate, a time less a time is a duration, and like by like is a number. A share that is
//! written with `%` may stand beside numbers, `used / reserved < 10%`; a column that is a share may not, since it could not be
//! said whether `gpu_util_avg > 10 * nodes` is in hundredths: `gpu_util_avg / 1%` makes a number of it.
//!
//! *Patterns.* `like` has `%` for any text and `_` for one character; `\` before them, or before itself, takes their meaning. There
//! is no `glob` and no regular expression: `like` means the same in every engine that criteria may be moved to, and takes no more
//! time than the product of the two lengths. Patterns are bounded, and so is what a condition of a user may cost: see [`limits`].
//!
//! *Parameters.* A name may stand for a value that is given with the condition, [`Parameters`]. The canonical text has the value.
//!
//! # What is not known
//!
//! A column may be unknown (NULL), and there are three answers, as in SQL: a comparison with something unknown is unknown, so
//! is arithmetic with it; `and` is false if one part is false, whatever else is unknown; `or` is true if one part is true; `not`
//! leaves unknown as it is. **What is unknown never matches**: neither `gpu_util < 5` nor `not (gpu_util < 5)` finds a job whose
//! GPUs were not measured. `is unknown` finds it. `least` and `greatest` of something unknown are unknown.
//!
//! # The modules
//!
//! In the way of the data: `token` reads words, `parse` makes `syntax` of them, `check` makes an `expr` of that, which
//! `sql` writes for the database, `eval` computes for one row, `explain` tells to people and `show` writes back as text.

mod catalogue;
mod check;
mod error;
mod eval;
mod explain;
mod expr;
pub mod like;
pub mod limits;
mod nearest;
mod parameters;
mod parse;
mod show;
mod sql;
mod syntax;
#[cfg(test)]
mod testing;
mod token;
mod unit;
mod value;
mod whole;

use std::fmt;
use std::sync::Arc;

pub use catalogue::{Catalogue, CatalogueError, Column, Predicate, Whole, Words};
pub use error::{ConditionError, Problem, Span};
pub use eval::{Row, RowError};
pub use explain::{Explanation, Seen, Step};
pub use nearest::nearest;
pub use parameters::{ParameterError, Parameters};
pub use sql::Sql;
pub use unit::{Quantity, Type, Unit};
pub use value::Value;

use error::Fault;
use expr::Expr;

/// A condition that makes sense. Its [`Display`](fmt::Display) is the canonical text, which reads back as the same condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    expr: Expr,
}

impl Condition {
    pub fn parse(text: &str, catalogue: &Catalogue) -> Result<Condition, ConditionError> {
        Condition::parse_with(text, catalogue, &Parameters::default())
    }

    /// With values that have names.
    pub fn parse_with(
        text: &str,
        catalogue: &Catalogue,
        parameters: &Parameters,
    ) -> Result<Condition, ConditionError> {
        read(text, catalogue, parameters).map_err(|fault| fault.of(text))
    }

    /// As a user asks it: not only well written, but not too much work either.
    pub fn asked(text: &str, catalogue: &Catalogue) -> Result<Condition, ConditionError> {
        let condition = Condition::parse(text, catalogue)?;
        let too_costly = |problem| Fault::new(&(0..text.len()), problem).of(text);
        condition.expr.check_cost(&limits::ASKED).map_err(too_costly)?;
        Ok(condition)
    }

    /// For `WHERE`.
    pub fn sql(&self) -> Sql {
        Sql::of(&self.expr)
    }

    /// The columns it uses, by name.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.expr.columns().into_values().map(AsRef::as_ref)
    }

    /// What it asks of the catalogue's predicates.
    pub fn questions(&self) -> impl Iterator<Item = Question> {
        self.expr.questions().into_iter().map(|(text, (predicate, pattern))| Question {
            text,
            predicate: predicate.name,
            pattern: pattern.to_owned(),
            sql: Sql::of_question(predicate, pattern),
        })
    }

    /// The same condition for a row that has the answers to these questions as columns of its own: SQL, by the question's text. Many
    /// questions about many rows are answered together in a fraction of the time.
    pub fn answered(&self, sql: impl Fn(&str) -> Option<String>) -> Condition {
        let column = |text: &str| {
            let column = Column::new(text, Type::Boolean, "", &sql(text)?);
            Some(Arc::new(column))
        };
        let mut expr = self.expr.clone();
        expr.answer(&column);
        Condition { expr }
    }

    /// Whether it holds for a row; `None` if that is not known. The database answers the same.
    pub fn holds(&self, row: &Row) -> Option<bool> {
        self.expr.truth(row)
    }

    pub fn explain(&self, row: &Row) -> Explanation {
        Explanation::of(&self.expr, row)
    }
}

/// Something that a condition asks of a predicate.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// As in conditions, for [`Row::answer`].
    pub text: String,
    pub predicate: &'static str,
    /// With `*` and `?`, as it was written.
    pub pattern: String,
    pub sql: Sql,
}

fn read(text: &str, catalogue: &Catalogue, parameters: &Parameters) -> Result<Condition, Fault> {
    let condition = Condition { expr: check::check(&parse::parse(text)?, catalogue, parameters)? };
    // The canonical text is kept and read again, so it must be within the limit as well.
    if condition.to_string().len() > limits::MAX_TEXT {
        Err(Fault::new(&(0..text.len()), Problem::TooLong(limits::MAX_TEXT)))
    } else {
        Ok(condition)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.expr.fmt(f)
    }
}
