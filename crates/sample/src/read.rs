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

    /// A file that holds one number.
    pub fn number(&mut self, path: &[u8]) -> Option<u64> {
        number(self.once(path).ok()?.trim_ascii())
    }

    /// A file that holds one text, without the space around it; an empty one is unknown.
    pub fn text(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        let text = self.once(path).ok()?.trim_ascii();
        (!text.is_empty()).then(|| text.to_vec())
    }

    /// The names in a directory, 2 before 10; none if there is no such directory.
    pub fn sorted(&mut self, path: &[u8]) -> Vec<Vec<u8>> {
        let mut names = Vec::new();
        // What was listed before an error is there.
        let _ = self.names(path, |name| names.push(name.to_vec()));
        names.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        names
    }

    /// Whether something has this name.
    pub fn exists(&mut self, path: &[u8]) -> bool {
        self.calls += 1;
        self.open_root().is_ok()
            && self
                .dir
                .as_ref()
                .is_some_and(|dir| accessat(dir, path, Access::EXISTS, AtFlags::empty()).is_ok())
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

/// Digits, after a minus or not.
pub fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => 0i64.checked_sub_unsigned(number(digits)?),
        None => i64::try_from(number(text)?).ok(),
    }
}

/// Digits with a fraction or without; no sign, no exponent.
pub fn decimal(text: &[u8]) -> Option<f64> {
    let is_plain = text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let value: f64 = str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// The lines `name: value` of a text, without the space around both.
pub fn pairs(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines(text).filter_map(|line| {
        let (name, value) = line.split_at_checked(line.iter().position(|byte| *byte == b':')?)?;
        Some((name.trim_ascii(), value.get(1..)?.trim_ascii()))
    })
}

/// `12 kB` in bytes.
pub fn kib(text: &[u8]) -> Option<u64> {
    let mut words = words(text);
    let value = number(words.next()?)?;
    (words.next() == Some(b"kB")).then(|| value.checked_mul(1024))?
}

/// The words of a text.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// The numbers in a list such as `0-3,8`; a list that is longer than any machine has processors is not understood.
pub fn list(text: &[u8]) -> Option<Vec<u32>> {
    const MOST: usize = 65_536;
    let mut numbers = Vec::new();
    for range in text.trim_ascii().split(|byte| *byte == b',') {
        let mut ends = range.splitn(2, |byte| *byte == b'-').map(|end| u32::try_from(number(end)?).ok());
        let first = ends.next()??;
        let last = ends.next().unwrap_or(Some(first))?;
        let len = usize::try_from(last.checked_sub(first)?).ok()?;
        if numbers.len().checked_add(len)? >= MOST {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
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
    fn signs_and_fractions() {
        for (text, expected) in [
            (&b"-40000"[..], Some(-40000)),
            (b"40000", Some(40000)),
            (b"-9223372036854775808", Some(i64::MIN)),
            (b"9223372036854775808", None),
            (b"--1", None),
            (b"-", None),
        ] {
            assert_eq!(signed(text), expected, "{text:?}");
        }
        for (text, expected) in [
            (&b"0.82"[..], Some(0.82)),
            (b"2299.998", Some(2299.998)),
            (b"7", Some(7.0)),
            (b"", None),
            (b".", None),
            (b"1.2.3", None),
            (b"-1", None),
            (b"1e3", None),
            (b"inf", None),
            (&[b'9'; 400], None),
        ] {
            assert_eq!(decimal(text), expected, "{text:?}");
        }
    }

    #[test]
    fn lists_are_ranges() {
        for (text, expected) in [
            ("0-3,8,10-11\n", Some(vec![0, 1, 2, 3, 8, 10, 11])),
            ("5\n", Some(vec![5])),
            ("0-65534\n", Some((0..65_535).collect())),
            ("0-65535,0\n", None),
            ("0-4294967295\n", None),
            ("\n", None),
            ("3-1\n", None),
            ("1,\n", None),
            ("0-1-2\n", None),
            ("a\n", None),
        ] {
            assert_eq!(list(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn names_and_values() {
        let text = b"model name\t: a: b\n:\nnone\nMemTotal:  12 kB\n";
        let expected: [(&[u8], &[u8]); 3] = [(b"model name", b"a: b"), (b"", b""), (b"MemTotal", b"12 kB")];
        assert_eq!(pairs(text).collect::<Vec<_>>(), expected);
        for (text, expected) in [
            (&b"12 kB"[..], Some(12288)),
            (b"12", None),
            (b"12 MB", None),
            (b"18446744073709551615 kB", None),
        ] {
            assert_eq!(kib(text), expected, "{text:?}");
        }
    }

    #[test]
    fn small_files_and_names() {
        let tree = tempfile::tempdir().unwrap();
        for (name, content) in [("a10", "12\n"), ("a2", " two words \n"), ("a1", "\n")] {
            fs::write(tree.path().join(name), content).unwrap();
        }
        let mut reader = Reader::new(tree.path());
        assert_eq!(reader.sorted(b"."), [b"a1".to_vec(), b"a2".to_vec(), b"a10".to_vec()]);
        assert_eq!(reader.sorted(b"none"), [b""; 0]);
        assert_eq!(
            (reader.number(b"a10"), reader.number(b"a2"), reader.number(b"none")),
            (Some(12), None, None)
        );
        assert_eq!((reader.text(b"a2"), reader.text(b"a1")), (Some(b"two words".to_vec()), None));
        assert!(reader.exists(b"a1") && !reader.exists(b"none") && !reader.exists(b"a\0"));
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
