//! What each NFS mount carried: `/proc/self/mountstats`, of the mount namespace of the agent.

use std::collections::HashMap;

use crate::read::{Reader, lines, number, words};

/// One mount of an NFS file system since it was mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// `server:/export`.
    pub device: Vec<u8>,
    pub point: Vec<u8>,
    /// Major and minor number. Mounts that have it in common are the same file system and show the same counters:
    /// to be counted once.
    pub number: Option<(u32, u32)>,
    pub bytes: Option<Bytes>,
    pub operations: Option<Operations>,
}

/// The `bytes:` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes {
    /// By programs, through the page cache.
    pub normal_read: u64,
    pub normal_written: u64,
    /// By programs, past it.
    pub direct_read: u64,
    pub direct_written: u64,
    /// From and to the server.
    pub server_read: u64,
    pub server_written: u64,
}

/// Calls to the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Operations {
    pub all: u64,
    pub reads: u64,
    pub writes: u64,
    /// Sent again, because no answer came.
    pub retransmissions: u64,
    /// Given up for the moment, because no answer came for long.
    pub timeouts: u64,
}

pub(super) fn read(proc: &mut Reader) -> Vec<Mount> {
    let mut mounts = proc.all(b"self/mountstats").map(parse_mountstats).unwrap_or_default();
    if mounts.is_empty() {
        return mounts;
    }
    let numbers = proc.all(b"self/mountinfo").map(parse_mountinfo).unwrap_or_default();
    for mount in &mut mounts {
        mount.number = numbers.get(&mount.point).copied();
    }
    mounts
}

/// A line `device … mounted on … with fstype …` for each mount, below it what the file system tells of itself.
pub fn parse_mountstats(text: &[u8]) -> Vec<Mount> {
    let mut mounts = Vec::new();
    let mut current: Option<Mount> = None;
    for line in lines(text) {
        if line.starts_with(b"device ") || line.starts_with(b"no device ") {
            mounts.extend(current.take());
            current = parse_device(line);
        } else if let Some(mount) = &mut current {
            parse_detail(line, mount);
        }
    }
    mounts.extend(current);
    mounts
}

fn parse_device(line: &[u8]) -> Option<Mount> {
    let line: Vec<&[u8]> = words(line).collect();
    let [b"device", device, b"mounted", b"on", point, b"with", b"fstype", fs_type, ..] = line.as_slice()
    else {
        return None;
    };
    let mount = Mount {
        device: unescape(device),
        point: unescape(point),
        number: None,
        bytes: None,
        operations: None,
    };
    is_nfs(fs_type).then_some(mount)
}

fn parse_detail(line: &[u8], mount: &mut Mount) {
    let mut words = words(line);
    let Some(name) = words.next().and_then(|name| name.strip_suffix(b":")) else {
        if line.trim_ascii() == b"per-op statistics" {
            mount.operations = Some(Operations::default());
        }
        return;
    };
    let mut next = || words.next().and_then(number);
    if name == b"bytes" {
        mount.bytes = parse_bytes(next);
    } else if let Some(operations) = &mut mount.operations {
        let (Some(count), Some(sent), Some(timeouts)) = (next(), next(), next()) else { return };
        operations.all = operations.all.saturating_add(count);
        operations.retransmissions = operations.retransmissions.saturating_add(sent.saturating_sub(count));
        operations.timeouts = operations.timeouts.saturating_add(timeouts);
        match name {
            b"READ" => operations.reads = count,
            b"WRITE" => operations.writes = count,
            _ => {}
        }
    }
}

fn parse_bytes(mut next: impl FnMut() -> Option<u64>) -> Option<Bytes> {
    Some(Bytes {
        normal_read: next()?,
        normal_written: next()?,
        direct_read: next()?,
        direct_written: next()?,
        server_read: next()?,
        server_written: next()?,
    })
}

/// The numbers of the NFS mounts by mount point, from lines `36 35 0:52 / /home rw shared:1 - nfs4 …`. Of several
/// on one point the last is the one that is seen.
pub fn parse_mountinfo(text: &[u8]) -> HashMap<Vec<u8>, (u32, u32)> {
    lines(text).filter_map(parse_mountinfo_line).collect()
}

fn parse_mountinfo_line(line: &[u8]) -> Option<(Vec<u8>, (u32, u32))> {
    let mut words = words(line);
    let device = words.nth(2)?;
    let point = words.nth(1)?;
    let fs_type = words.skip_while(|word| *word != b"-").nth(1)?;
    let mut parts = device.splitn(2, |byte| *byte == b':').map(|part| u32::try_from(number(part)?).ok());
    let number = (parts.next()??, parts.next()??);
    is_nfs(fs_type).then(|| (unescape(point), number))
}

