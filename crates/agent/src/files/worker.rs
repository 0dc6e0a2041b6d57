//! A thread that looks at files. Whatever it asks of a file system may never be answered.

use std::fmt::Display;
use std::fs::File as OsFile;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use record::bytes::Bytes;
use record::entry::{File, Object, ObjectList};
use xxhash_rust::xxh3::Xxh3;

use super::namespace::{Looked, Namespace};
use super::open::{Inode, Place, Wanted};
use super::queue::{Slices, Work};
use super::{FRESH, Files, ListKey, Seen, list_id};
use crate::clock::monotonic_ns;
use crate::container;
use crate::shares::Held;

/// One turn of hashing. Headers and notes lie at a file's beginning: what lies behind the first slice is not worth reading
/// for them.
const SLICE: u64 = 1024 * 1024;
const READ_BYTES: usize = 128 * 1024;
/// Where headers and notes usually are.
const IDENTITY_BYTES: u64 = 64 * 1024;

/// What an image waits for.
pub enum Lookup {
    /// What kind of container the root of a process is, if it is one's. It is held open: the process may be gone by then.
    Enter { namespace: Namespace, pid: u32, root: (OwnedFd, Held) },
    /// The files of a list.
    Resolve { key: ListKey, objects: Vec<Seen>, pid: u32, is_inside: bool },
}

/// A file that is being hashed, slice by slice.
pub struct Hashing {
    id: u64,
    path: Bytes,
    places: Vec<Place>,
    size: u64,
    open: Option<Box<Open>>,
}

struct Open {
    file: OsFile,
    hasher: Xxh3,
    read: u64,
    image: Option<elf::image::Image>,
}

type Outcome = Result<(u128, Option<elf::image::Image>), String>;

impl Hashing {
    pub fn new(id: u64, path: Bytes, places: Vec<Place>, size: u64) -> Hashing {
        Hashing { id, path, places, size, open: None }
    }
}

impl Slices for Hashing {
    fn size(&self) -> u64 {
        self.size
    }

    fn is_begun(&self) -> bool {
        self.open.is_some()
    }
}

pub struct Worker {
    pub files: Files,
}

impl Worker {
    pub fn run(self) {
        crate::limits::lowest_priority();
        loop {
            let (user, work) = self.files.0.queue.next();
            // This one may hang from here on.
            self.files.add_thread();
            let (read, unfinished) = match work {
                Work::Lookup(lookup) => {
                    self.look_up(user, lookup);
                    (0, None)
                }
                Work::Hash(hashing) => self.hash(hashing),
            };
            self.files.0.queue.done(user, read, unfinished);
        }
    }

    fn look_up(&self, user: u32, lookup: Lookup) {
        match lookup {
            Lookup::Resolve { key, objects, pid, is_inside } => {
                self.resolve(user, key, &objects, pid, is_inside)
            }
            Lookup::Enter { namespace, pid, root } => self.enter(user, namespace, pid, root),
        }
    }

    /// Does what a file system may leave without an answer.
    fn asking<T>(&self, what: impl Display, ask: impl FnOnce() -> T) -> T {
        self.files.0.waits.during("files", what, ask)
    }

    fn enter(&self, user: u32, namespace: Namespace, pid: u32, (root, _held): (OwnedFd, Held)) {
        let before = self.files.lock().containers.get(&namespace).cloned().unwrap_or_default();
        if before.container.is_some() {
            return;
        }
        let began = monotonic_ns();
        let look = || container::from_root(&root, Path::new("/"));
        let container = self.asking(format_args!("the root of process {pid}"), look);
        let outside_at = if container.is_some() { before.outside_at } else { began };
        let image = container.as_ref().and_then(|container| container.image.as_ref());
        let bytes = size_of::<Looked>() + image.map_or(0, |image| image.len());
        let looked = Looked { container, outside_at };
        self.files.lock().containers.insert(user, namespace, looked, bytes);
    }

    fn resolve(&self, user: u32, key: ListKey, objects: &[Seen], pid: u32, is_inside: bool) {
        if self.files.resolved(key).is_some() {
            return;
        }
        let find = |seen: &Seen| seen.object(self.find(user, seen, pid, is_inside));
        let objects: Vec<Object> = objects.iter().map(find).collect();
        let bytes = objects.iter().map(object_bytes).sum();
        let list = Arc::new(ObjectList { id: list_id(&objects), objects });
        self.files.lock().lists.insert(user, key, (Instant::now(), list), bytes);
    }

    /// The file of an object that the kernel reported. What only the process claims is not looked for.
    fn find(&self, user: u32, seen: &Seen, pid: u32, is_inside: bool) -> Option<u64> {
        let inode = seen.inode?;
        if let Some(id) = self.found_before(inode) {
            return Some(id);
        }
        let mut places = places(&seen.path, pid, is_inside);
        if seen.deleted {
            let name = Bytes([&seen.path[..], b" (deleted)"].concat());
            places.extend(self::places(&name, pid, is_inside));
        }
        let open = || {
            let open = |place: &Place| {
                Some((place.clone(), place.open(&self.files.0.proc, Wanted::Mapped(inode)).ok()?))
            };
            places.iter().find_map(open)
        };
        let (place, (file, stat)) = self.asking(&seen.path, open)?;
        let id = self.files.note(user, &seen.path, vec![place], &stat);
        self.files.lock().inodes.insert(user, inode, (Instant::now(), id), 0);
        self.asking(&seen.path, || self.identify(id, file));
        Some(id)
    }

