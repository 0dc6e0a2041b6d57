//! What a control group used, and what it may use.
//!
//! A group is named by the text of `/proc/PID/cgroup` ([`Groups`]). On machines of the first version each controller has a
//! hierarchy of its own, on those of the second there is one for all; hybrid machines have both, and then a controller of the
//! first version goes before the second.
//!
//! All numbers include the groups below, except for throttling, limits and `limit_hits`, which are those of the very group.
//! Two numbers of the first version are sums over the groups that exist (`oom_kills`, and traffic where the kernel has no
//! recursive files): they fall when one of these groups is removed, so the caller keeps what it has seen.

pub mod devices;
mod groups;
pub mod text;
pub mod v1;
pub mod v2;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

pub use groups::{Controller, Groups};

use crate::read::Reader;
use devices::Stacks;

/// Readings after which is looked again for a controller that was not mounted.
const LOOK_AGAIN: u32 = 60;

/// What a group used until now. What is absent is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu: Cpu,
    pub memory: Memory,
    pub io: Io,
    pub pressure: Pressure,
    /// Processes and threads there are now.
    pub tasks: Option<u64>,
    /// On how many processors the group may run.
    pub processors: Option<u32>,
    /// The group was removed; nothing else is known then.
    pub is_gone: bool,
}

/// Time on processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cpu {
    pub total_ns: Option<u64>,
    /// User and system need not sum up to the total: kernels measure the one and sample the others.
    pub user_ns: Option<u64>,
    pub system_ns: Option<u64>,
    /// Periods in which a quota was in force, those in which it was used up, and how long tasks then waited.
    pub periods: Option<u64>,
    pub throttled_periods: Option<u64>,
    pub throttled_ns: Option<u64>,
}

/// Memory in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    pub current: Option<u64>,
    /// Absent in the second version before Linux 5.19.
    pub peak: Option<u64>,
    pub limit: Option<Limit>,
    pub swap: Option<u64>,
    pub anon: Option<u64>,
    /// The page cache, with `shmem`.
    pub file: Option<u64>,
    pub mapped_file: Option<u64>,
    pub shmem: Option<u64>,
    /// Absent in the second version before Linux 5.18.
    pub kernel: Option<u64>,
    /// Processes killed for want of memory.
    pub oom_kills: Option<u64>,
    /// How often the limit was met; the kernel then reclaims, which need not hurt.
    pub limit_hits: Option<u64>,
}

/// The most a group may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// None of its own; a group above it may have one.
    Unlimited,
    Bytes(u64),
}

/// From and to local storage, each request once (see [`devices`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Io {
    pub read_bytes: Option<u64>,
    pub written_bytes: Option<u64>,
    pub reads: Option<u64>,
    pub writes: Option<u64>,
}

/// Time in which tasks waited for a resource; only the second version has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    pub cpu: Stall,
    pub memory: Stall,
    pub io: Stall,
}

/// Microseconds in which at least one task waited, and in which all did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stall {
    pub some_us: Option<u64>,
    pub full_us: Option<u64>,
}

/// Where the hierarchies are mounted, as directories below the root.
#[derive(Default)]
struct Mounts {
    v1: Vec<(Controller, Vec<u8>)>,
    v2: Option<Vec<u8>>,
}

/// Reads groups again and again.
pub struct Cgroups {
    reader: Reader,
    stacks: Stacks,
    mounts: Option<Mounts>,
    /// Readings since the mounts were looked for.
    age: u32,
}

impl Default for Cgroups {
    fn default() -> Self {
        Cgroups::new("/sys/fs/cgroup", "/sys/dev/block")
    }
}

impl Cgroups {
    /// Reads groups below `root`, usually `/sys/fs/cgroup`, and which device lies on which below `block`, usually
    /// `/sys/dev/block`.
    pub fn new(root: impl Into<PathBuf>, block: impl Into<PathBuf>) -> Cgroups {
        Cgroups { reader: Reader::new(root), stacks: Stacks::new(block), mounts: None, age: 0 }
    }

