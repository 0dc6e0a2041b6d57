//! What the machine must give: process events and accounting, queues, a clock.

use std::fs;
use std::io;
use std::process::{Command, Stdio};

use agent::clock::{Clock, monotonic_ns, wall_ns};
use agent::kernel::{Connector, Event, Mappings, Record, Taskstats};
use agent::limits::OWN_DESCRIPTORS;
use agent::sampling::{Collector, Counting};
use agent::waits::Waits;
use record::metric::id;
use record::reading::Values;
use rustix::process::geteuid;

use super::agent::Listener;
use super::report::Check;
use super::spool::Content;
use super::{Node, counted, pause, true_program};

/// Connections that may wait at a socket of the agent's.
const BACKLOG: u64 = 512;
/// How often drivers of GPUs are asked.
const GPU_TRIES: u32 = 10;
/// A record may be this much ahead of a clock that was read before it.
const CLOCK_TOLERANCE_NS: u64 = 2_000_000_000;

/// The kernel's sources, asked as the agent asks, and what the agent says it cannot see.
pub fn check_kernel(spool: &Content) -> Vec<Check> {
    let mask = fs::read("/sys/devices/system/cpu/possible").unwrap_or_default();
    let mut connector = Connector::open();
    let mut taskstats = Taskstats::open(String::from_utf8_lossy(&mask).trim());
    let mut mappings = Mappings::open();
    let child = Command::new(true_program()).env("JOBGLASS", "off").stdin(Stdio::null()).spawn();
    let pid = child.and_then(|mut child| child.wait().map(|_| child.id())).ok();
    // Accounting is sent after the parent has learned of the end.
    pause(100);
    let events = connector.as_mut().map(|connector| saw_exit(connector, pid));
    let accounts = taskstats.as_mut().map(|taskstats| saw_accounting(taskstats, pid));
    let mapped = mappings.as_mut().map(|mappings| saw_mapping(mappings, pid));
    vec![
        source(
            "kernel-events",
            events,
            "exec and exit of programs without a guest are not seen",
            "a kernel with CONFIG_CONNECTOR and CONFIG_PROC_EVENTS",
        ),
        source(
            "kernel-accounts",
            accounts,
            "CPU time and memory of programs are not known",
            "a kernel with CONFIG_TASKSTATS, CONFIG_TASK_DELAY_ACCT and CONFIG_TASK_XACCT",
        ),
        mapped_files(mapped),
        agent_sight(spool),
    ]
}

fn saw_exit(connector: &mut Connector, pid: Option<u32>) -> bool {
    let mut seen = false;
    let _ = connector.drain(usize::MAX, |event| {
        seen |= matches!(event, Event::Exit { tgid, .. } if Some(tgid) == pid);
    });
    seen
}

fn saw_accounting(taskstats: &mut Taskstats, pid: Option<u32>) -> bool {
    let mut seen = false;
    let _ = taskstats.drain(|stats| seen |= Some(stats.pid) == pid);
    seen
}

fn saw_mapping(mappings: &mut Mappings, pid: Option<u32>) -> bool {
    let mut seen = false;
    mappings.drain(usize::MAX, |record| {
        seen |= matches!(record, Record::Mapped { pid: of, .. } if Some(of) == pid);
    });
    seen
}

/// Without these records there is still the preload library's word and `/proc`.
fn mapped_files(asked: Result<bool, &mut io::Error>) -> Check {
    const NAME: &str = "kernel-mappings";
    const WITHOUT: &str = "libraries of programs that end at once or are killed, and those that were closed again, \
                           are not seen";
    match asked {
        Ok(true) => Check::ok(NAME, "the files that a test program has mapped were seen"),
        Ok(false) => Check::warn(
            NAME,
            format!("the kernel answers, but says nothing of a test program: {WITHOUT}"),
            "an agent must run in the host's first pid namespace, not in a container",
        ),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !geteuid().is_root() => Check::skip(
            NAME,
            "you may not ask the kernel (that needs root or CAP_PERFMON); what the agent sees is below",
        ),
        Err(error) => Check::warn(
            NAME,
            format!("{error}: {WITHOUT}"),
            "run the agent as root or with CAP_PERFMON (before Linux 5.8 CAP_SYS_ADMIN), on a kernel with \
             CONFIG_PERF_EVENTS and outside of a sandbox that forbids perf_event_open",
        ),
    }
}

/// `asked` is whether the end of a test program came through, or why nothing could be asked.
fn source(name: &'static str, asked: Result<bool, &mut io::Error>, without: &str, needs: &str) -> Check {
    match asked {
        Ok(true) => Check::ok(name, "the end of a test program was seen"),
        Ok(false) => Check::fail(
            name,
            format!(
                "the kernel answers, but the end of a test program was not among what it told: {without}"
            ),
            "an agent must run in the host's first pid and network namespaces, not in a container",
        ),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Check::skip(
            name,
            "you may not ask the kernel (that needs root or CAP_NET_ADMIN); what the agent sees is below",
        ),
        Err(error) => Check::fail(
            name,
            format!("{error}: {without}"),
            format!("it takes {needs}, and the host's first network namespace"),
        ),
    }
}

fn agent_sight(spool: &Content) -> Check {
    const NAME: &str = "agent-sight";
    match spool.health() {
        Err(why) => Check::skip(NAME, why),
        Ok(health) if health.blind.is_empty() => Check::ok(NAME, "the agent sees every process of the node"),
        Ok(health) => Check::warn(
            NAME,
            health.blind.join("; "),
            "run the agent as root (systemctl start jobglass-agent) if all programs of the node are to be seen",
        ),
    }
}

