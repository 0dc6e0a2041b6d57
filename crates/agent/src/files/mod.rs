//! What each distinct file is: its metadata, ELF identity and content hash, each found once.
//!
//! Only files are looked at that the kernel says a process has executed or mapped ([`open`]). All of it happens on threads
//! of its own at the lowest priority, because a path may lie on a file system that does not answer: the agent's main
//! thread must not wait for it. Users share these threads fairly ([`queue`]) and what is remembered as well ([`cache`]);
//! reading is bounded in rate and size.

mod cache;
mod namespace;
mod open;
mod queue;
mod worker;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use record::bytes::Bytes;
use record::entry::{Container, File, Object, ObjectList};
use sample::Proc;
use sample::process::{FileStat, Root};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::clock::monotonic_ns;
use crate::counters::Counters;
use crate::shares::Shares;
use crate::waits::Waits;
use cache::Cache;
use namespace::Looked;
pub use namespace::Namespace;
pub use open::{Found, Inode, Place};
use queue::{Queue, Work};
use worker::{Hashing, Lookup, Worker};

/// What is remembered of files, lists, containers and inodes, in bytes.
const FILES_BYTES: usize = 16 * 1024 * 1024;
const LISTS_BYTES: usize = 16 * 1024 * 1024;
const CONTAINERS_BYTES: usize = 1024 * 1024;
const INODES_BYTES: usize = 4 * 1024 * 1024;
/// After this long a path is looked at again: another file may stand there.
const FRESH: Duration = Duration::from_secs(10);
/// Threads that look at files. Each user can make one of them hang.
const THREADS_MAX: usize = 12;
/// Root directories that are held open until they are looked at; a user has their share of them.
pub const ROOTS_MAX: usize = 256;

/// What may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashLimits {
    pub max_bytes: u64,
    pub bytes_per_second: u64,
}

/// A loaded object, before its file is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub path: Bytes,
    pub build_id: Option<Bytes>,
    pub signature: Option<Bytes>,
    /// The file that the kernel reported; only then its path is looked at.
    pub inode: Option<Inode>,
    /// The kernel marked the name as deleted; a name may also end in the mark itself.
    pub deleted: bool,
    /// The kernel did not report it.
    pub claimed: bool,
}

impl Seen {
    /// How much memory it takes in a list, about.
    pub fn weight(&self) -> usize {
        let strings =
            [Some(&self.path), self.build_id.as_ref(), self.signature.as_ref()].into_iter().flatten();
        size_of::<Seen>() + strings.map(|string| string.len() + 2 * size_of::<usize>()).sum::<usize>()
    }

    /// The object with its file.
    fn object(&self, file: Option<u64>) -> Object {
        Object {
            path: self.path.clone(),
            build_id: self.build_id.clone(),
            signature: self.signature.clone(),
            file,
            claimed: self.claimed,
        }
    }

    fn bytes(&self) -> usize {
        let len = |part: &Option<Bytes>| part.as_ref().map_or(0, |part| part.len());
        size_of::<Seen>() + self.path.len() + len(&self.build_id) + len(&self.signature)
    }
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
        hasher.update(&[u8::from(object.claimed)]);
    }
    hasher.digest()
}

/// A list that is not resolved: no file is known of any object.
pub fn unresolved(objects: &[Seen]) -> Arc<ObjectList> {
    let objects: Vec<Object> = objects.iter().map(|object| object.object(None)).collect();
    Arc::new(ObjectList { id: list_id(&objects), objects })
}

/// Names a list before it is resolved: its content, and the mount namespace in which its paths mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListKey(u64);

impl ListKey {
    pub fn new(objects: &[Seen], namespace: Option<Namespace>) -> ListKey {
        let mut hasher = Xxh3::new();
        for object in objects {
            let inode = object.inode.unwrap_or(Inode { dev: 0, number: 0 });
            hasher.update(&inode.dev.to_le_bytes());
            hasher.update(&inode.number.to_le_bytes());
        }
        let plain: Vec<Object> = objects.iter().map(|object| object.object(None)).collect();
        if let Some(Namespace { number, since, root }) = namespace {
            for word in [number, since, root.mount, root.dev, root.inode] {
                hasher.update(&word.to_le_bytes());
            }
        }
        ListKey(list_id(&plain) ^ hasher.digest())
    }
}

struct Known {
    files: Cache<u64, File>,
    lists: Cache<ListKey, (Instant, Arc<ObjectList>)>,
    /// Roots in mount namespaces other than ours, once they were looked at.
    containers: Cache<Namespace, Looked>,
    /// Files by device and inode, as the kernel names them, and when that was seen.
    inodes: Cache<Inode, (Instant, u64)>,
}

/// The table of known files, shared between the agent's threads.
#[derive(Clone)]
pub struct Files(Arc<Shared>);

struct Shared {
    known: Mutex<Known>,
    queue: Queue<Lookup, Hashing>,
    proc: Proc,
    limits: HashLimits,
    announce: Box<dyn Fn(File) + Send + Sync>,
    counters: Arc<Counters>,
    waits: Waits,
    roots: Shares,
}

