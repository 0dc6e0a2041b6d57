//! Tags on software: whoever used it has the tag, in the past and from now on, until it is taken off. The criterion of such a tag is what it was
//! declared with, or that the job used any of it.

use std::collections::BTreeMap;

use duckdb::{Connection, params};
use tags::Declaration;

use crate::StoreError;
use crate::write::{Writer, now_ns};

/// Software by what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Software {
    pub of: Kind,
    /// A name, a path if there is a `/` in it, a build-id or a content hash.
    pub pattern: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A library, or anything else that a program loaded.
    Loaded,
    Program,
}

impl Kind {
    /// As criteria ask for it.
    pub fn predicate(self) -> &'static str {
        match self {
            Kind::Loaded => "uses",
            Kind::Program => "runs",
        }
    }
}

/// What a criterion is that nothing is left of: it takes the tag off whoever has it.
const NEVER: &str = "false";

impl Writer {
    /// Puts a tag on software, or takes it off; says whether that changes anything. It counts for jobs that are judged from now on; for others
    /// with a run of the tag.
    pub fn tag_software(
        &mut self,
        tag: u32,
        software: &Software,
        is_set: bool,
        by: &str,
        reason: Option<&str>,
    ) -> Result<bool, StoreError> {
        let (predicate, pattern) = (software.of.predicate(), &software.pattern);
        let there = "tag = ? AND predicate = ? AND pattern = ? AND until_ns IS NULL";
        let sql = format!("SELECT count(*) > 0 FROM software_tag WHERE {there}");
        let is_there: bool =
            self.connection.query_row(&sql, params![tag, predicate, pattern], |row| row.get(0))?;
        if is_there == is_set {
            return Ok(false);
        }
        self.change_tags(|connection| {
            if is_set {
                connection.execute(
                    "INSERT INTO software_tag VALUES (?, ?, ?, ?, ?, ?, NULL)",
                    params![tag, predicate, pattern, by, reason, now_ns()],
                )?;
            } else {
                let sql = format!("UPDATE software_tag SET until_ns = {} WHERE {there}", now_ns());
                connection.execute(&sql, params![tag, predicate, pattern])?;
            }
            Ok(true)
        })
    }
}

/// The criteria of tags on software, added to those that the tags were declared with.
pub(super) fn add_criteria(
    connection: &Connection,
    declarations: &mut [Declaration],
) -> Result<(), StoreError> {
    let mut query = connection.prepare(
        "SELECT tag, predicate, pattern, until_ns IS NULL FROM software_tag ORDER BY at_ns, pattern",
    )?;
    let mut asked: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (predicate, pattern): (String, String) = (row.get(1)?, row.get(2)?);
        // Of a tag that was on software once, something must be asked, or it would stay where it is.
        let of_tag = asked.entry(row.get(0)?).or_default();
        if row.get(3)? {
            of_tag.push(format!("{predicate}('{}')", pattern.replace('\'', "''")));
        }
    }
    for declaration in declarations {
        if let Some(asked) = asked.remove(&declaration.id) {
            let own = declaration.criterion.take().map(|own| format!("({own})"));
            let all: Vec<String> = own.into_iter().chain(asked).collect();
            declaration.criterion = Some(if all.is_empty() { NEVER.to_owned() } else { all.join(" or ") });
        }
    }
    Ok(())
}
