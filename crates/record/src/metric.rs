//! The catalogue of metrics: what is measured, under which number it travels, and how it is to be read.
//!
//! A number is never given twice and never changes its meaning; a metric that is no longer measured keeps its row.
//! Values are whole numbers: what would have a fraction is counted in a smaller unit.

/// How a metric is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A state: it stands for the time until the next reading.
    Gauge,
    /// A sum that only grows; the difference between two readings is what happened between them.
    Counter,
}

/// What a value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    /// Of time; as a rate, how many things were busy.
    Nanoseconds,
    Count,
    /// Hundredths.
    Hundredths,
    /// Thousandths of a degree Celsius.
    MilliCelsius,
    MilliWatt,
    MicroJoule,
    MegaHertz,
}

/// Whose values a metric has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// A batch job or session on one node.
    Job,
    /// A whole node, whoever uses it.
    Node,
    /// A GPU, or a part of one.
    Card,
}

/// One row of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    pub id: u16,
    pub name: &'static str,
    pub of: Of,
    pub kind: Kind,
    pub unit: Unit,
    pub about: &'static str,
}

const fn job(id: u16, name: &'static str, kind: Kind, unit: Unit, about: &'static str) -> Metric {
    Metric { id, name, of: Of::Job, kind, unit, about }
}

const fn node(id: u16, name: &'static str, kind: Kind, unit: Unit, about: &'static str) -> Metric {
    Metric { id, name, of: Of::Node, kind, unit, about }
}

const fn card(id: u16, name: &'static str, kind: Kind, unit: Unit, about: &'static str) -> Metric {
    Metric { id, name, of: Of::Card, kind, unit, about }
}

use Kind::{Counter, Gauge};
use Unit::{Bytes, Count, Hundredths, MegaHertz, MicroJoule, MilliCelsius, MilliWatt, Nanoseconds};

/// Numbers by which agents and stores know a metric.
pub mod id {
    pub const CPU: u16 = 1;
    pub const CPU_USER: u16 = 2;
    pub const CPU_SYSTEM: u16 = 3;
    pub const CPU_THROTTLED: u16 = 4;
    pub const MEMORY: u16 = 10;
    pub const MEMORY_CACHE: u16 = 11;
    pub const MEMORY_PEAK: u16 = 12;
    pub const MEMORY_SWAP: u16 = 13;
    pub const READ_BYTES: u16 = 20;
    pub const WRITE_BYTES: u16 = 21;
    pub const READ_CHARS: u16 = 22;
    pub const WRITE_CHARS: u16 = 23;
    pub const DISK_READ: u16 = 24;
    pub const DISK_WRITE: u16 = 25;
    pub const PROCESSES: u16 = 30;
    pub const THREADS: u16 = 31;
    pub const JOB_LOAD: u16 = 32;
    pub const MINOR_FAULTS: u16 = 33;
    pub const MAJOR_FAULTS: u16 = 34;
    pub const SWITCHES: u16 = 35;
    pub const INVOLUNTARY_SWITCHES: u16 = 36;
    pub const OOM_KILLS: u16 = 37;
    pub const CPU_PRESSURE: u16 = 40;
    pub const MEMORY_PRESSURE: u16 = 41;
    pub const IO_PRESSURE: u16 = 42;
    pub const GPU: u16 = 50;
    pub const GPU_MEMORY: u16 = 51;
    pub const GPU_POWER: u16 = 52;
    pub const GPU_ENERGY: u16 = 53;
    pub const NODE_CPU_USER: u16 = 100;
    pub const NODE_CPU_NICE: u16 = 101;
    pub const NODE_CPU_SYSTEM: u16 = 102;
    pub const NODE_CPU_IDLE: u16 = 103;
    pub const NODE_CPU_IOWAIT: u16 = 104;
    pub const NODE_CPU_IRQ: u16 = 105;
    pub const NODE_CPU_SOFTIRQ: u16 = 106;
    pub const NODE_CPU_STEAL: u16 = 107;
    pub const NODE_LOAD: u16 = 110;
    pub const NODE_MEMORY_TOTAL: u16 = 120;
    pub const NODE_MEMORY_AVAILABLE: u16 = 121;
    pub const NODE_SWAP_USED: u16 = 122;
    pub const NODE_DISK_READ: u16 = 130;
    pub const NODE_DISK_WRITE: u16 = 131;
    pub const NODE_NET_RECEIVED: u16 = 132;
    pub const NODE_NET_SENT: u16 = 133;
    pub const NODE_IB_RECEIVED: u16 = 134;
    pub const NODE_IB_SENT: u16 = 135;
    pub const NODE_NFS_READ: u16 = 136;
    pub const NODE_NFS_WRITE: u16 = 137;
    pub const NODE_LUSTRE_READ: u16 = 138;
    pub const NODE_LUSTRE_WRITE: u16 = 139;
    pub const NODE_ENERGY: u16 = 140;
    pub const NODE_TEMPERATURE: u16 = 141;
    pub const NODE_CPU_PRESSURE: u16 = 150;
    pub const NODE_MEMORY_PRESSURE: u16 = 151;
    pub const NODE_IO_PRESSURE: u16 = 152;
    pub const NODE_INSTRUCTIONS: u16 = 160;
    pub const NODE_CYCLES: u16 = 161;
    pub const NODE_L1_MISSES: u16 = 162;
    pub const NODE_LAST_LEVEL_MISSES: u16 = 163;
    pub const NODE_LOADS: u16 = 164;
    pub const NODE_STORES: u16 = 165;
    pub const NODE_FLOPS: u16 = 166;
    pub const NODE_FLOPS_SCALAR: u16 = 167;
    pub const NODE_FLOPS_128: u16 = 168;
    pub const NODE_FLOPS_256: u16 = 169;
    pub const NODE_FLOPS_512: u16 = 170;
    pub const NODE_VECTOR_OPERATIONS: u16 = 171;
    pub const NODE_IB_PACKETS_RECEIVED: u16 = 180;
    pub const NODE_IB_PACKETS_SENT: u16 = 181;
    pub const CARD_UTILISATION: u16 = 200;
    pub const CARD_MEMORY: u16 = 201;
    pub const CARD_OWN_UTILISATION: u16 = 202;
    pub const CARD_OWN_MEMORY: u16 = 203;
    pub const CARD_MEMORY_TOTAL: u16 = 204;
    pub const CARD_MEMORY_UTILISATION: u16 = 205;
    pub const CARD_POWER: u16 = 206;
    pub const CARD_ENERGY: u16 = 207;
    pub const CARD_TEMPERATURE: u16 = 208;
    pub const CARD_CLOCK: u16 = 209;
    pub const CARD_MEMORY_CLOCK: u16 = 210;
    pub const CARD_ERRORS_CORRECTED: u16 = 211;
    pub const CARD_ERRORS_UNCORRECTED: u16 = 212;
    pub const CARD_RECEIVED: u16 = 213;
    pub const CARD_SENT: u16 = 214;
}

