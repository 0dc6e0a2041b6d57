//! What Slurm tells of itself: `scontrol show partition`, `show node` and `show config`, the first two in several lines for
//! each or in one (`-o`).
//!
//! A partition or a node with a value that does not have its form is rejected whole. `(null)`, `N/A`, `NONE` and numbers
//! that stand for nothing are absent.

use record::accounting::{TimeLimit, Tres};
use record::entry::Nanos;
use record::site::{Config, Node, Partition};

use super::gres;
use super::printed::{Report, Thing, meant, things, unreadable, words};
use super::tres;
use crate::number::{KIBI, whole};
use crate::sink::{At, Outcome, Problem, Reason};
use crate::time::{SECOND, duration};
use crate::word;

const MIB: u64 = 1 << 20;
const MINUTE: u64 = 60 * SECOND;

/// What people write of a node, behind all else; anything may be in it.
const WRITTEN: [&[u8]; 3] = [b"Reason=", b"Comment=", b"Extra="];

/// Reads `scontrol show partition`.
pub fn partitions(text: &[u8], file: &str, report: Report<'_>) -> Vec<Partition> {
    each(text, b"PartitionName=", file, report, partition)
}

/// Reads `scontrol show node`.
pub fn nodes(text: &[u8], file: &str, report: Report<'_>) -> Vec<Node> {
    each(text, b"NodeName=", file, report, |thing| node(&thing.before(&WRITTEN)))
}

fn each<T>(
    text: &[u8],
    key: &[u8],
    file: &str,
    report: Report<'_>,
    make: impl Fn(&Thing) -> Result<T, Reason>,
) -> Vec<T> {
    let (before, found) = things(text, key);
    if let Some(before) = before {
        before.report(file, Outcome::Rejected, Reason::Stray, report);
    }
    let made = found.iter().filter_map(|thing| {
        make(thing).map_err(|reason| thing.report(file, Outcome::Rejected, reason, report)).ok()
    });
    made.collect()
}

fn partition(thing: &Thing) -> Result<Partition, Reason> {
    Ok(Partition {
        name: thing.word(b"PartitionName=").ok_or(Reason::Empty { field: "PartitionName" })?,
        nodes: thing.word(b"Nodes="),
        node_count: count(thing, "TotalNodes=")?,
        cpus: count(thing, "TotalCPUs=")?,
        default_time: match limit(thing, "DefaultTime=")? {
            Some(TimeLimit::Nanos(time)) => Some(time),
            _ => None,
        },
        max_time: limit(thing, "MaxTime=")?,
        is_default: yes(thing, "Default=")?,
        state: thing.word(b"State="),
        qos: thing.word(b"QoS="),
        allow_accounts: thing.words(b"AllowAccounts=").filter(|accounts| accounts != &["ALL"]),
        tres: resources(thing)?,
        ..Partition::default()
    })
}

fn node(thing: &Thing) -> Result<Node, Reason> {
    let (sockets, cores_per_socket) = (some(thing, "Sockets=")?, some(thing, "CoresPerSocket=")?);
    let gres = thing.word(b"Gres=");
    let gpus = gres.as_deref().map_or(Some(vec![]), gres::gpus);
    Ok(Node {
        name: thing.word(b"NodeName=").ok_or(Reason::Empty { field: "NodeName" })?,
        arch: thing.word(b"Arch="),
        os: thing.text_until(b"OS=", b"RealMemory=").map(|os| word::text(os).into_owned()),
        sockets,
        cores_per_socket,
        threads_per_core: some(thing, "ThreadsPerCore=")?,
        cpus: some(thing, "CPUTot=")?,
        cores: sockets.zip(cores_per_socket).and_then(|(sockets, cores)| sockets.checked_mul(cores)),
        // Slurm takes a node to have 1 MB unless it is told.
        memory: thing.number("RealMemory=", KIBI, MIB)?.filter(|bytes| *bytes > MIB),
        tmp_disk: thing.number("TmpDisk=", KIBI, MIB)?.filter(|bytes| *bytes > 0),
        gpus: gpus.ok_or_else(|| unreadable("Gres=", gres.as_deref().unwrap_or_default().as_bytes()))?,
        gres,
        features: thing.words(b"AvailableFeatures=").unwrap_or_default(),
        partitions: thing.words(b"Partitions=").unwrap_or_default(),
        state: thing.word(b"State="),
        weight: count(thing, "Weight=")?,
        version: thing.word(b"Version="),
        peak_flops: None,
    })
}

