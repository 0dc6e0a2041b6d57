//! The rows of a list of jobs, written as JSON as they come: to make a map of each took longer than to find them.

use std::sync::Arc;

use duckdb::Row;
use duckdb::types::{Value as Sql, ValueRef};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{JobColumn, Page};
use crate::query::time;

/// Jobs that were found.
pub struct Found {
    columns: Vec<Arc<JobColumn>>,
    /// `"name":` of each column.
    keys: Vec<Vec<u8>>,
    limit: Option<u64>,
    /// Objects, with commas between them.
    json: Vec<u8>,
    rows: u64,
    more: bool,
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
        Found {
            columns: page.columns.clone(),
            keys,
            limit: page.limit,
            json: Vec::new(),
            rows: 0,
            more: false,
        }
    }

    /// One more than was asked for says that there are more.
    pub(super) fn take(&mut self, row: &Row) -> duckdb::Result<()> {
        if self.limit.is_some_and(|limit| self.rows >= limit) {
            self.more = true;
            return Ok(());
        }
        self.json.extend_from_slice(if self.rows == 0 { b"{" } else { b",{" });
        for (at, (column, key)) in self.columns.iter().zip(&self.keys).enumerate() {
            if at > 0 {
                self.json.push(b',');
            }
            self.json.extend_from_slice(key);
            write(&mut self.json, column, row.get_ref(at)?);
        }
        self.json.push(b'}');
        self.rows += 1;
        Ok(())
    }

    /// How many there are of those that were asked for.
    pub fn len(&self) -> u64 {
        self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The whole answer: `{"rows":[…],"more":false}`.
    pub fn into_json(self) -> Vec<u8> {
        let mut answer = Vec::with_capacity(self.json.len() + 32);
        answer.extend_from_slice(b"{\"rows\":[");
        answer.extend_from_slice(&self.json);
        answer.extend_from_slice(b"],\"more\":");
        put(&mut answer, &self.more);
        answer.push(b'}');
        answer
    }

    /// Row by row, for those who look at single values.
    pub fn rows(&self) -> Vec<Map<String, Value>> {
        let array = [b"[", &self.json[..], b"]"].concat();
        serde_json::from_slice(&array).unwrap_or_default()
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
