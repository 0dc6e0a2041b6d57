//! Has tags and people declared anew when the site's file has changed: a rule applies to new jobs at once, without a restart.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use store::{Site, Store};

use crate::committer::Committer;
use crate::rounds::Rounds;

/// How often the file is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// When the file was changed last; `None` without one.
type Stamp = Option<(SystemTime, u64)>;

pub fn start(path: PathBuf, store: Arc<Store>, committer: Committer) -> std::io::Result<Rounds> {
    let mut last = stamp(&path);
    Rounds::start("rules", move || {
        let now = stamp(&path);
        if now != last {
            last = now;
            match change(&path, &committer) {
                Ok(()) => tell(&path, &store),
                // As it was, until the file makes sense.
                Err(error) => tracing::error!(error, "the site's tags and people stay as they were"),
            }
        }
        Some(EVERY)
    })
}

fn stamp(path: &Path) -> Stamp {
    let meta = fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

fn change(path: &Path, committer: &Committer) -> Result<(), String> {
    let said = match fs::read(path).map(String::from_utf8) {
        Ok(Ok(text)) => Site::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?,
        Ok(Err(_)) => return Err(format!("{} is not text", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Site::shipped().map_err(|error| error.to_string())?
        }
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let changed = committer.perform(move |writer| writer.change_rules(&said));
    changed.map_err(|error| error.to_string())?.map_err(|error| format!("{}: {error}", path.display()))
}

fn tell(path: &Path, store: &Store) {
    let declared = store.tags();
    tracing::info!(path = %path.display(), rules = declared.set, tags = declared.tags.len(), "tags and people are declared anew");
    for refused in &declared.refused {
        tracing::warn!("a tag cannot be declared: {refused}");
    }
}
