//! Lines of a file that is not trusted: bytes, of any length, counted.

use std::io::{self, BufRead, ErrorKind};

use memchr::memchr;

/// No record of a job is longer; a submit line with all its arguments has a few kilobytes.
pub const LINE_MAX: usize = 1 << 20;

/// Reads lines into a buffer of the caller's.
pub struct Lines<R> {
    source: R,
    number: u64,
}

/// A line that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    pub number: u64,
    /// It was longer than [`LINE_MAX`]; the rest was passed over.
    pub is_cut: bool,
    /// There was a line break: nobody is still writing it.
    pub is_ended: bool,
}

impl<R: BufRead> Lines<R> {
    pub fn new(source: R) -> Self {
        Lines { source, number: 0 }
    }

    /// The next line, without its end (`\n` or `\r\n`).
    pub fn next(&mut self, line: &mut Vec<u8>) -> io::Result<Option<Line>> {
        line.clear();
        let (mut is_cut, mut is_empty) = (false, true);
        let mut is_ended;
        loop {
            let chunk = match self.source.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                chunk => chunk?,
            };
            is_empty &= chunk.is_empty();
            let end = memchr(b'\n', chunk);
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let room = LINE_MAX - line.len();
            is_cut |= part.len() > room;
            line.extend_from_slice(&part[..part.len().min(room)]);
            is_ended = end.is_some();
            let (used, is_last) = (part.len() + usize::from(is_ended), is_ended || chunk.is_empty());
            self.source.consume(used);
            if is_last {
                break;
            }
        }
        if is_empty {
            return Ok(None);
        }
        line.pop_if(|last| *last == b'\r');
        self.number += 1;
        Ok(Some(Line { number: self.number, is_cut, is_ended }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    #[test]
    fn lines_of_every_kind() {
        let text = b"a\n\nb\r\nc\r\r\n\xff\0\nlast";
        for capacity in [1, 2, 3, 100] {
            let mut lines = Lines::new(BufReader::with_capacity(capacity, &text[..]));
            let (mut line, mut all) = (Vec::new(), Vec::new());
            while let Some(read) = lines.next(&mut line).unwrap() {
                assert!(!read.is_cut);
                all.push((read.number, line.clone()));
            }
            let expected = [&b"a"[..], b"", b"b", b"c\r", b"\xff\0", b"last"];
            assert_eq!(all, (1..).zip(expected.map(<[u8]>::to_vec)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let mut text = vec![b'x'; LINE_MAX + 5];
        text.extend_from_slice(b"\nnext");
        let mut lines = Lines::new(&text[..]);
        let mut line = Vec::new();
        assert_eq!(lines.next(&mut line).unwrap(), Some(Line { number: 1, is_cut: true, is_ended: true }));
        assert_eq!(line.len(), LINE_MAX);
        assert_eq!(lines.next(&mut line).unwrap(), Some(Line { number: 2, is_cut: false, is_ended: false }));
        assert_eq!(line, b"next");
        assert_eq!(lines.next(&mut line).unwrap(), None);
    }
}
