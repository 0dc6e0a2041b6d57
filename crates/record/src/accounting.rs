//! A job as its batch system accounts for it: what was asked for, what was given, and how it ended.
//!
//! Encoded like [`crate::entry`]: arrays by field number, absent means unknown or not yet. Times are since 1970,
//! durations are nanoseconds as well, memory is in bytes.

use minicbor::{Decode, Encode};
use serde::Serialize;

use crate::bytes::Bytes;
use crate::entry::Nanos;
use crate::kind::Kind;

/// One job, or one task of an array, or one component of a heterogeneous job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Accounting {
    #[n(0)]
    pub cluster: Option<String>,
    /// The batch system's own number, which control groups and `SLURM_JOB_ID` have. Absent where the source has only
    /// the shown one and that does not tell it.
    #[n(1)]
    pub job: Option<String>,
    /// As people are shown it: `123`, `123_4` in an array, `123+1` in a heterogeneous job.
    #[n(2)]
    pub shown: String,
    /// The job that the array is called by.
    #[n(3)]
    pub array_job: Option<u64>,
    #[n(4)]
    pub array_task: Option<u64>,
    /// The tasks that one record stands for because none of them has begun: `2-5%1`.
    #[n(5)]
    pub array_waiting: Option<String>,
    /// The job that the heterogeneous job is called by.
    #[n(6)]
    pub het_job: Option<u64>,
    #[n(7)]
    pub het_offset: Option<u64>,
    /// Under this name since Slurm 26.05 also the control group's.
    #[n(8)]
    pub sluid: Option<String>,
    #[n(9)]
    pub user: Option<String>,
    #[n(10)]
    pub uid: Option<u32>,
    #[n(11)]
    pub group: Option<String>,
    #[n(12)]
    pub gid: Option<u32>,
    /// The project that pays.
    #[n(13)]
    pub account: Option<String>,
    #[n(14)]
    pub partition: Option<String>,
    #[n(15)]
    pub qos: Option<String>,
    #[n(16)]
    pub reservation: Option<String>,
    #[n(17)]
    pub wckey: Option<String>,
    #[n(18)]
    pub name: Option<Bytes>,
    #[n(19)]
    pub submit: Option<Nanos>,
    #[n(20)]
    pub eligible: Option<Nanos>,
    #[n(21)]
    pub start: Option<Nanos>,
    #[n(22)]
    pub end: Option<Nanos>,
    /// Less than the time between start and end where the job was suspended.
    #[n(23)]
    pub elapsed: Option<Nanos>,
    #[n(24)]
    pub time_limit: Option<TimeLimit>,
    #[n(25)]
    pub state: Option<State>,
    /// What else the batch system says of the state: a job may be running and completing.
    #[n(26)]
    #[cbor(default)]
    pub also: Vec<State>,
    #[n(27)]
    pub cancelled_by: Option<Canceller>,
    #[n(28)]
    pub exit: Option<Exit>,
    /// The highest of all steps.
    #[n(29)]
    pub derived_exit: Option<Exit>,
    /// Why it waits, or waited last.
    #[n(30)]
    pub reason: Option<String>,
    #[n(31)]
    pub restarts: Option<u64>,
    #[n(32)]
    pub nodes: Option<u64>,
    #[n(33)]
    pub cpus: Option<u64>,
    #[n(34)]
    pub requested_cpus: Option<u64>,
    #[n(35)]
    pub tasks: Option<u64>,
    #[n(36)]
    pub requested_memory: Option<RequestedMemory>,
    #[n(37)]
    #[cbor(default)]
    pub requested: Vec<Tres>,
    #[n(38)]
    #[cbor(default)]
    pub allocated: Vec<Tres>,
    /// Folded as the batch system writes it, `n[01-04]`: the names of a job on 3000 nodes would be 30 KB in each
    /// record, and whoever needs them one by one can expand the text.
    #[n(39)]
    pub node_list: Option<String>,
    #[n(40)]
    pub comment: Option<Bytes>,
    #[n(41)]
    pub admin_comment: Option<Bytes>,
    #[n(42)]
    pub system_comment: Option<Bytes>,
    #[n(43)]
    pub extra: Option<Bytes>,
    #[n(44)]
    pub submit_line: Option<Bytes>,
    #[n(45)]
    pub work_dir: Option<Bytes>,
    #[n(46)]
    pub stdout: Option<Bytes>,
    #[n(47)]
    pub container: Option<Bytes>,
    #[n(48)]
    pub constraints: Option<String>,
    #[n(49)]
    pub licenses: Option<String>,
    #[n(50)]
    #[cbor(default)]
    pub flags: Vec<String>,
    #[n(51)]
    pub priority: Option<u64>,
    #[n(52)]
    pub used: Usage,
    #[n(53)]
    #[cbor(default)]
    pub steps: Vec<Step>,
    /// Which processors and GPUs it had on each node. Slurm forgets that minutes after the end.
    #[n(54)]
    #[cbor(default)]
    pub placed: Vec<Placed>,
    /// What the source says besides, under its own names, so that nothing is lost on the way back.
    #[n(55)]
    #[cbor(default)]
    pub others: Vec<Other>,
    /// Whether other jobs may have run on its nodes at the same time; `false` if they were allocated to this job alone.
    #[n(56)]
    pub is_shared: Option<bool>,
    #[n(57)]
    pub requested_nodes: Option<u64>,
    /// A monitoring system's record of the job: its batch system's counts more, and lacks some of it.
    #[n(70)]
    #[cbor(default)]
    pub from_monitoring: bool,
}

