//! Whether somebody may keep something more, by the limits of the site.

use digest::limits::Kept;
use duckdb::{Connection, params};

use crate::write::{Writer, now_ns};
use crate::{Site, StoreError};

const DAY_NS: i64 = 86_400_000_000_000;

/// Which rows of which table count: those that are there now.
fn rows(of: Kept) -> (&'static str, &'static str) {
    match of {
        Kept::Notes => ("note", "until_ns IS NULL"),
        Kept::Cases => ("contact", "closed_ns IS NULL"),
        Kept::Entries => ("contact_entry", "true"),
        Kept::Proposals => ("proposal", "is_approved IS NULL"),
        Kept::Searches => ("saved_search", "until_ns IS NULL"),
        Kept::Tags => ("own_tag", "until_ns IS NULL"),
        Kept::Assignments => ("assignment", "until_ns IS NULL AND NOT at_submission"),
        Kept::Feedback => ("opinion", "until_ns IS NULL"),
    }
}

/// What to do about it.
fn remedy(of: Kept) -> &'static str {
    match of {
        Kept::Notes | Kept::Searches => "remove some",
        Kept::Cases => "close some",
        Kept::Entries => "close the case and open another",
        Kept::Proposals => "wait until some are decided",
        Kept::Tags => "retire some",
        Kept::Assignments => "remove some tags from jobs",
        Kept::Feedback => "take some back",
    }
}

impl Writer {
    /// Whether one more fits.
    pub(crate) fn check_quota(&self, of: Kept, by: &str) -> Result<(), StoreError> {
        check(&self.connection, &self.site, of, by)
    }
}

/// The same inside a transaction. A limit on what is new in a day bounds what is kept of things that were taken back.
pub(crate) fn check(connection: &Connection, site: &Site, of: Kept, by: &str) -> Result<(), StoreError> {
    let Some(limit) = site.limits.get(&of) else { return Ok(()) };
    let (table, there) = rows(of);
    let is_kept = if of == Kept::Assignments { "NOT at_submission" } else { "true" };
    let sql = format!(
        "SELECT count(*) FILTER (\"by\" = ? AND {there}), count(*) FILTER (\"by\" = ? AND at_ns > ?), count(*) FILTER ({there}) \
         FROM {table} WHERE {is_kept}"
    );
    let values = params![by, by, now_ns().saturating_sub(DAY_NS)];
    let (own, new, all): (u64, u64, u64) =
        connection.query_row(&sql, values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let (what, remedy) = (of.name(), remedy(of));
    let full = |found: u64, whose: &str, key: &str, remedy: &str| {
        let (most, table) = if key == "all" { (limit.all, "all") } else { (limit.each, "each") };
        StoreError::Quota(format!(
            "limit reached: {found} {what} {whose}, at most {most} are kept (limits.{what}.{table} in site.toml): {remedy}, or ask an administrator for more"
        ))
    };
    // What is only ever added to has no rows that end.
    if of != Kept::Entries && own >= limit.each {
        Err(full(own, "of yours", "each", remedy))
    } else if new >= limit.each {
        Err(full(new, "of yours in the last day", "each", "wait until tomorrow"))
    } else if all >= limit.all {
        Err(full(all, "of all users", "all", remedy))
    } else {
        Ok(())
    }
}
