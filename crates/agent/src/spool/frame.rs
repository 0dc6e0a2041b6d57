//! The bytes of one segment: framing, checksums, and going on behind damage.

use record::batch::Stream;
use xxhash_rust::xxh3::xxh3_64;

const SEGMENT_MAGIC: [u8; 8] = *b"JGSPOOL2";
const ENTRY_MAGIC: [u8; 4] = *b"JGF1";
const TRAILER_MAGIC: [u8; 4] = *b"JGE1";
pub(super) const HEADER_BYTES: usize = 48;
const FRAME_HEADER: usize = 24;
/// No entry is larger; a longer length is damage.
pub const PAYLOAD_MAX: usize = 4 * 1024 * 1024;

/// The header of a segment of `stream` whose first entry will have number `first`.
pub(super) fn header(stream: Stream, first: u64, time: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&SEGMENT_MAGIC);
    header[8..16].copy_from_slice(&first.to_le_bytes());
    header[16..24].copy_from_slice(&time.to_le_bytes());
    header[24..40].copy_from_slice(&stream.0);
    let sum = xxh3_64(&header[..40]);
    header[40..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The number of the first entry.
    pub first: u64,
    pub stream: Stream,
}

impl Header {
    /// `None` if the bytes do not begin with a whole header.
    pub(super) fn parse(bytes: &[u8]) -> Option<Header> {
        let (content, sum) = bytes.get(..HEADER_BYTES)?.split_last_chunk()?;
        if !content.starts_with(&SEGMENT_MAGIC) || xxh3_64(content) != u64::from_le_bytes(*sum) {
            return None;
        }
        let first = u64::from_le_bytes(*content.get(8..)?.first_chunk()?);
        let stream = Stream(*content.get(24..)?.first_chunk()?);
        Some(Header { first, stream })
    }
}

/// Appends an entry's frame.
pub(super) fn push_entry(out: &mut Vec<u8>, number: u64, payload: &[u8]) {
    push(out, ENTRY_MAGIC, number, payload);
}

/// Appends the trailer: `next` is the number the next segment begins with.
pub(super) fn push_trailer(out: &mut Vec<u8>, next: u64) {
    push(out, TRAILER_MAGIC, next, &[]);
}

/// A whole segment at once.
pub fn closed_segment(stream: Stream, first: u64, payloads: &[Vec<u8>], time: u64) -> Vec<u8> {
    let mut bytes = header(stream, first, time).to_vec();
    for (number, payload) in (first..).zip(payloads) {
        push_entry(&mut bytes, number, payload);
    }
    push_trailer(&mut bytes, first + payloads.len() as u64);
    bytes
}

fn push(out: &mut Vec<u8>, magic: [u8; 4], number: u64, payload: &[u8]) {
    let start = out.len();
    out.extend(magic);
    out.extend((payload.len() as u32).to_le_bytes());
    out.extend(number.to_le_bytes());
    out.extend([0; 8]);
    out.extend(payload);
    let sum = checksum(&out[start..]);
    out[start + 16..start + FRAME_HEADER].copy_from_slice(&sum.to_le_bytes());
}

/// The checksum of a frame: everything but the checksum itself.
fn checksum(frame: &[u8]) -> u64 {
    xxh3_64(&frame[FRAME_HEADER..]) ^ xxh3_64(&frame[..16]).rotate_left(1)
}

/// What a walk over a segment meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item<'a> {
    /// An entry with its number.
    Entry(u64, &'a [u8]),
    /// Bytes from `at` on that are no frame.
    Damaged { at: usize, bytes: usize },
    /// Entries that should stand here and do not.
    Missing { entries: u64 },
    /// The segment ends without a trailer, as it does while it is written or after a crash.
    Open,
}

/// Walks over a segment's bytes.
pub struct Segment<'a> {
    bytes: &'a [u8],
    stream: Option<Stream>,
    at: usize,
    /// The number the next entry should have; unknown behind a damaged header.
    next: Option<u64>,
    pending: Option<Item<'a>>,
    done: bool,
    closed: bool,
}

