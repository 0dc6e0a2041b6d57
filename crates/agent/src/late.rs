//! Objects loaded after a program's start, from the memory that guests share with the agent.
//!
//! See [`record::wire::late`] for the two kinds of memory and the form of a record.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};

use record::guest::{Late, decode_late};
use record::wire::late::{DATA, DATA_BYTES, HEAD, RECORD_MAX, RING_BYTES};

use crate::receive::user_socket;

/// The ring beside a user's socket.
pub fn ring_path(socket: &Path) -> PathBuf {
    PathBuf::from(format!("{}.late", socket.display()))
}

/// Makes a user's ring. All of it is there before anyone maps it: a guest must not find a full disk.
pub fn create_ring(socket: &Path, uid: u32) -> io::Result<()> {
    let path = ring_path(socket);
    let new = PathBuf::from(format!("{}.new", path.display()));
    let _ = fs::remove_file(&new);
    let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new)?;
    file.write_all_at(&vec![0; RING_BYTES], 0)?;
    chown(&new, Some(uid), None)?;
    fs::rename(new, path)
}

/// Reads the one record of memory that a guest has passed.
pub fn read_own(memory: OwnedFd) -> Option<Late> {
    let mut bytes = vec![0; RECORD_MAX];
    // The size is whatever the process made of it.
    let n = File::from(memory).read_at(&mut bytes, 0).ok()?;
    decode_late(bytes.get(..n)?)?.0.ok()
}

/// The rings of all users.
#[derive(Default)]
pub struct Rings {
    /// The common socket; abstract ones have no rings.
    socket: Option<PathBuf>,
    rings: HashMap<u32, Ring>,
}

struct Ring {
    file: File,
    tail: u64,
}

impl Rings {
    pub fn new(socket: Option<PathBuf>) -> Rings {
        Rings { socket, rings: HashMap::new() }
    }

    /// Takes the records in a user's ring.
    pub fn take(&mut self, uid: u32) -> Vec<Late> {
        let Some(socket) = &self.socket else { return Vec::new() };
        let ring = match self.rings.entry(uid) {
            Entry::Occupied(ring) => ring.into_mut(),
            Entry::Vacant(place) => {
                let path = ring_path(&user_socket(socket, uid));
                let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else {
                    return Vec::new();
                };
                place.insert(Ring { file, tail: 0 })
            }
        };
        ring.take().unwrap_or_default()
    }

    /// Forgets the rings: their files are gone.
    pub fn forget(&mut self) {
        self.rings.clear();
    }
}

impl Ring {
    fn take(&mut self) -> Option<Vec<Late>> {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, HEAD as u64).ok()?;
        let head = u64::from_le_bytes(word);
        let waiting = head.checked_sub(self.tail).filter(|n| *n > 0)? as usize;
        if waiting > DATA_BYTES {
            // More than a ring full: what is in it is of several rounds, and cannot be told apart.
            self.file.write_all_at(&[0; DATA_BYTES], DATA as u64).ok()?;
            self.tail = head;
            return None;
        }
        let mut data = vec![0; DATA_BYTES];
        self.file.read_exact_at(&mut data, DATA as u64).ok()?;
        let mut found = Vec::new();
        while self.tail < head {
            let offset = self.tail as usize % DATA_BYTES;
            // A record never goes over the end; one that would have is not there.
            let Some((late, len)) = data.get(offset..).and_then(decode_late) else {
                // Being written, or never will be: another record behind it tells.
                self.tail = head;
                break;
            };
            let space = len.next_multiple_of(8);
            self.file.write_all_at(&vec![0; space], (DATA + offset) as u64).ok()?;
            self.tail += space as u64;
            found.extend(late.ok());
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::wire::late::DONE;

    /// Appends a record as a guest does.
    fn append(file: &File, time: u64, path: &[u8]) {
        let mut record = vec![0; 24];
        record[..4].copy_from_slice(&DONE.to_le_bytes());
        record[8..16].copy_from_slice(&time.to_le_bytes());
        record.extend([0x81, 0x40 + path.len() as u8]);
        record.extend(path);
        let len = record.len();
        record[4..8].copy_from_slice(&(len as u32).to_le_bytes());
        let mut head = [0; 8];
        file.read_exact_at(&mut head, 0).unwrap();
        let head = u64::from_le_bytes(head);
        let offset = head as usize % DATA_BYTES;
        file.write_all_at(&(head + len.next_multiple_of(8) as u64).to_le_bytes(), 0).unwrap();
        if offset + len.next_multiple_of(8) <= DATA_BYTES {
            file.write_all_at(&record, (DATA + offset) as u64).unwrap();
        }
    }

    #[test]
    fn records_are_taken_once_and_over_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let me = rustix::process::getuid().as_raw();
        create_ring(&user_socket(&socket, me), me).unwrap();
        let file =
            OpenOptions::new().read(true).write(true).open(ring_path(&user_socket(&socket, me))).unwrap();
        let mut rings = Rings::new(Some(socket));
        assert!(rings.take(me).is_empty());
        let mut taken = 0;
        for round in 0..20_000u64 {
            append(&file, round, b"/lib/a.so");
            if round % 7 == 0 {
                taken += rings.take(me).len();
            }
        }
        taken += rings.take(me).len();
        // One record in each round over the end is not written, and those behind it wait for the next look.
        assert!((19_000..=20_000).contains(&taken), "{taken}");
    }
}
