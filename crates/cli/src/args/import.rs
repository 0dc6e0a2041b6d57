//! `jobglass import`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Subcommand};

use super::ServerArgs;
use crate::ask::when;

#[derive(Debug, Subcommand)]
pub enum ImportCommand {
    Slurm(Box<ImportSlurmArgs>),
    #[command(name = "clustercockpit")]
    ClusterCockpit(ImportClusterCockpitArgs),
}

#[derive(Debug, Subcommand)]
pub enum ExportCommand {
    #[command(name = "clustercockpit")]
    ClusterCockpit(ExportClusterCockpitArgs),
}

/// Import jobs that ClusterCockpit has kept
///
/// A job archive (versions 1 to 3, data.json plain or gzip), with all series and statistics, or its database job.db, which has all
/// jobs and their averages. Imported again, nothing is doubled. Exit code 0, 1 if something could not be read, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass import clustercockpit /var/lib/clustercockpit/job-archive
  jobglass import clustercockpit var/job.db")]
pub struct ImportClusterCockpitArgs {
    /// The directory of the archive, or the database
    #[arg(value_name = "DIR|job.db")]
    pub path: PathBuf,
    #[command(flatten)]
    pub rejects: RejectsArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Write jobs as a job archive of ClusterCockpit (version 3)
///
/// Exit code 0, 1 if there were none or something has no place in an archive, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass export clustercockpit ./job-archive --since 2026-01-01
  jobglass export clustercockpit ./job-archive --where \"cluster = 'fritz'\"")]
pub struct ExportClusterCockpitArgs {
    /// The directory of the archive
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Only jobs for which this holds, see jobglass jobs --help
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,
    /// Only jobs that waited or ran at this time or later
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only jobs that waited or ran before this time
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Replace other records of the same jobs
    #[arg(long)]
    pub overwrite: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What becomes of what cannot be read
#[derive(Debug, Clone, clap::Args)]
pub struct RejectsArgs {
    /// Keep lines that could not be read as they are in this file [default: jobglass-rejects.txt, or beside the state]
    #[arg(long, value_name = "FILE", help_heading = "Problems")]
    pub rejects: Option<PathBuf>,
    /// Also take what can be understood all the same: a name with a delimiter or a line break in it, and the rest of a job with a
    /// value that cannot be true. What sacct is asked for here is always taken so
    #[arg(long, help_heading = "Problems")]
    pub mend: bool,
}

/// Import jobs as Slurm accounts for them: of a file, of the past, or as they come
///
/// --file reads lines that sacct wrote (-P or -p, with a header or with --fields) or what sacct --json printed; plain or compressed
/// with gzip. --from asks sacct window by window, and goes on where it was stopped. --follow asks every few seconds, as a service,
/// and brings what is new or has changed, with the processors and GPUs that jobs have. Where that is asked, sacct must be in PATH
/// and show the jobs of all users.
/// What cannot be read is named on standard error with file, line and text and kept in a file; everything else is imported.
/// Imported again, nothing is doubled. Exit code 0, 1 if something could not be read, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("what").required(true).args(["file", "from", "follow", "site"])))]
#[command(after_help = "Examples:
  jobglass import slurm --from 2020-01-01
  jobglass import slurm --follow --every 5s
  jobglass import slurm --site
  jobglass import slurm --file sacct.txt
  sacct -aPDX --format=ALL -S 2026-01-01 | jobglass import slurm --file -
  jobglass import slurm --file phillips.log --xdmod --time-zone America/New_York
  jobglass import slurm --file old.txt --fields jobid,user,submit,start,end,state,nodelist --delimiter '^'")]
pub struct ImportSlurmArgs {
    /// Text or JSON that sacct wrote; - is standard input
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub file: Vec<PathBuf>,
    /// The fields of each line, by sacct's names, where the first line does not say them
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        conflicts_with = "xdmod",
        requires = "file",
        help_heading = "Files"
    )]
    pub fields: Option<Vec<String>>,
    /// The 26 fields of the logs that XDMoD reads
    #[arg(long, requires = "file", help_heading = "Files")]
    pub xdmod: bool,
    /// What is between the fields
    #[arg(long, value_name = "TEXT", default_value = "|", help_heading = "Files")]
    pub delimiter: String,
    /// The zone of times without one, such as Europe/Berlin or UTC [default: that of this machine]
    #[arg(long, value_name = "ZONE", requires = "file", help_heading = "Files")]
    pub time_zone: Option<String>,
    /// The cluster of lines that name none
    #[arg(long, value_name = "NAME", requires = "file", help_heading = "Files")]
    pub cluster: Option<String>,
    /// All jobs since this time: 30d, 2026-11-01, 2026-11-01T12:30
    #[arg(long, value_name = "TIME", help_heading = "History")]
    pub from: Option<String>,
    /// Until this time [default: now]
    #[arg(long, value_name = "TIME", requires = "from", help_heading = "History")]
    pub to: Option<String>,
    /// Go on asking until SIGTERM or SIGINT
    #[arg(long, help_heading = "Service")]
    pub follow: bool,
    /// Once what Slurm says of partitions, nodes, accounts and users; --follow does it daily
    #[arg(long, help_heading = "Service")]
    pub site: bool,
    /// How often to ask; less often where Slurm is slow
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = when::duration, help_heading = "Service")]
    pub every: Duration,
    /// The longest span of one query; shorter ones where there are many jobs or Slurm is slow
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = when::duration, help_heading = "History and service")]
    pub window: Duration,
    /// These clusters, with commas between them, or all (sacct -M) [default: that of this machine]
    #[arg(long, value_name = "NAMES", conflicts_with = "file", help_heading = "History and service")]
    pub clusters: Option<String>,
    /// Where it is noted how far it is [default: import-slurm.state, or import-slurm-history.state with --from, in
    /// /var/lib/jobglass or ~/.local/state/jobglass]
    #[arg(long, value_name = "FILE", conflicts_with = "file", help_heading = "History and service")]
    pub state: Option<PathBuf>,
    /// Begin anew, whatever was noted
    #[arg(long, conflicts_with = "file", help_heading = "History and service")]
    pub restart: bool,
    #[command(flatten)]
    pub rejects: RejectsArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}
