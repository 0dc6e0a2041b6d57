//! Which user a uid counts as: a subordinate uid counts as the user who owns it.
//!
//! `/etc/subuid` gives a user tens of thousands of uids to use in user namespaces. If each counted as a user of its own,
//! every limit per user would be a limit per sixty-five-thousandth of a user.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::SystemTime;

use sample::Proc;

/// Where the ranges of subordinate uids are.
const SUBUID: &str = "/etc/subuid";
/// Neither people nor services have uids up to here that somebody else could own.
const FIRST_SUBORDINATE: u32 = 65_536;
/// How many uids may be known by their namespace alone; a range of `/etc/subuid` takes no place.
const LEARNED_MAX: usize = 65_536;
/// User namespaces nest at most 33 deep.
const NESTING_MAX: usize = 40;

/// Uids from `first` on, `count` of them, that belong to `owner`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    count: u32,
    owner: u32,
}

#[derive(Debug, Default)]
struct Known {
    /// In the order of `first`.
    ranges: Vec<Range>,
    /// Uids in no range, seen in a user namespace of this owner.
    learned: HashMap<u32, u32>,
}

/// The owners of subordinate uids, shared between the agent's threads.
#[derive(Debug, Clone, Default)]
pub struct Owners {
    known: Arc<RwLock<Known>>,
    /// The time of change of the file that was read last.
    read: Arc<Mutex<Option<SystemTime>>>,
    is_reading: Arc<AtomicBool>,
}

