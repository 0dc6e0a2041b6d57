//! Reads `/proc` and `/sys` for one reading, and sorts what is found by whom it belongs to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use record::reading::{CardReading, Hardware, Values};
use sample::Node;
use sample::cgroup::{Cgroups, Groups};
use sample::gpu::Setup;
use sample::node::Remote;
use sample::processes::{Process, Processes, Seen};

use super::cards::{Cards, Given, Share};
use super::counts::{Counting, Counts};
use super::hardware;
use super::live::{Commands, Live};
use super::node::{self, Energy};
use super::remote::RemoteThread;
use crate::clock::{Clock, monotonic_ns};
use crate::job::{self, Name};
use crate::session;
use crate::table::{Account, Alive, Census, Ended, Subject};
use crate::waits::Waits;

/// The readers.
pub struct Collector {
    pub processes: Processes,
    pub cgroups: Cgroups,
    node: Node,
    energy: Energy,
    remote: Option<RemoteThread>,
    pub counts: Counts,
    pub cards: Cards,
    pub clock: Clock,
}

/// What belongs to one job or session.
#[derive(Debug, Default)]
pub struct Own {
    pub live: Live,
    pub commands: Commands,
    pub groups: Option<Groups>,
    pub is_shared: bool,
    pub pids: Vec<u32>,
    pub cards: Vec<Share>,
}

impl Default for Collector {
    fn default() -> Self {
        Collector::new(Clock::now(), Waits::default(), Counting::default(), Setup::default())
    }
}

impl Collector {
    /// Readers that go by a clock which somebody follows, and say what they wait for; `setup` says where GPUs are found.
    pub fn new(clock: Clock, waits: Waits, counting: Counting, setup: Setup) -> Collector {
        Collector {
            processes: Processes::default(),
            cgroups: Cgroups::default(),
            node: Node::default(),
            energy: Energy::default(),
            remote: RemoteThread::start(Remote::default(), waits),
            counts: Counts::new(counting),
            cards: Cards::new(setup),
            clock,
        }
    }

    /// System calls of the readers until now.
    pub fn calls(&self) -> u64 {
        self.processes.calls() + self.cgroups.calls() + self.node.calls()
    }

    /// Reads the node itself.
    pub fn read_node(&mut self) -> Values {
        let remote = self.remote.as_mut().and_then(RemoteThread::read);
        let mut values = node::values(&self.node.read(), remote.as_ref(), &mut self.energy);
        self.counts.read(&mut values);
        values
    }

    /// What the node is made of.
    pub fn read_hardware(&self) -> Hardware {
        hardware::read(self.cards.models())
    }

    /// Reads the GPUs, and gives those that are due what is theirs; what is nobody's is left over.
    pub fn read_cards(&mut self, census: &Census, accounts: &mut BTreeMap<usize, Own>) -> Vec<CardReading> {
        // Also those that are not due: whoever else is on a card makes it a shared one.
        let pids: Vec<u32> = census.live.keys().copied().collect();
        self.cards.read(&pids, monotonic_ns());
        let mut taken = BTreeSet::new();
        for (at, own) in accounts {
            let Some(account) = census.accounts.get(*at) else { continue };
            own.cards = self.cards.of_job(&given(account), &own.pids);
            taken.extend(own.cards.iter().map(|share| share.reading.card.clone()));
        }
        self.cards.others(&taken)
    }

    /// Reads all processes.
    pub fn read_all(&mut self) -> io::Result<Seen> {
        Ok(self.processes.read(self.clock.ticks_now())?)
    }

    /// Reads the processes of the accounts that are due.
    pub fn read_due(&mut self, census: &Census, due: &[bool]) -> Seen {
        let is_due = |at: usize| due.get(at).copied().unwrap_or(false);
        let pids = census.live.iter().filter(|(_, alive)| is_due(alive.account)).map(|(pid, _)| *pid);
        self.processes.read_these(pids, self.clock.ticks_now())
    }

    /// Sorts what was read by the accounts that are due.
    pub fn sort(&mut self, census: &Census, due: &[bool]) -> BTreeMap<usize, Own> {
        let is_due = |at: &usize| due.get(*at).copied().unwrap_or(false);
        let mut accounts: BTreeMap<usize, Own> =
            (0..census.accounts.len()).filter(is_due).map(|at| (at, Own::default())).collect();
        let processes = std::mem::take(&mut self.processes.processes);
        for process in &processes {
            let Some(Alive { start, account: at, ended }) = census.live.get(&process.pid) else { continue };
            let is_same = self.clock.is_same_start(*start, process.times.start_ticks);
            let (Some(own), Some(account)) = (accounts.get_mut(at), census.accounts.get(*at)) else {
                continue;
            };
            if is_same {
                own.add(process, ended, &account.subject);
            }
        }
        self.processes.processes = processes;
        accounts
    }

