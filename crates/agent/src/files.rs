//! What each distinct file is: its metadata, ELF identity and content hash, each found once.
//!
//! All of it happens on threads of its own at the lowest priority, because a path may lie on a file system
//! that does not answer: the agent's main thread must not wait for it. Reading is bounded in rate and size.

use std::collections::HashMap;
use std::fmt::Display;
use std::fs::{self, File as OsFile};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use record::bytes::Bytes;
use record::entry::{Container, File, Object, ObjectList};
use record::guest;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use sample::Proc;
use sample::process::FileStat;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::container;
use crate::counters::Counters;
use crate::waits::Waits;

/// How many files and lists may wait.
const QUEUE: usize = 4096;
/// How many files and lists are remembered; then everything is forgotten and found again.
const FILES_MAX: usize = 20_000;
const LISTS_MAX: usize = 2_000;
/// After this long a list's paths are looked at again: another file may stand there.
const LIST_FRESH: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 256 * 1024;
/// Where headers and notes usually are.
const IDENTITY_BYTES: u64 = 64 * 1024;
/// Headers and notes lie at a file's beginning; what lies further is not worth reading for them.
const ELF_BYTES: usize = 1024 * 1024;

/// What may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashLimits {
    pub max_bytes: u64,
    pub bytes_per_second: u64,
}

/// The number of a file: device, inode, size and time of change together name one content.
pub fn file_id(stat: &FileStat) -> u64 {
    let mut bytes = [0; 32];
    for (place, word) in bytes.chunks_exact_mut(8).zip([stat.dev, stat.inode, stat.size, stat.mtime_ns]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    xxh3_64(&bytes)
}

/// The number of a list: the hash of its content.
fn list_id(objects: &[Object]) -> u64 {
    let mut hasher = Xxh3::new();
    for object in objects {
        for part in [Some(&object.path), object.build_id.as_ref(), object.signature.as_ref()] {
            hasher.update(&part.map_or(u64::MAX, |part| part.len() as u64).to_le_bytes());
            hasher.update(part.map_or(&[][..], |part| part));
        }
        hasher.update(&object.file.unwrap_or(0).to_le_bytes());
    }
    hasher.digest()
}

/// A list that is not resolved: no file is known of any object.
pub fn unresolved(objects: &[guest::Object]) -> Arc<ObjectList> {
    let objects: Vec<Object> = objects.iter().map(|object| plain(object, None)).collect();
    Arc::new(ObjectList { id: list_id(&objects), objects })
}

fn plain(object: &guest::Object, file: Option<u64>) -> Object {
    Object {
        path: object.path.clone(),
        build_id: object.build_id.clone(),
        signature: object.signature.clone(),
        file,
    }
}

/// Names a list before it is resolved: its content, and the mount namespace in which its paths mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListKey(u64);

impl ListKey {
    pub fn new(objects: &[guest::Object], namespace: Option<&[u8]>) -> ListKey {
        let plain: Vec<Object> = objects.iter().map(|object| plain(object, None)).collect();
        ListKey(list_id(&plain) ^ namespace.map_or(0, xxh3_64))
    }
}

/// Where a file may be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A path of ours.
    Host(PathBuf),
    /// A path below a process's root.
    Inside(u32, Bytes),
}

