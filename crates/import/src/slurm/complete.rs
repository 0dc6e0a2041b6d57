//! What a job's own line leaves to others: to its steps, to its lists of resources, to its list of nodes.
//!
//! `sacct` measures steps, so memory and tasks are in their lines and not in the job's. What was allocated and requested stands in fields
//! of its own in some versions and only in `AllocTRES` and `ReqTRES` in others.

use record::accounting::{Accounting, State, Step, Tres};

/// The step that Slurm itself starts on each node: its tasks are not the user's.
const EXTERN: &str = "extern";

/// Fills in what the steps know.
pub fn from_steps(job: &mut Accounting) {
    let used = &mut job.used;
    used.max_rss = used.max_rss.or_else(|| job.steps.iter().filter_map(|step| step.used.max_rss).max());
    let tasks =
        |steps: &[Step]| steps.iter().filter(|step| step.step != EXTERN).filter_map(|step| step.tasks).max();
    job.tasks = job.tasks.or_else(|| tasks(&job.steps));
}

/// Fills in what the lists say of a job or a step. Nothing was allocated to one that waits or never ran, whatever Slurm writes there: some
/// versions repeat what was requested.
pub fn from_lists(job: &mut Accounting, is_unassigned: bool) {
    // None of these is ever 0.
    for count in [&mut job.cpus, &mut job.nodes, &mut job.requested_cpus, &mut job.requested_nodes] {
        *count = count.filter(|count| *count > 0);
    }
    let (cpus, nodes) = (of(&job.requested, "cpu"), of(&job.requested, "node"));
    job.requested_cpus = job.requested_cpus.or(cpus);
    job.requested_nodes = job.requested_nodes.or(nodes);
    if is_unassigned || job.state == Some(State::Pending) {
        job.requested_cpus = job.requested_cpus.or(job.cpus.take());
        job.requested_nodes = job.requested_nodes.or(job.nodes.take());
        (job.cpus, job.nodes) = (None, None);
        job.allocated.clear();
        return;
    }
    job.cpus = job.cpus.or_else(|| of(&job.allocated, "cpu"));
    job.nodes =
        job.nodes.or_else(|| of(&job.allocated, "node")).or_else(|| listed(job.node_list.as_deref()?));
}

fn of(list: &[Tres], kind: &str) -> Option<u64> {
    list.iter().find(|tres| tres.kind == kind).map(|tres| tres.count).filter(|count| *count > 0)
}

fn listed(nodes: &str) -> Option<u64> {
    hostlist::expand(nodes).ok().map(|nodes| nodes.len() as u64).filter(|count| *count > 0)
}
