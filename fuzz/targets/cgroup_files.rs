//! Files of control groups, which a user may name, and of counters; kernels differ in both.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sample::cgroup::{Groups, devices, text, v1, v2};
use sample::counters::{processor, sums};

fuzz_target!(|bytes: &[u8]| {
    let _ = Groups::parse(bytes).up_to(|part| part.starts_with(b"job_"));
    let _ = (text::value(bytes), text::limit(bytes), text::pressure(bytes), text::count(bytes));
    let _ = devices::device(bytes);
    let _ = (v1::parse_ticks(bytes, 100), v1::parse_memory(bytes), v1::parse_blkio(bytes));
    let _ = (processor::parse_cpuinfo(bytes), sums::parse(bytes));
    let _ = (v2::parse_cpu(bytes), v2::parse_memory(bytes), v2::parse_io(bytes));
});
