//! What network file systems carried. A server that does not answer may hang the reading, so it is apart from the
//! node's: its caller gives it a thread of its own, and does without it as long as it hangs.

use std::path::PathBuf;

use super::{lustre, nfs};
use crate::read::Reader;

/// Reads network file systems again and again.
pub struct Remote {
    proc: Reader,
    sys: Reader,
}

/// One reading, counted since each was mounted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    pub nfs: Vec<nfs::Mount>,
    pub lustre: Vec<lustre::Mount>,
}

impl Default for Remote {
    fn default() -> Self {
        Remote::new("/proc", "/sys")
    }
}

impl Remote {
    /// Reads below these directories, usually `/proc` and `/sys`.
    pub fn new(proc: impl Into<PathBuf>, sys: impl Into<PathBuf>) -> Remote {
        Remote { proc: Reader::new(proc), sys: Reader::new(sys) }
    }

    /// Reads all of them. The list of mounts is the kernel's own and never old.
    pub fn read(&mut self) -> Reading {
        Reading { nfs: nfs::read(&mut self.proc), lustre: lustre::read(&mut self.proc, &mut self.sys) }
    }

    /// System calls made until now.
    pub fn calls(&self) -> u64 {
        self.proc.calls() + self.sys.calls()
    }
}
