//! Speaks to the server.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use record::batch::{MEDIA_TYPE, Refusal, Reply, Wishes};
use record::enroll;
use record::rate::JOBS_HEADER;
use serde::de::DeserializeOwned;
use ureq::{Agent, Body, http};

use super::enroll::{Enrollment, own_token_file};
use super::http::{ConnectError, connect};
use crate::say::say;

/// Fast, and good enough: paths repeat.
const LEVEL: i32 = 3;
/// A busy server answers when the batch is durable.
const ANSWER: Duration = Duration::from_secs(30);

/// Where the server is, and how to prove that we may send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub url: String,
    pub token_file: PathBuf,
    /// Certificates that vouch for the server; without it, those of Mozilla's list.
    pub ca_file: Option<PathBuf>,
    /// How to get a token where there is no `token_file`.
    pub enrollment: Option<Enrollment>,
}

/// Why a batch was not acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error("cannot read {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{0}")]
    Unreachable(String),
    #[error("it answers {status}: {reason}")]
    Refused { status: u16, reason: String },
    #[error("its answer cannot be read: {0}")]
    Answer(String),
    #[error("the spool: {0}")]
    Spool(#[from] io::Error),
}

impl SendError {
    /// Whether the server has understood the batch and will never take it: something in it is impossible, or it is
    /// too large. What was damaged on its way is not meant.
    pub fn is_about_the_content(&self) -> bool {
        matches!(self, SendError::Refused { status: 413 | 422, .. })
    }

    fn is_about_a_missing_file(&self) -> bool {
        matches!(self, SendError::File { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    fn is_about_the_token(&self) -> bool {
        matches!(self, SendError::Refused { status: 401, .. })
    }
}

/// A connection that is kept, and made anew when the certificates change.
pub struct Client {
    target: Target,
    agent: Option<(Option<SystemTime>, Agent)>,
}

impl Client {
    pub fn new(target: Target) -> Client {
        Client { target, agent: None }
    }

    /// Sends a batch; returns when the server has it. `jobs` are those whose rates are answered.
    pub fn send(&mut self, batch: &[u8], jobs: &str) -> Result<Reply, SendError> {
        let body = zstd::bulk::compress(batch, LEVEL)?;
        let token = self.token()?;
        match self.send_with(&token.secret, &body, jobs) {
            // It was revoked: the server may let the host be enrolled once more.
            Err(error) if token.is_kept && error.is_about_the_token() => {
                let token = self.enroll()?;
                self.send_with(&token, &body, jobs)
            }
            sent => sent,
        }
    }

    fn send_with(&mut self, token: &str, body: &[u8], jobs: &str) -> Result<Reply, SendError> {
        let url = self.url("/api/v1/ingest");
        let mut request = self
            .agent()?
            .post(&url)
            .header(http::header::AUTHORIZATION, bearer(token))
            .header(http::header::CONTENT_TYPE, MEDIA_TYPE)
            .header(http::header::CONTENT_ENCODING, "zstd");
        if !jobs.is_empty() {
            request = request.header(JOBS_HEADER, jobs);
        }
        answer(request.send(body))
    }

    /// Asks what the server wishes of this host, and of these jobs.
    pub fn ask(&mut self, host: &str, jobs: &str) -> Result<Wishes, SendError> {
        let token = self.token()?;
        let url = self.url("/api/v1/wishes");
        let request = self.agent()?.get(&url).query("host", host);
        let request = request.header(http::header::AUTHORIZATION, bearer(&token.secret));
        answer(request.header(JOBS_HEADER, jobs).call())
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.target.url.trim_end_matches('/'))
    }

    /// The token of the file, or else the agent's own, which it gets now if it has none yet.
    fn token(&mut self) -> Result<Token, SendError> {
        let given = self.read(&self.target.token_file);
        let enrollment = match given {
            Ok(given) => return Ok(Token { secret: text(&given), is_kept: false }),
            Err(error) => match &self.target.enrollment {
                Some(enrollment) if error.is_about_a_missing_file() => enrollment,
                _ => return Err(error),
            },
        };
        match enrollment.own()? {
            Some(secret) => Ok(Token { secret, is_kept: true }),
            None => Ok(Token { secret: self.enroll()?, is_kept: false }),
        }
    }

    /// Has a token enrolled; returns it when the server has said yes and it is kept.
    fn enroll(&mut self) -> Result<String, SendError> {
        let Some(enrollment) = self.target.enrollment.clone() else {
            return Err(SendError::Unreachable("there is no enrollment token".into()));
        };
        let with = text(&self.read(&enrollment.file)?);
        let token = enrollment.asked()?;
        let request = enroll::Request { host: enrollment.host.clone(), token };
        let body = serde_json::to_vec(&request).map_err(io::Error::from)?;
        let url = self.url(enroll::PATH);
        let asked = self.agent()?.post(&url).header(http::header::AUTHORIZATION, bearer(&with));
        let reply: enroll::Reply = answer(asked.send(&body[..]))?;
        enrollment.accept()?;
        let (host, kept) = (&enrollment.host, own_token_file(&enrollment.dir));
        say(format_args!("enrolled as {host} with token {}, which is kept in {}", reply.id, kept.display()));
        Ok(request.token)
    }

    fn read(&self, path: &PathBuf) -> Result<Vec<u8>, SendError> {
        fs::read(path).map_err(|source| SendError::File { path: path.clone(), source })
    }

    fn agent(&mut self) -> Result<&Agent, SendError> {
        let changed = self.target.ca_file.as_ref().and_then(|path| fs::metadata(path).ok()?.modified().ok());
        if self.agent.as_ref().is_none_or(|(stamp, _)| *stamp != changed) {
            let agent = connect(self.target.ca_file.as_deref(), ANSWER, "jobglass-agent")?;
            self.agent = Some((changed, agent));
        }
        match &self.agent {
            Some((_, agent)) => Ok(agent),
            None => Err(SendError::Unreachable("no connection".into())),
        }
    }
}

/// A token to send with.
struct Token {
    secret: String,
    /// It was enrolled before, and may have been revoked since.
    is_kept: bool,
}

fn text(secret: &[u8]) -> String {
    String::from_utf8_lossy(secret).trim().to_owned()
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn answer<T: DeserializeOwned>(response: Result<http::Response<Body>, ureq::Error>) -> Result<T, SendError> {
    let mut response = response.map_err(|error| SendError::Unreachable(error.to_string()))?;
    let status = response.status();
    let text = response.body_mut().with_config().limit(1 << 20).read_to_string();
    let text = text.map_err(|error| SendError::Answer(error.to_string()))?;
    if !status.is_success() {
        let reason = serde_json::from_str(&text).map_or(text, |refusal: Refusal| refusal.error);
        return Err(SendError::Refused { status: status.as_u16(), reason });
    }
    serde_json::from_str(&text).map_err(|error| SendError::Answer(error.to_string()))
}
