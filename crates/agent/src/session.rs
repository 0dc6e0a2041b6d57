//! Which login session or service a process belongs to, where there is no batch job.
//!
//! systemd puts each login and each service into a control group of its own. Where there is none, the session of
//! the terminal tells: a process hands it on to its children, and it is named by the process that began it.

use std::sync::LazyLock;

use record::session::TERMINAL;
use sample::Proc;

use crate::progress::this_boot;

/// Numbers of sessions and processes begin again with each boot, so it is part of every name.
static BOOT: LazyLock<String> = LazyLock::new(|| format!("{:08x}", this_boot() as u32));

/// The name of the session or service whose control group the lines of `/proc/PID/cgroup` name.
pub fn from_cgroup(lines: &[u8], host: &str) -> Option<String> {
    unit(lines).map(|unit| format!("{unit}.{}@{host}", *BOOT))
}

/// The name of the terminal's session in which a process runs.
pub fn of_terminal(proc: &Proc, pid: u32, host: &str) -> Option<String> {
    let leader = proc.stat(pid)?.session;
    Some(named(leader, proc.stat(leader).map(|stat| stat.start_ticks), host))
}

/// The name of a terminal's session by its leader. One that has gone leaves its number only.
pub fn named(leader: u32, start_ticks: Option<u64>, host: &str) -> String {
    let start = start_ticks.map_or(String::new(), |ticks| format!("-{ticks:x}"));
    format!("{TERMINAL}{leader}{start}.{}@{host}", *BOOT)
}

/// The unit of a login session, a service or a container in the lines of `/proc/PID/cgroup`.
fn unit(lines: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(lines).ok()?;
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.flat_map(|path| path.split('/')).find_map(|part| {
        let scope = part.strip_suffix(".scope").filter(|name| *name != "init");
        scope.or_else(|| part.strip_suffix(".service"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_in_control_groups() {
        for (lines, expected) in [
            ("0::/user.slice/user-1000.slice/session-3.scope\n", Some("session-3")),
            ("0::/system.slice/cron.service\n", Some("cron")),
            ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.service\n", Some("user@1000")),
            ("1:name=systemd:/user.slice/user-7.slice/session-c2.scope\n0::/\n", Some("session-c2")),
            ("0::/system.slice/docker-0123.scope\n", Some("docker-0123")),
            ("0::/init.scope\n", None),
            ("0::/\n", None),
            ("", None),
            ("\u{0}:x", None),
        ] {
            assert_eq!(unit(lines.as_bytes()), expected, "{lines}");
        }
    }

    #[test]
    fn without_units_the_terminals_session() {
        let proc = Proc::default();
        let own = |pid| of_terminal(&proc, pid, "n1");
        let this = own(std::process::id()).unwrap();
        assert!(this.starts_with("sid-") && this.ends_with("@n1"), "{this}");
        let child = testkit::Killed(std::process::Command::new("sleep").arg("infinity").spawn().unwrap());
        assert_eq!(own(child.id()), Some(this));
    }
}
