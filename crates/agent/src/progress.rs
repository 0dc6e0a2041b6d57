//! How far the agent has come, in a file that outlives it: a killed agent's successor knows what it missed.
//!
//! Two records of fixed size, written in place without syncing: a killed process's writes stay in the page
//! cache, and after a crash of the machine nothing that ran before matters.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::counters::Counters;
use crate::state::{self, Found};

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

/// What an earlier agent left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Its progress, and how many of the ended images it had put away.
    Known { progress: Progress, put_away: u64 },
    /// A damaged file, last written at this time of day: what was missed since is not known.
    Damaged { written: u64 },
}

/// This boot of the machine.
pub fn this_boot() -> u64 {
    fs::read(BOOT_ID).map(|id| xxh3_64(&id)).unwrap_or(0)
}

impl ProgressFile {
    /// Opens the file in a spool's directory, and reads what is there.
    pub fn open(dir: &Path, counters: &Counters) -> io::Result<(ProgressFile, Option<Left>)> {
        let written = written_ns(&dir.join(NAME)).unwrap_or_else(crate::clock::wall_ns);
        let left = match state::read(dir, NAME, counters) {
            Found::Nothing => None,
            Found::Damaged => Some(Left::Damaged { written }),
            Found::Content(bytes) => Some(parse(&bytes).unwrap_or_else(|| {
                state::set_aside(dir, NAME, "its checksum does not hold", counters);
                Left::Damaged { written }
            })),
        };
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o640)
            .open(dir.join(NAME))?;
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

fn written_ns(path: &Path) -> Option<u64> {
    let modified = fs::symlink_metadata(path).ok()?.modified().ok()?;
    modified.duration_since(std::time::UNIX_EPOCH).ok().map(|since| since.as_nanos() as u64)
}

fn parse(bytes: &[u8]) -> Option<Left> {
    let [boot, time, forks, ended, live, stopped] = words(bytes)?;
    let progress = Progress { boot, time, forks, ended, live, stopped: stopped != 0 };
    // Without the second record the gap seems larger than it is.
    let put_away = bytes.get(RECORD..).and_then(words).map_or(0, |words| words[0]);
    Some(Left::Known { progress, put_away })
}

/// The words of the record at the beginning of `bytes`.
fn words(bytes: &[u8]) -> Option<[u64; 6]> {
    let bytes: &[u8; RECORD] = bytes.first_chunk()?;
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

    fn open(dir: &Path) -> (ProgressFile, Option<Left>, u64) {
        let counters = Counters::default();
        let (file, left) = ProgressFile::open(dir, &counters).unwrap();
        (file, left, counters.state_files_damaged.get())
    }

    #[test]
    fn what_is_written_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let (file, left, damaged) = open(dir.path());
        assert_eq!((left, damaged), (None, 0));
        let progress = Progress { boot: 1, time: 2, forks: 3, ended: 4, live: 5, stopped: true };
        file.write(&progress);
        file.write_put_away(9);
        let (_, left, damaged) = open(dir.path());
        assert_eq!((left, damaged), (Some(Left::Known { progress, put_away: 9 }), 0));
    }

    #[test]
    fn a_damaged_file_is_set_aside_and_a_new_one_begins() {
        for bytes in [&[7; 128][..], &[7; 12], b""] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join(NAME), bytes).unwrap();
            let written = written_ns(&dir.path().join(NAME)).unwrap();
            let (file, left, damaged) = open(dir.path());
            assert_eq!((left, damaged), (Some(Left::Damaged { written }), 1), "{} bytes", bytes.len());
            file.write(&Progress::default());
            assert!(matches!(open(dir.path()).1, Some(Left::Known { .. })));
        }
    }
}
