//! What each Lustre mount carried: `llite/*/stats`, below `/proc/fs/lustre` in old versions and below
//! `/sys/kernel/debug/lustre`, which only root may enter, since 2.12.

use crate::read::{Reader, lines, number, words};

/// Calls of programs that concern names and attributes. Whether the cache answered or the server is not known. Not
/// here: `inode_permission`, which the kernel calls for each part of each path, and what concerns data (`seek`,
/// `fsync`).
const METADATA: [&[u8]; 19] = [
    b"open",
    b"close",
    b"readdir",
    b"setattr",
    b"truncate",
    b"getattr",
    b"create",
    b"link",
    b"unlink",
    b"symlink",
    b"mkdir",
    b"rmdir",
    b"mknod",
    b"rename",
    b"statfs",
    b"setxattr",
    b"getxattr",
    b"listxattr",
    b"removexattr",
];

/// One mount since it was mounted or its counters were cleared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The file system and the address of the mount in the kernel, such as `scratch-ffff9c5f4a3e8800`.
    pub name: Vec<u8>,
    pub stats: Stats,
}

/// Calls of programs, and the bytes they read and wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    pub reads: Option<u64>,
    pub read_bytes: Option<u64>,
    pub writes: Option<u64>,
    pub written_bytes: Option<u64>,
    pub opens: Option<u64>,
    pub closes: Option<u64>,
    /// With `opens` and `closes`.
    pub metadata_operations: Option<u64>,
}

impl Mount {
    /// The name of the file system alone.
    pub fn file_system(&self) -> &[u8] {
        let len = self.name.iter().rposition(|byte| *byte == b'-').unwrap_or(self.name.len());
        self.name.get(..len).unwrap_or_default()
    }
}

pub(super) fn read(proc: &mut Reader, sys: &mut Reader) -> Vec<Mount> {
    let mut mounts = read_below(proc, b"fs/lustre/llite");
    for mount in read_below(sys, b"kernel/debug/lustre/llite") {
        if mounts.iter().all(|known| known.name != mount.name) {
            mounts.push(mount);
        }
    }
    mounts
}

fn read_below(reader: &mut Reader, dir: &[u8]) -> Vec<Mount> {
    let names = reader.sorted(dir);
    let stats = |name: Vec<u8>| {
        let stats = parse_stats(reader.all(&[dir, b"/", &name, b"/stats"].concat()).ok()?);
        Some(Mount { name, stats })
    };
    names.into_iter().filter_map(stats).collect()
}

/// `read_bytes 123 samples [bytes] min max sum` and `open 123 samples [reqs]`.
///
/// What never happened has no line. So a line that is missing is 0 if the file begins as it should, and unknown if not.
pub fn parse_stats(text: &[u8]) -> Stats {
    let is_known = text.trim_ascii_start().starts_with(b"snapshot_time");
    let zero = is_known.then_some(0);
    let mut stats = Stats {
        reads: zero,
        read_bytes: zero,
        writes: zero,
        written_bytes: zero,
        opens: zero,
        closes: zero,
        metadata_operations: zero,
    };
    for line in lines(text) {
        let Some((name, count, sum)) = parse_line(line) else { continue };
        match name {
            b"read_bytes" => (stats.reads, stats.read_bytes) = (count, sum),
            b"write_bytes" => (stats.writes, stats.written_bytes) = (count, sum),
            b"open" => stats.opens = count,
            b"close" => stats.closes = count,
            _ => {}
        }
        if METADATA.contains(&name) {
            let sum = stats.metadata_operations.zip(count).and_then(|(sum, count)| sum.checked_add(count));
            stats.metadata_operations = sum;
        }
    }
    stats
}

/// Name, count, and the sum where there is one.
fn parse_line(line: &[u8]) -> Option<(&[u8], Option<u64>, Option<u64>)> {
    let mut words = words(line);
    let (name, count) = (words.next()?, words.next()?);
    (words.next()? == b"samples").then_some(())?;
    // The unit, the least and the most.
    Some((name, number(count), words.nth(3).and_then(number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    #[test]
    fn what_never_happened_is_zero_and_what_is_not_understood_is_unknown() {
        let none = Stats {
            reads: Some(0),
            read_bytes: Some(0),
            writes: Some(0),
            written_bytes: Some(0),
            opens: Some(0),
            closes: Some(0),
            metadata_operations: Some(0),
        };
        let time = "snapshot_time             1700000000.123456789 secs.nsecs\n";
        for (text, expected) in [
            (time.to_string(), none),
            (String::new(), Stats::default()),
            ("something else\n".into(), Stats::default()),
            (
                format!("{time}read_bytes 3 samples [bytes] 1 4096 8192\n"),
                Stats { reads: Some(3), read_bytes: Some(8192), ..none },
            ),
            (
                format!("{time}write_bytes 2 samples [bytes] 1 4096 5000 9999\n"),
                Stats { writes: Some(2), written_bytes: Some(5000), ..none },
            ),
            (
                format!("{time}read_bytes 3 samples [bytes]\n"),
                Stats { reads: Some(3), read_bytes: None, ..none },
            ),
            (
                format!(
                    "{time}open 3 samples [usecs] 1 2 3 4\nclose 2 samples [reqs]\nunlink 1 samples [reqs]\n"
                ),
                Stats { opens: Some(3), closes: Some(2), metadata_operations: Some(6), ..none },
            ),
            (format!("{time}inode_permission 9 samples [reqs]\nseek 9 samples [reqs]\nopen x\n"), none),
            (
                "open 3 samples [reqs]\n".into(),
                Stats { opens: Some(3), metadata_operations: None, ..Stats::default() },
            ),
            (
                format!("{time}open -3 samples [reqs]\nclose 1 samples [reqs]\n"),
                Stats { opens: None, closes: Some(1), metadata_operations: None, ..none },
            ),
            (
                format!("{time}open 18446744073709551615 samples [reqs]\nclose 1 samples [reqs]\n"),
                Stats { opens: Some(u64::MAX), closes: Some(1), metadata_operations: None, ..none },
            ),
        ] {
            assert_eq!(parse_stats(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_mount_in_both_trees_is_one() {
        let tree = tempfile::tempdir().unwrap();
        let file = |path: &str| {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "snapshot_time 1.2 secs.nsecs\n").unwrap();
        };
        file("proc/fs/lustre/llite/a-b-ffff1/stats");
        file("sys/kernel/debug/lustre/llite/a-b-ffff1/stats");
        file("sys/kernel/debug/lustre/llite/home-ffff2/stats");
        fs::create_dir_all(tree.path().join("sys/kernel/debug/lustre/llite/going-ffff3")).unwrap();
        let mut proc = Reader::new(tree.path().join("proc"));
        let mut sys = Reader::new(tree.path().join("sys"));
        let mounts = read(&mut proc, &mut sys);
        let names: Vec<&[u8]> = mounts.iter().map(Mount::file_system).collect();
        assert_eq!(names, [&b"a-b"[..], b"home"]);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_stats(&bytes);
            let _ = parse_stats(&[b"snapshot_time 1\nread_bytes 1 samples ", bytes.as_slice()].concat());
            let _ = Mount { name: bytes, stats: Stats::default() }.file_system();
        }
    }
}
