//! The body of a request that sends much: bounded in bytes, in time, and together with all others; and read to its end when it is
//! refused, so that whoever sends it hears why.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ApiError;
use crate::ingest::IngestLimits;

/// A request is read up to so many times its limit, to be refused in words.
const PATIENCE: usize = 4;

/// How long a body that is refused is read all the same.
const DRAIN: Duration = Duration::from_secs(2);

/// A body, and the room it takes of what all may take together.
#[derive(Default)]
pub struct Received {
    pub bytes: Vec<u8>,
    pub room: Option<OwnedSemaphorePermit>,
}

/// Reads a body, if it comes in time and there is room for it.
pub async fn read(body: Body, limits: IngestLimits, room: &Arc<Semaphore>) -> Result<Received, ApiError> {
    let collected = collect(body, limits.body, room);
    let within = tokio::time::timeout(Duration::from_secs(limits.body_seconds), collected).await;
    within.map_err(|_| ApiError::Timeout(limits.body_seconds))?
}

/// What is too large is read a while longer and thrown away: a client that is still sending does not hear why it is
/// refused.
async fn collect(mut body: Body, limit: usize, room: &Arc<Semaphore>) -> Result<Received, ApiError> {
    let (mut received, mut total) = (Received::default(), 0usize);
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| ApiError::BadRequest(format!("the request breaks off: {error}")))?;
        let Some(data) = frame.data_ref() else { continue };
        total += data.len();
        if total <= limit {
            received.add(data, room).await?;
        } else if total > PATIENCE * limit {
            break;
        }
    }
    if total > limit {
        return Err(ApiError::TooLarge(format!("a request may have {limit} bytes")));
    }
    Ok(received)
}

impl Received {
    async fn add(&mut self, data: &[u8], room: &Arc<Semaphore>) -> Result<(), ApiError> {
        let held = self.room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let needed = (self.bytes.len() + data.len()).div_ceil(1024).saturating_sub(held);
        let more = room.clone().acquire_many_owned(needed as u32).await;
        let more = more.map_err(|_| ApiError::Internal("the server takes no more requests"))?;
        match &mut self.room {
            Some(room) => room.merge(more),
            None => self.room = Some(more),
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }
}

/// Reads a body that is refused for a moment: a client that is still sending hears why only when it is done.
pub async fn drain(mut body: Body, limits: IngestLimits) {
    let read = async {
        let mut total = 0;
        while let Some(Ok(frame)) = body.frame().await
            && total <= limits.body
        {
            total += frame.data_ref().map_or(0, |data| data.len());
        }
    };
    let _ = tokio::time::timeout(DRAIN, read).await;
}
