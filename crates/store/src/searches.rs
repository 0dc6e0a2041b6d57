//! Keeps searches that people save for themselves: what they filtered jobs by, under a name.

use digest::limits::Kept;
use duckdb::params;
use tags::Search;

use crate::StoreError;
use crate::query::{Reader, Snapshot};
use crate::quota;
use crate::write::{Writer, now_ns};

impl Writer {
    /// Keeps a search, instead of the one that had its name; says whether there was one.
    pub fn save_search(&mut self, search: &Search, by: &str) -> Result<bool, StoreError> {
        let text = serde_json::to_string(search).map_err(|error| StoreError::Tags(error.to_string()))?;
        let transaction = self.connection.transaction()?;
        let now = now_ns();
        let end = "UPDATE saved_search SET until_ns = ? WHERE name = ? AND \"by\" = ? AND until_ns IS NULL";
        let was_there = transaction.execute(end, params![now, search.name, by])? > 0;
        quota::check(&transaction, &self.site, Kept::Searches, by)?;
        transaction.execute(
            "INSERT INTO saved_search VALUES (?, ?, ?, ?, NULL)",
            params![search.name, text, by, now],
        )?;
        transaction.commit()?;
        Ok(was_there)
    }

    /// Says whether there was one.
    pub fn forget_search(&mut self, name: &str, by: &str) -> Result<bool, StoreError> {
        let sql = "UPDATE saved_search SET until_ns = ? WHERE name = ? AND \"by\" = ? AND until_ns IS NULL";
        Ok(self.connection.execute(sql, params![now_ns(), name, by])? > 0)
    }
}

impl Reader {
    /// Those that whoever asks has saved, by name.
    pub fn saved_searches(&self) -> Result<Vec<Search>, StoreError> {
        self.ask(|snapshot| snapshot.saved_searches())
    }
}

impl Snapshot<'_> {
    fn saved_searches(&self) -> Result<Vec<Search>, StoreError> {
        let sql = "SELECT search FROM saved_search WHERE until_ns IS NULL ORDER BY name";
        let texts = self.rows(sql, &[], |row| row.get::<_, String>(0))?;
        let read = |text: &String| serde_json::from_str(text);
        texts.iter().map(read).collect::<Result<_, _>>().map_err(|_| StoreError::Damaged("a saved search"))
    }
}
