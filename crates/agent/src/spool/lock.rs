//! One agent per spool: the lock that says somebody is writing.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

const NAME: &str = "lock";

/// Held for as long as it lives, and by the kernel released however the agent ends.
#[derive(Debug)]
pub struct SpoolLock {
    _file: File,
}

/// Takes the lock; `None` if another agent has it.
pub fn take(dir: &Path) -> io::Result<Option<SpoolLock>> {
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o640).open(dir.join(NAME))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(SpoolLock { _file: file })),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether an agent is writing this spool.
pub fn is_held(dir: &Path) -> bool {
    let Ok(file) = File::open(dir.join(NAME)) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}
