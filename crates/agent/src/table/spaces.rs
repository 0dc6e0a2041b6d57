//! The files that each process has mapped to execute: the kernel's word on what an image has loaded.
//!
//! The kernel marks the moment at which an exec has made a new address space, shortly before it reports the exec itself, and
//! reports each mapping in it. A space is found by its process and the time of the exec. What follows in the process until
//! the next mark belongs to it; a forked child that executes nothing has none of its own.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use record::bytes::Bytes;
use record::guest::Object;
use sample::process::Mapping;

use super::look::is_guest_library;
use crate::counters::Counters;
use crate::files::{Inode, Seen};
use crate::kernel::Record;

/// What spaces of one user, and all together, may take.
const USER_BYTES: usize = 8 * 1024 * 1024;
const ALL_BYTES: usize = 32 * 1024 * 1024;
/// A space is looked for in those of its process that were not taken yet; there are more only if execs were lost.
const UNCLAIMED_MAX: usize = 8;
/// So many mappings of one space are kept: hardly a program has that many libraries, and each is compared with those
/// before, on the main thread.
const SPACE_MAX: usize = 2048;
/// Ranges that begin before an address are looked at until one covers it; more overlap only where addresses were used again.
const OVERLAPS_MAX: usize = 16;
/// What a mapping takes: its range, and its place among the files.
const MAPPING_BYTES: usize = 64;

/// A mapped file; processes share what they have in common.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct MappedFile {
    pub inode: Inode,
    pub path: Bytes,
    pub deleted: bool,
}

impl MappedFile {
    fn seen(&self) -> Seen {
        let MappedFile { inode, path, deleted } = self;
        Seen { path: path.clone(), inode: Some(*inode), deleted: *deleted, ..Seen::default() }
    }
}

/// What a user's spaces take.
#[derive(Debug, Default)]
struct Held {
    by_user: HashMap<u32, usize>,
    all: usize,
}

impl Held {
    fn take(&mut self, user: u32, bytes: usize) -> bool {
        let of_user = self.by_user.entry(user).or_default();
        let fits = *of_user + bytes <= USER_BYTES && self.all + bytes <= ALL_BYTES;
        if fits {
            *of_user += bytes;
            self.all += bytes;
        }
        fits
    }

    fn give(&mut self, user: u32, bytes: usize) {
        self.all -= bytes;
        if let Some(of_user) = self.by_user.get_mut(&user) {
            *of_user -= bytes;
            if *of_user == 0 {
                self.by_user.remove(&user);
            }
        }
    }
}

/// The executable mappings of an address space, from its beginning on.
#[derive(Debug)]
pub struct Space {
    start: u64,
    /// All that was mapped by then is here; so is what came later, unless records were lost since.
    whole_since: u64,
    /// In the order in which they were mapped first, with that time.
    files: Vec<(u64, Rc<MappedFile>)>,
    /// Addresses with the place of their file in `files`; the latest is the last.
    ranges: Vec<(u64, u64, u32)>,
    user: u32,
    bytes: usize,
    /// A mapping did not fit.
    is_cut: bool,
    held: Rc<RefCell<Held>>,
}

impl Drop for Space {
    fn drop(&mut self) {
        self.held.borrow_mut().give(self.user, self.bytes);
    }
}

impl Space {
    /// The mark of an exec may come before it is known whose process it is.
    fn belong_to(&mut self, user: u32) {
        let mut held = self.held.borrow_mut();
        held.give(self.user, self.bytes);
        self.user = user;
        if !held.take(user, self.bytes) {
            self.bytes = 0;
            self.is_cut = true;
            self.files.clear();
            self.ranges.clear();
        }
    }

    fn add(&mut self, time: u64, (start, end): (u64, u64), file: &Rc<MappedFile>) -> bool {
        if self.is_cut {
            return false;
        }
        let known = self.files.iter().position(|(_, known)| Rc::ptr_eq(known, file));
        let at = known.unwrap_or(self.files.len()) as u32;
        if self.ranges.contains(&(start, end, at)) {
            return true;
        }
        // A path that nobody else has counts to whoever came first.
        let path = if Rc::strong_count(file) <= 2 { file.path.len() + size_of::<MappedFile>() } else { 0 };
        let has_room = self.ranges.len() < SPACE_MAX;
        if !has_room || !self.held.borrow_mut().take(self.user, MAPPING_BYTES + path) {
            self.is_cut = true;
            return false;
        }
        self.bytes += MAPPING_BYTES + path;
        if known.is_none() {
            self.files.push((time, file.clone()));
        }
        self.ranges.push((start, end, at));
        true
    }

