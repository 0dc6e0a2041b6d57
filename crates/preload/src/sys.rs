//! System calls, made directly: no errno, no libc, no cancellation points.

use core::arch::asm;
use core::ffi::CStr;

/// The kernel's answer to a call that failed: a positive error number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    pub const AGAIN: Errno = Errno(11);
}

pub type Result<T> = core::result::Result<T, Errno>;

/// A descriptor that is closed when it goes out of scope: the guest keeps none.
pub struct Fd(i32);

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: the descriptor was opened by us and nobody else knows it.
        let _ = unsafe { call(nr::CLOSE, [self.0 as usize, 0, 0, 0, 0, 0]) };
    }
}

mod nr {
    pub const READ: usize = 0;
    pub const CLOSE: usize = 3;
    pub const FSTAT: usize = 5;
    pub const MMAP: usize = 9;
    pub const MADVISE: usize = 28;
    pub const GETPID: usize = 39;
    pub const SOCKET: usize = 41;
    pub const CONNECT: usize = 42;
    pub const SENDMSG: usize = 46;
    pub const GETSOCKOPT: usize = 55;
    pub const FTRUNCATE: usize = 77;
    pub const GETCWD: usize = 79;
    pub const READLINK: usize = 89;
    pub const GETRUSAGE: usize = 98;
    pub const GETEUID: usize = 107;
    pub const PRCTL: usize = 157;
    pub const CLOCK_GETTIME: usize = 228;
    pub const OPENAT: usize = 257;
    pub const PRLIMIT64: usize = 302;
    pub const PPOLL: usize = 271;
    pub const PROCESS_VM_READV: usize = 310;
    pub const MEMFD_CREATE: usize = 319;
}

/// Makes a system call.
///
/// # Safety
/// The arguments must be what the call expects: pointers valid for what it reads and writes.
unsafe fn call(number: usize, args: [usize; 6]) -> Result<usize> {
    let answer: isize;
    let [a, b, c, d, e, f] = args;
    // SAFETY: the instruction clobbers rcx and r11 only, and memory as the caller promised.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    if (-4095..0).contains(&answer) { Err(Errno(answer.wrapping_neg() as i32)) } else { Ok(answer as usize) }
}

const AT_FDCWD: usize = -100isize as usize;

/// The seccomp mode of this thread: 0 is none.
pub fn seccomp_mode() -> Result<usize> {
    const PR_GET_SECCOMP: usize = 21;
    // SAFETY: no pointers.
    unsafe { call(nr::PRCTL, [PR_GET_SECCOMP, 0, 0, 0, 0, 0]) }
}

pub fn geteuid() -> u32 {
    // SAFETY: no pointers.
    unsafe { call(nr::GETEUID, [0; 6]) }.map_or(u32::MAX, |uid| uid as u32)
}

/// Opens a file for reading. Whatever else is at the path never makes the program wait: a FIFO without a writer opens at
/// once, a terminal does not become the program's, and a symbolic link is not followed.
pub fn open(path: &CStr) -> Result<Fd> {
    const O_NOCTTY: usize = 0o400;
    const O_NONBLOCK: usize = 0o4000;
    const O_NOFOLLOW: usize = 0o400000;
    const O_CLOEXEC: usize = 0o2000000;
    const FLAGS: usize = O_NOCTTY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;
    // SAFETY: the path is terminated and outlives the call.
    unsafe { call(nr::OPENAT, [AT_FDCWD, path.as_ptr() as usize, FLAGS, 0, 0, 0]) }.map(|fd| Fd(fd as i32))
}

/// The owner of a regular file; `None` for a FIFO, a device or a directory.
pub fn owner_of_regular(fd: &Fd) -> Option<u32> {
    const S_IFMT: u32 = 0o170000;
    const S_IFREG: u32 = 0o100000;
    /// Places in the kernel's `struct stat`, in words of 32 bits.
    const MODE: usize = 6;
    const UID: usize = 7;
    let mut stat = [0u32; 36];
    // SAFETY: the structure has the kernel's size, 144 bytes.
    unsafe { call(nr::FSTAT, [fd.0 as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0]) }.ok()?;
    (stat[MODE] & S_IFMT == S_IFREG).then_some(stat[UID])
}

/// Reads what one call gives.
pub fn read<'a>(fd: &Fd, buf: &'a mut [u8]) -> Result<&'a [u8]> {
    // SAFETY: the buffer is ours for as long as the call lasts.
    let n = unsafe { call(nr::READ, [fd.0 as usize, buf.as_mut_ptr() as usize, buf.len(), 0, 0, 0]) }?;
    Ok(buf.get(..n).unwrap_or(&[]))
}

