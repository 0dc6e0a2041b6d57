//! `jobglass jobs`.

use clap::ValueEnum;

use super::{ServerArgs, ShapeArgs};

/// List, filter, sort, count and group jobs
///
/// Newest first. Without times only jobs that waited or ran in the last 30 days are shown; --all-time shows all.
/// Exit code 0, 1 if there are none, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Ranges: 4, 4..16, 4.., ..16; with units for times: 10m..2h.

Columns may also be called as sacct calls them: JobID, Elapsed, NNodes.

Conditions (--where) are made of columns, values with units (16G, 2h, '2026-01-31'), =, !=, <, <=, >, >=, and, or, not, in (…), between … and …, like '…', \
is known, is unknown, + - * / ( ). What is not known is never found, but by `is unknown`. uses('libblas*') and runs('gmx*') ask for \
libraries that were loaded and programs that were run, by name, or by path if there is a / in the pattern.

Examples:
  jobglass jobs --user alice --state FAILED,TIMEOUT --since 7d
  jobglass jobs --where 'gpu_util_avg < 5 and gpus > 0' --sort -gpu_hours
  jobglass jobs --where \"runs('gmx*') and not uses('libmkl*')\"
  jobglass jobs --partition gpu --duration 10m.. \\
    --fmt job_id,user,elapsed_s,gpu_util_avg,memory_util_max
  jobglass jobs --group-by project --since 2026-01-01 --until 2027-01-01
  jobglass jobs --group-by month --all-time --sort -core_hours
  jobglass jobs --all-time --count
  jobglass jobs --all 'job_partition gpu,job_accel GPU UNUSED' \\
    --none 'job_status FAILED'
  jobglass jobs --search idle-gpus --since 30d
  jobglass jobs --user alice --all 'job_status TIMEOUT' --save alices-timeouts
  jobglass jobs --kind session --user alice --since 7d
  jobglass jobs --fmt help
  jobglass jobs --fmt help gpu memory")]
pub struct JobsArgs {
    /// With this number, as it is shown or as the batch system has it; of an array all
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub job: Vec<String>,
    /// Batch jobs, sessions of people who logged in, or both [default: job where a batch system has reported any, or all]
    #[arg(long, value_enum)]
    pub kind: Option<JobsKind>,
    /// Of these users
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub user: Vec<String>,
    /// Of these projects
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub project: Vec<String>,
    /// In these partitions
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub partition: Vec<String>,
    /// In these states: RUNNING, COMPLETED, FAILED, …, or R, CD, F
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub state: Vec<String>,
    /// With a name that fits
    #[arg(long, value_name = "GLOB")]
    pub name: Option<String>,
    /// On these nodes: a name, a list such as n[01-04], or a pattern such as 'gpu*'
    #[arg(long, value_name = "NODES")]
    pub node: Option<String>,
    /// On this cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// With so many nodes
    #[arg(long, value_name = "RANGE")]
    pub nodes: Option<String>,
    /// With so many cores
    #[arg(long, value_name = "RANGE")]
    pub cores: Option<String>,
    /// With so many GPUs
    #[arg(long, value_name = "RANGE")]
    pub gpus: Option<String>,
    /// That ran so long
    #[arg(long, value_name = "RANGE")]
    pub duration: Option<String>,
    /// That waited so long
    #[arg(long, value_name = "RANGE")]
    pub wait: Option<String>,
    /// For which this holds
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,
    /// With all of these tags
    #[arg(long, value_name = "TAGS", value_delimiter = ',', help_heading = "Tags")]
    pub all: Vec<String>,
    /// With one of these tags; given several times, with one of each list
    #[arg(long, value_name = "TAGS", help_heading = "Tags")]
    pub any: Vec<String>,
    /// With none of these tags
    #[arg(long, value_name = "TAGS", value_delimiter = ',', help_heading = "Tags")]
    pub none: Vec<String>,
    /// On which this user has set a tag, or somebody of a project
    #[arg(long, value_name = "USER|project:NAME", help_heading = "Tags")]
    pub tagged_by: Option<String>,
    /// On which some tag was set by a rule, or by people
    #[arg(long, value_name = "HOW", value_parser = ["auto", "manual"], help_heading = "Tags")]
    pub tagged: Option<String>,
    /// A combination of tags that has a name; help lists them
    #[arg(long, value_name = "NAME", help_heading = "Tags")]
    pub search: Option<String>,
    /// Keep these filters, all but times, as a search of yours under this name
    #[arg(long, value_name = "NAME", help_heading = "Tags", conflicts_with_all = ["node", "tagged", "tagged_by", "search"])]
    pub save: Option<String>,
    /// What the search that is kept finds
    #[arg(long, value_name = "TEXT", help_heading = "Tags", requires = "save")]
    pub description: Option<String>,
    /// That waited or ran at this time or later: 2h, 7d, yesterday, 2026-11-01, 2026-11-01T12:30
    #[arg(long, value_name = "TIME", conflicts_with = "all_time")]
    pub since: Option<String>,
    /// That waited or ran before this time
    #[arg(long, value_name = "TIME", conflicts_with = "all_time")]
    pub until: Option<String>,
    /// Of all times
    #[arg(long)]
    pub all_time: bool,
    /// By this column, of groups one of theirs; with - before it, from the most to the least [default: -submit; groups of time by
    /// time, others by -core_hours]
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub sort: Option<String>,
    /// These columns; help lists all with their meaning and unit, help WORD those about something
    #[arg(long, value_name = "COLUMNS|help", num_args = 1.., help_heading = "Output")]
    pub fmt: Vec<String>,
    /// One row for those that have this in common; times are UTC. With times, a job counts for the time that it ran then
    #[arg(long, value_enum, conflicts_with_all = ["fmt", "count"])]
    pub group_by: Option<JobsBy>,
    /// Only how many there are
    #[arg(long, conflicts_with = "fmt")]
    pub count: bool,
    /// At most so many, 0 for all [default: 100; of groups all]
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum JobsKind {
    Job,
    /// Of somebody who logged in, outside any batch job; it has the whole machine
    Session,
    All,
}

impl std::fmt::Display for JobsKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            JobsKind::Job => "job",
            JobsKind::Session => "session",
            JobsKind::All => "all",
        })
    }
}

/// What jobs of a group have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum JobsBy {
    Cluster,
    Kind,
    User,
    Project,
    Partition,
    State,
    Name,
    /// A job on several nodes is on each with an equal part
    Node,
    /// A job is with all of it in the group of each of its programs
    Program,
    /// A job is with all of it in the group of each of its tags
    Tag,
    Month,
    Week,
    Day,
    /// Of the day
    Hour,
    Weekday,
}

impl std::fmt::Display for JobsBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            JobsBy::Cluster => "cluster",
            JobsBy::Kind => "kind",
            JobsBy::User => "user",
            JobsBy::Project => "project",
            JobsBy::Partition => "partition",
            JobsBy::State => "state",
            JobsBy::Name => "name",
            JobsBy::Node => "node",
            JobsBy::Program => "program",
            JobsBy::Tag => "tag",
            JobsBy::Month => "month",
            JobsBy::Week => "week",
            JobsBy::Day => "day",
            JobsBy::Hour => "hour",
            JobsBy::Weekday => "weekday",
        })
    }
}
