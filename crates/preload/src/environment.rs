//! Reads the program's environment, and never writes it.

use core::ffi::{CStr, c_char};

use crate::symbols;

/// More variables than this are not looked at.
const VARIABLES_MAX: usize = 4096;
/// A variable longer than this is not looked at: its end may not be there.
const VARIABLE_MAX: usize = 128 * 1024;

/// The environment the program was started with.
#[derive(Clone, Copy)]
pub struct Environment {
    list: *const *const c_char,
}

impl Environment {
    /// `None` where libc shows no environment.
    pub fn of_this_process() -> Option<Environment> {
        symbols::environ().map(|list| Environment { list })
    }

    /// All variables as `NAME=value`.
    pub fn variables(self) -> impl Iterator<Item = &'static [u8]> {
        (0..VARIABLES_MAX)
            .map_while(move |index| {
                // SAFETY: the list ends with a null pointer, which ends this walk, and no other thread exists
                // that could change it while constructors run.
                let variable = unsafe { *self.list.wrapping_add(index) };
                if variable.is_null() {
                    return None;
                }
                // SAFETY: what the list points to are terminated strings.
                Some(unsafe { CStr::from_ptr(variable) }.to_bytes())
            })
            .filter(|variable| variable.len() <= VARIABLE_MAX)
    }
}

/// What an environment says to the guest itself.
#[derive(Default)]
pub struct Wishes {
    /// `JOBGLASS=off`
    pub off: bool,
    /// `JOBGLASS_SOCKET`
    pub socket: Option<&'static [u8]>,
}

impl Wishes {
    pub fn read(environment: Environment) -> Wishes {
        let mut wishes = Wishes::default();
        for variable in environment.variables() {
            if let Some(value) = variable.strip_prefix(b"JOBGLASS=") {
                wishes.off = matches!(value, b"off" | b"0" | b"no" | b"false");
            } else if let Some(name) = variable.strip_prefix(b"JOBGLASS_SOCKET=") {
                wishes.socket = (!name.is_empty()).then_some(name);
            }
        }
        wishes
    }
}
