//! What the server bears and how fast it answers, each beside what bare DuckDB does on the same machine in the
//! same run.

mod answers;
mod collection;
mod floor;
mod generate;
mod ingest;
mod play;
mod readings;
mod running;
mod series;
mod server;
mod tags;

use anyhow::Result;
use clap::Parser;

#[derive(Parser)]
enum Command {
    /// Plays the agents of a cluster: records per second, time until they are durable, memory, bytes on disk
    Ingest(ingest::Arguments),
    /// Asks a store of many records: time of each answer beside the bare query
    Answers(answers::Arguments),
    /// Imports lines of sacct and asks the list of jobs: time beside DuckDB's own reader and the bare queries, memory
    Collection(collection::Arguments),
    /// Judges the whole collection and filters it by tags: time beside a bare scan and the bare queries
    Tags(tags::Arguments),
    /// Stores readings: bytes per value as they came, put into order and coarse, beside Parquet
    Series(series::Arguments),
    /// Makes the rows of jobs that run: how long the writer is held, beside their readings
    Running(running::Arguments),
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Ingest(arguments) => ingest::measure(&arguments),
        Command::Answers(arguments) => answers::measure(&arguments),
        Command::Collection(arguments) => collection::measure(&arguments),
        Command::Tags(arguments) => tags::measure(&arguments),
        Command::Series(arguments) => series::measure(&arguments),
        Command::Running(arguments) => running::measure(&arguments),
    }
}
