//! Text that should be UTF-8 and in which somebody's name is not.
//!
//! Slurm and Ganglia write names as they are. One such byte would end the reading of all else, so it is replaced on the
//! way: in JSON by `\xNN`, as [`record::bytes::Bytes`] shows it, which can only be inside strings, where a backslash is
//! written as two; elsewhere by the character it is in ISO-8859-1.

use std::io::{BufRead, ErrorKind, Read, Result};

use record::bytes::hex;

/// How much is looked at at once.
const CHUNK: usize = 64 * 1024;

/// Writes something else for a byte that is no UTF-8.
type Replace = fn(u8, &mut Vec<u8>);

/// Gives what it reads with bad bytes replaced.
pub struct Mended<R> {
    source: R,
    replace: Replace,
    /// What was read, of which a character may be only half there.
    raw: Vec<u8>,
    ready: Vec<u8>,
    given: usize,
}

/// For strings of JSON.
pub fn escape(byte: u8, ready: &mut Vec<u8>) {
    ready.extend_from_slice(b"\\\\x");
    ready.extend_from_slice(hex(&[byte]).as_bytes());
}

/// ISO-8859-1, which has a character for every byte.
pub fn latin(byte: u8, ready: &mut Vec<u8>) {
    ready.extend_from_slice(char::from(byte).encode_utf8(&mut [0; 2]).as_bytes());
}

/// Text as it is, bytes that are no UTF-8 as ISO-8859-1.
pub fn text(bytes: &[u8]) -> String {
    bytes.utf8_chunks().fold(String::new(), |text, chunk| {
        let odd = chunk.invalid().iter().map(|byte| char::from(*byte));
        text + chunk.valid() + &odd.collect::<String>()
    })
}

impl<R: BufRead> Mended<R> {
    pub fn new(source: R, replace: Replace) -> Self {
        Mended { source, replace, raw: Vec::new(), ready: Vec::new(), given: 0 }
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
            self.mend(used == 0);
        }
        Ok(())
    }

    /// Moves whole characters over; at the end of the source there is no other half to wait for.
    fn mend(&mut self, is_end: bool) {
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
                (self.replace)(*byte, &mut self.ready);
            }
            rest = &bad[length..];
        }
        let kept = rest.len();
        self.raw.drain(..self.raw.len() - kept);
    }
}

impl<R: BufRead> Read for Mended<R> {
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
        Mended::new(BufReader::with_capacity(capacity, bytes), escape).read_to_end(&mut text).unwrap();
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

    #[test]
    fn text_that_is_none_is_iso_8859_1() {
        assert_eq!(text(b"caf\xe9 \xc3\xa9"), "café é");
        let mut mended = Vec::new();
        Mended::new(&b"caf\xe9 \xc3\xa9"[..], latin).read_to_end(&mut mended).unwrap();
        assert_eq!(mended, "café é".as_bytes());
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
