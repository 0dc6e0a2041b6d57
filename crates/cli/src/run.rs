//! `jobglass run`: starts a program with the guest.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::args::RunArgs;

/// The guest's file name.
pub const LIBRARY: &str = "libjobglass.so";

pub fn run(args: &RunArgs) -> Result<bool> {
    let library = find_library(args.library.as_deref())?;
    let (program, rest) = args.program.split_first().context("no program given")?;
    let mut command = Command::new(program);
    command.args(rest).env("LD_PRELOAD", preload(&library, env::var_os("LD_PRELOAD").as_deref()));
    command.env("ASAN_OPTIONS", asan_options(env::var_os("ASAN_OPTIONS").unwrap_or_default()));
    if let Some(socket) = &args.socket {
        command.env("JOBGLASS_SOCKET", absolute(socket)?);
    }
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run {}", program.to_string_lossy()))
}

/// The library: named, from the environment, beside the command, or where `make install` puts it.
pub fn find_library(named: Option<&Path>) -> Result<PathBuf> {
    let from_env = env::var_os("JOBGLASS_LIBRARY").map(PathBuf::from);
    if let Some(path) = named.map(Path::to_owned).or(from_env) {
        let path = path.canonicalize().with_context(|| format!("no guest library at {}", path.display()))?;
        return usable(path);
    }
    let command = env::current_exe().context("cannot find this command's own path")?;
    let dir = command.parent().unwrap_or(Path::new("/"));
    let places = [dir.join(LIBRARY), dir.join("../lib/jobglass").join(LIBRARY)];
    match places.iter().find(|place| place.exists()) {
        Some(place) => usable(place.canonicalize()?),
        None => bail!(
            "no {LIBRARY} in {} or {}; name it with --library or JOBGLASS_LIBRARY",
            places[0].display(),
            places[1].display()
        ),
    }
}

/// The loader splits the variable at spaces and colons, and has no way to quote them.
fn usable(path: PathBuf) -> Result<PathBuf> {
    if path.as_os_str().as_bytes().iter().any(|b| b" :\t\n".contains(b)) {
        bail!("the loader cannot preload {}: its path has a space or a colon", path.display());
    }
    Ok(path)
}

/// The guest first, then what the user preloads.
fn preload(library: &Path, before: Option<&OsStr>) -> OsString {
    let mut value = library.as_os_str().to_owned();
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        value.push(":");
        value.push(before);
    }
    value
}

/// Programs built with `-fsanitize=address` refuse to start where another library comes before ASan's runtime, unless they are
/// told not to look. Whoever has set the key keeps it.
fn asan_options(mut options: OsString) -> OsString {
    const KEY: &str = "verify_asan_link_order";
    if options.to_string_lossy().contains(KEY) {
        return options;
    }
    if !options.is_empty() {
        options.push(":");
    }
    options.push(KEY);
    options.push("=0");
    options
}

/// The program may change its directory; the guest must find the socket from anywhere.
fn absolute(socket: &OsStr) -> Result<OsString> {
    if socket.as_bytes().starts_with(b"@") {
        return Ok(socket.to_owned());
    }
    Ok(std::path::absolute(socket).context("cannot resolve the socket's path")?.into())
}
