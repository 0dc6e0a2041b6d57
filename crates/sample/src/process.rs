//! One process as `/proc/PID` shows it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, makedev, openat, statx};

/// Files under `/proc` are read up to this size; an argument list can be megabytes long.
const READ_MAX: u64 = 256 * 1024;
/// What is read of them at once; most are shorter.
const PIECE: usize = 4096;
/// A process maps thousands of files only by accident; the reader stops there.
const MAPS_MAX: u64 = 4 * 1024 * 1024;

/// The root of a proc file system, usually `/proc`.
#[derive(Debug, Clone)]
pub struct Proc {
    root: PathBuf,
}

/// Where `/proc/PID/exe` leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exe {
    pub path: Vec<u8>,
    pub deleted: bool,
    pub stat: Option<FileStat>,
}

/// Which file something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    pub dev: u64,
    pub inode: u64,
    pub size: u64,
    pub mtime_ns: u64,
    pub links: u64,
    /// Unknown where another process told which file it is.
    pub uid: Option<u32>,
    pub mode: Option<u32>,
}

/// A process's root directory. It stays open, so that its files can be looked at when the process is gone.
#[derive(Debug)]
pub struct Root {
    pub dir: OwnedFd,
    pub id: RootId,
}

/// Which directory a root is: its mount as well as its inode, because the same directory may be mounted again elsewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RootId {
    /// Zero on kernels that do not tell (before 5.8).
    pub mount: u64,
    pub dev: u64,
    pub inode: u64,
}

/// A file that is mapped with execute permission, as the kernel names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// The device of the file system's superblock; `stat` may name another one (btrfs, overlayfs).
    pub dev: u64,
    pub inode: u64,
    /// As seen from the process's root directory, without the mark of a deleted file.
    pub path: Vec<u8>,
    pub deleted: bool,
}

impl Mapping {
    /// Separates the path from the mark of a deleted file. A name may end in the mark as well, so whoever opens
    /// the path compares device and inode.
    pub fn named(range: (u64, u64), (dev, inode): (u64, u64), name: &[u8]) -> Mapping {
        let path = name.strip_suffix(b" (deleted)");
        Mapping {
            start: range.0,
            end: range.1,
            dev,
            inode,
            path: path.unwrap_or(name).to_vec(),
            deleted: path.is_some(),
        }
    }
}

/// The fields of `/proc/PID/stat` that are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    pub comm: Vec<u8>,
    pub ppid: u32,
    /// The process that began the session of the terminal.
    pub session: u32,
    pub user_ticks: u64,
    pub system_ticks: u64,
    pub threads: u32,
    /// Clock ticks since boot.
    pub start_ticks: u64,
    pub is_zombie: bool,
    pub is_kernel_thread: bool,
}

/// The fields of `/proc/PID/status` that are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    /// Real and effective user.
    pub uid: Option<(u32, u32)>,
    /// 0 is no filter.
    pub seccomp: Option<u32>,
}

impl From<&fs::Metadata> for FileStat {
    fn from(meta: &fs::Metadata) -> Self {
        let mtime_ns = (meta.mtime().max(0) as u64) * 1_000_000_000 + meta.mtime_nsec().max(0) as u64;
        FileStat {
            dev: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            mtime_ns,
            links: meta.nlink(),
            uid: Some(meta.uid()),
            mode: Some(meta.mode()),
        }
    }
}

impl Default for Proc {
    fn default() -> Self {
        Proc::new("/proc")
    }
}

