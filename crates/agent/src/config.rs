//! The agent's configuration: a TOML file in which every key has a default and an unknown key is an error.
//!
//! `packaging/agent.toml` shows every key with its default; a test keeps the two equal.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use record::rules::{RuleError, RuleSet, Section, defaults};
use sample::gpu::Setup;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::files::HashLimits;
use crate::fold::FoldRules;
use crate::limits::parse_cpus;
use crate::receive::{Names, Rate};
use crate::sampling::{Cadence, Collector, Counting};
use crate::ship::enroll::Enrollment;
use crate::ship::{ShipOptions, Target};
use crate::spool::SpoolLimits;
use crate::waits::Waits;

/// Where the file is unless a flag says otherwise.
pub const DEFAULT_PATH: &str = "/etc/jobglass/agent.toml";

/// What the file says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Off switches the agent and every guest off within a minute; running jobs do not notice.
    pub enabled: bool,
    /// While this file exists, everything is off, too.
    pub off_file: PathBuf,
    /// The cluster's name in every record; empty takes Slurm's word for it.
    pub cluster: String,
    /// This host's name in every record; empty takes the kernel's.
    pub host: String,
    /// Where guests find the agent: a path, or an abstract name beginning with `@`.
    pub socket: String,
    /// The abstract name for guests in containers; empty for none.
    pub container_socket: String,
    /// A user's messages per second, and at once; more are refused and counted.
    pub messages_per_second: u64,
    pub messages_burst: u64,
    /// A program that has run for so long is reported while it runs; 0 reports none before its end.
    pub running_after_seconds: f64,
    pub spool: Spool,
    pub server: Server,
    pub fold: Fold,
    pub files: Files,
    pub sampling: Sampling,
    pub limits: Limits,
    pub privacy: Privacy,
}

/// `[spool]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spool {
    pub dir: PathBuf,
    /// New records are refused, and counted, while the spool holds this much.
    pub max_mib: u64,
    pub segment_kib: u64,
    pub segment_seconds: u64,
}

/// `[server]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Where records are sent, for example `https://jobglass.example:8765`; empty keeps them in the spool.
    pub url: String,
    /// The token with which this host may send.
    pub token_file: PathBuf,
    /// A token with which the agent gets one of its own where there is no `token_file`; empty for none.
    pub enroll_token_file: PathBuf,
    /// Certificates that vouch for the server; empty for those of Mozilla's list.
    pub ca_file: PathBuf,
    /// Records are sent this often, each host at its own moment.
    pub flush_seconds: f64,
}

/// `[fold]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fold {
    pub system_paths: Vec<String>,
    pub interpreters: Vec<String>,
    /// Longer runs keep their own row.
    pub short_seconds: f64,
    /// A row is written when nothing was added for this long, or when it is this old.
    pub idle_seconds: f64,
    pub age_seconds: f64,
}

/// `[files]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Files {
    /// Larger files are not hashed.
    pub max_mib: u64,
    pub mib_per_second: u64,
}

/// `[sampling]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    pub enabled: bool,
    /// The node and all jobs are read this often.
    pub every_seconds: f64,
    /// In its first seconds a job is read more often, so that short jobs have data.
    pub first_seconds: f64,
    pub first_every_seconds: f64,
    /// A job may ask for a finer rate (`JOBGLASS_RATE=5s`), but for none finer than this.
    pub least_every_seconds: f64,
    pub counters: Counting,
    /// NVIDIA's library; empty leaves it to the loader to find it.
    pub nvml: PathBuf,
}

/// `[limits]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub nice: i32,
    /// `auto`: the processors Slurm keeps for the system, if it does; `all`; or a list such as `0-1`.
    pub cpus: String,
    /// Guests whose shared memory is held open; one user has at most half of them.
    pub guests: usize,
    /// What users' processes and messages may take in memory, in all; one user has at most half of it.
    pub memory_mib: usize,
}

