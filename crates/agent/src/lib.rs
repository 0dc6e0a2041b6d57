//! The node agent: receives from the guest and the kernel, joins, folds, spools.
//!
//! The modules along the way of the data:
//!
//! * [`receive`] takes the guests' messages, [`kernel`] the kernel's events and accounting;
//! * [`table`] joins them into program images, with [`job`], [`session`] and [`container`] to say where they ran and
//!   [`files`] to say what was executed and loaded; [`peek`] reads what stands in their memory;
//! * [`sampling`] measures the node and its jobs;
//! * [`fold`] puts what is alike into one row;
//! * [`output`] writes rows to the [`spool`];
//! * [`ship`] sends the spool to the server;
//! * [`checkpoint`] and [`progress`] let the next agent go on where this one stopped; [`state`] sets aside what is damaged;
//! * [`status`] says what runs, for whoever checks the node;
//! * [`run`] is the main thread, [`config`] what the administrator says, [`limits`] how it stays out of the
//!   jobs' way, [`counters`] what it counts.

pub mod checkpoint;
pub mod clock;
pub mod config;
pub mod container;
pub mod counters;
pub mod files;
pub mod fold;
pub mod job;
pub mod kernel;
pub mod limits;
pub mod output;
pub mod owners;
pub mod peek;
mod privacy;
pub mod progress;
pub mod receive;
pub mod run;
pub mod sampling;
mod say;
pub mod session;
mod settings;
pub mod shares;
pub mod ship;
pub mod spool;
pub mod state;
pub mod status;
pub mod table;
pub mod waits;

#[cfg(test)]
mod testing;
