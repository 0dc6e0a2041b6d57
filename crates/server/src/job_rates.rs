//! How often single jobs are read, where somebody asked for it: kept in a file of the data directory, told to agents with every
//! answer.
//!
//! A rate ends at its time, or when its job has ended: when no host has had the job for a while that had it before. Agents say
//! with each request which jobs they have, and only the rates of these are told them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use record::rate::{JOBS_MAX, JobRate, is_job_name};
use serde::{Deserialize, Serialize};

use crate::token_file::write_secret;

/// The file's name in the data directory.
const FILE: &str = "rates.json";
/// Jobs with a rate of their own at the same time.
pub const MOST: usize = 10_000;
/// A job is over when no host has had it for so long: between two steps it may have no process anywhere.
const OVER: SignedDuration = SignedDuration::from_mins(5);

/// A rate as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub job: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    pub every_ms: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensors: Vec<String>,
    /// The token it was set with.
    pub set_by: String,
    /// Who that was, by their own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    pub set_at: Timestamp,
    pub until: Timestamp,
}

/// Why a rate is not kept.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    #[error("{MOST} jobs have rates of their own already")]
    TooMany,
    #[error("cannot write the rates: {0}")]
    Write(#[from] io::Error),
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    rates: Vec<Kept>,
}

/// A job by name, and its cluster if one was given.
type Key = (String, Option<String>);

/// The rates of a data directory.
pub struct JobRates {
    path: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    rates: BTreeMap<Key, Kept>,
    /// Of the jobs that have rates, those that a host had.
    seen: HashMap<String, Seen>,
    /// The same by host.
    on_host: HashMap<String, HashSet<String>>,
    /// When it was last looked for what is over.
    dropped: Option<Timestamp>,
}

#[derive(Default)]
struct Seen {
    /// How many have it now.
    hosts: usize,
    /// Since when none has.
    gone: Option<Timestamp>,
}