    /// System calls made until now.
    pub fn calls(&self) -> u64 {
        self.reader.calls() + self.stacks.calls()
    }

    /// Reads what the groups used.
    pub fn read(&mut self, groups: &Groups) -> Usage {
        self.look(groups);
        let mut usage = Usage::default();
        let v1 = self.v1_directories(groups);
        v1::read(&mut self.reader, &mut self.stacks, &v1, &mut usage);
        let v2 = self.v2_directory(groups);
        if let Some(directory) = &v2 {
            let has = |controller| v1.iter().any(|found| found.controller == controller);
            v2::read(&mut self.reader, &mut self.stacks, directory, has, &mut usage);
        }
        let mut directories = v1.iter().map(|found| &found.path).chain(&v2).peekable();
        if usage == Usage::default() && directories.peek().is_some() {
            usage.is_gone = !directories.any(|path| self.reader.exists(path));
        }
        usage
    }

    /// The directory of a controller's group, in whichever version it is.
    pub fn directory(&mut self, groups: &Groups, controller: Controller) -> Option<PathBuf> {
        self.look(groups);
        let v1 = self.v1_directories(groups).into_iter().find(|found| found.controller == controller);
        let path = v1.map(|found| found.path).or_else(|| self.v2_directory(groups))?;
        Some(self.reader.root().join(OsStr::from_bytes(&path)))
    }

    fn v1_directories(&self, groups: &Groups) -> Vec<v1::Directory> {
        let mounts = self.mounts.iter().flat_map(|mounts| &mounts.v1);
        mounts
            .filter_map(|(controller, mount)| {
                let path = below(mount, groups.v1(*controller)?);
                Some(v1::Directory { controller: *controller, path, mount: mount.clone() })
            })
            .collect()
    }

    fn v2_directory(&self, groups: &Groups) -> Option<Vec<u8>> {
        Some(below(self.mounts.as_ref()?.v2.as_ref()?, groups.v2()?))
    }

    /// Looks for the mounts if that was not done, or was done a while ago and did not find all.
    fn look(&mut self, groups: &Groups) {
        self.age = self.age.saturating_add(1);
        let is_due = match &self.mounts {
            None => true,
            Some(mounts) => self.age > LOOK_AGAIN && mounts.lack(groups),
        };
        if is_due {
            self.age = 0;
            self.mounts = Some(Mounts::find(&mut self.reader));
        }
    }
}

impl Mounts {
    /// By the names in the root: `memory`, or `cpu,cpuacct` with links from both. A root with `cgroup.controllers` is the
    /// second version itself; hybrid machines have that in `unified`.
    fn find(reader: &mut Reader) -> Mounts {
        let mut mounts = Mounts::default();
        // A root that is not there has no mounts.
        let _ = reader.names(b".", |name| {
            for controller in name.split(|byte| *byte == b',').filter_map(Controller::named) {
                if !mounts.v1.iter().any(|(known, _)| *known == controller) {
                    mounts.v1.push((controller, name.to_vec()));
                }
            }
        });
        mounts.v2 = [&b"."[..], b"unified"]
            .into_iter()
            .find(|path| reader.exists(&[path, &b"/cgroup.controllers"[..]].concat()))
            .map(<[u8]>::to_vec);
        mounts
    }

    fn lack(&self, groups: &Groups) -> bool {
        let has = |controller| self.v1.iter().any(|(known, _)| *known == controller);
        groups.all_v1().any(|(controller, _)| !has(controller))
            || (groups.v2().is_some() && self.v2.is_none())
    }
}

/// A group's directory, from its mount and its path, which begins with `/`.
fn below(mount: &[u8], path: &[u8]) -> Vec<u8> {
    [mount, path].concat()
}

/// The path of a file in a directory.
fn file(directory: &[u8], name: &str) -> Vec<u8> {
    [directory, b"/", name.as_bytes()].concat()
}

#[cfg(test)]
mod tests;
