//! `jobglass searches`.

use clap::Subcommand;

use super::{ServerArgs, ShapeArgs};

#[derive(Debug, Subcommand)]
pub enum SearchesCommand {
    /// Show searches that have a name: yours, the site's and those that are shipped
    #[command(after_help = "A search is kept with jobglass jobs --save NAME.")]
    List(ListSearchesArgs),
    /// Forget a search of yours
    Forget(ForgetArgs),
}

#[derive(Debug, clap::Args)]
pub struct ListSearchesArgs {
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

#[derive(Debug, clap::Args)]
pub struct ForgetArgs {
    pub name: String,
    #[command(flatten)]
    pub server: ServerArgs,
}
