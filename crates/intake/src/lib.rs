//! From a batch to rows, without the database: decodes what agents send, checks it and gives ids to what many rows
//! share, so that many batches can be made ready while one is written, and so that hostile bytes can be tried on it alone.

pub mod catalogue;
mod ids;
mod prepare;
mod shared;

pub use catalogue::Catalogue;
pub use prepare::{PrepareError, Prepared, Row, Running, prepare};
pub use shared::{ObjectRow, Shared};
