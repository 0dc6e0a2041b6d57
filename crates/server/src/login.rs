//! Users of this machine have a token of their own through a socket: the kernel says who is at its other end, so nobody needs a password.
//!
//! Whoever connects is told a line of JSON: `{"user": …, "token": …, "expires": …}`, or `{"error": …}`.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use nix::unistd::{Uid, User};
use rustix::net::sockopt::socket_peercred;
use serde_json::{Value, json};

use crate::rate::{Rates, Share};
use crate::token_file::{self, Content};
use crate::tokens::{Grant, Token};

/// How long such a token is good for: whoever works here gets the next one when it ends.
const DAYS: i64 = 30;
/// Such tokens of one user at a time; the oldest is revoked for the next.
const OF_ONE: usize = 16;
/// Each token rewrites the file of all of them, which every request reads again: 10 at once, then one in six seconds.
const SHARE: Share = Share { per_second: 1.0 / 6.0, burst: 10.0 };
/// Whoever does not listen does not keep others waiting.
const PATIENCE: Duration = Duration::from_secs(2);

/// Listens on a thread of its own, until the process ends.
pub fn start(socket: &Path, data: &Path) -> io::Result<()> {
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    // Everybody may ask; each gets their own.
    fs::set_permissions(socket, fs::Permissions::from_mode(0o666))?;
    let path = data.join(token_file::FILE);
    let rates = Rates::new(SHARE);
    let listen = move || listener.incoming().flatten().for_each(|stream| serve(&stream, &path, &rates));
    thread::Builder::new().name("login".into()).spawn(listen)?;
    Ok(())
}

fn serve(mut stream: &UnixStream, tokens: &Path, rates: &Rates) {
    let answer = token(stream, tokens, rates).unwrap_or_else(|error| {
        tracing::warn!(%error, "no token for a user of this machine");
        json!({"error": error.to_string()})
    });
    let _ = stream.set_write_timeout(Some(PATIENCE));
    // Whoever asked may have gone.
    let _ = writeln!(stream, "{answer}");
}

fn token(stream: &UnixStream, tokens: &Path, rates: &Rates) -> io::Result<Value> {
    let uid = socket_peercred(stream)?.uid.as_raw();
    let user = User::from_uid(Uid::from_raw(uid)).map_err(io::Error::from)?;
    let user = user
        .map(|user| user.name)
        .ok_or_else(|| io::Error::other(format!("uid {uid} has no name on this machine")))?;
    if !rates.take(&user, Instant::now()) {
        return Err(io::Error::other(
            "too many tokens in a short time: wait a minute, or use one that you have",
        ));
    }
    let now = Timestamp::now();
    let expires = now + SignedDuration::from_hours(24 * DAYS);
    let secret: io::Result<String> = token_file::change(tokens, |content| {
        make_room(content, &user, now);
        token_file::add_to(content, Grant::User { user: user.clone() }, Some(expires))
    });
    let secret = secret?;
    tracing::info!(user, "a token for a user of this machine");
    Ok(json!({"user": user, "token": secret, "expires": expires}))
}

/// Tokens that have ended are forgotten, and of too many the oldest ends.
fn make_room(content: &mut Content, user: &str, now: Timestamp) {
    let known = &mut content.tokens;
    let is_own = |token: &Token| matches!(&token.grant, Grant::User { user: own } if own == user);
    known.retain(|token| !(is_own(token) && token.expires.is_some() && token.check(now).is_err()));
    while known.iter().filter(|token| is_own(token) && token.expires.is_some()).count() >= OF_ONE {
        let Some(oldest) = known.iter().position(|token| is_own(token) && token.expires.is_some()) else {
            break;
        };
        known.remove(oldest);
    }
}
