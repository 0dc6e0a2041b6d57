//! `jobglass import`.

use std::path::PathBuf;

use clap::Subcommand;

use super::ServerArgs;

#[derive(Debug, Subcommand)]
pub enum ImportCommand {
    Slurm(ImportSlurmArgs),
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
