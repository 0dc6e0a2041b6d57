//! One row for each task:
//! `id;user;command;workdir;queue;t_submit;t_start;t_end;node:cpu,…;ncores;timelimit;state`.
//!
//! Times are seconds since 1970, 0 is none; the limit is in seconds; the state is the exit status, or a word. A command
//! may have semicolons in it, so the row is read from both ends: a working directory begins with `/`.

use std::io::BufRead;

use jiff::tz::TimeZone;
use record::accounting::{Accounting, Exit, State, TimeLimit};
use record::bytes::Bytes;

use super::take_nodes;
use crate::lines::{LINE_MAX, Lines};
use crate::number::whole;
use crate::sink::{At, Error, Outcome, Problem, Reason, Sink, quoted};
use crate::time::{Clock, Moment, SECOND, Told, nanos, settle};
use crate::word::{text, word};

/// How many fields are before the command, and how many behind the working directory.
const BEFORE: usize = 2;
const BEHIND: usize = 8;

/// Reads all tasks of a file; its times are of this zone where they are no plain seconds.
pub fn read(
    source: impl BufRead,
    file: &str,
    zone: &TimeZone,
    cluster: Option<&str>,
    sink: &mut impl Sink,
) -> Result<(), Error> {
    let io = |error| Error::Io { file: file.to_owned(), error };
    let clock = Clock::new(zone.clone());
    let mut lines = Lines::new(source);
    let mut line = Vec::new();
    while let Some(read) = lines.next(&mut line).map_err(io)? {
        if line.is_empty() {
            continue;
        }
        let mut report = |outcome, reason| {
            sink.problem(Problem { file, at: At::Line(read.number), text: &line, outcome, reason });
        };
        let row = if read.is_cut { Err(Reason::TooLong(LINE_MAX)) } else { row(&line, &clock) };
        match row {
            Err(reason) => report(Outcome::Rejected, reason),
            Ok((mut job, doubts)) => {
                doubts.into_iter().for_each(|doubt| report(Outcome::Doubted, doubt));
                job.cluster = cluster.map(str::to_owned);
                sink.job(job).map_err(io)?;
            }
        }
    }
    Ok(())
}

fn row(line: &[u8], clock: &Clock) -> Result<(Accounting, Vec<Reason>), Reason> {
    let pieces: Vec<&[u8]> = line.split(|byte| *byte == b';').collect();
    let expected = BEFORE + 2 + BEHIND;
    let behind = pieces.len().checked_sub(BEHIND).filter(|_| pieces.len() >= expected);
    let Some(behind) = behind else { return Err(Reason::FieldCount { found: pieces.len(), expected }) };
    let work_dir = pieces[behind - 1];
    if pieces.len() > expected && !work_dir.starts_with(b"/") {
        return Err(Reason::unreadable("workdir", work_dir));
    }
    let number = |field, text: &[u8]| whole(text).ok_or_else(|| Reason::unreadable(field, text));
    let mut job = Accounting { shown: number("id", pieces[0])?.to_string(), ..Accounting::default() };
    job.job = Some(job.shown.clone());
    job.user = word(pieces[1]);
    job.submit_line = Some(Bytes(pieces[BEFORE..behind - 1].join(&b';')));
    job.work_dir = Some(Bytes::from(work_dir)).filter(|dir| !dir.is_empty());
    let [queue, submit, start, end, nodes, cores, limit, state] = pieces[behind..] else {
        return Err(Reason::FieldCount { found: pieces.len(), expected });
    };
    job.partition = word(queue);
    let mut doubts = Vec::new();
    times([submit, start, end], clock, &mut job, &mut doubts)?;
    take_nodes([&*text(nodes)].into_iter(), &mut job).ok_or_else(|| Reason::unreadable("nodes", nodes))?;
    // None is ever 0, and what waits has asked for them.
    job.requested_cpus = Some(number("ncores", cores)?).filter(|cores| *cores > 0);
    job.cpus = job.requested_cpus.filter(|_| job.start.is_some() || job.node_list.is_some()).or(job.cpus);
    job.time_limit = Some(number("timelimit", limit)?)
        .filter(|limit| *limit > 0)
        .and_then(|limit| limit.checked_mul(SECOND))
        .map(TimeLimit::Nanos);
    take_state(state, &mut job, &mut doubts);
    Ok((job, doubts))
}

fn times(
    texts: [&[u8]; 3],
    clock: &Clock,
    job: &mut Accounting,
    doubts: &mut Vec<Reason>,
) -> Result<(), Reason> {
    let mut moments: [Option<Moment>; 3] = [None; 3];
    for ((field, text), moment) in ["t_submit", "t_start", "t_end"].into_iter().zip(texts).zip(&mut moments) {
        match clock.time(text).ok_or_else(|| Reason::unreadable(field, text))? {
            Told::Nothing => {}
            Told::At(told) => *moment = Some(told),
            Told::Impossible => doubts.push(Reason::ImpossibleTime { field, text: quoted(text) }),
        }
    }
    let [submit, start, end] = moments;
    let only = |moment: Option<Moment>| moment.and_then(|moment| nanos(moment.first));
    (job.submit, job.start, job.end) = (only(submit), only(start), only(end));
    let (Some(start), Some(end)) = (start, end) else { return Ok(()) };
    let (start, end) = settle(start, end, None);
    (job.start, job.end) = (nanos(start), nanos(end));
    job.elapsed = nanos(end - start);
    if end < start {
        job.end = None;
        doubts.push(Reason::EndBeforeStart);
    }
    Ok(())
}

fn take_state(text: &[u8], job: &mut Accounting, doubts: &mut Vec<Reason>) {
    if let Some(status) = whole(text).and_then(|status| u32::try_from(status).ok()) {
        job.state = Some(if status == 0 { State::Completed } else { State::Failed });
        job.exit = Some(Exit { code: Some(status), signal: None });
        return;
    }
    job.state = State::named(&text.to_ascii_uppercase());
    if job.state.is_none() && !text.is_empty() {
        doubts.push(Reason::UnknownState(quoted(text)));
    }
}
