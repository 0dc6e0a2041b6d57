//! Which server is asked, with which token.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agent::ship::http::connect;
use anyhow::{Context, Result, anyhow, bail};
use record::batch::Refusal;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ureq::typestate::{WithBody, WithoutBody};
use ureq::{Agent, Body, RequestBuilder, http};

use crate::args::ServerArgs;

/// A question over the whole history may take a while.
const ANSWER: Duration = Duration::from_secs(600);

/// How long a question is asked again that came while the server was busy.
const BUSY: Duration = Duration::from_secs(120);

/// What `jobglass login` keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    pub server: String,
    pub token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// Where the login is kept.
fn login_path() -> Option<PathBuf> {
    let config = std::env::var_os("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let config = config.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))?;
    Some(config.join("jobglass/login.toml"))
}

impl Login {
    /// What was typed, else what the environment says, else what `login` has kept.
    pub fn find(args: &ServerArgs) -> Result<Login> {
        let kept = login_path().map_or(Ok(None), |path| Login::read(&path))?;
        let url = args.server.clone().or_else(|| kept.as_ref().map(|login| login.server.clone()));
        let Some(server) = url else {
            bail!("no server is known: give --server URL, set JOBGLASS_SERVER, or use jobglass login");
        };
        let token = match (&args.token_file, &kept) {
            (Some(path), _) => read_token(path)?,
            // A kept token is for its own server only.
            (None, Some(login)) if login.server == server => login.token.clone(),
            _ => bail!(
                "no token is known for {server}: give --token-file F, set JOBGLASS_TOKEN_FILE, or use jobglass login"
            ),
        };
        let ca_file = args.ca_file.clone().or(kept.and_then(|login| login.ca_file));
        Ok(Login { server, token, ca_file })
    }

    fn read(path: &Path) -> Result<Option<Login>> {
        let Ok(text) = fs::read(path) else { return Ok(None) };
        let login = toml::from_slice(&text)
            .with_context(|| format!("{} is damaged: use jobglass login", path.display()))?;
        Ok(Some(login))
    }

    /// Keeps the login for later commands; only its owner can read it.
    pub fn keep(&self) -> Result<PathBuf> {
        let path = login_path().context("neither XDG_CONFIG_HOME nor HOME is set")?;
        let dir = path.parent().context("no directory")?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let new = path.with_extension("new");
        let _ = fs::remove_file(&new);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(toml::to_string(self)?.as_bytes())?;
        fs::rename(new, &path)?;
        Ok(path)
    }
}

pub fn read_token(path: &Path) -> Result<String> {
    let text = fs::read(path).with_context(|| format!("cannot read the token in {}", path.display()))?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

/// A token for whoever asks, from a server on this machine.
pub fn token_from(socket: &Path) -> Result<String> {
    let stream =
        UnixStream::connect(socket).with_context(|| format!("nobody listens at {}", socket.display()))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let answer: Value = serde_json::from_str(&line).context("no server answers there")?;
    if let Some(error) = answer["error"].as_str() {
        bail!("the server makes no token: {error}");
    }
    Ok(answer["token"].as_str().context("no server answers there")?.to_owned())
}

/// Why the server does not have what was brought.
pub struct NotPosted {
    pub why: anyhow::Error,
    /// It may take it later: it is not there, or has no room now.
    pub is_passing: bool,
}

/// A server that can be asked.
#[derive(Clone)]
pub struct Server {
    login: Login,
    agent: Agent,
}

impl Server {
    pub fn new(login: Login) -> Result<Server> {
        let agent = connect(login.ca_file.as_deref(), ANSWER, "jobglass")?;
        Ok(Server { login, agent })
    }

    /// Asks; `None` is an answer too: it is not there.
    pub fn get(&self, path: &str, parameters: &[(&str, String)]) -> Result<Option<Value>> {
        let began = Instant::now();
        loop {
            let request = with(self.agent.get(self.url(path)), parameters);
            let response = request.header(http::header::AUTHORIZATION, self.token()).call();
            // Too many questions at a time: those before are answered soon.
            let wait = response.as_ref().ok().and_then(busy_for);
            match wait.filter(|_| began.elapsed() < BUSY) {
                Some(wait) => std::thread::park_timeout(wait),
                None => return self.answer(response),
            }
        }
    }

    /// Asks for a list and all its parts, up to `limit` rows, or all with 0: the answer is one list, whose `more` says whether there is
    /// anything behind it.
    pub fn list(&self, path: &str, parameters: &[(&str, String)], limit: u64) -> Result<Option<Value>> {
        let mut parameters: Vec<(&str, String)> = parameters.to_vec();
        let Some(mut all) = self.get(path, &parameters)? else { return Ok(None) };
        loop {
            let have = all["rows"].as_array().map_or(0, Vec::len) as u64;
            let next = all["next"].as_str().map(str::to_owned).filter(|_| limit == 0 || have < limit);
            let Some(next) = next else { return Ok(Some(all)) };
            parameters.retain(|(name, _)| *name != "after" && (*name != "limit" || limit == 0));
            parameters.push(("after", next));
            parameters.extend((limit > 0).then(|| ("limit", (limit - have).to_string())));
            let mut part = self.get(path, &parameters)?.unwrap_or_default();
            let Value::Array(mut rows) = part["rows"].take() else {
                bail!("a part of the answer is missing")
            };
            if let Value::Array(all) = &mut all["rows"] {
                all.append(&mut rows);
            }
            for name in ["more", "next"] {
                all[name] = part[name].take();
            }
        }
    }

    /// Changes something; a server that does not know it is too old.
    pub fn put(&self, path: &str, body: &Value) -> Result<Value> {
        let request = self.agent.put(self.url(path)).header(http::header::AUTHORIZATION, self.token());
        let request = request.header(http::header::CONTENT_TYPE, "application/json");
        self.answer(request.send(body.to_string()))?
            .context("this server does not know the request: is it older?")
    }

    /// Begins or changes something; `None` if it is not there.
    pub fn begin(&self, path: &str, parameters: &[(&str, String)]) -> Result<Option<Value>> {
        let mut request = self.agent.post(self.url(path));
        for (name, value) in parameters {
            request = request.query(name, value);
        }
        self.answer(request.header(http::header::AUTHORIZATION, self.token()).send_empty())
    }

    /// Brings something; `None` if what it is about is not there.
    pub fn post_json(&self, path: &str, body: &Value) -> Result<Option<Value>> {
        let request = self.agent.post(self.url(path)).header(http::header::AUTHORIZATION, self.token());
        self.answer(request.header(http::header::CONTENT_TYPE, "application/json").send(body.to_string()))
    }

    /// Fetches something, as CBOR.
    pub fn fetch(&self, path: &str, parameters: &[(&str, String)]) -> Result<Vec<u8>> {
        let request = with(self.agent.get(self.url(path)), parameters);
        let response = request.header(http::header::AUTHORIZATION, self.token()).call();
        let mut response = response.with_context(|| {
            format!("cannot ask {}: is jobglass-server running there?", self.login.server)
        })?;
        if response.status().is_success() {
            return Ok(response.body_mut().with_config().limit(u64::MAX).read_to_vec()?);
        }
        self.answer(Ok(response))?;
        bail!("this server does not know the request: is it older?")
    }

    /// Brings something, as CBOR.
    pub fn post(&self, path: &str, body: &[u8]) -> Result<Value, NotPosted> {
        self.send(self.agent.post(self.url(path)), body)
    }

    /// The same in place of what is there.
    pub fn put_cbor(&self, path: &str, body: &[u8]) -> Result<Value, NotPosted> {
        self.send(self.agent.put(self.url(path)), body)
    }

    fn send(&self, request: RequestBuilder<WithBody>, body: &[u8]) -> Result<Value, NotPosted> {
        let request = request.header(http::header::AUTHORIZATION, self.token());
        let response = request.header(http::header::CONTENT_TYPE, "application/cbor").send(body);
        let is_passing = response.as_ref().map_or(true, |response| {
            matches!(
                response.status(),
                http::StatusCode::SERVICE_UNAVAILABLE | http::StatusCode::TOO_MANY_REQUESTS
            )
        });
        let answer = self.answer(response).map_err(|why| NotPosted { why, is_passing })?;
        answer.ok_or_else(|| {
            let why = anyhow!("this server does not know the request: is it older?");
            NotPosted { why, is_passing: false }
        })
    }

    pub fn delete(&self, path: &str, parameters: &[(&str, String)]) -> Result<Option<Value>> {
        let request = with(self.agent.delete(self.url(path)), parameters);
        self.answer(request.header(http::header::AUTHORIZATION, self.token()).call())
    }

    /// As it was typed or kept.
    pub fn name(&self) -> &str {
        &self.login.server
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.login.server.trim_end_matches('/'))
    }

    fn token(&self) -> String {
        format!("Bearer {}", self.login.token)
    }

    fn answer(&self, response: Result<http::Response<Body>, ureq::Error>) -> Result<Option<Value>> {
        let mut response = response.with_context(|| {
            format!("cannot ask {}: is jobglass-server running there?", self.login.server)
        })?;
        let status = response.status();
        let text = response.body_mut().with_config().limit(u64::MAX).read_to_string()?;
        if status == http::StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !status.is_success() {
            let reason = serde_json::from_str(&text).map_or(text, |refusal: Refusal| refusal.error);
            bail!("{} answers {status}: {reason}", self.login.server);
        }
        Ok(Some(
            serde_json::from_str(&text)
                .with_context(|| format!("{} answers with something else than JSON", self.login.server))?,
        ))
    }
}

/// How long to wait before a question is asked again that came at a bad time.
fn busy_for(response: &http::Response<Body>) -> Option<Duration> {
    let after = response.headers().get(http::header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    (response.status() == http::StatusCode::TOO_MANY_REQUESTS).then(|| Duration::from_secs(after))
}

fn with(
    mut request: RequestBuilder<WithoutBody>,
    parameters: &[(&str, String)],
) -> RequestBuilder<WithoutBody> {
    for (name, value) in parameters {
        request = request.query(name, value);
    }
    request
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Ten numbers, at most four in an answer; every second request comes at a bad time.
    fn answer(mut stream: &TcpStream, is_busy: bool) {
        let (mut head, mut byte) = (String::new(), [0]);
        while !head.ends_with("\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
            head.push(char::from(byte[0]));
        }
        let parameter = |name: &str| {
            let (_, rest) = head.split_once(&format!("{name}="))?;
            rest.split(['&', ' ']).next()?.parse::<u64>().ok()
        };
        let (after, limit) = (parameter("after").unwrap_or(0), parameter("limit").filter(|limit| *limit > 0));
        let end = 10.min(after + limit.unwrap_or(100).min(4));
        let rows: Vec<u64> = (after..end).collect();
        let next = (end < 10).then(|| end.to_string());
        let body = serde_json::json!({"rows": rows, "more": next.is_some(), "next": next}).to_string();
        let (status, body) =
            if is_busy { ("429 No\r\nRetry-After: 0", String::new()) } else { ("200 OK", body) };
        let length = body.len();
        let _ = write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
    }

    #[test]
    fn a_list_in_parts_is_one_list() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let mut is_busy = true;
            for stream in listener.incoming().flatten() {
                answer(&stream, is_busy);
                is_busy = !is_busy;
            }
        });
        let server = Server::new(Login { server: url, token: "t".into(), ca_file: None }).unwrap();
        for (limit, count, more) in
            [(0, 10, false), (3, 3, true), (4, 4, true), (9, 9, true), (10, 10, false), (500, 10, false)]
        {
            let parameters: Vec<(&str, String)> =
                (limit > 0).then(|| ("limit", limit.to_string())).into_iter().collect();
            let all = server.list("/list", &parameters, limit).unwrap().unwrap();
            let expected: Vec<u64> = (0..count).collect();
            assert_eq!((&all["rows"], &all["more"]), (&serde_json::json!(expected), &more.into()), "{limit}");
        }
    }
}
