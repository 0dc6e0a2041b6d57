//! Reads the kernel's small files with few system calls, into a buffer that is used again.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, RawDir, accessat, openat};
use rustix::io::{Errno, Result, read};

/// Most files are shorter; the buffer grows where one is not.
const BUFFER: usize = 4096;
/// A thousand processes are listed with one call.
const LISTING: usize = 32 * 1024;
/// No file of the kernel's that is read here is longer; what claims to be is cut.
const MAX: usize = 4 * 1024 * 1024;

/// A directory such as `/proc`, the files below it, and the buffer they are read into.
pub struct Reader {
    root: PathBuf,
    /// Opened at the first use: a directory that is not there is an error of each read.
    dir: Option<OwnedFd>,
    buffer: Vec<u8>,
    /// Always empty; its room is where the kernel lists names.
    listing: Vec<u8>,
    calls: u64,
}

impl Reader {
    /// Reads below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Reader {
        Reader {
            root: root.into(),
            dir: None,
            buffer: vec![0; BUFFER],
            listing: Vec::with_capacity(LISTING),
            calls: 0,
        }
    }

    /// Where it reads.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// System calls made until now.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// A file that the kernel gives as one piece: what fits into the buffer comes with the first read.
    pub fn once(&mut self, path: &[u8]) -> Result<&[u8]> {
        self.read(path, false)
    }

    /// A file that the kernel gives in pieces, a list of devices for example: it is read until its end is seen.
    pub fn all(&mut self, path: &[u8]) -> Result<&[u8]> {
        self.read(path, true)
    }

    fn read(&mut self, path: &[u8], to_the_end: bool) -> Result<&[u8]> {
        self.open_root()?;
        let dir = self.dir.as_ref().ok_or(Errno::NOENT)?;
        self.calls += 2;
        let file = openat(dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut len = 0;
        loop {
            if len == self.buffer.len() {
                if len >= MAX {
                    break;
                }
                self.buffer.resize(2 * len, 0);
            }
            self.calls += 1;
            let room = self.buffer.get_mut(len..).unwrap_or_default();
            let (size, n) = (room.len(), retry(|| read(&file, &mut *room))?);
            len += n;
            if n == 0 || (n < size && !to_the_end) {
                break;
            }
        }
        Ok(self.buffer.get(..len).unwrap_or_default())
    }

    /// Where a link leads.
    pub fn link(&mut self, path: &[u8]) -> Result<Vec<u8>> {
        self.open_root()?;
        self.calls += 1;
        let dir = self.dir.as_ref().ok_or(Errno::NOENT)?;
        Ok(rustix::fs::readlinkat(dir, path, Vec::with_capacity(256))?.into_bytes())
    }

    /// The names in a directory, in the kernel's order.
    pub fn names(&mut self, path: &[u8], mut take: impl FnMut(&[u8])) -> Result<()> {
        self.entries(path, |name, _| take(name))
    }

    /// The names of the directories in a directory.
    pub fn directories(&mut self, path: &[u8], mut take: impl FnMut(&[u8])) -> Result<()> {
        self.entries(path, |name, kind| {
            if kind == FileType::Directory {
                take(name);
            }
        })
    }

    /// Whether there is something of this name.
    pub fn exists(&mut self, path: &[u8]) -> bool {
        self.calls += 1;
        let is_open = self.open_root().is_ok();
        is_open
            && self
                .dir
                .as_ref()
                .is_some_and(|dir| accessat(dir, path, Access::EXISTS, AtFlags::empty()).is_ok())
    }

    fn entries(&mut self, path: &[u8], mut take: impl FnMut(&[u8], FileType)) -> Result<()> {
        self.open_root()?;
        let root = self.dir.as_ref().ok_or(Errno::NOENT)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.calls += 2;
        let dir = openat(root, path, flags, Mode::empty())?;
        let mut entries = RawDir::new(dir.as_fd(), self.listing.spare_capacity_mut());
        loop {
            self.calls += u64::from(entries.is_buffer_empty());
            let Some(entry) = entries.next() else { return Ok(()) };
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                take(name, entry.file_type());
            }
        }
    }

    fn open_root(&mut self) -> Result<()> {
        if self.dir.is_none() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            self.dir = Some(openat(CWD, &self.root, flags, Mode::empty())?);
        }
        Ok(())
    }
}

fn retry<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Decimal digits and nothing else.
pub fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// The words of a text.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// The lines of a text.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn numbers_are_digits() {
        for (text, expected) in [
            (&b"0"[..], Some(0)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", None),
            (b"", None),
            (b"-1", None),
            (b"1 ", None),
            (b"0x1", None),
        ] {
            assert_eq!(number(text), expected, "{text:?}");
        }
    }

    #[test]
    fn files_of_any_length_are_read_whole() {
        let tree = tempfile::tempdir().unwrap();
        let mut reader = Reader::new(tree.path());
        for len in [0, 1, BUFFER - 1, BUFFER, BUFFER + 1, 5 * BUFFER] {
            let content = vec![b'x'; len];
            fs::write(tree.path().join("file"), &content).unwrap();
            assert_eq!(reader.once(b"file").unwrap(), content);
            assert_eq!(reader.all(b"file").unwrap(), content);
        }
        assert_eq!(reader.once(b"none").unwrap_err(), Errno::NOENT);
    }

    #[test]
    fn a_root_that_is_not_there_is_an_error_of_each_read() {
        let mut reader = Reader::new("/none/such");
        assert_eq!(reader.once(b"stat").unwrap_err(), Errno::NOENT);
        assert_eq!(reader.names(b".", |_| {}).unwrap_err(), Errno::NOENT);
    }

    #[test]
    fn names_are_listed_without_the_dots() {
        let tree = tempfile::tempdir().unwrap();
        let mut expected: Vec<Vec<u8>> = (0..3000).map(|n| n.to_string().into_bytes()).collect();
        for name in &expected {
            fs::write(tree.path().join(std::str::from_utf8(name).unwrap()), "").unwrap();
        }
        let mut names = Vec::new();
        Reader::new(tree.path()).names(b".", |name| names.push(name.to_vec())).unwrap();
        names.sort();
        expected.sort();
        assert_eq!(names, expected);
    }

    #[test]
    fn directories_are_told_from_files_and_links() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir(tree.path().join("group")).unwrap();
        fs::write(tree.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("group", tree.path().join("link")).unwrap();
        let mut reader = Reader::new(tree.path());
        let mut names = Vec::new();
        reader.directories(b".", |name| names.push(name.to_vec())).unwrap();
        assert_eq!(names, [b"group"]);
        assert!(reader.exists(b"file") && reader.exists(b"link") && !reader.exists(b"none"));
        assert!(!Reader::new("/none/such").exists(b"file"));
    }
}
