//! Foreign formats in, our records out. No network, no server: whoever has a file or a packet brings it.
//!
//! Of jobs:
//!
//! * [`sink`]: where jobs and problems go, one at a time.
//! * [`slurm`]: `sacct`, as text and as JSON; what `scontrol` and `sacctmgr` tell of jobs that run, of the machine and of
//!   accounts.
//! * [`cleo`]: the short log, and rows of jobs.
//! * [`clustercockpit`]: its archive and its database, and an archive of our jobs in its form.
//!
//! Of what is measured:
//!
//! * [`monitor`]: the one reading that all of them give, and why something was dropped.
//! * [`ganglia`]: the state of a cluster as XML, and the packets of `gmond` and `gmetric`.
//! * [`collectd`]: its packets, what it posts, its files.
//! * [`influx`]: line protocol.
//! * [`mapping`]: from their names and units to our metrics.
//!
//! What cannot be read is reported with its place and reason, or counted by reason, and does not stop the rest. What is
//! absent is unknown.

pub mod cleo;
pub mod clustercockpit;
pub mod collectd;
pub mod ganglia;
pub mod influx;
mod lines;
pub mod mapping;
pub mod monitor;
mod number;
pub mod recent;
pub mod sink;
pub mod slurm;
mod time;
mod utf8;
mod word;

pub use sink::{At, Collected, Error, Outcome, Problem, Reason, Sink};
