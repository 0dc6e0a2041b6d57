//! `POST /api/v1/ingest`: a batch comes in, is checked, and is acknowledged when it is durable.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, header};
use jiff::Timestamp;
use record::batch::{Batch, MEDIA_TYPE, Reply};
use store::Prepared;

use crate::app::App;
use crate::body::{self, Received};
use crate::error::ApiError;
use crate::places::Place;
use crate::tokens::{Grant, Token};
use crate::wishes;

/// The largest window a compressed batch may need: 8 MiB of memory.
const WINDOW_LOG_MAX: u32 = 23;

/// What a batch may cost before it is known to be one.
#[derive(Debug, Clone, Copy)]
pub struct IngestLimits {
    /// Bytes of a request.
    pub body: usize,
    /// Bytes of a batch when it is no longer compressed.
    pub decompressed: u64,
}

impl Default for IngestLimits {
    fn default() -> Self {
        IngestLimits { body: 8 << 20, decompressed: 16 << 20 }
    }
}

/// A batch of an agent: CBOR, compressed with zstd if the content encoding says so. The answer comes when it is durable.
#[utoipa::path(post, path = "/api/v1/ingest", security(("token" = [])),
    request_body(content = Vec<u8>, content_type = "application/vnd.jobglass.batch"),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 408), (status = 413),
        (status = 415), (status = 422), (status = 429), (status = 503)))]
pub async fn ingest(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<SocketAddr>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Reply>, ApiError> {
    let outcome = receive(&app, peer.ip(), &headers, body).await;
    if let Err(error) = &outcome {
        count(&app, error);
        tracing::warn!(%peer, %error, "refused");
    }
    outcome.map(Json)
}

async fn receive(app: &Arc<App>, from: IpAddr, headers: &HeaderMap, body: Body) -> Result<Reply, ApiError> {
    let Admitted { token, is_compressed, turn } = admit(app, from, headers)?;
    let Received { bytes: body, room } = body::read(body, app.limits, &app.bodies.of_agents).await?;
    // Decompressing and decoding take a core's time, not the reactor's; waiting for the disk does not.
    let core = app.decoders.clone().acquire_owned().await;
    let app_ = app.clone();
    // Whoever sent it may be gone: what it takes is given back when it is done all the same.
    let decoding = move || {
        let prepared = decode(&app_, &body, is_compressed, &token, from);
        drop((core, room));
        prepared.map(|prepared| (prepared, turn))
    };
    let decoded = tokio::task::spawn_blocking(decoding).await;
    let (prepared, turn) =
        decoded.map_err(|_| ApiError::BadRequest("the batch cannot be decoded".into()))??;
    let host = prepared.host.clone();
    let applied = app.committer.store(prepared, turn).await?;
    let rates = app.job_rates.of_host(&host, &wishes::jobs(headers), Timestamp::now());
    let (stored, duplicate, unknown) = (applied.stored, applied.duplicate, applied.unknown);
    Ok(Reply { stored, duplicate, unknown, settings: app.wishes.current(), rates })
}

/// A batch that may be read.
struct Admitted {
    token: Token,
    is_compressed: bool,
    /// A host with a token of its own has one batch here at a time.
    turn: Option<Place>,
}

/// What is said before the body is read: whether the token may send anything at all, and whether the body is compressed. Whose
/// records they are is in the body, but of a host with a token of its own it is known, and what it sends counts whatever it is.
fn admit(app: &App, from: IpAddr, headers: &HeaderMap) -> Result<Admitted, ApiError> {
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = app.tokens.check(authorization, Timestamp::now())?;
    if !token.may_send(from) {
        return Err(ApiError::Forbidden(format!("token {:?} may not send records from {from}", token.id)));
    }
    let is_compressed = encoding(headers)?;
    let turn = match &token.grant {
        Grant::Node { host } => Some(take_turn(app, host)?),
        _ => None,
    };
    Ok(Admitted { token, is_compressed, turn })
}

fn take_turn(app: &App, host: &str) -> Result<Place, ApiError> {
    let turn = app.hosts.take(host, 1).filter(|_| app.rates.take(host, Instant::now()));
    turn.ok_or_else(|| ApiError::Rate(host.to_owned()))
}

/// Whether the body is compressed.
fn encoding(headers: &HeaderMap) -> Result<bool, ApiError> {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let media = text(header::CONTENT_TYPE).unwrap_or_default();
    if media != MEDIA_TYPE {
        return Err(ApiError::UnsupportedMedia(format!("the body is {media:?}, a batch is {MEDIA_TYPE:?}")));
    }
    match text(header::CONTENT_ENCODING) {
        None | Some("identity") => Ok(false),
        Some("zstd") => Ok(true),
        Some(other) => {
            Err(ApiError::UnsupportedMedia(format!("content encoding {other:?}, only zstd is known")))
        }
    }
}

fn decode(
    app: &App,
    body: &[u8],
    is_compressed: bool,
    token: &Token,
    from: IpAddr,
) -> Result<Prepared, ApiError> {
    let decompressed;
    let bytes = if is_compressed {
        decompressed = decompress(body, app.limits.decompressed)?;
        &decompressed
    } else {
        body
    };
    let batch = Batch::from_bytes(bytes)?;
    if !token.speaks_for(batch.host, from) {
        return Err(ApiError::Forbidden(format!(
            "token {:?} may not speak for host {:?} from {from}",
            token.id, batch.host
        )));
    }
    if token.grant == Grant::Ingest && !app.rates.take(batch.host, Instant::now()) {
        return Err(ApiError::Rate(batch.host.to_owned()));
    }
    Ok(store::prepare(&batch, &app.catalogue)?)
}

/// Stops at the limit, however small the body was.
fn decompress(body: &[u8], limit: u64) -> Result<Vec<u8>, ApiError> {
    let bad = |error: std::io::Error| ApiError::BadRequest(format!("cannot decompress the batch: {error}"));
    let mut decoder = zstd::stream::read::Decoder::with_buffer(body).map_err(bad)?;
    decoder.window_log_max(WINDOW_LOG_MAX).map_err(bad)?;
    let mut bytes = Vec::new();
    decoder.take(limit + 1).read_to_end(&mut bytes).map_err(bad)?;
    if bytes.len() as u64 > limit {
        return Err(ApiError::TooLarge(format!("a batch may have {limit} bytes when decompressed")));
    }
    Ok(bytes)
}

fn count(app: &App, error: &ApiError) {
    let metrics = &app.metrics;
    match error {
        ApiError::Unauthorized(_) | ApiError::Forbidden(_) => metrics.refused_unauthorized.inc(),
        ApiError::TooLarge(_) => metrics.refused_too_large.inc(),
        ApiError::Rate(_) => metrics.refused_rate.inc(),
        ApiError::NotStored(_) | ApiError::Store(_) => metrics.refused_unavailable.inc(),
        _ => metrics.refused_broken.inc(),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let bomb = zstd::bulk::compress(&vec![0; 100 << 20], 19).unwrap();
        assert!(bomb.len() < 20_000);
        assert!(matches!(decompress(&bomb, 1 << 20), Err(ApiError::TooLarge(_))));
        assert_eq!(decompress(&bomb, 100 << 20).unwrap().len(), 100 << 20);
        assert!(matches!(decompress(&bomb[..bomb.len() - 1], 100 << 20), Err(ApiError::BadRequest(_))));
        assert!(matches!(decompress(b"no zstd", 100), Err(ApiError::BadRequest(_))));
    }
}
