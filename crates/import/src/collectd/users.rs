//! Who may sign and encrypt: a file of collectd's `AuthFile`, one `user: secret` a line.

use std::collections::HashMap;
use std::fmt;

use crate::utf8::text;

/// Users and their secrets, which are never shown.
#[derive(Clone, Default)]
pub struct Users(HashMap<Vec<u8>, Vec<u8>>);

/// A line that names no user. Its text may be a secret and is not repeated.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: not of the form `user: secret`")]
pub struct BadLine {
    pub file: String,
    pub line: usize,
}

impl Users {
    /// Reads a whole file, or says which line of it is none.
    pub fn parse(bytes: &[u8], file: &str) -> Result<Users, BadLine> {
        let mut users = HashMap::new();
        for (line, bytes) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            let bytes = bytes.trim_ascii();
            if bytes.is_empty() || bytes.starts_with(b"#") {
                continue;
            }
            let (user, secret) = user(bytes).ok_or_else(|| BadLine { file: file.to_owned(), line })?;
            users.insert(user.to_vec(), secret.to_vec());
        }
        Ok(Users(users))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn secret(&self, user: &[u8]) -> Option<&[u8]> {
        self.0.get(user).map(Vec::as_slice)
    }
}

fn user(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (user, secret) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
    (!user.is_empty() && !secret.is_empty()).then_some((user, secret))
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys().map(|user| text(user))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_users() {
        let users = Users::parse(b"# who\n\nann: top: secret \r\n  bob:x\n", "auth").unwrap();
        assert_eq!(users.secret(b"ann"), Some(&b"top: secret"[..]));
        assert_eq!((users.secret(b"bob"), users.secret(b"eve")), (Some(&b"x"[..]), None));
        for text in ["ann", "ann:", ": x", "ok: x\n\nann"] {
            let error = Users::parse(text.as_bytes(), "auth").unwrap_err().to_string();
            let line = text.lines().count();
            assert_eq!(error, format!("auth:{line}: not of the form `user: secret`"), "{text}");
        }
        let shown = format!("{users:?}");
        assert!(shown.contains("ann") && !shown.contains("secret"), "{shown}");
    }
}
