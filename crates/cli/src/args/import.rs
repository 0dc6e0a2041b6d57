//! `jobglass import`.

use std::path::PathBuf;

use clap::Subcommand;

use super::ServerArgs;

#[derive(Debug, Subcommand)]
pub enum ImportCommand {
    Slurm(ImportSlurmArgs),
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
    /// Keep lines that could not be read as they are in this file [default: jobglass-rejects.txt]
    #[arg(long, value_name = "FILE", help_heading = "Problems")]
    pub rejects: Option<PathBuf>,
    /// Also take what can be understood all the same: a name with a delimiter or a line break in it, and the rest of a job with a
    /// value that cannot be true
    #[arg(long, help_heading = "Problems")]
    pub mend: bool,
}

/// Import jobs as Slurm accounts for them
///
/// Lines that sacct wrote (-P or -p, with a header or with --fields) or what sacct --json printed; plain or compressed with gzip.
/// What cannot be read is named on standard error with file, line and text and kept in a file; everything else is imported.
/// Imported again, nothing is doubled. Exit code 0, 1 if something could not be read, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass import slurm --file sacct.txt
  sacct -aPDX --format=ALL -S 2026-01-01 | jobglass import slurm --file -
  jobglass import slurm --file phillips.log --xdmod --time-zone America/New_York
  jobglass import slurm --file old.txt --fields jobid,user,submit,start,end,state,nodelist --delimiter '^'")]
pub struct ImportSlurmArgs {
    /// Text or JSON that sacct wrote; - is standard input
    #[arg(long, value_name = "FILE", required = true)]
    pub file: Vec<PathBuf>,
    /// The fields of each line, by sacct's names, where the first line does not say them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "xdmod")]
    pub fields: Option<Vec<String>>,
    /// The 26 fields of the logs that XDMoD reads
    #[arg(long)]
    pub xdmod: bool,
    /// What is between the fields
    #[arg(long, value_name = "TEXT", default_value = "|")]
    pub delimiter: String,
    /// The zone of times without one, such as Europe/Berlin or UTC [default: that of this machine]
    #[arg(long, value_name = "ZONE")]
    pub time_zone: Option<String>,
    /// The cluster of lines that name none
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    #[command(flatten)]
    pub rejects: RejectsArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}
