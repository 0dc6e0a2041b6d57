//! What storage devices did: `/proc/diskstats`, of whole devices only.
//!
//! The file lists partitions, loops and memory disks, too, and devices made of others. Whether a line is a device is
//! asked of `/sys/block` once per name, and again when the node looks at its devices again.

use std::collections::HashMap;

use crate::read::{Reader, lines, number, words};

/// The unit of `/proc/diskstats`, whatever the device's own sectors are.
const SECTOR: u64 = 512;
/// Devices that are memory or files.
const NOT_STORAGE: [&[u8]; 3] = [b"loop", b"ram", b"zram"];

/// One device since boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    pub name: Vec<u8>,
    /// It is made of other devices (device mapper, RAID, several paths), which are listed, too: not to be added to
    /// them.
    pub is_stacked: bool,
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    /// During which at least one request was under way.
    pub io_ms: u64,
    /// The same for each request, summed.
    pub weighted_ms: u64,
    /// Since 4.18.
    pub discards: Option<u64>,
    pub discarded_bytes: Option<u64>,
}

/// What a name in the file stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Device,
    Stacked,
    /// A partition, a loop, a memory disk.
    Other,
}

/// Reads the devices again and again.
#[derive(Default)]
pub(super) struct Disks {
    kinds: HashMap<Vec<u8>, Kind>,
}

impl Disks {
    /// What was learnt of names is learnt anew.
    pub(super) fn forget(&mut self) {
        self.kinds.clear();
    }

    pub(super) fn read(&mut self, proc: &mut Reader, sys: &mut Reader) -> Vec<Disk> {
        let mut disks = proc.all(b"diskstats").map(parse_diskstats).unwrap_or_default();
        disks.retain_mut(|disk| {
            let kind = self.kind(&disk.name, sys);
            disk.is_stacked = kind == Kind::Stacked;
            kind != Kind::Other
        });
        mark_heads(&mut disks);
        disks
    }

    fn kind(&mut self, name: &[u8], sys: &mut Reader) -> Kind {
        if let Some(kind) = self.kinds.get(name) {
            return *kind;
        }
        let kind = look(name, sys);
        self.kinds.insert(name.to_vec(), kind);
        kind
    }
}

fn look(name: &[u8], sys: &mut Reader) -> Kind {
    if NOT_STORAGE.iter().any(|prefix| name.strip_prefix(*prefix).and_then(number).is_some()) {
        return Kind::Other;
    }
    // `cciss/c0d0` has a name without a slash in /sys.
    let name: Vec<u8> = name.iter().map(|byte| if *byte == b'/' { b'!' } else { *byte }).collect();
    if name == b"." || name == b".." || !sys.exists(&[b"block/", name.as_slice()].concat()) {
        return Kind::Other;
    }
    let mut is_stacked = false;
    // A device without this directory is made of no other.
    let _ = sys.names(&[b"block/", name.as_slice(), b"/slaves"].concat(), |_| is_stacked = true);
    if is_stacked { Kind::Stacked } else { Kind::Device }
}

/// An NVMe device with several paths has no `slaves`. Each path counts (`nvme0c1n1`), and since 6.3 the whole
/// (`nvme0n1`) counts as well.
fn mark_heads(disks: &mut [Disk]) {
    let heads: Vec<Vec<u8>> = disks.iter().filter_map(|disk| head_of_path(&disk.name)).collect();
    for disk in disks.iter_mut().filter(|disk| heads.contains(&disk.name)) {
        disk.is_stacked = true;
    }
}

/// `nvme0n1` of `nvme0c1n1`.
fn head_of_path(name: &[u8]) -> Option<Vec<u8>> {
    let rest = name.strip_prefix(b"nvme")?;
    let (subsystem, rest) = rest.split_at_checked(rest.iter().position(|byte| *byte == b'c')?)?;
    let (path, namespace) = rest.split_at_checked(rest.iter().position(|byte| *byte == b'n')?)?;
    number(subsystem)?;
    number(path.get(1..)?)?;
    number(namespace.get(1..)?)?;
    Some([b"nvme", subsystem, namespace].concat())
}

