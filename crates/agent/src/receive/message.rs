//! One connection of the preload library: its message, with what the kernel says of its sender.
//!
//! All that happens here may hang on what the user passed along: the kernel closes passed descriptors on the thread
//! that reads or closes the connection, and closing a socket can take as long as its owner likes. So this runs only on
//! the [workers](super::workers), where it holds up nobody but that user.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Instant;

use record::wire::late;
use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::net::{self, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, UCred};

/// A connection, and who made it.
pub struct Connection {
    pub fd: OwnedFd,
    /// The process that connected, as the kernel says.
    pub pid: u32,
    pub uid: u32,
    /// The user that the uid counts as.
    pub user: u32,
    pub since: Instant,
}

/// What came over a connection.
pub enum Received {
    /// Nothing yet.
    Silence,
    /// It ended without a message.
    Nothing,
    /// Somebody else than who connected has sent this.
    Forged,
    /// A message of this length, and the memory for late objects.
    Message(usize, Option<OwnedFd>),
}

/// Takes the message of a connection into `buf`.
pub fn receive(connection: &Connection, buf: &mut [u8]) -> Received {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut iov = [io::IoSliceMut::new(buf)];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let bytes = loop {
        match net::recvmsg(&connection.fd, &mut iov, &mut control, flags) {
            Ok(received) => break received.bytes,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Received::Silence,
            Err(_) => return Received::Nothing,
        }
    };
    let (mut sender, mut passed) = (None, None);
    for message in control.drain() {
        match message {
            RecvAncillaryMessage::ScmCredentials(credentials) => sender = Some(credentials),
            RecvAncillaryMessage::ScmRights(fds) => passed = fds.into_iter().next(),
            _ => {}
        }
    }
    match bytes {
        // Somebody looked whether we are here.
        0 => Received::Nothing,
        _ if !sender.is_some_and(|sender| is_who_connected(&sender, connection)) => Received::Forged,
        bytes => Received::Message(bytes, passed.filter(is_late_memory)),
    }
}

/// A connection can be inherited over an exec, passed to another process, or left open in a program that gains
/// privileges: only whoever has made it may speak.
fn is_who_connected(sender: &UCred, connection: &Connection) -> bool {
    sender.pid.as_raw_nonzero().get() as u32 == connection.pid && sender.uid.as_raw() == connection.uid
}

/// Whether a descriptor is memory of the size that the preload library makes. It is sealed, so that it stays at that
/// size: giving back gigabytes when it is closed would hold up whoever closes it.
fn is_late_memory(fd: &OwnedFd) -> bool {
    let seals = SealFlags::GROW | SealFlags::SHRINK;
    let is_size = |stat: rustix::fs::Stat| stat.st_size == late::BYTES as i64;
    rustix::fs::fcntl_add_seals(fd, seals).is_ok() && rustix::fs::fstat(fd).is_ok_and(is_size)
}
