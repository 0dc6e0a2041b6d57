//! One agent per spool: the lock that says somebody is writing.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::counters::Counters;
use crate::state;

const NAME: &str = "lock";

/// Held for as long as it lives, and by the kernel released however the agent ends.
#[derive(Debug)]
pub struct SpoolLock {
    _file: File,
}

/// Takes the lock; `None` if another agent has it.
pub fn take(dir: &Path, counters: &Counters) -> io::Result<Option<SpoolLock>> {
    let path = dir.join(NAME);
    match fs::symlink_metadata(&path) {
        // Another agent may hold it, so it stays in its place, even if its mode keeps us out.
        Ok(meta) if meta.is_file() => drop(fs::set_permissions(&path, Permissions::from_mode(0o640))),
        Ok(_) => state::set_aside(dir, NAME, "not a regular file", counters),
        Err(_) => {}
    }
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o640).open(path)?;
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
