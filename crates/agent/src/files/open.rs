//! Opens a file only if it is the one that the kernel has named.
//!
//! A path is found first (`O_PATH`: nothing is opened, no device notices), then compared with what the kernel said, and
//! only a regular file that is the very one is opened for reading.

use std::fs::File as OsFile;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::ptr;

use record::bytes::Bytes;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, lstat, openat, openat2};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use sample::Proc;
use sample::process::{FileStat, parse_mapping};

use super::file_id;

/// A file as the kernel names it: the device is that of the superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Inode {
    pub dev: u64,
    pub number: u64,
}

/// Where a file may be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The executable of a process.
    Executable(u32),
    /// A path of ours.
    Host(Bytes),
    /// A path below a process's root.
    Inside(u32, Bytes),
}

/// Which file is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The one that the kernel reported as mapped.
    Mapped(Inode),
    /// The one whose metadata has this number ([`file_id`]).
    Same(u64),
}

impl Place {
    /// Opens the file for reading, if it is the wanted one.
    pub fn open(&self, proc: &Proc, wanted: Wanted) -> io::Result<(OsFile, FileStat)> {
        let found = self.find(proc)?;
        let stat = regular(&found)?;
        match wanted {
            Wanted::Same(id) if file_id(&stat) == id => Ok((reopen(&found)?, stat)),
            Wanted::Mapped(inode) if (stat.dev, stat.inode) == (inode.dev, inode.number) => {
                Ok((reopen(&found)?, stat))
            }
            Wanted::Mapped(inode) if stat.inode == inode.number || translates(&found) => {
                let file = reopen(&found)?;
                if mapped_as(&file)? == inode { Ok((file, stat)) } else { Err(replaced()) }
            }
            _ => Err(replaced()),
        }
    }

    /// Finds the file without opening it. The kernel's paths have no symbolic links: one that is there now came later.
    fn find(&self, proc: &Proc) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let fixed = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let found = match self {
            Place::Executable(pid) => openat(CWD, proc.path(*pid, "exe"), flags, Mode::empty())?,
            Place::Host(path) => openat2(CWD, &path[..], flags, Mode::empty(), fixed)?,
            Place::Inside(pid, path) => {
                let root = openat(CWD, proc.path(*pid, "root"), flags, Mode::empty())?;
                openat2(&root, &path[..], flags, Mode::empty(), fixed | ResolveFlags::IN_ROOT)?
            }
        };
        Ok(found)
    }
}

/// Something that was found below a root directory, whatever links lead to it; they lead only there. It is not opened.
pub struct Found(OwnedFd);

impl Found {
    pub fn below(root: &OwnedFd, path: &[u8]) -> Option<Found> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        openat2(root, path, flags, Mode::empty(), resolve).ok().map(Found)
    }

    /// Whether it is what a path of ours leads to.
    pub fn is_ours(&self, path: &Path) -> bool {
        let same = |ours: Stat, found: Stat| (ours.st_dev, ours.st_ino) == (found.st_dev, found.st_ino);
        matches!((lstat(path), fstat(&self.0)), (Ok(ours), Ok(found)) if same(ours, found))
    }

    /// Opens it for reading, if it is a regular file.
    pub fn open(&self) -> Option<OsFile> {
        regular(&self.0).ok()?;
        reopen(&self.0).ok()
    }
}

fn regular(found: &OwnedFd) -> io::Result<FileStat> {
    let stat = fstat(found)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        Ok(metadata(&stat))
    } else {
        Err(io::Error::other("not a regular file"))
    }
}

fn metadata(stat: &Stat) -> FileStat {
    FileStat {
        dev: stat.st_dev,
        inode: stat.st_ino,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime_ns: u64::try_from(stat.st_mtime).unwrap_or(0) * 1_000_000_000 + stat.st_mtime_nsec,
        links: stat.st_nlink,
        uid: Some(stat.st_uid),
        mode: Some(stat.st_mode),
    }
}

/// Opens what was found, not its path once more. A lease or a lock on it is not waited for.
fn reopen(found: &OwnedFd) -> io::Result<OsFile> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    Ok(OsFile::from(openat(CWD, path, flags, Mode::empty())?))
}

/// Whether the file system shows other numbers than the kernel knows: overlayfs those of its own, btrfs and bcachefs a
/// device for each subvolume.
fn translates(found: &OwnedFd) -> bool {
    const OVERLAYFS: u64 = 0x794c_7630;
    const BTRFS: u64 = 0x9123_683e;
    const BCACHEFS: u64 = 0xca45_1a4e;
    rustix::fs::fstatfs(found).is_ok_and(|of| [OVERLAYFS, BTRFS, BCACHEFS].contains(&(of.f_type as u64)))
}

/// As which file the kernel names an open file where it is mapped: seen by mapping it and looking.
fn mapped_as(file: &OsFile) -> io::Result<Inode> {
    let page = rustix::param::page_size();
    // SAFETY: a new mapping at an address of the kernel's choice; it is not read, and gone before the file is closed.
    let at = unsafe { mmap(ptr::null_mut(), page, ProtFlags::READ, MapFlags::PRIVATE, file, 0) }?;
    let maps = sample::process::read_bounded("/proc/self/maps".as_ref(), u64::MAX);
    // SAFETY: the mapping made above, to which nothing refers.
    unsafe { munmap(at, page) }?;
    let lines = maps.unwrap_or_default();
    let mut lines = lines.split(|b| *b == b'\n').filter_map(parse_mapping);
    let found = lines.find(|(mapping, _)| mapping.start == at as u64);
    let (mapping, _) = found.ok_or_else(|| io::Error::other("its mapping is not shown"))?;
    Ok(Inode { dev: mapping.dev, number: mapping.inode })
}

fn replaced() -> io::Error {
    io::Error::other("replaced by another file")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, symlink};

    fn host(path: &Path) -> Place {
        Place::Host(Bytes::from(path.as_os_str().as_bytes()))
    }

    fn inode(path: &Path) -> Inode {
        let meta = fs::metadata(path).unwrap();
        Inode { dev: meta.dev(), number: meta.ino() }
    }

    #[test]
    fn opens_only_the_regular_file_that_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let (file, other, link) = (dir.join("file"), dir.join("other"), dir.join("link"));
        fs::write(&file, "content").unwrap();
        fs::write(&other, "secret").unwrap();
        symlink(&other, &link).unwrap();
        let open = |path: &Path, inode| host(path).open(&Proc::default(), Wanted::Mapped(inode));
        let mut text = String::new();
        open(&file, inode(&file)).unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "content");
        assert!(open(&other, inode(&file)).is_err(), "another file");
        assert!(open(&link, inode(&other)).is_err(), "a link that the kernel did not name");
        assert!(open(&dir, inode(&dir)).is_err(), "a directory");
        let hard = dir.join("hard");
        fs::hard_link(&file, &hard).unwrap();
        assert!(open(&hard, inode(&file)).is_ok(), "the same file");
        let device = Path::new("/dev/null");
        assert!(open(device, inode(device)).is_err(), "a device");
        // Opening a pipe for reading would let its writer go on.
        let pipe = dir.join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(open(&pipe, inode(&pipe)).is_err(), "a pipe");
        let writer = rustix::fs::open(&pipe, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
        assert_eq!(writer.unwrap_err(), rustix::io::Errno::NXIO, "nobody has it open");
    }

    #[test]
    fn the_kernels_name_of_a_file_is_found_by_mapping_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "").unwrap();
        let seen = mapped_as(&OsFile::open(&path).unwrap()).unwrap();
        assert_eq!(seen.number, inode(&path).number);
    }
}
