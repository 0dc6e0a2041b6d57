//! `jobglass site`.

use clap::ValueEnum;

use super::{ServerArgs, ShapeArgs};

/// Show partitions, nodes or users as the batch system has them
///
/// What jobglass import slurm told last (--follow tells it daily, --site at once), with what the server's site.toml says over it.
/// Exit code 0, 1 if nothing was told, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass site
  jobglass site nodes --json | jq 'select(.gpus > 0)'
  jobglass site users --csv")]
pub struct SiteArgs {
    /// What to show
    #[arg(value_enum, default_value_t = SiteOf::Partitions, value_name = "WHAT")]
    pub of: SiteOf,
    /// On this cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What `jobglass site` shows
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SiteOf {
    Partitions,
    Nodes,
    /// Projects and their users
    Users,
}
