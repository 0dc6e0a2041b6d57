//! State files beside the spool: a damaged one is set aside and reported, so that it neither stops the agent nor is trusted.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::clock::wall_ns;
use crate::counters::Counters;
use crate::say::say;

/// What the name of a file that was set aside has behind its own: `shipped.corrupt-1800000000`.
const MARK: &str = ".corrupt-";

/// What was found in the place of a state file.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    /// Something that could not be read; it is set aside.
    Damaged,
    Content(Vec<u8>),
}

impl Found {
    /// The content; nothing if there is none.
    pub fn content(self) -> Option<Vec<u8>> {
        match self {
            Found::Content(bytes) => Some(bytes),
            Found::Nothing | Found::Damaged => None,
        }
    }
}

/// Reads a state file, and clears the place where its next version is written.
pub fn read(dir: &Path, name: &str, counters: &Counters) -> Found {
    clear(dir, &format!("{name}.new"), counters);
    if !clear(dir, name, counters) {
        return Found::Damaged;
    }
    match fs::read(dir.join(name)) {
        Ok(bytes) => Found::Content(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Nothing,
        Err(error) => {
            set_aside(dir, name, error, counters);
            Found::Damaged
        }
    }
}

/// Makes sure that what is in the place of a state file can be opened. A directory there would stop the agent, a FIFO would
/// hang it; `false` if something like that was set aside.
pub fn clear(dir: &Path, name: &str, counters: &Counters) -> bool {
    let trouble = trouble(&dir.join(name));
    if let Some(why) = &trouble {
        set_aside(dir, name, why, counters);
    }
    trouble.is_none()
}

fn trouble(path: &Path) -> Option<String> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(error.to_string()),
        Ok(meta) if !meta.is_file() => Some("not a regular file".into()),
        Ok(_) => OpenOptions::new().read(true).write(true).open(path).err().map(|error| error.to_string()),
    }
}

/// Keeps a damaged file for whoever wants to find out why, under a name that nobody reads.
pub fn set_aside(dir: &Path, name: &str, why: impl Display, counters: &Counters) {
    counters.state_files_damaged.one();
    let path = dir.join(name);
    let mut kept = dir.join(format!("{name}{MARK}{}", wall_ns() / 1_000_000_000));
    while kept.symlink_metadata().is_ok() {
        kept.as_mut_os_string().push("+");
    }
    match fs::rename(&path, &kept) {
        Ok(()) => say(format_args!("{} is damaged: {why}; it is kept as {}", path.display(), kept.display())),
        Err(error) => say(format_args!("{} is damaged: {why}; cannot set it aside: {error}", path.display())),
    }
}

/// The files that were set aside and nobody has removed.
pub fn set_aside_before(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let is_marked = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().contains(MARK);
    let mut found: Vec<PathBuf> = entries.filter(is_marked).map(|entry| entry.path()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_aside_what_is_no_regular_file() {
        let dir = tempfile::tempdir().unwrap();
        let counters = Counters::default();
        let read = || read(dir.path(), "clock", &counters);
        assert_eq!(read(), Found::Nothing);
        fs::write(dir.path().join("clock"), "x").unwrap();
        assert_eq!(read(), Found::Content(b"x".to_vec()));
        for n in 1..=3 {
            let _ = fs::remove_file(dir.path().join("clock"));
            fs::create_dir(dir.path().join("clock")).unwrap();
            assert_eq!(read(), Found::Damaged);
            assert_eq!(read(), Found::Nothing, "it is out of the way");
            assert_eq!(set_aside_before(dir.path()).len(), n, "each is kept, also in the same second");
        }
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("clock")).unwrap();
        assert_eq!(read(), Found::Damaged);
        assert_eq!(counters.state_files_damaged.get(), 4);
    }
}