/// `254 0 vda` and numbers, of which older kernels have eleven. Lines that are not understood are left out.
pub fn parse_diskstats(text: &[u8]) -> Vec<Disk> {
    lines(text).filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Disk> {
    let mut words = words(line);
    let (major, minor) = (words.next()?, words.next()?);
    number(major).and(number(minor))?;
    let name = words.next()?.to_vec();
    // Numbered as in the kernel's iostats.rst.
    let mut next = 1;
    let mut field = |n: usize| {
        let word = words.nth(n.checked_sub(next)?);
        next = n + 1;
        number(word?)
    };
    let bytes = |sectors: u64| sectors.checked_mul(SECTOR);
    Some(Disk {
        name,
        is_stacked: false,
        reads: field(1)?,
        read_bytes: bytes(field(3)?)?,
        writes: field(5)?,
        written_bytes: bytes(field(7)?)?,
        io_ms: field(10)?,
        weighted_ms: field(11)?,
        discards: field(12),
        discarded_bytes: field(14).and_then(bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    const OLD: &str = " 1 2 3 4 5 6 7 8 9 10 11";

    fn disk(name: &[u8], is_stacked: bool) -> Disk {
        Disk {
            name: name.to_vec(),
            is_stacked,
            reads: 1,
            read_bytes: 3 * 512,
            writes: 5,
            written_bytes: 7 * 512,
            io_ms: 10,
            weighted_ms: 11,
            discards: None,
            discarded_bytes: None,
        }
    }

    #[test]
    fn columns_of_all_kernels() {
        let trimmed = Disk { discards: Some(12), discarded_bytes: Some(14 * 512), ..disk(b"sda", false) };
        for (line, expected) in [
            (format!("8 0 sda{OLD}"), vec![disk(b"sda", false)]),
            (format!("8 0 sda{OLD} 12 13 14 15"), vec![trimmed.clone()]),
            (format!("8 0 sda{OLD} 12 13 14 15 16 17"), vec![trimmed]),
            (format!("8 0 sd a{OLD}"), vec![]),
            (format!("x 0 sda{OLD}"), vec![]),
            ("8 1 sda1 1 2 3 4".into(), vec![]),
            (format!("8 0 sda 1 2 {} 4 5 6 7 8 9 10 11", u64::MAX), vec![]),
        ] {
            assert_eq!(parse_diskstats(line.as_bytes()), expected, "{line}");
        }
    }

    /// Each name, whether it has a directory, how many devices it is made of, and what becomes of it.
    #[test]
    fn only_whole_devices_are_listed() {
        let cases: [(&[u8], bool, usize, Option<bool>); 16] = [
            (b"sda", true, 0, Some(false)),
            (b"sda1", false, 0, None),
            (b"loop0", true, 0, None),
            (b"ram15", true, 0, None),
            (b"zram0", true, 0, None),
            (b"ramdisk", true, 0, Some(false)),
            (b"dm-0", true, 2, Some(true)),
            (b"dm-1", true, 0, Some(false)),
            (b"md127", true, 4, Some(true)),
            (b"nvme0n1", true, 0, Some(true)),
            (b"nvme0c0n1", true, 0, Some(false)),
            (b"nvme0c1n1", true, 0, Some(false)),
            (b"nvme1n1", true, 0, Some(false)),
            (b"cciss/c0d0", true, 0, Some(false)),
            (b"bad\xff\xc3", true, 0, Some(false)),
            (b"..", false, 0, None),
        ];
        let tree = tempfile::tempdir().unwrap();
        let mut text = Vec::new();
        for (name, is_block, slaves, _) in cases {
            text.extend([b"8 0 ", name, OLD.as_bytes(), b"\n"].concat());
            let name = String::from_utf8_lossy(name).replace('/', "!").into_bytes();
            let name = if name.starts_with(b"bad") { b"bad\xff\xc3".to_vec() } else { name };
            let dir = tree.path().join("block").join(std::ffi::OsStr::from_bytes(&name));
            if is_block {
                fs::create_dir_all(dir.join("slaves")).unwrap();
            }
            for n in 0..slaves {
                fs::write(dir.join(format!("slaves/sd{n}")), "").unwrap();
            }
        }
        fs::write(tree.path().join("diskstats"), text).unwrap();
        let (mut proc, mut sys) = (Reader::new(tree.path()), Reader::new(tree.path()));
        let expected: Vec<Disk> = cases.iter().filter_map(|case| Some(disk(case.0, case.3?))).collect();
        let mut disks = Disks::default();
        assert_eq!(disks.read(&mut proc, &mut sys), expected);
        let before = sys.calls();
        assert_eq!(disks.read(&mut proc, &mut sys), expected);
        assert_eq!(sys.calls(), before, "names are asked for once");
        fs::remove_dir_all(tree.path().join("block/sda")).unwrap();
        disks.forget();
        assert_eq!(disks.read(&mut proc, &mut sys), expected.get(1..).unwrap());
    }

    #[test]
    fn paths_of_nvme() {
        for (name, expected) in [
            ("nvme0c1n1", Some("nvme0n1")),
            ("nvme10c12n3", Some("nvme10n3")),
            ("nvme0n1", None),
            ("nvme0n1p1", None),
            ("nvmec1n1", None),
            ("nvme0cn1", None),
            ("nvme0c1n", None),
            ("sdc1n1", None),
        ] {
            assert_eq!(head_of_path(name.as_bytes()).as_deref(), expected.map(str::as_bytes), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_diskstats(&bytes);
            let _ = parse_diskstats(&[b"8 0 sda ", bytes.as_slice()].concat());
            let _ = head_of_path(&bytes);
            let _ = head_of_path(&[b"nvme", bytes.as_slice()].concat());
        }
    }
}
