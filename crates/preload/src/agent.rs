//! Finds the agent and speaks to it, within a bounded time.

use core::ffi::CStr;

use crate::process::Identity;
use crate::sys::{self, Address, Errno, Fd};

/// The agent's socket on a host; its directory belongs to root.
const DEFAULT_PATH: &[u8] = b"/run/jobglass/agent.sock";
/// The agent's name inside containers that share the host's network namespace.
const DEFAULT_ABSTRACT: &[u8] = b"@jobglass";
/// How often a full queue is tried again, and how long we wait before each time: 3 ms in all.
const RETRIES: usize = 3;
const RETRY_NS: u64 = 1_000_000;
/// What the kernel shows for a user that this user namespace does not map: root of the host, and everybody else.
const OVERFLOW_UID: u32 = 65534;
/// The longest name of a socket, and of the rules beside it.
const NAME_MAX: usize = 128;

/// Where the agent was found.
pub enum Agent<'a> {
    /// A path, beside which it has put its rules. Connecting is left until there is something to send, so
    /// that the agent is woken once.
    Path(&'a [u8]),
    /// An abstract name: only a connection shows whether someone is there, and who.
    Abstract(Fd),
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

    fn as_c_str(&self) -> Option<&CStr> {
        CStr::from_bytes_with_nul(self.bytes.get(..=self.len)?).ok()
    }
}

impl<'a> Agent<'a> {
    /// Finds the agent under the name the user gave, or under the default ones; `read_rules` says whether
    /// there are rules beside a path.
    pub fn find(
        wanted: Option<&'a [u8]>,
        identity: &Identity,
        read_rules: impl FnOnce(&[u8]) -> bool,
    ) -> Option<Agent<'a>> {
        let path = match wanted {
            Some(name) if name.first() == Some(&b'@') => return connect_abstract(name, identity),
            Some(path) => path,
            None => DEFAULT_PATH,
        };
        if read_rules(path) {
            Some(Agent::Path(path))
        } else if wanted.is_none() {
            connect_abstract(DEFAULT_ABSTRACT, identity)
        } else {
            None
        }
    }

    /// Sends one message.
    pub fn send(self, identity: &Identity, message: &[u8], pass: Option<&Fd>) {
        let socket = match self {
            Agent::Path(path) => connect_path(path, identity),
            Agent::Abstract(socket) => Some(socket),
        };
        if let Some(socket) = socket {
            let _ = sys::send(&socket, message, pass);
        }
    }
}

/// The table of rules beside the agent's socket; without one there is no agent. Somebody else's could name secrets that
/// are to be kept.
pub fn read_rules<'r>(path: &[u8], identity: &Identity, buf: &'r mut [u8]) -> Option<&'r [u8]> {
    let name = Name::new([path, b".rules", b""])?;
    let file = sys::open(name.as_c_str()?).ok()?;
    if !is_trusted(sys::owner_of_regular(&file)?, path, identity) {
        return None;
    }
    sys::read(&file, buf).ok()
}

/// Each user has a socket of their own beside the common one, so that one user's flood fills nobody else's queue.
fn connect_path(path: &[u8], identity: &Identity) -> Option<Fd> {
    let socket = sys::socket().ok()?;
    let own = Name::new([path, b".", identity.uid()])?;
    match Address::new(own.as_bytes()).map(|address| patient_connect(&socket, &address)) {
        Some(Ok(())) => {}
        Some(Err(Errno::AGAIN)) => return None,
        _ => patient_connect(&socket, &Address::new(path)?).ok()?,
    }
    has_trusted_peer(&socket, path, identity).then_some(socket)
}

fn connect_abstract<'a>(name: &[u8], identity: &Identity) -> Option<Agent<'a>> {
    let socket = sys::socket().ok()?;
    patient_connect(&socket, &Address::new(name)?).ok()?;
    has_trusted_peer(&socket, name, identity).then_some(Agent::Abstract(socket))
}

/// Anyone may take an abstract name, or a path in a directory that others can write to, while the agent is down.
fn has_trusted_peer(socket: &Fd, name: &[u8], identity: &Identity) -> bool {
    sys::peer_uid(socket).is_ok_and(|peer| is_trusted(peer, name, identity))
}

/// Whether what `owner` put at `name` is from root or from ourselves. A user namespace does not map the host's root, and
/// shows it like every stranger: there only the built-in path is trusted, which is protected by its directory.
fn is_trusted(owner: u32, name: &[u8], identity: &Identity) -> bool {
    match owner {
        0 => true,
        OVERFLOW_UID => name == DEFAULT_PATH,
        owner => owner == identity.number(),
    }
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
