//! The node agent: receives from the guest and the kernel, joins, folds, spools.
pub mod spool;
