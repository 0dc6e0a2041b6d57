//! Keeps what people want to be remembered: notes on jobs and programs, and cases, in which a user was contacted.

use digest::limits::Kept;
use duckdb::params;

use crate::StoreError;
use crate::accounting::measured;
use crate::write::{Writer, now_ns};

/// What a note is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// The job's id.
    Job(u64),
    /// Its path, or a pattern for it.
    Program(String),
}

/// Whom a case is about, and because of which job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    pub user: String,
    /// The job's id.
    pub job: Option<u64>,
    pub reason: String,
}

impl Writer {
    /// Keeps a note; returns its number.
    pub fn add_note(&mut self, about: &About, text: &str, by: &str) -> Result<u64, StoreError> {
        self.check_quota(Kept::Notes, by)?;
        let number = self.next_number("note")?;
        let (id, program) = match about {
            About::Job(id) => (Some(measured::now(&self.connection, *id)?), None),
            About::Program(program) => (None, Some(program)),
        };
        self.connection.execute(
            "INSERT INTO note VALUES (?, ?, ?, ?, ?, ?, NULL)",
            params![number, id, program, text, by, now_ns()],
        )?;
        Ok(number)
    }

    /// Takes a note back: it is shown no longer, and kept. Says whether there was one.
    pub fn remove_note(&mut self, number: u64) -> Result<bool, StoreError> {
        let sql = "UPDATE note SET until_ns = ? WHERE number = ? AND until_ns IS NULL";
        Ok(self.connection.execute(sql, params![now_ns(), number])? > 0)
    }

    /// Opens a case; returns its number.
    pub fn open_case(&mut self, contact: &Contact, by: &str) -> Result<u64, StoreError> {
        self.check_quota(Kept::Cases, by)?;
        let number = self.next_number("contact")?;
        let job = contact.job.map(|id| measured::now(&self.connection, id)).transpose()?;
        self.connection.execute(
            "INSERT INTO contact VALUES (?, ?, ?, ?, ?, ?, NULL, NULL, NULL)",
            params![number, contact.user, job, contact.reason, by, now_ns()],
        )?;
        Ok(number)
    }

    /// What happened in a case since; says whether there is one that is open.
    pub fn add_to_case(&mut self, number: u64, text: &str, by: &str) -> Result<bool, StoreError> {
        self.check_quota(Kept::Entries, by)?;
        let sql = "INSERT INTO contact_entry SELECT number, ?, ?, ? FROM contact WHERE number = ? AND closed_ns IS NULL";
        Ok(self.connection.execute(sql, params![text, by, now_ns(), number])? > 0)
    }

    /// Closes a case with its outcome; says whether there was one that was open.
    pub fn close_case(&mut self, number: u64, outcome: &str, by: &str) -> Result<bool, StoreError> {
        let sql = "UPDATE contact SET outcome = ?, closed_by = ?, closed_ns = ? WHERE number = ? AND closed_ns IS NULL";
        Ok(self.connection.execute(sql, params![outcome, by, now_ns(), number])? > 0)
    }

    pub(crate) fn next_number(&self, table: &str) -> Result<u64, StoreError> {
        let sql = format!("SELECT coalesce(max(number), 0) + 1 FROM {table}");
        Ok(self.connection.query_row(&sql, [], |row| row.get(0))?)
    }
}
