//! The file of tokens in the data directory: read whole, changed by one at a time, and written whole.
//!
//! The server, the command beside it and the login socket all change it, so whoever does holds a lock meanwhile: of two changes at the same
//! time, one would be lost.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::enrollment::{Approval, Waiting};
use crate::tokens::{Grant, Token, make};

/// The file's name in the data directory.
pub const FILE: &str = "tokens.json";
/// Held by whoever changes the file.
pub const LOCK: &str = "tokens.lock";

/// What the file holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Content {
    pub tokens: Vec<Token>,
    /// Agents that ask for a name which has been enrolled before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Waiting>,
    /// Names that may be enrolled once more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<Approval>,
}

impl Content {
    /// The next free name of a token.
    pub fn next_id(&self) -> String {
        let numbers = self.tokens.iter().filter_map(|token| token.id.strip_prefix('t')?.parse::<u64>().ok());
        format!("t{}", numbers.max().unwrap_or(0) + 1)
    }
}

/// What a file holds; an absent one has nothing.
pub fn load(path: &Path) -> io::Result<Content> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::default()),
        Err(error) => return Err(error),
    };
    serde_json::from_slice(&text)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display())))
}

/// Changes what a file holds, and returns when that is on disk; nobody else changes it meanwhile. Where `change` fails, nothing is changed.
pub fn change<T, E: From<io::Error>>(
    path: &Path,
    change: impl FnOnce(&mut Content) -> Result<T, E>,
) -> Result<T, E> {
    let _lock = lock(path)?;
    let before = load(path)?;
    let mut content = before.clone();
    let changed = change(&mut content)?;
    if content != before {
        write_secret(path, &serde_json::to_string_pretty(&content).map_err(io::Error::from)?)?;
    }
    Ok(changed)
}

/// Released when it is dropped, and by the kernel however the process ends.
fn lock(path: &Path) -> io::Result<File> {
    let file = dir_of(path).join(LOCK);
    let lock = File::options().write(true).create(true).truncate(false).mode(0o600).open(&file)?;
    give_to_owner(&lock, path)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

/// Writes a file that only its owner can read, and that is there as a whole or not at all, also after a crash of the machine.
pub fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    writeln!(file, "{text}")?;
    give_to_owner(&file, path)?;
    file.sync_all()?;
    fs::rename(new, path)?;
    File::open(dir_of(path))?.sync_all()
}

fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What root writes into a server's directory belongs to the server.
fn give_to_owner(file: &File, path: &Path) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let dir = fs::metadata(dir_of(path))?;
    std::os::unix::fs::fchown(file, Some(dir.uid()), Some(dir.gid()))
}

/// Makes a token with the next free name and adds it to the file; returns the secret.
pub fn add(path: &Path, grant: Grant, expires: Option<Timestamp>) -> io::Result<String> {
    Ok(add_all(path, vec![grant], expires)?.concat())
}

/// Makes a token for each of these, all of them or none; returns the secrets in the same order.
pub fn add_all(path: &Path, grants: Vec<Grant>, expires: Option<Timestamp>) -> io::Result<Vec<String>> {
    change(path, |content| grants.into_iter().map(|grant| add_to(content, grant, expires)).collect())
}

/// Makes a token and adds it to what a file holds; returns the secret.
pub fn add_to(content: &mut Content, grant: Grant, expires: Option<Timestamp>) -> io::Result<String> {
    let (secret, token) = make(&content.next_id(), grant, expires)?;
    content.tokens.push(token);
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_at_the_same_time_are_all_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        std::thread::scope(|scope| {
            for at in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    for n in 0..5 {
                        add(path, Grant::Node { host: format!("n{at}-{n}") }, None).unwrap();
                    }
                });
            }
        });
        let content = load(&path).unwrap();
        let mut ids: Vec<&str> = content.tokens.iter().map(|token| token.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((content.tokens.len(), ids.len()), (40, 40));
        for name in [FILE, LOCK] {
            let mode = fs::metadata(dir.path().join(name)).unwrap().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn a_change_that_fails_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        add(&path, Grant::Admin, None).unwrap();
        let before = fs::read(&path).unwrap();
        let failed: io::Result<()> = change(&path, |content| {
            content.tokens.clear();
            Err(io::ErrorKind::Other.into())
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}
