//! Integral characteristics: what a series says in a few numbers. No I/O, no database.
//!
//! * [`series`] turns readings into spans: a value, and how long it held.
//! * [`characteristic`] turns spans into minimum, maximum, average, median and the spread between nodes.
//! * [`profile`] is a series in a few columns.
//! * [`threshold`] says for which share of the time they were beyond a bound, [`site`] which bounds a site has.
//! * [`overrides`] is what a site says over its batch system, [`pattern`] which nodes it means.
//! * [`people`] is what it says of those who work with it, [`limits`] how much they may keep.
//! * [`coverage`] says on how much of what was expected they rest.
//! * [`on_node`] is a job on one node, with what is left of readings that were put together.
//! * [`job`] is all of it for a job on all its nodes.

pub mod characteristic;
pub mod coverage;
pub mod job;
pub mod limits;
pub mod on_node;
pub mod overrides;
pub mod pattern;
pub mod people;
pub mod profile;
pub mod series;
pub mod site;
#[cfg(test)]
mod testing;
pub mod threshold;

pub use characteristic::Characteristic;
pub use coverage::coverage;
pub use job::{Job, State};
pub use on_node::{OnNode, Stretch};
pub use overrides::{Overrides, Unmatched};
pub use pattern::{Pattern, PatternError};
pub use people::{OfProject, People, SeeProject};
pub use profile::profile;
pub use series::{Part, Span};
pub use site::{Site, SiteError};
pub use threshold::{Reserved, Shares, Threshold};
