//! The kernel's log, for what is told nowhere else: which processes were killed for want of memory.
//!
//! A control group counts such kills too, but the count of a job's step goes with the step, which ends when its process was
//! killed; the log still knows. It is written before the process ends, so it is read only when one was killed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// The kernel gives one record per read and never more than this.
const RECORD_MAX: usize = 8192;
/// Records of one look; a log is not longer, unless it is written faster than it is read.
const RECORDS_MAX: usize = 65_536;

/// The log from when it was opened.
pub struct Log {
    file: File,
}

impl Log {
    pub fn open() -> io::Result<Log> {
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open("/dev/kmsg")?;
        file.seek(SeekFrom::End(0))?;
        Ok(Log { file })
    }

    /// Processes that were killed for want of memory since the last call.
    pub fn killed_for_memory(&mut self) -> Vec<u32> {
        let mut killed = Vec::new();
        let mut record = [0; RECORD_MAX];
        for _ in 0..RECORDS_MAX {
            match self.file.read(&mut record) {
                Ok(0) => break,
                Ok(length) => killed.extend(record.get(..length).and_then(victim)),
                // Records were overwritten before they were read; the next read has the oldest that is left.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::PIPE.raw_os_error()) => {}
                Err(_) => break,
            }
        }
        killed
    }
}

/// `6,339,5140900,-;Memory cgroup out of memory: Killed process 14103 (a name) total-vm:…`, and older kernels only the part
/// from `Killed` on. Programs can write to the log, but not as the kernel, which is facility 0.
pub fn victim(record: &[u8]) -> Option<u32> {
    let (prefix, text) = split_once(record, b';')?;
    let (priority, _) = split_once(prefix, b',')?;
    let priority: u32 = std::str::from_utf8(priority).ok()?.parse().ok()?;
    let starts = [&b"Memory cgroup out of memory: "[..], b"Out of memory: ", b""];
    let rest = starts.iter().find_map(|start| text.strip_prefix(*start)?.strip_prefix(b"Killed process "))?;
    let (pid, _) = split_once(rest, b' ')?;
    let pid = std::str::from_utf8(pid).ok()?.trim_end_matches(',').parse().ok()?;
    (priority < 8).then_some(pid)
}

fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == at)?;
    Some((bytes.get(..at)?, bytes.get(at + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn victims_of_old_and_new_kernels() {
        for (record, expected) in [
            (
                "3,339,5140,-;Memory cgroup out of memory: Killed process 14103 (consume) total-vm:4kB",
                Some(14103),
            ),
            (
                "3,339,5140,-;Out of memory: Killed process 7 (Killed process 8 ) total-vm:4kB, anon-rss:1kB",
                Some(7),
            ),
            ("3,339,5140,-;Killed process 15 (java) total-vm:4kB, anon-rss:1kB", Some(15)),
            ("3,339,5140,-;Killed process 15, UID 5, (java) total-vm:4kB", Some(15)),
            ("3,1,1,-;Memory cgroup out of memory: Kill process 9 (java) score 5 or sacrifice child", None),
            ("6,1,1,-;oom_reaper: reaped process 14103 (consume), now anon-rss:0kB", None),
            ("12,1,1,-;Killed process 15 (said by a program) total-vm:4kB", None),
            ("3,1,1,-;Killed process (x) 5", None),
            ("3,1,1,-;Killed process 99999999999 (x)", None),
            ("", None),
            (";", None),
        ] {
            assert_eq!(victim(record.as_bytes()), expected, "{record}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = victim(&bytes);
        }
    }
}
