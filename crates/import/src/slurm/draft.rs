//! A record in the making: fields come one by one, and what they mean together is decided at the end.

use record::accounting::{
    Accounting, Canceller, Exit, MemoryPer, RequestedMemory, State, Step, TimeLimit, Tres,
};
use record::bytes::Bytes;
use record::entry::Nanos;

use super::complete::from_lists;
use super::field::{Field, Slot};
use super::id::Id;
use super::tres::{self, Kind};
use crate::number::{KIBI, KILO, scaled, told, whole};
use crate::sink::{Reason, quoted};
use crate::time::{Clock, Moment, SECOND, Told, duration, nanos, settle};
use crate::word::word;

/// More than any node has, and more than any processor's share of one.
const MEMORY_OF_NODE_MAX: u64 = 1 << 50;
const MIB: u64 = 1 << 20;
/// Old versions of Slurm have this bit in their megabytes where memory is asked for by processor, and some print it as a number.
const PER_CPU: u64 = (1 << 31) * MIB;

/// A job or a step that is being read.
#[derive(Default)]
pub struct Draft {
    pub job: Accounting,
    pub submit: Option<Moment>,
    pub eligible: Option<Moment>,
    pub start: Option<Moment>,
    pub end: Option<Moment>,
    pub suspended: Option<Nanos>,
    /// Slurm says that it got no nodes, or never began.
    pub is_unassigned: bool,
    step: Option<String>,
    /// What was left out, and why.
    pub doubts: Vec<Reason>,
}

/// A job, or a step of the job whose names the record has.
pub struct Finished {
    pub job: Accounting,
    pub step: Option<String>,
    pub doubts: Vec<Reason>,
}

/// Whether a text has the form that its field must have.
type Parsed = Option<()>;

impl Draft {
    /// Puts a field's text where it belongs.
    pub fn put(&mut self, field: &Field, text: &[u8], clock: &Clock) -> Result<(), Reason> {
        if text.is_empty() {
            return if field.is_always_told() { Err(Reason::Empty { field: field.name }) } else { Ok(()) };
        }
        self.fill(field, text, clock).ok_or_else(|| Reason::unreadable(field.name, text))
    }

    fn fill(&mut self, field: &Field, text: &[u8], clock: &Clock) -> Parsed {
        let job = &mut self.job;
        match field.slot {
            Slot::Skipped | Slot::SkippedAny => {}
            Slot::Word(of) => *of(job) = word(text),
            Slot::Any(of) => *of(job) = Some(Bytes::from(text)),
            Slot::Count(of) => *of(job) = told(scaled(text, KIBI, 1)?),
            Slot::Small(of) => *of(job) = told(whole(text)?).map(u32::try_from).transpose().ok()?,
            // Nothing that runs has no memory: it ended before it was looked at.
            Slot::Size(of) => *of(job) = told(scaled(text, KIBI, 1)?).filter(|size| *size > 0),
            Slot::Duration(of) => *of(job) = span(text)?,
            Slot::Given(of) => return self.resources(field, text, Kind::Given, of),
            Slot::Used(of) => return self.resources(field, text, Kind::Used, of),
            Slot::Time(of) => return self.time(field, text, clock, of),
            Slot::Other(put) => return put(self, text),
        }
        Some(())
    }

    fn resources(
        &mut self,
        field: &Field,
        text: &[u8],
        kind: Kind,
        of: fn(&mut Accounting) -> &mut Vec<Tres>,
    ) -> Parsed {
        if let Some(odd) = tres::read(text, kind, of(&mut self.job))? {
            self.doubts.push(Reason::unreadable(field.name, odd));
        }
        Some(())
    }

    fn time(
        &mut self,
        field: &Field,
        text: &[u8],
        clock: &Clock,
        of: fn(&mut Draft) -> &mut Option<Moment>,
    ) -> Parsed {
        match clock.time(text)? {
            Told::Nothing => self.is_unassigned |= field.name == "Start",
            Told::At(moment) => *of(self) = Some(moment),
            Told::Impossible => {
                self.doubts.push(Reason::ImpossibleTime { field: field.name, text: quoted(text) });
            }
        }
        Some(())
    }

    pub fn raw_id(&mut self, text: &[u8]) -> Parsed {
        let id =
            Id::parse(text).filter(|id| id.task.is_none() && id.waiting.is_none() && id.het.is_none())?;
        self.job.job = Some(id.shown.to_owned());
        self.step = id.step.map(str::to_owned);
        Some(())
    }

