//! What the kernel says about every process of the node: events ([`connector`]) and accounting
//! ([`taskstats`]) over netlink, mapped files ([`mappings`]) in perf's rings, and its [`log`].

pub mod connector;
pub mod log;
pub mod mappings;
mod netlink;
mod numbers;
mod perf_ring;
pub mod taskstats;

pub use connector::{Connector, Event};
pub use log::Log;
pub use mappings::{Mappings, Record};
pub use taskstats::{TaskStats, Taskstats};

/// What a read from a kernel socket brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// Messages taken.
    pub messages: usize,
    /// The kernel dropped messages because we were too slow.
    pub overrun: bool,
    /// Whatever happened until then has been given, monotonic.
    pub until: u64,
}
