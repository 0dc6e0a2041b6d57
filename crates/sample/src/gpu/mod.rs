//! The GPUs of the node, and which process uses them.
//!
//! Three ways lead to them, each in a file of its own: `nvidia` asks NVIDIA's library, `amd` reads the files of
//! the kernel driver (no ROCm library is needed), `drm` reads what Intel's and other drivers of the kernel tell.
//! `worker` calls each way on a thread of its own, because a driver that is ill does not answer, or not soon.
//!
//! What a card does not tell is `None`, never zero. A counter counts from some beginning that is not known; only
//! the difference of two readings means something, and one that fell began anew.

pub mod amd;
mod drm;
pub mod fdinfo;
pub mod files;
#[cfg(feature = "nvml")]
mod nvidia;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use worker::Gpus;

/// Who made a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vendor {
    Nvidia,
    Amd,
    Intel,
    Other,
}

/// The way on which a reading came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// NVIDIA's library.
    Nvidia,
    /// The files of `amdgpu` and its compute part, KFD.
    Amd,
    /// The files of other drivers: `i915`, `xe`, `nouveau` and their like.
    Drm,
}

/// What seldom changes about a card, or about a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// As the source numbers them. Of a part: its number in the card.
    pub index: u32,
    pub vendor: Vendor,
    /// The name that stays with a card: NVIDIA's `GPU-…` or `MIG-…`, AMD's unique id.
    pub uuid: Option<String>,
    /// On the PCI bus, as the kernel writes it: `0000:c1:00.0`.
    pub address: Option<String>,
    pub name: Option<String>,
    /// Its name, and the version if it has one.
    pub driver: Option<String>,
    /// In bytes.
    pub memory_total: Option<u64>,
    /// The UUID of the card that this is a part of: a MIG slice, a partition.
    pub parent: Option<String>,
}

/// A card at the moment it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceReading {
    /// Why the card does not work. Such a card tells little else.
    pub failing: Option<String>,
    /// The last critical error that the driver reported since the reading before; see NVIDIA's list of Xids.
    pub xid: Option<u64>,
    /// Percent of the time in which anything ran.
    pub utilisation: Option<u32>,
    /// Percent of the time in which memory was read or written.
    pub memory_utilisation: Option<u32>,
    /// In bytes.
    pub memory_used: Option<u64>,
    pub power_mw: Option<u64>,
    pub power_limit_mw: Option<u64>,
    /// A counter.
    pub energy_mj: Option<u64>,
    /// In degrees Celsius; of the hottest place where there are several.
    pub temperature: Option<i32>,
    pub graphics_mhz: Option<u32>,
    pub memory_mhz: Option<u32>,
    /// A counter that begins when the driver is loaded.
    pub ecc_corrected: Option<u64>,
    /// A counter that begins when the driver is loaded.
    pub ecc_uncorrected: Option<u64>,
    /// 0 is the fastest, 15 the slowest.
    pub performance_state: Option<u32>,
    /// Percent.
    pub fan: Option<u32>,
    /// KB each second, to the card.
    pub pcie_rx: Option<u64>,
    /// KB each second, from the card.
    pub pcie_tx: Option<u64>,
}

/// A process on a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessReading {
    pub pid: u32,
    /// Where in `Reading::devices` its card is.
    pub device: usize,
    /// Percent of the card.
    pub utilisation: Option<u32>,
    /// In bytes, of the card's own memory.
    pub memory: Option<u64>,
    /// A counter: time on the card's engines. Several run at once, so it may grow faster than the clock.
    pub engine_ns: Option<u64>,
    /// A counter: time on the engines that copy, where they are counted apart.
    pub copy_ns: Option<u64>,
    /// Counters, where a driver counts cycles instead of time: what was used, and what there was.
    pub cycles: Option<Cycles>,
}

/// Cycles of engines: the share is the difference of `busy` over the difference of `total`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cycles {
    pub busy: u64,
    pub total: u64,
}

/// All cards of one source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Parts come after the card they belong to.
    pub devices: Vec<(Arc<Device>, DeviceReading)>,
    pub processes: Vec<ProcessReading>,
}

/// What came of asking one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Read {
        reading: Reading,
        /// How long the source took to answer.
        took: Duration,
    },
    /// Asked at this time, it has not answered yet.
    Stale { since: Instant },
    /// There is nothing to ask.
    Absent {
        /// Why the driver that is there cannot be asked; nothing if there is no driver.
        reason: Option<Arc<str>>,
    },
}

/// Where things are.
#[derive(Debug, Clone)]
pub struct Setup {
    pub proc: PathBuf,
    pub sys: PathBuf,
    /// A name without a slash is looked up by the loader.
    pub nvml: PathBuf,
    /// After this time what was absent is looked for again.
    pub look_again: Duration,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            proc: "/proc".into(),
            sys: "/sys".into(),
            nvml: "libnvidia-ml.so.1".into(),
            look_again: Duration::from_secs(600),
        }
    }
}

impl ProcessReading {
    /// A process of which nothing is known but the card.
    fn new(pid: u32, device: usize) -> ProcessReading {
        ProcessReading {
            pid,
            device,
            utilisation: None,
            memory: None,
            engine_ns: None,
            copy_ns: None,
            cycles: None,
        }
    }

    /// Libraries open every card of a node. Where all that is known is zero, the process has done no more.
    fn is_unused(&self) -> bool {
        let busy = self.cycles.map(|cycles| cycles.busy);
        let numbers = [self.utilisation.map(u64::from), self.memory, self.engine_ns, self.copy_ns, busy];
        numbers.iter().all(|number| number.is_none_or(|number| number == 0))
    }
}

/// One way to ask for cards. It may hang; whoever calls it waits on another thread.
trait Look {
    /// Reads all cards. An error says why there are none to ask.
    ///
    /// `pids` are the processes that matter, for sources that look at each.
    fn read(&mut self, pids: &[u32]) -> Result<Reading, String>;
}

/// A percentage; drivers give other numbers where they know none.
fn percent(value: u64) -> Option<u32> {
    u32::try_from(value).ok().filter(|value| *value <= 100)
}