/// What a job had on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Placed {
    #[n(0)]
    pub host: String,
    /// Hardware threads by their numbers, `0-3,8`.
    #[n(1)]
    pub cpus: Option<String>,
    /// GPUs by number or by address on the bus.
    #[n(2)]
    #[cbor(default)]
    pub gpus: Vec<String>,
    /// In bytes.
    #[n(3)]
    pub memory: Option<u64>,
}

/// Something that has a name only where it comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Other {
    /// With the name of the system before it: `clustercockpit.smt`.
    #[n(0)]
    pub name: String,
    /// A JSON value.
    #[n(1)]
    pub value: String,
}

/// A request to a server has at most so many jobs.
pub const JOBS_MAX: u64 = 10_000;

/// No array of Slurm's has more tasks: `MaxArraySize` goes no further.
pub const TASKS_MAX: u64 = 4_000_001;

impl Accounting {
    /// How many tasks this record stands for; nothing where it is one job.
    pub fn tasks_waiting(&self) -> Option<u64> {
        self.array_waiting.as_deref().and_then(count_tasks)
    }

    /// How much memory was requested for all of the job. What is not said of the request is as it was allocated: a job gets as many nodes
    /// and processors as it wants, or more.
    pub fn memory_requested(&self) -> Option<u64> {
        let all = self.requested.iter().find(|tres| tres.kind == "mem").map(|tres| tres.count);
        all.filter(|bytes| *bytes > 0).or_else(|| {
            let RequestedMemory { bytes, per } = self.requested_memory?;
            match per {
                MemoryPer::Job => Some(bytes),
                MemoryPer::Node => bytes.checked_mul(self.requested_nodes.or(self.nodes)?),
                MemoryPer::Cpu => bytes.checked_mul(self.requested_cpus.or(self.cpus)?),
            }
        })
    }

    /// How many GPUs were requested. Where Slurm lists what was requested and no GPU among it there was none, unless it allocated some:
    /// versions before 17.11 list only some of it.
    pub fn gpus_requested(&self) -> Option<u64> {
        let none = || {
            let is_said = !self.requested.is_empty() && gpus(&self.allocated).unwrap_or(0) == 0;
            is_said.then_some(0)
        };
        gpus(&self.requested).or_else(none)
    }

    /// All times and durations that are known, of the steps as well.
    pub fn times(&self) -> impl Iterator<Item = Nanos> {
        let limit = match self.time_limit {
            Some(TimeLimit::Nanos(limit)) => Some(limit),
            _ => None,
        };
        let own = [self.submit, self.eligible, self.start, self.end, self.elapsed, limit];
        let of_steps = self.steps.iter().flat_map(|step| [step.start, step.end, step.elapsed]);
        let used = self.steps.iter().map(|step| &step.used).chain([&self.used]);
        let used = used.flat_map(|used| [used.total_cpu, used.user_cpu, used.system_cpu]);
        own.into_iter().chain(of_steps).chain(used).flatten()
    }
}

