//! Which processors and GPUs jobs have on their nodes: `scontrol show job -d`, once for all jobs of which it is not known.
//!
//! Slurm forgets it minutes after a job's end, and a job that runs gets no others. So a job is asked for once it has begun,
//! and not again.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use anyhow::Result;
use import::recent::Recent;
use import::slurm::live::{self, Asked, Live};
use jiff::Timestamp;
use record::accounting::{Accounting, Placed};

use super::super::progress::Progress;
use super::super::report::Report;
use super::super::stop::Stop;
use super::command;
use super::seen::{self, Key};

/// The controller has other things to do: it keeps a job for five minutes after its end unless it was told otherwise.
const EVERY: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_secs(60);
/// So long after its end a job is still asked for.
const AFTER_END_S: i64 = 120;
/// So often a job is asked for that Slurm does not tell of, or not in a way that can be trusted.
const TRIES: u8 = 3;
/// So many jobs are remembered.
const JOBS: usize = 1 << 20;
/// So many are held at a time; the next ones have their turn later.
const HELD: usize = 20_000;

/// What is known of where jobs are.
pub struct Places {
    /// Whether clusters were named: then Slurm must be asked about each by its name.
    has_clusters: bool,
    /// How often a job was asked for; [`TRIES`] is never again.
    asked: Recent<Key, u8>,
    last: Option<Instant>,
    held: Vec<Held>,
    failed: bool,
}

/// A job that waits for its places.
struct Held {
    job: Accounting,
    is_news: bool,
}

impl Places {
    pub fn new(has_clusters: bool) -> Places {
        Places { has_clusters, asked: Recent::new(JOBS), last: None, held: Vec::new(), failed: false }
    }

    /// Whether enough time has passed since it was asked last.
    pub fn are_due(&self) -> bool {
        self.last.is_none_or(|last| last.elapsed() >= EVERY)
    }

    /// Keeps a job back if it is to be asked for; gives back what is to be sent at once.
    pub fn hold(&mut self, job: Accounting, is_news: bool) -> Option<Accounting> {
        if self.held.len() < HELD && is_placed(&job, Timestamp::now()) && self.is_wanted(&job) {
            self.held.push(Held { job, is_news });
            return None;
        }
        Some(job).filter(|_| is_news)
    }

    fn is_wanted(&mut self, job: &Accounting) -> bool {
        self.asked.get(&seen::key(job)).is_none_or(|asked| *asked < TRIES)
    }

    /// Asks for all that were held, and gives back what is to be sent of them, with what was found. That Slurm cannot be asked
    /// is no reason not to send them.
    pub fn find(&mut self, stop: &Stop, report: &mut Report, progress: &Progress) -> Vec<Accounting> {
        let mut held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return Vec::new();
        }
        let clusters: BTreeSet<Option<String>> =
            held.iter().map(|held| held.job.cluster.clone().filter(|_| self.has_clusters)).collect();
        for cluster in clusters {
            match ask(cluster.as_deref(), stop, report, progress) {
                Ok(found) => self.merge(&mut held, found, cluster.as_deref()),
                Err(error) => self.say(&error),
            }
        }
        self.last = Some(Instant::now());
        held.into_iter()
            .filter(|held| held.is_news || !held.job.placed.is_empty())
            .map(|held| held.job)
            .collect()
    }

    fn merge(&mut self, held: &mut [Held], found: Vec<Live>, cluster: Option<&str>) {
        self.failed = false;
        let found: HashMap<String, Vec<Placed>> =
            found.into_iter().map(|live| (live.job.to_string(), live.placed)).collect();
        for Held { job, .. } in held {
            if cluster.is_some() && job.cluster.as_deref() != cluster {
                continue;
            }
            let placed = job.job.as_ref().and_then(|number| found.get(number));
            let placed = placed.filter(|placed| is_same(job.node_list.as_deref(), placed));
            job.placed = placed.cloned().unwrap_or_default();
            let key = seen::key(job);
            let before = self.asked.get(&key).map_or(0, |asked| *asked);
            self.asked.insert(key, if job.placed.is_empty() { before + 1 } else { TRIES });
        }
    }

    fn say(&mut self, error: &anyhow::Error) {
        if !self.failed {
            super::say(format_args!("{error:#}; jobs come without the processors they have, until it works"));
        }
        self.failed = true;
    }
}

