//! `jobglass-server token`: makes, lists, approves and revokes tokens, also while a server runs.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Subcommand;
use jiff::Timestamp;
use server::enrollment;
use server::keep::Span;
use server::token_file::{self, Content};
use server::token_uses;
use server::tokens::{Grant, Token};

#[derive(Subcommand)]
pub enum TokenCommand {
    /// Make a token for the agent of a host, for many agents, or for a user; it is shown once
    #[command(after_help = "Examples:
  jobglass-server token create --data /var/lib/jobglass --host n0001 \\
    >agent.token
  jobglass-server token create --data /var/lib/jobglass \\
    --host 'n[0001-0128]'   # a line for each: host and token
  jobglass-server token create --data /var/lib/jobglass \\
    --enroll --host 'n[0001-3000]' >enroll.token
  jobglass-server token create --data /var/lib/jobglass \\
    --user alice --expires 2027-01-31T00:00:00Z

With --enroll there is one token for all hosts of the list. An agent that has it (enroll_token_file) makes a token of its own
and has it enrolled with the server: each host once, and again only after `token approve`.")]
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
        /// Make one enrollment token, with which agents of these hosts get their own tokens
        #[arg(long, requires = "host")]
        enroll: bool,
        /// Hosts that can be enrolled with it [default: all of the list]
        #[arg(long, value_name = "N", requires = "enroll", value_parser = clap::value_parser!(u32).range(1..))]
        uses: Option<u32>,
        /// When it ends: a time, for example 2027-01-31T00:00:00Z, or how long from now, for example 30d
        /// [default: never; 7d with --enroll]
        #[arg(long, value_name = "TIME", value_parser = end)]
        expires: Option<Timestamp>,
    },
    /// Show all tokens, without their secrets, when each was last used, and which agents wait for approval
    List {
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
    },
    /// Let hosts be enrolled once more; the tokens they have are revoked at once
    #[command(after_help = "Examples:
  jobglass-server token approve --data /var/lib/jobglass --host n0001
  jobglass-server token approve --data /var/lib/jobglass --host n0001 \\
    --request 3fa91c02

The agent that waits is meant, as `token list` shows it; where none waits, the next that asks within seven days. See that it is
the node: the list shows the address it asks from.")]
    Approve {
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// The host, or a list such as n[0001-0128]
        #[arg(long, value_name = "HOSTS")]
        host: String,
        /// Which agent, where several wait for one host
        #[arg(long, value_name = "REQUEST")]
        request: Option<String>,
    },
    /// Make a token worthless, from the next request on
    Revoke {
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// The token's name, as `list` shows it
        id: String,
        /// Also the tokens that agents got with it, if it is an enrollment token
        #[arg(long)]
        with_hosts: bool,
    },
}

/// A time, or a length of time from now on.
fn end(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let no_time =
        || format!("`{text}` is neither a time, as 2027-01-31T00:00:00Z, nor a length of time, as 30d");
    let span: Span = text.parse().map_err(|_| no_time())?;
    Timestamp::now().checked_add(span.0).map_err(|_| no_time())
}

pub fn run(command: TokenCommand) -> anyhow::Result<()> {
    match command {
        TokenCommand::Create { data, host, user, enroll, uses, expires } => {
            let (path, _) = load(&data)?;
            print(&match (host, user) {
                (Some(list), _) if enroll => enrollment_token(&path, &list, uses, expires)?,
                (Some(list), _) => node_tokens(&path, &list, expires)?,
                (None, Some(user)) => token_file::add(&path, Grant::User { user }, expires)? + "\n",
                (None, None) => bail!("--host or --user is missing"),
            })?;
        }
        TokenCommand::List { data } => print(&list(&data)?)?,
        TokenCommand::Approve { data, host, request } => approve(&data, &host, request.as_deref())?,
        TokenCommand::Revoke { data, id, with_hosts } => revoke(&data, &id, with_hosts)?,
    }
    Ok(())
}

/// The hosts of a list, each once.
fn hosts(list: &str) -> anyhow::Result<Vec<String>> {
    let mut hosts = hostlist::expand(list).with_context(|| format!("--host {list:?} is no list of hosts"))?;
    let mut known = HashSet::new();
    hosts.retain(|host| known.insert(host.clone()));
    if hosts.is_empty() {
        bail!("--host {list:?} names no host");
    }
    Ok(hosts)
}

/// A token for each host of a list: alone where there is one, else each behind its host.
fn node_tokens(path: &Path, list: &str, expires: Option<Timestamp>) -> anyhow::Result<String> {
    let hosts = hosts(list)?;
    let grants = hosts.iter().map(|host| Grant::Node { host: host.clone() }).collect();
    let secrets = token_file::add_all(path, grants, expires)?;
    Ok(match &secrets[..] {
        [secret] => format!("{secret}\n"),
        _ => hosts.iter().zip(&secrets).map(|(host, secret)| format!("{host} {secret}\n")).collect(),
    })
}

