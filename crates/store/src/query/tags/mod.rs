//! Questions about tags: which there are and how many jobs have them, why a job has one, what a new criterion would find.

mod explain;
mod hand;
mod opinions;
mod trial;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use duckdb::Row;
use serde_json::{Map, Value, json};

use super::jobs::{JobsBy, Period, Which, tagged};
use super::{Reader, Rows, Snapshot, object, time};
use crate::StoreError;
use crate::tags::{Bits, Decidable, Declared, Known, Run, TAGS, decidable, load_run};

pub use explain::Explain;
use hand::Assigned;
pub use hand::Owned;
pub use opinions::Opinions;
use opinions::Votes;

/// What jobs of a tag are counted by: what each has one of. Times are those of the start, or of the submission where none began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagsBy(JobsBy);

impl TagsBy {
    fn all() -> impl Iterator<Item = JobsBy> {
        JobsBy::ALL.into_iter().filter(|by| by.is_of_job())
    }

    pub fn named(name: &str) -> Option<TagsBy> {
        TagsBy::all().find(|by| by.name() == name).map(TagsBy)
    }

    pub fn names() -> impl Iterator<Item = &'static str> {
        TagsBy::all().map(JobsBy::name)
    }
}

/// Since when a tag is declared, and since when with the criterion that it has.
#[derive(Debug, Clone, Copy, Default)]
struct Dates {
    since_ns: Option<i64>,
    changed_ns: Option<i64>,
}

/// Jobs and their processor and GPU time.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    jobs: u64,
    core_hours: f64,
    gpu_hours: f64,
}

/// The columns that [`sum`] reads.
const SUMS: &str = "count(*), coalesce(sum(c.elapsed_ns::DOUBLE * c.cores) / 3.6e12, 0), \
    coalesce(sum(c.elapsed_ns::DOUBLE * c.gpus) / 3.6e12, 0)";
/// How many they are.
const SUMS_LEN: usize = 3;

impl Sum {
    fn add(&mut self, more: Sum) {
        self.jobs += more.jobs;
        self.core_hours += more.core_hours;
        self.gpu_hours += more.gpu_hours;
    }
}

impl Reader {
    /// Each tag with what it means and how many jobs of this time have it.
    pub fn tag_list(&self, period: Period) -> Result<Rows, StoreError> {
        let declared = self.tags();
        let which = Which { since_ns: period.since_ns, until_ns: period.until_ns, ..Which::default() };
        let which = self.meant(&which);
        self.ask(|snapshot| snapshot.tag_list(&which, period, &declared))
    }

    /// How many jobs have each tag, of those that are asked for, by what they have in common.
    pub fn count_tags(&self, which: &Which, by: TagsBy) -> Result<Rows, StoreError> {
        let declared = self.tags();
        let which = &self.meant(&which.grouped_by(by.0));
        self.ask(|snapshot| snapshot.count_tags(which, by, &declared))
    }

    /// The last run over the collection.
    pub fn last_run(&self) -> Result<Option<Run>, StoreError> {
        self.ask(|snapshot| load_run(snapshot.connection))
    }
}

