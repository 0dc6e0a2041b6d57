//! Readers of the kernel's files: bytes in, plain values out.
//!
//! A reader knows nothing of jobs or records. Whatever cannot be read or parsed is `None`: a process may
//! vanish at any moment, and a field that is missing is unknown, never zero.

pub mod cgroup;
pub mod counters;
pub mod gpu;
pub mod node;
pub mod process;
pub mod processes;
pub mod read;

pub use cgroup::{Cgroups, Groups};
pub use counters::Counters;
pub use gpu::Gpus;
pub use node::Node;
pub use process::Proc;
pub use processes::Processes;
