//! The short log: `[Wed May 28 10:51:41 2015] queue   :EVENT …`, in local time.
//!
//! | event | what is behind it |
//! |---|---|
//! | `ADDED` | `id; lastowner;oldid; user; np; args`: queued, perhaps after another queue, where it had another number |
//! | `RUN` | `id; user; np; args` |
//! | `RUN_NODES` | `id; user; np; npextra; nodes; extranodes` |
//! | `DEL request` | `user; queue; id` |
//! | `END_TASK0` | `id`: it is about to end |
//! | `END_TASK` | `id; user; status; signal; worktime` |
//! | `END_TASK_NODES` | `id; n1,n2,…`: a node for each processor |
//!
//! A number is a task's own only within its queue. A log is cut from a longer one: tasks of which only the end is in it
//! are kept as well as those that have not ended.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use record::accounting::{Accounting, Canceller, Exit, State};
use record::bytes::Bytes;

use super::take_nodes;
use crate::lines::{LINE_MAX, Lines};
use crate::number::whole;
use crate::sink::{At, Error, Outcome, Problem, Reason, Sink};
use crate::time::{Clock, SECOND, Told, duration, nanos};
use crate::word::text;

/// How many tasks that have ended wait for their nodes, which are told in the next line or never.
const ENDED_MAX: usize = 1000;

/// Events that say nothing about what a task was given or used.
const PASSED: [&str; 10] =
    ["ADD", "CANCEL", "VIEW", "PRI", "BLOCK", "BLOCK_PE", "STAT", "RUN2", "RUN_NOT_OWN", "RUN_FAIL"];

/// A queue and a number in it.
type Key = (String, u64);

/// Reads all tasks of a log. They come in the order in which they ended, then those that did not.
pub fn read(
    source: impl BufRead,
    file: &str,
    zone: &TimeZone,
    cluster: Option<&str>,
    sink: &mut impl Sink,
) -> Result<(), Error> {
    let io = |error| Error::Io { file: file.to_owned(), error };
    let clock = Clock::new(zone.clone());
    let mut tasks =
        Tasks { cluster, now: 0, open: BTreeMap::new(), ended: VecDeque::new(), lost: Vec::new() };
    let mut lines = Lines::new(source);
    let mut line = Vec::new();
    while let Some(read) = lines.next(&mut line).map_err(io)? {
        if line.is_empty() {
            continue;
        }
        let event =
            if read.is_cut { Err(Reason::TooLong(LINE_MAX)) } else { tasks.event(&text(&line), &clock) };
        if let Err(reason) = event {
            let at = At::Line(read.number);
            sink.problem(Problem { file, at, text: &line, outcome: Outcome::Rejected, reason });
        }
        tasks.give_out(ENDED_MAX, sink).map_err(io)?;
    }
    tasks.give_out(0, sink).map_err(io)?;
    for (_, task) in std::mem::take(&mut tasks.open) {
        sink.job(task.finish(cluster)).map_err(io)?;
    }
    Ok(())
}

/// A task as far as the log has told of it.
#[derive(Default)]
struct Task {
    job: Accounting,
    has_ended: bool,
    has_end_nodes: bool,
    /// Who asked for its end.
    deleted_by: Option<String>,
}

struct Tasks<'a> {
    cluster: Option<&'a str>,
    /// The time of the last line, in seconds.
    now: i64,
    open: BTreeMap<Key, Task>,
    /// Those that have ended, in their order.
    ended: VecDeque<Key>,
    /// Those whose number was given to another.
    lost: Vec<Task>,
}

