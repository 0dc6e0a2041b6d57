//! The rows of a list of jobs, written as JSON as they come: to make a map of each took longer than to find them.

use std::sync::Arc;

use duckdb::Row;
use duckdb::types::{Value as Sql, ValueRef};
use serde::Serialize;
use serde_json::{Value, json};

use super::{JobAfter, JobColumn, Page};
use crate::query::{Listed, time};

/// Jobs that were found.
pub(super) struct Found {
    columns: Vec<Arc<JobColumn>>,
    /// `"name":` of each column.
    keys: Vec<Vec<u8>>,
    limit: u64,
    /// The last one that was taken.
    last: Option<JobAfter>,
    pub(super) listed: Listed,
}

impl Found {
    pub(super) fn new(page: &Page) -> Found {
        let key = |column: &Arc<JobColumn>| {
            let mut key = Vec::new();
            put(&mut key, &column.name);
            key.push(b':');
            key
        };
        let keys = page.columns.iter().map(key).collect();
        let (columns, limit) = (page.columns.clone(), page.rows());
        Found { columns, keys, limit, last: None, listed: Listed::default() }
    }

    /// Whether there is room for another. One more than was asked for says that there are more.
    pub(super) fn take(&mut self, row: &Row) -> duckdb::Result<bool> {
        if self.listed.len() >= self.limit || self.listed.is_full_of_bytes() {
            self.last.iter().for_each(|last| self.listed.goes_on_after(last));
            return Ok(false);
        }
        let json = self.listed.begin();
        json.push(b'{');
        for (at, (column, key)) in self.columns.iter().zip(&self.keys).enumerate() {
            if at > 0 {
                json.push(b',');
            }
            json.extend_from_slice(key);
            write(json, column, row.get_ref(at)?);
        }
        json.push(b'}');
        let behind = self.columns.len();
        self.last = Some(JobAfter::of(row.get_ref(behind)?, row.get(behind + 1)?));
        Ok(true)
    }
}

/// Texts and numbers can all be written, into memory.
fn put(json: &mut Vec<u8>, value: &impl Serialize) {
    let _ = serde_json::to_writer(json, value);
}

/// Texts and numbers without a copy, the rest as [`value`] has it.
fn write(json: &mut Vec<u8>, column: &JobColumn, of: ValueRef) {
    match (column.of, of) {
        (condition::Type::Time, _) => put(json, &value(column, of.to_owned())),
        (_, ValueRef::Text(text)) => put(json, &String::from_utf8_lossy(text)),
        (_, ValueRef::UBigInt(number)) => put(json, &number),
        (_, ValueRef::UInt(number)) => put(json, &number),
        (_, ValueRef::Double(number)) => put(json, &number),
        _ => put(json, &value(column, of.to_owned())),
    }
}

/// A value as answers have it: times as text, numbers whole where they are.
pub(in crate::query) fn value(column: &JobColumn, value: Sql) -> Value {
    match (column.of, value) {
        (condition::Type::Time, Sql::BigInt(ns)) => time(Some(ns)),
        (_, Sql::Boolean(boolean)) => json!(boolean),
        (_, Sql::Text(text)) => json!(text),
        (_, Sql::BigInt(number)) => json!(number),
        (_, Sql::UBigInt(number)) => json!(number),
        (_, Sql::UInt(number)) => json!(number),
        (_, Sql::Double(number)) => json!(number),
        (_, Sql::HugeInt(number)) => json!(number as f64),
        _ => Value::Null,
    }
}
