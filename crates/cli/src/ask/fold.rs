//! Which programs of a job are the shell's and the module system's own: short ones that ended well are shown as one line.
//!
//! Which programs these are is data (`rules/shell-programs.toml`). A user's program, one that failed, and one that took long is never among
//! them, nor is one below which any of these ran.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::show::seconds_of;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    short_seconds: f64,
    shells: Vec<String>,
    directories: Vec<String>,
    programs: Vec<String>,
    module_system: ModuleSystem,
    batch_system: BatchSystem,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModuleSystem {
    programs: Vec<String>,
    interpreters: Vec<String>,
    /// Parts of the path of the script.
    scripts: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchSystem {
    programs: Vec<String>,
}

/// A file with a mistake has no programs: a test reads it.
static RULES: LazyLock<Option<Rules>> =
    LazyLock::new(|| toml::from_str(include_str!("../../rules/shell-programs.toml")).ok());

/// What a process is, by its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Shell,
    /// A copy that a shell has forked of itself.
    Subshell,
    /// One of those that shells start on their own.
    Program,
    ModuleSystem,
    BatchSystem,
    Other,
}

impl Rules {
    fn kind(&self, process: &Value) -> Kind {
        let exe = process["exe"].as_str().unwrap_or_default();
        let name = exe.rsplit('/').next().unwrap_or(exe);
        let is_in = |list: &[String], name: &str| list.iter().any(|known| known == name);
        if is_in(&self.batch_system.programs, name) {
            return Kind::BatchSystem;
        }
        if is_in(&self.shells, name) {
            return if process["forked_from"].is_null() { Kind::Shell } else { Kind::Subshell };
        }
        if self.module_system.is(process, name) {
            return Kind::ModuleSystem;
        }
        let directory = &exe[..exe.len() - name.len()];
        if is_in(&self.directories, directory) && is_in(&self.programs, name) {
            return Kind::Program;
        }
        Kind::Other
    }

    /// Whether it was short and did what it should, as far as is known. One that has become another program leaves that to it.
    fn went_well(&self, process: &Value) -> bool {
        let count = process["count"].as_u64().unwrap_or(1);
        let is_well = match process["ended_by"].as_str() {
            Some("exit") => process["exit_code"] == 0,
            Some("exec") => true,
            _ => false,
        };
        let cpu =
            process["user_cpu_s"].as_f64().unwrap_or(0.0) + process["system_cpu_s"].as_f64().unwrap_or(0.0);
        // Several in one row are known together: from the beginning of the first to the end of the last.
        let is_short = count > 1 || seconds_of(process).is_some_and(|seconds| seconds <= self.short_seconds);
        is_well && is_short && cpu <= self.short_seconds * count as f64
    }
}

impl ModuleSystem {
    fn is(&self, process: &Value, name: &str) -> bool {
        // Interpreters have their versions in their names: lua5.3, tclsh8.6.
        let language = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '_'));
        let runs_script = || {
            let arguments =
                process["argv"].as_array().into_iter().flatten().skip(1).filter_map(Value::as_str);
            let script =
                arguments.into_iter().find(|argument| !argument.starts_with('-')).unwrap_or_default();
            self.scripts.iter().any(|part| script.contains(part.as_str()))
        };
        self.programs.iter().any(|known| known == name)
            || self.interpreters.iter().any(|known| known == language) && runs_script()
    }
}

/// For each process whether it is folded; `parents` are their places in the list, before their children's.
pub fn folded(processes: &[Value], parents: &[Option<usize>]) -> Vec<bool> {
    let Some(rules) = &*RULES else { return vec![false; processes.len()] };
    let kinds = kinds(rules, processes);
    let shells = Shells::of(processes, &kinds);
    let mut folded = vec![false; processes.len()];
    for (at, process) in processes.iter().enumerate() {
        let above = parents[at].map(|parent| (kinds[parent], folded[parent]));
        // Where rows stand for several processes, the parents of most of their children have no rows.
        let is_below_shell = match above {
            None => shells.has_run_at(process),
            Some((above, _)) => matches!(above, Kind::Shell | Kind::Subshell),
        };
        let is_below_modules = matches!(above, Some((Kind::ModuleSystem, true)));
        let is_own = match kinds[at] {
            Kind::BatchSystem => true,
            Kind::Program => {
                is_below_shell || matches!(above, Some((Kind::Program | Kind::ModuleSystem, true)))
            }
            Kind::Subshell | Kind::ModuleSystem => is_below_shell || is_below_modules,
            Kind::Shell => is_below_modules,
            Kind::Other => false,
        };
        folded[at] = is_own && rules.went_well(process);
    }
    // Whoever has something to show below is shown.
    for at in (0..processes.len()).rev() {
        if let (false, Some(parent)) = (folded[at], parents[at]) {
            folded[parent] = false;
        }
    }
    folded
}

/// What each process is. The arguments of a short one may be unknown: of an interpreter that is the module system's elsewhere in the job,
/// nothing else is supposed.
fn kinds(rules: &Rules, processes: &[Value]) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = processes.iter().map(|process| rules.kind(process)).collect();
    let of_modules: HashSet<&str> = processes
        .iter()
        .zip(&kinds)
        .filter(|(_, kind)| **kind == Kind::ModuleSystem)
        .filter_map(|(process, _)| process["exe"].as_str())
        .collect();
    for (process, kind) in processes.iter().zip(&mut kinds) {
        let is_known = !process["argv"].is_null();
        if !is_known && process["exe"].as_str().is_some_and(|exe| of_modules.contains(exe)) {
            *kind = Kind::ModuleSystem;
        }
    }
    kinds
}

