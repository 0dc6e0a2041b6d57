//! The agent that runs: what it says of itself, and how that differs from the configuration on disk.
//!
//! An agent may have been started with options, or before its configuration was changed. What is checked is what it really uses.

use std::path::Path;

use agent::config::{Config, DEFAULT_PATH};
use agent::status::{Running, Status, beside, config_sum, in_spool, read};

use super::report::Check;
use crate::args::DoctorArgs;

const NAME: &str = "running";

/// What is known of the agent that runs.
pub enum Found {
    Nothing,
    /// Somebody else may have written what says what it is.
    Untrusted(String),
    Running(Box<Status>),
}

impl Found {
    pub fn status(&self) -> Option<&Status> {
        match self {
            Found::Running(status) => Some(status),
            Found::Nothing | Found::Untrusted(_) => None,
        }
    }
}

/// Looks where the configuration says that an agent listens and writes. If nothing else was asked for, also where one does by default: the
/// configuration may have changed since the agent was started.
pub fn find(args: &DoctorArgs, config: &Config) -> Found {
    let mut places = vec![(config.socket.clone(), config.spool.dir.clone())];
    if args.config.is_none() && args.socket.is_none() && args.spool.is_none() {
        let default = Config::default();
        places.push((default.socket, default.spool.dir));
    }
    let mut untrusted = None;
    for path in places.iter().flat_map(|(socket, spool)| beside(socket).into_iter().chain([in_spool(spool)]))
    {
        match read(&path) {
            Ok(Some(status)) => return Found::Running(Box::new(status)),
            Ok(None) => {}
            Err(why) => untrusted = untrusted.or(Some(why)),
        }
    }
    untrusted.map_or(Found::Nothing, Found::Untrusted)
}

/// What the agent runs with, and what the file at `config_path` says otherwise.
pub fn check(found: &Found, config_path: &Path) -> Check {
    let status = match found {
        Found::Running(status) => status,
        Found::Nothing => {
            return Check::skip(NAME, "no agent is seen to run; the checks below go by the configuration");
        }
        Found::Untrusted(why) => {
            let advice = "the checks below go by the configuration; find out who made that file";
            return Check::warn(NAME, why.clone(), advice);
        }
    };
    let file = status.flags.config.as_deref().unwrap_or(Path::new(DEFAULT_PATH));
    let own_version = env!("CARGO_PKG_VERSION");
    if status.version != own_version {
        let finding = format!("the agent is version {}, this command is {own_version}", status.version);
        return Check::warn(NAME, finding, "restart the agent: systemctl restart jobglass-agent");
    }
    if file != config_path {
        let finding = format!("the agent was started with {}, not {}", file.display(), config_path.display());
        return Check::warn(NAME, finding, "give this command the agent's --config, or none");
    }
    check_changes(status, file).unwrap_or_else(|| Check::ok(NAME, describe(status, file)))
}

/// Whether the agent would run with something else if it were started now.
fn check_changes(status: &Status, file: &Path) -> Option<Check> {
    let since = format!("the agent was started before {} changed", file.display());
    if let Ok(config) = status.flags.configure() {
        let differences = status.running.differences(&Running::of(&config));
        if !differences.is_empty() {
            let finding = format!("{since}: its {}", differences.join(", its "));
            let advice =
                "restart it: systemctl restart jobglass-agent; what follows is about what it uses now";
            return Some(Check::warn(NAME, finding, advice));
        }
    }
    if config_sum(&status.flags) != status.config_sum {
        let advice = "restart it, or send SIGHUP (systemctl reload jobglass-agent) if only enabled, off_file, [fold] or \
                      [privacy] changed";
        return Some(Check::warn(NAME, since, advice));
    }
    None
}

fn describe(status: &Status, file: &Path) -> String {
    let Running { socket, spool, server, .. } = &status.running;
    let url = if server.url.is_empty() { "no server" } else { &server.url };
    let typed = typed(status);
    format!(
        "version {}, process {}: it sends to {url}, writes to {}, listens on {socket}, was configured by {}{typed}",
        status.version,
        status.pid,
        spool.display(),
        file.display()
    )
}

/// The options over the configuration.
fn typed(status: &Status) -> String {
    let flags = &status.flags;
    let options = [
        ("--spool", flags.spool.is_some()),
        ("--socket", flags.socket.is_some()),
        ("--server", flags.server.is_some()),
        ("--token-file", flags.token_file.is_some()),
        ("--enroll-token-file", flags.enroll_token_file.is_some()),
        ("--ca-file", flags.ca_file.is_some()),
    ];
    let names: Vec<&str> = options.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
    if names.is_empty() { String::new() } else { format!(" and {}", names.join(", ")) }
}
