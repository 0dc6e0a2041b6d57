//! Paths in messages: the agent looks only at files that the kernel says a process mapped or executed, and at small ones first.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;

use testkit::{install, must};

use crate::common::{is_root, program};
use crate::stage::{Scene, Seen, Table, comes, lines, median, unless};
use crate::users::{ATTACKER, VICTIM};
use crate::victim::preloaded;

/// Counts how often somebody opens or reads a file.
struct Watch(rustix::fd::OwnedFd);

impl Watch {
    fn on(paths: &[&Path]) -> Watch {
        let fd = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        for path in paths {
            add_watch(&fd, *path, WatchFlags::OPEN | WatchFlags::ACCESS).unwrap();
        }
        Watch(fd)
    }

    fn touched(&self) -> Vec<String> {
        let mut space = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.0, &mut space);
        let mut touched = Vec::new();
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::OPEN) => {
                    touched.push(format!("open {:?}", event.wd()))
                }
                Ok(event) => touched.push(format!("read {:?}", event.wd())),
                Err(Errno::AGAIN) => return touched,
                Err(error) => panic!("inotify: {error}"),
            }
        }
    }
}

/// Files that the attacker may not read, and names for them that the attacker made.
struct Secrets {
    secret: PathBuf,
    fifo: PathBuf,
    link: PathBuf,
    swapped: PathBuf,
}

impl Secrets {
    fn create(scene: &Scene) -> Secrets {
        let (dir, home) = (scene.node().dir.path().join("secrets"), scene.dir_of(ATTACKER));
        fs::create_dir(&dir).unwrap();
        let secrets = Secrets {
            secret: dir.join("secret"),
            fifo: dir.join("fifo"),
            link: home.join("link.so"),
            swapped: home.join("swapped.so"),
        };
        fs::write(&secrets.secret, "PIN 1234\n").unwrap();
        fs::set_permissions(&secrets.secret, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(Command::new("mkfifo").arg(&secrets.fifo).status().unwrap().success());
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        symlink(&secrets.secret, &secrets.link).unwrap();
        install(&program("nothing", "cc", "nothing.c", &[]), &secrets.swapped, "755");
        chown(&secrets.swapped, Some(ATTACKER), Some(ATTACKER)).unwrap();
        secrets
    }
}

#[test]
fn claimed_paths_are_never_opened() {
    if !is_root("claimed_paths_are_never_opened") {
        return;
    }
    let mut table = Table::new("Claimed paths", "");
    let attack = |scene: &mut Scene| {
        let secrets = Secrets::create(scene);
        let shadow = Path::new("/etc/shadow");
        // Others on this machine may open the shadow file for good reasons.
        let watch = Watch::on(&[&secrets.secret, &secrets.fifo]);
        let claimed = [&secrets.secret, &secrets.fifo, &secrets.link, &shadow.to_owned()];
        let mut command = scene.command("attack_forge", ATTACKER);
        command.args([scene.socket(), "claim", "by-claim"]).args(claimed);
        assert!(command.status().unwrap().success());
        let mut command = scene.command("attack_forge", ATTACKER);
        command.args([scene.socket(), "swap", "swapped"]).arg(&secrets.swapped).arg(&secrets.secret);
        assert!(command.status().unwrap().success());
        let is_there = || {
            let lines = lines(scene.node(), "image");
            ["\"by-claim\"", "\"swapped\""].iter().all(|mark| lines.iter().any(|line| line.contains(mark)))
        };
        let is_recorded = comes(10, is_there);
        scene.check(is_recorded, "the programs that claimed are not recorded");
        let touched = watch.touched();
        scene.check(
            touched.is_empty(),
            format!("the agent touched files that were only claimed: {touched:?}"),
        );
        let files = lines(scene.node(), "file");
        let known = files.iter().filter(|line| line.contains("/secrets/") || line.contains("/etc/shadow"));
        let known: Vec<&String> = known.collect();
        scene.check(known.is_empty(), format!("files that were only claimed are in the spool: {known:?}"));
    };
    table.play("a program claims files that it cannot read", attack, |seen: &Seen| {
        let rows = seen.rows("\"by-claim\"");
        let objects = rows.first().and_then(|row| row["objects"].as_array()).cloned().unwrap_or_default();
        let is_claimed = |name: &str| {
            objects.iter().any(|object| object["path"].as_str().is_some_and(|path| path.ends_with(name)))
        };
        // The other two are claimed to be where the program itself is mapped, and the kernel knows what is there.
        let replaced = ["/secrets/fifo", "/etc/shadow"].into_iter().filter(|name| is_claimed(name));
        let replaced: Vec<&str> = replaced.collect();
        let missing: Vec<&str> =
            ["/secrets/secret", "/link.so"].into_iter().filter(|name| !is_claimed(name)).collect();
        let is_hashed = objects.iter().any(|object| {
            object["path"].as_str().is_some_and(|path| path.contains("/secrets/"))
                && !object["hash"].is_null()
        });
        let lost =
            unless(missing.is_empty(), format!("{missing:?} are not recorded as claimed: {objects:?}"));
        let kept = unless(
            replaced.is_empty(),
            format!("{replaced:?} are recorded where something else is mapped: {objects:?}"),
        );
        [lost, kept, unless(!is_hashed, "a claimed path has a hash")].concat()
    });
    table.finish();
}

/// An executable that takes long to hash and no space on the disk.
fn large_program(scene: &Scene, number: u32) -> PathBuf {
    let path = scene.dir_of(ATTACKER).join(format!("large-{number}"));
    install(&program("nothing", "cc", "nothing.c", &[]), &path, "755");
    must(Command::new("truncate").args(["-s", "1G"]).arg(&path));
    path
}

/// How long it takes until the hash of a new program of the victim's is known: the median of a few.
fn hash_time(scene: &Scene, name: &str) -> Option<Duration> {
    let time_one = |number| {
        let name = format!("{name}-{number}");
        let path = scene.node().dir.path().join(&name);
        install(&program("nothing", "cc", "nothing.c", &[]), &path, "755");
        let began = Instant::now();
        assert!(preloaded(&path, scene.socket(), VICTIM).arg(&name).status().unwrap().success());
        let needle = format!("/{name}\"");
        let is_hashed = || {
            let files = lines(scene.node(), "file");
            files.iter().any(|line| line.contains(&needle) && !line.contains("\"hash\":null"))
        };
        comes(15, is_hashed).then(|| began.elapsed())
    };
    median((0..3).map(time_one).collect())
}

#[test]
fn large_files_do_not_hold_up_others_hashes() {
    if !is_root("large_files_do_not_hold_up_others_hashes") {
        return;
    }
    let mut table = Table::new("Hashes", "");
    let attack = |scene: &mut Scene| {
        // An agent that has just begun hashes what runs on the machine.
        scene.let_victim_run(20);
        let quiet = hash_time(scene, "hashed-quiet");
        for number in 0..12 {
            let mut command = Command::new(large_program(scene, number));
            assert!(command.env_clear().uid(ATTACKER).gid(ATTACKER).status().unwrap().success());
        }
        let attacked = hash_time(scene, "hashed-attacked");
        scene.check_slower("a hash", quiet, attacked);
    };
    table.play("twelve sparse executables of 1 GiB", attack, |_: &Seen| Vec::new());
    table.finish();
}