/// `[privacy]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Privacy {
    /// Names of variables that are kept; a trailing `*` stands for any ending.
    pub keep_variables: Vec<String>,
    /// Words that make an option's or variable's name a secret's; here and in the next two `...` stands for the built-in
    /// list.
    pub secret_words: Vec<String>,
    /// Beginnings of well-known tokens.
    pub token_prefixes: Vec<String>,
    /// What is secret in one program only, as [`defaults::OPTION`] describes it.
    pub secret_options: Vec<String>,
    /// Programs that are not recorded at all, by path; a trailing `*` stands for any ending.
    pub skip_programs: Vec<String>,
    /// Users that are not recorded at all.
    pub skip_uids: Vec<u32>,
}

/// Stands for the built-in list: most sites only add to it.
const BUILT_IN: &str = "...";

fn expanded(list: &[String], built_in: &[&str]) -> Vec<String> {
    let expand = |rule: &String| if rule == BUILT_IN { own(built_in) } else { vec![rule.clone()] };
    list.iter().flat_map(expand).collect()
}

fn own(list: &[&str]) -> Vec<String> {
    list.iter().map(|item| (*item).to_owned()).collect()
}

impl Default for Config {
    fn default() -> Self {
        Config {
            enabled: true,
            off_file: "/etc/jobglass/off".into(),
            cluster: String::new(),
            host: String::new(),
            socket: "/run/jobglass/agent.sock".into(),
            container_socket: "@jobglass".into(),
            messages_per_second: 20_000,
            messages_burst: 40_000,
            running_after_seconds: 60.0,
            spool: Spool::default(),
            server: Server::default(),
            fold: Fold::default(),
            files: Files::default(),
            sampling: Sampling::default(),
            limits: Limits::default(),
            privacy: Privacy::default(),
        }
    }
}

impl Default for Spool {
    fn default() -> Self {
        Spool { dir: "/var/spool/jobglass".into(), max_mib: 1024, segment_kib: 1024, segment_seconds: 60 }
    }
}

impl Default for Server {
    fn default() -> Self {
        Server {
            url: String::new(),
            token_file: "/etc/jobglass/agent.token".into(),
            enroll_token_file: PathBuf::new(),
            ca_file: PathBuf::new(),
            flush_seconds: 3.0,
        }
    }
}

impl Default for Fold {
    fn default() -> Self {
        Fold {
            system_paths: own(&["/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/"]),
            interpreters: own(&[
                "python", "perl", "ruby", "R", "Rscript", "julia", "java", "node", "lua", "octave", "matlab",
                "php", "tclsh", "guile",
            ]),
            short_seconds: 10.0,
            idle_seconds: 1.0,
            age_seconds: 30.0,
        }
    }
}

impl Default for Files {
    fn default() -> Self {
        Files { max_mib: 1024, mib_per_second: 50 }
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            enabled: true,
            every_seconds: 60.0,
            first_seconds: 30.0,
            first_every_seconds: 5.0,
            least_every_seconds: 1.0,
            counters: Counting::default(),
            nvml: PathBuf::new(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits { nice: 0, cpus: "auto".into(), guests: 16_384, memory_mib: 96 }
    }
}

impl Default for Privacy {
    fn default() -> Self {
        Privacy {
            keep_variables: own(defaults::ENV),
            secret_words: own(&[BUILT_IN]),
            token_prefixes: own(&[BUILT_IN]),
            secret_options: own(&[BUILT_IN]),
            skip_programs: own(defaults::SKIP_EXE),
            skip_uids: Vec::new(),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}:{line}: {message}: {text}", path.display())]
    Parse { path: PathBuf, line: usize, message: String, text: String },
    #[error("{}: {message}", path.display())]
    Value { path: PathBuf, message: String },
}

impl Config {
    /// Reads a file. Without a name the default one is read if it exists.
    pub fn read(path: Option<&Path>) -> Result<Config, ConfigError> {
        let is_default = path.is_none();
        let path = path.unwrap_or(Path::new(DEFAULT_PATH));
        match fs::read(path) {
            Ok(bytes) => Config::parse(path, &bytes),
            Err(error) if is_default && error.kind() == io::ErrorKind::NotFound => Ok(Config::default()),
            Err(source) => Err(ConfigError::Read { path: path.to_owned(), source }),
        }
    }