impl Place {
    /// Opens the file without waiting for a pipe's other end. Below another root, links lead only there.
    fn open(&self, proc: &Proc) -> io::Result<OsFile> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = match self {
            Place::Host(path) => rustix::fs::open(path, flags, Mode::empty())?,
            Place::Inside(pid, path) => {
                let root =
                    rustix::fs::open(proc.path(*pid, "root"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
                let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
                rustix::fs::openat2(&root, &path[..], flags, Mode::empty(), resolve)?
            }
        };
        Ok(OsFile::from(fd))
    }

    /// Opens a regular file below a process's root.
    pub fn open_inside(proc: &Proc, pid: u32, path: &[u8]) -> Option<OsFile> {
        let file = Place::Inside(pid, Bytes::from(path)).open(proc).ok()?;
        file.metadata().ok()?.is_file().then_some(file)
    }
}

enum Request {
    /// What kind of container a mount namespace is, seen through a process in it.
    Enter {
        namespace: Vec<u8>,
        pid: u32,
    },
    Hash {
        places: Vec<Place>,
        path: Bytes,
        stat: FileStat,
    },
    Resolve {
        key: ListKey,
        objects: Vec<guest::Object>,
        inside: Option<u32>,
    },
    /// A descriptor that a program has sent and that is not what we asked for. Closing it may take for ever.
    Close(OwnedFd),
}

#[derive(Default)]
struct Known {
    files: HashMap<u64, File>,
    lists: HashMap<ListKey, (Instant, Arc<ObjectList>)>,
    /// Mount namespaces other than ours, once they were looked at.
    containers: HashMap<Vec<u8>, Option<Container>>,
    /// Paths by device and inode: the kernel names executables that way when they are gone already.
    paths: HashMap<(u64, u64), u64>,
}

/// The table of known files, shared between the agent's threads.
#[derive(Clone)]
pub struct Files {
    known: Arc<Mutex<Known>>,
    requests: SyncSender<Request>,
    /// What lies in other mount namespaces has a thread of its own: a user may mount a file system there that
    /// never answers.
    inside: SyncSender<Request>,
    counters: Arc<Counters>,
    waits: Waits,
}

impl Files {
    /// Starts the thread that looks at files; `announce` hears of each whose hash has become known.
    pub fn start(
        proc: Proc,
        limits: HashLimits,
        counters: Arc<Counters>,
        announce: impl Fn(File) + Send + Sync + 'static,
    ) -> io::Result<Files> {
        let (requests, queue) = sync_channel(QUEUE);
        let (inside, inside_queue) = sync_channel(QUEUE);
        let waits = Waits::default();
        let files = Files { known: Arc::default(), requests, inside, counters, waits };
        let announce = Arc::new(announce);
        for (name, queue) in [("files", queue), ("containers", inside_queue)] {
            let (files, proc, announce) = (files.clone(), proc.clone(), announce.clone());
            let worker = Worker { name, files, proc, limits, announce };
            thread::Builder::new()
                .name(name.into())
                .stack_size(512 * 1024)
                .spawn(move || worker.run(&queue))?;
        }
        Ok(files)
    }

    /// What the threads wait for; others may put theirs with it.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// What is known of a file.
    pub fn get(&self, id: u64) -> Option<File> {
        self.lock().files.get(&id).cloned()
    }

    /// The path of an executable that the kernel names by device and inode, if it was seen before.
    pub fn by_inode(&self, dev: u64, inode: u64) -> Option<File> {
        let known = self.lock();
        known.files.get(known.paths.get(&(dev, inode))?).cloned()
    }

    /// Makes a file known and has it hashed; gives its number. Of `places`, only one that is this very file is
    /// read.
    pub fn note(&self, path: &[u8], places: Vec<Place>, stat: &FileStat) -> u64 {
        let id = file_id(stat);
        let path = Bytes::from(path);
        if self.insert(id, &path, stat) {
            self.send(Request::Hash { places, path, stat: *stat });
        }
        id
    }

    /// The list with its files, if they are known already; otherwise they will be.
    pub fn resolve(
        &self,
        key: ListKey,
        objects: &[guest::Object],
        inside: Option<u32>,
    ) -> Option<Arc<ObjectList>> {
        if let Some(list) = self.resolved(key) {
            return Some(list);
        }
        self.send(Request::Resolve { key, objects: objects.to_vec(), inside });
        None
    }

    /// The list with its files, if they are known.
    pub fn resolved(&self, key: ListKey) -> Option<Arc<ObjectList>> {
        let known = self.lock();
        known.lists.get(&key).filter(|(since, _)| since.elapsed() < LIST_FRESH).map(|(_, list)| list.clone())
    }

    /// Has a mount namespace looked at, through a process in it.
    pub fn enter(&self, namespace: &[u8], pid: u32) {
        if !self.lock().containers.contains_key(namespace) {
            self.send(Request::Enter { namespace: namespace.to_vec(), pid });
        }
    }

