//! Plays attacks, each against an agent of its own with the victim at work, and keeps a table of what came of them.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Node, Row, parse, program};
use crate::unit::{Confined, Unit};
use crate::users::VICTIM;
use crate::victim::{Run, Victim, preloaded};

/// What the agent may take of `MemoryMax` while one user attacks: there is room left for others to do the same.
const MEMORY_SHARE: (u64, u64) = (3, 8);
/// The victim's programs after an attack: also what comes later must be whole.
const AFTERWARDS: usize = 20;
/// How long records may take to reach the spool.
const SETTLE_SECONDS: u64 = 12;
/// How long a single record is waited for; an attack that delays others delays them for longer.
const LATENCY_SECONDS: u64 = 8;
const LATENCY_RUNS: usize = 5;
/// What others have to wait for takes at most so many times as long while somebody attacks.
const SLOWER: u32 = 3;
/// An agent that was told to stop writes what it has, and ends.
const STOP_SECONDS: u64 = 8;
/// What a healthy agent counts as well.
const ORDINARY: [&str; 20] = [
    "forks",
    "execs",
    "exits",
    "guest_messages",
    "guest_not_loaded",
    "guest_unknown",
    "guest_privileged",
    "images_finished",
    "images_folded",
    "images_spooled",
    "rows_spooled",
    "readings_spooled",
    "static_programs",
    "files_hashed",
    "files_unhashed",
    "programs_without_path",
    "exits_unknown",
    "processes",
    "images_waiting",
    "users",
];

/// Waits until `done`, and says whether it came to that.
pub fn comes(seconds: u64, mut done: impl FnMut() -> bool) -> bool {
    testkit::within(Duration::from_secs(seconds), || done().then_some(())).is_some()
}

/// A program of an attacker's that runs, and goes on until its standard input ends.
pub struct Attack {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Attack {
    pub fn start(command: &mut Command) -> Attack {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let output = BufReader::new(child.stdout.take().unwrap());
        Attack { child, output }
    }

    /// The next number that it prints: it has done so much.
    pub fn number(&mut self) -> u64 {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().parse().unwrap_or_else(|_| panic!("the attack printed `{line}`"))
    }

    pub fn go_on(&mut self) {
        use std::io::Write;
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    pub fn end(mut self) {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        let _ = self.output.read_to_string(&mut rest);
        let _ = self.child.wait();
    }
}

/// Everything around one attack.
pub struct Scene {
    confined: Confined,
    victim: Option<Victim>,
    runs: Vec<Run>,
    problems: Vec<String>,
    peak_kib: u64,
}

impl Scene {
    fn start(config: &str) -> Scene {
        let confined = Confined::start(config);
        let (dir, socket) = (confined.node.dir.path(), &confined.node.socket);
        // The victim has a socket of their own before it begins.
        let warm_up = program("nothing", "cc", "nothing.c", &[]);
        assert!(preloaded(&warm_up, socket, VICTIM).status().unwrap().success());
        let own = format!("{socket}.{VICTIM}");
        assert!(comes(30, || Path::new(&own).exists()), "the victim has no socket");
        let victim = Some(Victim::start(dir, socket));
        Scene { confined, victim, runs: Vec::new(), problems: Vec::new(), peak_kib: 0 }
    }

    pub fn node(&self) -> &Node {
        &self.confined.node
    }

    pub fn socket(&self) -> &str {
        &self.confined.node.socket
    }

    /// A directory in which a user may write.
    pub fn dir_of(&self, uid: u32) -> PathBuf {
        let dir = self.node().dir.path().join(format!("home-{uid}"));
        fs::create_dir_all(&dir).unwrap();
        std::os::unix::fs::chown(&dir, Some(uid), Some(uid)).unwrap();
        dir
    }

    /// A program of an attack, without the preload library.
    pub fn command(&self, name: &str, uid: u32) -> Command {
        let built = program(name, "cc", &format!("{name}.c"), &["-pthread"]);
        let mut command = Command::new(built);
        command.env_clear().uid(uid).gid(uid).current_dir(self.dir_of(uid));
        command
    }

    /// Lets the victim run this many more programs.
    pub fn let_victim_run(&self, count: usize) {
        let victim = self.victim.as_ref().unwrap();
        let goal = victim.ran() + count;
        assert!(comes(90, || victim.ran() >= goal), "the victim's programs take too long");
    }

    /// How long it takes until a program that the victim runs now is in the spool with its message: the median of a few.
    pub fn latency(&self, mark: &str) -> Option<Duration> {
        let one = program("nothing", "cc", "nothing.c", &[]);
        let run = |number| {
            let mark = format!("{mark}-{number}");
            let mut written = Written::from_now(self.node());
            let began = Instant::now();
            assert!(preloaded(&one, self.socket(), VICTIM).arg(&mark).status().unwrap().success());
            comes(LATENCY_SECONDS, || written.has(mark.as_bytes())).then(|| began.elapsed())
        };
        median((0..LATENCY_RUNS).map(run).collect())
    }