fn count(thing: &Thing, key: &'static str) -> Result<Option<u64>, Reason> {
    thing.number(key, KIBI, 1)
}

/// A number of something that every node has: zero is not known.
fn some(thing: &Thing, key: &'static str) -> Result<Option<u64>, Reason> {
    count(thing, key).map(|number| number.filter(|number| *number > 0))
}

/// `2-00:00:00`, `UNLIMITED`, or minutes.
fn limit(thing: &Thing, key: &'static str) -> Result<Option<TimeLimit>, Reason> {
    let Some(value) = thing.value(key.as_bytes()) else { return Ok(None) };
    if matches!(value, b"UNLIMITED" | b"INFINITE") {
        return Ok(Some(TimeLimit::Unlimited));
    }
    let minutes = || whole(value).and_then(|minutes| minutes.checked_mul(MINUTE));
    let time = duration(value).or_else(minutes).ok_or_else(|| unreadable(key, value))?;
    Ok(Some(TimeLimit::Nanos(time)))
}

fn yes(thing: &Thing, key: &'static str) -> Result<Option<bool>, Reason> {
    match thing.value(key.as_bytes()) {
        None => Ok(None),
        Some(b"YES") => Ok(Some(true)),
        Some(b"NO") => Ok(Some(false)),
        Some(value) => Err(unreadable(key, value)),
    }
}

fn resources(thing: &Thing) -> Result<Vec<Tres>, Reason> {
    let mut list = Vec::new();
    if let Some(value) = thing.value(b"TRES=") {
        let odd = tres::read(value, tres::Kind::Given, &mut list);
        if odd != Some(None) {
            return Err(unreadable("TRES=", value));
        }
    }
    Ok(list)
}

/// Reads `scontrol show config`.
pub fn config(text: &[u8], file: &str, report: Report<'_>) -> Config {
    let mut config = Config::default();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let Some(at) = line.iter().position(|byte| *byte == b'=') else { continue };
        let (key, value) = (line[..at].trim_ascii(), line[at + 1..].trim_ascii());
        if let Err(reason) = setting(&mut config, key, value) {
            let (at, outcome) = (At::Line(number), Outcome::Rejected);
            report(Problem { file, at, text: line, outcome, reason });
        }
    }
    if config == Config::default() {
        Thing { line: 1, text }.report(file, Outcome::Rejected, Reason::Stray, report);
    }
    config
}

/// Keeps a setting if it is one of ours; names of plugins may be anything.
fn setting(config: &mut Config, key: &[u8], value: &[u8]) -> Result<(), Reason> {
    let text = || meant(value).map(|value| word::text(value).into_owned());
    // That a list has nothing is known, then.
    let list = || Some(meant(value).map_or(vec![], words));
    match key {
        b"ClusterName" => config.cluster = text(),
        b"SLURM_VERSION" => config.version = text(),
        b"AccountingStoreFlags" => config.store_flags = list(),
        // Until 20.11.
        b"AccountingStoreJobComment" => {
            let flag = value.eq_ignore_ascii_case(b"yes").then(|| "job_comment".to_owned());
            config.store_flags = Some(flag.into_iter().collect());
        }
        b"JobAcctGatherType" => config.gather_type = text(),
        b"TaskPlugin" => config.task_plugins = list(),
        b"MinJobAge" => config.min_job_age = seconds(value)?,
        _ => {}
    }
    Ok(())
}

/// `300 sec`.
fn seconds(value: &[u8]) -> Result<Option<Nanos>, Reason> {
    let Some(value) = meant(value) else { return Ok(None) };
    let number = value.strip_suffix(b"sec").map(<[u8]>::trim_ascii_end).and_then(whole);
    let nanos = number.and_then(|seconds| seconds.checked_mul(SECOND));
    nanos.map(Some).ok_or_else(|| unreadable("MinJobAge", value))
}
