//! Jobs made ready to be kept, without the database: on any thread, so that the writer has little to do; some at a time, so that few of them are in
//! memory as they were told.

use std::collections::{HashMap, HashSet};

use record::accounting::Accounting;
use xxhash_rust::xxh3::xxh3_64;

use super::rows::{self, Part, Told};
use super::{id, nanos};
use crate::StoreError;
use crate::tags::Wish;

/// Jobs of which columns are made together: they stay near the processor meanwhile.
pub const TOGETHER: usize = 1024;

/// Jobs, as columns.
pub struct Accounts {
    pub(super) ids: Vec<u64>,
    /// Their ids and times of submission, by which they are found again.
    pub(super) places: Part,
    /// For each of the tables.
    pub(super) rows: [Part; 3],
    /// When the first of them was submitted; `None` where that is not known of one.
    pub(super) first_submit: Option<i64>,
    /// When the last of them was submitted, or started where nobody knows that, as in their names.
    pub(super) newest: i64,
    pub(super) node_lists: HashMap<u64, String>,
    pub(super) partitions: HashSet<String>,
    /// Start and end of each.
    pub(super) times: Vec<(Option<i64>, Option<i64>)>,
    /// Number and cluster.
    pub(super) names: Vec<(String, Option<String>)>,
    /// Whether there are records among them that another may complete.
    pub(super) has_incomplete: bool,
    /// Tags that were wished at submission.
    pub(super) wishes: Vec<Wish>,
    /// Words about jobs of which a later one is among them.
    pub(super) older: u64,
}

impl Default for Accounts {
    fn default() -> Self {
        Accounts {
            ids: Vec::new(),
            places: Part::default(),
            rows: Default::default(),
            // Later than any.
            first_submit: Some(i64::MAX),
            newest: i64::MIN,
            node_lists: HashMap::new(),
            partitions: HashSet::new(),
            times: Vec::new(),
            names: Vec::new(),
            has_incomplete: false,
            wishes: Vec::new(),
            older: 0,
        }
    }
}

impl Accounts {
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub fn of(jobs: &[Accounting]) -> Result<Accounts, StoreError> {
        let (told, older) = last_words(jobs);
        let mut accounts = Accounts { older, ..Accounts::default() };
        told.chunks(TOGETHER).try_for_each(|told| accounts.add(told))?;
        Ok(accounts)
    }

    /// The same, of jobs that come some at a time and are gone then. `None` if one of them is told twice: which word counts is known only when all
    /// are there.
    pub fn of_parts<E: From<StoreError>>(
        parts: impl Iterator<Item = Result<Vec<Accounting>, E>>,
    ) -> Result<Option<Accounts>, E> {
        let (mut accounts, mut seen) = (Accounts::default(), HashSet::new());
        for jobs in parts {
            let jobs = jobs?;
            let told: Vec<(u64, &Accounting)> = jobs.iter().map(|job| (id(job), job)).collect();
            if !told.iter().all(|(id, _)| seen.insert(*id)) {
                return Ok(None);
            }
            accounts.add(&told)?;
        }
        Ok(Some(accounts))
    }

    fn add(&mut self, told: &Told) -> Result<(), StoreError> {
        self.places.add(rows::places(told))?;
        for (part, made) in self.rows.iter_mut().zip([rows::jobs(told), rows::steps(told), rows::nodes(told)])
        {
            part.add(made)?;
        }
        for (id, job) in told {
            let submit = job.submit.map(nanos);
            // Nothing is less than any time.
            self.first_submit = self.first_submit.min(submit);
            self.newest = job.submit.or(job.start).map_or(self.newest, |time| self.newest.max(nanos(time)));
            self.ids.push(*id);
            self.times.push((job.start.map(nanos), job.end.map(nanos)));
            self.has_incomplete |= job.from_monitoring || job.submit.is_none();
            self.names.extend(job.job.as_ref().map(|name| (name.clone(), job.cluster.clone())));
            if let Some(list) = &job.node_list {
                self.node_lists.entry(xxh3_64(list.as_bytes())).or_insert_with(|| list.clone());
            }
            if let Some(partition) = job.partition.as_ref().filter(|name| !self.partitions.contains(*name)) {
                self.partitions.insert(partition.clone());
            }
            let wish = job.user.as_deref().zip(job.comment.as_ref());
            let project = job.account.as_deref();
            self.wishes.extend(wish.and_then(|(user, comment)| Wish::of(*id, user, project, comment)));
        }
        Ok(())
    }

    /// Which rows of the table may be of these jobs: one of years is not looked through for each batch.
    pub(super) fn there(&self) -> String {
        self.first_submit.map_or_else(|| "true".to_owned(), |first| format!("submit_ns >= {first}"))
    }
}

/// Of each job what was said last, unless it has ended before that; and how many words that leaves out.
fn last_words(jobs: &[Accounting]) -> (Vec<(u64, &Accounting)>, u64) {
    let mut told = Vec::with_capacity(jobs.len());
    let mut places: HashMap<u64, usize> = HashMap::with_capacity(jobs.len());
    for job in jobs {
        let id = id(job);
        let place = *places.entry(id).or_insert(told.len());
        match told.get_mut(place) {
            None => told.push((id, job)),
            Some((_, last)) if job.end.is_some() || last.end.is_none() => *last = job,
            Some(_) => {}
        }
    }
    let left_out = (jobs.len() - told.len()) as u64;
    (told, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(submit: u64, end: Option<u64>) -> Accounting {
        Accounting { shown: "1".into(), submit: Some(submit), end, ..Accounting::default() }
    }

    #[test]
    fn that_a_job_has_ended_is_not_forgotten() {
        let jobs = [at(1, None), at(1, Some(9)), at(1, None), at(2, None)];
        let (told, left_out) = last_words(&jobs);
        assert_eq!((told.len(), left_out), (2, 2));
        assert_eq!(told[0].1.end, Some(9));
    }

    #[test]
    fn parts_are_the_whole() {
        let jobs: Vec<Accounting> = (1..=5000).map(|submit| at(submit, Some(submit))).collect();
        let parts = |jobs: &[Accounting]| {
            let parts: Vec<Result<Vec<Accounting>, StoreError>> =
                jobs.chunks(700).map(|part| Ok(part.to_vec())).collect();
            Accounts::of_parts(parts.into_iter()).unwrap()
        };
        let (whole, made) = (Accounts::of(&jobs).unwrap(), parts(&jobs).unwrap());
        assert_eq!(whole.ids, made.ids);
        assert_eq!((whole.first_submit, whole.newest), (Some(1), 5000));
        assert_eq!((made.first_submit, made.newest), (Some(1), 5000));
        assert_eq!((whole.rows[0].len(), made.rows[0].len()), (5000, 5000));
        let unknown = Accounting { submit: None, ..at(7, None) };
        assert_eq!(parts(&[at(3, None), unknown]).unwrap().first_submit, None);
        // One that is told twice, in two parts.
        let twice = [&jobs[..], &jobs[..1]].concat();
        assert!(parts(&twice).is_none());
        assert_eq!(Accounts::of(&twice).unwrap().older, 1);
    }
}
