//! All processes of the node in one pass.
//!
//! Of each process `stat` and `statm` are read, of each thread `io`, one read per file. What seldom changes (control group, executable,
//! user, swap) is remembered by pid and start time, and read again when the process is young, has run, or was not looked at
//! for a while. A process that vanishes midway is left out, and counted.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno;

use crate::read::{Reader, lines, number, words};

/// Readings after which everything is read again.
const REFRESH: u64 = 10;
/// Resource managers move a process between fork and exec: one that began so many ticks ago is not settled.
const YOUNG_TICKS: u64 = 500;
/// Of a process with more threads, they are not looked at one by one.
const THREADS_MAX: u32 = 4096;

/// One process at the moment it was read. What is absent could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub times: Times,
    /// Kernel threads have nothing but `times`.
    pub memory: Option<Memory>,
    /// Of the threads that live. `/proc/PID/io` would have that of its children as well that were waited for, as long as
    /// the process lives.
    pub io: Option<Io>,
    /// How many threads run, could run, or wait for a disk.
    pub busy: Option<u64>,
    pub status: Option<Status>,
    /// The lines of `cgroup`.
    pub cgroup: Option<Arc<[u8]>>,
    /// Where `exe` leads; a file that was removed ends in ` (deleted)`.
    pub exe: Option<Arc<[u8]>>,
    /// User and system ticks since the reading before this one, if it was there.
    pub ticks_since: Option<u64>,
}

/// `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Padded with zeros; kernel threads with longer names are cut.
    pub comm: [u8; 16],
    pub state: u8,
    pub ppid: u32,
    pub session: u32,
    pub is_kernel_thread: bool,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub user_ticks: u64,
    pub system_ticks: u64,
    /// Of children that were waited for, and theirs.
    pub children_user_ticks: u64,
    pub children_system_ticks: u64,
    pub threads: u32,
    /// Clock ticks since boot.
    pub start_ticks: u64,
}

/// `/proc/PID/statm`, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub virtual_bytes: u64,
    pub resident: u64,
    /// File pages and shared memory; the rest of the resident is anonymous.
    pub shared: u64,
}

/// `/proc/PID/task/TID/io`, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Io {
    /// Through `read` and `write`, wherever the data lay.
    pub read_chars: u64,
    pub written_chars: u64,
    /// From and to storage.
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// `/proc/PID/status`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    /// The real user.
    pub uid: Option<u32>,
    pub swap: Option<u64>,
    pub file: Option<u64>,
    pub shared_memory: Option<u64>,
    pub voluntary_switches: Option<u64>,
    pub involuntary_switches: Option<u64>,
    /// On how many processors it may run.
    pub processors: Option<u32>,
}

/// What came of a pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    pub processes: usize,
    pub kernel_threads: usize,
    /// Listed, and gone before they were read.
    pub vanished: usize,
    /// There, with a text that is not understood.
    pub garbled: usize,
}

impl Io {
    fn plus(&self, other: &Io) -> Option<Io> {
        Some(Io {
            read_chars: self.read_chars.checked_add(other.read_chars)?,
            written_chars: self.written_chars.checked_add(other.written_chars)?,
            read_bytes: self.read_bytes.checked_add(other.read_bytes)?,
            written_bytes: self.written_bytes.checked_add(other.written_bytes)?,
        })
    }
}

impl Times {
    /// The name without its padding.
    pub fn name(&self) -> &[u8] {
        let len = self.comm.iter().position(|byte| *byte == 0).unwrap_or(self.comm.len());
        self.comm.get(..len).unwrap_or_default()
    }

    fn ticks(&self) -> u64 {
        self.user_ticks.saturating_add(self.system_ticks)
    }
}

/// What is remembered of a process between readings.
struct Known {
    start_ticks: u64,
    comm: [u8; 16],
    ticks: u64,
    faults: u64,
    resident: Option<u64>,
    /// The reading it was last met in, and the one after which all of it is read again.
    round: u64,
    refresh: u64,
    cgroup: Option<Arc<[u8]>>,
    exe: Option<Arc<[u8]>>,
    status: Option<Status>,
}

