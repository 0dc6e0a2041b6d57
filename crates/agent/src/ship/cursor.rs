//! How far the spool has been shipped, on disk: the stream of new entries, the number of the next entry to send, and a checksum.
//!
//! When the file is lost, nobody knows how far the spool was shipped. All segments are then sent again, each under the stream
//! that it names, and the server stores what it does not have. New entries get a new stream: numbers of the old one that were
//! in a damaged segment must not be given again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use record::batch::Stream;
use record::bytes::hex;
use xxhash_rust::xxh3::xxh3_64;

use crate::counters::Counters;
use crate::spool;
use crate::state::{self, Found};

/// The file's name in the spool.
const FILE: &str = "shipped";
/// So many bytes of a damaged one are in the log.
const SHOWN: usize = 80;

/// The name of a spool, and how far it was shipped.
#[derive(Debug)]
pub struct Cursor {
    path: PathBuf,
    stream: Stream,
    next: u64,
}

impl Cursor {
    /// Reads the file; without one, or with a damaged one, everything is sent from the beginning.
    pub fn open(dir: &Path, counters: &Counters) -> io::Result<Cursor> {
        let path = dir.join(FILE);
        match state::read(dir, FILE, counters) {
            Found::Content(bytes) => match parse(&bytes) {
                Some((stream, next)) => return Ok(Cursor { path, stream, next }),
                None => {
                    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
                    state::set_aside(dir, FILE, format_args!("not a name and a number: {text:?}"), counters);
                    set_nameless_aside(dir, counters);
                }
            },
            Found::Damaged => set_nameless_aside(dir, counters),
            Found::Nothing => {}
        }
        let cursor = Cursor { path, stream: Stream(super::random()?), next: 1 };
        cursor.write()?;
        Ok(cursor)
    }

    /// The number of the next entry to send, if anything was ever shipped from here; changes nothing.
    pub fn peek(dir: &Path) -> io::Result<Option<u64>> {
        let path = dir.join(FILE);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let (_, next) = parse(&bytes).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", path.display()))
        })?;
        Ok((next > 1).then_some(next))
    }

    pub fn stream(&self) -> Stream {
        self.stream
    }

    pub fn next(&self) -> u64 {
        self.next
    }

    /// Everything before `next` has been shipped; returns when that is on disk.
    pub fn advance(&mut self, next: u64) -> io::Result<()> {
        let before = std::mem::replace(&mut self.next, next);
        self.write().inspect_err(|_| self.next = before)
    }

    fn write(&self) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o640).open(&new)?;
        let content = format!("{} {}", self.stream, self.next);
        writeln!(file, "{content} {:016x}", xxh3_64(content.as_bytes()))?;
        file.sync_data()?;
        fs::rename(new, &self.path)?;
        let dir = self.path.parent().unwrap_or(Path::new("."));
        File::open(dir)?.sync_data()
    }
}

fn parse(bytes: &[u8]) -> Option<(Stream, u64)> {
    let line = str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let (content, sum) = line.rsplit_once(' ')?;
    if format!("{:016x}", xxh3_64(content.as_bytes())) != sum {
        return None;
    }
    let (name, next) = content.split_once(' ')?;
    let mut stream = [0; 16];
    for (at, byte) in stream.iter_mut().enumerate() {
        *byte = u8::from_str_radix(name.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    (hex(&stream) == name).then_some((Stream(stream), next.parse().ok()?))
}

/// A segment with a damaged header does not name its stream. Under another one, the server would store again what it has.
fn set_nameless_aside(dir: &Path, counters: &Counters) {
    for segment in spool::segments(dir).unwrap_or_default() {
        let name = segment.path.file_name().unwrap_or_default().to_string_lossy();
        let is_named = || spool::header(&segment.path).is_some();
        if state::clear(dir, &name, counters) && !is_named() {
            let why = "it does not name its stream, so nobody knows what of it was shipped";
            state::set_aside(dir, &name, why, counters);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &Path) -> (Cursor, u64) {
        let counters = Counters::default();
        let cursor = Cursor::open(dir, &counters).unwrap();
        (cursor, counters.state_files_damaged.get())
    }

    #[test]
    fn goes_on_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Cursor::peek(dir.path()).unwrap(), None);
        let (mut cursor, _) = open(dir.path());
        assert_eq!(cursor.next(), 1);
        assert_eq!(Cursor::peek(dir.path()).unwrap(), None, "nothing was shipped yet");
        cursor.advance(17).unwrap();
        let (again, damaged) = open(dir.path());
        assert_eq!((again.stream(), again.next(), damaged), (cursor.stream(), 17, 0));
        assert_eq!(Cursor::peek(dir.path()).unwrap(), Some(17));
        let other = tempfile::tempdir().unwrap();
        assert_ne!(open(other.path()).0.stream(), cursor.stream());
    }

    #[test]
    fn a_damaged_file_is_set_aside_and_everything_is_sent_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        open(dir.path()).0.advance(12_345).unwrap();
        let whole = fs::read(&path).unwrap();
        let mut damages: Vec<Vec<u8>> = (0..whole.len()).map(|len| whole[..len].to_vec()).collect();
        damages.extend((0..whole.len()).map(|at| {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            flipped
        }));
        damages
            .extend(["x 1\n", "0102 3\n", "000102030405060708090a0b0c0d0e0f 12\n"].map(|text| text.into()));
        for damage in damages {
            fs::write(&path, &damage).unwrap();
            let text = String::from_utf8_lossy(&damage).into_owned();
            assert!(Cursor::peek(dir.path()).is_err(), "{text:?}");
            let (cursor, damaged) = open(dir.path());
            assert_eq!((cursor.next(), damaged), (1, 1), "{text:?}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(open(dir.path()).1, 1, "a directory");
    }

    /// Nobody knows under which name they were sent.
    #[test]
    fn segments_without_a_name_are_not_sent_under_another() {
        let dir = tempfile::tempdir().unwrap();
        let named = spool::closed_segment(Stream([1; 16]), 1, &[b"x".to_vec()], 0);
        fs::write(dir.path().join("0000000001.seg"), "JGSPOOL2 and more").unwrap();
        fs::write(dir.path().join("0000000002.seg"), named).unwrap();
        let left = || spool::segments(dir.path()).unwrap().len();
        open(dir.path());
        assert_eq!(left(), 2, "nothing was ever shipped");
        fs::write(dir.path().join(FILE), "garbage").unwrap();
        assert_eq!((open(dir.path()).1, left()), (2, 1));
    }
}
