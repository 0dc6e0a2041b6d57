//! Speaks to the server.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use record::batch::{MEDIA_TYPE, Refusal, Reply};
use ureq::{Agent, http};

use super::http::{ConnectError, connect};

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

    /// Sends a batch; returns when the server has it.
    pub fn send(&mut self, batch: &[u8]) -> Result<Reply, SendError> {
        let token = self.read(&self.target.token_file)?;
        let token = String::from_utf8_lossy(&token).trim().to_owned();
        let body = zstd::bulk::compress(batch, LEVEL)?;
        let url = format!("{}/api/v1/ingest", self.target.url.trim_end_matches('/'));
        let request = self
            .agent()?
            .post(&url)
            .header(http::header::AUTHORIZATION, format!("Bearer {token}"))
            .header(http::header::CONTENT_TYPE, MEDIA_TYPE)
            .header(http::header::CONTENT_ENCODING, "zstd");
        let mut response =
            request.send(&body[..]).map_err(|error| SendError::Unreachable(error.to_string()))?;
        let status = response.status();
        let text = response.body_mut().with_config().limit(1 << 20).read_to_string();
        let text = text.map_err(|error| SendError::Answer(error.to_string()))?;
        if !status.is_success() {
            let reason = serde_json::from_str(&text).map_or(text, |refusal: Refusal| refusal.error);
            return Err(SendError::Refused { status: status.as_u16(), reason });
        }
        serde_json::from_str(&text).map_err(|error| SendError::Answer(error.to_string()))
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