/// All metrics.
pub const METRICS: &[Metric] = &[
    job(id::CPU, "cpu", Counter, Nanoseconds, "CPU time; as a rate, cores in use"),
    job(id::CPU_USER, "cpu_user", Counter, Nanoseconds, "CPU time in programs"),
    job(id::CPU_SYSTEM, "cpu_system", Counter, Nanoseconds, "CPU time in the kernel for programs"),
    job(
        id::CPU_THROTTLED,
        "cpu_throttled",
        Counter,
        Nanoseconds,
        "time in which a CPU limit held programs back",
    ),
    job(id::MEMORY, "memory", Gauge, Bytes, "memory in use without the page cache"),
    job(id::MEMORY_CACHE, "memory_cache", Gauge, Bytes, "page cache charged to the job"),
    job(
        id::MEMORY_PEAK,
        "memory_peak",
        Gauge,
        Bytes,
        "the kernel's own peak since the job began, page cache included",
    ),
    job(id::MEMORY_SWAP, "memory_swap", Gauge, Bytes, "memory swapped out"),
    job(id::READ_BYTES, "read_bytes", Counter, Bytes, "read from storage"),
    job(id::WRITE_BYTES, "write_bytes", Counter, Bytes, "written to storage"),
    job(
        id::DISK_READ,
        "disk_read",
        Counter,
        Bytes,
        "read from block devices of the node, not from network file systems",
    ),
    job(
        id::DISK_WRITE,
        "disk_write",
        Counter,
        Bytes,
        "written to block devices of the node, not to network file systems",
    ),
    job(id::READ_CHARS, "read_chars", Counter, Bytes, "read by system calls, wherever the data lay"),
    job(id::WRITE_CHARS, "write_chars", Counter, Bytes, "written by system calls, wherever the data went"),
    job(id::PROCESSES, "processes", Gauge, Count, "processes alive"),
    job(id::THREADS, "threads", Gauge, Count, "threads alive"),
    job(
        id::JOB_LOAD,
        "job_load",
        Gauge,
        Count,
        "threads of the job that ran, could run, or waited for a disk",
    ),
    job(id::MINOR_FAULTS, "minor_faults", Counter, Count, "page faults without a disk"),
    job(id::MAJOR_FAULTS, "major_faults", Counter, Count, "page faults that waited for a disk"),
    job(id::SWITCHES, "switches", Counter, Count, "times a main thread gave up its processor"),
    job(
        id::INVOLUNTARY_SWITCHES,
        "involuntary_switches",
        Counter,
        Count,
        "times a main thread was made to give up its processor",
    ),
    job(id::OOM_KILLS, "oom_kills", Counter, Count, "processes killed for want of memory"),
    job(
        id::CPU_PRESSURE,
        "cpu_pressure",
        Counter,
        Nanoseconds,
        "time in which something waited for a processor",
    ),
    job(
        id::MEMORY_PRESSURE,
        "memory_pressure",
        Counter,
        Nanoseconds,
        "time in which something waited for memory",
    ),
    job(id::IO_PRESSURE, "io_pressure", Counter, Nanoseconds, "time in which something waited for a device"),
    job(id::GPU, "gpu", Gauge, Hundredths, "GPUs in use: the sum of the utilisation of its GPUs"),
    job(id::GPU_MEMORY, "gpu_memory", Gauge, Bytes, "memory of GPUs in use"),
    job(id::GPU_POWER, "gpu_power", Gauge, MilliWatt, "power of its GPUs"),
    job(id::GPU_ENERGY, "gpu_energy", Counter, MicroJoule, "energy of its GPUs"),
    node(id::NODE_CPU_USER, "node_cpu_user", Counter, Nanoseconds, "CPU time in programs, all cores"),
    node(id::NODE_CPU_NICE, "node_cpu_nice", Counter, Nanoseconds, "CPU time in programs of low priority"),
    node(id::NODE_CPU_SYSTEM, "node_cpu_system", Counter, Nanoseconds, "CPU time in the kernel"),
    node(id::NODE_CPU_IDLE, "node_cpu_idle", Counter, Nanoseconds, "time without work"),
    node(
        id::NODE_CPU_IOWAIT,
        "node_cpu_iowait",
        Counter,
        Nanoseconds,
        "idle time with a disk request pending",
    ),
    node(id::NODE_CPU_IRQ, "node_cpu_irq", Counter, Nanoseconds, "time in interrupts"),
    node(id::NODE_CPU_SOFTIRQ, "node_cpu_softirq", Counter, Nanoseconds, "time in deferred interrupts"),
    node(id::NODE_CPU_STEAL, "node_cpu_steal", Counter, Nanoseconds, "time taken by the hypervisor"),
    node(id::NODE_LOAD, "node_load", Gauge, Hundredths, "load average of one minute"),
    node(id::NODE_MEMORY_TOTAL, "node_memory_total", Gauge, Bytes, "memory of the node"),
    node(
        id::NODE_MEMORY_AVAILABLE,
        "node_memory_available",
        Gauge,
        Bytes,
        "memory that programs could still get",
    ),
    node(id::NODE_SWAP_USED, "node_swap_used", Gauge, Bytes, "swap space in use"),
    node(id::NODE_DISK_READ, "node_disk_read", Counter, Bytes, "read from local disks"),
    node(id::NODE_DISK_WRITE, "node_disk_write", Counter, Bytes, "written to local disks"),
    node(id::NODE_NET_RECEIVED, "node_net_received", Counter, Bytes, "received by network cards"),
    node(id::NODE_NET_SENT, "node_net_sent", Counter, Bytes, "sent by network cards"),
    node(id::NODE_IB_RECEIVED, "node_ib_received", Counter, Bytes, "received by InfiniBand and Omni-Path"),
    node(id::NODE_IB_SENT, "node_ib_sent", Counter, Bytes, "sent by InfiniBand and Omni-Path"),
    node(id::NODE_NFS_READ, "node_nfs_read", Counter, Bytes, "read from NFS servers"),
    node(id::NODE_NFS_WRITE, "node_nfs_write", Counter, Bytes, "written to NFS servers"),
    node(id::NODE_LUSTRE_READ, "node_lustre_read", Counter, Bytes, "read from Lustre"),
    node(id::NODE_LUSTRE_WRITE, "node_lustre_write", Counter, Bytes, "written to Lustre"),
    node(id::NODE_ENERGY, "node_energy", Counter, MicroJoule, "energy of the processor packages"),
    node(
        id::NODE_TEMPERATURE,
        "node_temperature",
        Gauge,
        MilliCelsius,
        "the highest temperature of any sensor",
    ),
    node(
        id::NODE_CPU_PRESSURE,
        "node_cpu_pressure",
        Counter,
        Nanoseconds,
        "time in which something waited for a processor",
    ),
    node(
        id::NODE_MEMORY_PRESSURE,
        "node_memory_pressure",
        Counter,
        Nanoseconds,
        "time in which something waited for memory",
    ),
    node(
        id::NODE_IO_PRESSURE,
        "node_io_pressure",
        Counter,
        Nanoseconds,
        "time in which something waited for a device",
    ),
    node(id::NODE_INSTRUCTIONS, "node_instructions", Counter, Count, "instructions of all processors"),
    node(id::NODE_CYCLES, "node_cycles", Counter, Count, "cycles in which processors were not idle"),
    node(
        id::NODE_L1_MISSES,
        "node_l1_misses",
        Counter,
        Count,
        "reads that the first data cache could not answer",
    ),
    node(
        id::NODE_LAST_LEVEL_MISSES,
        "node_last_level_misses",
        Counter,
        Count,
        "lines that came from memory because no cache had them",
    ),
    node(id::NODE_LOADS, "node_loads", Counter, Count, "reads from memory or caches"),
    node(id::NODE_STORES, "node_stores", Counter, Count, "writes to memory or caches"),
    node(id::NODE_FLOPS, "node_flops", Counter, Count, "floating point operations of any width"),
    node(
        id::NODE_FLOPS_SCALAR,
        "node_flops_scalar",
        Counter,
        Count,
        "floating point operations, one at a time",
    ),
    node(
        id::NODE_FLOPS_128,
        "node_flops_128",
        Counter,
        Count,
        "floating point operations in vectors of 128 bits",
    ),
    node(
        id::NODE_FLOPS_256,
        "node_flops_256",
        Counter,
        Count,
        "floating point operations in vectors of 256 bits",
    ),
    node(
        id::NODE_FLOPS_512,
        "node_flops_512",
        Counter,
        Count,
        "floating point operations in vectors of 512 bits",
    ),
    node(
        id::NODE_VECTOR_OPERATIONS,
        "node_vector_operations",
        Counter,
        Count,
        "vector instructions, where nobody counts what they amount to",
    ),
    node(
        id::NODE_IB_PACKETS_RECEIVED,
        "node_ib_packets_received",
        Counter,
        Count,
        "packets received by InfiniBand and Omni-Path",
    ),
    node(
        id::NODE_IB_PACKETS_SENT,
        "node_ib_packets_sent",
        Counter,
        Count,
        "packets sent by InfiniBand and Omni-Path",
    ),
    card(
        id::CARD_UTILISATION,
        "card_utilisation",
        Gauge,
        Hundredths,
        "share of the time in which anything ran",
    ),
    card(id::CARD_MEMORY, "card_memory", Gauge, Bytes, "memory in use, by whomever"),
    card(
        id::CARD_OWN_UTILISATION,
        "card_own_utilisation",
        Gauge,
        Hundredths,
        "share of the time in which something of the job ran",
    ),
    card(id::CARD_OWN_MEMORY, "card_own_memory", Gauge, Bytes, "memory in use by the job"),
    card(id::CARD_MEMORY_TOTAL, "card_memory_total", Gauge, Bytes, "memory of the card"),
    card(
        id::CARD_MEMORY_UTILISATION,
        "card_memory_utilisation",
        Gauge,
        Hundredths,
        "share of the time in which memory was read or written",
    ),
    card(id::CARD_POWER, "card_power", Gauge, MilliWatt, "power"),
    card(id::CARD_ENERGY, "card_energy", Counter, MicroJoule, "energy since the driver was loaded"),
    card(id::CARD_TEMPERATURE, "card_temperature", Gauge, MilliCelsius, "temperature of the hottest place"),
    card(id::CARD_CLOCK, "card_clock", Gauge, MegaHertz, "clock of the processors"),
    card(id::CARD_MEMORY_CLOCK, "card_memory_clock", Gauge, MegaHertz, "clock of the memory"),
    card(
        id::CARD_ERRORS_CORRECTED,
        "card_errors_corrected",
        Counter,
        Count,
        "errors in memory that were corrected",
    ),
    card(
        id::CARD_ERRORS_UNCORRECTED,
        "card_errors_uncorrected",
        Counter,
        Count,
        "errors in memory that could not be corrected",
    ),
    card(id::CARD_RECEIVED, "card_received", Gauge, Bytes, "bytes each second to the card"),
    card(id::CARD_SENT, "card_sent", Gauge, Bytes, "bytes each second from the card"),
];

/// The metric with this number.
pub fn by_id(id: u16) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.id == id)
}

/// The metric with this name.
pub fn by_name(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// The metrics of jobs, nodes or cards, in the order of the catalogue.
pub fn of(of: Of) -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().filter(move |metric| metric.of == of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_number_or_name_is_given_twice() {
        let ids: HashSet<u16> = METRICS.iter().map(|metric| metric.id).collect();
        let names: HashSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!((ids.len(), names.len()), (METRICS.len(), METRICS.len()));
    }

    #[test]
    fn a_metric_is_found_by_number_and_name() {
        for metric in METRICS {
            assert_eq!(by_id(metric.id), Some(metric));
            assert_eq!(by_name(metric.name), Some(metric));
        }
        assert_eq!((by_id(0), by_name("none")), (None, None));
    }
}
