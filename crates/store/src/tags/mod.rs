//! Tags of jobs: what is declared, what was decided of each job, and by which rules.
//!
//! * [`declare`] brings what is declared into the tables: bits, versions of criteria, sets of rules.
//! * `judge` is all criteria as one query over some jobs; `software` answers what they ask about programs and libraries.
//! * `hand` is what people say of jobs; `said` brings it into the bits of their rows.
//! * `opinions` is what they think of what rules say.
//! * `on_software` puts tags on programs and libraries.
//! * `proposals` are tags that people wish to have; `own` those that they declare for a project or for themselves.
//! * `due` judges jobs that were just told, `run` the whole collection.
//!
//! Which jobs have a tag is a bit of their rows: see `docs/decisions/0022` and `0026`.

mod declare;
mod due;
mod hand;
mod judge;
mod on_software;
mod opinions;
mod own;
mod proposals;
mod run;
mod said;
mod software;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use tags::{Declaration, Search, Tag};

use crate::kind::Kind as JobKind;
use crate::sight::Sight;

pub use due::Judged;
pub(crate) use due::{DUE, ids_due, named_due};
pub use hand::{Assignment, on_job, wished};
pub(crate) use hand::{Wish, wish};
pub use judge::counting;
pub(crate) use judge::{Decidable, decidable};
pub use on_software::{Kind, Software};
pub use opinions::{Opinion, Word};
pub use own::is_own;
pub use proposals::{Decision, Proposed};
pub(crate) use run::load as load_run;
pub use run::{PIECE, Run};
pub(crate) use said::{Voice, bring_in};

/// The columns of a job's bits, 64 in each: what its rules and the people who see it say that it has.
pub(crate) const TAGS: [&str; 4] = ["tags0", "tags1", "tags2", "tags3"];
/// The columns of those among them that only people say.
pub(crate) const SAID: [&str; 4] = ["said0", "said1", "said2", "said3"];
/// The columns of those that rules set and an owner or manager has removed: they are in none of the above.
pub(crate) const REMOVED: [&str; 4] = ["removed0", "removed1", "removed2", "removed3"];
/// The column of the set of rules that decided.
pub(crate) const RULES: &str = "rules";
/// The column of when that was.
pub(crate) const JUDGED: &str = "judged_ns";
const BITS: u32 = 64 * TAGS.len() as u32;

/// A tag that is declared.
#[derive(Debug, Clone)]
pub struct Known {
    pub tag: Tag,
    /// Its place in a job's row. Tags that people declare have none, and others neither when all are taken.
    pub bit: Option<u32>,
    /// Of those that have a criterion: which of the criteria that the tag has had.
    pub version: Option<u32>,
}

impl Known {
    /// What decides about it; of those that have a criterion.
    pub fn rule(&self) -> Option<Rule> {
        Some(Rule { bit: self.bit?, version: self.version? })
    }

    /// Of which kind of jobs its rule says anything, if not of all.
    pub(crate) fn only(&self) -> Option<JobKind> {
        self.tag.declared.kind.map(|kind| match kind {
            tags::Kind::Job => JobKind::Job,
            tags::Kind::Session => JobKind::Session,
        })
    }

    /// Whether its rule says so.
    pub(crate) fn has(&self, decided: Bits) -> bool {
        self.rule().is_some_and(|rule| decided.has(rule.bit))
    }
}

/// What decides about a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    pub bit: u32,
    pub version: u32,
}

/// All tags that are declared, and the set of their rules.
#[derive(Debug, Clone, Default)]
pub struct Declared {
    pub set: u32,
    pub tags: Arc<Vec<Known>>,
    /// Groups of which a job has one tag at most.
    pub exclusive: Arc<BTreeSet<String>>,
    /// Why some could not be declared, in words.
    pub refused: Vec<String>,
    /// Who has set which of them on some job.
    pub(crate) voices: Arc<BTreeSet<Voice>>,
    /// Those that whoever sees this may have set on some job without the bits telling it to them.
    pub apart: BTreeSet<u32>,
    /// Those that an owner has removed from some job, and whoever sees this still finds by the rule's own result.
    pub removed: BTreeSet<u32>,
    /// Combinations that have a name.
    pub searches: Arc<Vec<Search>>,
}

