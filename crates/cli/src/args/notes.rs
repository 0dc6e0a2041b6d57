//! `jobglass notes` and `jobglass cases`.

use clap::{ArgGroup, Subcommand};

use super::{ServerArgs, ShapeArgs};

#[derive(Debug, Subcommand)]
pub enum NotesCommand {
    List(ListNotesArgs),
    Add(AddNoteArgs),
    /// Take a note back: your own, or any as administrator
    Remove(NumberArgs),
}

/// Show notes on jobs and programs, the newest first
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jobglass notes list --job 4711\n  jobglass notes list --text 'conjugate gradients'"
)]
pub struct ListNotesArgs {
    /// On this job
    #[arg(long, value_name = "ID")]
    pub job: Option<String>,
    /// On this program
    #[arg(long, value_name = "PATH")]
    pub program: Option<String>,
    /// By this user
    #[arg(long, value_name = "USER")]
    pub by: Option<String>,
    /// With these words in it
    #[arg(long, value_name = "WORDS")]
    pub text: Option<String>,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Write a note on a job or on a program: what its owner said, the algorithm, the options
///
/// A note on a job is seen by those whose job it is, by managers of its project, by support and administrators; one on a program by you,
/// support and administrators.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("about").required(true))]
#[command(
    after_help = "Examples:\n  jobglass notes add --job 4711 'conjugate gradients, stops after 500 steps'\n  jobglass notes add --program '/sw/cfd/*/solver' \\\n    'reads its mesh again in every step with -r'"
)]
pub struct AddNoteArgs {
    /// What is to be remembered
    pub text: String,
    /// On this job
    #[arg(long, value_name = "ID", group = "about")]
    pub job: Option<String>,
    /// On this program: its path; * is any text
    #[arg(long, value_name = "PATH", group = "about")]
    pub program: Option<String>,
    /// The job's cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    #[command(flatten)]
    pub server: ServerArgs,
}

#[derive(Debug, clap::Args)]
pub struct NumberArgs {
    /// Its number, as list shows it
    pub number: u64,
    #[command(flatten)]
    pub server: ServerArgs,
}

#[derive(Debug, Subcommand)]
pub enum CasesCommand {
    List(ListCasesArgs),
    Show(ShowCaseArgs),
    Open(OpenCaseArgs),
    /// Write down what happened in a case
    Add(CaseNewsArgs),
    /// Close a case, with its outcome
    Close(CaseNewsArgs),
}

/// Show cases in which a user was contacted, the newest first: your own, and all for support
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jobglass cases list --open\n  jobglass cases list --user alice --json")]
pub struct ListCasesArgs {
    /// About this user
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Because of this job
    #[arg(long, value_name = "ID")]
    pub job: Option<String>,
    /// Opened by this user
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// With these words in the reason, the outcome or what happened since
    #[arg(long, value_name = "WORDS")]
    pub text: Option<String>,
    /// Only those that are open
    #[arg(long, conflicts_with = "closed")]
    pub open: bool,
    /// Only those that are closed
    #[arg(long)]
    pub closed: bool,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Show a case: why it was opened, what happened since, and how it ended
///
/// Exit code 0, 1 if there is none of this number that you may see, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jobglass cases show 3\n  jobglass cases show 3 --json | jq '.entries[].text'"
)]
pub struct ShowCaseArgs {
    /// Its number, as list shows it
    pub number: u64,
    /// One JSON object
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Open a case: somebody is contacted. For support and administrators
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("whom").required(true).multiple(true))]
#[command(
    after_help = "Examples:\n  jobglass cases open --job 4711 'GPUs reserved and not used, for a month'\n  jobglass cases open --user alice 'asked for a course on MPI'"
)]
pub struct OpenCaseArgs {
    /// Why
    pub reason: String,
    /// About this user [default: the owner of the job]
    #[arg(long, value_name = "NAME", group = "whom")]
    pub user: Option<String>,
    /// Because of this job
    #[arg(long, value_name = "ID", group = "whom")]
    pub job: Option<String>,
    /// The job's cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    #[command(flatten)]
    pub server: ServerArgs,
}

#[derive(Debug, clap::Args)]
pub struct CaseNewsArgs {
    /// Its number, as list shows it
    pub number: u64,
    /// What happened
    pub text: String,
    #[command(flatten)]
    pub server: ServerArgs,
}