/// Reads all processes again and again.
pub struct Processes {
    reader: Reader,
    page: u64,
    round: u64,
    pids: Vec<u32>,
    known: HashMap<u32, Known>,
    texts: HashSet<Arc<[u8]>>,
    path: Vec<u8>,
    /// What the last pass read, in the order of the kernel's list.
    pub processes: Vec<Process>,
}

impl Default for Processes {
    fn default() -> Self {
        Processes::new("/proc")
    }
}

impl Processes {
    /// Reads below `root`, usually `/proc`.
    pub fn new(root: impl Into<PathBuf>) -> Processes {
        Processes {
            reader: Reader::new(root),
            page: rustix::param::page_size() as u64,
            round: 0,
            pids: Vec::new(),
            known: HashMap::new(),
            texts: HashSet::new(),
            path: Vec::new(),
            processes: Vec::new(),
        }
    }

    /// System calls made until now.
    pub fn calls(&self) -> u64 {
        self.reader.calls()
    }

    /// Reads all processes. `now_ticks` is the time since boot, to tell which of them are young.
    pub fn read(&mut self, now_ticks: u64) -> Result<Seen, Errno> {
        self.round += 1;
        let mut pids = std::mem::take(&mut self.pids);
        pids.clear();
        self.reader.names(b".", |name| pids.extend(number(name).and_then(|pid| u32::try_from(pid).ok())))?;
        let seen = self.read_these(pids.iter().copied(), now_ticks);
        self.pids = pids;
        let round = self.round;
        self.known.retain(|_, known| known.round == round);
        self.texts.retain(|text| Arc::strong_count(text) > 1);
        Ok(seen)
    }

    /// Reads some processes, between two readings of all.
    pub fn read_these(&mut self, pids: impl Iterator<Item = u32>, now_ticks: u64) -> Seen {
        let mut seen = Seen::default();
        self.processes.clear();
        for pid in pids {
            match self.process(pid, now_ticks) {
                Ok(process) if process.times.is_kernel_thread => seen.kernel_threads += 1,
                Ok(process) => self.processes.push(process),
                Err(Lacking::Gone) => seen.vanished += 1,
                Err(Lacking::Garbled) => seen.garbled += 1,
            }
        }
        seen.processes = self.processes.len();
        seen
    }

    /// What the threads that live did, and how many are busy.
    fn threads(&mut self, pid: u32, times: &Times) -> (Option<Io>, Option<u64>) {
        if times.threads == 1 {
            self.set_path(pid, "task/");
            let _ = write!(self.path, "{pid}/io");
            let io = self.reader.once(&self.path).ok().and_then(parse_io);
            return (io, Some(is_busy(times.state).into()));
        }
        if times.threads > THREADS_MAX {
            return (None, None);
        }
        self.set_path(pid, "task");
        let mut threads = Vec::new();
        let listed = self.reader.names(&self.path, |name| threads.extend(number(name)));
        if listed.is_err() {
            return (None, None);
        }
        let (mut io, mut busy) = (Some(Io::default()), 0);
        for thread in threads {
            match self.thread(pid, thread) {
                Ok((state, own)) => {
                    busy += u64::from(is_busy(state));
                    io = io.zip(own).and_then(|(sum, own)| sum.plus(&own));
                }
                // One that has ended meanwhile is neither.
                Err(Errno::NOENT | Errno::SRCH) => {}
                Err(_) => return (None, None),
            }
        }
        (io, Some(busy))
    }

    fn thread(&mut self, pid: u32, thread: u64) -> Result<(u8, Option<Io>), Errno> {
        self.set_path(pid, "task/");
        let _ = write!(self.path, "{thread}/stat");
        let state = state(self.reader.once(&self.path)?).unwrap_or(b'?');
        self.path.truncate(self.path.len() - b"stat".len());
        self.path.extend(b"io");
        let io = match self.reader.once(&self.path) {
            Ok(text) => parse_io(text),
            Err(Errno::NOENT | Errno::SRCH) => Some(Io::default()),
            Err(_) => None,
        };
        Ok((state, io))
    }

