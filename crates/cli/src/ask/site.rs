//! `jobglass site`: the machine as its batch system has it, with what the site says over it.

use anyhow::Result;
use serde_json::Value;

use super::show::{self, Column, bytes, text};
use super::{Parameters, add, server};
use crate::args::{SiteArgs, SiteOf};

pub fn run(args: &SiteArgs) -> Result<bool> {
    let mut parameters = Parameters::new();
    add(&mut parameters, "cluster", args.cluster.as_ref());
    let answer = server(&args.server)?.get("/api/v1/site", &parameters)?.unwrap_or_default();
    let (name, columns) = match args.of {
        SiteOf::Partitions => ("partitions", PARTITIONS),
        SiteOf::Nodes => ("nodes", NODES),
        SiteOf::Users => ("associations", USERS),
    };
    let empty = Vec::new();
    let rows = answer[name].as_array().unwrap_or(&empty);
    show::rows(rows, columns, &args.shape.into())?;
    for what in answer["unmatched"].as_array().into_iter().flatten() {
        say!("jobglass: site.toml names what is not there: {}", text(what));
    }
    if rows.is_empty() {
        say!("jobglass: nothing was told yet: jobglass import slurm --site, or --follow");
    }
    Ok(!rows.is_empty())
}

const PARTITIONS: &[Column] = &[
    ("CLUSTER", |row| text(&row["cluster"])),
    ("PARTITION", |row| text(&row["partition"])),
    ("STATE", |row| text(&row["state"])),
    (">NODES", |row| text(&row["node_count"])),
    (">CPUS", |row| text(&row["cpus"])),
    (">DEFAULT TIME", |row| hours(&row["default_time_s"])),
    (
        ">MAX TIME",
        |row| if row["is_unlimited"] == true { "no limit".into() } else { hours(&row["max_time_s"]) },
    ),
    ("DEFAULT", |row| yes(&row["is_default"])),
    ("TEST", |row| yes(&row["is_test"])),
    ("GPUS", |row| yes(&row["has_gpus"])),
    ("LOCAL DISK", |row| yes(&row["has_local_disk"])),
    ("PRIORITY", |row| yes(&row["is_high_priority"])),
    ("ON", |row| text(&row["nodes"])),
];

const NODES: &[Column] = &[
    ("CLUSTER", |row| text(&row["cluster"])),
    ("NODE", |row| text(&row["node"])),
    ("STATE", |row| text(&row["state"])),
    (">CPUS", |row| text(&row["cpus"])),
    (">CORES", |row| text(&row["cores"])),
    (">MEMORY", |row| bytes(&row["memory"])),
    (">GPUS", |row| text(&row["gpus"])),
    (">GFLOPS", |row| {
        row["peak_flops"].as_f64().map_or_else(show::unknown, |flops| format!("{:.0}", flops / 1e9))
    }),
    ("PARTITIONS", |row| list(&row["partitions"])),
    ("FEATURES", |row| list(&row["features"])),
];

const USERS: &[Column] = &[
    ("CLUSTER", |row| text(&row["cluster"])),
    ("PROJECT", |row| text(&row["project"])),
    ("USER", |row| if row["user"].is_null() { String::new() } else { text(&row["user"]) }),
    ("DEFAULT", |row| if row["user"].is_null() { String::new() } else { yes(&row["is_default"]) }),
    ("ABOVE", |row| if row["parent"].is_null() { String::new() } else { text(&row["parent"]) }),
    ("COORDINATORS", |row| list(&row["coordinators"])),
];

fn yes(value: &Value) -> String {
    value.as_bool().map_or_else(show::unknown, |is| if is { "yes" } else { "no" }.to_owned())
}

fn hours(seconds: &Value) -> String {
    seconds.as_f64().map_or_else(show::unknown, |seconds| format!("{:.1} h", seconds / 3600.0))
}

fn list(value: &Value) -> String {
    value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(" ")
}
