//! The constructor: one message that says which program has begun.

use core::cell::UnsafeCell;

use record::rules::{RULES_MAX, Redactor, Rules};
use record::wire::{self, MESSAGE_MAX, Sink, Writer, is_identifying, key, kind, reason};

use crate::agent::{self, Agent};
use crate::arguments::{ARGV_MAX, Arguments};
use crate::environment::{Environment, Wishes};
use crate::late;
use crate::objects::{self, NOTES_BYTES};
use crate::process::Identity;
use crate::sys;

const PATH_MAX: usize = 4096;
/// Arguments and variables leave this much of the message to the objects: 200 of them.
const OBJECTS_RESERVE: usize = 24 * 1024;
/// What the end of the message needs.
const END: usize = 16;
/// A longer value is not kept.
const VALUE_MAX: usize = 8 * 1024;

/// What is read and kept on the way to the message, one behind the other: rules and the program's path; and
/// behind them, one after the other, arguments, notes and a directory, each gone when the next is read.
const SCRATCH: usize = RULES_MAX + PATH_MAX + ARGV_MAX;
const _: () = assert!(ARGV_MAX >= NOTES_BYTES && ARGV_MAX >= PATH_MAX);

/// Buffers in `.bss`: pages that are not touched do not exist, each that is costs the program a fault, and the
/// program's stack is left alone.
struct Workspace {
    scratch: [u8; SCRATCH],
    message: [u8; MESSAGE_MAX],
}

struct Shared(UnsafeCell<Workspace>);

// SAFETY: used by the constructor only, which runs once, on one thread, before the program.
unsafe impl Sync for Shared {}

static WORKSPACE: Shared =
    Shared(UnsafeCell::new(Workspace { scratch: [0; SCRATCH], message: [0; MESSAGE_MAX] }));

/// What has not been used of the scratch space.
struct Scratch<'a>(&'a mut [u8]);

impl<'a> Scratch<'a> {
    /// Lets `read` fill up to `max` bytes, and keeps what it has read.
    fn read(
        &mut self,
        max: usize,
        read: impl for<'r> FnOnce(&'r mut [u8]) -> Option<&'r [u8]>,
    ) -> Option<&'a [u8]> {
        let all = core::mem::take(&mut self.0);
        let used = read(all.get_mut(..max)?).map(<[u8]>::len);
        let (kept, rest) = all.split_at_mut_checked(used.unwrap_or(0))?;
        self.0 = rest;
        used.map(|_| &*kept)
    }
}

/// The constructor.
pub extern "C" fn begin() {
    // SAFETY: see `Shared`.
    let workspace = unsafe { &mut *WORKSPACE.0.get() };
    let _ = report(workspace);
}

/// Every `None` on this way means that the program runs unreported by us; the agent sees it through the
/// kernel and counts why the guest was silent.
fn report(workspace: &mut Workspace) -> Option<()> {
    let Workspace { scratch, message } = workspace;
    let mut scratch = Scratch(scratch);
    let environment = Environment::of_this_process()?;
    let wishes = Wishes::read(environment);
    if wishes.off {
        return None;
    }
    let identity = Identity::unless_filtered()?;
    let mut table = None;
    let read_rules = |path: &[u8]| {
        table = scratch.read(RULES_MAX, |buf| agent::read_rules(path, &identity, buf));
        table.is_some()
    };
    let agent = Agent::find(wishes.socket, &identity, read_rules)?;
    let rules = match table.and_then(Rules::new) {
        Some(rules) => rules,
        None => Rules::builtin(),
    };
    let exe = scratch.read(PATH_MAX, |buf| sys::readlink(c"/proc/self/exe", buf).ok()).unwrap_or(&[]);

    let mut out = Writer::new(message);
    out.open_map();
    put(&mut out, key::VERSION, wire::VERSION);
    let time = sys::monotonic().ok()?;
    put(&mut out, key::TIME, time);
    if let Some(reason) = suppressed(&rules, &identity, exe) {
        put(&mut out, key::KIND, kind::SUPPRESSED);
        put(&mut out, key::REASON, reason);
        out.end();
        agent.send(&identity, out.written(), None);
        return None;
    }
    put(&mut out, key::KIND, kind::START);
    write_usage(&mut out);
    out.uint(key::EXE);
    out.bytes(exe);
    write_arguments(&mut out, rules, environment, scratch.0);
    write_environment(&mut out, rules, environment);
    let baseline = objects::write(exe, scratch.0, &mut out);
    write_directory(&mut out, scratch.0);
    out.end();
    let late = baseline.and_then(|baseline| late::prepare(time, baseline));
    agent.send(&identity, out.written(), late.as_ref());
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

fn suppressed(rules: &Rules, identity: &Identity, exe: &[u8]) -> Option<u64> {
    if rules.skips_exe(exe) {
        Some(reason::EXE)
    } else if rules.skips_uid(identity.uid()) {
        Some(reason::UID)
    } else {
        None
    }
}

/// What the process used before this image began, so that the agent can charge each image with its own.
fn write_usage(out: &mut Writer) {
    let Ok(usage) = sys::usage() else { return };
    out.uint(key::USAGE);
    out.array(5);
    for value in [usage.user_us(), usage.system_us(), usage.peak_kib(), usage.blocks_in(), usage.blocks_out()]
    {
        out.uint(value);
    }
}

fn write_directory(out: &mut Writer, room: &mut [u8]) {
    let Some(Ok(directory)) = room.get_mut(..PATH_MAX).map(sys::getcwd) else { return };
    fits(out, END, |out| {
        out.uint(key::CWD);
        out.bytes(directory);
    });
}

fn write_arguments(out: &mut Writer, rules: Rules, environment: Environment, room: &mut [u8]) {
    let Some(arguments) = Arguments::find(environment, room) else { return };
    // What hides secrets in the arguments depends on the program, which the first one names.
    let mut redactor = None;
    let mut all_fit = true;
    out.uint(key::ARGV);
    out.open_array();
    let cut = arguments.each(|argument| {
        let redactor = redactor.get_or_insert_with(|| Redactor::new(rules, argument));
        all_fit &= fits(out, OBJECTS_RESERVE, |out| {
            let start = out.open_bytes();
            redactor.arg(argument, out);
            out.close_bytes(start);
        });
    });
    out.end();
    if cut || !all_fit {
        put(out, key::ARGV_CUT, 1);
    }
}

fn write_environment(out: &mut Writer, rules: Rules, environment: Environment) {
    let mut cut = 0u64;
    let redactor = Redactor::new(rules, b"");
    out.uint(key::ENV);
    out.open_array();
    for variable in environment.variables() {
        let name = variable.name();
        if (rules.keeps_variable(name) || is_identifying(name))
            && !write_variable(out, name, variable.value(), &redactor)
        {
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
            redactor.variable(name, value, out);
            out.close_bytes(start);
        })
}
