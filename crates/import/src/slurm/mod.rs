//! What `sacct` tells of jobs.
//!
//! * [`text`]: lines of fields, of any version, order and delimiter.
//! * [`json`]: `sacct --json`.
//! * `field` knows the fields' names and where each belongs, `draft` is a record in the making, `cut` cuts lines and
//!   mends those that were broken, `id` and `tres` read what is made of several parts.

mod cut;
mod draft;
mod field;
mod id;
pub mod json;
pub mod text;
mod tres;

pub use field::XDMOD;