    fn process(&mut self, pid: u32, now_ticks: u64) -> Result<Process, Lacking> {
        let times = parse_stat(self.file(pid, "stat").map_err(|_| Lacking::Gone)?).ok_or(Lacking::Garbled)?;
        let mut process = Process {
            pid,
            times,
            memory: None,
            io: None,
            busy: None,
            status: None,
            cgroup: None,
            exe: None,
            ticks_since: None,
        };
        if times.is_kernel_thread {
            return Ok(process);
        }
        let page = self.page;
        process.memory = self.file(pid, "statm").ok().and_then(|text| parse_statm(text, page));
        (process.io, process.busy) = self.threads(pid, &times);
        self.remember(&mut process, now_ticks);
        Ok(process)
    }

    /// Fills in what seldom changes, from memory or from `/proc`.
    fn remember(&mut self, process: &mut Process, now_ticks: u64) {
        let (pid, times) = (process.pid, process.times);
        let known = self.known.remove(&pid).filter(|known| known.start_ticks == times.start_ticks);
        let faults = times.minor_faults.saturating_add(times.major_faults);
        let resident = process.memory.map(|memory| memory.resident);
        let is_young = now_ticks.saturating_sub(times.start_ticks) < YOUNG_TICKS;
        let mut next = match known {
            Some(known) => {
                process.ticks_since = times.ticks().checked_sub(known.ticks);
                let is_stale = is_young || known.comm != times.comm || self.round >= known.refresh;
                let has_run =
                    known.ticks != times.ticks() || known.faults != faults || known.resident != resident;
                let mut known = known;
                if is_stale {
                    self.look(pid, &mut known);
                }
                if is_stale || has_run {
                    known.status = self.file(pid, "status").ok().map(parse_status);
                }
                known
            }
            None => {
                let mut known = Known {
                    start_ticks: times.start_ticks,
                    comm: times.comm,
                    ticks: 0,
                    faults: 0,
                    resident,
                    round: 0,
                    // Not all of them in the same reading.
                    refresh: self.round + 1 + u64::from(pid) % REFRESH,
                    cgroup: None,
                    exe: None,
                    status: None,
                };
                self.look(pid, &mut known);
                known.status = self.file(pid, "status").ok().map(parse_status);
                known
            }
        };
        if self.round >= next.refresh {
            next.refresh = self.round + REFRESH;
        }
        (next.comm, next.ticks, next.faults) = (times.comm, times.ticks(), faults);
        (next.resident, next.round) = (resident, self.round);
        process.status = next.status;
        process.cgroup.clone_from(&next.cgroup);
        process.exe.clone_from(&next.exe);
        self.known.insert(pid, next);
    }

    fn look(&mut self, pid: u32, known: &mut Known) {
        known.cgroup = self.file(pid, "cgroup").ok().map(<[u8]>::to_vec).map(|text| self.shared(text));
        self.set_path(pid, "exe");
        known.exe = self.reader.link(&self.path).ok().map(|path| self.shared(path));
    }

    /// Processes of a job have the same groups and often the same program: one text for all.
    fn shared(&mut self, text: Vec<u8>) -> Arc<[u8]> {
        if let Some(known) = self.texts.get(text.as_slice()) {
            return known.clone();
        }
        let text: Arc<[u8]> = text.into();
        self.texts.insert(text.clone());
        text
    }

    fn set_path(&mut self, pid: u32, name: &str) {
        self.path.clear();
        // Writing into memory cannot fail.
        let _ = write!(self.path, "{pid}/{name}");
    }

    fn file(&mut self, pid: u32, name: &str) -> Result<&[u8], Errno> {
        self.set_path(pid, name);
        self.reader.once(&self.path)
    }
}

/// Why a process is not in a reading.
enum Lacking {
    Gone,
    Garbled,
}

/// Whether a process or thread in this state runs, could run, or waits for a disk.
pub fn is_busy(state: u8) -> bool {
    matches!(state, b'R' | b'D')
}

