//! Which tags jobs must have, as conditions on the bits of their rows; and as what people said where the bits do not tell it.

use std::collections::BTreeMap;

use duckdb::types::Value as Sql;

use crate::tags::{Declared, Known, REMOVED, SAID, TAGS};

/// A tag that jobs have, or have not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub tag: u32,
    pub bit: Option<u32>,
    /// Without one, only people say who has it, and what an earlier rule said of it counts no more.
    pub has_rule: bool,
    /// Something may be said of it that whoever asks sees, and that is no bit.
    pub is_apart: bool,
    /// It was removed from some job, and the caller still finds it by the rule's own result.
    pub is_removed: bool,
}

impl Wanted {
    pub fn of(declared: &Declared, known: &Known) -> Wanted {
        let tag = known.tag.declared.id;
        let is_apart = known.bit.is_none() || declared.apart.contains(&tag);
        let is_removed = known.version.is_some() && declared.removed.contains(&tag);
        Wanted { tag, bit: known.bit, has_rule: known.version.is_some(), is_apart, is_removed }
    }

    /// Whether one bit says it all.
    fn is_one_bit(&self) -> bool {
        !self.is_apart && !self.is_removed
    }

    /// Column and mask.
    fn word(&self) -> Option<(&'static str, u64)> {
        let columns = if self.has_rule { TAGS } else { SAID };
        self.bit.map(|bit| (columns[(bit / 64) as usize], 1 << (bit % 64)))
    }

    /// Never unknown.
    fn sql(&self) -> String {
        let apart = format!("c.id IN (SELECT h.id FROM assignment h WHERE h.tag = {} AND {SET})", self.tag);
        let has_bit = |word: &str, mask: u64| format!("coalesce(c.{word} & {mask}::UBIGINT <> 0, false)");
        let removed = || {
            let bit = self.bit.filter(|_| self.is_removed)?;
            Some(has_bit(REMOVED[(bit / 64) as usize], 1 << (bit % 64)))
        };
        let bit = self.word().map(|(word, mask)| match removed() {
            Some(removed) => format!("({} OR {removed})", has_bit(word, mask)),
            None => has_bit(word, mask),
        });
        match bit {
            None => apart,
            Some(bit) if self.is_apart => format!("({bit} OR {apart})"),
            Some(bit) => bit,
        }
    }
}

/// What people said and did not take back.
pub(in crate::query) const SET: &str = "h.is_set AND h.until_ns IS NULL";

/// Tags, and who has set them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tagged {
    /// Each of them.
    pub all: Vec<Wanted>,
    /// Of each list at least one.
    pub any: Vec<Vec<Wanted>>,
    /// None of them; whoever was not judged yet has none.
    pub none: Vec<Wanted>,
    /// Some tag that one of these people has set.
    pub by: Option<Vec<String>>,
    pub origin: Option<Origin>,
}

/// Where a tag comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Rule,
    Person,
}

impl Tagged {
    /// Each with the values of its `?`.
    pub(super) fn conditions(&self) -> Vec<(String, Vec<Sql>)> {
        let mut conditions: Vec<String> = Vec::new();
        conditions.extend(self.all.iter().filter(|of| !of.is_one_bit()).map(Wanted::sql));
        let all = words(&self.all).into_iter();
        conditions.extend(all.map(|(word, mask)| format!("c.{word} & {mask}::UBIGINT = {mask}::UBIGINT")));
        conditions.extend(self.any.iter().map(|list| any(list)));
        let is_not = |of: &Wanted| format!("NOT {}", of.sql());
        conditions.extend(self.none.iter().filter(|of| !of.is_one_bit()).map(is_not));
        let none = words(&self.none).into_iter();
        conditions
            .extend(none.map(|(word, mask)| format!("(c.{word} & {mask}::UBIGINT = 0 OR c.{word} IS NULL)")));
        conditions.extend(self.origin.map(|origin| match origin {
            Origin::Rule => format!("({})", decided().map(|word| format!("{word} <> 0")).join(" OR ")),
            Origin::Person => format!("c.id IN (SELECT h.id FROM assignment h WHERE {SET})"),
        }));
        let mut conditions: Vec<(String, Vec<Sql>)> =
            conditions.into_iter().map(|text| (text, Vec::new())).collect();
        conditions.extend(self.by.as_ref().map(|people| by(people)));
        conditions
    }
}

