//! What a site says of people: who runs the machine, who helps, who has a say in a project.

use std::collections::BTreeSet;

use serde::Deserialize;

/// All that a site says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct People {
    /// See everything, change everything.
    #[serde(default)]
    pub administrators: BTreeSet<String>,
    /// See all jobs, to help their owners.
    #[serde(default)]
    pub support: BTreeSet<String>,
    /// Who sees the jobs of a whole project.
    #[serde(default)]
    pub see_project: SeeProject,
}

/// Who sees the jobs of others in a project.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SeeProject {
    /// Only those who have a say in it.
    #[default]
    Managers,
    Members,
}

/// What a site says of a project, in place of what its batch system tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfProject {
    pub name: String,
    pub managers: Option<BTreeSet<String>>,
    pub members: Option<BTreeSet<String>>,
}
