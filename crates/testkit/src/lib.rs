//! What the tests of several crates share. Nothing that is shipped depends on it.

mod examples;
mod gate;
mod process;
mod skip;
mod wait;

pub use examples::examples;
pub use gate::Gate;
pub use process::{Killed, install, must};
pub use skip::{is_root, shared_data, skip};
pub use wait::{LIMIT, eventually, look_until, wait_for, wait_until, within};
