//! Tags over the whole collection: all rules for ten million jobs with characteristics, beside one bare scan that evaluates the same
//! conditions; and lists of jobs filtered by tags that rules and people have set, beside the bare query, with few tags declared and with many.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use duckdb::{Connection, params, params_from_iter};
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
    std::fs::write(data.join("site.toml"), PEOPLE)?;
    let few = one(&data, arguments, dir.path())?;
    let many_tags = own_tags(MANY - few.declared);
    std::fs::write(data.join("site.toml"), format!("{PEOPLE}{many_tags}"))?;
    let many = one(&data, arguments, dir.path())?;
    std::fs::remove_file(data.join("site.toml"))?;
    let mut is_met = few.is_met && many.is_met;
    for (one, other) in few.answers.iter().zip(&many.answers) {
        let ratio = other.1 / one.1;
        println!(
            "{:<34} with {} tags {:.1} ms, with {} tags {:.1} ms, {ratio:.2} times (at most {MANY_MOST})",
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
    println!("three tags (all, any, none) and two ranges: bare query and answer");
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
    let is_empty = |table: &str| -> Result<bool> {
        let sql = format!("SELECT count(*) = 0 FROM {table}");
        Ok(connection.query_row(&sql, [], |row| row.get(0))?)
    };
    let began = Instant::now();
    if is_empty("job")? {
        connection.execute_batch(SITE)?;
        connection.execute_batch(CHANCE)?;
        connection.execute_batch(CHARACTERISTICS)?;
        eprintln!("characteristics of all jobs after {:.0} s", began.elapsed().as_secs_f64());
    }
    if is_empty("assignment")? {
        for (at, (tag, by, jobs)) in SAID.iter().enumerate() {
            connection.execute(WORDS, params![by.is_none(), by.unwrap_or("u1"), at, jobs, tag])?;
        }
    }
    Ok(connection.execute_batch("CHECKPOINT")?)
}

/// Who sees what is measured.
const PEOPLE: &str = "[people]\nadministrators = ['pia']\nsupport = ['sven']\n";

/// Which tags people have set, who for themselves only, and on how many jobs.
const SAID: [(&str, Option<&str>, u64); 6] = [
    ("job_status COMPLETED", None, 3000),
    ("avg_LA LOW", None, 5000),
    ("job_nnodes SINGLE", None, 2000),
    ("job_behavior ITERATIVE", None, 20_000),
    ("job_bug DEADLOCK", None, 5000),
    ("avg_CPU_user LOW", Some("pia"), 500),
];

/// On jobs that look like chance; every fourth is taken off where it is not personal.
const WORDS: &str = "INSERT INTO assignment \
    SELECT id, (SELECT id FROM tag WHERE name = $5), NOT $1 OR row_number() OVER () % 4 > 0, NOT $1, $2, false, NULL, 1, NULL \
    FROM (SELECT id FROM accounting ORDER BY hash(id, $3) LIMIT $4)";

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

/// Which tags jobs must have, and who asks.
struct Tagged {
    name: &'static str,
    /// `None` is the administrator's token.
    by: Option<&'static str>,
    all: &'static [&'static str],
    any: &'static [&'static str],
    none: &'static [&'static str],
}

const BY_RULE: &[&str] = &["avg_LA LOW", "avg_LA SINGLE CORE", "avg_CPU_user LOW"];

/// Whatever people have said of these tags, as far as whoever asks sees it.
const FILTERS: [Tagged; 4] = [
    Tagged {
        name: "by rule",
        by: None,
        all: &["job_status COMPLETED"],
        any: BY_RULE,
        none: &["job_nnodes SINGLE"],
    },
    Tagged {
        name: "by rule, for support",
        by: Some("sven"),
        all: &["job_status COMPLETED"],
        any: BY_RULE,
        none: &["job_nnodes SINGLE"],
    },
    Tagged {
        name: "by people, too",
        by: None,
        all: &["job_status COMPLETED"],
        any: &["avg_LA LOW", "job_behavior ITERATIVE"],
        none: &["job_bug DEADLOCK"],
    },
    Tagged {
        name: "and personal",
        by: Some("pia"),
        all: &["job_status COMPLETED"],
        any: BY_RULE,
        none: &["job_nnodes SINGLE"],
    },
];

