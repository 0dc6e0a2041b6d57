//! Cleo, a batch system of clusters at Moscow State University.
//!
//! * [`log`]: the short log, one line for each thing that happened to a task.
//! * [`rows`]: one row for each task, as portals of its time were given them.

pub mod log;
pub mod rows;

use std::collections::BTreeSet;

use record::accounting::Accounting;

/// Nodes as `node:processor,…`, or only their names, once for each processor. Nothing if these are no names.
fn take_nodes<'a>(lists: impl Iterator<Item = &'a str>, job: &mut Accounting) -> Option<()> {
    let mut names = BTreeSet::new();
    let mut cpus = 0;
    for place in lists.flat_map(|list| list.split(',')).map(str::trim).filter(|place| !place.is_empty()) {
        names.insert(place.split(':').next().unwrap_or(place));
        cpus += 1;
    }
    if cpus == 0 {
        return Some(());
    }
    job.node_list = Some(hostlist::fold(names.iter().copied()).ok()?);
    (job.nodes, job.cpus) = (Some(names.len() as u64), Some(cpus));
    Some(())
}
