//! A copy of the whole store as of one moment, made while it is in use.

use std::path::Path;

use crate::{FILE, Store, StoreError, quoted};

impl Store {
    /// Copies everything that is stored now into a new database in `dir`, which must lie in the store's directory.
    /// Whoever writes or asks meanwhile is not held up, and what comes meanwhile is not in the copy.
    pub fn copy_into(&self, dir: &Path) -> Result<(), StoreError> {
        let connection = self.connect()?;
        let file = quoted(&dir.join(FILE))?;
        let name: String = connection.query_row("SELECT current_database()", [], |row| row.get(0))?;
        connection.execute_batch(&format!("ATTACH {file} AS copy"))?;
        let copied = connection.execute_batch(&format!("COPY FROM DATABASE \"{name}\" TO copy"));
        // Closing it writes all of it to the file.
        let closed = connection.execute_batch("DETACH copy");
        Ok(copied.and(closed)?)
    }
}
