//! Which jobs' rows are to be made: those that have ended at once, those that run now and then.
//!
//! What a row costs grows with the time its job has run, so a job is renewed after a hundredth of that time: over its life a
//! reading is looked at about a hundred times, however long it is, and a batch never has more readings than fit into memory.

use std::collections::BTreeMap;

use digest::{Site, State};
use record::reading::Reading;
use record::session::is_login;

use crate::kind::Kind;

use crate::write::signed;

/// Jobs and readings in one batch. A job that has more readings than the latter is a batch of its own.
const JOBS: usize = 200;
const READINGS: u64 = 100_000;

/// A job with more readings than this is not renewed while it runs: they would have to be in memory, all at once.
const READINGS_MAX: u64 = 500_000;

/// A job is renewed after this part of the time it has run.
const PART: i64 = 100;

/// A site that calls a job silent at once still has it looked at once a second only.
const LEAST_SILENCE: i64 = 1_000_000_000;

/// A batch job or session, by its name: its first readings may come before anyone has said which cluster it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    Job(String),
    Session(String),
}

impl Name {
    /// The column of readings in which it is, and the name itself.
    pub fn column(&self) -> (&'static str, &str) {
        match self {
            Name::Job(name) => ("job", name),
            Name::Session(name) => ("session", name),
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Name::Job(_) => Kind::Job,
            Name::Session(_) => Kind::Session,
        }
    }

    /// What its row is told by, besides the name.
    pub fn is_row(&self) -> &'static str {
        self.kind().is_row()
    }

    /// The name of a batch job.
    pub fn job(&self) -> Option<&str> {
        match self {
            Name::Job(name) => Some(name),
            Name::Session(_) => None,
        }
    }
}

/// What a reading says of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    name: Name,
    start_ns: i64,
    time_ns: i64,
    has_end: bool,
}

/// What a reading says of all jobs that have a row, or will have one.
pub fn heard(reading: &Reading) -> impl Iterator<Item = Heard> {
    reading.jobs.iter().filter_map(|job| {
        let name = match (&job.job, &job.session) {
            (Some(job), _) => Name::Job(job.clone()),
            // Services run as long as their node: one has a row when it has ended, not before.
            (None, Some(session)) if job.end.is_some() || is_login(session) => Name::Session(session.clone()),
            _ => return None,
        };
        let (start_ns, time_ns) = (signed(job.start), signed(reading.time));
        Some(Heard { name, start_ns, time_ns, has_end: job.end.is_some() })
    })
}

/// What is known of a job whose row is not the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub start_ns: i64,
    /// Its last reading.
    pub heard_ns: i64,
    pub readings: u64,
    /// Something has come that is not in its row.
    pub has_news: bool,
    /// It has ended on a node.
    pub has_end: bool,
    /// When its row was made, or when it was first heard of.
    pub made_ns: i64,
    /// Its row could not be made: not again before this time, so that others have their turn.
    pub held_ns: i64,
    /// Its row is being made.
    pub is_taken: bool,
}

/// Jobs whose rows are not the last ones.
#[derive(Debug, Default)]
pub struct Pending(BTreeMap<Name, Seen>);

impl Pending {
    /// Takes in a job as it was found in the store.
    pub fn load(&mut self, name: Name, seen: Seen) {
        self.0.insert(name, seen);
    }

    /// Takes in what a reading says, of now.
    pub fn note(&mut self, heard: Heard, now_ns: i64) {
        let new = Seen {
            start_ns: heard.start_ns,
            heard_ns: heard.time_ns,
            readings: 0,
            has_news: true,
            has_end: false,
            made_ns: now_ns,
            held_ns: i64::MIN,
            is_taken: false,
        };
        let seen = self.0.entry(heard.name).or_insert(new);
        seen.start_ns = seen.start_ns.min(heard.start_ns);
        seen.heard_ns = seen.heard_ns.max(heard.time_ns);
        seen.readings += 1;
        seen.has_news = true;
        seen.has_end |= heard.has_end;
    }

