//! How much people may keep on the server: of each kind, each of them and all together.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What people keep, as `[limits]` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kept {
    Notes,
    Cases,
    /// What is added to cases.
    Entries,
    Proposals,
    Searches,
    /// Declared for a project or for oneself.
    Tags,
    /// Tags on jobs, set or taken off.
    Assignments,
    Feedback,
}

impl Kept {
    pub fn name(self) -> &'static str {
        match self {
            Kept::Notes => "notes",
            Kept::Cases => "cases",
            Kept::Entries => "entries",
            Kept::Proposals => "proposals",
            Kept::Searches => "searches",
            Kept::Tags => "tags",
            Kept::Assignments => "assignments",
            Kept::Feedback => "feedback",
        }
    }
}

/// How much of a kind there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Of one user at a time, and new ones of one user in a day: what is taken back is kept, too.
    pub each: u64,
    /// Of all users at a time.
    pub all: u64,
}

/// Of each kind; what is not named has no limit.
pub type Limits = BTreeMap<Kept, Limit>;
