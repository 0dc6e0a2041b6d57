//! Where a reader of line protocol is, and what a backslash takes the meaning from.

use std::borrow::Cow;

use crate::monitor::Dropped;

/// What is left of a body.
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    /// Goes to the next line that is neither empty nor a comment.
    pub fn skip_to_line(&mut self) -> bool {
        loop {
            self.0 = self.0.trim_ascii_start();
            match self.0.first() {
                None => return false,
                Some(b'#') => self.skip_line(),
                Some(_) => return true,
            }
        }
    }

    /// Goes to the end of the line. A broken line may have its break in the midst of a text; what comes after it is then
    /// another broken line.
    pub fn skip_line(&mut self) {
        let end = memchr::memchr(b'\n', self.0).unwrap_or(self.0.len());
        self.0 = &self.0[end..];
    }

    pub fn eat(&mut self, byte: u8) -> bool {
        let rest = self.0.strip_prefix(&[byte]);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    pub fn expect(&mut self, byte: u8) -> Result<(), Dropped> {
        if self.eat(byte) { Ok(()) } else { Err(Dropped::Malformed) }
    }

    pub fn blanks(&mut self) -> Result<(), Dropped> {
        self.expect(b' ')?;
        while self.eat(b' ') {}
        Ok(())
    }

    /// All before the next of these bytes that has no backslash before it, or before the end of the line.
    pub fn until(&mut self, ends: &[u8]) -> Result<&'a [u8], Dropped> {
        let mut at = 0;
        while let Some(byte) = self.0.get(at) {
            match byte {
                b'\n' => break,
                byte if ends.contains(byte) => break,
                b'\\' if self.0.get(at + 1).is_some_and(|next| b",= ".contains(next)) => at += 2,
                _ => at += 1,
            }
        }
        let (found, rest) = self.0.split_at(at);
        self.0 = rest;
        let is_empty = found.is_empty() || found == b"\r";
        if is_empty { Err(Dropped::Malformed) } else { Ok(found.strip_suffix(b"\r").unwrap_or(found)) }
    }

    /// Goes behind the quote that ends a text.
    pub fn quoted(&mut self) -> Result<(), Dropped> {
        let mut at = 0;
        loop {
            match self.0.get(at).ok_or(Dropped::Truncated)? {
                b'"' => break,
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        self.0 = &self.0[at + 1..];
        Ok(())
    }

    /// What is behind the fields: nothing, or a blank and a time.
    pub fn rest_of_line(&mut self) -> Result<&'a [u8], Dropped> {
        let end = memchr::memchr(b'\n', self.0).unwrap_or(self.0.len());
        let (line, rest) = self.0.split_at(end);
        let is_apart = line.is_empty() || line.starts_with(b" ") || line == b"\r";
        if !is_apart {
            return Err(Dropped::Malformed);
        }
        self.0 = rest;
        Ok(line)
    }
}

/// A name without the backslashes that stood before these bytes.
pub fn unescaped<'a>(name: &'a [u8], escaped: &[u8]) -> Cow<'a, [u8]> {
    if !name.contains(&b'\\') {
        return Cow::Borrowed(name);
    }
    let mut bytes = name.iter().peekable();
    let mut plain = Vec::with_capacity(name.len());
    while let Some(byte) = bytes.next() {
        let next = bytes.next_if(|next| *byte == b'\\' && escaped.contains(next));
        plain.push(*next.unwrap_or(byte));
    }
    Cow::Owned(plain)
}
