//! What an agent sends to the server: consecutive entries of its spool, with all they refer to.
//!
//! Each entry travels as the bytes the spool holds, so a server that is older than the agent can keep what it
//! does not know for the day it does. A batch stands for itself: lists and files to which its entries refer
//! are in it. A checksum over everything tells a batch that was changed on its way from one that is wrong.

use minicbor::bytes::ByteSlice;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::rate::JobRate;

/// The version both sides speak. A change that an older side could misread gets the next number.
pub const PROTOCOL: u32 = 1;
/// The media type of an encoded batch.
pub const MEDIA_TYPE: &str = "application/vnd.jobglass.batch";
/// A batch has at most this many entries.
pub const ENTRIES_MAX: usize = 20_000;
/// A host name is no longer than this.
pub const HOST_MAX: usize = 255;

/// Names one spool: the numbers of entries mean something only within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
#[cbor(transparent)]
pub struct Stream(#[cbor(n(0), with = "minicbor::bytes")] pub [u8; 16]);

impl std::fmt::Display for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&crate::bytes::hex(&self.0))
    }
}

/// A batch, as it is encoded.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Batch<'b> {
    #[n(0)]
    pub protocol: u32,
    /// The version of the agent's software.
    #[b(1)]
    pub agent: &'b str,
    #[b(2)]
    pub host: &'b str,
    #[n(3)]
    pub stream: Stream,
    /// The number of the first entry; the others follow without a break.
    #[n(4)]
    pub first: u64,
    #[cbor(b(5), decode_with = "bounded")]
    pub entries: Vec<&'b ByteSlice>,
    /// Lists and files to which the entries refer and which are not among them.
    #[cbor(b(6), decode_with = "bounded")]
    pub context: Vec<&'b ByteSlice>,
    /// The checksum of all of the above.
    #[n(7)]
    pub sum: u64,
}

/// Why bytes are no batch.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    #[error("not a batch: {0}")]
    Malformed(String),
    #[error("protocol {0} is not spoken here, only {PROTOCOL}")]
    Protocol(u32),
    #[error("the checksum does not match: the batch was changed on its way")]
    Checksum,
    #[error("{0}")]
    Invalid(&'static str),
}

impl<'b> Batch<'b> {
    /// Puts a batch together, with its checksum.
    pub fn new(
        host: &'b str,
        stream: Stream,
        first: u64,
        entries: Vec<&'b [u8]>,
        context: Vec<&'b [u8]>,
    ) -> Self {
        let slices = |list: Vec<&'b [u8]>| list.into_iter().map(Into::into).collect();
        let (entries, context) = (slices(entries), slices(context));
        let agent = env!("CARGO_PKG_VERSION");
        let mut batch = Batch { protocol: PROTOCOL, agent, host, stream, first, entries, context, sum: 0 };
        batch.sum = batch.checksum();
        batch
    }

    /// The number of the last entry; `None` if there are none, or so many that numbers run out.
    pub fn last(&self) -> Option<u64> {
        self.first.checked_add((self.entries.len() as u64).checked_sub(1)?)
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        minicbor::to_vec(self).unwrap_or_default()
    }

    /// Decodes and checks a batch, but not what its entries say.
    pub fn from_bytes(bytes: &'b [u8]) -> Result<Self, BatchError> {
        let malformed = |error: minicbor::decode::Error| BatchError::Malformed(error.to_string());
        let protocol = protocol(bytes).map_err(malformed)?;
        if protocol != PROTOCOL {
            return Err(BatchError::Protocol(protocol));
        }
        let batch: Batch<'b> = minicbor::decode(bytes).map_err(malformed)?;
        if batch.sum != batch.checksum() {
            return Err(BatchError::Checksum);
        }
        batch.check()?;
        Ok(batch)
    }

    fn check(&self) -> Result<(), BatchError> {
        let is_host_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if self.host.is_empty() || self.host.len() > HOST_MAX || !self.host.chars().all(is_host_char) {
            return Err(BatchError::Invalid(
                "the host name is empty, too long or has characters no host name has",
            ));
        }
        if self.entries.is_empty() {
            return Err(BatchError::Invalid("a batch without entries"));
        }
        // The store's numbers are signed.
        if self.last().is_none_or(|last| last > i64::MAX as u64) {
            return Err(BatchError::Invalid("the numbers of the entries are too large"));
        }
        Ok(())
    }

    fn checksum(&self) -> u64 {
        let mut sum = Xxh3::new();
        let mut text = |bytes: &[u8]| {
            sum.update(&(bytes.len() as u64).to_le_bytes());
            sum.update(bytes);
        };
        text(self.agent.as_bytes());
        text(self.host.as_bytes());
        text(&self.stream.0);
        text(&self.first.to_le_bytes());
        text(&(self.entries.len() as u64).to_le_bytes());
        self.entries.iter().chain(&self.context).for_each(|entry| text(entry));
        sum.digest()
    }
}

/// Not more than a batch may have is put into memory: a byte on its way may stand for a slice.
fn bounded<'b, C>(
    decoder: &mut minicbor::Decoder<'b>,
    _: &mut C,
) -> Result<Vec<&'b ByteSlice>, minicbor::decode::Error> {
    let mut slices = Vec::new();
    for slice in decoder.array_iter()? {
        if slices.len() == ENTRIES_MAX {
            return Err(minicbor::decode::Error::message("more entries than a batch may have"));
        }
        slices.push(slice?);
    }
    Ok(slices)
}

