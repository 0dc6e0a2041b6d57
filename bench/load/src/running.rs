//! What the rows of jobs that run cost, beside the readings that they are made of: how long each holds the writer.
//!
//! Minute by minute, as the server does it: a reading of each job is stored, then all rows that are due are made.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use duckdb::Connection;
use record::batch::Batch;
use store::{Limits, Prepared, Site, Store, Writer};

use crate::generate::{EPOCH, SECOND};
use crate::readings::Place;

/// How much runs.
#[derive(clap::Args)]
pub struct Arguments {
    /// Jobs that run, each on a node of its own
    #[arg(long, default_value_t = 3000)]
    jobs: u64,
    /// For how many minutes they have been running before it is measured
    #[arg(long, default_value_t = 60)]
    before: u64,
    /// Minutes that are measured
    #[arg(long, default_value_t = 20)]
    minutes: u64,
    /// Jobs that have ended long ago
    #[arg(long, default_value_t = 1_000_000)]
    ended: u64,
}

/// So many batches of agents are stored together, as the server does when many wait.
const TOGETHER: usize = 200;

/// Times of one kind.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn take<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let made = work();
        self.0.push(began.elapsed());
        made
    }

    fn total(&self) -> f64 {
        self.0.iter().sum::<Duration>().as_secs_f64()
    }

    fn most(&self) -> f64 {
        self.0.iter().max().copied().unwrap_or_default().as_secs_f64()
    }
}

/// What was measured.
#[derive(Default)]
struct Measured {
    /// Readings are stored; the writer does nothing else.
    stored: Times,
    /// It is looked which rows are due, and they are replaced: the same.
    held: Times,
    /// Rows are computed beside the writer.
    computed: Times,
    rows: usize,
}

pub fn measure(arguments: &Arguments) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let open = || anyhow::Ok(Store::open(dir.path(), &Limits::default())?.with_site(Site::shipped()?));
    drop(open()?);
    fill(dir.path(), arguments.ended)?;
    let store = open()?;
    let (mut writer, reader) = (store.writer()?, store.reader()?);
    let mut places: Vec<Place> = (0..arguments.jobs).map(|number| Place::new(number, number)).collect();
    let mut measured = Measured::default();
    for minute in 0..arguments.before + arguments.minutes {
        if minute == arguments.before {
            measured = Measured::default();
        }
        let now = (EPOCH + (minute + 1) * 60 * SECOND) as i64;
        let bytes: Vec<Vec<u8>> = places.iter_mut().map(|place| place.batch(minute, false)).collect();
        for together in bytes.chunks(TOGETHER) {
            let prepared = prepared(&writer, together)?;
            measured.stored.take(|| writer.apply(prepared, now))?;
        }
        loop {
            let due = measured.held.take(|| writer.due(now));
            if due.is_empty() {
                break;
            }
            measured.rows += due.len();
            let rows = measured.computed.take(|| reader.summarise(&due, now))?;
            measured.held.take(|| writer.keep_rows(due, &rows, now))?;
        }
        if minute % 10 == 9 {
            eprintln!("minute {} of {}", minute + 1, arguments.before + arguments.minutes);
        }
    }
    report(arguments, &measured);
    Ok(())
}

fn prepared(writer: &Writer, batches: &[Vec<u8>]) -> Result<Vec<Prepared>> {
    let catalogue = writer.catalogue();
    batches.iter().map(|bytes| Ok(store::prepare(&Batch::from_bytes(bytes)?, &catalogue)?)).collect()
}

/// Rows of jobs that have ended long ago.
fn fill(dir: &Path, ended: u64) -> Result<()> {
    let connection = Connection::open(dir.join(store::FILE))?;
    let sql = format!(
        "INSERT INTO job (cluster, job, \"user\", start_ns, end_ns, nodes, is_shared, readings, computed_ns, state, cpu_avg, cpu_total) \
         SELECT 'tiny', 'old' || i, 'u' || i % 500, i * 1000000000, i * 1000000000 + 600000000000, 1, false, 10, i, 'ended', \
         random(), i FROM range({ended}) AS t(i)"
    );
    connection.execute(&sql, []).context("cannot make rows of ended jobs")?;
    Ok(connection.execute_batch("CHECKPOINT")?)
}

#[expect(clippy::print_stdout, reason = "the result")]
fn report(arguments: &Arguments, measured: &Measured) {
    let minutes = arguments.minutes.max(1) as f64;
    let Measured { stored, held, computed, rows } = measured;
    println!(
        "{} jobs that run, for {} to {} minutes, beside {} rows of ended ones; {rows} rows made in {minutes} minutes",
        arguments.jobs,
        arguments.before,
        arguments.before + arguments.minutes,
        arguments.ended
    );
    for (what, times) in
        [("readings stored", stored), ("rows kept", held), ("rows computed beside", computed)]
    {
        println!(
            "{what:<21} {:>7.0} ms a minute {:>7.0} ms at most, {:.2} and {:.2} times the readings",
            1e3 * times.total() / minutes,
            1e3 * times.most(),
            times.total() / stored.total().max(1e-9),
            times.most() / stored.most().max(1e-9)
        );
    }
}
