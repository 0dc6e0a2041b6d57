//! The sockets that the agent listens on.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, sockopt};

/// Connections that may wait per socket. Each holds a descriptor in flight, of which a user may have as many
/// as files open (1024 by default): a stopped agent must not make a user's own programs fail at passing one.
pub const BACKLOG: i32 = 512;

/// Where guests find the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// A path, or an abstract name beginning with `@`.
    pub main: String,
    /// The abstract name for containers.
    pub container: Option<String>,
}

/// A socket that listens; a path is removed with it.
pub struct Listener {
    pub fd: OwnedFd,
    /// Whose it is, unless it is for everybody.
    pub user: Option<u32>,
    path: Option<PathBuf>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Listener {
    /// Listens under an abstract name or at a path.
    pub fn bind(name: &str) -> io::Result<Listener> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let path = path_of(name);
        let address = match &path {
            Some(path) => {
                remove_dead(path)?;
                SocketAddrUnix::new(path)?
            }
            None => SocketAddrUnix::new_abstract_name(name.strip_prefix('@').unwrap_or(name).as_bytes())?,
        };
        // What is accepted inherits it: each message comes with its sender's credentials.
        sockopt::set_socket_passcred(&fd, true)?;
        net::bind(&fd, &address)?;
        net::listen(fd.as_fd(), BACKLOG)?;
        Ok(Listener { fd, user: None, path })
    }

    /// Listens at a path, for everybody or for one user. The socket is in its place only when it listens and belongs to
    /// whom it should, and when `prepare` has made what must be there before.
    pub fn at(
        path: &Path,
        user: Option<u32>,
        prepare: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<Listener> {
        let new = PathBuf::from(format!("{}.new", path.display()));
        let _ = fs::remove_file(&new);
        let mut listener = Listener::bind(&new.display().to_string())?;
        let mode = if user.is_some() { 0o600 } else { 0o666 };
        fs::set_permissions(&new, fs::Permissions::from_mode(mode))?;
        if user.is_some() {
            chown(&new, user, None)?;
        }
        prepare()?;
        fs::rename(&new, path)?;
        listener.path = Some(path.to_owned());
        listener.user = user;
        Ok(listener)
    }

    /// Takes a connection that waits; `AGAIN` if there is none.
    pub fn accept(&self) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        rustix::io::retry_on_intr(|| net::accept_with(&self.fd, flags))
    }

    /// Lets nobody connect any more. Those who have connected can still be accepted, and must be: closing this socket
    /// would close them, with whatever they have passed.
    pub fn refuse(&mut self) {
        self.remove();
        let _ = net::shutdown(&self.fd, Shutdown::Both);
    }

    fn remove(&mut self) {
        if let Some(path) = self.path.take() {
            let _ = fs::remove_file(path);
        }
    }
}

/// A user's own socket beside the common one.
pub fn user_socket(main: &Path, uid: u32) -> PathBuf {
    PathBuf::from(format!("{}.{uid}", main.display()))
}

/// The path in a socket's name, unless it is an abstract one.
pub fn path_of(name: &str) -> Option<PathBuf> {
    (!name.starts_with('@')).then(|| PathBuf::from(name))
}

/// Removes the socket of an agent that was killed; one that somebody listens on is an error.
pub fn remove_dead(path: &Path) -> io::Result<()> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    let is_socket = std::os::unix::fs::FileTypeExt::is_socket(&meta.file_type());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    if !is_socket || net::connect(&probe, &SocketAddrUnix::new(path)?) != Err(Errno::CONNREFUSED) {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "something else is there"));
    }
    fs::remove_file(path)
}
