//! What a job used of its nodes: its own values where they were measured, and values of whole nodes only where the job had these to
//! itself. A rule about a job is made of these columns; on a shared node, or where nobody knows whether it was shared, they are unknown.
//!
//! SQL names `c`, `j` and `m` as in `columns`, and `n`, the nodes of the job as the site has them.

use record::metric::{Metric, by_name};

use super::columns::{JobColumn, level};
use super::elsewhere::or_elsewhere;
use condition::Type;

/// Whether other jobs ran on the job's nodes at the same time. What the batch system says comes first; a job that was allocated all
/// processors of its nodes had them to itself, but nobody keeps others from a node on which somebody has logged in; else what agents saw on the nodes, and which other jobs were accounted for there.
const SHARED: &str = "coalesce(c.is_shared, \
    CASE WHEN c.kind = 0 AND n.counted = c.nodes AND c.cores >= n.cpus THEN false END, \
    j.is_shared OR m.is_shared, j.is_shared, m.is_shared)";

/// The name of the column that says so.
pub(crate) const SHARED_NODE: &str = "shared_node";

/// Metrics of nodes that rules use as the job's, and the name of what counts as the job's.
const OF_NODES: [(&str, &str); 7] = [
    ("node_flops", "flops_avg"),
    ("node_l1_misses", "l1_misses_avg"),
    ("node_last_level_misses", "last_level_misses_avg"),
    ("node_loads", "loads_avg"),
    ("node_stores", "stores_avg"),
    ("node_ib_sent", "ib_sent_avg"),
    ("node_ib_packets_sent", "ib_packets_sent_avg"),
];

/// What processors of a node spend their time on. The first three are known wherever anything is.
const CPU_PARTS: [&str; 8] = ["user", "system", "idle", "nice", "iowait", "irq", "softirq", "steal"];

/// A value of nodes, where the job had them to itself.
fn alone(value: &str) -> String {
    format!("CASE WHEN NOT {SHARED} THEN {value} END")
}

pub(super) fn columns() -> Vec<JobColumn> {
    let new = JobColumn::new;
    let mut columns = vec![
        new(
            SHARED_NODE,
            Type::Boolean,
            "whether other jobs ran on its nodes at the same time; where that is true or unknown, values of nodes are not the job's",
            SHARED,
        ),
        new(
            "cpu_user_util_avg",
            Type::Share,
            "processors in user code, of those allocated",
            &format!("coalesce({}, {})", of_allocated("j.cpu_user_avg", "j.nodes"), of_nodes(&node("user"))),
        ),
        new(
            "cpu_idle_util_avg",
            Type::Share,
            "processors without work, of those allocated",
            &format!(
                "coalesce({}, {})",
                rest("j.cpu_avg", "j.nodes"),
                of_nodes_or(&node("idle"), &rest(&busy(), "c.nodes"))
            ),
        ),
        new(
            "cpu_iowait_util_avg",
            Type::Share,
            "processors of its nodes that waited for a disk",
            &alone(&of_node(&node("iowait"))),
        ),
        new(
            "load_avg",
            Type::Number,
            "threads on a node that ran or could run: the job's own, else the load of a node that it had to itself",
            &format!(
                "coalesce(j.job_load_avg, {})",
                alone(&format!("{} / 100", or_elsewhere("node_load", "avg", &["j", "m"])))
            ),
        ),
        new(
            "load_cores",
            Type::Number,
            "cores that a load of the job is compared with: those allocated on a node, of the smallest node at most",
            LOAD_CORES,
        ),
    ];
    columns.extend(local_io());
    columns.push(ib_packet_size());
    columns.extend(OF_NODES.iter().filter_map(|(metric, name)| Some(of_metric(by_name(metric)?, name))));
    columns
}

