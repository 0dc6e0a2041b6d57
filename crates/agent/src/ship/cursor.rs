//! How far the spool has been shipped, on disk: the spool's name and the number of the next entry to send.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use record::batch::Stream;
use record::bytes::hex;

/// The file's name in the spool.
const FILE: &str = "shipped";

/// The name of a spool, and how far it was shipped.
#[derive(Debug)]
pub struct Cursor {
    path: PathBuf,
    stream: Stream,
    next: u64,
}

impl Cursor {
    /// Reads the file; a spool without one gets a new name. A file that cannot be read is an error: under a new
    /// name everything in the spool would be stored twice.
    pub fn open(dir: &Path) -> io::Result<Cursor> {
        let path = dir.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let (stream, next) = parse(&text).ok_or_else(|| {
                    let what = format!("{}: not a name and a number: {text:?}", path.display());
                    io::Error::new(io::ErrorKind::InvalidData, what)
                })?;
                Ok(Cursor { path, stream, next })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let cursor = Cursor { path, stream: Stream(random()?), next: 1 };
                cursor.write()?;
                Ok(cursor)
            }
            Err(error) => Err(error),
        }
    }

    /// The number of the next entry to send, if anything was ever shipped from here.
    pub fn peek(dir: &Path) -> io::Result<Option<u64>> {
        if dir.join(FILE).exists() { Cursor::open(dir).map(|cursor| Some(cursor.next)) } else { Ok(None) }
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
        let mut file = File::create(&new)?;
        writeln!(file, "{} {}", self.stream, self.next)?;
        file.sync_data()?;
        fs::rename(new, &self.path)?;
        let dir = self.path.parent().unwrap_or(Path::new("."));
        File::open(dir)?.sync_data()
    }
}

fn parse(text: &str) -> Option<(Stream, u64)> {
    let (name, next) = text.trim().split_once(' ')?;
    let mut bytes = [0; 16];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(name.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    (hex(&bytes) == name).then_some((Stream(bytes), next.parse().ok()?))
}

fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Cursor::peek(dir.path()).unwrap(), None);
        let mut cursor = Cursor::open(dir.path()).unwrap();
        assert_eq!(cursor.next(), 1);
        cursor.advance(17).unwrap();
        let again = Cursor::open(dir.path()).unwrap();
        assert_eq!((again.stream(), again.next()), (cursor.stream(), 17));
        assert_eq!(Cursor::peek(dir.path()).unwrap(), Some(17));
        let other = tempfile::tempdir().unwrap();
        assert_ne!(Cursor::open(other.path()).unwrap().stream(), cursor.stream());
    }

    #[test]
    fn a_damaged_file_is_not_taken_for_a_new_spool() {
        let dir = tempfile::tempdir().unwrap();
        for text in [
            "",
            "x 1",
            "0102 3",
            "000102030405060708090a0b0c0d0e0f x",
            "000102030405060708090a0b0c0d0e0f00 1",
        ] {
            fs::write(dir.path().join(FILE), text).unwrap();
            assert!(Cursor::open(dir.path()).is_err(), "{text:?}");
        }
    }
}
