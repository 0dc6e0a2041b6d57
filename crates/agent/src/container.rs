//! Whether a process runs in a container, and in which image.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use record::bytes::Bytes;
use record::entry::Container;

use crate::files::Found;
use crate::job::Variables;

/// Recognizes a container by the variables its runtime sets.
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

/// Recognizes a container by the files its runtime leaves in the root directory. A file that `host` has as well says nothing: a
/// virtual machine may have been made from a container's image.
pub fn from_root(root: &OwnedFd, host: &Path) -> Option<Container> {
    let find = |path: &str| {
        let found = Found::below(root, path.as_bytes())?;
        (!found.is_ours(&host.join(path))).then_some(found)
    };
    let known = |kind: &str, image| Some(Container { kind: kind.to_owned(), image });
    if find(".singularity.d").is_some() {
        return known("apptainer", None);
    }
    if let Some(text) = find("run/.containerenv").and_then(|found| beginning(&found)) {
        return known("podman", containerenv_image(&text));
    }
    if find(".dockerenv").is_some() {
        return known("docker", None);
    }
    if find("ch/environment").is_some() {
        return known("charliecloud", None);
    }
    None
}

/// The beginning of a regular file; whoever made the root may have put a pipe there.
fn beginning(found: &Found) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    found.open()?.take(4096).read_to_end(&mut text).ok()?;
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
    use std::fs;

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
    fn recognizes_the_files_of_each_runtime() {
        let (root, host) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, host) = (root.path(), host.path());
        let look = || from_root(&fs::File::open(root).unwrap().into(), host);
        let kind = || look().map(|container| container.kind);
        fs::create_dir_all(root.join("run")).unwrap();
        assert_eq!(kind(), None);
        fs::write(root.join(".dockerenv"), "").unwrap();
        assert_eq!(kind().as_deref(), Some("docker"));
        fs::write(host.join(".dockerenv"), "").unwrap();
        assert_eq!(kind().as_deref(), Some("docker"), "the host has one of its own");
        fs::remove_file(host.join(".dockerenv")).unwrap();
        fs::hard_link(root.join(".dockerenv"), host.join(".dockerenv")).unwrap();
        assert_eq!(kind(), None, "it is the host's");
        fs::write(root.join("run/.containerenv"), "engine=\"podman-4\"\nimage=\"quay.io/x:1\"\n").unwrap();
        let podman = look().unwrap();
        assert_eq!(
            (podman.kind.as_str(), podman.image.unwrap().to_string().as_str()),
            ("podman", "quay.io/x:1")
        );
        fs::create_dir(root.join(".singularity.d")).unwrap();
        assert_eq!(kind().as_deref(), Some("apptainer"));
    }
}