impl JobRates {
    /// Those in `dir`. A damaged file is said and begun anew: what is in it ends within days anyway.
    pub fn open(dir: &Path) -> JobRates {
        let path = dir.join(FILE);
        let content = load(&path).unwrap_or_else(|error| {
            tracing::error!(path = %path.display(), %error, "cannot read the rates of jobs");
            Content::default()
        });
        let key = |kept: &Kept| (kept.job.clone(), kept.cluster.clone());
        let rates = content.rates.into_iter().map(|kept| (key(&kept), kept)).collect();
        JobRates { path, inner: Mutex::new(Inner { rates, ..Inner::default() }) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a rate; it is durable when this returns.
    pub fn set(&self, kept: Kept, now: Timestamp) -> Result<(), NotKept> {
        let mut inner = self.lock();
        inner.drop_old(now);
        let key = (kept.job.clone(), kept.cluster.clone());
        if inner.rates.len() >= MOST && !inner.rates.contains_key(&key) {
            return Err(NotKept::TooMany);
        }
        let before = inner.rates.insert(key.clone(), kept);
        self.save(&inner).inspect_err(|_| match before {
            Some(before) => drop(inner.rates.insert(key.clone(), before)),
            None => drop(inner.rates.remove(&key)),
        })?;
        // Whoever asks again for a job that seemed to be over knows better.
        if let Some(seen) = inner.seen.get_mut(&key.0) {
            seen.gone = None;
        }
        Ok(())
    }

    /// The rates of a job, on one cluster or on any.
    pub fn of_job(&self, job: &str, cluster: Option<&str>, now: Timestamp) -> Vec<Kept> {
        let mut inner = self.lock();
        inner.drop_old(now);
        inner.of_job(job).filter(|kept| concerns(kept, cluster)).cloned().collect()
    }

    /// Takes the rates of a job away; says how many there were.
    pub fn remove(&self, job: &str, cluster: Option<&str>, now: Timestamp) -> io::Result<usize> {
        let mut inner = self.lock();
        inner.drop_old(now);
        let meant: Vec<Kept> = inner.of_job(job).filter(|kept| concerns(kept, cluster)).cloned().collect();
        let key = |kept: &Kept| (kept.job.clone(), kept.cluster.clone());
        let removed: Vec<(Key, Kept)> =
            meant.iter().filter_map(|kept| inner.rates.remove_entry(&key(kept))).collect();
        if !removed.is_empty() {
            self.save(&inner).inspect_err(|_| inner.rates.extend(removed.clone()))?;
        }
        Ok(removed.len())
    }

    /// What a host is told that says it has these jobs.
    pub fn of_host(&self, host: &str, jobs: &str, now: Timestamp) -> Vec<JobRate> {
        let mut inner = self.lock();
        if inner.rates.is_empty() {
            return Vec::new();
        }
        let jobs: HashSet<&str> =
            jobs.get(..JOBS_MAX).unwrap_or(jobs).split(',').filter(|job| is_job_name(job)).collect();
        inner.note(host, &jobs, now);
        inner.drop_old_sometimes(now);
        let told = |kept: &Kept| JobRate {
            job: kept.job.clone(),
            cluster: kept.cluster.clone(),
            every_ms: kept.every_ms,
            sensors: kept.sensors.clone(),
            left_ms: u64::try_from(kept.until.duration_since(now).as_millis()).unwrap_or(0),
        };
        let of_job =
            |job: &&str| inner.of_job(job).filter(|kept| kept.until > now).map(told).collect::<Vec<_>>();
        jobs.iter().flat_map(of_job).collect()
    }

    fn save(&self, inner: &Inner) -> io::Result<()> {
        let content = Content { rates: inner.rates.values().cloned().collect() };
        write_secret(&self.path, &serde_json::to_string_pretty(&content)?)
    }
}

/// Without a cluster, all are meant.
fn concerns(kept: &Kept, cluster: Option<&str>) -> bool {
    cluster.is_none() || kept.cluster.as_deref() == cluster
}

impl Inner {
    fn of_job(&self, job: &str) -> impl Iterator<Item = &Kept> {
        let of_job = self.rates.range((job.to_owned(), None)..);
        of_job.map(|(_, kept)| kept).take_while(move |kept| kept.job == job)
    }

    /// Notes which jobs a host has, of those with rates. Hosts speak often: only what concerns this one is looked at.
    fn note(&mut self, host: &str, jobs: &HashSet<&str>, now: Timestamp) {
        let here: HashSet<String> = jobs
            .iter()
            .filter(|job| self.of_job(job).next().is_some())
            .map(|job| (*job).to_owned())
            .collect();
        let before = match here.is_empty() {
            true => self.on_host.remove(host),
            false => self.on_host.insert(host.to_owned(), here.clone()),
        };
        let before = before.unwrap_or_default();
        for job in here.difference(&before) {
            let seen = self.seen.entry(job.clone()).or_default();
            seen.hosts += 1;
            seen.gone = None;
        }
        for job in before.difference(&here) {
            if let Some(seen) = self.seen.get_mut(job) {
                seen.hosts = seen.hosts.saturating_sub(1);
                seen.gone = (seen.hosts == 0).then_some(now);
            }
        }
    }

    /// The same as [`Inner::drop_old`], not more often than once a second.
    fn drop_old_sometimes(&mut self, now: Timestamp) {
        if self.dropped.is_none_or(|dropped| now.duration_since(dropped) >= SignedDuration::from_secs(1)) {
            self.drop_old(now);
        }
    }

    /// Drops what is over. The file may have it a while longer: at the next start its time is over, or soon will be.
    fn drop_old(&mut self, now: Timestamp) {
        self.dropped = Some(now);
        let seen = &self.seen;
        let is_gone = |job: &str| {
            let gone = seen.get(job).and_then(|seen| seen.gone);
            gone.is_some_and(|gone| now.duration_since(gone) >= OVER)
        };
        self.rates.retain(|(job, _), kept| kept.until > now && !is_gone(job));
        let with_rates: HashSet<&str> = self.rates.keys().map(|(job, _)| job.as_str()).collect();
        self.seen.retain(|job, _| with_rates.contains(job.as_str()));
        self.on_host.retain(|_, jobs| {
            jobs.retain(|job| with_rates.contains(job.as_str()));
            !jobs.is_empty()
        });
    }
}

fn load(path: &Path) -> io::Result<Content> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Content::default()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn kept(job: &str, cluster: Option<&str>, until: i64) -> Kept {
        Kept {
            job: job.into(),
            cluster: cluster.map(Into::into),
            every_ms: 5000,
            sensors: vec!["cpu".into()],
            set_by: "admin".into(),
            who: None,
            set_at: at(0),
            until: at(until),
        }
    }

    fn jobs(told: &[JobRate]) -> Vec<(&str, u64)> {
        let mut jobs: Vec<(&str, u64)> = told.iter().map(|rate| (rate.job.as_str(), rate.left_ms)).collect();
        jobs.sort_unstable();
        jobs
    }

    #[test]
    fn a_host_is_told_the_rates_of_its_jobs_until_they_end() {
        let dir = tempfile::tempdir().unwrap();
        let rates = JobRates::open(dir.path());
        for (job, cluster, until) in
            [("1", None, 60), ("2", Some("a"), 100), ("2", Some("b"), 100), ("20", None, 100)]
        {
            rates.set(kept(job, cluster, until), at(0)).unwrap();
        }
        for (listed, second, expected) in [
            ("", 1, &[][..]),
            ("3,x y,", 1, &[]),
            ("1,3", 1, &[("1", 59_000)]),
            ("2", 1, &[("2", 99_000), ("2", 99_000)]),
            ("20,1", 59, &[("1", 1_000), ("20", 41_000)]),
            ("20,1", 60, &[("20", 40_000)]),
            ("1,2,20", 100, &[]),
        ] {
            assert_eq!(jobs(&rates.of_host("n1", listed, at(second))), expected, "{listed} at {second}");
        }
    }

    #[test]
    fn rates_survive_a_restart_and_damage_costs_only_them() {
        let dir = tempfile::tempdir().unwrap();
        let rates = JobRates::open(dir.path());
        rates.set(kept("1", None, 60), at(0)).unwrap();
        rates.set(kept("2", Some("a"), 60), at(0)).unwrap();
        let again = JobRates::open(dir.path());
        assert_eq!(again.of_job("1", None, at(1)), [kept("1", None, 60)]);
        assert_eq!(again.of_job("2", Some("b"), at(1)), []);
        assert_eq!(again.remove("1", None, at(1)).unwrap(), 1);
        assert_eq!(again.remove("1", None, at(1)).unwrap(), 0);
        assert_eq!(JobRates::open(dir.path()).of_job("1", None, at(1)), []);
        fs::write(dir.path().join(FILE), "damaged").unwrap();
        let after = JobRates::open(dir.path());
        assert_eq!(after.of_job("2", None, at(1)), []);
        after.set(kept("3", None, 60), at(0)).unwrap();
        assert_eq!(JobRates::open(dir.path()).of_job("3", None, at(1)).len(), 1);
    }

    #[test]
    fn a_rate_ends_with_its_job() {
        let dir = tempfile::tempdir().unwrap();
        let rates = JobRates::open(dir.path());
        rates.set(kept("1", None, 86_400), at(0)).unwrap();
        let has = |host: &str, listed: &str, second| !rates.of_host(host, listed, at(second)).is_empty();
        // It has not begun yet, and hosts without it say so.
        assert!(!has("n1", "7", 1000) && !has("n2", "", 1001));
        assert_eq!(rates.of_job("1", None, at(1002)).len(), 1);
        assert!(has("n1", "1", 1010) && has("n2", "1", 1011));
        // One node is done, then the other; then there is another step.
        assert!(!has("n1", "", 1020) && has("n2", "1", 1400) && !has("n2", "", 1410));
        assert!(has("n2", "1", 1700) && !has("n2", "", 1710));
        assert_eq!(rates.of_job("1", None, at(2009)).len(), 1);
        assert_eq!(rates.of_job("1", None, at(2010)).len(), 0);
        assert!(!has("n1", "1", 2011));
    }

    #[test]
    fn what_cannot_be_written_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let rates = JobRates::open(&dir.path().join("absent"));
        assert!(matches!(rates.set(kept("1", None, 60), at(0)), Err(NotKept::Write(_))));
        assert_eq!(rates.of_job("1", None, at(1)), []);
    }
}
