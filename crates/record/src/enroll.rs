//! How an agent gets a token of its own: what it asks the server, and the answer.
//!
//! The agent makes the token itself and keeps it before it asks, so that it can ask again with the same one when the answer was lost: the
//! server has it already and says yes once more. The server keeps a hash of it, as of every token.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bytes::hex;

/// Where an agent asks.
pub const PATH: &str = "/api/v1/enroll";
/// The beginning of every token of a host.
pub const PREFIX: &str = "jgn_";
/// Random bytes in a token.
const RANDOM: usize = 32;

/// An agent's request; the enrollment token is in the header.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The name of which the agent is to send records.
    pub host: String,
    /// The token that the agent has made.
    pub token: String,
}

/// The agent may use its token from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// How administrators call the agent's token.
    pub id: String,
}

/// Without the secret.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("host", &self.host).finish_non_exhaustive()
    }
}

/// A token of a host.
pub fn token(random: &[u8; RANDOM]) -> String {
    format!("{PREFIX}{}", hex(random))
}

/// Whether a text has the form of such a token: whoever makes a shorter one would make one that can be guessed.
pub fn is_token(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.strip_prefix(PREFIX).is_some_and(|digits| digits.len() == 2 * RANDOM && digits.bytes().all(is_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_of_full_length_are_taken() {
        let whole = token(&[0xa5; RANDOM]);
        assert!(is_token(&whole), "{whole}");
        for text in ["", PREFIX, "jgn_a5", &whole[1..], &whole[..whole.len() - 1], &whole.to_uppercase()] {
            assert!(!is_token(text), "{text}");
        }
        assert!(!is_token(&format!("{whole}0")) && !is_token(&whole.replace("a5", "x5")));
        let request = Request { host: "n1".into(), token: whole.clone() };
        assert!(!format!("{request:?}").contains(&whole));
    }
}
