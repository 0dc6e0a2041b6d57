//! Changes that people make: the one writer does them between two transactions of agents.

use std::sync::Arc;

use store::{StoreError, Writer};

use crate::app::App;
use crate::error::ApiError;

/// Has something written; returns when it is durable.
pub async fn write<T: Send + 'static>(
    app: &Arc<App>,
    task: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, ApiError> {
    let committer = app.committer.clone();
    let done = tokio::task::spawn_blocking(move || {
        committer.check_disk()?;
        committer.perform(task)
    });
    Ok(done.await.map_err(|_| ApiError::Internal("it could not be written"))???)
}