fn is_nfs(fs_type: &[u8]) -> bool {
    fs_type == b"nfs" || fs_type == b"nfs4"
}

/// The kernel writes space, tab, newline and backslash as `\040` and its like.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        match octal(rest) {
            Some((byte, tail)) => {
                bytes.push(byte);
                rest = tail;
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

fn octal(text: &[u8]) -> Option<(u8, &[u8])> {
    let [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] = text else { return None };
    Some(((a & 3) << 6 | (b & 7) << 3 | (c & 7), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mount(device: &[u8], point: &[u8]) -> Mount {
        Mount { device: device.to_vec(), point: point.to_vec(), number: None, bytes: None, operations: None }
    }

    #[test]
    fn only_nfs_is_listed_and_names_are_decoded() {
        for (line, expected) in [
            (&b"device a:/b mounted on /c with fstype nfs statvers=1.1"[..], Some(mount(b"a:/b", b"/c"))),
            (b"device [fe80::1]:/b mounted on /c with fstype nfs4", Some(mount(b"[fe80::1]:/b", b"/c"))),
            (
                b"device a:/b\\040c mounted on /d\\012device\\134 with fstype nfs4",
                Some(mount(b"a:/b c", b"/d\ndevice\\")),
            ),
            (b"device a:/\xff mounted on /\xc3 with fstype nfs4", Some(mount(b"a:/\xff", b"/\xc3"))),
            (b"device a:/\\999 mounted on /\\04 with fstype nfs4", Some(mount(b"a:/\\999", b"/\\04"))),
            (b"device tmpfs mounted on /tmp with fstype tmpfs", None),
            (b"no device mounted on /x with fstype nfs", None),
            (b"device a:/b mounted on /c with fstype", None),
            (b" device a:/b mounted on /c with fstype nfs4", None),
        ] {
            assert_eq!(parse_mountstats(line).first(), expected.as_ref(), "{line:?}");
        }
    }

    #[test]
    fn details_belong_to_the_mount_above() {
        let text = b"device a:/1 mounted on /1 with fstype nfs4\n\
            \tbytes:\t1 2 3 4 5 6 7 8\n\
            \tper-op statistics\n\
            \t        READ: 10 12 1 0 0 0 0 0 0\n\
            \t       WRITE: 20 20 0 0 0 0 0 0\n\
            \t     GETATTR: 30 30 0 0 0 0 0 0 0\n\
            \t       LOOKUP: x 30 0\n\
            device tmpfs mounted on /tmp with fstype tmpfs\n\
            \tbytes:\t9 9 9 9 9 9\n\
            device a:/2 mounted on /2 with fstype nfs4\n\
            \tbytes:\t1 2 3 4 5\n";
        let bytes = Bytes {
            normal_read: 1,
            normal_written: 2,
            direct_read: 3,
            direct_written: 4,
            server_read: 5,
            server_written: 6,
        };
        let operations = Operations { all: 60, reads: 10, writes: 20, retransmissions: 2, timeouts: 1 };
        let first = Mount { bytes: Some(bytes), operations: Some(operations), ..mount(b"a:/1", b"/1") };
        assert_eq!(parse_mountstats(text), [first, mount(b"a:/2", b"/2")]);
    }

    #[test]
    fn numbers_of_mounts() {
        let text = b"36 35 0:52 / /home rw,relatime shared:1 master:2 - nfs4 a:/b rw\n\
            37 35 0:53 /x /with\\040space rw - nfs a:/c rw\n\
            38 35 8:1 / / rw - ext4 /dev/sda1 rw\n\
            39 35 x:1 / /bad rw - nfs a:/d rw\n\
            40 35 0:54 / /home rw - nfs4 a:/e rw\n\
            41 35\n";
        let expected = HashMap::from([(b"/home".to_vec(), (0, 54)), (b"/with space".to_vec(), (0, 53))]);
        assert_eq!(parse_mountinfo(text), expected);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_mountstats(&bytes);
            let _ = parse_mountinfo(&bytes);
            let _ = unescape(&bytes);
            let head = b"device a:/b mounted on /c with fstype nfs4\n\tper-op statistics\nREAD: ";
            let _ = parse_mountstats(&[head, bytes.as_slice()].concat());
        }

        #[test]
        fn any_name_comes_back(name in proptest::collection::vec(any::<u8>(), 1..50)) {
            let escaped: Vec<u8> = name.iter().flat_map(|byte| format!("\\{byte:03o}").into_bytes()).collect();
            prop_assert_eq!(unescape(&escaped), name);
        }
    }
}
