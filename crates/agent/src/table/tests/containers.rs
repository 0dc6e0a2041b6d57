//! Containers that are known by the files in their root only, in mount namespaces whose numbers come again.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use testkit::wait_until;

use super::*;
use crate::clock::monotonic_ns as now;

impl World {
    /// A root directory.
    fn root(&self, name: &str) -> PathBuf {
        let root = self.proc.path().join(name);
        fs::create_dir_all(&root).unwrap();
        root
    }

    /// A process in a mount namespace, and its root there.
    fn enter(&self, pid: u32, number: u64, root: &Path) {
        let dir = self.proc.path().join(pid.to_string());
        fs::create_dir_all(dir.join("ns")).unwrap();
        for (to, link) in [(PathBuf::from(format!("mnt:[{number}]")), "ns/mnt"), (root.into(), "root")] {
            let _ = fs::remove_file(dir.join(link));
            symlink(to, dir.join(link)).unwrap();
        }
    }

    fn leave(&self, pid: u32) {
        fs::remove_dir_all(self.proc.path().join(pid.to_string())).unwrap();
    }

    fn begin(&mut self, pid: u32, parent: u32) {
        self.events(&[fork(now(), parent, pid), exec(now(), pid)]);
    }

    fn wait_for_look(&self, pid: u32) {
        let image = &self.table.live[&pid].image;
        let namespace = image.about.borrow().namespace.unwrap();
        wait_until("the root to be looked at", || {
            self.table.around.files.is_looked_at(namespace, image.start)
        });
    }

    /// Ends a process, and gives the containers of its images.
    fn containers(&mut self, pid: u32) -> Vec<Option<String>> {
        self.events(&[exit(now(), pid, pid, 0)]);
        let files = self.table.around.files.clone();
        wait_until("the images to be complete", || {
            self.table.waiting.iter().all(|draft| draft.is_resolved(&files))
        });
        let ended = self.ended();
        ended
            .iter()
            .map(|done| done.image.container.as_ref().map(|container| container.kind.clone()))
            .collect()
    }
}

fn docker() -> Option<String> {
    Some("docker".into())
}

#[test]
fn a_program_that_is_gone_at_once_is_in_its_container() {
    let mut world = World::new();
    let root = world.root("image");
    fs::write(root.join(".dockerenv"), "").unwrap();
    // Whoever looks at the process's own link comes too late for at least one of them.
    for pid in 10..60 {
        world.enter(pid, u64::from(pid), &root);
        world.begin(pid, 1);
        world.leave(pid);
        assert_eq!(world.containers(pid), [docker()], "process {pid}");
    }
}

#[test]
fn a_number_that_comes_again_is_another_namespace() {
    let mut world = World::new();
    let root = world.root("image");
    for pid in 10..14 {
        let is_container = pid % 2 == 0;
        let mark = root.join(".dockerenv");
        if is_container {
            fs::write(&mark, "").unwrap()
        } else {
            fs::remove_file(&mark).unwrap()
        }
        world.enter(pid, 77, &root);
        world.begin(pid, 1);
        world.wait_for_look(pid);
        world.leave(pid);
        assert_eq!(world.containers(pid), [docker().filter(|_| is_container)], "process {pid}");
    }
}

#[test]
fn a_container_is_seen_after_its_root_was_switched() {
    let mut world = World::new();
    let (before, image) = (world.root("before"), world.root("image"));
    fs::write(image.join(".dockerenv"), "").unwrap();
    world.enter(10, 77, &before);
    world.begin(10, 1);
    world.wait_for_look(10);
    world.enter(10, 77, &image);
    world.events(&[exec(now(), 10)]);
    world.wait_for_look(10);
    // Another one in the same namespace stays outside.
    world.enter(11, 77, &before);
    world.begin(11, 10);
    assert_eq!(world.containers(11), [None, None]);
    assert_eq!(world.containers(10), [docker()]);
}

#[test]
fn a_container_is_seen_whose_root_was_none_a_moment_before() {
    let mut world = World::new();
    let root = world.root("image");
    world.enter(10, 77, &root);
    world.begin(10, 1);
    world.wait_for_look(10);
    fs::write(root.join(".dockerenv"), "").unwrap();
    world.events(&[exec(now(), 10)]);
    assert_eq!(world.containers(10), [None, docker()]);
}

#[test]
fn a_child_that_was_never_seen_is_where_its_mother_was() {
    let mut world = World::new();
    let root = world.root("image");
    fs::write(root.join(".dockerenv"), "").unwrap();
    world.enter(10, 77, &root);
    world.begin(10, 1);
    world.wait_for_look(10);
    world.begin(11, 10);
    assert_eq!(world.containers(11), [docker()]);
    // The mounts of the first process are no container's, whatever lies there.
    world.enter(1, 70, &root);
    world.table.host_namespace = world.table.around.proc.mount_namespace(1);
    world.enter(12, 70, &root);
    world.begin(12, 1);
    assert_eq!(world.containers(12), [None]);
}
