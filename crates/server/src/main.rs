//! The `jobglass-server` command.
#![warn(clippy::print_stderr)]

use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use jiff::Timestamp;
use server::backup;
use server::control::{self, Line, Request};
use server::keep::{Keep, Kept, Span};
use server::private;
use server::rate::Share;
use server::readers::Questions;
use server::serve::{self, Options};
use server::settings;
use server::token_uses;
use server::tokens::{self, Grant, Token};
use store::{Forget, Forgotten};

/// Writes a line to standard error. Not as `eprintln!` does it, which panics where nobody reads.
macro_rules! say {
    ($($text:tt)*) => {{
        let _ = writeln!(io::stderr(), $($text)*);
    }};
}

/// Stores what the agents of a cluster send, and answers questions about it.
#[derive(Parser)]
#[command(name = "jobglass-server", version, about, args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  jobglass-server --data /var/lib/jobglass --listen 127.0.0.1:8765
  jobglass-server --data /var/lib/jobglass --listen 0.0.0.0:8765 --tls-cert cert.pem --tls-key key.pem
  jobglass-server token create --data /var/lib/jobglass --host n0001
  jobglass-server token create --data /var/lib/jobglass --user alice --expires 2027-01-31T00:00:00Z
  jobglass-server backup --data /var/lib/jobglass /backup/jobglass-2026-11-16

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
    /// Copy everything into a new directory, also while the server runs
    Backup {
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// The directory to make; on the server's own machine, and writable for it
        #[arg(value_name = "BACKUP")]
        target: PathBuf,
    },
    /// Make a data directory from a backup
    #[command(
        after_help = "What agents sent after the backup was made is not in it; they do not send it again."
    )]
    Restore {
        /// The directory to make
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        #[arg(value_name = "BACKUP")]
        from: PathBuf,
    },
    /// Delete records, also while the server runs
    #[command(after_help = "Examples:
  jobglass-server forget --data /var/lib/jobglass --user alice
  jobglass-server forget --data /var/lib/jobglass --before 2024-01-01T00:00:00Z

What is deleted here is still in older backups, and what an agent has not sent yet will come.")]
    #[command(group = clap::ArgGroup::new("what").required(true))]
    Forget {
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// Everything of this user: a name, or a number
        #[arg(long, value_name = "USER", group = "what")]
        user: Option<String>,
        /// Everything that ended before this time
        #[arg(long, value_name = "TIME", group = "what")]
        before: Option<Timestamp>,
    },
    /// Write man pages and completions
    #[command(hide = true)]
    Generate {
        #[arg(value_name = "DIR")]
        dir: PathBuf,
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
    /// Delete records that are older than this [default: keep them]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
    keep_days: Option<u32>,
    /// Keep readings as they came for this long, then make them coarse: a number with d or y, or forever
    #[arg(long, value_name = "TIME", default_value = "90d", value_parser = Span::of_a_day)]
    keep_samples: Kept,
    /// What a coarse reading stands for: a number with m or h
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = Span::of_a_step)]
    coarse_step: Span,
    /// Keep coarse readings for this long
    #[arg(long, value_name = "TIME", default_value = "forever", value_parser = Span::of_a_day)]
    keep_coarse: Kept,
    /// Keep the characteristics of jobs for this long
    #[arg(long, value_name = "TIME", default_value = "forever", value_parser = Span::of_a_day)]
    keep_jobs: Kept,
    /// Rules of jobglass env-check [default: those that are shipped]
    #[arg(long, value_name = "FILE")]
    environment_rules: Option<PathBuf>,
    /// Thresholds, and what is a short job [default: site.toml in the data directory, if it exists]
    #[arg(long, value_name = "FILE")]
    site: Option<PathBuf>,
    /// Threads of the database [default: half of the cores, 2 to 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// How long an answer may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0)]
    answer_within: f64,
    /// Questions of users that are answered at the same time; administrators and support have four places besides
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..))]
    questions: u16,
    /// Questions of one user that are answered at the same time; more wait, or get 429
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    questions_each: u16,
    /// Let users of this machine have a token of their own through a socket at this path; jobglass login --socket
    #[arg(long, value_name = "FILE")]
    login_socket: Option<PathBuf>,
    /// Write logs as JSON
    #[arg(long)]
    log_json: bool,
}

