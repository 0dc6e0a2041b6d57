//! Names of tags. Those of the paper are spelt in several ways, and people type them as they remember them: upper and lower case,
//! `_` and spaces make no difference.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longer ones do not fit into a table.
const LONGEST: usize = 80;

/// A name as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// Why a text cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("a tag needs a name")]
    Empty,
    #[error("a name has at most {LONGEST} characters; this has {0}")]
    Long(usize),
    #[error(
        "`{0}` is no name for a tag: letters, digits, single spaces and `_ - + . / :` only, and none of the last at its beginning"
    )]
    Character(String),
}

impl Name {
    /// What all spellings of the name have in common.
    pub fn key(&self) -> String {
        key(&self.0)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What all spellings of a name have in common, for one that was typed.
pub fn key(text: &str) -> String {
    let words =
        text.split(|letter: char| letter.is_whitespace() || letter == '_').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Name, NameError> {
        let length = text.chars().count();
        let is_part = |letter: char| letter.is_alphanumeric() || " _-+./:".contains(letter);
        match text.chars().next() {
            None => Err(NameError::Empty),
            Some(_) if length > LONGEST => Err(NameError::Long(length)),
            Some(first)
                if first.is_alphanumeric()
                    && text.chars().all(is_part)
                    && !text.contains("  ")
                    && !text.ends_with(' ') =>
            {
                Ok(Name(text))
            }
            Some(_) => Err(NameError::Character(text)),
        }
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_that_mean_the_same() {
        for (one, other, same) in [
            ("avg_LA SINGLE CORE", "avg_LA_SINGLE_CORE", true),
            ("job_status NODE_FAIL", "Job Status node fail", true),
            ("job_accel GPU", " job_accel  gpu ", true),
            ("job_accel GPU", "job_accel GPU UNUSED", false),
            ("avg_cache_L1/L3 LOW", "avg_cache_L1_L3 LOW", false),
            ("job_behavior MASTER-SLAVE", "job_behavior MASTER SLAVE", false),
        ] {
            assert_eq!(key(one) == key(other), same, "{one} and {other}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for (text, expected) in [
            ("", NameError::Empty),
            (" a", NameError::Character(" a".into())),
            ("a ", NameError::Character("a ".into())),
            ("a  b", NameError::Character("a  b".into())),
            ("a,b", NameError::Character("a,b".into())),
            ("a\nb", NameError::Character("a\nb".into())),
            ("-a", NameError::Character("-a".into())),
            (&"ä".repeat(81), NameError::Long(81)),
        ] {
            assert_eq!(Name::try_from(text.to_owned()).unwrap_err(), expected, "{text}");
        }
        for text in ["a", "avg_mem/cache_L1 LOW", "job_partition größer:2.x", "2nd", &"ä".repeat(80)] {
            assert!(Name::try_from(text.to_owned()).is_ok(), "{text}");
        }
    }
}
