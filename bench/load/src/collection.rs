//! The whole collection of jobs: sacct's lines from a file to committed rows, beside DuckDB's own reader of such files; and the
//! list of jobs over ten times as many and more, beside the bare queries.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use duckdb::Connection;

use crate::answers::{Question, connect, in_turns, median, run_bare};
use crate::server::{Server, peak_mb};

/// How much is imported and asked.
#[derive(clap::Args)]
pub struct Arguments {
    /// Lines of sacct in the file
    #[arg(long, default_value_t = 2_000_000)]
    lines: u64,
    /// Jobs in the list that is asked
    #[arg(long, default_value_t = 10_000_000)]
    jobs: u64,
    /// How often the file is imported, and read by DuckDB
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Where the store is made; one that is there from an earlier run is only asked
    #[arg(long)]
    data: Option<PathBuf>,
    /// How often each question is asked
    #[arg(long, default_value_t = 21)]
    times: usize,
}

/// Memory that the server's database may take, in MB.
const MEMORY: &str = "192";
/// What must hold.
const IMPORT_MOST: f64 = 4.0;
const ANSWER_MOST: f64 = 1.5;
/// Seconds from the end of an import until all of its jobs have their tags.
const TAGS_MOST: f64 = 2.0;
/// A question that the database answers in less time costs a request, a transaction and a plan, whatever it asks.
const LEAST_MS: f64 = 1.0;
const MEMORY_MOST_MB: u64 = 500;

const FIELDS: &str = "JobID|JobIDRaw|Cluster|Partition|QOS|Account|Group|GID|User|UID|Submit|Eligible|Start|End|Elapsed|ExitCode|\
    State|NNodes|NCPUS|ReqCPUS|ReqMem|ReqTRES|AllocTRES|Timelimit|NodeList|JobName";

pub fn measure(arguments: &Arguments) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (data, import) = made(dir.path(), arguments)?;
    let list = list(&data, arguments)?;
    ensure!(import && list, "a target was missed");
    Ok(())
}

impl Arguments {
    /// How often each question is asked.
    pub fn times(&self) -> usize {
        self.times
    }
}

/// Where the store is that is asked.
pub fn data(dir: &Path, arguments: &Arguments) -> Result<PathBuf> {
    Ok(made(dir, arguments)?.0)
}

/// The same, and whether making it was fast enough.
fn made(dir: &Path, arguments: &Arguments) -> Result<(PathBuf, bool)> {
    let data = arguments.data.clone().unwrap_or_else(|| dir.join("data"));
    let is_there = data.join(store::FILE).exists();
    let is_fast = is_there || make(dir, &data, arguments)?;
    Ok((data, is_fast))
}

/// The store that is asked; whether making it was fast enough.
fn make(dir: &Path, data: &Path, arguments: &Arguments) -> Result<bool> {
    let file = dir.join("sacct.txt");
    generate(&file, arguments.lines)?;
    let import = import(&file, data, arguments)?;
    copy(data, arguments)?;
    Ok(import)
}

/// Numbers that look like chance and are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len() as u64) as usize]
    }
}

/// A day is a bit more than a thousand jobs; most run for minutes, some for days.
fn generate(path: &Path, lines: u64) -> Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut dice = Dice(7);
    let mut now = 1_700_000_000;
    writeln!(out, "{FIELDS}")?;
    for id in 1..=lines {
        now += dice.roll(150);
        writeln!(out, "{}", line(&mut dice, id, now))?;
    }
    Ok(out.flush()?)
}