    /// The program: the kernel maps it first.
    pub fn program(&self) -> Option<&MappedFile> {
        self.files.first().map(|(_, file)| &**file)
    }

    /// All mappings by address; of those with the same beginning, the latest is the last.
    fn by_address(&self) -> ByAddress {
        let mut ranges = self.ranges.clone();
        ranges.sort_by_key(|(start, ..)| *start);
        ByAddress(ranges)
    }

    /// The file with this path.
    pub fn named(&self, path: &[u8]) -> Option<Inode> {
        self.files.iter().find(|(_, file)| *file.path == *path).map(|(_, file)| file.inode)
    }

    /// What was mapped up to a time, with what the process says of it, and what it claims beside that.
    pub fn objects(&self, until: u64, told: Vec<Object>) -> Vec<Seen> {
        let mut seen: Vec<Option<Seen>> =
            self.files.iter().map(|(time, file)| (*time <= until).then(|| file.seen())).collect();
        let mut claims = Vec::new();
        let mapped = self.by_address();
        for object in told {
            match object.address.and_then(|address| mapped.at(address)) {
                Some(at) => {
                    if let Some((place, (_, file))) = seen.get_mut(at).zip(self.files.get(at)) {
                        let place = place.get_or_insert_with(|| file.seen());
                        place.build_id = object.build_id;
                        place.signature = object.signature;
                    }
                }
                None => claims.push(claim(object)),
            }
        }
        let ours = |seen: &Seen| !is_guest_library(&seen.path);
        seen.into_iter().flatten().chain(claims).filter(ours).collect()
    }

    /// What was mapped besides `known`, and what the process claims beside that.
    pub fn late(&self, known: &[Seen], told: Vec<Object>) -> Vec<Seen> {
        let known: HashSet<Inode> = known.iter().filter_map(|seen| seen.inode).collect();
        let mapped = self.by_address();
        let is_claim = |object: &Object| object.address.is_none_or(|address| mapped.at(address).is_none());
        let late = self.files.iter().map(|(_, file)| file).filter(|file| !known.contains(&file.inode));
        let claims = told.into_iter().filter(is_claim).map(claim);
        let ours = |seen: &Seen| !is_guest_library(&seen.path);
        late.map(|file| file.seen()).chain(claims).filter(ours).collect()
    }
}

/// Mappings in the order of their addresses: a message may name thousands.
struct ByAddress(Vec<(u64, u64, u32)>);

impl ByAddress {
    /// The place of the file mapped at an address.
    fn at(&self, address: u64) -> Option<usize> {
        let begun = self.0.partition_point(|(start, ..)| *start <= address);
        let mut before = self.0.get(..begun)?.iter().rev().take(OVERLAPS_MAX);
        before.find(|(_, end, _)| address < *end).map(|(.., at)| *at as usize)
    }
}

/// An object that the kernel did not report.
pub fn claim(object: Object) -> Seen {
    let Object { path, build_id, signature, .. } = object;
    Seen { path, build_id, signature, claimed: true, ..Seen::default() }
}

pub type SharedSpace = Rc<RefCell<Space>>;

/// The spaces of all processes.
#[derive(Default)]
pub struct Spaces {
    /// The latest is the last. Images share them.
    by_pid: HashMap<u32, VecDeque<SharedSpace>>,
    files: HashSet<Rc<MappedFile>>,
    /// So many files were there after the last that nobody has were forgotten.
    files_kept: usize,
    held: Rc<RefCell<Held>>,
    /// When records were lost the last time.
    lost_at: u64,
}

impl Spaces {
    /// Takes in a record; `user` is whose process it is, as far as that is known.
    pub fn record(&mut self, record: Record, user: Option<u32>, counters: &Counters) {
        match record {
            Record::Exec { time, pid } => self.begin(pid, time, user),
            Record::Mapped { time, pid, mapping } => {
                let Some(space) = self.by_pid.get(&pid).and_then(VecDeque::back).cloned() else { return };
                if !self.add(&space, time, mapping) {
                    counters.mappings_dropped.one();
                }
            }
            Record::Lost { time, records } => {
                self.lost_at = self.lost_at.max(time);
                counters.mappings_lost.add(records);
            }
        }
    }

    fn begin(&mut self, pid: u32, time: u64, user: Option<u32>) {
        let space = self.space(time, user);
        let spaces = self.by_pid.entry(pid).or_default();
        if spaces.len() >= UNCLAIMED_MAX {
            spaces.pop_front();
        }
        spaces.push_back(space);
    }