/// A part of a job that was started on its own: the batch script, or one `srun`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Step {
    /// `batch`, `extern`, `interactive`, or a number.
    #[n(0)]
    pub step: String,
    #[n(1)]
    pub name: Option<Bytes>,
    #[n(2)]
    pub start: Option<Nanos>,
    #[n(3)]
    pub end: Option<Nanos>,
    #[n(4)]
    pub elapsed: Option<Nanos>,
    #[n(5)]
    pub state: Option<State>,
    #[n(6)]
    pub cancelled_by: Option<Canceller>,
    #[n(7)]
    pub exit: Option<Exit>,
    #[n(8)]
    pub nodes: Option<u64>,
    #[n(9)]
    pub cpus: Option<u64>,
    #[n(10)]
    pub tasks: Option<u64>,
    #[n(11)]
    #[cbor(default)]
    pub allocated: Vec<Tres>,
    #[n(12)]
    pub node_list: Option<String>,
    #[n(13)]
    pub submit_line: Option<Bytes>,
    #[n(14)]
    pub container: Option<Bytes>,
    #[n(15)]
    pub used: Usage,
}

/// What was used, as the batch system measured it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Usage {
    #[n(0)]
    pub total_cpu: Option<Nanos>,
    #[n(1)]
    pub user_cpu: Option<Nanos>,
    #[n(2)]
    pub system_cpu: Option<Nanos>,
    /// Of the task that had most.
    #[n(3)]
    pub max_rss: Option<u64>,
    #[n(4)]
    pub max_rss_node: Option<String>,
    #[n(5)]
    pub max_rss_task: Option<u64>,
    /// Over the tasks.
    #[n(6)]
    pub average_rss: Option<u64>,
    /// In joules.
    #[n(7)]
    pub energy: Option<u64>,
    #[n(8)]
    #[cbor(default)]
    pub in_total: Vec<Tres>,
    #[n(9)]
    #[cbor(default)]
    pub in_max: Vec<Tres>,
    #[n(10)]
    #[cbor(default)]
    pub in_average: Vec<Tres>,
    #[n(11)]
    #[cbor(default)]
    pub out_total: Vec<Tres>,
    #[n(12)]
    #[cbor(default)]
    pub out_max: Vec<Tres>,
    #[n(13)]
    #[cbor(default)]
    pub out_average: Vec<Tres>,
}

/// A trackable resource and how much of it: `gres/gpu:a100=2` is kind `gres`, name `gpu:a100`, count 2.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Tres {
    #[n(0)]
    pub kind: Kind,
    #[n(1)]
    pub name: Option<String>,
    /// Memory in bytes; of processors that were used, nanoseconds.
    #[n(2)]
    pub count: u64,
}

impl Tres {
    /// The name of a generic resource.
    fn gres(&self) -> Option<&str> {
        self.name.as_deref().filter(|_| self.kind == "gres")
    }
}

/// How many GPUs are in a list. Slurm names them all together, by type, or both.
pub fn gpus(list: &[Tres]) -> Option<u64> {
    if let Some(all) = list.iter().find(|tres| tres.gres() == Some("gpu")) {
        return Some(all.count);
    }
    let typed = list.iter().filter(|tres| tres.gres().is_some_and(|name| name.starts_with("gpu:")));
    typed.map(|tres| tres.count).reduce(u64::saturating_add)
}

/// How many tasks a list like `1-3,7,10-20:5%2` names; nothing if it is none or names more than an array can have. A list that Slurm cut
/// short, anywhere (`1,3,...`, `1,3,1...%2`), counts as those that it still names, and for one at least.
pub fn count_tasks(list: &str) -> Option<u64> {
    let (tasks, at_once) = list.split_once('%').unwrap_or((list, "0"));
    task_number(at_once)?;
    let Some(tasks) = tasks.strip_suffix("...") else { return count_ranges(tasks) };
    let (whole, last) = match tasks.rsplit_once(',') {
        Some((whole, last)) => (count_ranges(whole)?, last),
        None => (0, tasks),
    };
    whole.checked_add(count_cut(last)?).map(|all| all.max(1)).filter(|all| *all <= TASKS_MAX)
}

fn count_ranges(list: &str) -> Option<u64> {
    list.split(',')
        .try_fold(0u64, |all, part| all.checked_add(count_range(part)?))
        .filter(|all| *all <= TASKS_MAX)
}

/// What is left of the last range names so many tasks at least: its last number may have had more digits.
fn count_cut(part: &str) -> Option<u64> {
    let is_of_range = |byte: u8| byte.is_ascii_digit() || byte == b'-' || byte == b':';
    let least = if part.contains(':') { 1 } else { count_range(part).unwrap_or(u64::from(!part.is_empty())) };
    part.bytes().all(is_of_range).then_some(least)
}

/// `7`, `1-3` or `10-20:5`.
fn count_range(part: &str) -> Option<u64> {
    let (range, step) = part.split_once(':').unwrap_or((part, "1"));
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last, step) = (task_number(first)?, task_number(last)?, task_number(step)?);
    last.checked_sub(first)?.checked_div(step)?.checked_add(1)
}

