//! What `/proc/self/status` says about us before anything is tried.

use crate::sys;

/// What decides whether and how the guest speaks.
pub struct Status<'a> {
    /// The effective user, as decimal text.
    pub uid: &'a [u8],
    /// Our number in our own pid namespace.
    pub pid: u32,
    /// A seccomp filter is in force.
    pub filtered: bool,
    /// Peak resident memory of this image so far, KiB.
    pub peak_kib: Option<u64>,
}

/// Reads the status with calls that the loader has just made itself (open, read, close): they are the only
/// ones known to be allowed when a seccomp filter came with the process.
pub fn status(buf: &mut [u8]) -> Option<Status<'_>> {
    let file = sys::open(c"/proc/self/status").ok()?;
    parse(sys::read(&file, buf).ok()?)
}

fn parse(text: &[u8]) -> Option<Status<'_>> {
    let (mut uid, mut pid, mut filtered, mut peak_kib) = (None, None, None, None);
    for line in text.split(|b| *b == b'\n') {
        // Cheap before thorough: there are sixty lines and four of them matter.
        match line.first() {
            Some(b'U') => uid = line.strip_prefix(b"Uid:\t").and_then(|rest| field(rest, 1)).or(uid),
            Some(b'N') => {
                let last = |rest: &'_ [u8]| number(rest.rsplit(|b| *b == b'\t').next()?);
                pid = line.strip_prefix(b"NStgid:\t").and_then(last).or(pid);
            }
            Some(b'V') => {
                let kib = |rest: &'_ [u8]| number(rest.trim_ascii().strip_suffix(b" kB")?).map(u64::from);
                peak_kib = line.strip_prefix(b"VmHWM:").and_then(kib).or(peak_kib);
            }
            Some(b'S') => {
                filtered = line.strip_prefix(b"Seccomp:\t").map(|mode| mode != b"0").or(filtered);
            }
            _ => {}
        }
    }
    // A kernel without seccomp has no such line, and no filter.
    Some(Status { uid: uid?, pid: pid?, filtered: filtered.unwrap_or(false), peak_kib })
}

fn field(text: &[u8], index: usize) -> Option<&[u8]> {
    text.split(|b| *b == b'\t').nth(index)
}

fn number(text: &[u8]) -> Option<u32> {
    core::str::from_utf8(text).ok()?.parse().ok()
}
