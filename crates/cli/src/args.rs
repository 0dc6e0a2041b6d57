//! What can be typed: the one definition of parser, help, man pages and completions.

mod delimiter;
mod import;
mod jobs;
mod notes;
mod searches;
mod site;
mod tags;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

pub use import::{
    CollectdSecurity, ExportClusterCockpitArgs, ExportCommand, ImportCleoArgs, ImportClusterCockpitArgs,
    ImportCollectdArgs, ImportCommand, ImportGangliaArgs, ImportInfluxArgs, ImportSlurmArgs, MonitorArgs,
};
pub use jobs::{JobsArgs, JobsKind};
pub use notes::{
    AddNoteArgs, CaseNewsArgs, CasesCommand, ListCasesArgs, ListNotesArgs, NotesCommand, NumberArgs,
    OpenCaseArgs, ShowCaseArgs,
};
pub use searches::{ForgetArgs, SearchesCommand};
pub use site::{SiteArgs, SiteOf};
pub use tags::{
    ApproveArgs, CountArgs, DeclareArgs, ExplainArgs, ListArgs, OpinionArgs, OpinionsArgs, ProposalsArgs,
    ProposeArgs, RejectArgs, RetireArgs, RunTagsArgs, SetArgs, SoftwareArgs, TagsCommand, TryArgs,
};

/// What really runs on an HPC machine, and whether it was worth it.
#[derive(Debug, Parser)]
#[command(name = "jobglass", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Processes(ProcessesArgs),
    Jobs(Box<JobsArgs>),
    Job(JobArgs),
    /// Tags: words for jobs, by rules and by people; which there are, who has them and why
    Tags {
        #[command(subcommand)]
        command: TagsCommand,
    },
    /// Searches that have a name, for jobs --search: yours and everybody's
    Searches {
        #[command(subcommand)]
        command: SearchesCommand,
    },
    /// Notes on jobs and programs: what is to be remembered of them
    Notes {
        #[command(subcommand)]
        command: NotesCommand,
    },
    /// Cases: who was contacted, why, and what came of it
    Cases {
        #[command(subcommand)]
        command: CasesCommand,
    },
    Series(SeriesArgs),
    Nodes(NodesArgs),
    Site(SiteArgs),
    Rate(RateArgs),
    Top(TopArgs),
    ShortJobs(ShortJobsArgs),
    /// Programs that are used here, those that ran most first
    #[command(after_help = PROGRAMS_HELP)]
    Programs(UsedArgs),
    /// Libraries that are used here, those of most jobs first
    #[command(
        after_help = "Examples:\n  jobglass libraries --since 30d\n  jobglass libraries --of alice --csv"
    )]
    Libraries(UsedArgs),
    /// Modules that are used here, those of most jobs first
    #[command(after_help = "Examples:\n  jobglass modules --since 2026-01-01 --until 2026-07-01")]
    Modules(UsedArgs),
    Uses(UsesArgs),
    EnvCheck(EnvCheckArgs),
    /// Take in what batch systems and other monitoring know
    Import {
        #[command(subcommand)]
        command: ImportCommand,
    },
    /// Give jobs to other systems
    Export {
        #[command(subcommand)]
        command: ExportCommand,
    },
    Login(LoginArgs),
    Whoami(WhoamiArgs),
    Agent(AgentArgs),
    Run(RunArgs),
    Doctor(DoctorArgs),
    Sample(SampleArgs),
    /// Look into an agent's spool
    Spool {
        #[command(subcommand)]
        command: SpoolCommand,
    },
    #[command(hide = true)]
    Generate(GenerateArgs),
}

const PROGRAMS_HELP: &str = "Examples:
  jobglass programs --since 30d
  jobglass programs --of alice --json | jq .exe";

/// Which server is asked
#[derive(Debug, Clone, clap::Args)]
pub struct ServerArgs {
    /// The server [default: that of jobglass login]
    #[arg(
        long,
        value_name = "URL",
        env = "JOBGLASS_SERVER",
        hide_env_values = true,
        help_heading = "Server"
    )]
    pub server: Option<String>,
    /// File with the token to ask with [default: that of jobglass login]
    #[arg(
        long,
        value_name = "FILE",
        env = "JOBGLASS_TOKEN_FILE",
        hide_env_values = true,
        help_heading = "Server"
    )]
    pub token_file: Option<PathBuf>,
    /// Certificates that vouch for the server (PEM) [default: Mozilla's list]
    #[arg(
        long,
        value_name = "FILE",
        env = "JOBGLASS_CA_FILE",
        hide_env_values = true,
        help_heading = "Server"
    )]
    pub ca_file: Option<PathBuf>,
}