impl Tasks<'_> {
    fn event(&mut self, line: &str, clock: &Clock) -> Result<(), Reason> {
        let (time, rest) =
            line.strip_prefix('[').and_then(|rest| rest.split_once(']')).ok_or(Reason::NoEvent)?;
        let (queue, event) = rest.split_once(':').ok_or(Reason::NoEvent)?;
        let (name, rest) = event.split_once([' ', ':']).unwrap_or((event, ""));
        let now = self.time(time, clock).ok_or_else(|| Reason::unreadable("time", time.as_bytes()))?;
        let queue = queue.trim();
        let taken = match name {
            "ADDED" => self.added(queue, rest, now),
            "RUN" => self.run(queue, rest, now),
            "RUN_NODES" => self.run_nodes(queue, rest),
            "DEL" => self.deleted(rest, now),
            "END_TASK0" => self.ending(queue, rest, now),
            "END_TASK" => self.end(queue, rest, now),
            "END_TASK_NODES" => self.end_nodes(queue, rest),
            _ if PASSED.contains(&name) => Some(()),
            _ => return Err(Reason::NoEvent),
        };
        taken.ok_or_else(|| Reason::unreadable("event", event.as_bytes()))
    }

    /// Lines are in the order of time, which tells the two half past two apart when the clock is set back.
    fn time(&mut self, text: &str, clock: &Clock) -> Option<u64> {
        let Told::At(moment) = clock.local(ctime(text)?) else { return None };
        self.now = match moment.second {
            Some(second) if moment.first < self.now => second,
            _ => moment.first,
        };
        nanos(self.now)
    }

    /// The task of this number, which is new if its beginning is not in the log.
    fn task(&mut self, queue: &str, id: &str, user: &str, args: &str) -> Option<&mut Task> {
        let task = self.open.entry(key(queue, id)?).or_default();
        task.named(queue, id, user, args);
        Some(task)
    }

    fn added(&mut self, queue: &str, rest: &str, now: u64) -> Option<()> {
        let [id, owner, old, user, np, args] = fields(rest)?;
        let (key, np) = (key(queue, id)?, whole(np.as_bytes())?);
        let before = (owner.to_owned(), whole(old.as_bytes()).unwrap_or(0));
        let is_waiting = self.open.get(&before).is_some_and(|task| task.job.start.is_none());
        let moved = if is_waiting { self.open.remove(&before) } else { None };
        let mut task = moved.unwrap_or_default();
        task.job.submit = task.job.submit.or(Some(now));
        task.job.requested_cpus = Some(np);
        task.named(queue, id, user, args);
        self.ended.retain(|ended| *ended != key);
        // A number that is given again was that of a task whose end is not in the log.
        self.lost.extend(self.open.insert(key, task));
        Some(())
    }

    fn run(&mut self, queue: &str, rest: &str, now: u64) -> Option<()> {
        let [id, user, np, args] = fields(rest)?;
        let np = whole(np.as_bytes())?;
        let task = self.task(queue, id, user, args)?;
        (task.job.start, task.job.end) = (Some(now), None);
        task.job.cpus = Some(np);
        task.deleted_by = None;
        Some(())
    }

    fn run_nodes(&mut self, queue: &str, rest: &str) -> Option<()> {
        let [id, user, _, _, nodes, extra] = fields(rest)?;
        let task = self.task(queue, id, user, "")?;
        take_nodes([nodes, extra].into_iter(), &mut task.job)
    }

    /// A request: whether it was granted is seen at the end. What has not begun has no other end.
    fn deleted(&mut self, rest: &str, now: u64) -> Option<()> {
        let [user, queue, id] = fields(rest.strip_prefix("request ")?)?;
        let Some(task) = self.open.get_mut(&key(queue, id)?) else { return Some(()) };
        task.deleted_by = Some(user.to_owned());
        if task.job.start.is_none() {
            task.job.end = Some(now);
        }
        Some(())
    }

    fn ending(&mut self, queue: &str, rest: &str, now: u64) -> Option<()> {
        let [id] = fields(rest)?;
        self.task(queue, id, "", "")?.job.end = Some(now);
        Some(())
    }

    fn end(&mut self, queue: &str, rest: &str, now: u64) -> Option<()> {
        let [id, user, status, signal, worked] = fields(rest)?;
        let exit = Exit { code: status_code(status)?, signal: status_code(signal)? };
        let worked = duration(worked.as_bytes())
            .or_else(|| whole(worked.as_bytes()).and_then(|seconds| seconds.checked_mul(SECOND)))?;
        let key = key(queue, id)?;
        let task = self.task(queue, id, user, "")?;
        (task.job.end, task.job.exit, task.job.elapsed) = (Some(now), Some(exit), Some(worked));
        // Its beginning is before that of the log.
        task.job.start = task.job.start.or(now.checked_sub(worked));
        if !std::mem::replace(&mut task.has_ended, true) {
            self.ended.push_back(key);
        }
        Some(())
    }

    fn end_nodes(&mut self, queue: &str, rest: &str) -> Option<()> {
        let [id, nodes] = fields(rest)?;
        let task = self.task(queue, id, "", "")?;
        task.has_end_nodes = true;
        take_nodes([nodes].into_iter(), &mut task.job)
    }

    /// Gives out the first that have ended, as long as nothing more can be said of them, or more than `most` wait.
    fn give_out(&mut self, most: usize, sink: &mut impl Sink) -> io::Result<()> {
        for task in self.lost.drain(..) {
            sink.job(task.finish(self.cluster))?;
        }
        while let Some(key) = self.ended.front() {
            if self.ended.len() <= most && self.open.get(key).is_some_and(|task| !task.has_end_nodes) {
                break;
            }
            if let Some(task) = self.ended.pop_front().and_then(|key| self.open.remove(&key)) {
                sink.job(task.finish(self.cluster))?;
            }
        }
        Ok(())
    }
}

