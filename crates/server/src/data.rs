//! The data directory: one server at a time, its database, its tokens.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};

use crate::private;
use crate::serve::SITE;
use crate::token_file;
use crate::tokens::{self, Grant};

/// Held by the server that serves from the directory.
const LOCK: &str = "lock";

/// A data directory that is ours until this is dropped.
pub struct DataDir {
    pub path: PathBuf,
    _lock: File,
}

/// What a data directory has before its first server.
const BEFORE: [&str; 3] = [SITE, LOCK, token_file::LOCK];

/// Whose mode is changed must be a data directory: not somebody's home that was named by mistake.
fn check_own(path: &Path) -> anyhow::Result<()> {
    if path.join(token_file::FILE).exists() || path.join(store::FILE).exists() {
        return Ok(());
    }
    let entries = fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    for entry in entries {
        let name = entry?.file_name();
        if !BEFORE.iter().any(|known| name == *known) {
            bail!(
                "{} has {name:?} in it and is no data directory: give the server a directory of its own",
                path.display()
            );
        }
    }
    Ok(())
}

impl DataDir {
    /// Takes the directory, and makes it and its first tokens if they are not there.
    pub fn open(path: &Path) -> anyhow::Result<DataDir> {
        // Records say what users run: nobody else looks at them.
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.with_context(|| format!("cannot make the data directory {}", path.display()))?;
        check_own(path)?;
        private::only_owner(path)?;
        let file = path.join(LOCK);
        let lock = private::create(&file).with_context(|| format!("cannot write {}", file.display()))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("{} is in use by another jobglass-server", path.display());
        }
        let dir = DataDir { path: path.to_owned(), _lock: lock };
        dir.make_first_tokens().with_context(|| format!("cannot write the tokens in {}", path.display()))?;
        Ok(dir)
    }

    /// The administrator's token, and one for agents on this machine.
    fn make_first_tokens(&self) -> io::Result<()> {
        for (id, grant) in [("admin", Grant::Admin), ("ingest", Grant::Ingest)] {
            let made: io::Result<()> = token_file::change(&self.path.join(token_file::FILE), |content| {
                if content.tokens.iter().any(|token| token.id == id) {
                    return Ok(());
                }
                let (secret, token) = tokens::make(id, grant, None)?;
                content.tokens.push(token);
                token_file::write_secret(&self.path.join(format!("{id}.token")), &secret)
            });
            made?;
        }
        Ok(())
    }
}