    /// Who the processes that were read belong to, by their control groups and terminals alone: for those who look once, and
    /// have not watched every process begin.
    pub fn survey(&self, host: &str) -> Census {
        let starts: HashMap<u32, u64> =
            self.processes.processes.iter().map(|process| (process.pid, process.times.start_ticks)).collect();
        let mut census = Census::default();
        let mut at: HashMap<Subject, usize> = HashMap::new();
        for process in &self.processes.processes {
            let subject = subject(process, &starts, host);
            let start = self.clock.from_ticks(process.times.start_ticks);
            let index = *at.entry(subject).or_insert_with_key(|subject| {
                census.accounts.push(Account::new(subject.clone(), start));
                census.accounts.len() - 1
            });
            if let Some(account) = census.accounts.get_mut(index) {
                account.meet(start, process.status.and_then(|status| status.uid));
            }
            census.live.insert(process.pid, Alive { start, account: index, ended: Ended::default() });
        }
        census
    }
}

fn subject(process: &Process, starts: &HashMap<u32, u64>, host: &str) -> Subject {
    let lines = process.cgroup.as_deref().unwrap_or_default();
    if let Some(group) = job::group(lines) {
        // Who looks once does not know what a job is called whose group has Slurm's own number.
        let (Name::Id(name) | Name::Sluid(name)) = group.name;
        return Subject { job: Some(name), node: group.node, session: None };
    }
    let leader = process.times.session;
    let session = session::from_cgroup(lines, host)
        .unwrap_or_else(|| session::named(leader, starts.get(&leader).copied(), host));
    Subject { job: None, node: None, session: Some(session) }
}

/// Numbers that the vendor's library shows may be relative; names never are.
fn given(account: &Account) -> Given {
    let mut given = Given::parse(account.given_cards.as_deref().unwrap_or_default());
    given.names.extend(Given::parse(account.visible_cards.as_deref().unwrap_or_default()).names);
    given
}

impl Own {
    fn add(&mut self, process: &Process, ended: &Ended, subject: &Subject) {
        self.pids.push(process.pid);
        self.live.add(process, ended);
        self.commands.add(process, ended);
        if self.groups.is_none()
            && let Some(lines) = &process.cgroup
        {
            let groups = Groups::parse(lines).up_to(|part| is_own_group(part, subject));
            self.groups = Some(groups).filter(|groups| !groups.is_empty());
        }
    }
}

/// Whether this component of a path is the group that holds all of a job or session.
fn is_own_group(part: &[u8], subject: &Subject) -> bool {
    match &subject.job {
        Some(job) => part.strip_prefix(b"job_") == Some(job.as_bytes()) || job::is_sluid(part),
        None => part != b"init.scope" && (part.ends_with(b".scope") || part.ends_with(b".service")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jobs_own_group_is_found_in_every_layout() {
        let job = |id: &str| Subject { job: Some(id.into()), node: None, session: None };
        for (subject, lines, expected) in [
            (
                job("5"),
                "0::/system.slice/slurmstepd.scope/job_5/step_0/user",
                "/system.slice/slurmstepd.scope/job_5",
            ),
            (
                job("5"),
                "0::/system.slice/n1_slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0",
                "/system.slice/n1_slurmstepd.scope/sEKNKTV3WPV500",
            ),
            (
                job("sEKNKTV3WPV500"),
                "0::/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0",
                "/system.slice/slurmstepd.scope/sEKNKTV3WPV500",
            ),
            (job("5"), "0::/system.slice/slurmstepd.scope/job_6/step_0", ""),
            (
                Subject { job: None, node: None, session: Some("s".into()) },
                "0::/user.slice/session-3.scope/x",
                "/user.slice/session-3.scope",
            ),
        ] {
            let groups = Groups::parse(lines.as_bytes()).up_to(|part| is_own_group(part, &subject));
            assert_eq!(groups.v2().unwrap_or_default(), expected.as_bytes(), "{lines}");
        }
    }
}