impl Proc {
    /// Reads below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Proc { root: root.into() }
    }

    /// The path of one of a process's files.
    pub fn path(&self, pid: u32, name: &str) -> PathBuf {
        self.root.join(format!("{pid}/{name}"))
    }

    /// The numbers of all processes.
    pub fn pids(&self) -> Vec<u32> {
        let Ok(entries) = fs::read_dir(&self.root) else { return Vec::new() };
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
    }

    /// The executable.
    pub fn exe(&self, pid: u32) -> Option<Exe> {
        let link = self.path(pid, "exe");
        let path = fs::read_link(&link).ok()?.into_os_string().into_vec();
        let stat = stat_without_asking(&link);
        let deleted = stat.is_some_and(|stat| stat.links == 0);
        let path = match path.strip_suffix(b" (deleted)") {
            Some(name) if deleted => name.to_vec(),
            _ => path,
        };
        Some(Exe { path, deleted, stat })
    }

    /// The working directory.
    pub fn cwd(&self, pid: u32) -> Option<Vec<u8>> {
        Some(fs::read_link(self.path(pid, "cwd")).ok()?.into_os_string().into_vec())
    }

    /// The arguments, and whether there were more.
    pub fn argv(&self, pid: u32) -> Option<(Vec<Vec<u8>>, bool)> {
        let text = self.read(pid, "cmdline", READ_MAX)?;
        let cut = text.len() as u64 == READ_MAX;
        // A zombie and a kernel thread have an empty file: unknown, not an empty list.
        let text = text.strip_suffix(b"\0").map(<[u8]>::to_vec).unwrap_or(text);
        (!text.is_empty()).then(|| (text.split(|b| *b == 0).map(<[u8]>::to_vec).collect(), cut))
    }

    /// The environment the program was started with, as `NAME=value`.
    pub fn environ(&self, pid: u32) -> Option<Vec<Vec<u8>>> {
        let text = self.read(pid, "environ", READ_MAX)?;
        Some(text.split(|b| *b == 0).filter(|v| !v.is_empty()).map(<[u8]>::to_vec).collect())
    }

    /// The control groups, one `hierarchy:controllers:path` line each.
    pub fn cgroup(&self, pid: u32) -> Option<Vec<u8>> {
        self.read(pid, "cgroup", READ_MAX)
    }

    /// `/proc/PID/stat`.
    pub fn stat(&self, pid: u32) -> Option<Stat> {
        parse_stat(&self.read(pid, "stat", READ_MAX)?)
    }

    /// `/proc/PID/status`.
    pub fn status(&self, pid: u32) -> Option<Status> {
        Some(parse_status(&self.read(pid, "status", READ_MAX)?))
    }

    /// CPU time of the main thread in nanoseconds, from `/proc/PID/schedstat`.
    pub fn cpu_ns(&self, pid: u32) -> Option<u64> {
        number(self.read(pid, "schedstat", 256)?.split(|b| *b == b' ').next()?)
    }

    /// The files mapped with execute permission, in the order of their addresses.
    pub fn mappings(&self, pid: u32) -> Option<Vec<Mapping>> {
        let mappings = parse_maps(&read_bounded(&self.path(pid, "maps"), MAPS_MAX)?);
        (!mappings.is_empty()).then_some(mappings)
    }

    /// A file as the process sees it, through its own root directory.
    pub fn inside(&self, pid: u32, path: &[u8]) -> PathBuf {
        let relative = path.strip_prefix(b"/").unwrap_or(path);
        self.path(pid, "root").join(OsStr::from_bytes(relative))
    }

    /// The root directory. The link leads there without a path, and nobody is asked who may not answer.
    pub fn root(&self, pid: u32) -> Option<Root> {
        let dir = openat(CWD, self.path(pid, "root"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = statx(&dir, "", flags, StatxFlags::INO | StatxFlags::MNT_ID).ok()?;
        let dev = makedev(stat.stx_dev_major, stat.stx_dev_minor);
        Some(Root { dir, id: RootId { mount: stat.stx_mnt_id, dev, inode: stat.stx_ino } })
    }

    /// The mount namespace's number, which another one gets as soon as this one is gone.
    pub fn mount_namespace(&self, pid: u32) -> Option<u64> {
        let link = fs::read_link(self.path(pid, "ns/mnt")).ok()?.into_os_string().into_vec();
        number(link.strip_prefix(b"mnt:[")?.strip_suffix(b"]")?)
    }

    /// Processes and threads begun since boot.
    pub fn forks_since_boot(&self) -> Option<u64> {
        let text = read_bounded(&self.root.join("stat"), MAPS_MAX)?;
        let line = text.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"processes "))?;
        number(line)
    }

    fn read(&self, pid: u32, name: &str, max: u64) -> Option<Vec<u8>> {
        read_whole(&self.path(pid, name), max)
    }
}

/// What is known of a file without asking a server that may not answer.
fn stat_without_asking(path: &Path) -> Option<FileStat> {
    let stat = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS).ok()?;
    let mtime = stat.stx_mtime;
    Some(FileStat {
        dev: makedev(stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
        size: stat.stx_size,
        mtime_ns: (mtime.tv_sec.max(0) as u64) * 1_000_000_000 + u64::from(mtime.tv_nsec),
        links: u64::from(stat.stx_nlink),
        uid: Some(stat.stx_uid),
        mode: Some(u32::from(stat.stx_mode)),
    })
}

