//! A virtual machine with an old kernel: no sensors, no frequencies, fewer columns.

use super::Files;

pub const FILES: Files = &[
    (
        "proc/stat",
        "cpu  100 20 30 4000 50 6 7 80
cpu0 50 10 15 2000 25 3 4 40
ctxt 1234
btime 1714381200
processes 99
procs_running 1
procs_blocked 0
",
    ),
    ("proc/loadavg", "0.00 0.01 0.05 1/123 4567\n"),
    ("proc/uptime", "12.34 20.00\n"),
    ("proc/meminfo", "MemTotal:        3880280 kB\nMemFree:         2880280 kB\nBuffers:            2104 kB\n"),
    ("proc/vmstat", "pswpin 0\npswpout 0\npgmajfault 812\n"),
    (
        "proc/diskstats",
        " 252       0 vda 1 2 3 4 5 6 7 8 9 10 11\n 252       1 vda1 1 2 3 4 5 6 7 8 9 10 11\n",
    ),
    ("sys/block/vda/size", "1\n"),
    (
        "proc/net/dev",
        "Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
  eth0:912033441 1220331    0    0    0     0          0         0 12033441 220331    0    0    0     0       0          0
",
    ),
    ("sys/class/net/eth0/device/vendor", "0x0001\n"),
    (
        "proc/cpuinfo",
        "processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 13
model name\t: QEMU Virtual CPU version 2.5+
cpu MHz\t\t: 2399.998
flags\t\t: fpu sse sse2 hypervisor
",
    ),
    ("sys/devices/system/cpu/online", "0-1\n"),
];
