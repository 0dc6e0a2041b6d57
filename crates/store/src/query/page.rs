//! Part of a list: bounded in rows and in bytes, complete before anything of it is sent, and with the place where the next part
//! begins.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::{Map, Value};

/// Rows of one part, at most.
pub const ROWS: u64 = 10_000;
/// Bytes after which a part has no more rows. The last one may be larger than what was left.
pub const BYTES: usize = 8 << 20;

/// Where a list goes on: behind the row that these numbers name, or that stands at this position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct After(pub Vec<i128>);

impl After {
    /// Of a list whose rows are named by so many numbers.
    pub fn parse(text: &str, count: usize) -> Option<After> {
        let numbers: Result<Vec<i128>, _> = text.split('.').map(i128::from_str).collect();
        // Of a position, the database has no larger number.
        let is_place = |numbers: &Vec<i128>| match numbers[..] {
            [position] => count == 1 && (0..=i64::MAX.into()).contains(&position),
            _ => numbers.len() == count,
        };
        numbers.ok().filter(is_place).map(After)
    }

    /// The rows that came before, of a list that is known by positions only.
    pub fn position(&self) -> u64 {
        self.0.first().map_or(0, |position| u64::try_from(*position).unwrap_or(0))
    }
}

impl fmt::Display for After {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(i128::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

/// Rows as JSON.
#[derive(Debug, Default)]
pub struct Listed {
    /// Objects, with commas between them.
    json: Vec<u8>,
    rows: u64,
    /// `None` behind the last row.
    next: Option<String>,
}

impl Listed {
    /// As many as fit of the rows behind a position; one more than `limit` says that there are others.
    pub fn of_rows(rows: Vec<Map<String, Value>>, position: u64, limit: u64) -> Listed {
        let mut listed = Listed::default();
        for row in rows {
            if listed.rows == limit || listed.is_full() {
                listed.goes_on_after(&(position + listed.rows));
                break;
            }
            listed.add(&row);
        }
        listed
    }

    /// The same of rows that have numbers, by which the list goes on.
    pub fn of_numbered(rows: Vec<Map<String, Value>>, number: &str, limit: u64) -> Listed {
        let mut listed = Listed::default();
        let mut last = Value::Null;
        for row in rows {
            if listed.rows == limit || listed.is_full() {
                listed.goes_on_after(&last);
                break;
            }
            listed.add(&row);
            last = row.get(number).cloned().unwrap_or_default();
        }
        listed
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows >= ROWS || self.is_full_of_bytes()
    }

    pub(crate) fn is_full_of_bytes(&self) -> bool {
        self.json.len() >= BYTES
    }

    pub(crate) fn add(&mut self, row: &impl Serialize) {
        let json = self.begin();
        // Texts and numbers can all be written, into memory.
        let _ = serde_json::to_writer(json, row);
    }

    /// The next row is written here.
    pub(crate) fn begin(&mut self) -> &mut Vec<u8> {
        if self.rows > 0 {
            self.json.push(b',');
        }
        self.rows += 1;
        &mut self.json
    }

    pub(crate) fn goes_on_after(&mut self, place: &impl ToString) {
        self.next = Some(place.to_string());
    }

    pub fn len(&self) -> u64 {
        self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Where the next part begins.
    pub fn next(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// The whole answer: `{"rows":[…],"more":true,"next":"…"}`, with something besides.
    pub fn into_json(self, besides: &[(&str, Value)]) -> Vec<u8> {
        let mut answer = Vec::with_capacity(self.json.len() + 128);
        answer.extend_from_slice(b"{\"rows\":[");
        answer.extend_from_slice(&self.json);
        answer.push(b']');
        let (more, next) = (Value::from(self.next.is_some()), Value::from(self.next));
        for (name, value) in [("more", &more), ("next", &next)]
            .into_iter()
            .chain(besides.iter().map(|(name, value)| (*name, value)))
        {
            answer.extend_from_slice(format!(",\"{name}\":{value}").as_bytes());
        }
        answer.push(b'}');
        answer
    }

    /// Row by row, for those who look at single values.
    pub fn rows(&self) -> Vec<Map<String, Value>> {
        let array = [b"[", &self.json[..], b"]"].concat();
        serde_json::from_slice(&array).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(text: &str) -> Map<String, Value> {
        Map::from_iter([("a".to_owned(), json!(text))])
    }

    #[test]
    fn a_part_ends_at_its_rows_or_bytes() {
        let all = |listed: &Listed| (listed.len(), listed.next().map(str::to_owned));
        let rows = vec![row("x"); 4];
        assert_eq!(all(&Listed::of_rows(rows.clone(), 0, 4)), (4, None));
        assert_eq!(all(&Listed::of_rows(rows.clone(), 20, 3)), (3, Some("23".into())));
        let long = vec![row(&"y".repeat(BYTES / 2)); 4];
        assert_eq!(all(&Listed::of_rows(long, 0, 100)), (2, Some("2".into())));
        let many = vec![Map::new(); ROWS as usize + 1];
        assert_eq!(all(&Listed::of_rows(many, 0, u64::MAX)), (ROWS, Some(ROWS.to_string())));
        let json = Listed::of_rows(rows, 0, 1).into_json(&[("b", json!(7))]);
        assert_eq!(String::from_utf8(json).unwrap(), r#"{"rows":[{"a":"x"}],"more":true,"next":"1","b":7}"#);
    }

    #[test]
    fn places_are_read_back() {
        let after = After(vec![-5, 0, u64::MAX.into()]);
        assert_eq!(After::parse(&after.to_string(), 3), Some(after));
        for text in ["", "1", "1.2", "1.2.x", "1.2.3.4", "1.2.170141183460469231731687303715884105728"] {
            assert_eq!(After::parse(text, 3), None, "{text}");
        }
        assert_eq!(After::parse("7", 1).map(|after| after.position()), Some(7));
        // The database would end the question with an error.
        for position in ["-1", "9223372036854775808", "1.2"] {
            assert_eq!(After::parse(position, 1), None, "{position}");
        }
    }
}
