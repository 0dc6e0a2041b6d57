//! The agent's main thread: takes from the kernel and the guests, and hands on what is finished.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use record::entry::{Gap, GapReason, Health};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sample::Proc;
use serde::{Deserialize, Serialize};

use crate::clock::{Change, Clock, monotonic_ns, wall_ns};
use crate::config::{Config, ConfigError};
use crate::counters::Counters;
use crate::files::Files;
use crate::fold::Folder;
use crate::kernel::{Connector, Log, Mappings, Taskstats};
use crate::output::{Output, Writing};
use crate::owners::Owners;
use crate::peek::Peeks;
use crate::progress::{self, Left, Progress, ProgressFile};
use crate::receive::{Bounds, Command, Ends, Heard, Hearing, Receive, wake, waker, woken};
use crate::sampling::kept::Kept;
use crate::sampling::{self, Sampling};
use crate::say::say;
use crate::shares::Shares;
use crate::ship::{self, Cursor, Shipping};
use crate::spool::{Numbering, SpoolWriter, lock};
use crate::status::{self, Status};
use crate::table::{Finished, FromGuest, Subject, Surroundings, Table};
use crate::waits::Waits;
use crate::{checkpoint, limits, settings};

/// Kernel events taken before the guests have their turn.
const EVENTS_PER_TURN: usize = 8192;
/// Records of mapped files taken at once; a program that maps without end does not keep the agent from the rest.
const MAPPINGS_PER_TURN: usize = 32_768;
const GUESTS_PER_TURN: usize = 4096;
/// Without kernel events, messages of a process may still come when it is gone.
const GONE_NS: u64 = 300_000_000;
const TICK_NS: u64 = 20_000_000;
const IDLE_NS: u64 = 500_000_000;
const HEARING_NS: u64 = 100_000_000;
const SWITCH_NS: u64 = 5_000_000_000;
const CHECKPOINT_NS: u64 = 30_000_000_000;
const HEALTH_NS: u64 = 60_000_000_000;
/// How often it is looked which programs have run long enough to be reported, and how many are reported then.
const REPORT_NS: u64 = 5_000_000_000;
const REPORTS_PER_TURN: usize = 1000;
/// However many records are lost, everything is reported again so often at most.
const REPORT_AGAIN_NS: u64 = 600_000_000_000;

/// What was typed, over what the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flags {
    pub config: Option<PathBuf>,
    pub spool: Option<PathBuf>,
    pub socket: Option<String>,
    pub server: Option<String>,
    pub token_file: Option<PathBuf>,
    pub enroll_token_file: Option<PathBuf>,
    pub ca_file: Option<PathBuf>,
}

/// Why the agent does not run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("another agent writes to {}; stop it, or choose another spool", .0.display())]
    Locked(PathBuf),
    #[error("cannot {what}: {source}")]
    Io { what: String, source: io::Error },
}

fn cannot(what: impl Into<String>) -> impl FnOnce(io::Error) -> AgentError {
    let what = what.into();
    move |source| AgentError::Io { what, source }
}

impl Flags {
    /// The same for a process in another directory.
    pub fn absolute(self) -> Flags {
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let socket = self.socket.map(|name| match name.strip_prefix('@') {
            Some(_) => name,
            None => absolute(name.into()).display().to_string(),
        });
        Flags {
            config: self.config.map(absolute),
            spool: self.spool.map(absolute),
            socket,
            server: self.server,
            token_file: self.token_file.map(absolute),
            enroll_token_file: self.enroll_token_file.map(absolute),
            ca_file: self.ca_file.map(absolute),
        }
    }

    /// The configuration with the flags in it.
    pub fn configure(&self) -> Result<Config, ConfigError> {
        let mut config = Config::read(self.config.as_deref())?;
        if let Some(dir) = &self.spool {
            config.spool.dir = dir.clone();
        }
        if let Some(url) = &self.server {
            config.server.url = url.clone();
        }
        if let Some(file) = &self.token_file {
            config.server.token_file = file.clone();
        }
        if let Some(file) = &self.enroll_token_file {
            config.server.enroll_token_file = file.clone();
        }
        if let Some(file) = &self.ca_file {
            config.server.ca_file = file.clone();
        }
        if let Some(socket) = &self.socket {
            config.socket = socket.clone();
            // One name was asked for: no other is taken.
            config.container_socket = String::new();
        }
        Ok(config)
    }
}

