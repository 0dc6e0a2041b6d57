//! Brings what is declared into the tables: shipped tags, those of the site, and one for each partition. A criterion that is not the one
//! that the tag had last is a new version of it, and another version of any tag makes another set of rules.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use condition::Condition;
use digest::Site;
use duckdb::{Connection, params};
use tags::{Declaration, Name, Search, Space, Tag, shipped};

use super::{BITS, Declared, Known, is_own, on_software, own, proposals, said};
use crate::StoreError;
use crate::query::jobs::FIXED;
use crate::write::{Writer, now_ns};

/// Tags that declare themselves have ids from here on.
const SELF_DECLARED: u32 = 100_000;
/// Who has written the tags of the site's file, where it says nothing.
const SITE: &str = "the site";

/// What the tables have of a tag.
struct Kept {
    id: u32,
    bit: Option<u32>,
}

/// What they have, by space and name.
type AllKept = HashMap<(Space, String), Kept>;

impl Writer {
    /// Declares anew whatever may have changed; all who ask see it from now on.
    pub fn declare_tags(&mut self) -> Result<(), StoreError> {
        self.change_tags(|_| Ok(()))
    }

    /// Changes something that tags are made of, and declares them anew; nothing changes if they make no sense then.
    pub(super) fn change_tags<T>(
        &mut self,
        change: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let transaction = self.connection.transaction()?;
        let made = change(&transaction)?;
        let partitions = partitions(&transaction)?;
        let declared = declare(&transaction, &self.site, &partitions, now_ns())?;
        if declared.bits() != self.tags.get().bits() {
            said::bring_in_all(&transaction, &declared)?;
        }
        transaction.commit()?;
        self.partitions = partitions.into_iter().collect();
        self.tags.put(declared);
        self.load_voices()?;
        Ok(made)
    }
}

fn declare(
    connection: &Connection,
    site: &Site,
    partitions: &[String],
    now: i64,
) -> Result<Declared, StoreError> {
    let mut kept = load(connection)?;
    let mut declarations = shipped::shipped().map_err(|error| StoreError::Tags(error.to_string()))?;
    declarations.extend(site.own_tags.iter().map(|tag| tag.clone().by(SITE)));
    let mut refused = Vec::new();
    let approved = proposals::approved(connection, &declarations, &mut refused)?;
    declarations.extend(approved);
    let of_partitions = of_partitions(partitions, &declarations, &kept, &mut refused);
    declarations.extend(of_partitions);
    on_software::add_criteria(connection, &mut declarations)?;
    let mut tags = tags::tag::check(&declarations, &site.tags, &FIXED.catalogue)
        .map_err(|error| StoreError::Tags(error.to_string()))?;
    for declaration in own::declared(connection, &mut refused)? {
        match Tag::check(&declaration, &site.tags, &FIXED.catalogue) {
            Ok(tag) => tags.push(tag),
            Err(error) => refused.push(error.to_string()),
        }
    }
    let versions = versions(connection)?;
    let mut known = Vec::with_capacity(tags.len());
    let mut next_bit = kept.values().filter_map(|kept| kept.bit).max().map_or(0, |bit| bit + 1);
    for tag in tags {
        let name = tag.declared.name.to_string();
        let before = kept.get(&(tag.declared.space.clone(), tag.declared.name.key()));
        let bit = match before.and_then(|kept| kept.bit) {
            Some(bit) => Some(bit),
            None if is_own(tag.declared.id) => None,
            None if next_bit < BITS => {
                next_bit += 1;
                Some(next_bit - 1)
            }
            // People can set it all the same.
            None if tag.criterion.is_none() => None,
            None => {
                refused.push(format!("`{name}`: all {BITS} places for tags are taken"));
                continue;
            }
        };
        keep(connection, &mut kept, &tag, bit, now)?;
        let version = tag
            .criterion
            .as_ref()
            .map(|of| version(connection, &versions, tag.declared.id, &of.to_string(), now));
        known.push(Known { version: version.transpose()?, bit, tag });
    }
    let mut declared = Declared { tags: Arc::new(known), refused, ..Declared::default() };
    note_available(connection, &declared)?;
    declared.set = set(connection, &declared)?;
    declared.exclusive = Arc::new(exclusive(site)?);
    declared.searches = Arc::new(searches(site, &mut declared)?);
    Ok(declared)
}

