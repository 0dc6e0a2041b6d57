//! Cleo.
