//! Tags that people propose: an administrator approves them, as they are or edited, or rejects them, and all of it is kept.

use std::collections::HashSet;

use digest::limits::Kept;
use duckdb::{Connection, OptionalExt, params};
use tags::{Declaration, Level, Name};

use crate::StoreError;
use crate::write::{Writer, now_ns};

/// Tags that came of proposals have ids from here on.
const FIRST: u32 = 50_000;
const GROUP: &str = "proposed";

/// A tag as it is proposed, or as it is approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposed {
    pub name: String,
    pub description: String,
    /// Without one, people set the tag.
    pub criterion: Option<String>,
}

/// What was decided of a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// As it stands here; what is absent as it was proposed.
    Approved {
        name: Option<String>,
        description: Option<String>,
        criterion: Option<String>,
    },
    Rejected,
}

impl Writer {
    /// Keeps a proposal; returns its number.
    pub fn propose(&mut self, proposed: &Proposed, motivation: &str, by: &str) -> Result<u64, StoreError> {
        self.check_quota(Kept::Proposals, by)?;
        let number = self.next_number("proposal")?;
        self.connection.execute(
            "INSERT INTO proposal VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL, NULL)",
            params![
                number,
                proposed.name,
                proposed.description,
                motivation,
                proposed.criterion,
                by,
                now_ns()
            ],
        )?;
        Ok(number)
    }

    /// Decides about a proposal; an approved tag is declared at once. Says whether there is one that waits for it; an error says what is wrong with
    /// the tag, and nothing is decided then.
    pub fn decide_proposal(
        &mut self,
        number: u64,
        decision: &Decision,
        by: &str,
        reason: Option<&str>,
    ) -> Result<bool, StoreError> {
        self.change_tags(|connection| {
            let Some(mut tag) = waiting(connection, number)? else { return Ok(false) };
            let is_approved = *decision != Decision::Rejected;
            if let Decision::Approved { name, description, criterion } = decision {
                tag.name = name.clone().unwrap_or(tag.name);
                tag.description = description.clone().unwrap_or(tag.description);
                tag.criterion = criterion.clone().or(tag.criterion);
                approve(connection, number, &tag)?;
            }
            connection.execute(
                "UPDATE proposal SET is_approved = ?, decided_by = ?, reason = ?, decided_ns = ? WHERE number = ?",
                params![is_approved, by, reason, now_ns(), number],
            )?;
            Ok(true)
        })
    }
}

fn waiting(connection: &Connection, number: u64) -> Result<Option<Proposed>, StoreError> {
    let sql = "SELECT name, description, criterion FROM proposal WHERE number = ? AND is_approved IS NULL";
    let found = connection.query_row(sql, params![number], |row| {
        Ok(Proposed { name: row.get(0)?, description: row.get(1)?, criterion: row.get(2)? })
    });
    Ok(found.optional()?)
}

fn approve(connection: &Connection, number: u64, tag: &Proposed) -> Result<(), StoreError> {
    // A name that a tag has already would be left out when tags are declared: that is said now.
    let mut taken = connection.prepare("SELECT name FROM tag WHERE space IS NULL")?;
    let taken = taken.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    let key = tags::name::key(&tag.name);
    if let Some(other) = taken.iter().find(|name| tags::name::key(name) == key) {
        return Err(StoreError::Tags(format!("there is a tag `{other}` already")));
    }
    let sql = format!("SELECT coalesce(max(id), {}) + 1 FROM approved_tag", FIRST - 1);
    let id: u32 = connection.query_row(&sql, [], |row| row.get(0))?;
    connection.execute(
        "INSERT INTO approved_tag VALUES (?, ?, ?, ?, ?)",
        params![id, number, tag.name, tag.description, tag.criterion],
    )?;
    declaration(id, tag.clone()).map(drop).map_err(StoreError::Tags)
}

/// Those that were approved, as declarations; one whose name has been given to another tag since is refused.
pub(super) fn approved(
    connection: &Connection,
    others: &[Declaration],
    refused: &mut Vec<String>,
) -> Result<Vec<Declaration>, StoreError> {
    let taken: HashSet<String> =
        others.iter().flat_map(|tag| std::iter::once(&tag.name).chain(&tag.aliases)).map(Name::key).collect();
    let sql = "SELECT a.id, a.name, a.description, a.criterion, p.\"by\" FROM approved_tag a \
        LEFT JOIN proposal p ON p.number = a.proposal ORDER BY a.id";
    let mut query = connection.prepare(sql)?;
    let rows = query.query_map([], |row| {
        let tag = Proposed { name: row.get(1)?, description: row.get(2)?, criterion: row.get(3)? };
        Ok((row.get(0)?, tag, row.get(4)?))
    })?;
    let mut declarations = Vec::new();
    for row in rows {
        let (id, tag, by): (u32, Proposed, Option<String>) = row?;
        match declaration(id, tag) {
            Ok(tag) if taken.contains(&tag.name.key()) => {
                refused.push(format!("proposed tag `{}`: another tag has its name now", tag.name));
            }
            Ok(tag) => declarations.push(tag.by(by.as_deref().unwrap_or_default())),
            Err(why) => refused.push(format!("proposed tag {id}: {why}")),
        }
    }
    Ok(declarations)
}

fn declaration(id: u32, tag: Proposed) -> Result<Declaration, String> {
    let name = Name::try_from(tag.name).map_err(|error| error.to_string())?;
    Ok(Declaration {
        criterion: tag.criterion,
        confidence: Level::default(),
        ..Declaration::new(id, name, GROUP, tag.description)
    })
}