fn ib_packet_size() -> JobColumn {
    let both = ["node_ib_sent", "node_ib_packets_sent"].map(|name| or_elsewhere(name, "avg", &["j", "m"]));
    let meaning =
        "bytes in an InfiniBand packet that a node sent, average of a node that the job had to itself";
    let size = format!("{} / nullif({}, 0)", both[0], both[1]);
    JobColumn::new("ib_packet_size_avg", Type::Bytes, meaning, &alone(&size))
}

/// What went to disks of the nodes, not to network file systems: from the job's control groups, which count by device.
fn local_io() -> [JobColumn; 2] {
    let both = |of: &str| {
        let value = |way: &str| format!("coalesce(j.node_disk_{way}_{of}, m.node_disk_{way}_{of})");
        format!("({} + {})", value("read"), value("write"))
    };
    let per_second = both("avg");
    [
        JobColumn::new(
            "local_io_total",
            Type::Bytes,
            "read from and written to local disks in all",
            &format!(
                "coalesce(j.disk_read_total + j.disk_write_total, {})",
                alone(&format!("{per_second} * c.nodes * c.elapsed_ns / 1e9"))
            ),
        ),
        JobColumn::new(
            "local_io_avg",
            Type::Rate,
            "read from and written to local disks of a node, average",
            &format!("coalesce(j.disk_read_avg + j.disk_write_avg, {})", alone(&per_second)),
        ),
    ]
}

/// Where processors are hardware threads, a core has several. `least` leaves out what is unknown.
const LOAD_CORES: &str = "least(n.cores, c.cores * 1.0 / nullif(c.nodes, 0) \
    * coalesce(n.cores * n.counted * 1.0 / nullif(n.cpus, 0), 1))";

fn of_metric(metric: &Metric, name: &str) -> JobColumn {
    let (of, label, scale) = level(metric);
    let value = format!("{}{scale}", or_elsewhere(metric.name, "avg", &["j", "m"]));
    let about = format!("{}: average of a node that the job had to itself", metric.about);
    let column = JobColumn::new(name, of, &about, &alone(&value));
    if label.is_empty() { column } else { column.labelled(label) }
}

/// Processors of a node that did this, on average.
fn node(part: &str) -> String {
    format!("coalesce(j.node_cpu_{part}_avg, m.node_cpu_{part}_avg)")
}

fn sum(parts: &[&str]) -> String {
    let known = |part: &&str| match CPU_PARTS.iter().position(|own| own == part) {
        Some(0..3) => node(part),
        // What nobody counts takes no time.
        _ => format!("coalesce({}, 0)", node(part)),
    };
    format!("({})", parts.iter().map(known).collect::<Vec<_>>().join(" + "))
}

/// Processors of a node that worked.
fn busy() -> String {
    let is_work = |part: &&str| !["idle", "iowait"].contains(part);
    sum(&CPU_PARTS.into_iter().filter(is_work).collect::<Vec<_>>())
}

/// Processors of a node, as a share of all it has.
fn of_node(value: &str) -> String {
    format!("100 * {value} / nullif({}, 0)", sum(&CPU_PARTS))
}

/// Processors of a node, as a share of those that the job was allocated.
fn of_allocated(value: &str, nodes: &str) -> String {
    format!("100 * {value} * {nodes} / nullif(c.cores, 0)")
}

/// What is left of the processors that the job was allocated. Beside something unknown, the greatest would be the other one.
fn rest(busy: &str, nodes: &str) -> String {
    format!(
        "CASE WHEN {busy} IS NOT NULL AND c.cores > 0 THEN greatest(100 - {}, 0) END",
        of_allocated(busy, nodes)
    )
}

/// Processors of the job's nodes, as a share of the job's. Whose allocation is exclusive has all of a node's; else the number of those
/// allocated must be known.
fn of_nodes(value: &str) -> String {
    of_nodes_or(value, &of_allocated(value, "c.nodes"))
}

fn of_nodes_or(value: &str, of_allocated: &str) -> String {
    format!("CASE WHEN NOT c.is_shared THEN {} WHEN NOT {SHARED} THEN {of_allocated} END", of_node(value))
}
