//! A reader that ends with an error where a file is longer than any should be: a few kilobytes of gzip may stand for
//! gigabytes.

use std::io::{Error, ErrorKind, Read, Result};

use crate::sink::Reason;

pub struct Bounded<R> {
    source: R,
    left: u64,
}

impl<R: Read> Bounded<R> {
    pub fn new(source: R, max: u64) -> Self {
        Bounded { source, left: max }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.source.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => return Err(Error::from(ErrorKind::FileTooLarge)),
        }
        Ok(count)
    }
}

/// Why a file of JSON could not be read to its end.
pub fn reason(what: &'static str, error: &serde_json::Error, max: u64) -> Reason {
    if error.io_error_kind() == Some(ErrorKind::FileTooLarge) {
        return Reason::TooLong(max as usize);
    }
    Reason::Broken { what, error: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_read() {
        for (max, expected) in [(3, false), (4, true), (5, true)] {
            assert_eq!(
                Bounded::new(&b"1234"[..], max).read_to_end(&mut Vec::new()).is_ok(),
                expected,
                "{max}"
            );
        }
    }
}
