//! The spool: who writes it, how full it is, how old its end is, and whether it is whole.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

use agent::clock::wall_ns;
use agent::spool::{Damage, Reader, lock, segments};
use agent::state;
use record::entry::{Entry, Health};

use super::agent::Listener;
use super::report::Check;
use super::{Node, counted};

/// The agent reports its health every minute; this long without a word is not chance.
const SILENT_NS: u64 = 180_000_000_000;
/// Share of its limit at which a spool is nearly full.
const NEARLY_FULL: f64 = 0.9;

/// What a spool holds, as far as it matters here.
pub enum Content {
    Read(Box<Read>),
    /// Why not, in words.
    Unreadable(String),
}

#[derive(Default)]
pub struct Read {
    pub entries: u64,
    /// The number behind the last entry.
    pub next_number: u64,
    /// The latest time in any entry.
    pub newest: Option<u64>,
    pub health: Option<Health>,
    pub damages: Vec<Damage>,
    pub bytes: u64,
}

impl Content {
    pub fn read(dir: &Path) -> Content {
        match Read::all(dir) {
            Ok(read) => Content::Read(Box::new(read)),
            Err(why) => Content::Unreadable(why),
        }
    }

    /// The agent's last word about itself, or why there is none.
    pub fn health(&self) -> Result<&Health, String> {
        match self {
            Content::Unreadable(why) => Err(why.clone()),
            Content::Read(read) => {
                read.health.as_ref().ok_or_else(|| "the spool holds no report of an agent's health".into())
            }
        }
    }
}

impl Read {
    fn all(dir: &Path) -> Result<Read, String> {
        let cannot = |error: io::Error| match error.kind() {
            ErrorKind::NotFound => format!("there is no {}", dir.display()),
            ErrorKind::PermissionDenied => {
                format!("you may not read {} (root may)", dir.display())
            }
            _ => format!("{}: {error}", dir.display()),
        };
        let files = segments(dir).map_err(cannot)?;
        // A directory may be open to all while its segments are not.
        for file in &files {
            match File::open(&file.path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(cannot(error)),
                _ => {}
            }
        }
        let mut read = Read { bytes: files.iter().map(|file| size(&file.path)).sum(), ..Read::default() };
        let mut reader = Reader::open(dir).map_err(|error| error.to_string())?;
        reader.by_ref().for_each(|item| read.take(item));
        match reader.error() {
            Some(error) => Err(error.to_string()),
            None => Ok(read),
        }
    }

    fn take(&mut self, item: Result<(u64, Entry), Damage>) {
        let (number, entry) = match item {
            Ok(numbered) => numbered,
            Err(damage) => return self.damages.push(damage),
        };
        self.entries += 1;
        self.next_number = number + 1;
        let time = match &entry {
            Entry::Image(image) => image.end.or(image.running_at).or(Some(image.start)),
            Entry::Gap(gap) => Some(gap.to),
            Entry::Health(health) => Some(health.time),
            Entry::Reading(reading) => Some(reading.time),
            Entry::File(_) | Entry::Objects(_) => None,
        };
        self.newest = self.newest.max(time);
        if let Entry::Health(health) = entry {
            self.health = Some(health);
        }
    }
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

pub fn check(node: &Node, content: &Content, listener: Option<&Listener>) -> Vec<Check> {
    let dir = &node.config.spool.dir;
    let mut checks = vec![writer(dir, listener)];
    if dir.exists() {
        checks.push(disk(dir));
        checks.extend(set_aside(dir));
    }
    if let Content::Read(read) = content {
        checks.extend([fill(node, read), age(read, dir), damage(read)]);
    } else if let Content::Unreadable(why) = content {
        checks.push(Check::skip("spool", why.clone()));
    }
    checks
}

/// Whoever writes a spool holds its lock.
fn writer(dir: &Path, listener: Option<&Listener>) -> Check {
    const NAME: &str = "spool-writer";
    let place = dir.display();
    match File::open(dir.join("lock")) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Check::skip(NAME, format!("you may not look whether an agent writes to {place} (root may)"))
        }
        Err(_) if listener.is_none() => {
            Check::skip(NAME, format!("no agent has written to {place} yet; it makes the directory itself"))
        }
        Ok(_) if lock::is_held(dir) => Check::ok(NAME, format!("an agent writes to {place}")),
        Ok(_) if listener.is_none() => {
            Check::skip(NAME, format!("no agent runs, and none writes to {place}"))
        }
        _ => Check::warn(
            NAME,
            format!("an agent listens, but none writes to {place}"),
            "it writes to another spool: name it with --spool, or give the agent's --config",
        ),
    }
}

