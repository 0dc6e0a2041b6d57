//! Foreign formats in, our records out. No network, no database: whoever has a file brings it.
//!
//! * [`sink`]: where jobs and problems go, one at a time.
//! * [`hostlist`]: lists of nodes, folded and expanded.
//! * [`slurm`]: `sacct`, as text and as JSON.
//! * [`cleo`]: the short log, and rows of jobs.
//!
//! What cannot be read is reported with its place and reason, and does not stop the rest. What is absent is unknown.

pub mod cleo;
pub mod hostlist;
mod lines;
mod number;
pub mod sink;
pub mod slurm;
mod time;
mod word;

pub use sink::{At, Collected, Error, Outcome, Problem, Reason, Sink};