    pub fn shown_id(&mut self, text: &[u8]) -> Parsed {
        let id = Id::parse(text)?;
        self.job.shown = id.shown.to_owned();
        self.step = id.step.map(str::to_owned);
        if id.het.is_some() {
            (self.job.het_job, self.job.het_offset) = (Some(id.job), id.het);
        } else if id.task.is_some() || id.waiting.is_some() {
            (self.job.array_job, self.job.array_task) = (Some(id.job), id.task);
            self.job.array_waiting = id.waiting.map(str::to_owned);
        }
        Some(())
    }

    /// `COMPLETED` or `CANCELLED by 1001`. A word that is no state yet may become one in a later Slurm.
    pub fn state(&mut self, text: &[u8]) -> Parsed {
        let (name, by) = match text.iter().position(|byte| *byte == b' ') {
            Some(at) => (&text[..at], Some(text[at..].strip_prefix(b" by ")?)),
            None => (text, None),
        };
        self.job.cancelled_by = match by {
            Some(by) => Some(canceller(by)?),
            None => None,
        };
        self.job.state = State::named(name);
        if self.job.state.is_none() {
            name.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_').then_some(())?;
            self.doubts.push(Reason::UnknownState(quoted(name)));
        }
        Some(())
    }

    pub fn exit(&mut self, text: &[u8]) -> Parsed {
        self.job.exit = Some(exit(text)?);
        Some(())
    }

    pub fn derived_exit(&mut self, text: &[u8]) -> Parsed {
        self.job.derived_exit = Some(exit(text)?);
        Some(())
    }

    /// `4000Mn` per node, `4Gc` or [`PER_CPU`] per processor, and since 21.08 `4G` for all. None of it is asked for with 0: that is all
    /// there is, or whatever.
    pub fn memory(&mut self, text: &[u8]) -> Parsed {
        if text == b"?" {
            return Some(());
        }
        let (number, per) = match text.split_last()? {
            (b'n', number) => (number, MemoryPer::Node),
            (b'c', number) => (number, MemoryPer::Cpu),
            _ => (text, MemoryPer::Job),
        };
        let is_number = number.iter().all(|byte| byte.is_ascii_digit() || b".KMGTPE".contains(byte));
        let (amount, per) = match scaled(number, KIBI, MIB) {
            Some(bytes) if per == MemoryPer::Node && (PER_CPU..2 * PER_CPU).contains(&bytes) => {
                (Some(bytes - PER_CPU), MemoryPer::Cpu)
            }
            amount => (amount, per),
        };
        match amount {
            Some(0) => {}
            Some(bytes) if bytes <= MEMORY_OF_NODE_MAX || per == MemoryPer::Job => {
                self.job.requested_memory = Some(RequestedMemory { bytes, per });
            }
            _ => {
                is_number.then_some(())?;
                self.doubts.push(Reason::ImpossibleMemory(quoted(text)));
            }
        }
        Some(())
    }

    pub fn time_limit(&mut self, text: &[u8]) -> Parsed {
        self.job.time_limit = match text {
            b"UNLIMITED" => Some(TimeLimit::Unlimited),
            b"Partition_Limit" => Some(TimeLimit::OfPartition),
            _ => span(text)?.map(TimeLimit::Nanos),
        };
        Some(())
    }

    /// In minutes.
    pub fn time_limit_raw(&mut self, text: &[u8]) -> Parsed {
        let Some(minutes) = whole(text) else { return self.time_limit(text) };
        self.job.time_limit = match told(minutes) {
            Some(minutes) => Some(TimeLimit::Nanos(minutes.checked_mul(60 * SECOND)?)),
            None => None,
        };
        Some(())
    }

    /// In seconds.
    pub fn elapsed_raw(&mut self, text: &[u8]) -> Parsed {
        self.job.elapsed = Some(whole(text)?.checked_mul(SECOND)?);
        Some(())
    }

    pub fn suspended(&mut self, text: &[u8]) -> Parsed {
        self.suspended = span(text)?;
        Some(())
    }

    /// The number of nodes that were given; it is 0 before there are any, when the other field says how many are wanted.
    pub fn allocated_nodes(&mut self, text: &[u8]) -> Parsed {
        let nodes = told(scaled(text, KIBI, 1)?).filter(|nodes| *nodes > 0);
        self.job.nodes = self.job.nodes.or(nodes);
        Some(())
    }

    pub fn node_list(&mut self, text: &[u8]) -> Parsed {
        if matches!(text, b"None assigned" | b"None" | b"(null)") {
            self.is_unassigned = true;
            return Some(());
        }
        let has_blank = text.iter().any(u8::is_ascii_whitespace);
        self.job.node_list = word(text).filter(|_| !has_blank);
        (!has_blank).then_some(())
    }