    fn space(&self, start: u64, user: Option<u32>) -> SharedSpace {
        Rc::new(RefCell::new(Space {
            start,
            whole_since: start,
            files: Vec::new(),
            ranges: Vec::new(),
            // Before it is known whose it is, all of them together have what one user may have.
            user: user.unwrap_or(u32::MAX),
            bytes: 0,
            is_cut: false,
            held: self.held.clone(),
        }))
    }

    fn add(&mut self, space: &SharedSpace, time: u64, mapping: Mapping) -> bool {
        let Mapping { start, end, dev, inode, path, deleted } = mapping;
        let file = MappedFile { inode: Inode { dev, number: inode }, path: Bytes(path), deleted };
        let file = match self.files.get(&file) {
            Some(known) => known.clone(),
            None => Rc::new(file),
        };
        let fits = space.borrow_mut().add(time, (start, end), &file);
        if fits {
            self.files.insert(file);
            if self.files.len() > 2 * self.files_kept + 1024 {
                self.files.retain(|file| Rc::strong_count(file) > 1);
                self.files_kept = self.files.len();
            }
        }
        fits
    }

    /// The space of a process's exec at `time`, for its image. Earlier ones are over.
    pub fn claim(&mut self, pid: u32, time: u64, user: Option<u32>) -> Option<SharedSpace> {
        let spaces = self.by_pid.get_mut(&pid)?;
        let count = spaces.iter().take_while(|space| space.borrow().start <= time).count();
        spaces.drain(..count.saturating_sub(1));
        // One that an image has already is not this one's: the mark of this exec was lost.
        let first =
            spaces.front().filter(|space| Rc::strong_count(space) == 1 && space.borrow().start <= time)?;
        if let Some(user) = user {
            first.borrow_mut().belong_to(user);
        }
        Some(first.clone())
    }

    /// A process has ended.
    pub fn end(&mut self, pid: u32, time: u64) {
        if let Some(spaces) = self.by_pid.get_mut(&pid) {
            spaces.retain(|space| space.borrow().start > time);
            if spaces.is_empty() {
                self.by_pid.remove(&pid);
            }
        }
    }

    /// Whether nothing is missing in a space.
    pub fn is_whole(&self, space: &SharedSpace) -> bool {
        let space = space.borrow();
        !space.is_cut && space.whole_since > self.lost_at
    }

    /// Fills in what `/proc` shows now, to a space that may miss something or to a new one.
    pub fn complete(
        &mut self,
        pid: u32,
        space: Option<SharedSpace>,
        (now, user): (u64, Option<u32>),
        mappings: Vec<Mapping>,
    ) -> SharedSpace {
        let space = space.unwrap_or_else(|| {
            self.begin(pid, now, user);
            self.by_pid.get(&pid).and_then(VecDeque::back).cloned().unwrap_or_else(|| self.space(now, user))
        });
        for mapping in mappings {
            let time = space.borrow().start;
            self.add(&space, time, mapping);
        }
        space.borrow_mut().whole_since = now;
        space
    }

    /// Forgets the processes for which this does not hold.
    pub fn retain(&mut self, runs: impl Fn(u32) -> bool) {
        self.by_pid.retain(|pid, _| runs(*pid));
    }