/// The exclusive groups that are shipped, and those of the site.
fn exclusive(site: &Site) -> Result<BTreeSet<String>, StoreError> {
    let shipped = shipped::exclusive_groups().map_err(|error| StoreError::Tags(error.to_string()))?;
    Ok(shipped.into_iter().chain(site.tags.exclusive.iter().cloned()).collect())
}

/// Those that are shipped and those of the site, of which one takes the place of another with its name.
fn searches(site: &Site, declared: &mut Declared) -> Result<Vec<Search>, StoreError> {
    let shipped = tags::search::shipped().map_err(|error| StoreError::Tags(error.to_string()))?;
    let mut all: BTreeMap<String, Search> = BTreeMap::new();
    for search in shipped.into_iter().chain(site.searches.iter().cloned()) {
        match wrong(&search, declared) {
            Some(why) => declared.refused.push(format!("search `{}`: {why}", search.name)),
            None => drop(all.insert(search.name.clone(), search)),
        }
    }
    Ok(all.into_values().collect())
}

/// Why a search cannot be made.
fn wrong(search: &Search, declared: &Declared) -> Option<String> {
    let names = search.all.iter().chain(&search.none).chain(search.any.iter().flatten());
    let unknown = names.into_iter().find(|name| declared.named(name).is_none());
    unknown.map(|name| format!("there is no tag `{name}`")).or_else(|| {
        let text = search.r#where.as_ref()?;
        Condition::parse(text, &FIXED.catalogue).err().map(|error| error.to_string())
    })
}

fn load(connection: &Connection) -> Result<AllKept, StoreError> {
    let mut query = connection.prepare("SELECT id, name, bit, space FROM tag")?;
    let mut rows = query.query([])?;
    let mut kept = AllKept::new();
    while let Some(row) = rows.next()? {
        let (name, space): (String, Option<String>) = (row.get(1)?, row.get(3)?);
        let space = space.map_or(Ok(Space::General), Space::try_from);
        let space = space.map_err(|_| StoreError::Damaged("a tag is of a space that cannot be"))?;
        kept.insert((space, tags::name::key(&name)), Kept { id: row.get(0)?, bit: row.get(2)? });
    }
    Ok(kept)
}

/// Which tags jobs can have now.
fn note_available(connection: &Connection, declared: &Declared) -> Result<(), StoreError> {
    let ids = declared.tags.iter().filter(|known| known.tag.available);
    let ids: Vec<String> = ids.map(|known| known.tag.declared.id.to_string()).collect();
    let is_one = format!("id IN ({})", ids.join(", "));
    let sql =
        format!("UPDATE tag SET is_available = ({is_one}) WHERE is_available IS DISTINCT FROM ({is_one})");
    Ok(connection.execute_batch(&sql)?)
}

