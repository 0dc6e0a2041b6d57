//! Tags over the whole collection: all rules for ten million jobs with characteristics, beside one bare scan that evaluates the same
//! conditions; and lists of jobs filtered by tags, beside the bare query, with few tags declared and with many.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use duckdb::{Connection, params_from_iter};
use store::{Limits, Site, Store};

use crate::answers::{Question, connect, in_turns, run_bare};
use crate::collection;
use crate::server::Server;

/// How much is judged.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    collection: collection::Arguments,
    /// How often the collection is judged, in turns with the bare scan
    #[arg(long, default_value_t = 3)]
    runs: usize,
}

/// What must hold.
const RUN_MOST: f64 = 2.0;
const ANSWER_MOST: f64 = 1.5;
/// With 200 tags declared, of the time with those that are shipped: what these machines take more or less by chance.
const MANY_MOST: f64 = 1.2;
/// Tags of the site's own, so that there are 200 with a criterion.
const MANY: usize = 200;

#[expect(clippy::print_stdout, reason = "the result")]
pub fn measure(arguments: &Arguments) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let data = collection::data(dir.path(), &arguments.collection)?;
    prepare(&data)?;
    let few = one(&data, arguments, dir.path())?;
    let many_tags = own_tags(MANY - few.declared);
    std::fs::write(data.join("site.toml"), many_tags)?;
    let many = one(&data, arguments, dir.path())?;
    std::fs::remove_file(data.join("site.toml"))?;
    let mut is_met = few.is_met && many.is_met;
    for (one, other) in few.answers.iter().zip(&many.answers) {
        let ratio = other.1 / one.1;
        println!(
            "{}: with {} tags {:.1} ms, with {} tags {:.1} ms, {ratio:.2} times (at most {MANY_MOST})",
            one.0, few.declared, one.1, many.declared, other.1
        );
        is_met &= ratio <= MANY_MOST;
    }
    ensure!(is_met, "a target was missed");
    Ok(())
}

/// What one set of tags gave.
struct Measured {
    declared: usize,
    is_met: bool,
    /// Question and milliseconds.
    answers: Vec<(String, f64)>,
}

#[expect(clippy::print_stdout, reason = "the result")]
fn one(data: &Path, arguments: &Arguments, dir: &Path) -> Result<Measured> {
    let (counting, declared, jobs) = bare_scan(data)?;
    let (mut floors, mut runs) = (Vec::new(), Vec::new());
    for _ in 0..arguments.runs {
        floors.push(floor(data, &counting)?);
        runs.push(run(data)?);
    }
    let (floor, run) = (middle(&mut floors), middle(&mut runs));
    println!("\n{jobs} jobs, {declared} tags with a criterion, {} runs in turns, median", arguments.runs);
    println!("one bare scan that counts      {floor:>8.2} s");
    println!("jobglass tags run              {run:>8.2} s   {:.2} times (at most {RUN_MOST})", run / floor);
    let mut is_met = run <= RUN_MOST * floor;
    let mut answers = Vec::new();
    for (question, bare, answer) in filters(data, dir, arguments)? {
        println!(
            "{question:<34} {bare:>9.1} ms {answer:>9.1} ms {:>7.2} (at most {ANSWER_MOST})",
            answer / bare
        );
        is_met &= answer <= ANSWER_MOST * bare;
        answers.push((question, answer));
    }
    Ok(Measured { declared, is_met, answers })
}