/// The version stands first, so that it can be read whatever follows.
fn protocol(bytes: &[u8]) -> Result<u32, minicbor::decode::Error> {
    let mut decoder = minicbor::Decoder::new(bytes);
    decoder.array()?;
    decoder.u32()
}

/// What the server answers when a batch is durable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// Entries that were new.
    pub stored: u64,
    /// Entries that had come before.
    pub duplicate: u64,
    /// Entries of a kind this server does not know; they are kept.
    #[serde(default)]
    pub unknown: u64,
    #[serde(default)]
    pub settings: Settings,
    /// The rates of those jobs that the agent said it has; a job that is not among them has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<JobRate>,
}

/// What the server answers an agent that has nothing to send and asks what is wished of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wishes {
    #[serde(default)]
    pub settings: Settings,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<JobRate>,
}

/// What the server wishes of an agent; what it does not mention stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Off: the agent and its guests fall silent, as with the flag file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// What the server answers when it refuses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub error: String,
    /// The protocol the server speaks.
    #[serde(default)]
    pub protocol: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAM: Stream = Stream([7; 16]);

    fn batch<'a>(entries: &'a [Vec<u8>], context: &'a [Vec<u8>]) -> Batch<'a> {
        let slices = |list: &'a [Vec<u8>]| list.iter().map(Vec::as_slice).collect();
        Batch::new("n1.example", STREAM, 5, slices(entries), slices(context))
    }

    fn payloads(least: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
        proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), least..6)
    }

    proptest! {
        #[test]
        fn what_is_sent_is_received(entries in payloads(1), context in payloads(0)) {
            let sent = batch(&entries, &context);
            let bytes = sent.to_bytes();
            prop_assert_eq!(Batch::from_bytes(&bytes).unwrap(), sent);
        }

        #[test]
        fn no_changed_bit_goes_unnoticed(entries in payloads(1), at: prop::sample::Index, bit in 0..8) {
            let bytes = batch(&entries, &[]).to_bytes();
            let mut changed = bytes.clone();
            let at = at.index(changed.len());
            changed[at] ^= 1u8 << bit;
            prop_assert!(Batch::from_bytes(&changed).is_err());
        }

        #[test]
        fn no_truncation_goes_unnoticed(entries in payloads(1), at: prop::sample::Index) {
            let bytes = batch(&entries, &[]).to_bytes();
            prop_assert!(Batch::from_bytes(&bytes[..at.index(bytes.len())]).is_err());
        }

        #[test]
        fn any_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Batch::from_bytes(&bytes).is_err());
        }
    }

    #[test]
    fn what_no_batch_may_have() {
        let one = [b"x".to_vec()];
        let slices: Vec<&[u8]> = one.iter().map(Vec::as_slice).collect();
        let check = |batch: Batch| Batch::from_bytes(&batch.to_bytes()).map(|_| ()).unwrap_err();
        for host in ["", "a b", "../x", &"h".repeat(256)] {
            let error = check(Batch::new(host, STREAM, 1, slices.clone(), Vec::new()));
            assert!(matches!(error, BatchError::Invalid(_)), "{host}");
        }
        assert!(matches!(check(Batch::new("h", STREAM, 1, Vec::new(), Vec::new())), BatchError::Invalid(_)));
        let error = check(Batch::new("h", STREAM, u64::MAX, slices.clone(), Vec::new()));
        assert!(matches!(error, BatchError::Invalid(_)));
        let newer = Batch { protocol: 2, ..Batch::new("h", STREAM, 1, slices, Vec::new()) };
        assert_eq!(check(newer), BatchError::Protocol(2));
    }

    /// A newer side adds fields; an older one reads what it knows.
    #[test]
    fn fields_of_the_future_are_skipped() {
        let entries = [b"x".to_vec()];
        let bytes = batch(&entries, &[]).to_bytes();
        assert_eq!(bytes[0], 0x88, "an array of eight");
        let longer = [&[0x89][..], &bytes[1..], &[0x63, b'n', b'e', b'w']].concat();
        assert_eq!(Batch::from_bytes(&longer).unwrap().entries.len(), 1);
        let reply: Reply = serde_json::from_str(
            r#"{"stored":1,"duplicate":2,"settings":{"enabled":false,"rate":10},"news":[],
                "rates":[{"job":"17","every_ms":500,"left_ms":9,"colour":"red"}]}"#,
        )
        .unwrap();
        assert_eq!((reply.stored, reply.settings.enabled), (1, Some(false)));
        assert_eq!((reply.rates[0].job.as_str(), reply.rates[0].sensors.len()), ("17", 0));
        // An older server says nothing of rates, and an older agent is not told of none.
        let reply: Reply = serde_json::from_str(r#"{"stored":1,"duplicate":2}"#).unwrap();
        assert_eq!(reply, Reply { stored: 1, duplicate: 2, ..Reply::default() });
        assert!(!serde_json::to_string(&reply).unwrap().contains("rates"));
    }
}
