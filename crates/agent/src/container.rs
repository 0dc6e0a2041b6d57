//! Whether a process runs in a container, and in which image.

use std::fs;
use std::io::Read;
use std::path::Path;

use record::bytes::Bytes;
use record::entry::Container;
use sample::Proc;

use crate::files;
use crate::job::Variables;

/// Recognises a container by the variables its runtime sets.
pub fn from_variables<T: AsRef<[u8]>>(variables: Variables<T>) -> Option<Container> {
    let image = |names: &[&str]| names.iter().find_map(|name| variables.get(name)).map(Bytes::from);
    let known = |kind: &str, image| Some(Container { kind: kind.to_owned(), image });
    if variables.get("APPTAINER_CONTAINER").or(variables.get("APPTAINER_NAME")).is_some() {
        return known("apptainer", image(&["APPTAINER_CONTAINER", "APPTAINER_NAME"]));
    }
    if variables.get("SINGULARITY_CONTAINER").or(variables.get("SINGULARITY_NAME")).is_some() {
        return known("singularity", image(&["SINGULARITY_CONTAINER", "SINGULARITY_NAME"]));
    }
    if variables.get("CH_RUNNING").is_some() {
        return known("charliecloud", image(&["CH_IMAGE"]));
    }
    if variables.get("ENROOT_ROOTFS").or(variables.get("PYXIS_CONTAINER_IMAGE")).is_some() {
        return known("enroot", image(&["PYXIS_CONTAINER_IMAGE", "ENROOT_ROOTFS"]));
    }
    if variables.get("SHIFTER_RUNTIME").or(variables.get("SHIFTER_IMAGE")).is_some() {
        return known("shifter", image(&["SHIFTER_IMAGE"]));
    }
    match variables.get("container") {
        Some(b"podman") => known("podman", None),
        Some(b"docker") => known("docker", None),
        Some(b"enroot") => known("enroot", None),
        Some(other) => known(&String::from_utf8_lossy(other), None),
        None => None,
    }
}

/// Recognises a container by the files its runtime leaves, seen through the process's own root. What `host`
/// has as well says nothing: a virtual machine may have been made from a container's image.
pub fn from_root(proc: &Proc, pid: u32, host: &Path) -> Option<Container> {
    let has = |path: &str| {
        let of_host = host.join(path.trim_start_matches('/'));
        files::exists_inside(proc, pid, path.as_bytes()) && fs::symlink_metadata(of_host).is_err()
    };
    let read = |path: &str| read_inside(proc, pid, path);
    let known = |kind: &str, image| Some(Container { kind: kind.to_owned(), image });
    if has("/.singularity.d") {
        return known("apptainer", None);
    }
    if let Some(text) = read("run/.containerenv") {
        return known("podman", containerenv_image(&text));
    }
    if has("/.dockerenv") {
        return known("docker", None);
    }
    if has("/ch/environment") {
        return known("charliecloud", None);
    }
    None
}

/// Reads the beginning of a regular file below the process's root. Whoever made that root may have put a pipe
/// there, or a link that leads out of it.
fn read_inside(proc: &Proc, pid: u32, path: &str) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    files::open_inside(proc, pid, path.as_bytes())?.take(4096).read_to_end(&mut text).ok()?;
    Some(text)
}

/// `image="…"` in podman's file.
fn containerenv_image(text: &[u8]) -> Option<Bytes> {
    let line = text.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"image="))?;
    Some(Bytes::from(line.strip_prefix(b"\"")?.strip_suffix(b"\"")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_each_runtime() {
        for (variables, kind, image) in [
            (&["APPTAINER_CONTAINER=/i/a.sif", "SINGULARITY_NAME=a"][..], "apptainer", Some("/i/a.sif")),
            (&["SINGULARITY_CONTAINER=/i/s.sif"], "singularity", Some("/i/s.sif")),
            (&["CH_RUNNING=Weird Al Yankovic"], "charliecloud", None),
            (&["PYXIS_CONTAINER_IMAGE=nvcr/x"], "enroot", Some("nvcr/x")),
            (&["container=podman"], "podman", None),
            (&["container=oci"], "oci", None),
        ] {
            let found = from_variables(Variables(variables)).unwrap();
            assert_eq!(found.kind, kind);
            assert_eq!(found.image.map(|image| image.to_string()).as_deref(), image);
        }
        assert_eq!(from_variables(Variables(&["PATH=/bin", "container="])), None);
    }

    #[test]
    fn files_of_each_runtime() {
        let tree = tempfile::tempdir().unwrap();
        let host = tempfile::tempdir().unwrap();
        let proc = Proc::new(tree.path());
        let root = tree.path().join("7/root");
        fs::create_dir_all(root.join("run")).unwrap();
        assert_eq!(from_root(&proc, 7, host.path()), None);
        fs::write(root.join(".dockerenv"), "").unwrap();
        assert_eq!(from_root(&proc, 7, host.path()).unwrap().kind, "docker");
        fs::write(host.path().join(".dockerenv"), "").unwrap();
        assert_eq!(from_root(&proc, 7, host.path()), None, "the host has it, too");
        fs::write(root.join("run/.containerenv"), "engine=\"podman-4\"\nimage=\"quay.io/x:1\"\n").unwrap();
        let podman = from_root(&proc, 7, host.path()).unwrap();
        assert_eq!(
            (podman.kind.as_str(), podman.image.unwrap().to_string().as_str()),
            ("podman", "quay.io/x:1")
        );
    }
}
