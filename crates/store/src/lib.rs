//! The store: every table and every query; the only crate that knows SQL.
//!
//! A batch becomes rows in [`intake`] (no database, so on any thread), and is written by the one [`Writer`],
//! many batches in one transaction. Readers have connections of their own and never wait for it.

mod accounting;
mod backup;
mod better;
mod coarse;
mod compact;
mod due;
mod forget;
mod job_rows;
mod kind;
mod measures;
pub mod notes;
mod now;
pub mod people;
pub mod query;
mod quota;
mod received;
mod running;
mod samples;
mod schema;
pub mod searches;
pub mod sight;
mod site;
mod sql;
pub mod tags;
pub mod time;
mod upkeep;
mod write;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use duckdb::{Config, Connection};

pub use accounting::{Accounted, Accounts, TOGETHER};
pub use coarse::Coarsen;
pub use digest::{Site, SiteError};
pub use forget::{Forget, Forgotten};
pub use intake::{Catalogue, PrepareError, Prepared, prepare};
pub use job_rows::{Due, Summaries};
pub use kind::{Kind, Kinds};
pub use measures::{Arrived, Bound, DueMeasures, Late, Measured};
pub use query::jobs;
pub use query::{
    After, Filter, GroupBy, Listed, Nodes, NodesError, Per, Reader, Rule, Rules, Stop, UnknownNode,
};
pub use upkeep::{ROWS, Step};
pub use write::{Applied, Writer};

/// The name of the database in its directory.
pub const FILE: &str = "jobglass.duckdb";

/// How much is written to the log before it is brought into the tables. Each time the last rows of every table are compressed
/// anew: with DuckDB's own 16 MB, that took two thirds of the time of an import. A log of this size is read in two seconds.
const CHECKPOINT: &str = "192MB";

/// A join with so few rows on one side has the other table read only where these are. A page of the list of jobs is such a join: with
/// DuckDB's own 50, one of a hundred jobs took three times as long.
const FEW_ROWS: &str = "128";

/// What a store may take of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub memory_mb: u64,
    pub threads: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { memory_mb: 1024, threads: 2 }
    }
}

/// Why the store cannot do what it should.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the database says: {0}")]
    Database(#[from] duckdb::Error),
    #[error(
        "the database has version {found} of the tables, this program knows {known}: it was written by a newer one"
    )]
    Newer { found: usize, known: usize },
    #[error("something a batch needs was deleted while it was on its way: send it again")]
    Stale,
    #[error("the directory {0:?} cannot be named to the database")]
    Directory(std::path::PathBuf),
    #[error("tags: {0}")]
    Tags(String),
    #[error("{0}")]
    Quota(String),
    #[error("the database is damaged: {0}")]
    Damaged(&'static str),
}

impl StoreError {
    /// Whether the database can do nothing more until it is opened again; to go on with it would end the process
    /// at some point, without a word.
    pub fn is_fatal(&self) -> bool {
        matches!(self, StoreError::Database(error) if error.to_string().contains("FATAL Error"))
    }
}

/// An open database; the process that has it is the only one.
pub struct Store {
    connection: Mutex<Connection>,
    /// The name of the database, where something else may have the name of a table.
    database: Arc<str>,
    site: Arc<Site>,
    tags: Arc<tags::Shared>,
    people: Arc<people::Shared>,
    kinds: Arc<kind::There>,
}

/// Nothing outside the directory can be read or written from now on, whatever a query says, and no query can change
/// that.
fn lock(connection: &Connection, dir: &Path) -> Result<(), StoreError> {
    let dir = quoted(dir)?;
    Ok(connection.execute_batch(&format!(
        "SET allowed_directories = [{dir}]; SET enable_external_access = false; SET lock_configuration = true"
    ))?)
}

/// A path as text of a query.
fn quoted(path: &Path) -> Result<String, StoreError> {
    let text = path.to_str().filter(|text| !text.contains('\0'));
    let text = text.ok_or_else(|| StoreError::Directory(path.to_owned()))?;
    Ok(format!("'{}'", text.replace('\'', "''")))
}

impl Store {
    /// Opens the database in `dir`, and brings its tables to the present version.
    pub fn open(dir: &Path, limits: &Limits) -> Result<Store, StoreError> {
        let config = Config::default()
            .max_memory(&format!("{}MB", limits.memory_mb))?
            .threads(limits.threads as i64)?
            .enable_autoload_extension(false)?
            .with("checkpoint_threshold", CHECKPOINT)?
            .with("dynamic_or_filter_threshold", FEW_ROWS)?;
        let connection = Connection::open_with_flags(dir.join(FILE), config)?;
        lock(&connection, dir)?;
        schema::migrate(&connection)?;
        let database: String = connection.query_row("SELECT current_database()", [], |row| row.get(0))?;
        Ok(Store {
            database: database.into(),
            connection: Mutex::new(connection),
            site: Arc::default(),
            tags: Arc::default(),
            people: Arc::default(),
            kinds: Arc::default(),
        })
    }

    /// The same, for a site that has thresholds and says what is short and what is silent.
    pub fn with_site(self, site: Site) -> Store {
        Store { site: Arc::new(site), ..self }
    }

    /// The one writer; a second one would not know what the first has stored.
    pub fn writer(&self) -> Result<Writer, StoreError> {
        let (tags, people) = (self.tags.clone(), self.people.clone());
        Writer::open(self.connect()?, self.site.clone(), tags, people, self.kinds.clone())
    }

    fn connect(&self) -> Result<Connection, StoreError> {
        Ok(self.connection.lock().unwrap_or_else(PoisonError::into_inner).try_clone()?)
    }

    /// The tags that are declared now: none before there was a writer.
    pub fn tags(&self) -> Arc<tags::Declared> {
        self.tags.get()
    }

    /// Who is known now: nobody before there was a writer.
    pub fn people(&self) -> Arc<people::People> {
        self.people.get()
    }

    /// A connection to ask with that sees only so much.
    pub fn reader_with(&self, sight: &sight::Sight) -> Result<Reader, StoreError> {
        self.reader()?.limited(sight)
    }

    /// A connection to ask with; there may be many.
    pub fn reader(&self) -> Result<Reader, StoreError> {
        let (database, site, tags) = (self.database.clone(), self.site.clone(), self.tags.clone());
        Ok(Reader::new(self.connect()?, database, site, tags, self.kinds.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_a_hundred_jobs_is_a_join_of_few_rows() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &Limits::default()).unwrap();
        let sql = "SELECT current_setting('dynamic_or_filter_threshold')::UBIGINT";
        let most: u64 = store.connect().unwrap().query_row(sql, [], |row| row.get(0)).unwrap();
        // One more says that there are others.
        assert!(most > 100, "{most}");
    }

    #[test]
    fn no_query_reaches_anything_outside_the_directory() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = Store::open(dir.path(), &Limits::default()).unwrap();
        let connection = store.connect().unwrap();
        let file = outside.path().join("x").display().to_string();
        for sql in [
            "SELECT * FROM read_text('/etc/passwd')".to_owned(),
            "SELECT * FROM read_csv('/etc/passwd')".to_owned(),
            format!("COPY (SELECT 1) TO '{file}'"),
            format!("ATTACH '{file}' AS other"),
            "SET enable_external_access = true".to_owned(),
            "SET allowed_directories = ['/']".to_owned(),
            "INSTALL httpfs".to_owned(),
        ] {
            assert!(connection.execute_batch(&sql).is_err(), "{sql}");
        }
        assert!(!outside.path().join("x").exists());
    }
}
