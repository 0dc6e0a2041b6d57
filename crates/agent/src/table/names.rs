//! Which job a control group belongs to that is named by Slurm's own number (SLUID) and not by the job's id.
//!
//! Being in the group proves to be in the job; what the job is called its step daemon says, which is root's and sits in the same
//! group. Where that cannot be found, the environment of the first process that names a job is believed, unless the name is
//! another group's. What was told once holds for all later processes of the group. Without any word the SLUID is the name.

use std::collections::VecDeque;
use std::rc::Rc;

use record::entry::JobFrom;

use super::Table;
use super::draft::Context;
use crate::job::{self, Group, Job, Name, Variables};

/// Groups that are remembered; a node has few jobs at a time.
const NAMES_MAX: usize = 1024;
/// Ancestors that are looked at for a step daemon.
const DEPTH_MAX: usize = 64;

/// Who named a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Environment,
    Stepd,
}

/// The names of groups.
#[derive(Debug, Default)]
pub struct Names(VecDeque<(String, String, Word)>);

/// What became of a word about a group.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// It is the first, or it is worth more than the one before, which said this.
    Believed(Option<String>),
    Same,
    /// Somebody else has said otherwise.
    Disputed,
}

impl Names {
    fn of(&self, sluid: &str) -> Option<(&str, Word)> {
        self.0.iter().rev().find(|(known, ..)| known == sluid).map(|(_, id, word)| (id.as_str(), *word))
    }

    fn hear(&mut self, sluid: &str, id: &str, word: Word) -> Heard {
        let before = match self.of(sluid) {
            Some((known, by)) if known == id && by >= word => return Heard::Same,
            Some((known, by)) if known != id && by >= word => return Heard::Disputed,
            Some((known, _)) => Some(known.to_owned()),
            None => None,
        };
        let is_anothers = self.0.iter().any(|(other, known, _)| other != sluid && known == id);
        if word == Word::Environment && is_anothers {
            return Heard::Disputed;
        }
        self.0.retain(|(known, ..)| known != sluid);
        if self.0.len() >= NAMES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((sluid.to_owned(), id.to_owned(), word));
        Heard::Believed(before)
    }
}

impl Table {
    /// The job of a process that is in this group.
    pub(super) fn job_in(&mut self, pid: u32, group: Group) -> Job {
        let sluid = match &group.name {
            Name::Id(id) => {
                let id = id.clone();
                return group.job(id, JobFrom::Cgroup);
            }
            Name::Sluid(sluid) => sluid.clone(),
        };
        if self.names.of(&sluid).is_none_or(|(_, word)| word < Word::Stepd)
            && let Some(id) = self.stepd_above(pid, &sluid)
        {
            self.hear(&sluid, &id, Word::Stepd);
        }
        if self.names.of(&sluid).is_none_or(|(_, word)| word < Word::Stepd)
            && let Some(id) = self.claim(pid, &sluid)
        {
            self.hear(&sluid, &id, Word::Environment);
        }
        match self.names.of(&sluid) {
            Some((id, Word::Stepd)) => group.job(id.to_owned(), JobFrom::Cgroup),
            Some((id, Word::Environment)) => group.job(id.to_owned(), JobFrom::Environment),
            None => group.job(sluid, JobFrom::Cgroup),
        }
    }

    fn hear(&mut self, sluid: &str, id: &str, word: Word) {
        match self.names.hear(sluid, id, word) {
            Heard::Believed(before) => self.rename_job(&before.unwrap_or_else(|| sluid.to_owned()), id, word),
            Heard::Disputed => self.around.counters.job_names_disputed.one(),
            Heard::Same => {}
        }
    }

    /// The id in the title of the step daemon that a process is or descends from, if that is in the same group.
    fn stepd_above(&self, mut pid: u32, sluid: &str) -> Option<String> {
        for _ in 0..DEPTH_MAX {
            if let Some(job) = self.stepd_job(pid) {
                let group = self.around.proc.cgroup(pid).as_deref().and_then(job::group)?;
                return (group.name == Name::Sluid(sluid.to_owned())).then_some(job.id);
            }
            pid = self.around.proc.stat(pid)?.ppid;
            if pid <= 1 {
                return None;
            }
        }
        None
    }

    /// The id that a process says its job has. One that speaks of another SLUID speaks of another job.
    fn claim(&self, pid: u32, sluid: &str) -> Option<String> {
        let environ = self.peek(pid, move |proc| proc.environ(pid))?;
        let variables = Variables(&environ);
        let is_other = variables.get("SLURM_JOB_SLUID").is_some_and(|said| said != sluid.as_bytes());
        let is_id = |id: &String| id.bytes().all(|byte| byte.is_ascii_digit());
        variables.text("SLURM_JOB_ID").filter(|id| !is_other && is_id(id))
    }

    /// A job has got a name, or a better one: so have its processes, and its account.
    fn rename_job(&mut self, before: &str, id: &str, word: Word) {
        let from = if word == Word::Stepd { JobFrom::Cgroup } else { JobFrom::Environment };
        for process in self.live.values_mut() {
            if let Some(job) = process.context.job.as_ref().filter(|job| job.id == before) {
                let job = Some(Job { id: id.to_owned(), from, ..job.clone() });
                process.context = Rc::new(Context { job, ..(*process.context).clone() });
            }
        }
        self.accounts.rename(before, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_daemons_word_is_worth_more_than_an_environments() {
        use Word::{Environment, Stepd};
        let believed = |before: &str| Heard::Believed(Some(before.to_owned()));
        let mut names = Names::default();
        for (sluid, id, word, expected, now) in [
            ("sA", "5", Environment, Heard::Believed(None), Some("5")),
            ("sA", "5", Environment, Heard::Same, Some("5")),
            ("sA", "6", Environment, Heard::Disputed, Some("5")),
            // The name is taken.
            ("sB", "5", Environment, Heard::Disputed, None),
            ("sA", "7", Stepd, believed("5"), Some("7")),
            ("sA", "8", Stepd, Heard::Disputed, Some("7")),
            ("sA", "5", Environment, Heard::Disputed, Some("7")),
            ("sB", "5", Environment, Heard::Believed(None), Some("5")),
            // A job that was requeued has another number.
            ("sC", "7", Stepd, Heard::Believed(None), Some("7")),
        ] {
            assert_eq!(names.hear(sluid, id, word), expected, "{sluid} {id} {word:?}");
            assert_eq!(names.of(sluid).map(|(id, _)| id), now);
        }
        for n in 0..3 * NAMES_MAX {
            names.hear(&format!("s{n}"), &n.to_string(), Stepd);
        }
        assert_eq!(names.0.len(), NAMES_MAX);
    }
}
