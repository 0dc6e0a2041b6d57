//! Integral characteristics: what a series says in a few numbers. No I/O, no database.
//!
//! * [`series`] turns readings into spans: a value, and how long it held.
//! * [`characteristic`] turns spans into minimum, maximum, average, median and the spread between nodes.
//! * [`profile`] is a series in a few columns.
//! * [`coverage`] says on how much of what was expected they rest.

pub mod characteristic;
pub mod coverage;
pub mod profile;
pub mod series;

pub use characteristic::Characteristic;
pub use coverage::coverage;
pub use profile::profile;
pub use series::{Part, Span};
