//! The agent's own token: made here, enrolled with the server by an enrollment token, and kept beside the spool.
//!
//! `token` is good. `token.asked` is one that was made and that the server has not said yes to, as far as is known: it is on disk before it
//! is sent, so that an agent that is killed before it has the answer asks again with the same one. The server then says yes once more, and
//! the host is not enrolled twice.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use record::enroll::{is_token, token};

use crate::counters::Counters;
use crate::state;

/// The files' names in the spool's directory.
const OWN: &str = "token";
const ASKED: &str = "token.asked";
const NEW: &str = "token.new";

/// How an agent gets its own token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrollment {
    /// The file with the enrollment token.
    pub file: PathBuf,
    /// The spool's directory.
    pub dir: PathBuf,
    /// The name to be enrolled.
    pub host: String,
}

/// Where an agent keeps its own token.
pub fn own_token_file(spool: &Path) -> PathBuf {
    spool.join(OWN)
}

/// The mode of a file that should be secret, if others than its owner may read or change it.
pub fn open_to_others(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.mode() & 0o7777;
    (mode & 0o077 != 0).then_some(mode)
}

impl Enrollment {
    /// Sets aside what is damaged of the tokens that are kept; the agent then makes another one.
    pub fn clear(&self, counters: &Counters) {
        for name in [OWN, ASKED, NEW] {
            let is_file = state::clear(&self.dir, name, counters);
            let is_damaged = || fs::read(self.dir.join(name)).is_ok_and(|text| parse(&text).is_none());
            if is_file && name != NEW && is_damaged() {
                state::set_aside(&self.dir, name, "no token is in it", counters);
            }
        }
    }

    /// The token that the server has enrolled, if there is one.
    pub fn own(&self) -> io::Result<Option<String>> {
        read(&self.dir.join(OWN))
    }

    /// The token to be enrolled: the one that was asked with before, or a new one, which is on disk when this returns.
    pub fn asked(&self) -> io::Result<String> {
        let path = self.dir.join(ASKED);
        if let Some(asked) = read(&path)? {
            return Ok(asked);
        }
        let (made, new) = (token(&super::random()?), self.dir.join(NEW));
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new)?;
        writeln!(file, "{made}")?;
        file.sync_all()?;
        fs::rename(new, path)?;
        self.sync_dir()?;
        Ok(made)
    }

    /// The server has enrolled what was asked: it is the agent's own token from now on.
    pub fn accept(&self) -> io::Result<()> {
        fs::rename(self.dir.join(ASKED), self.dir.join(OWN))?;
        self.sync_dir()
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read(path) {
        Ok(text) => Ok(parse(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn parse(text: &[u8]) -> Option<String> {
    let text = str::from_utf8(text).ok()?.trim();
    is_token(text).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_was_asked_is_asked_again_until_it_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let enrollment = Enrollment { file: "unused".into(), dir: dir.path().to_owned(), host: "n1".into() };
        assert_eq!(enrollment.own().unwrap(), None);
        let asked = enrollment.asked().unwrap();
        assert!(is_token(&asked));
        assert_eq!(enrollment.asked().unwrap(), asked, "as after a kill");
        assert_eq!(enrollment.own().unwrap(), None);
        enrollment.accept().unwrap();
        assert_eq!(enrollment.own().unwrap(), Some(asked.clone()));
        let path = own_token_file(dir.path());
        assert_eq!(open_to_others(&path), None);
        let next = enrollment.asked().unwrap();
        assert_ne!(next, asked);
        assert_eq!(enrollment.own().unwrap(), Some(asked.clone()), "until the next one is accepted");
        let counters = Counters::default();
        enrollment.clear(&counters);
        assert_eq!((enrollment.own().unwrap(), counters.state_files_damaged.get()), (Some(asked), 0));
        fs::write(&path, "half a tok").unwrap();
        enrollment.clear(&counters);
        assert_eq!((enrollment.own().unwrap(), counters.state_files_damaged.get()), (None, 1));
        assert_eq!(enrollment.asked().unwrap(), next);
        fs::set_permissions(dir.path().join(ASKED), fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(open_to_others(&dir.path().join(ASKED)), Some(0o640));
    }
}
