//! How far the agent has come, in a file that outlives it: a killed agent's successor knows what it missed.
//!
//! Two records of fixed size, written in place without syncing: a killed process's writes stay in the page
//! cache, and after a crash of the machine nothing that ran before matters.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

const NAME: &str = "progress";
const RECORD: usize = 64;
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What the main thread knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Which boot of the machine this is about.
    pub boot: u64,
    /// Time of day.
    pub time: u64,
    /// Forks since boot that were seen, or happened before the agent.
    pub forks: u64,
    /// Images that have ended so far.
    pub ended: u64,
    /// Processes that run.
    pub live: u64,
    /// The agent has stopped in good order.
    pub stopped: bool,
}

/// The file.
pub struct ProgressFile {
    file: File,
}

/// What an earlier agent left: its progress, and how many of the ended images it had put away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    pub progress: Progress,
    pub put_away: u64,
}

/// This boot of the machine.
pub fn this_boot() -> u64 {
    fs::read(BOOT_ID).map(|id| xxh3_64(&id)).unwrap_or(0)
}

impl ProgressFile {
    /// Opens the file in a spool's directory, and reads what is there.
    pub fn open(dir: &Path) -> io::Result<(ProgressFile, Option<Left>)> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o640)
            .open(dir.join(NAME))?;
        let words = |at: usize| read_words(&file, (at * RECORD) as u64);
        let left = words(0).map(|[boot, time, forks, ended, live, stopped]| Left {
            progress: Progress { boot, time, forks, ended, live, stopped: stopped != 0 },
            put_away: words(1).map_or(0, |words| words[0]),
        });
        Ok((ProgressFile { file }, left))
    }

    /// Another handle, for the thread that writes the spool.
    pub fn try_clone(&self) -> io::Result<ProgressFile> {
        Ok(ProgressFile { file: self.file.try_clone()? })
    }

    pub fn write(&self, progress: &Progress) {
        let Progress { boot, time, forks, ended, live, stopped } = *progress;
        self.write_words(0, [boot, time, forks, ended, live, stopped.into()]);
    }

    /// How many images are in the spool, or dropped and counted.
    pub fn write_put_away(&self, images: u64) {
        self.write_words(1, [images, 0, 0, 0, 0, 0]);
    }

    /// A full disk keeps what was there before, which is the safe side: the gap seems larger than it is.
    fn write_words(&self, record: usize, words: [u64; 6]) {
        let mut bytes = [0; RECORD];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let sum = xxh3_64(&bytes[..48]);
        bytes[48..56].copy_from_slice(&sum.to_le_bytes());
        let _ = self.file.write_all_at(&bytes, (record * RECORD) as u64);
    }
}

fn read_words(file: &File, at: u64) -> Option<[u64; 6]> {
    let mut bytes = [0; RECORD];
    file.read_exact_at(&mut bytes, at).ok()?;
    let word = |index: usize| {
        bytes
            .get(8 * index..8 * index + 8)
            .and_then(|word| word.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    };
    (xxh3_64(&bytes[..48]) == word(6)).then(|| std::array::from_fn(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let (file, left) = ProgressFile::open(dir.path()).unwrap();
        assert_eq!(left, None);
        let progress = Progress { boot: 1, time: 2, forks: 3, ended: 4, live: 5, stopped: true };
        file.write(&progress);
        file.write_put_away(9);
        assert_eq!(ProgressFile::open(dir.path()).unwrap().1, Some(Left { progress, put_away: 9 }));
        fs::write(dir.path().join(NAME), [7; 128]).unwrap();
        assert_eq!(ProgressFile::open(dir.path()).unwrap().1, None);
    }
}
