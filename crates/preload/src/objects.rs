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
/// Room for all notes of all objects: 300 of them take about 30 KiB.
pub const NOTES_BYTES: usize = 48 * 1024;
const NAME_MAX: usize = 4096;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PF_R: u32 = 4;

/// An object in the list.
#[derive(Clone, Copy)]
struct Entry {
    name: *const u8,
    /// Its note segments are those before this number and behind the previous object's.
    pieces_end: u16,
    /// Which of them (by bit, from the first) are aligned to eight bytes.
    wide: u16,
}

/// Workspace for one walk; lives in `.bss`, where pages that are not used do not exist.
pub struct Objects {
    count: usize,
    /// Seen, but without a place in the list.
    cut: u64,
    /// Everything the loader has, the list's exceptions included.
    seen: usize,
    adds: u64,
    piece_count: usize,
    /// Bytes of all note segments.
    note_bytes: usize,
    list: [Entry; OBJECTS_MAX],
    pieces: [IoVec; PIECES_MAX],
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
            count: 0,
            cut: 0,
            seen: 0,
            adds: 0,
            piece_count: 0,
            note_bytes: 0,
            list: [Entry { name: core::ptr::null(), pieces_end: 0, wide: 0 }; OBJECTS_MAX],
            pieces: [IoVec { base: 0, len: 0 }; PIECES_MAX],
        }
    }

    /// Asks the loader what is loaded.
    pub fn walk(&mut self) -> Option<Baseline> {
        let iterate = dl_iterate_phdr()?;
        // SAFETY: the callback gets back the pointer to `self` given here, and only during this call.
        unsafe { iterate(visit, self as *mut Objects as *mut c_void) };
        Some(Baseline { seen: self.seen, adds: self.adds })
    }

    /// Writes all objects; `exe` is the name of the first, which the loader does not name. `room` takes the
    /// notes.
    pub fn write(&self, pid: u32, exe: &[u8], room: &mut [u8], out: &mut Writer) {
        let mut notes = self.copy_notes(pid, room);
        out.uint(key::OBJECTS);
        out.open_array();
        let (mut piece, mut written) = (0usize, 0usize);
        for (index, entry) in self.list.iter().take(self.count).enumerate() {
            let mut identity = Identity::default();
            let mut bit = 1u16;
            while piece < entry.pieces_end as usize
                && let Some(iov) = self.pieces.get(piece)
            {
                let (this, rest) = notes.split_at_checked(iov.len).unwrap_or((&[], &[]));
                identity.absorb(this, if entry.wide & bit != 0 { 8 } else { 4 });
                notes = rest;
                piece = piece.wrapping_add(1);
                bit = bit.wrapping_shl(1);
            }
            let mark = out.mark();
            out.array(3);
            out.bytes(if index == 0 { exe } else { bounded(entry.name) });
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

    /// Copies all note segments one behind the other. One that cannot be read leaves whatever was there, so
    /// it is filled with zeros, which hold no note.
    fn copy_notes<'r>(&self, pid: u32, room: &'r mut [u8]) -> &'r [u8] {
        let (mut total, mut first) = (0usize, 0usize);
        while first < self.piece_count {
            let (Some(pieces), Some(rest)) =
                (self.pieces.get(first..self.piece_count), room.get_mut(total..))
            else {
                break;
            };
            let mut copied = sys::copy_from_self(pid, rest, pieces).unwrap_or(0);
            for piece in pieces {
                let end = total.wrapping_add(piece.len);
                first = first.wrapping_add(1);
                match copied.checked_sub(piece.len) {
                    Some(more) => copied = more,
                    // The one that could not be read; go on behind it.
                    None => {
                        room.get_mut(total..end).unwrap_or(&mut []).fill(0);
                        total = end;
                        break;
                    }
                }
                total = end;
            }
        }
        room.get(..total).unwrap_or(&[])
    }

    fn add(&mut self, info: &ObjectInfo) {
        let is_first = self.seen == 0;
        self.seen = self.seen.wrapping_add(1);
        self.adds = info.adds;
        let headers = headers(info);
        let name = info.name as *const u8;
        if !is_first && (!has_slash(name) || is_ourselves(info, headers)) {
            return;
        }
        if self.count >= OBJECTS_MAX {
            self.cut = self.cut.wrapping_add(1);
            return;
        }
        let mut entry = Entry { name, pieces_end: 0, wide: 0 };
        let mut bit = 1u16;
        for header in headers {
            if bit != 0 && self.add_notes(info.base, header, headers) {
                entry.wide |= if header.align == 8 { bit } else { 0 };
                bit = bit.wrapping_shl(1);
            }
        }
        entry.pieces_end = self.piece_count as u16;
        if let Some(place) = self.list.get_mut(self.count) {
            *place = entry;
        }
        self.count = self.count.wrapping_add(1);
    }

    /// Says whether `header` is a segment of notes that is worth copying.
    fn add_notes(&mut self, base: usize, header: &ProgramHeader, all: &[ProgramHeader]) -> bool {
        let len = header.mem_size as usize;
        let total = self.note_bytes.wrapping_add(len);
        if header.kind != PT_NOTE
            || len == 0
            || len > NOTES_MAX
            || total > NOTES_BYTES
            || !all.iter().any(|load| holds(load, header))
        {
            return false;
        }
        let Some(piece) = self.pieces.get_mut(self.piece_count) else { return false };
        *piece = IoVec { base: base.wrapping_add(header.vaddr as usize), len };
        self.piece_count = self.piece_count.wrapping_add(1);
        self.note_bytes = total;
        true
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
