//! Two EPYC 7763 with hyper-threads on a kernel of 4.18, where pressure is switched off; Omni-Path, a RAID of two NVMe, an
//! old Lustre. The agent is not root: the energy cannot be read.

use super::Files;
use super::xeon::sensor;
use crate::node::infiniband::State;
use crate::node::*;

pub const FILES: Files = &[
    (
        "proc/stat",
        "cpu  1 2 3 4 5 6 7 8 9 10
ctxt 11
btime 1714381200
processes 12
procs_running 13
procs_blocked 14
",
    ),
    (
        "proc/diskstats",
        " 259       0 nvme0n1 10 0 100 1 20 0 200 2 0 3 4 0 0 0 0
 259       1 nvme1n1 11 0 100 1 21 0 200 2 0 3 4 0 0 0 0
   9     127 md127 21 0 200 0 41 0 400 0 0 0 0 0 0 0 0
",
    ),
    ("sys/block/nvme0n1/size", "1\n"),
    ("sys/block/nvme1n1/size", "1\n"),
    ("sys/block/md127/slaves/nvme0n1/size", "1\n"),
    ("sys/block/md127/slaves/nvme1n1/size", "1\n"),
    ("sys/class/infiniband/hfi1_0/ports/1/link_layer", "InfiniBand\n"),
    ("sys/class/infiniband/hfi1_0/ports/1/state", "4: ACTIVE\n"),
    ("sys/class/infiniband/hfi1_0/ports/1/rate", "100 Gb/sec (4X EDR)\n"),
    ("sys/class/infiniband/hfi1_0/ports/1/counters/port_rcv_data", "250\n"),
    ("sys/class/infiniband/hfi1_0/ports/1/counters/port_xmit_data", "N/A (no PMA)\n"),
    ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
    ("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "65532610987\n"),
    ("sys/class/powercap/intel-rapl:0:0/name", "core\n"),
    ("sys/class/powercap/intel-rapl:0:0/max_energy_range_uj", "65532610987\n"),
    ("sys/class/hwmon/hwmon0/name", "k10temp\n"),
    ("sys/class/hwmon/hwmon0/temp1_input", "54125\n"),
    ("sys/class/hwmon/hwmon0/temp1_label", "Tctl\n"),
    ("sys/class/hwmon/hwmon0/temp10_input", "49750\n"),
    ("sys/class/hwmon/hwmon0/temp10_label", "Tccd8\n"),
    (
        "proc/fs/lustre/llite/work-ffff8f01d2c3a000/stats",
        "snapshot_time             1715312420.123456 secs.usecs
read_bytes                7 samples [bytes] 4096 4096 28672
open                      3 samples [regs]
",
    ),
    (
        "proc/cpuinfo",
        "processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 1
model name\t: AMD EPYC 7763 64-Core Processor
cpu MHz\t\t: 3243.397
flags\t\t: fpu sse sse2 ht avx fma avx2
",
    ),
    ("sys/devices/system/cpu/online", "0-255\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3529052\n"),
    ("sys/devices/system/cpu/cpu0/acpi_cppc/nominal_freq", "2450\n"),
];

pub fn ports() -> Vec<Port> {
    vec![Port {
        device: b"hfi1_0".into(),
        port: 1,
        link_layer: Some(b"InfiniBand".into()),
        state: Some(State::Active),
        rate_gbps: Some(100.0),
        received_bytes: Some(1000),
        sent_bytes: None,
        received_packets: None,
        sent_packets: None,
        receive_errors: None,
        send_discards: None,
        send_wait: None,
        link_downed: None,
    }]
}

pub fn temperatures() -> Vec<Temperature> {
    [("temp1", "Tctl", 54_125), ("temp10", "Tccd8", 49_750)]
        .map(|(name, label, value)| Temperature {
            sensor: sensor("hwmon0", "k10temp", name, Some(label)),
            millidegrees: Some(value),
        })
        .into()
}
