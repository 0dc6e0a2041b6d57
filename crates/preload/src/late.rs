//! Objects loaded after the start, told at the end through memory shared with the agent.
//!
//! The destructor makes no system call: by then the program may have put itself under a filter that kills
//! on any. It only writes into memory that was mapped at the start and that the agent reads when the process
//! has ended. A forked child must not write there in its parent's name, and cannot ask who it is without a
//! call, so all that the destructor needs lies on pages that the kernel clears in every forked child.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use record::wire::{Writer, late};

use crate::agent::Memory;
use crate::objects::{Baseline, bounded};
use crate::symbols::{self, ObjectInfo, dl_iterate_phdr};
use crate::sys::{self, Fd};

#[derive(Clone, Copy)]
struct State {
    region: *mut u8,
    is_ring: bool,
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
    is_ring: false,
    time: 0,
    baseline: Baseline { seen: 0, adds: 0 },
}));

struct Record(UnsafeCell<[u8; late::RECORD_MAX]>);

// SAFETY: used by the destructor only, which runs once.
unsafe impl Sync for Record {}

static RECORD: Record = Record(UnsafeCell::new([0; late::RECORD_MAX]));

/// Maps the memory; gives the descriptor to hand to the agent if it is our own.
pub fn prepare(memory: Memory, time: u64, baseline: Baseline) -> Option<Fd> {
    // Without this a forked child would speak in its parent's name, so then nothing is shared at all.
    let (start, bytes) = symbols::bss_pages();
    sys::wipe_on_fork(start, bytes).ok()?;
    let (region, is_ring, pass) = match memory {
        Memory::Ring(file) => (sys::map_shared(&file, late::RING_BYTES).ok()?, true, None),
        Memory::Own => {
            let file = sys::anonymous_file(c"jobglass", late::RECORD_MAX).ok()?;
            (sys::map_shared(&file, late::RECORD_MAX).ok()?, false, Some(file))
        }
    };
    // SAFETY: constructors run on one thread, before the program.
    unsafe { *STATE.0.get() = State { region, is_ring, time, baseline } };
    pass
}

/// The destructor.
pub extern "C" fn end() {
    // SAFETY: see `Shared`.
    let state = unsafe { *STATE.0.get() };
    let (false, Some(iterate)) = (state.region.is_null(), dl_iterate_phdr()) else { return };
    // SAFETY: see `Record`.
    let record = unsafe { &mut *RECORD.0.get() };
    let Some((head, list)) = record.split_at_mut_checked(late::LIST) else { return };
    let mut walk = Walk { out: Writer::new(list), seen: 0, baseline: state.baseline, cut: 0, unloaded: 0 };
    walk.out.open_array();
    // SAFETY: the callback gets back the pointer to `walk` given here, and only during this call.
    unsafe { iterate(visit, &raw mut walk as *mut c_void) };
    walk.out.end();
    let (written, cut, unloaded) = (walk.out.written().len(), walk.cut, walk.unloaded);
    if written <= 2 && unloaded == 0 {
        return;
    }
    let len = late::LIST.wrapping_add(written);
    let words = [0, len as u32, state.time as u32, (state.time >> 32) as u32, cut, unloaded];
    for (place, word) in head.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    if let Some(record) = record.get(..len) {
        // SAFETY: the region was mapped with the size that its kind has, and is until the process ends.
        unsafe { publish(&state, record) };
    }
}

/// Puts a record into the shared memory, its state last.
///
/// # Safety
/// The region must be mapped.
unsafe fn publish(state: &State, record: &[u8]) {
    let at = if state.is_ring {
        let space = record.len().next_multiple_of(8);
        // SAFETY: the count is an aligned word of the region.
        let head = unsafe { AtomicU64::from_ptr(state.region.wrapping_add(late::HEAD).cast()) };
        let offset = head.fetch_add(space as u64, Ordering::Relaxed) as usize % late::DATA_BYTES;
        // A record that would go over the end is not written: the reader skips what never becomes whole.
        if offset.wrapping_add(space) > late::DATA_BYTES {
            return;
        }
        state.region.wrapping_add(late::DATA).wrapping_add(offset)
    } else {
        state.region
    };
    // SAFETY: the record fits behind `at` in the region, and that part is ours alone.
    unsafe {
        core::ptr::copy_nonoverlapping(record.as_ptr(), at, record.len());
        AtomicU32::from_ptr(at.cast()).store(late::DONE, Ordering::Release);
    }
}

struct Walk<'a> {
    out: Writer<'a>,
    seen: usize,
    baseline: Baseline,
    cut: u32,
    unloaded: u32,
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
        let mark = walk.out.mark();
        walk.out.bytes(bounded(info.name.cast()));
        if walk.out.is_full() || walk.out.room() < 8 {
            walk.out.back_to(mark);
            walk.cut = walk.cut.wrapping_add(1);
        }
    }
    0
}
