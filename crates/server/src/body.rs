//! The bodies of requests: each comes within its time, those that are kept are bounded in bytes, alone and together, and one that is
//! refused is read a moment longer, so that whoever sends it hears why.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::BytesRejection;
use http_body_util::BodyExt;
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

use crate::connections::Coming;
use crate::error::ApiError;
use crate::ingest::IngestLimits;

/// A request's body must have come within this time.
pub const BODY_SECONDS: u64 = 30;

/// A request is read up to so many times its limit, to be refused in words.
const PATIENCE: usize = 4;

/// How long and how far a body that is refused is read all the same.
const DRAIN: Duration = Duration::from_secs(2);
const DRAIN_MAX: usize = 8 << 20;

/// A body did not come in its time.
#[derive(Debug, thiserror::Error)]
#[error("the body did not come within {0} seconds")]
struct Late(u64);

/// A body as it comes from the connection, for whoever reads it: within a time, wherever it is read.
///
/// Whoever refuses a request answers at once and drops its body. A client that is still sending hears the answer only when it is
/// done: so what is left is read and thrown away for a moment, beside the answer.
pub struct Timely {
    /// `None` once it is dropped.
    body: Option<Incoming>,
    until: Pin<Box<Sleep>>,
    seconds: u64,
    /// Hears when all of it has come.
    request: Coming,
}

impl Timely {
    pub fn new(body: Incoming, seconds: u64, request: Coming) -> Timely {
        let until = Box::pin(tokio::time::sleep(Duration::from_secs(seconds)));
        if hyper::body::Body::is_end_stream(&body) {
            request.is_there();
        }
        Timely { body: Some(body), until, seconds, request }
    }
}

impl hyper::body::Body for Timely {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(context) {
            if frame.is_none() {
                self.request.is_there();
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(self.until.as_mut().poll(context));
        Poll::Ready(Some(Err(Box::new(Late(self.seconds)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(hyper::body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, hyper::body::Body::size_hint)
    }
}

impl Drop for Timely {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| !hyper::body::Body::is_end_stream(body)) else {
            return;
        };
        if !self.until.is_elapsed()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(drain(body));
        }
    }
}

async fn drain(mut body: Incoming) {
    let read = async {
        let mut total = 0;
        while let Some(Ok(frame)) = body.frame().await
            && total <= DRAIN_MAX
        {
            total += frame.data_ref().map_or(0, |data| data.len());
        }
    };
    let _ = tokio::time::timeout(DRAIN, read).await;
}

/// A body, and the room it takes of what all may take together.
#[derive(Default)]
pub struct Received {
    pub bytes: Vec<u8>,
    pub room: Option<OwnedSemaphorePermit>,
}

/// Reads a body, if it comes in time and there is room for it. What is too large is read a while longer and thrown away: a client
/// that is still sending does not hear why it is refused.
pub async fn read(mut body: Body, limits: IngestLimits, room: &Arc<Semaphore>) -> Result<Received, ApiError> {
    let (mut received, mut total, limit) = (Received::default(), 0usize, limits.body);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(error.into_inner()))?;
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

/// A small body that was read as a whole, of at most `most` bytes.
pub fn small(body: Result<Bytes, BytesRejection>, most: usize) -> Result<Bytes, ApiError> {
    body.map_err(|rejection| match rejection {
        BytesRejection::FailedToBufferBody(failed) => {
            use axum::extract::rejection::FailedToBufferBody::LengthLimitError;
            match failed {
                LengthLimitError(_) => ApiError::TooLarge(format!("at most {most} bytes are taken")),
                failed => broken(Box::new(failed)),
            }
        }
        other => ApiError::BadRequest(other.body_text()),
    })
}

/// Why a body ended early.
fn broken(error: Box<dyn std::error::Error + Send + Sync>) -> ApiError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&*error);
    while let Some(of) = cause {
        if let Some(Late(seconds)) = of.downcast_ref() {
            return ApiError::Timeout(*seconds);
        }
        cause = of.source();
    }
    ApiError::BadRequest(format!("the request breaks off: {error}"))
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