    fn found_before(&self, inode: Inode) -> Option<u64> {
        let mut known = self.files.lock();
        let (since, id) = *known.inodes.get(&inode)?;
        (since.elapsed() < FRESH && known.files.contains(&id)).then_some(id)
    }

    /// Reads a file's own identity at once, since images wait for it; its hash takes its time.
    fn identify(&self, id: u64, file: OsFile) {
        let is_known = |file: File| file.dynamic.is_some() || file.hash.is_some() || file.unhashed.is_some();
        if self.files.get(id).is_none_or(is_known) {
            return;
        }
        let mut head = Vec::new();
        let read = file.take(IDENTITY_BYTES).read_to_end(&mut head);
        let Some(image) = read.ok().and_then(|_| elf::image::read(&head[..])) else { return };
        if let Some(file) = self.files.lock().files.get_mut(&id) {
            describe(file, Some(image));
        }
    }

    /// Reads a slice; gives how much was read, and what is left to do.
    fn hash(&self, mut hashing: Hashing) -> (u64, Option<Hashing>) {
        let before = hashing.open.as_ref().map_or(0, |open| open.read);
        let path = hashing.path.clone();
        let outcome = self.asking(path, || self.read_slice(&mut hashing));
        let read = hashing.open.as_ref().map_or(0, |open| open.read) - before;
        match outcome {
            None => (read, Some(hashing)),
            Some(outcome) => {
                self.finish(hashing.id, outcome);
                (read, None)
            }
        }
    }

    fn read_slice(&self, hashing: &mut Hashing) -> Option<Outcome> {
        let max = self.files.0.limits.max_bytes;
        if hashing.size > max {
            return Some(Err(format!("larger than {max} bytes")));
        }
        if hashing.open.is_none() {
            match self.open_first(hashing) {
                Ok(file) => {
                    hashing.open = Some(Box::new(Open { file, hasher: Xxh3::new(), read: 0, image: None }))
                }
                Err(error) => return Some(Err(error.to_string())),
            }
        }
        let open = hashing.open.as_mut()?;
        let is_first = open.read == 0;
        let (mut head, mut buf, mut read) = (Vec::new(), vec![0; READ_BYTES], 0);
        let is_whole = loop {
            match open.file.read(&mut buf) {
                Ok(0) => break true,
                Ok(n) => {
                    let part = buf.get(..n).unwrap_or(&[]);
                    open.hasher.update(part);
                    if is_first {
                        head.extend_from_slice(part);
                    }
                    read += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Some(Err(error.to_string())),
            }
            if read >= SLICE {
                break false;
            }
        };
        open.read += read;
        if is_first {
            open.image = elf::image::read(&head[..]);
        }
        if open.read > hashing.size {
            return Some(Err("grew while it was read".into()));
        }
        is_whole.then(|| Ok((open.hasher.digest128(), open.image.take())))
    }

    /// Opens the first place where the very file is.
    fn open_first(&self, hashing: &Hashing) -> io::Result<OsFile> {
        let mut outcome = Err(io::Error::from(io::ErrorKind::NotFound));
        for place in &hashing.places {
            outcome = place.open(&self.files.0.proc, Wanted::Same(hashing.id)).map(|(file, _)| file);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn finish(&self, id: u64, outcome: Outcome) {
        let counters = &self.files.0.counters;
        if outcome.is_ok() { &counters.files_hashed } else { &counters.files_unhashed }.one();
        let file = {
            let mut known = self.files.lock();
            let Some(file) = known.files.get_mut(&id) else { return };
            match outcome {
                Ok((hash, image)) => {
                    file.hash = Some(Bytes(hash.to_be_bytes().to_vec()));
                    describe(file, image);
                }
                Err(reason) => file.unhashed = Some(reason),
            }
            file.clone()
        };
        (self.files.0.announce)(file);
    }
}

fn describe(file: &mut File, image: Option<elf::image::Image>) {
    file.dynamic = image.as_ref().map(|image| image.has_interpreter);
    let image = image.unwrap_or_default();
    file.build_id = image.build_id.map(Bytes);
    file.signature = image.signature.map(Bytes);
}

fn object_bytes(object: &Object) -> usize {
    let len = |part: &Option<Bytes>| part.as_ref().map_or(0, |part| part.len());
    size_of::<Object>() + object.path.len() + len(&object.build_id) + len(&object.signature)
}

/// Where a path of a process leads. A process with our mounts may still have another root directory. One with other mounts may be
/// gone, and have had the same file at the same path: the unit gives the agent mounts of its own, with the host's files.
fn places(path: &Bytes, pid: u32, is_inside: bool) -> Vec<Place> {
    let inside = Place::Inside(pid, path.clone());
    let host = Place::Host(path.clone());
    if is_inside { vec![inside, host] } else { vec![host, inside] }
}
