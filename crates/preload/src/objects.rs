//! The objects the loader has put into this process, with the identity in their notes.
//!
//! Names and headers are the loader's own memory. Notes lie in mappings of files that anyone may have
//! written, truncated or left unreadable, so they are not touched directly: the kernel copies them for us
//! and refuses where a plain read would have ended the program.

use core::ffi::{CStr, c_int, c_void};

use elf::notes::Identity;
use record::wire::{Writer, key};

use crate::symbols::{ObjectInfo, ProgramHeader, dl_iterate_phdr};
use crate::sys::{self, IoVec};

/// More objects than this are counted, not listed.
const OBJECTS_MAX: usize = 1024;
/// The kernel takes this many pieces in one call.
const PIECES_MAX: usize = 1024;
/// Notes longer than this hold no identity.
const NOTES_MAX: usize = 1024;
/// Room for all notes of all objects.
const NOTES_BYTES: usize = 64 * 1024;
const NAME_MAX: usize = 4096;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PF_R: u32 = 4;

/// A note segment: which object it belongs to, and how it is aligned.
#[derive(Clone, Copy)]
struct Segment {
    object: u16,
    align: u16,
}

/// Workspace for one walk; lives in `.bss`, where pages that are not used do not exist.
pub struct Objects {
    names: [*const u8; OBJECTS_MAX],
    count: usize,
    /// Seen, but without a place in the list.
    cut: u64,
    /// Everything the loader has, the list's exceptions included.
    seen: usize,
    adds: u64,
    segments: [Segment; PIECES_MAX],
    pieces: [IoVec; PIECES_MAX],
    piece_count: usize,
    notes: [u8; NOTES_BYTES],
}

/// Where the loader's list stood at the start, to tell later objects from earlier ones.
#[derive(Clone, Copy)]
pub struct Baseline {
    pub seen: usize,
    pub adds: u64,
}

impl Objects {
    pub const fn new() -> Self {
        Objects {
            names: [core::ptr::null(); OBJECTS_MAX],
            count: 0,
            cut: 0,
            seen: 0,
            adds: 0,
            segments: [Segment { object: 0, align: 0 }; PIECES_MAX],
            pieces: [IoVec { base: 0, len: 0 }; PIECES_MAX],
            piece_count: 0,
            notes: [0; NOTES_BYTES],
        }
    }

    /// Asks the loader what is loaded.
    pub fn walk(&mut self) -> Option<Baseline> {
        let iterate = dl_iterate_phdr()?;
        // SAFETY: the callback gets back the pointer to `self` given here, and only during this call.
        unsafe { iterate(visit, self as *mut Objects as *mut c_void) };
        Some(Baseline { seen: self.seen, adds: self.adds })
    }

    /// Writes all objects; `exe` is the name of the first, which the loader does not name.
    pub fn write(&mut self, pid: u32, exe: &[u8], out: &mut Writer) {
        let copied = self.copy_notes(pid);
        out.uint(key::OBJECTS);
        out.open_array();
        let (mut piece, mut notes) = (0usize, self.notes.get(..copied).unwrap_or(&[]));
        let mut written = 0usize;
        for (index, name) in self.names.iter().take(self.count).enumerate() {
            let mut identity = Identity::default();
            while let (Some(segment), Some(iov)) = (self.segments.get(piece), self.pieces.get(piece)) {
                if piece >= self.piece_count || segment.object as usize != index {
                    break;
                }
                if let Some((this, rest)) = notes.split_at_checked(iov.len) {
                    identity.absorb(this, segment.align as u64);
                    notes = rest;
                }
                piece = piece.wrapping_add(1);
            }
            let mark = out.mark();
            out.array(3);
            out.bytes(if index == 0 { exe } else { bounded(*name) });
            out.optional_bytes(identity.build_id);
            out.optional_bytes(identity.signature);
            // Leave room for the ends of the list and of the message.
            if out.is_full() || out.room() < 48 {
                out.back_to(mark);
                break;
            }
            written = written.wrapping_add(1);
        }
        out.end();
        let cut = self.cut.wrapping_add(self.count.wrapping_sub(written) as u64);
        if cut > 0 {
            out.uint(key::OBJECTS_CUT);
            out.uint(cut);
        }
    }

