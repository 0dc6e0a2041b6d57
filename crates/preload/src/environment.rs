//! Reads the program's environment, and never writes it.

use core::ffi::{CStr, c_char};

use crate::symbols;

/// More variables than this are not looked at.
const VARIABLES_MAX: usize = 4096;
/// A longer name is nobody's.
const NAME_MAX: usize = 256;

/// The environment the program was started with.
#[derive(Clone, Copy)]
pub struct Environment {
    list: *const *const c_char,
}

/// A variable, of which only the name has been read: most are of no interest.
#[derive(Clone, Copy)]
pub struct Variable {
    at: *const c_char,
    name_len: usize,
}

impl Environment {
    /// `None` where libc shows no environment.
    pub fn of_this_process() -> Option<Environment> {
        symbols::environ().map(|list| Environment { list })
    }

    /// Where the list begins.
    pub fn start(self) -> *const *const c_char {
        self.list
    }

    /// All variables.
    pub fn variables(self) -> impl Iterator<Item = Variable> {
        self.pointers().filter_map(Variable::new)
    }

    /// The variables whose names begin with this byte.
    fn beginning_with(self, first: u8) -> impl Iterator<Item = Variable> {
        // SAFETY: a terminated string has a first byte.
        self.pointers().filter(move |at| unsafe { **at } as u8 == first).filter_map(Variable::new)
    }

    fn pointers(self) -> impl Iterator<Item = *const c_char> {
        (0..VARIABLES_MAX).map_while(move |index| {
            // SAFETY: the list ends with a null pointer, which ends this walk, and no other thread exists
            // that could change it while constructors run.
            let at = unsafe { *self.list.wrapping_add(index) };
            (!at.is_null()).then_some(at)
        })
    }
}

impl Variable {
    /// Finds the end of the name; `None` if there is none.
    fn new(at: *const c_char) -> Option<Variable> {
        let mut name_len = 0usize;
        while name_len < NAME_MAX {
            // SAFETY: what the list points to are terminated strings, and this walk ends with one.
            match unsafe { *at.wrapping_add(name_len) } as u8 {
                b'=' => return Some(Variable { at, name_len }),
                0 => return None,
                _ => name_len = name_len.wrapping_add(1),
            }
        }
        None
    }

    pub fn name(self) -> &'static [u8] {
        // SAFETY: so many bytes have been read, and the environment lives as long as the constructor.
        unsafe { core::slice::from_raw_parts(self.at.cast(), self.name_len) }
    }

    pub fn value(self) -> &'static [u8] {
        // SAFETY: the rest of a terminated string, behind the `=`.
        unsafe { CStr::from_ptr(self.at.wrapping_add(self.name_len).wrapping_add(1)) }.to_bytes()
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
        for variable in environment.beginning_with(b'J') {
            match variable.name() {
                b"JOBGLASS" => wishes.off = matches!(variable.value(), b"off" | b"0" | b"no" | b"false"),
                b"JOBGLASS_SOCKET" => wishes.socket = Some(variable.value()).filter(|name| !name.is_empty()),
                _ => {}
            }
        }
        wishes
    }
}