/// Reads a file up to `max` bytes.
pub fn read_bounded(path: &Path, max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4096);
    File::open(path).ok()?.take(max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Reads a file that the kernel gives as one piece, up to `max` bytes: a read that leaves room in the buffer has reached its end, so no other
/// read has to find that out. The agent does this several times for each program.
fn read_whole(path: &Path, max: u64) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    loop {
        let (len, room) = (bytes.len(), PIECE.min(max as usize - bytes.len()));
        bytes.resize(len + room, 0);
        let count = read_some(&mut file, bytes.get_mut(len..)?)?;
        bytes.truncate(len + count);
        if count < room || room == 0 {
            return Some(bytes);
        }
    }
}

fn read_some(file: &mut File, into: &mut [u8]) -> Option<usize> {
    loop {
        match file.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.ok(),
        }
    }
}

/// `pid (comm) S ppid …`; the name may hold anything, so fields are counted from its last parenthesis.
pub fn parse_stat(text: &[u8]) -> Option<Stat> {
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let open = text.iter().position(|b| *b == b'(')?;
    let close = text.iter().rposition(|b| *b == b')')?;
    let comm = text.get(open + 1..close)?.to_vec();
    let fields: Vec<&[u8]> = text.get(close + 2..)?.split(|b| b.is_ascii_whitespace()).collect();
    // Field 3 of proc(5), the state, is the first here.
    let field = |n: usize| fields.get(n - 3).and_then(|text| number(text));
    Some(Stat {
        comm,
        ppid: field(4)? as u32,
        session: field(6)? as u32,
        user_ticks: field(14)?,
        system_ticks: field(15)?,
        threads: field(20)? as u32,
        start_ticks: field(22)?,
        is_zombie: matches!(fields.first(), Some(&b"Z" | &b"X")),
        is_kernel_thread: field(9)? & KERNEL_THREAD != 0,
    })
}

/// `Name:\tvalue` lines.
pub fn parse_status(text: &[u8]) -> Status {
    let mut status = Status::default();
    for line in text.split(|b| *b == b'\n') {
        if let Some(rest) = line.strip_prefix(b"Uid:\t") {
            let mut ids = rest.split(|b| *b == b'\t').map(|id| number(id).map(|id| id as u32));
            status.uid = ids.next().flatten().zip(ids.next().flatten());
        } else if let Some(mode) = line.strip_prefix(b"Seccomp:\t") {
            status.seccomp = number(mode).map(|mode| mode as u32);
        }
    }
    status
}

/// `from-to perms offset dev inode path` lines: the executable mappings of files.
pub fn parse_maps(text: &[u8]) -> Vec<Mapping> {
    text.split(|b| *b == b'\n')
        .filter_map(parse_mapping)
        .filter(|(_, is_code)| *is_code)
        .map(|(m, _)| m)
        .collect()
}

/// One line of `maps` that names a file, and whether it may be executed.
pub fn parse_mapping(line: &[u8]) -> Option<(Mapping, bool)> {
    let mut fields = line.splitn(6, |b| *b == b' ');
    let (range, permissions) = (fields.next()?, fields.next()?);
    let (_, dev, inode) = (fields.next()?, fields.next()?, number(fields.next()?)?);
    let name = fields.next()?.trim_ascii_start();
    if !name.starts_with(b"/") || inode == 0 {
        return None;
    }
    let range = pair(range, b'-')?;
    let (major, minor) = pair(dev, b':')?;
    let dev = makedev(major as u32, minor as u32);
    let mapping = Mapping::named(range, (dev, inode), &unescape_newlines(name));
    Some((mapping, permissions.get(2) == Some(&b'x')))
}

/// Two hexadecimal numbers.
fn pair(text: &[u8], separator: u8) -> Option<(u64, u64)> {
    let mut parts = text.splitn(2, |b| *b == separator);
    let mut next = || u64::from_str_radix(std::str::from_utf8(parts.next()?).ok()?, 16).ok();
    Some((next()?, next()?))
}

