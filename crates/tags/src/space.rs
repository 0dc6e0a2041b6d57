//! Whose a tag is: everybody's, those of a project, or one person's. Others do not see that there is one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Who sees a tag and may set it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum Space {
    #[default]
    General,
    /// Those who are in it.
    Project(String),
    Personal(String),
}

/// Why a text names no space.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no space of tags: there are general, project:NAME and personal:USER")]
pub struct SpaceError(String);

impl Space {
    /// A condition that holds for the jobs of the space only; `None` for all jobs.
    pub fn condition(&self) -> Option<String> {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        match self {
            Space::General => None,
            Space::Project(name) => Some(format!("project = {}", quoted(name))),
            Space::Personal(user) => Some(format!("user = {}", quoted(user))),
        }
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Space::General => f.write_str("general"),
            Space::Project(name) => write!(f, "project:{name}"),
            Space::Personal(user) => write!(f, "personal:{user}"),
        }
    }
}

impl TryFrom<String> for Space {
    type Error = SpaceError;

    fn try_from(text: String) -> Result<Space, SpaceError> {
        match text.split_once(':') {
            None if text == "general" => Ok(Space::General),
            Some(("project", name)) if !name.is_empty() => Ok(Space::Project(name.to_owned())),
            Some(("personal", user)) if !user.is_empty() => Ok(Space::Personal(user.to_owned())),
            _ => Err(SpaceError(text)),
        }
    }
}

impl From<Space> for String {
    fn from(space: Space) -> String {
        space.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for text in ["general", "project:physics", "personal:anna", "project:a:b"] {
            assert_eq!(Space::try_from(text.to_owned()).unwrap().to_string(), text);
        }
        for text in ["", "General", "project", "project:", "personal:", "group:a"] {
            let error = Space::try_from(text.to_owned()).unwrap_err().to_string();
            assert!(error.contains("project:NAME"), "{error}");
        }
    }
}