impl Task {
    fn named(&mut self, queue: &str, id: &str, user: &str, args: &str) {
        self.job.shown = id.to_owned();
        self.job.job = Some(id.to_owned());
        self.job.partition = Some(queue.to_owned()).filter(|queue| !queue.is_empty());
        if !user.is_empty() {
            self.job.user = Some(user.to_owned());
        }
        if !args.is_empty() {
            self.job.submit_line = Some(Bytes::from(args.as_bytes()));
        }
    }

    fn finish(mut self, cluster: Option<&str>) -> Accounting {
        let job = &mut self.job;
        job.cluster = cluster.map(str::to_owned);
        job.state = match (job.exit, &self.deleted_by) {
            (Some(Exit { code: Some(0), signal: Some(0) }), _) => Some(State::Completed),
            (Some(_), None) => Some(State::Failed),
            (Some(_), Some(_)) => Some(State::Cancelled),
            (None, Some(_)) if job.start.is_none() => Some(State::Cancelled),
            // It was about to end, and the log ends before it says how.
            (None, _) if job.end.is_some() || self.has_end_nodes => None,
            (None, _) if job.start.is_some() => Some(State::Running),
            (None, _) => Some(State::Pending),
        };
        if job.state == Some(State::Cancelled) {
            job.cancelled_by = self.deleted_by.map(Canceller::User);
        }
        self.job
    }
}

/// Between semicolons; the last has all the rest, since a command may have semicolons in it.
fn fields<const N: usize>(text: &str) -> Option<[&str; N]> {
    let mut fields = [""; N];
    let mut pieces = text.trim().splitn(N, ';');
    for field in &mut fields {
        *field = pieces.next()?.trim();
    }
    Some(fields)
}

fn key(queue: &str, id: &str) -> Option<Key> {
    Some((queue.to_owned(), whole(id.as_bytes())?))
}

/// A status that is below zero is one that Cleo did not get.
fn status_code(text: &str) -> Option<Option<u32>> {
    match text.strip_prefix('-') {
        Some(below) => whole(below.as_bytes()).map(|_| None),
        None => Some(Some(u32::try_from(whole(text.as_bytes())?).ok()?)),
    }
}

/// `Wed May 28 10:51:41 2015`
fn ctime(text: &str) -> Option<DateTime> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = text.split_ascii_whitespace();
    let (_, month, day) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
    let (clock, year) = (words.next()?, words.next()?.parse().ok()?);
    let month = MONTHS.iter().position(|known| *known == month)? as i8 + 1;
    let mut clock = clock.split(':').map(|part| part.parse::<i8>());
    let mut part = || clock.next()?.ok();
    let time = DateTime::new(year, month, day, part()?, part()?, part()?, 0).ok()?;
    (words.next().is_none() && part().is_none()).then_some(time)
}