#[derive(Subcommand)]
enum TokenCommand {
    /// Make a token for the agent of a host, or for a user; it is shown once
    #[command(after_help = "Examples:
  jobglass-server token create --data /var/lib/jobglass --host n0001 >agent.token
  jobglass-server token create --data /var/lib/jobglass --host 'n[0001-0128]'   # a line for each: host and token
  jobglass-server token create --data /var/lib/jobglass --user alice --expires 2027-01-31T00:00:00Z")]
    #[command(group = clap::ArgGroup::new("whom").required(true))]
    Create {
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// The host the token may speak for; a list such as n[0001-0128] makes a token for each
        #[arg(long, value_name = "HOSTS", group = "whom")]
        host: Option<String>,
        /// The user who may ask with it; what they see and may do is up to their role
        #[arg(long, value_name = "NAME", group = "whom")]
        user: Option<String>,
        /// When it ends, for example 2027-01-31T00:00:00Z
        #[arg(long, value_name = "TIME")]
        expires: Option<Timestamp>,
    },
    /// Show all tokens, without their secrets, and when each was last used
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
    // Whatever else this command makes has what users run in it, or tokens.
    if !matches!(arguments.command, Some(Command::Generate { .. })) {
        private::set_umask();
    }
    let outcome = match (arguments.command, arguments.serve) {
        (Some(Command::Token(command)), _) => token(command),
        (Some(Command::Agents { switch, data }), _) => agents(switch, &data),
        (Some(Command::Backup { data, target }), _) => backup(&data, &target),
        (Some(Command::Restore { data, from }), _) => restore(&from, &data),
        (Some(Command::Forget { data, user, before }), _) => forget(&data, user, before),
        (Some(Command::Generate { dir }), _) => generate(&dir),
        (None, Some(serve)) => run(serve),
        (None, None) => Err(anyhow::anyhow!("--data DIR is missing; see jobglass-server --help")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say!("jobglass-server: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Serve) -> anyhow::Result<()> {
    let filter =
        tracing_subscriber::EnvFilter::try_from_env("JOBGLASS_LOG").unwrap_or_else(|_| "info".into());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_target(false);
    // What cannot be written to a log that nobody reads is no reason to end.
    let log = log.log_internal_errors(false);
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
        keep: Keep {
            days: arguments.keep_days,
            samples: arguments.keep_samples,
            coarse_step: arguments.coarse_step,
            coarse: arguments.keep_coarse,
            jobs: arguments.keep_jobs,
        },
        environment_rules: arguments.environment_rules,
        site: arguments.site,
        threads: arguments.threads,
        questions: Questions {
            all: arguments.questions.into(),
            each: arguments.questions_each.into(),
            within: std::time::Duration::try_from_secs_f64(arguments.answer_within)
                .context("--answer-within is no time")?,
        },
        login_socket: arguments.login_socket,
    };
    serve::run(&options)
}

/// Says how far a long task is, on a terminal only.
fn show_progress(bytes: u64) {
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "\r{} MB", bytes / 1_000_000);
    }
}

fn backup(data: &Path, target: &Path) -> anyhow::Result<()> {
    // The server does it, and may stand in another directory.
    let target = std::path::absolute(target)?;
    let Line::Backup { bytes } = control::ask(data, Request::Backup(target.clone()), &mut show_progress)?
    else {
        bail!("the server gives another answer than was asked for: is it of another version?");
    };
    say!("jobglass-server: {} MB in {}", bytes / 1_000_000, target.display());
    Ok(())
}

fn restore(from: &Path, data: &Path) -> anyhow::Result<()> {
    backup::restore(from, data)?;
    say!("jobglass-server: restored into {}", data.display());
    Ok(())
}