/// Whether Slurm can still know where a job is, or was.
fn is_placed(job: &Accounting, now: Timestamp) -> bool {
    let is_recent =
        |end: u64| i64::try_from(end / 1_000_000_000).is_ok_and(|end| now.as_second() - end < AFTER_END_S);
    job.start.is_some() && job.node_list.is_some() && job.end.is_none_or(is_recent)
}

/// Whether places are those of a job on these nodes: a job that was queued again has the same number, and others.
fn is_same(nodes: Option<&str>, placed: &[Placed]) -> bool {
    let nodes = nodes.and_then(|nodes| hostlist::expand(nodes).ok()).unwrap_or_default();
    let (nodes, hosts): (BTreeSet<&str>, BTreeSet<&str>) =
        (nodes.iter().map(String::as_str).collect(), placed.iter().map(|placed| &*placed.host).collect());
    !hosts.is_empty() && nodes == hosts
}

fn ask(cluster: Option<&str>, stop: &Stop, report: &mut Report, progress: &Progress) -> Result<Vec<Live>> {
    let mut command = command::slurm("scontrol");
    if let Some(cluster) = cluster {
        command.arg(format!("--clusters={cluster}"));
    }
    command.args(["--details", "show", "job"]);
    let answer = command::text(command, LIMIT, stop)?;
    let mut take = |problem: import::Problem<'_>| report.take(&problem, progress);
    Ok(live::read(&answer.value, "scontrol show job -d", Asked::All, &mut take))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u64) -> Accounting {
        Accounting {
            job: Some(number.to_string()),
            start: Some(1),
            node_list: Some("n[1-2]".into()),
            ..Accounting::default()
        }
    }

    fn live(job: u64, hosts: &[&str]) -> Live {
        let place =
            |host: &&str| Placed { host: (*host).into(), cpus: Some("0-3".into()), ..Placed::default() };
        Live { job, placed: hosts.iter().map(place).collect(), ..Live::default() }
    }

    #[test]
    fn only_those_that_have_begun_and_are_not_forgotten() {
        let now = Timestamp::from_second(1000).unwrap();
        let second = 1_000_000_000;
        for (job, expected) in [
            (job(1), true),
            (Accounting { end: Some(990 * second), ..job(1) }, true),
            (Accounting { end: Some(500 * second), ..job(1) }, false),
            (Accounting { start: None, ..job(1) }, false),
            (Accounting { node_list: None, ..job(1) }, false),
        ] {
            assert_eq!(is_placed(&job, now), expected, "{job:?}");
        }
    }

    #[test]
    fn a_job_is_asked_for_until_it_is_known_or_never_will_be() {
        let mut places = Places::new(false);
        assert!(places.are_due());
        assert_eq!(places.hold(Accounting::default(), false), None, "no news, and nothing to ask for");
        for round in 0..5u8 {
            let held: Vec<bool> = [1, 2, 3].map(|number| places.hold(job(number), true).is_none()).into();
            // One is known after the first round, two is on other nodes, of three nothing is told.
            assert_eq!(held, [round == 0, round < TRIES, round < TRIES], "{round}");
            let mut held = std::mem::take(&mut places.held);
            places.merge(&mut held, vec![live(1, &["n1", "n2"]), live(2, &["n1"])], None);
            let placed: Vec<usize> = held.iter().map(|held| held.job.placed.len()).collect();
            assert!(if round == 0 { placed == [2, 0, 0] } else { placed.iter().all(|count| *count == 0) });
        }
    }

    #[test]
    fn a_job_of_another_cluster_has_other_places() {
        let mut places = Places::new(true);
        let of = |cluster: &str| Accounting { cluster: Some(cluster.into()), ..job(1) };
        let mut held: Vec<Held> =
            ["a", "b"].map(|cluster| Held { job: of(cluster), is_news: true }).into_iter().collect();
        places.merge(&mut held, vec![live(1, &["n1", "n2"])], Some("b"));
        assert_eq!(held.iter().map(|held| held.job.placed.len()).collect::<Vec<_>>(), [0, 2]);
    }
}