fn line(dice: &mut Dice, id: u64, submit: u64) -> String {
    let (user, wait) = (dice.roll(400), dice.roll(20_000));
    let longest = 1 << (6 + dice.roll(12));
    let elapsed = dice.roll(longest);
    let nodes = [1, 1, 1, 1, 2, 4, 8][dice.roll(7) as usize];
    let cores = nodes * [1, 8, 64, 128][dice.roll(4) as usize];
    let first = 1 + dice.roll(3000 - nodes);
    let list =
        if nodes == 1 { format!("n{first:04}") } else { format!("n[{first:04}-{:04}]", first + nodes - 1) };
    let gpus = if dice.roll(4) == 0 { format!(",gres/gpu={}", 4 * nodes) } else { String::new() };
    let state = dice.pick(&[
        "COMPLETED",
        "COMPLETED",
        "COMPLETED",
        "COMPLETED",
        "FAILED",
        "TIMEOUT",
        "CANCELLED by 1001",
    ]);
    let tres = |gpus: &str| format!("billing={cores},cpu={cores}{gpus},mem={}G,node={nodes}", 2 * cores);
    let at = |seconds: u64| store::time::text(seconds as i64 * 1_000_000_000)[..19].to_owned();
    format!(
        "{id}|{id}|tiny|{partition}|normal|proj{project:02}|proj{project:02}|{gid}|user{user:03}|{uid}|{submit}|{submit}|{start}|{end}|\
         {days}-{hours:02}:{minutes:02}:{seconds:02}|{exit}:0|{state}|{nodes}|{cores}|{cores}|{memory}G|{requested}|{allocated}|1-00:00:00|{list}|\
         {name}_{number}",
        partition = dice.pick(&["cpu", "gpu", "long"]),
        project = user % 40,
        gid = 5000 + user % 40,
        uid = 1000 + user,
        submit = at(submit),
        start = at(submit + wait),
        end = at(submit + wait + elapsed),
        days = elapsed / 86_400,
        hours = elapsed / 3600 % 24,
        minutes = elapsed / 60 % 60,
        seconds = elapsed % 60,
        exit = u8::from(state == "FAILED"),
        memory = 2 * cores,
        requested = tres(""),
        allocated = tres(&gpus),
        name = dice.pick(&["gmx_mdrun", "vasp_std", "train.sh", "run.sh", "lammps", "post", "a.out", "cp2k"]),
        number = dice.roll(5000),
    )
}

/// Imports the file beside the floor, in turns; whether that was fast enough and took little enough.
#[expect(clippy::print_stdout, reason = "the result")]
fn import(file: &Path, data: &Path, arguments: &Arguments) -> Result<bool> {
    let (mut floors, mut imports, mut tags, mut peak, mut own) = (Vec::new(), Vec::new(), Vec::new(), 0, 0);
    for _ in 0..arguments.rounds {
        floors.push(floor(file)?);
        let _ = std::fs::remove_dir_all(data);
        std::fs::create_dir_all(data)?;
        let server = Server::start_with(data, &["--memory", MEMORY])?;
        let (seconds, megabytes) = bring(file, data, &server)?;
        imports.push(seconds);
        tags.push(until_tagged(&server, arguments.lines)?);
        (peak, own) = (peak.max(server.peak_mb()), own.max(megabytes));
    }
    let ratio = middle(&mut imports) / middle(&mut floors);
    println!(
        "{} lines of sacct from file to committed rows, {} rounds in turns, median",
        arguments.lines, arguments.rounds
    );
    println!("DuckDB's own reader, one table {:>8.2} s", middle(&mut floors));
    println!(
        "jobglass import slurm          {:>8.2} s   {ratio:.2} times (at most {IMPORT_MOST})",
        middle(&mut imports)
    );
    println!("all tags are there after       {:>8.2} s   (at most {TAGS_MOST})", middle(&mut tags));
    println!(
        "memory at most: server {peak} MB (with --memory {MEMORY}), importer {own} MB (each under {MEMORY_MOST_MB})"
    );
    Ok(ratio <= IMPORT_MOST && middle(&mut tags) <= TAGS_MOST && peak.max(own) < MEMORY_MOST_MB)
}

/// What DuckDB's reader takes, until the rows are in the file.
fn floor(file: &Path) -> Result<f64> {
    let dir = tempfile::tempdir()?;
    let connection = connect(dir.path())?;
    let began = Instant::now();
    connection.execute_batch(&format!(
        "CREATE TABLE t AS SELECT * FROM read_csv('{}', delim = '|', header = true)",
        file.display()
    ))?;
    Ok(began.elapsed().as_secs_f64())
}

/// Seconds, and the most memory of the importer in MB.
fn bring(file: &Path, data: &Path, server: &Server) -> Result<(f64, u64)> {
    let mut command = Command::new("target/release/jobglass");
    command.args(["import", "slurm", "--time-zone", "UTC", "--file"]).arg(file);
    command.env("JOBGLASS_SERVER", format!("http://127.0.0.1:{}", server.port));
    command.env("JOBGLASS_TOKEN_FILE", data.join("admin.token"));
    let began = Instant::now();
    let mut child =
        command.stderr(Stdio::null()).spawn().context("cannot start jobglass: run `make build`")?;
    let mut peak = 0;
    let status = loop {
        peak = peak.max(peak_mb(child.id()));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    };
    ensure!(status.success(), "the import failed");
    Ok((began.elapsed().as_secs_f64(), peak))
}

