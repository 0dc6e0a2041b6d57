//! The constructor: one message that says which program has begun.

use core::cell::UnsafeCell;

use record::rules::{Redactor, RULES_MAX, Rules};
use record::wire::{self, IDENTIFYING, MESSAGE_MAX, Sink, Writer, key, kind, reason};

use crate::agent::Agent;
use crate::environment::{Environment, Wishes};
use crate::late;
use crate::objects::Objects;
use crate::process::{self, Status};
use crate::sys;

const PATH_MAX: usize = 4096;
/// Arguments are kept up to this many bytes in all.
const ARGV_MAX: usize = 16 * 1024;
/// Arguments and variables leave this much of the message to the objects: 200 of them.
const OBJECTS_RESERVE: usize = 24 * 1024;
/// What the end of the message needs.
const END: usize = 16;
/// A longer value is not kept.
const VALUE_MAX: usize = 8 * 1024;

/// Buffers in `.bss`: pages that are not touched do not exist, and the program's stack is left alone.
struct Workspace {
    status: [u8; PATH_MAX],
    path: [u8; PATH_MAX],
    arguments: [u8; ARGV_MAX],
    rules: [u8; RULES_MAX],
    message: [u8; MESSAGE_MAX],
    objects: Objects,
}

struct Shared(UnsafeCell<Workspace>);

// SAFETY: used by the constructor only, which runs once, on one thread, before the program.
unsafe impl Sync for Shared {}

static WORKSPACE: Shared = Shared(UnsafeCell::new(Workspace {
    status: [0; PATH_MAX],
    path: [0; PATH_MAX],
    arguments: [0; ARGV_MAX],
    rules: [0; RULES_MAX],
    message: [0; MESSAGE_MAX],
    objects: Objects::new(),
}));

/// The constructor.
pub extern "C" fn begin() {
    // SAFETY: see `Shared`.
    let workspace = unsafe { &mut *WORKSPACE.0.get() };
    let _ = report(workspace);
}

/// Every `None` on this way means that the program runs unreported by us; the agent sees it through the
/// kernel and counts why the guest was silent.
fn report(workspace: &mut Workspace) -> Option<()> {
    let Workspace { status, path, arguments, rules, message, objects } = workspace;
    let environment = Environment::of_this_process()?;
    let wishes = Wishes::read(environment);
    if wishes.off {
        return None;
    }
    let status = process::status(status)?;
    // A filter that came with the process may kill on any call; see docs/guest.md.
    if status.filtered {
        return None;
    }
    let (agent, rules) = Agent::find(wishes.socket, status.uid, rules)?;
    let rules = match rules {
        Some(rules) => rules,
        None => Rules::builtin(),
    };
    let exe = sys::readlink(c"/proc/self/exe", path).unwrap_or(&[]);

    let mut out = Writer::new(message);
    out.open_map();
    put(&mut out, key::VERSION, wire::VERSION);
    put(&mut out, key::TIME, sys::monotonic().ok()?);
    if let Some(reason) = suppressed(&rules, &status, exe) {
        put(&mut out, key::KIND, kind::SUPPRESSED);
        put(&mut out, key::REASON, reason);
        out.end();
        agent.send(status.uid, out.written(), None);
        return None;
    }
    put(&mut out, key::KIND, kind::START);
    write_usage(&mut out, &status);
    write_exe(&mut out, exe);
    write_arguments(&mut out, rules, arguments);
    write_environment(&mut out, rules, environment);
    let baseline = objects.walk();
    objects.write(status.pid, exe, &mut out);
    write_directory(&mut out, path);
    out.end();
    let late = baseline.and_then(late::prepare);
    agent.send(status.uid, out.written(), late.as_ref());
    None
}

fn put(out: &mut Writer, key: u64, value: u64) {
    out.uint(key);
    out.uint(value);
}

/// Writes an item, or nothing of it if it would leave less than `reserve` for what follows; says which.
fn fits(out: &mut Writer, reserve: usize, write: impl FnOnce(&mut Writer)) -> bool {
    let mark = out.mark();
    write(out);
    let fits = !out.is_full() && out.room() >= reserve;
    if !fits {
        out.back_to(mark);
    }
    fits
}

