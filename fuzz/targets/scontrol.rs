//! What `scontrol` and `sacctmgr` print: users write names and comments of jobs into it.
#![no_main]

use import::slurm::live::{Asked, read};
use import::slurm::{association, site};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let report = &mut |problem: import::Problem<'_>| drop(problem.to_string());
    let mut jobs = read(text, "fuzz", Asked::All, report);
    let count = jobs.len();
    jobs.sort_by_key(|job| job.job);
    jobs.dedup_by_key(|job| job.job);
    assert_eq!(jobs.len(), count, "a job is there twice");
    let one = read(text, "fuzz", Asked::One(1), report);
    assert!(one.iter().all(|job| job.job == 1) && one.len() <= 1);
    site::partitions(text, "fuzz", report);
    site::nodes(text, "fuzz", report);
    site::config(text, "fuzz", report);
    let mut associations = association::associations(text, "fuzz", report);
    let users = association::users(text, "fuzz", report);
    association::join(&mut associations, &users, &association::accounts(text, "fuzz", report));
});
