//! The agent: it listens, it is who it should be, and guests find its rules.

use std::fs;
use std::io;
use std::path::Path;

use agent::receive::{path_of, user_socket};
use record::rules::{RULES_MAX, Rules};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt::socket_peercred,
};

use super::report::Check;
use super::{Node, sample_of};

/// Who listens behind a socket, by the kernel's word.
pub struct Listener {
    pub pid: u32,
    pub uid: u32,
}

impl Listener {
    /// Whether guests of this user trust it behind an abstract name.
    fn is_trusted_by(&self, uid: u32) -> bool {
        self.uid == 0 || self.uid == uid
    }

    fn describe(&self) -> String {
        let who = if self.uid == 0 { "root".to_owned() } else { format!("user {}", self.uid) };
        format!("process {} of {who}", self.pid)
    }
}

/// Gives the listener as well, if there is one.
pub fn check(node: &Node) -> (Option<Listener>, Vec<Check>) {
    let mut checks = vec![switch(node)];
    let (listener, check) = listening(node);
    checks.push(check);
    if listener.is_some() {
        checks.extend(containers(node));
        checks.push(own_socket(node, listener.as_ref()));
        checks.push(rules(node));
    }
    (listener, checks)
}

fn switch(node: &Node) -> Check {
    match &node.off {
        None => Check::ok("switch", "on"),
        Some(by) => Check::warn(
            "switch",
            format!("Jobglass is switched off: {by}"),
            format!(
                "to switch it on, remove {} and see that {} does not say `enabled = false`",
                node.config.off_file.display(),
                node.config_path.display()
            ),
        ),
    }
}

fn listening(node: &Node) -> (Option<Listener>, Check) {
    const NAME: &str = "agent";
    let socket = &node.config.socket;
    match (ask(socket), &node.off) {
        (Ok(listener), Some(_)) => {
            let finding = format!("{} still listens on {socket}", listener.describe());
            let advice = "an agent obeys the switch within a minute; if not, it has another configuration";
            (Some(listener), Check::warn(NAME, finding, advice))
        }
        (Ok(listener), None) => {
            let check = judge(&listener, node);
            (Some(listener), check)
        }
        (Err(_), Some(_)) => (
            None,
            Check::skip(NAME, format!("nobody listens on {socket}, as it should be while switched off")),
        ),
        (Err(error), None) => (None, unreachable(node, error)),
    }
}

fn judge(listener: &Listener, node: &Node) -> Check {
    const NAME: &str = "agent";
    let socket = &node.config.socket;
    let finding = format!("{} listens on {socket}", listener.describe());
    if listener.is_trusted_by(node.uid) {
        return Check::ok(NAME, finding);
    }
    if path_of(socket).is_none() {
        let advice = "guests do not speak to it; find out what it is, end it, and start the agent as root";
        return Check::fail(NAME, format!("{finding}, who is neither root nor you"), advice);
    }
    let advice = "whoever owns it learns what you run; the agent of a site runs as root";
    Check::warn(NAME, format!("{finding}, who is neither root nor you"), advice)
}

fn unreachable(node: &Node, error: Errno) -> Check {
    const NAME: &str = "agent";
    let (socket, dir) = (&node.config.socket, node.config.spool.dir.display());
    let start = format!(
        "start one: systemctl start jobglass-agent, or by hand: jobglass agent --socket {socket} --spool {dir}"
    );
    match error {
        Errno::NOENT => Check::fail(NAME, format!("no agent: there is no socket {socket}"), start),
        Errno::CONNREFUSED => Check::fail(
            NAME,
            format!("no agent: nobody listens on {socket} (it was killed, or never ran)"),
            start,
        ),
        Errno::AGAIN => Check::fail(
            NAME,
            format!("the queue of {socket} is full: the agent does not take messages"),
            "it is stopped or hangs: look at it with ps and its log, then systemctl restart jobglass-agent",
        ),
        Errno::ACCESS => Check::fail(
            NAME,
            format!("you may not connect to {socket}"),
            "the directory of the socket must let every user in (mode 0755), and the socket be 0666",
        ),
        Errno::PROTOTYPE => {
            Check::fail(NAME, format!("what listens on {socket} is no agent"), "choose another socket")
        }
        other => Check::fail(NAME, format!("cannot connect to {socket}: {}", io::Error::from(other)), start),
    }
}

