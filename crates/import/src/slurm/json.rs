//! `sacct --json`, of data_parser v0.0.39 and later: `{"jobs": […], "meta": …}`, one job in memory at a time.
//!
//! The versions differ in small things: a number is `5` or `{"set": true, "infinite": false, "number": 5}`, a state is
//! a word or a list of them, a signal has an `id` or a `signal_id`. All are read, whichever version says what.
//! Times are seconds since 1970 and 0 if there is none; memory is in MB where it was asked for, in bytes where it was
//! used. What other commands of Slurm print as JSON is no accounting, and is rejected as a whole.

use std::fmt;
use std::io::{self, BufRead};

use record::accounting::{
    Accounting, Canceller, Exit, MemoryPer, RequestedMemory, State, Step, TimeLimit, Tres, Usage, count_tasks,
};
use record::bytes::Bytes;
use record::entry::Nanos;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::complete::from_steps;
use super::draft::{Draft, into_step};
use super::foreign;
use super::id::tasks_of_mask;
use crate::number::told;
use crate::sink::{At, Error, Outcome, Problem, Reason, Sink, quoted};
use crate::time::{Moment, SECOND};
use crate::utf8::{Mended, escape};

const MIB: u64 = 1 << 20;
const MILLISECOND: u64 = 1_000_000;
/// In place of a list of nodes.
const UNASSIGNED: &str = "None assigned";
/// Slurm's mark that memory is meant per processor.
const PER_CPU: u64 = 1 << 63;

/// Reads all jobs of a file. What is before a place where the JSON is broken is read.
///
/// Strictly, jobs with a value that cannot be true are rejected; else only the value is left out.
pub fn read(source: impl BufRead, file: &str, is_strict: bool, sink: &mut impl Sink) -> Result<(), Error> {
    let mut found = Found {
        file,
        sink,
        is_strict,
        jobs: 0,
        errors: 0,
        has_list: false,
        is_foreign: false,
        other: None,
        failed: None,
    };
    let mut json = serde_json::Deserializer::from_reader(Mended::new(source, escape));
    let result = json.deserialize_map(&mut found).and_then(|()| json.end());
    let file = file.to_owned();
    match (found.failed, result) {
        (Some(error), _) => Err(Error::Io { file, error }),
        (None, _) if found.is_foreign && found.has_list => Err(Error::Controller { file }),
        (None, Err(error)) if error.is_io() => Err(Error::Io { file, error: error.into() }),
        (None, Err(error)) => Err(Error::Json { file, error }),
        (None, Ok(())) if !found.has_list => Err(match found.other {
            Some(list) => Error::OtherList { file, list },
            None => Error::NoJobs { file },
        }),
        (None, Ok(())) => Ok(()),
    }
}

/// Takes the jobs as they come.
struct Found<'a, S> {
    file: &'a str,
    sink: &'a mut S,
    is_strict: bool,
    jobs: u64,
    errors: u64,
    has_list: bool,
    /// What is beside the jobs, or in them, is the controller's.
    is_foreign: bool,
    /// A list of something else.
    other: Option<&'static str>,
    /// What the sink said.
    failed: Option<io::Error>,
}

impl<'de, S: Sink> Visitor<'de> for &mut Found<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `jobs`")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "jobs" {
                self.has_list = true;
                map.next_value_seed(Jobs(&mut *self))?;
            } else if key == "errors" {
                self.report_errors(&map.next_value()?);
            } else {
                self.pass(&key);
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct Jobs<'f, 'a, S>(&'f mut Found<'a, S>);

impl<'de, S: Sink> DeserializeSeed<'de> for Jobs<'_, '_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, jobs: D) -> Result<(), D::Error> {
        jobs.deserialize_seq(self)
    }
}

impl<'de, S: Sink> Visitor<'de> for Jobs<'_, '_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of jobs")
    }

    fn visit_seq<Q: SeqAccess<'de>>(self, mut jobs: Q) -> Result<(), Q::Error> {
        while let Some(value) = jobs.next_element::<Value>()? {
            if foreign::is_controllers(&value) {
                self.0.is_foreign = true;
                return Err(de::Error::custom("these are no jobs of the accounting"));
            }
            if let Err(error) = self.0.take(&value) {
                self.0.failed = Some(error);
                return Err(de::Error::custom("the jobs cannot be put away"));
            }
        }
        Ok(())
    }
}

