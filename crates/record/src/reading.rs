//! What the agent measures: one reading of a node and of the jobs on it.
//!
//! Counters are sums since the beginning of what they belong to, so a reading that is missing costs no total, and whoever
//! wants a rate takes the difference of two.

use minicbor::decode::Error;
use minicbor::encode::Write;
use minicbor::{Decode, Decoder, Encode, Encoder};

use crate::bytes::Bytes;
use crate::entry::Nanos;

/// One reading.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Reading {
    #[n(0)]
    pub time: Nanos,
    #[n(1)]
    pub host: String,
    /// Of the whole node; empty in a reading between two of them.
    #[n(2)]
    pub node: Values,
    #[n(3)]
    pub jobs: Vec<JobReading>,
    /// GPUs that are no job's; empty where `node` is.
    #[n(4)]
    #[cbor(default)]
    pub cards: Vec<CardReading>,
    /// In the first reading of an agent, and once a day.
    #[n(5)]
    pub hardware: Option<Box<Hardware>>,
    /// Which boot of the machine this was in.
    #[n(6)]
    pub boot: Option<u64>,
    /// The time since then: it goes on steadily, whatever is done to the clock.
    #[n(7)]
    pub since_boot: Option<Nanos>,
}

/// A job or session, as far as it is on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct JobReading {
    #[n(0)]
    pub cluster: Option<String>,
    #[n(1)]
    pub job: Option<String>,
    /// The login session or service, outside any batch job.
    #[n(2)]
    pub session: Option<String>,
    /// The resource manager's name for the node.
    #[n(3)]
    pub node: Option<String>,
    #[n(4)]
    pub uid: Option<u32>,
    #[n(5)]
    pub user: Option<String>,
    /// When it began here.
    #[n(6)]
    pub start: Nanos,
    /// When it ended here; this is its last reading.
    #[n(7)]
    pub end: Option<Nanos>,
    /// How long until the next reading, if all goes well.
    #[n(8)]
    pub every: Nanos,
    #[n(9)]
    pub values: Values,
    #[n(10)]
    pub commands: Vec<CommandReading>,
    #[n(11)]
    pub reserved: Option<Reserved>,
    /// Other jobs ran on the node at the same time.
    #[n(12)]
    pub is_shared: bool,
    /// Its GPUs.
    #[n(13)]
    #[cbor(default)]
    pub cards: Vec<CardReading>,
}

/// A GPU, or a part of one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct CardReading {
    /// The name that stays with it: its UUID, or where it is on the bus.
    #[n(0)]
    pub card: String,
    /// As its driver numbers them.
    #[n(1)]
    pub index: u32,
    /// What it is called by its maker.
    #[n(2)]
    pub model: Option<String>,
    /// The card that this is a part of.
    #[n(3)]
    pub parent: Option<String>,
    /// Why it does not work.
    #[n(4)]
    pub failing: Option<String>,
    /// Processes of others are on it.
    #[n(5)]
    pub is_shared: bool,
    #[n(6)]
    pub values: Values,
}

/// What a node is made of. What is absent is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Hardware {
    #[n(0)]
    pub model: Option<String>,
    #[n(1)]
    pub sockets: Option<u64>,
    #[n(2)]
    pub cores: Option<u64>,
    #[n(3)]
    pub threads: Option<u64>,
    #[n(4)]
    pub memory: Option<u64>,
    /// Domains of memory.
    #[n(5)]
    pub numa: Option<u64>,
    /// Floating point operations each second, double precision, in theory.
    #[n(6)]
    pub peak_flops: Option<u64>,
    /// How that was computed, or why it is unknown.
    #[n(7)]
    pub peak_rule: Option<String>,
    /// Models of the GPUs, one for each.
    #[n(8)]
    pub cards: Vec<String>,
}

/// The processes of a job that have one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct CommandReading {
    #[n(0)]
    pub command: Bytes,
    #[n(1)]
    pub values: Values,
}

/// What was reserved for a job on this node, by its environment and its control group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct Reserved {
    #[n(0)]
    pub cpus: Option<u32>,
    #[n(1)]
    pub memory: Option<u64>,
    #[n(2)]
    pub gpus: Option<u32>,
}

/// Numbers of metrics and their values, in the order of the numbers: an array `id, value, id, value, …`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values(Vec<(u16, u64)>);

impl Values {
    /// Puts in a value that is known.
    pub fn put(&mut self, id: u16, value: Option<u64>) {
        let Some(value) = value else { return };
        match self.0.binary_search_by_key(&id, |pair| pair.0) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (id, value)),
        }
    }

    pub fn get(&self, id: u16) -> Option<u64> {
        let at = self.0.binary_search_by_key(&id, |pair| pair.0).ok()?;
        Some(self.0[at].1)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> {
        self.0.iter().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<C> Encode<C> for Values {
    fn encode<W: Write>(
        &self,
        encoder: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.array(2 * self.0.len() as u64)?;
        for (id, value) in &self.0 {
            encoder.u16(*id)?.u64(*value)?;
        }
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for Values {
    fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, Error> {
        let len = decoder.array()?.ok_or_else(|| Error::message("values have no length"))?;
        if len % 2 != 0 {
            return Err(Error::message("a metric has no value"));
        }
        let mut values = Values::default();
        for _ in 0..len / 2 {
            let (id, value) = (decoder.u16()?, decoder.u64()?);
            values.put(id, Some(value));
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_survive_the_way(pairs in proptest::collection::btree_map(any::<u16>(), any::<u64>(), 0..40)) {
            let mut values = Values::default();
            pairs.iter().rev().for_each(|(id, value)| values.put(*id, Some(*value)));
            let bytes = minicbor::to_vec(&values).unwrap();
            let back: Values = minicbor::decode(&bytes).unwrap();
            prop_assert_eq!(&back, &values);
            prop_assert!(back.iter().eq(pairs.iter().map(|(id, value)| (*id, *value))));
            pairs.iter().for_each(|(id, value)| assert_eq!(back.get(*id), Some(*value)));
        }

        #[test]
        fn any_bytes_decode_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = minicbor::decode::<Values>(&bytes);
            let _ = minicbor::decode::<Reading>(&bytes);
        }
    }

    #[test]
    fn unknown_values_are_absent() {
        let mut values = Values::default();
        values.put(7, None);
        assert!(values.is_empty() && values.get(7).is_none());
        assert!(minicbor::decode::<Values>(&[0x81, 0x01]).is_err());
    }
}
