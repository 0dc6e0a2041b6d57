//! Searches that have a name: combinations of tags.

use serde::{Deserialize, Serialize};

use crate::declaration::FileError;

/// The file that is shipped.
pub const SHIPPED: &str = include_str!("../../../tags/searches.toml");

/// A combination of tags, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// Each of them.
    #[serde(default)]
    pub all: Vec<String>,
    /// Of each list at least one.
    #[serde(default)]
    pub any: Vec<Vec<String>>,
    /// None of them.
    #[serde(default)]
    pub none: Vec<String>,
    /// A condition over the columns of jobs.
    pub r#where: Option<String>,
}

pub fn parse(text: &str) -> Result<Vec<Search>, FileError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        search: Vec<Search>,
    }
    let file: File = toml::from_str(text)?;
    Ok(file.search)
}

pub fn shipped() -> Result<Vec<Search>, FileError> {
    parse(SHIPPED)
}