    /// Checks that something takes no longer than a few times what it takes while nobody attacks.
    pub fn check_slower(&mut self, what: &str, quiet: Option<Duration>, attacked: Option<Duration>) {
        let holds = quiet.zip(attacked).is_some_and(|(quiet, attacked)| attacked <= SLOWER * quiet);
        eprintln!("  {what}: {attacked:?} during the attack, {quiet:?} before");
        self.check(holds, format!("{what} took {attacked:?} during the attack and {quiet:?} before"));
    }

    pub fn problem(&mut self, what: impl Into<String>) {
        self.problems.push(what.into());
    }

    pub fn check(&mut self, holds: bool, what: impl Into<String>) {
        if !holds {
            self.problem(what);
        }
    }

    fn is_alive(&mut self) -> bool {
        self.confined.node.agent.as_mut().is_some_and(|agent| agent.try_wait().unwrap().is_none())
    }

    pub fn signal(&self, name: &str) {
        self.node().signal(name);
    }

    /// Ends the agent; gives how long that took.
    pub fn stop_agent(&mut self) -> Duration {
        self.note_peak();
        let began = Instant::now();
        if !self.is_alive() {
            self.confined.node.agent = None;
            return Duration::ZERO;
        }
        self.signal("TERM");
        let mut ended = None;
        let agent = self.confined.node.agent.as_mut().unwrap();
        let is_over = comes(STOP_SECONDS, || {
            ended = agent.try_wait().unwrap();
            ended.is_some()
        });
        let took = began.elapsed();
        if !is_over {
            self.problem(format!("the agent did not end within {STOP_SECONDS} s of SIGTERM"));
            self.confined.node.kill_agent();
        } else if !ended.is_some_and(|status| status.success()) {
            self.problem(format!("the agent ended with {ended:?}"));
        }
        self.confined.node.agent = None;
        took
    }

    fn note_peak(&mut self) {
        let Some(agent) = &self.confined.node.agent else { return };
        let status = fs::read(format!("/proc/{}/status", agent.id())).unwrap_or_default();
        let status = String::from_utf8_lossy(&status).into_owned();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        self.peak_kib = self.peak_kib.max(kib.unwrap_or(0));
    }

    /// Ends the victim's work, and waits for its records: for attacks that end the agent themselves.
    pub fn settle_victim(&mut self) {
        if let Some(victim) = self.victim.take() {
            self.runs = victim.stop();
        }
        let (node, runs) = (&self.confined.node, &self.runs);
        comes(SETTLE_SECONDS, || {
            let rows = rows_with(node, "victim-");
            runs.iter().all(|run| run.lacks(&rows).is_none())
        });
    }

    fn finish(mut self, name: &str, judge: impl FnOnce(&Seen) -> Vec<String>) -> Outcome {
        if self.confined.node.agent.is_some() {
            self.wind_down();
        }
        let victim = self.check_victim();
        self.check_memory();
        // An agent that was killed leaves a spool without an end.
        let health = parse(&self.node().read("health")).pop().unwrap_or(Row::Null);
        let seen = Seen { health, lines: lines(self.node(), "image") };
        self.problems.extend(judge(&seen));
        let peak_mib = self.peak_kib as f64 / 1024.0;
        Outcome { name: name.to_owned(), peak_mib, victim, counted: seen.counted(), problems: self.problems }
    }

    /// Lets the victim go on for a while, and ends everything in good order.
    fn wind_down(&mut self) {
        let is_alive = self.is_alive();
        self.check(is_alive, "the agent is dead");
        if is_alive {
            if self.victim.is_some() {
                self.let_victim_run(AFTERWARDS);
            }
            self.settle_victim();
        }
        self.stop_agent();
    }

    /// Says how many of the victim's records are complete.
    fn check_victim(&mut self) -> String {
        if let Some(victim) = self.victim.take() {
            self.runs = victim.stop();
        }
        let rows = rows_with(self.node(), "victim-");
        let lacks: Vec<_> = self.runs.iter().filter_map(|run| run.lacks(&rows)).collect();
        let (all, lacking) = (self.runs.len(), lacks.len());
        if let Some(first) = lacks.first() {
            self.problem(format!("{lacking} of {all} of the victim's records lack {first}"));
        }
        format!("{} of {all}", all - lacking)
    }

    fn check_memory(&mut self) {
        let kills = self.confined.groups.oom_kills();
        self.check(kills == 0, "the agent was OOM-killed");
        let (peak, allowed) =
            (self.peak_kib, Unit::shipped().memory_max() / 1024 * MEMORY_SHARE.0 / MEMORY_SHARE.1);
        self.check(peak <= allowed, format!("the agent took {peak} KiB of {allowed}"));
    }
}

/// What is in the spool of an attack.
pub struct Seen {
    pub health: Row,
    lines: Vec<String>,
}

impl Seen {
    fn sum_of(&self, prefixes: &[&str]) -> u64 {
        let counters = self.health["counters"].as_object().into_iter().flatten();
        let wanted = counters.filter(|(name, _)| prefixes.iter().any(|prefix| name.starts_with(prefix)));
        wanted.filter_map(|(_, value)| value.as_u64()).sum()
    }

