//! Reads a spool directory from its first segment to its last, and says what is damaged.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use record::entry::Entry;

use super::frame::{self, Header, Item, Segment};
use super::{SUFFIX, lock};

/// A segment's place in the order, and its file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentFile {
    pub index: u64,
    pub path: PathBuf,
}

/// The segments of a spool in their order.
pub fn segments(dir: &Path) -> io::Result<Vec<SegmentFile>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let is_segment = path.extension().is_some_and(|suffix| suffix == SUFFIX);
        let index = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        if let (true, Some(index)) = (is_segment, index) {
            found.push(SegmentFile { index, path });
        }
    }
    found.sort();
    Ok(found)
}

/// The number of a segment's first entry; `None` if its header cannot be read.
pub fn first_number(path: &Path) -> Option<u64> {
    header(path).map(|header| header.first)
}

/// A segment's header, if it is whole.
pub fn header(path: &Path) -> Option<Header> {
    let mut bytes = Vec::with_capacity(frame::HEADER_BYTES);
    let file = fs::File::open(path).ok()?;
    file.take(frame::HEADER_BYTES as u64).read_to_end(&mut bytes).ok()?;
    Header::parse(&bytes)
}

/// Something in the spool that is not whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("{}: {bytes} bytes from offset {at} are no entry", path.display())]
    Bytes { path: PathBuf, at: usize, bytes: usize },
    #[error("{}: {entries} entries are missing", path.display())]
    Missing { path: PathBuf, entries: u64 },
    #[error("{}: entry {number} cannot be decoded: {reason}", path.display())]
    Undecodable { path: PathBuf, number: u64, reason: String },
    #[error("{}: ends without a trailer, and no agent is writing it", path.display())]
    Unclosed { path: PathBuf },
}

/// Why a spool cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}", path.display())]
pub struct ReadError {
    path: PathBuf,
    source: io::Error,
}

/// Iterates over the entries of a spool.
pub struct Reader {
    files: VecDeque<SegmentFile>,
    next_number: Option<u64>,
    ready: VecDeque<Result<(u64, Entry), Damage>>,
    error: Option<ReadError>,
    /// An agent is writing, so the last segment has no end yet.
    is_live: bool,
}

impl Reader {
    /// Reads the spool in `dir`.
    pub fn open(dir: &Path) -> Result<Self, ReadError> {
        let is_live = lock::is_held(dir);
        let files = segments(dir).map_err(|source| ReadError { path: dir.to_owned(), source })?;
        Ok(Reader { files: files.into(), next_number: None, ready: VecDeque::new(), error: None, is_live })
    }

    /// Reads from the segment on that holds the entry `number`.
    pub fn open_from(dir: &Path, number: u64) -> Result<Self, ReadError> {
        let mut reader = Reader::open(dir)?;
        while let Some(next) = reader.files.get(1) {
            match first_number(&next.path) {
                Some(first) if first <= number => drop(reader.files.pop_front()),
                _ => break,
            }
        }
        Ok(reader)
    }

    /// What ended the reading early, if anything did.
    pub fn error(&mut self) -> Option<ReadError> {
        self.error.take()
    }

    fn load(&mut self, file: SegmentFile) {
        let bytes = match fs::read(&file.path) {
            Ok(bytes) => bytes,
            // Taken away while we read the ones before it: it was shipped.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(source) => {
                self.error = Some(ReadError { path: file.path, source });
                self.files.clear();
                return;
            }
        };
        let is_growing = self.is_live && self.files.is_empty();
        let mut segment = Segment::new(&bytes);
        self.note_break_before(&file.path, segment.next_number());
        for item in segment.by_ref() {
            let path = file.path.clone();
            match item {
                Item::Entry(number, payload) => {
                    self.ready.push_back(match minicbor::decode(payload) {
                        Ok(entry) => Ok((number, entry)),
                        Err(error) => Err(Damage::Undecodable { path, number, reason: error.to_string() }),
                    });
                }
                // The last bytes of the last segment may be on their way.
                Item::Damaged { at, bytes: n } if is_growing && at + n == bytes.len() => {}
                Item::Damaged { at, bytes } => self.ready.push_back(Err(Damage::Bytes { path, at, bytes })),
                Item::Missing { entries } => self.ready.push_back(Err(Damage::Missing { path, entries })),
                Item::Open if is_growing => {}
                Item::Open => self.ready.push_back(Err(Damage::Unclosed { path })),
            }
        }
        self.next_number = segment.next_number().or(self.next_number);
    }

    /// Entries that stood at the end of the segment before and are gone show in the numbering.
    fn note_break_before(&mut self, path: &Path, first: Option<u64>) {
        if let (Some(expected), Some(first)) = (self.next_number, first)
            && first > expected
        {
            let path = path.to_owned();
            self.ready.push_back(Err(Damage::Missing { path, entries: first - expected }));
        }
    }
}

impl Iterator for Reader {
    type Item = Result<(u64, Entry), Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() {
            let file = self.files.pop_front()?;
            self.load(file);
        }
        self.ready.pop_front()
    }
}
