//! The guest's message, decoded by the agent.
//!
//! The bytes come from a user's process and may be anything: what cannot be decoded is an error, never a
//! panic, and unknown keys are skipped so that a newer guest is understood.

use minicbor::data::Type;
use minicbor::decode::Error;
use minicbor::{Decode, Decoder};

use crate::bytes::Bytes;
use crate::wire::{self, key, kind, late};

/// How many items of a list are kept; the rest are counted as cut. An item of one byte in the message takes some fifty
/// in memory, so the size of a message alone does not bound what it becomes.
const ARGUMENTS_MAX: usize = 4096;
const VARIABLES_MAX: usize = 1024;
const OBJECTS_MAX: usize = 2048;
/// What the allocator takes for a string beside its bytes, and at least.
const ALLOCATION: usize = 16;
const ALLOCATION_MIN: usize = 32;

/// What a guest said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A program image begins.
    Start(Box<Start>),
    /// A program image begins of which a rule says not to report it.
    Suppressed { time: u64, reason: u64 },
}

impl Message {
    /// How much memory it takes, about.
    pub fn weight(&self) -> usize {
        let content = match self {
            Message::Start(start) => start.weight(),
            Message::Suppressed { .. } => 0,
        };
        size_of::<Message>() + content
    }
}

impl Start {
    fn weight(&self) -> usize {
        let strings = [&self.argv, &self.env, &self.ids].into_iter().map(|list| weight_of_list(list));
        let objects = self.objects.iter().map(Object::weight);
        let single = allocated(self.exe.len()) + self.cwd.as_ref().map_or(0, |cwd| allocated(cwd.len()));
        size_of::<Start>() + single + strings.chain(objects).sum::<usize>()
    }
}

impl Object {
    /// How much memory it takes in a list, about.
    pub fn weight(&self) -> usize {
        let notes = [&self.build_id, &self.signature].into_iter().flatten();
        size_of::<Object>()
            + allocated(self.path.len())
            + notes.map(|note| allocated(note.len())).sum::<usize>()
    }
}

/// How much memory a list of strings takes, about.
pub fn weight_of_list(list: &[Bytes]) -> usize {
    list.iter().map(|item| size_of::<Bytes>() + allocated(item.len())).sum()
}

fn allocated(len: usize) -> usize {
    if len == 0 { 0 } else { (len + ALLOCATION).max(ALLOCATION_MIN) }
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

/// A loaded object as the guest saw it in memory. A claim: the kernel says which file is mapped at the address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Object {
    /// Where its code begins; absent if it has none.
    pub address: Option<u64>,
    pub path: Bytes,
    pub build_id: Option<Bytes>,
    pub signature: Option<Bytes>,
}

/// Objects loaded after the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Late {
    /// The `TIME` of the message that the guest sent at its start.
    pub time: u64,
    /// Without build-ids and signatures.
    pub objects: Vec<Object>,
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
            key::ARGV => {
                let cut;
                (start.argv, cut) = list(d, ARGUMENTS_MAX, bytes)?;
                start.argv_cut |= cut > 0;
            }
            key::ARGV_CUT => start.argv_cut |= d.u64()? != 0,
            key::CWD => start.cwd = Some(bytes(d)?),
            key::ENV => {
                let (variables, cut) = list(d, VARIABLES_MAX, bytes)?;
                (start.ids, start.env) = variables.into_iter().partition(is_identifying);
                start.env_cut = start.env_cut.saturating_add(cut);
            }
            key::ENV_CUT => start.env_cut = start.env_cut.saturating_add(d.u64()?),
            key::OBJECTS => {
                let cut;
                (start.objects, cut) = list(d, OBJECTS_MAX, object)?;
                start.objects_cut = start.objects_cut.saturating_add(cut);
            }
            key::OBJECTS_CUT => start.objects_cut = start.objects_cut.saturating_add(d.u64()?),
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
    let objects = list(&mut Decoder::new(memory.get(late::LIST..len)?), OBJECTS_MAX, late_object);
    let (told_cut, unloaded) = (word(16)?, word(20)?);
    let late = |(objects, cut)| Late { time, objects, cut: told_cut.saturating_add(cut as u32), unloaded };
    Some(objects.map(late))
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

