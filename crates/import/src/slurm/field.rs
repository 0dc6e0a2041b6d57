//! The fields of `sacct`: their names, and where each belongs.

use record::accounting::{Accounting, Tres};
use record::bytes::Bytes;
use record::entry::Nanos;

use super::draft::Draft;
use crate::time::Moment;

use Slot::{Any, Count, Duration, Given, Other, Size, Skipped, SkippedAny, Small, Time, Used, Word};

/// A field of `sacct`.
pub struct Field {
    pub name: &'static str,
    pub slot: Slot,
}

/// What a field's text is, and where it goes.
pub enum Slot {
    /// Known and not kept.
    Skipped,
    /// The same, and a user may have written anything into it.
    SkippedAny,
    /// A name.
    Word(fn(&mut Accounting) -> &mut Option<String>),
    /// What a user wrote; the delimiter and line breaks may be in it.
    Any(fn(&mut Accounting) -> &mut Option<Bytes>),
    Count(fn(&mut Accounting) -> &mut Option<u64>),
    Small(fn(&mut Accounting) -> &mut Option<u32>),
    /// Bytes of memory.
    Size(fn(&mut Accounting) -> &mut Option<u64>),
    Duration(fn(&mut Accounting) -> &mut Option<Nanos>),
    /// Resources that were requested or allocated.
    Given(fn(&mut Accounting) -> &mut Vec<Tres>),
    /// Resources that were used.
    Used(fn(&mut Accounting) -> &mut Vec<Tres>),
    Time(fn(&mut Draft) -> &mut Option<Moment>),
    Other(fn(&mut Draft, &[u8]) -> Option<()>),
}

/// A column of which only its place is known: anything may be in it.
pub static UNKNOWN: Field = Field { name: "a column that is not known", slot: SkippedAny };

impl Field {
    /// By its name, in any case, perhaps with the width that was asked for: `JobName%30`.
    pub fn named(name: &str) -> Option<&'static Field> {
        let name = name.split('%').next().unwrap_or(name).trim();
        FIELDS.iter().find(|field| field.name.eq_ignore_ascii_case(name))
    }

    /// Whether anything may be in it.
    pub fn is_any(&self) -> bool {
        matches!(self.slot, Any(_) | SkippedAny)
    }

    pub fn is_known(&self) -> bool {
        !std::ptr::eq(self, &UNKNOWN)
    }

    pub fn is_id(&self) -> bool {
        matches!(self.name, "JobID" | "JobIDRaw")
    }

    /// Whether Slurm writes it in every line. Without that, delimiters in a name would pass for empty fields.
    pub fn is_always_told(&self) -> bool {
        self.is_id() || matches!(self.name, "State" | "ExitCode")
    }

    /// All names, for a message.
    pub fn names() -> String {
        FIELDS.iter().map(|field| field.name).collect::<Vec<_>>().join(", ")
    }
}

/// Of two fields that say the same, the one that is not asked for if there is the other.
const INSTEAD: [(&str, &str); 4] = [
    ("AllocCPUS", "NCPUS"),
    ("Elapsed", "ElapsedRaw"),
    ("ConsumedEnergy", "ConsumedEnergyRaw"),
    ("TimelimitRaw", "Timelimit"),
];

/// What to ask a `sacct` for that has these fields (`sacct --helpformat`): all that is kept, the numbers of the job first
/// and what users write last, so that a line that breaks in a text has shown by then whose it is.
pub fn wanted<'a>(offered: impl Iterator<Item = &'a str>) -> Vec<&'static str> {
    let offered: Vec<&Field> = offered.filter_map(Field::named).collect();
    let is_offered = |name: &str| offered.iter().any(|field| field.name == name);
    let is_said_better =
        |field: &Field| INSTEAD.iter().any(|(worse, better)| field.name == *worse && is_offered(better));
    let is_kept = |field: &&&Field| !matches!(field.slot, Skipped | SkippedAny) && !is_said_better(field);
    let mut wanted: Vec<&Field> = offered.iter().filter(is_kept).copied().collect();
    wanted.sort_by_key(|field| (field.is_any(), !field.is_always_told(), !field.is_id()));
    wanted.dedup_by_key(|field| field.name);
    wanted.iter().map(|field| field.name).collect()
}

