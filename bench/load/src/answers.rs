//! Questions to a store of many records, beside the bare queries.
//!
//! A part of the records goes the way of every record, through batches; the rest are copies of them in later days, with
//! jobs of their own.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, bail};
use duckdb::{Config, Connection};
use record::batch::Batch;
use store::{Limits, Store};

use crate::generate::{EPOCH, Node, SECOND};
use crate::server::Server;

/// How much is asked.
#[derive(clap::Args)]
pub struct Arguments {
    /// Records in the store
    #[arg(long, default_value_t = 50_000_000)]
    records: u64,
    /// Records of which the others are copies
    #[arg(long, default_value_t = 1_000_000)]
    original: u64,
    /// Where the store is made, or is from an earlier run
    #[arg(long)]
    data: Option<PathBuf>,
    /// How often each question is asked
    #[arg(long, default_value_t = 7)]
    times: usize,
}

const NODES: u64 = 100;
/// Each copy is that much later.
const COPY_DAYS: u64 = 2;
/// The jobs of one copy have numbers below this, counted from its first.
const COPY_JOBS: u64 = 40_000;

/// A question to the server, and what it asks of the database.
pub struct Question {
    pub name: String,
    pub target: String,
    pub bare: Vec<String>,
    /// In milliseconds, where there is such a limit.
    pub most_ms: Option<f64>,
}

pub fn measure(arguments: &Arguments) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let data = arguments.data.clone().unwrap_or_else(|| dir.path().join("data"));
    std::fs::create_dir_all(&data)?;
    if !data.join(store::FILE).exists() {
        make(&data, arguments)?;
    }
    let (jobs, questions) = {
        let connection = connect(&data)?;
        let jobs: u64 =
            connection.query_row("SELECT count(DISTINCT job) FROM process", [], |row| row.get(0))?;
        (jobs, questions(&connection)?)
    };
    let before = bare(&data, &questions, arguments.times)?;
    let server = Server::start(&data)?;
    let token = server.token("admin")?;
    let mut answers = Vec::new();
    for question in &questions {
        answers.push(median(arguments.times, || Ok(server.get(&question.target, &token)?.len()))?);
    }
    drop(server);
    let after = bare(&data, &questions, arguments.times)?;
    report(arguments, jobs, &questions, &before, &answers, &after)
}

#[expect(clippy::print_stdout, reason = "the result")]
fn report(
    arguments: &Arguments,
    jobs: u64,
    questions: &[Question],
    before: &[(f64, usize)],
    answers: &[(f64, usize)],
    after: &[(f64, usize)],
) -> Result<()> {
    println!("{} records of {jobs} jobs; each question {} times, median", arguments.records, arguments.times);
    println!("{:<22} {:>12} {:>12} {:>7} {:>12}", "", "bare query", "answer", "ratio", "bytes");
    let mut is_missed = false;
    for (at, question) in questions.iter().enumerate() {
        let (bare, (answer, bytes)) = ((before[at].0 + after[at].0) / 2.0, answers[at]);
        println!("{:<22} {bare:>9.1} ms {answer:>9.1} ms {:>7.2} {bytes:>12}", question.name, answer / bare);
        is_missed |= answer > 2.0 * bare || question.most_ms.is_some_and(|most| answer > most);
    }
    if is_missed {
        bail!("a target was missed: each answer at most 2 times the bare query, a job under 200 ms");
    }
    Ok(())
}

/// Milliseconds, and what the last run gave.
pub fn median(times: usize, mut run: impl FnMut() -> Result<usize>) -> Result<(f64, usize)> {
    let mut took = Vec::new();
    let mut size = run()?;
    for _ in 0..times {
        let began = Instant::now();
        size = run()?;
        took.push(began.elapsed().as_secs_f64() * 1e3);
    }
    took.sort_by(f64::total_cmp);
    Ok((took[took.len() / 2], size))
}

pub fn connect(data: &Path) -> Result<Connection> {
    let limits = Limits::default();
    let config =
        Config::default().max_memory(&format!("{}MB", limits.memory_mb))?.threads(limits.threads as i64)?;
    Ok(Connection::open_with_flags(data.join(store::FILE), config)?)
}

/// Milliseconds of one and the other, which run in turns.
pub fn in_turns(
    times: usize,
    mut one: impl FnMut() -> Result<usize>,
    mut other: impl FnMut() -> Result<usize>,
) -> Result<(f64, f64)> {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for _ in 0..=times {
        let began = Instant::now();
        one()?;
        let between = Instant::now();
        other()?;
        ones.push((between - began).as_secs_f64() * 1e3);
        others.push(between.elapsed().as_secs_f64() * 1e3);
    }
    // The first of each reads the file.
    let middle = |took: &mut [f64]| {
        took.sort_by(f64::total_cmp);
        took[took.len() / 2]
    };
    Ok((middle(&mut ones[1..]), middle(&mut others[1..])))
}

/// Runs each question's queries, and reads every value of the result.
fn bare(data: &Path, questions: &[Question], times: usize) -> Result<Vec<(f64, usize)>> {
    let connection = connect(data)?;
    questions.iter().map(|question| median(times, || run_bare(&connection, question))).collect()
}

