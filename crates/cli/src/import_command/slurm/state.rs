//! How far an import is, in a file, so that the next one goes on there: TOML, replaced as a whole.
//!
//! ```toml
//! from = "2026-01-01T00:00:00Z"
//! done = "2026-03-01T00:00:00Z"   # all that waited or ran up to here is on the server
//! [import]                        # whose; another one does not go on from here
//! mode = "history"                # or "follow", without the next two
//! from = "2026-01-01"
//! to = "today"
//! server = "https://jobglass.example:8765"
//! clusters = "a,b"
//! ```
//!
//! Beside it, `FILE.lock` is held as long as the importer lives.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// Where root's are.
const DIR: &str = "/var/lib/jobglass";

/// Which import it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "lowercase", deny_unknown_fields)]
pub enum Import {
    /// As it was typed: `30d` means another time every day, and is the same import.
    History {
        from: String,
        to: Option<String>,
        server: String,
        clusters: Option<String>,
    },
    Follow {
        server: String,
        clusters: Option<String>,
    },
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub import: Import,
    pub from: Timestamp,
    pub done: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    from: String,
    done: String,
    import: Import,
}

/// The file, which is ours until this is dropped.
#[derive(Debug)]
pub struct StateFile {
    pub path: PathBuf,
    _lock: File,
}

impl StateFile {
    /// Takes it, and makes its directory.
    pub fn open(path: &Path) -> Result<StateFile> {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        if let Some(dir) = dir {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        let name = with_end(path, ".lock");
        let lock = File::create(&name).with_context(|| format!("cannot write {}", name.display()))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!(
                "another jobglass import works with {}: wait for its end, or name another --state",
                path.display()
            );
        }
        Ok(StateFile { path: path.to_owned(), _lock: lock })
    }

    /// How far this import is; an error if the file is of another one.
    pub fn read(&self, import: &Import) -> Result<Option<State>> {
        let shown = self.path.display();
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
        };
        let written: Written =
            toml::from_slice(&text).with_context(|| format!("{shown} is damaged: --restart begins anew"))?;
        let time = |text: &str| {
            text.parse::<Timestamp>().with_context(|| format!("{shown} is damaged: --restart begins anew"))
        };
        let state = State { from: time(&written.from)?, done: time(&written.done)?, import: written.import };
        ensure!(
            state.import == *import,
            "{shown} is of another import, {:?}: --restart begins anew, --state names another file",
            state.import
        );
        Ok(Some(state))
    }

    /// Replaces it; whoever reads it sees the old one or the new one.
    pub fn write(&self, state: &State) -> Result<()> {
        let written = Written {
            from: state.from.to_string(),
            done: state.done.to_string(),
            import: state.import.clone(),
        };
        let new = with_end(&self.path, ".new");
        let write = || -> Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(toml::to_string(&written)?.as_bytes())?;
            file.sync_all()?;
            Ok(fs::rename(&new, &self.path)?)
        };
        write().with_context(|| format!("cannot write {}", self.path.display()))
    }

    pub fn remove(&self) -> Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Where lines are kept that could not be read, unless another file is named.
    pub fn rejects(&self) -> PathBuf {
        self.path.with_extension("rejects")
    }
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Where a state is kept unless another file is named.
pub fn usual(name: &str) -> Result<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Ok(Path::new(DIR).join(name));
    }
    let variable = |name| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
    let state = state.context("neither XDG_STATE_HOME nor HOME is set: name a file with --state")?;
    Ok(state.join("jobglass").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(from: &str) -> Import {
        Import::History { from: from.into(), to: None, server: "http://a".into(), clusters: None }
    }

    fn state(import: Import) -> State {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        State { import, from: at("2026-01-01T00:00:00Z"), done: at("2026-02-01T00:00:00Z") }
    }

    #[test]
    fn it_goes_on_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/import.state");
        let file = StateFile::open(&path).unwrap();
        assert_eq!(file.read(&import("30d")).unwrap(), None);
        let follow = Import::Follow { server: "http://a".into(), clusters: Some("a,b".into()) };
        for import in [import("30d"), follow] {
            file.write(&state(import.clone())).unwrap();
            assert_eq!(file.read(&import).unwrap(), Some(state(import)));
        }
        let other = file.read(&import("30d")).unwrap_err().to_string();
        assert!(other.contains("of another import") && other.contains("--restart"), "{other}");
        for text in ["", "from = 1", "\u{0}"] {
            fs::write(&path, text).unwrap();
            assert!(file.read(&import("30d")).unwrap_err().to_string().contains("damaged"), "{text}");
        }
        file.remove().unwrap();
        file.remove().unwrap();
        assert_eq!(file.read(&import("30d")).unwrap(), None);
    }

    #[test]
    fn one_importer_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("import.state");
        let first = StateFile::open(&path).unwrap();
        assert!(StateFile::open(&path).unwrap_err().to_string().contains("another jobglass import"));
        drop(first);
        StateFile::open(&path).unwrap();
    }
}
