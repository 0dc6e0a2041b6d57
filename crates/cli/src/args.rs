//! What can be typed: the one definition of parser, help, man pages and completions.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// What really runs on an HPC machine, and whether it was worth it.
#[derive(Debug, Parser)]
#[command(name = "jobglass", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Agent(AgentArgs),
    Run(RunArgs),
    Doctor(DoctorArgs),
    /// Look into an agent's spool
    Spool {
        #[command(subcommand)]
        command: SpoolCommand,
    },
    #[command(hide = true)]
    Generate(GenerateArgs),
}

/// Run the node agent: record every program of this node
///
/// Receives what the guest library says about programs, takes exec, exit and accounting of every process from
/// the kernel, and writes one record per program image to the spool. Runs until SIGTERM or Ctrl-C; SIGHUP
/// reads the configuration again. Sees everything as root or with CAP_NET_ADMIN, CAP_SYS_PTRACE and
/// CAP_DAC_READ_SEARCH; without privileges it says what it cannot see.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass agent --spool /tmp/spool --socket /tmp/jobglass.sock
  jobglass agent --config /etc/jobglass/agent.toml")]
pub struct AgentArgs {
    /// Directory of the spool
    #[arg(long, value_name = "DIR")]
    pub spool: Option<PathBuf>,
    /// Where guests find the agent: a path, or an abstract name beginning with @
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
    /// Certificates that vouch for the server (PEM) [default: the system's]
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
  jobglass spool read /var/spool/jobglass --json | jq 'select(.exit_code != 0) | .exe'
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