    /// Copies all note segments one behind the other and says how many bytes there are. A segment that
    /// cannot be read is filled with zeros, which hold no note.
    fn copy_notes(&mut self, pid: u32) -> usize {
        let mut total = 0usize;
        let mut first = 0usize;
        while first < self.piece_count {
            let (Some(pieces), Some(room)) =
                (self.pieces.get(first..self.piece_count), self.notes.get_mut(total..))
            else {
                break;
            };
            let mut copied = sys::copy_from_self(pid, room, pieces).unwrap_or(0);
            for piece in pieces {
                first = first.wrapping_add(1);
                total = total.wrapping_add(piece.len);
                match copied.checked_sub(piece.len) {
                    Some(rest) => copied = rest,
                    // The one that could not be read; go on behind it.
                    None => break,
                }
            }
        }
        total.min(NOTES_BYTES)
    }

    fn add(&mut self, info: &ObjectInfo) {
        let is_first = self.seen == 0;
        self.seen = self.seen.wrapping_add(1);
        self.adds = info.adds;
        let headers = headers(info);
        let name = info.name as *const u8;
        if !is_first && (bounded(name).first() != Some(&b'/') && !has_slash(name) || is_ourselves(info, headers)) {
            return;
        }
        let Some(place) = self.names.get_mut(self.count) else {
            self.cut = self.cut.wrapping_add(1);
            return;
        };
        *place = name;
        for header in headers {
            self.add_notes(info.base, header, headers);
        }
        self.count = self.count.wrapping_add(1);
    }

    fn add_notes(&mut self, base: usize, header: &ProgramHeader, all: &[ProgramHeader]) {
        let len = header.mem_size as usize;
        if header.kind != PT_NOTE || len == 0 || len > NOTES_MAX || !all.iter().any(|load| holds(load, header)) {
            return;
        }
        let used: usize = self.pieces.iter().take(self.piece_count).map(|piece| piece.len).sum();
        if used.wrapping_add(len) > NOTES_BYTES {
            return;
        }
        let (Some(piece), Some(segment)) =
            (self.pieces.get_mut(self.piece_count), self.segments.get_mut(self.piece_count))
        else {
            return;
        };
        *piece = IoVec { base: base.wrapping_add(header.vaddr as usize), len };
        *segment = Segment { object: self.count as u16, align: header.align.min(16) as u16 };
        self.piece_count = self.piece_count.wrapping_add(1);
    }
}

/// Whether `note` lies wholly in the readable, file-backed part of `load`.
fn holds(load: &ProgramHeader, note: &ProgramHeader) -> bool {
    let end = note.vaddr.checked_add(note.mem_size);
    let load_end = load.vaddr.checked_add(load.file_size);
    load.kind == PT_LOAD
        && load.flags & PF_R != 0
        && note.vaddr >= load.vaddr
        && matches!((end, load_end), (Some(end), Some(load_end)) if end <= load_end)
}

/// The vDSO has a name, but no file.
fn has_slash(name: *const u8) -> bool {
    bounded(name).contains(&b'/')
}

/// Whether the object is this library, which is no part of the user's program.
pub fn is_ourselves(info: &ObjectInfo, headers: &[ProgramHeader]) -> bool {
    let here = (is_ourselves as *const () as usize).wrapping_sub(info.base) as u64;
    headers.iter().any(|load| {
        load.kind == PT_LOAD && here >= load.vaddr && here.wrapping_sub(load.vaddr) < load.mem_size
    })
}

fn headers(info: &ObjectInfo) -> &[ProgramHeader] {
    if info.headers.is_null() {
        return &[];
    }
    // SAFETY: the loader has read these headers itself to load the object, and keeps them mapped.
    unsafe { core::slice::from_raw_parts(info.headers, info.header_count as usize) }
}

/// The string at `name`, cut at a length no path has.
pub fn bounded(name: *const u8) -> &'static [u8] {
    if name.is_null() {
        return &[];
    }
    // SAFETY: the loader's names are terminated strings that live as long as the object is loaded.
    let bytes = unsafe { CStr::from_ptr(name.cast()) }.to_bytes();
    bytes.get(..NAME_MAX).unwrap_or(bytes)
}

/// The loader's callback: adds one object to the list behind `data`.
unsafe extern "C" fn visit(info: *const ObjectInfo, size: usize, data: *mut c_void) -> c_int {
    if info.is_null() || size < size_of::<ObjectInfo>() {
        return 1;
    }
    // SAFETY: `data` is the pointer given to the walk; the loader's structure is valid during this call.
    unsafe { (*data.cast::<Objects>()).add(&*info) };
    0
}
