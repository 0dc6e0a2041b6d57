//! Names that should be UTF-8 and may be anything.

use std::borrow::Cow;

use record::bytes::Bytes;

/// The text; what is no UTF-8 in it is written as `\xNN`, since two names must not become one.
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| Bytes::from(bytes).to_string().into(), Cow::Borrowed)
}

/// A name, if there is one.
pub fn word(bytes: &[u8]) -> Option<String> {
    if matches!(bytes, b"" | b"(null)") { None } else { Some(text(bytes).into_owned()) }
}