/// Seconds until each job has the tag that says on how many nodes it ran.
fn until_tagged(server: &Server, jobs: u64) -> Result<f64> {
    let (token, began) = (server.token("admin")?, Instant::now());
    let names = ["SINGLE", "FEW", "MANY"].map(|name| format!("job_nnodes%20{name}")).join(",");
    let expected = format!("{{\"count\":{jobs}}}");
    while server.get(&format!("/api/v1/jobs?count=true&any={names}"), &token)? != expected.as_bytes() {
        ensure!(began.elapsed() < Duration::from_secs(300), "the jobs of the import have no tags");
        std::thread::park_timeout(Duration::from_millis(50));
    }
    Ok(began.elapsed().as_secs_f64())
}

fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The other jobs are copies of the imported ones at later times. Each ran some seconds longer than its original, so that a filter finds as
/// many of them as it should.
fn copy(data: &Path, arguments: &Arguments) -> Result<()> {
    let connection = connect(data)?;
    let span: i64 =
        connection
            .query_row("SELECT max(submit_ns) - min(submit_ns) FROM accounting", [], |row| row.get(0))?;
    connection.execute_batch("CREATE TEMP TABLE original AS SELECT * FROM accounting")?;
    for copy in 1..arguments.jobs / arguments.lines {
        let (later, jobs) = (copy as i64 * span, copy * arguments.lines);
        let times = ["submit_ns", "eligible_ns", "start_ns", "end_ns"]
            .map(|name| format!("{name} + {later} AS {name}"));
        connection.execute_batch(&format!(
            "INSERT INTO accounting SELECT * REPLACE (hash(id + {copy}) AS id, (job::BIGINT + {jobs})::VARCHAR AS job, \
             (shown::BIGINT + {jobs})::VARCHAR AS shown, elapsed_ns + {copy}000000000 AS elapsed_ns, {}) FROM original",
            times.join(", ")
        ))?;
    }
    // The jobs that were imported last would be judged while the first questions are asked, of which the bare queries know nothing.
    Ok(connection.execute_batch("DELETE FROM tag_due; CHECKPOINT")?)
}

/// Asks the server and a copy of its database, one after the other, so that both have the same share of what else the machine does.
#[expect(clippy::print_stdout, reason = "the result")]
fn list(data: &Path, arguments: &Arguments) -> Result<bool> {
    let connection = connect(data)?;
    let jobs: u64 = connection.query_row("SELECT count(*) FROM accounting", [], |row| row.get(0))?;
    let columns: u64 =
        connection.query_row("SELECT count(*) FROM pragma_table_info('accounting')", [], |row| row.get(0))?;
    let questions = questions(&connection)?;
    drop(connection);
    let copied = tempfile::tempdir_in(data)?;
    std::fs::copy(data.join(store::FILE), copied.path().join(store::FILE))?;
    let bare = connect(copied.path())?;
    let server = Server::start(data)?;
    let token = server.token("admin")?;
    let (request, _) = median(10 * arguments.times, || Ok(server.get("/health", &token)?.len()))?;
    let mut took = Vec::new();
    for question in &questions {
        took.push(in_turns(
            arguments.times,
            || run_bare(&bare, question),
            || Ok(server.get(&question.target, &token)?.len()),
        )?);
    }
    println!(
        "\n{jobs} jobs with {columns} columns; each question {} times in turns, median",
        arguments.times
    );
    println!("{:<34} {:>12} {:>12} {:>7}", "", "bare query", "answer", "ratio");
    let mut is_met = true;
    for (question, (bare, answer)) in questions.iter().zip(took) {
        let is_judged = bare >= LEAST_MS;
        let remark = if is_judged { "" } else { "   not judged" };
        println!("{:<34} {bare:>9.1} ms {answer:>9.1} ms {:>7.2}{remark}", question.name, answer / bare);
        is_met &= !is_judged || answer <= ANSWER_MOST * bare;
    }
    println!(
        "(at most {ANSWER_MOST}; a request that asks nothing takes {request:.1} ms, and what takes the database less than {LEAST_MS} ms is not judged)"
    );
    Ok(is_met)
}

/// What the list shows of a job, for the bare queries.
pub const SHOWN: &str = "cluster, job, shown, \"user\", project, partition, qos, state, submit_ns, start_ns, end_ns, nodes, node_list, \
    cores, gpus, memory, elapsed_ns / 1e9, (start_ns - submit_ns) / 1e9, limit_ns / 1e9, elapsed_ns * cores / 3.6e12, \
    elapsed_ns * nodes / 3.6e12, elapsed_ns * gpus / 3.6e12, exit_code, signal, name";

