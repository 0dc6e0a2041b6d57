//! Which tags jobs must have, as conditions on the bits of their rows.

use crate::tags::{Bits, TAGS};

/// Tags by their bits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tagged {
    /// Each of them.
    pub all: Vec<u32>,
    /// Of each list at least one.
    pub any: Vec<Vec<u32>>,
    /// None of them; whoever was not judged yet has none.
    pub none: Vec<u32>,
}

impl Tagged {
    /// Our own numbers only, so there is nothing to bind.
    pub(super) fn conditions(&self) -> impl Iterator<Item = String> {
        let all = Bits::of(self.all.iter().copied()).words();
        let all = all.map(|(word, mask)| format!("c.{word} & {mask}::UBIGINT = {mask}::UBIGINT"));
        let any = self.any.iter().map(|bits| {
            let words = Bits::of(bits.iter().copied()).words();
            let each: Vec<String> =
                words.map(|(word, mask)| format!("c.{word} & {mask}::UBIGINT <> 0")).collect();
            if each.is_empty() { "false".to_owned() } else { format!("({})", each.join(" OR ")) }
        });
        let none = Bits::of(self.none.iter().copied()).words();
        let none = none.map(|(word, mask)| format!("(c.{word} & {mask}::UBIGINT = 0 OR c.{word} IS NULL)"));
        all.chain(any).chain(none).collect::<Vec<_>>().into_iter()
    }
}

/// The bits of a job, as columns of a query.
pub(in crate::query) fn words() -> String {
    TAGS.map(|name| format!("c.{name}")).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_on_words() {
        let tagged = Tagged { all: vec![0, 1, 64], any: vec![vec![2, 63], vec![]], none: vec![130] };
        assert_eq!(
            tagged.conditions().collect::<Vec<_>>(),
            [
                "c.tags0 & 3::UBIGINT = 3::UBIGINT",
                "c.tags1 & 1::UBIGINT = 1::UBIGINT",
                "(c.tags0 & 9223372036854775812::UBIGINT <> 0)",
                "false",
                "(c.tags2 & 4::UBIGINT = 0 OR c.tags2 IS NULL)",
            ]
        );
        assert_eq!(Tagged::default().conditions().count(), 0);
    }
}
