//! Two Xeon Platinum 8358 without hyper-threads, InfiniBand and Ethernet of one adapter, a disk of the system and a scratch
//! NVMe, home over NFS on two mount points, Lustre.

use super::Files;
use crate::node::cpu::{Cpu, Ticks};
use crate::node::hardware::{Cache, Topology};
use crate::node::infiniband::State;
use crate::node::load::{Stall, Stalls};
use crate::node::network::Traffic;
use crate::node::sensors::Sensor;
use crate::node::*;
use crate::node::{lustre, nfs};

pub const FILES: Files = &[
    (
        "proc/stat",
        "cpu  184403219 1022 9120331 402211984 120033 0 331022 0 0 0
cpu0 2881300 16 142505 6284562 1875 0 5172 0 0 0
cpu1 2881301 16 142506 6284563 1876 0 5173 0 0 0
intr 3811022344 0 9 0 0 0 0 0 0 1 0 0 0 0 0 0 0
ctxt 9120334411
btime 1714381200
processes 8812001
procs_running 65
procs_blocked 2
softirq 1220331022 0 1 2 3 4 5 6 7 8 9
",
    ),
    ("proc/loadavg", "64.12 63.88 60.01 65/1432 1182733\n"),
    ("proc/uptime", "931220.18 40221198.40\n"),
    (
        "proc/pressure/cpu",
        "some avg10=0.11 avg60=0.20 avg300=0.18 total=120331022
full avg10=0.00 avg60=0.00 avg300=0.00 total=0
",
    ),
    (
        "proc/pressure/memory",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=11
full avg10=0.00 avg60=0.00 avg300=0.00 total=7
",
    ),
    (
        "proc/pressure/io",
        "some avg10=12.50 avg60=3.20 avg300=1.18 total=920331022
full avg10=9.75 avg60=2.00 avg300=0.90 total=720331022
",
    ),
    (
        "proc/meminfo",
        "MemTotal:       528135168 kB
MemFree:        301223344 kB
MemAvailable:   411002233 kB
Buffers:            4096 kB
Cached:         120330022 kB
SwapCached:            0 kB
Active:         98221100 kB
Inactive:       90221100 kB
Active(anon):   55221100 kB
SwapTotal:       8388604 kB
SwapFree:        8388604 kB
Dirty:             12288 kB
Writeback:             0 kB
Shmem:           2097152 kB
Slab:            9120334 kB
SReclaimable:    7340032 kB
SUnreclaim:      1780302 kB
CommitLimit:    272456188 kB
Committed_AS:   90112233 kB
VmallocTotal:   34359738367 kB
HugePages_Total:    1024
HugePages_Free:      512
HugePages_Rsvd:        0
Hugepagesize:       2048 kB
Hugetlb:         2097152 kB
DirectMap4k:     1221100 kB
",
    ),
    (
        "proc/vmstat",
        "nr_free_pages 75305836
pgpgin 221100334
pgpgout 331100334
pswpin 12
pswpout 34
pgfault 99120334411
pgmajfault 88120
oom_kill 3
thp_fault_alloc 120331
",
    ),
    (
        "proc/diskstats",
        "   7       0 loop0 55 0 2142 20 0 0 0 0 0 30 20 0 0 0 0 0 0
   8       0 sda 120331 2201 9120334 50221 331022 40221 22011992 90221 0 80112 140442 0 0 0 0 1022 300
   8       1 sda1 1022 0 40960 300 12 0 96 4 0 280 304 0 0 0 0 0 0
   8       2 sda2 119309 2201 9079374 49921 331010 40221 22011896 90217 0 79832 140138 0 0 0 0 0 0
 259       0 nvme0n1 9120334 0 2048000000 812201 4411022 0 1024000000 620331 3 1402211 1432532 5 0 40960 9 22 4
 253       0 dm-0 121510 0 9078350 51002 371231 0 22011896 110221 0 80100 161223 0 0 0 0 0 0
",
    ),
    ("sys/block/loop0/size", "0\n"),
    ("sys/block/sda/size", "937703088\n"),
    ("sys/block/nvme0n1/size", "3750748848\n"),
    ("sys/block/dm-0/slaves/sda2/size", "935600128\n"),
    (
        "proc/net/dev",
        "Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 912033441 1220331    0    0    0     0          0         0 912033441 1220331    0    0    0     0       0          0
  eno1: 120334411022 98120334    2    7    0     0          0    120331 80334411022 71120334    0    1    0     0       0          0
   ib0: 5120334411 4120334    0    0    0     0          0         0 4120334411 3120334    0   12    0     0       0          0
",
    ),
    ("sys/class/net/lo/address", "00:00:00:00:00:00\n"),
    ("sys/class/net/eno1/device/vendor", "0x15b3\n"),
    ("sys/class/net/ib0/device/vendor", "0x15b3\n"),
    ("sys/class/infiniband/mlx5_0/node_guid", "b8ce:f603:0012:3456\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/phys_state", "5: LinkUp\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "2512033441102\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "1512033441102\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_packets", "9120334411\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_packets", "8120334411\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_errors", "0\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_discards", "4\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_wait", "120331022\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/counters/link_downed", "1\n"),
    ("sys/class/infiniband/mlx5_1/ports/1/link_layer", "Ethernet\n"),
    ("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n"),
    ("sys/class/infiniband/mlx5_1/ports/1/rate", "40 Gb/sec (4X QDR)\n"),
    ("sys/class/infiniband/mlx5_1/ports/1/counters/port_rcv_data", "0\n"),
    ("sys/class/infiniband/mlx5_1/ports/1/counters/port_xmit_data", "0\n"),
    ("sys/class/powercap/intel-rapl/enabled", "1\n"),
    ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
    ("sys/class/powercap/intel-rapl:0/energy_uj", "120334411022\n"),
    ("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850\n"),
    ("sys/class/powercap/intel-rapl:0:0/name", "dram\n"),
    ("sys/class/powercap/intel-rapl:0:0/energy_uj", "20334411022\n"),
    ("sys/class/powercap/intel-rapl:0:0/max_energy_range_uj", "65712999613\n"),
    ("sys/class/powercap/intel-rapl:1/name", "package-1\n"),
    ("sys/class/powercap/intel-rapl:1/energy_uj", "110334411022\n"),
    ("sys/class/powercap/intel-rapl:1/max_energy_range_uj", "262143328850\n"),
    ("sys/class/powercap/intel-rapl-mmio:0/name", "package-0\n"),
    ("sys/class/powercap/intel-rapl-mmio:0/energy_uj", "120334411022\n"),
    ("sys/class/hwmon/hwmon0/name", "acpi_power_meter\n"),
    ("sys/class/hwmon/hwmon0/power1_average", "612000000\n"),
    ("sys/class/hwmon/hwmon0/power1_average_interval", "1000\n"),
    ("sys/class/hwmon/hwmon1/name", "coretemp\n"),
    ("sys/class/hwmon/hwmon1/temp1_input", "71000\n"),
    ("sys/class/hwmon/hwmon1/temp1_label", "Package id 0\n"),
    ("sys/class/hwmon/hwmon1/temp2_input", "69000\n"),
    ("sys/class/hwmon/hwmon1/temp2_label", "Core 0\n"),
    ("sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n"),
    ("sys/class/thermal/thermal_zone0/temp", "71000\n"),
    ("sys/class/thermal/cooling_device0/type", "Processor\n"),
    ("proc/self/mountstats", MOUNTSTATS),
    (
        "proc/self/mountinfo",
        "22 28 0:21 / /proc rw,nosuid - proc proc rw
28 1 253:0 / / rw,relatime shared:1 - xfs /dev/mapper/root rw
61 28 0:52 /alice /home/alice rw,relatime shared:30 - nfs4 nfs01:/home/alice rw,vers=4.2
62 28 0:52 /bob /home/bob\\040b rw,relatime shared:31 - nfs4 nfs01:/home/bob rw,vers=4.2
63 28 0:60 / /scratch rw shared:32 - lustre 10.0.0.1@o2ib:/scratch rw
",
    ),
    (
        "sys/kernel/debug/lustre/llite/scratch-ffff9c5f4a3e8800/stats",
        "snapshot_time             1715312420.123456789 secs.nsecs
start_time                1714381300.000000000 secs.nsecs
elapsed_time              931120.123456789 secs.nsecs
read_bytes                120331 samples [bytes] 1 4194304 504711118848 2116983411114221568
write_bytes               80331 samples [bytes] 8 4194304 336855781376 1412983411114221568
read                      120331 samples [usecs] 1 9120 812201 91203
write                     80331 samples [usecs] 2 8120 712201 81203
ioctl                     22 samples [reqs]
open                      4022 samples [usecs] 1 900 8122 9120
close                     4020 samples [usecs] 1 900 7122 8120
seek                      120 samples [usecs] 0 1 12 13
readdir                   12 samples [usecs] 1 2 3 4
getattr                   90331 samples [usecs] 1 2 3 4
unlink                    31 samples [usecs] 1 2 3 4
inode_permission          8120334 samples [usecs] 0 1 2 3
",
    ),
    (
        "proc/cpuinfo",
        "processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 106
model name\t: Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz
stepping\t: 6
cpu MHz\t\t: 3282.117
cache size\t: 49152 KB
flags\t\t: fpu sse sse2 ht avx f16c fma avx2 avx512f avx512dq avx512bw avx512vl
bugs\t\t: spectre_v1

processor\t: 1
vendor_id\t: Other
",
    ),
    ("sys/devices/system/cpu/online", "0-63\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/base_frequency", "2600000\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3400000\n"),
    ("sys/devices/system/cpu/cpu0/acpi_cppc/nominal_freq", "2600\n"),
    ("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n"),
    ("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n"),
    ("sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n"),
    ("sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "0\n"),
    ("sys/devices/system/cpu/cpu0/cache/index3/level", "3\n"),
    ("sys/devices/system/cpu/cpu0/cache/index3/type", "Unified\n"),
    ("sys/devices/system/cpu/cpu0/cache/index3/size", "49152K\n"),
    ("sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "0-31\n"),
    ("sys/devices/system/cpu/cpu0/cache/uevent", ""),
    ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       263412736 kB\nNode 0 MemFree: 1 kB\n"),
    ("sys/devices/system/node/node0/cpulist", "0-31\n"),
    ("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:       264722432 kB\nNode 1 MemFree: 1 kB\n"),
    ("sys/devices/system/node/node1/cpulist", "32-63\n"),
    ("sys/devices/system/node/possible", "0-1\n"),
];

const MOUNTSTATS: &str = "device proc mounted on /proc with fstype proc
device /dev/mapper/root mounted on / with fstype xfs
device nfs01:/home/alice mounted on /home/alice with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=1048576,wsize=1048576,namlen=255,acregmin=3,hard,proto=tcp,nconnect=4,sec=sys
\tage:\t930112
\timpl_id:\tname='',domain='',date='0,0'
\tcaps:\tcaps=0x3ffbffff,wtmult=512,dtsize=1048576,bsize=0,namlen=255
\tnfsv4:\tbm0=0xfdffbfff,bm1=0xf9be3e,bm2=0x68800,acl=0x3,sessions,pnfs=not configured,lease_time=90
\tsec:\tflavor=1,pseudoflavor=1
\tevents:\t120331 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27
\tbytes:\t9120334 8120334 4096 8192 7120334 8128526 1740 1985
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 763 1 1 0 25 220331 220329 2 1220331 0 18 2201 1120
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: 1740 1742 1 320160 7398120 12 2201 2290 0
\t       WRITE: 1985 1985 0 8620331 301720 22 3301 3390 1
\t     GETATTR: 90331 90331 0 18120334 21120334 120 40221 42201 0
device nfs01:/home/bob mounted on /home/bob\\040b with fstype nfs4 statvers=1.1
\tbytes:\t9120334 8120334 4096 8192 7120334 8128526 1740 1985
device 10.0.0.1@o2ib:/scratch mounted on /scratch with fstype lustre
";

pub fn reading() -> Reading {
    let stall = |total_us, avg10| Some(Stall { total_us, avg10 });
    Reading {
        cpu: Some(Cpu {
            ticks: Some(Ticks {
                user: Some(184_403_219),
                nice: Some(1022),
                system: Some(9_120_331),
                idle: Some(402_211_984),
                iowait: Some(120_033),
                irq: Some(0),
                softirq: Some(331_022),
                steal: Some(0),
                guest: Some(0),
                guest_nice: Some(0),
            }),
            context_switches: Some(9_120_334_411),
            forks: Some(8_812_001),
            running: Some(65),
            blocked: Some(2),
            boot_time: Some(1_714_381_200),
        }),
        load: Some(Load { one: 64.12, five: 63.88, fifteen: 60.01, runnable: 65, existing: 1432 }),
        uptime: Some(Uptime { since_boot: 931_220.18, idle: Some(40_221_198.4) }),
        pressure: Pressure {
            cpu: Some(Stalls { some: stall(120_331_022, 0.11), full: stall(0, 0.0) }),
            memory: Some(Stalls { some: stall(11, 0.0), full: stall(7, 0.0) }),
            io: Some(Stalls { some: stall(920_331_022, 12.5), full: stall(720_331_022, 9.75) }),
        },
        memory: Some(Memory {
            total: Some(528_135_168 << 10),
            free: Some(301_223_344 << 10),
            available: Some(411_002_233 << 10),
            buffers: Some(4096 << 10),
            cached: Some(120_330_022 << 10),
            shmem: Some(2_097_152 << 10),
            slab_reclaimable: Some(7_340_032 << 10),
            dirty: Some(12_288 << 10),
            swap_total: Some(8_388_604 << 10),
            swap_free: Some(8_388_604 << 10),
            committed: Some(90_112_233 << 10),
            huge_pages_total: Some(1024),
            huge_pages_free: Some(512),
            huge_page_size: Some(2 << 20),
        }),
        paging: Some(Paging {
            swapped_in: Some(12),
            swapped_out: Some(34),
            major_faults: Some(88_120),
            oom_kills: Some(3),
        }),
        disks: disks(),
        interfaces: interfaces(),
        ports: ports(),
        energy: [
            ("0", "package-0", 120_334_411_022, 262_143_328_850),
            ("1", "package-1", 110_334_411_022, 262_143_328_850),
            ("0:0", "dram", 20_334_411_022, 65_712_999_613),
        ]
        .map(|(id, name, energy, max)| Zone {
            id: id.into(),
            name: Some(name.into()),
            energy_uj: Some(energy),
            max_energy_uj: Some(max),
        })
        .into(),
        powers: vec![Power {
            sensor: sensor("hwmon0", "acpi_power_meter", "power1", None),
            microwatts: Some(612_000_000),
            is_average: true,
        }],
        temperatures: vec![
            Temperature {
                sensor: sensor("hwmon1", "coretemp", "temp1", Some("Package id 0")),
                millidegrees: Some(71_000),
            },
            Temperature {
                sensor: sensor("thermal_zone0", "x86_pkg_temp", "temp", None),
                millidegrees: Some(71_000),
            },
        ],
    }
}

pub fn sensor(place: &str, chip: &str, name: &str, label: Option<&str>) -> Sensor {
    Sensor { place: place.into(), chip: Some(chip.into()), name: name.into(), label: label.map(Into::into) }
}

fn disks() -> Vec<Disk> {
    let system = Disk {
        name: b"sda".into(),
        is_stacked: false,
        reads: 120_331,
        read_bytes: 9_120_334 * 512,
        writes: 331_022,
        written_bytes: 22_011_992 * 512,
        io_ms: 80_112,
        weighted_ms: 140_442,
        discards: Some(0),
        discarded_bytes: Some(0),
    };
    let scratch = Disk {
        name: b"nvme0n1".into(),
        is_stacked: false,
        reads: 9_120_334,
        read_bytes: 2_048_000_000 * 512,
        writes: 4_411_022,
        written_bytes: 1_024_000_000 * 512,
        io_ms: 1_402_211,
        weighted_ms: 1_432_532,
        discards: Some(5),
        discarded_bytes: Some(40_960 * 512),
    };
    let root = Disk {
        name: b"dm-0".into(),
        is_stacked: true,
        reads: 121_510,
        read_bytes: 9_078_350 * 512,
        writes: 371_231,
        written_bytes: 22_011_896 * 512,
        io_ms: 80_100,
        weighted_ms: 161_223,
        discards: Some(0),
        discarded_bytes: Some(0),
    };
    vec![system, scratch, root]
}

fn interfaces() -> Vec<Interface> {
    let traffic = |bytes, packets, errors, drops| Traffic { bytes, packets, errors, drops };
    vec![
        Interface {
            name: b"lo".into(),
            is_physical: false,
            received: traffic(912_033_441, 1_220_331, 0, 0),
            sent: traffic(912_033_441, 1_220_331, 0, 0),
        },
        Interface {
            name: b"eno1".into(),
            is_physical: true,
            received: traffic(120_334_411_022, 98_120_334, 2, 7),
            sent: traffic(80_334_411_022, 71_120_334, 0, 1),
        },
        Interface {
            name: b"ib0".into(),
            is_physical: true,
            received: traffic(5_120_334_411, 4_120_334, 0, 0),
            sent: traffic(4_120_334_411, 3_120_334, 0, 12),
        },
    ]
}

fn ports() -> Vec<Port> {
    let fabric = Port {
        device: b"mlx5_0".into(),
        port: 1,
        link_layer: Some(b"InfiniBand".into()),
        state: Some(State::Active),
        rate_gbps: Some(200.0),
        received_bytes: Some(4 * 2_512_033_441_102),
        sent_bytes: Some(4 * 1_512_033_441_102),
        received_packets: Some(9_120_334_411),
        sent_packets: Some(8_120_334_411),
        receive_errors: Some(0),
        send_discards: Some(4),
        send_wait: Some(120_331_022),
        link_downed: Some(1),
    };
    let ethernet = Port {
        device: b"mlx5_1".into(),
        link_layer: Some(b"Ethernet".into()),
        state: Some(State::Down),
        rate_gbps: Some(40.0),
        received_bytes: Some(0),
        sent_bytes: Some(0),
        received_packets: None,
        sent_packets: None,
        receive_errors: None,
        send_discards: None,
        send_wait: None,
        link_downed: None,
        ..fabric.clone()
    };
    vec![fabric, ethernet]
}

pub fn remote() -> remote::Reading {
    let bytes = nfs::Bytes {
        normal_read: 9_120_334,
        normal_written: 8_120_334,
        direct_read: 4096,
        direct_written: 8192,
        server_read: 7_120_334,
        server_written: 8_128_526,
    };
    let operations =
        nfs::Operations { all: 94_057, reads: 1740, writes: 1985, retransmissions: 2, timeouts: 1 };
    let alice = nfs::Mount {
        device: b"nfs01:/home/alice".into(),
        point: b"/home/alice".into(),
        number: Some((0, 52)),
        bytes: Some(bytes),
        operations: Some(operations),
    };
    let bob = nfs::Mount {
        device: b"nfs01:/home/bob".into(),
        point: b"/home/bob b".into(),
        operations: None,
        ..alice.clone()
    };
    let stats = lustre::Stats {
        reads: Some(120_331),
        read_bytes: Some(504_711_118_848),
        writes: Some(80_331),
        written_bytes: Some(336_855_781_376),
        opens: Some(4022),
        closes: Some(4020),
        metadata_operations: Some(4022 + 4020 + 12 + 90_331 + 31),
    };
    let scratch = lustre::Mount { name: b"scratch-ffff9c5f4a3e8800".into(), stats };
    remote::Reading { nfs: vec![alice, bob], lustre: vec![scratch] }
}

pub fn topology() -> Topology {
    Topology { sockets: Some(2), cores: Some(64), threads: Some(64) }
}

pub fn caches() -> Vec<Cache> {
    [(1, "Data", 48 << 10, 1), (3, "Unified", 48 << 20, 32)]
        .map(|(level, kind, bytes, shared_by)| Cache {
            level,
            kind: Some(kind.into()),
            bytes: Some(bytes),
            shared_by: Some(shared_by),
        })
        .into()
}