impl Files {
    /// Starts the first thread that looks at files; `announce` hears of each whose hash has become known.
    pub fn start(
        proc: Proc,
        limits: HashLimits,
        counters: Arc<Counters>,
        announce: impl Fn(File) + Send + Sync + 'static,
    ) -> io::Result<Files> {
        let known = Known {
            files: Cache::new(FILES_BYTES),
            lists: Cache::new(LISTS_BYTES),
            containers: Cache::new(CONTAINERS_BYTES),
            inodes: Cache::new(INODES_BYTES),
        };
        let files = Files(Arc::new(Shared {
            known: Mutex::new(known),
            queue: Queue::new(limits.bytes_per_second),
            proc,
            limits,
            announce: Box::new(announce),
            counters,
            waits: Waits::default(),
            roots: Shares::new(ROOTS_MAX),
        }));
        files.0.queue.add_thread();
        files.start_thread()?;
        Ok(files)
    }

    /// What the threads wait for; others may put theirs with it.
    pub fn waits(&self) -> &Waits {
        &self.0.waits
    }

    /// What is remembered takes so many bytes.
    pub fn bytes(&self) -> usize {
        let known = self.lock();
        known.files.bytes() + known.lists.bytes() + known.containers.bytes() + known.inodes.bytes()
    }

    /// What is known of a file.
    pub fn get(&self, id: u64) -> Option<File> {
        self.lock().files.get(&id).cloned()
    }

    /// The file that the kernel names by device and inode, if it was seen before.
    pub fn by_inode(&self, dev: u64, inode: u64) -> Option<File> {
        let mut known = self.lock();
        let (_, id) = *known.inodes.get(&Inode { dev, number: inode })?;
        known.files.get(&id).cloned()
    }

    /// Makes a file known that a user's process has executed or mapped, and has it hashed; gives its number. Of `places`, only
    /// one that is this very file is read.
    pub fn note(&self, user: u32, path: &[u8], places: Vec<Place>, stat: &FileStat) -> u64 {
        let id = file_id(stat);
        let path = Bytes::from(path);
        if self.insert(user, id, &path, stat) {
            let bytes = 256 + path.len() * (1 + places.len());
            self.send(user, Work::Hash(Hashing::new(id, path, places, stat.size)), bytes);
        }
        id
    }

    /// The list with its files, if they are known already; otherwise they will be. `pid` is a process in whose root the
    /// paths lead to them, `is_inside` says that ours is another one.
    pub fn resolve(
        &self,
        user: u32,
        key: ListKey,
        objects: &[Seen],
        pid: u32,
        is_inside: bool,
    ) -> Option<Arc<ObjectList>> {
        if let Some(list) = self.resolved(key) {
            return Some(list);
        }
        let bytes = objects.iter().map(Seen::bytes).sum();
        let lookup = Lookup::Resolve { key, objects: objects.to_vec(), pid, is_inside };
        self.send(user, Work::Lookup(lookup), bytes);
        None
    }

    /// The list with its files, if they are known.
    pub fn resolved(&self, key: ListKey) -> Option<Arc<ObjectList>> {
        let mut known = self.lock();
        known.lists.get(&key).filter(|(since, _)| since.elapsed() < FRESH).map(|(_, list)| list.clone())
    }

    /// Has the root of a user's process in another mount namespace looked at, unless it is known; says whether it will be.
    pub fn enter(&self, user: u32, namespace: Namespace, pid: u32, root: Root) -> bool {
        if !self.is_stale(namespace) {
            return false;
        }
        let Some(held) = self.0.roots.hold(user, 1) else {
            self.0.counters.files_dropped.one();
            return false;
        };
        self.send(user, Work::Lookup(Lookup::Enter { namespace, pid, root: (root.dir, held) }), 128)
    }

    /// Whether a root has to be looked at.
    fn is_stale(&self, namespace: Namespace) -> bool {
        let now = monotonic_ns();
        self.lock().containers.get(&namespace).is_none_or(|looked| looked.is_stale(namespace, now))
    }

    /// Whether a root was looked at since an image began in it.
    pub fn is_looked_at(&self, namespace: Namespace, start: u64) -> bool {
        self.lock().containers.get(&namespace).is_some_and(|looked| looked.is_about(start))
    }

    /// The container in which an image began, if its root is one's and was looked at.
    pub fn container(&self, namespace: Namespace, start: u64) -> Option<Container> {
        self.lock().containers.get(&namespace)?.container(start).cloned()
    }

    /// Says whether the file is new.
    fn insert(&self, user: u32, id: u64, path: &Bytes, stat: &FileStat) -> bool {
        let inode = Inode { dev: stat.dev, number: stat.inode };
        let mut known = self.lock();
        known.inodes.insert(user, inode, (Instant::now(), id), 0);
        if let Some(file) = known.files.get_mut(&id) {
            file.uid = file.uid.or(stat.uid);
            file.mode = file.mode.or(stat.mode);
            return false;
        }
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
        // With room for hash, build-id and signature.
        let bytes = size_of::<File>() + path.len() + 256;
        known.files.insert(user, id, file, bytes);
        true
    }

    fn send(&self, user: u32, work: Work<Lookup, Hashing>, bytes: usize) -> bool {
        let is_sent = self.0.queue.push(user, work, bytes).is_ok();
        if !is_sent {
            self.0.counters.files_dropped.one();
        }
        self.add_thread();
        is_sent
    }

    /// Starts another thread if all others are at work and something waits.
    fn add_thread(&self) {
        if self.0.queue.wants_thread(THREADS_MAX) && self.start_thread().is_err() {
            self.0.queue.lost_thread();
        }
    }

    fn start_thread(&self) -> io::Result<()> {
        let worker = Worker { files: self.clone() };
        thread::Builder::new().name("files".into()).stack_size(512 * 1024).spawn(move || worker.run())?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
