//! `jobglass doctor`: checks a node and says in plain words what is wrong and what to do.
//!
//! The checks follow the way of the data: the guest, the agent that listens, a test program on its way through
//! all of it, the kernel's sources, the spool, the server, and what was left out or lost.

mod agent;
mod arrival;
mod guest;
mod losses;
mod machine;
mod report;
mod running;
mod server;
mod spool;

use std::fs;
use std::path::{Path, PathBuf};

use ::agent::config::{Config, DEFAULT_PATH};
use ::agent::run::Flags;
use anyhow::Result;
use record::rules::RULES_MAX;

use crate::args::DoctorArgs;
use report::{Check, Printer};

/// What is checked, and by whom.
struct Node {
    config: Config,
    /// Where the configuration is, or would be.
    config_path: PathBuf,
    /// The user whose guests would speak.
    uid: u32,
    /// The switch, and who has turned it.
    off: Option<String>,
}

/// Says whether no check failed.
pub fn run(args: &DoctorArgs) -> Result<bool> {
    let mut printer = Printer::new(args.json);
    let (node, checks) = Node::new(args);
    printer.print(&checks)?;
    let (library, checks) = guest::check(args.library.as_deref());
    printer.print(&checks)?;
    let (listener, checks) = agent::check(&node);
    printer.print(&checks)?;
    let spool = spool::Content::read(&node.config.spool.dir);
    printer.print(&[arrival::check(&node, library.as_deref(), listener.as_ref(), &spool)])?;
    printer.print(&machine::check_kernel(&spool))?;
    printer.print(&machine::check_sensors(&node))?;
    printer.print(&machine::check_queue(&node, listener.as_ref()))?;
    printer.print(&machine::check_clock(&spool))?;
    printer.print(&spool::check(&node, &spool, listener.as_ref()))?;
    printer.print(&server::check(&node, &spool))?;
    printer.print(&losses::check(&node, &spool))?;
    printer.end()
}

impl Node {
    /// What a running agent uses, or else what the configuration says; what was typed goes over both.
    fn new(args: &DoctorArgs) -> (Node, Vec<Check>) {
        let typed = Flags {
            config: args.config.clone(),
            spool: args.spool.clone(),
            socket: args.socket.clone(),
            ..Flags::default()
        };
        let typed = typed.absolute();
        let found = running::find(args, &typed.configure().unwrap_or_else(|_| with_flags(&typed)));
        let told = found.status().and_then(|status| status.flags.config.clone());
        let flags = Flags { config: typed.config.clone().or(told), ..typed };
        let config_path = flags.config.clone().unwrap_or_else(|| DEFAULT_PATH.into());
        let (mut config, check) = configuration(&flags, &config_path);
        let checks = vec![check, running::check(&found, &config_path)];
        if let Some(status) = found.status() {
            status.running.apply(&mut config);
            apply(&flags, &mut config);
        }
        let off = if !config.enabled {
            Some(format!("`enabled = false` in {}", config_path.display()))
        } else {
            config.off_file.exists().then(|| format!("the file {} exists", config.off_file.display()))
        };
        let uid = rustix::process::geteuid().as_raw();
        (Node { config, config_path, uid, off }, checks)
    }

    /// The rules beside the agent's socket, as a guest reads them; abstract names have none.
    fn rules_file(&self) -> Option<PathBuf> {
        let socket = ::agent::receive::path_of(&self.config.socket)?;
        Some(PathBuf::from(format!("{}.rules", socket.display())))
    }

    /// The rules that hold: the agent's, or what the configuration would make of them.
    fn rules(&self) -> Vec<u8> {
        let told = self.rules_file().and_then(|path| sample_of(&path, RULES_MAX).ok());
        told.unwrap_or_else(|| self.config.rules().unwrap_or_default())
    }
}

/// Reads the configuration and says whether it is good.
fn configuration(flags: &Flags, path: &Path) -> (Config, Check) {
    let (name, place) = ("configuration", path.display());
    match flags.configure() {
        Ok(config) => {
            let finding =
                if path.exists() { format!("{place} is good") } else { format!("defaults: no {place}") };
            (config, Check::ok(name, finding))
        }
        Err(error) => {
            let advice = "correct it: an agent does not start with it, and a running one ignores it; \
                          the checks below use the defaults";
            (with_flags(flags), Check::fail(name, error.to_string(), advice))
        }
    }
}

/// The defaults, with what was typed.
fn with_flags(flags: &Flags) -> Config {
    let mut config = Config::default();
    apply(flags, &mut config);
    config
}

/// Puts what was typed in place of what the agent uses.
fn apply(flags: &Flags, config: &mut Config) {
    if let Some(dir) = &flags.spool {
        config.spool.dir = dir.clone();
    }
    if let Some(socket) = flags.socket.as_ref().filter(|socket| **socket != config.socket) {
        config.socket = socket.clone();
        config.container_socket = String::new();
    }
}

/// A file's first bytes; a guest reads no more either.
fn sample_of(path: &Path, max: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = fs::read(path)?;
    bytes.truncate(max);
    Ok(bytes)
}

/// The program that does nothing, wherever this system has it.
fn true_program() -> &'static Path {
    let places = ["/bin/true", "/usr/bin/true"].map(Path::new);
    places.into_iter().find(|place| place.exists()).unwrap_or(places[0])
}

/// A count with its noun.
fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Waits without being deaf to signals.
fn pause(milliseconds: i64) {
    let time = rustix::event::Timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
    let _ = rustix::event::poll(&mut [], Some(&time));
}
