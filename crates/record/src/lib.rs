//! Every record that crosses a boundary, and its encoding; no I/O.
//!
//! * [`wire`]: what the guest writes, key by key, and the writer it uses (no allocation).
//! * [`rules`]: what may leave a user's process: kept variables, secrets, programs to skip.
//! * [`guest`]: what the guest wrote, decoded by the agent.
//! * [`entry`]: what the agent spools.
//! * [`metric`]: the catalogue of what is measured.
//! * [`reading`]: what was measured, of a node and of its jobs.
//! * [`session`]: the names of sessions, and which of them are logins.
//! * [`accounting`]: a job as its batch system accounts for it.
//! * [`site`]: partitions, nodes and accounts as the batch system has them.
//! * [`measure`]: what other systems measured, of nodes and of jobs.
//! * [`rate`]: how often a job is to be read, where somebody asked for it.
//! * [`batch`]: entries on their way to the server, and its answer.
//! * [`enroll`]: how an agent gets a token of its own.
//!
//! The first two are the `no_std` core that lives inside users' processes; the rest needs the feature `std`.
#![cfg_attr(not(any(test, feature = "std")), no_std)]

pub mod rules;
pub mod wire;

#[cfg(feature = "std")]
pub mod accounting;
#[cfg(feature = "std")]
pub mod batch;
#[cfg(feature = "std")]
pub mod bytes;
#[cfg(feature = "std")]
pub mod enroll;
#[cfg(feature = "std")]
pub mod entry;
#[cfg(feature = "std")]
pub mod guest;
#[cfg(feature = "std")]
pub mod kind;
#[cfg(feature = "std")]
pub mod measure;
#[cfg(feature = "std")]
pub mod metric;
#[cfg(feature = "std")]
pub mod rate;
#[cfg(feature = "std")]
pub mod reading;
#[cfg(feature = "std")]
pub mod session;
#[cfg(feature = "std")]
pub mod site;
