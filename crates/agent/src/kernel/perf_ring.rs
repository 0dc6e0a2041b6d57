//! One processor's ring of perf records: opened, mapped and read. The unsafe part of [`super::mappings`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys as sys;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use sys::bindings::{
    PERF_COUNT_SW_DUMMY, PERF_FLAG_FD_CLOEXEC, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE, perf_event_attr,
    perf_event_mmap_page,
};

/// Type, flags and length before a record's own data.
pub const HEADER: usize = 8;
const CLOCK_MONOTONIC: i32 = 1;

/// A ring of records that the kernel writes and we read.
pub struct Ring {
    fd: OwnedFd,
    map: NonNull<u8>,
    page: usize,
    size: usize,
}

impl Ring {
    /// Asks for executable mappings and execs of all processes on a processor. `size` is a power of two; half of it full makes
    /// the descriptor readable.
    pub fn open(cpu: u32, size: usize) -> io::Result<Ring> {
        let fd = subscribe(cpu, size / 2)?;
        let page = rustix::param::page_size();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours.
        let map = unsafe { mmap(ptr::null_mut(), page + size, access, MapFlags::SHARED, &fd, 0) }?;
        let map = NonNull::new(map.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring { fd, map, page, size })
    }

    /// Position behind the last record.
    pub fn head(&self) -> u64 {
        // SAFETY: the field lies in the mapped page and is aligned; the kernel writes it as one word.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.control()).data_head) }.load(Ordering::Acquire)
    }

    /// Position of the next record.
    pub fn tail(&self) -> u64 {
        // SAFETY: as above; only we write this one.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.control()).data_tail) }.load(Ordering::Relaxed)
    }

    /// Gives the kernel the room before this position again.
    pub fn release(&self, tail: u64) {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.control()).data_tail) }.store(tail, Ordering::Release);
    }

    /// The record at `tail`, copied to `record`; `None` if there is none before `head`.
    pub fn read<'r>(&self, tail: u64, head: u64, record: &'r mut Vec<u8>) -> Option<&'r [u8]> {
        let filled = usize::try_from(head.wrapping_sub(tail)).ok().filter(|filled| *filled <= self.size)?;
        record.resize(HEADER, 0);
        if filled < HEADER {
            return None;
        }
        self.copy(tail, record);
        let len = usize::from(u16::from_ne_bytes([record[6], record[7]]));
        if !(HEADER..=filled).contains(&len) {
            return None;
        }
        record.resize(len, 0);
        self.copy(tail, record);
        Some(record)
    }

    fn copy(&self, from: u64, into: &mut [u8]) {
        let at = (from as usize) & (self.size - 1);
        let first = into.len().min(self.size - at);
        let (head, rest) = into.split_at_mut(first);
        // SAFETY: both parts lie in the mapped data, whose size is `size`; the kernel does not write between tail and head.
        unsafe {
            let data = self.map.as_ptr().add(self.page);
            ptr::copy_nonoverlapping(data.add(at), head.as_mut_ptr(), head.len());
            ptr::copy_nonoverlapping(data, rest.as_mut_ptr(), rest.len());
        }
    }

    fn control(&self) -> *mut perf_event_mmap_page {
        self.map.as_ptr().cast()
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone, and nothing refers to it any more.
        let _ = unsafe { munmap(self.map.as_ptr().cast(), self.page + self.size) };
    }
}

/// A dummy event: it counts nothing, and has the kernel report what was asked for beside it.
fn subscribe(cpu: u32, watermark: usize) -> io::Result<OwnedFd> {
    let mut attributes = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        config: u64::from(PERF_COUNT_SW_DUMMY),
        sample_type: u64::from(PERF_SAMPLE_TIME),
        clockid: CLOCK_MONOTONIC,
        size: size_of::<perf_event_attr>() as u32,
        ..perf_event_attr::default()
    };
    attributes.wakeup_watermark = watermark as u32;
    attributes.set_watermark(1);
    attributes.set_mmap(1);
    attributes.set_mmap2(1);
    // With the mark of an exec: whatever is mapped behind it belongs to the new program.
    attributes.set_comm(1);
    attributes.set_comm_exec(1);
    attributes.set_sample_id_all(1);
    attributes.set_use_clockid(1);
    attributes.set_exclude_kernel(1);
    let cpu = i32::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `attributes` is a whole structure of ours that outlives the call, and says its own size.
    let fd = unsafe { sys::perf_event_open(&mut attributes, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC.into()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor to us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