/// Those that the batch system told, and those of jobs that came without it.
fn partitions(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT DISTINCT name FROM (SELECT name FROM partition_now UNION ALL \
        SELECT DISTINCT partition FROM accounting) WHERE name IS NOT NULL ORDER BY name";
    let mut query = connection.prepare(sql)?;
    let names = query.query_map([], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// A tag for each partition whose name can be that of a tag and means no other one.
fn of_partitions(
    partitions: &[String],
    others: &[Declaration],
    kept: &AllKept,
    refused: &mut Vec<String>,
) -> Vec<Declaration> {
    let mut taken: HashMap<String, String> = others
        .iter()
        .flat_map(|tag| std::iter::once(&tag.name).chain(&tag.aliases))
        .map(|name| (name.key(), name.to_string()))
        .collect();
    let mut next = SELF_DECLARED;
    next = kept.values().map(|kept| kept.id + 1).filter(|id| *id <= own::FIRST).fold(next, u32::max);
    let mut tags = Vec::new();
    // A job that waits may be for several, and has one when it begins.
    for partition in partitions.iter().filter(|name| !name.contains(',')) {
        let name = match Name::try_from(format!("job_partition {partition}")) {
            Ok(name) => name,
            Err(error) => {
                refused.push(format!("partition `{partition}`: {error}"));
                continue;
            }
        };
        if let Some(other) = taken.insert(name.key(), name.to_string()) {
            refused.push(format!("partition `{partition}`: `{name}` means the same as `{other}`"));
            continue;
        }
        let id = kept.get(&(Space::General, name.key())).map_or_else(
            || {
                next += 1;
                next - 1
            },
            |kept| kept.id,
        );
        tags.push(of_partition(id, name, partition));
    }
    tags
}

fn of_partition(id: u32, name: Name, partition: &str) -> Declaration {
    let description = format!("The job was in partition {partition}.");
    Declaration {
        criterion: Some(format!("partition = '{}'", partition.replace('\'', "''"))),
        kind: Some(tags::Kind::Job),
        ..Declaration::new(id, name, "partition", description).by("Jobglass")
    }
}

/// Remembers the tag and its bit.
fn keep(
    connection: &Connection,
    kept: &mut AllKept,
    tag: &Tag,
    bit: Option<u32>,
    now: i64,
) -> Result<(), StoreError> {
    let Declaration { id, name, space, .. } = &tag.declared;
    let written = (*space != Space::General).then(|| space.to_string());
    match kept.insert((space.clone(), name.key()), Kept { id: *id, bit }) {
        Some(before) if before.bit == bit && before.id == *id => Ok(()),
        Some(_) => {
            connection.execute(
                "UPDATE tag SET bit = coalesce(bit, ?), id = ? WHERE name = ? AND space IS NOT DISTINCT FROM ?",
                params![bit, id, name.as_str(), written],
            )?;
            Ok(())
        }
        None => {
            connection.execute(
                "INSERT INTO tag VALUES (?, ?, ?, ?, ?, NULL)",
                params![id, name.as_str(), bit, now, written],
            )?;
            Ok(())
        }
    }
}

/// The last version of each tag.
fn versions(connection: &Connection) -> Result<HashMap<u32, (u32, String)>, StoreError> {
    let sql = "SELECT tag, max(version), arg_max(criterion, version) FROM tag_version GROUP BY tag";
    let mut query = connection.prepare(sql)?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The number of this criterion: the last one's, or a new one.
fn version(
    connection: &Connection,
    versions: &HashMap<u32, (u32, String)>,
    tag: u32,
    criterion: &str,
    now: i64,
) -> Result<u32, StoreError> {
    let next = match versions.get(&tag) {
        Some((version, last)) if last == criterion => return Ok(*version),
        Some((version, _)) => version + 1,
        None => 1,
    };
    connection.execute("INSERT INTO tag_version VALUES (?, ?, ?, ?)", params![tag, next, criterion, now])?;
    Ok(next)
}

/// The number of the set of these rules.
fn set(connection: &Connection, declared: &Declared) -> Result<u32, StoreError> {
    number(
        connection,
        &declared.judged().map(|(known, rule)| (known.tag.declared.id, rule.version)).collect(),
    )
}

/// The number of a set of rules, by tag and version: that of the last set if it is the same, or of any that is.
pub(super) fn number(connection: &Connection, rules: &BTreeMap<u32, u32>) -> Result<u32, StoreError> {
    let sets = sets(connection)?;
    if let Some((id, _)) = sets.iter().rev().find(|(_, set)| *set == rules) {
        return Ok(*id);
    }
    let id = sets.keys().next_back().map_or(1, |last| last + 1);
    let mut table = connection.appender("rule_set")?;
    for (tag, version) in rules {
        table.append_row(params![id, tag, version])?;
    }
    table.flush()?;
    Ok(id)
}

/// All sets of rules that there have been.
pub(super) fn sets(connection: &Connection) -> Result<BTreeMap<u32, BTreeMap<u32, u32>>, StoreError> {
    let mut query = connection.prepare("SELECT id, tag, version FROM rule_set")?;
    let mut rows = query.query([])?;
    let mut sets: BTreeMap<u32, BTreeMap<u32, u32>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        sets.entry(row.get(0)?).or_default().insert(row.get(1)?, row.get(2)?);
    }
    Ok(sets)
}