/// Reads a list, up to `max` items of it; says how many more there were.
fn list<T>(
    decoder: &mut Decoder,
    max: usize,
    item: impl Fn(&mut Decoder) -> Result<T, Error>,
) -> Result<(Vec<T>, u64), Error> {
    let mut left = decoder.array()?;
    let (mut items, mut cut) = (Vec::new(), 0);
    while more(decoder, &mut left)? {
        if items.len() < max {
            items.push(item(decoder)?);
        } else {
            decoder.skip()?;
            cut += 1;
        }
    }
    Ok((items, cut))
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

fn optional_uint(decoder: &mut Decoder) -> Result<Option<u64>, Error> {
    if decoder.datatype()? == Type::Null {
        decoder.skip()?;
        return Ok(None);
    }
    decoder.u64().map(Some)
}

fn late_object(decoder: &mut Decoder) -> Result<Object, Error> {
    expect_array(decoder, 2)?;
    Ok(Object { address: optional_uint(decoder)?, path: bytes(decoder)?, ..Object::default() })
}

fn object(decoder: &mut Decoder) -> Result<Object, Error> {
    expect_array(decoder, 4)?;
    Ok(Object {
        address: optional_uint(decoder)?,
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
    use crate::wire::{Sink, Writer};
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
        out.array(4);
        out.uint(0x1000);
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
        assert_eq!(start.objects[0].address, Some(0x1000));
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
        memory[4] = 30;
        memory[8] = 77;
        memory[24..30].copy_from_slice(&[0x81, 0x82, 9, 0x42, b'/', b'a']);
        assert!(decode_late(&memory).is_none());
        memory[..4].copy_from_slice(&late::DONE.to_le_bytes());
        let late = decode_late(&memory).unwrap().unwrap();
        let object = Object { address: Some(9), path: Bytes(b"/a".to_vec()), ..Object::default() };
        assert_eq!((late.time, late.objects), (77, vec![object]));
        memory[4] = 26;
        assert!(decode_late(&memory).unwrap().is_err());
        memory[4] = 200;
        assert!(decode_late(&memory).is_none());
    }

    /// A message of the largest size with as many items as fit in it.
    fn items(key: u64, item: &[u8]) -> Vec<u8> {
        let mut buf = vec![0; wire::MESSAGE_MAX];
        let mut out = Writer::new(&mut buf);
        out.open_map();
        for (key, value) in [(key::VERSION, wire::VERSION), (key::KIND, kind::START)] {
            out.uint(key);
            out.uint(value);
        }
        out.uint(key);
        out.open_array();
        while out.room() > 16 + item.len() {
            out.put(item);
        }
        out.end();
        out.end();
        out.written().to_vec()
    }

    #[test]
    fn lists_of_empty_items_are_cut_and_counted() {
        for (key, item) in [
            (key::ARGV, &[0x40][..]),
            (key::ENV, &[0x40]),
            (key::OBJECTS, &[0x84, 0xf6, 0x40, 0xf6, 0xf6]),
            (key::OBJECTS, &[0x84, 0xf6, 0x41, b'x', 0x41, 1, 0x41, 2]),
        ] {
            let bytes = items(key, item);
            let message = decode(&bytes).unwrap();
            assert!(message.weight() <= 512 * 1024, "key {key}: {}", message.weight());
            let Message::Start(start) = message else { panic!("not a start") };
            let kept = start.argv.len() + start.env.len() + start.objects.len();
            let all = (bytes.len() - 16) / item.len();
            assert!(kept <= ARGUMENTS_MAX && (start.argv_cut || start.env_cut + start.objects_cut > 0));
            if key != key::ARGV {
                assert!(kept as u64 + start.env_cut + start.objects_cut >= all as u64, "key {key}");
            }
        }
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
