//! Tags that people declare for a project or for themselves. They have no criterion: those are few, and for the site to give.

use digest::limits::Kept;
use duckdb::{Connection, params};
use tags::{Declaration, Name, Space};

use crate::StoreError;
use crate::write::{Writer, now_ns};

/// Such tags have ids from here on.
pub(super) const FIRST: u32 = 1_000_000;
/// So many in one space: nobody can read more, and everybody's are declared together.
pub const MOST: u64 = 200;
const GROUP: &str = "own";

impl Writer {
    /// Declares a tag for those of a space; returns its id, or why that cannot be.
    pub fn declare_own(
        &mut self,
        name: &Name,
        space: &Space,
        description: &str,
        by: &str,
    ) -> Result<Result<u32, String>, StoreError> {
        self.check_quota(Kept::Tags, by)?;
        self.change_tags(|connection| {
            let sql = "SELECT count(*) FROM own_tag WHERE space = ? AND until_ns IS NULL";
            let there: u64 = connection.query_row(sql, params![space.to_string()], |row| row.get(0))?;
            if there >= MOST {
                return Ok(Err(format!("there are {there} tags of {space} already: retire some first")));
            }
            if find(connection, name.as_str(), space)?.is_some() {
                return Ok(Err(format!("there is a tag `{name}` of {space} already")));
            }
            let sql = format!("SELECT coalesce(max(id), {}) + 1 FROM own_tag", FIRST - 1);
            let id: u32 = connection.query_row(&sql, [], |row| row.get(0))?;
            connection.execute(
                "INSERT INTO own_tag VALUES (?, ?, ?, ?, ?, ?, NULL)",
                params![id, name.as_str(), description, space.to_string(), by, now_ns()],
            )?;
            Ok(Ok(id))
        })
    }

    /// Gives a tag up that was declared so; what was said with it is kept. Says whether there was one.
    pub fn retire_own(&mut self, id: u32) -> Result<bool, StoreError> {
        self.change_tags(|connection| {
            let sql = "UPDATE own_tag SET until_ns = ? WHERE id = ? AND until_ns IS NULL";
            Ok(connection.execute(sql, params![now_ns(), id])? > 0)
        })
    }
}

/// A tag of a space, by any spelling of its name.
fn find(connection: &Connection, name: &str, space: &Space) -> Result<Option<u32>, StoreError> {
    let mut query =
        connection.prepare("SELECT id, name FROM own_tag WHERE space = ? AND until_ns IS NULL")?;
    let rows = query.query_map(params![space.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let rows = rows.collect::<Result<Vec<(u32, String)>, _>>()?;
    let key = tags::name::key(name);
    Ok(rows.into_iter().find(|(_, other)| tags::name::key(other) == key).map(|(id, _)| id))
}

/// Whether a tag was declared so.
pub fn is_own(id: u32) -> bool {
    id >= FIRST
}

/// All of them, as declarations.
pub(super) fn declared(
    connection: &Connection,
    refused: &mut Vec<String>,
) -> Result<Vec<Declaration>, StoreError> {
    let sql = "SELECT id, name, description, space, \"by\" FROM own_tag WHERE until_ns IS NULL ORDER BY id";
    let mut query = connection.prepare(sql)?;
    let mut rows = query.query([])?;
    let mut declarations = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, name, space): (u32, String, String) = (row.get(0)?, row.get(1)?, row.get(3)?);
        let read = Name::try_from(name).map_err(|error| error.to_string());
        let read =
            read.and_then(|name| Ok((name, Space::try_from(space).map_err(|error| error.to_string())?)));
        match read {
            Ok((name, space)) => {
                let tag = Declaration::new(id, name, GROUP, row.get(2)?).by(&row.get::<_, String>(4)?);
                declarations.push(Declaration { space, ..tag });
            }
            Err(why) => refused.push(format!("tag {id}: {why}")),
        }
    }
    Ok(declarations)
}