/// One token for all hosts of a list.
fn enrollment_token(
    path: &Path,
    list: &str,
    uses: Option<u32>,
    expires: Option<Timestamp>,
) -> anyhow::Result<String> {
    let hosts = hosts(list)?;
    let uses = uses.unwrap_or(u32::try_from(hosts.len())?);
    let expires = expires.unwrap_or(Timestamp::now() + enrollment::LASTS);
    let folded = hostlist::fold(hosts.iter().map(String::as_str))?;
    let secret = token_file::add(path, Grant::Enroll { hosts: folded.clone(), uses }, Some(expires))?;
    say!("jobglass-server: it enrolls {uses} of {folded} until {expires:.0}, each host once");
    Ok(secret + "\n")
}

fn approve(data: &Path, list: &str, request: Option<&str>) -> anyhow::Result<()> {
    let (path, _) = load(data)?;
    let hosts = hosts(list)?;
    if request.is_some() && hosts.len() > 1 {
        bail!("--request is of one host, and --host {list:?} names {}", hosts.len());
    }
    token_file::change(&path, |content| {
        content.approve(&hosts, request, Timestamp::now()).map_err(anyhow::Error::from)
    })
}

fn revoke(data: &Path, id: &str, with_hosts: bool) -> anyhow::Result<()> {
    let (path, _) = load(data)?;
    let revoked = token_file::change(&path, |content| {
        let count = content.revoke(id, with_hosts, Timestamp::now());
        count.with_context(|| format!("there is no token {id:?}; see jobglass-server token list"))
    })?;
    if with_hosts {
        say!("jobglass-server: {revoked} revoked");
    }
    Ok(())
}

/// The file of tokens in a data directory, and what it holds.
pub fn load(data: &Path) -> anyhow::Result<(PathBuf, Content)> {
    let path = data.join(token_file::FILE);
    if !path.exists() {
        bail!("{} is not there: is {} the data directory of a server?", path.display(), data.display());
    }
    let known = token_file::load(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok((path, known))
}

/// Prints what was asked for. Whoever leaves before the end has read enough.
#[allow(clippy::disallowed_methods, reason = "it is this command's own")]
fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// All tokens, and below them who waits for approval.
fn list(data: &Path) -> anyhow::Result<String> {
    let (_, content) = load(data)?;
    let uses = token_uses::load(data);
    let rows = content.tokens.iter().map(|token| row(&content, token, uses.get(&token.id)));
    let mut text = table(["TOKEN", "GOOD FOR", "STATE", "CREATED", "LAST USED"], rows.collect());
    if !content.waiting.is_empty() {
        let rows = content.waiting.iter().map(|waiting| {
            let enrollment::Waiting { host, hash, enrolled, since } = waiting;
            [
                host.clone(),
                hash.short(),
                enrolled.from.to_string(),
                enrolled.by.clone(),
                format!("{since:.0}"),
            ]
        });
        text += "\nEnrolled before, waiting for approval (token approve --host HOST):\n";
        text += &table(["HOST", "REQUEST", "FROM", "WITH TOKEN", "SINCE"], rows.collect());
    }
    if !content.approved.is_empty() {
        let rows = content.approved.iter().map(|approval| {
            let request = approval.hash.map_or("any".to_owned(), |hash| hash.short());
            [approval.host.clone(), request, format!("{:.0}", approval.until)]
        });
        text += "\nApproved, not yet enrolled again:\n";
        text += &table(["HOST", "REQUEST", "UNTIL"], rows.collect());
    }
    Ok(text)
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

fn row(content: &Content, token: &Token, last_use: Option<&Timestamp>) -> [String; 5] {
    let grant = match (&token.grant, &token.enrolled) {
        (Grant::Admin, _) => "admin".to_owned(),
        (Grant::Ingest, _) => "ingest from this machine".to_owned(),
        (Grant::Node { host }, None) => format!("node {host}"),
        (Grant::Node { host }, Some(it)) => format!("node {host}, enrolled by {} from {}", it.by, it.from),
        (Grant::User { user }, _) => format!("user {user}"),
        (Grant::Enroll { hosts, uses }, _) => {
            format!("enrolling {hosts}, {} of {uses} used", content.hosts_of(&token.id).len())
        }
    };
    let state = match (token.revoked, token.expires) {
        (Some(time), _) => format!("revoked {time:.0}"),
        (None, Some(time)) => format!("until {time:.0}"),
        (None, None) => "valid".to_owned(),
    };
    let last_use = last_use.map_or("never".to_owned(), |time| format!("{time:.0}"));
    [token.id.clone(), grant, state, format!("{:.0}", token.created), last_use]
}