    /// What kind of container a mount namespace is, if it is one and was looked at.
    pub fn container(&self, namespace: &[u8]) -> Option<Container> {
        self.lock().containers.get(namespace)?.clone()
    }

    /// Closes a descriptor where it may hang.
    pub fn close(&self, fd: OwnedFd) {
        self.send(Request::Close(fd));
    }

    /// Says whether the file is new.
    fn insert(&self, id: u64, path: &Bytes, stat: &FileStat) -> bool {
        let mut known = self.lock();
        if let Some(file) = known.files.get_mut(&id) {
            file.uid = file.uid.or(stat.uid);
            file.mode = file.mode.or(stat.mode);
            return false;
        }
        if known.files.len() >= FILES_MAX {
            *known = Known::default();
        }
        known.paths.insert((stat.dev, stat.inode), id);
        let file = File {
            id,
            path: path.clone(),
            dev: stat.dev,
            inode: stat.inode,
            size: stat.size,
            mtime: stat.mtime_ns,
            uid: stat.uid,
            mode: stat.mode,
            hash: None,
            unhashed: None,
            build_id: None,
            signature: None,
            dynamic: None,
        };
        known.files.insert(id, file);
        true
    }

    fn send(&self, request: Request) {
        let is_inside = match &request {
            Request::Enter { .. } | Request::Close(_) => true,
            Request::Resolve { inside, .. } => inside.is_some(),
            Request::Hash { places, .. } => places.iter().any(|place| matches!(place, Place::Inside(..))),
        };
        let queue = if is_inside { &self.inside } else { &self.requests };
        if let Err(error) = queue.try_send(request) {
            self.counters.files_dropped.one();
            if let TrySendError::Full(Request::Close(fd)) | TrySendError::Disconnected(Request::Close(fd)) =
                error
            {
                // Better a lost descriptor than a thread that hangs.
                std::mem::forget(fd);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Worker {
    name: &'static str,
    files: Files,
    proc: Proc,
    limits: HashLimits,
    announce: Arc<dyn Fn(File) + Send + Sync>,
}

impl Worker {
    fn run(self, queue: &Receiver<Request>) {
        crate::limits::lowest_priority();
        // Lists first: images wait for them, while nobody waits for a hash.
        let mut hashes = Vec::new();
        loop {
            let request = if hashes.is_empty() {
                queue.recv_timeout(Duration::from_secs(3600))
            } else {
                queue.try_recv().map_err(|_| RecvTimeoutError::Timeout)
            };
            match request {
                Ok(Request::Resolve { key, objects, inside }) => self.resolve(key, &objects, inside),
                Ok(Request::Enter { namespace, pid }) => self.enter(namespace, pid),
                Ok(Request::Close(fd)) => self.asking("the end of what a program sent", || drop(fd)),
                Ok(hash @ Request::Hash { .. }) => hashes.push(hash),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(Request::Hash { places, path, stat }) = hashes.pop() {
                        self.hash(&places, path, &stat);
                    }
                }
            }
        }
    }

    /// Does what a file system may leave without an answer.
    fn asking<T>(&self, what: impl Display, ask: impl FnOnce() -> T) -> T {
        self.files.waits.during(self.name, what, ask)
    }

    fn enter(&self, namespace: Vec<u8>, pid: u32) {
        let look = || container::from_root(&self.proc, pid, Path::new("/"));
        let container = self.asking(format_args!("the root of process {pid}"), look);
        let mut known = self.files.lock();
        if known.containers.len() >= LISTS_MAX {
            known.containers.clear();
        }
        known.containers.insert(namespace, container);
    }

    fn resolve(&self, key: ListKey, objects: &[guest::Object], inside: Option<u32>) {
        if self.files.resolved(key).is_some() {
            return;
        }
        let objects: Vec<Object> =
            objects.iter().map(|object| plain(object, self.find(&object.path, inside))).collect();
        let list = Arc::new(ObjectList { id: list_id(&objects), objects });
        let mut known = self.files.lock();
        if known.lists.len() >= LISTS_MAX {
            known.lists.clear();
        }
        known.lists.insert(key, (Instant::now(), list));
    }

    fn find(&self, path: &Bytes, inside: Option<u32>) -> Option<u64> {
        if !path.starts_with(b"/") {
            return None;
        }
        let place = match inside {
            Some(pid) => Place::Inside(pid, path.clone()),
            None => Place::Host(PathBuf::from(std::ffi::OsStr::from_bytes(path))),
        };
        let open = || {
            let file = place.open(&self.proc).ok()?;
            let meta = file.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((file, meta))
        };
        let (file, meta) = self.asking(path, open)?;
        let id = self.files.note(path, vec![place], &FileStat::from(&meta));
        self.asking(path, || self.identify(id, file));
        Some(id)
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
            file.dynamic = Some(image.has_interpreter);
            file.build_id = image.build_id.map(Bytes);
            file.signature = image.signature.map(Bytes);
        }
    }

    fn hash(&self, places: &[Place], path: Bytes, stat: &FileStat) {
        let id = file_id(stat);
        let outcome = self.read(places, &path, stat);
        let counters = &self.files.counters;
        if outcome.is_ok() { &counters.files_hashed } else { &counters.files_unhashed }.one();
        let file = {
            let mut known = self.files.lock();
            let Some(file) = known.files.get_mut(&id) else { return };
            debug_assert_eq!(file.path, path);
            match outcome {
                Ok((hash, image)) => {
                    file.hash = Some(Bytes(hash.to_be_bytes().to_vec()));
                    file.dynamic = image.as_ref().map(|image| image.has_interpreter);
                    let image = image.unwrap_or_default();
                    file.build_id = image.build_id.map(Bytes);
                    file.signature = image.signature.map(Bytes);
                }
                Err(reason) => file.unhashed = Some(reason),
            }
            file.clone()
        };
        (self.announce)(file);
    }

    /// Hashes the whole file and reads its ELF headers, unless it is not what it was.
    fn read(
        &self,
        places: &[Place],
        path: &Bytes,
        stat: &FileStat,
    ) -> Result<(u128, Option<elf::image::Image>), String> {
        if stat.size > self.limits.max_bytes {
            return Err(format!("larger than {} bytes", self.limits.max_bytes));
        }
        let open = || self.open_first(places, stat);
        let mut file = self.asking(path, open).map_err(|error| error.to_string())?;
        let mut hasher = Xxh3::new();
        let mut head = Vec::new();
        let mut buf = vec![0; READ_BYTES];
        let (started, mut total) = (Instant::now(), 0u64);
        loop {
            let n = self.asking(path, || file.read(&mut buf)).map_err(|error| error.to_string())?;
            if n == 0 {
                return Ok((hasher.digest128(), elf::image::read(&head[..])));
            }
            hasher.update(&buf[..n]);
            head.extend_from_slice(&buf[..n.min(ELF_BYTES.saturating_sub(head.len()))]);
            total += n as u64;
            if total > stat.size {
                return Err("grew while it was read".into());
            }
            self.keep_rate(total, started.elapsed());
        }
    }

    /// Opens the first place where the very file is.
    fn open_first(&self, places: &[Place], stat: &FileStat) -> io::Result<OsFile> {
        let mut outcome = Err(io::Error::from(io::ErrorKind::NotFound));
        for place in places {
            outcome = place.open(&self.proc).and_then(|file| {
                let meta = file.metadata()?;
                let is_same = meta.is_file() && file_id(&FileStat::from(&meta)) == file_id(stat);
                if is_same { Ok(file) } else { Err(io::Error::other("replaced by another file")) }
            });
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn keep_rate(&self, total: u64, elapsed: Duration) {
        let due = Duration::from_secs_f64(total as f64 / self.limits.bytes_per_second.max(1) as f64);
        if let Some(early) = due.checked_sub(elapsed) {
            #[expect(clippy::disallowed_methods, reason = "nothing waits for this thread, not even the end")]
            thread::sleep(early);
        }
    }
}