    /// Takes out a batch of jobs whose rows are to be made now; empty if there are none.
    pub fn take(&mut self, site: &Site, now_ns: i64) -> Vec<(Name, Seen)> {
        let mut due: Vec<(i64, Name, Seen)> = self
            .0
            .iter()
            .filter(|(_, seen)| !seen.is_taken)
            .map(|(name, seen)| (seen.due(site).max(seen.held_ns), name, seen))
            .filter(|(due, ..)| *due <= now_ns)
            .map(|(due, name, seen)| (due, name.clone(), seen.clone()))
            .collect();
        due.sort_by_key(|(due, ..)| *due);
        // Jobs of about the same age lie in the same part of the table: an old one would have all of it read for all others.
        let Some(age) = due.first().map(|(_, _, seen)| seen.age(now_ns)) else { return Vec::new() };
        let mut readings = 0;
        let mut taken: Vec<(Name, Seen)> = Vec::new();
        for (_, name, seen) in due.into_iter().filter(|(_, _, seen)| seen.age(now_ns) == age).take(JOBS) {
            readings += seen.readings;
            if readings > READINGS && !taken.is_empty() {
                break;
            }
            taken.push((name, seen));
        }
        self.mark(&taken, now_ns);
        taken
    }

    /// Takes out jobs that have ended and began before a time, at most so many.
    pub fn take_ended(&mut self, before_ns: i64, most: usize, now_ns: i64) -> Vec<(Name, Seen)> {
        let ended = self.0.iter().filter(|(_, seen)| seen.is_open(before_ns, now_ns) && !seen.is_taken);
        let taken: Vec<(Name, Seen)> =
            ended.take(most).map(|(name, seen)| (name.clone(), seen.clone())).collect();
        self.mark(&taken, now_ns);
        taken
    }

    /// Whether the row of a job that began before a time is being made, or is to be made because it has ended.
    pub fn is_open(&self, before_ns: i64, now_ns: i64) -> bool {
        self.0.values().any(|seen| seen.is_open(before_ns, now_ns))
    }

    fn mark(&mut self, taken: &[(Name, Seen)], now_ns: i64) {
        for (name, _) in taken {
            if let Some(seen) = self.0.get_mut(name) {
                (seen.has_news, seen.has_end, seen.made_ns) = (false, false, now_ns);
                seen.is_taken = true;
            }
        }
    }

    /// Puts back what was taken and was not made; it is due again from then on.
    pub fn give_back(&mut self, taken: Vec<(Name, Seen)>, from_ns: i64) {
        for (name, old) in taken {
            let seen = self.0.entry(name).or_insert_with(|| old.clone());
            seen.has_news |= old.has_news;
            seen.has_end |= old.has_end;
            (seen.made_ns, seen.held_ns, seen.is_taken) = (old.made_ns, from_ns, false);
        }
    }

    /// What was taken is made, and its job was found in this state; absent if there is nothing of it any more.
    pub fn made(&mut self, name: &Name, state: Option<State>) {
        let Some(seen) = self.0.get_mut(name) else { return };
        seen.is_taken = false;
        if state != Some(State::Running) && !seen.has_news {
            self.0.remove(name);
        }
    }
}

impl Seen {
    /// When the row is to be made.
    fn due(&self, site: &Site) -> i64 {
        if self.has_end {
            return i64::MIN;
        }
        let ran = self.heard_ns.saturating_sub(self.start_ns);
        let pause = site.renew_ns.max(ran / PART);
        let renewal =
            (self.has_news && self.readings <= READINGS_MAX).then(|| self.made_ns.saturating_add(pause));
        // Then it will be found to be silent, and forgotten here until it is heard of again.
        let silence = self.heard_ns.max(self.made_ns).saturating_add(site.unheard_ns.max(LEAST_SILENCE));
        renewal.map_or(silence, |renewal| renewal.min(silence))
    }

    /// Whether its row is being made or is to be made, of readings of which some are of before a time. What could not be made
    /// is not waited for.
    fn is_open(&self, before_ns: i64, now_ns: i64) -> bool {
        self.start_ns < before_ns && (self.is_taken || self.has_end && self.held_ns <= now_ns)
    }

