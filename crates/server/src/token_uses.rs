//! When each token was last used. It is in a file of its own, which only the server writes: whoever makes or revokes a token at the same
//! time loses nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::rounds::Rounds;
use crate::token_file::write_secret;

/// The file's name in the data directory.
const FILE: &str = "token-uses.json";
/// A use is noted again after this: agents send all the time.
const AGAIN: SignedDuration = SignedDuration::from_secs(60);
/// How often is looked for uses to write down.
const EVERY: Duration = Duration::from_secs(5);

/// The last use of each token, by the token's name.
pub type Last = BTreeMap<String, Timestamp>;

/// The uses of the tokens of a data directory.
#[derive(Debug)]
pub struct Uses {
    path: PathBuf,
    noted: Mutex<Noted>,
}

#[derive(Debug)]
struct Noted {
    last: Last,
    is_new: bool,
}

/// The last uses as the file has them; none if it cannot be read: to know them is no condition for anything.
pub fn load(dir: &Path) -> Last {
    fs::read(dir.join(FILE)).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

impl Uses {
    pub fn open(dir: &Path) -> Uses {
        Uses { path: dir.join(FILE), noted: Mutex::new(Noted { last: load(dir), is_new: false }) }
    }

    pub fn note(&self, token: &str, now: Timestamp) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.last.get(token).is_none_or(|last| now.duration_since(*last) >= AGAIN) {
            noted.last.insert(token.to_owned(), now);
            noted.is_new = true;
        }
    }

    /// Writes down what is new.
    fn keep(&self) -> io::Result<()> {
        let text = {
            let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
            if !std::mem::take(&mut noted.is_new) {
                return Ok(());
            }
            serde_json::to_string(&noted.last)?
        };
        write_secret(&self.path, &text)
    }

    /// Writes them down again and again, and once more when it is stopped.
    pub fn start_keeping(self: Arc<Uses>) -> io::Result<Keeping> {
        let uses = self.clone();
        let turn = move || {
            uses.keep_or_warn();
            Some(EVERY)
        };
        Ok(Keeping { rounds: Rounds::start("token-uses", turn)?, uses: self })
    }

    fn keep_or_warn(&self) {
        if let Err(error) = self.keep() {
            tracing::warn!(path = %self.path.display(), %error, "cannot write when tokens were used");
        }
    }
}

/// The thread that writes them down.
pub struct Keeping {
    rounds: Rounds,
    uses: Arc<Uses>,
}

impl Keeping {
    pub fn stop(self) {
        self.rounds.stop();
        self.uses.keep_or_warn();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_use_is_kept_to_the_minute() {
        let dir = tempfile::tempdir().unwrap();
        let uses = Uses::open(dir.path());
        let first: Timestamp = "2026-01-01T10:00:00Z".parse().unwrap();
        for (seconds, expected) in [(0, 0), (59, 0), (60, 60), (30, 60), (180, 180)] {
            let at = |seconds| first + SignedDuration::from_secs(seconds);
            uses.note("t1", at(seconds));
            uses.keep().unwrap();
            assert_eq!(load(dir.path()), Last::from([("t1".to_owned(), at(expected))]), "{seconds}");
        }
        fs::write(dir.path().join(FILE), "damaged").unwrap();
        assert!(Uses::open(dir.path()).noted.lock().unwrap().last.is_empty());
    }
}
