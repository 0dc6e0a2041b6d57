//! `libjobglass.so`: the guest in the user's process.
//!
//! Loaded with `LD_PRELOAD`, it tells the node's agent what program image has begun: one message from a
//! constructor ([`start`]), and the objects loaded later through shared memory from a destructor ([`late`]).
//! A guest in someone else's process behaves: `docs/guest.md` lists each intrusion with its risk and what
//! is done about it. In short, it never allocates, never touches the environment, errno, signals or the
//! random state, keeps no descriptor, starts no thread, prints nothing and waits at most 3 ms.
//!
//! No function of libc is called except `dl_iterate_phdr`, which is a weak symbol; system calls are made
//! directly ([`sys`]), so the same file loads into any glibc and into musl.
#![no_std]

mod agent;
mod arguments;
mod environment;
mod late;
mod memory;
mod objects;
mod process;
mod start;
mod symbols;
mod sys;

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("the guest speaks to the kernel directly and knows x86-64 Linux only so far");

/// Called by the loader before the program's own constructors.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = start::begin;

/// Called by the loader when the program returns from `main` or calls `exit`.
#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = late::end;

/// Unreachable: the code has no panicking operation, which a test checks by the absence of this symbol's
/// callers' messages in the file. If it were reached, doing nothing for ever would hang the program and
/// ending it would be worse, so the guest leaves only its own thread of work.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