/// The bits of those for which a look at them is enough, those of one column together.
fn words(wanted: &[Wanted]) -> BTreeMap<&'static str, u64> {
    let mut words = BTreeMap::new();
    for (word, mask) in wanted.iter().filter(|of| of.is_one_bit()).filter_map(Wanted::word) {
        *words.entry(word).or_default() |= mask;
    }
    words
}

fn any(list: &[Wanted]) -> String {
    let words = words(list).into_iter().map(|(word, mask)| format!("c.{word} & {mask}::UBIGINT <> 0"));
    let apart = list.iter().filter(|of| !of.is_one_bit()).map(Wanted::sql);
    let each: Vec<String> = words.chain(apart).collect();
    if each.is_empty() { "false".to_owned() } else { format!("({})", each.join(" OR ")) }
}

fn by(people: &[String]) -> (String, Vec<Sql>) {
    let places = vec!["?"; people.len()].join(", ");
    let text = if people.is_empty() {
        "false".to_owned()
    } else {
        format!("c.id IN (SELECT h.id FROM assignment h WHERE {SET} AND h.\"by\" IN ({places}))")
    };
    (text, people.iter().cloned().map(Sql::Text).collect())
}

/// What the rules have decided of a job, as columns of a query: also what an owner has removed, for those who see that.
pub(in crate::query) fn decided() -> [String; TAGS.len()] {
    std::array::from_fn(|at| format!("((c.{} & ~c.{}) | c.{})", TAGS[at], SAID[at], REMOVED[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(bit: u32) -> Wanted {
        Wanted { tag: bit + 1000, bit: Some(bit), has_rule: true, is_apart: false, is_removed: false }
    }

    fn texts(tagged: &Tagged) -> Vec<String> {
        tagged.conditions().into_iter().map(|(text, _)| text).collect()
    }

    #[test]
    fn conditions_are_on_words() {
        let manual = |bit: u32| Wanted { has_rule: false, ..rule(bit) };
        let tagged = Tagged {
            all: [rule(0), rule(1), rule(64), manual(65)].into(),
            any: vec![[2, 63].map(rule).into(), vec![]],
            none: vec![rule(130), manual(3)],
            ..Tagged::default()
        };
        assert_eq!(
            texts(&tagged),
            [
                "c.said1 & 2::UBIGINT = 2::UBIGINT",
                "c.tags0 & 3::UBIGINT = 3::UBIGINT",
                "c.tags1 & 1::UBIGINT = 1::UBIGINT",
                "(c.tags0 & 9223372036854775812::UBIGINT <> 0)",
                "false",
                "(c.said0 & 8::UBIGINT = 0 OR c.said0 IS NULL)",
                "(c.tags2 & 4::UBIGINT = 0 OR c.tags2 IS NULL)",
            ]
        );
        assert_eq!(texts(&Tagged::default()).len(), 0);
    }

    #[test]
    fn what_people_say_is_looked_for_only_where_the_bits_do_not_tell_it() {
        let apart = Wanted { is_apart: true, ..rule(0) };
        let own = Wanted { tag: 7, bit: None, has_rule: false, is_apart: true, is_removed: false };
        let set = |tag: u32| format!("c.id IN (SELECT h.id FROM assignment h WHERE h.tag = {tag} AND {SET})");
        let either = format!("(coalesce(c.tags0 & 1::UBIGINT <> 0, false) OR {})", set(1000));
        let tagged = Tagged { all: vec![apart, own, rule(1)], ..Tagged::default() };
        assert_eq!(texts(&tagged), [either.clone(), set(7), "c.tags0 & 2::UBIGINT = 2::UBIGINT".into()]);
        let tagged = Tagged { none: vec![apart], any: vec![vec![rule(1), own]], ..Tagged::default() };
        assert_eq!(
            texts(&tagged),
            [format!("(c.tags0 & 2::UBIGINT <> 0 OR {})", set(7)), format!("NOT {either}")]
        );
    }
}
