//! `POST /api/v1/enroll`: an agent with an enrollment token gets a token of its own.
//!
//! After a cluster has booted, thousands of agents ask at once. A thread takes all that wait, changes the file of tokens once for them, and
//! each hears when that is on disk.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, FromRequestParts, State};
use axum::http::header;
use axum::http::request::Parts;
use jiff::Timestamp;
use record::enroll::{Reply, Request, is_token};
use tokio::sync::oneshot;

use crate::app::App;
use crate::body;
use crate::enrollment::{Answer, Asked, Lists, NotEnrolled};
use crate::error::ApiError;
use crate::places::Crowded;
use crate::rate::{Rates, Share};
use crate::secret::Digest;
use crate::token_file;
use crate::tokens::{Grant, Token};

/// A request is a name and a token.
pub const BODY_MAX: usize = 4096;
/// Requests that wait for the thread.
const QUEUE: usize = 16_384;
/// Tokens of an address that are wrong: 20 at once, then one in ten seconds. More are not even looked at in the log.
const WRONG: Share = Share { per_second: 0.1, burst: 20.0 };
/// What an agent that is refused asks again and again is in the log now and then.
const TOLD: Share = Share { per_second: 1.0 / 600.0, burst: 2.0 };

/// The way to the thread that changes the file of tokens.
pub struct Enrolling {
    queue: SyncSender<Order>,
    wrong: Rates,
    told: Rates,
}

struct Order {
    asked: Asked,
    answer: oneshot::Sender<Result<Answer, NotEnrolled>>,
}

impl Enrolling {
    /// Starts the thread; it ends when this is dropped.
    pub fn start(tokens: PathBuf) -> io::Result<Enrolling> {
        let (queue, orders) = sync_channel(QUEUE);
        thread::Builder::new().name("enroll".into()).spawn(move || work(&tokens, &orders))?;
        Ok(Enrolling { queue, wrong: Rates::new(WRONG), told: Rates::new(TOLD) })
    }

    async fn ask(&self, asked: Asked) -> Result<Answer, ApiError> {
        let (answer, outcome) = oneshot::channel();
        self.queue.try_send(Order { asked, answer }).map_err(|_| Crowded::All)?;
        let outcome = outcome.await.map_err(|_| ApiError::Internal("the tokens cannot be written now"))?;
        Ok(outcome?)
    }
}

fn work(tokens: &Path, orders: &Receiver<Order>) {
    let mut lists = Lists::default();
    while let Ok(first) = orders.recv() {
        let round: Vec<Order> = std::iter::once(first).chain(orders.try_iter()).collect();
        let now = Timestamp::now();
        let answers: io::Result<Vec<_>> = token_file::change(tokens, |content| {
            Ok(round.iter().map(|order| content.enroll(&order.asked, &mut lists, now)).collect())
        });
        match answers {
            Ok(answers) => round.into_iter().zip(answers).for_each(|(order, answer)| {
                // Whoever asked may have gone, and will ask again.
                let _ = order.answer.send(answer);
            }),
            // They are told so by the end of their channels.
            Err(error) => tracing::error!(path = %tokens.display(), %error, "cannot write the tokens"),
        }
    }
}

/// Gives an agent a token of its own: the one that it has made and sends, so that it can ask again when the answer was lost. The header has
/// the enrollment token. A host that was enrolled before gets another token only when an administrator has approved it (409 until then).
#[utoipa::path(post, path = "/api/v1/enroll", security(("token" = [])),
    request_body(content = Object, description = "`{\"host\": …, \"token\": …}`"),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 409), (status = 413),
        (status = 429)))]
pub async fn enroll(
    Enroller { token, from }: Enroller,
    State(app): State<Arc<App>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Reply>, ApiError> {
    let body = body::small(body, BODY_MAX)?;
    let request: Request = serde_json::from_slice(&body)
        .map_err(|error| ApiError::BadRequest(format!("no request to be enrolled: {error}")))?;
    if !is_token(&request.token) {
        return Err(ApiError::BadRequest("the agent's token has not the form of one".into()));
    }
    let Request { host, token: secret } = request;
    let asked = Asked { host: host.clone(), hash: Digest::of(&secret), from, by: token.id.clone() };
    match app.enrolling.ask(asked).await {
        Ok(Answer::New(id)) => {
            tracing::info!(host, token = id, by = token.id, %from, "enrolled");
            Ok(Json(Reply { id }))
        }
        Ok(Answer::Known(id)) => Ok(Json(Reply { id })),
        Err(error) => {
            // A name that is not in the list may be any text.
            let of = if matches!(error, ApiError::Conflict(_)) { &host } else { &token.id };
            if app.enrolling.told.take(of, Instant::now()) {
                tracing::warn!(host, by = token.id, %from, %error, "not enrolled");
            }
            Err(error)
        }
    }
}

/// Proof that an enrollment token came with the request; its body is not read before.
pub struct Enroller {
    token: Token,
    from: IpAddr,
}

impl FromRequestParts<Arc<App>> for Enroller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let peer = Extension::<SocketAddr>::from_request_parts(parts, app).await;
        let Extension(peer) = peer.map_err(|_| ApiError::Internal("the request has no sender"))?;
        let from = peer.ip().to_canonical();
        let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let refused = match app.tokens.check(header, Timestamp::now()) {
            Ok(token) if matches!(token.grant, Grant::Enroll { .. }) => return Ok(Enroller { token, from }),
            Ok(token) => ApiError::Forbidden(format!("token {:?} is no enrollment token", token.id)),
            Err(refused) => refused.into(),
        };
        // A good token passes whatever else comes from its address: nobody keeps the agent of their own node out.
        if !app.enrolling.wrong.take(&from.to_string(), Instant::now()) {
            return Err(ApiError::Wrong(from));
        }
        tracing::warn!(%from, error = %refused, "not enrolled");
        Err(refused)
    }
}

impl From<NotEnrolled> for ApiError {
    fn from(error: NotEnrolled) -> ApiError {
        match error {
            NotEnrolled::Token(refused) => refused.into(),
            NotEnrolled::NotListed { .. } | NotEnrolled::UsedUp { .. } => {
                ApiError::Forbidden(error.to_string())
            }
            _ => ApiError::Conflict(error.to_string()),
        }
    }
}