impl<S: Sink> Found<'_, S> {
    /// What is beside the jobs may say whose they are.
    fn pass(&mut self, key: &str) {
        self.is_foreign |= foreign::is_update(key);
        self.other = self.other.or_else(|| foreign::list(key));
    }

    /// A query that failed in part prints what it has, and says so here.
    fn report_errors(&mut self, errors: &Value) {
        let list = errors.as_array().map_or(std::slice::from_ref(errors), Vec::as_slice);
        for error in list.iter().filter(|error| !error.is_null()) {
            self.errors += 1;
            let (at, outcome, text) = (At::Error(self.errors), Outcome::Reported, error.to_string());
            let reason = Reason::Said(foreign::error(error));
            self.sink.problem(Problem { file: self.file, at, text: text.as_bytes(), outcome, reason });
        }
    }

    fn take(&mut self, value: &Value) -> io::Result<()> {
        self.jobs += 1;
        match job(value) {
            Err(reason) => {
                self.report(value, Outcome::Rejected, reason);
                Ok(())
            }
            Ok((_, doubts)) if self.is_strict && !doubts.is_empty() => {
                self.report(value, Outcome::Rejected, doubts[0].clone());
                Ok(())
            }
            Ok((job, doubts)) => {
                doubts.into_iter().for_each(|doubt| self.report(value, Outcome::Doubted, doubt));
                self.sink.job(job)
            }
        }
    }

    fn report(&mut self, value: &Value, outcome: Outcome, reason: Reason) {
        let (at, text) = (At::Job(self.jobs), value.to_string());
        self.sink.problem(Problem { file: self.file, at, text: text.as_bytes(), outcome, reason });
    }
}

fn job(value: &Value) -> Result<(Accounting, Vec<Reason>), Reason> {
    if !value.is_object() {
        return Err(Reason::NoJob);
    }
    let mut draft = Draft::default();
    name(value, &mut draft)?;
    who(value, &mut draft.job);
    written(value, &mut draft.job);
    asked(value, &mut draft.job);
    given(value, &mut draft);
    ending(value, at(value, "state/current"), &mut draft);
    times(value, &mut draft);
    mend_start(&mut draft);
    draft.job.used = usage(value);
    let mut finished = draft.finish();
    if let Some(steps) = at(value, "steps").as_array() {
        for value in steps {
            match step(value) {
                Ok((step, doubts)) => {
                    finished.job.steps.push(step);
                    finished.doubts.extend(doubts);
                }
                Err(reason) => finished.doubts.push(reason),
            }
        }
    }
    if is_early(value) {
        mend_running_start(&mut finished.job);
    }
    from_steps(&mut finished.job);
    Ok((finished.job, finished.doubts))
}

/// Whether a job was written by a parser of before data_parser v0.0.39, which has two fields for the memory.
fn is_early(value: &Value) -> bool {
    at(value, "required/memory").is_number()
}

/// The number, and what people are shown for it.
fn name(value: &Value, draft: &mut Draft) -> Result<(), Reason> {
    let number = count(value, "job_id").filter(|number| *number > 0).ok_or(Reason::NoId)?;
    let raw = number.to_string();
    let job = &mut draft.job;
    job.job = Some(raw.clone());
    job.array_job = count(value, "array/job_id").filter(|job| *job > 0);
    job.het_job = count(value, "het/job_id").filter(|job| *job > 0);
    job.shown = if let Some(array) = job.array_job {
        job.array_task = count(value, "array/task_id");
        job.array_waiting = waiting(value, &mut draft.doubts).filter(|_| job.array_task.is_none());
        match (job.array_task, &job.array_waiting) {
            (Some(task), _) => format!("{array}_{task}"),
            (None, Some(tasks)) => format!("{array}_[{tasks}]"),
            (None, None) => raw,
        }
    } else if let Some(het) = job.het_job {
        job.het_offset = count(value, "het/job_offset");
        job.het_offset.map_or(raw, |offset| format!("{het}+{offset}"))
    } else {
        raw
    };
    job.sluid = text(value, "sluid");
    Ok(())
}

