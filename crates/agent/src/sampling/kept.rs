//! What the next agent must know of the jobs that run: their last readings, and what their ended processes had used.
//!
//! The file lies beside the spool. It is a CBOR array of [`Kept`], and takes the old one's place when it is whole.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use minicbor::{Decode, Encode};
use record::reading::JobReading;

use crate::table::Ended;

const NAME: &str = "measured";

/// One job or session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Kept {
    #[n(0)]
    pub reading: JobReading,
    #[n(1)]
    pub ended: Ended,
}

pub fn write(dir: &Path, kept: &[Kept]) -> io::Result<()> {
    let bytes = minicbor::to_vec(kept).map_err(io::Error::other)?;
    let new = dir.join(format!("{NAME}.new"));
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o640).open(&new)?;
    file.write_all(&bytes)?;
    fs::rename(new, dir.join(NAME))
}

/// A file that is not there or damaged says nothing.
pub fn read(dir: &Path) -> Vec<Kept> {
    let bytes = fs::read(dir.join(NAME)).unwrap_or_default();
    minicbor::decode(&bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()), []);
        let reading = JobReading { job: Some("5".into()), start: 7, ..JobReading::default() };
        let kept = [Kept { reading, ended: Ended { processes: 3, user_ns: 9, ..Ended::default() } }];
        write(dir.path(), &kept).unwrap();
        assert_eq!(read(dir.path()), kept);
        fs::write(dir.path().join(NAME), b"\x82garbled").unwrap();
        assert_eq!(read(dir.path()), []);
    }
}