/// `maps` writes a newline in a name as `\012`, and escapes nothing else.
fn unescape_newlines(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, tail)) = rest.split_first() {
        match rest.strip_prefix(b"\\012") {
            Some(tail) => {
                out.push(b'\n');
                rest = tail;
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stat_with_a_hostile_name() {
        let line = b"12 (a) S 1 (\xff) R 7 12 12 0 -1 4194304 0 0 0 0 55 66 0 0 20 0 3 0 987 0 0";
        let stat = parse_stat(line).unwrap();
        assert_eq!(stat.comm, b"a) S 1 (\xff");
        assert_eq!((stat.ppid, stat.user_ticks, stat.system_ticks), (7, 55, 66));
        assert_eq!((stat.threads, stat.start_ticks), (3, 987));
        assert!(!stat.is_kernel_thread && !stat.is_zombie);
    }

    #[test]
    fn files_of_any_length_are_read_whole() {
        let tree = tempfile::tempdir().unwrap();
        let proc = Proc::new(tree.path());
        fs::create_dir(tree.path().join("7")).unwrap();
        for len in [1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, READ_MAX as usize - 1] {
            fs::write(tree.path().join("7/cmdline"), vec![b'x'; len]).unwrap();
            assert_eq!(proc.argv(7), Some((vec![vec![b'x'; len]], false)));
        }
        fs::write(tree.path().join("7/cmdline"), vec![b'x'; READ_MAX as usize + 1]).unwrap();
        assert_eq!(proc.argv(7), Some((vec![vec![b'x'; READ_MAX as usize]], true)));
        assert_eq!(proc.argv(8), None);
    }

    #[test]
    fn status_fields_may_be_missing() {
        let status = parse_status(b"Name:\tx\nUid:\t1\t2\t3\t4\n");
        assert_eq!(status, Status { uid: Some((1, 2)), seccomp: None });
        assert_eq!(parse_status(b"Uid:\tmany\n"), Status::default());
    }

    #[test]
    fn maps_gives_executable_mappings_of_files() {
        let maps = b"7f0-7f1 r--p 00000000 fe:00 11   /lib/a b.so\n\
                     7f1-7f2 r-xp 00000000 fe:00 11   /lib/a b.so\n\
                     7f2-7f3 r-xp 00000000 fe:00 11   /lib/a b.so\n\
                     7f3-7f4 rw-p 00000000 00:00 0 \n\
                     7f4-7f5 r-xp 00000000 fe:00 12   /lib/gone.so (deleted)\n\
                     7f5-7f6 r--p 00000000 fe:00 13   /data/table\n\
                     7f6-7f7 r-xp 00000000 00:00 0    [vdso]\n\
                     7f7-7f8 r-xp 00000000 fe:00 14   /lib/two\\012lines\n\
                     7f8-7f9 r-xp 00000000 fe:00 many /lib/bad\n\
                     7f9-7fa r-xp";
        let dev = makedev(0xfe, 0);
        let mapped = |start, end, inode, path: &[u8], deleted| Mapping {
            start,
            end,
            dev,
            inode,
            path: path.to_vec(),
            deleted,
        };
        let expected = [
            mapped(0x7f1, 0x7f2, 11, b"/lib/a b.so", false),
            mapped(0x7f2, 0x7f3, 11, b"/lib/a b.so", false),
            mapped(0x7f4, 0x7f5, 12, b"/lib/gone.so", true),
            mapped(0x7f7, 0x7f8, 14, b"/lib/two\nlines", false),
        ];
        assert_eq!(parse_maps(maps), expected);
    }

    #[test]
    fn reads_this_process() {
        let proc = Proc::default();
        let pid = std::process::id();
        let exe = proc.exe(pid).unwrap();
        assert_eq!(exe.path, std::env::current_exe().unwrap().into_os_string().into_vec());
        assert!(!exe.deleted && exe.stat.unwrap().size > 0);
        assert!(proc.stat(pid).unwrap().threads >= 1);
        assert!(proc.mappings(pid).unwrap().iter().any(|mapping| mapping.path == exe.path));
        assert!(proc.forks_since_boot().unwrap() > 1);
    }

    #[test]
    fn a_process_that_is_not_there_is_none() {
        let empty = tempfile::tempdir().unwrap();
        let proc = Proc::new(empty.path());
        assert!(proc.exe(1).is_none() && proc.stat(1).is_none() && proc.argv(1).is_none());
        assert!(proc.pids().is_empty());
    }

    #[test]
    fn an_empty_command_line_is_unknown() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir(tree.path().join("5")).unwrap();
        for (content, expected) in [
            (&b""[..], None),
            (b"a\0", Some(vec![b"a".to_vec()])),
            (b"a\0\0b\0", Some(vec![b"a".to_vec(), vec![], b"b".to_vec()])),
        ] {
            fs::write(tree.path().join("5/cmdline"), content).unwrap();
            assert_eq!(Proc::new(tree.path()).argv(5).map(|(argv, _)| argv), expected);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_stat(&bytes);
            let _ = parse_status(&bytes);
            let _ = parse_maps(&bytes);
        }
    }
}