/// The tasks of an array that have not begun: a list, or a mask as Slurm's database has it.
fn waiting(value: &Value, doubts: &mut Vec<Reason>) -> Option<String> {
    let told = text(value, "array/task")?;
    let told = told.trim_matches(['[', ']']);
    let list = match told.strip_prefix("0x") {
        Some(mask) => tasks_of_mask(mask),
        None => Some(told.to_owned()),
    };
    let at_once = count(value, "array/limits/max/running/tasks").filter(|most| *most > 0);
    let list = list.map(|list| match at_once.filter(|_| !list.contains('%')) {
        Some(most) => format!("{list}%{most}"),
        None => list,
    });
    let known = list.filter(|list| count_tasks(list).is_some());
    if known.is_none() {
        doubts.push(Reason::unreadable("array/task", told.as_bytes()));
    }
    known
}

fn who(value: &Value, job: &mut Accounting) {
    job.cluster = text(value, "cluster").or_else(|| text(value, "association/cluster"));
    job.user = text(value, "user").or_else(|| text(value, "association/user"));
    job.group = text(value, "group");
    // A user or group without a name has its number there.
    let number = |name: &Option<String>| name.as_ref().and_then(|name| name.parse().ok());
    (job.uid, job.gid) = (number(&job.user), number(&job.group));
    job.account = text(value, "account").or_else(|| text(value, "association/account"));
    job.partition = text(value, "partition");
    job.qos = text(value, "qos");
    job.reservation = text(value, "reservation/name");
    job.wckey = text(value, "wckey/wckey").or_else(|| text(value, "wckey"));
}

fn written(value: &Value, job: &mut Accounting) {
    let bytes = |path: &str| text(value, path).map(|text| Bytes(text.into_bytes()));
    job.name = bytes("name");
    job.comment = bytes("comment/job");
    job.admin_comment = bytes("comment/administrator");
    job.system_comment = bytes("comment/system");
    job.extra = bytes("extra");
    job.submit_line = bytes("submit_line");
    job.work_dir = bytes("working_directory");
    job.stdout = bytes("stdout_expanded").or_else(|| bytes("stdout"));
    job.container = bytes("container");
    job.constraints = text(value, "constraints");
    job.licenses = text(value, "licenses");
}

fn asked(value: &Value, job: &mut Accounting) {
    job.requested_cpus = count(value, "required/CPUs");
    job.requested_memory = memory(value);
    job.requested = tres(at(value, "tres/requested"), MIB, 1);
    job.time_limit = match number(at(value, "time/limit")) {
        Number::Infinite => Some(TimeLimit::Unlimited),
        Number::Told(minutes) => minutes.checked_mul(60 * SECOND).map(TimeLimit::Nanos),
        Number::Unknown => None,
    };
    job.priority = count(value, "priority");
    job.flags = words(at(value, "flags")).map(str::to_owned).collect();
}

fn given(value: &Value, draft: &mut Draft) {
    draft.is_unassigned = text(value, "nodes").is_some_and(|nodes| nodes == UNASSIGNED);
    let job = &mut draft.job;
    job.allocated = tres(at(value, "tres/allocated"), MIB, 1);
    job.nodes = count(value, "allocation_nodes");
    job.node_list = text(value, "nodes").filter(|nodes| nodes != UNASSIGNED);
    job.restarts = count(value, "restart_cnt");
}

/// The state, which is a word or a list of them, and how it came to it.
fn ending(value: &Value, states: &Value, draft: &mut Draft) {
    for word in words(states) {
        match (State::named(word.as_bytes()), draft.job.state) {
            (None, _) => draft.doubts.push(Reason::UnknownState(quoted(word.as_bytes()))),
            (state, None) => draft.job.state = state,
            (Some(flag), Some(_)) => draft.job.also.push(flag),
        }
    }
    let job = &mut draft.job;
    let is_failure = matches!(job.state, Some(State::Failed | State::NodeFail | State::BootFail));
    job.exit = exit(at(value, "exit_code")).filter(|_| !(is_failure && is_any_exit(at(value, "exit_code"))));
    job.derived_exit =
        exit(at(value, "derived_exit_code")).filter(|_| !is_any_exit(at(value, "derived_exit_code")));
    job.reason = text(value, "state/reason").filter(|reason| reason != "None");
    job.cancelled_by = text(value, "kill_request_user")
        .filter(|_| job.state == Some(State::Cancelled))
        .map(|user| user.parse().map_or(Canceller::User(user), Canceller::Uid));
}

