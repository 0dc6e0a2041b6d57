//! From the names and units of other monitoring systems to our metrics.
//!
//! * [`table`]: which series is which metric, in which unit. It is data: `table.toml` is what is shipped, a site adds its own.
//! * [`Mapper`]: applies it to readings; `rates` is what it knows of each series, to make rates of counters, and `pattern`
//!   how names are compared; `shares` keeps what cannot be said before the number of cores is known.
//! * [`Joiner`]: puts together what others tell in parts, by processor, interface or disk, and we as one number.
//!
//! A metric of ours that is a counter is given as a rate, because not all tell the sum: nanoseconds each second are a
//! thousand millionths of a core. What has no row keeps its own name and is counted.

mod join;
mod mapper;
mod pattern;
mod rates;
mod shares;
pub mod table;

pub use join::{Joined, Joiner};
pub use mapper::{Amount, Mapper, Point, Skipped, Target};
pub use rates::Unused;
pub use table::Table;
