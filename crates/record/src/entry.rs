//! What the agent spools and ships: program images, object lists, files, gaps, health, readings.
//!
//! Encoded as CBOR arrays by field number; a new field gets a new number and is optional, so that older and
//! newer sides read each other. Absent means unknown: no number here is ever zero for want of knowledge.

use minicbor::{Decode, Encode};
use serde::Serialize;

use crate::bytes::Bytes;
use crate::reading::Reading;

/// One entry of a spool.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Entry {
    /// A program image that has ended, or one that still runs; or several that are alike.
    #[n(0)]
    Image(#[n(0)] Box<Image>),
    /// A list of loaded objects, to which images refer by its number.
    #[n(1)]
    Objects(#[n(0)] ObjectList),
    /// What is known of a file, to which images and objects refer by its number.
    #[n(2)]
    File(#[n(0)] File),
    /// Something that could not be recorded, with its size.
    #[n(3)]
    Gap(#[n(0)] Gap),
    /// How the agent fares.
    #[n(4)]
    Health(#[n(0)] Health),
    /// What was measured.
    #[n(5)]
    Reading(#[n(0)] Box<Reading>),
}

/// Nanoseconds since 1970.
pub type Nanos = u64;

/// Names one program image on a host: the start time survives an exec, so the exec's number belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize)]
pub struct ImageKey {
    #[n(0)]
    pub pid: u32,
    /// When the process (not the image) began.
    #[n(1)]
    pub process_start: Nanos,
    /// 0 is a forked copy of its parent, 1 the first program executed in the process.
    #[n(2)]
    pub exec: u32,
}

/// One program image, from exec (or fork) to its end.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Image {
    #[n(0)]
    pub key: ImageKey,
    #[n(1)]
    pub start: Nanos,
    #[n(2)]
    pub end: Option<Nanos>,
    #[n(3)]
    pub ended_by: EndedBy,
    #[n(4)]
    pub exit_code: Option<u32>,
    #[n(5)]
    pub signal: Option<u32>,
    #[n(6)]
    pub ppid: Option<u32>,
    #[n(7)]
    pub uid: Option<u32>,
    #[n(8)]
    pub user: Option<String>,
    #[n(9)]
    pub host: String,
    #[n(10)]
    pub place: Place,
    #[n(11)]
    pub exe: Option<Bytes>,
    /// Refers to a [`File`].
    #[n(12)]
    pub exe_file: Option<u64>,
    #[n(13)]
    pub exe_deleted: bool,
    #[n(14)]
    pub argv: Option<Vec<Bytes>>,
    #[n(15)]
    pub argv_cut: bool,
    #[n(16)]
    pub cwd: Option<Bytes>,
    #[n(17)]
    pub modules: Option<Vec<Bytes>>,
    #[n(18)]
    pub module_files: Option<Vec<Bytes>>,
    #[n(19)]
    pub env: Option<Vec<Bytes>>,
    #[n(20)]
    pub container: Option<Container>,
    /// Refers to an [`ObjectList`].
    #[n(21)]
    pub objects: Option<u64>,
    /// Objects loaded after the start; refers to an [`ObjectList`].
    #[n(22)]
    pub late_objects: Option<u64>,
    /// How many objects are known to be missing in the lists.
    #[n(23)]
    pub objects_cut: u64,
    #[n(24)]
    pub used: Used,
    /// How many images this row stands for.
    #[n(25)]
    pub count: u64,
    /// [`source`] bits.
    #[n(26)]
    pub source: u8,
    /// The image of which this process is a forked copy.
    #[n(27)]
    pub forked_from: Option<ImageKey>,
    /// Why the guest said nothing.
    #[n(28)]
    pub without_guest: Option<WithoutGuest>,
    /// The numbers of each rank, where equal ranks were folded into this row.
    #[n(29)]
    pub ranks: Vec<RankUse>,
    /// When this was written, if the image still ran then: how it ends is told by another record, whose key is the same.
    #[n(30)]
    pub running_at: Option<Nanos>,
    /// There was such a record, and this one takes its place. Where ranks were folded, each says so itself.
    #[cbor(n(31), default)]
    pub reported: bool,
}

impl Image {
    /// The images of which this says that they run.
    pub fn running(&self) -> impl Iterator<Item = ImageKey> + '_ {
        self.named().filter(|_| self.running_at.is_some())
    }

    /// The images that were reported while they ran, and of which this says that they have ended.
    pub fn ended(&self) -> impl Iterator<Item = ImageKey> + '_ {
        self.named().filter(|_| self.running_at.is_none())
    }

    fn named(&self) -> impl Iterator<Item = ImageKey> + '_ {
        let is_named = self.reported || self.running_at.is_some();
        let own = Some(self.key).filter(|_| is_named && self.ranks.is_empty());
        own.into_iter().chain(self.ranks.iter().filter_map(|rank| rank.key))
    }
}

/// How an image ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum EndedBy {
    #[n(0)]
    Unknown,
    #[n(1)]
    Exit,
    #[n(2)]
    Signal,
    #[n(3)]
    Exec,
}

