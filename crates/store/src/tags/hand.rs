//! What people say of jobs: they set tags, and take off what a rule has set. The last word about a job and a tag counts, until it is replaced
//! or taken back; a rule never changes it.

use std::collections::{BTreeMap, HashMap};

use digest::limits::Kept;
use duckdb::{Connection, params};
use tags::{Declaration, Space};

use super::due::ids_due;
use super::{Bits, Declared, Known, Voice, said};
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
    /// What an administrator removes is removed for everybody; support still finds what an owner has removed, by the rule's own result.
    pub by_administrator: bool,
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
        self.check_quota(Kept::Assignments, &assignment.by)?;
        let declared = self.tags.get();
        let transaction = self.connection.transaction()?;
        let id = measured::now(&transaction, assignment.id)?;
        let assignment = Assignment { id, ..assignment.clone() };
        let is_new = keep(&transaction, std::slice::from_ref(&assignment), false)? > 0;
        if is_new && !assignment.is_personal {
            said::bring_in(&transaction, &declared, JUST_SAID, Bits::default())?;
            let known = declared.tags.iter().find(|known| known.tag.declared.id == assignment.tag);
            if assignment.is_set && known.is_some_and(|known| known.rule().is_some()) {
                // An administrator may have removed it before: what its rule says is no longer known.
                ids_due(&transaction, &[id.to_string()])?;
            }
        }
        transaction.commit()?;
        self.add_voices([assignment.voice()]);
        Ok(is_new)
    }
}

impl Assignment {
    fn voice(&self) -> Voice {
        Voice { by: self.by.clone(), tag: self.tag, is_set: self.is_set, is_personal: self.is_personal }
    }
}

/// Jobs of which [`keep`] has just kept something that is not personal.
const JUST_SAID: &str = "c.id IN (SELECT n.id FROM said_now n WHERE NOT n.is_personal)";

/// The last words about jobs and tags, of each one at most; of personal ones, those of the same person. Says how many of them are new, and leaves
/// these in `said_now`. A wish at submission counts once: told again, it does not bring back what somebody has taken off.
fn keep(connection: &Connection, said: &[Assignment], at_submission: bool) -> Result<usize, StoreError> {
    connection.execute_batch(
        "CREATE TEMP TABLE IF NOT EXISTS said_now (id UBIGINT, tag UINTEGER, is_set BOOLEAN, is_personal BOOLEAN, \"by\" VARCHAR, \
           by_administrator BOOLEAN, reason VARCHAR); \
         DELETE FROM said_now",
    )?;
    let mut table = connection.appender_to_catalog_and_db("said_now", "temp", "main")?;
    for Assignment { id, tag, is_set, is_personal, by, by_administrator, reason } in said {
        table.append_row(params![id, tag, is_set, is_personal, by, by_administrator, reason])?;
    }
    table.flush()?;
    drop(table);
    if at_submission {
        connection.execute_batch(
            "DELETE FROM said_now n USING assignment h WHERE h.id = n.id AND h.tag = n.tag AND h.at_submission",
        )?;
    }
    let same = "h.id = n.id AND h.tag = n.tag AND h.is_personal = n.is_personal AND (NOT n.is_personal OR h.\"by\" = n.\"by\") \
                AND h.until_ns IS NULL";
    let now = now_ns();
    connection.execute_batch(&format!(
        "DELETE FROM said_now n USING assignment h WHERE {same} AND h.is_set = n.is_set \
           AND (n.is_set OR h.by_administrator OR NOT n.by_administrator); \
         UPDATE assignment h SET until_ns = {now} FROM said_now n WHERE {same}"
    ))?;
    let sql = "INSERT INTO assignment SELECT id, tag, is_set, is_personal, \"by\", by_administrator, ?, reason, ?, NULL FROM said_now";
    Ok(connection.execute(sql, params![at_submission, now])?)
}

/// What was wished at submission; says who has wished what. The caller has a transaction; `there` is where the jobs lie.
pub(crate) fn wish(
    connection: &Connection,
    declared: &Declared,
    people: &People,
    wishes: &[Wish],
    there: &str,
) -> Result<Vec<Voice>, StoreError> {
    if wishes.is_empty() {
        return Ok(Vec::new());
    }
    let mut seen: HashMap<&str, Declared> = HashMap::new();
    let mut granted: BTreeMap<(u64, u32), Assignment> = BTreeMap::new();
    let mut refused: BTreeMap<(u64, &str), String> = BTreeMap::new();
    for Wish { id, by, project, tags } in wishes {
        let seen = seen.entry(by).or_insert_with(|| declared.seen_by(&people.sight(by)));
        for name in tags {
            let known = wished(seen, name);
            match known.and_then(|known| Ok((known, on_job(known, project.as_deref())?))) {
                Ok((known, is_personal)) => {
                    let (id, tag, by) = (*id, known.tag.declared.id, by.clone());
                    let said = Assignment {
                        id,
                        tag,
                        is_set: true,
                        is_personal,
                        by,
                        by_administrator: false,
                        reason: None,
                    };
                    granted.insert((id, tag), said);
                }
                Err(why) => drop(refused.insert((*id, name), why)),
            }
        }
    }
    refuse(connection, &refused)?;
    let granted: Vec<Assignment> = granted.into_values().collect();
    if keep(connection, &granted, true)? > 0 {
        said::bring_in(connection, declared, &format!("{there} AND {JUST_SAID}"), Bits::default())?;
    }
    Ok(granted.iter().map(Assignment::voice).collect())
}

/// Keeps why wishes were not fulfilled, each once.
fn refuse(connection: &Connection, refused: &BTreeMap<(u64, &str), String>) -> Result<(), StoreError> {
    if refused.is_empty() {
        return Ok(());
    }
    connection.execute_batch(
        "CREATE TEMP TABLE IF NOT EXISTS refused_now (id UBIGINT, wish VARCHAR, why VARCHAR); DELETE FROM refused_now",
    )?;
    let mut table = connection.appender_to_catalog_and_db("refused_now", "temp", "main")?;
    for ((id, name), why) in refused {
        table.append_row(params![id, name, why])?;
    }
    table.flush()?;
    drop(table);
    connection.execute(
        "INSERT INTO assignment_refused SELECT n.id, n.wish, n.why, ? FROM refused_now n \
         WHERE NOT EXISTS (SELECT 1 FROM assignment_refused r WHERE r.id = n.id AND r.wish = n.wish)",
        params![now_ns()],
    )?;
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
