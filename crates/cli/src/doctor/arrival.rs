//! From end to end: a test program with the guest, and its record in the spool.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agent::spool::Reader;
use record::entry::{Entry, Image, WithoutGuest, source};
use record::rules::Rules;

use super::agent::Listener;
use super::report::Check;
use super::spool::Content;
use super::{Node, pause, true_program};

const NAME: &str = "end-to-end";
/// A record is in the spool within a second or so of its program's end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs a program with the guest and looks for its record.
pub fn check(node: &Node, library: Option<&Path>, listener: Option<&Listener>, spool: &Content) -> Check {
    if let Some(why) = why_not(node, library, listener, spool) {
        return Check::skip(NAME, why);
    }
    let (Some(library), Content::Read(read)) = (library, spool) else {
        return Check::skip(NAME, "there is no guest or no spool");
    };
    let copy = Copy::of_true();
    let program = copy.as_ref().map_or(true_program(), |copy| &copy.program);
    if Rules::new(&node.rules()).is_some_and(|rules| rules.skips_exe(program.as_os_str().as_bytes())) {
        return Check::skip(NAME, format!("a rule of the site suppresses {}", program.display()));
    }
    let started = Instant::now();
    let pid = match run(program, library, &node.config.socket) {
        Ok(pid) => pid,
        Err(error) => return Check::skip(NAME, format!("cannot run {}: {error}", program.display())),
    };
    let found = wait_for(&node.config.spool.dir, read.next_number, pid, started);
    judge(found, program, pid, started.elapsed())
}

fn why_not(
    node: &Node,
    library: Option<&Path>,
    listener: Option<&Listener>,
    spool: &Content,
) -> Option<String> {
    let rules = node.rules();
    let uid = node.uid.to_string();
    if node.off.is_some() {
        Some("Jobglass is switched off".into())
    } else if library.is_none() {
        Some("there is no guest to run a program with".into())
    } else if listener.is_none() {
        Some("there is no agent to hear of it".into())
    } else if let Content::Unreadable(why) = spool {
        Some(format!("the record would be in the spool: {why}"))
    } else if has_seccomp_filter() {
        Some("this session is under a seccomp filter, and a guest under a filter is silent".into())
    } else if Rules::new(&rules).is_some_and(|rules| rules.skips_uid(uid.as_bytes())) {
        Some(format!("a rule of the site suppresses user {uid}"))
    } else {
        None
    }
}

/// A copy has a path of its own: unlike the system's programs it is not put into one row with others.
struct Copy {
    dir: PathBuf,
    program: PathBuf,
}

impl Copy {
    /// `None` where nothing can be executed from the temporary directory.
    fn of_true() -> Option<Copy> {
        let dir = std::env::temp_dir().join(format!("jobglass-doctor.{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&dir).ok()?;
        let copy = Copy { program: dir.join("true"), dir };
        fs::copy(true_program(), &copy.program).ok()?;
        let runs = quiet(&copy.program).env("JOBGLASS", "off").status();
        runs.is_ok_and(|status| status.success()).then_some(copy)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn quiet(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn run(program: &Path, library: &Path, socket: &str) -> io::Result<u32> {
    let socket = if socket.starts_with('@') { PathBuf::from(socket) } else { std::path::absolute(socket)? };
    let mut child = quiet(program)
        .env("LD_PRELOAD", library)
        .env("JOBGLASS_SOCKET", socket)
        .env_remove("JOBGLASS")
        .spawn()?;
    child.wait()?;
    Ok(child.id())
}

/// The newest record of that process, from the entry `from` on.
fn wait_for(dir: &Path, from: u64, pid: u32, started: Instant) -> Option<Image> {
    loop {
        let found = Reader::open_from(dir, from).ok().and_then(|reader| {
            let entries = reader.flatten().filter(|(number, _)| *number >= from);
            entries.filter_map(|(_, entry)| image_of(entry, pid)).last()
        });
        if found.is_some() || started.elapsed() >= PATIENCE {
            return found;
        }
        pause(100);
    }
}

fn image_of(entry: Entry, pid: u32) -> Option<Image> {
    let Entry::Image(image) = entry else { return None };
    // Fork and exec are two images of one process if long enough lies between them.
    let is_meant = image.key.pid == pid && image.key.exec > 0 && image.running_at.is_none();
    (is_meant || image.ranks.iter().any(|rank| rank.pid == pid)).then_some(*image)
}

fn judge(found: Option<Image>, program: &Path, pid: u32, after: Duration) -> Check {
    let Some(image) = found else {
        return Check::fail(
            NAME,
            format!(
                "no record of {} (process {pid}) came within {} s",
                program.display(),
                PATIENCE.as_secs()
            ),
            "the agent may write to another spool (--spool), or not get on: see the checks of the spool below \
             and the agent's log",
        );
    };
    if image.source & source::GUEST != 0 {
        let ms = after.as_millis();
        let from = source::names(image.source).join("+");
        return Check::ok(
            NAME,
            format!("the record of a test program was in the spool after {ms} ms ({from})"),
        );
    }
    let why = match image.without_guest {
        Some(WithoutGuest::Seccomp) => "a seccomp filter silenced the guest",
        Some(WithoutGuest::Lost) => "the guest's message did not arrive",
        Some(WithoutGuest::NotLoaded) => "the guest was not loaded",
        Some(WithoutGuest::Static) => "the program is static: no guest can enter",
        _ => "the guest was silent",
    };
    Check::fail(
        NAME,
        format!("a test program was recorded without its details: {why}"),
        "see the checks of guest, agent and queue; `strace -e trace=network` on a program with the guest shows \
         how far it comes",
    )
}

fn has_seccomp_filter() -> bool {
    let status = fs::read("/proc/self/status").unwrap_or_default();
    let mode = status.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"Seccomp:"));
    mode.is_some_and(|mode| mode.trim_ascii() != b"0")
}
