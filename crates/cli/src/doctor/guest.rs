//! The guest library: it is there, it loads without a word, and every user may read it.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::report::Check;
use super::true_program;
use crate::run::find_library;

/// Gives the library as well, if it can be used.
pub fn check(named: Option<&Path>) -> (Option<PathBuf>, Vec<Check>) {
    let name = "guest";
    let library = match find_library(named) {
        Ok(library) => library,
        Err(error) => {
            let advice =
                "build it with `make build`, install it with `make install`, or name it with --library";
            return (None, vec![Check::fail(name, format!("{error:#}"), advice), session()]);
        }
    };
    let loads = loads(&library);
    let usable = loads.is_ok();
    let loads = match loads {
        Ok(()) => Check::ok(name, format!("{} loads silently", library.display())),
        Err(said) => Check::fail(
            name,
            format!("{} into {} says: {said}", library.display(), true_program().display()),
            "every program with the guest would say so, too; build it on this machine, or for its architecture",
        ),
    };
    let checks = vec![loads, readable(&library), session()];
    (usable.then_some(library), checks)
}

/// Loads the library into a program that does nothing, switched off: only the loader is asked.
fn loads(library: &Path) -> Result<(), String> {
    let output = Command::new(true_program())
        .env("LD_PRELOAD", library)
        .env("JOBGLASS", "off")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !said.trim().is_empty() {
        return Err(said.trim().to_owned());
    }
    if output.status.success() { Ok(()) } else { Err(output.status.to_string()) }
}

/// A library that a user cannot read makes the loader complain in each of their programs; one that others can
/// write is in everybody's programs.
fn readable(library: &Path) -> Check {
    const NAME: &str = "guest-access";
    let mode = match fs::metadata(library) {
        Ok(meta) => meta.permissions().mode(),
        Err(error) => return Check::skip(NAME, format!("{}: {error}", library.display())),
    };
    if mode & 0o002 != 0 {
        let finding = format!("anyone may write {}, which runs in everybody's programs", library.display());
        return Check::fail(NAME, finding, format!("chmod 755 {}", library.display()));
    }
    if mode & 0o004 == 0 {
        let finding = format!("only some users may read {}", library.display());
        let advice = "the loader complains in the others' programs; chmod 755 it, or install it for all";
        return Check::warn(NAME, finding, advice);
    }
    let is_closed = |dir: &&Path| fs::metadata(dir).is_ok_and(|meta| meta.mode() & 0o001 == 0);
    match library.ancestors().skip(1).find(is_closed) {
        Some(dir) => Check::warn(
            NAME,
            format!("only some users may enter {}", dir.display()),
            "fine for your own programs; for all users' install the library where everyone can read it",
        ),
        None => Check::ok(NAME, "every user may read it, and only its owner may write it"),
    }
}

/// What the programs that are started from here will do.
fn session() -> Check {
    const NAME: &str = "session";
    let preload = env::var("LD_PRELOAD").unwrap_or_default();
    let ours = preload.split([':', ' ']).find(|path| path.contains("libjobglass"));
    let is_off = env::var("JOBGLASS").is_ok_and(|value| ["off", "0", "no", "false"].contains(&&*value));
    let socket = env::var("JOBGLASS_SOCKET").ok().filter(|name| !name.is_empty());
    let to = socket.map_or(String::new(), |name| format!(", and speak to {name} (JOBGLASS_SOCKET)"));
    match ours {
        Some(path) if path.starts_with('/') && !Path::new(path).exists() => Check::fail(
            NAME,
            format!("LD_PRELOAD names {path}, which does not exist: every program complains"),
            "unset LD_PRELOAD, or load the module again",
        ),
        Some(_) if is_off => Check::warn(
            NAME,
            "LD_PRELOAD holds the guest, but JOBGLASS=off silences it",
            "unset JOBGLASS to have your programs' details recorded",
        ),
        Some(_) => Check::ok(NAME, format!("programs started here have the guest{to}")),
        None => Check::ok(
            NAME,
            "programs started here have no guest; `module load jobglass` or `jobglass run -- PROG` gives it",
        ),
    }
}
