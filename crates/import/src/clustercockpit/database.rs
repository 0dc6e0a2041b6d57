//! `job.db`: all jobs with their means, in SQLite.
//!
//! Columns are found by name, since they differ between versions: what is missing is unknown, what is not known here is
//! kept. The file is opened as one that nobody changes, so that SQLite writes nothing beside it.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row, Statement};
use serde_json::{Map, Number, Value, json};

use super::meta::{self, META_MAX};
use super::{Error, Takes};
use crate::sink::{At, Outcome, Problem, Reason};
use crate::word::text;

/// What a column is called in `meta.json`, and whether it is JSON. Some have had two names.
const COLUMNS: [(&str, &str, bool); 22] = [
    ("job_id", "jobId", false),
    ("subcluster", "subCluster", false),
    ("submit_time", "submitTime", false),
    ("start_time", "startTime", false),
    ("hpc_user", "user", false),
    ("cluster_partition", "partition", false),
    ("array_job_id", "arrayJobId", false),
    ("job_state", "jobState", false),
    ("meta_data", "metaData", true),
    ("resources", "resources", true),
    ("num_nodes", "numNodes", false),
    ("num_hwthreads", "numHwthreads", false),
    ("num_acc", "numAcc", false),
    ("monitoring_status", "monitoringStatus", false),
    ("energy_footprint", "energyFootprint", true),
    ("footprint", "footprint", true),
    // These have the same name in both.
    ("cluster", "cluster", false),
    ("project", "project", false),
    ("duration", "duration", false),
    ("walltime", "walltime", false),
    ("user", "user", false),
    ("partition", "partition", false),
];

/// Zero stands for what is not known in these; `meta.json` has no such zero.
const NEVER_ZERO: [&str; 3] = ["submitTime", "walltime", "numHwthreads"];

/// Without these there is no job.
const NEEDED: [&str; 4] = ["job_id", "cluster", "start_time", "job_state"];

/// The first bytes of a file of Parquet.
const PARQUET: [u8; 4] = *b"PAR1";

/// Reads all jobs in the order of the table.
pub fn read(path: &Path, sink: &mut impl Takes) -> Result<(), Error> {
    let file = path.display().to_string();
    let failed = |error| Error::Database { file: file.clone(), error };
    let database = open(path, &file)?;
    let columns = columns(&database, "job").map_err(failed)?;
    if columns.is_empty() {
        let is_archive = !self::columns(&database, "jobs").map_err(failed)?.is_empty();
        return Err(if is_archive { Error::SqliteArchive { file } } else { Error::NoTable { file } });
    }
    if let Some(column) = NEEDED.into_iter().find(|needed| !columns.iter().any(|column| column == needed)) {
        return Err(Error::NoColumn { file, column });
    }
    let mut tags = tags(&database).map_err(failed)?;
    let mut jobs = database.prepare("SELECT * FROM job ORDER BY rowid").map_err(failed)?;
    let mut rows = jobs.query([]).map_err(failed)?;
    let mut number = 0;
    while let Some(row) = rows.next().map_err(failed)? {
        number += 1;
        let tags = tags.as_mut().map(|tags| tags_of(row, tags)).transpose().map_err(failed)?;
        let found = map(row, &columns, tags.flatten());
        take(found, &file, number, sink).map_err(Error::io(path))?;
    }
    Ok(())
}

fn take(
    found: Result<Map<String, Value>, (String, Reason)>,
    file: &str,
    number: u64,
    sink: &mut impl Takes,
) -> std::io::Result<()> {
    let mut report = |text: &str, outcome, reason| {
        sink.problem(Problem { file, at: At::Job(number), text: text.as_bytes(), outcome, reason });
    };
    let map = match found {
        Ok(map) => map,
        Err((text, reason)) => {
            report(&text, Outcome::Rejected, reason);
            return Ok(());
        }
    };
    let text = json!({"jobId": map.get("jobId"), "cluster": map.get("cluster")}).to_string();
    match meta::job(map) {
        Err(reason) => report(&text, Outcome::Rejected, reason),
        Ok((known, doubts)) => {
            doubts.into_iter().for_each(|doubt| report(&text, Outcome::Doubted, doubt));
            sink.job(known)?;
        }
    }
    Ok(())
}