    /// Parses a file's content; errors name the line and its text.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Config, ConfigError> {
        let text = String::from_utf8_lossy(bytes);
        let config: Config = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text[..at].matches('\n').count() + 1;
            let shown = text.lines().nth(line - 1).unwrap_or("").trim().to_owned();
            let message = error.message().replace('\n', ", ");
            ConfigError::Parse { path: path.to_owned(), line, message, text: shown }
        })?;
        config.check().map_err(|message| ConfigError::Value { path: path.to_owned(), message })?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        let cpus = self.limits.cpus.as_str();
        if cpus != "auto" && cpus != "all" && parse_cpus(cpus).is_none() {
            return Err(format!("limits.cpus = `{cpus}` is not `auto`, `all` or a list such as `0-1`"));
        }
        let after = self.running_after_seconds;
        if !(0.0..=86_400.0).contains(&after) {
            return Err(format!("running_after_seconds = {after} is not between 0 and 86400"));
        }
        for (name, value) in [
            ("short_seconds", self.fold.short_seconds),
            ("idle_seconds", self.fold.idle_seconds),
            ("age_seconds", self.fold.age_seconds),
        ] {
            if !(0.0..=86_400.0).contains(&value) {
                return Err(format!("fold.{name} = {value} is not between 0 and 86400"));
            }
        }
        for (name, value, least) in [
            ("every_seconds", self.sampling.every_seconds, 0.1),
            ("first_seconds", self.sampling.first_seconds, 0.0),
            ("first_every_seconds", self.sampling.first_every_seconds, 0.1),
            ("least_every_seconds", self.sampling.least_every_seconds, 0.1),
        ] {
            if !(least..=86_400.0).contains(&value) {
                return Err(format!("sampling.{name} = {value} is not between {least} and 86400"));
            }
        }
        let flush = self.server.flush_seconds;
        if !(0.1..=3600.0).contains(&flush) {
            return Err(format!("server.flush_seconds = {flush} is not between 0.1 and 3600"));
        }
        let url = &self.server.url;
        if !url.is_empty() && !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(format!("server.url = `{url}` does not begin with http:// or https://"));
        }
        if self.socket.len() > 90 {
            return Err(format!("socket = `{}` is longer than 90 bytes", self.socket));
        }
        self.rules().map(|_| ()).map_err(|error| format!("privacy: {error}"))
    }

    /// The rules, packed for the guests.
    pub fn rules(&self) -> Result<Vec<u8>, RuleError> {
        let mut rules = RuleSet::default();
        let privacy = &self.privacy;
        rules.set(Section::Env, privacy.keep_variables.clone());
        rules.set(Section::Secret, expanded(&privacy.secret_words, defaults::SECRET));
        rules.set(Section::Token, expanded(&privacy.token_prefixes, defaults::TOKEN));
        rules.set(Section::Option, expanded(&privacy.secret_options, defaults::OPTION));
        rules.set(Section::SkipExe, privacy.skip_programs.clone());
        rules.set(Section::SkipUid, privacy.skip_uids.iter().map(u32::to_string).collect());
        rules.pack()
    }

    pub fn names(&self) -> Names {
        let container = Some(self.container_socket.clone()).filter(|name| !name.is_empty());
        Names { main: self.socket.clone(), container }
    }

    pub fn rate(&self) -> Rate {
        Rate { per_second: self.messages_per_second, burst: self.messages_burst }
    }

    /// Where and how to ship; `None` if records stay in the spool.
    pub fn ship(&self, host: &str) -> Option<ShipOptions> {
        let Server { url, token_file, enroll_token_file, ca_file, flush_seconds } = self.server.clone();
        let named = |path: PathBuf| Some(path).filter(|path| !path.as_os_str().is_empty());
        let enrollment = named(enroll_token_file).map(|file| Enrollment {
            file,
            dir: self.spool.dir.clone(),
            host: host.to_owned(),
        });
        (!url.is_empty()).then(|| ShipOptions {
            dir: self.spool.dir.clone(),
            host: host.to_owned(),
            target: Target { url, token_file, ca_file: named(ca_file), enrollment },
            interval: Duration::from_secs_f64(flush_seconds),
        })
    }

    pub fn spool_limits(&self) -> SpoolLimits {
        SpoolLimits {
            max_bytes: self.spool.max_mib.saturating_mul(1 << 20),
            segment_bytes: self.spool.segment_kib.saturating_mul(1 << 10),
            segment_age: Duration::from_secs(self.spool.segment_seconds),
        }
    }

    pub fn hash_limits(&self) -> HashLimits {
        HashLimits {
            max_bytes: self.files.max_mib.saturating_mul(1 << 20),
            bytes_per_second: self.files.mib_per_second.saturating_mul(1 << 20),
        }
    }

    pub fn cadence(&self) -> Cadence {
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        Cadence {
            every: ns(self.sampling.every_seconds),
            young: ns(self.sampling.first_seconds),
            young_every: ns(self.sampling.first_every_seconds),
            least: ns(self.sampling.least_every_seconds),
        }
    }

    /// How long a program runs until it is reported, in nanoseconds; `None` for never.
    pub fn running_after(&self) -> Option<u64> {
        Some((self.running_after_seconds * 1e9) as u64).filter(|after| *after > 0)
    }

    /// The readers of this node.
    pub fn collector(&self, clock: Clock, waits: Waits) -> Collector {
        let mut setup = Setup::default();
        if !self.sampling.nvml.as_os_str().is_empty() {
            setup.nvml = self.sampling.nvml.clone();
        }
        Collector::new(clock, waits, self.sampling.counters, setup)
    }

    pub fn fold_rules(&self) -> FoldRules {
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        FoldRules {
            system_paths: self.fold.system_paths.clone(),
            interpreters: self.fold.interpreters.clone(),
            short_ns: ns(self.fold.short_seconds),
            idle_ns: ns(self.fold.idle_seconds),
            age_ns: ns(self.fold.age_seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::rules::{Deep, Rules};

    #[test]
    fn errors_name_file_line_and_text() {
        for (text, expected) in [
            ("cluster = \"a\"\nclutser = \"b\"\n", "x.toml:2: unknown field `clutser`"),
            ("[spool]\nmax_mib = \"many\"\n", "x.toml:2: invalid type: string \"many\""),
            ("[fold\n", "x.toml:1: "),
            ("[limits]\ncpus = \"few\"\n", "x.toml: limits.cpus = `few`"),
            ("running_after_seconds = -1\n", "x.toml: running_after_seconds = -1"),
            ("[fold]\nidle_seconds = -1\n", "x.toml: fold.idle_seconds = -1"),
            ("[privacy]\nkeep_variables = [\"\"]\n", "x.toml: privacy: rule ``"),
        ] {
            let error = Config::parse(Path::new("x.toml"), text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let error = Config::parse(Path::new("x.toml"), b"clutser = \"b\"").unwrap_err().to_string();
        assert!(error.ends_with("clutser = \"b\""), "{error}");
    }

    #[test]
    fn the_shipped_file_shows_the_defaults() {
        let shipped = include_bytes!("../../../packaging/agent.toml");
        assert_eq!(Config::parse(Path::new("agent.toml"), shipped).unwrap(), Config::default());
        let text = String::from_utf8_lossy(shipped);
        for key in
            ["enabled", "off_file", "cluster", "host", "socket", "container_socket", "running_after_seconds"]
        {
            assert!(text.contains(&format!("\n{key} = ")), "{key} is not shown");
        }
    }

    #[test]
    fn dots_stand_for_the_built_in_rules() {
        let rules =
            |text: &str| Config::parse(Path::new("x.toml"), text.as_bytes()).unwrap().rules().unwrap();
        assert_eq!(rules(""), defaults::TABLE);
        let line = b"a --geheimnis x --password y";
        let redacted = |text: &str| Deep::new(Rules::new(&rules(text)).unwrap()).text(line);
        let (added, replaced) = (r#"["...", "geheimnis"]"#, r#"["geheimnis"]"#);
        let privacy = |words: &str| redacted(&format!("[privacy]\nsecret_words = {words}\n"));
        assert_eq!(privacy(added), b"a --geheimnis *** --password ***");
        assert_eq!(privacy(replaced), b"a --geheimnis *** --password y");
    }

    #[test]
    fn a_missing_default_file_is_no_error() {
        assert!(Config::read(Some(Path::new("/nonexistent/agent.toml"))).is_err());
    }
}