impl Snapshot<'_> {
    fn tag_list(&self, which: &Which, period: Period, declared: &Declared) -> Result<Rows, StoreError> {
        let conditions = which.conditions();
        // Jobs have few combinations of tags, so those are counted, not each tag.
        let sql = format!(
            "SELECT {}, {SUMS} FROM accounting c {} AND c.rules IS NOT NULL GROUP BY ALL",
            tagged::decided().join(", "),
            conditions.sql()
        );
        let read = |row: &Row| Ok((Bits::read(row, 0)?, sum(row, TAGS.len())?));
        let combinations = self.rows(&sql, &conditions.values, read)?;
        let assigned = self.assigned(which, "NULL::VARCHAR")?;
        let all: u64 = combinations.iter().map(|(_, sum)| sum.jobs).sum();
        let (dates, votes) = (self.dates()?, self.votes()?);
        let decidable = decidable(self.connection, declared, period, which.kinds)?;
        let row = |known: &Known| {
            let mut row = described(known, &combinations, &assigned, all);
            row.extend(share_decided(known, &decidable));
            let Dates { since_ns, changed_ns } =
                dates.get(&known.tag.declared.id).copied().unwrap_or_default();
            let version = known.version.unwrap_or(0);
            let Votes { agree, disagree } =
                votes.get(&(known.tag.declared.id, version)).copied().unwrap_or_default();
            row.extend(object([
                ("since", time(since_ns)),
                ("changed", time(changed_ns)),
                ("agree", json!(agree)),
                ("disagree", json!(disagree)),
            ]));
            row
        };
        Ok(declared.tags.iter().map(row).collect())
    }

    /// By tag.
    fn dates(&self) -> Result<HashMap<u32, Dates>, StoreError> {
        let sql = "SELECT t.id, min(t.since_ns), max(v.since_ns) FROM tag t LEFT JOIN tag_version v ON v.tag = t.id GROUP BY t.id";
        let rows = self.rows(sql, &[], |row| {
            Ok((row.get(0)?, Dates { since_ns: row.get(1)?, changed_ns: row.get(2)? }))
        })?;
        Ok(rows.into_iter().collect())
    }

    fn count_tags(&self, which: &Which, by: TagsBy, declared: &Declared) -> Result<Rows, StoreError> {
        let (conditions, beside) = (which.conditions(), which.beside(std::iter::empty()));
        let sql = format!(
            "SELECT {}, {SUMS}, {} AS key FROM accounting c {beside} {} AND c.rules IS NOT NULL GROUP BY ALL",
            tagged::decided().join(", "),
            by.0.key(),
            conditions.sql()
        );
        let mut sums: BTreeMap<(Option<String>, usize), Sum> = BTreeMap::new();
        self.each(&sql, &conditions.values, |row| {
            let (bits, sum) = (Bits::read(row, 0)?, sum(row, TAGS.len())?);
            let key: Option<String> = row.get(TAGS.len() + SUMS_LEN)?;
            for (at, known) in declared.tags.iter().enumerate() {
                if known.has(bits) {
                    sums.entry((key.clone(), at)).or_default().add(sum);
                }
            }
            Ok(())
        })?;
        for Assigned { tag, bits, sum, key } in self.assigned(which, &by.0.key())? {
            let of = |known: &Known| known.tag.declared.id == tag && !known.has(bits);
            if let Some(at) = declared.tags.iter().position(of) {
                sums.entry((key, at)).or_default().add(sum);
            }
        }
        let row = |((key, at), sum): ((Option<String>, usize), Sum)| {
            object([
                (by.0.name(), by.0.word(key)),
                ("tag", json!(declared.tags[at].tag.declared.name.as_str())),
                ("jobs", json!(sum.jobs)),
                ("core_hours", json!(sum.core_hours)),
                ("gpu_hours", json!(sum.gpu_hours)),
            ])
        };
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(_, sum)| Reverse(sum.jobs));
        Ok(sums.into_iter().map(row).collect())
    }

    /// The criteria by which a set of rules decided: version, text and since when, by tag.
    fn criteria(&self, set: u32) -> Result<HashMap<u32, (u32, String)>, StoreError> {
        let sql = format!(
            "SELECT s.tag, s.version, v.criterion FROM rule_set s JOIN tag_version v ON v.tag = s.tag AND v.version = s.version \
             WHERE s.id = {set}"
        );
        let rows = self.rows(&sql, &[], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
        Ok(rows.into_iter().collect())
    }
}

fn sum(row: &Row, from: usize) -> duckdb::Result<Sum> {
    Ok(Sum { jobs: row.get(from)?, core_hours: row.get(from + 1)?, gpu_hours: row.get(from + 2)? })
}

/// A tag, and the jobs that have it.
fn described(
    known: &Known,
    combinations: &[(Bits, Sum)],
    assigned: &[Assigned],
    all: u64,
) -> Map<String, Value> {
    let declared = &known.tag.declared;
    let mut counted = Sum::default();
    combinations.iter().filter(|(bits, _)| known.has(*bits)).for_each(|(_, sum)| counted.add(*sum));
    let by_hand = assigned.iter().filter(|of| of.tag == declared.id);
    by_hand.clone().filter(|of| !known.has(of.bits)).for_each(|of| counted.add(of.sum));
    object([
        ("id", json!(declared.id)),
        ("tag", json!(declared.name.as_str())),
        ("aliases", json!(declared.aliases.iter().map(|name| name.as_str()).collect::<Vec<_>>())),
        ("space", json!(declared.space.to_string())),
        ("author", json!(declared.author)),
        ("group", json!(declared.group)),
        ("priority", json!(declared.priority)),
        ("criticality", json!(declared.criticality.get())),
        ("confidence", json!(declared.confidence.get())),
        ("available", json!(known.tag.available)),
        ("description", json!(declared.description)),
        ("comments", json!(declared.comments)),
        ("criterion", json!(known.tag.criterion.as_ref().map(ToString::to_string))),
        ("kind", json!(declared.kind)),
        ("version", json!(known.version)),
        ("jobs", json!(counted.jobs)),
        ("core_hours", json!(counted.core_hours)),
        ("gpu_hours", json!(counted.gpu_hours)),
        ("set_by_people", json!(by_hand.map(|of| of.sum.jobs).sum::<u64>())),
        ("judged_jobs", json!(all)),
    ])
}

/// Of how many of the newest jobs the rule could decide; null where there is no rule.
fn share_decided(known: &Known, decidable: &Decidable) -> Map<String, Value> {
    let decided = known.rule().and_then(|_| decidable.known.get(&known.tag.declared.id));
    object([
        ("newest_jobs", json!(decided.map(|_| decidable.jobs))),
        ("decided_jobs", json!(decided)),
        ("undecided_jobs", json!(decided.map(|decided| decidable.jobs - decided))),
    ])
}

/// A run as answers have it.
pub fn run_row(run: &Run) -> Map<String, Value> {
    object([
        ("begun", time(Some(run.begun_ns))),
        ("ended", time(run.ended_ns)),
        ("rules", json!(run.rules)),
        ("since", time(run.since_ns)),
        ("tag", json!(run.tag)),
        ("jobs", json!(run.jobs)),
        ("judged", json!(run.judged)),
    ])
}