/// How the answer is printed
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct ShapeArgs {
    /// One JSON object per line
    #[arg(long, conflicts_with = "csv", help_heading = "Output")]
    pub json: bool,
    /// Comma-separated values with a header
    #[arg(long, help_heading = "Output")]
    pub csv: bool,
}

/// Show processes: who ran what, where, how long, how it ended
///
/// A process that still runs is shown when it has run for a minute: END is running, SECONDS the time so far. unheard is one of whose
/// end nothing is known: its host is silent, or its agent was not running at that time.
///
/// Exit code 0, 1 if nothing was found, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass processes --job 4711
  jobglass processes --user alice --exe 'gmx*' --since 2h
  jobglass processes --job 4711 --failed
  jobglass processes --job 4711 --running
  jobglass processes --host n0042 --since yesterday --json | jq .exe")]
pub struct ProcessesArgs {
    /// Of this batch job or login session
    #[arg(long, value_name = "ID")]
    pub job: Option<String>,
    /// Of this user
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Of programs that fit: a path if there is a / in it, else its last part
    #[arg(long, value_name = "GLOB")]
    pub exe: Option<String>,
    /// On these hosts or nodes: a name, a list such as n[01-04], or a pattern such as 'gpu*'
    #[arg(long, value_name = "HOSTS")]
    pub host: Option<String>,
    /// With this process number
    #[arg(long, value_name = "N")]
    pub pid: Option<u32>,
    /// That ended with an exit code other than 0, or by a signal
    #[arg(long)]
    pub failed: bool,
    /// That still run
    #[arg(long, conflicts_with = "failed")]
    pub running: bool,
    /// On this cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// That ran at this time or later: 2h, 7d, yesterday, 2026-11-01, 2026-11-01T12:30
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// That ran before this time
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub limit: u64,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Show what ran in a job, and what it reserved and used
///
/// A program outside any batch job belongs to its login session, which is a job, too. Short programs that the shell and the module system
/// start on their own are one line, unless they failed; with --all, each has its own.
/// Exit code 0, 1 if nothing was seen of the job, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass job 4711
  jobglass job 4711 --all
  jobglass job 4711 --json | jq '.processes[] | select(.exit_code != 0)'
  jobglass job 4711 --json | jq .account.state
  jobglass processes --job 4711 --csv

--json prints one object with all that is known; --csv one row with what the job has one of.")]
pub struct JobArgs {
    /// The batch job or login session
    #[arg(value_name = "ID")]
    pub id: String,
    /// On this cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Each short program that the shell and the module system started, and all libraries
    #[arg(long)]
    pub all: bool,
    /// Only what it reserved and used
    #[arg(long)]
    pub resources: bool,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Show a metric of a job, of its nodes or of its GPUs over time
///
/// The value of a gauge, or the rate of a counter: cores for CPU time, bytes per second for bytes. A terminal gets a plot, with gaps where
/// nothing is known, and everything else a table. Several nodes or GPUs are their average, with minimum and maximum; --node shows one.
/// Exit code 0, 1 if nothing was measured, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass series 4711 cpu
  jobglass series 4711 memory --node n0042
  jobglass series 4711 memory --csv
  jobglass series 4711 card_utilisation
  jobglass series 4711 node_ib_received")]
pub struct SeriesArgs {
    /// The batch job or login session
    #[arg(value_name = "ID")]
    pub id: String,
    /// The metric: cpu, memory, gpu, node_load, card_power, …; a wrong one is answered with those there are
    #[arg(value_name = "METRIC")]
    pub metric: String,
    /// On this node or host only
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// On this cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// A plot, also where the output is no terminal
    #[arg(long, conflicts_with_all = ["table", "json", "csv"], help_heading = "Output")]
    pub plot: bool,
    /// A table, also on a terminal
    #[arg(long, conflicts_with_all = ["json", "csv"], help_heading = "Output")]
    pub table: bool,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Show how the nodes fare: load, CPU, memory, disks, network, jobs
///
/// Those that were read within the last day, by their last two readings.
/// Exit code 0, 1 if there are none, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass nodes
  jobglass nodes --json | jq 'select(.cpu_busy < 0.1 and (.jobs | length) > 0)'")]
pub struct NodesArgs {
    /// These hosts only: a name, a list such as n[01-04], or a pattern such as 'gpu*'
    #[arg(long, value_name = "HOSTS")]
    pub host: Option<String>,
    /// What they are made of, and their peak on paper (JSON has both, and the rule behind the peak)
    #[arg(long)]
    pub hardware: bool,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Change how often a job is read while it runs, or show it
///
/// Nodes that run the job hear of it within 15 seconds, those where it begins with its first reading; none reads it more often
/// than its configuration allows (sampling.least_every_seconds). The rate ends after --for, at the job's end, or with off.
/// Exit code 0, 1 if a job's rate was to be shown and it has none of its own, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass rate 4711 5s --for 10m
  jobglass rate 4711 1s --sensors cpu,ib
  jobglass rate 4711
  jobglass rate 4711 off
  jobglass rate $SLURM_JOB_ID \\
    --comment \"$SLURM_JOB_COMMENT\"     # in PrologSlurmctld

Groups of sensors: cpu, memory, io, network, ib, gpu, energy, counters.")]
pub struct RateArgs {
    /// The batch job
    #[arg(value_name = "JOB")]
    pub id: String,
    /// How often: 500ms, 5s, 2m; or off
    #[arg(value_name = "RATE", conflicts_with = "comment")]
    pub rate: Option<String>,
    /// Set what a job's comment asks for with jobglass:rate=5s, or with jobglass:rate=5s,sensors=cpu+ib; nothing if it does not
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
    /// Read only these so often, and all others as usual
    #[arg(long, value_name = "GROUPS", value_delimiter = ',')]
    pub sensors: Vec<String>,
    /// How long: 90s, 10m, 2h, 1d [default: 1h]
    #[arg(long = "for", value_name = "TIME")]
    pub lasts: Option<String>,
    /// On this cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// One JSON object per line
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Show the jobs of the cluster live: what each uses of what it reserved
///
/// Batch jobs that were read within the last fifteen minutes and have not ended, by their last readings; a number is as old as the
/// column READ says, and "2!" there means that two of the job's nodes are late. PROGRAM is the one whose processes use the most CPU.
/// What is not known is shown as "-": a job has no name and no partition before its batch system is asked (jobglass import slurm).
/// Without a terminal, or with --once, one table. Exit code 0, 1 if no job runs, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Keys:
  c m i g t u   sort by CPU, memory, I/O, GPU, time, user
  /             show only jobs with this text in job, user, name, partition, program or cluster
  U             show only jobs of this user
  Esc           show all again
  arrows, PgUp, PgDn, Home, End
  q, Ctrl-C     quit

Examples:
  jobglass top
  jobglass top --once --sort memory | head
  jobglass top --json | jq 'select(.cpu_used < 0.1 * .cpu_reserved) | .job'")]
pub struct TopArgs {
    /// Seconds from one look to the next
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = parse_interval)]
    pub interval: f64,
    /// One table, and no more
    #[arg(long)]
    pub once: bool,
    /// Those that use most of this first
    #[arg(long, value_enum, default_value_t = Sort::Cpu)]
    pub sort: Sort,
    /// Of this user
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// One JSON object per job
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

fn parse_interval(text: &str) -> Result<f64, String> {
    let seconds = parse_seconds(text)?;
    if seconds >= 0.5 { Ok(seconds) } else { Err("not less than 0.5: agents do not read so often".into()) }
}

/// The order of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    Cpu,
    Memory,
    Io,
    Gpu,
    Time,
    User,
}

impl std::fmt::Display for Sort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Sort::Cpu => "cpu",
            Sort::Memory => "memory",
            Sort::Io => "io",
            Sort::Gpu => "gpu",
            Sort::Time => "time",
            Sort::User => "user",
        })
    }
}