fn times(value: &Value, draft: &mut Draft) {
    draft.submit = moment(value, "time/submission", draft);
    draft.eligible = moment(value, "time/eligible", draft);
    draft.start = moment(value, "time/start", draft);
    draft.is_unassigned |= count(value, "time/start") == Some(0);
    draft.end = moment(value, "time/end", draft);
    let seconds = |path: &str| count(value, path).and_then(|seconds| seconds.checked_mul(SECOND));
    draft.job.elapsed = seconds("time/elapsed");
    draft.suspended = seconds("time/suspended");
}

/// Early parsers wrote the time at which a job became eligible as its start. The end and the time it took tell; of a job that waits or
/// never got a node it is no start at all.
fn mend_start(draft: &mut Draft) {
    let has_none = draft.is_unassigned || draft.job.state == Some(State::Pending);
    if has_none && draft.start == draft.eligible {
        draft.start = None;
    }
    let (Some(start), Some(end), Some(elapsed)) = (draft.start, draft.end, draft.job.elapsed) else { return };
    let took = elapsed.saturating_add(draft.suspended.unwrap_or(0)) / SECOND;
    let told = end.first.saturating_sub_unsigned(took);
    if draft.start == draft.eligible && told > start.first {
        draft.start = Some(Moment { first: told, second: None });
    }
}

/// The same of a job that still runs: it began when the first of its steps did. Without steps nobody knows.
fn mend_running_start(job: &mut Accounting) {
    if job.end.is_none() && job.start.is_some() && job.start == job.eligible {
        job.start = job.steps.iter().filter_map(|step| step.start).min();
    }
}

fn moment(value: &Value, path: &'static str, draft: &mut Draft) -> Option<Moment> {
    let seconds = count(value, path).filter(|seconds| *seconds > 0)?;
    match Moment::possible(seconds) {
        None => {
            let text = quoted(seconds.to_string().as_bytes());
            draft.doubts.push(Reason::ImpossibleTime { field: path, text });
            None
        }
        moment => moment,
    }
}

fn step(value: &Value) -> Result<(Step, Vec<Reason>), Reason> {
    let id = at(value, "step/id");
    let id = if id.is_object() { at(id, "step_id") } else { id };
    let id = id.as_str().map(str::to_owned).or_else(|| id.as_u64().map(|id| id.to_string()));
    let id = id.filter(|id| !id.is_empty()).ok_or(Reason::NoId)?;
    let name = id.split_once('.').map_or(&*id, |(_, step)| step).to_owned();
    let mut draft = Draft::default();
    ending(value, at(value, "state"), &mut draft);
    times(value, &mut draft);
    let job = &mut draft.job;
    job.name = text(value, "step/name").map(|name| Bytes(name.into_bytes()));
    job.submit_line = text(value, "submit_line").map(|line| Bytes(line.into_bytes()));
    job.container = text(value, "container").map(|name| Bytes(name.into_bytes()));
    job.allocated = tres(at(value, "tres/allocated"), MIB, 1);
    job.nodes = count(value, "nodes/count");
    job.node_list = text(value, "nodes/range").filter(|nodes| nodes != UNASSIGNED);
    job.tasks = count(value, "tasks/count");
    job.used = usage(value);
    let finished = draft.finish();
    Ok((into_step(finished.job, name), finished.doubts))
}

/// What was used. Slurm calls what went in `requested` and what went out `consumed`.
fn usage(value: &Value) -> Usage {
    let used = |path: &str| tres(at(value, path), 1, MILLISECOND);
    let (in_max, in_average) = (used("tres/requested/max"), used("tres/requested/average"));
    let memory = |list: &[Tres]| {
        let most = list.iter().find(|tres| tres.kind == "mem").map(|tres| tres.count);
        most.filter(|bytes| *bytes > 0)
    };
    let peaks = at(value, "tres/requested/max").as_array();
    let peak = peaks.and_then(|list| list.iter().find(|tres| at(tres, "type") == "mem"));
    let max_rss = memory(&in_max);
    let peak = peak.filter(|_| max_rss.is_some());
    Usage {
        total_cpu: processor(at(value, "time/total")),
        user_cpu: processor(at(value, "time/user")),
        system_cpu: processor(at(value, "time/system")),
        max_rss,
        max_rss_node: peak.and_then(|tres| text(tres, "node")),
        max_rss_task: peak.and_then(|tres| count(tres, "task")),
        average_rss: memory(&in_average),
        energy: count(value, "statistics/energy/consumed").filter(|energy| *energy > 0),
        in_total: used("tres/requested/total"),
        in_max,
        in_average,
        out_total: used("tres/consumed/total"),
        out_max: used("tres/consumed/max"),
        out_average: used("tres/consumed/average"),
    }
}