/// The abstract name is all that guests in containers can see, and anyone may have taken it.
fn containers(node: &Node) -> Option<Check> {
    const NAME: &str = "agent-containers";
    let name = Some(&node.config.container_socket).filter(|name| !name.is_empty())?;
    Some(match ask(name) {
        Ok(listener) if listener.is_trusted_by(node.uid) => {
            Check::ok(NAME, format!("guests in containers reach {} on {name}", listener.describe()))
        }
        Ok(listener) => Check::warn(
            NAME,
            format!("{} holds the name {name}: guests in containers stay silent", listener.describe()),
            "end that process, then systemctl restart jobglass-agent",
        ),
        Err(error) => Check::warn(
            NAME,
            format!("nobody listens on {name}: {}", io::Error::from(error)),
            "programs in containers are seen by the kernel only; systemctl restart jobglass-agent, outside of \
             a private network namespace",
        ),
    })
}

/// A user's own queue, which nobody else can fill.
fn own_socket(node: &Node, listener: Option<&Listener>) -> Check {
    const NAME: &str = "agent-own-socket";
    let Some(main) = path_of(&node.config.socket) else {
        return Check::skip(NAME, "an abstract name has no sockets of users beside it");
    };
    let own = user_socket(&main, node.uid);
    match ask(&own.display().to_string()) {
        Ok(_) => Check::ok(NAME, format!("{} is yours alone", own.display())),
        Err(_) if listener.is_some_and(|listener| listener.uid != 0) => Check::skip(
            NAME,
            "an agent without privileges cannot make sockets for others; all use the common one",
        ),
        Err(error) => Check::warn(
            NAME,
            format!("{}: {}", own.display(), io::Error::from(error)),
            "the agent makes it when it sees you; until then your guests share the common queue with all users",
        ),
    }
}

/// Guests that find no valid rules use the built-in ones, and a site's own are silently lost.
fn rules(node: &Node) -> Check {
    const NAME: &str = "agent-rules";
    let Some(path) = node.rules_file() else {
        return Check::skip(NAME, "beside an abstract name there are none: guests use the built-in rules");
    };
    let restart = "restart the agent, which writes it anew: systemctl restart jobglass-agent";
    let table = match sample_of(&path, RULES_MAX + 1) {
        Ok(table) => table,
        Err(error) => {
            return Check::fail(NAME, format!("guests cannot read {}: {error}", path.display()), restart);
        }
    };
    if table.len() > RULES_MAX || Rules::new(&table).is_none() {
        let finding = format!("{} is no table of rules: guests use the built-in ones", path.display());
        return Check::fail(NAME, finding, restart);
    }
    if is_foreign(&path, node.uid) {
        let finding = format!("{} belongs to neither root nor you", path.display());
        return Check::warn(NAME, finding, "whoever owns it decides what your guests tell");
    }
    if node.config.rules().ok().as_deref() != Some(&table) {
        return Check::warn(
            NAME,
            format!("{} is valid, but not what {} says", path.display(), node.config_path.display()),
            "systemctl reload jobglass-agent; or give this command the --config that the agent has",
        );
    }
    Check::ok(NAME, format!("{} is valid and what the configuration says", path.display()))
}

fn is_foreign(path: &Path, uid: u32) -> bool {
    let owner = fs::metadata(path).map(|meta| std::os::unix::fs::MetadataExt::uid(&meta));
    owner.is_ok_and(|owner| owner != 0 && owner != uid)
}

/// Connects as a guest does, and says nothing.
fn ask(name: &str) -> Result<Listener, Errno> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
        None => SocketAddrUnix::new(name)?,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    connect(&socket, &address)?;
    let peer = socket_peercred(&socket)?;
    Ok(Listener { pid: peer.pid.as_raw_nonzero().get() as u32, uid: peer.uid.as_raw() })
}