/// The target of a symbolic link.
pub fn readlink<'a>(path: &CStr, buf: &'a mut [u8]) -> Result<&'a [u8]> {
    let args = [path.as_ptr() as usize, buf.as_mut_ptr() as usize, buf.len(), 0, 0, 0];
    // SAFETY: the path is terminated; the buffer is ours for as long as the call lasts.
    let n = unsafe { call(nr::READLINK, args) }?;
    Ok(buf.get(..n).unwrap_or(&[]))
}

/// The working directory.
pub fn getcwd(buf: &mut [u8]) -> Result<&[u8]> {
    // SAFETY: the buffer is ours for as long as the call lasts.
    let n = unsafe { call(nr::GETCWD, [buf.as_mut_ptr() as usize, buf.len(), 0, 0, 0, 0]) }?;
    // The kernel counts the terminating NUL.
    Ok(buf.get(..n.saturating_sub(1)).unwrap_or(&[]))
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn monotonic() -> Result<u64> {
    const CLOCK_MONOTONIC: usize = 1;
    let mut time = [0u64; 2];
    // SAFETY: a timespec is two words.
    unsafe { call(nr::CLOCK_GETTIME, [CLOCK_MONOTONIC, time.as_mut_ptr() as usize, 0, 0, 0, 0]) }?;
    Ok(time[0].saturating_mul(1_000_000_000).saturating_add(time[1]))
}

/// What the process has used so far, earlier images included.
#[repr(C)]
pub struct Usage([u64; 18]);

impl Usage {
    pub fn user_us(&self) -> u64 {
        self.0[0].saturating_mul(1_000_000).saturating_add(self.0[1])
    }
    pub fn system_us(&self) -> u64 {
        self.0[2].saturating_mul(1_000_000).saturating_add(self.0[3])
    }
    pub fn peak_kib(&self) -> u64 {
        self.0[4]
    }
    pub fn blocks_in(&self) -> u64 {
        self.0[10]
    }
    pub fn blocks_out(&self) -> u64 {
        self.0[11]
    }
}

/// `getrusage(RUSAGE_SELF)`.
pub fn usage() -> Result<Usage> {
    let mut usage = Usage([0; 18]);
    // SAFETY: the structure has the kernel's size, 144 bytes.
    unsafe { call(nr::GETRUSAGE, [0, &raw mut usage as usize, 0, 0, 0, 0]) }?;
    Ok(usage)
}

/// The kernel's `struct iovec`.
#[repr(C)]
struct IoVec {
    base: usize,
    len: usize,
}

/// Copies from our own memory at an address that may turn out not to be readable, which ends the copy early
/// instead of the program.
pub fn copy_from_self(from: usize, into: &mut [u8]) -> Result<usize> {
    let local = IoVec { base: into.as_mut_ptr() as usize, len: into.len() };
    let remote = IoVec { base: from, len: into.len() };
    // SAFETY: no pointers.
    let pid = unsafe { call(nr::GETPID, [0; 6]) }?;
    let args = [pid, &raw const local as usize, 1, &raw const remote as usize, 1, 0];
    // SAFETY: the kernel writes at most `into`, and checks every address it reads.
    unsafe { call(nr::PROCESS_VM_READV, args) }
}

/// A connectionless-looking, connection-backed socket: keeps message boundaries, non-blocking.
pub fn socket() -> Result<Fd> {
    const AF_UNIX: usize = 1;
    const SEQPACKET_NONBLOCK_CLOEXEC: usize = 5 | 0o4000 | 0o2000000;
    // SAFETY: no pointers.
    unsafe { call(nr::SOCKET, [AF_UNIX, SEQPACKET_NONBLOCK_CLOEXEC, 0, 0, 0, 0]) }.map(|fd| Fd(fd as i32))
}

/// The kernel's `struct sockaddr_un`, with how much of it counts.
pub struct Address {
    bytes: [u8; 110],
    len: usize,
}

impl Address {
    /// `name` is a path, or an abstract name if it begins with `@`; `None` if it is too long.
    pub fn new(name: &[u8]) -> Option<Address> {
        let mut bytes = [0; 110];
        bytes[0] = 1;
        bytes.get_mut(2..name.len().checked_add(2)?)?.copy_from_slice(name);
        let is_abstract = name.first() == Some(&b'@');
        if is_abstract {
            bytes[2] = 0;
        } else if name.len() >= 108 {
            return None;
        }
        // An abstract name has no terminator; a path's is counted.
        let len = name.len().checked_add(if is_abstract { 2 } else { 3 })?;
        Some(Address { bytes, len })
    }
}

pub fn connect(fd: &Fd, to: &Address) -> Result<()> {
    // SAFETY: the address outlives the call.
    unsafe { call(nr::CONNECT, [fd.0 as usize, to.bytes.as_ptr() as usize, to.len, 0, 0, 0]) }.map(|_| ())
}

/// The user who listens at the other end.
pub fn peer_uid(fd: &Fd) -> Result<u32> {
    const SOL_SOCKET: usize = 1;
    const SO_PEERCRED: usize = 17;
    let mut credentials = [0u32; 3];
    let mut len = 12u32;
    let args =
        [fd.0 as usize, SOL_SOCKET, SO_PEERCRED, credentials.as_mut_ptr() as usize, &raw mut len as usize, 0];
    // SAFETY: a ucred is three words of 32 bits, as `len` says.
    unsafe { call(nr::GETSOCKOPT, args) }?;
    Ok(credentials[1])
}

/// Sends one message, with a descriptor if there is one to hand over; never waits, never raises SIGPIPE.
pub fn send(fd: &Fd, message: &[u8], pass: Option<&Fd>) -> Result<()> {
    #[repr(C)]
    struct Control {
        len: usize,
        level: i32,
        kind: i32,
        fd: i32,
        pad: i32,
    }
    #[repr(C)]
    struct Header {
        name: usize,
        name_len: usize,
        iov: usize,
        iov_len: usize,
        control: usize,
        control_len: usize,
        flags: usize,
    }
    const MSG_DONTWAIT_NOSIGNAL: usize = 0x40 | 0x4000;
    let iov = IoVec { base: message.as_ptr() as usize, len: message.len() };
    let control = Control { len: 20, level: 1, kind: 1, fd: pass.map_or(-1, |fd| fd.0), pad: 0 };
    let (control_at, control_len) =
        if pass.is_some() { (&raw const control as usize, size_of::<Control>()) } else { (0, 0) };
    let header = Header {
        name: 0,
        name_len: 0,
        iov: &raw const iov as usize,
        iov_len: 1,
        control: control_at,
        control_len,
        flags: 0,
    };
    // SAFETY: header, vector, message and control data outlive the call.
    unsafe { call(nr::SENDMSG, [fd.0 as usize, &raw const header as usize, MSG_DONTWAIT_NOSIGNAL, 0, 0, 0]) }
        .map(|_| ())
}

/// Waits, on nothing.
pub fn wait_ns(nanoseconds: u64) {
    let time = [0u64, nanoseconds];
    // SAFETY: a timespec is two words; there are no descriptors and no signal mask.
    let _ = unsafe { call(nr::PPOLL, [0, 0, time.as_ptr() as usize, 0, 8, 0]) };
}

/// How large a file this process may make. Beyond it the kernel does not answer with an error: it kills.
pub fn file_size_limit() -> Result<u64> {
    const RLIMIT_FSIZE: usize = 1;
    let mut limit = [0u64; 2];
    // SAFETY: a rlimit64 is two words; 0 is this process.
    unsafe { call(nr::PRLIMIT64, [0, RLIMIT_FSIZE, 0, limit.as_mut_ptr() as usize, 0, 0]) }?;
    Ok(limit[0])
}

/// Memory without a name that lives as long as someone maps it or holds its descriptor.
pub fn anonymous_file(name: &CStr, bytes: usize) -> Result<Fd> {
    // The agent seals it, so that it stays as small as it is.
    const CLOEXEC_AND_ALLOW_SEALING: usize = 1 | 2;
    // SAFETY: the name is terminated.
    let fd =
        unsafe { call(nr::MEMFD_CREATE, [name.as_ptr() as usize, CLOEXEC_AND_ALLOW_SEALING, 0, 0, 0, 0]) }
            .map(|fd| Fd(fd as i32))?;
    // SAFETY: no pointers.
    unsafe { call(nr::FTRUNCATE, [fd.0 as usize, bytes, 0, 0, 0, 0]) }?;
    Ok(fd)
}

/// Maps a file into memory, shared with whoever else maps it.
pub fn map_shared(fd: &Fd, bytes: usize) -> Result<*mut u8> {
    const READ_WRITE: usize = 3;
    const MAP_SHARED: usize = 1;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let at = unsafe { call(nr::MMAP, [0, bytes, READ_WRITE, MAP_SHARED, fd.0 as usize, 0]) }?;
    Ok(at as *mut u8)
}

/// Lets a forked child find zeros in these pages instead of its parent's bytes.
pub fn wipe_on_fork(start: usize, bytes: usize) -> Result<()> {
    const MADV_WIPEONFORK: usize = 18;
    // SAFETY: the advice changes only what a forked child sees of these pages, which are ours.
    unsafe { call(nr::MADVISE, [start, bytes, MADV_WIPEONFORK, 0, 0, 0]) }.map(|_| ())
}