fn disk(dir: &Path) -> Check {
    const NAME: &str = "spool-disk";
    match rustix::fs::statvfs(dir) {
        Err(error) => Check::skip(NAME, format!("{}: {}", dir.display(), io::Error::from(error))),
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let finding = format!("{} free on the disk of {}", mib(free), dir.display());
            // Room for the current segment and the files beside it.
            if free < 16 << 20 {
                let advice = "make room: records are refused, and counted, while the disk is full";
                return Check::fail(NAME, finding, advice);
            }
            Check::ok(NAME, finding)
        }
    }
}

/// Says what an agent found damaged when it started.
fn set_aside(dir: &Path) -> Option<Check> {
    let files = state::set_aside_before(dir);
    let names: Vec<_> = files.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    let finding = format!(
        "{} set aside: {}",
        counted(names.len() as u64, "damaged file", "damaged files"),
        names.join(", ")
    );
    let advice = "check the disk and the agent's log; remove them when nobody needs them any more";
    (!names.is_empty()).then(|| Check::warn("spool-state", finding, advice))
}

fn fill(node: &Node, read: &Read) -> Check {
    const NAME: &str = "spool";
    let limit = node.config.spool_limits().max_bytes;
    let finding =
        format!("{} in {} of {}", counted(read.entries, "entry", "entries"), mib(read.bytes), mib(limit));
    let share = read.bytes as f64 / limit.max(1) as f64;
    // The last frame that did not fit leaves a little room.
    if read.bytes + (64 << 10) > limit {
        let advice = "new records are refused, and counted: move old segments away, or raise \
                      spool.max_mib";
        return Check::fail(NAME, format!("full: {finding}"), advice);
    }
    if share > NEARLY_FULL {
        return Check::warn(
            NAME,
            format!("nearly full: {finding}"),
            "raise spool.max_mib, or move old segments away",
        );
    }
    Check::ok(NAME, finding)
}

fn age(read: &Read, dir: &Path) -> Check {
    const NAME: &str = "spool-age";
    let Some(newest) = read.newest else { return Check::skip(NAME, "the spool is empty") };
    let age = wall_ns().saturating_sub(newest);
    let finding = format!("the newest entry is {} old", seconds(age));
    if age > SILENT_NS && lock::is_held(dir) {
        let advice =
            "an agent writes at least every minute: it hangs, or its spool or disk is full; see its log";
        return Check::fail(NAME, finding, advice);
    }
    Check::ok(NAME, finding)
}

fn damage(read: &Read) -> Check {
    const NAME: &str = "spool-damage";
    let [first, rest @ ..] = &read.damages[..] else {
        return Check::ok(NAME, "none: all checksums and numbers hold");
    };
    let more = if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) };
    let finding = format!("{first}{more}");
    if read.damages.iter().all(|damage| matches!(damage, Damage::Unclosed { .. })) {
        return Check::warn(
            NAME,
            finding,
            "an agent was killed; the next one closes the segment when it starts",
        );
    }
    let advice = "the rest can be read (jobglass spool read names every damage); check the disk";
    Check::fail(NAME, finding, advice)
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn seconds(ns: u64) -> String {
    let s = ns / 1_000_000_000;
    match s {
        0..=119 => format!("{s} s"),
        120..=7199 => format!("{} min", s / 60),
        _ => format!("{} h", s / 3600),
    }
}
