//! Data of real centres: beside the workspace, or where `JOBGLASS_SHARED` says. Never part of the project.

use std::path::PathBuf;

pub fn data(test: &str, what: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let shared = std::env::var_os("JOBGLASS_SHARED").unwrap_or(beside.into());
    let data = PathBuf::from(shared).join("data").join(what);
    if !data.exists() {
        eprintln!("SKIPPED {test}: {} is not there", data.display());
        return None;
    }
    Some(data)
}
