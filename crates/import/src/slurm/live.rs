//! `scontrol show job -d`: which processors, memory and GPUs of which nodes a job has, which Slurm forgets minutes after
//! its end. In several lines for each job, or in one (`-o`).
//!
//! `scontrol` escapes nothing, and users write the name, comment and paths of their jobs, with line breaks if they like.
//! So a job is taken only if it can be read in one way:
//!
//! * The lines `Nodes=… CPU_IDs=… Mem=… GRES=…` are those right before `MinCPUsNode=`. A name is far before them, all else
//!   that users write behind.
//! * A job in which that key is not, or is twice, is not taken, and neither is the one behind a job without it: the two may
//!   be one, with a name that looks like another job.
//! * A number that is there twice is taken from none of them.
//!
//! A user who writes all of a job into a comment can still lie about a job that is not in the list. Who cannot bear that
//! asks for one job at a time ([`Asked::One`]): then a user can lie about no other than the own, and about that only if
//! others are called by its number.

use std::collections::BTreeMap;

use record::accounting::Placed;

use super::gres;
use super::printed::{Report, Thing, places, things, unreadable};
use crate::number::{told, whole};
use crate::sink::{Outcome, Reason};
use crate::word;

const MIB: u64 = 1 << 20;
/// Jobs times nodes in one text: a damaged or hostile one may name any nodes in each of its lines.
const NODES_MAX: usize = 1 << 20;
/// Where a job begins, what the first text of a user is behind, and what is right behind the job's places.
const BEGINS: &[u8] = b"JobId=";
const NAME: &[u8] = b"JobName=";
const BEHIND: &[u8] = b"MinCPUsNode=";

/// A job that Slurm still knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Live {
    pub job: u64,
    pub array_job: Option<u64>,
    pub array_task: Option<u64>,
    /// The tasks that it stands for because none of them has begun: `2-5%1`.
    pub array_waiting: Option<String>,
    pub het_job: Option<u64>,
    pub het_offset: Option<u64>,
    /// In the order of the nodes; none if it has not begun, or without `-d`.
    pub placed: Vec<Placed>,
}

/// What `scontrol` was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    All,
    /// `scontrol show job -d N`. Slurm may add others of the same array or heterogeneous job, which are passed over.
    One(u64),
}

/// Reads what was printed.
pub fn read(text: &[u8], file: &str, asked: Asked, report: Report<'_>) -> Vec<Live> {
    let (before, found) = things(text, BEGINS);
    if let Some(before) = before {
        before.report(file, Outcome::Rejected, Reason::Stray, report);
    }
    let mut room = NODES_MAX;
    let jobs = match asked {
        Asked::All => all(&found),
        Asked::One(job) => one(text, &found, job).into_iter().collect(),
    };
    let jobs = jobs.into_iter().filter_map(|(thing, whole)| {
        let job = whole.and_then(|()| live(&thing, &mut room));
        job.map_err(|reason| thing.report(file, Outcome::Rejected, reason, report)).ok()
    });
    jobs.collect()
}

/// A job, and whether it can be one.
type Whole<'a> = (Thing<'a>, Result<(), Reason>);

fn all<'a>(found: &[Thing<'a>]) -> Vec<Whole<'a>> {
    let mut times: BTreeMap<Option<u64>, u32> = BTreeMap::new();
    found.iter().for_each(|thing| *times.entry(number(thing)).or_default() += 1);
    let mut is_torn = false;
    let judge = |thing: &Thing<'a>| {
        let parts = parts(thing);
        let whole = match number(thing) {
            Some(job) if times.get(&Some(job)).is_some_and(|times| *times > 1) => Err(Reason::Twice(job)),
            _ if is_torn || parts != 1 => Err(Reason::Unsure),
            _ => Ok(()),
        };
        is_torn = parts == 0;
        (*thing, whole)
    };
    found.iter().map(judge).collect()
}

