//! Finds the agent and speaks to it, within a bounded time.

use crate::sys::{self, Address, Errno, Fd};

/// The agent's socket on a host; its directory belongs to root.
const DEFAULT_PATH: &[u8] = b"/run/jobglass/agent.sock";
/// The agent's name inside containers that share the host's network namespace.
const DEFAULT_ABSTRACT: &[u8] = b"@jobglass";
/// How often a full queue is tried again, and how long we wait before each time: 3 ms in all.
const RETRIES: usize = 3;
const RETRY_NS: u64 = 1_000_000;
/// The longest name of a socket, and of the rules beside it.
const NAME_MAX: usize = 128;

/// A connection to the agent.
pub struct Connection {
    socket: Fd,
    rules: Name,
}

/// A terminated name made of up to three parts.
struct Name {
    bytes: [u8; NAME_MAX],
    len: usize,
}

impl Name {
    fn new(parts: [&[u8]; 3]) -> Option<Name> {
        let mut name = Name { bytes: [0; NAME_MAX], len: 0 };
        for part in parts {
            let end = name.len.checked_add(part.len())?;
            name.bytes.get_mut(name.len..end)?.copy_from_slice(part);
            name.len = end;
        }
        (name.len < NAME_MAX).then_some(name)
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

impl Connection {
    /// Connects to the socket the user named, or to the default ones.
    pub fn open(wanted: Option<&[u8]>, uid: &[u8]) -> Option<Connection> {
        let socket = sys::socket().ok()?;
        let connected = match wanted {
            Some(name) if name.first() == Some(&b'@') => connect_abstract(&socket, name, uid),
            Some(path) => connect_path(&socket, path, uid),
            None => connect_path(&socket, DEFAULT_PATH, uid)
                .or_else(|| connect_abstract(&socket, DEFAULT_ABSTRACT, uid)),
        };
        let rules = Name::new([connected?, b".rules", b""])?;
        Some(Connection { socket, rules })
    }

    /// The table of rules beside the agent's socket. Beside an abstract one there is no place for it.
    pub fn rules<'a>(&self, buf: &'a mut [u8]) -> Option<&'a [u8]> {
        let name = self.rules.bytes.get(..=self.rules.len)?;
        if name.first() == Some(&b'@') {
            return None;
        }
        let file = sys::open(core::ffi::CStr::from_bytes_with_nul(name).ok()?).ok()?;
        sys::read(&file, buf).ok()
    }

    /// Sends one message.
    pub fn send(&self, message: &[u8], pass: Option<&Fd>) -> bool {
        sys::send(&self.socket, message, pass).is_ok()
    }
}

/// A path is protected by its directory: only the agent can have put a socket there. Each user has a socket
/// of their own beside the common one, so that one user's flood fills nobody else's queue.
fn connect_path<'a>(socket: &Fd, path: &'a [u8], uid: &[u8]) -> Option<&'a [u8]> {
    let own = Name::new([path, b".", uid])?;
    match Address::new(own.as_bytes()).map(|address| patient_connect(socket, &address)) {
        Some(Ok(())) => return Some(path),
        Some(Err(Errno::AGAIN)) => return None,
        _ => {}
    }
    patient_connect(socket, &Address::new(path)?).ok()?;
    Some(path)
}

/// Anyone may take an abstract name while the agent is down, so the listener must be root or ourselves
/// before anything is said.
fn connect_abstract<'a>(socket: &Fd, name: &'a [u8], uid: &[u8]) -> Option<&'a [u8]> {
    patient_connect(socket, &Address::new(name)?).ok()?;
    let peer = sys::peer_uid(socket).ok()?;
    let own: u32 = core::str::from_utf8(uid).ok()?.parse().ok()?;
    (peer == 0 || peer == own).then_some(name)
}

/// A full queue is tried again after a moment: there is no way to wait for a place in it.
fn patient_connect(socket: &Fd, to: &Address) -> sys::Result<()> {
    let mut answer = sys::connect(socket, to);
    for _ in 0..RETRIES {
        if answer != Err(Errno::AGAIN) {
            break;
        }
        sys::wait_ns(RETRY_NS);
        answer = sys::connect(socket, to);
    }
    answer
}
