//! Tests that cannot run everywhere say so in one form, which `scripts/test` counts.

use std::env;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Reports that a test did not run, and why. `scripts/test` counts these lines; with `CI=true` only missing shared data is a reason.
pub fn skip(test: &str, why: impl std::fmt::Display) {
    eprintln!("SKIPPED {test}: {why}");
}

/// Whether the test runs as root; reports that it is skipped if not.
pub fn is_root(test: &str) -> bool {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !is_root {
        skip(test, "needs root");
    }
    is_root
}

/// Data of real centers: beside the repository, or where `JOBGLASS_SHARED` says. Never part of the project.
pub fn shared_data(test: &str, what: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let data = PathBuf::from(env::var_os("JOBGLASS_SHARED").unwrap_or(beside.into())).join("data").join(what);
    let is_there = data.exists();
    if !is_there {
        skip(test, format_args!("no shared data at {}", data.display()));
    }
    is_there.then_some(data)
}
