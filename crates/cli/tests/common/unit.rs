//! Runs an agent with the capabilities, limits and control groups of the unit file that is shipped.
//!
//! The file itself is read, so a test cannot run with more than the unit gives. Not applied, since they need a service
//! manager: the file system sandbox (`Protect*`, `ReadWritePaths`), devices, address families, namespaces and the system
//! call filter. All of them only take rights away.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Node, root, wait_until};

/// The settings of the unit.
pub struct Unit(Vec<(String, String)>);

impl Unit {
    pub fn shipped() -> Unit {
        let text = fs::read(root().join("packaging/jobglass-agent.service")).unwrap();
        let text = String::from_utf8(text).unwrap();
        let settings =
            text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
        Unit(settings.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect())
    }

    fn get(&self, key: &str) -> &str {
        let found = self.0.iter().rev().find(|(name, _)| name == key);
        found.unwrap_or_else(|| panic!("the unit has no {key}")).1.as_str()
    }

    fn number(&self, key: &str) -> u64 {
        self.get(key).parse().unwrap_or_else(|_| panic!("{key} is no number"))
    }

    /// Without the prefix: `net_admin`.
    pub fn capabilities(&self) -> Vec<String> {
        let names = self.get("CapabilityBoundingSet").split_whitespace();
        names.map(|name| name.strip_prefix("CAP_").unwrap().to_lowercase()).collect()
    }

    pub fn memory_max(&self) -> u64 {
        let text = self.get("MemoryMax");
        let (number, unit) = text.split_at(text.len() - 1);
        let unit = match unit {
            "K" => 1 << 10,
            "M" => 1 << 20,
            "G" => 1 << 30,
            _ => panic!("MemoryMax={text}"),
        };
        number.parse::<u64>().unwrap() * unit
    }

    pub fn tasks_max(&self) -> u64 {
        self.number("TasksMax")
    }

    /// Fewer where even root may not raise its own limit, as in some containers.
    pub fn descriptors(&self) -> u64 {
        let own = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        self.number("LimitNOFILE").min(own.unwrap_or(u64::MAX))
    }

    /// In thousandths of a processor.
    fn cpu_quota(&self) -> u64 {
        let percent: u64 = self.get("CPUQuota").trim_end_matches('%').parse().unwrap();
        percent * 10
    }

    /// The command that the agent's own is appended to. It executes it, so the process stays the same.
    fn launcher(&self, groups: &Groups) -> Vec<String> {
        let enter: String =
            groups.dirs.iter().map(|dir| format!("echo $$ >{}/cgroup.procs && ", dir.display())).collect();
        let script = format!("umask {} && {enter} exec \"$@\"", self.get("UMask"));
        let no_new_privileges = (self.get("NoNewPrivileges") == "yes").then(|| "--no-new-privs".to_owned());
        let kept: String = self.capabilities().iter().map(|name| format!(",+{name}")).collect();
        let files = self.descriptors();
        let words = ["sh", "-c", &script, "sh", "nice", "-n", self.get("Nice"), "prlimit"];
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        words.extend([format!("--nofile={files}:{files}"), "setpriv".into(), "--inh-caps=-all".into()]);
        words.extend(no_new_privileges);
        words.push(format!("--bounding-set=-all{kept}"));
        words
    }
}

/// The control groups of one agent, of either version; removed with it.
pub struct Groups {
    dirs: Vec<PathBuf>,
    memory: PathBuf,
    is_v2: bool,
}

impl Groups {
    fn new(unit: &Unit) -> Groups {
        let root = Path::new("/sys/fs/cgroup");
        // The groups of the agent before may still be there.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("jobglass-unit-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let is_v2 = root.join("cgroup.controllers").exists();
        let dir_of = |controller: &str| {
            let dir = if is_v2 { root.join(&name) } else { root.join(controller).join(&name) };
            fs::create_dir_all(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
            dir
        };
        if is_v2 {
            fs::write(root.join("cgroup.subtree_control"), "+memory +pids +cpu").unwrap();
        }
        let [memory, pids, cpu] = ["memory", "pids", "cpu"].map(dir_of);
        let dirs = if is_v2 { vec![memory.clone()] } else { vec![memory.clone(), pids.clone(), cpu.clone()] };
        let (period, quota) = (100_000, unit.cpu_quota() * 100);
        let set = |dir: &Path, file: &str, value: String| {
            fs::write(dir.join(file), value).unwrap_or_else(|error| panic!("{file}: {error}"));
        };
        set(&pids, "pids.max", unit.tasks_max().to_string());
        if is_v2 {
            set(&memory, "memory.max", unit.memory_max().to_string());
            set(&cpu, "cpu.max", format!("{quota} {period}"));
        } else {
            set(&memory, "memory.limit_in_bytes", unit.memory_max().to_string());
            set(&cpu, "cpu.cfs_period_us", period.to_string());
            set(&cpu, "cpu.cfs_quota_us", quota.to_string());
        }
        Groups { dirs, memory, is_v2 }
    }

    fn read(&self, v1: &str, v2: &str) -> String {
        let file = self.memory.join(if self.is_v2 { v2 } else { v1 });
        String::from_utf8(fs::read(file).unwrap()).unwrap()
    }

    /// The limit that holds.
    pub fn memory_limit(&self) -> u64 {
        self.read("memory.limit_in_bytes", "memory.max").trim().parse().unwrap()
    }

    /// How often the kernel has killed in this group because the limit was reached.
    pub fn oom_kills(&self) -> u64 {
        let text = self.read("memory.oom_control", "memory.events");
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")).unwrap().parse().unwrap()
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // A group is busy for a moment after its last process has ended.
        let dirs = &self.dirs;
        wait_until("the agent's control groups", || {
            dirs.iter().all(|dir| fs::remove_dir(dir).is_ok() || !dir.exists())
        });
    }
}

/// A node whose agent runs as under the unit. The agent ends before its groups.
pub struct Confined {
    pub node: Node,
    pub groups: Groups,
}

impl Confined {
    pub fn start(config: &str) -> Confined {
        let unit = Unit::shipped();
        let mut node = Node::prepared(config);
        let groups = Groups::new(&unit);
        node.launcher = unit.launcher(&groups);
        node.start_agent();
        Confined { node, groups }
    }
}
