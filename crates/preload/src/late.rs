//! Objects loaded after the start, told at the end through memory shared with the agent.
//!
//! The destructor makes no system call: by then the program may have put itself under a filter that kills
//! on any. It only writes into memory whose descriptor the agent has held since the start, and which it reads
//! when the process has ended. A forked child must not write there in its parent's name, and cannot ask who it is without a
//! call, so all that the destructor needs lies on pages that the kernel clears in every forked child.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

use record::wire::{Writer, late};

use crate::objects::{Baseline, bounded, code, headers};
use crate::symbols::{self, ObjectInfo, dl_iterate_phdr};
use crate::sys::{self, Fd};

#[derive(Clone, Copy)]
struct State {
    region: *mut u8,
    /// Names our message to the agent.
    time: u64,
    baseline: Baseline,
}

struct Shared(UnsafeCell<State>);

// SAFETY: written once by the constructor, before any thread exists, and read by the destructor.
unsafe impl Sync for Shared {}

/// All zero, as it is in a forked child, means that there is nothing to tell.
static STATE: Shared = Shared(UnsafeCell::new(State {
    region: core::ptr::null_mut(),
    time: 0,
    baseline: Baseline { seen: 0, adds: 0 },
}));

/// Makes the memory, and gives the descriptor to hand to the agent.
pub fn prepare(time: u64, baseline: Baseline) -> Option<Fd> {
    // Memory without a name is a file, too.
    if sys::file_size_limit().ok()? < late::BYTES as u64 {
        return None;
    }
    // Without this a forked child would speak in its parent's name, so then nothing is shared at all.
    let (start, bytes) = symbols::bss_pages();
    sys::wipe_on_fork(start, bytes).ok()?;
    let file = sys::anonymous_file(c"jobglass", late::BYTES).ok()?;
    let region = sys::map_shared(&file, late::BYTES).ok()?;
    // SAFETY: constructors run on one thread, before the program.
    unsafe { *STATE.0.get() = State { region, time, baseline } };
    Some(file)
}

/// The destructor.
pub extern "C" fn end() {
    // SAFETY: see `Shared`.
    let state = unsafe { *STATE.0.get() };
    let (false, Some(iterate)) = (state.region.is_null(), dl_iterate_phdr()) else { return };
    // SAFETY: the region is mapped with this size until the process ends; the agent only reads it.
    let region = unsafe { core::slice::from_raw_parts_mut(state.region, late::BYTES) };
    let Some((head, list)) = region.split_at_mut_checked(late::LIST) else { return };
    let mut walk = Walk { out: Writer::new(list), seen: 0, baseline: state.baseline, cut: 0, unloaded: 0 };
    // SAFETY: the callback gets back the pointer to `walk` given here, and only during this call.
    unsafe { iterate(visit, &raw mut walk as *mut c_void) };
    // Most programs load nothing later: then not even a page of the memory comes to be.
    if walk.out.written().is_empty() && walk.unloaded == 0 {
        return;
    }
    walk.begin_list();
    walk.out.end();
    let (written, cut, unloaded) = (walk.out.written().len(), walk.cut, walk.unloaded);
    let len = late::LIST.wrapping_add(written);
    let words = [0, len as u32, state.time as u32, (state.time >> 32) as u32, cut, unloaded];
    for (place, word) in head.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    if let Some(place) = head.get_mut(..4) {
        // SAFETY: four bytes, aligned because the region begins a page.
        unsafe { AtomicU32::from_ptr(place.as_mut_ptr().cast()) }.store(late::DONE, Ordering::Release);
    }
}

struct Walk<'a> {
    out: Writer<'a>,
    seen: usize,
    baseline: Baseline,
    cut: u32,
    unloaded: u32,
}

impl Walk<'_> {
    fn begin_list(&mut self) {
        if self.out.written().is_empty() {
            self.out.open_array();
        }
    }
}

/// The loader's callback. What was there at the start is never unloaded, so whatever stands behind it in the
/// list came later.
unsafe extern "C" fn visit(info: *const ObjectInfo, size: usize, data: *mut c_void) -> c_int {
    if info.is_null() || size < size_of::<ObjectInfo>() {
        return 1;
    }
    // SAFETY: `data` is the pointer given to the walk; the loader's structure is valid during this call.
    let (info, walk) = unsafe { (&*info, &mut *data.cast::<Walk>()) };
    if info.adds == walk.baseline.adds {
        return 1;
    }
    walk.unloaded = info.subs as u32;
    walk.seen = walk.seen.wrapping_add(1);
    if walk.seen > walk.baseline.seen {
        walk.begin_list();
        let mark = walk.out.mark();
        walk.out.array(2);
        walk.out.optional_uint(code(info.base, headers(info)));
        walk.out.bytes(bounded(info.name.cast()));
        if walk.out.is_full() || walk.out.room() < 8 {
            walk.out.back_to(mark);
            walk.cut = walk.cut.wrapping_add(1);
        }
    }
    0
}
