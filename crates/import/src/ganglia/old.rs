//! Metrics that `gmond` up to 3.0 sent by number alone: the receiver knew names, types and units.

/// How the value is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Of 32 bits, shorter ones too.
    Unsigned,
    Float,
    Double,
    Text,
}

use Form::{Double, Float, Text, Unsigned};

/// From number 1 on. There were more, of other systems than Linux, whose numbers were not the same in every version.
const METRICS: [(&str, Form, &str); 36] = [
    ("cpu_num", Unsigned, "CPUs"),
    ("cpu_speed", Unsigned, "MHz"),
    ("mem_total", Unsigned, "KB"),
    ("swap_total", Unsigned, "KB"),
    ("boottime", Unsigned, "s"),
    ("sys_clock", Unsigned, "s"),
    ("machine_type", Text, ""),
    ("os_name", Text, ""),
    ("os_release", Text, ""),
    ("cpu_user", Float, "%"),
    ("cpu_nice", Float, "%"),
    ("cpu_system", Float, "%"),
    ("cpu_idle", Float, "%"),
    ("cpu_aidle", Float, "%"),
    ("load_one", Float, ""),
    ("load_five", Float, ""),
    ("load_fifteen", Float, ""),
    ("proc_run", Unsigned, ""),
    ("proc_total", Unsigned, ""),
    ("mem_free", Unsigned, "KB"),
    ("mem_shared", Unsigned, "KB"),
    ("mem_buffers", Unsigned, "KB"),
    ("mem_cached", Unsigned, "KB"),
    ("swap_free", Unsigned, "KB"),
    ("gexec", Text, ""),
    ("heartbeat", Unsigned, ""),
    ("mtu", Unsigned, ""),
    ("location", Text, ""),
    ("bytes_out", Float, "bytes/sec"),
    ("bytes_in", Float, "bytes/sec"),
    ("pkts_in", Float, "packets/sec"),
    ("pkts_out", Float, "packets/sec"),
    ("disk_total", Double, "GB"),
    ("disk_free", Double, "GB"),
    ("part_max_used", Float, ""),
    ("cpu_wio", Float, "%"),
];

pub fn numbered(number: u32) -> Option<&'static (&'static str, Form, &'static str)> {
    METRICS.get(usize::try_from(number).ok()?.checked_sub(1)?)
}
