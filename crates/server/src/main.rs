//! The `jobglass-server` command.
#![warn(clippy::print_stderr)]

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, CommandFactory, Parser, Subcommand};
use jiff::Timestamp;
use server::backup;
use server::control::{self, Line, Request};
use server::keep::{Keep, Kept, Span};
use server::private;
use server::rate::Share;
use server::readers::Questions;
use server::serve::{self, Options};
use server::settings;
use store::{Forget, Forgotten};

use token_command::TokenCommand;

/// Writes a line to standard error. Not as `eprintln!` does it, which panics where nobody reads.
macro_rules! say {
    ($($text:tt)*) => {{
        let _ = writeln!(io::stderr(), $($text)*);
    }};
}

// It uses the macro above.
mod token_command;

/// Stores what the agents of a cluster send, and answers questions about it.
#[derive(Parser)]
#[command(name = "jobglass-server", version, about, args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  jobglass-server --data /var/lib/jobglass --listen 127.0.0.1:8765
  jobglass-server --data /var/lib/jobglass --listen 0.0.0.0:8765 \\
    --tls-cert cert.pem --tls-key key.pem
  jobglass-server token create --data /var/lib/jobglass \\
    --enroll --host 'n[0001-3000]'
  jobglass-server token create --data /var/lib/jobglass \\
    --user alice --expires 2027-01-31T00:00:00Z
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
    /// Make, list, approve and revoke tokens
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

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Whatever else this command makes has what users run in it, or tokens.
    if !matches!(arguments.command, Some(Command::Generate { .. })) {
        private::set_umask();
    }
    let outcome = match (arguments.command, arguments.serve) {
        (Some(Command::Token(command)), _) => token_command::run(command),
        (Some(Command::Agents { switch, data }), _) => agents(switch, &data),
        (Some(Command::Backup { data, target }), _) => backup(&data, &target),
        (Some(Command::Restore { data, from }), _) => restore(&from, &data),
        (Some(Command::Forget { data, user, before }), _) => forget(&data, user, before),
        (Some(Command::Generate { dir }), _) => {
            manual::generate(&Arguments::command(), &dir).map_err(Into::into)
        }
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

fn agents(switch: Switch, data: &Path) -> anyhow::Result<()> {
    token_command::load(data)?;
    settings::switch(data, switch == Switch::On)
        .with_context(|| format!("cannot write the settings in {}", data.display()))
}

#[cfg(test)]
mod tests {
    use testkit::examples;

    use super::*;

    /// What is printed by `--help` on a terminal of 80 columns, and by `man`.
    #[test]
    fn examples_in_help_can_be_pasted() {
        let dir = tempfile::tempdir().unwrap();
        manual::generate(&Arguments::command(), dir.path()).unwrap();
        let pages = std::fs::read_dir(dir.path().join("man/man1")).unwrap();
        let pages =
            pages.map(|page| String::from_utf8(std::fs::read(page.unwrap().path()).unwrap()).unwrap());
        let texts: Vec<String> = manual::helps(&Arguments::command()).into_iter().chain(pages).collect();
        let typed: Vec<_> = texts.iter().flat_map(|text| examples(text, "jobglass-server")).collect();
        assert!(typed.len() > 16, "only {} examples", typed.len());
        for words in typed {
            let parsed = Arguments::try_parse_from(["jobglass-server".to_owned()].iter().chain(&words));
            assert!(parsed.is_ok(), "jobglass-server {words:?}: {}", parsed.err().unwrap());
        }
    }
}
