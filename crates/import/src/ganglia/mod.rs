//! What Ganglia tells.
//!
//! * [`xml`]: the state of a cluster or grid, as `gmond` and `gmetad` give it to whoever connects.
//! * [`packet`]: what `gmond` and `gmetric` send; `xdr` is how, `old` what it was before Ganglia 3.1.
//! * `value` turns a type and a slope into a value.

mod old;
pub mod packet;
mod value;
mod xdr;
pub mod xml;

pub use packet::Packets;
