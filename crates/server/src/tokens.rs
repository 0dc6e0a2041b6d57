//! Who may do what: tokens, kept as hashes in a file of the data directory.
//!
//! The file is read again when it has changed, so that a token revoked by `jobglass-server token revoke` is
//! refused from the next request on, without a restart.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use jiff::Timestamp;
use record::bytes::hex;
use record::enroll;
use serde::{Deserialize, Serialize};

use crate::enrollment::Enrolled;
use crate::secret::Digest;
use crate::token_file::{FILE, load};
use crate::token_uses::Uses;

/// What a token is good for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Grant {
    /// Reads everything, changes everything.
    Admin,
    /// Sends records of any host, but only from this machine.
    Ingest,
    /// Sends records of one host.
    Node { host: String },
    /// Asks as somebody, and may what they may.
    User { user: String },
    /// Lets agents of hosts in a list have tokens of their own, of so many hosts at most.
    Enroll { hosts: String, uses: u32 },
}

/// A token as it is kept: not the token itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// How people call it.
    pub id: String,
    #[serde(flatten)]
    pub grant: Grant,
    pub hash: Digest,
    pub created: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Timestamp>,
    /// How a host's agent came by it, if nobody gave it one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrolled: Option<Enrolled>,
}

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("no token was sent: add the header Authorization: Bearer TOKEN")]
    None,
    #[error("this token is not known here")]
    Unknown,
    #[error("this token has expired")]
    Expired,
    #[error("this token was revoked")]
    Revoked,
}

/// The tokens of a data directory.
pub struct Tokens {
    path: PathBuf,
    read: Mutex<Read>,
    pub uses: Arc<Uses>,
}

#[derive(Default)]
struct Read {
    stamp: Option<(u64, u64, i64, i64)>,
    by_hash: Arc<HashMap<Digest, Token>>,
}

impl Tokens {
    /// The tokens in `dir`; an absent file has none.
    pub fn open(dir: &Path) -> io::Result<Tokens> {
        let uses = Arc::new(Uses::open(dir));
        let tokens = Tokens { path: dir.join(FILE), read: Mutex::default(), uses };
        load(&tokens.path)?;
        Ok(tokens)
    }

    /// What the token in an `Authorization` header is good for.
    pub fn check(&self, header: Option<&str>, now: Timestamp) -> Result<Token, Refused> {
        let secret = header.and_then(|value| value.strip_prefix("Bearer ")).ok_or(Refused::None)?;
        let token = self.current().get(&Digest::of(secret.trim())).cloned().ok_or(Refused::Unknown)?;
        token.check(now)?;
        self.uses.note(&token.id, now);
        Ok(token)
    }

    /// Whom a request counts for: a user, or what else a token stands for; all that have none are one.
    pub fn user(&self, headers: &HeaderMap) -> String {
        let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        match self.check(header, Timestamp::now()) {
            Ok(Token { grant: Grant::User { user }, .. }) => user,
            // No user is called so.
            Ok(token) => format!("token {}", token.id),
            Err(_) => String::new(),
        }
    }

    /// The tokens as the file has them; the last ones that could be read if it is damaged.
    fn current(&self) -> Arc<HashMap<Digest, Token>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = fs::metadata(&self.path)
            .ok()
            .map(|meta| (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()));
        if stamp != read.stamp {
            match load(&self.path) {
                Ok(content) => {
                    let tokens = content.tokens.into_iter();
                    read.by_hash = Arc::new(tokens.map(|token| (token.hash, token)).collect());
                }
                Err(error) => tracing::error!(path = %self.path.display(), %error, "cannot read the tokens"),
            }
            read.stamp = stamp;
        }
        read.by_hash.clone()
    }
}

impl Token {
    /// Whether it is still good.
    pub fn check(&self, now: Timestamp) -> Result<(), Refused> {
        if self.revoked.is_some() {
            return Err(Refused::Revoked);
        }
        match self.expires {
            Some(expires) if expires <= now => Err(Refused::Expired),
            _ => Ok(()),
        }
    }

    /// Whether it is the token of a host.
    pub fn is_of(&self, host: &str) -> bool {
        matches!(&self.grant, Grant::Node { host: own } if own == host)
    }

