//! What Slurm tells: of jobs that ended or run, and of itself.
//!
//! * [`text`]: `sacct`, lines of fields, of any version, order and delimiter.
//! * [`json`]: `sacct --json`.
//! * [`live`]: `scontrol show job -d`, where on its nodes a job runs.
//! * [`site`]: `scontrol show partition`, `node` and `config`.
//! * [`association`]: `sacctmgr show`, accounts and users.
//! * `field` knows the fields' names and where each belongs, `draft` is a record in the making, `complete` fills in what the
//!   steps and lists know, `cut` cuts lines and mends those that were broken, `id`, `tres` and `gres` read what is made of
//!   several parts, `printed` takes apart what `scontrol` prints, `foreign` recognizes JSON that is not of the accounting,
//!   `quotes` undoes those of a spreadsheet.

pub mod association;
mod complete;
mod cut;
mod draft;
mod field;
mod foreign;
mod gres;
mod id;
pub mod json;
pub mod live;
mod printed;
mod quotes;
pub mod site;
pub mod text;
mod tres;

pub use field::{XDMOD, wanted};
pub use printed::Report;
