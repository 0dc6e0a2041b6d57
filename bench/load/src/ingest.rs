//! All agents of a cluster against a real server, beside the floor: DuckDB's appender with the same rows.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use record::batch::Batch;
use store::{Limits, Store};

use crate::generate::Node;
use crate::server::Server;
use crate::{floor, play};

/// How much comes in.
#[derive(clap::Args)]
pub struct Arguments {
    /// Agents
    #[arg(long, default_value_t = 3000)]
    agents: u64,
    /// Records in each batch: what a busy node has in three seconds
    #[arg(long, default_value_t = 40)]
    records: u64,
    /// Batches that each agent sends
    #[arg(long, default_value_t = 8)]
    batches: u64,
    /// Records that are in the store before
    #[arg(long, default_value_t = 5_000_000)]
    before: u64,
}

/// Measures how many records a second a server stores, and how long each batch takes to be durable.
pub fn measure(arguments: &Arguments) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    std::fs::create_dir(&data)?;
    fill(&data, arguments)?;
    let mut nodes: Vec<Node> = (0..arguments.agents).map(|n| Node::new(n, arguments.agents)).collect();
    let began = Instant::now();
    let batches: Vec<Vec<Vec<u8>>> = nodes
        .iter_mut()
        .map(|node| (0..arguments.batches).map(|_| node.batch(arguments.records, arguments.agents)).collect())
        .collect();
    let total = arguments.agents * arguments.batches * arguments.records;
    eprintln!("made {total} records in {:.0} s", began.elapsed().as_secs_f64());
    let floor = floor::measure(&batches, arguments.records)?;
    let before_bytes = size_of(&data);
    let server = Server::start(&data)?;
    let played = play::play(&batches, server.port, &server.token("ingest")?)?;
    let resident = server.peak_mb();
    eprintln!("{}", play::commits(server.port)?);
    drop(server);
    // Closing brings the rest of the log into the database.
    drop(Store::open(&data, &Limits::default())?);
    let rate = total as f64 / played.took.as_secs_f64();
    let per_record = (size_of(&data) as f64 - before_bytes as f64) / total as f64;
    report(arguments, rate, floor, &played, resident, per_record);
    if rate < 40_000.0 || rate < floor / 2.0 || resident > 1500 {
        bail!("a target was missed");
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result")]
fn report(
    arguments: &Arguments,
    rate: f64,
    floor: f64,
    played: &play::Played,
    resident: u64,
    per_record: f64,
) {
    println!(
        "{} agents, batches of {}, {} records before",
        arguments.agents, arguments.records, arguments.before
    );
    println!("records per second     {rate:>10.0}   (at least 40000)");
    println!("the floor              {floor:>10.0}   DuckDB's appender, the same rows, one thread");
    println!("ratio to the floor     {:>10.2}   (at least 0.5)", rate / floor);
    println!("time to durable, p50   {:>10.0} ms", played.percentile(0.50).as_secs_f64() * 1e3);
    println!("time to durable, p99   {:>10.0} ms", played.percentile(0.99).as_secs_f64() * 1e3);
    println!("time to durable, max   {:>10.0} ms", played.percentile(1.0).as_secs_f64() * 1e3);
    println!("server, resident       {resident:>10} MB (at most 1500)");
    println!("on disk                {per_record:>10.0} bytes per record");
}

/// Puts records into the store that have nothing to do with the measured ones.
fn fill(data: &Path, arguments: &Arguments) -> Result<()> {
    let began = Instant::now();
    let mut writer = Store::open(data, &Limits::default())?.writer()?;
    const RECORDS: u64 = 5000;
    let mut nodes: Vec<Node> = (0..100).map(|n| Node::new(1_000_000 + n, 100)).collect();
    let mut stored = 0;
    while stored < arguments.before {
        let at = (stored / RECORDS) as usize % nodes.len();
        let bytes = nodes[at].batch(RECORDS, 100);
        let prepared = store::prepare(&Batch::from_bytes(&bytes)?, &writer.catalogue())?;
        writer.apply(vec![prepared], 1)?;
        stored += RECORDS;
    }
    eprintln!("{stored} records stored before, in {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

fn size_of(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).sum()
}
