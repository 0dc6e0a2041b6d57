//! The guest's message, decoded by the agent.
//!
//! The bytes come from a user's process and may be anything: what cannot be decoded is an error, never a
//! panic, and unknown keys are skipped so that a newer guest is understood.

use minicbor::data::Type;
use minicbor::decode::Error;
use minicbor::{Decode, Decoder};

use crate::bytes::Bytes;
use crate::wire::{self, key, kind, late};

/// No list in a message is longer; the sender's own bounds are lower.
const LIST_MAX: usize = 8192;

/// What a guest said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A program image begins.
    Start(Box<Start>),
    /// A program image begins of which a rule says not to report it.
    Suppressed { time: u64, reason: u64 },
}

/// What a guest said about its program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Start {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time: u64,
    pub usage: Option<Usage>,
    pub exe: Bytes,
    pub argv: Vec<Bytes>,
    pub argv_cut: bool,
    pub cwd: Option<Bytes>,
    pub env: Vec<Bytes>,
    pub env_cut: u64,
    /// `NAME=value` of variables that identify job, modules and container.
    pub ids: Vec<Bytes>,
    pub objects: Vec<Object>,
    pub objects_cut: u64,
}

/// What earlier images of the process had used when this one began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub user_us: u64,
    pub system_us: u64,
    pub peak_kib: u64,
    /// In units of 512 bytes.
    pub blocks_in: u64,
    pub blocks_out: u64,
}

/// A loaded object as the guest saw it in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Object {
    pub path: Bytes,
    pub build_id: Option<Bytes>,
    pub signature: Option<Bytes>,
}

/// Objects loaded after the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Late {
    /// The `TIME` of the message that the guest sent at its start.
    pub time: u64,
    pub paths: Vec<Bytes>,
    /// How many did not fit.
    pub cut: u32,
    /// How many were loaded and unloaded again, and are not in the list.
    pub unloaded: u32,
}

/// Decodes a message.
pub fn decode(message: &[u8]) -> Result<Message, Error> {
    let mut decoder = Decoder::new(message);
    let mut start = Start::default();
    let (mut version, mut message_kind, mut reason) = (None, None, 0);
    let mut left = decoder.map()?;
    while more(&mut decoder, &mut left)? {
        let d = &mut decoder;
        match d.u64()? {
            key::VERSION => version = Some(d.u64()?),
            key::KIND => message_kind = Some(d.u64()?),
            key::TIME => start.time = d.u64()?,
            key::USAGE => start.usage = Some(usage(d)?),
            key::EXE => start.exe = bytes(d)?,
            key::ARGV => start.argv = list(d, bytes)?,
            key::ARGV_CUT => start.argv_cut = d.u64()? != 0,
            key::CWD => start.cwd = Some(bytes(d)?),
            key::ENV => (start.ids, start.env) = list(d, bytes)?.into_iter().partition(is_identifying),
            key::ENV_CUT => start.env_cut = d.u64()?,
            key::OBJECTS => start.objects = list(d, object)?,
            key::OBJECTS_CUT => start.objects_cut = d.u64()?,
            key::REASON => reason = d.u64()?,
            _ => d.skip()?,
        }
    }
    match (version, message_kind) {
        (Some(wire::VERSION), Some(kind::START)) => Ok(Message::Start(Box::new(start))),
        (Some(wire::VERSION), Some(kind::SUPPRESSED)) => Ok(Message::Suppressed { time: start.time, reason }),
        (Some(wire::VERSION), _) => Err(Error::message("unknown kind of message")),
        _ => Err(Error::message("unknown version of message")),
    }
}

fn is_identifying(variable: &Bytes) -> bool {
    let name = variable.iter().position(|b| *b == b'=').map_or(&variable[..], |end| &variable[..end]);
    wire::is_identifying(name)
}

/// Decodes what a guest told at its end; `None` if it told nothing.
pub fn decode_late(memory: &[u8]) -> Option<Result<Late, Error>> {
    let word = |at: usize| memory.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
    let time = memory.get(8..16).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes)?;
    let len = word(4)? as usize;
    if word(0)? != late::DONE || !(late::LIST..=late::BYTES).contains(&len) {
        return None;
    }
    let paths = list(&mut Decoder::new(memory.get(late::LIST..len)?), bytes);
    let (cut, unloaded) = (word(16)?, word(20)?);
    Some(paths.map(|paths| Late { time, paths, cut, unloaded }))
}