fn open(path: &Path, file: &str) -> Result<Connection, Error> {
    // What is still in the log would be missed, since a file that nobody changes has none.
    let log = std::fs::metadata(format!("{file}-wal"));
    if log.is_ok_and(|log| log.len() > 0) {
        return Err(Error::Unsettled { file: file.to_owned() });
    }
    // SQLite has one message for all that goes wrong here.
    let mut start = [0; PARQUET.len()];
    let is_parquet = std::fs::File::open(path).map_err(Error::io(path))?.read_exact(&mut start).is_ok();
    if is_parquet && start == PARQUET {
        return Err(Error::Parquet { file: file.to_owned() });
    }
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(format!("file:{}?immutable=1", escaped(path)), flags);
    opened.map_err(|error| Error::Database { file: file.to_owned(), error })
}

/// A path in a URI.
fn escaped(path: &Path) -> String {
    let one = |byte: &u8| match byte {
        b'/' | b'.' | b'-' | b'_' => char::from(*byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        byte => format!("%{byte:02x}"),
    };
    path.as_os_str().as_bytes().iter().map(one).collect()
}

fn columns(database: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut names = database.prepare("SELECT name FROM pragma_table_info(?1) ORDER BY cid")?;
    names.query_map([table], |row| row.get(0))?.collect()
}

/// How tags are asked for, where there are any. Their scope came later than they.
fn tags(database: &Connection) -> rusqlite::Result<Option<Statement<'_>>> {
    let of_tag = columns(database, "tag")?;
    if of_tag.is_empty() || columns(database, "jobtag")?.is_empty() {
        return Ok(None);
    }
    let scope = if of_tag.iter().any(|column| column == "tag_scope") { "tag_scope" } else { "NULL" };
    let query = format!(
        "SELECT tag_type, tag_name, {scope} FROM jobtag JOIN tag ON tag.id = tag_id WHERE job_id = ?1 ORDER BY tag.id"
    );
    database.prepare(&query).map(Some)
}

fn tags_of(row: &Row, tags: &mut Statement) -> rusqlite::Result<Option<Value>> {
    let Ok(id) = row.get::<_, i64>("id") else { return Ok(None) };
    let one = |row: &Row| {
        let (kind, name, scope): (String, String, Option<String>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let mut tag = json!({"type": kind, "name": name});
        if let Some(scope) = scope {
            tag["scope"] = scope.into();
        }
        Ok(tag)
    };
    let found: Vec<Value> = tags.query_map([id], one)?.collect::<Result<_, _>>()?;
    Ok(Some(found).filter(|found| !found.is_empty()).map(Value::from))
}

/// The row by the keys of `meta.json`. The number of the row means nothing elsewhere.
fn map(row: &Row, columns: &[String], tags: Option<Value>) -> Result<Map<String, Value>, (String, Reason)> {
    let mut map = Map::new();
    for (at, column) in columns.iter().enumerate().filter(|(_, column)| *column != "id") {
        let known = COLUMNS.iter().find(|(name, ..)| name == column);
        let (field, key, is_json) = known.map_or(("column", &**column, false), |known| *known);
        let value = row.get_ref(at).map_err(|error| error.to_string());
        let value = value.and_then(|value| if is_json { parsed(value) } else { plain(value) });
        match value {
            Ok(Some(value)) if value == 0 && NEVER_ZERO.contains(&key) => {}
            Ok(Some(value)) => drop(map.insert(key.to_owned(), value)),
            Ok(None) => {}
            Err(error) => {
                return Err((Value::Object(map).to_string(), Reason::Broken { what: field, error }));
            }
        }
    }
    if let Some(tags) = tags {
        map.insert("tags".into(), tags);
    }
    Ok(map)
}

fn plain(value: ValueRef) -> Result<Option<Value>, String> {
    match value {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(number) => Ok(Some(number.into())),
        ValueRef::Real(number) => {
            Number::from_f64(number).map(|number| Some(number.into())).ok_or_else(|| format!("{number}"))
        }
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(Some(text(bytes).into())),
    }
}

/// JSON, which is a text in some rows and a blob in others.
fn parsed(value: ValueRef) -> Result<Option<Value>, String> {
    match value {
        ValueRef::Text([]) | ValueRef::Blob([]) => Ok(None),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) if bytes.len() as u64 > META_MAX => {
            Err(format!("longer than {META_MAX} bytes"))
        }
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            serde_json::from_slice(bytes).map(Some).map_err(|error| error.to_string())
        }
        other => plain(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped() {
        for (path, expected) in [("/a/b-1.db", "/a/b-1.db"), ("a b?c#%é", "a%20b%3fc%23%25%c3%a9")] {
            assert_eq!(escaped(Path::new(path)), expected);
        }
    }
}
