//! JSON in which somebody's job is called something that is no UTF-8.
//!
//! Slurm writes names as they are. One such byte would end the reading of all jobs, so it is made `\xNN` on the way, as
//! [`record::bytes::Bytes`] shows it. Such bytes can only be inside strings, where a backslash is written as two.

use std::io::{BufRead, ErrorKind, Read, Result};

use record::bytes::hex;

/// How much is looked at at once.
const CHUNK: usize = 64 * 1024;

/// Gives what it reads with bad bytes escaped.
pub struct Escaped<R> {
    source: R,
    /// What was read, of which a character may be only half there.
    raw: Vec<u8>,
    ready: Vec<u8>,
    given: usize,
}

impl<R: BufRead> Escaped<R> {
    pub fn new(source: R) -> Self {
        Escaped { source, raw: Vec::new(), ready: Vec::new(), given: 0 }
    }

    fn refill(&mut self) -> Result<()> {
        self.ready.clear();
        self.given = 0;
        while self.ready.is_empty() {
            let chunk = match self.source.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                chunk => chunk?,
            };
            let used = chunk.len().min(CHUNK);
            self.raw.extend_from_slice(&chunk[..used]);
            self.source.consume(used);
            if self.raw.is_empty() {
                break;
            }
            self.escape(used == 0);
        }
        Ok(())
    }

    /// Moves whole characters over; at the end of the source there is no other half to wait for.
    fn escape(&mut self, is_end: bool) {
        let mut rest = &self.raw[..];
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(_) => {
                    self.ready.extend_from_slice(rest);
                    rest = &[];
                    break;
                }
                Err(error) => error,
            };
            let (good, bad) = rest.split_at(error.valid_up_to());
            self.ready.extend_from_slice(good);
            rest = bad;
            let Some(length) = error.error_len().or(is_end.then_some(bad.len())) else { break };
            for byte in &bad[..length] {
                self.ready.extend_from_slice(b"\\\\x");
                self.ready.extend_from_slice(hex(&[*byte]).as_bytes());
            }
            rest = &bad[length..];
        }
        let kept = rest.len();
        self.raw.drain(..self.raw.len() - kept);
    }
}

impl<R: BufRead> Read for Escaped<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.given == self.ready.len() {
            self.refill()?;
        }
        let ready = &self.ready[self.given..];
        let count = ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&ready[..count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::BufReader;

    fn escaped(bytes: &[u8], capacity: usize) -> String {
        let mut text = Vec::new();
        Escaped::new(BufReader::with_capacity(capacity, bytes)).read_to_end(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn bad_bytes_are_escaped_and_good_ones_kept() {
        for (bytes, expected) in [
            (&b""[..], ""),
            ("aé☃😀".as_bytes(), "aé☃😀"),
            (b"a\xffb", "a\\\\xffb"),
            (b"\xe2\x98", "\\\\xe2\\\\x98"),
            (b"\xe2\x98x", "\\\\xe2\\\\x98x"),
            (b"\xc3\xa9\xc3", "é\\\\xc3"),
        ] {
            for capacity in 1..5 {
                assert_eq!(escaped(bytes, capacity), expected, "{bytes:?} in {capacity}");
            }
        }
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_chunks_end(bytes in proptest::collection::vec(any::<u8>(), 0..60), capacity in 1usize..9) {
            prop_assert_eq!(escaped(&bytes, capacity), escaped(&bytes, 1000));
        }

        #[test]
        fn text_stays_as_it_is(text in ".{0,40}", capacity in 1usize..9) {
            prop_assert_eq!(escaped(text.as_bytes(), capacity), text);
        }
    }
}
