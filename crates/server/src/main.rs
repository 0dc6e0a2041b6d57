//! The `jobglass-server` command.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand};
use jiff::Timestamp;
use server::rate::Share;
use server::serve::{self, Options};
use server::settings;
use server::tokens::{self, Grant, Token};

/// Stores what the agents of a cluster send, and answers questions about it.
#[derive(Parser)]
#[command(name = "jobglass-server", version, about, args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  jobglass-server --data /var/lib/jobglass --listen 127.0.0.1:8765
  jobglass-server --data /var/lib/jobglass --listen 0.0.0.0:8765 --tls-cert cert.pem --tls-key key.pem
  jobglass-server token create --data /var/lib/jobglass --host n0001

At its first start it writes admin.token and ingest.token into the data directory.")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Option<Serve>,
}

#[derive(Subcommand)]
enum Command {
    /// Make, list and revoke tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Switch all agents on or off; each hears it with its next batch
    Agents {
        #[arg(value_enum)]
        switch: Switch,
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Args)]
struct Serve {
    /// The directory of the store; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The address to listen at
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8765")]
    listen: SocketAddr,
    /// A certificate (PEM, with its chain); it is read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Memory the database may take, in MB
    #[arg(long, value_name = "MB", default_value_t = 768)]
    memory: u64,
    /// Refuse to store while less than this is free on the disk, in MB
    #[arg(long, value_name = "MB", default_value_t = 512)]
    least_free: u64,
    /// Connections at the same time
    #[arg(long, value_name = "N", default_value_t = 4096)]
    connections: usize,
    /// Batches a host may send per second, on average
    #[arg(long, value_name = "N", default_value_t = 4.0)]
    host_rate: f64,
    /// Batches a host may send at once
    #[arg(long, value_name = "N", default_value_t = 40.0)]
    host_burst: f64,
    /// Write logs as JSON
    #[arg(long)]
    log_json: bool,
}

#[derive(Subcommand)]
enum TokenCommand {
    /// Make a token with which the agent of one host may send; it is shown once
    Create {
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// The host the token may speak for
        #[arg(long, value_name = "NAME")]
        host: String,
        /// When it ends, for example 2027-01-31T00:00:00Z
        #[arg(long, value_name = "TIME")]
        expires: Option<Timestamp>,
    },
    /// Show all tokens, without their secrets
    List {
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
    },
    /// Make a token worthless, from the next request on
    Revoke {
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// The token's name, as `list` shows it
        id: String,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match (arguments.command, arguments.serve) {
        (Some(Command::Token(command)), _) => token(command),
        (Some(Command::Agents { switch, data }), _) => agents(switch, &data),
        (None, Some(serve)) => run(serve),
        (None, None) => Err(anyhow::anyhow!("--data DIR is missing; see jobglass-server --help")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("jobglass-server: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Serve) -> anyhow::Result<()> {
    let filter =
        tracing_subscriber::EnvFilter::try_from_env("JOBGLASS_LOG").unwrap_or_else(|_| "info".into());
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    if arguments.log_json {
        log.json().init()
    } else {
        log.init()
    }
    let options = Options {
        data: arguments.data,
        listen: arguments.listen,
        tls: arguments.tls_cert.zip(arguments.tls_key),
        memory_mb: arguments.memory,
        least_free_mb: arguments.least_free,
        connections: arguments.connections,
        share: Share { per_second: arguments.host_rate, burst: arguments.host_burst },
    };
    serve::run(&options)
}

fn agents(switch: Switch, data: &Path) -> anyhow::Result<()> {
    load(data)?;
    settings::switch(data, switch == Switch::On)
        .with_context(|| format!("cannot write the settings in {}", data.display()))
}

#[expect(clippy::print_stdout, reason = "what was asked for")]
fn token(command: TokenCommand) -> anyhow::Result<()> {
    match command {
        TokenCommand::Create { data, host, expires } => {
            let (path, mut known) = load(&data)?;
            let last = known.iter().filter_map(|token| token.id.strip_prefix('t')?.parse::<u64>().ok()).max();
            let id = format!("t{}", last.unwrap_or(0) + 1);
            let (secret, token) = tokens::make(&id, Grant::Node { host }, expires)?;
            known.push(token);
            tokens::save(&path, known)?;
            println!("{secret}");
        }
        TokenCommand::List { data } => {
            for token in load(&data)?.1 {
                println!("{}", line(&token));
            }
        }
        TokenCommand::Revoke { data, id } => {
            let (path, mut known) = load(&data)?;
            let Some(token) = known.iter_mut().find(|token| token.id == id) else {
                bail!("there is no token {id:?}; see jobglass-server token list");
            };
            token.revoked.get_or_insert_with(Timestamp::now);
            tokens::save(&path, known)?;
        }
    }
    Ok(())
}

fn load(data: &Path) -> anyhow::Result<(PathBuf, Vec<Token>)> {
    let path = data.join(tokens::FILE);
    if !path.exists() {
        bail!("{} is not there: is {} the data directory of a server?", path.display(), data.display());
    }
    let known = tokens::load(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok((path, known))
}

fn line(token: &Token) -> String {
    let grant = match &token.grant {
        Grant::Admin => "admin".to_owned(),
        Grant::Ingest => "ingest from this machine".to_owned(),
        Grant::Node { host } => format!("node {host}"),
    };
    let state = match (token.revoked, token.expires) {
        (Some(time), _) => format!("revoked {time:.0}"),
        (None, Some(time)) => format!("until {time:.0}"),
        (None, None) => "valid".to_owned(),
    };
    format!("{:<8} {grant:<28} {state}", token.id)
}
