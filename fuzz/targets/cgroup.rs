//! Where a process says it belongs: the lines of its cgroups, and the title of a slurmstepd.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let _ = agent::job::group(text);
    let _ = agent::job::from_stepd_title(text);
});
