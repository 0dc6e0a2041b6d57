//! What a measured value takes on disk: as it came, put into order, and made coarse; beside the same values as Parquet and as
//! bare pairs of time and value.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use duckdb::{Config, Connection};
use record::batch::Batch;
use store::{Coarsen, Limits, Step, Store, StoreError, Writer};

use crate::generate::{EPOCH, SECOND};
use crate::readings::Place;

/// How much is measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// Jobs at the same time
    #[arg(long, default_value_t = 200)]
    jobs: u64,
    /// Nodes of each job
    #[arg(long, default_value_t = 4)]
    nodes: u64,
    /// Readings of each, one a minute
    #[arg(long, default_value_t = 1440)]
    readings: u64,
}

/// The tables, with how many values of metrics a row has: as they come and coarse, where a gauge has three.
const RAW: [(&str, u64); 3] = [("job_sample", 23), ("command_sample", 7), ("node_sample", 27)];
/// The order of their series.
const ORDERS: [&str; 3] = ["job, host, time_ns", "job, host, command, time_ns", "host, time_ns"];
const COARSE: [(&str, u64); 3] = [("job_coarse", 37), ("command_coarse", 13), ("node_coarse", 37)];

/// A time and a value as whole numbers.
const PAIR: f64 = 16.0;

pub fn measure(arguments: &Arguments) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let data = dir.path();
    drop(Store::open(data, &Limits::default())?);
    let empty = used(data)?;
    fill(data, arguments)?;
    let values = values(data, &RAW)?;
    let raw = used(data)? - empty;
    let parquet = parquet(data)?;
    let until = (EPOCH + (arguments.readings + 1441) * 60 * SECOND) as i64;
    let compacting = steps(data, |writer| writer.compact(until, store::ROWS))?;
    let sorted = used(data)? - empty;
    let what = Coarsen { before_ns: until, step_ns: 600 * SECOND as i64, rows: store::ROWS };
    let coarsening = steps(data, |writer| writer.coarsen(what, until))?;
    let coarse = used(data)? - empty;
    let coarse_values = self::values(data, &COARSE)?;
    let per = |bytes: u64, values: u64| bytes as f64 / values.max(1) as f64;
    report(
        arguments,
        values,
        &[
            ("a time and a value", PAIR * values as f64 / 1e6, PAIR),
            ("as they came", raw as f64 / 1e6, per(raw, values)),
            ("put into order", sorted as f64 / 1e6, per(sorted, values)),
            ("Parquet with zstd", parquet as f64 / 1e6, per(parquet, values)),
            ("coarse, per value there", coarse as f64 / 1e6, per(coarse, coarse_values)),
            ("coarse, per value read", coarse as f64 / 1e6, per(coarse, values)),
        ],
    );
    report_steps("put into order", &compacting);
    report_steps("made coarse", &coarsening);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result")]
fn report(arguments: &Arguments, values: u64, lines: &[(&str, f64, f64)]) {
    println!(
        "{} jobs on {} nodes each, {} readings: {:.1} million values",
        arguments.jobs,
        arguments.nodes,
        arguments.readings,
        values as f64 / 1e6
    );
    for (name, megabytes, bytes) in lines {
        println!(
            "{name:<24} {megabytes:>9.1} MB {bytes:>7.2} bytes per value {:>6.1} %",
            100.0 * bytes / PAIR
        );
    }
}

#[expect(clippy::print_stdout, reason = "the result")]
fn report_steps(name: &str, took: &[Duration]) {
    let total: Duration = took.iter().sum();
    let most = took.iter().max().copied().unwrap_or_default();
    println!(
        "{name}: {} steps, {:.1} s in all, the longest {:.0} ms",
        took.len(),
        total.as_secs_f64(),
        most.as_secs_f64() * 1e3
    );
}

/// All nodes send each minute, as in a cluster.
fn fill(data: &Path, arguments: &Arguments) -> Result<()> {
    let began = Instant::now();
    let store = Store::open(data, &Limits::default())?;
    let mut writer = store.writer()?;
    let nodes = arguments.jobs * arguments.nodes;
    let mut places: Vec<Place> = (0..nodes).map(|n| Place::new(n, n / arguments.nodes.max(1))).collect();
    for minute in 0..arguments.readings {
        let mut together = Vec::with_capacity(places.len());
        for place in &mut places {
            let bytes = place.batch(minute, minute + 1 == arguments.readings);
            together.push(store::prepare(&Batch::from_bytes(&bytes)?, &writer.catalogue())?);
        }
        writer.apply(together, 1)?;
    }
    writer.checkpoint()?;
    eprintln!("stored in {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// Takes one step after the other; how long each took.
fn steps(
    data: &Path,
    mut step: impl FnMut(&mut Writer) -> Result<Step, StoreError>,
) -> Result<Vec<Duration>> {
    let store = Store::open(data, &Limits::default())?;
    let mut writer = store.writer()?;
    let reader = store.reader()?;
    loop {
        let due = writer.due(1);
        if due.is_empty() {
            break;
        }
        let rows = reader.summarise(&due, 1)?;
        writer.keep_rows(due, &rows, 1)?;
    }
    let mut took = Vec::new();
    loop {
        let began = Instant::now();
        let done = step(&mut writer)?;
        if done.is_last {
            writer.checkpoint()?;
            return Ok(took);
        }
        took.push(began.elapsed());
    }
}

fn connect(data: &Path) -> Result<Connection> {
    let config = Config::default().max_memory("1024MB")?.threads(2)?;
    Ok(Connection::open_with_flags(data.join(store::FILE), config)?)
}

/// Bytes in use: the file has room besides that it uses again.
fn used(data: &Path) -> Result<u64> {
    let connection = connect(data)?;
    connection.execute_batch("CHECKPOINT")?;
    let sql = "SELECT CAST(used_blocks * block_size AS UBIGINT) FROM pragma_database_size()";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

fn values(data: &Path, tables: &[(&str, u64)]) -> Result<u64> {
    let connection = connect(data)?;
    let mut values = 0;
    for (table, each) in tables {
        let rows: u64 =
            connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
        values += rows * each;
    }
    Ok(values)
}

/// The same values in the order of their series, as files.
fn parquet(data: &Path) -> Result<u64> {
    let connection = connect(data)?;
    let mut bytes = 0;
    for ((table, _), order) in RAW.into_iter().zip(ORDERS) {
        let file = data.join(format!("{table}.parquet"));
        connection.execute_batch(&format!(
            "COPY (SELECT * FROM {table} ORDER BY {order}) TO '{}' (FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2)",
            file.display()
        ))?;
        bytes += std::fs::metadata(&file)?.len();
    }
    Ok(bytes)
}
