//! What people say of jobs: they set tags, and take off what a rule has set. The last word about a job and a tag counts, until it is replaced
//! or taken back; a rule never changes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use duckdb::{Connection, OptionalExt, params};
use tags::{Declaration, Space};

use super::due::ids_due;
use super::{Declared, Known, TAGS};
use crate::StoreError;
use crate::accounting::measured;
use crate::people::People;
use crate::write::{Writer, now_ns};

/// What somebody says of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The job's.
    pub id: u64,
    /// The tag's.
    pub tag: u32,
    /// Whether the job has it, or has it not.
    pub is_set: bool,
    /// Nobody else sees it.
    pub is_personal: bool,
    pub by: String,
    pub reason: Option<String>,
}

/// A wish at submission: `sbatch --comment="tag:job_behavior ITERATIVE"`, several with `;` between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    pub id: u64,
    pub by: String,
    pub project: Option<String>,
    pub tags: Vec<String>,
}

/// Whatever in a comment begins with this is a tag.
const MARK: &str = "tag:";

impl Wish {
    /// `None` if the comment wishes nothing.
    pub fn of(id: u64, user: &str, project: Option<&str>, comment: &[u8]) -> Option<Wish> {
        let comment = String::from_utf8_lossy(comment);
        let tags: Vec<String> = comment
            .split([';', '\n'])
            .filter_map(|part| part.trim().strip_prefix(MARK))
            .map(|name| name.trim().to_owned())
            .collect();
        let project = project.map(str::to_owned);
        (!tags.is_empty()).then(|| Wish { id, by: user.to_owned(), project, tags })
    }
}

impl Writer {
    /// Keeps what somebody says of a job; whoever says it may, as the caller has seen. Says whether that changes anything.
    pub fn assign(&mut self, assignment: &Assignment) -> Result<bool, StoreError> {
        let declared = self.tags.get();
        let transaction = self.connection.transaction()?;
        let id = measured::now(&transaction, assignment.id)?;
        let assignment = &Assignment { id, ..assignment.clone() };
        let is_new = assign(&transaction, assignment, false, now_ns())?;
        if is_new && !assignment.is_personal {
            let known = declared.tags.iter().find(|known| known.tag.declared.id == assignment.tag);
            match known.and_then(|known| known.rule) {
                Some(rule) if !assignment.is_set => clear(&transaction, rule.bit, &[assignment.id])?,
                // It may have been taken off before.
                Some(_) => ids_due(&transaction, &[assignment.id.to_string()])?,
                None => {}
            }
        }
        transaction.commit()?;
        self.load_assigned()?;
        Ok(is_new)
    }

    /// Which tags people have set: of others nobody needs to look.
    pub(crate) fn load_assigned(&mut self) -> Result<(), StoreError> {
        let mut query = self
            .connection
            .prepare("SELECT DISTINCT tag FROM assignment WHERE is_set AND until_ns IS NULL")?;
        let assigned = query.query_map([], |row| row.get(0))?.collect::<Result<BTreeSet<u32>, _>>()?;
        let declared = self.tags.get();
        if declared.assigned != assigned {
            self.tags.put(Declared { assigned, ..(*declared).clone() });
        }
        Ok(())
    }
}

/// The last word about a job and a tag; of personal ones, that of the same person.
fn assign(
    connection: &Connection,
    said: &Assignment,
    at_submission: bool,
    now: i64,
) -> Result<bool, StoreError> {
    let same =
        "id = ? AND tag = ? AND is_personal = ? AND (NOT is_personal OR \"by\" = ?) AND until_ns IS NULL";
    let key = params![said.id, said.tag, said.is_personal, said.by];
    let before: Option<bool> = connection
        .query_row(&format!("SELECT is_set FROM assignment WHERE {same}"), key, |row| row.get(0))
        .optional()?;
    if before == Some(said.is_set) {
        return Ok(false);
    }
    let end = format!("UPDATE assignment SET until_ns = {now} WHERE {same}");
    connection.execute(&end, params![said.id, said.tag, said.is_personal, said.by])?;
    connection.execute(
        "INSERT INTO assignment VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)",
        params![said.id, said.tag, said.is_set, said.is_personal, said.by, at_submission, said.reason, now],
    )?;
    Ok(true)
}

