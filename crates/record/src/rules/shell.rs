//! The words of a shell's text, each with the place where it stands; so much of the grammar as finding secrets takes.
//!
//! Any bytes have words: a quote that is not closed ends with the text.

/// How a word is quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoting {
    /// Not, or in parts.
    Bare,
    Single,
    Double,
}

/// A word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub start: usize,
    pub end: usize,
    /// Without its quotes.
    pub value: Vec<u8>,
    quoting: Quoting,
    /// The shell replaces nothing in it: `'$NAME'`.
    pub is_literal: bool,
}

impl Word {
    /// Whether all of it stands in quotes.
    pub fn is_quoted(&self) -> bool {
        self.quoting != Quoting::Bare
    }

    /// Another value, quoted as this one was.
    pub fn quote(&self, value: &[u8]) -> Vec<u8> {
        let is_special = |b: &u8| b.is_ascii_whitespace() || b"\"'`\\;|&()<>#".contains(b);
        match self.quoting {
            Quoting::Double => quoted(value, b'"', |b| matches!(b, b'"' | b'\\'), b"\\"),
            Quoting::Bare if !value.iter().any(is_special) => value.to_vec(),
            Quoting::Bare | Quoting::Single => quoted(value, b'\'', |b| b == b'\'', b"'\\'"),
        }
    }
}

/// In single quotes `'\''` stands for one: the quotes are closed for it, and opened again.
fn quoted(value: &[u8], quote: u8, is_special: impl Fn(u8) -> bool, escape: &[u8]) -> Vec<u8> {
    let mut out = vec![quote];
    for byte in value {
        if is_special(*byte) {
            out.extend_from_slice(escape);
        }
        out.push(*byte);
    }
    out.push(quote);
    out
}

/// What a text is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Word(Word),
    /// `<<<`: the next word is the input.
    HereString,
    /// `<` or `>`: the next word is a file.
    Redirection,
    /// What was before writes to what follows.
    Pipe,
    /// Another command begins.
    End,
}

/// Splits a text into tokens.
pub(super) fn tokens(text: &[u8]) -> Vec<Token> {
    let mut reader = Reader { text, at: 0 };
    std::iter::from_fn(|| reader.token()).collect()
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    fn starts_with(&self, begin: &[u8]) -> bool {
        self.text.get(self.at..).is_some_and(|rest| rest.starts_with(begin))
    }

    fn take(&mut self, len: usize, token: Token) -> Option<Token> {
        self.at += len;
        Some(token)
    }

    fn token(&mut self) -> Option<Token> {
        loop {
            match self.text.get(self.at)? {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'\\' if self.starts_with(b"\\\n") => self.at += 2,
                b'|' if !self.starts_with(b"||") => return self.take(1, Token::Pipe),
                b';' | b'|' | b'&' | b'(' | b')' | b'`' | b'\n' => return self.take(1, Token::End),
                b'$' if self.starts_with(b"$(") => return self.take(2, Token::End),
                b'<' if self.starts_with(b"<<<") => return self.take(3, Token::HereString),
                b'<' | b'>' => return self.take(1, Token::Redirection),
                _ => return Some(Token::Word(self.word())),
            }
        }
    }

    fn word(&mut self) -> Word {
        let start = self.at;
        let mut word =
            Word { start, end: start, value: Vec::new(), quoting: Quoting::Bare, is_literal: false };
        let mut parts = 0;
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'|' | b'&' | b'(' | b')' | b'`' | b'<' | b'>' => break,
                b'$' if self.starts_with(b"$(") => break,
                b'\\' if self.starts_with(b"\\\n") => break,
                b'\'' | b'"' => {
                    let is_all = parts == 0;
                    self.quoted_part(byte, &mut word);
                    if is_all {
                        word.quoting = if byte == b'"' { Quoting::Double } else { Quoting::Single };
                    }
                }
                b'$' if self.starts_with(b"$'") => {
                    self.at += 1;
                    self.quoted_part(b'\'', &mut word);
                    parts += 1;
                }
                b'\\' => {
                    word.is_literal |= self.starts_with(b"\\$");
                    self.at += 1;
                    word.value.extend(self.text.get(self.at));
                    self.at += 1;
                    parts += 1;
                }
                byte => {
                    word.value.push(byte);
                    self.at += 1;
                    parts += 1;
                }
            }
            if parts > 0 {
                word.quoting = Quoting::Bare;
            }
            parts += 1;
        }
        self.at = self.at.min(self.text.len());
        word.end = self.at;
        word
    }

    /// What stands in quotes, and the quotes.
    fn quoted_part(&mut self, quote: u8, word: &mut Word) {
        word.is_literal |= quote == b'\'';
        self.at += 1;
        while let Some(&byte) = self.text.get(self.at) {
            self.at += 1;
            let next = self.text.get(self.at).copied();
            match (byte, next) {
                (byte, _) if byte == quote => return,
                (b'\\', Some(next @ (b'"' | b'\\'))) if quote == b'"' => {
                    word.value.push(next);
                    self.at += 1;
                }
                _ => word.value.push(byte),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<String> {
        let word = |token: Token| match token {
            Token::Word(word) => String::from_utf8(word.value).unwrap(),
            token => format!("{token:?}"),
        };
        tokens(text.as_bytes()).into_iter().map(word).collect()
    }

    #[test]
    fn splits_words_at_white_space_and_operators() {
        for (text, expected) in [
            ("a  b\tc", &["a", "b", "c"][..]),
            ("a 'b c' \"d e\" f\\ g", &["a", "b c", "d e", "f g"]),
            ("x='a b'c\"d\"", &["x=a bcd"]),
            ("a|b; c", &["a", "Pipe", "b", "End", "c"]),
            ("a \\\n  b", &["a", "b"]),
            ("x <<< 'y' > z", &["x", "HereString", "y", "Redirection", "z"]),
            ("x=$(echo y)", &["x=", "End", "echo", "y", "End"]),
            ("'not closed", &["not closed"]),
            ("\"a \\\"b\\\" c\"", &["a \"b\" c"]),
            ("$'a b'", &["a b"]),
            ("\\", &[""]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn quotes_another_value_as_the_word_was() {
        for (text, value, expected) in [
            ("'a b'", "c d", "'c d'"),
            ("\"a b\"", "c \"d\" $E", "\"c \\\"d\\\" $E\""),
            ("ab", "a***", "a***"),
            ("a\\ b", "c d", "'c d'"),
            ("'a'", "it's", "'it'\\''s'"),
        ] {
            let Some(Token::Word(word)) = tokens(text.as_bytes()).pop() else { panic!("{text}") };
            assert_eq!(String::from_utf8(word.quote(value.as_bytes())).unwrap(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_quoted_value_is_read_back(text in "[a-z]{1,3}|'[a-z ]{0,4}'|\"[a-z ]{0,4}\"", value in "[ -~]{1,20}") {
            let Some(Token::Word(word)) = tokens(text.as_bytes()).pop() else { return Ok(()) };
            let quoted = word.quote(value.as_bytes());
            let Some(Token::Word(again)) = tokens(&quoted).pop() else { return Ok(()) };
            prop_assert_eq!(String::from_utf8(again.value).unwrap(), value);
        }

        #[test]
        fn words_of_any_bytes_stand_in_the_text(text in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut at = 0;
            for token in tokens(&text) {
                if let Token::Word(word) = token {
                    prop_assert!(at <= word.start && word.start <= word.end && word.end <= text.len());
                    at = word.end;
                }
            }
        }
    }
}
