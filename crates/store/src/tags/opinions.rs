//! What people think of what a rule says of a job: whether it is right, and whether they want to be shown it. No opinion changes a tag:
//! whoever may take it off does that. A rule with which many disagree is for its author to look at.

use digest::limits::Kept;
use duckdb::params;

use crate::StoreError;
use crate::accounting::measured;
use crate::write::{Writer, now_ns};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    Agree,
    Disagree,
    /// Only for oneself.
    Hide,
}

impl Word {
    pub const ALL: [Word; 3] = [Word::Agree, Word::Disagree, Word::Hide];

    pub fn name(self) -> &'static str {
        match self {
            Word::Agree => "agree",
            Word::Disagree => "disagree",
            Word::Hide => "hide",
        }
    }

    pub fn named(name: &str) -> Option<Word> {
        Word::ALL.into_iter().find(|word| word.name() == name)
    }

    /// The word that cannot stand beside it.
    fn other(self) -> Option<Word> {
        match self {
            Word::Agree => Some(Word::Disagree),
            Word::Disagree => Some(Word::Agree),
            Word::Hide => None,
        }
    }
}

/// What somebody thinks of a tag that a job has by its rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opinion {
    /// The job's.
    pub id: u64,
    /// The tag's.
    pub tag: u32,
    /// Of the rule that has set it.
    pub version: u32,
    pub word: Word,
    pub by: String,
    pub reason: Option<String>,
}

impl Writer {
    /// Keeps an opinion in place of what the same person said before; whoever says it may, as the caller has seen.
    pub fn opine(&mut self, opinion: &Opinion) -> Result<(), StoreError> {
        let Opinion { id, tag, version, word, by, reason } = opinion;
        self.check_quota(Kept::Feedback, by)?;
        let (transaction, now) = (self.connection.transaction()?, now_ns());
        let id = &measured::now(&transaction, *id)?;
        let replaced = [Some(*word), word.other()];
        for before in replaced.into_iter().flatten() {
            take_back(&transaction, *id, *tag, before, by, now)?;
        }
        transaction.execute(
            "INSERT INTO opinion VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
            params![id, tag, version, word.name(), by, reason, now],
        )?;
        Ok(transaction.commit()?)
    }

    /// Takes an opinion back; says whether there was one.
    pub fn take_back_opinion(&mut self, id: u64, tag: u32, word: Word, by: &str) -> Result<bool, StoreError> {
        let id = measured::now(&self.connection, id)?;
        take_back(&self.connection, id, tag, word, by, now_ns())
    }
}

fn take_back(
    connection: &duckdb::Connection,
    id: u64,
    tag: u32,
    word: Word,
    by: &str,
    now: i64,
) -> Result<bool, StoreError> {
    let sql = "UPDATE opinion SET until_ns = ? WHERE id = ? AND tag = ? AND word = ? AND \"by\" = ? AND until_ns IS NULL";
    Ok(connection.execute(sql, params![now, id, tag, word.name(), by])? > 0)
}