fn forget(data: &Path, user: Option<String>, before: Option<Timestamp>) -> anyhow::Result<()> {
    let what = match (user, before) {
        (Some(user), _) => Forget::User(user),
        (None, Some(time)) => {
            Forget::Before(i64::try_from(time.as_nanosecond()).context("the time is too far away")?)
        }
        (None, None) => bail!("--user or --before is missing"),
    };
    let Line::Forgotten(forgotten) = control::ask(data, Request::Forget(what), &mut show_progress)? else {
        bail!("the server gives another answer than was asked for: is it of another version?");
    };
    let Forgotten { processes, shared } = forgotten;
    say!(
        "jobglass-server: deleted {processes} rows of processes, and {shared} of what only they referred to"
    );
    Ok(())
}

fn generate(dir: &Path) -> anyhow::Result<()> {
    let (man, completions) = (dir.join("man/man1"), dir.join("completions"));
    for dir in [&man, &completions] {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let command = Arguments::command();
    clap_mangen::generate_to(command.clone(), &man).context("cannot write man pages")?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command.clone(), "jobglass-server", &completions)
            .context("cannot write completions")?;
    }
    Ok(())
}

fn agents(switch: Switch, data: &Path) -> anyhow::Result<()> {
    load(data)?;
    settings::switch(data, switch == Switch::On)
        .with_context(|| format!("cannot write the settings in {}", data.display()))
}

/// Prints what was asked for. Whoever leaves before the end has read enough.
#[allow(clippy::disallowed_methods, reason = "it is this command's own")]
fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn token(command: TokenCommand) -> anyhow::Result<()> {
    match command {
        TokenCommand::Create { data, host, user, expires } => {
            let (path, _) = load(&data)?;
            print(&match (host, user) {
                (Some(list), _) => node_tokens(&path, &list, expires)?,
                (None, Some(user)) => tokens::add(&path, Grant::User { user }, expires)? + "\n",
                (None, None) => bail!("--host or --user is missing"),
            })?;
        }
        TokenCommand::List { data } => {
            let uses = token_uses::load(&data);
            let rows = load(&data)?.1.into_iter().map(|token| row(&token, uses.get(&token.id)));
            print(&table(["TOKEN", "GOOD FOR", "STATE", "CREATED", "LAST USED"], rows.collect()))?;
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

/// A token for each host of a list: alone where there is one, else each behind its host.
fn node_tokens(path: &Path, list: &str, expires: Option<Timestamp>) -> anyhow::Result<String> {
    let mut hosts = hostlist::expand(list).with_context(|| format!("--host {list:?} is no list of hosts"))?;
    let mut known = HashSet::new();
    hosts.retain(|host| known.insert(host.clone()));
    if hosts.is_empty() {
        bail!("--host {list:?} names no host");
    }
    let grants = hosts.iter().map(|host| Grant::Node { host: host.clone() }).collect();
    let secrets = tokens::add_all(path, grants, expires)?;
    Ok(match &secrets[..] {
        [secret] => format!("{secret}\n"),
        _ => hosts.iter().zip(&secrets).map(|(host, secret)| format!("{host} {secret}\n")).collect(),
    })
}

fn load(data: &Path) -> anyhow::Result<(PathBuf, Vec<Token>)> {
    let path = data.join(tokens::FILE);
    if !path.exists() {
        bail!("{} is not there: is {} the data directory of a server?", path.display(), data.display());
    }
    let known = tokens::load(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok((path, known))
}

/// Columns below their headers.
fn table<const N: usize>(headers: [&str; N], rows: Vec<[String; N]>) -> String {
    let rows: Vec<[String; N]> = std::iter::once(headers.map(str::to_owned)).chain(rows).collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn row(token: &Token, last_use: Option<&Timestamp>) -> [String; 5] {
    let grant = match &token.grant {
        Grant::Admin => "admin".to_owned(),
        Grant::Ingest => "ingest from this machine".to_owned(),
        Grant::Node { host } => format!("node {host}"),
        Grant::User { user } => format!("user {user}"),
    };
    let state = match (token.revoked, token.expires) {
        (Some(time), _) => format!("revoked {time:.0}"),
        (None, Some(time)) => format!("until {time:.0}"),
        (None, None) => "valid".to_owned(),
    };
    let last_use = last_use.map_or("never".to_owned(), |time| format!("{time:.0}"));
    [token.id.clone(), grant, state, format!("{:.0}", token.created), last_use]
}
