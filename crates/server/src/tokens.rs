//! Who may do what: tokens, kept as hashes in a file of the data directory.
//!
//! The file is read again when it has changed, so that a token revoked by `jobglass-server token revoke` is
//! refused from the next request on, without a restart.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use jiff::Timestamp;
use record::bytes::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::token_uses::Uses;

/// The file's name in the data directory.
pub const FILE: &str = "tokens.json";

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
}

/// A token as it is kept: not the token itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// How people call it.
    pub id: String,
    #[serde(flatten)]
    pub grant: Grant,
    /// SHA-256 of the token, in hexadecimal.
    pub hash: String,
    pub created: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Timestamp>,
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

#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    tokens: Vec<Token>,
}

/// The tokens of a data directory.
pub struct Tokens {
    path: PathBuf,
    read: Mutex<Read>,
    pub uses: Arc<Uses>,
}

#[derive(Default)]
struct Read {
    stamp: Option<(u64, i64, i64)>,
    by_hash: Arc<HashMap<String, Token>>,
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
        let token = self.current().get(&hash(secret.trim())).cloned().ok_or(Refused::Unknown)?;
        if token.revoked.is_some() {
            return Err(Refused::Revoked);
        }
        if token.expires.is_some_and(|expires| expires <= now) {
            return Err(Refused::Expired);
        }
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
    fn current(&self) -> Arc<HashMap<String, Token>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = fs::metadata(&self.path).ok().map(|meta| (meta.ino(), meta.mtime(), meta.mtime_nsec()));
        if stamp != read.stamp {
            match load(&self.path) {
                Ok(tokens) => {
                    read.by_hash =
                        Arc::new(tokens.into_iter().map(|token| (token.hash.clone(), token)).collect());
                }
                Err(error) => tracing::error!(path = %self.path.display(), %error, "cannot read the tokens"),
            }
            read.stamp = stamp;
        }
        read.by_hash.clone()
    }
}

impl Token {
    /// Whether this token may speak for any host at all, when it comes from an address.
    pub fn may_send(&self, from: IpAddr) -> bool {
        match &self.grant {
            Grant::Admin | Grant::User { .. } => false,
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

/// All tokens in a file.
pub fn load(path: &Path) -> io::Result<Vec<Token>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let content: Content = serde_json::from_slice(&text).map_err(|error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
    })?;
    Ok(content.tokens)
}

/// Puts a whole new file in place of the old one.
pub fn save(path: &Path, tokens: Vec<Token>) -> io::Result<()> {
    let text = serde_json::to_string_pretty(&Content { tokens })?;
    write_secret(path, &text)
}

/// Writes a file that only its owner can read, and that is there as a whole or not at all.
pub fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    writeln!(file, "{text}")?;
    give_to_owner(&file, path)?;
    file.sync_all()?;
    fs::rename(new, path)
}

/// What root writes into a server's directory belongs to the server.
fn give_to_owner(file: &fs::File, path: &Path) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let dir = fs::metadata(path.parent().unwrap_or(Path::new(".")))?;
    std::os::unix::fs::fchown(file, Some(dir.uid()), Some(dir.gid()))
}

/// Makes a token with the next free name and adds it to the file; returns the secret.
pub fn add(path: &Path, grant: Grant, expires: Option<Timestamp>) -> io::Result<String> {
    Ok(add_all(path, vec![grant], expires)?.concat())
}

/// Makes a token for each of these, all of them or none; returns the secrets in the same order.
pub fn add_all(path: &Path, grants: Vec<Grant>, expires: Option<Timestamp>) -> io::Result<Vec<String>> {
    let _one = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut known = load(path)?;
    let last = known.iter().filter_map(|token| token.id.strip_prefix('t')?.parse::<u64>().ok()).max();
    let mut secrets = Vec::new();
    for (number, grant) in (last.unwrap_or(0) + 1..).zip(grants) {
        let (secret, token) = make(&format!("t{number}"), grant, expires)?;
        known.push(token);
        secrets.push(secret);
    }
    save(path, known)?;
    Ok(secrets)
}

/// Of two who add a token at the same time, one would be forgotten.
static ADDING: Mutex<()> = Mutex::new(());

/// Makes a token: the secret to hand out, and what is kept of it.
pub fn make(id: &str, grant: Grant, expires: Option<Timestamp>) -> io::Result<(String, Token)> {
    let mut random = [0; 32];
    let mut filled = 0;
    while filled < random.len() {
        filled += rustix::rand::getrandom(&mut random[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    let kind = match grant {
        Grant::Admin => "jga",
        Grant::Ingest => "jgi",
        Grant::Node { .. } => "jgn",
        Grant::User { .. } => "jgu",
    };
    let secret = format!("{kind}_{}", hex(&random));
    let created = Timestamp::now();
    let token = Token { id: id.to_owned(), grant, hash: hash(&secret), created, expires, revoked: None };
    Ok((secret, token))
}

fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        save(&path, vec![token.clone()]).unwrap();
        assert_eq!(tokens.check(Some(&header), now), Ok(token.clone()));
        assert_eq!(
            tokens.check(Some(&header), now + jiff::SignedDuration::from_secs(61)),
            Err(Refused::Expired)
        );
        fs::write(&path, "damaged").unwrap();
        assert_eq!(tokens.check(Some(&header), now), Ok(token.clone()), "the last good ones");
        assert!(Tokens::open(dir.path()).is_err(), "but it does not begin with a damaged file");
        save(&path, vec![Token { revoked: Some(now), ..token }]).unwrap();
        assert_eq!(tokens.check(Some(&header), now), Err(Refused::Revoked));
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o600);
    }
}
