//! What the next agent must know of the jobs that run: their last readings, and what their ended processes had used.
//!
//! The file lies beside the spool. It is a CBOR array of [`Kept`], and takes the old one's place when it is whole.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use minicbor::{Decode, Encode};
use record::reading::JobReading;

use crate::counters::Counters;
use crate::state;
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
    let written = file.write_all(&bytes).and_then(|()| fs::rename(&new, dir.join(NAME)));
    if written.is_err() {
        // Half a file would take room from the spool on a disk that has none: also while a child that was just forked has it open.
        let _ = file.set_len(0);
        let _ = fs::remove_file(&new);
    }
    written
}

/// A file that is not there says nothing; one that is damaged is set aside.
pub fn read(dir: &Path, counters: &Counters) -> Vec<Kept> {
    let Some(bytes) = state::read(dir, NAME, counters).content() else { return Vec::new() };
    minicbor::decode(&bytes).unwrap_or_else(|error| {
        state::set_aside(dir, NAME, error, counters);
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A disk of 64 kB.
    struct SmallDisk(tempfile::TempDir);

    impl SmallDisk {
        fn new() -> Option<SmallDisk> {
            let dir = tempfile::tempdir().unwrap();
            let mount = ["-t", "tmpfs", "-o", "size=64k", "jobglass-test"];
            let is_mounted = Command::new("mount").args(mount).arg(dir.path()).output();
            is_mounted.is_ok_and(|output| output.status.success()).then_some(SmallDisk(dir))
        }
    }

    impl Drop for SmallDisk {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
        }
    }

    #[test]
    fn on_a_full_disk_the_old_file_stays_whole() {
        let Some(disk) = SmallDisk::new() else {
            return testkit::skip("on_a_full_disk_the_old_file_stays_whole", "needs root");
        };
        let dir = disk.0.path();
        let kept = |jobs: u64| -> Vec<Kept> {
            let reading = |job: u64| JobReading { job: Some(job.to_string()), ..JobReading::default() };
            (0..jobs).map(|job| Kept { reading: reading(job), ended: Ended::default() }).collect()
        };
        // The very first does not fit: there is none, and none that is garbled.
        assert!(write(dir, &kept(5000)).is_err());
        assert_eq!((read(dir, &Counters::default()), fs::read_dir(dir).unwrap().count()), (vec![], 0));
        write(dir, &kept(3)).unwrap();
        assert!(write(dir, &kept(5000)).is_err());
        assert_eq!(read(dir, &Counters::default()), kept(3));
        // Not even the beginning of a new one fits.
        let mut rest = fs::File::create(dir.join("rest")).unwrap();
        assert!(rest.write_all(&vec![0; 1 << 20]).is_err());
        assert!(write(dir, &kept(4)).is_err());
        assert_eq!(read(dir, &Counters::default()), kept(3));
        // Not removed: its room would be taken for as long as a child of another test has it open.
        rest.set_len(0).unwrap();
        write(dir, &kept(4)).unwrap();
        assert_eq!(read(dir, &Counters::default()), kept(4));
    }

    #[test]
    fn what_was_kept_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path(), &Counters::default()), []);
        let reading = JobReading { job: Some("5".into()), start: 7, ..JobReading::default() };
        let kept = [Kept { reading, ended: Ended { processes: 3, user_ns: 9, ..Ended::default() } }];
        write(dir.path(), &kept).unwrap();
        assert_eq!(read(dir.path(), &Counters::default()), kept);
        fs::write(dir.path().join(NAME), b"\x82garbled").unwrap();
        assert_eq!(read(dir.path(), &Counters::default()), []);
    }
}
