//! Takes secrets out of what people wrote about their jobs: command lines, comments, scripts. Here, where all accounting
//! records become rows, so that no importer has to think of it.

use record::rules::{Deep, REDACTED, Rules};
use serde_json::Value;

/// A text without its secrets.
pub(super) fn text(deep: &Deep, text: &str) -> String {
    String::from_utf8_lossy(&deep.text(text.as_bytes())).into_owned()
}

/// By the rules that hold everywhere: those of a site are its agents'.
pub(super) fn redactor() -> Deep<'static> {
    Deep::new(Rules::builtin())
}

/// A JSON value without its secrets: those of keys that say so, and those in its texts.
pub(super) fn json(deep: &Deep, value: &mut Value) {
    match value {
        Value::String(content) => *content = text(deep, content),
        Value::Array(items) => items.iter_mut().for_each(|item| json(deep, item)),
        Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| match value {
            Value::String(_) | Value::Number(_) if deep.is_secret_name(key) => {
                *value = String::from_utf8_lossy(REDACTED).into();
            }
            _ => json(deep, value),
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