/// How many values there were.
pub fn run_bare(connection: &Connection, question: &Question) -> Result<usize> {
    let mut values = 0;
    for sql in &question.bare {
        let mut query = connection.prepare(sql)?;
        let mut rows = query.query([])?;
        let columns = rows.as_ref().map_or(0, |query| query.column_count());
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                values += usize::from(row.get_ref(column)?.data_type() != duckdb::types::Type::Null);
            }
        }
    }
    Ok(values)
}

/// What an administrator who knows SQL would ask.
fn questions(connection: &Connection) -> Result<Vec<Question>> {
    let middle = "SELECT job FROM process WHERE rowid = (SELECT count(*) // 2 FROM process)";
    let job: String = connection.query_row(middle, [], |row| row.get(0))?;
    let uses = |pattern: &str| {
        vec![format!(
            "SELECT cluster, job, \"user\", exe, sum(count), min(start_ns), max(end_ns) AS last FROM process \
             WHERE objects IN (SELECT list FROM object_list JOIN object ON id = object WHERE name GLOB '{pattern}') \
             GROUP BY ALL ORDER BY last DESC LIMIT 1000"
        )]
    };
    let rarest = "SELECT name FROM object_list JOIN object ON id = object \
         WHERE position > 0 AND list IN (SELECT objects FROM process) \
         GROUP BY name ORDER BY count(*), name LIMIT 1";
    let rare: String = connection.query_row(rarest, [], |row| row.get(0))?;
    let month = (EPOCH + 30 * 86_400 * SECOND, EPOCH + 60 * 86_400 * SECOND);
    let since = |ns: u64| store::time::text(ns as i64);
    Ok(vec![
        Question {
            name: "job ID".into(),
            target: format!("/api/v1/jobs/{job}"),
            bare: vec![
                format!("SELECT * FROM process WHERE job = '{job}' ORDER BY start_ns"),
                format!(
                    "SELECT path, count(*) FROM process JOIN object_list ON list = objects JOIN object o ON o.id = object \
                     WHERE job = '{job}' GROUP BY path"
                ),
                format!(
                    "SELECT module, count(*) FROM process JOIN module_list ON list = modules WHERE job = '{job}' GROUP BY module"
                ),
            ],
            most_ms: Some(200.0),
        },
        Question {
            name: "uses, rare library".into(),
            target: format!("/api/v1/uses?pattern={rare}"),
            bare: uses(&rare),
            most_ms: None,
        },
        Question {
            name: "uses, common library".into(),
            target: "/api/v1/uses?pattern=libc.so*".into(),
            bare: uses("libc.so*"),
            most_ms: None,
        },
        Question {
            name: "programs of a month".into(),
            target: format!("/api/v1/programs?since={}&until={}", since(month.0), since(month.1)),
            bare: vec![format!(
                "SELECT exe, count(DISTINCT \"user\"), count(DISTINCT job), sum(count) AS runs, sum(user_cpu_ns + system_cpu_ns), \
                 min(start_ns), max(end_ns) FROM process WHERE end_ns >= {} AND start_ns < {} GROUP BY exe \
                 ORDER BY runs DESC LIMIT 1000",
                month.0, month.1
            )],
            most_ms: None,
        },
    ])
}

fn make(data: &Path, arguments: &Arguments) -> Result<()> {
    let began = Instant::now();
    let mut writer = Store::open(data, &Limits::default())?.writer()?;
    let mut nodes: Vec<Node> = (0..NODES).map(|n| Node::new(n, NODES)).collect();
    // What a transaction of the server holds: some batches of each node.
    const RECORDS: u64 = 100;
    for _ in 0..arguments.original.div_ceil(RECORDS * NODES) {
        let batches: Result<Vec<_>> = nodes
            .iter_mut()
            .map(|node| {
                let bytes = node.batch(RECORDS, NODES);
                Ok(store::prepare(&Batch::from_bytes(&bytes)?, &writer.catalogue())?)
            })
            .collect();
        writer.apply(batches?, 1)?;
    }
    drop(writer);
    eprintln!("{} records stored in {:.0} s", arguments.original, began.elapsed().as_secs_f64());
    let connection = connect(data)?;
    connection.execute_batch("CREATE TEMP TABLE original AS SELECT * FROM process")?;
    for copy in 1..arguments.records / arguments.original {
        let (later, jobs) = (copy * COPY_DAYS * 86_400 * SECOND, copy * COPY_JOBS);
        connection.execute_batch(&format!(
            "INSERT INTO process SELECT * REPLACE (stream + {streams} AS stream, (job::BIGINT + {jobs})::VARCHAR AS job, \
             process_start_ns + {later} AS process_start_ns, start_ns + {later} AS start_ns, end_ns + {later} AS end_ns) \
             FROM original",
            streams = copy * NODES,
        ))?;
        if copy.is_multiple_of(10) {
            eprintln!(
                "{} records after {:.0} s",
                (copy + 1) * arguments.original,
                began.elapsed().as_secs_f64()
            );
        }
    }
    connection.execute_batch("CHECKPOINT")?;
    Ok(())
}
