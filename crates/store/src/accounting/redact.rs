//! Takes secrets out of what people wrote about their jobs: command lines, comments, scripts. Here, where all accounting
//! records become rows, so that no importer has to think of it.

use std::borrow::Cow;
use std::sync::LazyLock;

use record::rules::{Deep, REDACTED, Rules};
use serde_json::Value;

/// By the rules that hold everywhere: those of a site are its agents'.
static REDACTOR: LazyLock<Deep<'static>> = LazyLock::new(|| Deep::new(Rules::builtin()));

/// A text without its secrets. To take each job's name apart as a command line took a tenth of an import.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    if REDACTOR.is_plain(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(String::from_utf8_lossy(&REDACTOR.text(text.as_bytes())).into_owned())
}

/// A JSON value without its secrets: those of keys that say so, and those in its texts.
pub(super) fn json(value: &mut Value) {
    match value {
        Value::String(content) => *content = text(content).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(json),
        Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| match value {
            Value::String(_) | Value::Number(_) if REDACTOR.is_secret_name(key) => {
                *value = String::from_utf8_lossy(REDACTED).into();
            }
            _ => json(value),
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
