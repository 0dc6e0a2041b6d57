//! Walks ELF notes: bytes in, owner, type and description out.
//!
//! The bytes come from other people's binaries: every length is checked against what is there, and a note
//! that does not fit ends the walk.

/// Type of the GNU build-id note, owner `GNU`.
pub const NT_GNU_BUILD_ID: u32 = 3;
/// Type of our signature note, owner `Jobglass`: a UUID linked into programs and libraries.
pub const NT_SIGNATURE: u32 = 0x4a47_0001;
/// Owner of our signature note, without the terminating NUL.
pub const SIGNATURE_OWNER: &[u8] = b"Jobglass";
/// A signature is a UUID.
pub const SIGNATURE_BYTES: usize = 16;
/// Build-ids are 16 (md5) or 20 bytes (sha1); `--build-id=0x…` may be longer. More than this is not one.
pub const BUILD_ID_MAX: usize = 64;

/// One note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note<'a> {
    /// Who defined the note, without the terminating NUL.
    pub owner: &'a [u8],
    /// The owner's number for this kind of note.
    pub kind: u32,
    /// The note's content.
    pub desc: &'a [u8],
}

/// Iterates over the notes in the bytes of one `PT_NOTE` segment (little endian).
#[derive(Debug, Clone)]
pub struct Notes<'a> {
    rest: &'a [u8],
    align: usize,
}

impl<'a> Notes<'a> {
    /// `align` is the segment's `p_align`: 8 pads to eight bytes, anything else to four.
    pub fn new(segment: &'a [u8], align: u64) -> Self {
        Self { rest: segment, align: if align == 8 { 8 } else { 4 } }
    }
}

impl<'a> Iterator for Notes<'a> {
    type Item = Note<'a>;

    fn next(&mut self) -> Option<Note<'a>> {
        let name_len = word(self.rest, 0)?;
        let desc_len = word(self.rest, 4)?;
        let kind = word(self.rest, 8)?;
        let name_end = 12usize.checked_add(name_len as usize)?;
        let desc_start = round_up(name_end, self.align)?;
        let desc_end = desc_start.checked_add(desc_len as usize)?;
        let name = self.rest.get(12..name_end)?;
        let desc = self.rest.get(desc_start..desc_end)?;
        // The last note of a segment may lack its padding.
        let next = round_up(desc_end, self.align)?;
        self.rest = self.rest.get(next..).unwrap_or(&[]);
        let owner = match name.split_last() {
            Some((0, owner)) => owner,
            _ => name,
        };
        Some(Note { owner, kind, desc })
    }
}

/// What we look for in an object's notes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The linker's build-id.
    pub build_id: Option<&'a [u8]>,
    /// The signature our linker wrapper put there.
    pub signature: Option<&'a [u8]>,
}

impl<'a> Identity<'a> {
    /// Takes from one segment what is not known yet; the first of each kind wins.
    pub fn absorb(&mut self, segment: &'a [u8], align: u64) {
        for note in Notes::new(segment, align) {
            if self.build_id.is_none() && is_build_id(&note) {
                self.build_id = Some(note.desc);
            }
            if self.signature.is_none() && is_signature(&note) {
                self.signature = Some(note.desc);
            }
        }
    }
}

fn is_build_id(note: &Note) -> bool {
    note.kind == NT_GNU_BUILD_ID
        && note.owner == b"GNU"
        && !note.desc.is_empty()
        && note.desc.len() <= BUILD_ID_MAX
}

fn is_signature(note: &Note) -> bool {
    note.kind == NT_SIGNATURE && note.owner == SIGNATURE_OWNER && note.desc.len() == SIGNATURE_BYTES
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

fn round_up(value: usize, align: usize) -> Option<usize> {
    Some(value.checked_add(align - 1)? & !(align - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn note(owner: &[u8], kind: u32, desc: &[u8], align: usize) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend((owner.len() as u32 + 1).to_le_bytes());
        out.extend((desc.len() as u32).to_le_bytes());
        out.extend(kind.to_le_bytes());
        out.extend(owner);
        out.push(0);
        out.resize(out.len().next_multiple_of(align), 0);
        out.extend(desc);
        out.resize(out.len().next_multiple_of(align), 0);
        out
    }

    #[test]
    fn finds_build_id_and_signature_among_others() {
        let mut segment = note(b"stapsdt", 3, b"probe", 4);
        segment.extend(note(b"GNU", 1, &[0; 16], 4));
        segment.extend(note(b"GNU", NT_GNU_BUILD_ID, &[7; 20], 4));
        segment.extend(note(SIGNATURE_OWNER, NT_SIGNATURE, &[9; 16], 4));
        segment.extend(note(b"GNU", NT_GNU_BUILD_ID, &[8; 20], 4));
        let mut identity = Identity::default();
        identity.absorb(&segment, 4);
        assert_eq!(identity.build_id, Some(&[7u8; 20][..]));
        assert_eq!(identity.signature, Some(&[9u8; 16][..]));
    }

    #[test]
    fn eight_byte_alignment_is_respected() {
        let mut segment = note(b"GNU", 5, &[1; 12], 8);
        segment.extend(note(b"GNU", NT_GNU_BUILD_ID, &[7; 20], 8));
        let found: Vec<_> = Notes::new(&segment, 8).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].desc, &[7; 20]);
    }

    #[test]
    fn lengths_that_do_not_fit_end_the_walk() {
        let cases: [&[u8]; 5] = [
            &[],
            &[4, 0, 0, 0, 1],
            &[0xff; 12],
            &[4, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f, 3, 0, 0, 0, b'G', b'N', b'U', 0],
            &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0],
        ];
        for case in cases {
            assert_eq!(Notes::new(case, 4).count(), 0, "{case:?}");
        }
    }

    #[test]
    fn build_ids_of_absurd_length_are_not_build_ids() {
        let mut identity = Identity::default();
        let (long, empty) =
            (note(b"GNU", NT_GNU_BUILD_ID, &[1; 65], 4), note(b"GNU", NT_GNU_BUILD_ID, &[], 4));
        identity.absorb(&long, 4);
        identity.absorb(&empty, 4);
        assert_eq!(identity, Identity::default());
    }

    proptest! {
        #[test]
        fn any_bytes_end_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), align in 0u64..17) {
            prop_assert!(Notes::new(&bytes, align).count() <= bytes.len() / 12 + 1);
        }
    }
}