    pub fn reason(&mut self, text: &[u8]) -> Parsed {
        self.job.reason = word(text).filter(|reason| reason != "None");
        Some(())
    }

    pub fn flags(&mut self, text: &[u8]) -> Parsed {
        self.job.flags = text.split(|byte| *byte == b',').filter_map(word).collect();
        Some(())
    }

    /// Thousands, unlike everything else. Slurm writes 0 where nobody measured.
    pub fn energy(&mut self, text: &[u8]) -> Parsed {
        self.job.used.energy = told(scaled(text, KILO, 1)?).filter(|energy| *energy > 0);
        Some(())
    }

    /// Decides what can only be said when all fields are known.
    pub fn finish(mut self) -> Finished {
        self.name();
        self.times();
        self.processors();
        from_lists(&mut self.job, self.is_unassigned);
        Finished { job: self.job, step: self.step, doubts: self.doubts }
    }

    fn name(&mut self) {
        let job = &mut self.job;
        match &job.job {
            Some(raw) if job.shown.is_empty() => job.shown = raw.clone(),
            // A task of an array or a component has a number of its own, which the shown name does not tell.
            None if job.array_job.is_none() && job.het_job.is_none() => job.job = Some(job.shown.clone()),
            // Tasks that wait together have the number of their array; the last of them keeps it.
            None if job.array_waiting.is_some() => job.job = job.array_job.map(|job| job.to_string()),
            None if job.het_offset == Some(0) => job.job = job.het_job.map(|job| job.to_string()),
            _ => {}
        }
    }

    fn times(&mut self) {
        let only = |moment: Option<Moment>| moment.and_then(|moment| nanos(moment.first));
        self.job.submit = only(self.submit);
        self.job.eligible = only(self.eligible);
        self.job.start = only(self.start);
        self.job.end = only(self.end);
        let (Some(start), Some(end)) = (self.start, self.end) else { return };
        let apart = self.job.elapsed.map(|elapsed| elapsed.saturating_add(self.suspended.unwrap_or(0)));
        let (start, end) = settle(start, end, apart);
        self.job.start = nanos(start);
        self.job.end = nanos(end);
        if end < start {
            self.job.end = None;
            self.doubts.push(Reason::EndBeforeStart);
        } else if self.job.elapsed.is_none() {
            let between = nanos(end - start);
            self.job.elapsed = between.map(|between| between.saturating_sub(self.suspended.unwrap_or(0)));
        }
    }

    /// Slurm 25.05 says zero for the sum of a step whose parts it knows, and every version says zero where it did not
    /// count. What has run has used some.
    fn processors(&mut self) {
        let used = &mut self.job.used;
        let sum = [used.user_cpu, used.system_cpu].into_iter().flatten().fold(0, u64::saturating_add);
        match used.total_cpu {
            None | Some(0) if sum > 0 && used.user_cpu.is_some() && used.system_cpu.is_some() => {
                used.total_cpu = Some(sum);
            }
            Some(0) | None if sum == 0 => {
                (used.total_cpu, used.user_cpu, used.system_cpu) = (None, None, None)
            }
            Some(0) => used.total_cpu = None,
            _ => {}
        }
    }
}

/// The part of a job's record that a step has.
pub fn into_step(job: Accounting, step: String) -> Step {
    Step {
        step,
        name: job.name,
        start: job.start,
        end: job.end,
        elapsed: job.elapsed,
        state: job.state,
        cancelled_by: job.cancelled_by,
        exit: job.exit,
        nodes: job.nodes,
        cpus: job.cpus,
        tasks: job.tasks,
        allocated: job.allocated,
        node_list: job.node_list,
        submit_line: job.submit_line,
        container: job.container,
        used: job.used,
    }
}

/// A duration; `INVALID` is what Slurm makes of a negative one.
fn span(text: &[u8]) -> Option<Option<Nanos>> {
    if text == b"INVALID" { Some(None) } else { duration(text).map(Some) }
}

/// `code:signal`
fn exit(text: &[u8]) -> Option<Exit> {
    let at = text.iter().position(|byte| *byte == b':')?;
    let number = |text: &[u8]| whole(text).and_then(|number| u32::try_from(number).ok());
    Some(Exit { code: Some(number(&text[..at])?), signal: Some(number(&text[at + 1..])?) })
}

fn canceller(text: &[u8]) -> Option<Canceller> {
    match whole(text) {
        Some(uid) => u32::try_from(uid).ok().map(Canceller::Uid),
        None => word(text).filter(|name| !name.contains(' ')).map(Canceller::User),
    }
}