/// The fields of the logs that XDMoD keeps, in their order; such a log has no line with names.
pub const XDMOD: [&str; 26] = [
    "jobid",
    "jobidraw",
    "cluster",
    "partition",
    "qos",
    "account",
    "group",
    "gid",
    "user",
    "uid",
    "submit",
    "eligible",
    "start",
    "end",
    "elapsed",
    "exitcode",
    "state",
    "nnodes",
    "ncpus",
    "reqcpus",
    "reqmem",
    "reqtres",
    "alloctres",
    "timelimit",
    "nodelist",
    "jobname",
];

const fn field(name: &'static str, slot: Slot) -> Field {
    Field { name, slot }
}

/// All fields up to Slurm 26.05, and those that older versions had.
#[rustfmt::skip]
static FIELDS: &[Field] = &[
    field("Account", Word(|job| &mut job.account)),
    field("AdminComment", Any(|job| &mut job.admin_comment)),
    field("AllocCPUS", Count(|job| &mut job.cpus)),
    field("AllocGRES", Skipped),
    field("AllocNodes", Other(Draft::allocated_nodes)),
    field("AllocTRES", Given(|job| &mut job.allocated)),
    field("AssocID", Skipped),
    field("AveCPU", Skipped),
    field("AveCPUFreq", Skipped),
    field("AveDiskRead", Skipped),
    field("AveDiskWrite", Skipped),
    field("AvePages", Skipped),
    field("AveRSS", Size(|job| &mut job.used.average_rss)),
    field("AveVMSize", Skipped),
    field("BlockID", Skipped),
    field("CPUTime", Skipped),
    field("CPUTimeRAW", Skipped),
    field("Cluster", Word(|job| &mut job.cluster)),
    field("Comment", Any(|job| &mut job.comment)),
    field("Constraints", Word(|job| &mut job.constraints)),
    field("ConsumedEnergy", Other(Draft::energy)),
    field("ConsumedEnergyRaw", Other(Draft::energy)),
    field("Container", Any(|job| &mut job.container)),
    field("DBIndex", Skipped),
    field("DerivedExitCode", Other(Draft::derived_exit)),
    field("Elapsed", Duration(|job| &mut job.elapsed)),
    field("ElapsedRaw", Other(Draft::elapsed_raw)),
    field("Eligible", Time(|draft| &mut draft.eligible)),
    field("End", Time(|draft| &mut draft.end)),
    field("ExitCode", Other(Draft::exit)),
    field("Extra", Any(|job| &mut job.extra)),
    field("FailedNode", Skipped),
    field("Flags", Other(Draft::flags)),
    field("GID", Small(|job| &mut job.gid)),
    field("Group", Word(|job| &mut job.group)),
    field("JobID", Other(Draft::shown_id)),
    field("JobIDRaw", Other(Draft::raw_id)),
    field("JobName", Any(|job| &mut job.name)),
    field("Layout", Skipped),
    field("Licenses", Word(|job| &mut job.licenses)),
    field("LicensesAlloc", Skipped),
    field("MaxDiskRead", Skipped),
    field("MaxDiskReadNode", Skipped),
    field("MaxDiskReadTask", Skipped),
    field("MaxDiskWrite", Skipped),
    field("MaxDiskWriteNode", Skipped),
    field("MaxDiskWriteTask", Skipped),
    field("MaxPages", Skipped),
    field("MaxPagesNode", Skipped),
    field("MaxPagesTask", Skipped),
    field("MaxRSS", Size(|job| &mut job.used.max_rss)),
    field("MaxRSSNode", Word(|job| &mut job.used.max_rss_node)),
    field("MaxRSSTask", Count(|job| &mut job.used.max_rss_task)),
    field("MaxVMSize", Skipped),
    field("MaxVMSizeNode", Skipped),
    field("MaxVMSizeTask", Skipped),
    field("McsLabel", Skipped),
    field("MinCPU", Skipped),
    field("MinCPUNode", Skipped),
    field("MinCPUTask", Skipped),
    field("NCPUS", Count(|job| &mut job.cpus)),
    field("NNodes", Count(|job| &mut job.nodes)),
    field("NTasks", Count(|job| &mut job.tasks)),
    field("NodeList", Other(Draft::node_list)),
    field("OriginalSLUID", Skipped),
    field("Partition", Word(|job| &mut job.partition)),
    field("Planned", Skipped),
    field("PlannedCPU", Skipped),
    field("PlannedCPURAW", Skipped),
    field("Priority", Count(|job| &mut job.priority)),
    field("QOS", Word(|job| &mut job.qos)),
    field("QOSRAW", Skipped),
    field("QOSREQ", Skipped),
    field("Reason", Other(Draft::reason)),
    field("ReqCPUFreq", Skipped),
    field("ReqCPUFreqGov", Skipped),
    field("ReqCPUFreqMax", Skipped),
    field("ReqCPUFreqMin", Skipped),
    field("ReqCPUS", Count(|job| &mut job.requested_cpus)),
    field("ReqGRES", Skipped),
    field("ReqMem", Other(Draft::memory)),
    field("ReqNodes", Count(|job| &mut job.requested_nodes)),
    field("ReqReservation", Skipped),
    field("ReqTRES", Given(|job| &mut job.requested)),
    field("Reservation", Word(|job| &mut job.reservation)),
    field("ReservationId", Skipped),
    field("Reserved", Skipped),
    field("Restarts", Count(|job| &mut job.restarts)),
    field("ResvCPU", Skipped),
    field("ResvCPURAW", Skipped),
    field("SLUID", Word(|job| &mut job.sluid)),
    field("SegmentSize", Skipped),
    field("Start", Time(|draft| &mut draft.start)),
    field("State", Other(Draft::state)),
    field("StdErr", SkippedAny),
    field("StdIn", SkippedAny),
    field("StdOut", Any(|job| &mut job.stdout)),
    field("Submit", Time(|draft| &mut draft.submit)),
    field("SubmitLine", Any(|job| &mut job.submit_line)),
    field("Suspended", Other(Draft::suspended)),
    field("SystemCPU", Duration(|job| &mut job.used.system_cpu)),
    field("SystemComment", Any(|job| &mut job.system_comment)),
    field("TRESUsageInAve", Used(|job| &mut job.used.in_average)),
    field("TRESUsageInMax", Used(|job| &mut job.used.in_max)),
    field("TRESUsageInMaxNode", Skipped),
    field("TRESUsageInMaxTask", Skipped),
    field("TRESUsageInMin", Skipped),
    field("TRESUsageInMinNode", Skipped),
    field("TRESUsageInMinTask", Skipped),
    field("TRESUsageInTot", Used(|job| &mut job.used.in_total)),
    field("TRESUsageOutAve", Used(|job| &mut job.used.out_average)),
    field("TRESUsageOutMax", Used(|job| &mut job.used.out_max)),
    field("TRESUsageOutMaxNode", Skipped),
    field("TRESUsageOutMaxTask", Skipped),
    field("TRESUsageOutMin", Skipped),
    field("TRESUsageOutMinNode", Skipped),
    field("TRESUsageOutMinTask", Skipped),
    field("TRESUsageOutTot", Used(|job| &mut job.used.out_total)),
    field("Timelimit", Other(Draft::time_limit)),
    field("TimelimitRaw", Other(Draft::time_limit_raw)),
    field("TotalCPU", Duration(|job| &mut job.used.total_cpu)),
    field("UID", Small(|job| &mut job.uid)),
    field("User", Word(|job| &mut job.user)),
    field("UserCPU", Duration(|job| &mut job.used.user_cpu)),
    field("WCKey", Word(|job| &mut job.wckey)),
    field("WCKeyID", Skipped),
    field("WorkDir", Any(|job| &mut job.work_dir)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sacct_is_asked_for() {
        let old = "AllocCPUS Comment AssocID Elapsed JobID JobName JobIDRaw State StdErr Start Invented";
        let expected = ["JobID", "JobIDRaw", "State", "AllocCPUS", "Elapsed", "Start", "Comment", "JobName"];
        assert_eq!(wanted(old.split(' ')), expected);
        let both = "ElapsedRaw Elapsed NCPUS AllocCPUS TimelimitRaw Timelimit";
        assert_eq!(wanted(both.split(' ')), ["ElapsedRaw", "NCPUS", "Timelimit"]);
    }

    #[test]
    fn fields_are_found_by_name() {
        for name in ["JobID", "jobid", "JOBNAME%30", " state "].iter().chain(&XDMOD) {
            assert!(Field::named(name).is_some(), "{name}");
        }
        assert!(Field::named("JobIdentity").is_none() && Field::named("").is_none());
        assert!(Field::names().contains("SLUID"));
        let mut names: Vec<_> = FIELDS.iter().map(|field| field.name.to_lowercase()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), FIELDS.len());
    }
}
