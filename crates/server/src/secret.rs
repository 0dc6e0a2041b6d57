//! What is kept of a token: its hash. Two hashes are compared in the same time wherever they differ, so that the time of an answer says
//! nothing about the tokens there are.

use std::hash::{Hash, Hasher};
use std::hint::black_box;

use record::bytes::hex;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

const BYTES: usize = 32;

/// The SHA-256 of a token; in files it is hexadecimal.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; BYTES]);

/// Why a text is no hash.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not the hash of a token: 64 hexadecimal digits")]
pub struct NoDigest(String);

impl Digest {
    pub fn of(secret: &str) -> Digest {
        Digest(sha2::Sha256::digest(secret.as_bytes()).into())
    }

    /// Enough of it to tell one from another, and not enough to try tokens against.
    pub fn short(&self) -> String {
        hex(&self.0[..4])
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Digest) -> bool {
        let bytes = self.0.iter().zip(&other.0);
        bytes.fold(0, |different, (a, b)| black_box(different | (a ^ b))) == 0
    }
}

impl Eq for Digest {}

impl Hash for Digest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        hex(&digest.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = NoDigest;

    fn try_from(text: String) -> Result<Digest, NoDigest> {
        let mut bytes = [0; BYTES];
        for (at, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(2 * at..2 * at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
            *byte = digits.ok_or_else(|| NoDigest(text.clone()))?;
        }
        // Signs are digits for the parser, and not for us.
        if hex(&bytes) == text { Ok(Digest(bytes)) } else { Err(NoDigest(text)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_equal_only_in_every_byte() {
        let digest = Digest::of("a token");
        assert_eq!(digest, Digest::of("a token"));
        for at in 0..BYTES {
            let mut other = digest;
            other.0[at] ^= 0x10;
            assert_ne!(digest, other, "{at}");
        }
        let text = String::from(digest);
        assert_eq!(Digest::try_from(text.clone()).unwrap(), digest);
        for bad in ["", &text[1..], &text.to_uppercase(), &text.replacen(&text[..2], "+1", 1), "é"] {
            assert!(Digest::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
