//! Reads ELF: the notes of an object in memory or on disk, and what a file says about itself.
//!
//! The note walker has no dependency and allocates nothing, because the guest uses it inside users'
//! processes; everything about files is behind the feature `file`.
#![cfg_attr(not(test), no_std)]

pub mod notes;

#[cfg(feature = "file")]
pub mod image;