/// The first job, which is the one that was asked for. Behind it there are others only if an array or a heterogeneous job
/// is called by its number; else all that looks like one is of its own text.
fn one<'a>(text: &'a [u8], found: &[Thing<'a>], asked: u64) -> Option<Whole<'a>> {
    let first = found.first()?;
    let begin = text.len() - found.iter().map(|thing| thing.text.len()).sum::<usize>();
    let own = found.iter().position(|thing| parts(thing) > 0).filter(|_| leads(first));
    let own = &found[..own.map_or(found.len(), |last| last + 1)];
    let end = begin + own.iter().map(|thing| thing.text.len()).sum::<usize>();
    let thing = Thing { text: &text[begin..end], ..*first };
    let whole = match number(first) {
        Some(found) if found != asked => Err(Reason::OtherJob { asked, found }),
        _ if parts(&thing) != 1 => Err(Reason::Unsure),
        _ => Ok(()),
    };
    Some((thing, whole))
}

/// Whether others are called by the number of this job.
fn leads(thing: &Thing) -> bool {
    let head = thing.before(&[NAME]);
    let keys: [&[u8]; 2] = [b"ArrayJobId=", b"HetJobId="];
    keys.iter().any(|key| head.value(key).is_some_and(|job| head.value(BEGINS) == Some(job)))
}

fn number(thing: &Thing) -> Option<u64> {
    thing.value(BEGINS).and_then(whole)
}

/// How often that is there which every job has once.
fn parts(thing: &Thing) -> usize {
    places(thing.text, BEHIND).count()
}

fn live(thing: &Thing, room: &mut usize) -> Result<Live, Reason> {
    let head = thing.before(&[NAME]);
    let count = |key: &'static str| match head.value(key.as_bytes()) {
        None => Ok(None),
        Some(value) => whole(value).map(Some).ok_or_else(|| unreadable(key, value)),
    };
    let task = head.value(b"ArrayTaskId=");
    // A number where no task is left is Slurm's "no value".
    let waiting = task.filter(|task| whole(task).is_none());
    Ok(Live {
        job: count("JobId=")?.ok_or(Reason::NoId)?,
        array_job: count("ArrayJobId=")?,
        array_task: task.and_then(whole).and_then(told),
        array_waiting: waiting.map(|tasks| word::text(tasks).into_owned()),
        het_job: count("HetJobId=")?,
        het_offset: count("HetJobOffset=")?,
        placed: placed(thing, room)?,
    })
}

/// The lines right before what is behind them, last first.
fn placed(thing: &Thing, room: &mut usize) -> Result<Vec<Placed>, Reason> {
    let head = thing.before(&[BEHIND]).text;
    let mut words = head.rsplit(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).peekable();
    let mut groups = Vec::new();
    loop {
        let gres = words.next_if(|word| word.starts_with(b"GRES=") || word.starts_with(b"GRES_IDX="));
        let gres = gres.and_then(|word| word.splitn(2, |byte| *byte == b'=').nth(1));
        let mut take =
            |key: &[u8]| words.next_if(|word| word.starts_with(key)).map(|word| &word[key.len()..]);
        let Some(memory) = take(b"Mem=") else { break };
        let (Some(cpus), Some(nodes)) = (take(b"CPU_IDs="), take(b"Nodes=")) else {
            return Err(unreadable("Mem", memory));
        };
        groups.push(group(nodes, cpus, memory, gres.unwrap_or_default(), room)?);
    }
    Ok(groups.into_iter().rev().flatten().collect())
}

/// One line, which may stand for several nodes.
fn group(
    nodes: &[u8],
    cpus: &[u8],
    memory: &[u8],
    gres: &[u8],
    room: &mut usize,
) -> Result<Vec<Placed>, Reason> {
    let list = std::str::from_utf8(nodes).ok().and_then(|list| hostlist::expand(list).ok());
    let hosts = list.filter(|hosts| !hosts.is_empty()).ok_or_else(|| unreadable("Nodes", nodes))?;
    let gpus = std::str::from_utf8(gres).ok().and_then(gres::indices);
    let gpus = gpus.ok_or_else(|| unreadable("GRES", gres))?;
    // Where Slurm does not share out memory it writes 0.
    let megabytes = whole(memory).ok_or_else(|| unreadable("Mem", memory))?;
    let memory = told(megabytes).filter(|megabytes| *megabytes > 0).and_then(|mb| mb.checked_mul(MIB));
    let cpus = ids(cpus)?;
    // What is said once in the text is kept for each node.
    let weight = hosts.len() * (1 + gpus.len() + cpus.as_ref().map_or(0, String::len) / 64);
    *room = room.checked_sub(weight).ok_or(Reason::TooManyNodes(NODES_MAX))?;
    let place = |host: String| Placed { host, cpus: cpus.clone(), gpus: gpus.clone(), memory };
    Ok(hosts.into_iter().map(place).collect())
}

/// `0-3,8`, or nothing.
fn ids(text: &[u8]) -> Result<Option<String>, Reason> {
    let is_id = |byte: &u8| byte.is_ascii_digit() || b"-,".contains(byte);
    let ids = std::str::from_utf8(text).ok().filter(|_| text.iter().all(is_id));
    let ids = ids.ok_or_else(|| unreadable("CPU_IDs", text))?;
    Ok(Some(ids.to_owned()).filter(|ids| !ids.is_empty()))
}
