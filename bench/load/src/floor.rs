//! The floor: the same rows through DuckDB's appender, in one thread, with nothing around it.

use std::time::Instant;

use anyhow::Result;
use record::batch::Batch;
use store::{Limits, Store};

/// Rows in one transaction, as the server's under load.
const ROWS: u64 = 20_000;

/// Rows per second.
pub fn measure(batches: &[Vec<Vec<u8>>], records: u64) -> Result<f64> {
    let dir = tempfile::tempdir()?;
    let store = Store::open(dir.path(), &Limits::default())?;
    let mut writer = store.writer()?;
    // Decoding is not part of the floor.
    let mut prepared = Vec::new();
    for batch in batches.iter().flatten() {
        prepared.push(store::prepare(&Batch::from_bytes(batch)?, &writer.catalogue())?);
    }
    let rows = prepared.len() as u64 * records;
    let began = Instant::now();
    for together in prepared.chunks((ROWS / records).max(1) as usize) {
        writer.append_only(together)?;
    }
    Ok(rows as f64 / began.elapsed().as_secs_f64())
}
