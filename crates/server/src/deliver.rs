//! Answers on their way to whoever asked: complete before the first byte is sent, bounded together and for each user, and closed with
//! the connection of a client that does not take them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use tokio::sync::oneshot;

use crate::app::App;
use crate::connections::Connection;
use crate::error::ApiError;
use crate::places::{Place, Places, Share};

/// What answers may hold together while they are sent, and those of one user, in KiB.
const ROOM: Share = Share { all: 256 * 1024, each: 48 * 1024, waiting: 0, patience: Duration::ZERO };
/// Less is not worth counting: a connection buffers as much.
const SMALL: usize = 64 * 1024;
/// What is given to the connection at a time.
const CHUNK: usize = 16 * 1024;
/// A client takes an answer within this time, and the time for its bytes at this rate.
const PATIENCE: Duration = Duration::from_secs(30);
const BYTES_PER_SECOND: usize = 64 * 1024;

/// Room for answers.
pub fn room() -> Places {
    Places::new(ROOM)
}

/// Sends an answer for as long as its client may take.
pub async fn deliver(
    State(app): State<Arc<App>>,
    Extension(connection): Extension<Arc<Connection>>,
    request: Request,
    next: Next,
) -> Response {
    let user = app.tokens.user(request.headers());
    let (head, body) = next.run(request).await.into_parts();
    // All of it is there: no handler answers bit by bit.
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return ApiError::Internal("the answer cannot be sent").into_response();
    };
    if bytes.len() <= SMALL {
        return Response::from_parts(head, Body::from(bytes));
    }
    let Some(place) = app.answers.take(&user, bytes.len().div_ceil(1024)) else {
        return ApiError::Unread.into_response();
    };
    let within = PATIENCE + Duration::from_secs((bytes.len() / BYTES_PER_SECOND) as u64);
    Response::from_parts(head, Body::new(send(bytes, place, within, move || connection.close())))
}

/// The body of an answer; what is not taken in time is closed.
fn send(bytes: Bytes, place: Place, within: Duration, close: impl FnOnce() + Send + 'static) -> Sending {
    let (sent, gone) = oneshot::channel();
    tokio::spawn(async move {
        if tokio::time::timeout(within, gone).await.is_err() {
            close();
        }
    });
    Sending(Bytes::from_owner(Held { bytes, _place: place, _sent: sent }))
}

/// The bytes of an answer, with the room they take. It is dropped when the last of them is with the kernel: whatever part of them is
/// still buffered somewhere keeps all of it.
struct Held {
    bytes: Bytes,
    _place: Place,
    _sent: oneshot::Sender<()>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

struct Sending(Bytes);

impl hyper::body::Body for Sending {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let size = CHUNK.min(self.0.len());
        let chunk = (size > 0).then(|| self.0.split_to(size));
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use http_body_util::BodyExt;

    use super::*;

    const SHARE: Share = Share { all: 10, each: 4, waiting: 0, patience: Duration::ZERO };

    /// Waits beside the runtime, which goes on.
    async fn hear(told: mpsc::Receiver<()>) -> Result<(), mpsc::RecvTimeoutError> {
        tokio::task::spawn_blocking(move || told.recv_timeout(testkit::LIMIT)).await.unwrap()
    }

    #[tokio::test]
    async fn an_answer_that_nobody_takes_is_closed() {
        let (places, (closed, is_closed)) = (Places::new(SHARE), mpsc::channel());
        let close = move || closed.send(()).unwrap();
        let bytes = Bytes::from(vec![7; 3 * CHUNK + 1]);
        let mut body = send(bytes, places.take("eve", 4).unwrap(), Duration::from_millis(10), close);
        // The first part is with the connection, which does not get rid of it.
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(hear(is_closed).await, Ok(()));
        drop(body);
        assert!(places.take("eve", 1).is_none(), "its memory is still there");
        assert!(places.take("otto", 4).is_some());
        drop(first);
        assert!(places.take("eve", 4).is_some());
    }

    #[tokio::test]
    async fn an_answer_that_is_taken_is_whole() {
        let (places, (closed, is_closed)) = (Places::new(SHARE), mpsc::channel::<()>());
        let close = move || closed.send(()).unwrap();
        let bytes = Bytes::from((0..3 * CHUNK + 1).map(|at| at as u8).collect::<Vec<_>>());
        let body = send(bytes.clone(), places.take("eve", 4).unwrap(), Duration::from_secs(600), close);
        assert_eq!(body.collect().await.unwrap().to_bytes(), bytes);
        assert!(places.take("eve", 4).is_some());
        // The watch ends with it: whoever would be told has gone.
        assert_eq!(hear(is_closed).await, Err(mpsc::RecvTimeoutError::Disconnected));
    }
}
