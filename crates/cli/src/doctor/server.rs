//! The server: whether it answers, takes this node's token, has the same time, and has what was recorded.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use agent::clock::wall_ns;
use agent::config::Config;
use agent::ship::Cursor;
use agent::ship::enroll::{open_to_others, own_token_file};
use agent::ship::http::connect;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use record::batch::MEDIA_TYPE;
use ureq::{Agent, http};

use super::report::Check;
use super::spool::Content;
use super::{Node, counted};

const ANSWER: Duration = Duration::from_secs(10);
/// Clocks that are further apart than this put records at the wrong time.
const APART_S: i64 = 5;
/// An agent that is this many entries behind is not just between two flushes.
const BEHIND: u64 = 20_000;

/// All checks; one line if records stay on the node.
pub fn check(node: &Node, spool: &Content) -> Vec<Check> {
    let server = &node.config.server;
    if server.url.is_empty() {
        return vec![Check::skip("server", "none is named in [server]: records stay in the spool")];
    }
    let ca_file = (!server.ca_file.as_os_str().is_empty()).then_some(server.ca_file.as_path());
    let agent = match connect(ca_file, ANSWER, "jobglass-doctor") {
        Ok(agent) => agent,
        Err(error) => return vec![Check::fail("server", error.to_string(), "correct ca_file in [server]")],
    };
    let url = server.url.trim_end_matches('/');
    let mut checks: Vec<Check> = check_enrollment(&node.config).into_iter().collect();
    checks.extend(check_server(&agent, url, &node.config));
    checks.extend(check_shipped(&node.config, spool));
    checks
}

fn check_server(agent: &Agent, url: &str, config: &Config) -> Vec<Check> {
    let mut checks = check_health(agent, url);
    if checks.iter().all(|check| check.advice.is_none()) {
        checks.push(check_token(agent, url, config));
    }
    checks
}

/// The enrollment token and what the agent got with it: both are secrets, and users of a node are curious.
fn check_enrollment(config: &Config) -> Option<Check> {
    const NAME: &str = "enrollment";
    let file = Some(&config.server.enroll_token_file).filter(|file| !file.as_os_str().is_empty())?;
    let own = own_token_file(&config.spool.dir);
    if let Some(mode) = open_to_others(file) {
        let finding = format!("{} is open to others than its owner (mode {mode:04o})", file.display());
        let advice = format!(
            "chmod 600 {}; whoever has read it can enroll hosts of its list that are not enrolled yet: if somebody \
             may have, jobglass-server token revoke, and make another",
            file.display()
        );
        return Some(Check::warn(NAME, finding, advice));
    }
    if let Some(mode) = open_to_others(&own) {
        let finding = format!("{} is open to others than its owner (mode {mode:04o})", own.display());
        let advice = "chmod 600; whoever has read it can send records in this node's name: jobglass-server token \
                      approve --host NAME revokes it, and lets the agent get another";
        return Some(Check::warn(NAME, finding, advice));
    }
    Some(match (own.exists(), file.try_exists()) {
        (true, _) => Check::ok(NAME, format!("the agent has a token of its own, {}", own.display())),
        (false, Ok(true)) => {
            Check::ok(NAME, format!("{} is for the agent only; no token of its own is seen", file.display()))
        }
        (false, Ok(false)) if !config.server.token_file.exists() => Check::warn(
            NAME,
            format!("there is no {}", file.display()),
            "jobglass-server token create --enroll --host LIST makes one; the agent cannot send without a token",
        ),
        (false, Ok(false)) => Check::ok(NAME, "not needed: the agent was given a token"),
        (false, Err(error)) => Check::skip(NAME, format!("cannot look for {}: {error}", file.display())),
    })
}

/// The token that the agent sends with: the one it was given, or else the one that it got.
fn token_file(config: &Config) -> PathBuf {
    let (given, own) = (&config.server.token_file, own_token_file(&config.spool.dir));
    let enrolls = !config.server.enroll_token_file.as_os_str().is_empty();
    if enrolls && !given.exists() { own } else { given.clone() }
}

