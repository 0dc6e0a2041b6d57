//! What an administrator does on the server's own machine while it runs: through a socket in the data directory, whose
//! permissions say who may. Where no server runs, the same is done on the files.
//!
//! One request per connection, a line of JSON; the answer is a line for each step, the last one with the outcome.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use store::{Forget, Forgotten, Limits, Store};

use crate::backup;
use crate::committer::Committer;
use crate::data::DataDir;

/// The socket's name in the data directory.
const SOCKET: &str = "control.sock";
/// A request is a line, and not a long one.
const REQUEST_MAX: u64 = 64 * 1024;
/// Whoever connects says at once what they want.
const PATIENCE: Duration = Duration::from_secs(10);

/// What can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    Backup(PathBuf),
    Forget(Forget),
}

/// A line of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// It goes on: bytes written so far.
    Progress(u64),
    Failed(String),
    Backup {
        bytes: u64,
    },
    Forgotten(Forgotten),
}

/// The side of the server.
pub struct Control {
    /// The store closes when the server stops, whether or not somebody may still ask here.
    store: Weak<Store>,
    data: PathBuf,
    committer: Committer,
    /// One backup at a time.
    backup: Mutex<()>,
}

impl Control {
    /// Listens on a thread of its own, until the process ends.
    pub fn start(store: &Arc<Store>, data: &Path, committer: Committer) -> io::Result<()> {
        let path = data.join(SOCKET);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let control = Arc::new(Control {
            store: Arc::downgrade(store),
            data: data.to_owned(),
            committer,
            backup: Mutex::default(),
        });
        thread::Builder::new().name("control".into()).spawn(move || control.listen(&listener))?;
        Ok(())
    }

    fn listen(self: Arc<Self>, listener: &UnixListener) {
        for stream in listener.incoming().flatten() {
            let control = self.clone();
            let served = thread::Builder::new().name("control".into()).spawn(move || {
                // Whoever asked may have gone.
                let _ = control.serve(&stream);
            });
            if let Err(error) = served {
                tracing::error!(%error, "cannot serve a request of the administrator");
            }
        }
    }

    fn serve(&self, stream: &UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut text = String::new();
        BufReader::new(io::Read::take(stream, REQUEST_MAX)).read_line(&mut text)?;
        let outcome = match serde_json::from_str(&text) {
            Ok(request) => {
                tracing::info!(?request, "asked for by the administrator");
                self.perform(request, &mut |bytes| say(stream, &Line::Progress(bytes)))
            }
            Err(error) => Err(anyhow::anyhow!("the request is not understood: {error}")),
        };
        let line = outcome.unwrap_or_else(|error| {
            tracing::error!(error = format!("{error:#}"), "the administrator's wish failed");
            Line::Failed(format!("{error:#}"))
        });
        say(stream, &line)
    }

    fn perform(
        &self,
        request: Request,
        progress: &mut dyn FnMut(u64) -> io::Result<()>,
    ) -> anyhow::Result<Line> {
        match request {
            Request::Backup(dir) => {
                let _one = self.backup.lock().unwrap_or_else(PoisonError::into_inner);
                let store = self.store.upgrade().context("the server is stopping")?;
                let bytes = backup::make(&store, &self.data, &dir, progress)?;
                Ok(Line::Backup { bytes })
            }
            Request::Forget(what) => {
                let forgotten = self.committer.perform(move |writer| writer.forget(&what));
                Ok(Line::Forgotten(forgotten??))
            }
        }
    }
}

fn say(mut stream: &UnixStream, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    stream.write_all(text.as_bytes())
}

/// The side of the command: asks the server that runs on `data`, or does it itself if there is none.
pub fn ask(data: &Path, request: Request, progress: &mut dyn FnMut(u64)) -> anyhow::Result<Line> {
    if !data.join(store::FILE).exists() {
        bail!("{} has no store: is it the data directory of a server?", data.display());
    }
    let line = match UnixStream::connect(data.join(SOCKET)) {
        Ok(stream) => ask_server(&stream, &request, progress)?,
        Err(_) => perform_here(data, request, progress)?,
    };
    match line {
        Line::Failed(reason) => bail!(reason),
        line => Ok(line),
    }
}

fn ask_server(
    mut stream: &UnixStream,
    request: &Request,
    progress: &mut dyn FnMut(u64),
) -> anyhow::Result<Line> {
    stream.write_all(format!("{}\n", serde_json::to_string(request)?).as_bytes())?;
    for line in BufReader::new(stream).lines() {
        match serde_json::from_str(&line.context("the server no longer answers")?)? {
            Line::Progress(bytes) => progress(bytes),
            line => return Ok(line),
        }
    }
    bail!("the server ended before it was done")
}

fn perform_here(data: &Path, request: Request, progress: &mut dyn FnMut(u64)) -> anyhow::Result<Line> {
    let dir = DataDir::open(data)?;
    let store = Store::open(&dir.path, &Limits::default())?;
    match request {
        Request::Backup(target) => {
            let mut progress = |bytes| {
                progress(bytes);
                Ok(())
            };
            let bytes = backup::make(&store, &dir.path, &target, &mut progress)?;
            Ok(Line::Backup { bytes })
        }
        Request::Forget(what) => Ok(Line::Forgotten(store.writer()?.forget(&what)?)),
    }
}