/// Where in the machine and in whose job an image ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Place {
    #[n(0)]
    pub cluster: Option<String>,
    #[n(1)]
    pub job: Option<String>,
    #[n(2)]
    pub step: Option<String>,
    #[n(3)]
    pub rank: Option<u32>,
    #[n(4)]
    pub node: Option<String>,
    #[n(5)]
    pub job_from: Option<JobFrom>,
    /// What the process itself said its job was, where that is not the true one.
    #[n(6)]
    pub claimed_job: Option<String>,
    /// The login session or service, for a program outside any batch job.
    #[n(7)]
    pub session: Option<String>,
}

/// Who says which job a process belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum JobFrom {
    /// The process's control group, which only the resource manager can set.
    #[n(0)]
    Cgroup,
    /// Descent from the resource manager's step daemon.
    #[n(1)]
    Stepd,
    /// The process's own environment: a claim.
    #[n(2)]
    Environment,
}

/// What kind of container, and of which image.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode, Serialize)]
pub struct Container {
    #[n(0)]
    pub kind: String,
    #[n(1)]
    pub image: Option<Bytes>,
}

/// What an image used; summed over `count`, the peak being the highest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct Used {
    #[n(0)]
    pub user_ns: Option<u64>,
    #[n(1)]
    pub system_ns: Option<u64>,
    #[n(2)]
    pub max_rss_bytes: Option<u64>,
    #[n(3)]
    pub read_bytes: Option<u64>,
    #[n(4)]
    pub write_bytes: Option<u64>,
}

/// One rank of a folded row.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RankUse {
    #[n(0)]
    pub rank: u32,
    #[n(1)]
    pub pid: u32,
    #[n(2)]
    pub start: Nanos,
    #[n(3)]
    pub end: Option<Nanos>,
    #[n(4)]
    pub used: Used,
    /// How many images of this rank are summed here.
    #[n(5)]
    pub count: u64,
    /// The image's name, if it runs or was reported while it ran.
    #[n(6)]
    pub key: Option<ImageKey>,
}

/// Where the knowledge about an image comes from.
pub mod source {
    pub const GUEST: u8 = 1;
    pub const KERNEL: u8 = 2;
    pub const PROC: u8 = 4;

    /// The bits' names.
    pub fn names(bits: u8) -> Vec<&'static str> {
        [(GUEST, "guest"), (KERNEL, "kernel"), (PROC, "proc")]
            .into_iter()
            .filter(|(bit, _)| bits & bit != 0)
            .map(|(_, name)| name)
            .collect()
    }
}

