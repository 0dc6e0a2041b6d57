//! What people say of jobs, brought into the bits of their rows, so that a filter by tags reads one table whoever has set them.
//!
//! A bit of [`TAGS`] is set if the rule says so or people do; it is also one of [`SAID`] if only people do. A tag that somebody has removed is
//! no bit of either; if the rule sets it and it was not an administrator who removed it, it is one of [`REMOVED`], so the rule's own result is
//! never lost to support. What is personal is in none of them: it is for one person only, who looks it up.

use duckdb::Connection;

use super::{Bits, Declared, REMOVED, SAID, TAGS};
use crate::StoreError;
use crate::sight::Sight;
use crate::write::Writer;

/// That somebody has set a tag on some job, or removed it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Voice {
    pub by: String,
    pub tag: u32,
    pub is_set: bool,
    pub is_personal: bool,
}

impl Voice {
    /// Whether a tag was removed for the owner and the project, but not for support.
    pub(super) fn is_removal(&self) -> bool {
        !self.is_set && !self.is_personal
    }

    /// Whether the bits that somebody reads do not say it to them, though they see it.
    pub(super) fn is_apart(&self, sight: &Sight) -> bool {
        if !self.is_set {
            return false;
        }
        match sight {
            Sight::All => self.is_personal,
            Sight::Administrator { user } | Sight::Own { user, .. } => self.is_personal && self.by == *user,
            // The bits that they read are those of rules.
            Sight::Support { user, .. } => self.by == *user,
        }
    }
}

impl Writer {
    /// Who has set which tags.
    pub(crate) fn load_voices(&mut self) -> Result<(), StoreError> {
        let sql = "SELECT DISTINCT \"by\", tag, is_set, is_personal FROM assignment WHERE until_ns IS NULL";
        let mut query = self.connection.prepare(sql)?;
        let voices = query.query_map([], |row| {
            Ok(Voice { by: row.get(0)?, tag: row.get(1)?, is_set: row.get(2)?, is_personal: row.get(3)? })
        })?;
        let voices = voices.collect::<Result<_, _>>()?;
        self.tags.put(self.tags.get().with_voices(voices));
        Ok(())
    }

    /// Adds who has set a tag just now. One that is there no more does no harm but to look for what is not there.
    pub(crate) fn add_voices(&mut self, new: impl IntoIterator<Item = Voice>) {
        let declared = self.tags.get();
        let new: Vec<Voice> = new.into_iter().filter(|voice| !declared.voices.contains(voice)).collect();
        if !new.is_empty() {
            let voices = declared.voices.iter().cloned().chain(new).collect();
            self.tags.put(declared.with_voices(voices));
        }
    }
}

/// Whether anybody has said anything that others see.
pub(super) fn is_any(connection: &Connection) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM assignment WHERE NOT is_personal)";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

/// The same for all jobs, when tags have got bits that they did not have before.
pub(super) fn bring_in_all(connection: &Connection, declared: &Declared) -> Result<(), StoreError> {
    let is_said_of = "c.id IN (SELECT h.id FROM assignment h WHERE NOT h.is_personal)";
    if is_any(connection)? { bring_in(connection, declared, is_said_of, Bits::default()) } else { Ok(()) }
}

/// Brings what is said of some jobs into their bits, `decided` being those that rules have just written. The caller has a transaction; `jobs` is
/// a condition on `c`, our own text.
pub(crate) fn bring_in(
    connection: &Connection,
    declared: &Declared,
    jobs: &str,
    decided: Bits,
) -> Result<(), StoreError> {
    let columns: Vec<Column> = (0..TAGS.len()).map(|at| Column::new(at, decided)).collect();
    let list = |of: fn(&Column) -> &String| columns.iter().map(of).cloned().collect::<Vec<_>>();
    let has_said = SAID.into_iter().chain(REMOVED).map(|word| format!("c.{word} <> 0"));
    let has_said = has_said.collect::<Vec<_>>().join(" OR ");
    connection.execute_batch(&format!(
        "UPDATE accounting SET {set} FROM ( \
           SELECT c.rowid AS place, {ruled} FROM accounting c \
           LEFT JOIN (SELECT h.id, {words} FROM assignment h JOIN (VALUES {bits}) b(tag, word, mask) ON b.tag = h.tag \
             WHERE h.until_ns IS NULL AND NOT h.is_personal GROUP BY h.id) w ON w.id = c.id \
           WHERE ({jobs}) AND (w.id IS NOT NULL OR {has_said})) s \
         WHERE accounting.rowid = s.place AND ({changed})",
        set = list(|column| &column.set).join(", "),
        ruled = list(|column| &column.ruled).join(", "),
        words = list(|column| &column.words).join(", "),
        changed = list(|column| &column.changed).join(" OR "),
        bits = places(declared),
    ))?;
    Ok(())
}