/// What was wished at submission, once: told again, it does not bring back what somebody has taken off. The caller has a transaction.
pub(crate) fn wish(
    connection: &Connection,
    declared: &Arc<Declared>,
    people: &People,
    wishes: &[Wish],
) -> Result<(), StoreError> {
    let now = now_ns();
    for Wish { id, by, project, tags } in wishes {
        let declared = declared.seen_by(&people.sight(by));
        for name in tags {
            let known = wished(&declared, name);
            match known.and_then(|known| Ok((known, on_job(known, project.as_deref())?))) {
                Ok((known, is_personal)) => {
                    let tag = known.tag.declared.id;
                    let sql =
                        "SELECT EXISTS (SELECT 1 FROM assignment WHERE id = ? AND tag = ? AND at_submission)";
                    let is_known: bool = connection.query_row(sql, params![id, tag], |row| row.get(0))?;
                    let said =
                        Assignment { id: *id, tag, is_set: true, is_personal, by: by.clone(), reason: None };
                    if !is_known {
                        assign(connection, &said, true, now)?;
                    }
                }
                Err(why) => {
                    connection.execute(
                        "INSERT INTO assignment_refused SELECT ?, ?, ?, ? WHERE NOT EXISTS \
                         (SELECT 1 FROM assignment_refused WHERE id = ? AND wish = ?)",
                        params![id, name, why, now, id, name],
                    )?;
                }
            }
        }
    }
    Ok(())
}

/// The tag, or why it cannot be set.
pub fn wished<'a>(declared: &'a Declared, name: &str) -> Result<&'a Known, String> {
    match declared.named(name) {
        Some(known) if known.tag.available => Ok(known),
        Some(_) => Err(format!("the tag `{name}` is not available here")),
        None => Err(format!("there is no tag `{name}`: see jobglass tags list")),
    }
}

/// Whether a tag that is set on a job of this project is seen by oneself only, or why it cannot be set there.
pub fn on_job(known: &Known, project: Option<&str>) -> Result<bool, String> {
    let Declaration { name, space, .. } = &known.tag.declared;
    match space {
        Space::General => Ok(false),
        Space::Personal(_) => Ok(true),
        Space::Project(own) if project == Some(own) => Ok(false),
        Space::Project(own) => Err(format!("`{name}` is for jobs of project {own} only")),
    }
}

/// What people have taken off stays off, whatever the rules have just decided. The caller has a transaction.
pub(super) fn keep_off(connection: &Connection, declared: &Declared, jobs: &str) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT DISTINCT a.tag, a.id FROM assignment a WHERE NOT a.is_set AND NOT a.is_personal AND a.until_ns IS NULL \
         AND a.id IN (SELECT c.id FROM accounting c WHERE {jobs})"
    );
    if !is_any_off(connection)? {
        return Ok(());
    }
    let mut query = connection.prepare(&sql)?;
    let taken_off = query
        .query_map([], |row| Ok((row.get::<_, u32>(0)?, row.get::<_, u64>(1)?)))?
        .collect::<Result<Vec<_>, _>>()?;
    for (known, rule) in declared.judged() {
        let of_tag = taken_off.iter().filter(|(tag, _)| *tag == known.tag.declared.id);
        let ids: Vec<u64> = of_tag.map(|(_, id)| *id).collect();
        if !ids.is_empty() {
            clear(connection, rule.bit, &ids)?;
        }
    }
    Ok(())
}

fn is_any_off(connection: &Connection) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM assignment WHERE NOT is_set AND until_ns IS NULL)";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

fn clear(connection: &Connection, bit: u32, ids: &[u64]) -> Result<(), StoreError> {
    let (word, mask) = (TAGS[(bit / 64) as usize], !(1u64 << (bit % 64)));
    let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
    connection.execute_batch(&format!(
        "UPDATE accounting SET {word} = {word} & {mask}::UBIGINT WHERE id IN ({})",
        ids.join(", ")
    ))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_may_have_wishes() {
        for (comment, tags) in [
            ("tag:job_behavior ITERATIVE", &["job_behavior ITERATIVE"][..]),
            ("see ticket 7; tag: a ; tag:b\ntag:c", &["a", "b", "c"]),
            ("tag:", &[""]),
        ] {
            let wish = Wish::of(1, "anna", None, comment.as_bytes()).unwrap();
            assert_eq!(wish.tags, tags, "{comment}");
        }
        for comment in ["", "price tag:7", "my comment"] {
            assert_eq!(Wish::of(1, "anna", None, comment.as_bytes()), None, "{comment}");
        }
    }
}