/// Why the guest said nothing about an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum WithoutGuest {
    /// The process was not started with the guest.
    #[n(0)]
    NotLoaded,
    /// The executable has no dynamic loader.
    #[n(1)]
    Static,
    /// The user switched it off.
    #[n(2)]
    Off,
    /// A seccomp filter came with the process.
    #[n(4)]
    Seccomp,
    /// The executable gains privileges, and the loader ignores preloads.
    #[n(5)]
    Privileged,
    /// The guest was there, or should have been, and nothing arrived.
    #[n(6)]
    Lost,
    /// Gone before it could be looked at.
    #[n(7)]
    Unknown,
    /// A forked copy does not speak; its parent's image did.
    #[n(8)]
    Forked,
    /// It was running before the agent.
    #[n(9)]
    Earlier,
}

/// A list of loaded objects; `id` is the hash of its content.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ObjectList {
    #[n(0)]
    pub id: u64,
    #[n(1)]
    pub objects: Vec<Object>,
}

/// A loaded object.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Object {
    #[n(0)]
    pub path: Bytes,
    #[n(1)]
    pub build_id: Option<Bytes>,
    #[n(2)]
    pub signature: Option<Bytes>,
    /// Refers to a [`File`].
    #[n(3)]
    pub file: Option<u64>,
    /// Only the process says so: the kernel did not report such a mapping, and no file was looked at.
    #[cbor(n(4), default)]
    pub claimed: bool,
}

/// A distinct file: device, inode, size and time of change together name one content.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct File {
    #[n(0)]
    pub id: u64,
    #[n(1)]
    pub path: Bytes,
    #[n(2)]
    pub dev: u64,
    #[n(3)]
    pub inode: u64,
    #[n(4)]
    pub size: u64,
    #[n(5)]
    pub mtime: Nanos,
    #[n(6)]
    pub uid: Option<u32>,
    #[n(7)]
    pub mode: Option<u32>,
    /// xxh3-128 of the content.
    #[n(8)]
    pub hash: Option<Bytes>,
    /// Why there is no hash.
    #[n(9)]
    pub unhashed: Option<String>,
    #[n(10)]
    pub build_id: Option<Bytes>,
    #[n(11)]
    pub signature: Option<Bytes>,
    /// Whether the file names a dynamic loader; absent if it is not ELF.
    #[n(12)]
    pub dynamic: Option<bool>,
}

/// A time in which not everything was seen.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Gap {
    #[n(0)]
    pub from: Nanos,
    #[n(1)]
    pub to: Nanos,
    #[n(2)]
    pub reason: GapReason,
    /// Processes and threads begun in that time and not seen, by the kernel's own count.
    #[n(3)]
    pub forks: Option<u64>,
    /// Kernel events known to be lost.
    #[n(4)]
    pub events: Option<u64>,
    /// Finished images that were held in memory and are gone.
    #[n(5)]
    pub images: Option<u64>,
}

/// Why there is a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// The agent was stopped in good order.
    #[n(0)]
    AgentStopped,
    /// The agent ended without saying so.
    #[n(1)]
    AgentKilled,
    /// The kernel had more events than the agent took.
    #[n(2)]
    EventsLost,
    /// Entries could not be written: disk or quota full.
    #[n(3)]
    SpoolFull,
    /// An administrator switched the agent off.
    #[n(4)]
    SwitchedOff,
    /// The kernel had no room for all it had to say of mapped files: programs that ended before anyone could look may lack objects.
    #[n(5)]
    MappingsLost,
    /// Records of programs were lost that had been reported as running: of those reported before, it is not known which still run.
    #[n(6)]
    EndsLost,
}

/// How the agent fares: counters since its start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Health {
    #[n(0)]
    pub time: Nanos,
    #[n(1)]
    pub started: Nanos,
    #[n(2)]
    pub version: String,
    #[n(3)]
    pub host: String,
    /// Name and value of each counter.
    #[n(4)]
    pub counters: Vec<(String, u64)>,
    /// What the agent cannot see, in words.
    #[n(5)]
    pub blind: Vec<String>,
}