/// Which jobs are asked for: as parameters of the question, and as SQL.
struct Filter {
    name: String,
    parameters: String,
    sql: String,
}

impl Filter {
    fn new(name: &str, parameters: &str, sql: &str) -> Filter {
        Filter { name: name.to_owned(), parameters: parameters.to_owned(), sql: sql.to_owned() }
    }

    fn condition(name: &str, condition: &str, sql: &str) -> Filter {
        Filter::new(name, &format!("&where={}", escaped(condition)), sql)
    }

    /// The jobs of a user that ran longest, so many of them.
    fn longest(connection: &Connection, hits: u64) -> Result<Filter> {
        let sql = "SELECT elapsed_ns // 1000000000 FROM accounting WHERE \"user\" = 'user007' ORDER BY elapsed_ns DESC LIMIT 1 OFFSET ?";
        let least: u64 = connection.query_row(sql, [hits - 1], |row| row.get(0))?;
        let sql = format!("\"user\" = 'user007' AND elapsed_ns >= {least}000000000");
        let count = format!("SELECT count(*) FROM accounting WHERE {sql}");
        let found: u64 = connection.query_row(&count, [], |row| row.get(0))?;
        let condition = format!("user='user007' and elapsed>={least}s");
        Ok(Filter::condition(&format!("{found} hits"), &condition, &sql))
    }

    /// In the usual order, or as the list is asked to be sorted. Pages fit together where the id decides between equals.
    fn page(&self, sort: Option<(&str, &str)>) -> Question {
        let name = sort.map_or(String::new(), |(name, _)| format!(" by {name}"));
        let sorted = sort.map_or(String::new(), |(name, _)| format!("&sort={name}"));
        let order = sort.map_or("submit_ns DESC", |(_, sql)| sql);
        Question {
            name: format!("first page, {}{name}", self.name),
            target: format!("/api/v1/jobs?limit=100{}{sorted}", self.parameters),
            bare: vec![format!(
                "SELECT {SHOWN} FROM accounting WHERE {} ORDER BY {order} LIMIT 101",
                self.sql
            )],
            most_ms: None,
        }
    }

    fn count(&self) -> Question {
        Question {
            name: format!("count, {}", self.name),
            target: format!("/api/v1/jobs?count=true{}", self.parameters),
            bare: vec![format!("SELECT count(*) FROM accounting WHERE {}", self.sql)],
            most_ms: None,
        }
    }
}

/// As a part of an address.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// Hits of a filter, below and above what fits on a page, and what the database takes for few.
const HITS: [u64; 4] = [1, 40, 60, 140];
/// How a list is asked to be sorted, and how the database is.
const SORTED: [(&str, &str); 3] =
    [("elapsed", "elapsed_ns, id"), ("-cores", "cores DESC, id DESC"), ("name", "name, id")];

/// First pages and counts, for conditions that find few and many.
fn questions(connection: &Connection) -> Result<Vec<Question>> {
    let middle =
        "SELECT submit_ns, name FROM accounting WHERE rowid = (SELECT count(*) // 2 FROM accounting)";
    let (middle, name): (i64, String) =
        connection.query_row(middle, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let all = Filter::new("all", "", "true");
    let failed =
        Filter::condition("failed with GPUs", "state='FAILED' and gpus>0", "state = 'FAILED' AND gpus > 0");
    let common = [
        Filter::condition(
            "a user's long ones",
            "user='user007' and elapsed>2h",
            "\"user\" = 'user007' AND elapsed_ns > 7200000000000",
        ),
        Filter::new(
            "the later half, by name",
            &format!("&since={}&where={}", store::time::text(middle), escaped("name like 'train%'")),
            &format!("(end_ns >= {middle} OR end_ns IS NULL) AND name LIKE 'train%'"),
        ),
        Filter::condition("one name", &format!("name='{name}'"), &format!("name = '{name}'")),
        Filter::new(
            "one node",
            "&node=n0007",
            "node_list IN (SELECT list FROM node_list WHERE host = 'n0007')",
        ),
    ];
    let few = HITS.iter().map(|hits| Filter::longest(connection, *hits)).collect::<Result<Vec<_>>>()?;
    let in_usual_order = [&all, &failed].into_iter().chain(&common);
    let mut questions: Vec<Question> =
        in_usual_order.flat_map(|filter| [filter.page(None), filter.count()]).collect();
    questions.extend(few.iter().map(|filter| filter.page(None)));
    questions.extend(SORTED.iter().flat_map(|sort| [&all, &failed].map(|filter| filter.page(Some(*sort)))));
    Ok(questions)
}
