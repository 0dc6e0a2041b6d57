//! Which tags jobs must have: by rule, as conditions on the bits of their rows, or set by people, as far as whoever asks sees that.

use duckdb::types::Value as Sql;

use crate::tags::{Bits, Declared, Known, TAGS};

/// A tag that jobs have, or have not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub tag: u32,
    /// Of those that have a criterion.
    pub bit: Option<u32>,
    /// Whether people have set it on some job.
    pub is_assigned: bool,
}

impl Wanted {
    pub fn of(declared: &Declared, known: &Known) -> Wanted {
        let tag = known.tag.declared.id;
        Wanted { tag, bit: known.rule.map(|rule| rule.bit), is_assigned: declared.assigned.contains(&tag) }
    }

    /// Where a look at the bits is not enough.
    fn is_by_hand(&self) -> bool {
        self.is_assigned || self.bit.is_none()
    }

    /// Unknown where it can be said of no job.
    fn sql(&self) -> String {
        let by_hand = format!("c.id IN (SELECT h.id FROM assignment h WHERE h.tag = {} AND {SET})", self.tag);
        match self.bit.map(|bit| Bits::of([bit])) {
            None => by_hand,
            Some(bits) => {
                let bit = bits
                    .words()
                    .map(|(word, mask)| format!("coalesce(c.{word} & {mask}::UBIGINT <> 0, false)"));
                let bit: String = bit.collect();
                if self.is_assigned { format!("({bit} OR {by_hand})") } else { bit }
            }
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
        conditions.extend(self.all.iter().filter(|of| of.is_by_hand()).map(Wanted::sql));
        let all = bits(&self.all).words();
        conditions.extend(all.map(|(word, mask)| format!("c.{word} & {mask}::UBIGINT = {mask}::UBIGINT")));
        conditions.extend(self.any.iter().map(|list| any(list)));
        // Whatever nobody accounts for has no id, and nobody has set a tag on it.
        let is_not = |of: &Wanted| format!("NOT coalesce({}, false)", of.sql());
        conditions.extend(self.none.iter().filter(|of| of.is_by_hand()).map(is_not));
        let none = bits(&self.none).words();
        conditions
            .extend(none.map(|(word, mask)| format!("(c.{word} & {mask}::UBIGINT = 0 OR c.{word} IS NULL)")));
        conditions.extend(self.origin.map(|origin| match origin {
            Origin::Rule => format!("({})", TAGS.map(|word| format!("c.{word} <> 0")).join(" OR ")),
            Origin::Person => format!("c.id IN (SELECT h.id FROM assignment h WHERE {SET})"),
        }));
        let mut conditions: Vec<(String, Vec<Sql>)> =
            conditions.into_iter().map(|text| (text, Vec::new())).collect();
        conditions.extend(self.by.as_ref().map(|people| by(people)));
        conditions
    }
}

/// The bits of those for which a look at the bits is enough.
fn bits(wanted: &[Wanted]) -> Bits {
    Bits::of(wanted.iter().filter(|of| !of.is_by_hand()).filter_map(|of| of.bit))
}

fn any(list: &[Wanted]) -> String {
    let words = bits(list).words().map(|(word, mask)| format!("c.{word} & {mask}::UBIGINT <> 0"));
    let by_hand = list.iter().filter(|of| of.is_by_hand()).map(Wanted::sql);
    let each: Vec<String> = words.chain(by_hand).collect();
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

/// The bits of a job, as columns of a query.
pub(in crate::query) fn words() -> String {
    TAGS.map(|name| format!("c.{name}")).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(bit: u32) -> Wanted {
        Wanted { tag: bit + 1000, bit: Some(bit), is_assigned: false }
    }

    fn texts(tagged: &Tagged) -> Vec<String> {
        tagged.conditions().into_iter().map(|(text, _)| text).collect()
    }

    #[test]
    fn conditions_are_on_words() {
        let tagged = Tagged {
            all: [0, 1, 64].map(rule).into(),
            any: vec![[2, 63].map(rule).into(), vec![]],
            none: vec![rule(130)],
            ..Tagged::default()
        };
        assert_eq!(
            texts(&tagged),
            [
                "c.tags0 & 3::UBIGINT = 3::UBIGINT",
                "c.tags1 & 1::UBIGINT = 1::UBIGINT",
                "(c.tags0 & 9223372036854775812::UBIGINT <> 0)",
                "false",
                "(c.tags2 & 4::UBIGINT = 0 OR c.tags2 IS NULL)",
            ]
        );
        assert_eq!(texts(&Tagged::default()).len(), 0);
    }

    #[test]
    fn only_of_tags_that_people_have_set_is_their_word_looked_for() {
        let assigned = Wanted { is_assigned: true, ..rule(0) };
        let manual = Wanted { tag: 7, bit: None, is_assigned: false };
        let set = |tag: u32| format!("c.id IN (SELECT h.id FROM assignment h WHERE h.tag = {tag} AND {SET})");
        let either = format!("(coalesce(c.tags0 & 1::UBIGINT <> 0, false) OR {})", set(1000));
        let tagged = Tagged { all: vec![assigned, manual, rule(1)], ..Tagged::default() };
        assert_eq!(texts(&tagged), [either.clone(), set(7), "c.tags0 & 2::UBIGINT = 2::UBIGINT".into()]);
        let tagged = Tagged { none: vec![assigned], any: vec![vec![rule(1), manual]], ..Tagged::default() };
        assert_eq!(
            texts(&tagged),
            [format!("(c.tags0 & 2::UBIGINT <> 0 OR {})", set(7)), format!("NOT coalesce({either}, false)")]
        );
    }
}