    /// Whether this token may speak for any host at all, when it comes from an address.
    pub fn may_send(&self, from: IpAddr) -> bool {
        match &self.grant {
            Grant::Admin | Grant::User { .. } | Grant::Enroll { .. } => false,
            Grant::Ingest => from.to_canonical().is_loopback(),
            Grant::Node { .. } => true,
        }
    }

    /// Whether this token may speak for a host, when it comes from an address.
    pub fn speaks_for(&self, host: &str, from: IpAddr) -> bool {
        let is_own = |own: &String| own == host;
        self.may_send(from) && !matches!(&self.grant, Grant::Node { host: own } if !is_own(own))
    }
}

/// Makes a token: the secret to hand out, and what is kept of it.
pub fn make(id: &str, grant: Grant, expires: Option<Timestamp>) -> io::Result<(String, Token)> {
    let mut random = [0; 32];
    let mut filled = 0;
    while filled < random.len() {
        filled += rustix::rand::getrandom(&mut random[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    let secret = match grant {
        Grant::Admin => format!("jga_{}", hex(&random)),
        Grant::Ingest => format!("jgi_{}", hex(&random)),
        Grant::Node { .. } => enroll::token(&random),
        Grant::User { .. } => format!("jgu_{}", hex(&random)),
        Grant::Enroll { .. } => format!("jge_{}", hex(&random)),
    };
    let (hash, created) = (Digest::of(&secret), Timestamp::now());
    let id = id.to_owned();
    Ok((secret, Token { id, grant, hash, created, expires, revoked: None, enrolled: None }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token_file::{Content, change};

    /// Puts these in place of those that are there.
    fn save(path: &Path, tokens: Vec<Token>) {
        let replaced: io::Result<()> = change(path, |content| {
            *content = Content { tokens, ..Content::default() };
            Ok(())
        });
        replaced.unwrap();
    }

    #[test]
    fn who_may_speak_for_whom() {
        let (near, far): (IpAddr, IpAddr) =
            ("::ffff:127.0.0.1".parse().unwrap(), "10.0.0.1".parse().unwrap());
        let node = Grant::Node { host: "n1".into() };
        for (grant, host, from, expected) in [
            (Grant::Admin, "n1", near, false),
            (Grant::Ingest, "n1", near, true),
            (Grant::Ingest, "n1", far, false),
            (Grant::User { user: "n1".into() }, "n1", near, false),
            (Grant::Enroll { hosts: "n1".into(), uses: 1 }, "n1", near, false),
            (node.clone(), "n1", far, true),
            (node, "n2", near, false),
        ] {
            let (_, token) = make("t", grant.clone(), None).unwrap();
            assert_eq!(token.speaks_for(host, from), expected, "{grant:?} {host} {from}");
        }
    }

    #[test]
    fn a_change_of_the_file_counts_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let tokens = Tokens::open(dir.path()).unwrap();
        let now = Timestamp::now();
        let (secret, token) =
            make("a", Grant::Admin, Some(now + jiff::SignedDuration::from_secs(60))).unwrap();
        let header = format!("Bearer {secret}");
        assert_eq!(tokens.check(None, now), Err(Refused::None));
        assert_eq!(tokens.check(Some("Basic x"), now), Err(Refused::None));
        assert_eq!(tokens.check(Some(&header), now), Err(Refused::Unknown));
        save(&path, vec![token.clone()]);
        assert_eq!(tokens.check(Some(&header), now), Ok(token.clone()));
        assert_eq!(
            tokens.check(Some(&header), now + jiff::SignedDuration::from_secs(61)),
            Err(Refused::Expired)
        );
        let good = fs::read(&path).unwrap();
        fs::write(&path, "damaged").unwrap();
        assert_eq!(tokens.check(Some(&header), now), Ok(token.clone()), "the last good ones");
        assert!(Tokens::open(dir.path()).is_err(), "but it does not begin with a damaged file");
        fs::write(&path, good).unwrap();
        save(&path, vec![Token { revoked: Some(now), ..token }]);
        assert_eq!(tokens.check(Some(&header), now), Err(Refused::Revoked));
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o600);
    }
}