    /// In which doubling of a minute a job began.
    fn age(&self, now_ns: i64) -> u32 {
        let minutes = now_ns.saturating_sub(self.start_ns).max(0) / 60_000_000_000;
        (minutes + 1).ilog2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000_000_000;

    fn site() -> Site {
        Site { renew_ns: MINUTE, unheard_ns: 10 * MINUTE, ..Site::default() }
    }

    fn heard(job: &str, start: i64, time: i64, has_end: bool) -> Heard {
        Heard { name: Name::Job(job.into()), start_ns: start * MINUTE, time_ns: time * MINUTE, has_end }
    }

    /// The names of the jobs that are due at a minute; all of them are made, and found in this state.
    fn made(pending: &mut Pending, minute: i64, state: Option<State>) -> Vec<String> {
        let taken = pending.take(&site(), minute * MINUTE);
        taken.iter().for_each(|(name, _)| pending.made(name, state));
        taken.iter().map(|(name, _)| name.column().1.to_owned()).collect()
    }

    #[test]
    fn a_job_that_runs_is_renewed_now_and_then() {
        let mut pending = Pending::default();
        let running = Some(State::Running);
        for (minute, hears, expected) in [
            (0, true, false),
            (1, true, true),
            (2, true, true),
            (3, false, false),
            (4, true, true),
            // The longer it runs, the longer the pause: a hundredth of four hundred minutes.
            (400, true, true),
            (403, true, false),
            (405, false, true),
        ] {
            if hears {
                pending.note(heard("1", 0, minute, false), minute * MINUTE);
            }
            assert_eq!(!made(&mut pending, minute, running).is_empty(), expected, "minute {minute}");
        }
        assert_eq!((pending.0.len(), made(&mut pending, 1000, Some(State::Unheard)).len()), (1, 1));
        assert_eq!(pending.0.len(), 0);
    }

    #[test]
    fn an_end_is_due_at_once_and_is_the_last() {
        let mut pending = Pending::default();
        pending.note(heard("1", 0, 1, false), MINUTE);
        pending.note(heard("2", 0, 1, true), MINUTE);
        assert_eq!(made(&mut pending, 1, Some(State::Ended)), ["2"]);
        assert_eq!(pending.0.len(), 1);
        // What comes late counts; what comes while the row is made is not forgotten with it.
        pending.note(heard("2", 0, 1, true), MINUTE);
        let taken = pending.take(&site(), MINUTE);
        pending.note(heard("2", 0, 2, true), 2 * MINUTE);
        pending.made(&taken[0].0, Some(State::Ended));
        assert_eq!(made(&mut pending, 1, Some(State::Ended)), ["2"]);
        // What could not be made is tried again.
        pending.note(heard("2", 0, 1, true), MINUTE);
        let taken = pending.take(&site(), MINUTE);
        assert_eq!(pending.take(&site(), MINUTE), []);
        pending.give_back(taken, 3 * MINUTE);
        assert_eq!(made(&mut pending, 2, Some(State::Running)), ["1"]);
        assert_eq!(made(&mut pending, 3, None), ["2"]);
        assert_eq!(pending.0.len(), 1);
    }

    #[test]
    fn old_readings_wait_for_rows_that_are_made_of_them() {
        let mut pending = Pending::default();
        pending.note(heard("runs", 0, 9, false), 9 * MINUTE);
        pending.note(heard("young", 8, 9, true), 9 * MINUTE);
        assert!(!pending.is_open(5 * MINUTE, 9 * MINUTE));
        pending.note(heard("old", 0, 9, true), 9 * MINUTE);
        pending.note(heard("older", 0, 9, true), 9 * MINUTE);
        let taken = pending.take_ended(5 * MINUTE, 1, 9 * MINUTE);
        assert_eq!(pending.take_ended(5 * MINUTE, 9, 9 * MINUTE).len(), 1);
        assert!(pending.take_ended(5 * MINUTE, 9, 9 * MINUTE).is_empty());
        // Both are being made; then one is, and the other could not be.
        pending.made(&Name::Job("older".into()), Some(State::Ended));
        assert!(pending.is_open(5 * MINUTE, 9 * MINUTE));
        pending.give_back(taken, 20 * MINUTE);
        assert!(!pending.is_open(5 * MINUTE, 9 * MINUTE));
        assert_eq!(pending.take_ended(5 * MINUTE, 9, 20 * MINUTE).len(), 1);
    }

    #[test]
    fn a_batch_is_bounded_and_of_one_age() {
        let mut pending = Pending::default();
        (0..300).for_each(|n| pending.note(heard(&n.to_string(), 900, 999, false), 999 * MINUTE));
        pending.note(heard("old", 0, 999, false), 990 * MINUTE);
        let sizes: Vec<usize> =
            (0..4).map(|_| made(&mut pending, 1010, Some(State::Running)).len()).collect();
        assert_eq!(sizes, [1, 200, 100, 0]);
        // So many readings that one job fills a batch.
        let mut pending = Pending::default();
        for name in ["a", "b"] {
            let seen = Seen {
                start_ns: 0,
                heard_ns: MINUTE,
                readings: 90_000,
                has_news: true,
                has_end: false,
                made_ns: 0,
                held_ns: i64::MIN,
                is_taken: false,
            };
            pending.load(Name::Job(name.into()), seen);
        }
        let sizes: Vec<usize> = (0..3).map(|_| made(&mut pending, 2, Some(State::Running)).len()).collect();
        assert_eq!(sizes, [1, 1, 0]);
    }
}