/// Whether another item follows in a container of known or unknown length.
fn more(decoder: &mut Decoder, left: &mut Option<u64>) -> Result<bool, Error> {
    match left {
        Some(0) => Ok(false),
        Some(n) => {
            *n -= 1;
            Ok(true)
        }
        None if decoder.datatype()? == Type::Break => {
            decoder.skip()?;
            Ok(false)
        }
        None => Ok(true),
    }
}

fn list<T>(decoder: &mut Decoder, item: impl Fn(&mut Decoder) -> Result<T, Error>) -> Result<Vec<T>, Error> {
    let mut left = decoder.array()?;
    let mut items = Vec::new();
    while more(decoder, &mut left)? {
        if items.len() == LIST_MAX {
            return Err(Error::message("list too long"));
        }
        items.push(item(decoder)?);
    }
    Ok(items)
}

fn bytes(decoder: &mut Decoder) -> Result<Bytes, Error> {
    Bytes::decode(decoder, &mut ())
}

fn optional_bytes(decoder: &mut Decoder) -> Result<Option<Bytes>, Error> {
    if decoder.datatype()? == Type::Null {
        decoder.skip()?;
        return Ok(None);
    }
    bytes(decoder).map(Some)
}

fn object(decoder: &mut Decoder) -> Result<Object, Error> {
    expect_array(decoder, 3)?;
    Ok(Object {
        path: bytes(decoder)?,
        build_id: optional_bytes(decoder)?,
        signature: optional_bytes(decoder)?,
    })
}

fn usage(d: &mut Decoder) -> Result<Usage, Error> {
    expect_array(d, 5)?;
    Ok(Usage {
        user_us: d.u64()?,
        system_us: d.u64()?,
        peak_kib: d.u64()?,
        blocks_in: d.u64()?,
        blocks_out: d.u64()?,
    })
}

fn expect_array(decoder: &mut Decoder, len: u64) -> Result<(), Error> {
    if decoder.array()? == Some(len) { Ok(()) } else { Err(Error::message("array of another length")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Writer;
    use proptest::prelude::*;

    fn sample() -> Vec<u8> {
        let mut buf = vec![0; 4096];
        let mut out = Writer::new(&mut buf);
        out.open_map();
        for (key, value) in [(key::VERSION, wire::VERSION), (key::KIND, kind::START), (key::TIME, 77)] {
            out.uint(key);
            out.uint(value);
        }
        out.uint(key::EXE);
        out.bytes(b"/bin/\xff");
        out.uint(999);
        out.open_array();
        out.uint(1);
        out.end();
        out.uint(key::OBJECTS);
        out.open_array();
        out.array(3);
        out.bytes(b"/lib/a.so");
        out.optional_bytes(Some(&[1, 2]));
        out.null();
        out.end();
        out.end();
        out.written().to_vec()
    }

    #[test]
    fn reads_what_it_knows_and_skips_the_rest() {
        let Message::Start(start) = decode(&sample()).unwrap() else { panic!("not a start") };
        assert_eq!(start.time, 77);
        assert_eq!(start.exe.to_string(), "/bin/\\xff");
        assert_eq!(start.objects[0].build_id, Some(Bytes(vec![1, 2])));
    }

    #[test]
    fn another_version_or_kind_is_an_error() {
        for (from, to) in [(2, 9), (4, 9)] {
            let mut message = sample();
            assert!(message[from] < 9);
            message[from] = to;
            assert!(decode(&message).is_err(), "byte {from}");
        }
    }

    #[test]
    fn late_memory_is_read_only_when_done() {
        let mut memory = vec![0; 64];
        assert!(decode_late(&memory).is_none());
        memory[4] = 28;
        memory[8] = 77;
        memory[24..28].copy_from_slice(&[0x81, 0x42, b'/', b'a']);
        assert!(decode_late(&memory).is_none());
        memory[..4].copy_from_slice(&late::DONE.to_le_bytes());
        let late = decode_late(&memory).unwrap().unwrap();
        assert_eq!((late.time, late.paths), (77, vec![Bytes(b"/a".to_vec())]));
        memory[4] = 26;
        assert!(decode_late(&memory).unwrap().is_err());
        memory[4] = 200;
        assert!(decode_late(&memory).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
            let _ = decode_late(&bytes);
        }

        #[test]
        fn any_flipped_byte_is_an_answer(at in 0usize..64, to: u8) {
            let mut message = sample();
            let at = at % message.len();
            message[at] = to;
            let _ = decode(&message);
        }
    }
}
