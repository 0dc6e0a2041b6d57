//! The arguments the program was started with.
//!
//! The kernel puts them on the stack right below the environment: a count, the pointers, a null pointer, then
//! the environment. musl tells constructors nothing of them, so they are found from there. Where the
//! environment is no longer the kernel's, because an earlier constructor has put another in its place, the
//! kernel is asked.

use core::ffi::{CStr, c_char};

use crate::environment::Environment;
use crate::sys;

/// Arguments are kept up to this many bytes in all.
pub const ARGV_MAX: usize = 16 * 1024;
/// An environment that is farther away than this many words is not on our stack, or behind too many arguments.
const STACK_MAX: usize = 32 * 1024;

/// Where the arguments are.
#[derive(Clone, Copy)]
pub enum Arguments<'a> {
    /// On the stack: the first pointer, and how many there are.
    Stack(*const *const c_char, usize),
    /// Copied from the kernel, each with a NUL behind it.
    Text(&'a [u8]),
}

impl<'a> Arguments<'a> {
    /// Finds them; `buf` is used only if the kernel has to be asked.
    pub fn find(environment: Environment, buf: &'a mut [u8]) -> Option<Arguments<'a>> {
        on_stack(environment.start()).or_else(|| {
            let file = sys::open(c"/proc/self/cmdline").ok()?;
            sys::read(&file, buf.get_mut(..ARGV_MAX)?).ok().map(Arguments::Text)
        })
    }

    /// The arguments, and whether some are missing at the end.
    pub fn each(self, mut take: impl FnMut(&'a [u8])) -> bool {
        match self {
            Arguments::Stack(first, count) => {
                let mut left = ARGV_MAX;
                for index in 0..count {
                    // SAFETY: `on_stack` has read these pointers; the kernel made each a terminated string.
                    let argument = unsafe { CStr::from_ptr(*first.wrapping_add(index)) }.to_bytes();
                    if let Some(kept) = argument.get(..left) {
                        take(kept);
                        return true;
                    }
                    take(argument);
                    left = left.wrapping_sub(argument.len()).wrapping_sub(1);
                }
                false
            }
            Arguments::Text(text) => {
                text.strip_suffix(b"\0").unwrap_or(text).split(|b| *b == 0).for_each(take);
                text.len() == ARGV_MAX
            }
        }
    }
}

/// Looks below the environment for the null pointer, the arguments and their count. What lies between our own
/// frame and an environment close above it is one stack, so it can be read.
fn on_stack<'a>(environment: *const *const c_char) -> Option<Arguments<'a>> {
    let frame = 0usize;
    let bytes = (environment as usize).checked_sub(&raw const frame as usize)?;
    let words = bytes.checked_div(size_of::<usize>())?;
    let below = |distance: usize| {
        let at = environment.wrapping_sub(distance);
        // SAFETY: an aligned word above our frame; callers ask for no more than `words`.
        (at, unsafe { at.read_volatile() } as usize)
    };
    if words > STACK_MAX || below(1).1 != 0 {
        return None;
    }
    // A pointer is never so small a number as the count.
    (2..words)
        .map(|distance| (distance.wrapping_sub(2), below(distance)))
        .find_map(|(count, (at, word))| (word == count).then(|| Arguments::Stack(at.wrapping_add(1), count)))
}