    /// Messages that were not used, for whatever reason.
    pub fn refused(&self) -> u64 {
        self.sum_of(&["guest_messages_"])
    }

    /// Processes of which there is no record, for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.sum_of(&["images_dropped_", "processes_dropped_"])
    }

    /// Counters that stand for something unusual.
    fn counted(&self) -> String {
        let Some(counters) = self.health["counters"].as_object() else { return "nothing".into() };
        let unusual = counters
            .iter()
            .filter(|(name, value)| value.as_u64() != Some(0) && !ORDINARY.contains(&name.as_str()));
        let unusual: Vec<String> = unusual.map(|(name, value)| format!("{name}={value}")).collect();
        unusual.join(" ")
    }

    pub fn rows(&self, needle: &str) -> Vec<Row> {
        let lines = self.lines.iter().filter(|line| line.contains(needle));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// How many images of a user are in the spool, without parsing what they said.
    pub fn images_of(&self, uid: u32, needle: &str) -> u64 {
        let user = format!("\"uid\":{uid},");
        let own = self.lines.iter().filter(|line| line.contains(&user) && line.contains(needle));
        let count = |line: &String| {
            let (_, rest) = line.rsplit_once("\"count\":").filter(|(_, rest)| rest.contains("\"source\""))?;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        own.map(|line| count(line).unwrap_or(1)).sum()
    }
}

/// The lines of the spool, as text.
pub fn lines(node: &Node, kind: &str) -> Vec<String> {
    let text = String::from_utf8(node.read(kind).stdout).expect("JSON is text");
    text.lines().map(str::to_owned).collect()
}

/// The bytes of the spool that were written since a moment: reading all of it takes the longer the more an attack has left in it.
pub struct Written<'a> {
    node: &'a Node,
    seen: HashMap<PathBuf, u64>,
    fresh: Vec<u8>,
}

impl<'a> Written<'a> {
    pub fn from_now(node: &'a Node) -> Written<'a> {
        let mut written = Written { node, seen: HashMap::new(), fresh: Vec::new() };
        written.read();
        written.fresh.clear();
        written
    }

    /// Whether these bytes are among them.
    pub fn has(&mut self, bytes: &[u8]) -> bool {
        self.read();
        self.fresh.windows(bytes.len()).any(|window| window == bytes)
    }

    fn read(&mut self) {
        for segment in agent::spool::segments(&self.node.spool()).unwrap() {
            let from = self.seen.entry(segment.path.clone()).or_default();
            let mut file = fs::File::open(&segment.path).unwrap();
            file.seek(SeekFrom::Start(*from)).unwrap();
            *from += file.read_to_end(&mut self.fresh).unwrap() as u64;
        }
    }
}

/// Nothing if any of them is.
pub fn median(times: Vec<Option<Duration>>) -> Option<Duration> {
    let mut times: Vec<Duration> = times.into_iter().collect::<Option<_>>()?;
    times.sort();
    times.get(times.len() / 2).copied()
}

fn rows_with(node: &Node, needle: &str) -> Vec<Row> {
    let lines = lines(node, "image").into_iter().filter(|line| line.contains(needle));
    lines.map(|line| serde_json::from_str(&line).unwrap()).collect()
}

struct Outcome {
    name: String,
    peak_mib: f64,
    victim: String,
    counted: String,
    problems: Vec<String>,
}

/// The outcomes of a test's attacks.
pub struct Table {
    title: &'static str,
    config: String,
    outcomes: Vec<Outcome>,
}

impl Table {
    pub fn new(title: &'static str, config: &str) -> Table {
        Table { title, config: config.to_owned(), outcomes: Vec::new() }
    }

    /// Plays one attack; `judge` says what is wrong with what was recorded.
    pub fn play(
        &mut self,
        name: &str,
        attack: impl FnOnce(&mut Scene),
        judge: impl FnOnce(&Seen) -> Vec<String>,
    ) {
        let mut scene = Scene::start(&self.config);
        attack(&mut scene);
        let outcome = scene.finish(name, judge);
        eprintln!("{}: {}", outcome.name, if outcome.problems.is_empty() { "held" } else { "FAILED" });
        self.outcomes.push(outcome);
    }

    /// Prints the table; fails if anything did.
    pub fn finish(self) {
        eprintln!("\n{}\n{:>8}  {:>12}  ATTACK; COUNTED", self.title, "PEAK MiB", "VICTIM");
        for outcome in &self.outcomes {
            let Outcome { name, peak_mib, victim, counted, .. } = outcome;
            eprintln!("{peak_mib:>8.1}  {victim:>12}  {name}; {counted}");
        }
        let problems: Vec<String> = self
            .outcomes
            .iter()
            .flat_map(|outcome| outcome.problems.iter().map(|what| format!("{}: {what}", outcome.name)))
            .collect();
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    }
}

/// Nothing more is asked than that the agent and the victim are well.
pub fn no_more(_: &Seen) -> Vec<String> {
    Vec::new()
}

/// A problem, if something does not hold.
pub fn unless(holds: bool, what: impl Into<String>) -> Vec<String> {
    if holds { Vec::new() } else { vec![what.into()] }
}
