//! Values that have names: thresholds that a site sets, in conditions that it does not write.

use std::collections::BTreeMap;

use crate::catalogue::Catalogue;
use crate::error::{ConditionError, Fault, Problem};
use crate::parse;
use crate::syntax::Syntax;
use crate::token::Literal;
use crate::unit::Quantity;

/// Values by name; upper and lower case are the same.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parameters {
    values: BTreeMap<String, Literal>,
}

/// What is wrong with a parameter.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum ParameterError {
    #[error("`{0}` is the name of a column")]
    Column(String),
    #[error("`{0}` is no name: letters, digits and `_`, no digit first, none of the language's words")]
    Name(String),
    #[error("parameter `{name}`: {error}")]
    Value { name: String, error: Box<ConditionError> },
}

impl Parameters {
    /// Gives a parameter a value, written as in a condition: `20%`, `8`, `'run.sh'`.
    pub fn set(&mut self, name: &str, text: &str, catalogue: &Catalogue) -> Result<(), ParameterError> {
        if catalogue.get(name).is_some() {
            return Err(ParameterError::Column(name.to_owned()));
        }
        if !matches!(parse::parse(name).map(|node| node.what), Ok(Syntax::Name(read)) if read == name) {
            return Err(ParameterError::Name(name.to_owned()));
        }
        let value = literal(text)
            .map_err(|fault| ParameterError::Value { name: name.to_owned(), error: fault.of(text).into() })?;
        self.values.insert(name.to_ascii_lowercase(), value);
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Literal> {
        self.values.get(&name.to_ascii_lowercase())
    }
}

fn literal(text: &str) -> Result<Literal, Fault> {
    let node = parse::parse(text)?;
    match node.what {
        Syntax::Literal(literal) => Ok(literal),
        Syntax::Negate(inner) => match inner.what {
            Syntax::Literal(Literal::Quantity(Quantity { amount, unit })) => {
                Ok(Literal::Quantity(Quantity { amount: -amount, unit }))
            }
            _ => Err(Fault::new(&node.span, Problem::NoValue)),
        },
        _ => Err(Fault::new(&node.span, Problem::NoValue)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Condition;
    use crate::testing::catalogue;

    #[test]
    fn a_parameter_is_its_value() {
        for (value, text, canonical) in [
            ("20%", "gpu <= low", "gpu <= 20%"),
            ("20", "gpu <= LOW", "gpu <= 20%"),
            ("-3", "nodes > low", "nodes > -3"),
            ("2h", "elapsed between low and 2 * low", "elapsed between 2h and 2 * 2h"),
            ("25%", "nodes >= cores - low * cores", "nodes >= cores - 25% * cores"),
            ("'a'", "user in (low, 'b')", "user in ('a', 'b')"),
            ("true", "is_shared = low", "is_shared = true"),
            ("'a%'", "user not like low", "user not like 'a%'"),
        ] {
            let mut parameters = Parameters::default();
            parameters.set("low", value, &catalogue()).unwrap();
            let condition = Condition::parse_with(text, &catalogue(), &parameters);
            let condition = condition.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(condition.to_string(), canonical, "{text}");
            assert_eq!(Condition::parse(canonical, &catalogue()).unwrap(), condition, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_a_parameter_is_refused() {
        for (name, value, expected) in [
            ("nodes", "1", "`nodes` is the name of a column"),
            ("a b", "1", "`a b` is no name"),
            ("and", "1", "`and` is no name"),
            ("1a", "1", "`1a` is no name"),
            ("low", "1 + nodes", "parameter `low`: expected one value"),
            ("low", "nodes", "parameter `low`: expected one value"),
            ("low", "", "parameter `low`: expected a column, a value"),
        ] {
            let error = Parameters::default().set(name, value, &catalogue()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let mut parameters = Parameters::default();
        parameters.set("low", "2h", &catalogue()).unwrap();
        let error = Condition::parse_with("gpu < low", &catalogue(), &parameters).unwrap_err();
        assert!(
            error.to_string().starts_with("expected a share, such as 50%; this is a duration"),
            "{error}"
        );
    }
}
