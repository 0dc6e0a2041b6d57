//! What people think of tags that rules have set, as far as whoever asks sees it.

use std::collections::HashMap;

use duckdb::types::Value as Sql;
use serde_json::{Map, Value, json};

use super::hand::{self, NAMES};
use super::{Reader, Rows, Snapshot, object};
use crate::StoreError;
use crate::query::{Conditions, Filter, time};
use crate::tags::{Declared, Known, Word};

/// Which opinions are asked for; what is absent does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opinions {
    pub tag: Option<u32>,
    pub word: Option<&'static str>,
    pub by: Option<String>,
    /// At most so many, behind so many.
    pub limit: Option<u64>,
    pub after: u64,
}

/// How many agree with what the rule of a tag says now, and how many do not.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Votes {
    pub agree: u64,
    pub disagree: u64,
}

impl Reader {
    /// The newest first.
    pub fn opinions(&self, which: &Opinions) -> Result<Rows, StoreError> {
        let declared = self.tags();
        self.ask(|snapshot| snapshot.opinions(which, &declared))
    }

    /// The version of the rule by which a job has a tag; `None` if it does not have it by a rule.
    pub fn decided_by(&self, filter: &Filter, known: &Known) -> Result<Option<u32>, StoreError> {
        self.ask(|snapshot| {
            let Some(account) = snapshot.account(filter)? else { return Ok(None) };
            let decided = snapshot.decided(account.id)?;
            let Some(rules) = decided.rules.filter(|_| known.has(decided.bits)) else { return Ok(None) };
            Ok(snapshot.criteria(rules)?.get(&known.tag.declared.id).map(|(version, _)| *version))
        })
    }
}

impl Snapshot<'_> {
    fn opinions(&self, which: &Opinions, declared: &Declared) -> Result<Rows, StoreError> {
        let mut conditions = Conditions::default();
        conditions.add("v.until_ns IS NULL", []);
        if let Some(tag) = which.tag {
            conditions.add("v.tag = ?", [Sql::UInt(tag)]);
        }
        if let Some(word) = which.word {
            conditions.add("v.word = ?", [Sql::Text(word.to_owned())]);
        }
        if let Some(by) = &which.by {
            conditions.add("v.\"by\" = ?", [Sql::Text(by.clone())]);
        }
        let sql = format!(
            "SELECT v.tag, v.version, v.word, v.\"by\", v.reason, v.at_ns, c.cluster, c.shown, c.\"user\", g.name \
             FROM opinion v JOIN accounting c ON c.id = v.id LEFT JOIN {NAMES} g ON g.id = v.tag {} ORDER BY v.at_ns DESC, v.tag, v.id, v.\"by\" {} OFFSET {}",
            conditions.sql(),
            which.limit.map_or(String::new(), |limit| format!("LIMIT {limit}")),
            which.after
        );
        self.rows(&sql, &conditions.values, |row| {
            let text = |at: usize| row.get::<_, Option<String>>(at);
            let mut answer = object([
                ("job", json!(text(7)?)),
                ("cluster", json!(text(6)?)),
                ("user", json!(text(8)?)),
                ("tag", json!(hand::name(declared, row.get(0)?, text(9)?))),
            ]);
            answer.extend(said(row, 1)?);
            Ok(answer)
        })
    }

    /// What is thought of the tags of a job, by tag.
    pub(super) fn opinions_of(&self, id: u64) -> Result<HashMap<u32, Vec<Value>>, StoreError> {
        let sql = "SELECT tag, version, word, \"by\", reason, at_ns FROM opinion WHERE id = ? AND until_ns IS NULL ORDER BY at_ns";
        let mut by_tag: HashMap<u32, Vec<Value>> = HashMap::new();
        self.each(sql, &[Sql::UBigInt(id)], |row| {
            by_tag.entry(row.get(0)?).or_default().push(said(row, 1)?.into());
            Ok(())
        })?;
        Ok(by_tag)
    }

    /// By tag and version: of what a rule said before it was changed, its author has heard.
    pub(super) fn votes(&self) -> Result<HashMap<(u32, u32), Votes>, StoreError> {
        let sql = "SELECT tag, version, count(*) FILTER (word = 'agree'), count(*) FILTER (word = 'disagree') \
                   FROM opinion WHERE until_ns IS NULL GROUP BY ALL";
        let rows = self.rows(sql, &[], |row| {
            Ok(((row.get(0)?, row.get(1)?), Votes { agree: row.get(2)?, disagree: row.get(3)? }))
        })?;
        Ok(rows.into_iter().collect())
    }
}

/// Version, word, person, reason and time, from a column on.
fn said(row: &duckdb::Row, at: usize) -> duckdb::Result<Map<String, Value>> {
    Ok(object([
        ("version", json!(row.get::<_, u32>(at)?)),
        ("word", json!(row.get::<_, String>(at + 1)?)),
        ("by", json!(row.get::<_, String>(at + 2)?)),
        ("reason", json!(row.get::<_, Option<String>>(at + 3)?)),
        ("at", time(row.get(at + 4)?)),
    ]))
}

/// Whether one of them says that whoever asks does not want to be shown the tag.
pub(super) fn is_hidden(opinions: &[Value]) -> bool {
    opinions.iter().any(|opinion| opinion["word"] == Word::Hide.name())
}