/// Signals, as flags and a descriptor that wakes.
struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    pipe: UnixStream,
}

impl Signals {
    fn catch() -> io::Result<Signals> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let (pipe, wake) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let signals = Signals { stop: Arc::default(), reload: Arc::default(), pipe };
        for (signal, flag) in [(SIGTERM, &signals.stop), (SIGINT, &signals.stop), (SIGHUP, &signals.reload)] {
            signal_hook::flag::register(signal, flag.clone())?;
            signal_hook::low_level::pipe::register(signal, wake.try_clone()?)?;
        }
        Ok(signals)
    }

    fn is_set(flag: &AtomicBool) -> bool {
        flag.swap(false, Ordering::Relaxed)
    }
}

/// The receiver's thread and how to speak to it.
struct Guests {
    messages: Receiver<FromGuest>,
    wake: Arc<OwnedFd>,
    commands: Sender<Command>,
    command_wake: Arc<OwnedFd>,
    hearing: Hearing,
    thread: Option<JoinHandle<()>>,
}

impl Guests {
    fn start(
        config: &Config,
        rules: Arc<Vec<u8>>,
        bounds: Bounds,
        counters: Arc<Counters>,
    ) -> Result<Guests, AgentError> {
        let (out, messages) = channel();
        let (commands, orders) = channel();
        let wake = waker().map_err(cannot("make an event descriptor"))?;
        let command_wake = waker().map_err(cannot("make an event descriptor"))?;
        if let Some(dir) = Path::new(&config.socket).parent().filter(|_| !config.socket.starts_with('@')) {
            fs::create_dir_all(dir).map_err(cannot(format!("make {}", dir.display())))?;
        }
        let ends = Ends { out, wake: wake.clone(), commands: orders, command_wake: command_wake.clone() };
        let receive = Receive::open(config.names(), rules, bounds, ends, counters)
            .map_err(cannot(format!("listen on {}", config.socket)))?;
        let hearing = receive.hearing();
        let thread = thread::Builder::new()
            .name("receive".into())
            .stack_size(512 * 1024)
            .spawn(move || {
                limits::take_short_turns();
                receive.run();
            })
            .map_err(cannot("start a thread"))?;
        Ok(Guests { messages, wake, commands, command_wake, hearing, thread: Some(thread) })
    }

    /// Takes messages that have come, with how far that goes.
    fn take(&self) -> (Vec<FromGuest>, Heard) {
        let heard = self.hearing.so_far();
        let messages: Vec<FromGuest> = self.messages.try_iter().take(GUESTS_PER_TURN).collect();
        let is_all = messages.len() < GUESTS_PER_TURN;
        (messages, if is_all { heard } else { Heard::default() })
    }

    fn tell(&self, command: Command) {
        let _ = self.commands.send(command);
        wake(&self.command_wake);
    }

