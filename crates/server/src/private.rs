//! Files of which nobody else sees anything: records say what users run, and tokens are passwords.
//!
//! The database makes files of its own (its log, what it puts aside for lack of memory), with whatever mode the umask leaves. So the
//! server has a umask under which nothing is for others, and takes away what files that are there already allow.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail};
use rustix::fs::Mode;

/// Nothing that this process makes from now on is for others. A socket for them gets its mode when it is made.
pub fn set_umask() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// A directory and everything in it is for its owner only from now on, or there is an error. Links are left alone: they lead to files
/// that are not ours.
pub fn only_owner(dir: &Path) -> anyhow::Result<()> {
    let meta = fs::symlink_metadata(dir).with_context(|| format!("cannot look at {}", dir.display()))?;
    // A link to a directory elsewhere is what some sites have.
    let meta = if meta.is_symlink() { fs::metadata(dir)? } else { meta };
    if !meta.is_dir() {
        bail!("{} is not a directory", dir.display());
    }
    restrict(dir, &meta)?;
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        // The database may just have removed a file.
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if meta.is_dir() {
            only_owner(&path)?;
        } else if !meta.is_symlink() {
            restrict(&path, &meta)?;
        }
    }
    Ok(())
}

fn restrict(path: &Path, meta: &fs::Metadata) -> anyhow::Result<()> {
    let mode = meta.mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode & 0o700)).with_context(|| {
        format!(
            "{} can be read or changed by others (mode {mode:04o}), and that cannot be changed: make it the server's own, with mode 0{:o}",
            path.display(),
            mode & 0o700
        )
    })
}

/// A file for the owner only, empty if it was there.
pub fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn what_is_there_is_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let (data, outside) = (dir.path().join("data"), dir.path().join("outside"));
        fs::create_dir_all(data.join("a/b")).unwrap();
        fs::write(&outside, "").unwrap();
        std::os::unix::fs::symlink(&outside, data.join("link")).unwrap();
        for (name, mode) in [("a/b/file", 0o644), ("a/script", 0o755), ("own", 0o600)] {
            fs::write(data.join(name), "").unwrap();
            fs::set_permissions(data.join(name), Permissions::from_mode(mode)).unwrap();
        }
        for name in ["", "a", "a/b"] {
            fs::set_permissions(data.join(name), Permissions::from_mode(0o2755)).unwrap();
        }
        fs::set_permissions(&outside, Permissions::from_mode(0o644)).unwrap();
        only_owner(&data).unwrap();
        for (name, expected) in [
            ("", 0o700),
            ("a", 0o700),
            ("a/b", 0o700),
            ("a/b/file", 0o600),
            ("a/script", 0o700),
            ("own", 0o600),
        ] {
            assert_eq!(mode(&data.join(name)), expected, "{name}");
        }
        assert_eq!(mode(&outside), 0o644);
        assert!(only_owner(&outside).unwrap_err().to_string().contains("is not a directory"));
    }
}
