//! `sacct` as text: users choose the names of their jobs.
#![no_main]

use import::Collected;
use import::slurm::text::{Options, read};
use jiff::tz::TimeZone;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let listed = |fields: &str| Options {
        fields: Some(fields.split(',').map(str::to_owned).collect()),
        ..Options::new(TimeZone::UTC)
    };
    for options in [
        Options::new(TimeZone::UTC),
        Options::xdmod(TimeZone::UTC),
        Options { delimiter: "☃".into(), ..listed("jobid,jobname,state") },
        listed("jobid,jobname,state,start,end,alloctres,reqmem"),
        listed("jobidraw,submitline,ncpus,comment"),
        Options { is_strict: true, ..listed("jobid,state,start,end,jobname") },
    ] {
        let _ = read(text, "fuzz", &options, &mut Collected::default());
    }
});
