//! Whole nodes, as trees of files like those of real machines.

mod arm;
mod epyc;
mod vm;
mod xeon;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use super::cpulist::CpuList;
use super::hardware::Topology;
use super::*;

/// Path and content.
type Files = &'static [(&'static str, &'static str)];

fn write(root: &Path, path: &[u8], content: &[u8]) {
    let path = root.join(OsStr::from_bytes(path));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn tree(files: Files) -> TempDir {
    let tree = tempfile::tempdir().unwrap();
    for (path, content) in files {
        write(tree.path(), path.as_bytes(), content.as_bytes());
    }
    tree
}

/// Processors numbered as most machines do: first one thread of each core, then the others.
fn processors(root: &Path, sockets: u32, cores: u32, threads_per_core: u32) {
    let all = sockets * cores;
    for cpu in 0..all * threads_per_core {
        let core = cpu % all;
        let siblings: Vec<String> = (0..threads_per_core).map(|n| (core + n * all).to_string()).collect();
        let dir = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        write(
            root,
            format!("{dir}/physical_package_id").as_bytes(),
            format!("{}\n", core / cores).as_bytes(),
        );
        write(root, format!("{dir}/core_id").as_bytes(), format!("{}\n", core % cores).as_bytes());
        write(root, format!("{dir}/thread_siblings_list").as_bytes(), siblings.join(",").as_bytes());
    }
}

fn node(tree: &TempDir) -> Node {
    Node::new(tree.path().join("proc"), tree.path().join("sys"))
}

fn hardware(tree: &TempDir) -> Hardware {
    Hardware::read(tree.path().join("proc"), tree.path().join("sys"))
}

#[test]
fn a_xeon_is_read_whole() {
    let tree = tree(xeon::FILES);
    let mut node = node(&tree);
    assert_eq!(node.read(), xeon::reading());
    assert_eq!(node.read(), xeon::reading(), "and again");
    assert_eq!(node.remote().read(), xeon::remote());
}

#[test]
fn a_xeon_is_made_of() {
    let tree = tree(xeon::FILES);
    processors(tree.path(), 2, 32, 1);
    let hardware = hardware(&tree);
    assert_eq!(hardware.topology, xeon::topology());
    assert_eq!(
        hardware.processor.model.as_deref(),
        Some(&b"Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz"[..])
    );
    assert_eq!(hardware.processor.vendor.as_deref(), Some(&b"GenuineIntel"[..]));
    assert_eq!((hardware.base_hz, hardware.max_hz), (Some(2_600_000_000), Some(3_400_000_000)));
    assert_eq!(hardware.memory, Some(528_135_168 << 10));
    assert_eq!(hardware.caches, xeon::caches());
    let numa: Vec<_> = hardware.numa.iter().map(|node| (node.node, node.memory, node.cpus.clone())).collect();
    let expected = [
        (0, Some(263_412_736 << 10), Some(CpuList(vec![(0, 31)]))),
        (1, Some(264_722_432 << 10), Some(CpuList(vec![(32, 63)]))),
    ];
    assert_eq!(numa, expected);
    assert_eq!(hardware.peak.flops, Some(64 * 32 * 2_600_000_000));
}

#[test]
fn an_epyc_is_read() {
    let tree = tree(epyc::FILES);
    let reading = node(&tree).read();
    assert_eq!(reading.pressure, Pressure::default());
    assert_eq!((reading.load, reading.memory, reading.paging), (None, None, None));
    let disks: Vec<_> = reading.disks.iter().map(|disk| (disk.name.as_slice(), disk.is_stacked)).collect();
    assert_eq!(disks, [(&b"nvme0n1"[..], false), (b"nvme1n1", false), (b"md127", true)]);
    assert_eq!(reading.ports, epyc::ports());
    assert_eq!(reading.temperatures, epyc::temperatures());
    let energy: Vec<_> = reading.energy.iter().map(|zone| (zone.is_summed(), zone.energy_uj)).collect();
    assert_eq!(energy, [(true, None), (false, None)], "only root may read it");
    let remote = node(&tree).remote().read();
    assert_eq!(remote.nfs, []);
    let stats = remote.lustre.first().unwrap().stats;
    assert_eq!((stats.read_bytes, stats.writes, stats.metadata_operations), (Some(28_672), Some(0), Some(3)));
}

#[test]
fn an_epyc_is_made_of() {
    let tree = tree(epyc::FILES);
    processors(tree.path(), 2, 64, 2);
    let hardware = hardware(&tree);
    assert_eq!(hardware.topology, Topology { sockets: Some(2), cores: Some(128), threads: Some(256) });
    assert_eq!(hardware.base_hz, Some(2_450_000_000));
    assert_eq!(hardware.peak.flops, Some(128 * 16 * 2_450_000_000));
    assert_eq!((hardware.memory, hardware.numa.len()), (None, 0));
}

#[test]
fn an_arm_is_made_of() {
    let tree = tree(arm::FILES);
    processors(tree.path(), 1, 72, 1);
    let hardware = hardware(&tree);
    assert_eq!(hardware.topology, Topology { sockets: Some(1), cores: Some(72), threads: Some(72) });
    assert_eq!(hardware.processor.model.as_deref(), Some(&b"Neoverse-V2"[..]));
    assert_eq!(hardware.base_hz, None, "the firmware's 0 is unknown");
    assert_eq!(hardware.peak.flops, Some(72 * 16 * 3_447_000_000));
    let cpus: Vec<_> = hardware.numa.iter().map(|node| node.cpus.as_ref().map(CpuList::count)).collect();
    assert_eq!(cpus, [Some(72), Some(0)]);
    assert_eq!(hardware.caches.first().unwrap().bytes, None);
    let reading = node(&tree).read();
    let power = reading.powers.first().unwrap();
    assert_eq!((power.microwatts, power.is_average), (Some(301_000_000), true));
    assert_eq!(power.sensor.label.as_deref(), Some(&b"Module Power Socket 0"[..]));
}

#[test]
fn a_virtual_machine_has_little() {
    let tree = tree(vm::FILES);
    processors(tree.path(), 2, 1, 1);
    let reading = node(&tree).read();
    let ticks = reading.cpu.unwrap().ticks.unwrap();
    assert_eq!((ticks.steal, ticks.guest, ticks.guest_nice), (Some(80), None, None));
    let memory = reading.memory.unwrap();
    assert_eq!((memory.free, memory.available), (Some(2_880_280 << 10), None));
    assert_eq!(reading.paging.unwrap().oom_kills, None);
    let disks: Vec<_> = reading.disks.iter().map(|disk| (disk.name.as_slice(), disk.discards)).collect();
    assert_eq!(disks, [(&b"vda"[..], None)]);
    assert!(reading.interfaces.iter().all(|interface| interface.is_physical));
    assert!(reading.ports.is_empty() && reading.energy.is_empty());
    assert!(reading.powers.is_empty() && reading.temperatures.is_empty());
    assert_eq!(node(&tree).remote().read(), remote::Reading::default());
    let peak = hardware(&tree).peak;
    assert_eq!(peak.flops, Some(2 * 4 * 2_399_998_000));
    assert!(peak.rule.contains("the frequency at the moment of reading; a virtual machine"), "{}", peak.rule);
}

#[test]
fn an_empty_tree_is_unknown_and_not_zero() {
    let tree = tempfile::tempdir().unwrap();
    for root in [tree.path(), Path::new("/none/such")] {
        assert_eq!(Node::new(root, root).read(), Reading::default());
        assert_eq!(Remote::new(root, root).read(), remote::Reading::default());
        let hardware = Hardware::read(root, root);
        assert_eq!(hardware.topology, Topology::default());
        assert_eq!(hardware.peak.rule, "unknown: no rule for the instruction sets of this processor");
    }
}

#[test]
fn a_poorly_described_machine_has_no_sockets() {
    let tree = tree(arm::FILES);
    processors(tree.path(), 1, 72, 1);
    write(tree.path(), b"sys/devices/system/cpu/cpu3/topology/physical_package_id", b"-1\n");
    assert_eq!(hardware(&tree).topology, Topology { sockets: None, cores: Some(72), threads: Some(72) });
}

/// How often files are opened is what a reading costs, and some of them interrupt a core or ask an adapter.
#[test]
fn devices_are_looked_up_every_sixty_readings() {
    let tree = tree(xeon::FILES);
    let mut node = node(&tree);
    let mut calls = |n| {
        let before = node.calls();
        (0..n).for_each(|_| assert!(!node.read().ports.is_empty()));
        node.calls() - before
    };
    let (first, second) = (calls(1), calls(1));
    assert!(second < first, "{second} {first}");
    assert_eq!(calls(LOOK_AGAIN - 2), (LOOK_AGAIN - 2) * second);
    write(tree.path(), b"sys/class/hwmon/hwmon9/name", b"new\n");
    write(tree.path(), b"sys/class/hwmon/hwmon9/temp1_input", b"1\n");
    // The new chip: name, list, label that is not there, value.
    assert_eq!(calls(1), first + 3 + 4 + 2 + 3);
    assert_eq!(calls(1), second + 3);
}

#[test]
fn devices_that_vanish_are_unknown_until_looked_up_again() {
    let tree = tree(xeon::FILES);
    let mut node = node(&tree);
    node.read();
    fs::remove_dir_all(tree.path().join("sys/class/infiniband/mlx5_0")).unwrap();
    for _ in 1..LOOK_AGAIN {
        let ports = node.read().ports;
        assert_eq!((ports.len(), ports.first().unwrap().received_bytes), (2, None));
    }
    assert_eq!(node.read().ports.len(), 1);
}

/// Names are bytes: in lists of devices, and in texts.
#[test]
fn hostile_names_come_through() {
    let tree = tempfile::tempdir().unwrap();
    let name = b"a\n\xff b";
    let at = |before: &[u8], after: &[u8], content: &[u8]| {
        write(tree.path(), &[before, name, after].concat(), content);
    };
    at(b"sys/class/infiniband/", b"/ports/1/state", b"4: ACTIVE\n");
    at(b"sys/class/infiniband/", b"/ports/x\xff/state", b"4: ACTIVE\n");
    at(b"sys/class/powercap/intel-rapl:", b"/energy_uj", b"5\n");
    at(b"sys/class/hwmon/", b"/name", name);
    at(b"sys/class/hwmon/", b"/temp1_input", b"6\n");
    at(b"sys/class/hwmon/", b"/temp\xff_input", b"6\n");
    at(b"sys/class/thermal/thermal_zone", b"/temp", b"7\n");
    at(b"sys/kernel/debug/lustre/llite/", b"/stats", b"snapshot_time 1\n");
    at(b"sys/devices/system/node/node", b"/cpulist", b"0\n");
    // Directories where files are expected.
    write(tree.path(), b"proc/stat/x", b"");
    write(tree.path(), b"proc/self/mountstats/x", b"");
    let reading = node(&tree).read();
    let port = reading.ports.first().unwrap();
    assert_eq!((reading.ports.len(), port.device.as_slice()), (1, &name[..]));
    let zone = reading.energy.first().unwrap();
    assert_eq!((zone.id.as_slice(), zone.energy_uj), (&name[..], Some(5)));
    let values: Vec<_> = reading.temperatures.iter().map(|temperature| temperature.millidegrees).collect();
    assert_eq!(values, [Some(6), Some(7)]);
    assert_eq!(reading.temperatures.first().unwrap().sensor.chip.as_deref(), Some(&name[..]));
    assert_eq!(reading.cpu, None);
    let remote = node(&tree).remote().read();
    assert_eq!(remote.lustre.first().unwrap().name, name);
    assert_eq!(hardware(&tree).numa, []);
}

#[test]
fn a_reading_for_a_thread_of_its_own() {
    fn is_send<T: Send + 'static>() {}
    is_send::<Node>();
    is_send::<Remote>();
}

#[test]
fn this_machine_is_read() {
    let mut node = Node::default();
    let (first, second) = (node.read(), node.read());
    let ticks = |reading: &Reading| reading.cpu.unwrap().ticks.unwrap().user.unwrap();
    assert!(ticks(&first) > 0 && ticks(&second) >= ticks(&first));
    assert!(first.cpu.unwrap().forks.unwrap() > 1 && first.load.is_some());
    let memory = first.memory.unwrap();
    assert!(memory.free.unwrap() <= memory.total.unwrap());
    assert!(first.uptime.unwrap().since_boot <= second.uptime.unwrap().since_boot);
    assert!(first.interfaces.iter().any(|interface| interface.name == b"lo" && !interface.is_physical));
    assert!(first.paging.unwrap().major_faults.is_some());
    assert!(first.disks.iter().all(|disk| !disk.name.starts_with(b"loop")));
    let _ = node.remote().read();
    let hardware = Hardware::read("/proc", "/sys");
    let topology = hardware.topology;
    assert!(topology.threads.unwrap() >= topology.cores.unwrap() && topology.cores.unwrap() >= 1);
    assert_eq!(hardware.memory, memory.total);
    assert!(!hardware.processor.flags.is_empty() && !hardware.peak.rule.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Any bytes in any file of a node.
    #[test]
    fn any_content_is_read_without_a_panic(
        contents in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 8),
        first in 0usize..8,
    ) {
        let tree = tempfile::tempdir().unwrap();
        for ((path, _), content) in xeon::FILES.iter().zip(contents.iter().cycle().skip(first)) {
            write(tree.path(), path.as_bytes(), content);
        }
        let mut node = node(&tree);
        let _ = (node.read(), node.remote().read(), hardware(&tree));
    }
}