/// `{"seconds": 1, "microseconds": 500000}`
fn processor(value: &Value) -> Option<Nanos> {
    let (seconds, micros) = (count(value, "seconds")?, count(value, "microseconds")?);
    seconds.checked_mul(SECOND)?.checked_add(micros.checked_mul(1000)?)
}

/// `memory` is from before there were two.
fn memory(value: &Value) -> Option<RequestedMemory> {
    let asked = |path: &str| count(value, path).filter(|mib| *mib > 0);
    let (mib, per) = if let Some(mib) = asked("required/memory_per_cpu") {
        (mib, MemoryPer::Cpu)
    } else if let Some(mib) = asked("required/memory_per_node") {
        (mib, MemoryPer::Node)
    } else {
        let old = at(value, "required/memory");
        let mib = old.as_u64().or_else(|| old.as_i64().map(i64::cast_unsigned)).and_then(told)?;
        (mib & !PER_CPU, if mib & PER_CPU == 0 { MemoryPer::Node } else { MemoryPer::Cpu })
    };
    let bytes = mib.checked_mul(MIB).filter(|bytes| *bytes > 0)?;
    Some(RequestedMemory { bytes, per })
}

/// Resources; `memory` and `cpu` are what one of these is counted in.
fn tres(list: &Value, memory: u64, cpu: u64) -> Vec<Tres> {
    let one = |value: &Value| {
        let kind = text(value, "type")?;
        let scale = match &*kind {
            "mem" => memory,
            "cpu" => cpu,
            _ => 1,
        };
        let count = count(value, "count")?.checked_mul(scale)?;
        Some(Tres { kind: (&*kind).into(), name: text(value, "name"), count })
    };
    list.as_array().map(|list| list.iter().filter_map(one).collect()).unwrap_or_default()
}

fn exit(value: &Value) -> Option<Exit> {
    let small = |path: &str| count(value, path).and_then(|number| u32::try_from(number).ok());
    let status = words(at(value, "status")).next();
    if matches!(status, Some("PENDING" | "NOT_SET" | "INVALID")) {
        return None;
    }
    let ended = matches!(status, Some("SUCCESS" | "ERROR")).then_some(0);
    // The text says 0 beside a signal, and 22.05 leaves it out here.
    let killed = matches!(status, Some("SIGNALED" | "CORE_DUMPED")).then_some(0);
    let exit = Exit {
        code: small("return_code").or(killed),
        signal: small("signal/id").or(small("signal/signal_id")).or(ended),
    };
    (exit != Exit::default()).then_some(exit)
}

/// Whether this may stand for any exit: parsers up to 23.02 wrote success and code 0 of every program that was not killed.
fn is_any_exit(value: &Value) -> bool {
    at(value, "status").as_str() == Some("SUCCESS") && at(value, "return_code").as_u64() == Some(0)
}

/// A number in any of its forms.
enum Number {
    Unknown,
    Infinite,
    Told(u64),
}

fn number(value: &Value) -> Number {
    let is = |key: &str| value.get(key).and_then(Value::as_bool);
    if is("infinite") == Some(true) {
        return Number::Infinite;
    }
    if is("set") == Some(false) {
        return Number::Unknown;
    }
    let plain = value.get("number").unwrap_or(value);
    let whole =
        plain.as_u64().or_else(|| plain.as_f64().filter(|n| (0.0..1e15).contains(n)).map(|n| n as u64));
    match whole {
        Some(0xffff_ffff | u64::MAX) => Number::Infinite,
        whole => whole.and_then(told).map_or(Number::Unknown, Number::Told),
    }
}

fn count(value: &Value, path: &str) -> Option<u64> {
    match number(at(value, path)) {
        Number::Told(number) => Some(number),
        _ => None,
    }
}

fn text(value: &Value, path: &str) -> Option<String> {
    at(value, path).as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// One word, or a list of them.
fn words(value: &Value) -> impl Iterator<Item = &str> {
    let list = value.as_array().map_or(&[][..], Vec::as_slice);
    value.as_str().into_iter().chain(list.iter().filter_map(Value::as_str)).filter(|word| !word.is_empty())
}

/// What is at `a/b/c`, or null.
fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('/').try_fold(value, |value, key| value.get(key)).unwrap_or(&Value::Null)
}