impl Owners {
    /// The user a uid counts as.
    pub fn of(&self, uid: u32) -> u32 {
        if uid < FIRST_SUBORDINATE {
            return uid;
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        owner_in(&known.ranges, uid).or_else(|| known.learned.get(&uid).copied()).unwrap_or(uid)
    }

    /// Whether a uid belongs to another user.
    pub fn is_subordinate(&self, uid: u32) -> bool {
        self.of(uid) != uid
    }

    /// Reads `/etc/subuid` again if it has changed, on a thread of its own: a name in it may have to be looked up in a
    /// directory service that does not answer.
    pub fn refresh(&self) {
        let changed = fs::metadata(SUBUID).and_then(|meta| meta.modified()).ok();
        let is_known = *self.read.lock().unwrap_or_else(PoisonError::into_inner) == changed;
        if is_known || self.is_reading.swap(true, Ordering::Relaxed) {
            return;
        }
        let owners = self.clone();
        let spawned = thread::Builder::new().name("owners".into()).stack_size(256 * 1024).spawn(move || {
            let by_name = |name: &str| nix::unistd::User::from_name(name).ok()?.map(|user| user.uid.as_raw());
            let ranges = fs::read(SUBUID).map_or_else(|_| Vec::new(), |text| parse(&text, by_name));
            owners.known.write().unwrap_or_else(PoisonError::into_inner).ranges = ranges;
            *owners.read.lock().unwrap_or_else(PoisonError::into_inner) = changed;
            owners.is_reading.store(false, Ordering::Relaxed);
        });
        if spawned.is_err() {
            self.is_reading.store(false, Ordering::Relaxed);
        }
    }

    /// Learns who owns a uid in no known range (ranges may come from a directory service) from the user namespace of a
    /// process that has it.
    pub fn learn(&self, proc: &Proc, uid: u32, pid: u32) {
        if uid < FIRST_SUBORDINATE || self.is_subordinate(uid) {
            return;
        }
        let Some(owner) = namespace_owner(&proc.path(pid, "ns/user")).filter(|owner| *owner != uid) else {
            return;
        };
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.learned.len() >= LEARNED_MAX {
            known.learned.clear();
        }
        known.learned.insert(uid, owner);
    }
}

fn owner_in(ranges: &[Range], uid: u32) -> Option<u32> {
    let after = ranges.partition_point(|range| range.first <= uid);
    let range = ranges.get(after.checked_sub(1)?)?;
    (uid - range.first < range.count).then_some(range.owner)
}

/// Parses lines `NAME:FIRST:COUNT`; a name may be a number. Lines of another form or of unknown users are left out.
fn parse(text: &[u8], by_name: impl Fn(&str) -> Option<u32>) -> Vec<Range> {
    let line = |line: &[u8]| {
        let mut fields = std::str::from_utf8(line).ok()?.trim().split(':');
        let (name, first, count) = (fields.next()?, fields.next()?, fields.next()?);
        let owner = name.parse().ok().or_else(|| by_name(name))?;
        let (first, count) = (first.parse().ok()?, count.parse().ok()?);
        (first >= FIRST_SUBORDINATE).then_some(Range { first, count, owner })
    };
    let mut ranges: Vec<Range> = text.split(|b| *b == b'\n').filter_map(line).collect();
    ranges.sort_by_key(|range| range.first);
    ranges
}

/// The owner of the outermost user namespace around a process that is not the initial one.
fn namespace_owner(path: &Path) -> Option<u32> {
    // From linux/nsfs.h.
    const NS_GET_PARENT: u64 = 0xb702;
    const NS_GET_OWNER_UID: u64 = 0xb704;
    let mut namespace = OwnedFd::from(File::open(path).ok()?);
    let mut owner = None;
    for _ in 0..NESTING_MAX {
        // SAFETY: takes no argument; gives a new descriptor that nobody else knows, or -1.
        let parent = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_PARENT as _) };
        if parent < 0 {
            // The initial namespace has no parent, and its owner owns everything.
            return owner;
        }
        let mut uid: libc::uid_t = 0;
        // SAFETY: writes one uid.
        if unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_OWNER_UID as _, &mut uid) } == 0 {
            owner = Some(uid);
        }
        // SAFETY: see above; it is owned by nobody else.
        namespace = unsafe { OwnedFd::from_raw_fd(parent) };
    }
    owner
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn subordinate_uids_count_as_their_owner() {
        let text = b"alice:100000:65536\n1002:165536:10\n# comment\nnobody-knows:300000:5\nbob:999\n\xff:1:1\nroot:0:9\n";
        let by_name = |name: &str| match name {
            "alice" => Some(1001),
            "root" => Some(0),
            _ => None,
        };
        let ranges = parse(text, by_name);
        let owners = Owners::default();
        owners.known.write().unwrap().ranges = ranges;
        for (uid, expected) in [
            (0, 0),
            (1001, 1001),
            (99_999, 99_999),
            (100_000, 1001),
            (165_535, 1001),
            (165_536, 1002),
            (165_545, 1002),
            (165_546, 165_546),
            (300_000, 300_000),
            (u32::MAX, u32::MAX),
        ] {
            assert_eq!(owners.of(uid), expected, "uid {uid}");
        }
    }

    /// Without `/etc/subuid`, the namespace tells. Needs root, to give a namespace a uid that is not its owner's.
    #[test]
    fn the_owner_of_a_namespace_owns_its_uids() {
        if !testkit::is_root("the_owner_of_a_namespace_owns_its_uids") {
            return;
        }
        // A namespace made by uid 4711, in which uid 200000 of ours runs.
        let mut child = Command::new("setpriv")
            .args(["--reuid=4711", "--regid=4711", "--clear-groups", "unshare", "--user", "sh", "-c"])
            .arg("echo ready; read -r mapped; exec setpriv --reuid=5 --clear-groups sh -c 'echo running; read -r end'")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        let mut stdout = io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        fs::write(format!("/proc/{pid}/uid_map"), "0 4711 1\n5 200000 1\n").unwrap();
        fs::write(format!("/proc/{pid}/gid_map"), "0 4711 1\n").unwrap();
        let stdin = child.stdin.as_mut().unwrap();
        writeln!(stdin).unwrap();
        io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        let owners = Owners::default();
        assert_eq!(owners.of(200_000), 200_000);
        owners.learn(&Proc::default(), 200_000, pid);
        owners.learn(&Proc::default(), 300_000, std::process::id());
        writeln!(stdin).unwrap();
        child.wait().unwrap();
        assert_eq!(line, "ready\nrunning\n");
        assert_eq!((owners.of(200_000), owners.of(300_000)), (4711, 300_000));
    }
}