/// Show short jobs, those of one user and day together
///
/// Batch jobs that were measured, have ended, and were shorter than the site's short_job_seconds: how many, how long together, and
/// what they reserved against what they used. Days and hours are those of UTC.
/// Exit code 0, 1 if there are none, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass short-jobs
  jobglass short-jobs --user alice --since 30d --per hour
  jobglass short-jobs --json | jq 'select(.jobs > 1000 and .cpu_share < 0.1)'")]
pub struct ShortJobsArgs {
    /// Of this user
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// On this cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Jobs that began in the same
    #[arg(long, value_enum, default_value_t = Per::Day)]
    pub per: Per,
    /// At this time or later: 2h, 7d, yesterday, 2026-11-01, 2026-11-01T12:30
    #[arg(long, value_name = "TIME", default_value = "7d")]
    pub since: String,
    /// Before this time
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub limit: u64,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// The time whose short jobs are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Per {
    Hour,
    Day,
}

impl std::fmt::Display for Per {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Per::Hour => "hour",
            Per::Day => "day",
        })
    }
}

/// What is used, by whom and when
#[derive(Debug, clap::Args)]
pub struct UsedArgs {
    /// By this user
    #[arg(long, value_name = "USER")]
    pub of: Option<String>,
    /// On this cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// At this time or later: 2h, 7d, yesterday, 2026-11-01, 2026-11-01T12:30
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Before this time
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub limit: u64,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Show who loaded a library
///
/// Exit code 0, 1 if nobody did, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass uses 'libmpi*'
  jobglass uses '/opt/blas/*' --since 90d --group-by user
  jobglass uses 5f3a1c9e20b4d7a8e1f0c3b2a4958677d6e5f412")]
pub struct UsesArgs {
    /// A pattern for the path (with a / in it) or the name of a library, a build-id or a content hash
    #[arg(value_name = "PATTERN")]
    pub pattern: String,
    /// One row for each of these
    #[arg(long, value_enum, default_value_t = By::Job)]
    pub group_by: By,
    /// By this user
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// On this cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// At this time or later: 2h, 7d, yesterday, 2026-11-01, 2026-11-01T12:30
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Before this time
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub limit: u64,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What the answer to `uses` has one row for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Each program of each job
    Job,
    User,
    Program,
    Library,
}

impl std::fmt::Display for By {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            By::Job => "job",
            By::User => "user",
            By::Program => "program",
            By::Library => "library",
        })
    }
}