/// Three tags and two ranges: what was asked, and milliseconds of the bare query and of the answer.
fn filters(data: &Path, dir: &Path, arguments: &Arguments) -> Result<Vec<(String, f64, f64)>> {
    // What is in the log only would not be in the copy.
    connect(data)?.execute_batch("CHECKPOINT")?;
    let copied = tempfile::tempdir_in(dir)?;
    std::fs::copy(data.join(store::FILE), copied.path().join(store::FILE))?;
    let bare = connect(copied.path())?;
    let server = Server::start(data)?;
    let mut answers = Vec::new();
    for tagged in &FILTERS {
        let token = tagged.by.map_or_else(|| server.token("admin"), |user| server.token_of(user))?;
        for question in tagged.questions(&bare)? {
            let (bare, answer) = in_turns(
                arguments.collection.times(),
                || run_bare(&bare, &question),
                || Ok(server.get(&question.target, &token)?.len()),
            )?;
            answers.push((question.name, bare, answer));
        }
    }
    Ok(answers)
}

impl Tagged {
    /// The first page, and how many there are.
    fn questions(&self, bare: &Connection) -> Result<[Question; 2]> {
        let condition = [
            self.words(bare, self.all, "{word} & {mask} = {mask}", " AND ")?,
            self.words(bare, self.any, "{word} & {mask} <> 0", " OR ")?,
            self.words(bare, self.none, "coalesce({word} & {mask}, 0) = 0", " AND ")?,
            "elapsed_ns > 600000000000".to_owned(),
            "cores >= 8 AND cores <= 512".to_owned(),
        ]
        .join(" AND ");
        let names = |names: &[&str]| names.join(",").replace(' ', "%20");
        let parameters = format!(
            "all={}&any={}&none={}&where=elapsed%3E10m%20and%20cores%20between%208%20and%20512",
            names(self.all),
            names(self.any),
            names(self.none)
        );
        let question = |what: &str, target: &str, select: &str, rest: &str| Question {
            name: format!("{what}, tags {}", self.name),
            target: format!("/api/v1/jobs?{target}&{parameters}"),
            bare: vec![format!("SELECT {select} FROM accounting WHERE {condition}{rest}")],
            most_ms: None,
        };
        Ok([
            question("page", "limit=100", collection::SHOWN, " ORDER BY submit_ns DESC LIMIT 101"),
            question("count", "count=true", "count(*)", ""),
        ])
    }

    /// The bits of tags, and what is personal: `form` for each word of bits.
    fn words(&self, bare: &Connection, names: &[&str], form: &str, between: &str) -> Result<String> {
        let mut words: BTreeMap<String, u64> = BTreeMap::new();
        let mut parts = Vec::new();
        for name in names {
            let sql = "SELECT t.bit, t.id, EXISTS (SELECT 1 FROM tag_version v WHERE v.tag = t.id), \
                EXISTS (SELECT 1 FROM assignment h WHERE h.tag = t.id AND h.is_personal AND h.\"by\" = ?) FROM tag t WHERE t.name = ?";
            let (bit, id, has_rule, is_personal): (u32, u32, bool, bool) = bare
                .query_row(sql, params![self.by.unwrap_or_default(), name], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                })
                .with_context(|| format!("there is no tag {name}"))?;
            let columns = if has_rule { "tags" } else { "said" };
            *words.entry(format!("{columns}{}", bit / 64)).or_default() |= 1 << (bit % 64);
            if is_personal {
                parts.push(format!(
                    "id IN (SELECT id FROM assignment WHERE tag = {id} AND (NOT is_personal OR \"by\" = '{}') AND is_set AND until_ns IS NULL)",
                    self.by.unwrap_or_default()
                ));
            }
        }
        parts.extend(words.into_iter().map(|(word, mask)| {
            form.replace("{word}", &word).replace("{mask}", &format!("{mask}::UBIGINT"))
        }));
        Ok(format!("({})", parts.join(between)))
    }
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
