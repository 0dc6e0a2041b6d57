//! The only symbols of libc we know, both weak: the program runs also where they do not exist.
//!
//! Weak imports cannot be written in stable Rust, so the assembler declares them and their addresses are
//! read from the global offset table, where the loader puts zero for what it does not find.

use core::arch::{asm, global_asm};
use core::ffi::{c_char, c_int, c_void};

global_asm!(".weak dl_iterate_phdr", ".weak environ", ".hidden __bss_start", ".hidden _end");

/// The beginning of the loader's `struct dl_phdr_info`, which both glibc and musl fill.
#[repr(C)]
pub struct ObjectInfo {
    pub base: usize,
    pub name: *const c_char,
    pub headers: *const ProgramHeader,
    pub header_count: u16,
    /// How many objects were loaded so far.
    pub adds: u64,
    /// How many were unloaded again.
    pub subs: u64,
}

/// ELF64's program header.
#[repr(C)]
pub struct ProgramHeader {
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub vaddr: u64,
    pub paddr: u64,
    pub file_size: u64,
    pub mem_size: u64,
    pub align: u64,
}

/// What the loader calls for each object; returning non-zero ends the walk.
pub type Callback = unsafe extern "C" fn(*const ObjectInfo, usize, *mut c_void) -> c_int;
/// The loader's walk over its objects.
pub type Iterate = unsafe extern "C" fn(Callback, *mut c_void) -> c_int;

/// `dl_iterate_phdr`, if there is one.
pub fn dl_iterate_phdr() -> Option<Iterate> {
    let address: usize;
    // SAFETY: reads our own global offset table.
    unsafe {
        asm!("mov {}, qword ptr [rip + dl_iterate_phdr@GOTPCREL]", out(reg) address, options(pure, readonly, nostack));
    }
    // SAFETY: a non-zero address is what the loader found under this name, whose type is fixed by its ABI.
    (address != 0).then(|| unsafe { core::mem::transmute::<usize, Iterate>(address) })
}

/// libc's `environ`, if there is one and it is set.
pub fn environ() -> Option<*const *const c_char> {
    let address: usize;
    // SAFETY: reads our own global offset table.
    unsafe {
        asm!("mov {}, qword ptr [rip + environ@GOTPCREL]", out(reg) address, options(pure, readonly, nostack));
    }
    if address == 0 {
        return None;
    }
    // SAFETY: the symbol is a variable of pointer size.
    let list = unsafe { *(address as *const *const *const c_char) };
    (!list.is_null()).then_some(list)
}

/// The pages of our zero-initialised memory that lie wholly in it, as start and length: one mapping of the
/// loader's, with nobody else's bytes in it.
pub fn bss_pages() -> (usize, usize) {
    const PAGE: usize = 4096;
    let (start, end): (usize, usize);
    // SAFETY: computes two addresses that the linker defines.
    unsafe {
        asm!("lea {}, [rip + __bss_start]", "lea {}, [rip + _end]", out(reg) start, out(reg) end,
            options(pure, nomem, nostack));
    }
    let first = start.next_multiple_of(PAGE);
    (first, end.next_multiple_of(PAGE).saturating_sub(first))
}
