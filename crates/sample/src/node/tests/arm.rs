//! A Grace Hopper node: 72 cores, the memory of the GPU as a NUMA node without processors, power of the whole module.

use super::Files;

pub const FILES: Files = &[
    ("proc/stat", "cpu  1 2 3 4 5 6 7 8 9 10\n"),
    ("proc/meminfo", "MemTotal:       600832448 kB\nHugepagesize:     524288 kB\n"),
    (
        "proc/cpuinfo",
        "processor\t: 0
BogoMIPS\t: 2000.00
Features\t: fp asimd evtstrm aes atomics fphp asimdhp cpuid asimdrdm sve sve2 bf16
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd4f
CPU revision\t: 0
",
    ),
    ("proc/sys/abi/sve_default_vector_length", "16\n"),
    ("sys/class/hwmon/hwmon2/name", "power_meter\n"),
    ("sys/class/hwmon/hwmon2/power1_average", "301000000\n"),
    ("sys/class/hwmon/hwmon2/power1_label", "Module Power Socket 0\n"),
    ("sys/devices/system/cpu/online", "0-71\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3447000\n"),
    ("sys/devices/system/cpu/cpu0/acpi_cppc/nominal_freq", "0\n"),
    ("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n"),
    ("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n"),
    ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       501234688 kB\n"),
    ("sys/devices/system/node/node0/cpulist", "0-71\n"),
    ("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:       99597760 kB\n"),
    ("sys/devices/system/node/node1/cpulist", "\n"),
];
