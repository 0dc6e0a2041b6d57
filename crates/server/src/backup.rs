//! A backup of a data directory, and the way back.
//!
//! A backup is a directory with a database, the tokens and the site's file. It is made beside the store and gets its name when it is
//! complete, so a directory with that name is never half a backup.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use store::{Limits, Store};

use crate::{private, serve, settings, token_file};

/// Where a backup is made, in the data directory: the database reads and writes nowhere else.
const UNFINISHED: &str = "backup.unfinished";
/// How often it is said how far it is.
const REPORT: Duration = Duration::from_secs(1);
/// What belongs to a data directory besides the database.
const BESIDES: [&str; 3] = [token_file::FILE, settings::FILE, serve::SITE];

/// Makes a backup in `target`, which must not exist; gives its size.
pub fn make(
    store: &Store,
    data: &Path,
    target: &Path,
    progress: &mut dyn FnMut(u64) -> io::Result<()>,
) -> anyhow::Result<u64> {
    if target.exists() {
        bail!("{} exists: a backup gets a directory of its own", target.display());
    }
    let unfinished = data.join(UNFINISHED);
    remove(&unfinished)?;
    fs::DirBuilder::new().mode(0o700).create(&unfinished).context("cannot make room for the backup")?;
    copy_store(store, &unfinished, progress).context("cannot copy the store")?;
    for name in BESIDES.into_iter().filter(|name| data.join(name).exists()) {
        fs::copy(data.join(name), unfinished.join(name)).with_context(|| format!("cannot copy {name}"))?;
    }
    private::only_owner(&unfinished)?;
    sync(&unfinished)?;
    let bytes = size(&unfinished)?;
    put(&unfinished, target).with_context(|| format!("cannot put the backup at {}", target.display()))?;
    Ok(bytes)
}

fn copy_store(
    store: &Store,
    dir: &Path,
    progress: &mut dyn FnMut(u64) -> io::Result<()>,
) -> anyhow::Result<()> {
    thread::scope(|scope| {
        let (done, outcome) = mpsc::channel();
        scope.spawn(move || done.send(store.copy_into(dir)));
        loop {
            match outcome.recv_timeout(REPORT) {
                Ok(copied) => return Ok(copied?),
                // Whoever waits for it may be gone; the backup is made all the same.
                Err(RecvTimeoutError::Timeout) => drop(progress(size(dir).unwrap_or(0))),
                Err(RecvTimeoutError::Disconnected) => bail!("the copy was given up"),
            }
        }
    })
}

/// To another file system it is copied, again under a name that says it is not complete.
fn put(from: &Path, to: &Path) -> io::Result<()> {
    let renamed = fs::rename(from, to);
    match renamed {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let mut beside = to.as_os_str().to_owned();
            beside.push(".unfinished");
            let beside = PathBuf::from(beside);
            remove(&beside)?;
            copy(from, &beside)?;
            fs::rename(&beside, to)?;
            remove(from)
        }
        renamed => renamed,
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    sync(to)
}

fn sync(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        File::open(entry?.path())?.sync_all()?;
    }
    File::open(dir)?.sync_all()
}

fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn size(dir: &Path) -> io::Result<u64> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}

/// Makes `data` from a backup. A directory that has a store keeps it.
pub fn restore(backup: &Path, data: &Path) -> anyhow::Result<()> {
    if !backup.join(store::FILE).exists() {
        bail!("{} has no {}: it is not a backup", backup.display(), store::FILE);
    }
    if data.exists() && fs::read_dir(data)?.next().is_some() {
        bail!("{} is not empty: a backup is restored into a new directory", data.display());
    }
    if data.exists() {
        fs::remove_dir(data)?;
    }
    let mut beside = data.as_os_str().to_owned();
    beside.push(".unfinished");
    let beside = PathBuf::from(beside);
    remove(&beside)?;
    copy(backup, &beside).with_context(|| format!("cannot copy {}", backup.display()))?;
    private::only_owner(&beside)?;
    // A backup that cannot be opened is found out now.
    Store::open(&beside, &Limits::default())
        .and_then(|store| store.writer().map(drop))
        .with_context(|| format!("{} cannot be used", backup.display()))?;
    fs::rename(&beside, data).with_context(|| format!("cannot make {}", data.display()))
}
