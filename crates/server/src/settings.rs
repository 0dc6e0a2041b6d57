//! What the server wishes of agents, in a file of the data directory; it is read again when it has changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use record::batch::Settings;

use crate::token_file::write_secret;

/// The file's name in the data directory.
pub const FILE: &str = "settings.json";

/// The wishes of a data directory.
pub struct Wishes {
    path: PathBuf,
    read: Mutex<(Option<SystemTime>, Settings)>,
}

impl Wishes {
    pub fn open(dir: &Path) -> Wishes {
        Wishes { path: dir.join(FILE), read: Mutex::default() }
    }

    /// What the file says now; the last good word if it is damaged, nothing if it is not there.
    pub fn current(&self) -> Settings {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = fs::metadata(&self.path).and_then(|meta| meta.modified()).ok();
        if stamp != read.0 {
            read.0 = stamp;
            match load(&self.path) {
                Ok(settings) => read.1 = settings,
                Err(error) => {
                    tracing::error!(path = %self.path.display(), %error, "cannot read the settings")
                }
            }
        }
        read.1.clone()
    }
}

fn load(path: &Path) -> io::Result<Settings> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Settings::default()),
        Err(error) => Err(error),
    }
}

/// Switches all agents on or off: each hears it with its next batch.
pub fn switch(dir: &Path, enabled: bool) -> io::Result<()> {
    let text = serde_json::to_string(&Settings { enabled: Some(enabled) })?;
    write_secret(&dir.join(FILE), &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_file_counts_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let wishes = Wishes::open(dir.path());
        assert_eq!(wishes.current(), Settings::default());
        switch(dir.path(), false).unwrap();
        assert_eq!(wishes.current().enabled, Some(false));
        fs::write(dir.path().join(FILE), "damaged").unwrap();
        assert_eq!(wishes.current().enabled, Some(false));
        fs::remove_file(dir.path().join(FILE)).unwrap();
        assert_eq!(wishes.current().enabled, None);
    }
}