impl<'a> Segment<'a> {
    /// Begins at the header.
    pub fn new(bytes: &'a [u8]) -> Self {
        let header = Header::parse(bytes);
        let (at, next) = (header.map_or(0, |_| HEADER_BYTES), header.map(|header| header.first));
        let stream = header.map(|header| header.stream);
        Segment { bytes, stream, at, next, pending: None, done: false, closed: false }
    }

    /// The stream to which the entries belong; unknown behind a damaged header.
    pub fn stream(&self) -> Option<Stream> {
        self.stream
    }

    /// The number of the next entry, as far as known: after the walk, what the next segment begins with.
    pub fn next_number(&self) -> Option<u64> {
        self.next
    }

    /// How far into the segment everything was whole.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// The entry's frame at `at`: is it a trailer, its number, its payload, its end.
    fn frame(&self, at: usize) -> Option<(bool, u64, &'a [u8], usize)> {
        let header = self.bytes.get(at..at + FRAME_HEADER)?;
        let is_trailer = match header[..4].try_into().ok()? {
            ENTRY_MAGIC => false,
            TRAILER_MAGIC => true,
            _ => return None,
        };
        let len = u32::from_le_bytes(header[4..8].try_into().ok()?) as usize;
        let number = u64::from_le_bytes(header[8..16].try_into().ok()?);
        let sum = u64::from_le_bytes(header[16..24].try_into().ok()?);
        let end = at + FRAME_HEADER + len;
        let frame = self.bytes.get(at..end).filter(|_| len <= PAYLOAD_MAX)?;
        (checksum(frame) == sum).then(|| (is_trailer, number, &frame[FRAME_HEADER..], end))
    }

    /// Where the next whole frame begins behind the damaged one at `from`; the end if there is none. The
    /// damaged frame's own length is tried first: only if that does not lead to the entry after it are its bytes searched, in
    /// which a frame may stand that is somebody's argument.
    fn resume(&self, from: usize) -> usize {
        let len =
            self.bytes.get(from + 4..from + 8).and_then(|len| len.try_into().ok()).map(u32::from_le_bytes);
        let behind = len.map(|len| from + FRAME_HEADER + len as usize);
        let is_after = |number: u64| self.next.is_none_or(|next| number == next.saturating_add(1));
        if let Some(behind) = behind.filter(|behind| self.begins_frame(*behind, is_after)) {
            return behind;
        }
        let can_follow = |number: u64| self.next.is_none_or(|next| number >= next);
        (from + 1..self.bytes.len()).find(|at| self.begins_frame(*at, can_follow)).unwrap_or(self.bytes.len())
    }

    /// Whether a whole frame begins here whose number is as it should be.
    fn begins_frame(&self, at: usize, is_right: impl Fn(u64) -> bool) -> bool {
        self.bytes.get(at..).is_some_and(|rest| rest.starts_with(b"JG"))
            && self.frame(at).is_some_and(|(_, number, ..)| is_right(number))
    }

    fn step(&mut self) -> Option<Item<'a>> {
        if self.at >= self.bytes.len() {
            self.done = true;
            return (!self.closed).then_some(Item::Open);
        }
        let Some((is_trailer, number, payload, end)) = self.frame(self.at) else {
            let at = self.at;
            self.at = self.resume(at);
            return Some(Item::Damaged { at, bytes: self.at - at });
        };
        self.at = end;
        let missing = self.next.map_or(0, |next| number.saturating_sub(next));
        if is_trailer {
            self.closed = true;
            self.next = Some(number);
            return if missing > 0 { Some(Item::Missing { entries: missing }) } else { self.step() };
        }
        self.next = Some(number.saturating_add(1));
        let entry = Item::Entry(number, payload);
        if missing > 0 {
            self.pending = Some(entry);
            return Some(Item::Missing { entries: missing });
        }
        Some(entry)
    }
}