    /// How many processes have any.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.by_pid.len()
    }

    /// What the spaces take.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.held.borrow().all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(pid: u32, time: u64, start: u64, inode: u64, path: &str) -> Record {
        let mapping = Mapping::named((start, start + 0x1000), (1, inode), path.as_bytes());
        Record::Mapped { time, pid, mapping }
    }

    fn spaces(records: Vec<Record>) -> Spaces {
        let mut spaces = Spaces::default();
        let counters = Counters::default();
        records.into_iter().for_each(|record| spaces.record(record, Some(7), &counters));
        spaces
    }

    fn told(address: Option<u64>, path: &str) -> Object {
        Object { address, path: path.as_bytes().into(), build_id: Some(Bytes(vec![9])), signature: None }
    }

    fn names(seen: &[Seen]) -> Vec<(String, bool, bool)> {
        seen.iter().map(|seen| (seen.path.to_string(), seen.claimed, seen.build_id.is_some())).collect()
    }

    fn name(path: &str, claimed: bool, has_build_id: bool) -> (String, bool, bool) {
        (path.to_owned(), claimed, has_build_id)
    }

    #[test]
    fn what_is_told_is_attached_by_address_and_the_rest_is_a_claim() {
        let mut spaces = spaces(vec![
            Record::Exec { time: 1, pid: 5 },
            mapped(5, 2, 0x1000, 11, "/bin/a"),
            mapped(5, 3, 0x9000, 12, "/lib/libc.so"),
            mapped(5, 4, 0xa000, 13, "/opt/libjobglass.so"),
            mapped(5, 20, 0xc000, 14, "/lib/later.so"),
        ]);
        let space = spaces.claim(5, 6, Some(7)).unwrap();
        let space = space.borrow();
        assert_eq!(space.program().unwrap().path, Bytes::from(&b"/bin/a"[..]));
        let objects = vec![
            told(Some(0x1fff), "/etc/shadow"),
            told(Some(0x2000), "/etc/gshadow"),
            told(None, "/lib/libc.so"),
        ];
        let seen = space.objects(10, objects);
        // The kernel's name wins, and a right name alone is not enough.
        let expected = [
            name("/bin/a", false, true),
            name("/lib/libc.so", false, false),
            name("/etc/gshadow", true, true),
            name("/lib/libc.so", true, true),
        ];
        assert_eq!(names(&seen), expected);
        assert!(seen.iter().all(|seen| seen.claimed == seen.inode.is_none()));
        let late = space.late(&seen, vec![told(Some(0xc100), "/x"), told(Some(0), "/dev/kvm")]);
        assert_eq!(names(&late), [name("/lib/later.so", false, false), name("/dev/kvm", true, true)]);
    }

    #[test]
    fn each_exec_has_its_own_space() {
        let mut spaces = spaces(vec![
            Record::Exec { time: 1, pid: 5 },
            mapped(5, 2, 0x1000, 11, "/first"),
            Record::Exec { time: 5, pid: 5 },
            mapped(5, 6, 0x1000, 12, "/second"),
            mapped(6, 6, 0x1000, 12, "/copy"),
        ]);
        let first = spaces.claim(5, 3, Some(7)).unwrap();
        assert_eq!(first.borrow().program().unwrap().path.to_string(), "/first");
        assert!(spaces.claim(5, 4, Some(7)).is_none(), "an exec whose mark was lost");
        let second = spaces.claim(5, 7, Some(7)).unwrap();
        assert_eq!(second.borrow().program().unwrap().path.to_string(), "/second");
        assert!(spaces.claim(6, 7, Some(7)).is_none(), "a copy that executes nothing");
        spaces.end(5, 8);
        assert!(spaces.by_pid.is_empty());
        drop((first, second));
        assert_eq!(spaces.bytes(), 0);
    }

    #[test]
    fn lost_records_make_a_space_doubtful_until_proc_was_asked() {
        let mut spaces = spaces(vec![
            Record::Exec { time: 1, pid: 5 },
            mapped(5, 2, 0x1000, 11, "/bin/a"),
            Record::Lost { time: 3, records: 4 },
        ]);
        let space = spaces.claim(5, 6, Some(7)).unwrap();
        assert!(!spaces.is_whole(&space));
        let shown = vec![Mapping::named((0x5000, 0x6000), (1, 15), b"/lib/missed.so")];
        let space = spaces.complete(5, Some(space), (9, Some(7)), shown);
        assert!(spaces.is_whole(&space));
        assert_eq!(space.borrow().objects(2, Vec::new()).len(), 2);
    }

    #[test]
    fn a_user_who_maps_without_end_takes_a_bounded_amount_and_nothing_of_others() {
        let mut spaces = Spaces::default();
        let counters = Counters::default();
        for pid in 10..100 {
            spaces.record(Record::Exec { time: 1, pid }, Some(1), &counters);
            for n in 0..5000 {
                let path = format!("/{pid}/{n}");
                spaces.record(mapped(pid, 2, n << 12, n + 1, &path), None, &counters);
            }
        }
        assert!(spaces.bytes() <= USER_BYTES, "{}", spaces.bytes());
        assert!(counters.mappings_dropped.get() > 0);
        spaces.record(Record::Exec { time: 1, pid: 9 }, Some(2), &counters);
        spaces.record(mapped(9, 2, 0x1000, 1, "/bin/other"), None, &counters);
        let other = spaces.claim(9, 3, Some(2)).unwrap();
        assert_eq!(other.borrow().files.len(), 1);
        spaces.retain(|_| false);
        drop(other);
        assert_eq!(spaces.bytes(), 0);
    }
}
