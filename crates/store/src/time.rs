//! Times as text.

use jiff::Timestamp;

/// Nanoseconds since 1970 as text that sorts: UTC, microseconds.
pub fn text(ns: i64) -> String {
    match Timestamp::from_nanosecond(i128::from(ns)) {
        Ok(time) => format!("{time:.6}"),
        Err(_) => ns.to_string(),
    }
}