/// Counters of the processors and GPUs, asked as the agent asks.
pub fn check_sensors(node: &Node) -> Vec<Check> {
    if !node.config.sampling.enabled {
        return vec![Check::skip("sensors", "nothing is measured: sampling.enabled = false")];
    }
    let mut collector = node.config.collector(Clock::now(), Waits::default());
    let values = collector.read_node();
    vec![counters(node, &collector, &values), gpus(&mut collector)]
}

fn counters(node: &Node, collector: &Collector, values: &Values) -> Check {
    const NAME: &str = "counters";
    let why_not = collector.counts.why_not();
    if node.config.sampling.counters == Counting::Off {
        Check::ok(NAME, "not wanted: sampling.counters = \"off\"")
    } else if why_not.is_empty() && values.get(id::NODE_INSTRUCTIONS).is_some() {
        Check::ok(NAME, "the processors' counters can be read")
    } else {
        Check::warn(
            NAME,
            why_not.join("; "),
            "what they would say is unknown, all else is measured; sampling.counters = \"off\" ends this",
        )
    }
}

fn gpus(collector: &mut Collector) -> Check {
    const NAME: &str = "gpus";
    // A driver that was asleep needs a moment, and answers the second time.
    for _ in 0..GPU_TRIES {
        collector.cards.read(&[], monotonic_ns());
        if collector.cards.ill.is_empty() {
            break;
        }
        pause(500);
    }
    let (models, ill) = (collector.cards.models(), &collector.cards.ill);
    if !ill.is_empty() {
        return Check::warn(
            NAME,
            ill.join("; "),
            "see that the vendor's own tool works (nvidia-smi, rocm-smi)",
        );
    }
    if models.is_empty() {
        return Check::ok(NAME, "there are none whose driver is loaded");
    }
    Check::ok(NAME, format!("{}: {}", counted(models.len() as u64, "GPU", "GPUs"), models.join(", ")))
}

/// How many guests may wait, and how many the agent can hold.
pub fn check_queue(node: &Node, listener: Option<&Listener>) -> Vec<Check> {
    const NAME: &str = "queue";
    const SETTING: &str = "/proc/sys/net/core/somaxconn";
    let limit = fs::read(SETTING).ok().and_then(|text| number(&text));
    let queue = match limit {
        None => Check::skip(NAME, format!("cannot read {SETTING}")),
        Some(limit) if limit < BACKLOG => Check::warn(
            NAME,
            format!(
                "net.core.somaxconn = {limit}: no more guests of a user may wait at once, {BACKLOG} could"
            ),
            "sysctl -w net.core.somaxconn=4096 (make install puts it into sysctl.d), then restart the agent",
        ),
        Some(limit) => Check::ok(
            NAME,
            format!(
                "{BACKLOG} guests of each user may wait (net.core.somaxconn = {limit}; net.unix.max_dgram_qlen \
                 does not matter: guests send no datagrams)"
            ),
        ),
    };
    vec![queue, descriptors(node, listener)]
}

/// Each guest shares memory, of which the agent holds a descriptor.
fn descriptors(node: &Node, listener: Option<&Listener>) -> Check {
    const NAME: &str = "descriptors";
    let Some(listener) = listener else { return Check::skip(NAME, "there is no agent to ask") };
    let limits = fs::read(format!("/proc/{}/limits", listener.pid)).unwrap_or_default();
    let line = limits.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"Max open files"));
    let Some(limit) = line.and_then(|line| number(line.split(|b| *b == b' ').find(|word| !word.is_empty())?))
    else {
        return Check::skip(NAME, format!("cannot read the limits of process {}", listener.pid));
    };
    let wanted = node.config.limits.guests as u64 + OWN_DESCRIPTORS;
    if limit < wanted {
        return Check::warn(
            NAME,
            format!(
                "the agent may open {limit} files; limits.guests = {} takes {wanted}",
                wanted - OWN_DESCRIPTORS
            ),
            "late libraries of more programs than that are not seen at their end; raise \
             LimitNOFILE of the unit (ulimit -n)",
        );
    }
    Check::ok(NAME, format!("the agent may open {limit} files, and needs at most {wanted}"))
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// Records of several nodes are put in order by their times.
pub fn check_clock(spool: &Content) -> Vec<Check> {
    let synchronised = if is_synchronised() {
        Check::ok("clock", "synchronised, says the kernel")
    } else {
        Check::warn(
            "clock",
            "the kernel does not know the clock to be synchronised",
            "run chronyd or ntpd: times of several nodes are compared (in a virtual machine the host may do it \
             unknown to the kernel)",
        )
    };
    vec![synchronised, against_spool(spool)]
}

fn against_spool(spool: &Content) -> Check {
    const NAME: &str = "clock-spool";
    let newest = match spool {
        Content::Unreadable(why) => return Check::skip(NAME, why.clone()),
        Content::Read(read) => read.newest,
    };
    match newest.map(|newest| newest.saturating_sub(wall_ns())) {
        None => Check::skip(NAME, "the spool has no entry with a time yet"),
        Some(ahead) if ahead > CLOCK_TOLERANCE_NS => Check::fail(
            NAME,
            format!("the newest record is {:.0} s in the future: the clock was set back", ahead as f64 / 1e9),
            "set the clock right; the agent follows it, what is recorded keeps its times",
        ),
        Some(_) => Check::ok(NAME, "no record is in the future"),
    }
}

fn is_synchronised() -> bool {
    // SAFETY: all zero is a valid `timex`, which is plain numbers.
    let mut time: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is ours for the call; with `modes` zero the kernel only fills it.
    let state = unsafe { libc::adjtimex(&raw mut time) };
    state >= 0 && state != libc::TIME_ERROR && time.status & libc::STA_UNSYNC == 0
}