    /// Stops the receiver; what it has received is left to be taken.
    fn stop(&mut self) {
        self.tell(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the kernel tells, as far as it lets us ask.
#[derive(Default)]
struct Kernel {
    connector: Option<Connector>,
    taskstats: Option<Taskstats>,
    mappings: Option<Mappings>,
    log: Option<Log>,
    /// What cannot be seen, in words.
    blind: Vec<String>,
}

impl Kernel {
    fn open() -> Kernel {
        let mut kernel = Kernel::default();
        match Connector::open() {
            Ok(connector) => kernel.connector = Some(connector),
            Err(error) => kernel.blind.push(format!(
                "no process events from the kernel ({error}): only programs with the guest are seen, without \
                 exit codes; run as root or with CAP_NET_ADMIN"
            )),
        }
        let mask = fs::read("/sys/devices/system/cpu/possible").unwrap_or_default();
        match Taskstats::open(String::from_utf8_lossy(&mask).trim()) {
            Ok(taskstats) => kernel.taskstats = Some(taskstats),
            Err(error) => kernel.blind.push(format!(
                "no accounting from the kernel ({error}): CPU time, memory and I/O are unknown; run as root or \
                 with CAP_NET_ADMIN on a kernel with CONFIG_TASKSTATS"
            )),
        }
        kernel.open_mappings();
        match Log::open() {
            Ok(log) => kernel.log = Some(log),
            Err(error) => kernel.blind.push(format!(
                "no log of the kernel ({error}): a process killed for want of memory in a job's last moment may not \
                 be counted; run as root or with CAP_SYSLOG"
            )),
        }
        kernel
    }

    fn open_mappings(&mut self) {
        self.mappings = match Mappings::open() {
            Ok(mappings) => Some(mappings),
            Err(error) => {
                self.blind.push(format!(
                    "no mapped files from the kernel ({error}): libraries are known from the preload library and from \
                     /proc only, not those of programs that end at once or are killed, and not those that were closed again; \
                     run as root or with CAP_PERFMON"
                ));
                None
            }
        };
    }
}

/// Everything the main thread has.
struct Agent {
    flags: Flags,
    config: Config,
    status: Status,
    counters: Arc<Counters>,
    proc: Proc,
    clock: Clock,
    waits: Waits,
    kernel: Kernel,
    table: Table,
    folder: Folder,
    guests: Guests,
    output: Output,
    ship: Arc<ship::Shared>,
    shipping: Option<Shipping>,
    sampling: Option<Sampling>,
    owners: Owners,
    progress: ProgressFile,
    /// Forks that happened before we listened, less those seen before the count was taken.
    forks_before: u64,
    started: u64,
    boot: u64,
    is_off: Option<u64>,
    /// What was reported and ran when the agent was switched off.
    kept: Vec<Finished>,
    is_confined: bool,
    /// Without kernel events, the guests' processes are watched one by one.
    watched: HashMap<u32, OwnedFd>,
    /// Processes that are gone, and when that is taken for granted.
    gone: Vec<(u64, u32)>,
    due: Due,
    events_lost: u64,
    /// Losses of mappings up to this moment, and so many, are in gaps.
    mappings_told: (u64, u64),
}

/// When what is due next, monotonic.
#[derive(Default)]
struct Due {
    tick: u64,
    /// Before this, only an exec or a guest wakes.
    calm: u64,
    /// Before this, the receiver is not asked how far it has come.
    hearing: u64,
    switch: u64,
    checkpoint: u64,
    health: u64,
    report: u64,
    report_again: u64,
}

/// Runs the agent until a signal ends it.
pub fn run(flags: Flags) -> Result<(), AgentError> {
    limits::keep_heap_compact();
    let config_sum = status::config_sum(&flags);
    let config = flags.configure()?;
    let status = Status::of_this_process(&flags, config_sum, &config);
    let signals = Signals::catch().map_err(cannot("catch signals"))?;
    let dir = config.spool.dir.clone();
    make_spool_directory(&dir).map_err(cannot(format!("make {}", dir.display())))?;
    let counters = Arc::new(Counters::default());
    let lock = lock::take(&dir, &counters).map_err(cannot(format!("lock {}", dir.display())))?;
    let _lock = lock.ok_or(AgentError::Locked(dir))?;
    limits::set_nice(config.limits.nice);
    let is_confined = stay_off_the_jobs_processors(&config);
    let (mut agent, writing) = Agent::start(flags, config, status, counters)?;
    agent.is_confined = is_confined;
    agent.status.tell(&agent.counters);
    agent.announce();
    limits::take_short_turns();
    while !Signals::is_set(&signals.stop) {
        agent.wait(&signals);
        agent.turn();
        if Signals::is_set(&signals.reload) {
            agent.reload();
        }
    }
    agent.stop(writing);
    Ok(())
}

/// Records say what users run: only the agent's group may look.
fn make_spool_directory(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o750).create(dir)
}

/// Goes to the processors it should stay on; says whether it knows them. Slurm's daemon may start after us.
fn stay_off_the_jobs_processors(config: &Config) -> bool {
    let cpus = match config.limits.cpus.as_str() {
        "all" => return true,
        "auto" => limits::slurm_system_cpus(Path::new("/sys/fs/cgroup")),
        list => limits::parse_cpus(list),
    };
    let Some(cpus) = cpus else { return false };
    if let Err(error) = limits::confine(&cpus) {
        say(format_args!("cannot stay on processors {cpus:?}: {error}"));
    }
    true
}

impl Agent {
    fn start(
        flags: Flags,
        config: Config,
        status: Status,
        counters: Arc<Counters>,
    ) -> Result<(Agent, Writing), AgentError> {
        let dir = config.spool.dir.clone();
        let proc = Proc::default();
        let rules = Arc::new(config.rules().unwrap_or_default());
        let cursor = Cursor::open(&dir, &counters).map_err(cannot("note how far the spool is shipped"))?;
        let numbering = Numbering { stream: cursor.stream(), least: cursor.next() };
        let spool = SpoolWriter::open(&dir, config.spool_limits(), numbering, &counters)
            .map_err(cannot(format!("open the spool {}", dir.display())))?;
        let (progress, left) =
            ProgressFile::open(&dir, &counters).map_err(cannot("open the progress file"))?;
        let (output, queue) = Output::new(counters.clone());
        output.set_rules(rules.clone());
        let ship = Arc::new(ship::Shared::default());
        let announce = output.clone();
        let files = Files::start(proc.clone(), config.hash_limits(), counters.clone(), move |file| {
            announce.file(file);
        })
        .map_err(cannot("start a thread"))?;
        let spool_progress = progress.try_clone().map_err(cannot("open the progress file"))?;
        spool_progress.write_put_away(0);
        let known = checkpoint::read(&dir, &counters);
        let writing = output
            .start(queue, dir, spool, files.clone(), spool_progress, ship.clone())
            .map_err(cannot("start a thread"))?;
        let host = if config.host.is_empty() { host_name() } else { config.host.clone() };
        let options = config.ship(&host);
        let shipping =
            options.map(|options| Shipping::start(options, cursor, ship.clone(), counters.clone()));
        let shipping = shipping.transpose().map_err(cannot("ship the spool"))?;
        let kernel = Kernel::open();
        let forks_before = proc.forks_since_boot().unwrap_or(0);
        let descriptors = limits::raise_descriptors();
        let boot = progress::this_boot();
        let earlier = settings::read(&config.spool.dir, boot, &counters);
        let clock = Clock::now().after(&earlier);
        let told_by = earlier.last().copied().unwrap_or_else(|| clock.offset());
        let around = Surroundings {
            proc: proc.clone(),
            clock: clock.clone(),
            host,
            cluster: Some(config.cluster.clone()).filter(|name| !name.is_empty()),
            files: files.clone(),
            counters: counters.clone(),
            rules: rules.clone(),
            has_kernel: kernel.connector.is_some(),
            memory: Shares::new(config.limits.memory_mib << 20),
            owners: Owners::default(),
            peeks: Peeks::new(proc.clone(), counters.clone(), files.waits().clone()),
        };
        let bounds = Bounds {
            rate: config.rate(),
            memory: around.memory.clone(),
            descriptors: Shares::new(
                config.limits.guests.min(descriptors.saturating_sub(limits::OWN_DESCRIPTORS) as usize),
            ),
            owners: around.owners.clone(),
        };
        let owners = around.owners.clone();
        owners.refresh();
        let guests = Guests::start(&config, rules, bounds, counters.clone())?;
        let measured = sampling::kept::read(&config.spool.dir, &counters);
        let sampling = start_sampling(&config, &around, &output, &guests.wake, &measured)?;
        let mut agent = Agent {
            table: Table::new(around),
            folder: Folder::new(config.fold_rules(), counters.clone()),
            flags,
            config,
            status,
            counters,
            proc,
            clock: clock.clone(),
            waits: files.waits().clone(),
            kernel,
            guests,
            output,
            ship,
            shipping,
            sampling,
            owners,
            progress,
            forks_before,
            started: wall_ns(),
            boot,
            is_off: None,
            kept: Vec::new(),
            is_confined: false,
            watched: HashMap::new(),
            gone: Vec::new(),
            due: Due::default(),
            events_lost: 0,
            mappings_told: (wall_ns(), 0),
        };
        for Kept { reading, ended } in measured {
            let start = clock.monotonic(reading.start, told_by);
            agent.table.restore_account(Subject::of_reading(&reading), start, reading.uid, ended);
        }
        agent.take_over(left, known, told_by);
        agent.keep_settings();
        Ok((agent, writing))
    }

    /// Goes on where an earlier agent stopped, and records what happened in between. It told times by a clock with the
    /// offset `told_by`.
    fn take_over(
        &mut self,
        left: Option<Left>,
        known: Vec<(record::entry::Image, Option<record::entry::ObjectList>)>,
        told_by: i64,
    ) {
        let ended = self.table.restore(known, told_by);
        let ended_unseen = ended.len() as u64;
        if self.kernel.connector.is_some() {
            self.table.scan();
        }
        if let Some(Left::Damaged { written }) = left {
            let reason = GapReason::AgentKilled;
            let to = wall_ns();
            self.output.gap(Gap { from: written, to, reason, forks: None, events: None, images: None });
        }
        if let Some(Left::Known { progress, put_away }) = left {
            let is_same_boot = progress.boot == self.boot;
            let still_running = self.table.running_since(self.clock.monotonic(progress.time, told_by));
            let lost_running = progress.live.saturating_sub(still_running + ended_unseen);
            let unwritten = progress.ended.saturating_sub(put_away);
            let forks = is_same_boot.then(|| self.forks_before.saturating_sub(progress.forks));
            let reason = if progress.stopped { GapReason::AgentStopped } else { GapReason::AgentKilled };
            let images = Some(unwritten + if is_same_boot { lost_running } else { progress.live });
            self.output.gap(Gap { from: progress.time, to: wall_ns(), reason, forks, events: None, images });
        }
        ended.into_iter().for_each(|finished| self.hand_on(finished));
    }

    fn announce(&self) {
        let (version, socket, dir) =
            (env!("CARGO_PKG_VERSION"), &self.config.socket, self.config.spool.dir.display());
        say(format_args!("version {version}, listening on {socket}, writing to {dir}"));
        for blindness in &self.kernel.blind {
            say(blindness);
        }
    }

    fn wait(&self, signals: &Signals) {
        let (_, waiting) = self.table.in_memory();
        let is_busy = waiting > 0 || self.folder.images() > 0 || !self.gone.is_empty();
        let calm_in = self.due.calm.saturating_sub(monotonic_ns());
        let wait_ns = match calm_in {
            _ if is_busy => TICK_NS,
            0 => IDLE_NS,
            calm_in => calm_in,
        };
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait_ns as i64 };
        let pipe = signals.pipe.as_fd();
        let mut fds = vec![
            PollFd::from_borrowed_fd(pipe, PollFlags::IN),
            PollFd::new(&*self.guests.wake, PollFlags::IN),
        ];
        if let Some(connector) = &self.kernel.connector {
            fds.push(PollFd::from_borrowed_fd(connector.urgent(), PollFlags::IN));
            if calm_in == 0 {
                fds.push(PollFd::from_borrowed_fd(connector.calm(), PollFlags::IN));
            }
        }
        fds.extend(self.kernel.mappings.iter().map(|it| PollFd::from_borrowed_fd(it.wake(), PollFlags::IN)));
        fds.extend(self.watched.values().map(|pidfd| PollFd::new(pidfd, PollFlags::IN)));
        let _ = poll(&mut fds, Some(&timeout));
        // Most wake-ups are events of the kernel: nothing is read for what did not happen.
        let has_come = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        if has_come(0) {
            let _ = rustix::io::read(&signals.pipe, &mut [0; 64]);
        }
        if has_come(1) {
            woken(&self.guests.wake);
        }
    }

    fn turn(&mut self) {
        self.follow_clock();
        // A guest speaks after its exec: its message is taken before the kernel's events, and given after.
        let (messages, heard) = self.guests.take();
        if self.is_off.is_none() {
            self.take_events();
            let now = monotonic_ns();
            for message in messages {
                if !self.watch(message.pid) {
                    // Another image of it may have a message on its way.
                    self.gone.push((now + GONE_NS, message.pid));
                }
                self.table.guest(message);
            }
            self.note_gone(now);
        }
        for uid in self.table.take_gone_users() {
            self.guests.tell(Command::Gone(uid));
        }
        for uid in self.table.take_new_users() {
            self.guests.tell(Command::User(uid));
        }
        self.tell_sampling();
        self.do_what_is_due(&heard);
        self.write_progress(false);
    }

    /// The clock may be set, and the machine suspended, at any moment.
    fn follow_clock(&mut self) {
        let Some(Change { set_by, suspended }) = self.clock.follow() else { return };
        if set_by != 0 {
            self.counters.clock_set.one();
            say(format_args!("the clock was set by {:.3} s", set_by as f64 / 1e9));
            self.keep_settings();
        }
        if suspended != 0 {
            self.counters.suspensions.one();
            say(format_args!("the machine was suspended for {:.3} s", suspended as f64 / 1e9));
        }
    }

    /// A disk that is full may cost the next agent the names of processes that run.
    fn keep_settings(&self) {
        let _ = settings::write(&self.config.spool.dir, self.boot, &self.clock.offsets());
    }

    /// What the sampling thread wants to know, and what it should not miss.
    fn tell_sampling(&mut self) {
        let Some(sampling) = self.sampling.as_ref().filter(|_| self.is_off.is_none()) else { return };
        if self.table.take_begun() {
            sampling.begun();
        }
        if self.table.take_met() {
            sampling.met();
        }
        let quiet = self.table.take_quiet();
        if !quiet.is_empty() {
            sampling.quiet(quiet);
        }
        if let Some(rates) = self.ship.take_rates() {
            sampling.set_rates(rates);
        }
        if sampling.wants_census() {
            let census = self.table.census(monotonic_ns());
            self.ship.set_jobs(census.running_jobs());
            sampling.census(census);
        }
    }

    fn take_events(&mut self) {
        let table = &mut self.table;
        let (mut overrun, mut events) = (false, Vec::new());
        let mut until = 0;
        if let Some(connector) = &mut self.kernel.connector {
            let drained = connector.drain(EVENTS_PER_TURN, |event| events.push(event)).unwrap_or_default();
            overrun |= drained.overrun;
            until = drained.until;
            if drained.messages > 0 {
                self.due.calm = monotonic_ns() + TICK_NS;
            }
        }
        // Taken after the events and given before them: each event finds all that was mapped until then.
        if let Some(mappings) = &mut self.kernel.mappings {
            mappings.drain(MAPPINGS_PER_TURN, |record| table.mapped(record));
        }
        events.into_iter().for_each(|event| table.event(event));
        table.note_events_until(until);
        if let Some(taskstats) = &mut self.kernel.taskstats {
            let drained = taskstats.drain(|stats| table.stats(stats));
            if drained.is_ok_and(|drained| drained.overrun) {
                self.counters.stats_overruns.one();
            }
        }
        if let Some(log) = self.kernel.log.as_mut().filter(|_| self.table.has_killed()) {
            self.table.note_killed_for_memory(&log.killed_for_memory());
        }
        self.table.settle();
        let lost = self.kernel.connector.as_ref().map_or(0, Connector::lost);
        if overrun || lost > self.events_lost {
            self.note_lost_events(lost - self.events_lost);
            self.events_lost = lost;
        }
    }

    fn note_lost_events(&mut self, events: u64) {
        self.counters.events_lost.add(events);
        let now = wall_ns();
        let forks = self.proc.forks_since_boot().map(|all| all.saturating_sub(self.forks_seen()));
        let reason = GapReason::EventsLost;
        self.output.gap(Gap { from: now, to: now, reason, forks, events: Some(events), images: None });
        self.forks_before += forks.unwrap_or(0);
        self.table.resynchronise();
    }

    fn forks_seen(&self) -> u64 {
        self.forks_before + self.counters.forks.get()
    }

    /// Without kernel events, a descriptor of each process tells its end; `false` if it is gone already.
    fn watch(&mut self, pid: u32) -> bool {
        if self.kernel.connector.is_some() || self.watched.contains_key(&pid) {
            return true;
        }
        let raw = rustix::process::Pid::from_raw(pid as i32);
        let flags = rustix::process::PidfdFlags::empty();
        let Some(Ok(fd)) = raw.map(|pid| rustix::process::pidfd_open(pid, flags)) else { return false };
        self.watched.insert(pid, fd);
        true
    }

    fn note_gone(&mut self, now: u64) {
        let is_gone = |fd: &OwnedFd| {
            let mut fds = [PollFd::new(fd, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
        };
        let gone: Vec<u32> = self.watched.iter().filter(|(_, fd)| is_gone(fd)).map(|(pid, _)| *pid).collect();
        for pid in gone {
            self.watched.remove(&pid);
            self.gone.push((now + GONE_NS, pid));
        }
        for (_, pid) in self.gone.extract_if(.., |(due, _)| *due <= now) {
            self.table.gone(pid);
        }
    }

    fn do_what_is_due(&mut self, heard: &Heard) {
        let now = monotonic_ns();
        if now >= self.due.tick {
            self.due.tick = now + TICK_NS;
            for finished in self.table.tick(now, heard) {
                self.hand_on(finished);
            }
            self.folder.due(now).into_iter().for_each(|row| self.output.row(row));
        }
        if now >= self.due.hearing && self.table.has_waited_since(heard.accepted_until, now) {
            self.due.hearing = now + HEARING_NS;
            // It looks whether its sockets are empty.
            wake(&self.guests.command_wake);
        }
        if now >= self.due.report && self.is_off.is_none() {
            self.report(now);
        }
        if now >= self.due.switch {
            self.due.switch = now + SWITCH_NS;
            self.owners.refresh();
            self.obey_switch();
            self.note_lost_mappings();
            self.is_confined = self.is_confined || stay_off_the_jobs_processors(&self.config);
        }
        if now >= self.due.checkpoint {
            self.due.checkpoint = now + CHECKPOINT_NS;
            // Younger ones may be in rows with others, under another's name.
            let old_enough = wall_ns().saturating_sub(self.config.fold_rules().short_ns);
            let mut running = self.table.snapshot();
            running.retain(|finished| finished.image.reported || finished.image.start < old_enough);
            self.output.running(running);
        }
        if now >= self.due.health {
            self.due.health = now + HEALTH_NS;
            self.report_health();
        }
    }

    /// Says what has run for a while and still runs.
    fn report(&mut self, now: u64) {
        let Some(after) = self.config.running_after() else {
            self.due.report = now + REPORT_NS;
            return;
        };
        self.due.report = now + REPORT_NS.min((after / 2).max(TICK_NS));
        if self.output.has_lost_ends() && now >= self.due.report_again {
            self.due.report_again = now + REPORT_AGAIN_NS;
            self.output.forget_lost_ends();
            let (time, reason) = (wall_ns(), GapReason::EndsLost);
            self.output.gap(Gap { from: time, to: time, reason, forks: None, events: None, images: None });
            self.table.report_again();
        }
        let running = self.table.report(now, after, REPORTS_PER_TURN);
        self.folder.together(running).into_iter().for_each(|report| self.output.row(report));
    }

    /// However often records of mapped files were lost since the last look, there is one gap for all of them.
    fn note_lost_mappings(&mut self) {
        let (from, told) = self.mappings_told;
        // What was mapped on a processor without a ring, nobody has counted.
        let is_uncounted = self.follow_processors();
        let lost = self.counters.mappings_lost.get();
        self.mappings_told = (wall_ns(), lost);
        if lost > told || is_uncounted {
            let events = (!is_uncounted).then(|| lost - told);
            let reason = GapReason::MappingsLost;
            self.output.gap(Gap { from, to: wall_ns(), reason, forks: None, events, images: None });
        }
    }

    /// A processor that was switched on has no ring yet; says whether any was switched.
    fn follow_processors(&mut self) -> bool {
        let is_outdated = self.kernel.mappings.as_ref().is_some_and(Mappings::is_outdated);
        if is_outdated {
            self.kernel.open_mappings();
            self.table.mappings_lost();
        }
        is_outdated
    }

    fn hand_on(&mut self, finished: Finished) {
        self.counters.images_finished.add(finished.image.count);
        if let Some(finished) = self.folder.add(finished, monotonic_ns()) {
            self.output.row(finished);
        }
    }

    fn report_health(&self) {
        let mut counters = self.counters.snapshot();
        let (live, waiting) = self.table.in_memory();
        counters.push(("processes".into(), live as u64));
        counters.push(("images_waiting".into(), waiting as u64 + self.folder.images()));
        counters.push(("users".into(), self.table.user_count()));
        self.output.health(Health {
            time: wall_ns(),
            started: self.started,
            version: env!("CARGO_PKG_VERSION").into(),
            host: self.table.host().to_owned(),
            counters,
            blind: [self.kernel.blind.clone(), self.waits.long()].concat(),
        });
    }

    fn write_progress(&self, stopped: bool) {
        let (live, waiting) = self.table.in_memory();
        self.progress.write(&Progress {
            boot: self.boot,
            time: wall_ns(),
            forks: self.forks_seen(),
            ended: self.counters.images_finished.get() + waiting as u64,
            live: live as u64,
            stopped,
        });
    }

    /// Off means: no socket, no kernel events, nothing known.
    fn obey_switch(&mut self) {
        let is_wanted = self.config.enabled && !self.config.off_file.exists() && !self.ship.is_off();
        match (is_wanted, self.is_off) {
            (false, None) => {
                say("switched off");
                self.counters.switched_off.one();
                self.guests.tell(Command::SwitchOff(true));
                self.kernel = Kernel::default();
                self.flush();
                self.kept = self.table.reported();
                self.table.forget();
                self.is_off = Some(wall_ns());
            }
            (true, Some(since)) => {
                say("switched on");
                let forks_before = self.forks_seen();
                self.kernel = Kernel::open();
                self.events_lost = 0;
                self.forks_before =
                    self.proc.forks_since_boot().unwrap_or(0).saturating_sub(self.counters.forks.get());
                let forks = Some(self.forks_seen().saturating_sub(forks_before));
                let reason = GapReason::SwitchedOff;
                self.output.gap(Gap {
                    from: since,
                    to: wall_ns(),
                    reason,
                    forks,
                    events: None,
                    images: None,
                });
                // What was reported is known by that name only.
                let kept = std::mem::take(&mut self.kept).into_iter().map(Finished::known).collect();
                for finished in self.table.restore(kept, self.clock.offset()) {
                    self.hand_on(finished);
                }
                self.table.scan();
                self.guests.tell(Command::SwitchOff(false));
                self.is_off = None;
            }
            _ => {}
        }
    }

    /// Reads the configuration again; a bad one changes nothing.
    fn reload(&mut self) {
        let config_sum = status::config_sum(&self.flags);
        let config = match self.flags.configure() {
            Ok(config) => config,
            Err(error) => {
                say(format_args!("{error}; going on with the old configuration"));
                return;
            }
        };
        if config.spool != self.config.spool || config.names() != self.config.names() {
            say("a new spool or socket is used after a restart");
        }
        let rules = Arc::new(config.rules().unwrap_or_default());
        self.table.set_rules(rules.clone());
        self.output.set_rules(rules.clone());
        self.guests.tell(Command::Rules(rules));
        self.folder.set_rules(config.fold_rules());
        if let Some(sampling) = &self.sampling {
            sampling.set_cadence(config.cadence());
        }
        self.config = config;
        self.due.switch = 0;
        self.status.config_sum = config_sum;
        self.status.tell(&self.counters);
        say("configuration read again");
    }

    fn flush(&mut self) {
        for finished in self.table.finish_all() {
            self.hand_on(finished);
        }
        self.folder.take_all().into_iter().for_each(|row| self.output.row(row));
    }

    /// Puts everything away and leaves nothing behind.
    fn stop(mut self, writing: Writing) {
        self.guests.stop();
        self.status.end();
        self.turn();
        self.flush();
        self.output.last_running(self.table.snapshot());
        self.note_lost_mappings();
        self.report_health();
        self.write_progress(true);
        if let Some(sampling) = self.sampling.take() {
            sampling.stop();
        }
        self.output.stop();
        writing.wait();
        if let Some(shipping) = self.shipping {
            shipping.stop();
        }
    }
}

fn start_sampling(
    config: &Config,
    around: &Surroundings,
    output: &Output,
    wake: &Arc<OwnedFd>,
    measured: &[Kept],
) -> Result<Option<Sampling>, AgentError> {
    if !config.sampling.enabled {
        return Ok(None);
    }
    let around = sampling::Around {
        host: around.host.clone(),
        collector: config.collector(around.clock.clone(), around.files.waits().clone()),
        dir: config.spool.dir.clone(),
    };
    Sampling::start(config.cadence(), around, output.clone(), wake.clone(), measured)
        .map(Some)
        .map_err(cannot("start a thread"))
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