/// Show runs with harmful or missing variables
///
/// By the rules of the server: LD_LIBRARY_PATH into a home directory, threads not limited on many cores, debug
/// settings left on. Exit code 0, 1 if nothing was found, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass env-check --since 7d
  jobglass env-check --user alice --rule threads-unset
  jobglass env-check --rules")]
pub struct EnvCheckArgs {
    /// Show the rules
    #[arg(long)]
    pub rules: bool,
    /// By this rule only
    #[arg(long, value_name = "ID")]
    pub rule: Option<String>,
    /// Of this batch job or login session
    #[arg(long, value_name = "ID")]
    pub job: Option<String>,
    /// Of this user
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// On this cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// At this time or later: 2h, 7d, yesterday, 2026-11-01, 2026-11-01T12:30
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Before this time
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub limit: u64,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Keep server and token for later commands
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass login https://jobglass.example:8765 --token-file my.token
  jobglass login http://127.0.0.1:8765 --socket /run/jobglass-server/login.sock")]
#[command(group = clap::ArgGroup::new("from").required(true))]
pub struct LoginArgs {
    /// The server
    #[arg(value_name = "URL")]
    pub url: String,
    /// File with the token
    #[arg(long, value_name = "FILE", group = "from")]
    pub token_file: Option<PathBuf>,
    /// On the server's own machine: its socket, which knows who you are, and makes a token for you
    #[arg(long, value_name = "FILE", group = "from")]
    pub socket: Option<PathBuf>,
    /// Certificates that vouch for the server (PEM) [default: Mozilla's list]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}

/// Show who you are to the server: user, role, and whose jobs you see
#[derive(Debug, clap::Args)]
pub struct WhoamiArgs {
    /// Write JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Run the node agent: record every program of this node
///
/// Receives what the guest library says about programs, takes exec, exit and accounting of every process from
/// the kernel, and writes one record per program image to the spool. Runs until SIGTERM or Ctrl-C; SIGHUP
/// reads the configuration again. Sees everything as root or with CAP_NET_ADMIN, CAP_SYS_PTRACE and
/// CAP_DAC_READ_SEARCH; without privileges it says what it cannot see.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass agent --spool ~/jobglass/spool --socket ~/jobglass/agent.sock
  jobglass agent --config /etc/jobglass/agent.toml")]
pub struct AgentArgs {
    /// Directory of the spool
    #[arg(long, value_name = "DIR")]
    pub spool: Option<PathBuf>,
    /// Where guests find the agent: a path, or an abstract name beginning with @. The path's directory must be
    /// writable only for root and you
    #[arg(long, value_name = "NAME")]
    pub socket: Option<String>,
    /// Configuration file [default: /etc/jobglass/agent.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Send records to this server, for example https://jobglass.example:8765
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// File with the token to send with
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// File with an enrollment token: where there is no token to send with, the agent gets one of its own, and keeps it in the spool's
    /// directory
    #[arg(long, value_name = "FILE")]
    pub enroll_token_file: Option<PathBuf>,
    /// Certificates that vouch for the server (PEM) [default: Mozilla's list]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Check the configuration and stop
    #[arg(long)]
    pub check: bool,
}

/// Run a program, and all it starts, with the guest library
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass run -- make -j8
  jobglass run --socket @mine -- mpirun -n 4 ./a.out")]
pub struct RunArgs {
    /// Where the agent listens [default: JOBGLASS_SOCKET, else the agent's default]
    #[arg(long, value_name = "NAME")]
    pub socket: Option<OsString>,
    /// The guest library [default: JOBGLASS_LIBRARY, else beside this command]
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROG")]
    pub program: Vec<OsString>,
}

/// Read what this node and its jobs use now, without any server
///
/// A login session or a service counts as a job where there is no batch job.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass sample
  jobglass sample --once --json | jq '.jobs[] | {job, session, values}'
  jobglass sample --repeat 11 --interval 1 --stats")]
pub struct SampleArgs {
    /// One reading (the default)
    #[arg(long, conflicts_with = "repeat")]
    pub once: bool,
    /// So many readings
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Seconds from one reading to the next
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = parse_seconds)]
    pub interval: f64,
    /// What the readings cost, instead of what they say
    #[arg(long)]
    pub stats: bool,
    /// One JSON object per reading, with every process
    #[arg(long)]
    pub json: bool,
    /// NVIDIA's library, if the loader does not find it
    #[arg(long, value_name = "FILE")]
    pub nvml: Option<PathBuf>,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is no number of seconds"))?;
    if (0.0..=86_400.0).contains(&seconds) { Ok(seconds) } else { Err("not between 0 and 86400".into()) }
}

/// Check this node and say in plain words what is wrong
///
/// Exit code 0 if all is well, 1 if a check failed.
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// Configuration file [default: /etc/jobglass/agent.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Directory of the spool
    #[arg(long, value_name = "DIR")]
    pub spool: Option<PathBuf>,
    /// Where the agent listens
    #[arg(long, value_name = "NAME")]
    pub socket: Option<String>,
    /// The guest library [default: JOBGLASS_LIBRARY, else beside this command]
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// One JSON object per check
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum SpoolCommand {
    Read(SpoolReadArgs),
}

/// Print what is in a spool
///
/// Exit code 0, or 1 if there is nothing or something is damaged; damage is named on standard error and the
/// rest is printed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass spool read /var/spool/jobglass
  jobglass spool read /var/spool/jobglass --json \\
    | jq 'select(.exit_code != 0) | .exe'
  jobglass spool read /var/spool/jobglass --kind gap --json")]
pub struct SpoolReadArgs {
    /// Directory of the spool
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// One JSON object per line
    #[arg(long)]
    pub json: bool,
    /// What to print
    #[arg(long, value_enum, default_value_t = Kind::Image)]
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Program images
    Image,
    /// Files with their hashes
    File,
    /// Times in which not everything was seen
    Gap,
    /// How the agent fared
    Health,
    /// What the node and its jobs used
    Reading,
    /// Everything (JSON objects with a `kind`)
    All,
}

/// Write man pages and completions
#[derive(Debug, clap::Args)]
pub struct GenerateArgs {
    /// Where they are written
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}
