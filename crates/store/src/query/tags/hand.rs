//! What people said of jobs, as far as whoever asks sees it.

use duckdb::types::Value as Sql;
use serde_json::{Map, Value, json};

use super::{Reader, SUMS, SUMS_LEN, Snapshot, Sum, object, sum, tagged};
use crate::StoreError;
use crate::query::jobs::Which;
use crate::query::{Filter, time};
use crate::tags::{Bits, Declared, TAGS};

/// The names of tags, one each: a tag that is renamed keeps its id.
pub(super) const NAMES: &str = "(SELECT id, arg_max(name, since_ns) AS name FROM tag GROUP BY id)";

/// A job, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    pub id: u64,
    pub user: Option<String>,
    pub project: Option<String>,
}

/// Jobs on which people have set a tag: which tag, what the rules say of them, how many there are, and what they have in common.
pub(super) struct Assigned {
    pub tag: u32,
    pub bits: Bits,
    pub sum: Sum,
    pub key: Option<String>,
}

impl Reader {
    /// `None` if there is no such job, or whoever asks does not see it.
    pub fn owned(&self, filter: &Filter) -> Result<Option<Owned>, StoreError> {
        self.ask(|snapshot| {
            let Some(account) = snapshot.account(filter)? else { return Ok(None) };
            let text = |name: &str| account.row.get(name).and_then(Value::as_str).map(str::to_owned);
            Ok(Some(Owned { id: account.id, user: text("user"), project: text("project") }))
        })
    }
}

impl Reader {
    /// Tags on software.
    pub fn software_tags(&self) -> Result<Vec<Map<String, Value>>, StoreError> {
        let declared = self.tags();
        self.ask(|snapshot| snapshot.software_tags(&declared))
    }
}

impl Snapshot<'_> {
    /// Those that are counted besides what rules have set.
    pub(super) fn assigned(&self, which: &Which, key: &str) -> Result<Vec<Assigned>, StoreError> {
        let (conditions, beside) = (which.conditions(), which.beside(std::iter::empty()));
        let sql = format!(
            "SELECT {}, {SUMS}, {key} AS key, h.tag FROM accounting c \
             JOIN (SELECT DISTINCT id, tag FROM assignment h WHERE {}) h ON h.id = c.id {beside} {} GROUP BY ALL",
            tagged::decided().join(", "),
            tagged::SET,
            conditions.sql()
        );
        self.rows(&sql, &conditions.values, |row| {
            let at = TAGS.len();
            Ok(Assigned {
                tag: row.get(at + SUMS_LEN + 1)?,
                bits: Bits::read(row, 0)?,
                sum: sum(row, at)?,
                key: row.get(at + SUMS_LEN)?,
            })
        })
    }

    /// All that was said of a job, also what was taken back, in the order of time.
    pub(super) fn said(&self, id: u64, declared: &Declared) -> Result<Vec<Map<String, Value>>, StoreError> {
        let sql = format!(
            "SELECT h.tag, h.is_set, h.is_personal, h.\"by\", h.at_submission, h.reason, h.at_ns, h.until_ns, coalesce(o.name, g.name) \
             FROM assignment h LEFT JOIN own_tag o ON o.id = h.tag LEFT JOIN {NAMES} g ON g.id = h.tag WHERE h.id = ? ORDER BY h.at_ns, h.tag"
        );
        self.rows(&sql, &[Sql::UBigInt(id)], |row| {
            Ok(object([
                ("tag", json!(name(declared, row.get(0)?, row.get(8)?))),
                ("has", json!(row.get::<_, bool>(1)?)),
                ("by", json!(row.get::<_, String>(3)?)),
                ("at", time(row.get(6)?)),
                ("until", time(row.get(7)?)),
                ("is_personal", json!(row.get::<_, bool>(2)?)),
                ("at_submission", json!(row.get::<_, bool>(4)?)),
                ("reason", json!(row.get::<_, Option<String>>(5)?)),
            ]))
        })
    }

    /// Tags on software, also those that were taken off, in the order of time.
    fn software_tags(&self, declared: &Declared) -> Result<Vec<Map<String, Value>>, StoreError> {
        let sql = format!(
            "SELECT h.tag, h.predicate, h.pattern, h.\"by\", h.reason, h.at_ns, h.until_ns, g.name \
             FROM software_tag h LEFT JOIN {NAMES} g ON g.id = h.tag ORDER BY h.at_ns, h.pattern"
        );
        self.rows(&sql, &[], |row| {
            Ok(object([
                ("tag", json!(name(declared, row.get(0)?, row.get(7)?))),
                ("of", json!(if row.get::<_, String>(1)? == "runs" { "program" } else { "library" })),
                ("pattern", json!(row.get::<_, String>(2)?)),
                ("by", json!(row.get::<_, String>(3)?)),
                ("reason", json!(row.get::<_, Option<String>>(4)?)),
                ("at", time(row.get(5)?)),
                ("until", time(row.get(6)?)),
            ]))
        })
    }

    /// Wishes at submission that could not be fulfilled.
    pub(super) fn refused(&self, id: u64) -> Result<Vec<Map<String, Value>>, StoreError> {
        let sql = "SELECT wish, why FROM assignment_refused WHERE id = ? ORDER BY wish";
        self.rows(sql, &[Sql::UBigInt(id)], |row| {
            Ok(object([("wish", json!(row.get::<_, String>(0)?)), ("why", json!(row.get::<_, String>(1)?))]))
        })
    }
}

/// As it is declared, or as it was.
pub(super) fn name(declared: &Declared, tag: u32, was: Option<String>) -> String {
    let known = declared.tags.iter().find(|known| known.tag.declared.id == tag);
    known.map_or_else(
        || format!("{}, which is no longer declared", was.unwrap_or_else(|| format!("tag {tag}"))),
        |known| known.tag.declared.name.to_string(),
    )
}
