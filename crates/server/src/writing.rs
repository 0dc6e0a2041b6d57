//! Changes that people make: the one writer does them between two transactions of agents.

use std::sync::Arc;
use std::time::Duration;

use store::{StoreError, Writer};

use crate::app::App;
use crate::asker::Asker;
use crate::error::ApiError;
use crate::places::{Places, Share};

/// Changes that may stand before a batch of an agent in the writer's queue; the others wait where they are in nobody's way.
const AT_ONCE: Share = Share { all: 8, each: 2, waiting: 8, patience: Duration::from_secs(10) };

/// Places for changes.
pub fn places() -> Places {
    Places::new(AT_ONCE)
}

/// Has something written for somebody; returns when it is durable.
pub async fn write<T: Send + 'static>(
    app: &Arc<App>,
    asker: &Asker,
    task: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, ApiError> {
    let (place, committer) = (app.changes.enter(&asker.name).await?, app.committer.clone());
    let done = tokio::task::spawn_blocking(move || {
        let _place = place;
        committer.check_disk()?;
        committer.perform(task)
    });
    Ok(done.await.map_err(|_| ApiError::Internal("it could not be written"))???)
}
