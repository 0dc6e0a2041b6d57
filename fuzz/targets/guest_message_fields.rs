//! Valid messages with hostile fields: whatever a message's lists hold, decoding it takes memory in proportion to its size.
//!
//! The input is a recipe, not the message: random bytes seldom are lists of thousands of items.
#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use libfuzzer_sys::fuzz_target;
use record::guest::{decode, decode_late};
use record::wire::{self, MESSAGE_MAX, Sink, Writer, key, kind, late};

/// Room for lists as long as the decoder keeps them; beyond it, only what the message itself is long.
const FIXED: usize = 512 * 1024;
const PER_BYTE: usize = 4;

/// Keeps count of what is allocated.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    PEAK.fetch_max(LIVE.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise is the one that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    /// Old and new are there at the same time.
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grow(size);
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `work` gives, the most that was allocated at a time while it ran, and what is left of that.
fn measured<T>(work: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let given = work();
    let since = |now: usize| now.saturating_sub(before);
    (given, since(PEAK.load(Relaxed)), since(LIVE.load(Relaxed)))
}

/// Reads the recipe; when it ends, the rest is zeros.
struct Recipe<'a>(&'a [u8]);

impl Recipe<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        match self.byte() % 4 {
            0 => u64::MAX,
            1 => 0,
            2 => u64::from(self.byte()),
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    /// Mostly few items, since long lists take long; sometimes as many as a message has bytes.
    fn length(&mut self) -> usize {
        match self.byte() % 16 {
            0 => 8191 + usize::from(self.byte() % 3),
            1 => usize::from(u16::from_le_bytes([self.byte(), self.byte()])),
            _ => usize::from(self.byte() % 64),
        }
    }
}

/// One item of a list, often the smallest.
fn item(kind: u8, out: &mut Writer) {
    const NAMES: [&[u8]; 4] = [b"SLURM_JOB_ID=1", b"LOADEDMODULES=:::", b"OMP_NUM_THREADS=4", b"=\0\xff"];
    match kind % 8 {
        0 | 1 => out.bytes(b""),
        2 => out.bytes(b"/"),
        3 => out.bytes(NAMES[usize::from(kind / 8) % NAMES.len()]),
        4 => out.bytes(&[b'a'; 300]),
        // A byte string of unknown length, in many pieces.
        5 => {
            out.put(&[0x5f]);
            (0..kind).for_each(|_| out.bytes(b""));
            out.end();
        }
        6 => out.null(),
        _ => out.put(&[0x9f, 0x80, 0xff]),
    }
}

/// What a list holds.
#[derive(Clone, Copy)]
enum Of {
    Strings,
    Objects,
    LateObjects,
}

fn list(recipe: &mut Recipe, of: Of, out: &mut Writer) {
    let (count, kind) = (recipe.length(), recipe.byte());
    let is_open = recipe.byte() % 2 == 0;
    if is_open {
        out.open_array()
    } else {
        out.array(count as u64)
    }
    for _ in 0..count {
        let address = (kind % 2 == 0).then_some(u64::from(kind));
        match of {
            Of::Strings => item(kind, out),
            Of::LateObjects => {
                out.array(2);
                out.optional_uint(address);
                item(kind, out);
            }
            Of::Objects => {
                out.array(4);
                out.optional_uint(address);
                item(kind, out);
                item(kind / 8, out);
                item(kind / 64, out);
            }
        }
        if out.is_full() {
            break;
        }
    }
    if is_open {
        out.end();
    }
}

fn field(recipe: &mut Recipe, out: &mut Writer) {
    let key = u64::from(recipe.byte() % 16);
    out.uint(key);
    match key {
        key::ARGV | key::ENV => list(recipe, Of::Strings, out),
        key::OBJECTS => list(recipe, Of::Objects, out),
        key::EXE | key::CWD => item(recipe.byte(), out),
        key::USAGE => {
            out.array(5);
            (0..5).for_each(|_| out.uint(recipe.number()));
        }
        // Nobody knows it: it is skipped, whatever is in it.
        5 | 11 | 15 => {
            let of = if recipe.byte() % 2 == 0 { Of::Strings } else { Of::Objects };
            list(recipe, of, out);
        }
        _ => out.uint(recipe.number()),
    }
}

/// A message that has its version and kind, and any fields any number of times; what does not fit is left out.
fn message(recipe: &mut Recipe) -> Vec<u8> {
    let mut buf = vec![0; MESSAGE_MAX];
    let mut out = Writer::new(&mut buf);
    out.open_map();
    while !recipe.0.is_empty() {
        let mark = out.mark();
        field(recipe, &mut out);
        if out.is_full() || out.room() < 8 {
            out.back_to(mark);
            break;
        }
    }
    for (key, value) in [(key::VERSION, wire::VERSION), (key::KIND, kind::START)] {
        out.uint(key);
        out.uint(value);
    }
    out.end();
    out.written().to_vec()
}

/// The shared memory with a list that was finished.
fn late_memory(recipe: &mut Recipe) -> Vec<u8> {
    let mut buf = vec![0; late::BYTES - late::LIST];
    let mut out = Writer::new(&mut buf);
    list(recipe, Of::LateObjects, &mut out);
    let record = out.written();
    let mut memory = late::DONE.to_le_bytes().to_vec();
    memory.extend_from_slice(&((late::LIST + record.len()) as u32).to_le_bytes());
    memory.resize(late::LIST, 0xff);
    memory.extend_from_slice(record);
    memory
}

fuzz_target!(|bytes: &[u8]| {
    let message = message(&mut Recipe(bytes));
    let (decoded, peak, held) = measured(|| decode(&message));
    assert!(peak <= FIXED + PER_BYTE * message.len(), "{} bytes took {peak}", message.len());
    if let Ok(decoded) = decoded {
        // Users are charged by the weight; a list may have room for twice its items.
        let weight = decoded.weight();
        assert!(held <= 2 * weight, "{held} bytes are held, {weight} are charged");
    }
    let memory = late_memory(&mut Recipe(bytes));
    let (_late, peak, _) = measured(|| decode_late(&memory));
    assert!(peak <= FIXED + PER_BYTE * memory.len(), "late memory took {peak}");
});
