//! Objects loaded after the start, told at the end through memory shared with the agent.
//!
//! The destructor makes no system call: by then the program may have put itself under a filter that kills
//! on any. It only writes into memory whose other end the agent has held since the start. A forked child
//! must not write there, and cannot ask who it is without a call, so the pointer to that memory lies on a
//! page that the kernel clears in every forked child.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering, fence};

use record::wire::{Writer, late};

use crate::objects::{Baseline, bounded};
use crate::symbols::{ObjectInfo, dl_iterate_phdr};
use crate::sys::{self, Fd};

/// A page of its own, wiped in forked children.
#[repr(C, align(4096))]
struct Page {
    state: State,
    pad: [u8; 4096 - size_of::<State>()],
}

#[derive(Clone, Copy)]
struct State {
    region: *mut u8,
    baseline: Baseline,
}

struct Shared(UnsafeCell<Page>);

// SAFETY: written once by the constructor, before any thread exists, and read by the destructor.
unsafe impl Sync for Shared {}

static PAGE: Shared = Shared(UnsafeCell::new(Page {
    state: State { region: core::ptr::null_mut(), baseline: Baseline { seen: 0, adds: 0 } },
    pad: [0; 4096 - size_of::<State>()],
}));

/// Makes the shared memory and gives the descriptor to hand to the agent.
pub fn prepare(baseline: Baseline) -> Option<Fd> {
    let page = PAGE.0.get();
    // Without this a forked child would speak in its parent's name, so then nothing is shared at all.
    sys::wipe_on_fork(page.cast(), size_of::<Page>()).ok()?;
    let (fd, region) = sys::shared_memory(c"jobglass", late::BYTES).ok()?;
    // SAFETY: constructors run on one thread, before the program.
    unsafe { (*page).state = State { region, baseline } };
    Some(fd)
}

/// The destructor.
pub extern "C" fn end() {
    // SAFETY: see `Shared`. In a forked child the page is zero and the pointer null.
    let state = unsafe { (*PAGE.0.get()).state };
    let (false, Some(iterate)) = (state.region.is_null(), dl_iterate_phdr()) else { return };
    // SAFETY: the region is mapped with this size until the process ends; nobody else writes it.
    let region = unsafe { core::slice::from_raw_parts_mut(state.region, late::BYTES) };
    let Some((head, list)) = region.split_at_mut_checked(late::LIST) else { return };
    let mut walk = Walk { out: Writer::new(list), seen: 0, baseline: state.baseline, cut: 0, unloaded: 0 };
    walk.out.open_array();
    // SAFETY: the callback gets back the pointer to `walk` given here, and only during this call.
    unsafe { iterate(visit, &raw mut walk as *mut c_void) };
    walk.out.end();
    let (len, cut, unloaded) = (walk.out.written().len() as u32, walk.cut, walk.unloaded);
    if len <= 2 && unloaded == 0 {
        return;
    }
    for (at, word) in [(0, late::MAGIC), (8, len), (12, cut), (16, unloaded)] {
        if let Some(place) = head.get_mut(at..).and_then(|rest| rest.get_mut(..4)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
    fence(Ordering::Release);
    if let Some(place) = head.get_mut(4..8) {
        // SAFETY: four bytes, aligned because the region is a page.
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