/// Digits and nothing else.
fn task_number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// How long a job may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum TimeLimit {
    #[n(0)]
    Unlimited,
    /// As long as the partition lets it.
    #[n(1)]
    OfPartition,
    #[n(2)]
    Nanos(#[n(0)] Nanos),
}

/// Who cancelled a job; text has the number, JSON the name.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Canceller {
    #[n(0)]
    Uid(#[n(0)] u32),
    #[n(1)]
    User(#[n(0)] String),
}

/// How a job ended: both are told, since a job that was killed may have code 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct Exit {
    #[n(0)]
    pub code: Option<u32>,
    /// 0 is none.
    #[n(1)]
    pub signal: Option<u32>,
}

/// How much memory was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct RequestedMemory {
    #[n(0)]
    pub bytes: u64,
    #[n(1)]
    pub per: MemoryPer,
}

/// What the memory that was asked for is counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum MemoryPer {
    #[n(0)]
    Node,
    #[n(1)]
    Cpu,
    /// All of it; Slurm since 21.08.
    #[n(2)]
    Job,
}

macro_rules! states {
    ($($number:literal $state:ident $name:literal $code:literal,)*) => {
        /// The state of a job, by Slurm's names. The first twelve are states, the others flags beside them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize)]
        #[cbor(index_only)]
        pub enum State {
            $(#[n($number)] #[serde(rename = $name)] $state,)*
        }

        impl State {
            /// By its name.
            pub fn named(name: &[u8]) -> Option<State> {
                $(if name == $name.as_bytes() { return Some(State::$state); })*
                None
            }

            /// All names, each with the short form that `sacct` takes; empty where there is none.
            pub const NAMES: &[(&str, &str)] = &[$(($name, $code),)*];

            /// Slurm's name.
            pub fn name(self) -> &'static str {
                match self { $(State::$state => $name,)* }
            }
        }

        #[cfg(test)]
        const STATES: &[State] = &[$(State::$state,)*];
    };
}

