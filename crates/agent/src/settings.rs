//! How the clock was set in this boot, for the agent that comes after this one: keys of processes were made by it.
//!
//! The file lies beside the spool: a CBOR array of the boot and the offsets of the time of day from boottime, the last one last.
//! It takes the old one's place when it is whole.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::counters::Counters;
use crate::state;

const NAME: &str = "clock";

pub fn write(dir: &Path, boot: u64, offsets: &[i64]) -> io::Result<()> {
    let bytes = minicbor::to_vec((boot, offsets)).map_err(io::Error::other)?;
    let new = dir.join(format!("{NAME}.new"));
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o640).open(&new)?;
    let written = file.write_all(&bytes).and_then(|()| fs::rename(&new, dir.join(NAME)));
    if written.is_err() {
        // Half a file would take room from the spool on a disk that has none.
        let _ = fs::remove_file(&new);
    }
    written
}

/// What an earlier agent has known; nothing after a reboot, or from a file that is damaged, which is set aside.
pub fn read(dir: &Path, boot: u64, counters: &Counters) -> Vec<i64> {
    let Some(bytes) = state::read(dir, NAME, counters).content() else { return Vec::new() };
    let (of, offsets): (u64, Vec<i64>) = minicbor::decode(&bytes).unwrap_or_else(|error| {
        state::set_aside(dir, NAME, error, counters);
        Default::default()
    });
    if of == boot { offsets } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_of_this_boot() {
        let dir = tempfile::tempdir().unwrap();
        let counters = Counters::default();
        let read = |boot| read(dir.path(), boot, &counters);
        assert!(read(7).is_empty());
        write(dir.path(), 7, &[5, -6]).unwrap();
        assert_eq!((read(7), read(8)), (vec![5, -6], vec![]));
        assert_eq!(counters.state_files_damaged.get(), 0);
        fs::write(dir.path().join(NAME), b"\x82garbled").unwrap();
        assert!(read(7).is_empty());
        assert_eq!(counters.state_files_damaged.get(), 1);
    }
}
