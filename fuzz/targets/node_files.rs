//! Files of `/proc` and `/sys` about the node: users choose the names of what they mount.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sample::node::{
    cpu, cpulist, disks, hardware, infiniband, load, lustre, memory, network, nfs, peak, processor,
};

fuzz_target!(|text: &[u8]| {
    let _ = cpu::parse_stat(text);
    let _ = load::parse_loadavg(text);
    let _ = load::parse_uptime(text);
    let _ = load::parse_pressure(text);
    let _ = memory::parse_meminfo(text);
    let _ = memory::parse_vmstat(text);
    let _ = disks::parse_diskstats(text);
    let _ = network::parse_dev(text);
    let _ = infiniband::parse_state(text);
    let _ = infiniband::parse_rate(text);
    let _ = nfs::parse_mountstats(text);
    let _ = nfs::parse_mountinfo(text);
    let _ = lustre::parse_stats(text);
    let _ = hardware::parse_node_meminfo(text);
    let _ = hardware::parse_size(text);
    let _ = cpulist::parse_cpulist(text).map(|list| list.count());
    let processor = processor::parse_cpuinfo(text);
    let machine = peak::Machine {
        processor: &processor,
        cores: Some(text.len() as u64),
        base_hz: None,
        max_hz: None,
        sve_bytes: Some(16),
    };
    let _ = peak::peak(machine);
});