impl Declared {
    /// Of those that have a name in several spaces, one's own.
    pub fn named(&self, typed: &str) -> Option<&Known> {
        let called = self.tags.iter().filter(|known| known.tag.is_called(typed));
        called.max_by_key(|known| &known.tag.declared.space)
    }

    /// Without those that somebody does not see.
    pub fn seen_by(&self, sight: &Sight) -> Declared {
        let is_seen = |known: &&Known| sight.sees(&known.tag.declared.space);
        let apart = self.voices.iter().filter(|voice| voice.is_apart(sight)).map(|voice| voice.tag).collect();
        let removed = if matches!(sight, Sight::Own { .. }) { BTreeSet::new() } else { self.removed.clone() };
        let of_all = Declared { apart, removed, ..self.clone() };
        if self.tags.iter().all(|known| is_seen(&known)) {
            return of_all;
        }
        let tags = self.tags.iter().filter(is_seen).cloned().collect();
        Declared { tags: Arc::new(tags), refused: Vec::new(), ..of_all }
    }

    /// Apart is all that somebody has set, until it is known who asks.
    fn with_voices(&self, voices: BTreeSet<Voice>) -> Declared {
        let tags = |which: fn(&Voice) -> bool| {
            voices.iter().filter(|voice| which(voice)).map(|voice| voice.tag).collect()
        };
        let (apart, removed) = (tags(|voice| voice.is_set), tags(Voice::is_removal));
        Declared { voices: Arc::new(voices), apart, removed, ..self.clone() }
    }

    /// The places of tags in jobs' rows.
    fn bits(&self) -> BTreeMap<u32, u32> {
        self.tags.iter().filter_map(|known| Some((known.tag.declared.id, known.bit?))).collect()
    }

    /// The tags whose rules take precedence over that of a tag: those of its group with a higher priority, if the group is exclusive.
    pub fn before<'a>(&'a self, known: &'a Known) -> impl Iterator<Item = &'a Known> {
        let own = &known.tag.declared;
        let is_exclusive = self.exclusive.contains(&own.group);
        self.judged().map(|(other, _)| other).filter(move |other| {
            let other = &other.tag.declared;
            is_exclusive && other.group == own.group && precedence(other) < precedence(own)
        })
    }

    /// Those that are decided by a criterion now.
    pub fn judged(&self) -> impl Iterator<Item = (&Known, Rule)> {
        let is_available = |known: &&Known| known.tag.available;
        self.tags.iter().filter(is_available).filter_map(|known| Some((known, known.rule()?)))
    }
}

/// In an exclusive group, the first whose criterion holds.
pub(crate) fn precedence(declared: &Declaration) -> (Reverse<u32>, u32) {
    (Reverse(declared.priority), declared.id)
}

/// What is declared now, for all who ask.
#[derive(Debug, Default)]
pub(crate) struct Shared(RwLock<Arc<Declared>>);

impl Shared {
    pub fn get(&self) -> Arc<Declared> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn put(&self, declared: Declared) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(declared);
    }
}

/// The bits of one job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Bits(pub [u64; TAGS.len()]);

impl Bits {
    pub(crate) const ALL: Bits = Bits([u64::MAX; TAGS.len()]);

    pub fn has(self, bit: u32) -> bool {
        self.0[(bit / 64) as usize] & (1 << (bit % 64)) != 0
    }

    /// From the columns of a row; what is unknown is none.
    pub(crate) fn read(row: &duckdb::Row, from: usize) -> duckdb::Result<Bits> {
        let mut bits = Bits::default();
        for (at, word) in bits.0.iter_mut().enumerate() {
            *word = row.get::<_, Option<u64>>(from + at)?.unwrap_or(0);
        }
        Ok(bits)
    }

    pub(crate) fn of(bits: impl IntoIterator<Item = u32>) -> Bits {
        let mut all = Bits::default();
        for bit in bits {
            all.0[(bit / 64) as usize] |= 1 << (bit % 64);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_lie_in_words() {
        let bits = Bits::of([0, 63, 64, 255]);
        assert_eq!(bits.0, [1 << 63 | 1, 1, 0, 1 << 63]);
        assert_eq!((bits.has(63), bits.has(62), bits.has(255)), (true, false, true));
    }
}
