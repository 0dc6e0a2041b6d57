//! What collectd tells, in each of the ways it can be made to.
//!
//! * [`network`]: packets of the plugin `network`; `seal` is their signature and encryption, [`users`] who may use them.
//! * [`http`]: what `write_http` posts, as JSON.
//! * [`csv`]: the files of the plugin `csv`.
//! * [`types`]: `types.db`, which says what the values of a type are called.

pub mod csv;
pub mod http;
pub mod network;
mod seal;
pub mod types;
pub mod users;

pub use network::{Network, Security};
pub use types::Types;
pub use users::Users;

/// What the values of counters are in posts and files, as each plugin is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// `StoreRates false`
    Counts,
    /// `StoreRates true`
    Rates,
}

/// `name-instance`, or a name alone.
fn split_instance(text: &str) -> (&str, &str) {
    text.split_once('-').unwrap_or((text, ""))
}