/// Tag, word and mask of each bit; there is one at least, which no tag has.
fn places(declared: &Declared) -> String {
    let rows = declared
        .bits()
        .into_iter()
        .map(|(tag, bit)| format!("({tag}, {}, {}::UBIGINT)", bit / 64, 1u64 << (bit % 64)));
    rows.chain(["(NULL, NULL, NULL)".to_owned()]).collect::<Vec<_>>().join(", ")
}

/// One word of bits in the query that brings in what was said.
struct Column {
    /// Its bits that people have set, and those that they have taken off, of one job.
    words: String,
    /// What its rules say, and what people do.
    ruled: String,
    set: String,
    changed: String,
}

impl Column {
    fn new(at: usize, decided: Bits) -> Column {
        let (tags, said, removed, decided) = (TAGS[at], SAID[at], REMOVED[at], decided.0[at]);
        let of = |is_set: &str| {
            format!("bit_or(CASE WHEN b.word = {at} AND {is_set} THEN b.mask ELSE 0::UBIGINT END)")
        };
        // A bit that only people had set is none of the rule's, and one that they had removed still is, unless the rule has just decided.
        let before = format!("{}::UBIGINT", !decided);
        let rule = format!("(coalesce(c.{tags}, 0) & ~(c.{said} & {before})) | (c.{removed} & {before})");
        let new_tags = format!("((s.rule{at} | s.on{at}) & ~(s.off{at} | s.final{at}))");
        let new_said = format!("(s.on{at} & ~s.rule{at})");
        let new_removed = format!("(s.rule{at} & s.off{at})");
        let words = [
            ("on", "h.is_set"),
            ("off", "NOT h.is_set AND NOT h.by_administrator"),
            ("final", "NOT h.is_set AND h.by_administrator"),
        ];
        let known = words.map(|(name, _)| format!("coalesce(w.{name}{at}, 0::UBIGINT) AS {name}{at}"));
        Column {
            words: words.map(|(name, which)| format!("{} AS {name}{at}", of(which))).join(", "),
            ruled: format!("{rule} AS rule{at}, {}", known.join(", ")),
            changed: format!(
                "coalesce(accounting.{tags}, 0) <> {new_tags} OR accounting.{said} <> {new_said} \
                 OR accounting.{removed} <> {new_removed}"
            ),
            set: format!("{tags} = {new_tags}, {said} = {new_said}, {removed} = {new_removed}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Accounts, Limits, Store};
    use record::accounting::Accounting;

    #[test]
    fn what_the_bits_do_not_tell_is_looked_for() {
        let voice = |is_personal: bool| Voice { by: "pia".into(), tag: 1, is_set: true, is_personal };
        let own = |user: &str| Sight::Own { user: user.into(), projects: vec![], member_of: vec![] };
        let support = |user: &str| Sight::Support { user: user.into(), member_of: vec![] };
        let administrator = |user: &str| Sight::Administrator { user: user.into() };
        for (sight, personal, shared) in [
            (Sight::All, true, false),
            (administrator("pia"), true, false),
            (administrator("ada"), false, false),
            (own("pia"), true, false),
            (own("otto"), false, false),
            (support("pia"), true, true),
            (support("sven"), false, false),
        ] {
            let is_apart = [true, false].map(|is_personal| voice(is_personal).is_apart(&sight));
            assert_eq!(is_apart, [personal, shared], "{sight:?}");
        }
    }

    /// A version that knew no such bits has kept what people said, and a tag that is declared again has what was said of it.
    #[test]
    fn whoever_was_tagged_before_has_bits_when_the_tables_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let open = || {
            let store = Store::open(dir.path(), &Limits::default()).unwrap();
            let writer = store.writer().unwrap();
            (store, writer)
        };
        let (store, mut writer) = open();
        let job = Accounting {
            job: Some("1".into()),
            shown: "1".into(),
            submit: Some(1),
            comment: Some(b"tag:job_behavior ITERATIVE".as_slice().into()),
            user: Some("anna".into()),
            ..Accounting::default()
        };
        writer.account(&Accounts::of(&[job]).unwrap()).unwrap();
        let sql = "SELECT bit_count(said0 | said1 | said2 | said3), bit_count(tags0 | tags1 | tags2 | tags3) FROM accounting";
        let bits = |writer: &Writer| -> (Option<u8>, Option<u8>) {
            writer.connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
        };
        assert_eq!(bits(&writer), (Some(1), Some(1)));
        let forget: Vec<String> =
            (0..TAGS.len()).map(|at| format!("{} = NULL, {} = 0", TAGS[at], SAID[at])).collect();
        writer.connection.execute_batch(&format!("UPDATE accounting SET {}", forget.join(", "))).unwrap();
        assert_eq!(bits(&writer), (Some(0), None));
        drop((writer, store));
        assert_eq!(bits(&open().1), (Some(1), Some(1)));
    }
}