impl<'a> Iterator for Segment<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        if self.pending.is_some() {
            return self.pending.take();
        }
        if self.done { None } else { self.step() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segment(payloads: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = header(Stream([7; 16]), 5, 99).to_vec();
        for (number, payload) in (5..).zip(payloads) {
            push_entry(&mut bytes, number, payload);
        }
        push_trailer(&mut bytes, 5 + payloads.len() as u64);
        bytes
    }

    fn payloads() -> impl Strategy<Value = Vec<Vec<u8>>> {
        proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..8)
    }

    fn whole(payloads: &[Vec<u8>]) -> Vec<Item<'_>> {
        (5..).zip(payloads).map(|(number, payload)| Item::Entry(number, payload)).collect()
    }

    #[test]
    fn a_frame_inside_a_payload_is_not_taken_for_one() {
        let mut inner = Vec::new();
        push_entry(&mut inner, 1, b"not mine");
        let payloads = [inner, b"x".to_vec()];
        let bytes = segment(&payloads);
        assert_eq!(Segment::new(&bytes).collect::<Vec<_>>(), whole(&payloads));
    }

    /// The damaged length leads to the end of the entry behind it.
    #[test]
    fn a_damaged_length_costs_one_entry_only() {
        let payloads = [vec![0; 6], vec![0; 16], b"x".to_vec()];
        let mut bytes = segment(&payloads);
        bytes[HEADER_BYTES + 4] = 6 + FRAME_HEADER as u8 + 16;
        let damaged = Item::Damaged { at: HEADER_BYTES, bytes: FRAME_HEADER + 6 };
        let expected = [
            damaged,
            Item::Missing { entries: 1 },
            Item::Entry(6, &payloads[1]),
            Item::Entry(7, &payloads[2]),
        ];
        assert_eq!(Segment::new(&bytes).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_segment_names_its_stream() {
        let mut bytes = segment(&[b"one".to_vec()]);
        assert_eq!(Segment::new(&bytes).stream(), Some(Stream([7; 16])));
        bytes[30] ^= 1;
        assert_eq!(Segment::new(&bytes).stream(), None, "its header is damaged");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(payloads in payloads()) {
            let bytes = segment(&payloads);
            let mut walk = Segment::new(&bytes);
            prop_assert_eq!(walk.by_ref().collect::<Vec<_>>(), whole(&payloads));
            prop_assert_eq!(walk.next_number(), Some(5 + payloads.len() as u64));
        }

        #[test]
        fn any_flipped_byte_is_noticed_and_the_rest_is_read(payloads in payloads(), at: prop::sample::Index, flip in 1u8..) {
            let clean = segment(&payloads);
            let mut bytes = clean.clone();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            let items: Vec<_> = Segment::new(&bytes).collect();
            prop_assert!(items.iter().any(|item| !matches!(item, Item::Entry(..))), "unnoticed at {at}");
            let entries: Vec<_> = items.iter().filter(|item| matches!(item, Item::Entry(..))).cloned().collect();
            let intact = whole(&payloads);
            prop_assert!(entries.iter().all(|entry| intact.contains(entry)));
            prop_assert!(entries.len() + 1 >= intact.len(), "more than one entry lost");
        }

        #[test]
        fn any_truncation_is_noticed_and_the_rest_is_read(payloads in payloads(), at: prop::sample::Index) {
            let mut bytes = segment(&payloads);
            bytes.truncate(at.index(bytes.len()));
            let items: Vec<_> = Segment::new(&bytes).collect();
            prop_assert_eq!(items.last(), Some(&Item::Open));
            let entries: Vec<_> = items.into_iter().filter(|item| matches!(item, Item::Entry(..))).collect();
            prop_assert_eq!(&entries[..], &whole(&payloads)[..entries.len()]);
        }

        #[test]
        fn any_bytes_are_walked_to_the_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Segment::new(&bytes).count() <= bytes.len() + 2);
        }
    }
}