/// Characteristics for all jobs, and a site; once.
fn prepare(data: &Path) -> Result<()> {
    // Brings the tables to the present version.
    drop(Store::open(data, &Limits::default())?.writer()?);
    let connection = connect(data)?;
    let is_there: bool = connection.query_row("SELECT count(*) > 0 FROM job", [], |row| row.get(0))?;
    if is_there {
        return Ok(());
    }
    let began = Instant::now();
    connection.execute_batch(SITE)?;
    connection.execute_batch(CHANCE)?;
    connection.execute_batch(CHARACTERISTICS)?;
    connection.execute_batch("CHECKPOINT")?;
    eprintln!("characteristics of all jobs after {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

const SITE: &str = "\
    INSERT INTO site_cluster (cluster, told_ns) VALUES ('tiny', 1); \
    INSERT INTO site_partition (cluster, name, default_time_ns, is_test, has_gpus, has_local_disk) VALUES \
      ('tiny', 'cpu', 86400000000000, false, false, true), ('tiny', 'gpu', 3600000000000, false, true, false), \
      ('tiny', 'long', 3600000000000, true, false, false); \
    INSERT INTO site_node (cluster, name, cores, peak_flops) \
      SELECT 'tiny', printf('n%04d', range), 128, 3200000000000 FROM range(1, 3001)";

/// Of one column of a job, below so much.
const CHANCE: &str = "CREATE TEMP MACRO chance(id, nth, most) AS \
    CASE WHEN hash(id, nth) % 10 > 0 THEN (hash(id, nth) // 10) % 1000000 / 1e6 * most END";

/// Numbers that look like chance; a tenth of each is unknown.
const CHARACTERISTICS: &str = "\
    INSERT INTO job BY NAME SELECT cluster, job, \"user\", 'ended' AS state, false AS is_shared, start_ns, end_ns, \
      end_ns AS heard_ns, end_ns AS computed_ns, nodes::UINTEGER AS nodes, 60 AS readings, 1.0 AS coverage, \
      chance(id, 1, 128) AS cpu_avg, chance(id, 1, 128) AS cpu_user_avg, chance(id, 2, 128) AS cpu_node_max, chance(id, 3, 64) AS cpu_node_min, \
      chance(id, 4, 200) AS job_load_avg, floor(chance(id, 5, 3)) * 100 AS gpu_max, chance(id, 6, 100) AS gpu_avg, \
      floor(chance(id, 7, 2)) * 1e9 AS gpu_memory_max, chance(id, 8, 2e11)::BIGINT AS memory_peak_last, chance(id, 9, 200) AS threads_max, \
      floor(chance(id, 10, 2)) AS oom_kills_total, chance(id, 11, 1e10)::BIGINT AS read_bytes_total, chance(id, 12, 1e10)::BIGINT AS write_bytes_total, \
      chance(id, 13, 1e4) AS read_bytes_avg, chance(id, 14, 1e4) AS write_bytes_avg, floor(chance(id, 15, 1.1)) AS memory_swap_max, \
      chance(id, 16, 1e10) AS node_cpu_user_avg, chance(id, 17, 1e9) AS node_cpu_system_avg, chance(id, 18, 1e10) AS node_cpu_idle_avg, \
      chance(id, 19, 1e9) AS node_cpu_iowait_avg, chance(id, 20, 12800) AS node_load_avg, chance(id, 21, 1e12) AS node_flops_avg, \
      chance(id, 22, 2e9) AS node_ib_sent_avg, chance(id, 23, 1e5) AS node_ib_packets_sent_avg, chance(id, 24, 1e9) AS node_l1_misses_avg, \
      chance(id, 25, 1e8) AS node_last_level_misses_avg, chance(id, 26, 1e10) AS node_loads_avg, chance(id, 27, 1e10) AS node_stores_avg \
    FROM accounting";

/// All criteria as one query that counts, how many there are, and how many jobs.
fn bare_scan(data: &Path) -> Result<(Counting, usize, u64)> {
    let site = std::fs::read(data.join("site.toml")).unwrap_or_default();
    let site = Site::parse(&String::from_utf8_lossy(&site))?;
    let store = Store::open(data, &Limits::default())?.with_site(site);
    drop(store.writer()?);
    let declared = store.tags();
    let (sql, values) = store::tags::counting(&declared);
    let jobs = store.reader()?.count_jobs(&store::jobs::Which::default())?;
    Ok((Counting { sql, values }, declared.judged().count(), jobs))
}

struct Counting {
    sql: String,
    values: Vec<duckdb::types::Value>,
}

fn floor(data: &Path, counting: &Counting) -> Result<f64> {
    let connection = connect(data)?;
    let began = Instant::now();
    connection.query_row(&counting.sql, params_from_iter(&counting.values), |row| row.get::<_, u64>(0))?;
    Ok(began.elapsed().as_secs_f64())
}

/// The whole collection by the server.
fn run(data: &Path) -> Result<f64> {
    let server = Server::start(data)?;
    let token = server.token("admin")?;
    let began = Instant::now();
    let status = Command::new("target/release/jobglass")
        .args(["tags", "run", "--detach", "--json"])
        .env("JOBGLASS_SERVER", format!("http://127.0.0.1:{}", server.port))
        .env("JOBGLASS_TOKEN_FILE", data.join("admin.token"))
        .output()
        .context("cannot start jobglass: run `make build`")?
        .status;
    ensure!(status.success(), "the run could not be begun");
    loop {
        let answer = String::from_utf8_lossy(&server.get("/api/v1/tags/run", &token)?).into_owned();
        if !answer.contains("\"ended\":null") {
            return Ok(began.elapsed().as_secs_f64());
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// Three tags and two ranges.
fn filters(data: &Path, dir: &Path, arguments: &Arguments) -> Result<Vec<(String, f64, f64)>> {
    // What is in the log only would not be in the copy.
    connect(data)?.execute_batch("CHECKPOINT")?;
    let copied = tempfile::tempdir_in(dir)?;
    std::fs::copy(data.join(store::FILE), copied.path().join(store::FILE))?;
    let bare = connect(copied.path())?;
    let masks = |names: &[&str]| masks(&bare, names);
    let all = masks(&["job_status COMPLETED"])?;
    let any = masks(&["avg_LA LOW", "avg_LA SINGLE CORE", "avg_CPU_user LOW"])?;
    let none = masks(&["job_nnodes SINGLE"])?;
    let each = |masks: &[(usize, u64)], form: &dyn Fn(usize, u64) -> String, between: &str| {
        let parts: Vec<String> = masks.iter().map(|(word, mask)| form(*word, *mask)).collect();
        format!("({})", parts.join(between))
    };
    let condition = [
        each(&all, &|word, mask| format!("tags{word} & {mask}::UBIGINT = {mask}::UBIGINT"), " AND "),
        each(&any, &|word, mask| format!("tags{word} & {mask}::UBIGINT <> 0"), " OR "),
        each(&none, &|word, mask| format!("tags{word} & {mask}::UBIGINT = 0"), " AND "),
        "elapsed_ns > 600000000000".to_owned(),
        "cores >= 8 AND cores <= 512".to_owned(),
    ]
    .join(" AND ");
    let parameters = "all=job_status%20COMPLETED&any=avg_LA%20LOW,avg_LA%20SINGLE%20CORE,avg_CPU_user%20LOW&none=job_nnodes%20SINGLE\
        &where=elapsed%3E10m%20and%20cores%20between%208%20and%20512";
    let questions = [
        Question {
            name: "first page, three tags, two ranges".into(),
            target: format!("/api/v1/jobs?limit=100&{parameters}"),
            bare: vec![format!(
                "SELECT {} FROM accounting WHERE {condition} ORDER BY submit_ns DESC LIMIT 101",
                collection::SHOWN
            )],
            most_ms: None,
        },
        Question {
            name: "count, three tags, two ranges".into(),
            target: format!("/api/v1/jobs?count=true&{parameters}"),
            bare: vec![format!("SELECT count(*) FROM accounting WHERE {condition}")],
            most_ms: None,
        },
    ];
    let server = Server::start(data)?;
    let token = server.token("admin")?;
    let mut answers = Vec::new();
    for question in questions {
        let (bare, answer) = in_turns(
            arguments.collection.times(),
            || run_bare(&bare, &question),
            || Ok(server.get(&question.target, &token)?.len()),
        )?;
        answers.push((question.name, bare, answer));
    }
    Ok(answers)
}

/// The words and masks of tags.
fn masks(connection: &Connection, names: &[&str]) -> Result<Vec<(usize, u64)>> {
    let mut words = [0u64; 4];
    for name in names {
        let bit: u32 =
            connection.query_row("SELECT bit FROM tag WHERE name = ?", [name], |row| row.get(0))?;
        words[(bit / 64) as usize] |= 1 << (bit % 64);
    }
    Ok(words.into_iter().enumerate().filter(|(_, word)| *word != 0).collect())
}

/// Tags of a site, each with a criterion of its own.
fn own_tags(count: usize) -> String {
    let columns = ["cpu_avg", "job_load_avg", "threads_max", "node_load_avg", "cores", "nodes"];
    let mut text = String::new();
    for at in 0..count {
        // Writing into memory does not fail.
        let _ = writeln!(
            text,
            "[[tag]]\nid = {}\nname = 'own {at}'\ngroup = 'own'\ndescription = 'It is so.'\ncriterion = '{} > {}'\n",
            1000 + at,
            columns[at % columns.len()],
            at + 1
        );
    }
    text
}

fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
