//! Nodes as people name them: `n0001`, `n[0001-0128]`, `gpu*`, and several of these with commas between them. A name that no node has is
//! a slip of the hand, which is found when nothing else is.

use condition::like::Pattern;
use condition::nearest;
use duckdb::types::Value as Sql;

use super::{Reader, Snapshot};
use crate::StoreError;

/// More of them are better said with a pattern.
const NAMES_MAX: usize = 10_000;
const PATTERNS_MAX: usize = 16;

/// Nodes that are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    names: Vec<String>,
    /// With `*` and `?`.
    patterns: Vec<String>,
}

/// Why nodes cannot be asked for so.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodesError {
    #[error(transparent)]
    List(#[from] hostlist::Error),
    #[error("`{0}` names more than {NAMES_MAX} nodes, or {PATTERNS_MAX} patterns: ask for them as `n*`")]
    TooMany(String),
    #[error("`{0}` names no node")]
    Empty(String),
    #[error("`{text}`: {why}")]
    Pattern { text: String, why: String },
}

impl Nodes {
    pub fn parse(text: &str) -> Result<Nodes, NodesError> {
        let all = hostlist::expand(text)?;
        let (patterns, names): (Vec<String>, Vec<String>) =
            all.into_iter().partition(|name| name.contains(['*', '?']));
        if names.is_empty() && patterns.is_empty() {
            return Err(NodesError::Empty(text.to_owned()));
        }
        if names.len() > NAMES_MAX || patterns.len() > PATTERNS_MAX {
            return Err(NodesError::TooMany(text.to_owned()));
        }
        for pattern in &patterns {
            let checked = Pattern::of_glob(pattern).check();
            checked.map_err(|error| NodesError::Pattern { text: pattern.clone(), why: error.to_string() })?;
        }
        Ok(Nodes { names, patterns })
    }

    /// One node, whatever its name looks like.
    pub(super) fn literal(name: &str) -> Nodes {
        Nodes { names: vec![name.to_owned()], patterns: Vec::new() }
    }

    /// Whether SQL of ours is the name of one of them.
    pub(super) fn fits(&self, what: &str) -> (String, Vec<Sql>) {
        let mut parts = Vec::new();
        let mut values: Vec<Sql> = self.names.iter().cloned().map(Sql::Text).collect();
        match values.len() {
            0 => {}
            1 => parts.push(format!("{what} = ?")),
            count => parts.push(format!("{what} IN ({})", vec!["?"; count].join(", "))),
        }
        for pattern in &self.patterns {
            let (text, value) = Pattern::of_glob(pattern).sql(what);
            parts.push(text);
            values.push(Sql::Text(value));
        }
        (if parts.len() == 1 { parts.concat() } else { format!("({})", parts.join(" OR ")) }, values)
    }
}

/// A name that no node has, or a pattern that none fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownNode {
    pub name: String,
    /// What may be meant.
    pub nearest: Option<String>,
}

impl Reader {
    /// The first of these nodes that nobody has heard of. Where no node is known at all, none is wrong.
    pub fn unknown_node(&self, nodes: &Nodes) -> Result<Option<UnknownNode>, StoreError> {
        self.ask(|snapshot| {
            let known = snapshot.known_nodes()?;
            let is_unknown = |name: &&String| known.binary_search(name).is_err();
            let is_unfit = |pattern: &&String| {
                let pattern = Pattern::of_glob(pattern);
                !known.iter().any(|name| pattern.fits(name))
            };
            let unknown =
                nodes.names.iter().find(is_unknown).or_else(|| nodes.patterns.iter().find(is_unfit));
            Ok(unknown.filter(|_| !known.is_empty()).map(|name| UnknownNode {
                name: name.clone(),
                nearest: nearest(name, known.iter().map(String::as_str)).map(str::to_owned),
            }))
        })
    }
}

impl Snapshot<'_> {
    /// Of jobs, of the site, and of agents; in their order.
    fn known_nodes(&self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT host FROM (SELECT host FROM node_list UNION SELECT name FROM node_now UNION SELECT host FROM node_hardware \
                   UNION SELECT host FROM process UNION SELECT node FROM process \
                   UNION SELECT host FROM running UNION SELECT node FROM running) t(host) WHERE host IS NOT NULL";
        let mut known = self.rows(sql, &[], |row| row.get::<_, String>(0))?;
        known.sort_unstable();
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lists_and_patterns() {
        let text = |text: &str| Sql::Text(text.to_owned());
        for (typed, sql, values) in [
            ("n1", "h = ?", vec![text("n1")]),
            ("n[08-10]", "h IN (?, ?, ?)", vec![text("n08"), text("n09"), text("n10")]),
            ("n?", "regexp_full_match(h, CAST(? AS VARCHAR))", vec![text("(?s)n.")]),
            ("n1,gpu*", "(h = ? OR prefix(h, CAST(? AS VARCHAR)))", vec![text("n1"), text("gpu")]),
        ] {
            assert_eq!(Nodes::parse(typed).unwrap().fits("h"), (sql.to_owned(), values), "{typed}");
        }
        for (typed, said) in [
            ("", "names no node"),
            ("n[1", "does not close"),
            ("n[1-20000]", "more than 10000"),
            (&["a*"; 17].join(","), "16 patterns"),
        ] {
            let error = Nodes::parse(typed).unwrap_err().to_string();
            assert!(error.contains(said), "{typed}: {error}");
        }
    }
}