fn check_health(agent: &Agent, url: &str) -> Vec<Check> {
    let response = match agent.get(format!("{url}/health")).call() {
        Ok(response) => response,
        Err(error) => {
            let advice = "is jobglass-server running there, is the port open from here, and does ca_file vouch for it?";
            return vec![Check::fail("server", format!("{url} does not answer: {error}"), advice)];
        }
    };
    let clock = response.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
    let clock = check_clock(clock);
    let health = if response.status().is_success() {
        Check::ok("server", format!("{url} is ready"))
    } else {
        let finding = format!("{url} answers {}", response.status());
        Check::fail("server", finding, "look at its log: its disk may be full")
    };
    vec![health, clock]
}

fn check_clock(date: Option<&str>) -> Check {
    let name = "server clock";
    let Some(there) = date.and_then(|date| rfc2822::parse(date).ok()).map(|time| time.timestamp()) else {
        return Check::skip(name, "the server does not say what time it is");
    };
    let apart = (Timestamp::now().as_second() - there.as_second()).abs();
    if apart <= APART_S {
        return Check::ok(name, "the same as here");
    }
    let finding = format!("{apart} s apart from this node's");
    Check::warn(
        name,
        finding,
        "let both follow the same time server (chrony): times of records are the node's",
    )
}

/// Something that is no batch is refused for what it is only if the token is good.
fn check_token(agent: &Agent, url: &str, config: &Config) -> Check {
    let path = &token_file(config);
    let token = match fs::read(path) {
        Ok(token) => String::from_utf8_lossy(&token).trim().to_owned(),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Check::skip("token", format!("you may not read {} (root may)", path.display()));
        }
        Err(error) if *path != config.server.token_file => {
            let advice = "the agent gets one when it next sends; if not, its log says why: the server may wait for an \
                          administrator's approval (jobglass-server token list)";
            return Check::warn("token", format!("none yet: {}: {error}", path.display()), advice);
        }
        Err(error) => {
            let advice = "jobglass-server token create --host NAME makes one";
            return Check::fail("token", format!("cannot read {}: {error}", path.display()), advice);
        }
    };
    let answer = agent
        .post(format!("{url}/api/v1/ingest"))
        .header(http::header::AUTHORIZATION, format!("Bearer {token}"))
        .header(http::header::CONTENT_TYPE, MEDIA_TYPE)
        .send_empty();
    match answer.map(|answer| answer.status()) {
        Ok(http::StatusCode::BAD_REQUEST) => Check::ok("token", format!("{} is accepted", path.display())),
        Ok(status) => {
            let advice = "it may be revoked or expired: jobglass-server token list shows it";
            Check::fail("token", format!("the server answers {status} to {}", path.display()), advice)
        }
        Err(error) => Check::fail("token", format!("it could not be tried: {error}"), "try again"),
    }
}

fn check_shipped(config: &Config, spool: &Content) -> Option<Check> {
    let Content::Read(read) = spool else { return None };
    let next = match Cursor::peek(&config.spool.dir) {
        Ok(Some(next)) => next,
        Ok(None) => {
            let finding = "nothing was ever sent from this spool";
            return Some(Check::warn(
                "shipping",
                finding,
                "look at the agent's log; is it running with this configuration?",
            ));
        }
        Err(error) => return Some(Check::skip("shipping", error.to_string())),
    };
    let behind = read.next_number.saturating_sub(next);
    let refused = read.health.as_ref().and_then(|health| {
        health.counters.iter().find(|(name, _)| name == "entries_refused").map(|(_, count)| *count)
    });
    if let Some(count) = refused.filter(|count| *count > 0) {
        let finding = format!("{} the server cannot use", counted(count, "entry", "entries"));
        return Some(Check::warn("shipping", finding, "they are kept in the spool's directory `refused`"));
    }
    let age_s = read.newest.map_or(0, |newest| wall_ns().saturating_sub(newest) / 1_000_000_000);
    let finding = match behind {
        0 => "the server has everything".to_owned(),
        _ => format!("{} to be sent, the last {age_s} s old", counted(behind, "entry", "entries")),
    };
    Some(if behind < BEHIND {
        Check::ok("shipping", finding)
    } else {
        Check::warn("shipping", finding, "the server was away, or is slow: look at the agent's log")
    })
}