states! {
    0 Pending "PENDING" "PD",
    1 Running "RUNNING" "R",
    2 Suspended "SUSPENDED" "S",
    3 Completed "COMPLETED" "CD",
    4 Cancelled "CANCELLED" "CA",
    5 Failed "FAILED" "F",
    6 Timeout "TIMEOUT" "TO",
    7 NodeFail "NODE_FAIL" "NF",
    8 Preempted "PREEMPTED" "PR",
    9 BootFail "BOOT_FAIL" "BF",
    10 Deadline "DEADLINE" "DL",
    11 OutOfMemory "OUT_OF_MEMORY" "OOM",
    12 Completing "COMPLETING" "CG",
    13 Configuring "CONFIGURING" "CF",
    14 Resizing "RESIZING" "RS",
    15 Requeued "REQUEUED" "RQ",
    16 RequeueHold "REQUEUE_HOLD" "RH",
    17 RequeueFed "REQUEUE_FED" "RF",
    18 Revoked "REVOKED" "RV",
    19 SpecialExit "SPECIAL_EXIT" "SE",
    20 StageOut "STAGE_OUT" "SO",
    21 Stopped "STOPPED" "ST",
    22 Signaling "SIGNALING" "SI",
    23 LaunchFailed "LAUNCH_FAILED" "",
    24 ReconfigFail "RECONFIG_FAIL" "",
    25 PowerUpNode "POWER_UP_NODE" "",
    26 ResvDelHold "RESV_DEL_HOLD" "RD",
    27 UpdateDb "UPDATE_DB" "",
    28 Expediting "EXPEDITING" "",
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tres(kind: &str, name: Option<&str>, count: u64) -> Tres {
        Tres { kind: kind.into(), name: name.map(Into::into), count }
    }

    #[test]
    fn gpus_are_counted_once() {
        let (all, a, b) =
            (tres("gres", Some("gpu"), 3), tres("gres", Some("gpu:a"), 1), tres("gres", Some("gpu:b"), 2));
        let other = [tres("cpu", None, 8), tres("gres", Some("gpumem"), 7), tres("license", Some("gpu"), 9)];
        for (list, expected) in [
            (vec![], None),
            (other.to_vec(), None),
            (vec![a.clone(), b.clone()], Some(3)),
            (vec![a, b, all.clone()], Some(3)),
            ([&other[..], &[all]].concat(), Some(3)),
            (vec![tres("gres", Some("gpu"), 0)], Some(0)),
        ] {
            assert_eq!(gpus(&list), expected, "{list:?}");
        }
    }

    #[test]
    fn tasks_of_a_list_are_counted() {
        for (list, expected) in [
            ("1-3", Some(3)),
            ("0", Some(1)),
            ("1-3,7,10-20:5%2", Some(7)),
            ("2-5%1", Some(4)),
            ("1,3,5,...", Some(3)),
            ("0-4000000", Some(4_000_001)),
            ("0-4000001", None),
            ("0-99999999999999999999", None),
            ("0-18446744073709551615", None),
            ("1-18446744073709551615:0", None),
            ("1,3,...%5", Some(2)),
            ("1,3,5-9,1...%5", Some(8)),
            ("1-10,12-2...", Some(11)),
            ("1-50...", Some(50)),
            ("1,4-...", Some(2)),
            ("1-9:2,10-20:5...", Some(6)),
            ("...%3", Some(1)),
            ("0-99999999...", None),
            ("1,a...", None),
            (",...", None),
            ("1,...,3", None),
            ("3-1", None),
            ("", None),
            ("1,", None),
            ("a", None),
            ("+1", None),
            ("1-2%", None),
        ] {
            assert_eq!(count_tasks(list), expected, "{list}");
        }
    }

    #[test]
    fn what_was_requested_is_of_the_whole_job() {
        let each = |bytes, per| Some(RequestedMemory { bytes, per });
        let job = Accounting { requested_nodes: Some(2), requested_cpus: Some(8), ..Accounting::default() };
        for (requested_memory, requested, expected) in [
            (each(5, MemoryPer::Node), vec![], Some(10)),
            (each(5, MemoryPer::Cpu), vec![], Some(40)),
            (each(5, MemoryPer::Job), vec![], Some(5)),
            (each(5, MemoryPer::Node), vec![tres("mem", None, 11)], Some(11)),
            (None, vec![], None),
        ] {
            let job = Accounting { requested_memory, requested, ..job.clone() };
            assert_eq!(job.memory_requested(), expected, "{job:?}");
        }
        let unknown = Accounting { requested_memory: each(5, MemoryPer::Node), ..Accounting::default() };
        assert_eq!(unknown.memory_requested(), None);
        let given = Accounting { nodes: Some(3), ..unknown };
        assert_eq!(given.memory_requested(), Some(15));
        let (cpu, gpu) = (tres("cpu", None, 4), tres("gres", Some("gpu"), 2));
        for (requested, allocated, expected) in [
            (vec![], vec![], None),
            (vec![cpu.clone()], vec![], Some(0)),
            (vec![cpu.clone()], vec![cpu.clone()], Some(0)),
            (vec![cpu.clone()], vec![gpu.clone()], None),
            (vec![cpu, gpu.clone()], vec![gpu], Some(2)),
        ] {
            let job = Accounting { requested, allocated, ..Accounting::default() };
            assert_eq!(job.gpus_requested(), expected, "{job:?}");
        }
    }

    #[test]
    fn states_have_their_names() {
        for state in STATES {
            assert_eq!(State::named(state.name().as_bytes()), Some(*state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
        let mut codes: Vec<&str> =
            State::NAMES.iter().map(|(_, code)| *code).filter(|code| !code.is_empty()).collect();
        assert_eq!((State::NAMES.len(), codes.len()), (STATES.len(), 24));
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), 24, "one code means two states");
        assert_eq!(State::named(b"CANCELLED by 1"), None);
        assert_eq!(State::named(b""), None);
    }

    #[test]
    fn a_record_survives_the_way() {
        let used =
            Usage { total_cpu: Some(1_500_000), in_max: vec![tres("mem", None, 4)], ..Usage::default() };
        let step = Step { step: "batch".into(), state: Some(State::OutOfMemory), ..Step::default() };
        let job = Accounting {
            shown: "12_3".into(),
            array_job: Some(12),
            array_task: Some(3),
            name: Some(Bytes(b"\xff".to_vec())),
            time_limit: Some(TimeLimit::Nanos(7)),
            cancelled_by: Some(Canceller::Uid(5)),
            also: vec![State::Completing],
            requested_memory: Some(RequestedMemory { bytes: 1, per: MemoryPer::Cpu }),
            exit: Some(Exit { code: Some(0), signal: Some(9) }),
            used,
            steps: vec![step],
            ..Accounting::default()
        };
        let back: Accounting = minicbor::decode(&minicbor::to_vec(&job).unwrap()).unwrap();
        assert_eq!(back, job);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = minicbor::decode::<Accounting>(&bytes);
        }
    }
}
