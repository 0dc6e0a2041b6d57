//! Units: `{"prefix": "G", "base": "B/s"}` or a text there, `GB/s` here.

use serde_json::{Value, json};

const PREFIXES: &[&str] = &["K", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "m", "u", "n"];
const BASES: &[&str] =
    &["B", "B/s", "F", "F/s", "Flops", "Flops/s", "W", "J", "Hz", "packets/s", "requests/s"];

/// The unit in one word, if there is one.
pub fn text(unit: &Value) -> Option<String> {
    let part = |key: &str| unit.get(key).and_then(Value::as_str).unwrap_or_default();
    let text = unit.as_str().map_or_else(|| format!("{}{}", part("prefix"), part("base")), str::to_owned);
    Some(text).filter(|text| !text.is_empty())
}

/// The unit in theirs. What is not known to have a prefix is a base.
pub fn object(text: Option<&str>) -> Value {
    let text = text.unwrap_or_default();
    let known = |prefix: &&&str| text.strip_prefix(**prefix).is_some_and(|base| BASES.contains(&base));
    match PREFIXES.iter().find(known) {
        Some(prefix) => json!({"prefix": prefix, "base": &text[prefix.len()..]}),
        None => json!({"base": text}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_go_both_ways() {
        for (theirs, ours) in [
            (json!({"prefix": "G", "base": "B/s"}), Some("GB/s")),
            (json!({"prefix": "M", "base": "Hz"}), Some("MHz")),
            (json!({"prefix": "Ki", "base": "B"}), Some("KiB")),
            (json!({"base": "W"}), Some("W")),
            (json!({"base": "load"}), Some("load")),
            (json!({"base": ""}), None),
        ] {
            assert_eq!(text(&theirs).as_deref(), ours, "{theirs}");
            assert_eq!(object(ours), theirs);
        }
        for (theirs, ours) in
            [(json!("MB"), Some("MB")), (json!(null), None), (json!(7), None), (json!({}), None)]
        {
            assert_eq!(text(&theirs).as_deref(), ours, "{theirs}");
        }
    }
}
