//! Parts that others tell one after another, put together to the one number that we have.
//!
//! Nobody says when a round of parts is complete. So a round ends when a part comes that it already has, which is when
//! the next one begins; the whole of it is given then, an interval late. Whoever knows the end, of a file or a document,
//! says so ([`Joiner::finish`]).
//!
//! A sum with an unknown part is unknown. A part that came before and does not come is waited for in
//! [`Joiner::PATIENCE`] rounds, which give nothing; then it is gone. Parts that the table names are needed all; they may
//! come at their own times, as Ganglia's total of swap does, and are good for an hour.

use std::collections::{BTreeMap, BTreeSet};

use record::entry::Nanos;

use super::mapper::{Amount, Point, Target};
use super::table::Join;
use crate::recent::Recent;
use crate::time::SECOND;

/// How long a part that is needed by name is good.
const GOOD_FOR: Nanos = 3600 * SECOND;
/// No node has more disks, interfaces or processors.
const PARTS_MAX: usize = 4096;

/// What came of a point.
#[derive(Debug, Clone, PartialEq)]
pub enum Joined {
    /// A value, of the last round if it is one of several parts.
    Whole(Point),
    /// A round without a part that it should have.
    Incomplete,
    /// Nothing yet.
    Waiting,
}

/// Puts parts together.
pub struct Joiner {
    groups: Recent<Key, Group>,
}

/// A metric on a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    cluster: Option<String>,
    host: String,
    target: String,
}

struct Group {
    /// The last value of each part.
    parts: BTreeMap<String, Part>,
    /// Which have come in this round.
    round: BTreeSet<String>,
    /// There were more than can be kept.
    is_over: bool,
    /// What is the same of all.
    like: Point,
}

struct Part {
    time: Nanos,
    amount: Amount,
    missed: u32,
}

impl Joiner {
    /// How many rounds a part may miss.
    pub const PATIENCE: u32 = 3;

    /// Remembers at most so many metrics of hosts.
    pub fn new(bound: usize) -> Self {
        Joiner { groups: Recent::new(bound) }
    }

    /// Takes a point, and gives what is whole by it.
    pub fn take(&mut self, point: Point) -> Joined {
        if point.join == Join::Each {
            return Joined::Whole(point);
        }
        let key = Key::of(&point);
        let Some(group) = self.groups.get(&key) else {
            self.groups.insert(key, Group::new(point));
            return Joined::Waiting;
        };
        let ended = if group.round.contains(&point.part) { group.end() } else { Joined::Waiting };
        group.add(point);
        ended
    }

    /// Ends all rounds that are open.
    pub fn finish(&mut self) -> Vec<Joined> {
        let open = self.groups.values().filter(|group| !group.round.is_empty());
        open.map(Group::end).collect()
    }
}

impl Key {
    fn of(point: &Point) -> Key {
        let target = match &point.target {
            Target::Metric(metric) => metric.name.to_owned(),
            Target::Own(name) => format!("own/{name}"),
        };
        Key { cluster: point.cluster.clone(), host: point.host.clone(), target }
    }
}

impl Group {
    fn new(point: Point) -> Group {
        let mut group =
            Group { parts: BTreeMap::new(), round: BTreeSet::new(), is_over: false, like: point.clone() };
        group.add(point);
        group
    }

    fn add(&mut self, point: Point) {
        if self.parts.len() >= PARTS_MAX && !self.parts.contains_key(&point.part) {
            self.is_over = true;
            return;
        }
        self.round.insert(point.part.clone());
        self.parts.insert(point.part, Part { time: point.time, amount: point.amount, missed: 0 });
    }

    fn end(&mut self) -> Joined {
        let (round, is_over) = (std::mem::take(&mut self.round), std::mem::take(&mut self.is_over));
        let newest = round.iter().filter_map(|name| self.parts.get(name)).map(|part| part.time).max();
        let Some(time) = newest else { return Joined::Waiting };
        let is_whole = if self.like.needs.is_empty() { self.is_all(&round) } else { self.has_needed(time) };
        let amounts = self.parts.values().map(|part| part.amount);
        match amounts.reduce(|one, other| joined(one, other, self.like.join)) {
            Some(amount) if is_whole && !is_over => {
                let part = String::new();
                Joined::Whole(Point { time, amount, part, join: Join::Each, ..self.like.clone() })
            }
            _ => Joined::Incomplete,
        }
    }

    /// Whether all that there are have come; those that have not come for long are no more.
    fn is_all(&mut self, round: &BTreeSet<String>) -> bool {
        for (name, part) in &mut self.parts {
            part.missed = if round.contains(name) { 0 } else { part.missed + 1 };
        }
        self.parts.retain(|_, part| part.missed <= Joiner::PATIENCE);
        self.parts.values().all(|part| part.missed == 0)
    }

    /// Whether all that is needed by name is there; what is too old no longer is.
    fn has_needed(&mut self, time: Nanos) -> bool {
        self.parts.retain(|_, part| part.time.saturating_add(GOOD_FOR) >= time);
        self.like.needs.iter().all(|name| self.parts.contains_key(name))
    }
}

/// A level and a rate are never parts of one: a metric has one kind.
fn joined(one: Amount, other: Amount, join: Join) -> Amount {
    let pair = |a: f64, b: f64| if join == Join::Max { a.max(b) } else { a + b };
    match (one, other) {
        (Amount::Level(a), Amount::Level(b)) => Amount::Level(pair(a, b)),
        (Amount::Rate { per_second: a, since: from }, Amount::Rate { per_second: b, since }) => {
            let since = from.zip(since).map(|(from, since)| from.min(since));
            Amount::Rate { per_second: pair(a, b), since }
        }
        (one, _) => one,
    }
}