/// The state in `/proc/PID/stat`.
fn state(text: &[u8]) -> Option<u8> {
    let close = text.iter().rposition(|byte| *byte == b')')?;
    words(text.get(close + 1..)?).next()?.first().copied()
}

/// `pid (comm) S ppid …`; the name may hold anything, so fields are counted from its last parenthesis.
pub fn parse_stat(text: &[u8]) -> Option<Times> {
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let name = text.get(open + 1..close)?;
    let mut comm = [0; 16];
    comm.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
    let mut fields = words(text.get(close + 1..)?);
    let state = *fields.next()?.first()?;
    // Numbered as in proc(5), in which the state is the third.
    let mut next = 4;
    let mut field = |n: usize| {
        let word = fields.nth(n.checked_sub(next)?);
        next = n + 1;
        number(word?)
    };
    Some(Times {
        comm,
        state,
        ppid: u32::try_from(field(4)?).ok()?,
        session: u32::try_from(field(6)?).ok()?,
        is_kernel_thread: field(9)? & KERNEL_THREAD != 0,
        minor_faults: field(10)?,
        major_faults: field(12)?,
        user_ticks: field(14)?,
        system_ticks: field(15)?,
        children_user_ticks: field(16)?,
        children_system_ticks: field(17)?,
        threads: u32::try_from(field(20)?).ok()?,
        start_ticks: field(22)?,
    })
}

/// `size resident shared text lib data dt`, in pages.
pub fn parse_statm(text: &[u8], page: u64) -> Option<Memory> {
    let mut pages = words(text).map(number);
    let mut next = || pages.next()??.checked_mul(page);
    Some(Memory { virtual_bytes: next()?, resident: next()?, shared: next()? })
}

/// `rchar: 1` and its like.
pub fn parse_io(text: &[u8]) -> Option<Io> {
    let value = |name: &[u8]| lines(text).find_map(|line| number(line.strip_prefix(name)?));
    Some(Io {
        read_chars: value(b"rchar: ")?,
        written_chars: value(b"wchar: ")?,
        read_bytes: value(b"read_bytes: ")?,
        written_bytes: value(b"write_bytes: ")?,
    })
}

/// `Name:\tvalue` lines.
pub fn parse_status(text: &[u8]) -> Status {
    let mut status = Status::default();
    for line in lines(text) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.split_at(colon);
        let mut values = words(value.get(1..).unwrap_or_default());
        let mut first = || values.next().and_then(number);
        let kib = |value: Option<u64>| value?.checked_mul(1024);
        match name {
            b"Uid" => status.uid = first().and_then(|uid| u32::try_from(uid).ok()),
            b"VmSwap" => status.swap = kib(first()),
            b"RssFile" => status.file = kib(first()),
            b"RssShmem" => status.shared_memory = kib(first()),
            b"voluntary_ctxt_switches" => status.voluntary_switches = first(),
            b"nonvoluntary_ctxt_switches" => status.involuntary_switches = first(),
            b"Cpus_allowed" => status.processors = values.next().and_then(count_bits),
            _ => {}
        }
    }
    status
}