fn suppressed(rules: &Rules, status: &Status, exe: &[u8]) -> Option<u64> {
    if rules.skips_exe(exe) {
        Some(reason::EXE)
    } else if rules.skips_uid(status.uid) {
        Some(reason::UID)
    } else {
        None
    }
}

/// What the process used before this image began, so that the agent can charge each image with its own.
fn write_usage(out: &mut Writer, status: &Status) {
    let Ok(usage) = sys::usage() else { return };
    out.uint(key::USAGE);
    out.array(5);
    for value in
        [usage.user_us(), usage.system_us(), usage.peak_kib(), usage.blocks_in(), usage.blocks_out()]
    {
        out.uint(value);
    }
    if let Some(peak) = status.peak_kib {
        put(out, key::PEAK_NOW, peak);
    }
}

fn write_exe(out: &mut Writer, exe: &[u8]) {
    out.uint(key::EXE);
    out.bytes(exe);
    let Ok(stat) = sys::stat(c"/proc/self/exe") else { return };
    let (seconds, nanoseconds) = stat.mtime();
    out.uint(key::EXE_STAT);
    out.array(6);
    for value in [stat.dev(), stat.inode(), stat.size(), seconds, nanoseconds, stat.links()] {
        out.uint(value);
    }
}

fn write_directory(out: &mut Writer, path: &mut [u8]) {
    let Ok(directory) = sys::getcwd(path) else { return };
    fits(out, END, |out| {
        out.uint(key::CWD);
        out.bytes(directory);
    });
}

fn write_arguments(out: &mut Writer, rules: Rules, buf: &mut [u8]) {
    let room = buf.len();
    let Ok(text) = sys::open(c"/proc/self/cmdline").and_then(|file| sys::read(&file, buf)) else { return };
    let mut cut = text.len() == room;
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    let program = text.split(|b| *b == 0).next().unwrap_or(&[]);
    let mut redactor = Redactor::new(rules, program);
    out.uint(key::ARGV);
    out.open_array();
    for argument in text.split(|b| *b == 0) {
        cut |= !fits(out, OBJECTS_RESERVE, |out| {
            let start = out.open_bytes();
            redactor.arg(argument, out);
            out.close_bytes(start);
        });
    }
    out.end();
    if cut {
        put(out, key::ARGV_CUT, 1);
    }
}

fn write_environment(out: &mut Writer, rules: Rules, environment: Environment) {
    let mut cut = 0u64;
    let redactor = Redactor::new(rules, b"");
    out.uint(key::IDS);
    out.open_array();
    for (name, value) in environment.variables().filter_map(split) {
        if is_identifying(name) && !write_variable(out, name, value, &redactor) {
            cut = cut.wrapping_add(1);
        }
    }
    out.end();
    out.uint(key::ENV);
    out.open_array();
    for (name, value) in environment.variables().filter_map(split) {
        if rules.keeps_variable(name) && !write_variable(out, name, value, &redactor) {
            cut = cut.wrapping_add(1);
        }
    }
    out.end();
    if cut > 0 {
        put(out, key::ENV_CUT, cut);
    }
}

fn write_variable(out: &mut Writer, name: &[u8], value: &[u8], redactor: &Redactor) -> bool {
    value.len() <= VALUE_MAX
        && fits(out, OBJECTS_RESERVE, |out| {
            let start = out.open_bytes();
            out.put(name);
            out.put(b"=");
            redactor.value(value, out);
            out.close_bytes(start);
        })
}

/// A variable's name and value.
fn split(variable: &'static [u8]) -> Option<(&'static [u8], &'static [u8])> {
    let end = variable.iter().position(|b| *b == b'=')?;
    Some((variable.get(..end)?, variable.get(end.wrapping_add(1)..)?))
}

fn is_identifying(name: &[u8]) -> bool {
    // The list's names begin with these; most variables do not.
    matches!(name.first(), Some(b'S' | b'P' | b'L' | b'O' | b'M' | b'_' | b'A' | b'C' | b'E' | b'c'))
        && IDENTIFYING.iter().any(|known| known.as_bytes() == name)
}
