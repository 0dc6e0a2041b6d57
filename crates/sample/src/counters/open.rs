//! Opens an event with the kernel. The only unsafe code of this crate.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use perf_event_open_sys as sys;
use rustix::io::{Errno, Result};
use sys::bindings::{
    PERF_FLAG_FD_CLOEXEC, PERF_FLAG_PID_CGROUP, PERF_FORMAT_GROUP, PERF_FORMAT_TOTAL_TIME_ENABLED,
    PERF_FORMAT_TOTAL_TIME_RUNNING, PERF_IOC_FLAG_GROUP, PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE,
    PERF_TYPE_RAW, PERF_TYPE_SOFTWARE, perf_event_attr,
};

use super::events::Code;

/// Where an event is counted: on one processor, for all or for a control group, alone or with a leader.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub cpu: u32,
    pub group: Option<BorrowedFd<'a>>,
    pub leader: Option<BorrowedFd<'a>>,
}

/// Opens an event. A leader does not count before [`start`]; those it leads count when it does.
pub(super) fn open(code: Code, place: Place) -> Result<OwnedFd> {
    let (kind, config) = match code {
        Code::Hardware(config) => (PERF_TYPE_HARDWARE, config),
        Code::Cache(config) => (PERF_TYPE_HW_CACHE, config),
        Code::Raw(config) => (PERF_TYPE_RAW, config),
        Code::Software(config) => (PERF_TYPE_SOFTWARE, config),
    };
    let mut attributes = perf_event_attr { type_: kind, config, ..perf_event_attr::default() };
    attributes.size = u32::try_from(size_of::<perf_event_attr>()).map_err(|_| Errno::TOOBIG)?;
    attributes.read_format =
        u64::from(PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING);
    attributes.set_disabled(u64::from(place.leader.is_none()));
    let mut flags = PERF_FLAG_FD_CLOEXEC;
    if place.group.is_some() {
        flags |= PERF_FLAG_PID_CGROUP;
    }
    let none: RawFd = -1;
    let number = |fd: Option<BorrowedFd>| fd.map_or(none, |fd| fd.as_raw_fd());
    let cpu = i32::try_from(place.cpu).map_err(|_| Errno::INVAL)?;
    // SAFETY: `attributes` is a whole structure of ours that outlives the call, and says its own size. It asks for a count
    // only: no samples, no buffer, no signal. The descriptors are borrowed, so they are open during the call.
    let fd = unsafe {
        sys::perf_event_open(&mut attributes, number(place.group), cpu, number(place.leader), flags.into())
    };
    if fd < 0 {
        return Err(last_error());
    }
    // SAFETY: the kernel has just given this descriptor to us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Begins to count a leader and those it leads.
pub(super) fn start(leader: BorrowedFd) -> Result<()> {
    // SAFETY: the descriptor is borrowed and so open; this request takes a number, not a pointer.
    let result = unsafe { sys::ioctls::ENABLE(leader.as_raw_fd(), PERF_IOC_FLAG_GROUP) };
    if result < 0 { Err(last_error()) } else { Ok(()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