/// From when to when shells ran, by host and step. Times are texts that sort.
struct Shells<'a>(HashMap<(&'a str, &'a str), (&'a str, Option<&'a str>)>);

impl<'a> Shells<'a> {
    fn of(processes: &'a [Value], kinds: &[Kind]) -> Shells<'a> {
        let mut shells: HashMap<_, (&str, Option<&str>)> = HashMap::new();
        for (process, _) in processes.iter().zip(kinds).filter(|(_, kind)| **kind == Kind::Shell) {
            let Some(start) = process["start"].as_str() else { continue };
            let end = process["end"].as_str();
            let (first, last) = shells.entry(place(process)).or_insert((start, end));
            *first = (*first).min(start);
            // One that runs has no end.
            *last = last.zip(end).map(|(one, other)| one.max(other));
        }
        Shells(shells)
    }

    fn has_run_at(&self, process: &Value) -> bool {
        let (Some((first, last)), Some(start)) = (self.0.get(&place(process)), process["start"].as_str())
        else {
            return false;
        };
        *first <= start && last.is_none_or(|last| start <= last)
    }
}

fn place(process: &Value) -> (&str, &str) {
    (process["host"].as_str().unwrap_or_default(), process["step"].as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_data_can_be_read() {
        let rules = RULES.as_ref().expect("rules/shell-programs.toml");
        assert!(rules.programs.is_sorted(), "{:?}", rules.programs);
        assert!(rules.directories.iter().all(|path| path.starts_with('/') && path.ends_with('/')));
    }

    /// A process that took so many seconds and ended with this code.
    fn process(exe: &str, argv: &[&str], seconds: u32, code: u32) -> Value {
        json!({"exe": exe, "argv": argv, "count": 1, "ended_by": "exit", "exit_code": code, "forked_from": null,
            "user_cpu_s": 0.001, "system_cpu_s": 0.001,
            "start": "2026-01-01T00:00:00Z", "end": format!("2026-01-01T00:00:{seconds:02}Z")})
    }

    fn subshell(seconds: u32) -> Value {
        let mut process = process("/usr/bin/bash", &["bash"], seconds, 0);
        process["forked_from"] = json!({"pid": 1});
        process
    }

    #[test]
    fn only_short_programs_of_the_shell_that_ended_well_are_folded() {
        let bash = || process("/usr/bin/bash", &["-bash"], 50, 0);
        let lua =
            |script: &str| process("/opt/lua/bin/lua5.3", &["lua", script, "bash", "load", "gcc"], 0, 0);
        let lmod = "/usr/share/lmod/lmod/libexec/lmod";
        let running = json!({"exe": "/usr/bin/sed", "count": 1, "ended_by": null, "start": "2026-01-01T00:00:00Z", "end": null});
        let busy = json!({"exe": "/usr/bin/sed", "count": 2, "ended_by": "exit", "exit_code": 0, "user_cpu_s": 9.0, "system_cpu_s": 0.0});
        for (what, other, expected) in [
            ("one of the shell's", process("/usr/bin/tput", &["tput", "cols"], 0, 0), true),
            ("a user's of that name", process("/home/ann/bin/tput", &["tput"], 0, 0), false),
            ("another one", process("/usr/bin/cp", &["cp"], 0, 0), false),
            ("one that failed", process("/usr/bin/tput", &["tput"], 0, 1), false),
            ("one that took long", process("/usr/bin/sed", &["sed"], 7, 0), false),
            ("one that runs", running, false),
            ("some that computed", busy, false),
            ("a subshell", subshell(0), true),
            ("a long subshell", subshell(30), false),
            ("a script's shell", process("/usr/bin/bash", &["bash", "x.sh"], 0, 0), false),
            ("the module system", lua(lmod), true),
            ("a user's script", lua("/home/ann/solve.lua"), false),
            (
                "the other module system",
                process("/usr/bin/tclsh8.6", &["tclsh8.6", "/usr/share/Modules/libexec/modulecmd.tcl"], 0, 0),
                true,
            ),
        ] {
            assert_eq!(folded(&[bash(), other], &[None, Some(0)]), [false, expected], "{what}");
        }
        // A step's program is no shell's.
        let alone = process("/usr/bin/hostname", &["hostname"], 0, 0);
        assert_eq!(folded(std::slice::from_ref(&alone), &[None]), [false]);
        let helper = || process("/opt/slurm/sbin/slurmstepd", &[], 0, 0);
        assert_eq!(
            folded(&[helper(), helper(), alone.clone()], &[None, None, Some(1)]),
            [true, false, false]
        );
        // Its parent may have no row of its own: then a shell of the same step has started it, if there was one.
        assert_eq!(folded(&[bash(), alone.clone(), subshell(0)], &[None; 3]), [false, true, true]);
        // Arguments that are not known are the module system's, if that is seen.
        let mut short = lua(lmod);
        short["argv"] = Value::Null;
        let two = |other: Value| folded(&[bash(), short.clone(), other], &[None, Some(0), Some(0)])[1];
        assert_eq!((two(lua(lmod)), two(lua("/home/ann/solve.lua"))), (true, false));
        // What the module system starts is its own; a user's program in a subshell is not, and shows its subshell.
        let shell = process("/usr/bin/dash", &["sh", "-c", "uname"], 0, 0);
        let all = [
            bash(),
            lua(lmod),
            shell,
            alone.clone(),
            subshell(0),
            alone,
            process("/home/ann/a.out", &["a.out"], 0, 0),
        ];
        let parents = [None, Some(0), Some(1), Some(2), Some(0), Some(4), Some(4)];
        assert_eq!(folded(&all, &parents), [false, true, true, true, false, true, false]);
    }
}
