//! The objects the loader has put into this process, with the identity in their notes.
//!
//! Names and headers are the loader's own memory. Notes lie in mappings of files that anyone may have
//! written, truncated or left unreadable. One on the page that holds the object's program headers, as almost
//! all are, can be read as safely as those headers have been; any other is not touched: the kernel copies it
//! for us, and refuses where a plain read would have ended the program.

use core::ffi::{CStr, c_int, c_void};

use elf::notes::Identity;
use record::wire::{Writer, key};

use crate::symbols::{ObjectInfo, ProgramHeader, dl_iterate_phdr};
use crate::sys;

/// Segments of notes longer than this hold no identity.
const NOTES_MAX: usize = 1024;
/// What an object's notes may take together: build-id, signature, and properties or ABI of the system.
pub const NOTES_BYTES: usize = 4 * NOTES_MAX;
const NAME_MAX: usize = 4096;
/// The smallest page there is: what lies on one of these lies on one page of any kernel.
const PAGE: usize = 4096;
/// The end of the list and of the message.
const ENDS: usize = 48;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PF_X: u32 = 1;
const PF_R: u32 = 4;

/// Where the loader's list stood at the start, to tell later objects from earlier ones.
#[derive(Clone, Copy, Default)]
pub struct Baseline {
    /// Everything the loader has, what we do not list included.
    pub seen: usize,
    pub adds: u64,
}

/// One walk over the loader's list, from which each object goes straight into the message.
struct Walk<'a, 'm> {
    /// The name of the first object, which the loader does not name.
    exe: &'a [u8],
    room: &'a mut [u8],
    out: &'a mut Writer<'m>,
    baseline: Baseline,
    /// Seen, but without a place in the message.
    cut: u64,
}

/// Writes all objects; `exe` is the program, `room` takes the notes of one object.
pub fn write(exe: &[u8], room: &mut [u8], out: &mut Writer) -> Option<Baseline> {
    out.uint(key::OBJECTS);
    out.open_array();
    let mut walk = Walk { exe, room, out, baseline: Baseline::default(), cut: 0 };
    let iterate = dl_iterate_phdr();
    if let Some(iterate) = iterate {
        // SAFETY: the callback gets back the pointer to `walk` given here, and only during this call.
        unsafe { iterate(visit, &raw mut walk as *mut c_void) };
    }
    let Walk { baseline, cut, .. } = walk;
    out.end();
    if cut > 0 {
        out.uint(key::OBJECTS_CUT);
        out.uint(cut);
    }
    iterate.map(|_| baseline)
}

/// The loader's callback for one object.
unsafe extern "C" fn visit(info: *const ObjectInfo, size: usize, data: *mut c_void) -> c_int {
    if info.is_null() || size < size_of::<ObjectInfo>() {
        return 1;
    }
    // SAFETY: `data` is the pointer given to the walk; the loader's structure is valid during this call.
    unsafe { (*data.cast::<Walk>()).add(&*info) };
    0
}

impl Walk<'_, '_> {
    fn add(&mut self, info: &ObjectInfo) {
        let is_first = self.baseline.seen == 0;
        self.baseline.seen = self.baseline.seen.wrapping_add(1);
        self.baseline.adds = info.adds;
        let headers = headers(info);
        let name = if is_first { self.exe } else { bounded(info.name.cast()) };
        // The vDSO has a name, but no file.
        if !is_first && (!name.contains(&b'/') || is_ourselves(info, headers)) {
            return;
        }
        let identity = identity(info.base, headers, self.room);
        let mark = self.out.mark();
        self.out.array(4);
        self.out.optional_uint(code(info.base, headers));
        self.out.bytes(name);
        self.out.optional_bytes(identity.build_id);
        self.out.optional_bytes(identity.signature);
        if self.out.is_full() || self.out.room() < ENDS {
            self.out.back_to(mark);
            self.cut = self.cut.wrapping_add(1);
        }
    }
}

/// Where an object's code begins: by this address the agent finds the file that the kernel has mapped there.
pub fn code(base: usize, headers: &[ProgramHeader]) -> Option<u64> {
    let first = headers.iter().find(|header| header.kind == PT_LOAD && header.flags & PF_X != 0)?;
    Some((base as u64).wrapping_add(first.vaddr))
}

/// What an object's notes say it is. They are copied before they are read: the file may be changing.
fn identity<'r>(base: usize, headers: &[ProgramHeader], mut room: &'r mut [u8]) -> Identity<'r> {
    let mut identity = Identity::default();
    for header in headers.iter().filter(|header| header.kind == PT_NOTE) {
        let len = header.mem_size as usize;
        let at = base.wrapping_add(header.vaddr as usize);
        if len == 0 || len > NOTES_MAX || !headers.iter().any(|load| holds(load, header)) {
            continue;
        }
        let Some((place, rest)) = core::mem::take(&mut room).split_at_mut_checked(len) else { break };
        room = rest;
        if shares_page(at, len, headers) {
            // SAFETY: the page is there and readable, as `headers` has just been read from it.
            unsafe { core::ptr::copy_nonoverlapping(at as *const u8, place.as_mut_ptr(), len) };
        } else if sys::copy_from_self(at, place) != Ok(len) {
            continue;
        }
        identity.absorb(place, header.align);
    }
    identity
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

/// Whether the bytes lie wholly on the page on which the program headers begin.
fn shares_page(at: usize, len: usize, headers: &[ProgramHeader]) -> bool {
    let page_of = |address: usize| address & !PAGE.wrapping_sub(1);
    let page = page_of(headers.as_ptr() as usize);
    page_of(at) == page && page_of(at.wrapping_add(len).wrapping_sub(1)) == page
}

/// Whether the object is this library, which is no part of the user's program.
pub fn is_ourselves(info: &ObjectInfo, headers: &[ProgramHeader]) -> bool {
    let here = (is_ourselves as *const () as usize).wrapping_sub(info.base) as u64;
    headers.iter().any(|load| {
        load.kind == PT_LOAD && here >= load.vaddr && here.wrapping_sub(load.vaddr) < load.mem_size
    })
}

/// The program headers of an object.
pub fn headers(info: &ObjectInfo) -> &[ProgramHeader] {
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
