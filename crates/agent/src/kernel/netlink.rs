//! Netlink sockets and the walk over their messages.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{self, AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use socket2::{SockFilter, SockRef};

/// Length of a netlink message header.
pub const HEADER: usize = 16;
/// One read takes this much; the kernel packs several messages into it only for dumps, so it is ample.
const READ_BYTES: usize = 16 * 1024;
/// What the kernel may queue while the agent is busy elsewhere.
const QUEUE_BYTES: usize = 32 * 1024 * 1024;

/// A netlink socket, non-blocking.
pub struct Socket {
    fd: OwnedFd,
    buf: Vec<u8>,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Socket {
    /// Opens a socket of a netlink protocol, listening to multicast `groups`.
    pub fn open(protocol: Option<Protocol>, groups: u32) -> io::Result<Socket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = net::socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, protocol)?;
        // Beyond the system's limit with privileges, else up to it.
        if sockopt::set_socket_recv_buffer_size_force(&fd, QUEUE_BYTES).is_err() {
            sockopt::set_socket_recv_buffer_size(&fd, QUEUE_BYTES)?;
        }
        net::bind(&fd, &SocketAddrNetlink::new(0, groups))?;
        Ok(Socket { fd, buf: vec![0; READ_BYTES] })
    }

    /// Receives from now on only datagrams whose word at `at` is `word`, or with `is_kept` false only others.
    pub fn keep(&self, at: u32, word: u32, is_kept: bool) -> io::Result<()> {
        const LOAD_WORD: u16 = 0x20;
        const JUMP_IF_EQUAL: u16 = 0x15;
        const RETURN: u16 = 0x06;
        let (equal, other) = if is_kept { (u32::MAX, 0) } else { (0, u32::MAX) };
        SockRef::from(&self.fd).attach_filter(&[
            // The filter loads in network order, the kernel writes in its own.
            SockFilter::new(LOAD_WORD, 0, 0, at),
            SockFilter::new(JUMP_IF_EQUAL, 0, 1, word.to_be()),
            SockFilter::new(RETURN, 0, 0, equal),
            SockFilter::new(RETURN, 0, 0, other),
        ])
    }

    /// Sends a message to the kernel.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        net::sendto(&self.fd, message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        Ok(())
    }

    /// Receives one datagram; `None` if there is none now. Only the kernel is listened to.
    pub fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            match net::recvfrom(&self.fd, &mut self.buf[..], RecvFlags::DONTWAIT) {
                Ok((_, n, from)) => {
                    let is_kernel = from
                        .and_then(|from| SocketAddrNetlink::try_from(from).ok())
                        .is_some_and(|a| a.pid() == 0);
                    if is_kernel {
                        return Ok(self.buf.get(..n));
                    }
                }
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A netlink message: type and payload.
pub type Message<'a> = (u16, &'a [u8]);

/// Walks over the messages of a datagram; one whose length does not fit ends the walk.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let len = u32_at(bytes, 0)? as usize;
        let kind = u16_at(bytes, 4)?;
        let payload = bytes.get(HEADER..len)?;
        bytes = bytes.get(align(len)..).unwrap_or(&[]);
        Some((kind, payload))
    })
}

/// Walks over the attributes of a message: type and payload.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = u16_at(bytes, 0)? as usize;
        let kind = u16_at(bytes, 2)?;
        let payload = bytes.get(4..len)?;
        bytes = bytes.get(align(len)..).unwrap_or(&[]);
        Some((kind & 0x3fff, payload))
    })
}

/// A message with its header.
pub fn message(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + payload.len());
    out.extend(((HEADER + payload.len()) as u32).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(flags.to_ne_bytes());
    out.extend(1u32.to_ne_bytes());
    out.extend(0u32.to_ne_bytes());
    out.extend(payload);
    out
}

/// An attribute with its header and padding.
pub fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + payload.len());
    out.extend(((4 + payload.len()) as u16).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(payload);
    out.resize(align(out.len()), 0);
    out
}

fn align(len: usize) -> usize {
    len.next_multiple_of(4)
}

pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