/// The bits set in a mask such as `ff,ffffffff`.
fn count_bits(mask: &[u8]) -> Option<u32> {
    mask.iter()
        .filter(|byte| **byte != b',')
        .try_fold(0, |sum, byte| Some(sum + char::from(*byte).to_digit(16)?.count_ones()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::path::Path;

    const STAT: &str = "S 7 12 13 0 -1 4194304 21 0 3 0 55 66 5 6 20 0 1 0 987 0 0";

    fn process(root: &Path, pid: u32, comm: &str, rest: &str) {
        let dir = root.join(pid.to_string());
        fs::create_dir_all(dir.join(format!("task/{pid}"))).unwrap();
        let io = format!("task/{pid}/io");
        let files = [
            ("stat", format!("{pid} ({comm}) {rest}")),
            ("statm", "100 50 20 1 0 30 0\n".into()),
            (
                io.as_str(),
                "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 0\n"
                    .into(),
            ),
            ("status", "Name:\tx\nUid:\t1000\t0\t0\t0\nVmSwap:\t  3 kB\nCpus_allowed:\tff,0000000f\n".into()),
            ("cgroup", "0::/a\n".into()),
        ];
        for (name, content) in files {
            fs::write(dir.join(name), content).unwrap();
        }
        let _ = std::os::unix::fs::symlink("/bin/x", dir.join("exe"));
    }

    #[test]
    fn a_process_is_read_whole() {
        let tree = tempfile::tempdir().unwrap();
        process(tree.path(), 12, "a) S 1 (\n", STAT);
        let mut processes = Processes::new(tree.path());
        processes.page = 4096;
        let seen = processes.read(1_000_000).unwrap();
        assert_eq!(seen, Seen { processes: 1, ..Seen::default() });
        let one = &processes.processes[0];
        assert_eq!(one.times.name(), b"a) S 1 (\n");
        assert_eq!((one.pid, one.times.state, one.times.ppid, one.times.session), (12, b'S', 7, 13));
        assert_eq!((one.times.user_ticks, one.times.system_ticks), (55, 66));
        assert_eq!((one.times.children_user_ticks, one.times.children_system_ticks), (5, 6));
        assert_eq!((one.times.minor_faults, one.times.major_faults), (21, 3));
        assert_eq!((one.times.threads, one.times.start_ticks), (1, 987));
        let memory = Memory { virtual_bytes: 409_600, resident: 204_800, shared: 81_920 };
        assert_eq!(one.memory, Some(memory));
        let io = Io { read_chars: 1, written_chars: 2, read_bytes: 5, written_bytes: 6 };
        assert_eq!(one.io, Some(io));
        let status = one.status.unwrap();
        assert_eq!((status.uid, status.swap, status.processors), (Some(1000), Some(3072), Some(12)));
        assert_eq!(status.voluntary_switches, None);
        assert_eq!(one.cgroup.as_deref(), Some(&b"0::/a\n"[..]));
        assert_eq!(one.exe.as_deref(), Some(&b"/bin/x"[..]));
        assert_eq!(one.ticks_since, None);
    }

    /// How often files are read is what the pass costs.
    #[test]
    fn what_seldom_changes_is_not_read_again() {
        let tree = tempfile::tempdir().unwrap();
        process(tree.path(), 10, "idle", STAT);
        let mut processes = Processes::new(tree.path());
        let mut calls = |now| {
            let before = processes.calls();
            processes.read(now).unwrap();
            processes.calls() - before
        };
        let listing = 4;
        // Five files of three calls, and a link.
        assert_eq!(calls(1_000_000), listing + 16);
        // Due again after the next one, by its pid.
        let second = calls(1_000_000);
        assert_eq!(second, listing + 16);
        for _ in 0..REFRESH - 1 {
            assert_eq!(calls(1_000_000), listing + 9);
        }
        assert_eq!(calls(1_000_000), listing + 16);
        // It has run.
        process(tree.path(), 10, "idle", &STAT.replace("55 66", "56 66"));
        assert_eq!(calls(1_000_000), listing + 12);
        // It is another program, or a young process.
        process(tree.path(), 10, "other", &STAT.replace("55 66", "56 66"));
        assert_eq!(calls(1_000_000), listing + 16);
        assert_eq!(calls(1000), listing + 16);
    }

    #[test]
    fn a_pid_that_is_used_again_is_another_process() {
        let tree = tempfile::tempdir().unwrap();
        process(tree.path(), 10, "old", STAT);
        let mut processes = Processes::new(tree.path());
        processes.read(1_000_000).unwrap();
        fs::write(tree.path().join("10/cgroup"), "0::/b\n").unwrap();
        process(tree.path(), 10, "old", &STAT.replace("55 66", "70 70"));
        fs::write(tree.path().join("10/cgroup"), "0::/b\n").unwrap();
        processes.read(1_000_000).unwrap();
        assert_eq!(processes.processes[0].ticks_since, Some(140 - 121));
        process(tree.path(), 10, "old", &STAT.replace("987", "988"));
        fs::write(tree.path().join("10/cgroup"), "0::/c\n").unwrap();
        processes.read(1_000_000).unwrap();
        assert_eq!(processes.processes[0].ticks_since, None);
        assert_eq!(processes.processes[0].cgroup.as_deref(), Some(&b"0::/c\n"[..]));
    }

    #[test]
    fn what_vanishes_or_is_garbled_is_counted() {
        let tree = tempfile::tempdir().unwrap();
        process(tree.path(), 1, "ok", STAT);
        process(tree.path(), 2, "kernel", &STAT.replace("4194304", "2097152"));
        process(tree.path(), 3, "short", "S 1");
        fs::create_dir(tree.path().join("4")).unwrap();
        fs::create_dir(tree.path().join("self")).unwrap();
        process(tree.path(), 5, "no io", STAT);
        fs::remove_file(tree.path().join("5/task/5/io")).unwrap();
        let mut processes = Processes::new(tree.path());
        let seen = processes.read(1_000_000).unwrap();
        assert_eq!(seen, Seen { processes: 2, kernel_threads: 1, vanished: 1, garbled: 1 });
        let without_io = processes.processes.iter().find(|process| process.pid == 5).unwrap();
        assert!(without_io.io.is_none() && without_io.memory.is_some());
    }

    #[test]
    fn this_process_is_there() {
        let mut processes = Processes::default();
        processes.read(0).unwrap();
        let me = processes.processes.iter().find(|process| process.pid == std::process::id()).unwrap();
        assert!(me.memory.unwrap().resident > 0 && me.status.unwrap().processors.unwrap() > 0);
        let exe = std::env::current_exe().unwrap().into_os_string().into_encoded_bytes();
        assert_eq!(me.exe.as_deref(), Some(exe.as_slice()));
    }

    #[test]
    fn threads_are_summed() {
        let tree = tempfile::tempdir().unwrap();
        process(tree.path(), 7, "many", &STAT.replace(" 20 0 1 0 ", " 20 0 5 0 "));
        for (thread, state) in [(7, 'R'), (8, 'S'), (9, 'D'), (10, 'I')] {
            let dir = tree.path().join(format!("7/task/{thread}"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("stat"), format!("{thread} (R) R) {state} 1 2")).unwrap();
            fs::write(dir.join("io"), "rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 4\n").unwrap();
        }
        // One that ends while it is read.
        fs::create_dir_all(tree.path().join("7/task/11")).unwrap();
        let mut processes = Processes::new(tree.path());
        processes.read(1_000_000).unwrap();
        let one = &processes.processes[0];
        let io = Io { read_chars: 4, written_chars: 8, read_bytes: 12, written_bytes: 16 };
        assert_eq!((one.busy, one.io), (Some(2), Some(io)));
        fs::write(tree.path().join("7/task/8/io"), "garbled").unwrap();
        processes.read(1_000_000).unwrap();
        assert_eq!((processes.processes[0].busy, processes.processes[0].io), (Some(2), None));
    }

    /// What a child did that was waited for is in its parent's `/proc/PID/io`, and would be counted twice.
    #[test]
    fn a_childs_bytes_are_not_its_parents() {
        let mut parent = std::process::Command::new("sh")
            .args(["-c", "head -c 3000000 /dev/zero > /dev/null; read line"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut processes = Processes::default();
        let own = |processes: &mut Processes| {
            processes.read(0).unwrap();
            processes
                .processes
                .iter()
                .find(|process| process.pid == parent.id())
                .and_then(|process| process.io)
        };
        let with_children = || {
            let text = fs::read(format!("/proc/{}/io", parent.id())).ok()?;
            Some(parse_io(&text)?.read_chars)
        };
        testkit::wait_until("the child's bytes", || with_children().is_none_or(|chars| chars >= 3_000_000));
        let found = own(&mut processes);
        drop(parent.stdin.take());
        parent.wait().unwrap();
        assert!(found.is_some_and(|io| io.read_chars < 1_000_000), "{found:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_stat(&bytes);
            let _ = parse_statm(&bytes, 4096);
            let _ = parse_io(&bytes);
            let _ = parse_status(&bytes);
        }
    }
}
